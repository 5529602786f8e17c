// Batches, sequences and recomputation under the words of the tools around Megatron-LM.
#include <doctest/doctest.h>

#include <algorithm>

#include "cli/launch/launch.hpp"
#include "launch/temporary.hpp"

namespace plan {
namespace {

LaunchJob read_named(const char* name, const std::string& text) {
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
  const LaunchJob plain = read_named("a.sh", kVerl);
  CHECK(plain.training->global_batch == 128);
  CHECK(plain.training->seq == 4096);
  const LaunchJob grouped = read_named("a.sh", kVerl + "actor_rollout_ref.rollout.n=5\n");
  CHECK(grouped.training->global_batch == 640);
}

TEST_CASE("what verl clears off the GPU between updates is counted on it, and told") {
  const LaunchJob job = read_named("a.sh", kVerl + "actor_rollout_ref.actor.megatron.param_offload=True\n");
  CHECK(!job.training->offload.any());
  CHECK(std::any_of(job.notes.begin(), job.notes.end(), [](const Note& note) {
    return note.code == "keys_not_read" && note.text.find("param_offload") != std::string::npos;
  }));
}

TEST_CASE("the models that verl keeps beside the actor are told, under Megatron and under FSDP") {
  const auto told = [](const LaunchJob& job, const char* word) {
    return std::any_of(job.unused.begin(), job.unused.end(),
                       [&](const Note& note) { return note.text.find(word) != std::string::npos; });
  };
  const std::string fsdp =
      "#!/bin/bash\npython3 -m verl.trainer.main_ppo trainer.nnodes=2 trainer.n_gpus_per_node=8 "
      "actor_rollout_ref.model.path=meta-llama/Meta-Llama-3-8B data.train_batch_size=512 "
      "actor_rollout_ref.actor.ppo_mini_batch_size=128 actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=2 "
      "data.max_prompt_length=1024 data.max_response_length=3072 ";
  for (const std::string& start : {kVerl, fsdp}) {
    CAPTURE(start);
    const LaunchJob plain =
        read_named("a.sh", start + "algorithm.adv_estimator=grpo algorithm.use_kl_in_reward=False " +
                               "actor_rollout_ref.actor.use_kl_loss=False\n");
    CHECK_FALSE(told(plain, "beside the trained"));
    for (const char* word : {"actor_rollout_ref.actor.use_kl_loss=True", "algorithm.use_kl_in_reward=True"}) {
      const LaunchJob job = read_named("a.sh", start + "algorithm.adv_estimator=grpo " + word + "\n");
      CHECK(told(job, "the reference model beside"));
      CHECK_FALSE(told(job, "critic beside"));
    }
    CHECK(told(read_named("a.sh", start + "algorithm.adv_estimator=gae\n"), "critic beside"));
  }
  CHECK(told(read_named("a.sh", kVerl + "algorithm.adv_estimator=grpo critic.enable=True\n"), "critic beside"));
  CHECK_FALSE(told(read_named("a.sh", kVerl + "algorithm.adv_estimator=gae critic.enable=False\n"), "critic beside"));
}

TEST_CASE("a model is known by its name where only a machine knows the folder above it") {
  const auto model_of = [](const std::string& path) {
    std::string text = kVerl;
    const std::string name = "meta-llama/Meta-Llama-3-8B";
    text.replace(text.find(name), name.size(), path);
    const Temporary file("a.sh", text + "\n");
    const Result<LaunchJob> job = read_launch_files({file.path()});
    return job && job->model ? job->model->name : std::string();
  };
  CHECK(model_of("$MODELS/Meta-Llama-3-8B") == "llama3-8b");
  CHECK(model_of("\"${MODELS}/hub/meta-llama/Meta-Llama-3-8B/\"") == "llama3-8b");
  CHECK(model_of("$MODELS/$NAME") != "llama3-8b");
  CHECK(model_of("Meta-Llama-3-8B/$STEP") != "llama3-8b");
}

TEST_CASE("values of MODEL_ARGS that keep a shell's quotes are read without them") {
  const auto layers_with_experts = [](const std::string& pattern) {
    const LaunchJob job = read_named(
        "a.yaml",
        "MODEL_ARGS:\n  --num-layers: 4\n  --hidden-size: 1024\n  --num-attention-heads: 8\n  --seq-length: 1024\n"
        "  --max-position-embeddings: 1024\n  --micro-batch-size: 1\n  --global-batch-size: 8\n  --vocab-size: 32000\n"
        "  --eval-interval: 10\n  --bf16: true\n  --num-experts: 8\n  --moe-router-topk: 2\n  --moe-layer-freq: " +
            pattern + "\n");
    REQUIRE(job.model);
    return std::count_if(job.model->layers.begin(), job.model->layers.end(),
                         [&](int kind) { return job.model->kinds[static_cast<std::size_t>(kind)].ffn == Ffn::Moe; });
  };
  CHECK(layers_with_experts("\"'([0]*1+[1]*3)'\"") == 3);
  CHECK(layers_with_experts("'\"([0]*1+[1]*3)\"'") == 3);
  CHECK(layers_with_experts("\"([0]*2+[1]*2)\"") == 2);
  CHECK(layers_with_experts("([0]*2+[1]*2)") == 2);
}

TEST_CASE("verl's hybrid optimizer is offloaded") {
  const std::string optimizer = "++actor_rollout_ref.actor.optim.override_optimizer_config.";
  const LaunchJob job =
      read_named("a.sh", kVerl + optimizer + "optimizer_cpu_offload=True " + optimizer +
                             "optimizer_offload_fraction=0.5 " + optimizer + "use_precision_aware_optimizer=True\n");
  CHECK(job.training->offload.optimizer == 0.5);
}

TEST_CASE("NeMo-RL's recomputation is switched apart from its granularity") {
  const std::string start =
      "policy:\n  model_name: meta-llama/Meta-Llama-3-8B\n  train_global_batch_size: 64\n"
      "  max_total_sequence_length: 4096\n  megatron_cfg:\n    enabled: true\n"
      "    tensor_model_parallel_size: 4\n    recompute_granularity: full\n    activation_checkpointing: ";
  const std::string end = "\ncluster:\n  num_nodes: 2\n  gpus_per_node: 8\n";
  CHECK(read_named("a.yaml", start + "false" + end).fixed.recompute == Recompute{});
  CHECK(read_named("a.yaml", start + "true" + end).fixed.recompute == Recompute{.kind = RecomputeKind::Full});
}

TEST_CASE("ms-swift recomputes attention's core unless told otherwise") {
  const std::string start =
      "#!/bin/bash\nexport NNODES=1 NPROC_PER_NODE=8\nmegatron sft --model meta-llama/Meta-Llama-3-8B "
      "--tensor_model_parallel_size 2 --global_batch_size 64 --max_length 4096";
  CHECK(read_named("a.sh", start + "\n").fixed.recompute->kind == RecomputeKind::Selective);
  CHECK(read_named("a.sh", start + " --recompute_granularity none\n").fixed.recompute == Recompute{});
}

TEST_CASE("what LLaMA-Factory hands to Megatron-Bridge unread is read") {
  const LaunchJob job = read_named("a.yaml",
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
    const LaunchJob job = read_named("a.sh", command + weights + "\n");
    REQUIRE(job.model);
    CHECK(job.model->depth() == 36);
  }
  CHECK(!read_named("a.sh", command + "--load /data/out/checkpoint-100\n").model);
}

}  // namespace plan
