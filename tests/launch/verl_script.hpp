#pragma once

#include <fmt/core.h>

#include <string>

namespace plan::launching {

/// A job of 16 GPUs that trains with `program`; `more` is among its words.
inline std::string verl_script(const std::string& program, const std::string& more, const std::string& before = "") {
  return fmt::format(
      "#!/bin/bash\n{}\npython3 -m {} data.train_batch_size=512 data.max_prompt_length=1024 "
      "data.max_response_length=3072 actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct "
      "actor_rollout_ref.actor.ppo_mini_batch_size=128 actor_rollout_ref.rollout.n=4 trainer.n_gpus_per_node=8 "
      "trainer.nnodes=2 algorithm.adv_estimator=grpo {}\n",
      before, program, more);
}

inline const std::string kMicroOfTwo = "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=2 ";
inline const std::string kMegatronActor = kMicroOfTwo +
                                          "actor_rollout_ref.actor.megatron.tensor_model_parallel_size=4 "
                                          "actor_rollout_ref.actor.megatron.pipeline_model_parallel_size=2 ";

}  // namespace plan::launching
