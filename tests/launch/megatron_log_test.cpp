// The arguments that Megatron-LM prints: all that the program has, with its defaults, in the shape in which it prints
// them. The job must be the one that the few arguments a user wrote would give.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <map>

#include "cli/launch/launch.hpp"
#include "temporary_folder.hpp"

namespace plan {
namespace {

/// What the program prints for a model without experts, latent attention or fp8, whatever the user wrote.
const std::map<std::string, std::string> kDefaults{{"add_bias_linear", "True"},
                                                   {"add_position_embedding", "True"},
                                                   {"attention_backend", "AttnBackend.auto"},
                                                   {"attention_dropout", "0.1"},
                                                   {"bf16", "False"},
                                                   {"bias_gelu_fusion", "True"},
                                                   {"config_logger_dir", ""},
                                                   {"context_parallel_size", "1"},
                                                   {"cp_comm_type", "['p2p']"},
                                                   {"data_path", "['/data/a', '/data/b']"},
                                                   {"decoder_first_pipeline_num_layers", "None"},
                                                   {"enable_cuda_graph", "False"},
                                                   {"cuda_graph_scope", "full"},
                                                   {"encoder_num_layers", "12"},
                                                   {"encoder_seq_length", "512"},
                                                   {"exp_avg_dtype", "torch.float32"},
                                                   {"expert_model_parallel_size", "1"},
                                                   {"expert_tensor_parallel_size", "1"},
                                                   {"fp8", "None"},
                                                   {"fp8_recipe", "delayed"},
                                                   {"fp8_wgrad", "True"},
                                                   {"gradient_accumulation_fusion", "True"},
                                                   {"group_query_attention", "False"},
                                                   {"hybrid_attention_ratio", "0.0"},
                                                   {"inference_max_batch_size", "8"},
                                                   {"iterations_to_skip", "[]"},
                                                   {"kv_lora_rank", "32"},
                                                   {"local_rank", "0"},
                                                   {"log_interval", "10"},
                                                   {"main_grads_dtype", "torch.float32"},
                                                   {"mamba_head_dim", "64"},
                                                   {"masked_softmax_fusion", "True"},
                                                   {"max_position_embeddings", "131072"},
                                                   {"moe_ffn_hidden_size", "None"},
                                                   {"moe_router_topk", "2"},
                                                   {"moe_token_dispatcher_type", "allgather"},
                                                   {"mtp_loss_scaling_factor", "0.1"},
                                                   {"mtp_num_layers", "None"},
                                                   {"multi_latent_attention", "False"},
                                                   {"normalization", "LayerNorm"},
                                                   {"num_experts", "None"},
                                                   {"num_query_groups", "1"},
                                                   {"optimizer", "adam"},
                                                   {"overlap_grad_reduce", "False"},
                                                   {"overlap_p2p_comm", "True"},
                                                   {"params_dtype", "torch.bfloat16"},
                                                   {"position_embedding_type", "learned_absolute"},
                                                   {"qk_head_dim", "128"},
                                                   {"rank", "0"},
                                                   {"recompute_granularity", "None"},
                                                   {"recompute_method", "None"},
                                                   {"recompute_num_layers", "None"},
                                                   {"sequence_parallel", "False"},
                                                   {"swiglu", "False"},
                                                   {"untie_embeddings_and_output_weights", "False"},
                                                   {"use_distributed_optimizer", "False"},
                                                   {"virtual_pipeline_model_parallel_size", "None"},
                                                   {"vocab_size", "None"},
                                                   {"inference_dynamic_batching_buffer_guaranteed_fraction", "0.2"}};

const std::map<std::string, std::string> kLlama{{"add_bias_linear", "False"},
                                                {"attention_dropout", "0.0"},
                                                {"bf16", "True"},
                                                {"data_parallel_size", "8"},
                                                {"ffn_hidden_size", "14336"},
                                                {"global_batch_size", "128"},
                                                {"group_query_attention", "True"},
                                                {"hidden_size", "4096"},
                                                {"micro_batch_size", "2"},
                                                {"normalization", "RMSNorm"},
                                                {"num_attention_heads", "32"},
                                                {"num_layers", "32"},
                                                {"num_query_groups", "8"},
                                                {"overlap_grad_reduce", "True"},
                                                {"padded_vocab_size", "128256"},
                                                {"pipeline_model_parallel_size", "4"},
                                                {"position_embedding_type", "rope"},
                                                {"seq_length", "8192"},
                                                {"sequence_parallel", "True"},
                                                {"swiglu", "True"},
                                                {"tensor_model_parallel_size", "2"},
                                                {"untie_embeddings_and_output_weights", "True"},
                                                {"use_distributed_optimizer", "True"},
                                                {"virtual_pipeline_model_parallel_size", "2"},
                                                {"world_size", "64"}};

/// As `_print_args` of megatron/training/arguments.py prints them: dots up to column 48, every line sorted.
std::string printed(std::map<std::string, std::string> set, const std::string& label = "") {
  for (const auto& [name, value] : kDefaults) set.try_emplace(name, value);
  std::string text =
      label + "using world size: 64\n" + label + "------------------------ arguments ------------------------\n";
  for (const auto& [name, value] : set) {
    const std::string dots(name.size() < 48 ? 48 - name.size() : 0, '.');
    text += fmt::format("{}  {} {} {}\n", label, name, dots, value);
  }
  return text + label + "-------------------- end of arguments ---------------------\n" + label +
         " [2026-11-01 10:00:00] iteration 10/ 500 | elapsed time per iteration (ms): 1000.0 | global batch size: 128 "
         "|\n";
}

Result<LaunchJob> read_log_job(const std::string& text) {
  const TemporaryFolder folder;
  return read_launch_files({folder.write("out.log", text)});
}

}  // namespace

TEST_CASE("a printed job is the job that was started") {
  for (const char* label : {"", "0: ", "[rank0]: "}) {
    CAPTURE(label);
    const Result<LaunchJob> job = read_log_job(printed(kLlama, label));
    REQUIRE_MESSAGE(job, (job ? "" : job.error().front().message));
    CHECK(job->format == "megatron-log");
    CHECK(job->gpus == 64);
    CHECK(job->fixed.tp == 2);
    CHECK(job->fixed.pp == 4);
    CHECK(job->fixed.vp == 2);
    CHECK(job->fixed.micro_batch == 2);
    CHECK(job->fixed.zero == 1);
    CHECK(job->fixed.sequence_parallel == true);
    REQUIRE(job->training);
    CHECK(job->training->seq == 8192);
    CHECK(job->training->global_batch == 128);
    CHECK(job->training->precision == Precision::Bf16);
    CHECK(job->training->stack.overlap_grad_reduce);
    REQUIRE(job->model);
    CHECK(job->model->name == "llama3-8b");
    CHECK(job->unused.empty());
  }
}

TEST_CASE("what is off is off, and a part that the model lacks states nothing") {
  auto set = kLlama;
  set["overlap_p2p_comm"] = "False";
  set["overlap_grad_reduce"] = "False";
  set["recompute_granularity"] = "full", set["recompute_method"] = "uniform", set["recompute_num_layers"] = "1";
  const Result<LaunchJob> job = read_log_job(printed(set));
  REQUIRE_MESSAGE(job, (job ? "" : job.error().front().message));
  CHECK_FALSE(job->training->stack.overlap_grad_reduce);
  CHECK_FALSE(job->training->stack.p2p_overlap);
  REQUIRE(job->fixed.recompute);
  CHECK(job->fixed.recompute->kind == RecomputeKind::Full);
  CHECK_FALSE(job->model->moe());
}

TEST_CASE("a fork's own arguments count as its flags do") {
  auto set = kLlama;
  set["use_distributed_optimizer"] = "False", set["overlap_grad_reduce"] = "False";
  set["zero_stage"] = "1.0", set["deepspeed"] = "True", set["ds_sequence_parallel_size"] = "1";
  set["sequence_parallel"] = "True", set["pipeline_model_parallel_size"] = "1";
  set["virtual_pipeline_model_parallel_size"] = "None", set["data_parallel_size"] = "32";
  const Result<LaunchJob> job = read_log_job(printed(set));
  REQUIRE_MESSAGE(job, (job ? "" : job.error().front().message));
  CHECK(job->fixed.zero == 1);
  CHECK(job->fixed.tp == 2);
  CHECK(job->gpus == 64);
}

TEST_CASE("a log without its arguments is no job, and one that is cut inside them neither") {
  CHECK_FALSE(read_log_job(" [2026] iteration 10/ 500 | elapsed time per iteration (ms): 1000.0 |\n").has_value());
  const std::string whole = printed(kLlama);
  CHECK_FALSE(read_log_job(whole.substr(0, whole.size() / 2)).has_value());
}

}  // namespace plan
