// GPUs that a task names as a choice or counts beside its command, and comments that are none.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <string>
#include <vector>

#include "small_files.hpp"

namespace plan {

using namespace launching;

namespace {

std::string sky_task(const std::string& resources, int nodes) {
  return fmt::format(
      "name: x\nresources:\n{}\nnum_nodes: {}\nrun: |\n  torchrun --nnodes=$SKYPILOT_NUM_NODES "
      "--nproc_per_node=$SKYPILOT_NUM_GPUS_PER_NODE train.py --model_name_or_path Qwen/Qwen2.5-7B --max_length 4096 "
      "--per_device_train_batch_size 2 --bf16\n",
      resources, nodes);
}

}  // namespace

TEST_CASE("a choice of GPUs counts where their number is one, and names every kind") {
  const char* kKinds[] = {"H100", "H200", "A100-80GB", "L40S"};
  for (const int nodes : {1, 2, 5})
    for (const int count : {1, 4, 8})
      for (const char* first : kKinds)
        for (const char* second : kKinds) {
          const std::vector<std::string> spelt = {
              fmt::format("  accelerators: {{{}:{}, {}:{}}}", first, count, second, count),
              fmt::format("  accelerators: {{{}: {}, {}: {}}}", first, count, second, count),
              fmt::format("  accelerators: [{}:{}, {}:{}]", first, count, second, count),
              fmt::format("  accelerators:\n    - {}:{}\n    - {}:{}", first, count, second, count),
              fmt::format("  any_of:\n    - accelerators: {}:{}\n    - accelerators: {}:{}", first, count, second,
                          count)};
          for (const std::string& resources : spelt) {
            if (std::string(first) == second && resources.find(": {") != std::string::npos) continue;  // one key twice
            CAPTURE(resources);
            const LaunchJob job = job_of("task.yaml", sky_task(resources, nodes));
            CHECK(job.gpus == nodes * count);
            if (std::string(first) == second) {
              CHECK_FALSE(job.gpu.empty());
              continue;
            }
            CHECK(job.gpu.empty());
            CHECK(job.hardware.find(first) != std::string::npos);
            CHECK(job.hardware.find(second) != std::string::npos);
          }
        }
}

TEST_CASE("a choice of GPUs in different numbers names them with their numbers") {
  const LaunchJob job = job_of("task.yaml", sky_task("  accelerators: {H100:8, A100:4}", 2), on(16));
  CHECK(job.hardware.find("H100:8 or A100:4") != std::string::npos);
}

TEST_CASE("the GPUs of a task of Beaker's count where its command states none") {
  for (const int replicas : {0, 1, 4})
    for (const int gpus : {1, 8})
      for (const char* start : {"python", "torchrun", "torchrun --nproc_per_node=2"}) {
        const std::string text = fmt::format(
            "version: v2\ntasks:\n  - name: x\n{}    command: [sh, -c]\n    arguments: ['{} train.py "
            "--model_name_or_path Qwen/Qwen2.5-7B --max_length 4096 --per_device_train_batch_size 2 --bf16']\n"
            "    resources:\n      gpuCount: {}\n",
            replicas == 0 ? "" : fmt::format("    replicas: {}\n", replicas), start, gpus);
        CAPTURE(text);
        const LaunchJob job = job_of("job.yaml", text);
        const bool states = std::string(start).find('=') != std::string::npos;
        CHECK((states ? job.gpus_per_node == 2 || job.gpus % 2 == 0 : job.gpus == std::max(1, replicas) * gpus));
      }
}

TEST_CASE("the nodes and processes of torchx's component count") {
  const auto job = [](const std::string& shape) {
    return job_of("run.sh", "#!/bin/bash\ntorchx run -s slurm dist.ddp " + shape +
                                " --gpu 8 --script train.py -- --model_name_or_path Qwen/Qwen2.5-7B --max_length 4096 "
                                "--per_device_train_batch_size 2 --bf16\n");
  };
  for (const int nodes : {1, 2, 16})
    for (const int each : {1, 4, 8})
      for (const char* flag : {"-j ", "--j ", "--j="}) {
        CAPTURE(std::string(flag));
        const LaunchJob read = job(fmt::format("{}{}x{}", flag, nodes, each));
        CHECK(read.gpus == nodes * each);
        CHECK(read.gpus_per_node == each);
      }
  CHECK(job("-j 1:4x8").gpus == 0);  // a range is not known
}

TEST_CASE("a comment within a variable or a here-document is told, and none elsewhere") {
  const std::string words =
      "--model_name_or_path Qwen/Qwen2.5-7B --max_length 4096 --bf16 --per_device_train_batch_size 2";
  constexpr const char* kTold = "starts no comment";
  for (const char* comment : {"# --gradient_checkpointing True", "#--gradient_checkpointing True"}) {
    CAPTURE(std::string(comment));
    for (const std::string& script :
         {fmt::format("ARGS=\"\n  {}\n  {}\n\"\ntorchrun --nproc_per_node=8 train.py $ARGS\n", words, comment),
          fmt::format("read -r -d '' ARGS <<EOF\ntrain.py {} \\\n  {}\nEOF\ntorchrun --nproc_per_node=8 $ARGS\n", words,
                      comment),
          fmt::format("ARGS=$(cat <<EOF\n{}\n{}\nEOF\n)\ntorchrun --nproc_per_node=8 train.py $ARGS\n", words,
                      comment)}) {
      CAPTURE(script);
      CHECK(names(job_of("run.sh", "#!/bin/bash\n" + script).unused, kTold));
    }
    for (const std::string& script :
         {fmt::format("torchrun --nproc_per_node=8 train.py {} {}\n", words, "# " + std::string(comment)),
          fmt::format("ARGS=(\n  {}\n  {}\n)\ntorchrun --nproc_per_node=8 train.py ${{ARGS[@]}}\n", words, comment),
          fmt::format("{}\ntorchrun --nproc_per_node=8 train.py {}\n", comment, words)}) {
      CAPTURE(script);
      const LaunchJob job = job_of("run.sh", "#!/bin/bash\n" + script);
      CHECK_FALSE(names(job.unused, kTold));
      CHECK((job.fixed.recompute && job.fixed.recompute->kind == RecomputeKind::None));
    }
  }
}

}  // namespace plan
