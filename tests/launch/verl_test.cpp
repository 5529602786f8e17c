// verl's commands: whose engine shards the actor, which programs are built on its trainer, and slime's batch.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <string>

#include "small_files.hpp"
#include "verl_script.hpp"

namespace plan {

using namespace launching;

TEST_CASE("the engine of a verl script is what its command says, and no remark, path or name of an experiment") {
  for (const char* before : {"", "export CUDA_DEVICE_MAX_CONNECTIONS=1  # For megatron's overlap", "L=/opt/megatron"}) {
    CAPTURE(std::string(before));
    const LaunchJob fsdp = job_of(
        "f.sh", verl_script("verl.trainer.main_ppo", kMicroOfTwo + "trainer.experiment_name=not_megatron", before));
    CHECK(fsdp.fixed.zero == 3);
    CHECK(fsdp.fixed.tp == 1);
    CHECK(fsdp.training->global_batch == 512);
    const LaunchJob megatron = job_of(
        "m.sh", verl_script("verl.trainer.main_ppo --config-name=ppo_megatron_trainer.yaml", kMegatronActor, before));
    CHECK(megatron.fixed.zero == 1);
    CHECK(megatron.fixed.tp == 4);
    CHECK(megatron.fixed.pp == 2);
  }
  for (const char* says : {"actor_rollout_ref.actor.strategy=megatron", "model_engine=megatron",
                           "--config-name 'ppo_megatron_trainer'", "actor_rollout_ref.actor.megatron.use_mbridge=True"})
    CHECK(job_of("e.sh", verl_script("verl.trainer.main_ppo", kMegatronActor + says)).fixed.tp == 4);
}

TEST_CASE("the lengths that verl's rollout has of its own count, under either engine") {
  const std::string kRollout = "actor_rollout_ref.rollout.";
  for (const std::string& engine : {kMicroOfTwo, kMegatronActor})
    for (const auto& [prompt, response] : {std::pair{8192, 32000}, std::pair{512, 1536}}) {
      const auto seq = [&](const std::string& more) {
        return job_of("v.sh", verl_script("verl.trainer.main_ppo", engine + more)).training->seq;
      };
      CHECK(seq(fmt::format("{0}prompt_length={1} {0}response_length={2}", kRollout, prompt, response)) ==
            prompt + response);
      CHECK(seq(fmt::format("+{}response_length={}", kRollout, response)) == 1024 + response);
      CHECK(seq(kRollout + "response_length='${data.max_response_length}'") == 1024 + 3072);
    }
}

TEST_CASE("a format of weights that verl does not have is refused, and its own are counted") {
  const std::string key = "actor_rollout_ref.actor.fsdp_config.model_dtype=";
  const auto text = [&](const std::string& word) {
    return verl_script("verl.trainer.main_ppo", word.empty() ? kMicroOfTwo : kMicroOfTwo + key + word);
  };
  const auto master = [&](const std::string& word) { return job_of("w.sh", text(word)).training->master_bytes; };
  for (const char* word : {"bf16", "bfloat16", "half", "torch.bfloat16", "torch.float16"})
    CHECK(master(word) != master(""));
  for (const char* word : {"fp32", "float32", "torch.float32", "null"}) CHECK(master(word) == master(""));
  for (const char* word : {"nonsense", "int8"}) CHECK(error_of("b.sh", text(word)) == "wrong_value");
}

TEST_CASE("verl's later trainer for fine-tuning packs unless that is off, and its earlier one where it is on") {
  const auto micro = [](const std::string& program, const std::string& more) {
    return job_of("s.sh",
                  fmt::format("torchrun --nproc_per_node=8 -m verl.trainer.{} model.partial_pretrain=Qwen/Qwen2.5-7B "
                              "data.max_length=2048 data.train_batch_size=256 data.micro_batch_size_per_gpu=2 {}\n",
                              program, more))
        .fixed.micro_batch.value_or(0);
  };
  const std::string off = "data.use_dynamic_bsz=False", on = "data.use_dynamic_bsz=True",
                    tokens = " data.max_token_len_per_gpu=16384";
  CHECK(micro("sft_trainer", "") == 4);
  CHECK(micro("sft_trainer", tokens) == 8);
  CHECK(micro("sft_trainer", off + tokens) == 2);
  CHECK(micro("fsdp_sft_trainer", tokens) == 2);
  CHECK(micro("fsdp_sft_trainer", on + tokens) == 8);
}

TEST_CASE("the ranks of verl's fine-tuning are its launcher's, whatever its configuration has for them") {
  const std::string words =
      " -m verl.trainer.fsdp_sft_trainer model.partial_pretrain=Qwen/Qwen2.5-7B data.train_batch_size=64 "
      "data.micro_batch_size_per_gpu=2 trainer.nnodes=1 trainer.n_gpus_per_node=8\n";
  for (const auto& [launch, gpus] :
       {std::pair{"torchrun --standalone --nproc_per_node=1", 1}, std::pair{"torchrun --nproc_per_node 4", 4},
        std::pair{"torchrun --nnodes=2 --nproc_per_node=2", 4},
        std::pair{"torchrun --nnodes 4 --nproc_per_node 8", 32}})
    CHECK(job_of("s.sh", launch + words).gpus == gpus);
}

TEST_CASE("Ray starts the ranks that a file asks for, whatever starts the one command that asks") {
  const auto openrlhf = [](int nodes, int each) {
    return fmt::format(
        "python3 -m openrlhf.cli.train_ppo_ray --actor_num_nodes {} --actor_num_gpus_per_node {} --pretrain "
        "meta-llama/Meta-Llama-3-8B --train_batch_size 128 --micro_train_batch_size 1 --prompt_max_len 1024 "
        "--generate_max_len 1024 --zero_stage 3 --bf16",
        nodes, each);
  };
  const auto verl = [](int nodes, int each, const std::string& engine) {
    return fmt::format(
        "python3 -m verl.trainer.main_ppo trainer.nnodes={} trainer.n_gpus_per_node={} data.max_prompt_length=1024 "
        "data.max_response_length=1024 actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct "
        "actor_rollout_ref.actor.ppo_mini_batch_size=128 {}{}",
        nodes, each, kMicroOfTwo, engine);
  };
  const std::string sbatch = "#!/bin/bash\n#SBATCH --nodes=5\n#SBATCH --gpus-per-node=2\n#SBATCH --ntasks-per-node=1\n";
  const std::string one = "srun --overlap --nodes=1 --ntasks=1 -w \"$HEAD\" ";
  for (const auto& [nodes, each] : {std::pair{1, 4}, std::pair{2, 8}, std::pair{4, 4}})
    for (const std::string& command :
         {openrlhf(nodes, each), verl(nodes, each, ""),
          verl(nodes, each, "actor_rollout_ref.actor.megatron.tensor_model_parallel_size=2")})
      for (const std::string& verl_script :
           {command, one + command, sbatch + command, sbatch + one + command, fmt::format("bash -c \"{}\"", command),
            fmt::format("{}{}bash -c \"pip install ray && ray job submit -- {}\"", sbatch, one, command),
            fmt::format("docker exec box bash -c '{}'", command)}) {
        CAPTURE(verl_script);
        CHECK(job_of("ray.sh", verl_script + "\n").gpus == nodes * each);
      }
  // Who asks for another number of GPUs has it.
  CHECK(job_of("ray.sh", one + verl(2, 8, "") + "\n", on(32)).gpus == 32);
}

TEST_CASE("where verl's nodes are not stated its own one counts, and not the scheduler's") {
  for (const std::string& actor : {kMicroOfTwo, kMegatronActor})
    for (const int nodes : {2, 4}) {
      const std::string header = fmt::format("#!/bin/bash\n#SBATCH --nodes={}\n#SBATCH --gpus-per-node=8\n", nodes);
      const std::string script = verl_script("verl.trainer.main_ppo", actor);
      CAPTURE(script);
      const LaunchJob stated = job_of("a.sh", header + replaced(script, "nnodes=2", "nnodes=$SLURM_NNODES"));
      CHECK(stated.gpus == 8 * nodes);
      const LaunchJob left = job_of("a.sh", header + replaced(script, "trainer.nnodes=2", ""));
      CHECK(left.gpus == 8);
      CHECK(names(left.unused, fmt::format("{} GPUs are started there: counted are the 8", 8 * nodes)));
    }
}

TEST_CASE("models that a recipe of verl's loads beside the actor are told") {
  const auto told = [](const std::string& more, const std::string& word) {
    return names(job_of("r.sh", verl_script("verl.trainer.main_ppo", kMicroOfTwo + more)).unused, word);
  };
  CHECK(told("hinter.model.path=Qwen/Qwen2.5-1.5B", "hinter.model.path"));
  CHECK(told("reward_model.enable=True reward_model.model.path=a/b", "reward_model"));
  CHECK_FALSE(told("reward_model.enable=False", "reward_model"));
  CHECK_FALSE(told("", "model.path"));
}

TEST_CASE("the actor's sequences are split as its engine's section says, unless the older key above it says more") {
  const std::string actor = "actor_rollout_ref.actor.", engine = actor + "fsdp_config.";
  const std::string key = "ulysses_sequence_parallel_size=";
  const auto cp = [&](const std::string& more) {
    return job_of("u.sh", verl_script("verl.trainer.main_ppo", kMicroOfTwo + more)).fixed.cp.value_or(0);
  };
  CHECK(cp(engine + key + "4") == 4);
  CHECK(cp(actor + key + "4") == 4);
  CHECK(cp(actor + key + "1 " + engine + key + "4") == 4);
  CHECK(cp(actor + key + "2 " + engine + key + "4") == 2);
  CHECK(cp("") == 1);
  const std::string veomni = actor + "veomni.";
  const LaunchJob job = job_of(
      "v.sh", verl_script("verl.trainer.main_ppo model_engine=veomni",
                          kMicroOfTwo + veomni + "ulysses_parallel_size=2 " + veomni + "expert_parallel_size=4 " +
                              veomni + "enable_full_shard=False " + veomni + "fsdp_size=8"));
  CHECK(job.fixed.cp == 2);
  CHECK(job.fixed.cp_kind == CpKind::Ulysses);
  CHECK(job.fixed.ep == 4);
  CHECK(job.fixed.zero == 2);
  CHECK(job.fixed.shard == 8);
  CHECK_FALSE(names(job.unused, "model_engine"));
  CHECK(names(job_of("m.sh", verl_script("verl.trainer.main_ppo model_engine=torchtitan", kMicroOfTwo)).unused,
              "model_engine"));
}

TEST_CASE("a rank of adapters that FSDP does not go by, and teachers, are told") {
  const auto told = [](const std::string& more, const std::string& word) {
    return names(job_of("l.sh", verl_script("verl.trainer.main_ppo", kMicroOfTwo + more)).unused, word);
  };
  const std::string model = "actor_rollout_ref.model.";
  CHECK(told(model + "lora.rank=32", "lora.rank"));
  CHECK_FALSE(told(model + "lora.rank=0", "lora.rank"));
  CHECK_FALSE(told(model + "lora.rank=32 " + model + "lora_rank=32", "lora.rank"));
  CHECK(told("distillation.enabled=True", "teachers"));
  CHECK_FALSE(told("distillation.enabled=False", "teachers"));
  CHECK(names(job_of("d.sh", verl_script("verl.trainer.main_ppo", kMegatronActor + "distillation.enabled=True")).unused,
              "teachers"));
}

TEST_CASE("sequences of verl's fine-tuning are split as its engine says, or by the name of earlier releases") {
  for (const char* key : {"engine.ulysses_sequence_parallel_size", "ulysses_sequence_parallel_size"}) {
    CAPTURE(key);
    const LaunchJob job =
        job_of("s.sh", fmt::format("torchrun --nnodes=1 --nproc_per_node=8 -m verl.trainer.fsdp_sft_trainer "
                                   "data.train_batch_size=64 data.max_length=2048 data.micro_batch_size_per_gpu=2 "
                                   "model.partial_pretrain=Qwen/Qwen2.5-7B-Instruct {}=4\n",
                                   key));
    CHECK(job.fixed.cp == 4);
    CHECK(job.fixed.cp_kind == CpKind::Ulysses);
  }
}

TEST_CASE("recipes on verl's trainer are read as it, and their program is named") {
  for (const char* program : {"recipe.dapo.main_dapo", "recipe.dapo.src.main_dapo", "verl_tool.trainer.main_ppo"}) {
    CAPTURE(std::string(program));
    const LaunchJob job = job_of("r.sh", verl_script(program, kMicroOfTwo));
    CHECK(job.gpus == 16);
    CHECK(job.fixed.micro_batch == 2);
    CHECK(job.training->global_batch == 512);
    CHECK(names(job.unused, std::string("`") + program + "`"));
    CHECK(job_of("m.sh", verl_script(program, kMegatronActor)).fixed.pp == 2);
  }
  CHECK_FALSE(names(job_of("v.sh", verl_script("verl.trainer.main_ppo", kMicroOfTwo)).unused, "own trainer"));
  CHECK(error_of("g.sh", verl_script("verl.trainer.main_generation", kMicroOfTwo)) == "training_not_understood");
}

TEST_CASE("verl's micro-batch of all ranks together is divided by them") {
  const std::string all = "actor_rollout_ref.actor.ppo_micro_batch_size=";
  CHECK(job_of("a.sh", verl_script("verl.trainer.main_ppo", all + "64")).fixed.micro_batch == 4);
  CHECK(job_of("r.sh", verl_script("verl.trainer.main_ppo", all + "70")).fixed.micro_batch == 4);
  CHECK(job_of("u.sh", verl_script("verl.trainer.main_ppo",
                                   all + "64 actor_rollout_ref.actor.ulysses_sequence_parallel_size=2"))
            .fixed.micro_batch == 8);
  CHECK(job_of("b.sh", verl_script("verl.trainer.main_ppo", all + "64 " + kMicroOfTwo)).fixed.micro_batch == 2);
  const Files files;
  CHECK_FALSE(files.read("s.sh", verl_script("verl.trainer.main_ppo", all + "8")));
}

TEST_CASE("a script's training counts, and not the evaluation that follows it in the same keys") {
  const std::string train =
      "#!/bin/bash\ntorchrun --nnodes=1 --nproc_per_node=4 -m {} data.max_length=8192 data.train_batch_size=128 "
      "data.use_dynamic_bsz=False data.micro_batch_size_per_gpu=2 model.partial_pretrain=Qwen/Qwen2.5-1.5B\n";
  for (const char* evaluation :
       {"own.evaluation.eval_ckpts", "verl.trainer.main_eval", "own.infer", "tools/evaluate.py"})
    for (const char* trainer :
         {"verl.trainer.fsdp_sft_trainer", "own.trainer.fsdp_sft_trainer", "verl.trainer.sft_trainer"}) {
      const std::string after = std::string(evaluation).ends_with(".py") ? "" : "-m ";
      const std::string text = fmt::format(fmt::runtime(train), trainer) +
                               fmt::format(
                                   "python3 {}{} data.max_prompt_length=2048 data.max_response_length=4096 "
                                   "actor_rollout_ref.model.path=Qwen/Qwen2.5-7B "
                                   "actor_rollout_ref.rollout.n=4 trainer.n_gpus_per_node=4\n",
                                   after, evaluation);
      CAPTURE(text);
      const LaunchJob job = job_of("run.sh", text);
      CHECK(job.format == "verl-sft");
      CHECK(job.training->seq == 8192);
      CHECK(job.training->global_batch == 128);
      CHECK(job.fixed.micro_batch == 2);
      CHECK(names(job.unused, "own.trainer") == (std::string(trainer).find("own") == 0));
    }
}

TEST_CASE("verl's fine-tuning goes by sequences of a GPU, and says so where a script has the older key") {
  const std::string command =
      "#!/bin/bash\ntorchrun --nnodes=1 --nproc_per_node=8 -m verl.trainer.fsdp_sft_trainer data.max_length=2048 "
      "data.train_batch_size=256 model.partial_pretrain=Qwen/Qwen2.5-7B";
  for (const int all : {8, 16, 32, 64}) {
    const LaunchJob old = job_of("run.sh", command + fmt::format(" data.micro_batch_size={}\n", all));
    CHECK(old.fixed.micro_batch == 4);
    CHECK(names(old.unused, "data.micro_batch_size"));
    const LaunchJob both =
        job_of("run.sh", command + fmt::format(" data.micro_batch_size={} data.micro_batch_size_per_gpu=2\n", all));
    CHECK(both.fixed.micro_batch == 2);
    CHECK(names(both.unused, "data.micro_batch_size"));
  }
}

TEST_CASE("batches of a section that a program adds to verl's are told") {
  const std::string command =
      "#!/bin/bash\npython3 -m own.main_dpo data.max_prompt_length=512 data.max_response_length=512 "
      "actor_rollout_ref.model.path=Qwen/Qwen2.5-7B actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1 "
      "trainer.nnodes=1 trainer.n_gpus_per_node=8 algorithm.adv_estimator=grpo ";
  for (const char* key : {"dpo.batch_size", "dpo.micro_batch_size", "student.lora_rank", "own.seq_len"}) {
    CAPTURE(std::string(key));
    CHECK(names(job_of("run.sh", command + key + "=16\n").unused, key));
  }
  for (const char* key : {"env.name", "critic.model.lora_rank", "reward_model.micro_batch_size"})
    CHECK_FALSE(names(job_of("run.sh", command + key + "=16\n").unused, key));
}

TEST_CASE("slime's training without Megatron-LM is refused by its name") {
  const std::string text =
      "#!/bin/bash\npython3 train.py --actor-num-nodes 1 --actor-num-gpus-per-node 8 --num-layers 36 "
      "--hidden-size 2560 --num-attention-heads 32 --vocab-size 151936 --micro-batch-size 1 "
      "--tensor-model-parallel-size 2 --rollout-batch-size 32 --n-samples-per-prompt 8 --global-batch-size 256 "
      "--rollout-max-response-len 8192 --hf-checkpoint Qwen/Qwen3-4B ";
  CHECK(Files{}.read("run.sh", text + "--train-backend megatron\n"));
  for (const char* backend : {"fsdp", "fsdp2", "torchtitan"})
    CHECK(error_of("run.sh", text + "--train-backend " + backend + "\n") == "other_backend");
}

TEST_CASE("slime's batch is what its rollouts give each step") {
  const std::string flags =
      "--actor-num-nodes 1 --actor-num-gpus-per-node 8 --num-layers 28 --hidden-size 1024 --num-attention-heads 16 "
      "--ffn-hidden-size 3072 --seq-length 4096 --max-position-embeddings 4096 --vocab-size 151936 --swiglu "
      "--tensor-model-parallel-size 2 --micro-batch-size 1 --rollout-batch-size 128 --n-samples-per-prompt 8 ";
  const auto slime = [&](const std::string& more) {
    return "#!/bin/bash\nexport CUDA_DEVICE_MAX_CONNECTIONS=1\npython3 train.py " + flags + more + "\n";
  };
  CHECK(job_of("s.sh", slime("--num-steps-per-rollout 4")).training->global_batch == 256);
  CHECK(job_of("g.sh", slime("--global-batch-size 512 --num-steps-per-rollout 2")).training->global_batch == 512);
  CHECK(names(job_of("d.sh", slime("--global-batch-size 512 --num-steps-per-rollout 4")).unused, "slime stops"));
}

TEST_CASE("ranks that share a sequence shard the weights, though no other replica does") {
  for (const int gpus : {1, 2, 4, 8}) {
    const LaunchJob job = job_of("s.sh", fmt::format("python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo "
                                                     "data.train_batch_size=16 data.max_prompt_length=512 "
                                                     "data.max_response_length=512 "
                                                     "actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct "
                                                     "actor_rollout_ref.actor.strategy=fsdp "
                                                     "actor_rollout_ref.actor.ppo_mini_batch_size=16 "
                                                     "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1 "
                                                     "actor_rollout_ref.actor.ulysses_sequence_parallel_size={0} "
                                                     "trainer.n_gpus_per_node={0} trainer.nnodes=1\n",
                                                     gpus));
    CAPTURE(gpus);
    CHECK(job.fixed.cp == gpus);
    CHECK(job.fixed.zero == (gpus == 1 ? 0 : 3));
  }
}

TEST_CASE("slime's sequence is a prompt with its answer where no other length is stated") {
  const auto seq = [](const std::string& more) {
    return job_of("s.sh",
                  "#!/bin/bash\nexport CUDA_DEVICE_MAX_CONNECTIONS=1\npython3 train.py --actor-num-nodes 1 "
                  "--actor-num-gpus-per-node 8 --num-layers 28 --hidden-size 1024 --num-attention-heads 16 "
                  "--ffn-hidden-size 3072 --max-position-embeddings 40960 --vocab-size 151936 --swiglu "
                  "--micro-batch-size 1 --global-batch-size 64 " +
                      more + "\n")
        .training.value()
        .seq;
  };
  for (const int answer : {1024, 8192, 16384}) {
    const std::string words = fmt::format("--rollout-max-response-len {} ", answer);
    CHECK(seq(words) == answer);
    CHECK(seq(words + "--rollout-max-prompt-len 2048") == answer + 2048);
    CHECK(seq(words + "--rollout-max-context-len 20480") == 20480);
    CHECK(seq(words + "--seq-length 4096") == 4096);
  }
}

TEST_CASE("verl's configuration inside a section of a tool that hands it on is read as by itself") {
  for (const char* engine : {"fsdp2", "megatron"}) {
    const std::string own =
        "actor_rollout_ref:\n  model:\n    path: Qwen/Qwen2.5-7B-Instruct\n    lora_rank: 32\n  actor:\n    "
        "strategy: " +
        std::string(engine) +
        "\n    ppo_mini_batch_size: 32\n    ppo_micro_batch_size_per_gpu: 2\n    megatron:\n"
        "      tensor_model_parallel_size: 2\n  rollout:\n    n: 8\ndata:\n  train_batch_size: 128\n"
        "  max_prompt_length: 512\n  max_response_length: 1024\n"
        "trainer:\n  nnodes: 1\n  n_gpus_per_node: 8\n";
    std::string inside = "run:\n  name: x\ntrainer:\n  devices: 8\n  num_nodes: 3\ntraining_config:\n";
    for (std::size_t at = 0; at < own.size(); at = own.find('\n', at) + 1)
      inside += "  " + own.substr(at, own.find('\n', at) + 1 - at);
    const LaunchJob alone = job_of("v.yaml", own), handed = job_of("v.yaml", inside);
    CAPTURE(std::string(engine));
    CHECK(alone.training->global_batch == 256);
    CHECK(handed.training->global_batch == 256);
    CHECK(handed.training->seq == 1536);
    CHECK(handed.training->task == Task::Lora);
    CHECK(handed.gpus == 8);
    CHECK(handed.fixed.micro_batch == 2);
    CHECK(handed.fixed.tp == alone.fixed.tp);
  }
}

TEST_CASE("a file of which no key is read is refused") {
  const std::string text = "job:\n  - actor_rollout_ref:\n    actor:\n      strategy: fsdp\n";
  const Files files;
  CHECK_FALSE(files.read("v.yaml", text, on(8)));
}

}  // namespace plan
