// Arguments that are about a model beside the trained one say nothing of the trained one, whatever tool or program they
// are given to; the model beside it is named.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <string>

#include "small_files.hpp"

namespace plan {

using namespace launching;

namespace {

constexpr const char* kRoles[] = {"teacher_", "ref_", "reference_", "reward_", "judge_", "draft_"};

LaunchJob script(const std::string& more) {
  return job_of("t.sh",
                "torchrun --nproc_per_node 8 train.py --model_name_or_path Qwen/Qwen2.5-3B "
                "--per_device_train_batch_size 2 --bf16 --max_length 4096 " +
                    more + "\n",
                on(8));
}

LaunchJob file(const std::string& more) {
  return job_of("t.yaml",
                "model_name_or_path: Qwen/Qwen2.5-3B\nper_device_train_batch_size: 2\nbf16: true\nmax_length: 4096\n" +
                    more + "\n",
                on(8));
}

}  // namespace

TEST_CASE("how a model beside the trained one is loaded or tuned is not how the trained one is") {
  for (const std::string role : kRoles)
    for (const char* word : {"load_in_4bit True", "use_4bit True", "lora_rank 64", "lora_r 64", "use_lora True",
                             "lora_alpha 16", "adapter_path x", "peft_type lora"}) {
      const std::string flag = role + word;
      CAPTURE(flag);
      CHECK(script("--" + flag).training->task == Task::FullFinetune);
      const LaunchJob adapters = script("--use_peft True --lora_rank 8 --" + flag);
      CHECK(adapters.training->task == Task::Lora);
      CHECK(adapters.training->lora.rank == 8);
    }
  // The trained model's own words count as before.
  CHECK(script("--use_peft True --lora_rank 8 --load_in_4bit True").training->task == Task::Qlora);
  CHECK(script("--use_4bit True").training->task == Task::Qlora);
}

TEST_CASE("a model beside the trained one is named, under each name and in each form, once") {
  for (const std::string role : kRoles)
    for (const char* naming : {"model_name_or_path", "model_path", "model_name"}) {
      const std::string key = role + naming;
      CAPTURE(key);
      for (const LaunchJob& job : {script("--" + key + " a/b"), file(key + ": a/b")}) {
        CHECK(job.unused.size() == 1);
        CHECK(names(job.unused, key));
        CHECK(job.model->name == "qwen2.5-3b");
      }
      CHECK(file(key + ": null").unused.empty());
    }
}

TEST_CASE("a switch that is a number gives the rank of the language model's adapters") {
  for (const int rank : {2, 16, 128}) {
    const LaunchJob job = script(fmt::format("--freeze_llm True --use_llm_lora {}", rank));
    CHECK(job.training->task == Task::Lora);
    CHECK(job.training->lora.rank == rank);
    CHECK(job.unused.empty());
  }
  CHECK(script("--use_llm_lora 0").training->task == Task::FullFinetune);
  const LaunchJob tower = script("--use_backbone_lora 16");  // the tower's adapters, not the language model's
  CHECK(tower.training->task == Task::FullFinetune);
  CHECK(names(tower.unused, "use_backbone_lora"));
}

TEST_CASE("the degrees of a model beside the trained one split no ranks of the job") {
  const Files files;
  files.folder.write("ds.json", R"({"zero_optimization": {"stage": 3}, "train_micro_batch_size_per_gpu": 1})");
  for (const char* degree : {"tensor_parallel_size", "pipeline_parallel_size", "tp_size"}) {
    const auto read = [&](const std::string& role) {
      return files.read("t.sh", fmt::format("deepspeed --num_gpus 8 train.py --deepspeed ds.json --{}{} 2 "
                                            "--model_name_or_path Qwen/Qwen2.5-3B --bf16\n",
                                            role, degree));
    };
    for (const char* role : kRoles) {
      const Result<LaunchJob> job = read(role);
      CAPTURE(role);
      REQUIRE(job);
      CHECK(job->fixed.dp == 8);
    }
    for (const char* role : {"critic_", "rollout_", "vllm_", "rm_"}) CHECK(read(role));
    CHECK_FALSE(read("my_"));
  }
}

TEST_CASE("the verb of a trainer's command is its stage") {
  const std::string words =
      " --model_name_or_path meta-llama/Llama-2-7b-hf --per_device_train_batch_size 1 --max_length 2048 --bf16 true\n";
  const auto tells = [&](const std::string& start) {
    return names(job_of("run.sh", "#!/bin/bash\n" + start + words, on(8)).unused, "models beside the trained one");
  };
  for (const char* start : {"autoalign-cli dpo", "trl kto", "accelerate launch -m trl.cli grpo", "trl reward"}) {
    CAPTURE(std::string(start));
    CHECK(tells(start));
  }
  for (const char* start : {"autoalign-cli sft", "trl sft", "python train.py --output_dir dpo"})
    CHECK_FALSE(tells(start));
}

TEST_CASE("DeepSpeed-Chat's actor is read by its own flags") {
  const std::string start = "#!/bin/bash\ndeepspeed --num_gpus 8 main.py ";
  const std::string batch = "--per_device_train_batch_size 2 --gradient_accumulation_steps 4 ";
  for (const int stage : {2, 3}) {
    const LaunchJob plain = job_of("a.sh", start + batch +
                                               fmt::format("--model_name_or_path facebook/opt-1.3b "
                                                           "--max_seq_len 768 --zero_stage {} "
                                                           "--gradient_checkpointing\n",
                                                           stage));
    const LaunchJob actor = job_of("b.sh", start + batch +
                                               fmt::format("--actor_model_name_or_path facebook/opt-1.3b "
                                                           "--critic_model_name_or_path facebook/opt-350m "
                                                           "--max_prompt_seq_len 512 --max_answer_seq_len 256 "
                                                           "--actor_zero_stage {} --actor_gradient_checkpointing\n",
                                                           stage));
    CHECK(actor.fixed.zero == stage);
    CHECK(actor.fixed == plain.fixed);
    CHECK(actor.training->seq == 768);
    CHECK(actor.training->precision == plain.training->precision);
    CHECK(actor.training->global_batch == plain.training->global_batch);
    CHECK(actor.model->name == plain.model->name);
    CHECK(names(actor.unused, "ppo"));
    CHECK_FALSE(names(actor.unused, "actor_zero_stage"));
    CHECK_FALSE(names(plain.unused, "ppo"));
  }
  CHECK(names(job_of("r.sh", start + batch +
                                 "--model_name_or_path facebook/opt-1.3b --num_padding_at_beginning 1 "
                                 "--max_seq_len 512 --zero_stage 0\n")
                  .unused,
              "reward models"));
}

}  // namespace plan
