// A plan as Galvatron's strategy file, one value for each layer. Keys: Hetu-Galvatron, galvatron/utils/config_utils.py
// and the manual's "JSON Config Mode". Tested by tests/launch/galvatron_test.cpp.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/launch/job/job_builder.hpp"
#include "planner/problem/stage_layout.hpp"
#include "planner/rules/galvatron.hpp"

namespace plan {
namespace {

/// One stage has all layers, whether or not the plan says so.
std::vector<int> layers_of_stages(const Plan& plan) {
  return plan.best.layout.pp == 1 ? std::vector<int>{plan.problem.model.depth()} : plan.best.stage_layers;
}

/// One value for each layer, and the ZeRO stage below 3 of those that have one.
struct Lists {
  std::vector<int> tp{}, cp{}, sharded{}, sp{}, checkpoint{};
  int beside = -1;
};

Lists lists_of(const Plan& plan) {
  const Layout& l = plan.best.layout;
  const std::vector<int> division = layers_of_stages(plan);
  Lists out;
  for (std::size_t stage = 0; stage < division.size(); ++stage) {
    int left = division[stage];
    const StageStrategy all = l.stages.empty() ? StageStrategy{l.recompute} : l.stages[stage];
    for (const StageStrategy& run : runs_of(all)) {
      const Layout own = layout_of_run(l, run);
      const int layers = run.layers > 0 ? run.layers : left;
      left -= layers;
      const bool ulysses = own.cp > 1 && own.cp_kind == CpKind::Ulysses;
      const int rebuilt = recomputed_layers(own.recompute, 1, layers);
      for (int layer = 0; layer < layers; ++layer) {
        out.tp.push_back(ulysses ? own.cp : own.tp), out.cp.push_back(ulysses ? 1 : own.cp);
        out.sp.push_back(ulysses ? 1 : 0), out.sharded.push_back(own.zero == 3 ? 1 : 0);
        out.checkpoint.push_back(layer < rebuilt ? 1 : 0);
      }
      if (own.zero < 3) out.beside = own.zero;
    }
  }
  return out;
}

}  // namespace

Result<std::vector<LaunchFile>> write_galvatron(const Plan& plan, const EmitOptions&) {
  const Layout& l = plan.best.layout;
  if (const GalvatronLack lack = galvatron_lacks(plan.problem, l); !lack.text.empty())
    return cannot("galvatron", lack.text, lack.help);
  if (static_cast<int>(layers_of_stages(plan).size()) != l.pp)
    return cannot("galvatron", "places every layer on a stage");
  const Lists lists = lists_of(plan);
  const bool ulysses = l.cp > 1 && l.cp_kind == CpKind::Ulysses;
  const auto list = [](const std::vector<int>& values) { return fmt::format("{}", fmt::join(values, ",")); };
  nlohmann::ordered_json out;
  out["pp_deg"] = l.pp;
  out["tp_sizes_enc"] = list(lists.tp);
  out["tp_consecutive_flags"] = list(std::vector<int>(lists.tp.size(), 1));
  out["cp_sizes_enc"] = list(lists.cp);
  out["dp_types_enc"] = list(lists.sharded);
  out["use_sp"] = list(lists.sp);
  out["checkpoint"] = list(lists.checkpoint);
  out["global_bsz"] = plan.problem.training.global_batch;
  out["chunks"] = micro_batches(plan.problem.training.global_batch, l.dp, l.micro_batch);
  out["pp_division"] = list(layers_of_stages(plan));
  out["pipeline_type"] = l.schedule == Schedule::GPipe ? "gpipe" : "pipedream_flush";
  out["default_dp_type"] = lists.beside < 0 ? "zero3" : lists.beside == 0 ? "ddp" : "zero2";
  out["vtp"] = ulysses ? l.cp : l.tp;
  if (!ulysses && l.cp > 1) out["vcp"] = l.cp;
  out["vsp"] = ulysses ? 1 : 0;
  return std::vector<LaunchFile>{{"galvatron_config.json", out.dump(4) + "\n", false}};
}

}  // namespace plan
