// What verl trains at once, under either engine: of a GPU, of all, or packed by tokens.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <string>
#include <utility>

#include "small_files.hpp"
#include "verl_script.hpp"

namespace plan {

using namespace launching;

TEST_CASE("micro-batches that are packed by tokens hold as many sequences of full length as their tokens are") {
  const std::string actor = "actor_rollout_ref.actor.", kOn = actor + "use_dynamic_bsz=True ";
  const auto micro = [&](const std::string& more) {
    return job_of("p.sh", verl_script("verl.trainer.main_ppo", more)).fixed.micro_batch.value_or(0);
  };
  const std::string kTokens = actor + "ppo_max_token_len_per_gpu=";  // sequences of 4096, 32 of a data rank
  for (const std::string& passed : {std::string(), kMicroOfTwo, actor + "ppo_micro_batch_size=64 "}) {
    CAPTURE(passed);
    for (const auto& [tokens, count] : {std::pair{1024, 1}, std::pair{4096, 1}, std::pair{8192, 2}, std::pair{14000, 2},
                                        std::pair{16384, 4}, std::pair{1000000, 32}})
      CHECK(micro(passed + kOn + kTokens + std::to_string(tokens)) == count);
    CHECK(micro(passed + kOn) == 4);  // verl's own 16384
    CHECK(micro(passed + kOn + kTokens + "8192 " + actor + "ulysses_sequence_parallel_size=2") == 4);
  }
  CHECK(micro(kMicroOfTwo + kTokens + "16384") == 2);
  CHECK(micro(kMicroOfTwo + actor + "use_dynamic_bsz=False " + kTokens + "16384") == 2);
}

TEST_CASE("what Megatron's engine trains at once is packed, of a GPU or of all, and a batch of none is refused") {
  const std::string actor = "actor_rollout_ref.actor.", kOn = actor + "use_dynamic_bsz=True ";
  const std::string kLayout =  // two data ranks, which train 256 sequences of 4096 each in a step
      actor + "megatron.tensor_model_parallel_size=4 " + actor + "megatron.pipeline_model_parallel_size=2 ";
  const auto job = [&](const std::string& more) {
    return job_of("p.sh", verl_script("verl.trainer.main_ppo", kLayout + more));
  };
  const auto micro = [&](const std::string& more) { return job(more).fixed.micro_batch.value_or(0); };
  const std::string kTokens = actor + "ppo_max_token_len_per_gpu=", kAll = actor + "ppo_micro_batch_size=";
  for (const std::string& passed : {std::string(), kMicroOfTwo, kAll + "64 "}) {
    CAPTURE(passed);
    for (const auto& [tokens, count] : {std::pair{1024, 1}, std::pair{4096, 1}, std::pair{8192, 2}, std::pair{14000, 2},
                                        std::pair{16384, 4}, std::pair{1000000, 128}})
      CHECK(micro(passed + kOn + kTokens + std::to_string(tokens)) == count);
    CHECK(micro(passed + kOn) == 4);  // verl's own 16384
  }
  CHECK(micro(kOn + kTokens + "4096 " + actor + "megatron.context_parallel_size=2") == 2);
  for (const int all : {2, 8, 64}) CHECK(micro(kAll + std::to_string(all)) == all / 2);
  CHECK(micro(kAll + "64 " + kMicroOfTwo) == 2);
  const LaunchJob open = job("");
  CHECK(open.fixed.micro_batch == 1);
  CHECK(names(open.unused, "micro-batches are counted as of one sequence"));
  for (const std::string& engine : {kLayout + kMicroOfTwo, kMicroOfTwo}) {
    const std::string text = verl_script("verl.trainer.main_ppo", engine);
    const std::pair<const char*, const char*> kNone[] = {{"ppo_mini_batch_size=128", "ppo_mini_batch_size=0"},
                                                         {"rollout.n=4", "rollout.n=0"}};
    for (const auto& edit : kNone) {
      CAPTURE(std::string(edit.second));
      CHECK_FALSE(Files().read("z.sh", replaced(text, edit.first, edit.second)));
    }
  }
  CHECK_FALSE(Files().read("z.sh", verl_script("verl.trainer.main_ppo", kLayout + kAll + "0")));
}

TEST_CASE("verl's job on Megatron needs no degree, and a batch of all ranks that leaves none is refused by its name") {
  const std::string actor = "actor_rollout_ref.actor.", kAll = actor + "ppo_micro_batch_size=";
  const std::string kEngine = actor + "strategy=megatron ";
  const auto script = [&](const std::string& more) { return verl_script("verl.trainer.main_ppo", kEngine + more); };
  for (const auto& row : {std::pair{std::string(), 1}, std::pair{kAll + "16", 1}, std::pair{kAll + "64", 4},
                          std::pair{actor + "use_dynamic_bsz=True", 4}}) {
    CAPTURE(row.first);
    const LaunchJob job = job_of("p.sh", script(row.first));
    CHECK(job.gpus == 16);
    CHECK(job.fixed.micro_batch == row.second);
    CHECK(job.training->seq == 4096);
    CHECK(job.training->global_batch == 512);
  }
  for (const int all : {0, 1}) {
    const std::string text = script(actor + "megatron.tensor_model_parallel_size=8 " + kAll + std::to_string(all));
    const Result<LaunchJob> job = Files().read("p.sh", text);
    REQUIRE_FALSE(job.has_value());
    CHECK(job.error().size() == 1);
    const std::string& message = job.error().front().message;
    CAPTURE(message);
    CHECK(message.find(fmt::format("ppo_micro_batch_size` is {}, which verl divides by 2 data ranks", all)) !=
          std::string::npos);
  }
  const Result<LaunchJob> three =
      Files().read("p.sh", script(actor + "megatron.tensor_model_parallel_size=3 " + kAll + "4"));
  if (!three) CHECK(three.error().front().message.find("micro") == std::string::npos);
}

TEST_CASE("verl's data ranks take whole shares of an update, under either engine, and what they leave over is told") {
  const std::string actor = "actor_rollout_ref.actor.";
  for (const std::string& engine : {kMicroOfTwo, kMegatronActor, kMicroOfTwo + actor + "use_dynamic_bsz=True ",
                                    kMegatronActor + actor + "use_dynamic_bsz=True "})
    for (const int gpus : {4, 6, 7, 8})
      for (const auto& [step, mini] : {std::pair{512, 128}, std::pair{768, 126}, std::pair{840, 90}}) {
        std::string text = verl_script("verl.trainer.main_ppo", engine + "trainer.nnodes=1 ");
        text = replaced(text, "train_batch_size=512", fmt::format("train_batch_size={}", step));
        text = replaced(text, "ppo_mini_batch_size=128", fmt::format("ppo_mini_batch_size={}", mini));
        text = replaced(text, "n_gpus_per_node=8", fmt::format("n_gpus_per_node={}", gpus));
        CAPTURE(text);
        const LaunchJob job = job_of("p.sh", text);
        const int ranks = job.gpus / job.fixed.tp.value_or(1) / job.fixed.pp.value_or(1) / job.fixed.cp.value_or(1);
        if (ranks * job.fixed.tp.value_or(1) * job.fixed.pp.value_or(1) * job.fixed.cp.value_or(1) != job.gpus)
          continue;
        const int samples = mini * 4;
        CHECK(job.training->global_batch == samples / ranks * ranks);
        CHECK(names(job.unused, "sequences to each of") == (samples % ranks != 0));
        CHECK(names(job.unused, "it stops at a step") == (samples % ranks != 0 && step * 4 % ranks != 0));
      }
}

}  // namespace plan
