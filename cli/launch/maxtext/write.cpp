// A plan as MaxText's YAML file. Keys: MaxText e591f30c configs/base.yml, configs/types.py.
// Tested by tests/frameworks/framework_files_test.cpp and by MaxText itself, tests/validators/.
#include <fmt/core.h>

#include <algorithm>

#include "cli/launch/maxtext/maxtext.hpp"
#include "cli/launch/start/launcher.hpp"
#include "cli/launch/start/slurm.hpp"
#include "formulas/names.hpp"
#include "formulas/torus.hpp"

namespace plan {
namespace {

using maxtext::MeshAxis;

/// What each axis of the plan is on MaxText's mesh, innermost first.
std::vector<MeshAxis> axes_of(const Layout& l) {
  const int fsdp = l.zero == 3 ? l.shard_group() / l.cp / l.ep : 1;
  const int data = l.dp / (fsdp * l.ep);
  return {{l.sequence_parallel ? "tensor_sequence" : "tensor", l.tp},
          {"context", l.cp},
          {"expert", l.ep},
          {"fsdp", fsdp},
          {"data", data},
          {"pipeline", l.pp}};
}

/// Devices of a slice: those that one fast network joins.
int slice_of(const Plan& plan) {
  return std::min(plan.problem.gpus, std::max(1, plan.problem.cluster.scale_up_size()));
}

std::string mesh(const std::vector<MeshAxis>& axes) {
  std::string out;
  for (const std::string_view name : {"data", "pipeline", "fsdp", "context", "tensor", "tensor_sequence", "expert"}) {
    const auto axis = std::find_if(axes.begin(), axes.end(), [&](const MeshAxis& a) { return a.name == name; });
    out += fmt::format("ici_{0}_parallelism: {1}\ndcn_{0}_parallelism: {2}\n", name,
                       axis == axes.end() ? 1 : axis->inside, axis == axes.end() ? 1 : axis->across());
  }
  return out;
}

bool on_tpus(const Plan& plan) { return plan.problem.cluster.gpu.vendor == "google"; }

/// jax lays the axes of a mesh on whole axes of the slice and stops where that does not go, unless it may split them.
bool splits_axes(const Plan& plan, const std::vector<MeshAxis>& axes) {
  const std::vector<Tier>& tiers = plan.problem.cluster.tiers;
  if (tiers.empty() || !tiers.front().torus.any()) return false;
  const Torus& torus = tiers.front().torus;
  int stride = 1;
  for (const MeshAxis& axis : axes) {
    const TorusGroup group = torus_group(torus, axis.inside, stride);
    for (int i = 0; i < group.count; ++i) {
      const TorusPart& part = group.parts[static_cast<std::size_t>(i)];
      if (part.members != torus.axes[static_cast<std::size_t>(part.axis)].size) return true;
    }
    stride *= axis.inside;
  }
  return false;
}

std::string_view optimizer(Optimizer optimizer) {
  if (optimizer == Optimizer::Muon) return "muon";
  return optimizer == Optimizer::Sgd ? "sgd" : "adamw";
}

std::string precision(Precision precision) {
  std::string out =
      fmt::format("dtype: {}\nweight_dtype: float32\n", precision == Precision::Fp32 ? "float32" : "bfloat16");
  for (const maxtext::Quantization& row : maxtext::quantizations())
    if (row.precision == precision) out += fmt::format("quantization: {}\n", row.name);
  return out;
}

std::string batch(const Plan& plan) {
  const Layout& l = plan.best.layout;
  const Training& training = plan.problem.training;
  const std::int64_t m = micro_batches(training.global_batch, l.dp, l.micro_batch);
  const std::int64_t steps = l.pp > 1 ? 1 : m;
  const double each = static_cast<double>(training.global_batch) / static_cast<double>(steps) / plan.problem.gpus;
  std::string out = fmt::format("per_device_batch_size: {}\ngradient_accumulation_steps: {}\nmax_target_length: {}\n",
                                each, steps, training.seq);
  if (l.pp == 1) return out;
  return out +
         fmt::format("num_pipeline_microbatches: {}\nnum_pipeline_repeats: {}\nnum_layers_per_pipeline_stage: {}\n", m,
                     l.vp, plan.problem.model.depth() / (l.pp * l.vp));
}

std::string config(const Plan& plan, const EmitOptions& options, std::string_view model,
                   const std::vector<MeshAxis>& axes) {
  const Layout& l = plan.best.layout;
  const Training& training = plan.problem.training;
  std::string out =
      fmt::format("# {}\n# For MaxText: python3 -m maxtext.trainers.pre_train.train maxtext.yml\n", plan_line(plan));
  out += fmt::format("base_config: base.yml\nrun_name: {}\nhardware: {}\nmodel_name: {}\n", job_name(plan, options),
                     on_tpus(plan) ? "tpu" : "gpu", model);
  // Transformer Engine's kernel packs only with a limit of segments.
  out += on_tpus(plan) ? "attention: flash\n" : "attention: cudnn_flash_te\npacking: false\n";
  out += mesh(axes);
  if (splits_axes(plan, axes)) out += "allow_split_physical_axes: true\n";
  if (l.cp > 1)
    out += fmt::format("context_parallel_strategy: {}\n", l.cp_kind == CpKind::Ring ? "ring" : "all_gather");
  if (l.zero == 1) out += "shard_optimizer_over_data: true\n";
  out += batch(plan) + precision(training.precision);
  out += fmt::format("remat_policy: {}\n", l.recompute.kind == RecomputeKind::Full ? "full" : "minimal_with_context");
  out += fmt::format("opt_type: {}\noptimizer_memory_host_offload: {}\n", optimizer(training.optimizer),
                     training.offload.optimizer > 0);
  if (training.offload.parameters) out += "parameter_memory_host_offload: true\n";
  // MaxText advises against scanning the layers of a pipeline stage, and scans the iterations instead.
  if (l.pp > 1) out += "scan_layers: false\n";
  if (options.data_path.empty())
    out += "dataset_type: synthetic\n";
  else
    out += fmt::format("dataset_type: grain\ngrain_train_files: {}\n", string_quoted(options.data_path));
  if (!options.tokenizer.empty()) out += fmt::format("tokenizer_path: {}\n", string_quoted(options.tokenizer));
  const std::string folder = checkpoint_folder(plan, options);
  if (folder.empty()) return out + "enable_checkpointing: false\nbase_output_directory: output\n";
  out += fmt::format("enable_checkpointing: true\nbase_output_directory: {}\ncheckpoint_period: {}\n",
                     string_quoted(folder), upkeep_of(plan, options).every);
  if (options.site) out += "async_checkpointing: true\n";  // Orbax saves when SIGTERM comes, too
  return out;
}

/// On TPUs each host runs the same command and jax finds the others from the slice's own metadata.
LaunchFile tpu_script(const Plan& plan) {
  const Torus& torus = plan.problem.cluster.tiers.front().torus;
  const int slices = plan.problem.gpus / std::max(1, torus.chips());
  std::string text = fmt::format("#!/bin/bash\n# {}\n", plan_line(plan));
  text += fmt::format("# On every host of {} {} of {} chips, topology {}: with gcloud compute tpus, XPK or GKE.\n",
                      std::max(1, slices), slices > 1 ? "slices" : "slice", torus.chips(), slice_text(torus.shape()));
  return {"maxtext.sh", text + "set -euo pipefail\nexec python3 -m maxtext.trainers.pre_train.train maxtext.yml\n",
          true};
}

/// One process a node; jax finds the others over the addresses that MaxText reads from the environment.
Result<LaunchFile> script(const Plan& plan, const EmitOptions& options) {
  if (on_tpus(plan) && options.site)
    return cannot("maxtext", "is started on the hosts of TPU slices by Google's own tools: `--site` has no place",
                  "leave it out");
  if (launcher_of(options) != "slurm")
    return cannot("maxtext", fmt::format("is started by Slurm here: no `--launcher {}`", options.launcher),
                  "write `--launcher slurm`");
  if (options.site && options.site->numa)
    return cannot("maxtext", "runs one process a node: `binding.numa` has no place", "take it out of the site file");
  if (Errors errors = site_mistakes(plan, options, {}); !errors.empty()) return fail(std::move(errors));
  if (on_tpus(plan)) return tpu_script(plan);
  BatchJob job;
  job.name = job_name(plan, options);
  job.gpus = std::clamp(plan.problem.cluster.gpus_per_node, 1, std::max(1, plan.problem.gpus));
  job.nodes = std::max(1, (plan.problem.gpus + job.gpus - 1) / job.gpus);
  job.header = fmt::format("# {}\n", plan_line(plan));
  job.before = "JAX_COORDINATOR_IP=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)\n";
  job.before += "export JAX_COORDINATOR_IP JAX_COORDINATOR_PORT=${JAX_COORDINATOR_PORT:-3389} NNODES=$SLURM_NNODES\n";
  job.before += "export GPUS_PER_NODE=" + std::to_string(job.gpus) + "\n\n";
  job.command =
      "bash -c \\\n    'export NODE_RANK=$SLURM_NODEID; exec python3 -m maxtext.trainers.pre_train.train maxtext.yml'";
  return LaunchFile{"maxtext.sbatch", batch_script(job, plan, options), true};
}

}  // namespace

Result<std::vector<LaunchFile>> write_maxtext(const Plan& plan, const EmitOptions& options) {
  if (const Result<bool> fits = expressible(plan, Framework::Maxtext, "maxtext"); !fits)
    return tl::unexpected(fits.error());
  const Training& training = plan.problem.training;
  if (training.adapters()) return cannot("maxtext", "trains whole models here, no adapters");
  if (training.optimizer != Optimizer::Adam && training.optimizer != Optimizer::Sgd &&
      training.optimizer != Optimizer::Muon)
    return cannot("maxtext", fmt::format("has no optimizer `{}`", name(training.optimizer)));
  if (training.offload.optimizer > 0 && training.offload.optimizer < 1)
    return cannot("maxtext", "offloads all optimizer states to the host or none", "set the share to 1");
  const maxtext::ModelName* model = maxtext::name_of(plan.problem.model);
  if (model == nullptr)
    return cannot("maxtext", fmt::format("has no model with the layers of {}", plan.problem.model.name));
  const std::vector<MeshAxis> axes = maxtext::split_axes(axes_of(plan.best.layout), slice_of(plan));
  if (axes.empty())
    return cannot("maxtext", fmt::format("needs the axes to fill slices of {} GPUs exactly", slice_of(plan)),
                  "choose degrees that divide a node's GPUs");
  const Result<LaunchFile> start = script(plan, options);
  if (!start) return tl::unexpected(start.error());
  return std::vector<LaunchFile>{{"maxtext.yml", config(plan, options, model->name, axes), false}, *start};
}

}  // namespace plan
