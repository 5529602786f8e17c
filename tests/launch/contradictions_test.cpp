// Files whose parts contradict each other, and slips that leave a default in a stated key's place: each is refused or
// told, never dropped.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include "small_files.hpp"
#include "verl_script.hpp"

namespace plan {

using namespace launching;

namespace {

const std::string kVerl =
    "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo "
    "actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct data.train_batch_size=256 data.max_prompt_length=1024 "
    "data.max_response_length=3072 actor_rollout_ref.actor.ppo_mini_batch_size=64 "
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4 "
    "actor_rollout_ref.model.enable_gradient_checkpointing=False "
    "actor_rollout_ref.actor.ulysses_sequence_parallel_size=1 actor_rollout_ref.actor.fsdp_config.fsdp_size=8 "
    "trainer.n_gpus_per_node=8 trainer.nnodes=2\n";
const std::string kNemoRl =
    "policy:\n  model_name: Qwen/Qwen2.5-7B\n  train_global_batch_size: 64\n  train_micro_batch_size: 2\n"
    "  max_total_sequence_length: 4096\n  precision: bfloat16\n  dtensor_cfg:\n    enabled: true\n"
    "    tensor_parallel_size: 1\n    context_parallel_size: 1\n    sequence_parallel: false\n"
    "    activation_checkpointing: true\n    cpu_offload: false\n  megatron_cfg:\n    enabled: false\n"
    "  optimizer:\n    name: torch.optim.AdamW\ncluster:\n  gpus_per_node: 8\n  num_nodes: 2\n";
const std::string kNanotron =
    "general:\n  run: x\nmodel:\n  dtype: bfloat16\n  make_vocab_size_divisible_by: 1\n  model_config:\n"
    "    is_llama_config: true\n    hidden_size: 1024\n    intermediate_size: 4096\n    num_hidden_layers: 8\n"
    "    num_attention_heads: 16\n    num_key_value_heads: 4\n    vocab_size: 32000\n"
    "    tie_word_embeddings: false\noptimizer:\n  zero_stage: 0\nparallelism:\n  dp: 4\n  tp: 2\n  pp: 1\n"
    "  pp_engine: 1f1b\n  tp_mode: REDUCE_SCATTER\ntokens:\n  sequence_length: 2048\n  micro_batch_size: 3\n"
    "  batch_accumulation_per_replica: 5\n";
const std::string kMegatron =
    "pretrain_gpt.py --num-layers 8 --hidden-size 1024 --num-attention-heads 8 --seq-length 2048 "
    "--max-position-embeddings 2048 --micro-batch-size 1 --global-batch-size 64 --train-iters 5 --vocab-size 32000 "
    "--bf16 --eval-interval 5";

}  // namespace

TEST_CASE("Megatron-Bridge's sequence counts under either name that its dataset has for it") {
  for (const int length : {1024, 2048, 4096, 8192})
    for (const char* name : {"seq_length", "sequence_length"}) {
      const std::string text = fmt::format(
          "model:\n  tensor_model_parallel_size: 8\n  pipeline_model_parallel_size: 1\n  num_layers: 32\n"
          "  hidden_size: 4096\n  num_attention_heads: 32\n  vocab_size: 32000\ntrain:\n  train_iters: 10\n"
          "  global_batch_size: 32\n  micro_batch_size: 2\noptimizer:\n  lr: 1e-4\ndataset:\n  {}: {}\n"
          "mixed_precision: bf16_mixed\n",
          name, length);
      CAPTURE(text);
      const LaunchJob job = job_of("conf.yaml", text, on(8));
      CHECK(job.states_seq);
      CHECK(job.training->seq == length);
    }
}

TEST_CASE("a slip in a key that verl or NeMo-RL reads is named, whatever its section and its value") {
  struct Slip {
    const char *file, *key;
  };
  constexpr Slip kSlips[] = {
      {"v.sh", "max_response_length"},
      {"v.sh", "ppo_mini_batch_size"},
      {"v.sh", "ppo_micro_batch_size_per_gpu"},
      {"v.sh", "enable_gradient_checkpointing"},
      {"v.sh", "fsdp_size"},
      {"v.sh", "n_gpus_per_node"},
      {"n.yaml", "train_global_batch_size"},
      {"n.yaml", "train_micro_batch_size"},
      {"n.yaml", "max_total_sequence_length"},
      {"n.yaml", "activation_checkpointing"},
      {"n.yaml", "gpus_per_node"},
  };
  for (const Slip& slip : kSlips)
    for (std::size_t at = 1; at + 1 < std::string(slip.key).size(); at += 3) {
      std::string key = slip.key;
      key.erase(at, 1);
      CAPTURE(key);
      const bool yaml = std::string(slip.file) == "n.yaml";
      const Files files;
      const Result<LaunchJob> job = files.read(slip.file, replaced(yaml ? kNemoRl : kVerl, slip.key, key));
      if (job) CHECK(names(job->unused, key));
    }
  CHECK(job_of("v.sh", kVerl).unused.empty());
  CHECK(job_of("n.yaml", kNemoRl).unused.empty());
}

TEST_CASE("an update of more prompts than verl's step has is told under either engine") {
  for (const std::string& engine : {kMicroOfTwo, kMegatronActor})
    for (const auto& [batch, mini, told] : {std::tuple{512, 128, false}, std::tuple{128, 128, false},
                                            std::tuple{16, 128, true}, std::tuple{64, 256, true}}) {
      std::string text = verl_script("verl.trainer.main_ppo", engine);
      text = replaced(text, "train_batch_size=512", fmt::format("train_batch_size={}", batch));
      text = replaced(text, "ppo_mini_batch_size=128", fmt::format("ppo_mini_batch_size={}", mini));
      CAPTURE(text);
      const LaunchJob job = job_of("p.sh", text);
      CHECK(names(job.unused, "a step has fewer prompts") == told);
      CHECK(job.training->global_batch == std::min(batch, mini) * 4);
      // Where no update is stated, it has verl's own 256.
      const LaunchJob own =
          job_of("p.sh", replaced(text, fmt::format("{}ppo_mini_batch_size={}", "actor_rollout_ref.actor.", mini), ""));
      CHECK(names(own.unused, "a step has fewer prompts") == (batch < 256));
      CHECK(own.training->global_batch == std::min(batch, 256) * 4);
      const LaunchJob streams =
          job_of("p.sh", replaced(text, "trainer.nnodes=2", "trainer.nnodes=2 rllm.async_training.enable=true"));
      CHECK(streams.training->global_batch == mini * 4);
    }
}

TEST_CASE("a number format of DeepSpeed's file that the Trainer's switch denies is told") {
  Files files;
  for (const char* format : {"bf16", "fp16"})
    for (const char* in_file : {"true", "false", "\"auto\""})
      for (const char* flag : {"", "True", "False"}) {
        const std::string on = in_file, switched = flag;
        files.folder.write("ds.json", fmt::format("{{\"{}\": {{\"enabled\": {}}}, \"zero_optimization\": "
                                                  "{{\"stage\": 3}}}}",
                                                  format, in_file));
        const std::string text = fmt::format(
            "torchrun --nproc_per_node 8 train.py --model_name_or_path Qwen/Qwen2.5-7B --per_device_train_batch_size 1 "
            "--max_length 512 --deepspeed ds.json{}\n",
            switched.empty() ? "" : fmt::format(" --{} {}", format, flag));
        CAPTURE(text);
        CAPTURE(on);
        const Result<LaunchJob> job = files.read("run.sh", text);
        REQUIRE(job);
        CHECK(names(job->unused, "transformers stops where") ==
              (on != "\"auto\"" && !switched.empty() && (on == "true") != (switched == "True")));
      }
}

TEST_CASE("GPUs that verl gives to a part of the job are told") {
  for (const char* key :
       {"trainer.n_training_gpus_per_node", "trainer.n_rollout_gpus_per_node", "trainer.n_env_gpus"}) {
    const std::string text = replaced(kVerl, "trainer.nnodes", fmt::format("+{}=4 trainer.nnodes", key));
    CHECK(names(job_of("v.sh", text).unused, key));
  }
}

TEST_CASE("GPUs that a launcher starts beside other degrees or processes are told") {
  for (int nodes = 1; nodes <= 2; ++nodes)
    for (int each = 2; each <= 16; each *= 2) {
      CAPTURE(nodes);
      CAPTURE(each);
      const Files files;
      files.folder.write("nano.yaml", kNanotron);
      const Result<LaunchJob> job =
          files.read("run.sh", fmt::format("torchrun --nproc_per_node {} --nnodes {} run_train.py --config-file "
                                           "nano.yaml\n",
                                           each, nodes));
      REQUIRE(job);
      CHECK(job->gpus == 8);
      CHECK(names(job->unused, "GPUs are started there: counted are the 8") == (nodes * each != 8));
    }
}

TEST_CASE("nodes of a launcher that are not the header's are told, and those of each node are not") {
  const auto told = [](int header, const std::string& nodes) {
    const std::string text = fmt::format(
        "#!/bin/bash\n#SBATCH --nodes={}\n#SBATCH --gpus-per-node=8\nsrun torchrun {} "
        "--nproc_per_node 8 {}\n",
        header, nodes, kMegatron);
    const LaunchJob job = job_of("run.sh", text);
    CHECK(job.gpus == header * 8);
    return names(job.unused, "GPUs are started there");
  };
  CHECK_FALSE(told(4, "--nnodes 4"));
  CHECK_FALSE(told(4, "--nnodes $SLURM_NNODES"));
  CHECK_FALSE(told(4, ""));
  CHECK(told(4, "--nnodes 8"));
  CHECK(told(4, "--nnodes=2"));
}

TEST_CASE("what srun is given counts as the header's words do, where the header has none") {
  const std::string launchers[] = {"torchrun --nnodes $SLURM_NNODES ", "deepspeed --no_ssh ", "python "};
  const char* words[] = {"--gpus-per-node=4", "--gpus-per-node 4", "--gres=gpu:4", "--gres gpu:h100:4"};
  for (const std::string& launcher : launchers)
    for (const char* each : words)
      for (const char* nodes : {"--nodes=2", "--nodes 2", "-N 2", "-N2"}) {
        CAPTURE(launcher);
        CAPTURE(each);
        CAPTURE(nodes);
        const std::string program = launcher + std::string(kMegatron) + "\n";
        const std::string shell = "#!/bin/bash\n", header = "#SBATCH --nodes=2\n";
        const LaunchJob said = job_of("h.sh", shell + header + "#SBATCH --gpus-per-node=4\nsrun " + program);
        CHECK(said.gpus == 8);
        CHECK(job_of("e.sh", shell + header + fmt::format("srun -l {} {}", each, program)).gpus == 8);
        CHECK(job_of("b.sh", shell + fmt::format("srun {} {} {}", nodes, each, program)).gpus == 8);
        // The header's count stands.
        CHECK(job_of("t.sh", shell + header + "#SBATCH --gpus-per-node=8\n" + fmt::format("srun {} {}", each, program))
                  .gpus == 16);
      }
}

TEST_CASE("a word that is none of a key's choices is refused") {
  CHECK(error_of("n.yaml", replaced(kNanotron, "REDUCE_SCATTER", "SCATTER")) == "wrong_value");
  const std::string first =
      "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nmixed_precision: bf16\nnum_machines: 1\n"
      "num_processes: 8\nfsdp_config:\n  fsdp_sharding_strategy: FULL_SHARD\n";
  CHECK(job_of("a.yaml", first).fixed.zero == 3);
  CHECK(job_of("a.yaml", replaced(first, "FULL_SHARD", "2")).fixed.zero == 2);
  CHECK(error_of("a.yaml", replaced(first, "FULL_SHARD", "FULL")) == "wrong_value");
  const std::string olmo =
      "run_name: x\nmodel:\n  d_model: 1024\n  n_heads: 16\n  n_layers: 8\n  mlp_hidden_size: 8192\n"
      "  weight_tying: false\n  rope: true\n  include_bias: false\n  layer_norm_type: rms\n"
      "  activation_type: swiglu\n  max_sequence_length: 4096\n  vocab_size: 50280\n  embedding_size: 50304\n"
      "distributed_strategy: fsdp\nfsdp:\n  sharding_strategy: SHARD_GRAD_OP\n  precision: mixed\n"
      "global_train_batch_size: 512\ndevice_train_microbatch_size: 4\nprecision: amp_bf16\n";
  CHECK(job_of("o.yaml", olmo, on(8)).fixed.zero == 2);
  const std::pair<const char*, const char*> edits[] = {{"layer_norm_type: rms", "layer_norm_type: rmsnorm"},
                                                       {"precision: mixed", "precision: half"},
                                                       {"distributed_strategy: fsdp", "distributed_strategy: fsdp2"}};
  for (const auto& edit : edits)
    CHECK(error_of("o.yaml", replaced(olmo, edit.first, edit.second), on(8)) == "wrong_value");
  const std::string fork = fmt::format(
      "torchrun --nproc_per_node 8 --nnodes 1 {} --recompute-granularity full "
      "--recompute-method uniform --recompute-num-layers 1 --some-flag-of-ours\n",
      kMegatron);
  CHECK(job_of("f.sh", fork).fixed.recompute->kind == RecomputeKind::Full);
  const Files files;
  CHECK_FALSE(files.read("f.sh", replaced(fork, "uniform", "unifrom")));
}

TEST_CASE("axolotl's QLoRA wants 4 bits, and FSDP has two versions") {
  const std::string file =
      "base_model: Qwen/Qwen2.5-7B\nadapter: qlora\nload_in_4bit: true\nlora_r: 16\nsequence_len: 2048\n"
      "micro_batch_size: 1\ngradient_accumulation_steps: 1\nbf16: true\ndatasets:\n  - path: x\n    type: alpaca\n"
      "fsdp_version: 2\nfsdp_config:\n  offload_params: false\n";
  CHECK(job_of("a.yml", file, on(8)).training->task == Task::Qlora);
  CHECK(error_of("a.yml", replaced(file, "load_in_4bit: true", "load_in_4bit: false"), on(8)) == "conflicting_keys");
  CHECK(error_of("a.yml", replaced(file, "load_in_4bit: true\n", ""), on(8)) == "conflicting_keys");
  CHECK(job_of("a.yml", replaced(file, "adapter: qlora", "adapter: lora"), on(8)).training->task == Task::Qlora);
  CHECK(error_of("a.yml", replaced(file, "fsdp_version: 2", "fsdp_version: 4"), on(8)) == "wrong_value");
}

TEST_CASE("a script that stops without a thing is read on, and one that ends early says so") {
  const std::string start = fmt::format("torchrun --nproc_per_node 8 --nnodes 1 {}\n", kMegatron);
  for (const char* stop : {"exit", "exit 1", "exit 2"}) {
    CAPTURE(stop);
    const std::string unset = fmt::format("if [ -z \"$PORT\" ]; then echo none; {}; fi\n", stop);
    const std::string absent = fmt::format("[ -f data.bin ] || {{ echo none; {}; }}\n", stop);
    CHECK(job_of("run.sh", unset + start).gpus == 8);
    CHECK(job_of("run.sh", absent + start).gpus == 8);
  }
  const std::string header = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --gpus-per-node=8\n";
  const Files files;
  CHECK_FALSE(files.read("run.sh", header + "exit 0\n" + start));
  const LaunchJob job = job_of("run.sh", header + "exit 0\npython sweep.py config=x\n");
  CHECK(job.gpus == 16);
  CHECK(names(job.unused, "only its GPUs are read"));
  CHECK_FALSE(names(job_of("run.sh", header).unused, "only its GPUs are read"));
}

TEST_CASE("a kernel that a fork puts into Megatron's own layers is fused, and Megatron core's layers are not") {
  const auto fused = [](const std::string& more) {
    return job_of("run.sh", fmt::format("torchrun --nproc_per_node 8 --nnodes 1 {} --transformer-impl local {}\n",
                                        kMegatron, more))
        .training->stack.flash_attention;
  };
  CHECK_FALSE(fused(""));
  CHECK_FALSE(fused("--use-flash-attn"));
  CHECK(fused("--use-flash-attn --context-parallel-algo ulysses_cp_algo"));
  CHECK_FALSE(fused("--context-parallel-algo ulysses_cp_algo"));
}

TEST_CASE("all GPUs of a job beside those of a node are no node's") {
  const std::string file =
      "python scripts/performance/run_script.py --gpu gb200 --model_family_name qwen --model_recipe_name "
      "qwen3_30b_a3b --num_gpus 16 --gpus_per_node 4 --compute_dtype bf16 --global_batch_size 1024 "
      "--tensor_model_parallel_size 1 --pipeline_model_parallel_size 1 --expert_model_parallel_size 8\n";
  const LaunchJob job = job_of("run.sh", file);
  CHECK(job.gpus == 16);
  CHECK_FALSE(names(job.unused, "GPUs are started there"));
}

TEST_CASE("torchtitan's model of transformers is the one that its section names") {
  const std::string file =
      "[model]\nname = \"hf_transformers\"\nflavor = \"full\"\n[hf_transformers]\nmodel = \"Qwen/Qwen2.5-7B\"\n"
      "[training]\nlocal_batch_size = 2\nseq_len = 4096\n[parallelism]\ntensor_parallel_degree = 2\n";
  CHECK(job_of("t.toml", file, on(8)).model->name == "qwen2.5-7b");
}

TEST_CASE("a slip in the name of a launcher is told, and a program that wraps one is none") {
  constexpr const char* kTrains =
      "train.py --model_name_or_path Qwen/Qwen2.5-7B --per_device_train_batch_size 1 --max_length 512 --bf16 True";
  const Files files;
  const auto told = [&](const std::string& start) {
    const std::string text = fmt::format("#!/bin/bash\n{} {}\n", start, kTrains);
    CAPTURE(text);
    const Result<LaunchJob> job = files.read("run.sh", text);
    REQUIRE(job);
    return names(job->unused, "is not known here");
  };
  for (const std::string name : {"torchrun", "deepspeed", "accelerate launch", "python", "llamafactory-cli train"}) {
    CHECK_FALSE(told(name));
    for (std::size_t i = 1; i + 2 < std::min(name.find(' '), name.size()); ++i) {
      std::string swapped = name, doubled = name, cut = name;
      std::swap(swapped[i], swapped[i + 1]);
      doubled.insert(i, 1, doubled[i]);
      cut.erase(i, 1);
      for (const std::string& slip : {swapped, doubled, cut})
        if (slip != name) CHECK_MESSAGE(told(slip), slip);
    }
  }
  for (const char* slip : {"accelerate lanch", "python -m torch.distributed.runn", "llamafactory-cli trian",
                           "srun torchrunn", "python3 -u -m torch.distributed.lauch"})
    CHECK_MESSAGE(told(slip), slip);
  for (const char* sound : {"ipython", "my_torchrun", "python3.11", "uv run python", "torchrun_wrapper", "srun python",
                            "python -m torch.distributed.run", "/opt/bin/deepspeed", "singularity exec img python"})
    CHECK_FALSE_MESSAGE(told(sound), sound);
}

TEST_CASE("a template's place to be filled in is one value, though it stood in a variable") {
  const Files files;
  const auto job = [&](const std::string& value) {
    return files.read("run.sh",
                      fmt::format("#!/bin/bash\nFILE={}\ntorchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 8 "
                                  "--hidden-size 1024 --num-attention-heads 8 --seq-length 2048 --vocab-size 32000 "
                                  "--max-position-embeddings 2048 --micro-batch-size 1 --global-batch-size 64 "
                                  "--train-iters 5 --bf16 --eval-interval 5 --load $FILE --split $FILE\n",
                                  value));
  };
  for (const char* value :
       {"x", "<Specify path>", "<Specify path to file>/gpt2-vocab.json", "<PATH>/x", "<A B>_document"}) {
    CAPTURE(value);
    const Result<LaunchJob> read = job(value);
    REQUIRE(read);
    CHECK_FALSE(names(read->unused, "no flag takes"));
  }
  const Result<LaunchJob> several = job("\"x y z\"");
  REQUIRE(several);
  CHECK(names(several->unused, "no flag takes"));
}

TEST_CASE("a batch that follows from the ranks is that of one rank where the GPUs are too few for one") {
  for (const int gpus : {1, 4, 8, 15})
    for (const int micro : {1, 3}) {
      Fixed fixed;
      fixed.tp = 16, fixed.micro_batch = micro;
      CHECK(batch_of_ranks({.steps = 2, .sequences = 0, .where = {}}, fixed, gpus) == 2 * micro);
      fixed.tp = 1;
      CHECK(batch_of_ranks({.steps = 2, .sequences = 0, .where = {}}, fixed, gpus) == 2 * micro * gpus);
    }
}

}  // namespace plan
