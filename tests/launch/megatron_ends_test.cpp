// Words of Megatron's scripts at their ends: a share of all, ranks that are known already, a length that nobody states,
// and the mesh that a plan of MaxText is written as.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <regex>
#include <string>

#include "cli/launch/formats.hpp"
#include "planner/planner.hpp"
#include "random_plans.hpp"
#include "small_files.hpp"

namespace plan {

using namespace launching;

namespace {

std::string small_script(const std::string& more, const std::string& launcher = "--nproc-per-node 8 --nnodes 2") {
  return fmt::format(
      "#!/bin/bash\ntorchrun {} pretrain_gpt.py --num-layers 8 --hidden-size 1024 --num-attention-heads 8 "
      "--seq-length 2048 --max-position-embeddings 2048 --micro-batch-size 1 --global-batch-size 64 --train-iters 5 "
      "--vocab-size 32000 --bf16 --eval-interval 5 {}\n",
      launcher, more);
}

}  // namespace

TEST_CASE("a share of modules that are offloaded is told where it is less than all of them") {
  const std::string modules = "--fine-grained-activation-offloading --offload-modules core_attn ";
  const auto told = [&](const std::string& more) {
    return names(job_of("run.sh", small_script(more)).unused, "as a whole");
  };
  for (const char* all : {"1", "1.0", "1.5"}) CHECK_FALSE(told(modules + "--activation-offload-fraction " + all));
  for (const char* some : {"0.99", "0.5", "0"}) CHECK(told(modules + "--activation-offload-fraction " + some));
  CHECK_FALSE(told(modules));
}

TEST_CASE("ranks that a flag states count where no launcher starts any") {
  CHECK(job_of("run.sh", small_script("--world-size 32")).gpus == 16);
  CHECK(job_of("run.sh", small_script("--world-size x")).gpus == 16);
}

TEST_CASE("a script that another starts is followed, whatever shell, launcher or words of theirs come before it") {
  const Files files;
  files.folder.write("train.sh", small_script("--tensor-model-parallel-size 4"));
  const auto tp = [&](const std::string& command) {
    const Result<LaunchJob> job = files.read("main.sh", "#!/bin/bash\n" + command + "\n");
    return job && job->fixed.tp ? *job->fixed.tp : 0;
  };
  for (const char* command :
       {"./train.sh", "bash train.sh", "bash -x train.sh", "sh -e -u train.sh", "bash train.sh 8B 2", "srun train.sh",
        "srun -N 2 train.sh", "srun --nodes 2 --label bash train.sh", "srun -N 2 bash -l train.sh",
        "sbatch -N 2 train.sh", "sbatch --job-name x train.sh 8B"}) {
    CAPTURE(std::string(command));
    CHECK(tp(command) == 4);
  }
  for (const char* command : {"bash other.txt train.sh", "bash -c 'echo train.sh'", "echo train.sh"}) {
    CAPTURE(std::string(command));
    CHECK(tp(command) == 0);
  }
}

TEST_CASE("an answer is as long as it is only behind a prompt whose length is known") {
  const auto seq = [](const std::string& kind, const std::string& length) {
    const LaunchJob job = job_of(
        "swift.sh", fmt::format("#!/bin/bash\nNPROC_PER_NODE=8 megatron {} --model Qwen/Qwen3-8B "
                                "--tensor_model_parallel_size 2 --micro_batch_size 1 --global_batch_size 16 {}\n",
                                kind, length));
    return job.training ? job.training->seq : -1;
  };
  CHECK(seq("rlhf --rlhf_type grpo", "") == seq("rlhf --rlhf_type dpo", ""));
  CHECK(seq("rlhf --rlhf_type grpo", "--max_length 1000 --max_completion_length 24") == 1024);
  CHECK(seq("rlhf --rlhf_type dpo", "--max_length 1000 --max_completion_length 24") == 1000);
}

TEST_CASE("the mesh that a plan of MaxText is written as has an axis for each degree, and all GPUs") {
  std::mt19937 random(9);
  int written = 0;
  for (int round = 0; round < 60; ++round) {
    const Problem problem = problem_of("8b", 16, Precision::Bf16, Framework::Maxtext, "dgx-h100");
    const std::optional<Layout> layout = random_layout(problem, random);
    if (!layout) continue;
    const Result<Plan> plan = plan_layout(problem, *layout);
    if (!plan) continue;
    const Result<std::vector<LaunchFile>> files = write_launch("maxtext", *plan, {});
    if (!files) continue;
    std::string text;
    for (const LaunchFile& file : *files) text += file.text;
    const auto axis = [&](const std::string& name) {
      int all = 1;
      for (const char* network : {"ici_", "dcn_"}) {
        std::smatch found;
        const std::regex pattern(network + name + "_parallelism: ([0-9]+)");
        if (std::regex_search(text, found, pattern)) all *= std::stoi(found[1]);
      }
      return all;
    };
    const Layout& l = plan->best.layout;
    CAPTURE(text);
    CHECK(axis("tensor") * axis("tensor_sequence") == l.tp);
    CHECK(axis("context") == l.cp);
    CHECK(axis("pipeline") == l.pp);
    CHECK(axis("data") * axis("fsdp") * axis("expert") * axis("context") == l.dp * l.cp);
    if (l.zero < 3) CHECK(axis("fsdp") == 1);
    ++written;
  }
  CHECK(written > 10);
}

}  // namespace plan
