#pragma once

// A small job in the words of every tool that is read, to be edited by tests, and all that a job says.

#include <fmt/core.h>

#include <sstream>

#include "formulas/parameters.hpp"
#include "planner/problem/axes.hpp"
#include "small_files.hpp"

namespace plan::launching {

struct Sample {
  const char* name;
  const char* text;
  int gpus = 0;  ///< that flags state; 0: the file does
};

inline const char* const kShell =
    "#!/bin/bash\n"
    "NODES=2\n"
    "LAYERS=32\n"
    "MBS=2\n"
    "GBS=$((MBS * 32))\n"
    "TP=2; PP=${PP:-2}\n"
    "MODEL=(\n"
    "  --num-layers $LAYERS --hidden-size 4096\n"
    "  --ffn-hidden-size 11008\n"
    "  --num-attention-heads 32\n"
    "  --max-position-embeddings 131072\n"
    "  --vocab-size 32000\n"
    ")\n"
    "export CUDA_DEVICE_MAX_CONNECTIONS=1\n"
    "for word in --seq-length 2048; do ARGS+=\" $word\"; done\n"
    "torchrun --nnodes $NODES --nproc-per-node 8 pretrain_gpt.py ${MODEL[@]} $ARGS --micro-batch-size $MBS \\\n"
    "  --global-batch-size $GBS --tensor-model-parallel-size $TP --pipeline-model-parallel-size $PP --bf16 \\\n"
    "  --recompute-granularity full --recompute-method block --recompute-num-layers 3 --eval-interval 10 --swiglu\n";

inline const Sample kSamples[] = {
    {"run.sh", kShell},
    {"swift.sh",
     "#!/bin/bash\nexport NNODES=2\nNPROC_PER_NODE=8 \\\nmegatron sft \\\n --model Qwen/Qwen3-8B \\\n"
     " --tensor_model_parallel_size 2 \\\n --micro_batch_size 1 \\\n --global_batch_size 16 \\\n"
     " --max_length 4096 \\\n --tuner_type lora \\\n --lora_rank 16\n"},
    {"neox.yml",
     "{\n  \"pipe_parallel_size\": 2,\n  \"model_parallel_size\": 2,\n  \"num_layers\": 16,\n  \"hidden_size\": 2048,\n"
     "  \"num_attention_heads\": 16,\n  \"seq_length\": 2048,\n  \"max_position_embeddings\": 65536,\n"
     "  \"train_micro_batch_size_per_gpu\": 4,\n  \"gradient_accumulation_steps\": 8,\n"
     "  \"fp16\": {\"enabled\": true},\n"
     "  \"zero_optimization\": {\"stage\": 1}\n}\n",
     16},
    {"model.yaml",
     "MODEL_ARGS:\n  --num-layers: 24\n  --hidden-size: 2048\n  --num-attention-heads: 16\n  --seq-length: 2048\n"
     "  --max-position-embeddings: 65536\n  --micro-batch-size: 2\n  --global-batch-size: 128\n"
     "  --tensor-model-parallel-size: 2\n  --vocab-size: 51200\n  --bf16: true\n",
     16},
    {"nano.yaml",
     "general:\n  run: x\nmodel:\n  dtype: bfloat16\n  model_config:\n    is_llama_config: true\n    hidden_size: "
     "1024\n"
     "    intermediate_size: 4096\n    num_hidden_layers: 8\n    num_attention_heads: 16\n    num_key_value_heads: 4\n"
     "    vocab_size: 32000\n    tie_word_embeddings: false\noptimizer:\n  accumulate_grad_in_fp32: true\n"
     "  zero_stage: 1\nparallelism:\n  dp: 4\n  tp: 2\n  pp: 2\ntokens:\n  sequence_length: 2048\n"
     "  micro_batch_size: 3\n  batch_accumulation_per_replica: 5\n"},
    {"litgpt.yaml",
     "eval:\n  initial_validation: false\ncheckpoint_dir: checkpoints/meta-llama/Meta-Llama-3-8B\nprecision: "
     "bf16-true\ndevices: 4\nnum_nodes: 1\n"
     "lora_r: 32\nlora_query: true\nlora_key: true\nlora_value: true\nlora_projection: true\ntrain:\n  "
     "global_batch_size: 16\n  micro_batch_size: 2\n  max_seq_length: 512\n"},
    {"olmo.yaml",
     "run_name: x\nmodel:\n  d_model: 1024\n  n_heads: 16\n  n_layers: 8\n  mlp_hidden_size: 8192\n"
     "  weight_tying: false\n  rope: true\n  include_bias: false\n  layer_norm_type: rms\n  activation_type: swiglu\n"
     "  max_sequence_length: 4096\n  embedding_size: 50304\nfsdp:\n"
     "  sharding_strategy: FULL_SHARD\n  precision: mixed\nglobal_train_batch_size: 512\n"
     "device_train_microbatch_size: 4\nprecision: amp_bf16\n",
     64},
    {"config.json",
     "{\"_CLASS_\": \"olmo_core.internal.experiment.ExperimentConfig\",\n \"model\": {\"d_model\": 1024,\n"
     "  \"vocab_size\": 50304,\n  \"n_layers\": 8,\n  \"block\": {\"sequence_mixer\": {\"n_heads\": 16,\n"
     "   \"n_kv_heads\": 4},\n   \"feed_forward\": {\"hidden_size\": 4096}}},\n"
     " \"data_loader\": {\"global_batch_size\": 524288},\n \"train_module\": {\n  \"rank_microbatch_size\": 8192,\n"
     "  \"max_sequence_length\": 4096,\n  \"dp_config\": {\"name\": \"hsdp\", \"param_dtype\": \"bfloat16\",\n"
     "   \"shard_degree\": 4},\n  \"tp_config\": {\"degree\": 2}}}\n",
     32},
    {"axolotl.yaml",
     "base_model: NousResearch/Meta-Llama-3-8B\nsequence_len: 4096\nmicro_batch_size: 2\n"
     "gradient_accumulation_steps: 4\nadapter: lora\nlora_r: 32\nlora_target_linear: true\nbf16: true\n"
     "optimizer: adamw_torch\n",
     8},
    {"tune.yaml",
     "model:\n  _component_: torchtune.models.llama3.lora_llama3_8b\n  lora_attn_modules: [q_proj, v_proj]\n"
     "  lora_rank: 8\ntokenizer:\n  max_seq_len: 2048\nbatch_size: 2\ngradient_accumulation_steps: 8\noptimizer:\n"
     "  _component_: torch.optim.AdamW\ndtype: bf16\nenable_activation_checkpointing: true\n",
     8},
    {"factory.yaml",
     "model_name_or_path: meta-llama/Meta-Llama-3-8B\nstage: sft\ndo_train: true\nfinetuning_type: lora\n"
     "lora_rank: 8\ncutoff_len: 2048\nper_device_train_batch_size: 1\ngradient_accumulation_steps: 8\nbf16: true\n",
     8},
    {"titan.toml",
     "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nlocal_batch_size = 2\nseq_len = 4096\n[parallelism]\n"
     "tensor_parallel_degree = 2\npipeline_parallel_degree = 2\n",
     32},
    {"max.yml",
     "base_config: \"base.yml\"\nmodel_name: llama3-8b\nper_device_batch_size: 2\nmax_target_length: 4096\n"
     "ici_fsdp_parallelism: 4\nici_tensor_parallelism: 2\ndcn_data_parallelism: -1\nremat_policy: full\n",
     32},
    {"ppo.sh",
     "#!/bin/bash\nset -x\npython3 -m verl.trainer.main_ppo --config-name='ppo_megatron_trainer.yaml' \\\n"
     " actor_rollout_ref.model.path=Qwen/Qwen3-8B \\\n data.max_prompt_length=1024 \\\n"
     " data.max_response_length=1024 \\\n actor_rollout_ref.actor.ppo_mini_batch_size=64 \\\n"
     " actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=2 \\\n"
     " actor_rollout_ref.actor.megatron.tensor_model_parallel_size=2 \\\n actor_rollout_ref.rollout.n=4 \\\n"
     " trainer.n_gpus_per_node=8 \\\n trainer.nnodes=2\n"},
    {"rl.yaml",
     "policy:\n  model_name: Qwen/Qwen3-8B\n  train_global_batch_size: 64\n  train_micro_batch_size: 1\n"
     "  max_total_sequence_length: 4096\n  megatron_cfg:\n    enabled: true\n    tensor_model_parallel_size: 2\n"
     "    pipeline_model_parallel_size: 2\ncluster:\n  gpus_per_node: 8\n  num_nodes: 2\n"},
    {"trl.sh",
     "#!/bin/bash\nBATCH=2\nSTEPS=4\naccelerate launch --num_processes 8 sft.py --model_name_or_path "
     "meta-llama/Meta-Llama-3-8B \\\n --per_device_train_batch_size $BATCH \\\n"
     " --gradient_accumulation_steps $STEPS \\\n --max_length 2048 --bf16 true --use_peft --lora_r 16\n"},
};

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// All that a job says, but for places.
inline std::string said(const LaunchJob& job) {
  std::string out = fmt::format("{} {}\n", job.gpus, job.rank_batch ? job.rank_batch->steps : 0);
  for (const Input& input : job.inputs) out += input.key + "=" + input.value + "\n";
  for (const std::vector<Note>* notes : {&job.notes, &job.unused})
    for (const Note& note : *notes) out += note.text + "\n";
  if (job.model)
    out += fmt::format("{} {}\n", model_parameters(*job.model).total, job.model->kinds.front().attention.heads);
  each_axis([&](const auto& axis) {
    if (const auto& fixed = job.fixed.*axis.fixed) out += axis_text(*fixed) + " ";
  });
  if (job.training) out += fmt::format("{} {}\n", job.training->seq, job.training->global_batch);
  return out;
}

}  // namespace plan::launching
