// A plan as accelerate's YAML file, with the Trainer's arguments beside it. Keys: accelerate 1.15.0
// commands/config/config_args.py, commands/launch.py. Tested by tests/frameworks/framework_files_test.cpp and by
// accelerate itself, tests/validators/.
#include <fmt/core.h>

#include <algorithm>

#include "cli/launch/hugging_face.hpp"
#include "cli/launch/launcher.hpp"

namespace plan {
namespace {

struct Machines {
  int count = 1;
  int gpus = 8;
};

Machines machines_of(const Plan& plan) {
  const int gpus = std::clamp(plan.problem.cluster.gpus_per_node, 1, std::max(1, plan.problem.gpus));
  return {std::max(1, (plan.problem.gpus + gpus - 1) / gpus), gpus};
}

std::string_view mixed_precision(Precision precision) {
  if (precision == Precision::Bf16) return "bf16";
  return precision == Precision::Fp16 ? "fp16" : "no";
}

std::string sharding(const Plan& plan) {
  const Layout& l = plan.best.layout;
  const int shard = l.shard_group() / l.cp;
  std::string out = "fsdp_config:\n  fsdp_version: 2\n  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n";
  out += fmt::format("  fsdp_reshard_after_forward: {}\n", l.zero == 3);
  out += fmt::format("  fsdp_activation_checkpointing: {}\n", l.recompute.kind == RecomputeKind::Full);
  out += fmt::format("  fsdp_offload_params: {}\n", plan.problem.training.offload.optimizer > 0);
  out += "  fsdp_cpu_ram_efficient_loading: true\n  fsdp_state_dict_type: SHARDED_STATE_DICT\n";
  out += fmt::format(
      "parallelism_config:\n  parallelism_config_dp_replicate_size: {}\n  parallelism_config_dp_shard_size: {}\n"
      "  parallelism_config_tp_size: {}\n  parallelism_config_cp_size: {}\n",
      l.dp / shard, shard, l.tp, l.cp);
  if (l.cp > 1)
    out += fmt::format("  parallelism_config_cp_comm_strategy: {}\n",
                       l.cp_kind == CpKind::Ring ? "alltoall" : "allgather");
  return out;
}

/// What every file of accelerate's begins with. DeepSpeed's own file says the precision, and then accelerate must not.
std::string head(const Plan& plan, const Machines& machines, std::string_view type) {
  std::string out = fmt::format("# {}\ncompute_environment: LOCAL_MACHINE\n", plan_line(plan));
  out += fmt::format("distributed_type: {}\n", type);
  if (type != "DEEPSPEED")
    out += fmt::format("mixed_precision: '{}'\n", mixed_precision(plan.problem.training.precision));
  out += fmt::format("num_machines: {}\nnum_processes: {}\nmachine_rank: 0\n", machines.count, plan.problem.gpus);
  out += "main_process_port: 29500\nrdzv_backend: static\nsame_network: true\nmain_training_function: main\n";
  return out + "use_cpu: false\ndebug: false\nenable_cpu_affinity: false\ndowncast_bf16: 'no'\n";
}

std::string config(const Plan& plan, const Machines& machines) {
  if (plan.best.layout.zero >= 2) return head(plan, machines, "FSDP") + sharding(plan);
  return head(plan, machines, plan.problem.gpus > 1 ? "MULTI_GPU" : "NO");
}

/// accelerate starts the processes of a machine itself: one call of it on every machine.
Result<LaunchFile> script(const Plan& plan, const EmitOptions& options, const Machines& machines) {
  const std::string launcher = options.launcher.empty() ? "slurm" : options.launcher;
  if (launcher != "slurm" && launcher != "torchrun")
    return cannot("accelerate", fmt::format("starts its own processes: no `--launcher {}`", launcher),
                  "write `--launcher slurm`, or `torchrun` for a plain script");
  const bool slurm = launcher == "slurm";
  std::string out = "#!/bin/bash\n";
  if (slurm)
    out += fmt::format(
        "#SBATCH --job-name={}\n#SBATCH --nodes={}\n#SBATCH --ntasks-per-node=1\n#SBATCH --gpus-per-node={}\n"
        "#SBATCH --exclusive\n#SBATCH --mem=0\n#SBATCH --time=24:00:00\n#SBATCH --output=%x-%j.out\n",
        job_name(plan, options), machines.count, machines.gpus);
  out += fmt::format("# {}\n# run_clm.py: examples/pytorch/language-modeling of transformers\nset -euo pipefail\n\n",
                     plan_line(plan));
  out += "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n";
  if (slurm)
    out += "MASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)\n";
  else
    out += "NODE_RANK=${NODE_RANK:-0}\nMASTER_ADDR=${MASTER_ADDR:-127.0.0.1}\n";
  out += "MASTER_PORT=${MASTER_PORT:-29500}\n\n";
  const std::string launch =
      "accelerate launch --config_file accelerate.yaml --machine_rank \"{}\" --main_process_ip \"{}\" "
      "--main_process_port \"{}\" run_clm.py {}";
  if (slurm) out += "# shellcheck disable=SC2016\n";
  if (slurm)
    out += fmt::format("srun --kill-on-bad-exit=1 bash -c 'exec {}' \\\n    \"$MASTER_ADDR\" \"$MASTER_PORT\"\n",
                       fmt::format(fmt::runtime(launch), "$SLURM_NODEID", "$0", "$1", hugging_face::kTrainerFile));
  else
    out += "exec " +
           fmt::format(fmt::runtime(launch), "$NODE_RANK", "$MASTER_ADDR", "$MASTER_PORT", hugging_face::kTrainerFile) +
           "\n";
  return LaunchFile{slurm ? "accelerate.sbatch" : "accelerate.sh", out, true};
}

}  // namespace

LaunchFile hugging_face::accelerate_for_deepspeed(const Plan& plan) {
  std::string out = head(plan, machines_of(plan), "DEEPSPEED");
  out += "deepspeed_config:\n  deepspeed_config_file: ds_config.json\n  deepspeed_multinode_launcher: standard\n";
  const Layout& l = plan.best.layout;
  out += fmt::format("  zero3_init_flag: {}\n", l.zero == 3);
  // DeepSpeed's own key for sequence parallelism only counts the batch: accelerate is what splits the sequences and
  // registers Ulysses with transformers.
  if (l.cp > 1)
    out += fmt::format(
        "parallelism_config:\n  parallelism_config_dp_replicate_size: 1\n  parallelism_config_dp_shard_size: {}\n"
        "  parallelism_config_tp_size: 1\n  parallelism_config_cp_size: 1\n  parallelism_config_sp_size: {}\n"
        "  parallelism_config_sp_backend: deepspeed\n  parallelism_config_sp_seq_length: {}\n"
        "  parallelism_config_sp_seq_length_is_variable: false\n"
        "  parallelism_config_sp_attn_implementation: flash_attention_2\n",
        l.dp, l.cp, plan.problem.training.seq);
  return {"accelerate.yaml", out, false};
}

Result<std::vector<LaunchFile>> write_accelerate(const Plan& plan, const EmitOptions& options) {
  if (const Result<bool> fits = expressible(plan, Framework::Accelerate, "accelerate"); !fits)
    return tl::unexpected(fits.error());
  const Layout& l = plan.best.layout;
  const Offload& offload = plan.problem.training.offload;
  if (offload.any() && (offload.optimizer < 1 || !offload.parameters || l.zero < 2))
    return cannot("accelerate", "offloads weights, gradients and all states together, and sharded ones only",
                  "write `--offload optimizer,parameters --layout zero3`");
  const Machines machines = machines_of(plan);
  // FSDP's own checkpointing stands in accelerate's file; both at once are refused.
  const bool plain = l.zero < 2;
  const Result<LaunchFile> arguments = hugging_face::trainer_arguments(
      plan, options, {.deepspeed = "", .checkpointing = plain && l.recompute.kind == RecomputeKind::Full});
  if (!arguments) return tl::unexpected(arguments.error());
  const Result<LaunchFile> start = script(plan, options, machines);
  if (!start) return tl::unexpected(start.error());
  return std::vector<LaunchFile>{{"accelerate.yaml", config(plan, machines), false}, *arguments, *start};
}

}  // namespace plan
