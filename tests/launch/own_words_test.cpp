// Words that programs, forks and images have of their own for what others call differently: read, or told.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <string>
#include <utility>

#include "formulas/parameters.hpp"
#include "small_files.hpp"

namespace plan {

using namespace launching;

namespace {

LaunchJob trainer(const std::string& more) {
  return job_of("args.json",
                "{\"model_name_or_path\": \"meta-llama/Meta-Llama-3-8B\", \"per_device_train_batch_size\": 1, "
                "\"max_seq_length\": 1024, \"bf16\": true" +
                    more + "}",
                on(8));
}

std::string megatron(const std::string& more) {
  return "#!/bin/bash\ntorchrun --nproc_per_node 8 --nnodes 1 third_party/Megatron-LM/pretrain_gpt.py --num-layers 4 "
         "--hidden-size 512 --num-attention-heads 8 --seq-length 1024 --max-position-embeddings 1024 "
         "--micro-batch-size 1 --global-batch-size 64 --train-iters 5 --vocab-size 32000 --bf16 --eval-interval 5 " +
         more + "\n";
}

std::int64_t parameters_of(const std::string& more) {
  const LaunchJob job = job_of("run.sh", megatron(more));
  REQUIRE(job.model);
  return model_parameters(*job.model).total;
}

}  // namespace

TEST_CASE("a program's own key says how weights are trained, before a rank that is stated beside it") {
  for (const char* key : {"train_mode", "peft_type", "training_type", "tuning_method"}) {
    CAPTURE(key);
    for (const auto& [word, task] :
         {std::pair{"lora", Task::Lora}, {"qlora", Task::Qlora}, {"full", Task::FullFinetune}}) {
      const LaunchJob job = trainer(fmt::format(", \"{}\": \"{}\", \"lora_rank\": 64", key, word));
      CHECK(job.training->task == task);
      CHECK_FALSE(names(job.unused, "no switch says so"));
    }
  }
  for (const char* bits : {"\"quantization\": \"4bit\"", "\"load_in_kbits\": 4", "\"load_in_bits\": 4"})
    CHECK(trainer(fmt::format(", \"peft_type\": \"lora\", {}", bits)).training->task == Task::Qlora);
  for (const char* bits : {"\"quantization\": \"8bit\"", "\"quantization_bit\": 8", "\"load_in_kbits\": 8"})
    CHECK(names(trainer(fmt::format(", \"peft_type\": \"lora\", {}", bits)).unused, "8 bits"));
  CHECK_FALSE(names(trainer(", \"task_type\": \"pretrain\"").unused, "head of another task"));
  CHECK(names(trainer(", \"task_type\": \"SEQ_CLS\"").unused, "head of another task"));
}

TEST_CASE("a program named for adapters which states none is told, and one that states them is not") {
  const std::string run =
      "#!/bin/bash\ndeepspeed --num_gpus 8 train/{} --model_name_or_path meta-llama/Meta-Llama-3-8B "
      "--per_device_train_batch_size 1 --bf16 True --source_max_len 384 --target_max_len 128 {}\n";
  const auto job = [&](const char* program, const char* more) {
    return job_of("run.sh", fmt::format(fmt::runtime(run), program, more));
  };
  CHECK(names(job("train_lora.py", "").unused, "may train adapters"));
  CHECK(names(job("qlora.py", "").unused, "may train adapters"));
  CHECK_FALSE(names(job("train.py", "").unused, "may train adapters"));
  CHECK_FALSE(names(job("train_lora.py", "--lora_r 8").unused, "may train adapters"));
  CHECK(job("train.py", "").training->seq == 512);
}

TEST_CASE("steps of accumulation count where the size of a micro-batch is left open") {
  const LaunchJob job = job_of("ds.json",
                               "{\"zero_optimization\": {\"stage\": 2}, \"gradient_accumulation_steps\": 8, "
                               "\"train_micro_batch_size_per_gpu\": \"auto\", \"train_batch_size\": \"auto\"}",
                               on(64));
  CHECK(job.training->global_batch == 8 * 64);
  CHECK(guesses(job, "micro_batch"));
  CHECK(job.rank_batch->steps == 8);
}

TEST_CASE("a path into axolotl's image means the file that the image holds, and the answer says so") {
  const auto job = [](const char* path) {
    return job_of("config.yml",
                  fmt::format("base_model: meta-llama/Llama-3.1-8B\nsequence_len: 4096\nmicro_batch_size: 2\n"
                              "optimizer: adamw_torch\nbf16: true\ndeepspeed: {}\n",
                              path),
                  on(8));
  };
  for (const char* path : {"/workspace/axolotl/deepspeed_configs/zero3_bf16.json", "deepspeed_configs/zero3.json"}) {
    CHECK(job(path).fixed.zero == 3);
    CHECK(names(job(path).unused, "axolotl's own deepspeed_configs"));
  }
  CHECK(job("axolotl/deepspeed_configs/zero2.json").training->offload.optimizer > 0);
  for (const char* other : {"my_configs/zero3.json", "my_deepspeed_configs/zero3.json", "deepspeed_configs/zero9.json"})
    CHECK(error_of("config.yml",
                   fmt::format("base_model: meta-llama/Llama-3.1-8B\nsequence_len: 4096\nmicro_batch_size: 2\n"
                               "deepspeed: {}\n",
                               other),
                   on(8)) == "missing_file");
}

TEST_CASE("OLMo's experts are those of its keys, each as wide as half of what they state") {
  const std::string text =
      "model:\n  d_model: 2048\n  n_heads: 16\n  n_layers: 16\n  mlp_ratio: 1\n  weight_tying: false\n  rope: true\n"
      "  attention_layer_norm: true\n  include_bias: false\n  block_type: moe\n  layer_norm_type: rms\n"
      "  activation_type: swiglu\n  max_sequence_length: 4096\n  vocab_size: 50280\n  embedding_size: 50304\n"
      "  moe_num_experts: 64\n  moe_top_k: 8\n  moe_dropless: true\n  moe_mlp_impl: sparse\n  moe_loss_weight: 0.01\n"
      "global_train_batch_size: 1024\ndevice_train_microbatch_size: 4\nprecision: amp_bf16\n";
  const LaunchJob job = job_of("olmoe.yml", text, on(64));
  REQUIRE(job.model);
  const std::int64_t h = 2048, experts = 64 * 3 * h * 1024 + 64 * h, attention = 4 * h * h + 2 * h;
  CHECK(model_parameters(*job.model).total == 16 * (experts + attention + 2 * h) + h + 2 * 50304 * h);
  CHECK(job.unused.empty());
  // Eight experts of which two are taken, where nobody says: OLMo's own (olmo/config.py, moe_num_experts, moe_top_k).
  for (const auto& left_out : {std::pair{"  moe_top_k: 8\n", std::pair{64, 2}}, {"  moe_num_experts: 64\n", {8, 8}}}) {
    const LaunchJob usual = job_of("olmoe.yml", replaced(text, left_out.first, ""), on(64));
    REQUIRE(usual.model);
    CHECK(usual.model->kinds.back().moe.experts == left_out.second.first);
    CHECK(usual.model->kinds.back().moe.top_k == left_out.second.second);
  }
  // Not the layers of a preset: asked for.
  CHECK_FALSE(
      job_of("olmoe.yml", replaced(text, "  moe_top_k: 8\n", "  moe_top_k: 8\n  moe_shared_expert: true\n"), on(64))
          .model);
  CHECK(names(job_of("olmoe.yml", replaced(text, "moe_dropless: true", "moe_dropless: false"), on(64)).unused,
              "moe_dropless"));
}

TEST_CASE("sizes of a model that is not llm-foundry's make no MPT") {
  const std::string text =
      "max_seq_len: 2048\nmodel:\n  name: {}\n  d_model: 4096\n  n_heads: 32\n  n_layers: 32\n  vocab_size: 32000\n"
      "tokenizer:\n  name: x\ntrain_loader:\n  name: text\noptimizer:\n  name: decoupled_adamw\nmax_duration: "
      "10ba\nglobal_train_batch_size: 64\n"
      "device_train_microbatch_size: 8\nprecision: amp_bf16\nfsdp_config:\n  sharding_strategy: FULL_SHARD\n";
  const auto named = [&](const char* name) { return fmt::format(fmt::runtime(text), name); };
  CHECK(job_of("mpt.yaml", named("mpt_causal_lm"), on(8)).model);
  CHECK_FALSE(job_of("own.yaml", named("mosaic_llama2_7b"), on(8)).model);
  for (const char* other : {"hf_bert", "mosaic_bert", "hf_t5"})
    CHECK(error_of("other.yaml", named(other), on(8)) == "wrong_value");
}

TEST_CASE("flags of Megatron-LM's forks state the experts, norms and sharding that its own do") {
  CHECK(parameters_of("--moe-num-experts 8 --moe-top-k 2 --moe-loss-weight 0.1") ==
        parameters_of("--num-experts 8 --moe-router-topk 2"));
  CHECK(parameters_of("--moe-num-experts=8 --moe-top-k=2") > parameters_of("") * 2);
  CHECK(names(job_of("run.sh", megatron("--moe-num-experts 8 --moe-top-k 2 --moe-expert-model-parallelism")).unused,
              "data-parallel ranks"));
  CHECK(parameters_of("--RMSNorm") == parameters_of("--normalization RMSNorm"));
  CHECK(job_of("run.sh", megatron("--causal-lm --overlapped-distributed-optimizer")).fixed.zero == 1);
  // A shared expert of no width is none.
  const std::string experts = "--num-experts 8 --moe-router-topk 2";
  CHECK(parameters_of(experts + " --moe-shared-expert-intermediate-size 0") == parameters_of(experts));
}

TEST_CASE("verl trains a critic where no estimator is stated") {
  const std::string run =
      "#!/bin/bash\npython3 -m verl.trainer.main_ppo actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct "
      "data.train_batch_size=256 data.max_prompt_length=512 data.max_response_length=512 "
      "actor_rollout_ref.actor.ppo_mini_batch_size=64 actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4 "
      "trainer.n_gpus_per_node=8 trainer.nnodes=1 {}\n";
  const auto unused = [&](const char* more) { return job_of("run.sh", fmt::format(fmt::runtime(run), more)).unused; };
  for (const char* engine : {"", "actor_rollout_ref.actor.strategy=megatron "}) {
    const std::string before(engine);
    CHECK(names(unused((before + "critic.optim.lr=1e-5").c_str()), "critic"));
    CHECK_FALSE(names(unused((before + "critic.optim.lr=1e-5 algorithm.adv_estimator=grpo").c_str()), "critic"));
    CHECK_FALSE(names(unused((before + "critic.enable=False critic.optim.lr=1e-5").c_str()), "critic"));
  }
}

TEST_CASE("verl fills up what ranks that share a sequence leave of it") {
  const auto job = [](int prompt) {
    return job_of("run.sh",
                  fmt::format("#!/bin/bash\npython3 -m verl.trainer.main_ppo "
                              "actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct algorithm.adv_estimator=grpo "
                              "data.train_batch_size=256 data.max_prompt_length={} data.max_response_length=2000 "
                              "actor_rollout_ref.actor.ulysses_sequence_parallel_size=4 trainer.nnodes=1 "
                              "actor_rollout_ref.actor.ppo_mini_batch_size=64 trainer.n_gpus_per_node=8\n",
                              prompt));
  };
  CHECK(job(30767).training->seq == 32768);
  CHECK(names(job(30767).notes, "filled up"));
  CHECK(job(30768).training->seq == 32768);
  CHECK_FALSE(names(job(30768).notes, "filled up"));
}

TEST_CASE("NeMo's encoders and decoders are refused by the name of their experiment") {
  const std::string text =
      "name: {}\ntrainer:\n  devices: 8\n  num_nodes: 1\n  precision: bf16\nexp_manager:\n  name: ${{name}}\nmodel:\n"
      "  micro_batch_size: 4\n  global_batch_size: 64\n  tensor_model_parallel_size: 1\n"
      "  pipeline_model_parallel_size: 1\n  num_layers: 12\n  hidden_size: 768\n  num_attention_heads: 12\n"
      "  encoder_seq_length: 512\n  max_position_embeddings: 512\n";
  for (const char* name : {"megatron_bart", "AAYNBase", "megatron_t5", "megatron_bert"})
    CHECK(error_of("conf.yaml", fmt::format(fmt::runtime(text), name)) == "not_a_decoder");
}

}  // namespace plan
