// llm-foundry's YAML and ms-swift's, read to what their own programs make of them.
#include <doctest/doctest.h>

#include <algorithm>

#include "formulas/parameters.hpp"
#include "small_files.hpp"

namespace plan {

using namespace launching;

namespace {

const std::string kFoundry =
    "variables:\n  max_seq_len: 2048\n  global_seed: 17\nmax_seq_len: ${variables.max_seq_len}\nmodel:\n"
    "  name: mpt_causal_lm\n  d_model: 4096\n  n_heads: 32\n  n_layers: 32\n  expansion_ratio: 4\n"
    "  max_seq_len: ${variables.max_seq_len}\n  no_bias: true\n  vocab_size: 50368\n  attn_config:\n"
    "    attn_impl: flash\n    alibi: true\ntokenizer:\n  name: EleutherAI/gpt-neox-20b\ntrain_loader:\n  name: text\n"
    "  dataset:\n    max_seq_len: ${variables.max_seq_len}\noptimizer:\n  name: decoupled_adamw\n  lr: 1.2e-4\n"
    "max_duration: 63900ba\nglobal_train_batch_size: 1024\ndevice_train_microbatch_size: 8\nprecision: amp_bf16\n"
    "fsdp_config:\n  sharding_strategy: FULL_SHARD\n  mixed_precision: PURE\n  activation_checkpointing: true\n"
    "  limit_all_gathers: true\n";

/// MPT-7B by its card: 6.7 billion parameters without positions of its own.
constexpr std::int64_t kMpt7b = 32LL * (12 * 4096LL * 4096 + 2 * 4096) + 4096 + 50368LL * 4096;

std::string indented(const std::string& text) {
  std::string out = "  ";
  for (const char c : text) out += c == '\n' ? "\n  " : std::string(1, c);
  return out.substr(0, out.size() - 2);
}

}  // namespace

TEST_CASE("llm-foundry's YAML states its model by sizes, batches and sharding") {
  const LaunchJob job = job_of("mpt.yaml", kFoundry, on(64));
  CHECK(job.format == "llm-foundry");
  REQUIRE(job.model);
  CHECK(model_parameters(*job.model).total == kMpt7b);
  CHECK(job.training->seq == 2048);
  CHECK(job.training->global_batch == 1024);
  CHECK(job.training->precision == Precision::Bf16);
  CHECK(job.training->task == Task::Pretrain);
  CHECK(job.fixed.micro_batch == 8);
  CHECK(job.fixed.zero == 3);
  CHECK(job.fixed.recompute->kind == RecomputeKind::Full);
  CHECK(job.unused.empty());

  const auto with = [](const char* from, const char* to) {
    return job_of("m.yaml", replaced(kFoundry, from, to), on(64));
  };
  CHECK(with("FULL_SHARD", "SHARD_GRAD_OP").fixed.zero == 2);
  CHECK(with("activation_checkpointing: true", "activation_checkpointing: false").fixed.recompute->kind ==
        RecomputeKind::None);
  CHECK(with("decoupled_adamw", "decoupled_lionw").training->optimizer == Optimizer::SgdMomentum);
  CHECK(names(with("decoupled_adamw", "sophia").unused, "sophia"));
  CHECK(guesses(with("microbatch_size: 8", "microbatch_size: auto"), "micro_batch"));
  CHECK(names(with("mixed_precision: PURE", "mixed_precision: FULL").unused, "FULL"));
  CHECK(names(with("  limit_all", "  activation_cpu_offload: true\n  limit_all").unused, "host"));
  CHECK(error_of("m.yaml", replaced(kFoundry, "precision: amp", "tp_parallel_degree: 4\nprecision: amp"), on(64)) ==
        "degree_not_read");
  CHECK(error_of("m.yaml", replaced(kFoundry, "amp_bf16", "bf17"), on(64)) == "wrong_value");
  CHECK(error_of("m.yaml", replaced(kFoundry, "FULL_SHARD", "SOME_SHARD"), on(64)) == "wrong_value");
}

TEST_CASE("a cloud job of llm-foundry's has the trainer's keys under its parameters, and its GPUs") {
  const std::string text = "name: x\ncompute:\n  gpus: 16\ncommand: composer train.py\nparameters:\n" +
                           indented(replaced(replaced(kFoundry, "name: text", "name: finetuning"),
                                             "  d_model: 4096\n  n_heads: 32\n  n_layers: 32\n  expansion_ratio: 4\n",
                                             "  pretrained_model_name_or_path: meta-llama/Meta-Llama-3-8B\n"));
  const LaunchJob job = job_of("job.yaml", text);
  CHECK(job.gpus == 16);
  REQUIRE(job.model);
  CHECK(job.model->name == "llama3-8b");
  CHECK(job.training->task == Task::FullFinetune);
  CHECK(job.training->seq == 2048);
}

TEST_CASE("ms-swift's flags may stand in a YAML file, for Megatron and for the Trainer") {
  const std::string megatron =
      "model: Qwen/Qwen3-8B\ntuner_type: lora\nlora_rank: 32\ndataset:\n  - x\nmax_length: 2048\nmicro_batch_size: 1\n"
      "global_batch_size: 16\ntensor_model_parallel_size: 2\n";
  const Files files;
  files.folder.write("sft.yaml", megatron);
  for (const LaunchJob& job :
       {job_of("alone.yaml", megatron, on(8)),
        *files.read("run.sh", "#!/bin/bash\nNPROC_PER_NODE=8 megatron sft \\\n    sft.yaml\n")}) {
    CHECK(job.format == "ms-swift");
    CHECK(job.fixed.tp == 2);
    CHECK(job.training->global_batch == 16);
    CHECK(job.training->lora.rank == 32);
  }
  const Result<LaunchJob> over =
      files.read("over.sh", "#!/bin/bash\nNPROC_PER_NODE=8 megatron sft sft.yaml --tensor_model_parallel_size 4\n");
  REQUIRE_MESSAGE(over, (over ? "" : over.error().front().message));
  CHECK(over->fixed.tp == 4);
  CHECK(error_of("gone.sh", "#!/bin/bash\nNPROC_PER_NODE=8 megatron sft gone.yaml\n") == "missing_file");

  const std::string trainer =
      "model: Qwen/Qwen2.5-7B-Instruct\ntorch_dtype: bfloat16\ntuner_type: lora\nlora_rank: 16\nmax_length: 2048\n"
      "per_device_train_batch_size: 2\ngradient_accumulation_steps: 8\ndeepspeed: zero2\n";
  files.folder.write("t.yaml", trainer);
  for (const LaunchJob& job : {job_of("t.yaml", trainer, on(8)),
                               *files.read("t.sh", "#!/bin/bash\nNPROC_PER_NODE=8 swift sft t.yaml\n", on(8))}) {
    REQUIRE(job.model);
    CHECK(job.fixed.zero == 2);
    CHECK(job.fixed.micro_batch == 2);
    CHECK(job.training->task == Task::Lora);
    CHECK(job.training->lora.rank == 16);
    CHECK(job.training->seq == 2048);
  }
  CHECK(error_of("no.sh", "#!/bin/bash\nNPROC_PER_NODE=8 swift sft gone.yaml\n", on(8)) == "missing_file");
}

TEST_CASE("of ms-swift's roles the one that is trained counts, and a degree of another section is refused") {
  const std::string shared =
      "rlhf_type: gkd\nmodel: Qwen/Qwen3-8B\ndataset: x\nmax_length: 2048\nmicro_batch_size: 2\nglobal_batch_size: "
      "16\n";
  const LaunchJob job =
      job_of("ray.yaml", shared +
                             "train:\n  gpus: 4\n  tuner_type: lora\n  lora_rank: 8\n  micro_batch_size: 1\n"
                             "  tensor_model_parallel_size: 2\nrollout:\n  gpus: 4\n"
                             "  vllm_tensor_parallel_size: 1\n");
  CHECK(job.gpus == 4);
  CHECK(job.fixed.tp == 2);
  CHECK(job.fixed.micro_batch == 1);
  CHECK(job.training->lora.rank == 8);
  CHECK(error_of("other.yaml", shared + "model_args:\n  tensor_model_parallel_size: 2\n", on(8)) == "degree_not_read");
}

}  // namespace plan
