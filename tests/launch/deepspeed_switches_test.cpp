// Every name of DeepSpeed's file is heard: it changes what is read, or it is told, or it is refused, but for the names
// that this test lists because they change neither memory nor time of a step.
#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/launch/deepspeed_keys.hpp"
#include "tests/launch/small_files.hpp"

using namespace plan;
using nlohmann::json;
using plan::launching::Files;

namespace {

struct Heard {
  Fixed fixed{};
  Training training{};
  int gpus = 0;
  std::vector<std::string> said{};
  bool operator==(const Heard&) const = default;
};

Heard heard(const Files& files, const json& file) {
  Heard out;
  const Result<LaunchJob> job = files.read("ds.json", file.dump(1));
  if (!job) {
    for (const Error& error : job.error()) out.said.push_back(error.message);
    return out;
  }
  out.fixed = job->fixed, out.training = *job->training, out.gpus = job->gpus;
  for (const Input& input : job->inputs) out.said.push_back(input.key + "=" + input.value);
  for (const auto& notes : {job->notes, job->unused})
    for (const Note& note : notes) out.said.push_back(note.text.substr(note.text.find(": ") + 1));
  return out;
}

/// A training at each stage of ZeRO.
std::vector<json> jobs() {
  std::vector<json> all;
  for (const int stage : {0, 1, 2, 3})
    all.push_back({{"train_micro_batch_size_per_gpu", 1},
                   {"gradient_accumulation_steps", 2},
                   {"bf16", {{"enabled", true}}},
                   {"zero_optimization", {{"stage", stage}}}});
  return all;
}

/// Values that one name or another takes: numbers, switches, words, sections.
const std::vector<json>& values() {
  static const std::vector<json> all = {true,
                                        false,
                                        7,
                                        "bf16",
                                        {{"enabled", true}},
                                        {{"device", "nvme"}},
                                        {{"deepcompile", true}},
                                        {{"mode", "fixed"}},
                                        {{"grad_accum_dtype", "bf16"}},
                                        {{"type", "Lamb"}},
                                        {{"autotp_size", 2}},
                                        {{"enabled", true}, {"autoep_size", 2}},
                                        {{"weight_quantization", {{"shared_parameters", {{"enabled", true}}}}}}};
  return all;
}

/// Printing, saving, data loading, clipping; factors of a mean; what serves an offload or a pipeline that is told by
/// the name that turns it on; checks and layouts of memory that a step does not see.
bool weightless(std::string_view name) {
  constexpr std::string_view kNames[] = {
      "managed_gradient_accumulation", "scheduler", "bfloat16", "gradient_clipping", "prescale_gradients",
      "gradient_predivide_factor", "gradient_allreduce_op", "disable_allgather", "zero_allow_untested_optimizer",
      "zero_force_ds_cpu_optimizer", "steps_per_print", "wall_clock_breakdown", "memory_breakdown", "dump_state",
      "disable_python_gc", "log_level", "timers", "data_parallel_size", "pipeline", "tensorboard", "wandb",
      "csv_monitor", "comet", "comms_logger", "flops_profiler", "aio", "data_sampling", "checkpoint", "nebula",
      "datastates_ckpt", "datastates", "dataloader_drop_last", "vocabulary_size", "use_node_local_storage",
      "load_universal_checkpoint", "gpu_partition", "checkpoint_engine",
      // Of zero_optimization.
      "use_multi_rank_bucket_allreduce", "allgather_partitions", "compute_grad_norm", "load_from_fp32_weights",
      "elastic_checkpoint", "cpu_offload_use_pin_memory", "stage3_prefetch_bucket_size", "prefetch_bucket_size",
      "stage3_param_persistence_threshold", "param_persistence_threshold", "stage3_model_persistence_threshold",
      "model_persistence_threshold", "stage3_max_reuse_distance", "max_reuse_distance",
      "stage3_gather_16bit_weights_on_model_save", "stage3_gather_fp16_weights_on_model_save",
      "gather_16bit_weights_on_model_save", "ignore_unused_parameters", "legacy_stage1", "round_robin_gradients",
      "parameter_alignment", "memory_efficient_linear", "pipeline_loading_checkpoint", "override_module_apply",
      "log_trace_cache_warnings", "enable_sanity_checks",
      // Of activation_checkpointing.
      "number_checkpoints", "profile", "synchronize_checkpoint_boundary"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

bool noticed(const Files& files, const std::string& section, const std::string& name) {
  for (const json& job : jobs()) {
    const Heard before = heard(files, job);
    for (const json& value : values()) {
      json file = job;
      (section.empty() ? file : file[section])[name] = value;
      if (heard(files, file) != before) return true;
    }
  }
  return false;
}

}  // namespace

TEST_CASE("no name of DeepSpeed's that weighs is passed over") {
  const Files files;
  for (const std::string_view name : deepspeed::kTop)
    if (name != "zero_optimization") CHECK_MESSAGE(noticed(files, "", std::string(name)) != weightless(name), name);
  for (const std::string_view name : deepspeed::kZero)
    CHECK_MESSAGE(noticed(files, "zero_optimization", std::string(name)) != weightless(name), name);
  for (const std::string_view name : deepspeed::kCheckpointing)
    CHECK_MESSAGE(noticed(files, "activation_checkpointing", std::string(name)) != weightless(name), name);
}

TEST_CASE("reductions of DeepSpeed overlap where its file says so, and by default at stage 3 alone") {
  const Files files;
  for (json& job : jobs()) {
    const int stage = job["zero_optimization"]["stage"];
    if (stage == 0) continue;
    CAPTURE(stage);
    CHECK(heard(files, job).training.stack.overlap_grad_reduce == (stage == 3));
    for (const bool overlap : {false, true}) {
      job["zero_optimization"]["overlap_comm"] = overlap;
      CHECK(heard(files, job).training.stack.overlap_grad_reduce == overlap);
    }
  }
}

TEST_CASE("a format has two names in DeepSpeed's file") {
  const Files files;
  for (json& job : jobs()) {
    const Heard now = heard(files, job);
    job["bfloat16"] = job["bf16"];
    job.erase("bf16");
    CHECK(heard(files, job) == now);
  }
}

TEST_CASE("DeepSpeed's first switches of offloading mean the same as its sections") {
  const Files files;
  for (json& job : jobs()) {
    const int stage = job["zero_optimization"]["stage"];
    json now = job;
    job["zero_optimization"]["cpu_offload"] = true, job["zero_optimization"]["cpu_offload_param"] = true;
    now["zero_optimization"]["offload_optimizer"] = {{"device", "cpu"}};
    now["zero_optimization"]["offload_param"] = {{"device", "cpu"}};
    CAPTURE(stage);
    CHECK(heard(files, job).training.offload == heard(files, now).training.offload);
  }
}
