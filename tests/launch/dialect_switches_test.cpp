// Settings of tools around Megatron-LM and FSDP beside their layouts: each that changes memory or time is honoured or
// named in the first lines, and what is said not to be read changes nothing.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <string>
#include <vector>

#include "small_files.hpp"

namespace plan {

using namespace launching;

namespace {

const std::string kVerl =
    "python3 -m verl.trainer.main_ppo actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct data.max_prompt_length=512 "
    "data.max_response_length=1024 actor_rollout_ref.actor.ppo_mini_batch_size=256 "
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4 trainer.n_gpus_per_node=8 trainer.nnodes=2";
const std::string kVerlMegatron =
    "python3 -m verl.trainer.main_ppo --config-name=ppo_megatron_trainer actor_rollout_ref.actor.strategy=megatron "
    "actor_rollout_ref.model.path=Qwen/Qwen3-8B data.max_prompt_length=512 data.max_response_length=1024 "
    "actor_rollout_ref.actor.ppo_mini_batch_size=256 actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4 "
    "actor_rollout_ref.actor.megatron.tensor_model_parallel_size=2 trainer.n_gpus_per_node=8 trainer.nnodes=2";
const std::string kNeox =
    "{\"pipe_parallel_size\": 1, \"model_parallel_size\": 2, \"num_layers\": 12, \"hidden_size\": 768,\n"
    "\"num_attention_heads\": 12, \"seq_length\": 2048, \"max_position_embeddings\": 2048, \"pos_emb\": \"rotary\",\n"
    "\"optimizer\": {\"type\": \"Adam\"}, \"zero_optimization\": {\"stage\": 1},\n"
    "\"train_micro_batch_size_per_gpu\": 4, \"precision\": \"bfloat16\"}\n";
const std::string kNemo =
    "trainer:\n  num_nodes: 2\n  devices: 8\n  precision: bf16\nexp_manager:\n  name: x\nmodel:\n"
    "  micro_batch_size: 2\n  global_batch_size: 64\n  tensor_model_parallel_size: 2\n  encoder_seq_length: 4096\n"
    "  num_layers: 32\n  hidden_size: 4096\n  ffn_hidden_size: 11008\n  num_attention_heads: 32\n"
    "  activation: fast-swiglu\n  bias: false\n  tokenizer:\n    model: meta-llama/Llama-2-7b-hf\n  optim:\n"
    "    name: distributed_fused_adam\n";
const std::string kNemoRl =
    "policy:\n  model_name: Qwen/Qwen3-8B\n  train_global_batch_size: 512\n  train_micro_batch_size: 1\n"
    "  max_total_sequence_length: 4096\n  precision: bfloat16\n  dtensor_cfg:\n    enabled: false\n  megatron_cfg:\n"
    "    enabled: true\n    tensor_model_parallel_size: 2\n    pipeline_model_parallel_size: 1\n"
    "cluster:\n  gpus_per_node: 8\n  num_nodes: 2\n";
const std::string kSwift =
    "NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --train_type lora --lora_rank 8 --dataset x "
    "--tensor_model_parallel_size 2 --micro_batch_size 2 --global_batch_size 64 --max_length 2048";

struct Sample {
  std::string name, text;
};

LaunchJob read_sample(const Sample& sample) { return job_of(sample.name, sample.text + "\n", on(16)); }

/// What the answer names beside what it names without the change.
std::size_t told(const Sample& sample, const std::string& text) {
  return read_sample({sample.name, text}).unused.size() - read_sample(sample).unused.size();
}

}  // namespace

TEST_CASE("settings that are counted in one way only are named, in every tool's words") {
  const std::string actor = " actor_rollout_ref.actor.", model = " actor_rollout_ref.model.";
  const Sample verl{"verl.sh", kVerl}, megatron{"megatron.sh", kVerlMegatron}, swift{"swift.sh", kSwift};
  for (const std::string& word :
       {model + "enable_activation_offload=True", model + "tiled_mlp.enabled=True", actor + "fsdp_config.dtype=float16",
        actor + "strategy=veomni", actor + "fsdp_config.entropy_checkpointing=True", actor + "optim.optimizer=Lion"}) {
    CAPTURE(word);
    CHECK(told(verl, kVerl + word) == 1);
  }
  for (const std::string& word :
       {actor + "fsdp_config.param_offload=True", actor + "strategy=fsdp2", actor + "ppo_epochs=2",
        model + "tiled_mlp.enabled=False", actor + "fsdp_config.forward_prefetch=False"}) {
    CAPTURE(word);
    CHECK(told(verl, kVerl + word) == 0);
  }
  const std::string inner = actor + "megatron.override_transformer_config.";
  for (const std::string& word : {model + "use_fused_kernels=True", inner + "apply_rope_fusion=False",
                                  inner + "fp32_residual_connection=True", inner + "transformer_impl=local"}) {
    CAPTURE(word);
    CHECK(told(megatron, kVerlMegatron + word) == 1);
  }
  CHECK(told(megatron, kVerlMegatron + inner + "apply_rope_fusion=True") == 0);
  for (const char* word :
       {" --modules_to_save lm_head", " --grad_reduce_in_bf16 true", " --delay_wgrad_compute true",
        " --freeze_vit false", " --target_modules q_proj", " --fp16 true", " --trainable_parameters lm_head"}) {
    CAPTURE(word);
    CHECK(told(swift, kSwift + word) == 1);
  }
  const Sample nemo{"nemo.yaml", kNemo}, rl{"rl.yaml", kNemoRl};
  for (const char* line : {"  use_flash_attention: false\n", "  megatron_amp_O2: false\n",
                           "  transformer_engine: false\n", "  attention_type: hyena\n"})
    CHECK(told(nemo, replaced(kNemo, "  bias: false\n", std::string("  bias: false\n") + line)) == 1);
  CHECK(told(nemo, replaced(kNemo, "distributed_fused_adam", "adafactor")) == 1);
  for (const char* line : {"    defer_fp32_logits: true\n", "    use_linear_ce_fusion_loss: true\n",
                           "    empty_unused_memory_level: 1\n", "    apply_rope_fusion: false\n"})
    CHECK(told(rl, replaced(kNemoRl, "    enabled: true\n", std::string("    enabled: true\n") + line)) == 1);
}

TEST_CASE("ms-swift's adapters of the language model alone leave its other parts trained, which is told") {
  const auto with = [](const std::string& tuner) {
    return job_of("swift.sh",
                  "NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-VL-8B-Instruct --dataset x --tuner_type " + tuner +
                      " --micro_batch_size 1 --global_batch_size 8 --max_length 2048\n");
  };
  CHECK(with("lora_llm").training->task == Task::Lora);
  CHECK(names(with("lora_llm").unused, "tuner_type"));
  CHECK_FALSE(names(with("lora").unused, "tuner_type"));
}

TEST_CASE("verl's FSDP: groups that share weights, what is gathered twice, and the weights that are stepped on") {
  const std::string config = " actor_rollout_ref.actor.fsdp_config.";
  const auto job = [](const std::string& more) { return read_sample({"verl.sh", kVerl + more}); };
  CHECK(job("").fixed.shard == 0);
  CHECK(job("").fixed.zero == 3);
  CHECK(job("").training->master_bytes == 4);
  CHECK(job(config + "fsdp_size=8").fixed.shard == 8);
  CHECK(job(config + "fsdp_size=-1").fixed.shard == 0);
  CHECK(job(config + "fsdp_size=16").fixed.shard == 0);
  CHECK(error_of("verl.sh", kVerl + config + "fsdp_size=3\n", on(16)) != "");
  CHECK(job(config + "reshard_after_forward=False").fixed.zero == 2);
  CHECK(job(config + "model_dtype=bf16").training->master_bytes == 0);
  CHECK(job(config + "model_dtype=fp32").training->master_bytes == 4);
  CHECK(job(" actor_rollout_ref.actor.optim.optimizer=AdamW8bit").training->optimizer == Optimizer::Adam8bit);
  CHECK(job(" actor_rollout_ref.model.use_fused_kernels=True").training->stack.cross_entropy == CrossEntropy::Chunked);
  CHECK_FALSE(
      job(" +actor_rollout_ref.model.override_config.attn_implementation=eager").training->stack.flash_attention);
  const LaunchJob lora =
      job(" actor_rollout_ref.model.lora_rank=16 actor_rollout_ref.model.target_modules=[q_proj,v_proj]");
  CHECK(lora.training->lora.attention);
  CHECK_FALSE(lora.training->lora.ffn);
  CHECK(job(" actor_rollout_ref.model.lora_rank=16 actor_rollout_ref.model.target_modules=all-linear")
            .training->lora.ffn);
}

TEST_CASE("NeMo-RL's fp8 and sequence parallelism count where they are switched on") {
  const std::string fp8 =
      "    enabled: true\n    fp8_cfg:\n      enabled: true\n      fp8: hybrid\n      fp8_recipe: tensorwise\n";
  CHECK(read_sample({"rl.yaml", replaced(kNemoRl, "    enabled: true\n", fp8)}).training->precision ==
        Precision::Fp8Tensorwise);
  CHECK(read_sample({"rl.yaml", replaced(replaced(kNemoRl, "    enabled: true\n", fp8), "      enabled: true\n",
                                         "      enabled: false\n")})
            .training->precision == Precision::Bf16);
  std::string tensors = replaced(kNemoRl, "    enabled: false\n",
                                 "    enabled: true\n    tensor_parallel_size: 2\n    sequence_parallel: true\n");
  tensors = replaced(tensors, "  megatron_cfg:\n    enabled: true\n", "  megatron_cfg:\n    enabled: false\n");
  CHECK(read_sample({"rl.yaml", tensors}).fixed.sequence_parallel == true);
  CHECK(read_sample({"rl.yaml", replaced(tensors, "sequence_parallel: true", "sequence_parallel: false")})
            .fixed.sequence_parallel == false);
}

TEST_CASE("GPT-NeoX's attention is PyTorch's own unless it is said to be flash, and its optimizer is what is named") {
  const auto with = [](const std::string& more) {
    return read_sample({"neox.yml", replaced(kNeox, "\"precision\"", more + ", \"precision\"")});
  };
  CHECK_FALSE(read_sample({"neox.yml", kNeox}).training->stack.flash_attention);
  CHECK(with("\"attention_config\": [[[\"flash\"], 12]]").training->stack.flash_attention);
  CHECK_FALSE(with("\"attention_config\": [[[\"global\"], 12]]").training->stack.flash_attention);
  CHECK(names(with("\"attention_config\": [[[\"local\"], 12]]").unused, "attention_config"));
  CHECK(names(with("\"attention_config\": [[[\"flash\", \"global\"], 6]]").unused, "attention_config"));
  CHECK(with("\"mlp_type\": \"llama\"").model->kinds[0].dense.gated);
  CHECK_FALSE(with("\"use_bias_in_attn_linear\": false, \"use_bias_in_mlp\": false").model->kinds[0].dense.bias);
  CHECK(with("\"moe_num_experts\": 8").model->kinds.back().moe.top_k == 1);
  CHECK(with("\"moe_num_experts\": 8, \"moe_top_k\": 2").model->kinds.back().moe.top_k == 2);
  for (const char* word :
       {"\"gpt_j_residual\": true", "\"fp32_allreduce\": true", "\"sliding_window_width\": 64",
        "\"soft_prompt_tuning\": {\"enabled\": true}", "\"train_impl\": \"dpo\"",
        "\"pipe_partition_method\": \"uniform\"", "\"data_types\": {\"grad_accum_dtype\": \"fp32\"}"}) {
    CAPTURE(word);
    CHECK(with(word).unused.size() == 1);
  }
  for (const char* word : {"\"gpt_j_residual\": false", "\"output_layer_parallelism\": \"column\"",
                           "\"partition_activations\": false", "\"train_impl\": \"normal\""}) {
    CAPTURE(word);
    CHECK(with(word).unused.empty());
  }
  const auto optimizer = [](const std::string& word) {
    return read_sample({"neox.yml", replaced(kNeox, "\"Adam\"", word)});
  };
  CHECK(optimizer("\"sgd\"").training->optimizer == Optimizer::SgdMomentum);
  CHECK(names(optimizer("\"Lion\"").unused, "lion"));
  CHECK(names(read_sample({"neox.yml", replaced(kNeox, "\"stage\": 1",
                                                "\"stage\": 1, \"offload_optimizer\": {\"device\": "
                                                "\"cpu\"}")})
                  .unused,
              "offload_optimizer"));
}

TEST_CASE("which of verl's trainers for fine-tuning starts is the command's to say, and no remark's") {
  const auto script = [](const std::string& program, const std::string& more) {
    return fmt::format(
        "{}\ntorchrun --nproc_per_node=8 -m verl.trainer.{} model.partial_pretrain=Qwen/Qwen2.5-7B "
        "data.max_length=2048 data.train_batch_size=256 data.micro_batch_size_per_gpu=2\n",
        more, program);
  };
  const auto micro = [&](const std::string& program, const std::string& more) {
    return job_of("s.sh", script(program, more)).fixed.micro_batch.value_or(0);
  };
  for (const char* remark : {"", "# newer: python -m verl.trainer.sft_trainer", "# unlike megatron",
                             "pkill -f verl.trainer.sft_trainer", "echo verl/trainer/sft_trainer"}) {
    CAPTURE(remark);
    CHECK(micro("fsdp_sft_trainer", remark) == 2);
    CHECK(micro("sft_trainer", remark) == 4);
  }
  // A size of micro-batches that the later one passes over is told, by its key.
  CHECK(names(job_of("s.sh", script("sft_trainer", "")).unused, "data.micro_batch_size_per_gpu"));
  CHECK_FALSE(names(job_of("s.sh", script("fsdp_sft_trainer", "")).unused, "data.micro_batch_size_per_gpu"));
}

}  // namespace plan
