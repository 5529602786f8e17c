// Samples that do not fill their sequences, which are counted as full: said in the words of each tool.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <string>
#include <vector>

#include "small_files.hpp"

namespace plan {

using namespace launching;

namespace {

/// A tool's file, its key for packing, and whether it is known not to pack where nothing is stated.
struct Tool {
  std::string file, text, key;
  bool says_so = true;
};

const std::vector<Tool>& tools() {
  static const std::vector<Tool> kAll = {
      {"axolotl.yaml",
       "base_model: meta-llama/Llama-3.1-8B\nsequence_len: 4096\nmicro_batch_size: 2\nbf16: true\n"
       "datasets:\n  - path: x\n",
       "sample_packing: {}\n"},
      {"factory.yaml",
       "model_name_or_path: meta-llama/Meta-Llama-3-8B\nstage: sft\ndo_train: true\nfinetuning_type: full\n"
       "cutoff_len: 2048\nper_device_train_batch_size: 1\nbf16: true\n",
       "packing: {}\n"},
      {"trl.sh",
       "trl sft --model_name_or_path Qwen/Qwen2.5-3B --per_device_train_batch_size 2 --bf16 --max_length 4096",
       " --packing {}"},
      {"swift.sh",
       "NPROC_PER_NODE=8 swift sft --model Qwen/Qwen2.5-7B-Instruct --train_type lora --torch_dtype bfloat16 "
       "--max_length 2048 --per_device_train_batch_size 1",
       " --packing {}"},
      {"own.sh",
       "torchrun --nproc_per_node 8 train.py --model_name_or_path Qwen/Qwen2.5-3B --per_device_train_batch_size 2 "
       "--bf16 --max_length 4096",
       " --packing {}", false},
  };
  return kAll;
}

LaunchJob with(const Tool& tool, const std::string& value) {
  const std::string more = value.empty() ? "" : fmt::format(fmt::runtime(tool.key), value);
  return job_of(tool.file, tool.text + more + "\n", on(8));
}

constexpr const char* kFull = "sequence of full length";

}  // namespace

TEST_CASE("samples that are not packed are said to be counted as full sequences, in every tool and word") {
  for (const Tool& tool : tools()) {
    CAPTURE(tool.file);
    for (const char* off : {"false", "False", "no", "off", "0"}) {
      CAPTURE(std::string(off));
      const LaunchJob job = with(tool, off);
      CHECK(names(job.unused, kFull));
      CHECK_FALSE(names(job.notes, kFull));
    }
    for (const char* on : {"true", "True", "yes", "1"}) {
      CAPTURE(std::string(on));
      const LaunchJob job = with(tool, on);
      CHECK_FALSE(names(job.unused, kFull));
      CHECK_FALSE(names(job.notes, kFull));
    }
    const LaunchJob plain = with(tool, "");
    CHECK_FALSE(names(plain.unused, kFull));
    CHECK(names(plain.notes, kFull) == tool.says_so);
  }
}

TEST_CASE("sequences that are padded to their full length, and texts that fill them, are counted as they are") {
  const Tool& axolotl = tools()[0];
  const LaunchJob padded =
      job_of(axolotl.file, axolotl.text + "sample_packing: false\npad_to_sequence_len: true\n", on(8));
  CHECK_FALSE(names(padded.unused, kFull));
  const Tool& factory = tools()[1];
  CHECK_FALSE(names(job_of(factory.file, replaced(factory.text, "stage: sft", "stage: pt"), on(8)).notes, kFull));
  CHECK_FALSE(names(job_of(factory.file, factory.text + "neat_packing: true\n", on(8)).notes, kFull));
}

TEST_CASE("a word for yes or no is read as the program reads it, whatever stands for the switch") {
  struct Switch {
    std::string name;
    bool (*on)(const LaunchJob&);
  };
  const std::vector<Switch> switches = {
      {"use_lora", [](const LaunchJob& job) { return job.training->task == Task::Lora; }},
      {"lora_enable", [](const LaunchJob& job) { return job.training->task == Task::Lora; }},
      {"use_peft", [](const LaunchJob& job) { return job.training->task == Task::Lora; }},
      {"use_peft_lora", [](const LaunchJob& job) { return job.training->task == Task::Lora; }},
      {"use_4bit_quantization", [](const LaunchJob& job) { return job.training->task == Task::Qlora; }},
      {"load_in_4bit", [](const LaunchJob& job) { return job.training->task == Task::Qlora; }},
      {"use_liger_kernel",
       [](const LaunchJob& job) { return job.training->stack.cross_entropy == CrossEntropy::Chunked; }},
      {"gradient_checkpointing",
       [](const LaunchJob& job) { return job.fixed.recompute && job.fixed.recompute->kind == RecomputeKind::Full; }},
      {"bf16", [](const LaunchJob& job) { return job.training->precision == Precision::Bf16; }},
      {"disable_dropout", [](const LaunchJob& job) { return !job.config_dropout; }},
  };
  const std::string command =
      "torchrun --nproc_per_node 8 train.py --model_name_or_path Qwen/Qwen2.5-3B --per_device_train_batch_size 2 "
      "--max_length 4096 --";
  const std::string file = "model_name_or_path: Qwen/Qwen2.5-3B\nper_device_train_batch_size: 2\nmax_length: 4096\n";
  constexpr const char* kYes[] = {"true", "True", "TRUE", "yes", "Yes", "on", "1", "t", "y", "T"};
  constexpr const char* kNo[] = {"false", "False", "FALSE", "no", "No", "off", "0", "f", "n", "N"};
  for (const Switch& one : switches)
    for (const bool yes : {true, false})
      for (const char* spelt : yes ? kYes : kNo) {
        const std::string word = spelt;
        CAPTURE(one.name);
        CAPTURE(word);
        CHECK(one.on(job_of("t.sh", command + one.name + " " + word + "\n", on(8))) == yes);
        // A single letter is a text in YAML, which the program takes as on: refused where a switch is wanted.
        const Files files;
        const std::string text = file + one.name + ": " + word + "\n";
        const Result<LaunchJob> job = files.read("t.yaml", text, on(8));
        const bool letter = word.size() == 1 && word != "1" && word != "0";
        if (job) CHECK(one.on(*job) == (yes || letter));
        if (!letter) CHECK(job.has_value());
        if (!job) CHECK(job.error().front().message.find(one.name) != std::string::npos);
      }
}

TEST_CASE("OpenRLHF's FSDP2 has no stage, and its degrees and batch are read") {
  const std::string start =
      "torchrun --nproc_per_node 8 -m openrlhf.cli.train_sft --pretrain Qwen/Qwen2.5-7B --max_len 2048 "
      "--train_batch_size 64 --micro_train_batch_size 2 --param_dtype bf16 --gradient_checkpointing ";
  for (const int tp : {1, 2, 4})
    for (const bool offload : {false, true}) {
      const std::string tensor = tp == 1 ? "" : fmt::format("--fsdp_tensor_parallel_size {} --use_hf_tp_plan ", tp);
      CAPTURE(tensor);
      const LaunchJob job =
          job_of("r.sh", start + "--backend fsdp2 " + tensor + (offload ? "--adam_offload " : "") + "\n");
      CHECK(job.gpus == 8);
      CHECK(job.fixed.tp == tp);
      CHECK(job.fixed.dp == 8 / tp);
      CHECK(job.fixed.zero == 3);
      CHECK(job.fixed.micro_batch == 2);
      CHECK(job.training->global_batch == 64);
      CHECK(job.training->precision == Precision::Bf16);
      CHECK(job.training->offload.any() == offload);
      CHECK(job.fixed.recompute->kind == RecomputeKind::Full);
      CHECK_FALSE(names(job.unused, "tensor_parallel"));
    }
  // Its stage is DeepSpeed's, and not looked at.
  CHECK(job_of("r.sh", start + "--backend fsdp2 --zero_stage 2\n").fixed.zero == 3);
  CHECK(job_of("r.sh", start + "--backend deepspeed --zero_stage 2\n").fixed.zero == 2);
  const auto first = [&](const std::string& more) {
    const Files files;
    const Result<LaunchJob> job = files.read("r.sh", start + more + "\n");
    REQUIRE_FALSE(job);
    return job.error().front().message;
  };
  CHECK(first("--backend fsdp2 --ring_attn_size 2").find("ring_attn_size") != std::string::npos);
  CHECK(first("--backend megatron").find("backend") != std::string::npos);
  CHECK(first("").find("ZeRO") != std::string::npos);
}

}  // namespace plan
