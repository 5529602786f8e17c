// Words that programs, forks and images have of their own for what others call differently: read, or told.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <string>
#include <utility>

#include "small_files.hpp"

namespace plan {

using namespace launching;

namespace {

LaunchJob trainer(const std::string& more) {
  return job_of("args.json",
                "{\"model_name_or_path\": \"meta-llama/Meta-Llama-3-8B\", \"per_device_train_batch_size\": 1, "
                "\"max_seq_length\": 1024, \"bf16\": true" +
                    more + "}",
                on(8));
}

}  // namespace

TEST_CASE("a program's own key says how weights are trained, before a rank that is stated beside it") {
  for (const char* key : {"train_mode", "peft_type", "training_type", "tuning_method"}) {
    CAPTURE(key);
    for (const auto& [word, task] :
         {std::pair{"lora", Task::Lora}, {"qlora", Task::Qlora}, {"full", Task::FullFinetune}}) {
      const LaunchJob job = trainer(fmt::format(", \"{}\": \"{}\", \"lora_rank\": 64", key, word));
      CHECK(job.training->task == task);
      CHECK_FALSE(names(job.unused, "no switch says so"));
    }
  }
  for (const char* bits : {"\"quantization\": \"4bit\"", "\"load_in_kbits\": 4", "\"load_in_bits\": 4"})
    CHECK(trainer(fmt::format(", \"peft_type\": \"lora\", {}", bits)).training->task == Task::Qlora);
  for (const char* bits : {"\"quantization\": \"8bit\"", "\"quantization_bit\": 8", "\"load_in_kbits\": 8"})
    CHECK(names(trainer(fmt::format(", \"peft_type\": \"lora\", {}", bits)).unused, "8 bits"));
  CHECK_FALSE(names(trainer(", \"task_type\": \"pretrain\"").unused, "head of another task"));
  CHECK(names(trainer(", \"task_type\": \"SEQ_CLS\"").unused, "head of another task"));
}

TEST_CASE("a program named for adapters which states none is told, and one that states them is not") {
  const std::string run =
      "#!/bin/bash\ndeepspeed --num_gpus 8 train/{} --model_name_or_path meta-llama/Meta-Llama-3-8B "
      "--per_device_train_batch_size 1 --bf16 True --source_max_len 384 --target_max_len 128 {}\n";
  const auto job = [&](const char* program, const char* more) {
    return job_of("run.sh", fmt::format(fmt::runtime(run), program, more));
  };
  CHECK(names(job("train_lora.py", "").unused, "may train adapters"));
  CHECK(names(job("qlora.py", "").unused, "may train adapters"));
  CHECK_FALSE(names(job("train.py", "").unused, "may train adapters"));
  CHECK_FALSE(names(job("train_lora.py", "--lora_r 8").unused, "may train adapters"));
  CHECK(job("train.py", "").training->seq == 512);
}

TEST_CASE("steps of accumulation count where the size of a micro-batch is left open") {
  const LaunchJob job = job_of("ds.json",
                               "{\"zero_optimization\": {\"stage\": 2}, \"gradient_accumulation_steps\": 8, "
                               "\"train_micro_batch_size_per_gpu\": \"auto\", \"train_batch_size\": \"auto\"}",
                               on(64));
  CHECK(job.training->global_batch == 8 * 64);
  CHECK(guesses(job, "micro_batch"));
  CHECK(job.rank_batch->steps == 8);
}

TEST_CASE("a path into axolotl's image means the file that the image holds, and the answer says so") {
  const auto job = [](const char* path) {
    return job_of("config.yml",
                  fmt::format("base_model: meta-llama/Llama-3.1-8B\nsequence_len: 4096\nmicro_batch_size: 2\n"
                              "optimizer: adamw_torch\nbf16: true\ndeepspeed: {}\n",
                              path),
                  on(8));
  };
  for (const char* path : {"/workspace/axolotl/deepspeed_configs/zero3_bf16.json", "deepspeed_configs/zero3.json"}) {
    CHECK(job(path).fixed.zero == 3);
    CHECK(names(job(path).unused, "axolotl's own deepspeed_configs"));
  }
  CHECK(job("axolotl/deepspeed_configs/zero2.json").training->offload.optimizer > 0);
  CHECK(error_of("config.yml",
                 "base_model: meta-llama/Llama-3.1-8B\nsequence_len: 4096\nmicro_batch_size: 2\n"
                 "deepspeed: my_configs/zero3.json\n",
                 on(8)) == "missing_file");
}

}  // namespace plan
