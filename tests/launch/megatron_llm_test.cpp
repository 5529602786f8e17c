// epfLLM's Megatron-LLM takes Megatron-LM's flags with underscores, and some of its own.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <string>
#include <vector>

#include "small_files.hpp"

namespace plan {

using namespace launching;

namespace {

const std::string kLlama =
    "#!/bin/bash\nDIST=\"--nproc_per_node 8 --nnodes 2 --node_rank 0 --master_addr localhost\"\n"
    "MODEL=\"--num_layers 32 --hidden_size 4096 --num_attention_heads 32 --ffn_hidden_size 11008 --use_rms_norm "
    "--glu_activation swiglu --no_tie_embed_logits --position_embedding_type rotary --vocab_size 32000\"\n"
    "torchrun $DIST finetune.py --model_name=llama2 --tensor_model_parallel_size 4 --pipeline_model_parallel_size=2 "
    "--micro_batch_size 1 --global_batch_size=64 --seq_length 4_096 --max_position_embeddings 4096 --bf16 "
    "--sequence_parallel --recompute_granularity selective --train_iters 10 --data_path a_b --lr 1e-4 $MODEL\n";

}  // namespace

TEST_CASE("Megatron-LLM's flags with underscores are Megatron-LM's with hyphens") {
  const LaunchJob job = job_of("run.sh", kLlama);
  CHECK(job.format == "megatron-lm");
  CHECK(job.fixed.tp == 4);
  CHECK(job.fixed.pp == 2);
  CHECK(job.fixed.micro_batch == 1);
  CHECK(job.training->global_batch == 64);
  CHECK(job.training->seq == 4096);
  CHECK(job.fixed.recompute->kind == RecomputeKind::Selective);
  REQUIRE(job.model);
  const Layer& layer = job.model->kinds.front();
  CHECK(layer.dense.gated);
  CHECK(layer.dense.width == 11008);
  CHECK_FALSE(layer.dense.bias);
  CHECK_FALSE(job.model->tied);
  CHECK(job.model->norm == Norm::Rms);
  CHECK(job.model->positions == 0);
  CHECK_FALSE(names(job.notes, "unknown"));
}

TEST_CASE("Megatron-LLM's own words make the model that its parser makes of them") {
  const LaunchJob wide = job_of("run.sh", replaced(kLlama, "--ffn_hidden_size 11008 ", ""));
  CHECK(wide.model->kinds.front().dense.width == 4 * 4096);  // no two thirds for a gated layer
  CHECK_FALSE(job_of("run.sh", replaced(kLlama, "swiglu", "mine")).model->kinds.front().dense.gated);
  CHECK(job_of("run.sh", replaced(kLlama, "--bf16", "--bf16 --use_bias")).model->kinds.front().dense.bias);
  CHECK_FALSE(job_of("run.sh", replaced(kLlama, "--use_rms_norm ", "")).model->norm == Norm::Rms);
  CHECK(job_of("run.sh", replaced(kLlama, "rotary", "absolute")).model->positions == 4096);
  const LaunchJob grouped = job_of("run.sh", replaced(kLlama, "--bf16", "--bf16 --num_attention_heads_kv 8"));
  CHECK(grouped.model->kinds.front().attention.kv_heads == 8);
  CHECK(names(job_of("run.sh", replaced(kLlama, "--bf16", "--bf16 --parallel_attn")).unused, "parallel-attn"));
}

TEST_CASE("what Megatron-LLM's program would stop at is refused") {
  CHECK(error_of("run.sh", replaced(kLlama, "--num_layers", "--num-layers")) == "unknown_flag");
  CHECK(error_of("run.sh", replaced(kLlama, "--bf16", "--bf16 --eval_only")) == "not_a_training");
}

}  // namespace plan
