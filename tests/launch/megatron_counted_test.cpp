// Options of Megatron-LM that change memory, time or the model, one by one, in the words of a script, of Primus's YAML
// and of a tool around Megatron core: each changes the job that is read, is named in the first lines, or is refused.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "small_files.hpp"

namespace plan {

using namespace launching;

namespace {

/// An option as Megatron core's configurations call it, a value that is not its default, and the context in which it
/// has a say. Names from core's TransformerConfig, ModelParallelConfig, OptimizerConfig, DistributedDataParallelConfig
/// and from the training configuration, not from the reader.
struct Option {
  std::string key, value;
  enum In { Dense, Experts, Fp8, Offload, Fsdp, Bare } in = Dense;
  bool script_only = false;
};

const std::vector<Option> kOptions = {
    {"recompute_granularity", "selective"},
    {"attention_backend", "unfused"},
    {"attention_backend", "local"},
    {"transformer_impl", "local"},
    {"flash_attention_version", "2"},
    {"deterministic_mode", "true"},
    {"batch_invariant_mode", "true"},
    {"bias_swiglu_fusion", "false"},
    {"bias_gelu_fusion", "false"},
    {"bias_dropout_fusion", "false"},
    {"apply_rope_fusion", "false"},
    {"gradient_accumulation_fusion", "false"},
    {"jit_fuser", "false"},
    {"fused_residual_rmsnorm", "true"},
    {"use_transformer_engine_op_fuser", "true"},
    {"mlp_chunks_for_training", "4"},
    {"mla_down_proj_fusion", "true"},
    {"qk_clip", "true"},
    {"fp32_residual_connection", "true"},
    {"fp16_lm_cross_entropy", "true"},
    {"output_logit_dtype", "bf16"},
    {"te_precision_config_file", "formats.yaml"},
    {"empty_unused_memory_level", "2"},
    {"reset_attention_mask", "true"},
    {"grad_reduce_in_bf16", "true"},
    {"ddp_bucket_size", "40000000"},
    {"ddp_num_buckets", "4"},
    {"ddp_reduce_scatter_with_fp32_accumulation", "true"},
    {"align_grad_reduce", "false"},
    {"align_param_gather", "false"},
    {"overlap_grad_reduce", "true"},
    {"overlap_param_gather_with_optimizer_step", "true"},
    {"overlap_p2p_comm", "false"},
    {"overlap_p2p_communication_warmup_flush", "true"},
    {"defer_embedding_wgrad_compute", "true"},
    {"use_sharp", "true"},
    {"use_nccl_ub", "true"},
    {"tp_comm_overlap", "true"},
    {"tp_comm_overlap_ag", "false"},
    {"tp_comm_bulk_dgrad", "false"},
    {"optimizer", "sgd"},
    {"optimizer", "lion"},
    {"optimizer", "muon"},
    {"optimizer_cpu_offload", "true"},
    {"use_distributed_optimizer", "false"},
    {"num_distributed_optimizer_instances", "2"},
    {"use_tp_pp_dp_mapping", "true"},
    {"cuda_graph_impl", "transformer_engine"},
    {"cpu_offloading_num_layers", "4"},
    {"sequence_parallel", "false"},
    {"num_layers_per_virtual_pipeline_stage", "2"},
    {"account_for_loss_in_pipeline_split", "true"},
    {"microbatch_group_size_per_virtual_pipeline_stage", "4"},
    {"expert_tensor_parallel_num_weight_shards", "2"},
    {"mtp_num_layers", "1"},
    {"quick_geglu", "true", Option::Bare},
    {"moe_layer_recompute", "true", Option::Experts},
    {"moe_token_dispatcher_type", "allgather", Option::Experts},
    {"moe_token_dispatcher_type", "flex", Option::Experts},
    {"moe_expert_capacity_factor", "1.25", Option::Experts},
    {"moe_shared_expert_intermediate_size", "2048", Option::Experts},
    {"moe_shared_expert_overlap", "true", Option::Experts},
    {"moe_use_legacy_grouped_gemm", "true", Option::Experts},
    {"moe_router_topk", "4", Option::Experts},
    {"moe_extended_tp", "true", Option::Experts},
    {"moe_enable_deepep", "true", Option::Experts},
    {"moe_dispatch_fwd_dtype", "fp8", Option::Experts},
    {"moe_paged_stash", "true", Option::Experts},
    {"moe_router_force_biased", "1.5", Option::Experts},
    {"moe_deepep_num_sms", "64", Option::Experts},
    {"ep_overlap_early_attn_memory_release", "true", Option::Experts},
    {"delay_wgrad_compute", "true", Option::Experts},
    {"fp8_wgrad", "false", Option::Fp8},
    {"fp8_recipe", "delayed", Option::Fp8},
    {"fp8_param_gather", "true", Option::Fp8},
    {"first_last_layers_bf16", "true", Option::Fp8},
    {"keep_fp8_transpose_cache", "true", Option::Fp8},
    {"fp8_output_proj", "true", Option::Fp8},
    {"optimizer_offload_fraction", "0.5", Option::Offload},
    {"use_torch_optimizer_for_cpu_offload", "true", Option::Offload},
    {"pin_cpu_grads", "false", Option::Offload},
    {"exp_avg_dtype", "bf16", Option::Offload},
    {"main_grads_dtype", "bf16", Option::Offload},
    {"fsdp_double_buffer", "true", Option::Fsdp},
    {"data_parallel_sharding_strategy", "optim", Option::Fsdp},
    {"outer_dp_sharding_strategy", "optim", Option::Fsdp},
    {"suggested_communication_unit_size", "40000000", Option::Fsdp},
    {"megatron_fsdp_main_grads_dtype", "bf16", Option::Fsdp},
};

using Keys = std::vector<std::pair<std::string, std::string>>;

/// A job of which no key is one of those above, or each is stated as its own default.
Keys base(Option::In in) {
  Keys keys = {{"num_layers", "16"},
               {"hidden_size", "4096"},
               {"ffn_hidden_size", "14336"},
               {"num_attention_heads", "32"},
               {"group_query_attention", "true"},
               {"num_query_groups", "8"},
               {"seq_length", "4096"},
               {"max_position_embeddings", "4096"},
               {"position_embedding_type", "rope"},
               {"normalization", "RMSNorm"},
               {"disable_bias_linear", "true"},
               {"untie_embeddings_and_output_weights", "true"},
               {"vocab_size", "128256"},
               {"micro_batch_size", "1"},
               {"global_batch_size", "128"},
               {"tensor_model_parallel_size", "2"},
               {"sequence_parallel", "true"},
               {"bf16", "true"},
               {"hidden_dropout", "0.0"},
               {"attention_dropout", "0.0"}};
  if (in != Option::Bare) keys.emplace_back("swiglu", "true");
  if (in != Option::Fsdp) {
    keys.emplace_back("use_distributed_optimizer", "true");
    keys.emplace_back("pipeline_model_parallel_size", "2");
    keys.emplace_back("num_virtual_stages_per_pipeline_rank", "2");
  } else {
    keys.emplace_back("use_megatron_fsdp", "true");
    keys.emplace_back("data_parallel_sharding_strategy", "optim_grads_params");
  }
  if (in == Option::Experts)
    for (const auto& [key, value] : Keys{{"num_experts", "8"},
                                         {"moe_router_topk", "2"},
                                         {"moe_ffn_hidden_size", "14336"},
                                         {"expert_model_parallel_size", "4"},
                                         {"expert_tensor_parallel_size", "1"},
                                         {"moe_token_dispatcher_type", "alltoall"},
                                         {"moe_grouped_gemm", "true"}})
      keys.emplace_back(key, value);
  if (in == Option::Fp8) keys.emplace_back("fp8", "hybrid"), keys.emplace_back("fp8_recipe", "tensorwise");
  if (in == Option::Offload)
    keys.emplace_back("optimizer_cpu_offload", "true"), keys.emplace_back("use_precision_aware_optimizer", "true");
  return keys;
}

void put(Keys& keys, const std::string& key, const std::string& value) {
  for (auto& [own, word] : keys)
    if (own == key) return void(word = value);
  keys.emplace_back(key, value);
}

std::string dashes(std::string key) {
  for (char& c : key)
    if (c == '_') c = '-';
  return key;
}

/// The flag that argparse has for a key that is true by default.
std::string off(const std::string& key) {
  if (key == "overlap_p2p_comm") return "no-overlap-p2p-communication";
  if (key == "apply_rope_fusion") return "no-rope-fusion";
  if (key == "jit_fuser" || key.starts_with("tp_comm") || key == "fp8_wgrad") return "disable-" + dashes(key);
  return "no-" + dashes(key);
}

std::string script(const Keys& keys) {
  std::string words;
  for (const auto& [key, value] : keys) {
    const bool usual = key == "sequence_parallel" || key == "use_distributed_optimizer";  // off unless they stand there
    if (value == "false" && usual) continue;
    words += " --" + (value == "false" ? off(key) : key == "fp8" ? "fp8-format" : dashes(key));
    if (value != "true" && value != "false") words += " " + value;
  }
  return "export CUDA_DEVICE_MAX_CONNECTIONS=1\ntorchrun --nproc_per_node 8 pretrain_gpt.py --train-iters 10 "
         "--eval-interval 100" +
         words + "\n";
}

std::string yaml(const Keys& keys) {
  std::string text = "MODEL_ARGS:\n  --train-iters: 10\n";
  for (const auto& [key, value] : keys) text += fmt::format("  {}: {}\n", key, value);
  return text;
}

std::string primus(const Keys& keys) {
  std::string text = "modules:\n  pre_trainer:\n    framework: megatron\n    overrides:\n";
  for (const auto& [key, value] : keys) text += fmt::format("      {}: {}\n", key, value);
  return text;
}

/// The part of a name that its flag shares with it: `no-bias-swiglu-fusion` names `bias_swiglu_fusion`.
bool told_of(const LaunchJob& job, const std::string& key) {
  for (const std::string& word : {key, dashes(key), off(key)})
    if (names(job.unused, word)) return true;
  return false;
}

bool same(const LaunchJob& a, const LaunchJob& b) {
  return a.fixed == b.fixed && a.training == b.training && a.model == b.model && a.gpus == b.gpus;
}

}  // namespace

TEST_CASE("every option of Megatron-LM that weighs changes the job, is named, or is refused, in every spelling") {
  struct Way {
    const char* name;
    std::string (*write)(const Keys&);
  };
  for (const Way& way : {Way{"run.sh", script}, Way{"args.yaml", yaml}, Way{"exp.yaml", primus}})
    for (const Option& option : kOptions) {
      CAPTURE(way.name);
      CAPTURE(option.key);
      CAPTURE(option.value);
      Keys keys = base(option.in);
      const Files files;
      const auto read = [&](const Keys& all) {
        std::string text = way.write(all);
        if (option.in == Option::Fsdp) text = text.substr(text.starts_with("export") ? text.find('\n') + 1 : 0);
        if (option.in == Option::Fsdp && way.write == script)
          text.insert(text.size() - 1, " --ckpt-format fsdp_dtensor");
        return files.read(way.name, text, on(32));
      };
      const Result<LaunchJob> before = read(keys);
      REQUIRE_MESSAGE(before, (before ? "" : before.error().front().message));
      CHECK_FALSE(told_of(*before, option.key));
      put(keys, option.key, option.value);
      if (option.key == "num_layers_per_virtual_pipeline_stage")
        std::erase_if(keys, [](const auto& row) { return row.first == "num_virtual_stages_per_pipeline_rank"; });
      const Result<LaunchJob> after = read(keys);
      if (!after) continue;  // refused, which is a word
      CHECK((!same(*before, *after) || told_of(*after, option.key)));
    }
}

TEST_CASE("YAML's other words for true and false say the same, in Primus and in the tools around Megatron core") {
  const auto primus_job = [](const std::string& word) {
    Keys keys = base(Option::Dense);
    put(keys, "sequence_parallel", word), put(keys, "use_distributed_optimizer", word);
    put(keys, "bias_swiglu_fusion", word), put(keys, "optimizer_cpu_offload", word);
    return job_of("exp.yaml", primus(keys), on(32));
  };
  const auto rl_job = [](const std::string& word) {
    return job_of("rl.yaml",
                  "policy:\n  model_name: Qwen/Qwen3-8B\n  train_global_batch_size: 512\n"
                  "  train_micro_batch_size: 1\n  max_total_sequence_length: 4096\n  precision: bfloat16\n"
                  "  megatron_cfg:\n    enabled: true\n    tensor_model_parallel_size: 2\n"
                  "    pipeline_model_parallel_size: 1\n    sequence_parallel: " +
                      word + "\n    activation_checkpointing: " + word +
                      "\ncluster:\n  gpus_per_node: 8\n  num_nodes: 2\n",
                  on(16));
  };
  for (const auto& read : {std::function<LaunchJob(const std::string&)>(primus_job),
                           std::function<LaunchJob(const std::string&)>(rl_job)}) {
    CHECK_FALSE(same(read("true"), read("false")));
    for (const char* word : {"yes", "on", "True", "Yes", "\"true\""}) {
      CAPTURE(word);
      CHECK(same(read(word), read("true")));
      CHECK(read(word).unused.size() == read("true").unused.size());
    }
    for (const char* word : {"no", "off", "False", "Off"}) {
      CAPTURE(word);
      CHECK(same(read(word), read("false")));
      CHECK(read(word).unused.size() == read("false").unused.size());
    }
  }
}

TEST_CASE(
    "the pipeline and the micro-batches of DeepSpeed's first Megatron-LM count, and no fork's degree is left out") {
  const std::string command =
      "torchrun --nnodes 1 --nproc_per_node 8 pretrain_gpt2.py --num-layers 32 --hidden-size 4096 "
      "--num-attention-heads 32 --seq-length 2048 --max-position-embeddings 2048 --vocab-size 32000 --fp16 "
      "--train-iters 10 --lr 1e-4 --data-path x ";
  for (const int pipeline : {0, 1, 2, 4, 8})
    for (const int steps : {1, 4, 16})
      for (const int micro : {1, 3}) {
        const LaunchJob job =
            job_of("a.sh", fmt::format("{}--model-parallel-size 1 --pipe-parallel-size {} --batch-size {} --gas {} "
                                       "--zero-stage 0\n",
                                       command, pipeline, micro, steps));
        const int stages = std::max(1, pipeline);  // 0: none
        CAPTURE(stages);
        CHECK(job.fixed.pp == stages);
        CHECK(job.training->global_batch == 8 / stages * micro * steps);
      }
  const std::string start = command + "--batch-size 2 --zero-stage 1 ";
  CHECK(error_of("a.sh", start + "--pipe-parallel-size two\n") == "bad_value");
  CHECK(error_of("a.sh", start + "--gas 0\n") == "bad_value");
  CHECK(error_of("a.sh", start + "--ring-parallel-size 4\n") == "degree_not_read");
  CHECK(names(job_of("a.sh", start + "--ring-parallel-size 1\n").unused, "--ring-parallel-size"));
  for (const char* tool : {"tools/split_tp_partitions.py", "tools/merge_mp_partitions.py", "scripts/train_esm2.py"})
    CHECK(error_of("a.sh", replaced(start, "pretrain_gpt2.py", tool) + "--micro-batch-size 1\n") == "not_a_decoder");
}

}  // namespace plan
