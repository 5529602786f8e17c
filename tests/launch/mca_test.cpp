// LLaMA-Factory over mcore_adapter: its batch, its defaults and its keys, apart from those over Megatron-Bridge.
#include <doctest/doctest.h>

#include <algorithm>

#include "cli/launch/launch.hpp"
#include "launch/temporary.hpp"

namespace plan {
namespace {

const std::string kJob =
    "model_name_or_path: Qwen/Qwen3-30B-A3B\nstage: sft\nfinetuning_type: full\ncutoff_len: 4096\n"
    "per_device_train_batch_size: 1\ngradient_accumulation_steps: 8\nbf16: true\ntensor_model_parallel_size: 2\n"
    "pipeline_model_parallel_size: 2\nexpert_model_parallel_size: 2\nuse_distributed_optimizer: true\n";

/// The job on 16 GPUs.
LaunchJob read_mca(const std::string& lines) {
  const Temporary file("job.yaml", kJob + lines), hosts("hostfile", "a slots=8\nb slots=8\n");
  const Result<LaunchJob> job = read_launch_files({file.path(), hosts.path()});
  REQUIRE_MESSAGE(job, (job ? "" : job.error().front().message));
  return *job;
}

bool tells(const LaunchJob& job, const std::string& word) {
  const auto has = [&](const Note& note) { return note.text.find(word) != std::string::npos; };
  return std::any_of(job.notes.begin(), job.notes.end(), has) || std::any_of(job.unused.begin(), job.unused.end(), has);
}

}  // namespace

TEST_CASE("every data-parallel rank reads micro-batches of its own, experts or not; Megatron-Bridge's divide them") {
  CHECK(read_mca("bias_activation_fusion: true\n").training->global_batch == 1 * 8 * 16 / (2 * 2));
  const LaunchJob bridge = read_mca("");
  CHECK(bridge.training->global_batch == 1 * 8 * 16 / (2 * 2 * 2));
  CHECK(tells(bridge, "USE_MCA=1"));
}

TEST_CASE("a script that asks for mcore_adapter decides which back end reads the file") {
  const Temporary file("job.yaml", kJob);
  for (const char* use : {"export USE_MCA=1\n", "USE_MCA=1 ", ""}) {
    const std::string start = "FORCE_TORCHRUN=1 NNODES=2 NPROC_PER_NODE=8 llamafactory-cli train " + file.path();
    const Temporary script("run.sh", "#!/bin/bash\n" + std::string(use) + start + "\n");
    const Result<LaunchJob> job = read_launch_files({script.path()});
    REQUIRE_MESSAGE(job, (job ? "" : job.error().front().message));
    CAPTURE(use);
    CHECK(job->training->global_batch == 1 * 8 * 16 / (2 * 2 * (*use == 0 ? 2 : 1)));
  }
}

TEST_CASE("a file that says how it is started is read as it is started") {
  const LaunchJob mca = read_mca("bias_activation_fusion: true\n"),
                  said = read_mca("# USE_MCA=1 llamafactory-cli train job.yaml\n");
  CHECK(said.training->global_batch == mca.training->global_batch);
  CHECK_FALSE(tells(said, "USE_MCA=1"));
}

TEST_CASE("full recomputation without a method is every layer's") {
  CHECK(*read_mca("recompute_granularity: full\n").fixed.recompute ==
        *read_mca("use_mca: true\nrecompute_granularity: full\nrecompute_method: uniform\nrecompute_num_layers: 1\n")
             .fixed.recompute);
}

TEST_CASE("additional_configs lie over the keys themselves") {
  const std::string plain = "recompute_granularity: selective\nrecompute_modules: core_attn,mlp\n";
  const std::string inner =
      "additional_configs:\n  recompute_granularity: selective\n  recompute_modules: [core_attn, mlp]\n";
  CHECK(*read_mca(plain).fixed.recompute == *read_mca(inner).fixed.recompute);
  CHECK(*read_mca("recompute_granularity: full\n" + inner).fixed.recompute == *read_mca(inner).fixed.recompute);
}

TEST_CASE("experts under tp split sequences, whatever the file says; no tp, no split") {
  CHECK(read_mca("use_mca: true\nsequence_parallel: false\n").fixed.sequence_parallel == true);
  std::string alone = kJob;
  alone.replace(alone.find("tensor_model_parallel_size: 2"), 29, "tensor_model_parallel_size: 1");
  const Temporary file("job.yaml", alone + "use_mca: true\nsequence_parallel: true\n");
  const Result<LaunchJob> job = read_launch_files({file.path()});
  REQUIRE(job);
  CHECK(job->fixed.sequence_parallel == false);
}

TEST_CASE("keys of mcore_adapter are read or named") {
  const LaunchJob plain = read_mca("use_mca: true\n");
  CHECK(read_mca("expert_tensor_parallel_size: 1\n").fixed.etp == 1);
  CHECK(read_mca("pipeline_model_parallel_layout: 'E,t*20|t*28,L'\n").fixed.chunk_layers == std::vector<int>{20, 28});
  for (const std::string key :
       {"moe_layer_recompute: true", "stage: dpo", "mtp_num_layers: 1", "offload_weights: true"})
    CHECK_MESSAGE(tells(read_mca("use_mca: true\n" + key + "\n"), key.substr(0, key.find(':'))), key);
  CHECK(plain.training->task == Task::FullFinetune);
}

}  // namespace plan
