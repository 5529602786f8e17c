// Files of flags that ms-swift's commands name: they count, a file that is not there is a mistake, and so is a word
// that bears on the job and differs from its `--config`.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <string>
#include <string_view>
#include <tuple>

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

TEST_CASE("a word that says the same as its --config in other letters, or that bears on nothing, is no mistake") {
  struct Row {
    const char *file, *flag;
    bool refused;
  };
  constexpr Row kRows[] = {
      {"output_dir: out", "--output_dir other", false},
      {"save: out", "--save other", false},
      {"learning_rate: 1e-5", "--learning_rate 0.00001", false},
      {"learning_rate: 1e-5", "--learning_rate 2e-5", false},
      {"lr: 1e-5", "--lr 0.00001", false},
      {"finetune: true", "--finetune True", false},
      {"seed: 1", "--seed 2", false},
      {"save_steps: 100", "--save_steps 50", false},
      {"weight_decay: 0.1", "--weight_decay 0.01", false},
      {"tuner_type: full", "--tuner_type Full", false},
      {"tuner_type: full", "--tuner_type lora", true},
      {"torch_dtype: bfloat16", "--torch_dtype float16", true},
      {"max_length: 4096", "--max_length 8192", true},
      {"model: Qwen/Qwen2.5-7B-Instruct", "--model Qwen/Qwen2.5-14B-Instruct", true},
      {"some_offload_ratio: 1", "--some_offload_ratio 2", true},
  };
  for (const Tool& tool : kTools)
    for (const Row& row : kRows) {
      std::string flags = flags_of(tool);
      const std::string key(row.file, std::string_view(row.file).find(':'));
      if (flags.find(key + ":") == std::string::npos) flags += row.file + std::string("\n");
      const std::string text =
          fmt::format("#!/bin/bash\nNPROC_PER_NODE=4 {} --config c.yaml {}\n", tool.command, row.flag);
      CAPTURE(text);
      const Files files;
      files.folder.write("c.yaml", flags);
      const Result<LaunchJob> job = files.read("run.sh", text);
      REQUIRE_MESSAGE(job.has_value() == !row.refused, (job ? "" : job.error().front().message));
      if (!job) CHECK(job.error().front().code == "conflicting_keys");
    }
  for (const auto& [file, flag, refused] :
       {std::tuple{"gradient_checkpointing: true", "--gradient_checkpointing True", false},
        {"gradient_checkpointing: true", "--gradient_checkpointing 1", false},
        {"gradient_checkpointing: true", "--gradient_checkpointing false", true},
        {"gradient_accumulation_steps: 2", "--gradient_accumulation_steps 4", true},
        {"deepspeed: zero3", "--deepspeed zero3", false},
        {"deepspeed: zero3", "--deepspeed zero2", true},
        {"tuner_type: full", "--train_type lora", true},
        {"tuner_type: lora", "--train_type lora", false}}) {
    const std::string text = fmt::format("#!/bin/bash\nNPROC_PER_NODE=4 swift sft {} --config c.yaml\n", flag);
    CAPTURE(text);
    const Files files;
    files.folder.write("c.yaml", flags_of(kTools[0]) + file + "\n");
    const Result<LaunchJob> job = files.read("run.sh", text);
    CHECK(job.has_value() == !refused);
    if (!job) CHECK(job.error().front().code == "conflicting_keys");
  }
}

}  // namespace plan
