// Files of settings that a command names, where some of the job's words stand in the command and the rest in the file:
// whichever place states a word, the job is the same, and a file that is not there is never passed over in silence.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <string>
#include <utility>
#include <vector>

#include "small_files.hpp"

namespace plan {

using namespace launching;

namespace {

/// Layout, length, batch, adapters and number format: what a misread file changes.
std::string reading_of(const LaunchJob& job) {
  const auto number = [](const auto& value) { return value ? static_cast<int>(*value) : -1; };
  const Training& training = *job.training;
  return fmt::format("tp{} pp{} cp{} zero{} mb{} seq{} batch{} {} gpus{} task{} rank{} recompute{}",
                     number(job.fixed.tp), number(job.fixed.pp), number(job.fixed.cp), number(job.fixed.zero),
                     number(job.fixed.micro_batch), training.seq, training.global_batch, name(training.precision),
                     job.gpus, static_cast<int>(training.task), training.lora.rank,
                     job.fixed.recompute ? static_cast<int>(job.fixed.recompute->kind) : -1);
}

using Stated = std::vector<std::pair<std::string, std::string>>;

/// Keys with dots as sections of YAML.
std::string sections_of(const Stated& words) {
  std::string text;
  for (const auto& [key, value] : words) {
    std::string line = key;
    std::string indent;
    for (std::size_t dot = line.find('.'); dot != std::string::npos; dot = line.find('.')) {
      text += fmt::format("{}{}:\n", indent, line.substr(0, dot));
      line = line.substr(dot + 1), indent += "  ";
    }
    text += fmt::format("{}{}: {}\n", indent, line, value);
  }
  return text;
}

struct NamedAt {
  const char* command;  ///< what names the file, behind the program
  const char* file;
};

}  // namespace

TEST_CASE("a word of verl's counts the same in the command and in the configuration that it lies over") {
  const Stated base = {{"data.max_prompt_length", "1024"},
                       {"data.max_response_length", "3072"},
                       {"data.train_batch_size", "256"},
                       {"trainer.n_gpus_per_node", "8"},
                       {"trainer.nnodes", "1"}};
  const Stated moved = {{"actor_rollout_ref.actor.ppo_mini_batch_size", "64"},
                        {"actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu", "2"},
                        {"actor_rollout_ref.actor.ulysses_sequence_parallel_size", "2"},
                        {"actor_rollout_ref.model.enable_gradient_checkpointing", "false"},
                        {"actor_rollout_ref.model.lora_rank", "32"},
                        {"actor_rollout_ref.rollout.n", "4"},
                        {"data.max_response_length", "7168"}};
  const NamedAt places[] = {{"--config-path=$PWD/conf --config-name=mine", "conf/mine.yaml"},
                            {"--config-path conf --config-name 'mine.yaml'", "conf/mine.yaml"},
                            {"-cp /elsewhere/of/a/cluster/conf -cn mine", "of/a/cluster/conf/mine.yaml"},
                            {"--config-path=config --config-name=mine", "verl/trainer/config/mine.yaml"},
                            {"--config-name=mine", "verl/trainer/config/mine.yaml"},
                            {"", "verl/trainer/config/ppo_trainer.yaml"}};
  const auto command = [&](const char* named, const Stated& more) {
    std::string text =
        fmt::format("python3 -m verl.trainer.main_ppo {} actor_rollout_ref.model.path=Qwen/Qwen2.5-7B", named);
    for (const Stated& words : {base, more})
      for (const auto& [key, value] : words) text += fmt::format(" {}={}", key, value);
    return text + "\n";
  };
  for (const auto& word : moved) {
    const std::string &key = word.first, &value = word.second;
    CAPTURE(key);
    const std::string in_command = reading_of(job_of("run.sh", command("", {{key, value}})));
    CHECK(in_command != reading_of(job_of("run.sh", command("", {}))));
    for (const NamedAt& place : places) {
      CAPTURE(std::string(place.file));
      Files files;
      files.folder.write(place.file, sections_of({{key, value}}));
      std::string text = command(place.command, {});
      if (const std::string stated = fmt::format(" {}=3072", key); key == "data.max_response_length")
        text = replaced(text, stated, "");
      const Result<LaunchJob> job = files.read("examples/run.sh", text);
      REQUIRE(job);
      CHECK(reading_of(*job) == in_command);
      // What the command says goes before the file.
      Files other;
      other.folder.write(place.file, sections_of({{key, "1"}}));
      const Result<LaunchJob> over = other.read("examples/run.sh", command(place.command, {{key, value}}));
      REQUIRE(over);
      CHECK(reading_of(*over) == in_command);
    }
  }
}

TEST_CASE("a configuration of verl's lies over others, and one that is not there is told") {
  const std::string kStart =
      "python3 -m verl.trainer.main_ppo {} actor_rollout_ref.model.path=Qwen/Qwen2.5-7B data.train_batch_size=64 "
      "data.max_prompt_length=512 data.max_response_length=512 trainer.n_gpus_per_node=8 trainer.nnodes=1 "
      "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1 {}\n";
  const std::string named = "--config-path=conf --config-name=mine";
  for (const bool last : {false, true}) {
    Files files;
    const std::string_view self = "  - _self_\n", below = "  - below\n";
    files.folder.write("conf/mine.yaml",
                       fmt::format("defaults:\n{}{}actor_rollout_ref:\n  actor:\n    ppo_mini_batch_size: 32\n",
                                   last ? below : self, last ? self : below));
    files.folder.write("conf/below.yaml", "actor_rollout_ref:\n  actor:\n    ppo_mini_batch_size: 16\n");
    const Result<LaunchJob> job = files.read("run.sh", fmt::format(fmt::runtime(kStart), named, ""));
    REQUIRE(job);
    CHECK(job->training->global_batch == (last ? 32 : 16));
    CHECK_FALSE(names(job->unused, "is not known"));
  }
  for (const char* engine : {"", "actor_rollout_ref.actor.megatron.tensor_model_parallel_size=2"}) {
    CAPTURE(std::string(engine));
    const auto unused = [&](const std::string& words) {
      return job_of("run.sh", fmt::format(fmt::runtime(kStart), words, engine)).unused;
    };
    CHECK(names(unused(named), "`mine`"));
    CHECK_FALSE(names(unused("--config-name=ppo_trainer"), "lies over"));
    CHECK_FALSE(names(unused("--config-path=config --config-name='ppo_megatron_trainer.yaml'"), "lies over"));
  }
  Files files;
  files.folder.write("conf/mine.yaml",
                     "defaults:\n  - ppo_megatron_trainer\n  - absent\n  - _self_\nactor_rollout_ref:\n"
                     "  actor:\n    megatron:\n      tensor_model_parallel_size: 4\n");
  const Result<LaunchJob> megatron = files.read("run.sh", fmt::format(fmt::runtime(kStart), named, ""));
  REQUIRE(megatron);
  CHECK(megatron->fixed.tp == 4);
  CHECK(names(megatron->unused, "`absent`"));
}

TEST_CASE("a word of the Trainer's counts the same in the command and in the file of arguments that it names") {
  const Stated moved = {{"gradient_checkpointing", "true"},   {"max_seq_length", "1024"}, {"bf16", "true"},
                        {"gradient_accumulation_steps", "4"}, {"use_peft", "true"},       {"fsdp", "full_shard"}};
  const char* programs[] = {"accelerate launch --num_processes 8 run_sft.py {0}",
                            "accelerate launch --num_processes 8 run_sft.py --config {0}",
                            "torchrun --nproc_per_node 8 -m a.trainer {0}", "trl sft --config {0} --num_processes 8"};
  for (const char* program : programs)
    for (const auto& word : moved) {
      const std::string &key = word.first, &value = word.second;
      CAPTURE(std::string(program));
      CAPTURE(key);
      const std::string words = " --per_device_train_batch_size 2 --model_name_or_path Qwen/Qwen2.5-7B";
      const auto start = [&](const std::string& file) { return fmt::format(fmt::runtime(program), file) + words; };
      Files files;
      files.folder.write("recipes/one.yaml", "learning_rate: 1.0e-5\n");
      files.folder.write("recipes/two.yaml", fmt::format("{}: {}\n", key, value));
      files.folder.write("recipes/other.yaml", fmt::format("{}: {}\n", key, value == "true" ? "false" : "64"));
      const std::string over = fmt::format(" --{} {}\n", key, value);
      const Result<LaunchJob> in_command = files.read("a.sh", start("recipes/one.yaml") + over);
      const Result<LaunchJob> in_file = files.read("b.sh", start("recipes/two.yaml") + "\n");
      const Result<LaunchJob> without = files.read("d.sh", start("recipes/one.yaml") + "\n");
      REQUIRE(in_command);
      REQUIRE(in_file);
      REQUIRE(without);
      CHECK(reading_of(*in_file) == reading_of(*in_command));
      CHECK(reading_of(*in_file) != reading_of(*without));
      if (key != "fsdp") {
        const Result<LaunchJob> both = files.read("c.sh", start("recipes/other.yaml") + over);
        REQUIRE(both);
        CHECK(reading_of(*both) == reading_of(*in_command));
      }
      CHECK(error_of("e.sh", start("recipes/absent.yaml") + "\n") == "missing_file");
    }
}

TEST_CASE("what only a program knows is a guess: the rank of its adapters, and what DeepSpeed shards") {
  const std::string kWords = " --model_name_or_path Qwen/Qwen2.5-7B --per_device_train_batch_size 2 --bf16 True ";
  for (const char* switches : {"--lora_enable True", "--use_lora True", "--use_peft_lora True"}) {
    CAPTURE(std::string(switches));
    const LaunchJob job = job_of("a.sh", "torchrun --nproc_per_node 8 train.py" + kWords + switches + "\n");
    CHECK(guesses(job, "lora_rank"));
    CHECK_FALSE(guesses(job_of("a.sh", "torchrun --nproc_per_node 8 train.py" + kWords + switches + " --lora_r 8\n"),
                        "lora_rank"));
  }
  CHECK_FALSE(guesses(job_of("a.sh", "trl sft --num_processes 8" + kWords + "--use_peft\n"), "lora_rank"));
  CHECK(guesses(job_of("a.sh", "deepspeed --num_gpus 8 --module a.trainer" + kWords + "\n"), "zero"));
  CHECK_FALSE(guesses(job_of("a.sh", "torchrun --nproc_per_node 8 train.py" + kWords + "\n"), "zero"));
}

TEST_CASE("all arguments of Megatron-LM may stand in the file of --yaml-cfg") {
  const Files files;
  files.folder.write("gpt.yaml",
                     "language_model:\n  num_layers: 32\n  hidden_size: 4096\n  num_attention_heads: 32\n"
                     "  recompute_granularity: full\n  recompute_method: uniform\n  recompute_num_layers: 1\n"
                     "  num_moe_experts: null\n  add_bias_linear: False\nmodel_parallel:\n"
                     "  tensor_model_parallel_size: 4\n  sequence_parallel: True\n  bf16: True\n"
                     "micro_batch_size: 2\nglobal_batch_size: 64\nseq_length: 2048\nmax_position_embeddings: 2048\n"
                     "vocab_size: 32000\ntokenizer_type: NullTokenizer\nuse_distributed_optimizer: True\n");
  const std::string script = "#!/bin/bash\ntorchrun --nnodes 2 --nproc-per-node 8 pretrain_gpt.py --yaml-cfg ";
  const Result<LaunchJob> job = files.read("run.sh", script + "gpt.yaml\n");
  REQUIRE_MESSAGE(job, (job ? "" : job.error().front().message));
  CHECK(job->gpus == 16);
  CHECK(job->fixed.tp == 4);
  CHECK(job->fixed.zero == 1);
  CHECK(job->fixed.recompute->kind == RecomputeKind::Full);
  CHECK(job->training->global_batch == 64);
  CHECK(job->model->depth() == 32);
  CHECK(error_of("run.sh", script + "other.yaml\n") == "missing_file");
}

}  // namespace plan
