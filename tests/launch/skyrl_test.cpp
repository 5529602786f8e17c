// SkyRL's commands: layout, step, sequence and GPUs of its policy, whichever engine trains it.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <random>
#include <string>

#include "small_files.hpp"

namespace plan {

using namespace launching;

namespace {

std::string skyrl_script(const std::string& words, const std::string& program = "skyrl.train.entrypoints.main_base") {
  return fmt::format(
      "#!/bin/bash\nuv run --isolated --extra vllm -m {} trainer.policy.model.path=Qwen/Qwen3-30B-A3B-Base "
      "trainer.placement.policy_num_nodes=2 trainer.placement.policy_num_gpus_per_node=8 {}\n",
      program, words);
}

const std::string kMegatron = "trainer.strategy=megatron ";
const std::string kConfig = "trainer.policy.megatron_config.";

}  // namespace

TEST_CASE("SkyRL's policy has the batch, sequence and layout of its command, under either engine") {
  std::mt19937 random(20261127);
  const auto one_of = [&](std::initializer_list<int> values) {
    return *(values.begin() + static_cast<std::ptrdiff_t>(random() % values.size()));
  };
  for (int round = 0; round < 60; ++round) {
    const int tp = one_of({1, 2, 4}), cp = one_of({1, 2}), ep = one_of({1, 2, 8}), mini = one_of({32, 64});
    const int samples = one_of({4, 8}), micro = one_of({1, 2}), prompt = one_of({512, 1024}), rank = one_of({0, 16});
    const int answer = one_of({1024, 3072}), nodes = one_of({1, 2, 4});
    const bool megatron = one_of({0, 1}) == 1, recompute = one_of({0, 1}) == 1;
    std::string words = fmt::format(
        "trainer.policy_mini_batch_size={} generator.n_samples_per_prompt={} trainer.max_prompt_length={} "
        "generator.sampling_params.max_generate_length={} trainer.micro_train_batch_size_per_gpu={} "
        "trainer.policy.model.lora.rank={} trainer.gradient_checkpointing={} ",
        mini, samples, prompt, answer, micro, rank, recompute);
    words += megatron ? fmt::format(
                            "{0}{1}tensor_model_parallel_size={2} {1}context_parallel_size={3} "
                            "{1}expert_model_parallel_size={4} {1}expert_tensor_parallel_size=1",
                            kMegatron, kConfig, tp, cp, ep)
                      : fmt::format("trainer.strategy=fsdp2 trainer.policy.sequence_parallel_size={}", cp);
    words = replaced(skyrl_script(words), "policy_num_nodes=2", fmt::format("policy_num_nodes={}", nodes));
    CAPTURE(words);
    const LaunchJob job = job_of("run.sh", words);
    CHECK(job.gpus == nodes * 8);
    CHECK(job.training->seq == prompt + answer);
    CHECK(job.training->global_batch == mini * samples);
    CHECK(job.fixed.micro_batch == micro);
    CHECK(job.fixed.cp == cp);
    CHECK(job.fixed.tp == (megatron ? tp : 1));
    CHECK(job.fixed.ep == (megatron ? ep : 1));
    CHECK(job.fixed.zero == (megatron ? 1 : 3));
    CHECK(job.fixed.sequence_parallel == (megatron && tp > 1));
    CHECK(job.fixed.recompute->kind == (recompute ? RecomputeKind::Full : RecomputeKind::None));
    CHECK(job.training->task == (rank > 0 ? Task::Lora : Task::FullFinetune));
    if (rank > 0) CHECK(job.training->lora.rank == rank);
  }
}

TEST_CASE("prompt and answer that SkyRL's command states together are the sequence, unless the prompt has its own") {
  const std::string kWhole = "trainer.algorithm.max_seq_len=",
                    kAnswer = "generator.sampling_params.max_generate_length=";
  for (const std::string& engine :
       {std::string("trainer.strategy=fsdp2 "), kMegatron + kConfig + "tensor_model_parallel_size=2 "})
    for (const int whole : {2048, 6144, 32768}) {
      const auto seq = [&](const std::string& more) {
        return job_of("run.sh", skyrl_script(engine + kWhole + std::to_string(whole) + " " + more)).training->seq;
      };
      CHECK(seq("") == whole);
      CHECK(seq(kAnswer + "256") == whole);
      CHECK(seq("trainer.max_prompt_length=2048 " + kAnswer + "4096") == 2048 + 4096);
      const LaunchJob both =  // a whole that its parts do not come to is told
          job_of("run.sh", skyrl_script(engine + kWhole + std::to_string(whole) + " trainer.max_prompt_length=2048 " +
                                        kAnswer + "4096"));
      CHECK(names(both.unused, "max_seq_len") == (whole != 2048 + 4096));
    }
}

TEST_CASE("what SkyRL's defaults say counts where a command says nothing") {
  const LaunchJob fsdp = job_of("run.sh", skyrl_script("trainer.policy.model.lora.rank=0"));
  CHECK(fsdp.training->seq == 512 + 1024);
  CHECK(fsdp.training->global_batch == 256 * 5);
  CHECK(fsdp.fixed.recompute->kind == RecomputeKind::Full);
  const LaunchJob megatron = job_of("run.sh", skyrl_script(kMegatron + kConfig + "tensor_model_parallel_size=2"));
  CHECK(megatron.training->seq == 512 + 1024);
  CHECK(megatron.training->global_batch == 256 * 5);
  CHECK(megatron.fixed.recompute->kind == RecomputeKind::Full);
  const std::string turns = "trainer.max_prompt_length=2048 generator.max_input_length=30000";
  CHECK(job_of("run.sh", skyrl_script(turns)).training->seq == 30000 + 1024);
}

TEST_CASE("models that SkyRL keeps beside its policy, and programs of one's own, are told of") {
  const auto told = [](const std::string& words, const std::string& word) {
    return names(job_of("run.sh", skyrl_script(words)).unused, word);
  };
  for (const std::string& engine : {std::string(), kMegatron + kConfig + "tensor_model_parallel_size=1 "}) {
    CAPTURE(engine);
    CHECK(told(engine, "reference model"));
    CHECK(told(engine + "trainer.algorithm.use_kl_loss=true", "reference model"));
    CHECK_FALSE(told(engine + "trainer.algorithm.use_kl_loss=false", "reference model"));
    CHECK(told(engine + "trainer.algorithm.advantage_estimator=gae", "critic"));
    CHECK_FALSE(told(engine + "trainer.algorithm.advantage_estimator=grpo", "critic"));
    CHECK(names(job_of("run.sh", skyrl_script(engine, "examples.algorithms.dapo.main_dapo")).unused, "main_dapo"));
    CHECK_FALSE(told(engine, "main_base"));
  }
  CHECK(told("trainer.strategy=deepspeed", "trainer.strategy"));
  CHECK(job_of("run.sh", skyrl_script("trainer.logger='' '' '+' +trainer.policy.model.lora.rank=4")).training->task ==
        Task::Lora);
  // A file without a policy states no job, or one without the model: either way it is an answer.
  const Files files;
  (void)files.read("a.yaml", "trainer:\n  policy_mini_batch_size: 64\ngenerator:\n  n_samples_per_prompt: 4\n", on(8));
  // What only samples trains nothing.
  CHECK(error_of("run.sh", skyrl_script("", "skyrl.train.entrypoints.main_generate")) == "training_not_understood");
}

}  // namespace plan
