// GPUs that the commands of a script state: those of the command that trains, whatever is started before and after it.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "small_files.hpp"

namespace plan {

using namespace launching;

namespace {

constexpr const char* kTrains =
    "run_clm.py --model_name_or_path meta-llama/Meta-Llama-3-8B --per_device_train_batch_size 2 --bf16 True "
    "--max_seq_length 2048 --deepspeed zero.json --output_dir out --learning_rate 1e-5 --num_train_epochs 1";

constexpr const char* kWithoutFile =
    "run_clm.py --model_name_or_path meta-llama/Meta-Llama-3-8B --per_device_train_batch_size 2 --bf16 True "
    "--max_seq_length 2048";

struct Folder : Files {
  Folder() { folder.write("zero.json", "{\"zero_optimization\": {\"stage\": 3}, \"bf16\": {\"enabled\": true}}"); }
};

}  // namespace

TEST_CASE("GPUs are those of the command that trains, whatever else a script starts") {
  const Folder files;
  std::mt19937 random(7);
  const auto draw = [&](int least, int most) { return std::uniform_int_distribution<int>(least, most)(random); };
  for (int i = 0; i < 60; ++i) {
    const int nodes = draw(1, 8), each = 1 << draw(1, 3);
    // Some train nothing by their name, others have little to say.
    const std::vector<std::string> others = {
        fmt::format("torchrun --nproc_per_node {} --nnodes 1 tools/preprocess.py --input x\n", draw(1, 8)),
        fmt::format("CUDA_VISIBLE_DEVICES={} python -m vllm.entrypoints.api_server --model x &\n", draw(0, 7)),
        fmt::format("CUDA_VISIBLE_DEVICES={} python score.py --data y\n", draw(0, 7)),
        fmt::format("accelerate launch --num_processes {} lm_eval --model hf\n", draw(1, 8)),
        fmt::format("torchrun --nproc_per_node {} --nnodes 1 warm_up.py\n", draw(1, 8)),
        ""};
    const auto other = [&] { return others[static_cast<std::size_t>(draw(0, static_cast<int>(others.size()) - 1))]; };
    const std::string script = fmt::format("#!/bin/bash\n{}{}torchrun --nproc_per_node {} --nnodes {} {}\n{}", other(),
                                           other(), each, nodes, kTrains, other());
    CAPTURE(script);
    const Result<LaunchJob> job = files.read("run.sh", script);
    REQUIRE(job);
    CHECK(job->gpus == nodes * each);
  }
}

TEST_CASE("GPUs that are shown to a launcher are those of each machine that it starts on") {
  const Folder files;
  struct Machines {
    std::string header, words;
    int count;  ///< 0: not known
  };
  const std::string visible = "export CUDA_VISIBLE_DEVICES=0,1,2,3\n";
  for (const Machines& of : {Machines{"", "", 1},
                             {"", "--num_machines 1 --machine_rank 0", 1},
                             {"", "--num_machines 2 --machine_rank $RANK", 2},
                             {"", "--num_machines $N", 0},
                             {"", "--machine_rank $RANK", 0},
                             {"", "$ARGS", 0}}) {
    const std::string text = fmt::format("#!/bin/bash\n{}accelerate launch {} {}\n", visible, of.words, kWithoutFile);
    CAPTURE(text);
    const Result<LaunchJob> job = files.read("run.sh", text);
    REQUIRE(job);
    CHECK(job->gpus == 4 * of.count);
    CHECK(job->gpus_per_node == 4);
  }
  for (const int nodes : {1, 2, 6})
    for (const char* step : {"srun ", "srun -N {} ", "srun --nodes={} "}) {
      const std::string start = fmt::format(fmt::runtime(step), nodes);
      const std::string header = start == step ? fmt::format("#SBATCH --nodes={}\n", nodes) : std::string();
      const std::string text =
          fmt::format("#!/bin/bash\n{}{}{}accelerate launch {}\n", header, visible, start, kWithoutFile);
      CAPTURE(text);
      const Result<LaunchJob> job = files.read("run.sh", text);
      REQUIRE(job);
      CHECK(job->gpus == 4 * nodes);
    }
  // torchrun starts one process where it is not asked for more, and DeepSpeed takes those of a hostfile.
  for (const auto& [start, gpus] :
       {std::pair{"torchrun --nproc_per_node gpu", 4}, std::pair{"torchrun --nnodes 2 --node_rank $R", 0},
        std::pair{"torchrun --nnodes $N --node_rank $R --nproc_per_node 8", 0}, std::pair{"deepspeed", 4},
        std::pair{"deepspeed --num_nodes 2", 0}, std::pair{"deepspeed --hostfile hosts", 0}}) {
    const std::string text = fmt::format("#!/bin/bash\n{}{} {}\n", visible, start, kWithoutFile);
    CAPTURE(text);
    const Result<LaunchJob> job = files.read("run.sh", text);
    REQUIRE(job);
    CHECK(job->gpus == gpus);
  }
  const std::string factory =
      "llamafactory-cli train --model_name_or_path Qwen/Qwen2.5-7B --stage sft --cutoff_len 1024 "
      "--per_device_train_batch_size 1 --finetuning_type lora --bf16 true\n";
  CHECK(job_of("run.sh", "CUDA_VISIBLE_DEVICES=0,1 FORCE_TORCHRUN=1 NNODES=3 " + factory).gpus == 6);
  CHECK(job_of("run.sh", visible + "export NNODES=$N\n" + factory).gpus == 0);
}

TEST_CASE("what writes answers on GPUs of its own counts none of the training's, however much it has to say") {
  const Folder files;
  files.folder.write("two.yaml", "distributed_type: MULTI_GPU\nnum_machines: 1\nnum_processes: 8\n");
  const std::string trains = fmt::format("accelerate launch --config_file two.yaml {}\n", kTrains);
  for (const int words : {0, 4, 40})
    for (const char* program :
         {"python generate.py", "python write.py", "python3 score.py", "accelerate launch rate.py"})
      for (const std::string& script : {std::string("{0}{1}"), std::string("{0}{0}{1}"), std::string("{1}{0}")}) {
        std::string other = fmt::format("CUDA_VISIBLE_DEVICES=0 {}", program);
        for (int i = 0; i < words; ++i) other += fmt::format(" --word_{} {}", i, i);
        const std::string text = fmt::format(fmt::runtime(script), other + " &\n", trains);
        CAPTURE(text);
        const Result<LaunchJob> job = files.read("run.sh", text);
        REQUIRE(job);
        CHECK(job->gpus == 8);
      }
  // Where nothing starts ranks, the one process trains, and a verb of a tool that trains nothing is no training.
  CHECK(job_of("run.sh", fmt::format("CUDA_VISIBLE_DEVICES=3 python {}\n", kWithoutFile)).gpus == 1);
  const std::string factory =
      "CUDA_VISIBLE_DEVICES=0,1 llamafactory-cli train --model_name_or_path Qwen/Qwen2.5-7B --stage sft --cutoff_len "
      "1024 --per_device_train_batch_size 1 --finetuning_type lora --bf16 true\n";
  CHECK(job_of("run.sh", factory + "CUDA_VISIBLE_DEVICES=0 llamafactory-cli export --model_name_or_path x\n").gpus ==
        2);
}

TEST_CASE("nodes that torchrun keeps alone are told, and its slips in front of any program") {
  const std::string slurm = "#!/bin/bash\n#SBATCH --nodes=4\nsrun torchrun {}--nproc_per_node 8 {}\n";
  const auto told = [&](const char* flags, const char* word) {
    const LaunchJob job = job_of("run.sh", fmt::format(fmt::runtime(slurm), flags, kWithoutFile));
    CHECK(job.gpus == 32);
    return names(job.unused, word);
  };
  CHECK(told("--standalone ", "--standalone"));
  CHECK_FALSE(told("", "--standalone"));
  CHECK_FALSE(names(job_of("run.sh", fmt::format("torchrun --standalone --nproc_per_node 8 {}\n", kWithoutFile)).unused,
                    "--standalone"));
  CHECK(names(job_of("run.sh",
                     fmt::format("torchrun --nnoeds 4 --nproc_per_node 8 --no-python bash run2.sh\ntorchrun --nnodes 1 "
                                 "--nproc_per_node 8 {}\n",
                                 kWithoutFile))
                  .unused,
              "--nnoeds"));
}

TEST_CASE("what follows a launcher leaves the one node on which it starts") {
  const Folder files;
  for (const char* behind : {"", "\necho done", " 2>&1 | tee run.log", " && python3 report.py"}) {
    CAPTURE(behind);
    const Result<LaunchJob> job =
        files.read("run.sh", fmt::format("#!/bin/bash\ntorchrun --nproc_per_node 4 {}{}\n", kTrains, behind));
    REQUIRE(job);
    CHECK(job->gpus == 4);
  }
}

TEST_CASE("a command on other GPUs is named beside the one that counts") {
  const Folder files;
  const std::string train = fmt::format("torchrun --nproc_per_node 8 --nnodes 4 {}\n", kTrains);
  const auto told = [&](const std::string& other) {
    const Result<LaunchJob> job = files.read("run.sh", "#!/bin/bash\n" + other + train);
    REQUIRE(job);
    return names(job->unused, "counted are the 32");
  };
  CHECK(told("torchrun --nproc_per_node 2 --nnodes 1 warm_up.py\n"));
  CHECK_FALSE(told("torchrun --nproc_per_node 8 --nnodes 4 warm_up.py\n"));
  CHECK_FALSE(told("torchrun --nproc_per_node 2 --nnodes 1 evaluate.py\n"));
}

TEST_CASE("more processes than GPUs that a launcher lets them see are told, and as many are not") {
  const std::string program =
      " train.py --model_name_or_path meta-llama/Meta-Llama-3-8B --bf16 True --per_device_train_batch_size 4 "
      "--max_seq_length 2048 --fsdp full_shard\n";
  for (const int processes : {1, 2, 4, 8})
    for (const char* visible : {"0", "0,1", "0,1,2,3", "4,5,6,7", "0,1,2,3,4,5,6,7"}) {
      const std::string list = visible;
      const bool fewer = static_cast<int>((list.size() + 1) / 2) < processes;
      const std::string starts[] = {
          fmt::format("CUDA_VISIBLE_DEVICES={} torchrun --nnodes 1 --nproc_per_node {}", list, processes),
          fmt::format("export CUDA_VISIBLE_DEVICES={}\ntorchrun --nnodes 1 --nproc-per-node={}", list, processes),
          fmt::format("CUDA_VISIBLE_DEVICES={} accelerate launch --num_processes {}", list, processes),
          fmt::format("accelerate launch --gpu_ids {} --num_processes={}", list, processes),
          fmt::format("accelerate launch --num_processes {} --gpu_ids={}", processes, list),
      };
      for (const std::string& start : starts) {
        CAPTURE(start);
        const LaunchJob job = job_of("run.sh", "#!/bin/bash\n" + start + program);
        CHECK(job.gpus == processes);
        CHECK(names(job.unused, "processes start on a machine") == fewer);
      }
      const LaunchJob file = job_of("acc.yaml", fmt::format("compute_environment: LOCAL_MACHINE\n"
                                                            "distributed_type: MULTI_GPU\ngpu_ids: {}\n"
                                                            "num_machines: 1\nnum_processes: {}\n",
                                                            list, processes));
      CHECK(names(file.unused, "gpu_ids") == fewer);
    }
  // Blanks between the GPUs, and a comma behind the last.
  const std::pair<const char*, int> lists[] = {{"0, 1, 2, 3", 4}, {"0,1,2,3,", 4}, {" 0 ", 1}, {"0, 1,", 2}};
  for (const auto& list : lists)
    for (const int processes : {list.second, list.second + 1}) {
      CAPTURE(std::string(list.first));
      const LaunchJob job = job_of("run.sh", fmt::format("#!/bin/bash\nexport CUDA_VISIBLE_DEVICES=\"{}\"\ntorchrun "
                                                         "--nnodes 1 --nproc_per_node {}{}",
                                                         list.first, processes, program));
      CHECK(names(job.unused, fmt::format("shows {}:", list.second)) == (processes > list.second));
    }
  CHECK(job_of("run.sh", "#!/bin/bash\nCUDA_VISIBLE_DEVICES=\"0, 1, 2,\" accelerate launch" + program).gpus == 3);
  const LaunchJob all = job_of("run.sh", "#!/bin/bash\naccelerate launch --gpu_ids all --num_processes 8" + program);
  CHECK_FALSE(names(all.unused, "processes start on a machine"));
}

TEST_CASE("processes of accelerate's file beyond the GPUs that are shown are all of its one machine") {
  const std::string acc =
      "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nnum_machines: 1\nnum_processes: 4\n"
      "mixed_precision: bf16\nfsdp_config:\n  fsdp_version: 2\n";
  const std::string program =
      "accelerate launch --config_file acc.yaml train.py --model_name_or_path meta-llama/Meta-Llama-3-8B "
      "--per_device_train_batch_size 4 --max_seq_length 2048\n";
  for (const char* shown : {"0", "0,1", "0,1,2", "0,1,2,3"}) {
    const Files files;
    files.folder.write("acc.yaml", acc);
    const Result<LaunchJob> job = files.read("run.sh", fmt::format("CUDA_VISIBLE_DEVICES={} {}", shown, program));
    REQUIRE(job);
    CHECK(job->gpus == 4);
    CHECK(job->gpus_per_node == 4);
    CHECK(names(job->unused, "processes start on a machine") == (std::string(shown) != "0,1,2,3"));
    CHECK_FALSE(names(job->unused, "GPUs are started there"));
  }
}

TEST_CASE("what other launchers start is told beside the number that is counted") {
  for (const int nodes : {1, 2, 4})
    for (const int each : {4, 8})
      for (const int processes : {4, 8, 16, 32}) {
        const std::string text = fmt::format(
            "#!/bin/bash\n#SBATCH --nodes={}\n#SBATCH --gpus-per-node={}\naccelerate launch --num_processes {} "
            "--mixed_precision bf16 train.py --model_name_or_path meta-llama/Meta-Llama-3-8B "
            "--per_device_train_batch_size 4 --max_seq_length 2048\n",
            nodes, each, processes);
        CAPTURE(text);
        const LaunchJob job = job_of("run.sh", text);
        const std::string counted = fmt::format("counted are the {} of", job.gpus);
        std::size_t said = 0;
        for (const Note& note : job.unused)
          if (note.text.find("GPUs are started there") != std::string::npos) {
            ++said;
            CHECK(note.text.find(counted) != std::string::npos);
          }
        CHECK(said == (nodes * each == processes ? 0 : 1));
      }
}

TEST_CASE("a flag that its launcher does not have is told, and one of its own or the beginning of one is not") {
  const std::string program =
      " train.py --model_name_or_path meta-llama/Meta-Llama-3-8B --bf16 True --per_device_train_batch_size 4 "
      "--max_seq_length 2048 --nnode 3\n";
  const auto told = [&](const std::string& start) {
    const std::string header = "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --gpus-per-node=8\n";
    return names(job_of("run.sh", header + start + program).unused, "and stops there: counted as not stated");
  };
  for (const char* slip :
       {"torchrun --nproc_pre_node 8", "torchrun --nprocs_per_node=8", "torchrun --nnodess 1",
        "python -m torch.distributed.run --nproc-per-nodes 8", "accelerate launch --num_proceses 8",
        "accelerate launch --num_processes 8 --num_machine_s 1", "deepspeed --num_gpu_s 8", "deepspeed --num_ndoes 1"})
    CHECK_MESSAGE(told(slip), slip);
  for (const char* own : {"torchrun --nproc_per_node 8", "torchrun --nproc-per-node 8", "torchrun --nproc_per_nod 8",
                          "torchrun --nnodes=1 --rdzv-backend c10d --standalone", "accelerate launch --num_processes 8",
                          "deepspeed --num_gpus 8", "accelerate launch --multi_gpu --num_machines 1",
                          "deepspeed --num_nodes 1 --master_port 29500"})
    CHECK_MESSAGE(!told(own), own);
}

TEST_CASE("ranks of a node are its GPUs where nobody states the nodes, and how many there are is asked for") {
  const std::string program =
      " python pretrain_gpt.py --num-layers 32 --hidden-size 4096 --num-attention-heads 32 --seq-length 2048 "
      "--max-position-embeddings 2048 --micro-batch-size 1 --global-batch-size 64 --bf16 --vocab-size 32000 "
      "--mock-data --tokenizer-type NullTokenizer --eval-interval 10\n";
  for (const char* start : {"mpirun -np $((4 * NHOSTS)) -npernode {}", "mpiexec -ppn {}", "srun --ntasks-per-node={}"})
    for (const int each : {2, 4, 8}) {
      const LaunchJob job =
          job_of("run.sh", "#!/bin/bash\nNHOSTS=$(wc -l < hosts)\n" + fmt::format(fmt::runtime(start), each) + program);
      CAPTURE(std::string(start));
      CHECK(job.gpus == 0);
      CHECK(job.gpus_per_node == each);
    }
  CHECK(job_of("run.sh", "#!/bin/bash\nsrun --ntasks-per-node=1" + program).gpus_per_node == 0);
  // jsrun's resource sets have the GPUs that -g counts; a set without any holds one rank as ever.
  for (const int each : {0, 1, 2, 6})
    CHECK(job_of("run.sh", fmt::format("#!/bin/bash\njsrun -n 8 -g {}", each) + program).gpus == 8 * std::max(1, each));
}

TEST_CASE("GPUs of an actor that the file does not hold are told, whatever the header asks for") {
  const std::string text =
      "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --gpus-per-node=8\npython3 -m openrlhf.cli.train_ppo_ray "
      "--actor_num_nodes {} --actor_num_gpus_per_node {} --pretrain meta-llama/Meta-Llama-3-8B --zero_stage 3 --bf16 "
      "--micro_train_batch_size 1 --train_batch_size 128 --prompt_max_len 1024 --generate_max_len 1024\n";
  const auto read = [&](const char* nodes, const char* each, const LaunchContext& context = {}) {
    return job_of("run.sh", fmt::format(fmt::runtime(text), nodes, each), context);
  };
  CHECK(read("1", "4").gpus == 4);
  CHECK_FALSE(names(read("1", "4").unused, "is not known"));
  CHECK(names(read("1", "$EACH").unused, "is not known"));
  CHECK(names(read("$NODES", "4").unused, "is not known"));
  CHECK_FALSE(names(read("1", "$EACH", on(8)).unused, "is not known"));
}

TEST_CASE("a script that submits another which is not there is no job") {
  const std::string header = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --gpus-per-node=8\n";
  CHECK(error_of("run.sh", header + "sbatch train.sbatch\n") == "training_not_understood");
}

TEST_CASE("what counts nodes or GPUs and is no count is told, whatever else states them") {
  const Folder files;
  const auto job_of_counts = [&files](const std::string& header, const std::string& flags) {
    return files.read("run.sh", fmt::format("#!/bin/bash\n{}\ntorchrun {} {}\n", header, flags, kTrains), on(32));
  };
  const std::string header = "#SBATCH --nodes=4\n#SBATCH --gpus-per-node=8";
  for (const char* wrong : {"4x", "-4", "1e1", "4.5", "0x4", "4:x"})
    for (const auto& row :
         {std::pair(header, fmt::format("--nnodes {} --nproc_per_node 8", wrong)),
          {header, fmt::format("--nnodes 4 --nproc_per_node={}", wrong)},
          {fmt::format("#SBATCH --nodes={}\n#SBATCH --gpus-per-node=8", wrong), "--nnodes 4 --nproc_per_node 8"},
          {fmt::format("N={}\n{}", wrong, header), "--nnodes $N --nproc_per_node 8"}}) {
      CAPTURE(row.first + "\n" + row.second);
      const Result<LaunchJob> job = job_of_counts(row.first, row.second);
      if (job) CHECK(names(job->unused, "is no count"));
    }
  for (const auto& row : {std::pair(header, std::string("--nnodes 4 --nproc_per_node 8")),
                          {header, "--nnodes $N --nproc_per_node gpu"},
                          {header, "--nnodes 1:4 --nproc_per_node auto"},
                          {"#SBATCH --nodes=2-4\n#SBATCH --gres=gpu:h100:8", "--nnodes 4"},
                          {header + "\n#SBATCH --gres=tmpfs:100G", "--nnodes 4"},
                          {header + "\n#SBATCH --gres=lscratch:1T", "--nnodes 4"},
                          {header + "\n#SBATCH --gres=gpu:a100-sxm4-80gb", "--nnodes 4"},
                          {header + "\n#SBATCH --gres=gpu:3g.20gb", "--nnodes 4"},
                          {"#SBATCH --nodes=1-16:4\n#SBATCH --gres=gpu:8", "--nnodes 4"},
                          {header + "\n#SBATCH --ntasks=1K", "--nnodes 4"},
                          {"#SBATCH -N 4\n#SBATCH --gres=gpu:8(S:0-1)", "--nnodes 4 --node_rank 0"}}) {
    CAPTURE(row.first + "\n" + row.second);
    const Result<LaunchJob> job = job_of_counts(row.first, row.second);
    REQUIRE(job);
    CHECK_FALSE(names(job->unused, "is no count"));
  }
}

TEST_CASE("what Slurm itself would refuse as a count is told") {
  const Folder files;
  for (const char* line : {"--gres=gpu:8x", "--gres=gpu:h100:1e1", "--nodes=1-16:x", "--nodes=1-:4", "--nodes=4Kx",
                           "--gpus-per-node=h100:4.5"}) {
    CAPTURE(line);
    const std::string text =
        fmt::format("#!/bin/bash\n#SBATCH {}\ntorchrun --nnodes 4 --nproc_per_node 8 {}\n", line, kTrains);
    const Result<LaunchJob> job = files.read("run.sh", text, on(32));
    if (job) CHECK(names(job->unused, "is no count"));
  }
}

TEST_CASE("of several resources of a node its GPUs are counted, and of others none") {
  const Folder files;
  for (const char* lines : {"#SBATCH --gres=gpu:8,lscratch:100", "#SBATCH --gres=lscratch:100,gpu:8",
                            "#SBATCH --gres=gpu:8\n#SBATCH --gres=lscratch:100", "#SBATCH --gres=gpu:8(S:0-1)"}) {
    CAPTURE(lines);
    const std::string text = fmt::format(
        "#!/bin/bash\n#SBATCH --nodes=2\n{}\nsrun torchrun --nnodes 2 --nproc_per_node "
        "$SLURM_GPUS_ON_NODE {}\n",
        lines, kTrains);
    const Result<LaunchJob> job = files.read("run.sh", text);
    REQUIRE(job);
    CHECK(job->gpus == 16);
  }
}

}  // namespace plan
