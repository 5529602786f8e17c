// Keys of trainers with a configuration of their own that change memory or time beside the layout: each is honoured or
// named in the first lines, and none is passed over.
#include <doctest/doctest.h>

#include "planner/rules/stack_data.hpp"
#include "small_files.hpp"

namespace plan {

using namespace launching;

namespace {

const std::string kOlmo =
    "run_name: x\nmodel:\n  d_model: 1024\n  n_heads: 16\n  n_layers: 8\n  mlp_hidden_size: 8192\n"
    "  weight_tying: false\n  rope: true\n  include_bias: false\n  layer_norm_type: rms\n  activation_type: swiglu\n"
    "  residual_dropout: 0.0\n  max_sequence_length: 4096\n  vocab_size: 50280\n  embedding_size: 50304\n"
    "optimizer:\n  name: adamw\n  learning_rate: 3e-4\nfsdp:\n  wrapping_strategy: by_block\n  precision: mixed\n"
    "global_train_batch_size: 512\ndevice_train_microbatch_size: 4\nprecision: amp_bf16\n";

const std::string kOlmoCore =
    "{\"_CLASS_\": \"olmo_core.internal.experiment.ExperimentConfig\", \"launch\": {\"num_nodes\": 4, \"num_gpus\": "
    "8},\n"
    " \"model\": {\"d_model\": 1024, \"vocab_size\": 50304, \"n_layers\": 8, \"dtype\": \"float32\",\n"
    "   \"lm_head\": {\"loss_implementation\": \"default\"}, \"block\": {\n"
    "   \"sequence_mixer\": {\"n_heads\": 16}, \"feed_forward\": {\"hidden_size\": 4096}}},\n"
    " \"data_loader\": {\"global_batch_size\": 524288},\n"
    " \"train_module\": {\"rank_microbatch_size\": 8192, \"max_sequence_length\": 4096, \"compile_model\": true,\n"
    "   \"optim\": {\"_CLASS_\": \"olmo_core.optim.adamw.SkipStepAdamWConfig\", \"dtype\": \"float32\"},\n"
    "   \"dp_config\": {\"name\": \"fsdp\", \"param_dtype\": \"bfloat16\", \"wrapping_strategy\": \"blocks\"}}}\n";

const std::string kLitgpt =
    "model_name: x\nmodel_config:\n  block_size: 2048\n  n_layer: 16\n  n_embd: 2048\n  n_head: 16\n  head_size: 256\n"
    "  intermediate_size: 8192\n  padded_vocab_size: 32000\n  bias: false\n  parallel_residual: false\n"
    "  mlp_class_name: LLaMAMLP\ntrain:\n  global_batch_size: 512\n  micro_batch_size: 4\neval:\n  interval: 10\n";

const std::string kFoundry =
    "max_seq_len: 2048\nmodel:\n  name: mpt_causal_lm\n  d_model: 4096\n  n_heads: 32\n  n_layers: 32\n"
    "  expansion_ratio: 4\n  max_seq_len: 2048\n  no_bias: true\n  vocab_size: 50368\n  resid_pdrop: 0\n"
    "  attn_config:\n    attn_impl: flash\n    alibi: true\nalgorithms:\n  gradient_clipping:\n"
    "    clipping_type: norm\ntrain_loader:\n  name: text\noptimizer:\n  name: decoupled_adamw\n"
    "max_duration: 63900ba\nglobal_train_batch_size: 1024\ndevice_train_microbatch_size: 8\nprecision: amp_bf16\n"
    "fsdp_config:\n  sharding_strategy: FULL_SHARD\n";

const std::string kNanotron =
    "general:\n  run: x\nmodel:\n  model_config:\n    is_llama_config: true\n    hidden_act: silu\n"
    "    hidden_size: 1024\n    num_hidden_layers: 8\n    num_attention_heads: 16\n    _attn_implementation: sdpa\n"
    "parallelism:\n  dp: 4\n  tp: 1\n  pp: 1\ntokens:\n  sequence_length: 2048\n  micro_batch_size: 3\n";

/// A file, one change of it, and what its answer then names.
struct Told {
  std::string name, text, from, to, word;
};

}  // namespace

TEST_CASE("what trainers of their own count in one way only is named where a file states another") {
  const std::vector<Told> rows = {
      {"olmo.yaml", kOlmo, "by_block", "size_based", "wrapping_strategy"},
      {"olmo.yaml", kOlmo, "  rope: true\n", "  rope: true\n  block_type: llama\n", "block_type"},
      {"olmo.yaml", kOlmo, "fsdp:\n", "ddp:\n  grad_sync_mode: micro_batch\nfsdp:\n", "grad_sync_mode"},
      {"olmo.yaml", kOlmo, "fsdp:\n", "fused_loss: false\nfsdp:\n", "fused_loss"},
      {"config.json", kOlmoCore, "\"dtype\": \"float32\",", "\"dtype\": \"bfloat16\",", "model.dtype"},
      {"config.json", kOlmoCore, "\"dtype\": \"float32\"}", "\"dtype\": \"bfloat16\"}", "optim.dtype"},
      {"config.json", kOlmoCore, "\"default\"", "\"liger\"", "loss_implementation"},
      {"config.json", kOlmoCore, "\"blocks\"", "\"none\"", "wrapping_strategy"},
      {"mpt.yaml", kFoundry, "  gradient_clipping:\n    clipping_type: norm\n",
       "  alibi:\n    max_sequence_length: 1\n", "alibi"},
      {"mpt.yaml", kFoundry, "resid_pdrop: 0\n", "resid_pdrop: 0\n  loss_fn: torch_crossentropy\n", "loss_fn"},
      {"mpt.yaml", kFoundry, "  name: text\n", "  name: text\n  dataset:\n    packing_ratio: auto\n", "packing_ratio"},
      {"lit.yaml", kLitgpt, "train:\n", "quantize: bnb.nf4\ntrain:\n", "quantize"},
      {"nano.yaml", kNanotron, "hidden_act: silu", "hidden_act: gelu", "hidden_act"},
      {"nano.yaml", kNanotron, ": sdpa", ": eager", "_attn_implementation"},
      {"nano.yaml", kNanotron, ": sdpa", ": sdpa\n    _use_doc_masking: true", "_use_doc_masking"},
      {"nano.yaml", kNanotron, "  pp: 1\n", "  pp: 1\n  moe_layer_recompute: true\n", "moe_layer_recompute"},
      {"nano.yaml", kNanotron, "  dp: 4\n", "  dp: 4\n  expert_parallel_size: 2\n", "no experts"},
  };
  for (const Told& row : rows) {
    CAPTURE(row.to);
    for (const Note& note : job_of(row.name, row.text, on(32)).unused) CHECK_MESSAGE(false, note.text);
    CHECK(names(job_of(row.name, replaced(row.text, row.from, row.to), on(32)).unused, row.word));
  }
}

TEST_CASE("plain words of nanotron's optimizer and its switches that are off say nothing") {
  const auto told = [](const std::string& text) {
    const LaunchJob job = job_of("nano.yaml", text, on(32));
    return job.unused.size() + job.notes.size();
  };
  const std::string more =
      "optimizer:\n  zero_stage: 0\n  optimizer_factory:\n    name: adamW\n    adam_beta1: 0.9\n    adam_beta2: 0.95\n"
      "    adam_eps: 1.0e-08\n    torch_adam_is_fused: true\n";
  const std::string off = replaced(replaced(kNanotron, "  pp: 1\n", "  pp: 1\n  moe_layer_recompute: false\n"),
                                   ": sdpa", ": sdpa\n    _use_doc_masking: false");
  CHECK(told(off + more) <= told(kNanotron));
}

TEST_CASE("and what is modelled is honoured") {
  const LaunchJob olmo = job_of("olmo.yaml", kOlmo, on(32));
  CHECK(olmo.training->dropout == 0);
  CHECK(olmo.training->optimizer == Optimizer::Adam);
  CHECK(olmo.training->stack.fused_pointwise == stacks::fsdp().fused_pointwise);
  CHECK(job_of("olmo.yaml", replaced(kOlmo, "residual_dropout: 0.0", "residual_dropout: 0.1"), on(32))
            .training->dropout == doctest::Approx(0.1));
  CHECK(job_of("olmo.yaml", replaced(kOlmo, "name: adamw", "name: lionw"), on(32)).training->optimizer ==
        Optimizer::SgdMomentum);
  const LaunchJob compiled =
      job_of("olmo.yaml", replaced(kOlmo, "fsdp:\n", "compile:\n  mode: default\nfsdp:\n"), on(32));
  CHECK(compiled.training->stack.fused_pointwise == stacks::fsdp_compiled().fused_pointwise);
  CHECK_FALSE(job_of("olmo.yaml", replaced(kOlmo, "  rope: true\n", ""), on(32)).model);  // learned positions
  CHECK(error_of("olmo.yaml", replaced(kOlmo, "name: adamw", "name: sgd"), on(32)) != "");
  const LaunchJob core = job_of("config.json", kOlmoCore, on(32));
  CHECK(core.training->stack.fused_pointwise == stacks::fsdp_compiled().fused_pointwise);
  CHECK(job_of("config.json", replaced(kOlmoCore, "compile_model\": true", "compile_model\": false"), on(32))
            .training->stack.fused_pointwise == stacks::fsdp().fused_pointwise);
  CHECK(job_of("config.json", replaced(kOlmoCore, "\"default\"", "\"fused_linear\""), on(32))
            .training->stack.cross_entropy == CrossEntropy::Chunked);
  const LaunchJob lit = job_of("lit.yaml", kLitgpt, on(16));
  REQUIRE(lit.model);
  CHECK(lit.model->kinds[0].attention.head_dim == 256);
  CHECK(lit.training->seq == 2048);
  CHECK(job_of("lit.yaml", replaced(kLitgpt, "train:\n", "train:\n  max_seq_length: 1024\n"), on(16)).training->seq ==
        1024);
  const auto mpt = [&](const char* kernel) {
    return job_of("mpt.yaml", replaced(kFoundry, "attn_impl: flash", std::string("attn_impl: ") + kernel), on(32))
        .training->stack;
  };
  CHECK(mpt("flash").flash_attention);
  CHECK_FALSE(mpt("torch").flash_attention);
  CHECK(mpt("triton").attention_kernel == AttentionKernel::Triton);
  CHECK(job_of("mpt.yaml", replaced(kFoundry, "resid_pdrop: 0\n", "resid_pdrop: 0.1\n"), on(32)).training->dropout ==
        doctest::Approx(0.1));
}

}  // namespace plan
