// What a script's reader does not follow is told, whichever framework the script starts.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <string>

#include "cli/launch/launch.hpp"
#include "cli/shell/shell.hpp"
#include "small_files.hpp"

namespace plan {

using namespace launching;

namespace {

/// One script a framework, each of a sound job of 8 GPUs; `{}` is where more of the script or of the command goes.
struct Trainer {
  const char* name;
  const char* command;
};
constexpr Trainer kTrainers[] = {
    {"megatron",
     "torchrun --nproc-per-node 8 --nnodes 1 pretrain_gpt.py --num-layers 8 --hidden-size 1024 --num-attention-heads 8 "
     "--seq-length 2048 --max-position-embeddings 2048 --micro-batch-size 1 --global-batch-size 64 --train-iters 5 "
     "--vocab-size 32000 --bf16 --eval-interval 5"},
    {"verl",
     "python3 -m verl.trainer.main_ppo actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct data.train_batch_size=256 "
     "data.max_prompt_length=512 data.max_response_length=512 actor_rollout_ref.actor.ppo_mini_batch_size=64 "
     "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4 trainer.n_gpus_per_node=8 trainer.nnodes=1"},
    {"maxtext",
     "python3 -m MaxText.train base.yml model_name=llama3.1-8b per_device_batch_size=2 max_target_length=4096 "
     "ici_fsdp_parallelism=8 hardware=gpu"},
    {"trainer",
     "torchrun --nproc_per_node 8 --nnodes 1 train.py --model_name_or_path Qwen/Qwen2.5-7B-Instruct "
     "--per_device_train_batch_size 2 --gradient_accumulation_steps 4 --model_max_length 2048 --bf16 True"},
};

/// Whether some note of the job names `part`, or its refusal the words that no file holds.
bool tells(const Trainer& trainer, const std::string& before, const std::string& behind, const std::string& part) {
  const Files files;
  const Result<LaunchJob> job =
      files.read("run.sh", fmt::format("#!/bin/bash\n{}\n{} {}\n", before, trainer.command, behind));
  if (!job) return !behind.empty() && job.error().front().message.find(behind) != std::string::npos;
  return names(job->notes, part) || names(job->unused, part);
}

/// Notes of a script alone, one a line.
std::string told_of(const std::string& text) {
  std::string out;
  for (const Note& note : follow_script(text, "x.sh").notes) out += note.text + "\n";
  return out;
}

}  // namespace

TEST_CASE("words that a script's unknown branches set are told by every reader") {
  for (const Trainer& trainer : kTrainers) {
    CAPTURE(std::string(trainer.name));
    CHECK(tells(trainer, "if [ \"$CLUSTER\" = big ]; then\n  MORE=(a)\nfi", "${MORE[@]}", "sets `MORE`"));
    CHECK(tells(trainer, "if [ \"$CLUSTER\" = big ]; then\n  MORE=(a)\nfi", "${MORE[@]}", "`${MORE[@]}` holds"));
    CHECK(tells(trainer, "[[ $SIZE -gt 8 ]] && CONFIG_OVERRIDES=x", "${CONFIG_OVERRIDES}", "sets `CONFIG_OVERRIDES`"));
    CHECK(tells(trainer, "", "${CONFIG_OVERRIDES}", "`${CONFIG_OVERRIDES}` holds"));
    CHECK(tells(trainer, "", "$EXTRA_ARGS", "`$EXTRA_ARGS` holds"));
    CHECK(tells(trainer, "", "\"$@\"", "`$@` holds"));
    CHECK(tells(trainer, "case $SIZE in\n 7b) TP=2 ;;\n *) TP=1 ;;\nesac", "", "set `TP`"));
    CHECK(tells(trainer, "if nvidia-smi | grep -q H100; then\n  MORE=x\nfi", "", "taken to"));
    CHECK_FALSE(tells(trainer, "[ -d \"$LOGS\" ] || mkdir -p \"$LOGS\"", "", "not known"));
    CHECK_FALSE(tells(trainer, "if [ ! -d \"$LOGS\" ]; then\n  echo none\n  mkdir -p x\nfi", "", "not known"));
  }
}

TEST_CASE("what is left out is told where it may weigh, with the names that it sets") {
  CHECK(told_of("[ $A = 1 ] || B=2\nrun $B").find("which sets `B`, is left out") != std::string::npos);
  CHECK(told_of("[ $A = 1 ] && { export B=2; C+=(x); }\nrun").find("sets `B`, `C`") != std::string::npos);
  CHECK(told_of("f() { B=2; }\n[ $A = 1 ] && f\nrun").find("sets `B`") != std::string::npos);
  CHECK(told_of("if [ $A = 1 ]; then if [ 1 = 1 ]; then B=2; fi; else C=3; fi\nrun").find("sets `B`,") !=
        std::string::npos);
  CHECK(told_of("if [ $A = 1 ]; then case $D in x) B=2;; y) E=1;; esac; fi\nrun").find("sets `B`, `E`,") !=
        std::string::npos);
  CHECK(told_of("if [ $A = 1 ]; then source env.sh; fi\nrun").find("is left out") != std::string::npos);
  CHECK(told_of("[ $A = 1 ] && echo yes; if [ $A = 2 ]; then exit 1; fi\nrun").empty());
  CHECK(told_of("A=1\ncase $A in 1) B=2;; *) B=3;; esac\nrun $B").empty());
  CHECK(told_of("command -v x > /dev/null && B=2\nrun $B").find("`command` succeeds is not known") !=
        std::string::npos);
  CHECK(told_of("cd x && B=2\nrun $B").empty());
}

TEST_CASE("commands that change variables change them, or are told") {
  const auto last = [](const std::string& text) {
    const Script script = follow_script(text, "x.sh");
    std::string out;
    for (const ShellWord& word : script.commands.back().words) out += (out.empty() ? "" : " ") + word.text;
    return out;
  };
  CHECK(last("A=1; unset A; run ${A:-none}") == "run none");
  CHECK(last("A=(x y); unset -v A; run ${A:-none}") == "run none");
  CHECK(last("N=4; let M=N*2; let \"K = M + 1\"; run $M $K") == "run 8 9");
  CHECK(last("N=4; (( M = N * 2 )); ((M+=1)); ((M++)); ((--N)); run $M $N") == "run 10 3");
  CHECK(last("N=0; ((N++)) || A=was; run $A $N") == "run was 1");
  CHECK(last("N=4; ((N = $(gpus))); run $N") == "run $N");
  CHECK(last("A=1; read -r A B < file; run $A") == "run $A");
  CHECK(last("A=(1); mapfile -t A < file; run ${A[@]}") == "run ${A[@]}");
  CHECK(told_of("A=1; read -r A < file; run $A").find("puts into `A`") != std::string::npos);
}

TEST_CASE("a default for the environment is read, and the variable named") {
  const std::string nemo =
      "trainer:\n  num_nodes: ${oc.decode:${oc.env:NODES,2}}\n  devices: 8\n  precision: bf16\nexp_manager:\n  name: "
      "x\n"
      "model:\n  micro_batch_size: ${oc.decode:${oc.env:MICRO,\"4\"}}\n  global_batch_size: 64\n"
      "  tensor_model_parallel_size: ${oc.env:TP,4}\n  pipeline_model_parallel_size: 1\n"
      "  virtual_pipeline_model_parallel_size: ${oc.decode:${oc.env:VP,null}}\n  encoder_seq_length: 2048\n"
      "  max_position_embeddings: ${.encoder_seq_length}\n  num_layers: ${oc.decode:${oc.env:LAYERS,24}}\n"
      "  hidden_size: 2048\n  ffn_hidden_size: 8192\n  num_attention_heads: 16\n  make_vocab_size_divisible_by: 128\n"
      "  tokenizer:\n    library: megatron\n    type: GPT2BPETokenizer\n  optim:\n    name: distributed_fused_adam\n";
  const LaunchJob job = job_of("nemo.yaml", nemo);
  CHECK(job.gpus == 16);
  CHECK(job.fixed.tp == 4);
  CHECK(job.fixed.micro_batch == 4);
  CHECK(job.fixed.vp.value_or(1) == 1);
  REQUIRE(job.model);
  CHECK(job.model->layers.size() == 24);
  CHECK(names(job.unused, "`NODES`, `MICRO`, `TP`, `VP`, `LAYERS`"));
  const Files files;
  CHECK_FALSE(files.read("open.yaml", replaced(nemo, "${oc.env:TP,4}", "${oc.env:TP}")));
  for (const auto& row : {std::pair{"PROFILE", true},
                          {"TRAIN_PROFILE", true},
                          {"MODEL_FILES", true},
                          {"DATA_FILE", false},
                          {"HOSTFILE", false}}) {
    const std::string name = row.first;
    const bool told = row.second;
    CAPTURE(name);
    const std::string asks = replaced(nemo, "${oc.env:TP,4}", "${oc.env:" + name + ",4}");
    CHECK(names(job_of("env.yaml", asks).unused, "`" + name + "`") == told);
  }
}

TEST_CASE("what NeMo trains beside a frozen model is named, and a model that is no decoder refused") {
  const std::string nemo =
      "trainer:\n  num_nodes: 1\n  devices: 8\n  precision: bf16\nexp_manager:\n  name: megatron_gpt\nmodel:\n"
      "  micro_batch_size: 4\n  global_batch_size: 64\n  tensor_model_parallel_size: 1\n  encoder_seq_length: 2048\n"
      "  pipeline_model_parallel_size: 1\n  max_position_embeddings: 2048\n  num_layers: 24\n  hidden_size: 2048\n"
      "  ffn_hidden_size: 8192\n  num_attention_heads: 16\n  make_vocab_size_divisible_by: 128\n"
      "  tokenizer:\n    library: megatron\n    type: GPT2BPETokenizer\n";
  CHECK_FALSE(names(job_of("nemo.yaml", nemo).unused, "frozen"));
  for (const char* line : {"  virtual_prompt_style: p-tuning\n", "  language_model_path: /m/gpt.nemo\n",
                           "  adapter_tuning:\n    type: linear_adapter\n"}) {
    CAPTURE(std::string(line));
    CHECK(names(job_of("nemo.yaml", nemo + line).unused, "beside a frozen model"));
  }
  for (const char* name : {"megatron_t5_prompt", "megatron_mt5_prompt", "megatron_bert"})
    CHECK(error_of("nemo.yaml", replaced(nemo, "megatron_gpt", name)) == "not_a_decoder");
}

TEST_CASE("ms-swift splits sequences under FSDP as under DeepSpeed") {
  const std::string command =
      "#!/bin/bash\nNPROC_PER_NODE=8 swift sft --model Qwen/Qwen2.5-7B-Instruct --train_type full --dataset x "
      "--torch_dtype bfloat16 --max_length 16384 --per_device_train_batch_size 1 --gradient_accumulation_steps 2 "
      "--sequence_parallel_size 2 ";
  for (const char* shards : {"--fsdp fsdp2", "--deepspeed zero3"}) {
    CAPTURE(std::string(shards));
    const LaunchJob job = job_of("swift.sh", command + shards + "\n");
    CHECK(job.fixed.cp == 2);
    CHECK(job.fixed.cp_kind == CpKind::Ulysses);
    CHECK(job.training->global_batch == 8);
    CHECK_FALSE(names(job.unused, "sequence_parallel_size"));
  }
}

}  // namespace plan
