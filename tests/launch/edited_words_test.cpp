// Words of launch files as people mistype, compute and leave them out: a number that is none is refused by its name,
// one that a script works out is the same as written, and what one file starts besides is told.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "small_files.hpp"

namespace plan {

using namespace launching;

namespace {

/// A file of a tool's in which `{}` stands for the number of a key.
struct Counted {
  const char* file;
  const char* text;
  const char* key;
  const char* number;
};

constexpr const char* kVerl =
    "python3 -m verl.trainer.main_ppo --config-name=ppo_megatron_trainer.yaml trainer.nnodes=2 "
    "trainer.n_gpus_per_node=8 actor_rollout_ref.model.path=meta-llama/Meta-Llama-3-8B "
    "actor_rollout_ref.actor.megatron.tensor_model_parallel_size=4 actor_rollout_ref.actor.ppo_mini_batch_size=128 "
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=2 data.max_prompt_length=1024 "
    "data.max_response_length=3072 actor_rollout_ref.rollout.n=8 actor_rollout_ref.model.lora.rank=16\n";
constexpr const char* kSkyRl =
    "python -m skyrl_train.entrypoints.main_base trainer.strategy=megatron "
    "trainer.policy.model.path=meta-llama/Meta-Llama-3-8B trainer.placement.policy_num_nodes=1 "
    "trainer.placement.policy_num_gpus_per_node=8 trainer.policy.megatron_config.tensor_model_parallel_size=2 "
    "trainer.policy_mini_batch_size=64 trainer.max_prompt_length=512 "
    "generator.sampling_params.max_generate_length=1024 generator.n_samples_per_prompt=8 "
    "trainer.micro_train_batch_size_per_gpu=1\n";
constexpr const char* kSwift =
    "NPROC_PER_NODE=8 megatron rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --tensor_model_parallel_size 2 "
    "--micro_batch_size 1 --global_batch_size 16 --max_length 4096 --max_completion_length 1024 --tuner_type lora "
    "--lora_rank 16\n";
constexpr const char* kOpenRlhf =
    "python3 -m openrlhf.cli.train_ppo_ray --actor_num_nodes 1 --actor_num_gpus_per_node 8 --pretrain "
    "meta-llama/Meta-Llama-3-8B --train_batch_size 128 --micro_train_batch_size 2 --prompt_max_len 1024 "
    "--generate_max_len 512 --zero_stage 3 --bf16\n";
constexpr const char* kChat =
    "deepspeed --num_gpus 8 main.py --actor_model_name_or_path meta-llama/Meta-Llama-3-8B "
    "--critic_model_name_or_path facebook/opt-350m --per_device_train_batch_size 2 --max_prompt_seq_len 256 "
    "--max_answer_seq_len 128 --actor_zero_stage 2 --dtype bf16\n";
constexpr const char* kNeox =
    "{\"pipe_parallel_size\": 2, \"model_parallel_size\": 1, \"num_layers\": 12, \"hidden_size\": 768,\n"
    " \"num_attention_heads\": 12, \"seq_length\": 2048, \"max_position_embeddings\": 2048, \"num_gpus\": 8,\n"
    " \"train_micro_batch_size_per_gpu\": 4, \"gradient_accumulation_steps\": 2}\n";

constexpr Counted kCounted[] = {
    {"verl.sh", kVerl, "data.max_response_length", "3072"},
    {"verl.sh", kVerl, "data.max_prompt_length", "1024"},
    {"verl.sh", kVerl, "actor_rollout_ref.actor.ppo_mini_batch_size", "128"},
    {"verl.sh", kVerl, "actor_rollout_ref.rollout.n", "8"},
    {"verl.sh", kVerl, "actor_rollout_ref.model.lora.rank", "16"},
    {"verl.sh", kVerl, "trainer.n_gpus_per_node", "8"},
    {"verl.sh", kVerl, "trainer.nnodes", "2"},
    {"skyrl.sh", kSkyRl, "generator.sampling_params.max_generate_length", "1024"},
    {"skyrl.sh", kSkyRl, "trainer.max_prompt_length", "512"},
    {"skyrl.sh", kSkyRl, "trainer.policy_mini_batch_size", "64"},
    {"skyrl.sh", kSkyRl, "generator.n_samples_per_prompt", "8"},
    {"swift.sh", kSwift, "max_completion_length", "1024"},
    {"swift.sh", kSwift, "lora_rank", "16"},
    {"openrlhf.sh", kOpenRlhf, "prompt_max_len", "1024"},
    {"openrlhf.sh", kOpenRlhf, "generate_max_len", "512"},
    {"openrlhf.sh", kOpenRlhf, "actor_num_gpus_per_node", "8"},
    {"chat.sh", kChat, "max_prompt_seq_len", "256"},
    {"chat.sh", kChat, "max_answer_seq_len", "128"},
    {"neox.yml", kNeox, "pipe_parallel_size", "2"},
    {"neox.yml", kNeox, "gradient_accumulation_steps", "2"},
};

/// The file with another word for the key's number.
std::string with(const Counted& row, const std::string& word) {
  const std::string text = row.text, key = row.key;
  const std::size_t name = text.find(key), at = text.find(row.number, name + key.size());
  REQUIRE(name != std::string::npos);
  REQUIRE(at == name + key.size() + (row.file == std::string("neox.yml") ? 3 : 1));
  return std::string(text).replace(at, std::string(row.number).size(), word);
}

/// What a reading says of batch, length, adapters and GPUs.
std::string facts(const LaunchJob& job) {
  return fmt::format("{} {} {} {}", job.training->seq, job.training->global_batch, job.training->lora.rank, job.gpus);
}

bool refuses(const Counted& row, const std::string& word) {
  const Files files;
  const Result<LaunchJob> job = files.read(row.file, with(row, word), on(0));
  if (job) return false;
  return std::any_of(job.error().begin(), job.error().end(),
                     [&](const Error& error) { return error.message.find(row.key) != std::string::npos; });
}

}  // namespace

TEST_CASE("a word for a number that is none is refused by its key, whatever digits it starts with") {
  for (const Counted& row : kCounted) {
    CAPTURE(row.key);
    for (const std::string& word :
         {std::string(row.number) + "x", std::string("many"), std::string("1.5"), std::string("-4")})
      CHECK_MESSAGE(refuses(row, word), word);
  }
}

TEST_CASE("a number that a script does not have is refused by its key, and GPUs are asked for") {
  for (const Counted& row : kCounted) {
    const std::string key = row.key;
    if (row.file == std::string("neox.yml")) continue;
    CAPTURE(key);
    // How many GPUs there are is asked for; who states them needs no more.
    const bool asked = key == "trainer.nnodes" || key == "trainer.n_gpus_per_node" || key == "actor_num_gpus_per_node";
    CHECK(refuses(row, "$NOWHERE") != asked);
    if (asked) CHECK(job_of(row.file, with(row, "$NOWHERE")).gpus == 0);
  }
}

TEST_CASE("a number that a script works out is that number") {
  for (const Counted& row : kCounted) {
    if (row.file == std::string("neox.yml")) continue;
    CAPTURE(row.key);
    const std::string plain = facts(job_of(row.file, row.text));
    for (const char* form : {"$(({}*4/4))", "$[{}*4/4]", "${{NOWHERE:-{}}}", "\"{}\""})
      CHECK(facts(job_of(row.file, with(row, fmt::format(fmt::runtime(form), row.number)))) == plain);
    CHECK(facts(job_of(row.file, with(row, fmt::format("$(({}*2))", row.number)))) != plain);
  }
}

TEST_CASE("a length that is stated twice is the last one") {
  const std::string twice =
      std::string(kChat).replace(std::string(kChat).find("--max_answer"), 0, "--max_prompt_seq_len 512 ");
  CHECK(job_of("chat.sh", twice).training->seq == 512 + 128);
}

TEST_CASE("a misspelt flag of OpenRLHF's is told, whose default would stand in its place") {
  for (const auto& [word, slip] : {std::pair{"--prompt_max_len", "--prompt_max_lne"},
                                   {"--micro_train_batch_size", "--micro_train_bacth_size"},
                                   {"--train_batch_size", "--train_batch_szie"}})
    CHECK(names(job_of("openrlhf.sh", replaced(kOpenRlhf, word, slip)).unused, std::string(slip).substr(2)));
}

TEST_CASE("another training of a script is left out and told, whatever tool it starts") {
  const std::string config =
      "model_name_or_path: meta-llama/Meta-Llama-3-8B\nstage: {}\ndo_train: true\nfinetuning_type: full\n"
      "dataset: a\ncutoff_len: {}\nper_device_train_batch_size: 1\ngradient_accumulation_steps: 1\nbf16: true\n";
  const Files files;
  files.folder.write("sft.yaml", fmt::format(fmt::runtime(config), "sft", 1024));
  files.folder.write("dpo.yaml", fmt::format(fmt::runtime(config), "dpo", 4096));
  files.folder.write("acc.yaml", "distributed_type: MULTI_GPU\ncompute_environment: LOCAL_MACHINE\nnum_processes: 8\n");
  const auto read = [&](const std::string& text) {
    const Result<LaunchJob> job = files.read("run.sh", text, on(8));
    REQUIRE(job);
    return *job;
  };
  for (const char* start : {"llamafactory-cli train ", "torchrun --nproc_per_node 8 src/train.py "}) {
    CAPTURE(start);
    const std::string one = std::string(start) + "sft.yaml\n", two = std::string(start) + "dpo.yaml\n";
    CHECK_FALSE(names(read(one).unused, "another training"));
    CHECK_FALSE(names(read(one + one).unused, "another training"));
    const LaunchJob job = read(one + "sleep 60\n" + two);
    CHECK(names(job.unused, "another training, of `dpo.yaml`"));
    CHECK(job.training->seq == 1024);
    CHECK_FALSE(names(job.unused, "pairs of answers"));
  }
  const std::string launched = "accelerate launch --config_file acc.yaml src/train.py sft.yaml\n";
  CHECK_FALSE(names(read(launched).unused, "another training"));
  // What starts the training that is left out says nothing of the one that counts.
  files.folder.write("more.yaml",
                     "distributed_type: MULTI_GPU\ncompute_environment: LOCAL_MACHINE\nnum_processes: 16\n");
  const std::string left_out = "accelerate launch --config_file more.yaml src/train.py dpo.yaml\n";
  const Result<LaunchJob> both = files.read("run.sh", launched + left_out, on(0));
  REQUIRE(both);
  CHECK(both->gpus == 8);
  CHECK(names(both->unused, "another training, of `dpo.yaml`"));
}

TEST_CASE("a program whose name is what it trains beside its model is told, and its flags say more") {
  const auto read = [](const std::string& program, const std::string& more = "") {
    return job_of("run.sh", "torchrun --nproc_per_node 8 --nnodes 1 " + program +
                                " --model_name_or_path meta-llama/Meta-Llama-3-8B --per_device_train_batch_size 1 "
                                "--max_seq_length 1024 --bf16 True " +
                                more + "\n");
  };
  for (const char* program : {"open_instruct/dpo_tune_cache.py", "train_rm.py", "scripts/run-kto.py",
                              "step2_reward_model_finetuning/main.py", "orpo/train.py"})
    CHECK_MESSAGE(names(read(program).unused, "by its name"), program);
  for (const char* program : {"finetune.py", "simpo/run_sft.py", "storm.py", "main.py", "train.py"})
    CHECK_MESSAGE(!names(read(program).unused, "by its name"), program);
  CHECK_FALSE(names(read("train_dpo.py", "--beta 0.1").unused, "by its name"));
  CHECK(names(read("train_dpo.py", "--beta 0.1").unused, "pairs of answers"));
}

TEST_CASE("a switch that is off and switches adapters off says that they are trained") {
  const std::string run =
      "torchrun --nproc_per_node 8 --nnodes 1 train.py --model_name_or_path meta-llama/Meta-Llama-3-8B "
      "--per_device_train_batch_size 1 --max_seq_length 1024 --bf16 True ";
  for (const char* key : {"nolora", "no_lora", "disable_lora"}) {
    CAPTURE(key);
    CHECK(names(job_of("run.sh", fmt::format("{}--{} False\n", run, key)).unused, key));
    CHECK_FALSE(names(job_of("run.sh", fmt::format("{}--{} True\n", run, key)).unused, key));
  }
  CHECK_FALSE(names(job_of("run.sh", run + "--my_lora False\n").unused, "my_lora"));
}

TEST_CASE("lengths of a prompt and of its answer make one where no length is stated") {
  const auto seq = [](const std::string& more) {
    const LaunchJob job = job_of("run.sh",
                                 "torchrun --nproc_per_node 8 --nnodes 1 main.py --model_name_or_path "
                                 "meta-llama/Meta-Llama-3-8B --per_device_train_batch_size 1 --bf16 True " +
                                     more + "\n");
    return job.training->seq;
  };
  CHECK(seq("--max_source_length 64 --max_target_length 128") == 192);
  CHECK(seq("--max_source_length 64 --max_target_length 128 --max_seq_length 512") == 512);
  CHECK(seq("--num_generations 8 --max_prompt_length 1024") == 1024 + 256);
  CHECK(seq("--num_generations 8 --max_prompt_length 1024 --max_completion_length 64") == 1024 + 64);
}

TEST_CASE("files that train nothing, and those of no known tool, are not taken for another's") {
  CHECK(error_of("trainer_state.json",
                 "{\n  \"global_step\": 25,\n  \"log_history\": [],\n  "
                 "\"train_batch_size\": 2\n}\n") == "unknown_format");
  CHECK(error_of("base.yaml",
                 "seq_length: 4096\nper_device_batch_size: 1\ngradient_checkpointing: true\n"
                 "steps: 500\n") == "unknown_format");
  const LaunchJob job = job_of("eval.yaml",
                               "model_name_or_path: meta-llama/Meta-Llama-3-8B\nstage: sft\ndo_train: false\n"
                               "finetuning_type: lora\ncutoff_len: 1024\nper_device_train_batch_size: 1\n"
                               "learning_rate: !!float 1e-5\nbf16: true\n",
                               on(8));
  CHECK(names(job.unused, "do_train"));
}

}  // namespace plan
