// Every key that torchtitan's TOML file has is heard: it changes what is read, or it is told, or it is refused, but for
// the keys that this test names because they change neither memory nor time.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "cli/launch/torchtitan/keys.hpp"
#include "tests/launch/small_files.hpp"

using namespace plan;
using plan::launching::Files;

namespace {

using Keys = std::map<std::string, std::string>;

std::string toml(const Keys& keys) {
  std::map<std::string, std::string> sections;
  for (const auto& [key, value] : keys) {
    const std::size_t dot = key.rfind('.');
    sections[key.substr(0, dot)] += fmt::format("{} = {}\n", key.substr(dot + 1), value);
  }
  std::string out;
  for (const auto& [name, lines] : sections) out += fmt::format("[{}]\n{}", name, lines);
  return out;
}

/// All that a reader makes of the file: values, where none was stated, and what is told; places left out.
struct Heard {
  Fixed fixed{};
  Training training{};
  std::vector<std::string> said{};
  bool operator==(const Heard&) const = default;
};

Heard heard(const Files& files, const Keys& keys) {
  Heard out;
  const Result<LaunchJob> job = files.read("run.toml", toml(keys));
  if (!job) {
    for (const Error& error : job.error()) out.said.push_back(error.message);
    return out;
  }
  out.fixed = job->fixed, out.training = *job->training;
  for (const Input& input : job->inputs) out.said.push_back(input.key + "=" + input.value);
  const auto after_place = [](const std::string& text) { return text.substr(text.find(": ") + 1); };
  for (const auto& notes : {job->notes, job->unused})
    for (const Note& note : notes) out.said.push_back(after_place(note.text));
  return out;
}

/// Jobs in which every axis, format and mode of torchtitan's has its say.
std::vector<Keys> jobs() {
  const Keys dense = {{"model.name", "\"llama3\""},
                      {"model.flavor", "\"8B\""},
                      {"training.local_batch_size", "4"},
                      {"training.seq_len", "4096"},
                      {"compile.enable", "true"}};
  const auto with = [](Keys keys, const Keys& more) {
    for (const auto& [key, value] : more) keys[key] = value;
    return keys;
  };
  return {with(dense, {{"parallelism.data_parallel_shard_degree", "2"},
                       {"parallelism.tensor_parallel_degree", "2"},
                       {"parallelism.context_parallel_degree", "2"},
                       {"model.converters", "[\"quantize.linear.float8\"]"}}),
          with(dense, {{"parallelism.data_parallel_shard_degree", "8"},
                       {"model.converters", "[\"quantize.linear.mx\"]"},
                       {"activation_checkpoint.mode", "\"full\""}}),
          with(dense, {{"model.name", "\"deepseek_v3\""},
                       {"model.flavor", "\"16B\""},
                       {"parallelism.data_parallel_shard_degree", "4"},
                       {"parallelism.pipeline_parallel_degree", "2"},
                       {"parallelism.expert_parallel_degree", "4"},
                       {"parallelism.pipeline_parallel_schedule", "\"1F1B\""},
                       {"activation_checkpoint.mode", "\"selective\""},
                       {"activation_checkpoint.selective_ac_option", "\"op\""}}),
          with(dense, {{"parallelism.data_parallel_shard_degree", "8"},
                       {"activation_checkpoint.mode", "\"memory_budget\""},
                       {"activation_checkpoint.memory_budget", "0.7"}})};
}

/// Paths, printing, schedules of the learning rate, checkpoints, validation, timeouts and data: neither memory nor time
/// of a step, or a part of a switch that is told by the key that turns it on.
bool weightless(std::string_view key) {
  for (const std::string_view section :
       {"profiling.", "metrics.", "lr_scheduler.", "checkpoint.", "validation.", "training.dataloader.", "training.gc_",
        "comm.init", "comm.train", "comm.trace", "comm.save", "fault_tolerance.", "quantize.grouped_mm."})
    if (key.starts_with(section) && key != "fault_tolerance.enable") return true;
  constexpr std::string_view kKeys[] = {
      "job.config_file", "job.dump_folder", "job.description", "job.print_config", "job.save_config_file",
      "model.hf_assets_path", "model.tokenizer_path", "model.print_after_conversion", "optimizer.lr", "optimizer.beta1",
      "optimizer.beta2", "optimizer.eps", "optimizer.weight_decay", "training.dataset", "training.dataset_path",
      "training.max_norm", "training.steps", "memory_estimation.disable_fake_mode", "debug.seed",
      "debug.deterministic_warn_only", "debug.moe_force_load_balance",
      // A picture, a random state, a check.
      "activation_checkpoint.visualize_memory_budget_pareto", "activation_checkpoint.preserve_rng_state",
      "activation_checkpoint.determinism_check", "activation_checkpoint.debug",
      // How scales are fetched and which kernel casts: a few numbers a matrix.
      "quantize.linear.float8.precompute_float8_dynamic_scale_for_fsdp",
      "quantize.linear.mx.mxfp8_dim1_cast_kernel_choice"};
  return std::find(std::begin(kKeys), std::end(kKeys), key) != std::end(kKeys);
}

}  // namespace

TEST_CASE("no key of torchtitan's that weighs is passed over") {
  const Files files;
  const std::vector<Keys> all = jobs();
  std::vector<Heard> before;
  for (const Keys& job : all) {
    before.push_back(heard(files, job));
    REQUIRE(before.back().training.seq == 4096);
  }
  for (const std::string_view key : torchtitan::kKeys) {
    bool noticed = false;
    for (std::size_t i = 0; i < all.size(); ++i)
      for (const char* value :
           {"true", "false", "2", "\"alltoall\"", "\"strange\"", "[\"strange\"]", "[[\"layers.0\"]]"}) {
        Keys keys = all[i];
        keys[std::string(key)] = value;
        if (heard(files, keys) != before[i]) noticed = true;
      }
    CHECK_MESSAGE(noticed != weightless(key), key);
  }
}

TEST_CASE("kernels are fused where torchtitan compiles, and nowhere else") {
  const Files files;
  for (const char* components : {"", "[\"model\"]", "[\"loss\"]", "[\"model\", \"loss\"]"})
    for (const bool enabled : {false, true}) {
      Keys keys = {{"model.flavor", "\"8B\""}, {"parallelism.data_parallel_shard_degree", "8"}};
      if (enabled) keys["compile.enable"] = "true";
      const std::string parts = components;
      if (!parts.empty()) keys["compile.components"] = parts;
      CAPTURE(toml(keys));
      const Stack stack = heard(files, keys).training.stack;
      const auto compiled = [&](const char* part) {
        return enabled && (parts.empty() || parts.find(part) != std::string::npos);
      };
      CHECK(stack.fused_pointwise == compiled("model"));
      CHECK(stack.fused_norms == compiled("model"));
      CHECK((stack.cross_entropy == CrossEntropy::Compiled) == compiled("loss"));
    }
}

TEST_CASE("each pass of torchtitan's pipeline has the micro-batches that its schedule asks for") {
  const Files files;
  const auto codes = [&](const char* schedule, int local, int layers_per_stage) {
    const Keys keys = {{"model.name", "\"llama3\""},
                       {"model.flavor", "\"8B\""},
                       {"training.local_batch_size", std::to_string(local)},
                       {"training.global_batch_size", "1024"},
                       {"parallelism.pipeline_parallel_degree", "4"},
                       {"parallelism.data_parallel_shard_degree", "8"},
                       {"parallelism.pipeline_parallel_layers_per_stage", std::to_string(layers_per_stage)},
                       {"parallelism.pipeline_parallel_first_stage_less_layers", "0"},
                       {"parallelism.pipeline_parallel_last_stage_less_layers", "0"},
                       {"parallelism.pipeline_parallel_schedule", fmt::format("\"{}\"", schedule)}};
    const Result<LaunchJob> job = files.read("run.toml", toml(keys));
    return job ? std::string() : job.error().front().code;
  };
  for (const int local : {1, 2, 7}) CHECK(codes("DualPipeV", local, 4) == "bad_pass");
  for (const int local : {8, 16, 128}) CHECK(codes("DualPipeV", local, 4).empty());
  for (const int local : {1, 8}) CHECK(codes("1F1B", local, 8).empty());
}

TEST_CASE("experts without ranks of their own are split as torchtitan splits them, whatever the file says") {
  const Files files;
  for (const char* etp : {"1", "2", "4"}) {
    const Result<LaunchJob> job = files.read("run.toml", toml({{"model.name", "\"qwen3\""},
                                                               {"model.flavor", "\"30B-A3B\""},
                                                               {"parallelism.expert_tensor_parallel_degree", etp}}));
    REQUIRE(job);
    CHECK(job->fixed.etp == 1);
  }
}

TEST_CASE("a converter that nobody knows is named") {
  const Files files;
  for (const auto& [word, named] :
       {std::pair{"[\"foo\"]", true}, {"[\"quantize.linear.float8\"]", false}, {"[]", false}}) {
    const Result<LaunchJob> job =
        files.read("run.toml", toml({{"model.flavor", "\"8B\""}, {"model.converters", word}}));
    REQUIRE(job);
    CHECK(std::any_of(job->unused.begin(), job->unused.end(),
                      [](const Note& note) { return note.code == "unknown_converter"; }) == named);
  }
}

TEST_CASE("a degree of experts is told where the model has none") {
  const auto told = [](const std::string& family, const std::string& flavor) {
    const LaunchJob job = plan::launching::job_of("run.toml", toml({{"model.name", family},
                                                                    {"model.flavor", flavor},
                                                                    {"training.local_batch_size", "4"},
                                                                    {"training.seq_len", "4096"},
                                                                    {"parallelism.expert_parallel_degree", "8"}}));
    return plan::launching::names(job.unused, "expert_parallel_degree");
  };
  CHECK(told("\"llama3\"", "\"8B\""));
  CHECK_FALSE(told("\"deepseek_v3\"", "\"671B\""));
}
