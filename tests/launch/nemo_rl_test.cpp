// NeMo-RL: whose GPUs train, what is beside the trained model, and batches that are stated in pairs.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <string>

#include "small_files.hpp"

namespace plan {

using namespace launching;

namespace {

struct Machines {
  int nodes = 1, gpus = 8;
  bool apart = false;  ///< generation has GPUs of its own
  int generate_nodes = 0, generate_gpus = 0;
  bool judged = false;  ///< a reward model has
  int judge_nodes = 0, judge_gpus = 0;

  /// Straight from setup() in nemo_rl/algorithms/grpo.py.
  int training() const {
    int train_nodes = nodes == 1 ? 1 : nodes - (judged ? judge_nodes : 0);
    int train_gpus = gpus - (nodes == 1 && judged ? judge_gpus : 0);
    if (apart && nodes == 1) train_gpus -= generate_gpus;
    if (apart && nodes > 1) train_nodes -= generate_nodes;
    return train_nodes < 1 || train_gpus < 1 ? 0 : train_nodes * train_gpus;
  }
};

std::string stated(int number) { return number > 0 ? fmt::format("{}", number) : "null"; }

std::string config(const Machines& c, bool megatron, const std::string& section = "grpo") {
  std::string text = fmt::format(
      "{}:\n  max_num_steps: 10\npolicy:\n  model_name: Qwen/Qwen3-8B\n  train_global_batch_size: 1680\n"
      "  train_micro_batch_size: 1\n  max_total_sequence_length: 4096\n  precision: bfloat16\n"
      "  megatron_cfg:\n    enabled: {}\n    tensor_model_parallel_size: 1\n"
      "  dtensor_cfg:\n    enabled: {}\n    tensor_parallel_size: 1\n    context_parallel_size: 1\n"
      "  generation:\n    colocated:\n      enabled: {}\n      resources:\n        gpus_per_node: {}\n"
      "        num_nodes: {}\ncluster:\n  gpus_per_node: {}\n  num_nodes: {}\n",
      section, megatron, !megatron, !c.apart, stated(c.generate_gpus), stated(c.generate_nodes), c.gpus, c.nodes);
  if (c.judged)
    text += fmt::format(
        "data:\n  env_name: reward_model\nenv:\n  reward_model:\n    resources:\n      gpus_per_node: {}\n"
        "      num_nodes: {}\n",
        stated(c.judge_gpus), stated(c.judge_nodes));
  return text;
}

}  // namespace

TEST_CASE("a `--config` that nothing follows names no file") {
  for (const char* words : {"", " --config", " grpo.max_num_steps=5 --config", " --config --config"}) {
    CAPTURE(std::string(words));
    const Files files;
    const Result<LaunchJob> job =
        files.read("run.sh", fmt::format("#!/bin/bash\nuv run examples/run_grpo_math.py{}\n", words));
    CHECK((job.has_value() || !job.error().front().message.empty()));
  }
}

TEST_CASE("the section that is on trains, whichever of DTensor's it is") {
  const std::string on =
      "    enabled: true\n    tensor_parallel_size: 2\n    context_parallel_size: 1\n    activation_checkpointing: "
      "true\n";
  const std::string off = "    enabled: false\n    tensor_parallel_size: 4\n    context_parallel_size: 2\n";
  for (const bool stated : {false, true})
    for (const bool second : {false, true}) {
      const std::string text = fmt::format(
          "policy:\n  model_name: Qwen/Qwen3-8B\n  train_global_batch_size: 64\n  train_micro_batch_size: 1\n"
          "  max_total_sequence_length: 4096\n  precision: bfloat16\n{}  dtensor_cfg:\n{}  dtensor_v2_cfg:\n{}"
          "cluster:\n  gpus_per_node: 8\n  num_nodes: 1\ngrpo:\n  max_num_steps: 1\n",
          stated ? "  megatron_cfg:\n    enabled: false\n    tensor_model_parallel_size: 8\n" : "", second ? off : on,
          second ? on : off);
      CAPTURE(text);
      const LaunchJob job = job_of("run.yaml", text);
      CHECK(job.fixed.zero == 3);
      CHECK(job.fixed.tp == 2);
      CHECK(job.fixed.cp == 1);
      CHECK(job.fixed.recompute->kind == RecomputeKind::Full);
    }
}

TEST_CASE("GPUs that generate or judge are not the training's, and a note says whose they are") {
  for (const bool megatron : {true, false})
    for (const int nodes : {1, 2, 4, 7})
      for (const int taken : {0, 1, 3, 7})
        for (const bool judged : {false, true}) {
          Machines c{.nodes = nodes, .apart = taken > 0, .judged = judged};
          c.generate_nodes = nodes == 1 ? 0 : taken, c.generate_gpus = nodes == 1 ? taken : 8;
          c.judge_nodes = 1, c.judge_gpus = nodes == 1 ? 2 : 8;
          CAPTURE(config(c, megatron));
          const int training = c.training();
          if (training == 0) {
            CHECK(error_of("rl.yaml", config(c, megatron)) == "wrong_value");
            continue;
          }
          const LaunchJob job = job_of("rl.yaml", config(c, megatron));
          CHECK(job.gpus == training);
          CHECK(names(job.notes, "generate, and are not counted") == c.apart);
          CHECK(names(job.notes, "judge, and are not counted") == c.judged);
        }
}

TEST_CASE("preferences are two sequences each, where NeMo-RL trains on them") {
  for (const bool megatron : {true, false})
    for (const char* section : {"grpo", "sft", "dpo", "rm"}) {
      const LaunchJob job = job_of("rl.yaml", config({}, megatron, section));
      const int each = std::string_view(section) == "dpo" || std::string_view(section) == "rm" ? 2 : 1;
      CAPTURE(std::string(section));
      CHECK(job.training->global_batch == 1680 * each);
      CHECK(job.fixed.micro_batch == each);
      CHECK(names(job.notes, "pairs") == (each == 2));
    }
}

TEST_CASE("degrees of sections that are off say nothing, and those of models beside the trained one are named") {
  const std::string plain = config({.nodes = 2}, true);
  const LaunchJob whole = job_of("rl.yaml", plain);
  const std::string degree = "context_parallel_size: 2\n";
  const std::string off = replaced(plain, "tensor_parallel_size: 1\n    context_parallel_size: 1\n",
                                   "tensor_parallel_size: 8\n    " + degree);
  for (const std::string& text :
       {off, replaced(off, "  generation:", "  dtensor_v2_cfg:\n    enabled: false\n    " + degree + "  generation:"),
        plain + "lab:\n  enable: false\n  " + degree, plain + "lab:\n  enabled: false\n  inner:\n    " + degree}) {
    CAPTURE(text);
    const LaunchJob job = job_of("rl.yaml", text);
    CHECK(job.fixed.cp == whole.fixed.cp);
    CHECK(job.unused.size() == whole.unused.size());
  }
  for (const char* section : {"teacher:\n  megatron_cfg:\n    ", "value:\n  megatron_cfg:\n    ", "run:\n  ",
                              "export:\n  ", "inference:\n  ", "checkpoint:\n  convert:\n    "}) {
    CAPTURE(std::string(section));
    const LaunchJob job = job_of("rl.yaml", plain + section + degree);
    CHECK(job.fixed.cp == whole.fixed.cp);
    CHECK(names(job.unused, "context_parallel_size`"));
  }
  for (const char* section : {"lab:\n  ", "lab:\n  enabled: true\n  ", "lab:\n  run:\n    "}) {
    CAPTURE(std::string(section));
    CHECK(error_of("rl.yaml", plain + section + degree) == "degree_not_read");
  }
}

TEST_CASE("models beside the trained one are named") {
  const std::string plain = config({}, true);
  CHECK_FALSE(names(job_of("rl.yaml", plain).unused, "beside the trained"));
  for (const char* more : {"teacher:\n  model_name: Qwen/Qwen3-32B\n", "value:\n  precision: bfloat16\n",
                           "loss_fn:\n  reference_policy_kl_penalty: 0.01\n"}) {
    CAPTURE(std::string(more));
    CHECK(names(job_of("rl.yaml", plain + more).unused, "beside the trained"));
  }
  CHECK_FALSE(names(job_of("rl.yaml", plain + "loss_fn:\n  reference_policy_kl_penalty: 0.0\n").unused, "beside"));
  CHECK(names(job_of("rl.yaml", config({}, true, "dpo")).unused, "beside the trained"));
}

}  // namespace plan
