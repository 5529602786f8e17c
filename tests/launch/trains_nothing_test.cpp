// Programs that answer, convert or check take the files and flags of a training; they are no job. And the words that
// only a trainer of preferences takes are told, as are weights in 4 bits under the names that tools have for them.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <string>

#include "small_files.hpp"

namespace plan {

using namespace launching;

TEST_CASE("a command that only predicts trains nothing, whatever files it names") {
  const Files files;
  files.folder.write("acc.yaml",
                     "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nnum_machines: 1\n"
                     "num_processes: 4\nmixed_precision: fp16\n");
  const std::string words = " --model_name_or_path meta-llama/Llama-2-7b-hf --stage sft --finetuning_type lora ";
  const std::string start = "#!/bin/bash\naccelerate launch --config_file acc.yaml src/train_bash.py";
  CHECK_FALSE(files.read("run.sh", start + words + "--do_predict --per_device_eval_batch_size 1\n"));
  const std::string train = words + "--do_train --per_device_train_batch_size 1 --cutoff_len 1024 --fp16\n";
  CHECK(files.read("run.sh", start + train));
  CHECK(files.read("run.sh", start + " --do_predict" + train));
}

TEST_CASE("trainings of a loop that differ in what weighs are told, and those that differ in names are not") {
  const auto read = [](const std::string& variable, const std::string& values) {
    return job_of(
        "run.sh",
        fmt::format("#!/bin/bash\nMODEL=meta-llama/Meta-Llama-3-8B; B=1; L=2048; R=8; P=8; N=x\n"
                    "for {} in {}; do\n  accelerate launch --num_processes $P train.py --model_name_or_path "
                    "$MODEL --per_device_train_batch_size $B --max_seq_length $L --use_peft --lora_r $R --bf16 "
                    "--seed $N --output_dir out-$N-$L\ndone\n",
                    variable, values));
  };
  using Loop = std::pair<const char*, const char*>;
  for (const Loop& loop : {Loop{"MODEL", "Qwen/Qwen2.5-7B Qwen/Qwen2.5-14B"}, Loop{"B", "4 1"}, Loop{"L", "1024 4096"},
                           Loop{"R", "16 64"}, Loop{"P", "4 2"}}) {
    CAPTURE(std::string(loop.first));
    CHECK(names(read(loop.first, loop.second).unused, "counted is the last"));
  }
  CHECK_FALSE(names(read("N", "1 2 3").unused, "counted is the last"));
  CHECK_FALSE(names(read("B", "2").unused, "counted is the last"));
  // Names that hold the word of a flag that weighs, and another's values.
  for (const char* flag : {"--dataset_config d-$lr", "--model_tag m-$lr", "--learning_rate $lr", "--wandb_run rank-$lr",
                           "--save_model_every $lr", "--output_dir model-$lr", "--lora_alpha $lr"}) {
    CAPTURE(std::string(flag));
    const LaunchJob job =
        job_of("run.sh", fmt::format("#!/bin/bash\nfor lr in 1 2; do\n  accelerate launch --num_processes 8 train.py "
                                     "--model_name_or_path meta-llama/Meta-Llama-3-8B --per_device_train_batch_size 1 "
                                     "--max_seq_length 2048 --use_peft --lora_r 8 --bf16 {}\ndone\n",
                                     flag));
    CHECK_FALSE(names(job.unused, "counted is the last"));
  }
}

TEST_CASE("the name of a task is a set of data, and no method of training") {
  const auto read = [](const char* flag) {
    return job_of("run.sh", fmt::format("#!/bin/bash\ntorchrun --nproc_per_node 8 train.py --model_name_or_path "
                                        "meta-llama/Meta-Llama-3-8B --per_device_train_batch_size 2 --max_length 2048 "
                                        "--bf16 true {}\n",
                                        flag));
  };
  CHECK_FALSE(names(read("--task_name mrpc").unused, "what it trains"));
  CHECK(names(read("--training_method mrpc").unused, "what it trains"));
}

TEST_CASE("GRPO keeps a reference beside weights that are trained whole, where it weighs how far they stray") {
  const std::string text =
      "#!/bin/bash\naccelerate launch --num_processes 8 grpo.py --model_name_or_path meta-llama/Meta-Llama-3-8B "
      "--per_device_train_batch_size 1 --max_prompt_length 512 --max_completion_length 512 --num_generations 8 --bf16 ";
  for (const char* beta : {"0.001", "0.04", "1"}) {
    CHECK(names(job_of("run.sh", text + "--beta " + beta + "\n").unused, "reference model"));
    CHECK_FALSE(
        names(job_of("run.sh", text + "--use_peft --lora_r 8 --beta " + beta + "\n").unused, "reference model"));
  }
  for (const char* beta : {"", "--beta 0.0", "--beta 0"})
    CHECK_FALSE(names(job_of("run.sh", text + beta + "\n").unused, "reference model"));
}

TEST_CASE("a word for the method that nobody knows is no plain training, under any of its names") {
  const std::string words =
      "#!/bin/bash\ntorchrun --nproc_per_node 8 --nnodes 1 train.py --model_name_or_path meta-llama/Meta-Llama-3-8B "
      "--per_device_train_batch_size 1 --max_seq_length 2048 --bf16 ";
  const std::string factory =
      "model_name_or_path: meta-llama/Meta-Llama-3-8B\nfinetuning_type: full\ncutoff_len: 2048\n"
      "per_device_train_batch_size: 1\nbf16: true\n";
  for (const char* word : {"REFUEL", "spin", "rebel", "online_dpo", "nash_md", "distillation"}) {
    CAPTURE(std::string(word));
    for (const char* key : {"training_method", "train_method", "training_type", "rl_type", "rl_algorithm", "algorithm",
                            "training_stage", "stage", "rlhf_type"})
      CHECK(names(job_of("run.sh", words + "--" + key + " " + word + "\n").unused, key));
    CHECK(names(job_of("llama.yaml", factory + "stage: " + word + "\n", on(8)).unused, "stage"));
  }
  for (const char* word : {"sft", "SFT", "pt", "full", "lora", "supervised", "finetune"})
    for (const char* key : {"training_method", "train_method", "training_type", "algorithm"})
      CHECK_FALSE(names(job_of("run.sh", words + "--" + key + " " + word + "\n").unused, "what it trains"));
}

TEST_CASE("quantised adapters are so beside any word for adapters, before it and behind it") {
  const std::string words =
      "#!/bin/bash\naccelerate launch --num_processes 8 train.py --model_name_or_path meta-llama/Meta-Llama-3-8B "
      "--per_device_train_batch_size 1 --max_seq_length 2048 --lora_rank 64 ";
  for (const char* adapters : {"--use_lora", "--use_lora True", "--lora_enable True", "--use_peft", "--lora True",
                               "--enable_lora True", "--peft_type lora"})
    for (const char* quantised : {"--use_qlora", "--use_qlora True", "--qlora True", "--enable_qlora 1"})
      for (const bool first : {true, false}) {
        const std::string text = words + (first ? quantised : adapters) + " " + (first ? adapters : quantised) + "\n";
        CAPTURE(text);
        CHECK(job_of("run.sh", text).training->task == Task::Qlora);
        const std::string off = words + adapters + " --use_qlora False\n";
        CHECK(job_of("run.sh", off).training->task == Task::Lora);
      }
}

TEST_CASE("a program that chats with a model takes a training's launcher and file, and is none") {
  const Files files;
  files.folder.write("ds.json", "{\"zero_optimization\": {\"stage\": 2}, \"bf16\": {\"enabled\": true}}\n");
  for (const char* program : {"examples/chatbot.py", "examples/vis_chatbot.py", "chatbot_gradio.py"})
    for (const char* start : {"deepspeed --num_gpus 8", "accelerate launch --num_processes 8"})
      CHECK_FALSE(files.read("run.sh",
                             fmt::format("#!/bin/bash\n{} {} --deepspeed ds.json --model_name_or_path "
                                         "meta-llama/Llama-2-7b-hf --max_new_tokens 200\n",
                                         start, program),
                             on(8)));
  CHECK(files.read("run.sh",
                   "#!/bin/bash\ndeepspeed --num_gpus 8 train_chatbot.py --deepspeed ds.json --model_name_or_path "
                   "meta-llama/Llama-2-7b-hf --per_device_train_batch_size 1 --max_seq_length 2048\n",
                   on(8)));
}

TEST_CASE("files of tools without a reader are named by their own keys") {
  const std::pair<const char*, const char*> files[] = {
      {"tune.yaml", "model:\n  _component_: torchtune.models.llama3.llama3_8b\nbatch_size: 2\n"},
      {"primus.yaml",
       "work_group: x\nmodules:\n  pre_trainer:\n    framework: nemo_automodel\n    overrides:\n"
       "      local_batch_size: 2\n"},
      {"prime.toml", "[model]\nname = \"Qwen/Qwen3-4B\"\n[trainer.model]\ncp = 2\n[orchestrator]\nbatch_size = 64\n"},
      {"areal.yaml", "experiment_name: x\nallocation_mode: sglang.d4p1t1+d4p1t1\ngconfig:\n  n_samples: 4\n"},
      {"areal2.yaml",
       "experiment_name: x\ntrial_name: y\ncluster:\n  n_nodes: 1\nactor:\n  backend: fsdp:d4p1t1\n  path: a/b\n"},
      {"engine.yaml",
       "defaults:\n  - model@model: hf_model\n  - engine@engine: fsdp\ndata:\n  max_length: 1024\ntrainer:\n"
       "  nnodes: 1\n"},
      {"fast.yaml",
       "training:\n  train_iters: 100\ndata:\n  micro_batch_size: 8192\nmodel:\n  base_model:\n    hidden_size: 4096\n"
       "  multi_stage:\n    zero_stage: 2\n"},
      {"rl2.yaml", "actor:\n  max_length_per_device: 8192\nrollout:\n  train:\n    prompts_per_rollout: 64\n"},
      {"dolomite.yml", "model_args:\n  model_name: a/b\ntraining_parameters:\n  micro_batch_size: 2\n"},
      {"mindspeed.yaml",
       "megatron_training:\n  global_batch_size: 384\nactor_config:\n  tensor_model_parallel_size: 4\n"},
      {"train.py", "from torchtitan.config import JobConfig\n\ndef step(model, loss):\n    loss.backward()\n"}};
  for (const auto& file : files) {
    const auto& name = file.first;
    const auto& text = file.second;
    CAPTURE(name);
    const Files written;
    const Result<LaunchJob> job = written.read(name, text);
    REQUIRE_FALSE(job);
    CHECK(job.error().front().message.find("which plan does not read") != std::string::npos);
  }
}

TEST_CASE("a NeuronX configuration is refused by name") {
  const Files files;
  const Result<LaunchJob> job =
      files.read("conf.yaml",
                 "trainer:\n  devices: 32\n  num_nodes: 1\nexp_manager:\n  name: x\n"
                 "distributed_strategy:\n  tensor_model_parallel_size: 8\nmodel:\n  num_layers: 32\n"
                 "  hidden_size: 4096\n  num_attention_heads: 32\n  encoder_seq_length: 2048\n");
  REQUIRE_FALSE(job);
  CHECK(job.error().front().message.find("NeuronX") != std::string::npos);
}

TEST_CASE("a script whose program trains nothing is refused, and one that trains is read") {
  const Files files;
  files.folder.write("base.yml",
                     "base_config: base.yml\nmodel_name: llama3.1-8b\nhardware: gpu\n"
                     "ici_fsdp_parallelism: 8\ndcn_data_parallelism: 1\nper_device_batch_size: 1\n");
  for (const char* program : {"MaxText/decode.py", "-m MaxText.decode", "MaxText/generate_param_only_checkpoint.py",
                              "MaxText/tests/forward_pass_logit_checker.py", "MaxText/llama_or_mistral_ckpt.py",
                              "MaxText/load_and_quantize_checkpoint.py"}) {
    CAPTURE(std::string(program));
    CHECK_FALSE(
        files.read("run.sh", fmt::format("#!/bin/bash\npython3 {} base.yml per_device_batch_size=2\n", program)));
  }
  CHECK(files.read("run.sh", "#!/bin/bash\npython3 -m MaxText.train base.yml per_device_batch_size=2\n"));
  const std::string verl =
      "#!/bin/bash\npython3 -m verl.trainer.main_ppo actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct "
      "data.train_batch_size=256 data.max_prompt_length=512 data.max_response_length=512 "
      "actor_rollout_ref.actor.ppo_mini_batch_size=64 actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4 "
      "trainer.n_gpus_per_node=8 trainer.nnodes=1 trainer.val_only={}\n";
  CHECK_FALSE(files.read("run.sh", fmt::format(fmt::runtime(verl), "True")));
  CHECK(files.read("run.sh", fmt::format(fmt::runtime(verl), "False")));
  const std::string megatron =
      "#!/bin/bash\ntorchrun --nproc-per-node 8 --nnodes 1 {} --num-layers 8 --hidden-size 1024 "
      "--num-attention-heads 8 --seq-length 2048 --max-position-embeddings 2048 --micro-batch-size 1 "
      "--global-batch-size 64 --train-iters 5 --vocab-size 32000 --bf16 --eval-interval 5\n";
  CHECK_FALSE(
      files.read("run.sh", fmt::format(fmt::runtime(megatron), "-m examples.inference.gpt.gpt_dynamic_inference")));
  CHECK(files.read("run.sh", fmt::format(fmt::runtime(megatron), "-m megatron.training.pretrain_gpt")));
  CHECK(files.read("run.sh", fmt::format(fmt::runtime(megatron), "pretrain_gpt5b.py")));
  for (const char* encoder : {"pretrain_bert.py", "pretrain_t5.py", "../my_bert_train.py", "-m tools.pretrain_t5"})
    CHECK(error_of("run.sh", fmt::format(fmt::runtime(megatron), encoder)) == "not_a_decoder");
}

TEST_CASE("arguments of BERT and T5 without a program are refused, whatever model is named beside them") {
  const std::string common =
      "MODEL_ARGS:\n  --hidden-size: 1024\n  --num-attention-heads: 16\n  --micro-batch-size: 4\n"
      "  --global-batch-size: 128\n  --train-iters: 50\n  --eval-interval: 1000\n  --max-position-embeddings: 512\n"
      "  --vocab-size: 30592\n  --bf16: true\n";
  const std::string decoder = common + "  --num-layers: 24\n  --seq-length: 512\n";
  const std::string vocabulary = "  --vocab-file: data/vocab.txt\n";
  const std::string others[] = {
      common + "  --encoder-num-layers: 12\n  --decoder-num-layers: 12\n  --encoder-seq-length: 512\n",
      common + "  --decoder-seq-length: 128\n", decoder + vocabulary,
      decoder + "  --tokenizer-type: BertWordPieceLowerCase\n", decoder + "  --bert-no-binary-head: true\n"};
  const Files files;
  const std::optional<Model> asked = job_of("model_config.yaml", decoder).model;
  REQUIRE(asked);
  for (const std::string& text : others)
    for (const bool named : {false, true}) {
      CAPTURE(named);
      CAPTURE(text);
      LaunchContext context{.gpus = 8, .gpus_per_node = 8};
      if (named) context.model = asked;
      const Result<LaunchJob> job = files.read("model_config.yaml", text, context);
      REQUIRE_FALSE(job);
      CHECK(job.error().front().code == "not_a_decoder");
    }
  for (const char* sound :
       {"", "  --merge-file: data/merges.txt\n", "  --tokenizer-type: GPTSentencePieceTokenizer\n"}) {
    const std::string text = decoder + (*sound == 0 ? std::string() : vocabulary) + sound;
    CAPTURE(text);
    CHECK(files.read("model_config.yaml", text, {.gpus = 8, .gpus_per_node = 8}));
  }
}

TEST_CASE("a command that is not found names what was not followed, where it may stand") {
  const Files files;
  const std::string train =
      "python -m openrlhf.cli.train_sft --pretrain Qwen/Qwen2.5-7B-Instruct --train_batch_size 64 --max_len 2048 "
      "--micro_train_batch_size 2 --zero_stage 3 --bf16";
  const std::string script = fmt::format("#!/bin/bash\nRANK=$1\nif [ \"$RANK\" = \"0\" ]; then\n  {}\nfi\n", train);
  const Result<LaunchJob> job = files.read("run.sh", script);
  REQUIRE_FALSE(job);
  const Error& error = job.error().front();
  REQUIRE_FALSE(error.facts.empty());
  CHECK(error.facts.front().find("`$1`") != std::string::npos);
  CHECK(error.help.back().find("--args") != std::string::npos);
  CHECK(files.read("run.sh", script, {.model = {}, .gpus = 8, .gpus_per_node = 8, .arguments = {"0"}}));
}

TEST_CASE("slime's command without flags of a model takes that of its checkpoint, and says so") {
  const std::string command =
      "#!/bin/bash\nread -ra MODEL_ARGS <<< \"$(python3 args.py)\"\nray job submit -- python3 train.py "
      "--actor-num-nodes 2 --actor-num-gpus-per-node 8 ${{MODEL_ARGS[@]}} --hf-checkpoint {} "
      "--tensor-model-parallel-size 2 --sequence-parallel --global-batch-size 256 --pipeline-model-parallel-size 1\n";
  const LaunchJob job = job_of("run.sh", fmt::format(fmt::runtime(command), "/root/Qwen3-8B"));
  REQUIRE(job.model);
  CHECK(job.model->name == "qwen3-8b");
  CHECK(job.gpus == 16);
  CHECK(job.fixed.tp == 2);
  CHECK(names(job.notes, "which `--hf-checkpoint` names"));
  CHECK(names(job.unused, "${MODEL_ARGS[@]}"));
  CHECK(error_of("run.sh", fmt::format(fmt::runtime(command), "/root/my-own-model")) == "bad_model");
  const LaunchJob lora = job_of("run.sh", fmt::format(fmt::runtime(command),
                                                      "/root/Qwen3-8B --lora-rank 32 --lora-alpha 32 "
                                                      "--lora-dropout 0.0 --target-modules q_proj,o_proj"));
  REQUIRE(lora.training);
  CHECK(lora.training->task == Task::Lora);
  CHECK(lora.training->lora.rank == 32);
  CHECK_FALSE(names(lora.unused, "lora-rank"));
}

TEST_CASE("words of trainers of preferences are told where no stage is named") {
  const std::string file =
      "model_name_or_path: Qwen/Qwen2.5-7B-Instruct\nper_device_train_batch_size: 2\nmax_length: 1024\nbf16: true\n"
      "gradient_accumulation_steps: 2\nlearning_rate: 5.0e-7\noutput_dir: x\n";
  constexpr const char* kTold = "the pairs of answers";
  CHECK_FALSE(names(job_of("a.yaml", file).unused, kTold));
  for (const char* line :
       {"beta: 0.01", "rpo_alpha: 1.0", "simpo_gamma: 0.5", "cpo_alpha: 1.0", "desirable_weight: 1.0",
        "precompute_ref_log_probs: true", "dpo_beta: 5", "orpo_beta: 0.1"}) {
    CAPTURE(std::string(line));
    const LaunchJob job = job_of("a.yaml", file + line + "\n");
    CHECK(std::count_if(job.unused.begin(), job.unused.end(),
                        [](const Note& note) { return note.text.find(kTold) != std::string::npos; }) == 1);
  }
  CHECK_FALSE(names(job_of("a.yaml", file + "beta: 0.04\nnum_generations: 8\n").unused, kTold));
}

TEST_CASE("adapters on weights in 4 bits are QLoRA, whatever the tool calls the bits") {
  for (const char* bits :
       {"--bits 4", "--quant_bits 4", "--quantization_bit 4", "--load_in_4bit True", "--use_4bit True"})
    for (const char* lora : {"--lora_enable True", "--use_lora True"}) {
      const std::string text = fmt::format(
          "#!/bin/bash\ntorchrun --nproc_per_node 8 train.py --model_name_or_path Qwen/Qwen2.5-7B-Instruct "
          "--per_device_train_batch_size 2 --model_max_length 2048 --bf16 True {} {}\n",
          lora, bits);
      CAPTURE(text);
      CHECK(job_of("run.sh", text).training->task == Task::Qlora);
    }
  CHECK(job_of("run.sh",
               "#!/bin/bash\ntorchrun --nproc_per_node 8 train.py --model_name_or_path Qwen/Qwen2.5-7B-Instruct "
               "--per_device_train_batch_size 2 --model_max_length 2048 --bf16 True --lora_enable True --bits 16\n")
            .training->task == Task::Lora);
}

TEST_CASE("torchtitan main's tensor parallelism without sequence parallelism is read as such") {
  const LaunchJob job = job_of("recipe.py",
                               "from torchtitan.models.llama3.config_registry import llama3_8b\n\n\ndef job():\n"
                               "    config = llama3_8b()\n    config.parallelism.tensor_parallel_degree = 4\n"
                               "    config.parallelism.enable_sequence_parallel = False\n    return config\n");
  CHECK(job.fixed.tp == 4);
  CHECK(job.fixed.sequence_parallel == false);
}

TEST_CASE("a program's own words for adapters train them, or are told") {
  const auto job = [](const std::string& words) {
    return job_of("run.sh",
                  "#!/bin/bash\npython train.py --model_name_or_path meta-llama/Llama-2-7b-hf "
                  "--per_device_train_batch_size 1 --max_length 2048 --bf16 true " +
                      words + "\n",
                  on(1));
  };
  for (const char* key : {"lora_rank", "lora_r", "init_lora_rank", "policy_lora_r"}) {
    CAPTURE(std::string(key));
    const LaunchJob own = job(fmt::format("--{} 32 --lora_alpha 64", key));
    CHECK(own.training->task == Task::Lora);
    CHECK(own.training->lora.rank == 32);
    CHECK(names(own.unused, key));
    CHECK(job(fmt::format("--{} 0", key)).training->task == Task::FullFinetune);
  }
  for (const char* words : {"--lora_alpha 64", "--adapter_path out/sft", "--sft_adapter_path a"})
    CHECK(names(job(words).unused, "adapters may be trained"));
  for (const char* words : {"", "--lora_alpha 0", "--sft_adapter_path ''"}) CHECK(job(words).unused.empty());
}

TEST_CASE("what only some trainers have is told, and no more") {
  const Files files;
  // DeepSpeed's first way to switch ZeRO on.
  for (const auto& [word, stage] : {std::pair{"true", 1}, {"false", 0}, {"{\"stage\": 2}", 2}})
    CHECK(job_of("ds.json",
                 fmt::format("{{\"train_batch_size\": 8, \"fp16\": {{\"enabled\": true}}, \"zero_optimization\": {}}}",
                             word),
                 on(8))
              .fixed.zero == stage);
  const std::string verl =
      "#!/bin/bash\npython3 -m verl.trainer.main_ppo actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct "
      "actor_rollout_ref.actor.ppo_mini_batch_size=64 actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4 "
      "trainer.n_gpus_per_node=8 trainer.nnodes=1 ";
  CHECK(names(job_of("v.sh", verl + "actor_rollout_ref.actor.dtype=float16\n").unused, "actor.dtype"));
  CHECK_FALSE(names(job_of("v.sh", verl + "actor_rollout_ref.actor.dtype=bfloat16\n").unused, "actor.dtype"));
  CHECK_FALSE(names(job_of("v.sh", verl + "actor_rollout_ref.rollout.dtype=float16\n").unused, "rollout.dtype"));
  const std::string maxtext =
      "model_name: llama3.1-8b\nhardware: gpu\nici_fsdp_parallelism: 8\n"
      "dcn_data_parallelism: 1\nper_device_batch_size: 1\ntrainer_devices_fraction: ";
  CHECK(names(job_of("m.yml", maxtext + "0.5\n", on(8)).unused, "trainer_devices_fraction"));
  CHECK_FALSE(names(job_of("m.yml", maxtext + "1.0\n", on(8)).unused, "trainer_devices_fraction"));
}

}  // namespace plan
