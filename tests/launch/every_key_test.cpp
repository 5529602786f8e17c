// Every key of a valid file is read, told or refused: each number is doubled, each switch turned and each word of a
// small set replaced, one at a time, in files of every reader; a reading that does not move has dropped the key.
#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

#include "small_files.hpp"
#include "told.hpp"

namespace plan {

using namespace launching;

namespace {

struct Dialect {
  const char* file;
  const char* text;
  std::vector<std::string> idle{};  ///< keys that say nothing of memory or time
  int gpus = 16;                    ///< of the command line; 0: the file says
};

const std::vector<Dialect>& dialects() {
  static const std::vector<Dialect> kAll = {
      {"galvatron_config_2nodes_8gpus_per_node.json",
       "{\"pp_deg\": 2, \"tp_sizes_enc\": \"2,2,2,2,2,2,2,2\", \"tp_consecutive_flags\": \"1,1,1,1,1,1,1,1\",\n"
       " \"dp_types_enc\": \"0,0,0,0,0,0,0,0\", \"use_sp\": \"0,0,0,0,0,0,0,0\", \"checkpoint\": \"0,0,0,0,0,0,0,0\",\n"
       " \"global_bsz\": 64, \"chunks\": 4, \"pp_division\": \"4,4\", \"pipeline_type\": \"pipedream_flush\",\n"
       " \"default_dp_type\": \"zero2\", \"vtp\": 2, \"vsp\": 0, \"embed_sdp\": 0}\n"},
      {"neox.yml",
       "pipe_parallel_size: 2\nmodel_parallel_size: 2\nnum_layers: 32\nhidden_size: 4096\nnum_attention_heads: 32\n"
       "seq_length: 2048\nmax_position_embeddings: 2048\nnorm: rmsnorm\npos_emb: rotary\nno_weight_tying: true\n"
       "train_micro_batch_size_per_gpu: 2\ngradient_accumulation_steps: 8\ncheckpoint_activations: true\n"
       "attention_config: [[[\"flash\"], 32]]\nzero_optimization:\n  stage: 1\nfp16:\n  enabled: true\n"
       "optimizer:\n  type: Adam\n  params:\n    lr: 0.0001\nhidden_dropout: 0.5\nattention_dropout: 0.5\n"
       "make_vocab_size_divisible_by: 128\ntokenizer_type: GPT2BPETokenizer\n",
       {"lr", "max_position_embeddings"}},  // positions are rotary
      {"nanotron.yaml",
       "general:\n  run: x\nmodel:\n  model_config:\n    is_llama_config: true\n    hidden_act: silu\n"
       "    hidden_size: 1024\n    intermediate_size: 4096\n    num_hidden_layers: 8\n    num_attention_heads: 16\n"
       "    num_key_value_heads: 8\n    vocab_size: 50272\n    tie_word_embeddings: false\nparallelism:\n  dp: 4\n"
       "  tp: 2\n  pp: 2\n  pp_engine: 1f1b\n  tp_mode: REDUCE_SCATTER\noptimizer:\n  zero_stage: 1\n"
       "  accumulate_grad_in_fp32: true\ntokens:\n  sequence_length: 2048\n  micro_batch_size: 3\n"
       "  batch_accumulation_per_replica: 2\n"},
      {"maxtext.yml",
       "base_config: base.yml\nmodel_name: llama3.1-8b\nhardware: gpu\nper_device_batch_size: 2\n"
       "max_target_length: 4096\nici_fsdp_parallelism: 4\nici_tensor_parallelism: 2\nici_context_parallelism: 1\n"
       "dcn_data_parallelism: 2\ngradient_accumulation_steps: 2\nnum_slices: 2\n"
       "optimizer_memory_host_offload: false\nscan_layers: true\nuse_dpo: false\n",
       {},
       0},
      {"litgpt.yaml",
       "model_name: x\nmodel_config:\n  block_size: 2048\n  n_layer: 16\n  n_embd: 2048\n  n_head: 16\n"
       "  n_query_groups: 8\n  head_size: 256\n  intermediate_size: 8192\n  padded_vocab_size: 32000\n  bias: false\n"
       "  parallel_residual: false\n  mlp_class_name: LLaMAMLP\ntrain:\n  global_batch_size: 512\n"
       "  micro_batch_size: 4\n  tie_embeddings: false\neval:\n  interval: 10\ndevices: 8\nnum_nodes: 2\n",
       {"interval"},
       0},
      {"foundry.yaml",
       "max_seq_len: 2048\nmodel:\n  name: mpt_causal_lm\n  d_model: 4096\n  n_heads: 32\n  n_layers: 32\n"
       "  expansion_ratio: 4\n  max_seq_len: 2048\n  no_bias: true\n  vocab_size: 50368\n  resid_pdrop: 0\n"
       "  attn_config:\n    attn_impl: flash\n    alibi: false\ntrain_loader:\n  name: text\noptimizer:\n"
       "  name: decoupled_adamw\nmax_duration: 63900ba\nglobal_train_batch_size: 1024\n"
       "device_train_microbatch_size: 8\nprecision: amp_bf16\nfsdp_config:\n  sharding_strategy: FULL_SHARD\n"
       "  activation_checkpointing: true\n  activation_cpu_offload: false\n"},
      {"olmo.yaml",
       "run_name: x\nmodel:\n  d_model: 1024\n  n_heads: 16\n  n_layers: 8\n  mlp_hidden_size: 8192\n"
       "  weight_tying: false\n  rope: true\n  include_bias: false\n  layer_norm_type: rms\n"
       "  activation_type: swiglu\n  max_sequence_length: 4096\n  vocab_size: 50280\n  embedding_size: 50304\n"
       "optimizer:\n  name: adamw\nfsdp:\n  wrapping_strategy: by_block\n  precision: mixed\n"
       "global_train_batch_size: 512\ndevice_train_microbatch_size: 4\nprecision: amp_bf16\n"},
      {"easyr1.yaml",
       "data:\n  max_prompt_length: 2048\n  max_response_length: 2048\nalgorithm:\n  adv_estimator: grpo\n"
       "worker:\n  actor:\n    global_batch_size: 128\n    micro_batch_size_per_device_for_update: 4\n"
       "    ulysses_size: 2\n    model:\n      model_path: Qwen/Qwen2.5-7B-Instruct\n"
       "      enable_gradient_checkpointing: true\n    optim:\n      strategy: adamw\n    fsdp:\n"
       "      enable_full_shard: true\n      enable_cpu_offload: false\n      torch_dtype: bf16\n      fsdp_size: 4\n"
       "  rollout:\n    n: 5\n"},
      {"automodel.yaml",
       "recipe: TrainFinetuneRecipeForNextTokenPrediction\nstep_scheduler:\n  global_batch_size: 64\n"
       "  local_batch_size: 8\nmodel:\n  _target_: nemo_automodel.NeMoAutoModelForCausalLM.from_pretrained\n"
       "  pretrained_model_name_or_path: meta-llama/Llama-3.1-8B\n  use_liger_kernel: false\n"
       "distributed:\n  strategy: fsdp2\n  tp_size: 2\n  cp_size: 1\n  pp_size: 2\n  dp_size: 4\n"
       "  dp_replicate_size: 2\n  sequence_parallel: false\n  activation_checkpointing: true\n"
       "  reshard_after_forward: false\n  pipeline:\n    pp_schedule: interleaved1f1b\n    pp_microbatch_size: 1\n"
       "    layers_per_stage: 4\npeft:\n  dim: 16\n  use_dora: false\nquantization:\n  load_in_4bit: true\n"
       "dataset:\n  seq_len: 4096\noptimizer:\n  lr: 0.0001\n  master_weights: false\ncompile:\n  enabled: false\n"
       "fp8:\n  enabled: false\nfreeze_config:\n  freeze_language_model: false\n",
       {"lr"}},
      {"deepspeed.json",
       "{\"train_batch_size\": 256, \"train_micro_batch_size_per_gpu\": 4, \"gradient_accumulation_steps\": 4,\n"
       " \"bf16\": {\"enabled\": true}, \"zero_optimization\": {\"stage\": 2, \"overlap_comm\": true,\n"
       " \"contiguous_gradients\": true, \"reduce_bucket_size\": 500000}, \"gradient_clipping\": 1}\n",
       {"gradient_clipping"}},
      {"factory.yaml",
       "model_name_or_path: Qwen/Qwen2.5-7B-Instruct\nstage: sft\ndo_train: true\nfinetuning_type: lora\n"
       "lora_rank: 8\ncutoff_len: 2048\nper_device_train_batch_size: 2\ngradient_accumulation_steps: 4\nbf16: true\n"
       "gradient_checkpointing: true\nlearning_rate: 1.0e-4\n",
       {"learning_rate", "do_train"}},
      {"axolotl.yaml",
       "base_model: Qwen/Qwen2.5-7B-Instruct\nsequence_len: 2048\nsample_packing: true\nmicro_batch_size: 2\n"
       "gradient_accumulation_steps: 4\nadapter: lora\nlora_r: 16\nlora_alpha: 32\nbf16: true\n"
       "gradient_checkpointing: true\nflash_attention: true\nnum_epochs: 3\nload_in_4bit: false\n",
       {"lora_alpha", "num_epochs", "sample_packing", "flash_attention"}},
      {"titan.toml",
       "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nlocal_batch_size = 2\nseq_len = 4096\nsteps = 10\n"
       "global_batch_size = 64\nenable_cpu_offload = false\n[parallelism]\ndata_parallel_replicate_degree = 2\n"
       "data_parallel_shard_degree = 4\ntensor_parallel_degree = 2\npipeline_parallel_degree = 1\n"
       "context_parallel_degree = 1\nenable_async_tensor_parallel = false\ndisable_loss_parallel = false\n"
       "[compile]\nenable = true\n",
       {"steps"}},
  };
  return kAll;
}

/// The other value of a switch, twice a number, other words of lists of numbers; empty: left alone.
std::string other_than(const std::string& value) {
  if (value == "true") return "false";
  if (value == "false") return "true";
  if (value == "0") return "1";
  const bool whole = !value.empty() && value.size() < 8 && std::all_of(value.begin(), value.end(), [](char c) {
    return std::isdigit(static_cast<unsigned char>(c)) != 0;
  });
  if (whole) return std::to_string(2 * std::stoi(value));
  if (value.size() > 2 && value.front() == '"' && value[2] == ',') {  // a list with commas: its first number
    std::string out = value;
    out[1] = out[1] == '0' ? '1' : out[1] == '1' ? '0' : '3';
    return out;
  }
  return "";
}

/// One value of the text: where it stands and what its key is.
struct Value {
  std::string key{}, text{};
  std::size_t at = 0;
};

std::vector<Value> values_of(const std::string& text) {
  std::vector<Value> out;
  for (std::size_t at = text.find_first_of(":="); at != std::string::npos; at = text.find_first_of(":=", at + 1)) {
    std::size_t end = at;
    while (end > 0 && (text[end - 1] == ' ' || text[end - 1] == '"')) --end;
    std::size_t start = end;
    while (start > 0 && (std::isalnum(static_cast<unsigned char>(text[start - 1])) != 0 || text[start - 1] == '_'))
      --start;
    const std::size_t from = text.find_first_not_of(' ', at + 1);
    if (start == end || from == std::string::npos || text[from] == '\n') continue;
    const std::size_t stop = text[from] == '"' ? text.find('"', from + 1) + 1 : text.find_first_of(",}\n", from);
    out.push_back({text.substr(start, end - start), text.substr(from, stop - from), from});
  }
  return out;
}

}  // namespace

TEST_CASE("every number and every switch of a valid file moves the reading, is told, or is refused") {
  for (const Dialect& dialect : dialects()) {
    const std::string name = dialect.file, text = dialect.text;
    CAPTURE(name);
    const Files files;
    const std::string folder = files.folder.path().string();
    const LaunchContext context{.model = {}, .gpus = dialect.gpus, .gpus_per_node = 8, .arguments = {}};
    const Told before = told(files.read(name, text, context), folder, false);
    CHECK_FALSE(is_refused(before));
    if (is_refused(before)) continue;
    int tried = 0;
    for (const Value& value : values_of(text)) {
      const std::string other = other_than(value.text);
      if (other.empty() || std::count(dialect.idle.begin(), dialect.idle.end(), value.key) > 0) continue;
      std::string changed = text;
      changed.replace(value.at, value.text.size(), other);
      ++tried;
      CAPTURE(value.key);
      CAPTURE(other);
      CHECK_FALSE(differences(before, told(files.read(name, changed, context), folder, false)).empty());
    }
    CHECK(tried > 4);
  }
}

}  // namespace plan
