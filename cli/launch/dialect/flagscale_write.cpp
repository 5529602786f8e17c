// A plan as an experiment of FlagScale's: Megatron-LM's arguments by subject, and a process mesh for each kind of GPU.
// Keys: FlagScale, examples/aquila/conf/train/demo_hetero.yaml and flagscale/runner/runner_train.py.
// Tested by tests/launch/flagscale_test.cpp.
#include <fmt/format.h>

#include <algorithm>

#include "cli/launch/job/job_builder.hpp"
#include "cli/launch/job/model_facts.hpp"
#include "cli/launch/megatron/flags.hpp"
#include "cli/launch/megatron/hybrid.hpp"
#include "cli/launch/megatron/megatron.hpp"
#include "cli/launch/start/launcher.hpp"
#include "planner/answer/layout_text.hpp"
#include "planner/pools/pools.hpp"
#include "planner/rules/megatron_models.hpp"

namespace plan {
namespace {

constexpr const char* kFormat = "flagscale";

/// A group of arguments belongs to one of three subjects.
std::string_view subject_of(std::string_view group) {
  if (group == "DATA_ARGS") return "data";
  return group == "MODEL_ARGS" || group == "MOE_ARGS" || group == "TRAIN_ARGS" || group == "OPTIMIZER_ARGS" ? "model"
                                                                                                            : "system";
}

std::string scalar(const std::string& value) {
  const bool plain = !value.empty() && std::all_of(value.begin(), value.end(), [](char c) {
    return (c >= '0' && c <= '9') || c == '.' || c == '-';
  });
  return plain ? value : string_quoted(value);
}

std::string line_of(const MegatronSetting& setting) {
  std::string key = setting.flag, value;
  std::replace(key.begin(), key.end(), '-', '_');
  for (const std::string& one : setting.values) value += (value.empty() ? "" : ", ") + scalar(one);
  if (setting.values.empty()) value = "true";
  if (setting.values.size() > 1) value = "[" + value + "]";
  return fmt::format("    {}: {}\n", key, value);
}

std::string list(const std::vector<std::string>& items) { return fmt::format("[{}]", fmt::join(items, ", ")); }

/// The heterogeneous mode: one mesh for each kind of GPU, front to back.
std::string meshes_text(const Plan& plan) {
  std::vector<std::string> split, meshes, devices, experts;
  bool same_tp = true;
  for (const PoolRun& run : plan.best.runs) {
    const Layout& l = run.layout;
    for (const int layers : l.chunk_layers) split.push_back(fmt::format("{}", layers));
    for (const int degree : {l.tp, l.cp, l.ep, l.dp, l.pp}) meshes.push_back(fmt::format("{}", degree));
    devices.push_back(string_quoted(run.gpu)), experts.push_back(fmt::format("{}", l.etp));
    same_tp = same_tp && l.tp == plan.best.runs.front().layout.tp;
  }
  std::string out = "    hetero:\n      enable_hetero: true\n";
  const auto line = [&](const char* key, const std::string& value) {
    out += fmt::format("      {}: {}\n", key, value);
  };
  line("hetero_pipeline_layer_split", list(split));
  line("hetero_process_meshes", list(meshes) + "  # tp, cp, ep, dp, pp of each");
  line("hetero_device_types", list(devices));
  line("hetero_current_device_type", devices.front() + "  # the runner takes each node's from the hostfile");
  if (plan.problem.model.moe()) line("expert_tensor_parallel_size_per_process_mesh", list(experts));
  if (plan.problem.model.tied && !same_tp) line("use_partial_reduce_for_shared_embedding", "true");
  line("standalone_embedding_stage", "false");
  return out;
}

/// Of several kinds the hostfile says how many GPUs a node has and of which kind they are.
std::string runner_text(const Plan& plan) {
  std::string out = "  runner:\n    backend: torchrun\n    rdzv_backend: static\n";
  if (!plan.best.runs.empty()) return out + "    hostfile: ${oc.env:HOSTFILE}\n";
  const int each = std::clamp(plan.problem.cluster.gpus_per_node, 1, std::max(1, plan.problem.gpus));
  return out + fmt::format("    nnodes: {}\n    nproc_per_node: {}\n    hostfile: ${{oc.env:HOSTFILE,null}}\n",
                           std::max(1, plan.problem.gpus / each), each);
}

std::string header(const Plan& plan) {
  std::string out = fmt::format(
      "# {} on {} GPUs ({})\n# Written by plan for FlagScale: `python run.py --config-path . "
      "--config-name NAME`, NAME this file's without `.yaml`.\n",
      plan.problem.model.name, plan.problem.gpus, plan.problem.cluster.gpu.name);
  if (plan.best.runs.empty()) return out + fmt::format("# {}\n", axes_text(plan.best, plan.problem.model.moe()));
  out += "# HOSTFILE names a node a line, those of a kind one after the other:\n";
  for (const PoolRun& run : plan.best.runs) {
    const int each = plan.problem.pools[static_cast<std::size_t>(run.pool)].cluster.gpus_per_node;
    const int slots = std::clamp(each, 1, std::max(1, run.gpus));
    out += fmt::format("#   HOST slots={} type={}   {} of them, {}\n", slots, run.gpu, run.gpus / slots,
                       layout_flag(run.layout));
  }
  return out;
}

/// Flags that say where layers are: meshes have a list of their own.
bool splits_layers(const MegatronSetting& setting) {
  return setting.flag == "pipeline-model-parallel-layout" || setting.flag.starts_with("decoder-") ||
         setting.flag.starts_with("account-for-");
}

/// The arguments that hold for all meshes are those of the first, with the stages of all.
void span_all(const Plan& plan, std::vector<MegatronGroup>& groups) {
  const bool sums = std::any_of(plan.best.runs.begin(), plan.best.runs.end(),
                                [](const PoolRun& run) { return run.layout.sequence_parallel; });
  for (MegatronGroup& group : groups) {
    if (group.name != "PARALLEL_ARGS") continue;
    std::erase_if(group.settings, [](const MegatronSetting& setting) {
      return splits_layers(setting) || setting.flag == "sequence-parallel";
    });
    if (sums) group.settings.push_back({"sequence-parallel", {}});
    for (MegatronSetting& setting : group.settings)
      if (setting.flag == "pipeline-model-parallel-size")
        setting.values = {fmt::format("{}", pooled_layout(plan.best).stages())};
  }
}

/// The plan of one run of stages on its own kind of GPU, as if the model's other stages were not there.
Plan plan_of_run(const Plan& plan, const PoolRun& run) {
  Plan one = plan;
  one.problem = pool_alone(plan.problem, run.pool);
  one.problem.mesh_per_pool = false;
  one.problem.gpus = run.gpus;
  one.problem.fixed = {};
  one.problem.fixed.pp = run.layout.pp, one.problem.fixed.dp = run.layout.dp;
  one.best.layout = run.layout;
  one.best.layout.chunk_layers.clear();
  one.best.runs.clear();
  return one;
}

Errors beyond_meshes(const Plan& plan) {
  if (!suits_meshes(layouts_of(pooled_layout(plan.best))))
    return cannot(kFormat,
                  "gives each kind of GPU its own tp, dp and micro-batch, and runs 1f1b with one cp, ep, recomputation "
                  "and sharding for all")
        .value();
  for (const PoolRun& run : plan.best.runs)
    if (Errors errors = megatron_cannot(plan_of_run(plan, run)); !errors.empty()) return errors;
  return {};
}

}  // namespace

Result<std::vector<LaunchFile>> write_flagscale(const Plan& plan, const EmitOptions& options) {
  if (Errors errors = beyond_itself(kFormat, options); !errors.empty()) return fail(std::move(errors));
  if (is_hybrid(plan.problem.model))
    return fail({"not_expressible",
                 fmt::format("FlagScale's train_gpt.py does not build the layers of {}", plan.problem.model.name),
                 {},
                 {"write `plan emit megatron-lm`"}});
  const bool pooled = !plan.best.runs.empty();
  if (pooled)
    if (Errors errors = beyond_meshes(plan); !errors.empty()) return fail(std::move(errors));
  const Plan front = pooled ? plan_of_run(plan, plan.best.runs.front()) : plan;
  Result<std::vector<MegatronGroup>> groups = megatron_settings(with_demands_of(front, kNewestMegatron), options);
  if (!groups) return fail(groups.error());
  if (pooled) span_all(plan, *groups);
  const std::string name = job_name(plan, options);
  std::string text = header(plan);
  text += fmt::format(
      "experiment:\n  exp_name: {}\n  exp_dir: ./outputs\n  task:\n    type: train\n    backend: megatron\n"
      "    entrypoint: ./flagscale/train/train_gpt.py\n",
      string_quoted(name));
  text += runner_text(plan) + "  envs:\n";
  for (const auto& [key, value] : megatron_environment(front))
    text += fmt::format("    {}: {}\n", key, string_quoted(value));
  text += "action: run\ntrain:\n";
  for (const std::string_view subject : {"system", "model", "data"}) {
    text += fmt::format("  {}:\n", subject);
    for (const MegatronGroup& group : *groups)
      if (subject_of(group.name) == subject)
        for (const MegatronSetting& setting : group.settings) text += line_of(setting);
    if (pooled && subject == "system") text += meshes_text(plan);
  }
  return std::vector<LaunchFile>{{name + ".yaml", text, false}};
}

}  // namespace plan
