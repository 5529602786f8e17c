// Open-instruct's learners: their GPUs, and what a step of theirs holds, at random numbers.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <random>
#include <string>

#include "small_files.hpp"

namespace plan {

using namespace launching;

namespace {

struct Learners {
  int nodes = 1, each = 8, prompts = 64, samples = 8, steps = 1, prompt = 2048, answer = 2048, pack = 4096, micro = 1;
};

std::string command_of(const Learners& job) {
  std::string text = "#!/bin/bash\npython open_instruct/grpo_fast.py --model_name_or_path Qwen/Qwen2.5-7B ";
  const auto add = [&](std::string_view flag, int number) { text += fmt::format("--{} {} ", flag, number); };
  add("per_device_train_batch_size", job.micro), add("num_unique_prompts_rollout", job.prompts);
  add("num_samples_per_prompt_rollout", job.samples), add("num_mini_batches", job.steps);
  add("max_prompt_token_length", job.prompt), add("response_length", job.answer), add("pack_length", job.pack);
  text += "--num_learners_per_node";
  for (int node = 0; node < job.nodes; ++node) text += fmt::format(" {}", job.each);
  return text + " --deepspeed_stage 3\n";
}

}  // namespace

TEST_CASE("learners have the GPUs of their nodes, and a step of theirs all answers in full packs") {
  std::mt19937 random(3);
  const auto draw = [&](int most) { return std::uniform_int_distribution<int>(1, most)(random); };
  for (int round = 0; round < 40; ++round) {
    Learners job{.nodes = draw(4), .each = draw(8), .prompts = draw(256), .samples = draw(32), .steps = draw(4)};
    job.prompt = 256 * draw(8), job.answer = 256 * draw(64), job.pack = (job.prompt + job.answer) * draw(3);
    const std::string text = command_of(job);
    CAPTURE(text);
    const LaunchJob read = job_of("run.sh", text);
    CHECK(read.gpus == job.nodes * job.each);
    CHECK(read.fixed.zero == 3);
    CHECK(read.fixed.micro_batch == job.micro);
    REQUIRE(read.training);
    CHECK(read.training->seq == job.pack);
    const int in_pack = job.pack / (job.prompt + job.answer), answers = (job.prompts * job.samples - 1) / job.steps + 1;
    const int packs = (answers - 1) / in_pack + 1, ranks = read.gpus;
    CHECK(read.training->global_batch % ranks == 0);
    CHECK(read.training->global_batch >= packs);
    CHECK(read.training->global_batch < packs + ranks);
    CHECK(names(read.unused, "full packs"));
  }
}

TEST_CASE("actors of the programs before packs step on a mini-batch each") {
  std::mt19937 random(5);
  const auto draw = [&](int most) { return std::uniform_int_distribution<int>(1, most)(random); };
  for (int round = 0; round < 20; ++round) {
    const int first = draw(8), second = draw(8), micro = draw(4), steps = draw(16), prompt = 256 * draw(8),
              answer = 256 * draw(8);
    const std::string text = fmt::format(
        "#!/bin/bash\npython mason.py --num_nodes 3 --gpus 8 -- python open_instruct/ppo_vllm_thread_ray_gtrl.py "
        "--model_name_or_path Qwen/Qwen2.5-7B --per_device_train_batch_size {} --local_rollout_batch_size 64 "
        "--local_mini_batch_size {} --max_prompt_token_length {} --response_length {} "
        "--actor_num_gpus_per_node {} {} --deepspeed_stage 2\n",
        micro, micro * steps, prompt, answer, first, second);
    CAPTURE(text);
    const LaunchJob read = job_of("run.sh", text);
    CHECK(read.gpus == first + second);
    CHECK(read.fixed.micro_batch == micro);
    CHECK(read.fixed.zero == 2);
    REQUIRE(read.training);
    CHECK(read.training->global_batch == micro * steps * (first + second));
    CHECK(read.training->seq == prompt + answer);
    CHECK(names(read.unused, "beside the actor"));
  }
}

TEST_CASE("a number of learners that is none is refused by its flag") {
  for (const char* wrong : {"8 x", "0", "8 -1", "$LEARNERS"}) {
    CAPTURE(std::string(wrong));
    const std::string text =
        replaced(command_of({}), "--num_learners_per_node 8", std::string("--num_learners_per_node ") + wrong);
    CHECK(error_of("run.sh", text) == "wrong_value");
  }
}

}  // namespace plan
