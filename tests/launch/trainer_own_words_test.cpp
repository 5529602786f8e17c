// OwnWords that programs around the Trainer have for its arguments: behind the sections of a configuration, under other
// names, in a file of JSON or of YAML.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <string>
#include <utility>
#include <vector>

#include "small_files.hpp"

namespace plan {

using namespace launching;

namespace {

/// What the files of two spellings have in common.
void check_same_job(const LaunchJob& a, const LaunchJob& b) {
  CHECK(a.model->name == b.model->name);
  CHECK(a.training->task == b.training->task);
  CHECK(a.training->lora.rank == b.training->lora.rank);
  CHECK(a.training->seq == b.training->seq);
  CHECK(a.training->precision == b.training->precision);
  CHECK(a.training->global_batch == b.training->global_batch);
  CHECK(a.training->stack.cross_entropy == b.training->stack.cross_entropy);
  CHECK(a.fixed.micro_batch == b.fixed.micro_batch);
  CHECK(a.fixed.recompute == b.fixed.recompute);
}

using OwnWords = std::vector<std::pair<std::string, std::string>>;

const OwnWords kOwnArguments = {{"model_name_or_path", "Qwen/Qwen2.5-7B"},
                                {"per_device_train_batch_size", "2"},
                                {"gradient_accumulation_steps", "4"},
                                {"max_length", "3072"},
                                {"bf16", "true"},
                                {"gradient_checkpointing", "true"},
                                {"use_peft", "true"},
                                {"lora_r", "32"},
                                {"use_liger_kernel", "true"}};

std::string training_command(const OwnWords& words, const std::string& section, const std::string& more = "") {
  std::string out = "torchrun --nproc_per_node 8 train.py";
  for (const auto& [key, value] : words) out += fmt::format(" --{}{} {}", section, key, value);
  return out + " " + more + "\n";
}

}  // namespace

TEST_CASE("an argument of the Trainer's behind the section of a configuration is that argument") {
  const LaunchJob plain = job_of("plain.sh", training_command(kOwnArguments, ""));
  CHECK(plain.training->global_batch == 64);
  for (const char* section : {"config.training.", "training.", "trainer.args.", "sft-config.", "model.llm."}) {
    CAPTURE(section);
    check_same_job(plain, job_of("dots.sh", training_command(kOwnArguments, section)));
    for (const auto& one : kOwnArguments) {  // one of them behind a section, the others not
      CAPTURE(one.first);
      OwnWords others;
      for (const auto& word : kOwnArguments)
        if (word.first != one.first) others.push_back(word);
      check_same_job(
          plain,
          job_of("one.sh", training_command(others, "", fmt::format("--{}{} {}", section, one.first, one.second))));
    }
  }
}

TEST_CASE("a section of another model, or of what it answers, says nothing of the trained one") {
  const LaunchJob plain = job_of("plain.sh", training_command(kOwnArguments, ""));
  for (const char* section : {"reward.", "config.teacher.", "ref.model.", "generation.", "eval.", "rollout.vllm."}) {
    CAPTURE(section);
    for (const auto& [key, value] : OwnWords{{"max_length", "99"}, {"lora_r", "4"}, {"model_name_or_path", "gpt2"}})
      check_same_job(
          plain, job_of("o.sh", training_command(kOwnArguments, "", fmt::format("--{}{} {}", section, key, value))));
  }
}

TEST_CASE("other names of the Trainer's accumulation count where its own is not stated") {
  OwnWords words;
  for (const auto& word : kOwnArguments)
    if (word.first != "gradient_accumulation_steps") words.push_back(word);
  for (const char* name : {"grad_accum_steps", "grad_accumulation_steps", "grad_acc_steps", "gradient_accumulation",
                           "gradient_accumulate_steps", "accumulate_grad_batches"})
    for (const int steps : {1, 3, 8}) {
      CAPTURE(name);
      const std::string flag = fmt::format("--{} {}", name, steps);
      CHECK(job_of("a.sh", training_command(words, "", flag)).training->global_batch == 16 * steps);
      CHECK(job_of("b.sh", training_command(kOwnArguments, "", flag)).training->global_batch == 64);
    }
}

TEST_CASE("a length that cuts a question with its answer is the sequence's") {
  const std::string flags = "--source_max_len 2048 --target_max_len 1024";
  OwnWords words;
  for (const auto& word : kOwnArguments)
    if (word.first != "max_length") words.push_back(word);
  CHECK(job_of("a.sh", training_command(words, "", flags)).training->seq == 3072);
  const LaunchJob cut = job_of("b.sh", training_command(words, "", flags + " --total_max_len 2048"));
  CHECK(cut.training->seq == 2048);
  CHECK_FALSE(names(cut.unused, "max_len"));
}

TEST_CASE("a program's own word for the precision counts, and one that nobody knows is told") {
  OwnWords words;
  for (const auto& word : kOwnArguments)
    if (word.first != "bf16") words.push_back(word);
  const std::string chat = "--zero_stage 2";
  for (const std::string& more : {std::string(), chat}) {
    CAPTURE(more);
    const auto read = [&](const std::string& word) {
      return job_of("p.sh", training_command(words, "", more + " --precision " + word));
    };
    for (const char* word : {"bf16", "bfloat16", "bf16-mixed"})
      CHECK(read(word).training->precision == Precision::Bf16);
    for (const char* word : {"fp16", "16-mixed"}) CHECK(read(word).training->precision == Precision::Fp16);
    CHECK(read("fp32").training->precision == Precision::Fp32);
    CHECK_FALSE(names(read("bf16").unused, "precision"));
    CHECK(names(read("int7").unused, "precision"));
  }
  // DeepSpeed-Chat's own word goes before it.
  CHECK(job_of("d.sh", training_command(words, "", chat + " --dtype bf16 --precision fp16")).training->precision ==
        Precision::Bf16);
}

TEST_CASE("DeepSpeed's file is followed, or missed, under each name that a program has for it") {
  const std::string arguments =
      "model_name_or_path: Qwen/Qwen2.5-7B\nper_device_train_batch_size: 2\ngradient_accumulation_steps: 4\n"
      "max_length: 3072\nbf16: true\n";
  for (const std::string name :
       {"deepspeed", "deepspeed_config", "deepspeed_config_file", "deepspeed_file", "deepspeed_config_path",
        "deepspeed_path", "ds_config", "ds_config_file", "ds_config_path"})
    for (const int stage : {1, 2, 3}) {
      CAPTURE(name);
      const Files files;
      files.folder.write(
          "ds.json", fmt::format(R"({{"bf16": {{"enabled": true}}, "zero_optimization": {{"stage": {}}}}})", stage));
      const std::string yaml = arguments + name + ": ds.json\n";
      const Result<LaunchJob> job = files.read("a.yaml", yaml, on(8));
      REQUIRE(job);
      CHECK(job->fixed.zero == stage);
      CHECK(job->training->precision == Precision::Bf16);
      CHECK_FALSE(names(job->unused, name));
      CHECK(error_of("a.yaml", arguments + name + ": other.json\n", on(8)) == "missing_file");
      const std::string command =
          "torchrun --nproc_per_node 8 train.py --model_name_or_path Qwen/Qwen2.5-7B --per_device_train_batch_size 2 "
          "--bf16 --" +
          name + " ds.json\n";
      const Result<LaunchJob> script = files.read("run.sh", command, on(8));
      REQUIRE(script);
      CHECK(script->fixed.zero == stage);
    }
}

TEST_CASE("a file of arguments says the same in JSON and in YAML, whose tool is known by its words") {
  const std::vector<OwnWords> tools = {{{"model_name_or_path", "Qwen/Qwen2.5-7B"},
                                        {"stage", "sft"},
                                        {"finetuning_type", "lora"},
                                        {"cutoff_len", "4096"},
                                        {"per_device_train_batch_size", "2"}},
                                       {{"model", "Qwen/Qwen2.5-7B"},
                                        {"train_type", "lora"},
                                        {"max_length", "4096"},
                                        {"torch_dtype", "float16"},
                                        {"per_device_train_batch_size", "2"}}};
  for (const OwnWords& tool : tools) {
    std::string yaml, json = "{";
    for (const auto& [key, value] : tool) {
      yaml += fmt::format("{}: {}\n", key, value);
      const bool number = value.find_first_not_of("0123456789") == std::string::npos;
      json += fmt::format("{}\"{}\": {}", json == "{" ? "" : ", ", key, number ? value : fmt::format("\"{}\"", value));
    }
    CAPTURE(yaml);
    const LaunchJob a = job_of("a.yaml", yaml, on(8)), b = job_of("b.json", json + "}", on(8));
    check_same_job(a, b);
    CHECK(a.fixed.recompute->kind == RecomputeKind::Full);
    CHECK(a.training->task == Task::Lora);
    CHECK(a.unused.size() == b.unused.size());
  }
}

TEST_CASE("ms-swift's file that asks for several answers has them behind its prompts, also without the algorithm") {
  const std::string base =
      "model: Qwen/Qwen2.5-7B\ntrain_type: full\nmax_length: 2048\nper_device_train_batch_size: 1\n";
  CHECK(job_of("s.yaml", base, on(8)).training->seq == 2048);
  for (const char* more : {"rlhf_type: grpo\n", "num_generations: 8\n", ""}) {
    CAPTURE(more);
    CHECK(job_of("g.yaml", base + more + "max_completion_length: 4096\n", on(8)).training->seq == 6144);
  }
  CHECK(job_of("d.yaml", base + "rlhf_type: dpo\nmax_completion_length: 4096\n", on(8)).training->seq == 2048);
}

TEST_CASE("each tool's word for the fused output layer is counted") {
  OwnWords words;
  for (const auto& word : kOwnArguments)
    if (word.first != "use_liger_kernel") words.push_back(word);
  CHECK(job_of("n.sh", training_command(words, "")).training->stack.cross_entropy != CrossEntropy::Chunked);
  for (const char* word : {"use_liger", "use_liger_kernel", "use_liger_loss"}) {
    CAPTURE(word);
    CHECK(job_of("y.sh", training_command(words, "", fmt::format("--{} True", word))).training->stack.cross_entropy ==
          CrossEntropy::Chunked);
    CHECK(job_of("f.sh", training_command(words, "", fmt::format("--{} False", word))).training->stack.cross_entropy !=
          CrossEntropy::Chunked);
  }
}

TEST_CASE("a switch that says neither yes nor no is refused, and one that says nothing changes nothing") {
  for (const char* key : {"load_in_4bit", "tune_mm_mlp_adapter", "freeze_llm", "freeze_backbone", "tune_mm_llm"}) {
    CAPTURE(key);
    OwnWords words = kOwnArguments;
    if (std::string(key) != "load_in_4bit")  // parts that are kept as they are beside adapters are meant to be
      words.erase(words.begin() + 6, words.begin() + 8);
    const auto text = [&](const std::string& word) {
      return training_command(words, "", fmt::format("--{} {}", key, word));
    };
    for (const char* word : {"maybe", "2", "tru"}) CHECK(error_of("e.sh", text(word)) == "wrong_value");
    const LaunchJob plain = job_of("p.sh", training_command(words, "")), none = job_of("n.sh", text("None"));
    check_same_job(plain, none);
    CHECK(plain.unused.size() == none.unused.size());
    for (const auto& [yes, no] : {std::pair{"True", "False"}, std::pair{"1", "0"}, std::pair{"yes", "no"}}) {
      const LaunchJob on = job_of("y.sh", text(yes)), off = job_of("o.sh", text(no));
      CHECK((on.unused.size() != off.unused.size() || on.training->task != off.training->task));
    }
  }
}

TEST_CASE("a number of processes that accelerate stops at is refused, whatever GPUs are shown to it") {
  for (const char* shown : {"", "CUDA_VISIBLE_DEVICES=0,1 "})
    for (const char* number : {"-1", "0", "1024x", "2.5"}) {
      CAPTURE(number);
      const std::string text = fmt::format(
          "{}accelerate launch --use_deepspeed --zero_stage 2 --num_processes={} train.py --model_name_or_path "
          "Qwen/Qwen2.5-7B --per_device_train_batch_size 1 --bf16 true --max_length 1024\n",
          shown, number);
      const Files files;
      for (const std::string& one : {text, replaced(text, "--use_deepspeed --zero_stage 2 ", "")}) {
        const Result<LaunchJob> job = files.read("a.sh", one);
        REQUIRE_FALSE(job);
        CHECK(job.error().front().message.find("num_processes") != std::string::npos);
      }
    }
}

TEST_CASE("torchtune's names of models have a dot in the version or in the size") {
  for (const auto& row :
       {std::pair{"llama3_1.llama3_1_8b", "llama3-8b"}, std::pair{"llama3_2.lora_llama3_2_1b", "llama3.2-1b"},
        std::pair{"qwen2_5.qwen2_5_7b_instruct", "qwen2.5-7b"}, std::pair{"qwen2_5.lora_qwen2_5_1_5b", "qwen2.5-1.5b"},
        std::pair{"qwen2_5.qwen2_5_0_5b", "qwen2.5-0.5b"}, std::pair{"qwen2.qwen2_1_5b", "qwen2.5-1.5b"},
        std::pair{"qwen3.qwen3_0_6b_instruct", "qwen3-0.6b"}, std::pair{"qwen3.lora_qwen3_1_7b_base", "qwen3-1.7b"},
        std::pair{"gemma2.gemma2_9b", "gemma2-9b"}}) {
    CAPTURE(row.first);
    const LaunchJob job = job_of(
        "t.yaml",
        fmt::format("tokenizer:\n  max_seq_len: 2048\nmodel:\n  _component_: torchtune.models.{}\nbatch_size: 2\n"
                    "dtype: bf16\noptimizer:\n  _component_: torch.optim.AdamW\n",
                    row.first),
        on(8));
    REQUIRE(job.model);
    CHECK(job.model->name == row.second);
  }
}

TEST_CASE("a section of data or of judging says nothing of what is trained") {
  const LaunchJob plain = job_of("plain.sh", training_command(kOwnArguments, ""));
  for (const char* section : {"val.", "validation.", "test.", "dev.", "data.", "dataset.", "tokenizer.", "val_data.",
                              "config.valid.", "evaluation.", "prediction."}) {
    CAPTURE(section);
    for (const auto& [key, value] :
         OwnWords{{"max_length", "512"}, {"gradient_checkpointing", "false"}, {"per_device_train_batch_size", "1"}})
      check_same_job(
          plain, job_of("o.sh", training_command(kOwnArguments, "", fmt::format("--{}{} {}", section, key, value))));
  }
}

TEST_CASE("the plain argument counts over those of sections, and of two sections that differ one is told") {
  const LaunchJob plain = job_of("plain.sh", training_command(kOwnArguments, ""));
  for (const char* other : {"--training.max_length 512", "--a.bf16 false", "--x.y.lora_r 8", "--b.packing true"}) {
    CAPTURE(other);
    const LaunchJob job = job_of("o.sh", training_command(kOwnArguments, "", other));
    check_same_job(plain, job);
    CHECK(names(job.unused, other) == (std::string(other).find("packing") == std::string::npos));
  }
  CHECK_FALSE(
      names(job_of("s.sh", training_command(kOwnArguments, "", "--training.max_length 3072")).unused, "training.max"));
  OwnWords words;
  for (const auto& word : kOwnArguments)
    if (word.first != "max_length") words.push_back(word);
  const LaunchJob two = job_of("t.sh", training_command(words, "", "--a.max_length 4096 --b.max_length 512"));
  CHECK(two.training->seq == 512);
  CHECK(names(two.unused, "`--b.max_length 512` is counted and `--a.max_length 4096` is not"));
  CHECK_FALSE(names(job_of("e.sh", training_command(words, "", "--a.max_length 512 --b.max_length 512")).unused,
                    "is counted and"));
}

TEST_CASE("a switch of packing, of kernels or of 8 bits that says neither yes nor no is refused") {
  OwnWords words;
  for (const auto& word : kOwnArguments)
    if (word.first != "use_liger_kernel") words.push_back(word);
  const Files files;
  for (const char* key : {"use_liger", "use_liger_kernel", "packing", "load_in_8bit", "use_dora"}) {
    CAPTURE(key);
    const auto text = [&](const std::string& word) {
      return training_command(words, "", fmt::format("--{} {}", key, word));
    };
    const Result<LaunchJob> wrong = files.read("w.sh", text("maybe"));
    REQUIRE_FALSE(wrong);
    CHECK(wrong.error().front().message.find(key) != std::string::npos);
    for (const char* word : {"True", "False", "1", "0", "None"}) CHECK(files.read("r.sh", text(word)));
  }
  for (const char* yes : {"True", "1", "yes"})
    CHECK(
        job_of("y.sh", training_command(words, "", fmt::format("--use_liger {}", yes))).training->stack.cross_entropy ==
        CrossEntropy::Chunked);
}

TEST_CASE("weights of 64 bits are refused under each key, and a type that is none is no silent default") {
  const std::string start =
      "#!/bin/bash\ntorchrun --nproc_per_node 8 train.py --model_name_or_path meta-llama/Meta-Llama-3-8B "
      "--per_device_train_batch_size 2 --max_length 2048 ";
  const std::string swift =
      "#!/bin/bash\nNPROC_PER_NODE=8 swift sft --model Qwen/Qwen2.5-7B-Instruct --max_length 2048 "
      "--per_device_train_batch_size 1 ";
  for (const char* type : {"double", "float64", "torch.float64", "Double"}) {
    CAPTURE(std::string(type));
    for (const std::string& command :
         {start + "--dtype ", start + "--torch_dtype ", start + "--bf16 --torch_dtype ", swift + "--torch_dtype "}) {
      CAPTURE(command);
      const Files files;
      const Result<LaunchJob> job = files.read("run.sh", command + type + "\n");
      REQUIRE_FALSE(job);
      CHECK(job.error().size() == 1);
      CHECK(job.error().front().message.find("64 bits") != std::string::npos);
      CHECK(job.error().front().help.front().find("bfloat16") != std::string::npos);
    }
  }
  CHECK(names(job_of("t.sh", start + "--dtype bfloat61").unused, "dtype"));
  CHECK(job_of("t.sh", start + "--dtype float32").unused.size() == job_of("t.sh", start).unused.size());
}

TEST_CASE("a slip in an argument of the Trainer's is told, and a word of its own is none") {
  const Files files;
  const auto told = [&](const std::string& key) {
    const std::string text = fmt::format(
        "torchrun --nproc_per_node 8 train.py --model_name_or_path Qwen/Qwen2.5-7B --bf16 True "
        "--per_device_train_batch_size 1 --max_length 512 --{} 16\n",
        key);
    CAPTURE(text);
    const Result<LaunchJob> job = files.read("run.sh", text);
    REQUIRE(job);
    CHECK(job->training->task == Task::FullFinetune);
    return names(job->unused, fmt::format("`{}`", key));
  };
  for (const std::string name : {"deepspeed", "use_llm_lora", "gradient_checkpointing", "attn_implementation"})
    for (std::size_t i = 1; i + 2 < name.size(); ++i) {
      std::string swapped = name, doubled = name;
      std::swap(swapped[i], swapped[i + 1]);
      doubled.insert(i, 1, doubled[i]);
      for (const std::string& slip : {swapped, doubled})
        if (slip != name) CHECK_MESSAGE(told(slip), slip);
    }
  for (const std::string other : {"padding", "seed", "warmup_steps", "run_name", "logging_steps", "save_strategy"})
    CHECK_FALSE_MESSAGE(told(other), other);
}

}  // namespace plan
