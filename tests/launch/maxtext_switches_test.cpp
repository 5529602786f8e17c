// MaxText's keys beside the mesh: each that changes memory or time is honoured or named, its default changes nothing.
#include <doctest/doctest.h>

#include <string>
#include <tuple>
#include <utility>

#include "formulas/parameters.hpp"
#include "small_files.hpp"

namespace plan {

using namespace launching;

namespace {

const std::string kJob =
    "base_config: base.yml\nmodel_name: llama2-7b\nper_device_batch_size: 2\nmax_target_length: 4096\n"
    "ici_fsdp_parallelism: 8\ndcn_data_parallelism: 4\nremat_policy: full\n";

LaunchJob with(const std::string& line) { return job_of("job.yml", kJob + line + "\n", on(32)); }

}  // namespace

TEST_CASE("dimensions that a configuration states beside the name of a model are told: the model's own go over them") {
  const std::string base =
      "base_config: base.yml\nhardware: gpu\nper_device_batch_size: 1\nmax_target_length: 2048\n"
      "ici_fsdp_parallelism: 8\ndcn_data_parallelism: 1\n";
  for (const char* key : {"base_num_decoder_layers: 10", "base_emb_dim: 1024", "base_mlp_dim: 4096",
                          "base_num_query_heads: 8", "num_experts: 4"}) {
    const std::string text = base + "model_name: llama3.1-8b\n" + key + "\n";
    CAPTURE(text);
    const LaunchJob job = job_of("conf.yml", text, on(8));
    CHECK(names(job.unused, std::string(key).substr(0, std::string(key).find(':'))));
    CHECK(names(job.unused, "goes over it"));
  }
  CHECK_FALSE(names(job_of("conf.yml", base + "model_name: llama3.1-8b\n", on(8)).unused, "goes over it"));
}

TEST_CASE("a configuration lies over the one that its base_config names, and tells where there is none") {
  const Files files;
  files.folder.write("base.yml", "base_config: \"\"\nper_device_batch_size: 12\nmax_target_length: 2048\n");
  files.folder.write("mid.yml", "base_config: base.yml\nmax_target_length: 1024\nici_fsdp_parallelism: 8\n");
  const std::string name = "model_name: llama2-7b\n";
  const auto read = [&](const std::string& text) {
    const Result<LaunchJob> job = files.read("own.yml", text + name, on(8));
    REQUIRE_MESSAGE(job, (job ? "" : job.error().front().message));
    return *job;
  };
  const LaunchJob job = read("base_config: mid.yml\nper_device_batch_size: 4\n");
  CHECK(job.training->seq == 1024);
  CHECK(job.training->global_batch == 32);
  CHECK_FALSE(names(job.unused, "base_config"));
  CHECK(names(read("base_config: other.yml\nper_device_batch_size: 4\n").unused, "other.yml"));
  CHECK_FALSE(names(read("base_config: own.yml\nper_device_batch_size: 4\n").unused, "deep"));  // its own base
}

TEST_CASE("global_parameter_scale doubles heads and feed-forward, width and layers in turn") {
  // tests/published/runs/maxtext.csv: the shapes of MaxText's published 16B to 128B and of what lies between.
  struct Row {
    int scale, layers, hidden, ffn, heads;
  };
  for (const Row& row : {Row{1, 16, 2048, 7168, 16}, Row{2, 16, 2048, 14336, 32}, Row{4, 16, 4096, 14336, 32},
                         Row{8, 32, 4096, 14336, 32}, Row{16, 32, 4096, 28672, 64}, Row{32, 32, 8192, 28672, 64},
                         Row{64, 64, 8192, 28672, 64}, Row{128, 64, 8192, 57344, 128}}) {
    CAPTURE(row.scale);
    const LaunchJob job = job_of("s.yml",
                                 "base_config: base.yml\nper_device_batch_size: 2\nbase_emb_dim: 2048\n"
                                 "ici_fsdp_parallelism: 8\nglobal_parameter_scale: " +
                                     std::to_string(row.scale) + "\n");
    REQUIRE(job.model);
    CHECK(job.model->depth() == row.layers);
    CHECK(job.model->hidden == row.hidden);
    CHECK(job.model->kinds.front().dense.width == row.ffn);
    CHECK(job.model->kinds.front().attention.heads == row.heads);
    CHECK_FALSE(names(job.unused, "global_parameter_scale"));
  }
  CHECK(error_of("t.yml", "base_config: base.yml\nbase_emb_dim: 2048\nglobal_parameter_scale: 3\n") == "wrong_value");
  CHECK(names(job_of("n.yml",
                     "base_config: base.yml\nmodel_name: llama2-7b\nici_fsdp_parallelism: 8\n"
                     "per_device_batch_size: 2\nglobal_parameter_scale: 2\n")
                  .unused,
              "global_parameter_scale"));
}

TEST_CASE("MaxText's formats, kernels, dropout and task are honoured") {
  const Training usual = *with("").training;
  CHECK(usual.master_bytes == 4);
  CHECK(with("weight_dtype: bfloat16").training->master_bytes == 0);
  CHECK(with("weight_dtype: bfloat16").training->moment2_bytes == 2);
  CHECK(with("weight_dtype: float32").training->master_bytes == 4);
  CHECK(with("mu_dtype: bfloat16").training->moment1_bytes == 2);
  CHECK(with("mu_dtype: bfloat16").training->moment2_bytes == 4);
  CHECK(with("mu_dtype: \"\"").training->moment1_bytes == 4);
  CHECK_FALSE(with("attention: dot_product").training->stack.flash_attention);
  CHECK(with("attention: autoselected").training->stack.flash_attention == usual.stack.flash_attention);
  CHECK(with("num_vocab_tiling: 8").training->stack.cross_entropy == CrossEntropy::Chunked);
  CHECK(with("num_vocab_tiling: 1").training->stack.cross_entropy == usual.stack.cross_entropy);
  CHECK(with("dropout_rate: 0.1").training->dropout == doctest::Approx(0.1));
  CHECK(with("dropout_rate: 0.1\nenable_dropout: False").training->dropout == 0);
  CHECK(with("use_sft: True").training->task == Task::FullFinetune);
  CHECK(with("use_sft: False").training->task == usual.task);
  CHECK(with("compile_topology: v5p-512").gpu == "tpu-v5p");
  CHECK(with("compile_topology: v9z-512").hardware.find("v9z-512") != std::string::npos);
  CHECK(with("compile_topology: a3").hardware.empty());
}

TEST_CASE("what is counted in one way only is named where a file has another, and base.yml's own values are not") {
  for (const auto& row : {std::pair{"capacity_factor: -1.0", "capacity_factor: 1.25"},
                          {"float32_logits: False", "float32_logits: True"},
                          {"activations_in_float32: False", "activations_in_float32: true"},
                          {"cast_logits_to_fp32: True", "cast_logits_to_fp32: False"},
                          {"matmul_precision: \"default\"", "matmul_precision: high"},
                          {"use_dpo: False", "use_dpo: True"},
                          {"ici_diloco_parallelism: 1", "ici_diloco_parallelism: 2"},
                          {"dcn_autoregressive_parallelism: 1", "dcn_autoregressive_parallelism: 2"},
                          {"override_model_config: False", "override_model_config: True"}}) {
    CAPTURE(row.second);
    CHECK(with(row.first).unused.empty());
    CHECK(with(row.second).unused.size() == 1);
  }
}

TEST_CASE("every switch of MaxText's that weighs changes the job or is named") {
  const LaunchJob plain = with("");
  for (const std::string line : {"te_comm_gemm_overlap: all",
                                 "opt_type: shampoo",
                                 "dtype: float16",
                                 "attention: paged",
                                 "attention_type: local_sliding",
                                 "sliding_window_size: 1024",
                                 "chunk_attn_window_size: 1024",
                                 "megablox: false",
                                 "sparse_matmul: False",
                                 "ragged_buffer_factor: 1.5",
                                 "use_batch_split_schedule: true",
                                 "scan_pipeline_iterations: false",
                                 "fused_qkv: true",
                                 "fused_mlp: True",
                                 "share_kv_projections: true",
                                 "attention_sink: true",
                                 "logits_via_embedding: true",
                                 "use_qk_norm: true",
                                 "moba: true",
                                 "use_indexer: true",
                                 "use_qk_clip: true",
                                 "mhc_expansion_rate: 4",
                                 "weight_sparsity_n: 2",
                                 "custom_mesh: hybrid_ring_64x4",
                                 "override_logical_axis_rules: true",
                                 "shard_mode: explicit",
                                 "training_objective: block_diffusion",
                                 "shard_optimizer_over_data: true",
                                 "context_parallel_load_balance: false",
                                 "grad_dtype: bfloat16",
                                 "optimizer_memory_host_offload: true",
                                 "parameter_memory_host_offload: true",
                                 "quantization: fp8",
                                 "remat_policy: custom",
                                 "gradient_accumulation_steps: 2"}) {
    CAPTURE(line);
    const std::string key = line.substr(0, line.find(':'));
    const std::string text = key == "remat_policy" ? replaced(kJob, "full", "custom") : kJob + line + "\n";
    const LaunchJob job = job_of("job.yml", text, on(32));
    CHECK((job.training != plain.training || job.fixed != plain.fixed || names(job.unused, key)));
    if (names(job.unused, key)) continue;
    CHECK_FALSE(names(plain.unused, key));
  }
  // base.yml's own values say nothing.
  for (const std::string line : {"te_comm_gemm_overlap: disabled", "attention_type: global",
                                 "training_objective: causal_lm", "shard_mode: \"auto\"", "ragged_buffer_factor: -1.0",
                                 "weight_sparsity_n: null", "custom_mesh: \"\"", "partial_rotary_factor: 1.0"}) {
    CAPTURE(line);
    CHECK(with(line).unused.size() == plain.unused.size());
  }
}

TEST_CASE("a script whose job is in a file that is not there is refused, and base.yml alone is MaxText's own") {
  const std::string start = "#!/bin/bash\npython3 -m MaxText.train ";
  const std::string words = " model_name=llama2-7b per_device_batch_size=2 max_target_length=4096 run_name=x\n";
  CHECK(error_of("run.sh", start + "${CONFIG_PATH}" + words, on(32)) == "missing_file");
  CHECK(error_of("run.sh", start + "configs/llama2_7b.yml" + words, on(32)) == "missing_file");
  const LaunchJob plain = job_of("run.sh", start + "MaxText/configs/base.yml" + words, on(32));
  CHECK(plain.training->global_batch == 64);
  const Files files;
  files.folder.write("mine.yml", "gradient_accumulation_steps: 4\n");
  const Result<LaunchJob> job = files.read("run.sh", start + "mine.yml" + words, on(32));
  REQUIRE_MESSAGE(job, (job ? "" : job.error().front().message));
  CHECK(job->training->global_batch == 256);
}

TEST_CASE("a configuration without a model's name is the model of its dimensions") {
  const std::string layout = "base_config: base.yml\nper_device_batch_size: 2\nici_fsdp_parallelism: 8\n";
  const std::string shape =
      "base_emb_dim: 1024\nbase_num_query_heads: 8\nbase_num_kv_heads: 4\nbase_mlp_dim: 4096\n"
      "base_num_decoder_layers: 6\nhead_dim: 64\nvocab_size: 1_000\n";
  for (const std::string name : {"", "model_name: default\n"}) {
    CAPTURE(name);
    const LaunchJob job = job_of("job.yml", name + layout + shape, on(8));
    REQUIRE(job.model);
    // Attention, a gated feed-forward and two norms in each of six layers; an embedding, a head and a norm.
    const std::int64_t attention = 1024 * 64 * (8 + 8 + 4 + 4), layer = attention + 3 * 1024 * 4096 + 2 * 1024;
    CHECK(model_parameters(*job.model).total == 6 * layer + 2 * 1000 * 1024 + 1024);
    CHECK(job.unused.empty());
  }
  const LaunchJob sparse =
      job_of("job.yml", layout + shape + "decoder_block: mixtral\nnum_experts: 4\nnum_experts_per_tok: 2\n", on(8));
  REQUIRE(sparse.model);
  CHECK(sparse.model->moe());
  CHECK(names(job_of("job.yml", layout + shape + "decoder_block: gemma4\n", on(8)).unused, "decoder_block"));
  for (const std::string line :
       {"mlp_activations: [\"relu\"]", "shared_experts: 1", "attention_output_dim: 8", "mtp_num_layers: 1"}) {
    CAPTURE(line);
    CHECK(names(job_of("job.yml", layout + shape + line + "\n", on(8)).unused, line.substr(0, line.find(':'))));
  }
  // A name's own file states them, and lies over the configuration; words of a command beside it stop MaxText.
  CHECK(names(with("base_emb_dim: 64").unused, "goes over it"));
  CHECK(names(job_of("run.sh",
                     "python3 -m maxtext.trainers.pre_train.train base.yml model_name=llama2-7b base_emb_dim=64 "
                     "per_device_batch_size=2 ici_fsdp_parallelism=8\n",
                     on(8))
                  .unused,
              "base_emb_dim"));
}

TEST_CASE("keys that weigh are named wherever they differ from base.yml, and words that are no format refused") {
  for (const auto& [key, plain, other] : {std::tuple{"vocab_tiling_ag_once", "False", "True"},
                                          {"use_tokamax_splash", "false", "true"},
                                          {"mla_qk_head_chunk_size", "0", "8"},
                                          {"num_moe_emb_chunks", "0", "4"},
                                          {"scan_pipeline_repeats", "false", "true"},
                                          {"trainable_parameters_mask", "[]", "['.*indexer.*']"},
                                          {"mesh_axes", "['data', 'stage', 'fsdp', 'tensor']", "['mine']"},
                                          {"use_grpo", "null", "true"},
                                          {"enable_lora", "False", "true"},
                                          {"max_checkify", "false", "true"},
                                          {"hardware", "gpu", "cpu"},
                                          {"internal_compile_num_devices", "-1", "64"},
                                          {"engram_layers", "[]", "[1, 2]"}}) {
    const std::string name = key;
    CAPTURE(name);
    CHECK(with(name + ": " + plain).unused.empty());
    CHECK(names(with(name + ": " + other).unused, name));
  }
  for (const std::string key : {"dtype", "weight_dtype", "mu_dtype", "grad_dtype"})
    CHECK(error_of("job.yml", kJob + key + ": bf16\n", on(32)) == "wrong_value");
}

}  // namespace plan
