// Every name of DeepSpeed's file is heard: it changes what is read, or it is told, or it is refused, but for the names
// that this test lists because they change neither memory nor time of a step.
#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/launch/trainer/deepspeed_keys.hpp"
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
      "managed_gradient_accumulation", "scheduler", "gradient_clipping", "prescale_gradients",
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
      // Of what is offloaded: buffers, and what is for NVMe alone, which its device tells.
      "nvme_path", "buffer_count", "buffer_size", "max_in_cpu", "pipeline_read", "pipeline_write", "fast_init",
      "cpuadam_cores_perc",
      // Of formats: the scale of losses, when a step is skipped.
      "immediate_grad_update", "check_grad_overflow", "auto_cast", "loss_scale", "initial_scale_power",
      "loss_scale_window", "hysteresis", "consecutive_hysteresis", "min_loss_scale",
      // Of AutoTP: where it finds what it splits; a size of its own, which must be autotp_size.
      "dtype", "vocab_parallel_ce_backend", "tp", "injection_policy_tuple", "injection_policy", "partition_config",
      "preset_model",
      // Of activation_checkpointing.
      "number_checkpoints", "profile", "synchronize_checkpoint_boundary"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

/// The place of a section, `a.b`, in the file.
json& section_of(json& file, std::string_view path) {
  json* at = &file;
  while (!path.empty()) {
    const std::size_t dot = std::min(path.find('.'), path.size());
    at = &(*at)[std::string(path.substr(0, dot))];
    path.remove_prefix(std::min(path.size(), dot + 1));
  }
  return *at;
}

bool noticed(const Files& files, std::string_view section, const std::string& name) {
  for (json job : jobs()) {
    if (section.find("offload") != std::string_view::npos) section_of(job, section)["device"] = "cpu";
    const Heard before = heard(files, job);
    for (const json& value : values()) {
      json file = job;
      section_of(file, section)[name] = value;
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
  for (const deepspeed::Section& section : deepspeed::kSections)
    for (const std::string_view name : section.names) {
      if (section.path == "bfloat16") continue;  // means what `bf16` means, which these jobs have
      if (section.path == name) continue;        // `tp`, by its other name
      CAPTURE(section.path);
      CHECK_MESSAGE(noticed(files, section.path, std::string(name)) != weightless(name), name);
    }
}

TEST_CASE("a name that DeepSpeed does not have is told in every section, and whether it stops there") {
  const Files files;
  for (const deepspeed::Section& section : deepspeed::kSections) {
    json job = jobs().back();
    section_of(job, section.path)["no_such_name"] = 2;
    CAPTURE(section.path);
    const Heard all = heard(files, job);
    const auto told = [&](const std::string& text) {
      return text.find("`no_such_name` is unknown to DeepSpeed, which " +
                       std::string(section.strict ? "stops there" : "passes over it in silence")) != std::string::npos;
    };
    CHECK(std::any_of(all.said.begin(), all.said.end(), told));
  }
}

TEST_CASE("DeepSpeed starts with the batch that its ranks make, and no other") {
  const Files files;
  const auto job = [&](int batch, int gpus, int asked) {
    const json file = {{"train_batch_size", batch},        {"train_micro_batch_size_per_gpu", 2},
                       {"gradient_accumulation_steps", 4}, {"tensor_parallel", {{"autotp_size", 2}}},
                       {"bf16", {{"enabled", true}}},      {"zero_optimization", {{"stage", 1}}}};
    files.folder.write("ds.json", file.dump(1));
    LaunchContext context;
    context.gpus = asked;
    if (gpus == 0) return files.read("ds.json", file.dump(1), context);
    const std::string machines =
        "distributed_type: DEEPSPEED\nnum_machines: 1\nnum_processes: " + std::to_string(gpus) +
        "\ndeepspeed_config:\n  deepspeed_config_file: ds.json\n";
    return files.read("accelerate.yaml", machines, context);
  };
  for (const int gpus : {4, 8, 16})
    for (int batch = 1; batch <= 8 * 16; ++batch) {
      CAPTURE(gpus);
      CAPTURE(batch);
      const bool starts = batch == 8 * gpus || batch == 8 * gpus / 2;
      const Result<LaunchJob> stated = job(batch, gpus, 0);
      CHECK(stated.has_value() == starts);
      if (stated) CHECK(stated->training->global_batch == 8 * gpus / 2);
    }
  // On the GPUs of a flag the job counts, and what its file would have to say is told.
  for (const int batch : {16, 32, 33}) {
    const Result<LaunchJob> other = job(batch, 0, 8);
    REQUIRE(other);
    CHECK(other->training->global_batch == 32);
    CHECK(std::any_of(other->notes.begin(), other->notes.end(),
                      [](const Note& note) { return note.code == "batch_of_other_gpus"; }) == (batch != 32));
  }
  // Where nothing says how many GPUs there are, some number of them must make it.
  for (int batch = 1; batch <= 64; ++batch) CHECK(job(batch, 0, 0).has_value() == (batch % 8 == 0));
}

TEST_CASE("DeepSpeed offloads to what it has, parts of an optimizer at stage 3, bf16 states beside bf16 masters") {
  const Files files;
  for (json job : jobs()) {
    const int stage = job["zero_optimization"]["stage"];
    CAPTURE(stage);
    const auto reads = [&](const char* section, const json& keys) {
      json file = job;
      section_of(file, section).update(keys);
      return files.read("ds.json", file.dump(1)).has_value();
    };
    for (const char* device : {"none", "auto", "cpu", "nvme", "gpu", "CPU"})
      for (const char* section : {"zero_optimization.offload_optimizer", "zero_optimization.offload_param"}) {
        CAPTURE(device);
        CHECK(reads(section, {{"device", device}}) == (std::string(device) != "gpu" && std::string(device) != "CPU"));
      }
    const auto offload = [&](const char* device) {
      json file = job;
      for (const char* section : {"zero_optimization.offload_optimizer", "zero_optimization.offload_param"})
        section_of(file, section)["device"] = device;
      return heard(files, file).training.offload;
    };
    CHECK(offload("auto") == Offload{});
    CHECK(offload("none") == Offload{});
    CHECK(offload("cpu") == offload("nvme"));
    for (const double ratio : {0.25, 1.0})
      CHECK(reads("zero_optimization.offload_optimizer", {{"device", "cpu"}, {"ratio", ratio}}) ==
            (stage == 3 || ratio == 1));
    for (const bool masters : {false, true})
      for (const bool states : {false, true})
        CHECK(reads("bf16", {{"bf16_master_weights_and_grads", masters}, {"bf16_optimizer_states", states}}) ==
              ((masters || !states) && (stage > 0 || !masters)));
    CHECK(reads("fp16", {{"fp16_master_weights_and_grads", true}}) == (stage > 0));
  }
}

// DeepSpeed reads `stage3_*` at stage 3 alone, and what is outside zero_optimization at any stage.
TEST_CASE("a name of DeepSpeed's has a say at the stages that read it, and at no other") {
  const Files files;
  const auto stages = [&](const std::string& section, std::string_view name) {
    std::vector<int> all;
    for (const json& job : jobs())
      for (const json& value : values()) {
        json file = job;
        (section.empty() ? file : file[section])[std::string(name)] = value;
        if (heard(files, file) == heard(files, job)) continue;
        all.push_back(job["zero_optimization"]["stage"]);
        break;
      }
    return all;
  };
  const std::vector<int> every = {0, 1, 2, 3}, sharded = {1, 2, 3}, last = {3};
  for (const std::string_view name : deepspeed::kTop)
    if (name != "zero_optimization" && !weightless(name)) CHECK_MESSAGE(stages("", name) == every, name);
  for (const std::string_view name : deepspeed::kZero) {
    if (weightless(name) || name == "stage") continue;
    const std::vector<int> heard_at = stages("zero_optimization", name);
    if (name.starts_with("stage3_"))
      CHECK_MESSAGE(heard_at == last, name);
    else
      CHECK_MESSAGE((heard_at == every || heard_at == sharded || heard_at == last), name);
  }
  for (const char* name : {"reduce_scatter", "contiguous_gradients", "reduce_bucket_size", "allgather_bucket_size"})
    CHECK_MESSAGE(stages("zero_optimization", name) == sharded, name);
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

TEST_CASE("a stage that is left to accelerate is its default, and said to be") {
  const Files files;
  const Result<LaunchJob> job =
      files.read("ds.json", R"({"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": "auto"}})");
  REQUIRE(job);
  CHECK(job->fixed.zero == 2);
  CHECK(plan::launching::guesses(*job, "zero"));
  CHECK_FALSE(
      files.read("no.json", R"({"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": "most"}})"));
}

TEST_CASE("a batch that leaves its ranks less than a sequence each is refused, whoever says how many ranks there are") {
  const std::string text =
      "{\"train_batch_size\": 32, \"gradient_accumulation_steps\": 1, \"zero_optimization\": {\"stage\": 1}}\n";
  CHECK(plan::launching::error_of("ds.json", text, plan::launching::on(64)) == "does_not_divide");
  for (const int gpus : {8, 16, 32}) {
    const LaunchJob job = plan::launching::job_of("ds.json", text, plan::launching::on(gpus));
    CHECK(job.training->global_batch == 32);
    CHECK(job.fixed.micro_batch == 32 / gpus);
  }
}
