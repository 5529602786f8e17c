// Batches, sequences and recomputation under the words of the tools around Megatron-LM.
#include <doctest/doctest.h>

#include <algorithm>

#include "cli/launch/launch.hpp"
#include "launch/temporary.hpp"

namespace plan {
namespace {

LaunchJob read(const char* name, const std::string& text) {
  const Temporary file(name, text);
  const Result<LaunchJob> job = read_launch_files({file.path()});
  REQUIRE_MESSAGE(job, (job ? "" : job.error().front().message));
  return *job;
}

const std::string kVerl =
    "#!/bin/bash\npython3 -m verl.trainer.main_ppo --config-name=ppo_megatron_trainer.yaml trainer.nnodes=2 "
    "trainer.n_gpus_per_node=8 actor_rollout_ref.model.path=meta-llama/Meta-Llama-3-8B "
    "actor_rollout_ref.actor.megatron.tensor_model_parallel_size=4 data.train_batch_size=512 "
    "actor_rollout_ref.actor.ppo_mini_batch_size=128 actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=2 "
    "data.max_prompt_length=1024 data.max_response_length=3072 ";

}  // namespace

TEST_CASE("verl's step is a mini-batch of prompts times their responses, its sequence a prompt with one") {
  const LaunchJob plain = read("a.sh", kVerl);
  CHECK(plain.training->global_batch == 128);
  CHECK(plain.training->seq == 4096);
  const LaunchJob grouped = read("a.sh", kVerl + "actor_rollout_ref.rollout.n=5\n");
  CHECK(grouped.training->global_batch == 640);
}

TEST_CASE("what verl clears off the GPU between updates is counted on it, and told") {
  const LaunchJob job = read("a.sh", kVerl + "actor_rollout_ref.actor.megatron.param_offload=True\n");
  CHECK(!job.training->offload.any());
  CHECK(std::any_of(job.notes.begin(), job.notes.end(), [](const Note& note) {
    return note.code == "keys_not_read" && note.text.find("param_offload") != std::string::npos;
  }));
}

TEST_CASE("verl's hybrid optimizer is offloaded") {
  const std::string optimizer = "++actor_rollout_ref.actor.optim.override_optimizer_config.";
  const LaunchJob job =
      read("a.sh", kVerl + optimizer + "optimizer_cpu_offload=True " + optimizer + "optimizer_offload_fraction=0.5 " +
                       optimizer + "use_precision_aware_optimizer=True\n");
  CHECK(job.training->offload.optimizer == 0.5);
}

TEST_CASE("NeMo-RL's recomputation is switched apart from its granularity") {
  const std::string start =
      "policy:\n  model_name: meta-llama/Meta-Llama-3-8B\n  train_global_batch_size: 64\n"
      "  max_total_sequence_length: 4096\n  megatron_cfg:\n    enabled: true\n"
      "    tensor_model_parallel_size: 4\n    recompute_granularity: full\n    activation_checkpointing: ";
  const std::string end = "\ncluster:\n  num_nodes: 2\n  gpus_per_node: 8\n";
  CHECK(read("a.yaml", start + "false" + end).fixed.recompute == Recompute{});
  CHECK(read("a.yaml", start + "true" + end).fixed.recompute == Recompute{.kind = RecomputeKind::Full});
}

TEST_CASE("ms-swift recomputes attention's core unless told otherwise") {
  const std::string start =
      "#!/bin/bash\nexport NNODES=1 NPROC_PER_NODE=8\nmegatron sft --model meta-llama/Meta-Llama-3-8B "
      "--tensor_model_parallel_size 2 --global_batch_size 64 --max_length 4096";
  CHECK(read("a.sh", start + "\n").fixed.recompute->kind == RecomputeKind::Selective);
  CHECK(read("a.sh", start + " --recompute_granularity none\n").fixed.recompute == Recompute{});
}

TEST_CASE("what LLaMA-Factory hands to Megatron-Bridge unread is read") {
  const LaunchJob job = read("a.yaml",
                             "model_name_or_path: Qwen/Qwen3-30B-A3B\nfinetuning_type: full\n"
                             "tensor_model_parallel_size: 1\npipeline_model_parallel_size: 1\n"
                             "expert_model_parallel_size: 4\nper_device_train_batch_size: 2\ncutoff_len: 4096\n"
                             "gradient_accumulation_steps: 16\nrecompute_granularity: selective\n"
                             "extra_config: '{\"model.recompute_modules\": [\"core_attn\", \"moe\"]}'\n");
  CHECK(job.fixed.recompute ==
        Recompute{.kind = RecomputeKind::Selective, .modules = kRecomputeCoreAttention | kRecomputeMoe});
}

TEST_CASE("ms-swift's model is the one that Megatron's weights are named by, where none is") {
  const std::string command =
      "NPROC_PER_NODE=8 megatron sft --micro_batch_size 1 --global_batch_size 64 --max_length 4096 ";
  for (const char* weights :
       {"--load /data/Qwen3-8B-mcore", "--mcore_model Qwen3-8B-mcore", "--model Qwen/Qwen3-8B --load x"}) {
    CAPTURE(weights);
    const LaunchJob job = read("a.sh", command + weights + "\n");
    REQUIRE(job.model);
    CHECK(job.model->depth() == 36);
  }
  CHECK(!read("a.sh", command + "--load /data/out/checkpoint-100\n").model);
}

}  // namespace plan
