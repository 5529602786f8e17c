// Files of flags that ms-swift's commands name: they count, a file that is not there is a mistake, and so is a word
// that differs from its `--config`.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <string>

#include "small_files.hpp"

namespace plan {

using namespace launching;

namespace {

struct Tool {
  const char *command, *batch;
};

constexpr Tool kTools[] = {{"swift sft", "per_device_train_batch_size"}, {"megatron sft", "micro_batch_size"}};

std::string flags_of(const Tool& tool) {
  return fmt::format("model: Qwen/Qwen2.5-7B-Instruct\n{}: 3\nmax_length: 4096\n", tool.batch) +
         (tool.batch == std::string("micro_batch_size") ? "global_batch_size: 24\n" : "");
}

}  // namespace

TEST_CASE("a file of flags counts, wherever an ms-swift command names it") {
  for (const Tool& tool : kTools)
    for (const char* name : {"c.yaml", "--config c.yaml", "--config=c.yaml", "--config c.yaml --max_length 4096"}) {
      const std::string text = fmt::format("#!/bin/bash\nNPROC_PER_NODE=4 {} {}\n", tool.command, name);
      CAPTURE(text);
      const Files files;
      files.folder.write("c.yaml", flags_of(tool));
      const Result<LaunchJob> job = files.read("run.sh", text);
      REQUIRE_MESSAGE(job, (job ? "" : job.error().front().message));
      CHECK(job->gpus == 4);
      CHECK(job->fixed.micro_batch == 3);
      CHECK(job->training->seq == 4096);
      CHECK(job->model->name == "qwen2.5-7b");
    }
}

TEST_CASE("a file of flags that is not there, or that the command contradicts, is refused") {
  for (const Tool& tool : kTools)
    for (const auto& [more, code] : {std::pair{"gone.yaml", "missing_file"},
                                     {"--config gone.yaml", "missing_file"},
                                     {"--config c.yaml --max_length 1024", "conflicting_keys"}}) {
      const std::string text =
          fmt::format("#!/bin/bash\nNPROC_PER_NODE=4 {} {} --model Qwen/Qwen2.5-7B-Instruct\n", tool.command, more);
      CAPTURE(text);
      const Files files;
      files.folder.write("c.yaml", flags_of(tool));
      const Result<LaunchJob> job = files.read("run.sh", text);
      REQUIRE_FALSE(job);
      CHECK(job.error().front().code == code);
    }
}

}  // namespace plan
