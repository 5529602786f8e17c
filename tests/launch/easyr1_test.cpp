// EasyR1's configuration and the words over it, at random numbers, and what of it is refused.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <random>
#include <string>

#include "small_files.hpp"

namespace plan {

using namespace launching;

namespace {

constexpr const char* kConfig =
    "data:\n  max_prompt_length: 2048\n  max_response_length: 2048\n  rollout_batch_size: 512\n"
    "algorithm:\n  adv_estimator: grpo\n  disable_kl: false\n"
    "worker:\n  actor:\n    global_batch_size: 128\n    micro_batch_size_per_device_for_update: 4\n"
    "    ulysses_size: 1\n    model:\n      model_path: Qwen/Qwen2.5-7B-Instruct\n"
    "      enable_gradient_checkpointing: true\n    optim:\n      strategy: adamw\n"
    "    fsdp:\n      enable_full_shard: true\n      enable_cpu_offload: false\n"
    "  rollout:\n    n: 5\n    tensor_parallel_size: 2\ntrainer:\n  nnodes: 1\n  n_gpus_per_node: 8\n";

std::string script_of(const std::string& words) {
  return "#!/bin/bash\npython3 -m verl.trainer.main config=c.yaml " + words + "\n";
}

}  // namespace

TEST_CASE("EasyR1's file is read alone, and by the script that names it") {
  const Files files;
  files.folder.write("c.yaml", kConfig);
  for (const Result<LaunchJob>& job : {files.read("job.yaml", kConfig), files.read("run.sh", script_of(""))}) {
    REQUIRE_MESSAGE(job, (job ? "" : job.error().front().message));
    CHECK(job->format == "easyr1");
    CHECK(job->model->name == "qwen2.5-7b");
    CHECK(job->gpus == 8);
    CHECK(job->training->global_batch == 128 * 5);
    CHECK(job->training->seq == 4096);
    CHECK(job->fixed.micro_batch == 4);
    CHECK(job->fixed.zero == 3);
    CHECK(job->fixed.recompute->kind == RecomputeKind::Full);
    CHECK(names(job->unused, "reference model"));
  }
}

TEST_CASE("words behind EasyR1's file lie over it") {
  std::mt19937 random(7);
  const auto draw = [&](int most) { return std::uniform_int_distribution<int>(1, most)(random); };
  const Files files;
  files.folder.write("c.yaml", kConfig);
  for (int round = 0; round < 20; ++round) {
    const int nodes = draw(4), micro = draw(4), answers = draw(16), prompts = nodes * 8 * micro * draw(4);
    const std::string text = script_of(fmt::format(
        "worker.actor.global_batch_size={} worker.actor.micro_batch_size_per_device_for_update={} worker.rollout.n={} "
        "trainer.nnodes={} worker.actor.fsdp.enable_full_shard=false worker.actor.fsdp.torch_dtype=bf16 "
        "worker.actor.model.lora.rank=32 algorithm.disable_kl=True",
        prompts, micro, answers, nodes));
    CAPTURE(text);
    const Result<LaunchJob> job = files.read("run.sh", text);
    REQUIRE_MESSAGE(job, (job ? "" : job.error().front().message));
    CHECK(job->gpus == nodes * 8);
    CHECK(job->training->global_batch == prompts * answers);
    CHECK(job->fixed.micro_batch == micro);
    CHECK(job->fixed.zero == 2);
    CHECK(job->training->lora.rank == 32);
    CHECK(job->training->task == Task::Lora);
    CHECK_FALSE(names(job->unused, "reference model"));
  }
}

TEST_CASE("a key that EasyR1's actor has not is told") {
  const Files files;
  files.folder.write("c.yaml", kConfig);
  const Result<LaunchJob> job = files.read("run.sh", script_of("worker.actor.model.lora.rnak=8"));
  REQUIRE_MESSAGE(job, (job ? "" : job.error().front().message));
  CHECK(job->training->task == Task::FullFinetune);
  CHECK(names(job->unused, "rnak"));
}

TEST_CASE("EasyR1's command is refused without its file, and by a number that is none") {
  const Files files;
  files.folder.write("c.yaml", kConfig);
  for (const auto& [words, code] : {std::pair{"config=gone.yaml", "missing_file"},
                                    {"--config c.yaml", "unknown_flag"},
                                    {"worker.actor.global_batch_size=0", "wrong_value"},
                                    {"worker.actor.fsdp.mp_param_dtype=bf61", "wrong_value"},
                                    {"trainer.val_only=True", "not_a_training"}}) {
    const std::string text = script_of(words);
    CAPTURE(text);
    const Result<LaunchJob> job = files.read("run.sh", text);
    REQUIRE_FALSE(job);
    CHECK(job.error().front().code == code);
  }
}

}  // namespace plan
