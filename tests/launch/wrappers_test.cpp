// Launchers around a trainer: flags over a recipe, scripts that write what each node runs, commands in here-documents,
// programs with names of their own for what the Trainer has. Sizes are worked out by hand.
#include <doctest/doctest.h>

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "cli/launch/job/format.hpp"
#include "cli/launch/launch.hpp"
#include "planner/answer/plan.hpp"
#include "small_files.hpp"

namespace plan {

using namespace launching;

TEST_CASE("flags over a recipe of Megatron-Bridge's performance scripts count, in the script that a node runs, too") {
  const std::string flags =
      "--model_family_name llama --model_recipe_name llama31_405b --gpu gb200 --num_gpus 128 --gpus_per_node 4 "
      "--compute_dtype fp8_cs -tp 4 --pipeline_model_parallel_size=8 -gb 1536 --seq_length 8192 --account x";
  const LaunchJob job = job_of("p.sh", "#!/bin/bash\npython scripts/performance/run_script.py " + flags + "\n");
  CHECK(job.format == "megatron-bridge");
  CHECK(job.gpus == 128);
  CHECK(job.gpu == "gb200");
  CHECK(job.fixed.tp == 4);
  CHECK(job.fixed.pp == 8);
  CHECK(names(job.unused, "126 layers are split over 8 chunks"));
  CHECK(job.fixed.sequence_parallel == true);
  CHECK(job.training->seq == 8192);
  CHECK(job.training->global_batch == 1536);
  CHECK(job.training->precision == Precision::Fp8Tensorwise);
  CHECK(guesses(job, "cp"));
  CHECK_FALSE(guesses(job, "tp"));
  REQUIRE(job.model);
  CHECK(job.model->name == "llama3-405b");
  const std::string worker =
      "#!/bin/bash\nW=$(cat <<- EOM\n  cd /opt ;\n  numactl --membind=\\$((LOCAL_RANK/2)) \\\n"
      "  python scripts/performance/custom_setup_experiment.py \\\n  " +
      flags +
      " --cuda_graph_impl none\nEOM\n)\necho \"$W\" > w.sh\n"
      "torchrun --nproc-per-node=4 --nnodes=32 --no-python bash w.sh\n";
  const LaunchJob same = job_of("w.sh", worker);
  CHECK(same.gpus == 128);
  CHECK(same.fixed.pp == 8);
  CHECK(same.training->global_batch == 1536);
  CHECK(names(same.unused, "cuda_graph_impl"));
  CHECK(error_of("x.sh", "#!/bin/bash\npython run_script.py " + replaced(flags, "fp8_cs", "fp9")) ==
        "unknown_precision");
  // A format and a batch say nothing of the layout, which then is all the recipe's.
  CHECK(error_of("bare.sh",
                 "#!/bin/bash\npython run_script.py --model_family_name llama --model_recipe_name llama31_405b "
                 "--gpu gb200 --num_gpus 128 --compute_dtype fp8_mx -gb 1536\n") == "recipe_decides");
  CHECK(error_of("two.sh", "#!/bin/bash\npython run_script.py " + flags + "\npython run_script.py " +
                               replaced(flags, "-tp 4", "-tp 2") + "\n") == "several_trainings");
}

TEST_CASE("a script that starts another is the job of that other, with what it is given") {
  const Files files;
  files.folder.write("scripts/train.sh",
                     "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --gpus-per-node=8\nTP=${TP:-1}\nPP=1\n"
                     "while [[ $# -gt 0 ]]; do\n  case $1 in\n    --mbs) MBS=\"$2\"; shift 2;;\n"
                     "    --pp=*) PP=\"${1#*=}\"; shift;;\n    *) echo unknown; exit 1;;\n  esac\ndone\n"
                     "torchrun --nnodes ${SLURM_NNODES:-1} --nproc_per_node 8 pretrain_gpt.py --num-layers 32 "
                     "--hidden-size 4096 --num-attention-heads 32 --seq-length 2048 --max-position-embeddings 2048 "
                     "--micro-batch-size $MBS --global-batch-size 64 --eval-interval 10 --bf16 --vocab-size 32000 "
                     "--tensor-model-parallel-size $TP --pipeline-model-parallel-size $PP\n");
  const auto read = [&](const std::string& text, std::vector<std::string> words = {}) {
    LaunchContext context;
    context.arguments = std::move(words);
    Result<LaunchJob> job = files.read("run.sh", "#!/bin/bash\n" + text, context);
    REQUIRE_MESSAGE(job, (job ? "" : job.error().front().message));
    return *job;
  };
  // What is exported or is before the command reaches the script, a variable of the caller's own does not.
  const LaunchJob called = read("TP=8\nTP=4 bash scripts/train.sh --mbs 2 --pp=2\n");
  CHECK(called.fixed.tp == 4);
  CHECK(called.fixed.pp == 2);
  CHECK(called.fixed.micro_batch == 2);
  CHECK(called.gpus == 8);
  CHECK(read("TP=8\nbash scripts/train.sh --mbs 2\n").fixed.tp == 1);
  CHECK(read("export TP=8\n./scripts/train.sh --mbs $1\n", {"4"}).fixed.tp == 8);
  const LaunchJob batch = read("sbatch --nodes=4 scripts/train.sh --mbs 1\n");
  CHECK(batch.gpus == 32);
  CHECK(read("sbatch scripts/train.sh --mbs 1\n").gpus == 16);
  // Values of the launcher's own flags stand before the script's name.
  CHECK(read("sbatch -N 4 --job-name x scripts/train.sh --mbs 1\n").gpus == 32);
  CHECK(read("srun -N 2 bash -x scripts/train.sh --mbs 1\n").fixed.micro_batch == 1);
  // The first word that is no flag of bash's is its script, and its own words are no scripts that it starts.
  CHECK(error_of("other.sh", "#!/bin/bash\nbash ./launch scripts/train.sh\n") == "unknown_format");
  CHECK(error_of("two.sh", "#!/bin/bash\nbash gone.sh\n") == "unknown_format");
  const Result<LaunchJob> two =
      files.read("run.sh", "#!/bin/bash\nbash scripts/train.sh --mbs 1\nbash scripts/train.sh --mbs 2\n");
  REQUIRE_FALSE(two);
  CHECK(two.error().front().code == "several_trainings");
}

TEST_CASE("FlagScale's file under train/, and keys that stand twice") {
  const std::string text =
      "system:\n  tensor_model_parallel_size: 4\n  pipeline_model_parallel_size: 2\n  use_distributed_optimizer: true\n"
      "  precision:\n    bf16: true\nmodel:\n  num_layers: 8\n  hidden_size: 1024\n  num_attention_heads: 16\n"
      "  seq_length: 2048\n  max_position_embeddings: 2048\n  micro_batch_size: 1\n  global_batch_size: 64\n"
      "  multiple_of: 256\n  swiglu: true\n  global_batch_size: 128\ndata:\n  tokenizer:\n    vocab_size: 32000\n";
  const LaunchJob job = job_of("train.yaml", text, on(64));
  CHECK(job.fixed.tp == 4);
  CHECK(job.fixed.pp == 2);
  CHECK(job.training->global_batch == 128);  // the last one
  CHECK(job.training->precision == Precision::Bf16);
  REQUIRE(job.model);
  CHECK(job.model->hidden == 1024);
}

TEST_CASE("OpenRLHF's trainers: words in a here-document, flags with and without dots") {
  const std::string dotted =
      "#!/bin/bash\nread -r -d '' commands <<EOF\nopenrlhf.cli.train_sft \\\n  --data.max_len 2048 \\\n"
      "  --train.batch_size 256 --train.micro_batch_size 2 --model.model_name_or_path meta-llama/Meta-Llama-3-8B \\\n"
      "  --ds.zero_stage 2 --ds.param_dtype bf16 --model.gradient_checkpointing_enable\nEOF\n"
      "deepspeed --module $commands\n";
  const LaunchJob job = job_of("sft.sh", dotted, on(8));
  CHECK(job.format == "deepspeed");
  CHECK(job.gpus == 8);
  CHECK(job.fixed.zero == 2);
  CHECK(job.fixed.micro_batch == 2);
  CHECK(job.training->global_batch == 256);
  CHECK(job.training->seq == 2048);
  CHECK(job.training->precision == Precision::Bf16);
  CHECK(job.training->task == Task::FullFinetune);
  REQUIRE(job.fixed.recompute);
  CHECK(job.fixed.recompute->kind == RecomputeKind::Full);
  const LaunchJob plain =
      job_of("dpo.sh",
             "#!/bin/bash\ndeepspeed --module openrlhf.cli.train_dpo --max_len 4096 --train_batch_size 128 "
             "--micro_train_batch_size 1 --pretrain meta-llama/Meta-Llama-3-8B --zero_stage 3 --bf16 --lora_rank 64\n",
             on(8));
  CHECK(plain.training->task == Task::Lora);
  CHECK(plain.training->lora.rank == 64);
  CHECK(plain.fixed.zero == 3);
  CHECK(names(plain.unused, "dpo"));
  CHECK(error_of("no.sh", replaced(dotted, "--ds.zero_stage 2", "")) == "missing_flag");
  const LaunchJob actor =
      job_of("ppo.sh",
             "#!/bin/bash\nray job submit -- python3 -m openrlhf.cli.train_ppo_ray --actor_num_nodes 2 "
             "--actor_num_gpus_per_node 4 --critic_num_nodes 1 --critic_num_gpus_per_node 8 --pretrain "
             "meta-llama/Meta-Llama-3-8B --prompt_max_len 1024 --generate_max_len 3072 --micro_train_batch_size 2 "
             "--train_batch_size 64 --zero_stage 3 --bf16 --gradient_checkpointing\n");
  CHECK(actor.gpus == 8);
  CHECK(actor.training->seq == 4096);
  CHECK(actor.training->global_batch == 64);
  CHECK(actor.fixed.micro_batch == 2);
  CHECK(names(actor.unused, "ppo"));
}

TEST_CASE("a program's own names for adapters and recomputation count, and what nothing reads is named") {
  const std::string text =
      "#!/bin/bash\naccelerate launch --num_processes 8 train.py --model_name_or_path meta-llama/Meta-Llama-3-8B "
      "--per_device_train_batch_size 1 --max_seq_len 4096 --bf16 True --use_peft_lora True --lora_r 16 "
      "--use_gradient_checkpointing True --freeze_layers 4 --lora_alpha 32\n";
  const LaunchJob job = job_of("own.sh", text);
  CHECK(job.training->task == Task::Lora);
  CHECK(job.training->lora.rank == 16);
  REQUIRE(job.fixed.recompute);
  CHECK(job.fixed.recompute->kind == RecomputeKind::Full);
  CHECK(names(job.unused, "freeze_layers"));
  CHECK_FALSE(names(job.unused, "lora_alpha"));
  const LaunchJob open = job_of("open.sh", replaced(text, "--use_peft_lora True", ""));
  CHECK(open.training->task == Task::Lora);  // who states a rank means adapters; that no switch says so is told
  CHECK(names(open.unused, "lora_r"));
  CHECK(job_of("q.sh", replaced(text, "--use_peft_lora True", "--use_qlora 1")).training->task == Task::Qlora);
}

TEST_CASE("GPUs of a node alone are no job's whose degrees take more") {
  const std::string text =
      "trainer:\n  devices: 8\n  precision: bf16\nexp_manager:\n  name: x\nmodel:\n  micro_batch_size: 1\n  "
      "global_batch_size: 64\n"
      "  tensor_model_parallel_size: 4\n  pipeline_model_parallel_size: 4\n  encoder_seq_length: 2048\n"
      "  max_position_embeddings: 2048\n  num_layers: 8\n  hidden_size: 1024\n  num_attention_heads: 16\n"
      "  ffn_hidden_size: 4096\n  mcore_gpt: true\n";
  LaunchContext llama;
  llama.model = model_named("llama3-8b")->model;
  CHECK(job_of("n.yaml", text, llama).gpus == 0);
  CHECK(job_of("n.yaml", replaced(text, "pipeline_model_parallel_size: 4", "pipeline_model_parallel_size: 2"), llama)
            .gpus == 8);
  CHECK(job_of("n.yaml", replaced(text, "devices: 8", "devices: 8\n  num_nodes: 4"), llama).gpus == 32);
  const std::string experts =
      replaced(replaced(text, "tensor_model_parallel_size: 4", "tensor_model_parallel_size: 1"), "  mcore_gpt",
               "  num_moe_experts: 8\n  expert_model_parallel_size: 8\n  mcore_gpt");
  LaunchContext mixtral;
  mixtral.model = model_named("mixtral-8x7b")->model;
  CHECK(job_of("n.yaml", experts, mixtral).gpus == 0);
}

TEST_CASE("one expert of Megatron-DeepSpeed's is a layer without experts") {
  const LaunchJob job =
      job_of("ds.sh",
             "#!/bin/bash\ndeepspeed --num_nodes 1 --num_gpus 8 pretrain_gpt.py --num-layers 4 --hidden-size 1024 "
             "--num-attention-heads 16 --seq-length 2048 --max-position-embeddings 2048 --micro-batch-size 1 "
             "--global-batch-size 64 --num-experts 1 --topk 2 --zero-stage 1 --deepspeed --bf16 --vocab-size 50257 "
             "--eval-interval 10\n");
  REQUIRE(job.model);
  CHECK_FALSE(job.model->moe());
}

TEST_CASE("files that a script names are found from whatever folder plan is started in") {
  namespace fs = std::filesystem;
  const Files files;
  const std::string trainer =
      "train.py --model_name_or_path meta-llama/Meta-Llama-3-8B --bf16 True --per_device_train_batch_size ";
  files.folder.write("repo/conf/ds.json",
                     "{\"zero_optimization\": {\"stage\": 3}, \"train_micro_batch_size_per_gpu\": 4}");
  files.folder.write("repo/conf/fsdp.yaml",
                     "distributed_type: FSDP\nfsdp_config:\n  fsdp_version: 2\n  fsdp_reshard_after_forward: true\n"
                     "num_machines: 1\nnum_processes: 8\n");
  files.folder.write("repo/conf/sizes.sh", "MBS=4\nGPUS=8\n");
  const std::string scripts[] = {
      files.folder.write("repo/jobs/llama/ds.sh", "deepspeed --num_gpus 8 " + trainer + "4 --deepspeed conf/ds.json\n"),
      files.folder.write("repo/jobs/llama/fsdp.sh",
                         "accelerate launch --config_file conf/fsdp.yaml " + trainer + "4\n"),
      files.folder.write(
          "repo/jobs/llama/sourced.sh",
          "source conf/sizes.sh\naccelerate launch --num_processes $GPUS " + trainer + "$MBS --fsdp full_shard\n")};
  const fs::path before = fs::current_path();
  for (const std::string& script : scripts)
    for (const char* folder : {".", "repo", "repo/jobs", "repo/jobs/llama", "repo/conf", "/"}) {
      CAPTURE(script);
      CAPTURE(folder);
      fs::current_path(files.folder.path() / folder);
      const Result<LaunchJob> job = read_launch_files({fs::proximate(script).string()});
      fs::current_path(before);
      REQUIRE_MESSAGE(job, (job ? "" : job.error().front().message));
      CHECK(job->gpus == 8);
      CHECK(job->fixed.zero == 3);
      CHECK(job->fixed.micro_batch == 4);
    }
}

TEST_CASE("a launcher's own default of one node counts where nobody states nodes, and is said to be one") {
  const std::string trainer =
      " train.py --model_name_or_path meta-llama/Meta-Llama-3-8B --bf16 True --per_device_train_batch_size 4 "
      "--fsdp full_shard\n";
  const auto read = [&](const std::string& start) { return job_of("start.sh", start + trainer); };
  const auto by_default = [](const LaunchJob& job) {
    return std::any_of(job.inputs.begin(), job.inputs.end(), [](const Input& input) {
      return input.key == "gpus" && input.origin == Origin::Default && input.where.find("one node") == 0;
    });
  };
  for (const char* start :
       {"torchrun --nproc_per_node 8", "torchrun --standalone --nproc-per-node=8", "deepspeed --num_gpus 8",
        "python -m torch.distributed.launch --nproc_per_node=8", "nohup /opt/bin/torchrun --nproc_per_node 8",
        "CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7 torchrun --nproc_per_node=8"}) {
    CAPTURE(std::string(start));
    const LaunchJob job = read(start);
    CHECK(job.gpus == 8);
    CHECK(by_default(job));
  }
  for (const char* start : {"torchrun --nnodes 2 --nproc_per_node 4", "deepspeed --include localhost:0,1,2,3,4,5,6,7",
                            "deepspeed --include=a:0,1,2,3@b:0,1,2,3", "CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7 deepspeed",
                            "#SBATCH --nodes=2\nsrun torchrun --nproc_per_node 4",
                            "NNODES=2 NPROC_PER_NODE=4 accelerate launch --num_processes 8"}) {
    CAPTURE(std::string(start));
    const LaunchJob job = read(start);
    CHECK(job.gpus == 8);
    CHECK_FALSE(by_default(job));
  }
  // How many nodes there are is decided elsewhere, or is a word that only the machine knows.
  for (const char* start :
       {"srun torchrun --nproc_per_node 8", "torchrun --nnodes $NODES --nproc_per_node 8",
        "torchrun $MORE --nproc_per_node 8", "deepspeed --hostfile /job/hostfile --num_gpus 8",
        "mpirun -np 4 python -m torch.distributed.run --nproc_per_node 8",
        "torchrun --node_rank $RANK --nproc_per_node 8", "deepspeed --include a:0,1@b:0 --num_gpus 8"}) {
    CAPTURE(std::string(start));
    const LaunchJob job = read(start);
    CHECK(job.gpus == 0);
    CHECK(job.gpus_per_node == 8);
  }
  const std::string megatron =
      "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 32 --hidden-size 4096 --num-attention-heads 32 "
      "--seq-length 2048 --max-position-embeddings 2048 --micro-batch-size 1 --global-batch-size 64 --eval-interval 10 "
      "--bf16 --vocab-size 32000 --tokenizer-type NullTokenizer --tensor-model-parallel-size 4\n";
  CHECK(job_of("m.sh", megatron).gpus == 8);
  const LaunchJob wide = job_of("m.sh", replaced(megatron, "--bf16", "--bf16 --pipeline-model-parallel-size 8"));
  CHECK(wide.gpus == 0);  // each of several nodes runs this script
  CHECK(wide.gpus_per_node == 8);
  CHECK(job_of("m.sh", replaced(megatron, "--bf16",
                                "--bf16 --num-experts 8 --moe-router-topk 2 --pipeline-model-parallel-size 2 "
                                "--expert-model-parallel-size 8 --expert-tensor-parallel-size 1"))
            .gpus == 0);
}

TEST_CASE("flags of accelerate launch are keys of its file") {
  const std::string trainer =
      " train.py --model_name_or_path meta-llama/Meta-Llama-3-8B --per_device_train_batch_size 2 "
      "--gradient_accumulation_steps 4\n";
  const auto read = [&](const std::string& flags) {
    return job_of("a.sh", "accelerate launch --num_processes 16 --num_machines 2 " + flags + trainer);
  };
  struct Row {
    const char* flags;
    int zero;
    Precision precision;
    bool offload;
  };
  for (const Row& row :
       {Row{"--use_fsdp --mixed_precision bf16", 3, Precision::Bf16, false},
        Row{"--use_fsdp --fsdp_sharding_strategy SHARD_GRAD_OP --mixed_precision bf16", 2, Precision::Bf16, false},
        Row{"--use_fsdp --fsdp_sharding_strategy=3 --mixed_precision fp16", 0, Precision::Fp16, false},
        Row{"--use_fsdp --fsdp_version 2 --fsdp_offload_params true --mixed_precision bf16", 3, Precision::Bf16, true},
        Row{"--use_deepspeed --zero_stage 3 --mixed_precision bf16", 3, Precision::Bf16, false},
        Row{"--use_deepspeed --mixed_precision fp16", 2, Precision::Fp16, false},
        Row{"--use_deepspeed --zero_stage 1 --offload_optimizer_device cpu --mixed_precision bf16", 1, Precision::Bf16,
            true}}) {
    CAPTURE(std::string(row.flags));
    const LaunchJob job = read(row.flags);
    CHECK(job.gpus == 16);
    CHECK(job.fixed.zero == row.zero);
    CHECK(job.fixed.micro_batch == 2);
    CHECK(job.training->precision == row.precision);
    CHECK((job.training->offload.optimizer > 0) == row.offload);
    CHECK(job.training->global_batch == 2 * 4 * 16);
    CHECK_FALSE(names(job.unused, "use_"));
  }
  // Over the file that the command names.
  const Files files;
  files.folder.write("fsdp.yaml",
                     "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nfsdp_config:\n  fsdp_version: 2\n"
                     "  fsdp_reshard_after_forward: true\nnum_machines: 1\nnum_processes: 8\nmixed_precision: bf16\n");
  for (const auto& over : {std::pair{"", 3}, std::pair{"--fsdp_reshard_after_forward false ", 2},
                           std::pair{"--use_deepspeed --zero_stage 1 ", 1}}) {
    CAPTURE(std::string(over.first));
    const Result<LaunchJob> job =
        files.read("a.sh", std::string("accelerate launch --config_file fsdp.yaml ") + over.first + trainer);
    REQUIRE(job);
    CHECK(job->fixed.zero == over.second);
    CHECK(job->gpus == 8);
    CHECK(job->training->precision == Precision::Bf16);
  }
}

TEST_CASE("a number that only the machine knows is refused with ways to state it") {
  const std::string script =
      "N=$(nvidia-smi -L | wc -l)\naccelerate launch --num_processes 8 train.py --model_name_or_path "
      "meta-llama/Meta-Llama-3-8B --bf16 True --fsdp full_shard --per_device_train_batch_size 1 "
      "--gradient_accumulation_steps $((64 / N))\n";
  const Files files;
  const Result<LaunchJob> job = files.read("s.sh", script);
  REQUIRE_FALSE(job);
  REQUIRE_FALSE(job.error().front().help.empty());
  CHECK(job.error().front().help.front().find("plan capture") != std::string::npos);
  CHECK(files.read("s.sh", replaced(script, "N=$(nvidia-smi -L | wc -l)", "N=${N:-8}"))->training->global_batch == 64);
}

TEST_CASE("launchers that count ranks say on how many GPUs, and of how many on a node") {
  struct Row {
    std::string head, launcher;
    int gpus, of_node;
  };
  const std::vector<Row> rows = {{"", "mpirun -np 32 python", 32, 0},
                                 {"", "mpirun -np 32 -npernode 4 python3 -u", 32, 4},
                                 {"", "mpiexec -n 32 -ppn 4 python", 32, 4},
                                 {"", "flux run -N 4 -n 32 -g 1 python", 32, 0},
                                 {"", "jsrun -n 8 -a 4 -g 4 python", 32, 0},
                                 {"", "horovodrun -np 16 python", 16, 0},
                                 {"", "msrun --worker_num 16 --local_worker_num=8", 16, 8},
                                 {"", "msrun --worker_num=8 --master_port 8118", 8, 0},
                                 {"#SBATCH -N 4\n#SBATCH -G 16\n", "srun -n 16 python", 16, 4},
                                 {"#SBATCH --nodes=4\n#SBATCH --gpus=a100:16\n", "srun python", 16, 4},
                                 {"#SBATCH --nodes=4\n", "srun -n 4 torchrun --nnodes 4 --nproc_per_node 8", 32, 8},
                                 {"", "mpirun -np 4 -npernode 1 torchrun --nnodes 4 --nproc_per_node 8", 32, 8}};
  for (const Row& row : rows) {
    CAPTURE(row.launcher);
    const LaunchJob job = job_of("run.sh", "#!/bin/bash\n" + row.head + row.launcher +
                                               " pretrain_gpt.py --num-layers 32 --hidden-size 4096 "
                                               "--num-attention-heads 32 --seq-length 4096 "
                                               "--max-position-embeddings 4096 --micro-batch-size 1 "
                                               "--global-batch-size 64 --vocab-size 32000 --bf16 --tokenizer-type "
                                               "NullTokenizer --eval-interval 100 --train-iters 10\n");
    CHECK(job.gpus == row.gpus);
    CHECK(job.gpus_per_node == row.of_node);
  }
}

}  // namespace plan
