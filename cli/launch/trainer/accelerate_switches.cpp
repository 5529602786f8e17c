// What accelerate's file says beside sharding: how its ranks share machines, and what nothing here prices, which is
// reported. Names: accelerate 1.15 commands/config, utils/dataclasses.py. Tested by
// tests/launch/accelerate_switches_test.cpp.
#include <fmt/core.h>

#include "cli/launch/job/counted_as.hpp"
#include "cli/launch/job/weighty_names.hpp"
#include "cli/launch/scripts/launcher_commands.hpp"
#include "cli/launch/trainer/hugging_face.hpp"

namespace plan::hugging_face {
namespace {

constexpr CountedAs kWeighing[] = {
    {"acc.use_cpu", "false", "a training on CPUs is counted on GPUs"},
    {"acc.dynamo_config.dynamo_backend", "no NO eager EAGER",
     "kernels that torch.compile fuses are counted one by one"},
};
constexpr CountedAs kSharding[] = {
    {"acc.fsdp_config.fsdp_activation_checkpointing_offload", "false",
     "activations that go to the host are counted on the GPU"},
    {"acc.fsdp_config.fsdp_ignored_modules", "null none", "modules that are not sharded are counted as sharded"},
    {"acc.fsdp_config.fsdp_auto_wrap_policy", "TRANSFORMER_BASED_WRAP",
     "weights are counted as gathered layer by layer"},
    {"acc.fsdp_config.fsdp_backward_prefetch", "BACKWARD_PRE BACKWARD_POST", "gathers are counted as prefetched"},
    {"acc.fsdp_config.fsdp_backward_prefetch_policy", "BACKWARD_PRE BACKWARD_POST",
     "gathers are counted as prefetched"},
};

}  // namespace

void read_machines(JobBuilder& builder, const LaunchFacts& facts) {
  const int machines = builder.degree("acc.num_machines", 1);
  LaunchJob& job = builder.job;
  // num_processes counts the ranks of all machines; a launcher that states a node's knows better.
  if (machines > 1 && job.gpus_per_node == 0 && job.gpus % machines == 0) job.gpus_per_node = job.gpus / machines;
  // GPUs that the one machine shows, where its file starts more processes: they are all of that machine.
  if (machines == 1 && facts.nodes == 1 && job.gpus_per_node > 0 && job.gpus > job.gpus_per_node)
    job.gpus_per_node = job.gpus;
  constexpr std::string_view kIds = "acc.gpu_ids", kProcesses = "acc.num_processes";
  const int visible = visible_devices(builder.settings.text(kIds).value_or(""));
  const std::int64_t processes = to_integer(builder.settings.text(kProcesses).value_or("")).value_or(0);
  if (visible > 0 && processes > std::int64_t{visible} * machines)
    builder.unused(kIds, fmt::format("it shows {} GPUs of a machine to {} processes: counted are {}", visible,
                                     processes / machines, processes));
}

void refuse_other_mesh(JobBuilder& builder) {
  const std::string mesh = "acc.parallelism_config.parallelism_config_";
  std::int64_t product = 1;
  std::string last;
  for (const char* axis : {"tp_size", "cp_size", "sp_size", "dp_shard_size", "dp_replicate_size"}) {
    const int degree = builder.degree(mesh + axis, 1);
    if (!builder.plausible({degree, static_cast<int>(product)})) return;
    product *= degree;
    if (builder.settings.states(mesh + axis)) last = mesh + axis;
  }
  // A tool's own reader of these keys shards over what the other degrees leave.
  const bool whole = builder.settings.text("tool").value_or("").empty() ||
                     builder.settings.states(mesh + "dp_shard_size") ||
                     builder.settings.states(mesh + "dp_replicate_size");
  if (whole && product > 1 && builder.job.gpus > 0 && product != builder.job.gpus)
    builder.errors.push_back({"does_not_divide", fmt::format("{}: the degrees multiply to {}, but num_processes is {}",
                                                             builder.settings.where(last), product, builder.job.gpus)});
}

void read_accelerate_switches(JobBuilder& builder) {
  Settings& keys = builder.settings;
  // axolotl's schema (utils/schemas/peft.py, validate_adapter).
  if (keys.text("tool").value_or("") == "axolotl" && switched_off(keys.text("args.adapter").value_or("")))
    for (const char* key : {"args.load_in_4bit", "args.load_in_8bit"})
      if (keys.states(key) && switch_of(keys, key).value_or(false))
        builder.errors.push_back(
            {"conflicting_keys",
             fmt::format("{}: `{}` wants an `adapter:`, where axolotl stops", keys.where(key), key + 5),
             {},
             {fmt::format("add `adapter: {}`, or turn it off",
                          std::string_view(key).ends_with("4bit") ? "qlora" : "lora")}});
  // The launcher stops at such a number, whatever GPUs it is shown.
  constexpr std::string_view kProcesses = "args.num_processes";
  if (builder.settings.text(kProcesses).value_or("$").find_first_of("$`") == std::string::npos)
    (void)builder.degree(kProcesses, 1);
  for (const CountedAs& row : kWeighing) tell_counted_as(builder, row);
  if (builder.settings.text("acc.distributed_type").value_or("") != "FSDP") return;
  for (const CountedAs& row : kSharding) tell_counted_as(builder, row);
}

}  // namespace plan::hugging_face
