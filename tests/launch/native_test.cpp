// Configurations that describe a whole job in a trainer's own words (nanotron, litgpt, OLMo,
// LLaMA-Factory's second generation), recipes of NeMo 2 and Megatron-Bridge, and DeepSpeed-Chat's flags: each construct
// in a file of our own, with values and sizes worked out by hand.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>

#include "cli/launch/launch.hpp"
#include "cli/request/resolve.hpp"
#include "formulas/parameters.hpp"
#include "planner/planner.hpp"
#include "small_files.hpp"
#include "temporary_folder.hpp"

namespace plan {

using namespace launching;

namespace {

const std::string kNanotronFile =
    "general:\n  run: x\nmodel:\n  dtype: bfloat16\n  make_vocab_size_divisible_by: 1\n  model_config:\n"
    "    is_llama_config: true\n    hidden_size: 1024\n    intermediate_size: 4096\n    num_hidden_layers: 8\n"
    "    num_attention_heads: 16\n    num_key_value_heads: 4\n    vocab_size: 32001\n"
    "    tie_word_embeddings: false\noptimizer:\n  accumulate_grad_in_fp32: true\n  zero_stage: 1\n"
    "parallelism:\n  dp: 4\n  tp: 2\n  pp: 2\n  pp_engine: 1f1b\n  tp_mode: REDUCE_SCATTER\n"
    "  recompute_layer: true\ntokens:\n  sequence_length: 2048\n  micro_batch_size: 3\n"
    "  batch_accumulation_per_replica: 5\n";

const std::string kLitgptFile =
    "checkpoint_dir: checkpoints/meta-llama/Meta-Llama-3-8B\nprecision: bf16-true\ndevices: 4\nnum_nodes: 1\n"
    "lora_r: 32\nlora_query: true\nlora_mlp: true\ntrain:\n  global_batch_size: 16\n  micro_batch_size: 2\n"
    "  max_seq_length: 512\neval:\n  interval: 10\n";

const std::string kOlmoFile =
    "run_name: x\nmodel:\n  d_model: 1024\n  n_heads: 16\n  n_layers: 8\n  mlp_hidden_size: 8192\n"
    "  weight_tying: false\n  rope: true\n  include_bias: false\n  layer_norm_type: rms\n  activation_type: swiglu\n"
    "  max_sequence_length: 4096\n  vocab_size: 50280\n  embedding_size: 50304\nfsdp:\n"
    "  sharding_strategy: SHARD_GRAD_OP\n  precision: mixed\nglobal_train_batch_size: 512\n"
    "device_train_microbatch_size: 4\nprecision: amp_bf16\nactivation_checkpointing: one_in_two\n";

Plan best_of(const Args& args) {
  const Result<Problem> problem = resolve_problem(args);
  REQUIRE_MESSAGE(problem, (problem ? "" : problem.error().front().message));
  const Result<Plan> plan = search(*problem);
  REQUIRE(plan);
  return *plan;
}

std::vector<LaunchFile> written(const char* format, const Plan& plan) {
  const Result<std::vector<LaunchFile>> files = write_launch(format, plan, {});
  REQUIRE_MESSAGE(files, (files ? "" : files.error().front().message));
  return *files;
}

}  // namespace

TEST_CASE("nanotron's YAML states every degree and its model") {
  const LaunchJob job = job_of("nano.yaml", kNanotronFile);
  CHECK(job.format == "nanotron");
  CHECK(job.gpus == 16);
  CHECK(job.fixed.tp == 2);
  CHECK(job.fixed.pp == 2);
  CHECK(job.fixed.dp == 4);
  CHECK(job.fixed.zero == 1);
  CHECK(job.fixed.sequence_parallel == true);
  CHECK(job.fixed.schedule == Schedule::OneFOneB);
  CHECK(job.fixed.recompute->kind == RecomputeKind::Full);
  CHECK(job.fixed.micro_batch == 3);
  CHECK(job.training->global_batch == 3 * 5 * 4);
  CHECK(job.training->seq == 2048);
  CHECK(job.training->master_bytes == 4);
  REQUIRE(job.model);
  // A layer: queries and output 1024^2 each, keys and values 1024 x 256 each, three 1024 x 4096, two norms; 32,002
  // words of two matrices (a multiple of tp) and the last norm.
  const std::int64_t layer = 2 * 1024 * 1024 + 2 * 1024 * 256 + 3 * 1024 * 4096 + 2 * 1024;
  CHECK(model_parameters(*job.model).total == 8 * layer + 2 * 32002 * 1024 + 1024);
  CHECK(job.unused.empty());
}

TEST_CASE("nanotron's defaults are its own, and what it cannot mean is refused") {
  const std::string early = replaced(kNanotronFile, "  recompute_layer: true\n", "  recompute_granularity: FULL\n");
  CHECK(job_of("early.yaml", early).fixed.recompute->kind == RecomputeKind::Full);
  CHECK(names(job_of("part.yaml", replaced(early, "FULL", "SELECTIVE")).unused, "recompute_granularity"));
  std::string text = replaced(kNanotronFile, "  tp_mode: REDUCE_SCATTER\n", "");
  text = replaced(text, "  pp_engine: 1f1b\n", "");
  text = replaced(text, "  accumulate_grad_in_fp32: true\n", "  accumulate_grad_in_fp32: false\n");
  const LaunchJob job = job_of("nano.yaml", text);
  CHECK(job.fixed.sequence_parallel == false);
  CHECK(job.fixed.schedule == Schedule::GPipe);
  CHECK(job.training->master_bytes == 0);
  CHECK(job.training->grad_bytes == 2);
  CHECK(names(job_of("n.yaml", kNanotronFile + "  frobnicate: 3\n").notes, "frobnicate"));
  CHECK(error_of("nano.yaml", replaced(kNanotronFile, "pp_engine: 1f1b", "pp_engine: 2f2b")) != "");
  CHECK(error_of("nano.yaml", replaced(kNanotronFile, "dp: 4", "dp: 99999999")) != "");
  const LaunchJob other = job_of("nano.yaml", replaced(kNanotronFile, "is_llama_config", "is_starcoder2_config"));
  CHECK_FALSE(other.model);
  CHECK(names(other.notes, "--model"));
  const std::string experts = replaced(kNanotronFile, "    tie_word_embeddings: false\n",
                                       "    moe_config:\n      num_experts: 8\n      top_k: 2\n"
                                       "      moe_intermediate_size: 512\n");
  const LaunchJob moe = job_of("nano.yaml", replaced(experts, "is_llama_config", "is_qwen2_config"));
  REQUIRE(moe.model);
  CHECK(moe.model->moe());
}

TEST_CASE("litgpt's YAML: adapters on four GPUs, one GPU, and pre-training inside nodes") {
  const LaunchJob lora = job_of("lora.yaml", kLitgptFile);
  CHECK(lora.format == "litgpt");
  CHECK(lora.gpus == 4);
  CHECK(lora.training->task == Task::Lora);
  CHECK(lora.training->lora.rank == 32);
  CHECK(lora.training->lora.ffn);
  CHECK(lora.fixed.zero == 3);
  CHECK(lora.fixed.recompute->kind == RecomputeKind::Full);
  CHECK(lora.training->global_batch == 16);
  CHECK(lora.training->master_bytes == 0);
  REQUIRE(lora.model);
  CHECK(lora.model->name == "llama3-8b");
  const LaunchJob one = job_of("q.yaml", replaced(kLitgptFile, "devices: 4", "quantize: bnb.nf4\ndevices: 1"));
  CHECK(one.training->task == Task::Qlora);
  CHECK(one.fixed.zero == 0);
  CHECK(one.fixed.recompute->kind == RecomputeKind::None);
  const std::string pretrain = replaced(
      replaced(kLitgptFile, "checkpoint_dir: checkpoints/meta-llama/Meta-Llama-3-8B\n", "model_name: Llama-3-8B\n"),
      "lora_r: 32\nlora_query: true\nlora_mlp: true\n", "");
  const LaunchJob nodes = job_of("p.yaml", replaced(pretrain, "num_nodes: 1", "num_nodes: 2"));
  CHECK(nodes.gpus == 8);
  CHECK(nodes.training->task == Task::Pretrain);
  CHECK(nodes.fixed.shard == 4);
  CHECK(job_of("p.yaml", pretrain).fixed.shard == 0);  // one node is all
  CHECK(job_of("f.yaml", replaced(kLitgptFile, "num_nodes: 1", "num_nodes: 2")).fixed.shard == 0);
  CHECK(job_of("p.yaml", replaced(replaced(pretrain, "num_nodes: 1", "num_nodes: 2"), "devices: 4", "devices: 1"))
            .fixed.shard == 0);
  // 16 samples for 8 ranks are 2 each: one micro-batch. 17 lose one, and the answer says so.
  const LaunchJob uneven = job_of("u.yaml", replaced(kLitgptFile, "global_batch_size: 16", "global_batch_size: 17"));
  CHECK(uneven.training->global_batch == 16);
  CHECK(names(uneven.unused, "global_batch_size"));
  CHECK(error_of("few.yaml", replaced(kLitgptFile, "global_batch_size: 16", "global_batch_size: 4")) ==
        "does_not_divide");
}

TEST_CASE("OLMo's YAML: its widths, shards and checkpoints") {
  const LaunchJob job = job_of("olmo.yaml", kOlmoFile, on(64));
  CHECK(job.format == "olmo");
  CHECK(job.gpus == 64);
  CHECK(job.fixed.zero == 2);
  CHECK(job.fixed.micro_batch == 4);
  CHECK(job.training->global_batch == 512);
  CHECK(job.training->seq == 4096);
  CHECK(job.fixed.recompute->kind == RecomputeKind::Full);
  CHECK(job.fixed.recompute->layers == 4);
  REQUIRE(job.model);
  const std::int64_t layer = 4 * 1024 * 1024 + 3 * 1024 * 4096 + 2 * 1024;
  CHECK(model_parameters(*job.model).total == 8 * layer + 2 * 50304 * 1024 + 1024);
  CHECK(job_of("ddp.yaml", kOlmoFile + "distributed_strategy: ddp\n", on(8)).fixed.zero == 0);
  const LaunchJob fine = job_of("f.yaml", replaced(kOlmoFile, "one_in_two", "fine_grained"), on(8));
  CHECK(names(fine.unused, "fine_grained"));
  CHECK_FALSE(job_of("b.yaml", replaced(kOlmoFile, "include_bias: false", "include_bias: true"), on(8)).model);
}

TEST_CASE("AWS's FSDP example states its model in flags") {
  const std::string text =
      "#!/bin/bash\n#SBATCH --nodes=4\nGPUS=8\nARGS=(\n  --max_context_width=8192\n  --num_key_value_heads=8\n"
      "  --intermediate_size=14336\n  --hidden_width=4096\n  --num_layers=32\n  --num_heads=32\n"
      "  --model_type=llama_v3\n  --train_batch_size=2\n  --checkpoint_freq=50\n  --sharding_strategy=full\n"
      "  --offload_activations=1\n)\nsrun torchrun --nnodes=$SLURM_JOB_NUM_NODES --nproc_per_node=$GPUS "
      "../src/train.py \"${ARGS[@]}\"\n";
  const LaunchJob job = job_of("llama.sbatch", text);
  CHECK(job.format == "aws-fsdp");
  CHECK(job.gpus == 32);
  CHECK(job.fixed.zero == 3);
  CHECK(job.fixed.micro_batch == 2);
  CHECK(job.training->global_batch == 64);
  CHECK(job.training->seq == 8192);
  CHECK(job.fixed.recompute->kind == RecomputeKind::Full);
  CHECK(names(job.unused, "activations that go to the host"));
  REQUIRE(job.model);
  const std::int64_t layer = 2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336 + 2 * 4096;
  CHECK(model_parameters(*job.model).total == 32 * layer + 2LL * 50432 * 4096 + 4096);
}

TEST_CASE("OLMo-core's saved configuration counts batches in tokens") {
  const std::string text =
      "{\"_CLASS_\": \"olmo_core.internal.experiment.ExperimentConfig\", \"run_name\": \"x\",\n"
      " \"launch\": {\"num_nodes\": 4, \"num_gpus\": 8},\n"
      " \"model\": {\"d_model\": 1024, \"vocab_size\": 50304, \"n_layers\": 8, \"block\": {\n"
      "   \"sequence_mixer\": {\"n_heads\": 16, \"n_kv_heads\": 4, \"bias\": false, \"rope\": {\"theta\": 500000},\n"
      "     \"qk_norm\": {\"name\": \"rms\"}},\n"
      "   \"feed_forward\": {\"hidden_size\": 4096, \"bias\": false}, \"name\": \"reordered_norm\"}},\n"
      " \"data_loader\": {\"global_batch_size\": 524288},\n"
      " \"train_module\": {\"rank_microbatch_size\": 8192, \"max_sequence_length\": 4096,\n"
      "   \"optim\": {\"_CLASS_\": \"olmo_core.optim.adamw.SkipStepAdamWConfig\", \"lr\": 0.0003},\n"
      "   \"dp_config\": {\"name\": \"hsdp\", \"param_dtype\": \"bfloat16\", \"reduce_dtype\": \"float32\"},\n"
      "   \"cp_config\": null, \"ac_config\": {\"mode\": \"full\"}}}\n";
  const LaunchJob job = job_of("config.json", text);
  CHECK(job.format == "olmo-core");
  CHECK(job.gpus == 32);
  CHECK(job.training->seq == 4096);
  CHECK(job.training->global_batch == 128);
  CHECK(job.fixed.micro_batch == 2);
  CHECK(job.fixed.zero == 3);
  CHECK(job.fixed.shard == 8);  // a replica a node
  CHECK(job.fixed.cp == 1);
  CHECK(job.fixed.recompute->kind == RecomputeKind::Full);
  CHECK(job.training->precision == Precision::Bf16);
  REQUIRE(job.model);
  // A layer: queries and output 1024^2 each, keys and values 1024 x 256 each, three 1024 x 4096, norms of the layer
  // and of all queries and keys.
  const std::int64_t layer = 2 * 1024 * 1024 + 2 * 1024 * 256 + 3 * 1024 * 4096 + 2 * 1024 + 1024 + 256;
  CHECK(model_parameters(*job.model).total == 8 * layer + 2 * 50304 * 1024 + 1024);
  const LaunchJob ring = job_of(
      "config.json", replaced(text, "\"cp_config\": null", "\"cp_config\": {\"degree\": 2, \"ring\": {\"x\": 1}}"));
  CHECK(ring.fixed.cp == 2);
  CHECK(ring.fixed.cp_kind == CpKind::Ring);
  CHECK(names(job_of("config.json", replaced(text, "\"mode\": \"full\"", "\"mode\": \"budget\"")).unused, "budget"));
  CHECK(error_of("config.json", replaced(text, "524288", "524289")) != "");
  CHECK_FALSE(job_of("config.json", replaced(text, "\"bias\": false, \"rope\"", "\"bias\": true, \"rope\"")).model);
}

TEST_CASE("a recipe's overrides count, and what it decides itself is named as a guess") {
  const std::string nemo =
      "#!/bin/bash\nnemo llm pretrain --factory llama3_70b trainer.num_nodes=2 trainer.devices=8 "
      "trainer.strategy.tensor_model_parallel_size=4 data.global_batch_size=64 data.seq_length=4096\n";
  const LaunchJob job = job_of("nemo.sh", nemo);
  CHECK(job.format == "nemo2");
  CHECK(job.gpus == 16);
  CHECK(job.fixed.tp == 4);
  CHECK(job.training->global_batch == 64);
  CHECK_FALSE(guesses(job, "tp"));
  CHECK(guesses(job, "cp"));
  CHECK(guesses(job, "recompute"));
  REQUIRE(job.model);
  CHECK(job.model->name == "llama3-70b");
  CHECK(job_of("ft.sh", replaced(nemo, "llm pretrain", "llm finetune")).training->task == Task::Lora);
  CHECK(job_of("full.sh", replaced(nemo, "llm pretrain", "llm finetune peft=none")).training->task != Task::Lora);
  CHECK(error_of("bare.sh", "#!/bin/bash\nnemo llm pretrain --factory llama3_8b\n") == "recipe_decides");
  const std::string bridge =
      "#!/bin/bash\ntorchrun --nnodes 1 --nproc_per_node 8 scripts/training/run_recipe.py "
      "--recipe llama31_8b_peft_config train.global_batch_size=32 model.tensor_model_parallel_size=2\n";
  const LaunchJob tuned = job_of("bridge.sh", bridge);
  CHECK(tuned.fixed.tp == 2);
  CHECK(tuned.training->task == Task::Lora);
  CHECK(guesses(tuned, "pp"));
  REQUIRE(tuned.model);
  CHECK(tuned.model->name == "llama3-8b");
  CHECK(error_of("b.sh", "#!/bin/bash\ntorchrun scripts/training/run_recipe.py --recipe llama3_8b_pretrain_config\n") ==
        "recipe_decides");
  const LaunchJob active = job_of("moe.sh", replaced(bridge, "llama31_8b_peft_config", "qwen3_30b_a3b_sft_config"));
  REQUIRE(active.model);
  CHECK(active.model->name == "qwen3-30b-a3b");
  CHECK_FALSE(job_of("no.sh", replaced(bridge, "llama31_8b_peft_config", "qwen3_31b_a3b_sft_config")).model);
}

TEST_CASE("NeMo's launcher and NeMo-RL's scripts lie over the files that they name") {
  const Files files;
  std::filesystem::create_directories(files.folder.at("launcher_scripts/conf/training/gpt3"));
  std::filesystem::create_directories(files.folder.at("examples/configs"));
  std::filesystem::create_directories(files.folder.at("tests"));
  files.folder.write("launcher_scripts/conf/training/gpt3/tiny.yaml",
                     "trainer:\n  num_nodes: 1\n  devices: 8\n  precision: bf16\nexp_manager:\n  name: x\nmodel:\n"
                     "  micro_batch_size: 2\n  global_batch_size: 64\n  tensor_model_parallel_size: 2\n"
                     "  pipeline_model_parallel_size: 1\n  encoder_seq_length: 2048\n"
                     "  max_position_embeddings: ${.encoder_seq_length}\n  num_layers: 24\n  hidden_size: 2048\n"
                     "  ffn_hidden_size: ${multiply:4, ${.hidden_size}}\n  num_attention_heads: 16\n"
                     "  make_vocab_size_divisible_by: 128\n  optim:\n    name: distributed_fused_adam\n");
  const LaunchContext named{.model = {}, .gpus = 0, .gpus_per_node = 0, .arguments = {}};
  const Result<LaunchJob> nemo =
      files.read("run.sh",
                 "#!/bin/bash\npython3 /opt/launcher_scripts/main.py training=gpt3/tiny stages=[training] "
                 "training.trainer.num_nodes=2 training.model.tensor_model_parallel_size=4\n",
                 named);
  // Everything is stated but the vocabulary, which is a tokenizer's: that one error, and no other.
  if (nemo) {
    CHECK(nemo->fixed.tp == 4);
    CHECK(nemo->gpus == 16);
  } else {
    CHECK(nemo.error().size() == 1);
    CHECK(nemo.error().front().code == "vocabulary_not_stated");
  }
  files.folder.write("examples/configs/base.yaml",
                     "policy:\n  model_name: meta-llama/Llama-3.1-8B\n  train_global_batch_size: 32\n"
                     "  train_micro_batch_size: 1\n  max_total_sequence_length: 1024\n  megatron_cfg:\n"
                     "    enabled: true\n    tensor_model_parallel_size: 1\ncluster:\n  gpus_per_node: 8\n"
                     "  num_nodes: 1\n");
  const Result<LaunchJob> rl =
      files.read("functional/grpo.sh",
                 "#!/bin/bash\nROOT=$(realpath $(dirname $0)/..)\nuv run $ROOT/examples/run_grpo.py "
                 "--config $ROOT/examples/configs/base.yaml policy.train_global_batch_size=64 cluster.num_nodes=2\n");
  // A command that ends where the name of a file should be names none.
  CHECK_FALSE(files.read("functional/cut.sh", "uv run ../examples/run_grpo.py --config\n"));
  REQUIRE_MESSAGE(rl, (rl ? "" : rl.error().front().message));
  CHECK(rl->gpus == 16);
  CHECK(rl->training->global_batch == 64);
  CHECK(rl->training->seq == 1024);
  CHECK(rl->unused.empty());
}

TEST_CASE("adapters are written to the tools that train them, and read back as the same job") {
  TemporaryFolder folder;
  for (const char* format : {"verl", "nemo-rl", "ms-swift", "llama-factory", "megatron-bridge"}) {
    CAPTURE(std::string(format));
    Args args;
    args.model = "llama3-8b";
    args.gpus = "16";
    args.task = "lora";
    args.lora_rank = "24";
    args.global_batch = "64";
    args.seq = "4096";
    args.layout = "tp2,mb1";
    args.framework = "megatron";
    const Plan plan = best_of(args);
    const std::vector<LaunchFile> files = written(format, plan);
    std::vector<std::string> paths;
    for (const LaunchFile& file : files)
      if (file.name != "overrides.yaml") paths.push_back(folder.write(file.name, file.text));
    const Result<LaunchJob> job = read_launch_files({paths.front()}, on(16));
    REQUIRE_MESSAGE(job, (job ? "" : job.error().front().message));
    CHECK(job->training->task == Task::Lora);
    CHECK(job->training->lora.rank == 24);
    CHECK(job->training->lora.attention);
    CHECK(job->training->lora.ffn);
    CHECK(job->fixed.tp == 2);
    Plan narrow = plan;
    narrow.problem.training.task = Task::Qlora;
    CHECK_FALSE(write_launch(format, narrow, {}));
    narrow = plan;
    narrow.problem.training.lora.ffn = false;
    CHECK_FALSE(write_launch(format, narrow, {}));
  }
}

TEST_CASE("DeepSpeed's sequences are split by accelerate, which registers Ulysses") {
  Args args;
  args.model = "llama3-8b";
  args.gpus = "64";
  args.global_batch = "64";
  args.seq = "65536";
  args.layout = "cp8";
  args.framework = "deepspeed";
  const std::vector<LaunchFile> files = written("deepspeed", best_of(args));
  const auto file =
      std::find_if(files.begin(), files.end(), [](const LaunchFile& one) { return one.name == "accelerate.yaml"; });
  REQUIRE(file != files.end());
  for (const char* line : {"parallelism_config_sp_size: 8\n", "parallelism_config_sp_backend: deepspeed\n",
                           "parallelism_config_sp_seq_length: 65536\n", "parallelism_config_dp_shard_size: 8\n"})
    CHECK(file->text.find(line) != std::string::npos);
}

TEST_CASE("LLaMA-Factory's second generation and DeepSpeed-Chat's flags") {
  const std::string factory =
      "model: Qwen/Qwen3-4B\nmodel_class: llm\npeft_config:\n  name: lora\n  r: 16\ndist_config:\n  name: fsdp2\n"
      "micro_batch_size: 2\ncutoff_len: 1024\n";
  const LaunchJob job = job_of("v1.yaml", factory, on(8));
  CHECK(job.training->task == Task::Lora);
  CHECK(job.training->lora.rank == 16);
  CHECK(job.fixed.zero == 3);
  CHECK(job.fixed.micro_batch == 2);
  CHECK(job.training->global_batch == 16);
  CHECK(job.training->precision == Precision::Bf16);
  CHECK(job_of("v1.yaml", factory + "global_batch_size: 64\n", on(8)).training->global_batch == 64);
  const std::string chat =
      "#!/bin/bash\nZERO=$1\nif [ -z \"$ZERO\" ]; then ZERO=3; fi\ndeepspeed --num_gpus 8 main.py "
      "--model_name_or_path meta-llama/Llama-2-7b-hf --per_device_train_batch_size 4 --max_seq_len 512 "
      "--gradient_accumulation_steps 2 --gradient_checkpointing --zero_stage $ZERO --offload --dtype bf16 "
      "--lora_dim 64 --only_optimize_lora --deepspeed --output_dir out\n";
  const LaunchJob deep = job_of("chat.sh", chat, on(8));
  CHECK(deep.format == "deepspeed");
  CHECK(deep.fixed.zero == 3);
  CHECK(deep.training->offload.parameters);
  CHECK(deep.training->precision == Precision::Bf16);
  CHECK(deep.training->task == Task::Lora);
  CHECK(deep.training->lora.rank == 64);
  CHECK(deep.training->seq == 512);
  CHECK(deep.training->global_batch == 4 * 2 * 8);
  CHECK(names(job_of("c.sh", replaced(chat, "--only_optimize_lora ", ""), on(8)).unused, "adapters beside"));
  CHECK(job_of("c.sh", replaced(chat, "only_optimize_lora", "mark_only_lora_as_trainable"), on(8)).training->task ==
        Task::Lora);
}

}  // namespace plan
