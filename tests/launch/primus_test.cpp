// Experiments of Primus's, which lie over other files: each construct in files of our own.
#include <doctest/doctest.h>

#include "cli/launch/launch.hpp"
#include "small_files.hpp"

namespace plan {

using namespace launching;

TEST_CASE("an experiment of Primus's on torchtitan lies over the files that it names") {
  const Files files;
  std::filesystem::create_directories(files.folder.at("primus/configs/models/torchtitan"));
  std::filesystem::create_directories(files.folder.at("primus/configs/modules/torchtitan"));
  files.folder.write("primus/configs/models/torchtitan/llama3.1_8B-fp8.yaml",
                     "model:\n  name: llama3\n  flavor: 8B\n  converters:\n    - quantize.linear.float8\n");
  files.folder.write("primus/configs/modules/torchtitan/pre_trainer.yaml",
                     "training:\n  local_batch_size: 8\n  seq_len: 2048\n  global_batch_size: -1\n"
                     "parallelism:\n  tensor_parallel_degree: 1\n  pipeline_parallel_layers_per_stage: null\n"
                     "activation_checkpoint:\n  mode: none\n");
  const Result<LaunchJob> job = files.read("exp.yaml",
                                           "work_group: x\nmodules:\n  pre_trainer:\n    framework: torchtitan\n"
                                           "    config: pre_trainer.yaml\n    model: llama3.1_8B-fp8.yaml\n"
                                           "    overrides:\n      training:\n        local_batch_size: 4\n"
                                           "        seq_len: 8192\n      parallelism:\n"
                                           "        tensor_parallel_degree: 2\n      primus_turbo:\n"
                                           "        enable_attention_float8: true\n",
                                           on(8));
  REQUIRE_MESSAGE(job, (job ? "" : job.error().front().message));
  CHECK(job->format == "primus-torchtitan");
  CHECK(job->fixed.tp == 2);
  CHECK(job->fixed.micro_batch == 4);
  CHECK(job->training->seq == 8192);
  CHECK(job->training->global_batch == 16);
  CHECK(job->training->precision == Precision::Fp8Tensorwise);
  CHECK(names(job->unused, "enable_attention_float8"));
  REQUIRE(job->model);
  CHECK(job->model->name == "llama3-8b");
}

TEST_CASE("the whole name of Primus's back end says whose an experiment is, wherever it stands") {
  const Files files;
  std::filesystem::create_directories(files.folder.at("primus/configs/models/torchtitan"));
  files.folder.write("primus/configs/models/torchtitan/tiny.yaml", "model:\n  name: llama3\n  flavor: 8B\n");
  const std::string text =
      "modules:\n  pre_trainer:\n    model: tiny.yaml\n    overrides:\n      training:\n        local_batch_size: 4\n"
      "        seq_len: 8192\n    framework: torchtitan";
  for (const std::string more : {"", "\n", "  # ours\n"}) {
    const Result<LaunchJob> job = files.read("exp.yaml", text + more, on(8));
    REQUIRE_MESSAGE(job, (job ? "" : job.error().front().message));
    CHECK(job->format == "primus-torchtitan");
  }
  for (const std::string more : {"_v2\n", "2"}) {
    const Result<LaunchJob> job = files.read("exp.yaml", text + more, on(8));
    CHECK((!job || job->format != "primus-torchtitan"));
  }
}

TEST_CASE("experiments of Primus's on MaxText and on Megatron-Bridge") {
  const Files files;
  for (const char* folder : {"models/maxtext", "modules/maxtext", "models/megatron_bridge", "modules/megatron_bridge"})
    std::filesystem::create_directories(files.folder.at("primus/configs/" + std::string(folder)));
  files.folder.write("primus/configs/models/maxtext/llama3_8B.yaml", "model_name: \"llama3-8b\"\n");
  files.folder.write("primus/configs/modules/maxtext/pre_trainer.yaml",
                     "hardware: \"gpu\"\nremat_policy: 'minimal'\ndtype: \"bfloat16\"\n");
  const auto read = [&](const std::string& text) {
    const Result<LaunchJob> job = files.read("exp.yaml", text, on(16));
    REQUIRE_MESSAGE(job, (job ? "" : job.error().front().message));
    return *job;
  };
  const LaunchJob jax = read(
      "work_group: x\nmodules:\n  pre_trainer:\n    framework: maxtext\n    config: pre_trainer.yaml\n"
      "    model: llama3_8B.yaml\n    overrides:\n      dcn_data_parallelism: -1\n"
      "      ici_fsdp_parallelism: 8\n      remat_policy: \"full\"\n      max_target_length: 4096\n"
      "      per_device_batch_size: 2\n");
  CHECK(jax.format == "primus-maxtext");
  REQUIRE(jax.model);
  CHECK(jax.model->name == "llama3-8b");
  CHECK(jax.training->seq == 4096);
  CHECK(jax.training->global_batch == 32);
  CHECK(jax.fixed.recompute->kind == RecomputeKind::Full);
  CHECK(jax.fixed.shard == 8);
  files.folder.write("primus/configs/models/megatron_bridge/qwen3_32b.yaml",
                     "recipe: qwen.qwen3\nflavor: qwen3_32b_finetune_config\n");
  files.folder.write("primus/configs/modules/megatron_bridge/sft_trainer.yaml", "trainable: true\n");
  const LaunchJob bridge = read(
      "work_group: x\nmodules:\n  post_trainer:\n    framework: megatron_bridge\n    config: sft_trainer.yaml\n"
      "    model: qwen3_32b.yaml\n    overrides:\n      tensor_model_parallel_size: 2\n"
      "      context_parallel_size: 1\n      peft: \"none\"\n      train_iters: 200\n"
      "      global_batch_size: 8\n      micro_batch_size: 1\n      seq_length: 8192\n"
      "      recompute_granularity: full\n      recompute_method: uniform\n      recompute_num_layers: 1\n"
      "      precision_config: bf16_mixed\n      turbo_things: 3\n");
  CHECK(bridge.format == "primus-bridge");
  REQUIRE(bridge.model);
  CHECK(bridge.model->name == "qwen3-32b");
  CHECK(bridge.fixed.tp == 2);
  CHECK(bridge.training->seq == 8192);
  CHECK(bridge.training->global_batch == 8);
  CHECK(bridge.training->task != Task::Lora);
  CHECK(bridge.fixed.recompute->kind == RecomputeKind::Full);
  CHECK(guesses(bridge, "pp"));
  CHECK(names(bridge.unused, "turbo_things"));
}

}  // namespace plan
