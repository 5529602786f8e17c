// A plan as accelerate's YAML file, with the Trainer's arguments beside it. Keys: accelerate 1.15.0
// commands/config/config_args.py, commands/launch.py. Tested by tests/frameworks/framework_files_test.cpp and by
// accelerate itself, tests/validators/.
#include <fmt/core.h>

#include <algorithm>

#include "cli/launch/start/launcher.hpp"
#include "cli/launch/start/slurm.hpp"
#include "cli/launch/trainer/hugging_face.hpp"

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
std::string head(const Plan& plan, const EmitOptions& options, const Machines& machines, std::string_view type) {
  std::string out = fmt::format("# {}\ncompute_environment: LOCAL_MACHINE\n", plan_line(plan));
  out += fmt::format("distributed_type: {}\n", type);
  if (type != "DEEPSPEED")
    out += fmt::format("mixed_precision: '{}'\n", mixed_precision(plan.problem.training.precision));
  out += fmt::format("num_machines: {}\nnum_processes: {}\nmachine_rank: 0\n", machines.count, plan.problem.gpus);
  out += "main_process_port: 29500\nrdzv_backend: static\nsame_network: true\nmain_training_function: main\n";
  out += fmt::format("use_cpu: false\ndebug: false\nenable_cpu_affinity: {}\n", options.site && options.site->numa);
  return out + "downcast_bf16: 'no'\n";
}

std::string config(const Plan& plan, const EmitOptions& options, const Machines& machines) {
  if (plan.best.layout.zero >= 2) return head(plan, options, machines, "FSDP") + sharding(plan);
  return head(plan, options, machines, plan.problem.gpus > 1 ? "MULTI_GPU" : "NO");
}

/// accelerate starts the processes of a machine itself: one call of it on every machine.
Result<LaunchFile> script(const Plan& plan, const EmitOptions& options, const Machines& machines,
                          const hugging_face::TrainerProgram& program) {
  const std::string launcher = launcher_of(options);
  if (launcher != "slurm" && launcher != "torchrun")
    return cannot("accelerate", fmt::format("starts its own processes: no `--launcher {}`", launcher),
                  "write `--launcher slurm`, or `torchrun` for a plain script");
  if (Errors errors = site_mistakes(plan, options, {{"PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"}});
      !errors.empty())
    return fail(std::move(errors));
  const auto launch = [&](std::string_view rank, std::string_view address, std::string_view port) {
    return fmt::format(
        "accelerate launch --config_file accelerate.yaml {}--machine_rank \"{}\" --main_process_ip \"{}\" "
        "--main_process_port \"{}\" {} {}",
        options.site ? "--log_dir \"$LOGS\" --tee 3 " : "", rank, address, port, program.script, program.words);
  };
  const std::string header = fmt::format("# {}\n# {}\n", plan_line(plan), program.comment);
  std::string before = "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n";
  if (launcher == "torchrun") {
    before += "NODE_RANK=${NODE_RANK:-0}\nMASTER_ADDR=${MASTER_ADDR:-127.0.0.1}\nMASTER_PORT=${MASTER_PORT:-29500}\n\n";
    return LaunchFile{"accelerate.sh",
                      "#!/bin/bash\n" + header + "set -euo pipefail\n\n" + site_opening(plan, options) +
                          site_preflight(options) + before + "exec " +
                          launch("$NODE_RANK", "$MASTER_ADDR", "$MASTER_PORT") + "\n",
                      true};
  }
  BatchJob job;
  job.name = job_name(plan, options), job.nodes = machines.count, job.gpus = machines.gpus, job.header = header;
  job.before = before + "MASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)\n";
  job.before += "MASTER_PORT=${MASTER_PORT:-29500}\n" + std::string(options.site ? "export LOGS\n\n" : "\n");
  job.command =
      fmt::format("bash -c 'exec {}' \\\n    \"$MASTER_ADDR\" \"$MASTER_PORT\"", launch("$SLURM_NODEID", "$0", "$1"));
  return LaunchFile{"accelerate.sbatch", batch_script(job, plan, options), true};
}

}  // namespace

LaunchFile hugging_face::accelerate_for_deepspeed(const Plan& plan, const EmitOptions& options) {
  std::string out = head(plan, options, machines_of(plan), "DEEPSPEED");
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
  // FSDP's own checkpointing is stated in accelerate's file; both at once are refused.
  const bool plain = l.zero < 2;
  const Result<hugging_face::TrainerProgram> program = hugging_face::trainer_program(
      plan, options, {.deepspeed = "", .checkpointing = plain && l.recompute.kind == RecomputeKind::Full});
  if (!program) return tl::unexpected(program.error());
  const Result<LaunchFile> start = script(plan, options, machines, *program);
  if (!start) return tl::unexpected(start.error());
  return std::vector<LaunchFile>{
      {"accelerate.yaml", config(plan, options, machines), false}, program->arguments, *start};
}

}  // namespace plan
