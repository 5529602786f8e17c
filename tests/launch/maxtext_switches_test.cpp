// MaxText's keys beside the mesh: each that changes memory or time is honoured or named, its default changes nothing.
#include <doctest/doctest.h>

#include <string>
#include <utility>

#include "small_files.hpp"

namespace plan {

using namespace launching;

namespace {

const std::string kJob =
    "base_config: base.yml\nmodel_name: llama2-7b\nper_device_batch_size: 2\nmax_target_length: 4096\n"
    "ici_fsdp_parallelism: 8\ndcn_data_parallelism: 4\nremat_policy: full\n";

LaunchJob with(const std::string& line) { return job_of("job.yml", kJob + line + "\n", on(32)); }

}  // namespace

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

TEST_CASE("a script whose job stands in a file that is not there is refused, and base.yml alone is MaxText's own") {
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

}  // namespace plan
