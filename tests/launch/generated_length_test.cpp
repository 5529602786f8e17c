// Trainings on answers that the model generates: how long a sequence is, and OpenRLHF's batches and rings.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <string>

#include "small_files.hpp"

namespace plan {

using namespace launching;

namespace {

std::string swift(const std::string& program, const std::string& more) {
  return fmt::format(
      "#!/bin/bash\nNPROC_PER_NODE=8 {} --model Qwen/Qwen2.5-7B-Instruct --dataset x --torch_dtype bfloat16 {}\n",
      program, more);
}

std::string rlhf(const std::string& program, const std::string& more) {
  return fmt::format("#!/bin/bash\ndeepspeed --num_gpus 8 --module openrlhf.cli.train_{} {}\n", program, more);
}

}  // namespace

TEST_CASE("where the model answers, ms-swift's max_length is the prompt's alone") {
  for (const char* algorithm : {"grpo", "ppo", "gkd", "dpo", "kto", "simpo"})
    for (const int prompt : {1024, 4096})
      for (const int answer : {0, 256, 3000})
        for (const int most : {0, 2048, 16384}) {
          std::string words = fmt::format("--rlhf_type {} --max_length {}", algorithm, prompt);
          if (answer > 0) words += fmt::format(" --max_completion_length {}", answer);
          if (most > 0) words += fmt::format(" --vllm_max_model_len {}", most);
          const std::string_view name = algorithm;
          const bool answers = name == "grpo" || name == "ppo" || name == "gkd";
          int wanted = answers ? prompt + (answer > 0 ? answer : 512) : prompt;  // 512: ms-swift's default
          if (answers && most > 0) wanted = std::max(prompt, std::min(wanted, most));
          CAPTURE(words);
          CHECK(job_of("a.sh", swift("swift rlhf --per_device_train_batch_size 1 ", words)).training->seq == wanted);
          CHECK(job_of("b.sh", swift("megatron rlhf --micro_batch_size 1 --global_batch_size 16 ", words))
                    .training->seq == wanted);
        }
}

TEST_CASE("TRL's trainers that answer state a prompt and an answer, and a prompt that is not stated is said") {
  const std::string base =
      "model_name_or_path: Qwen/Qwen2.5-7B\nper_device_train_batch_size: 2\nbf16: true\nmax_completion_length: 1536\n";
  const LaunchJob both = job_of("grpo.yaml", base + "max_prompt_length: 512\n", on(8));
  CHECK(both.training->seq == 2048);
  CHECK_FALSE(guesses(both, "seq"));
  const LaunchJob answer = job_of("grpo.yaml", base, on(8));
  CHECK(answer.training->seq == 2048);
  CHECK(guesses(answer, "seq"));
  CHECK(job_of("dpo.yaml", base + "max_length: 1024\n", on(8)).training->seq == 1024);  // DPO's is of both
}

TEST_CASE("OpenRLHF's batch is of sequences, and its defaults are its own") {
  const std::string start = "--pretrain Qwen/Qwen2.5-7B --max_len 2048 --zero_stage 3 --bf16 ";
  struct Row {
    const char* program;
    int micro;  ///< where nobody states it
  };
  for (const Row& row : {Row{"sft", 8}, {"dpo", 8}, {"rm", 1}, {"ppo_ray", 4}}) {
    CAPTURE(std::string(row.program));
    const LaunchJob job = job_of("r.sh", rlhf(row.program, start), on(8));
    CHECK(job.fixed.micro_batch == row.micro);
    CHECK(job.training->global_batch == 128);
    const LaunchJob stated =
        job_of("r.sh", rlhf(row.program, start + "--micro_train_batch_size 2 --train_batch_size 256"), on(8));
    CHECK(stated.fixed.micro_batch == 2);
    CHECK(stated.training->global_batch == 256);
  }
  const std::string dotted = "--model.model_name_or_path Qwen/Qwen2.5-7B --data.max_len 2048 --ds.zero_stage 3 ";
  CHECK(job_of("r.sh", rlhf("ppo_ray", dotted), on(8)).fixed.micro_batch == 1);
  CHECK(job_of("r.sh", rlhf("sft", dotted), on(8)).fixed.micro_batch == 8);
}

TEST_CASE("ranks that share a sequence of OpenRLHF's make no batch of their own") {
  const std::string start =
      "--pretrain Qwen/Qwen2.5-7B --max_len 8192 --zero_stage 3 --bf16 --micro_train_batch_size 1 --train_batch_size "
      "64 ";
  for (const int ring : {1, 2, 4})
    for (const int tp : {1, 2}) {
      CAPTURE(ring);
      CAPTURE(tp);
      const LaunchJob job =
          job_of("r.sh", rlhf("sft", start + fmt::format("--ring_attn_size {} --ds_tensor_parallel_size {}", ring, tp)),
                 on(8));
      CHECK(job.fixed.cp == ring);
      CHECK(job.fixed.tp == tp);
      CHECK(job.fixed.dp == 8 / ring / tp);
      CHECK(job.training->global_batch == 64);
      if (ring > 1) CHECK(job.fixed.cp_kind == CpKind::AllGather);
    }
}

}  // namespace plan
