// Commands that lay values over the file that they name: each is the value of the job, with the script as its place.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "presets/store.hpp"
#include "small_files.hpp"

namespace plan {

using namespace launching;

namespace {

const std::string kTitan =
    "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nlocal_batch_size = 1\nseq_len = 8192\n[parallelism]\n"
    "tensor_parallel_degree = 1\n[activation_checkpoint]\nmode = \"none\"\n[compile]\nenable = true\n";
const std::string kFactory =
    "model_name_or_path: meta-llama/Meta-Llama-3-8B\nstage: sft\nfinetuning_type: lora\nlora_rank: 8\n"
    "template: llama3\ndataset: x\ncutoff_len: 2048\nper_device_train_batch_size: 1\nbf16: true\n";
const std::string kTune =
    "tokenizer:\n  _component_: torchtune.models.llama3.llama3_tokenizer\n  max_seq_len: 8192\nmodel:\n"
    "  _component_: torchtune.models.llama3_1.lora_llama3_1_8b\n  lora_rank: 8\n"
    "  lora_attn_modules: [\"q_proj\", \"v_proj\"]\n  apply_lora_to_mlp: True\nbatch_size: 2\ndtype: bf16\n"
    "optimizer:\n  _component_: torch.optim.AdamW\n";

/// The job of a script beside a file that it names.
LaunchJob started(const std::string& name, const std::string& text, const std::string& command) {
  const Files files;
  files.folder.write(name, text);
  const Result<LaunchJob> job = files.read("run.sh", "#!/bin/bash\n" + command + "\n", on(16));
  REQUIRE_MESSAGE(job, (job ? "" : job.error().front().message));
  return *job;
}

std::string place_of(const LaunchJob& job, const std::string& key) {
  const auto found =
      std::find_if(job.inputs.begin(), job.inputs.end(), [&](const Input& input) { return input.key == key; });
  return found == job.inputs.end() ? "" : found->where;
}

}  // namespace

TEST_CASE("words of a program that nobody knows lie over the keys that its file states, and others are named") {
  const std::string text =
      "policy:\n  model_name: meta-llama/Llama-3.1-8B\n  train_global_batch_size: 64\n  train_micro_batch_size: 1\n"
      "  max_total_sequence_length: 4096\n  precision: bfloat16\n  megatron_cfg:\n    enabled: true\n"
      "    tensor_model_parallel_size: 1\n  dtensor_cfg:\n    enabled: false\ncluster:\n  num_nodes: 2\n"
      "  gpus_per_node: 8\nsft:\n  max_num_steps: 1\n";
  const std::string words =
      "policy.train_global_batch_size=16 policy.max_total_sequence_length=2048 "
      "++policy.megatron_cfg.tensor_model_parallel_size=4 ";
  const std::string stages = "policy.megatron_cfg.pipeline_model_parallel_size=2";  // of which the file states none
  for (const std::string program : {"python -m lab.start", "python start.py", "uv run start.py"})
    for (const std::string naming : {"--config run.yaml ", "--config=run.yaml "}) {
      CAPTURE(program + naming);
      const LaunchJob job = started("run.yaml", text, program + " " + naming + words + "policy.optimizer.lr=1");
      CHECK(job.training->global_batch == 16);
      CHECK(job.training->seq == 2048);
      CHECK(job.fixed.tp == 4);
      CHECK(names(job.unused, "policy.optimizer.lr=1"));  // the file states none, and the program may not, too
      CHECK_FALSE(names(job.unused, "train_global_batch_size=16"));
      CHECK(place_of(job, "tp").ends_with("run.sh:2"));
      const Files files;
      files.folder.write("run.yaml", text);
      const Result<LaunchJob> split =
          files.read("run.sh", "#!/bin/bash\n" + program + " " + naming + words + stages + "\n", on(16));
      REQUIRE_FALSE(split);
      CHECK(split.error().front().code == "degree_not_read");
    }
  // NeMo-RL's own programs, as files and as modules, take every word.
  for (const std::string program : {"python examples/run_sft.py", "uv run examples/run_sft.py",
                                    "python -m examples.run_sft", "/opt/venv/bin/python -m examples.run_sft"}) {
    CAPTURE(program);
    const LaunchJob job =
        started("run.yaml", text, program + " --config run.yaml cluster.num_nodes=2 " + words + stages);
    CHECK(job.training->global_batch == 16);
    CHECK(job.fixed.tp == 4);
    CHECK(job.fixed.pp == 2);
  }
}

TEST_CASE("of several commands over one file the one that starts a training counts, and a note names the others") {
  const std::string text =
      "model:\n  num_layers: 32\n  hidden_size: 4096\n  num_attention_heads: 32\n  ffn_hidden_size: 11008\n"
      "  seq_length: 4096\n  vocab_size: 32000\n  tensor_model_parallel_size: 2\ntrain:\n  micro_batch_size: 1\n"
      "  global_batch_size: 64\n";
  const std::string kBatch = " --config run.yaml train.global_batch_size=";
  const auto run = [&](const std::string& commands) { return started("run.yaml", text, commands); };
  const std::string kTrains = "srun python train.py" + kBatch + "128";
  for (const std::string& commands :
       {"python prep.py" + kBatch + "32\n" + kTrains, kTrains + "\npython prep.py" + kBatch + "32",
        kTrains + "\nsrun python train.py" + kBatch + "32"}) {
    CAPTURE(commands);
    const LaunchJob job = run(commands);
    CHECK(job.training->global_batch == 128);
    CHECK(names(job.unused, "with `train.global_batch_size=32`, is left out"));
  }
  const LaunchJob loop = run("for g in 32 128; do srun python train.py" + kBatch + "$g; done");
  CHECK(loop.training->global_batch == 32);
  CHECK(names(loop.unused, "with `train.global_batch_size=128`, is left out"));
  CHECK(
      names(run(kTrains + "\nsrun python train.py --config run.yaml").unused, "without `train.global_batch_size=128`"));
  const LaunchJob same = run(kTrains + "\n" + kTrains);
  CHECK(same.training->global_batch == 128);
  CHECK_FALSE(names(same.unused, "is left out"));
  const LaunchJob list = run("srun python train.py" + kBatch + "[1,2]");
  CHECK(list.training->global_batch == 64);
  CHECK(names(list.unused, "train.global_batch_size=[1,2]"));
}

TEST_CASE("torchtitan's flags lie over the file of --job.config_file") {
  const auto run = [](const std::string& flags) {
    return started("run.toml", kTitan,
                   "torchrun --nnodes 2 --nproc_per_node 8 -m torchtitan.train --job.config_file run.toml " + flags);
  };
  CHECK(run("").fixed.tp == 1);
  CHECK(run("").unused.empty());
  const LaunchJob job =
      run("--training.local_batch_size 2 --parallelism.tensor_parallel_degree=4 --training.seq-len 4096 "
          "--activation_checkpoint.mode full");
  CHECK(job.fixed.tp == 4);
  CHECK(job.fixed.micro_batch == 2);
  CHECK(job.training->seq == 4096);
  CHECK(job.fixed.recompute->kind == RecomputeKind::Full);
  CHECK(job.unused.empty());
  CHECK(place_of(job, "tp").find("run.sh:2") != std::string::npos);
  CHECK(run("--compile.enable").training->stack.fused_pointwise);
  CHECK_FALSE(run("--compile.no-enable").training->stack.fused_pointwise);
  CHECK(run("--model.flavor 70B").model->hidden == 8192);
  for (const char* size : {"7B", "13B", "70B"})  // of releases before 0.1
    CHECK(run(fmt::format("--model.name llama2 --model.flavor {}", size)).model->name ==
          fmt::format("llama2-{}b", std::atoi(size)));
  CHECK_FALSE(run("--training.seq_len $SEQ").unused.empty());
}

TEST_CASE("LLaMA-Factory's and torchtune's pairs lie over the file that they stand behind") {
  const auto factory = [](const std::string& pairs) {
    return started("f.yaml", kFactory, "export NNODES=2 NPROC_PER_NODE=8\nllamafactory-cli train f.yaml " + pairs);
  };
  CHECK(factory("").fixed.micro_batch == 1);
  const LaunchJob job = factory("per_device_train_batch_size=4 lora_rank=64 cutoff_len=4096 learning_rate=1e-5");
  CHECK(job.fixed.micro_batch == 4);
  CHECK(job.training->lora.rank == 64);
  CHECK(job.training->seq == 4096);
  CHECK(job.unused.size() == factory("").unused.size());
  const auto tune = [](const std::string& pairs) {
    return started("t.yaml", kTune,
                   "tune run --nnodes 2 --nproc_per_node 8 lora_finetune_distributed --config t.yaml " + pairs);
  };
  CHECK(tune("").training->lora.ffn);
  const LaunchJob tuned = tune("batch_size=4 tokenizer.max_seq_len=4096 model.lora_rank=32");
  CHECK(tuned.fixed.micro_batch == 4);
  CHECK(tuned.training->seq == 4096);
  CHECK(tuned.training->lora.rank == 32);
  CHECK(tuned.unused.size() == tune("").unused.size());
  const LaunchJob recipe = started(
      "t.yaml", kTune,
      "torchrun --nnodes 2 --nproc_per_node 8 recipes/lora_finetune_distributed.py --config t.yaml batch_size=4");
  CHECK(recipe.fixed.micro_batch == 4);
}

TEST_CASE("pairs and flags lie over the files of programs that accelerate starts, and its launcher's over its own") {
  const std::string sharding =
      "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nmixed_precision: bf16\nnum_machines: 1\n"
      "num_processes: 8\nfsdp_config:\n  fsdp_version: 2\n  fsdp_reshard_after_forward: true\n";
  const std::string trl =
      "model_name_or_path: meta-llama/Meta-Llama-3-8B\nper_device_train_batch_size: 2\nmax_length: 4096\nbf16: true\n"
      "gradient_accumulation_steps: 1\n";
  const auto run = [&](const std::string& arguments, const std::string& launcher, const std::string& words) {
    const Files files;
    files.folder.write("acc.yaml", sharding);
    files.folder.write("job.yaml", arguments);
    const Result<LaunchJob> job =
        files.read("run.sh", "#!/bin/bash\naccelerate launch --config_file acc.yaml " + launcher + words + "\n");
    REQUIRE_MESSAGE(job, (job ? "" : job.error().front().message));
    return *job;
  };
  CHECK(run(trl, "", " sft.py --config job.yaml").gpus == 8);
  const LaunchJob job = run(trl, "--num_processes 16 --num_machines=2 --fsdp_reshard_after_forward false",
                            " sft.py --config job.yaml --max_length 8192 --gradient_accumulation_steps=4");
  CHECK(job.gpus == 16);
  CHECK(job.fixed.zero == 2);
  CHECK(job.training->seq == 8192);
  CHECK(job.training->global_batch == 2 * 4 * 16);
  CHECK_FALSE(names(job.unused, "other words"));
  const LaunchJob factory = run(kFactory, "", " src/train.py job.yaml per_device_train_batch_size=4 cutoff_len=8192");
  CHECK(factory.fixed.micro_batch == 4);
  CHECK(factory.training->seq == 8192);
  CHECK_FALSE(names(factory.unused, "other words"));
  const LaunchJob own = run(kFactory, "", " prog.py job.yaml cutoff_len=8192");  // whose way is not known
  CHECK(own.training->seq == 2048);
  CHECK(names(own.unused, "`acc.yaml` and `job.yaml`"));
  const LaunchJob open = run(trl, "--num_processes \"$(nvidia-smi -L | wc -l)\"", " sft.py --config job.yaml");
  CHECK(open.gpus == 0);
  CHECK(names(open.unused, "num_processes"));
}

TEST_CASE("a script that states no GPUs and names a file is that file's job") {
  const LaunchJob job = started("f.yaml", kFactory, "MASTER_ADDR=x llamafactory-cli train f.yaml");
  CHECK(job.gpus == 16);
  CHECK(job.training->seq == 2048);
}

TEST_CASE("words of a program whose way is not known are named and lie over nothing") {
  const LaunchJob job =
      started("f.yaml", kFactory, "export NNODES=2 NPROC_PER_NODE=8\npython launch.py f.yaml lora_rank=64");
  CHECK(job.training->lora.rank == 8);
  CHECK(names(job.unused, "lora_rank=64"));
}

TEST_CASE("a degree of a command whose program is not known is refused, unless it is one") {
  const std::string json = R"({"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": true}})";
  const auto read = [&](const std::string& words) {
    const Files files;
    files.folder.write("ds.json", json);
    LaunchContext context = on(16);
    context.model = load_model("llama3-8b", {.files = false})->value;
    return files.read("run.sh", "#!/bin/bash\ndeepspeed fast_llm/train.py --deepspeed_config ds.json " + words + "\n",
                      context);
  };
  for (const std::string name : {"pipe_parallel_size", "model_parallel_size", "tensor-parallel-size", "cp_size",
                                 "sequence_parallel_degree", "ep_degree", "model.tp_size"})
    for (const std::string joint : {" ", "="}) {
      CAPTURE(name + joint);
      const Result<LaunchJob> job = read("--steps 10 --" + name + joint + "4");
      REQUIRE_FALSE(job);
      CHECK(job.error().front().code == "degree_not_read");
      CHECK(job.error().front().message.find("run.sh:2: `" + name + "`") != std::string::npos);
      CHECK(read("--steps 10 --" + name + joint + "1"));
    }
  CHECK(read("--vllm_tensor_parallel_size 4 --data_parallel_size 4"));  // of what answers, and what follows anyway
}

TEST_CASE("a recipe's command that ends behind any of its words is read or refused") {
  const std::string last = "model.tensor_model_parallel_size=2 --recipe";
  for (const std::string& text :
       {std::string("#!/bin/bash\nnemo llm pretrain trainer.num_nodes=2 trainer.devices=8 data.global_batch_size=64 "
                    "--factory llama3_70b"),
        "#!/bin/bash\ntorchrun --nnodes 1 --nproc_per_node 8 scripts/training/run_recipe.py --mode pretrain "
        "train.global_batch_size=32 " +
            last + " llama31_8b_peft_config"})
    for (std::size_t end = text.find(' '); end != std::string::npos; end = text.find(' ', end + 1)) {
      CAPTURE(text.substr(0, end));
      const Files files;
      const Result<LaunchJob> job = files.read("run.sh", text.substr(0, end) + "\n");
      CHECK((job || !job.error().front().message.empty()));
      CHECK_FALSE((job && job->model));  // nothing names one yet
    }
}

}  // namespace plan
