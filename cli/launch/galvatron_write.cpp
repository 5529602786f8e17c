// A plan as Galvatron's strategy file, one value for each layer. Keys: Hetu-Galvatron, galvatron/utils/config_utils.py
// and the manual's "JSON Config Mode". Tested by tests/launch/galvatron_test.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/launch/galvatron.hpp"
#include "cli/launch/job_builder.hpp"
#include "formulas/names.hpp"
#include "planner/problem/stage_layout.hpp"

namespace plan {
namespace {

/// One stage has all layers, whether or not the plan says so.
std::vector<int> layers_of_stages(const Plan& plan) {
  return plan.best.layout.pp == 1 ? std::vector<int>{plan.problem.model.depth()} : plan.best.stage_layers;
}

/// What of a plan the file has no word for; empty if it has words for all.
std::string lacks(const Plan& plan) {
  const Layout& l = plan.best.layout;
  if (l.vp > 1 || (l.schedule != Schedule::OneFOneB && l.schedule != Schedule::GPipe))
    return "runs 1f1b or gpipe, one chunk a stage";
  if (l.ep > 1 || l.etp > 1) return "is written here without expert parallelism";
  if (l.cp > 1 &&
      (l.cp_kind == CpKind::Hybrid || l.cp_kind == CpKind::AllGather || (l.cp_kind == CpKind::Ulysses && l.tp > 1)))
    return "has a context ring, or Ulysses in place of tensor parallelism";
  if (l.shard > 0 && l.shard != l.dense_group()) return "shards states over all of dp * cp";
  if (l.order != AxisOrder::PipelineOutermost) return "has the pipeline outermost";
  if (static_cast<int>(layers_of_stages(plan).size()) != l.pp) return "places every layer on a stage";
  const Training& training = plan.problem.training;
  if (training.offload.any()) return "is written here without offload";
  if (training.task == Task::Lora || training.task == Task::Qlora) return "has no key for adapters";
  if (training.precision != Precision::Bf16)
    return fmt::format("has no key for {}: its strategies say nothing of precision, and bf16 is read",
                       name(training.precision));
  if (training.optimizer != Optimizer::Adam) return fmt::format("has no key for {}", name(training.optimizer));
  return "";
}

/// One value for each layer, and the ZeRO stages below 3 of all runs of them.
struct Lists {
  std::vector<int> tp{}, cp{}, sharded{}, sp{}, checkpoint{}, zeros{};
};

Result<Lists> lists_of(const Plan& plan) {
  const Layout& l = plan.best.layout;
  const bool ulysses = l.cp > 1 && l.cp_kind == CpKind::Ulysses;
  const std::vector<int> division = layers_of_stages(plan);
  Lists out;
  for (std::size_t stage = 0; stage < division.size(); ++stage) {
    int left = division[stage];
    const StageStrategy all = l.stages.empty() ? StageStrategy{l.recompute} : l.stages[stage];
    for (const StageStrategy& run : runs_of(all)) {
      const Layout own = layout_of_run(l, run);
      const int layers = run.layers > 0 ? run.layers : left;
      left -= layers;
      if (own.recompute.kind == RecomputeKind::Selective || own.recompute.uniform > 1)
        return cannot("galvatron", "recomputes whole layers, one by one", "add `--layout recompute=full`");
      if (run.offload > 0) return cannot("galvatron", "is written here without offload");
      const int rebuilt = recomputed_layers(own.recompute, 1, layers);
      for (int layer = 0; layer < layers; ++layer) {
        out.tp.push_back(ulysses ? own.cp : own.tp), out.cp.push_back(ulysses ? 1 : own.cp);
        out.sp.push_back(ulysses ? 1 : 0), out.sharded.push_back(own.zero == 3 ? 1 : 0);
        out.checkpoint.push_back(layer < rebuilt ? 1 : 0);
      }
      if (own.zero < 3) out.zeros.push_back(own.zero);
    }
  }
  return out;
}

}  // namespace

Result<std::vector<LaunchFile>> write_galvatron(const Plan& plan, const EmitOptions&) {
  if (const std::string text = lacks(plan); !text.empty()) return cannot("galvatron", text);
  const Layout& l = plan.best.layout;
  const Result<Lists> lists = lists_of(plan);
  if (!lists) return fail(lists.error());
  const bool ulysses = l.cp > 1 && l.cp_kind == CpKind::Ulysses;
  const std::vector<int>& zeros = lists->zeros;
  const auto other = [](int zero) { return zero != 0 && zero != 2; };
  if (std::any_of(zeros.begin(), zeros.end(), other))
    return cannot("galvatron", "has no key for zero 1: ddp, zero2 and zero3", "add `--layout zero2`");
  if (std::adjacent_find(zeros.begin(), zeros.end(), std::not_equal_to<>()) != zeros.end())
    return cannot("galvatron", "has one default beside zero3 for all layers");
  const auto list = [](const std::vector<int>& values) { return fmt::format("{}", fmt::join(values, ",")); };
  nlohmann::ordered_json out;
  out["pp_deg"] = l.pp;
  out["tp_sizes_enc"] = list(lists->tp);
  out["tp_consecutive_flags"] = list(std::vector<int>(lists->tp.size(), 1));
  out["cp_sizes_enc"] = list(lists->cp);
  out["dp_types_enc"] = list(lists->sharded);
  out["use_sp"] = list(lists->sp);
  out["checkpoint"] = list(lists->checkpoint);
  out["global_bsz"] = plan.problem.training.global_batch;
  out["chunks"] = micro_batches(plan.problem.training.global_batch, l.dp, l.micro_batch);
  out["pp_division"] = list(layers_of_stages(plan));
  out["pipeline_type"] = l.schedule == Schedule::GPipe ? "gpipe" : "pipedream_flush";
  out["default_dp_type"] = zeros.empty() ? "zero3" : zeros.front() == 0 ? "ddp" : "zero2";
  out["vtp"] = ulysses ? l.cp : l.tp;
  out["vsp"] = ulysses ? 1 : 0;
  return std::vector<LaunchFile>{{"galvatron_config.json", out.dump(4) + "\n", false}};
}

}  // namespace plan
