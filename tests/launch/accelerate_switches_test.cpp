// Every name of accelerate's file is heard, but for those that this test lists because they change neither memory nor
// time of a step, and its ranks share the machines that it states.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/launch/small_files.hpp"

using namespace plan;
using namespace plan::launching;

namespace {

std::string yaml(const std::string& top, const std::string& fsdp, int machines = 1, int processes = 8) {
  return fmt::format(
      "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nmixed_precision: bf16\nnum_machines: {}\n"
      "num_processes: {}\n{}fsdp_config:\n  fsdp_version: 2\n{}",
      machines, processes, top, fsdp);
}

}  // namespace

TEST_CASE("names of accelerate's that weigh are told where nothing prices them, and their plain values are not") {
  struct Row {
    bool nested;
    std::string name, weighs, plain;
  };
  const std::vector<Row> rows = {
      {false, "use_cpu", "true", "false"},
      {false, "dynamo_config", "\n  dynamo_backend: INDUCTOR", "\n  dynamo_backend: 'no'"},
      {true, "fsdp_activation_checkpointing_offload", "true", "false"},
      {true, "fsdp_ignored_modules", "lm_head", "null"},
      {true, "fsdp_auto_wrap_policy", "NO_WRAP", "TRANSFORMER_BASED_WRAP"},
      {true, "fsdp_auto_wrap_policy", "SIZE_BASED_WRAP", "TRANSFORMER_BASED_WRAP"},
      {true, "fsdp_backward_prefetch", "NO_PREFETCH", "BACKWARD_PRE"},
  };
  const Files files;
  for (const Row& row : rows)
    for (const bool weighs : {false, true}) {
      const std::string line =
          fmt::format("{}{}: {}\n", row.nested ? "  " : "", row.name, weighs ? row.weighs : row.plain);
      CAPTURE(line);
      const Result<LaunchJob> job = files.read("acc.yaml", row.nested ? yaml("", line) : yaml(line, ""));
      REQUIRE(job);
      CHECK(names(job->unused, row.name) == weighs);
    }
}

// accelerate writes `fsdp_` before each key of fsdp_config that lacks it.
TEST_CASE("keys of fsdp_config count alike with and without their first word") {
  const Files files;
  for (const char* pair :
       {"sharding_strategy: FULL_SHARD", "sharding_strategy: SHARD_GRAD_OP", "sharding_strategy: NO_SHARD",
        "activation_checkpointing: true", "offload_params: true", "reshard_after_forward: false",
        "auto_wrap_policy: NO_WRAP", "backward_prefetch: NO_PREFETCH", "ignored_modules: lm_head",
        "cpu_ram_efficient_loading: true", "use_orig_params: true", "no_such_key: 3"})
    for (const int version : {1, 2}) {
      CAPTURE(pair);
      const std::string head = replaced(yaml("", ""), "fsdp_version: 2", fmt::format("fsdp_version: {}", version));
      const Result<LaunchJob> bare = files.read("acc.yaml", fmt::format("{}  {}\n", head, pair));
      const Result<LaunchJob> full = files.read("acc.yaml", fmt::format("{}  fsdp_{}\n", head, pair));
      REQUIRE(bare.has_value() == full.has_value());
      if (!bare) continue;
      CHECK(bare->fixed.zero == full->fixed.zero);
      CHECK(bare->fixed.recompute.has_value() == full->fixed.recompute.has_value());
      REQUIRE(bare->unused.size() == full->unused.size());
      for (std::size_t i = 0; i < bare->unused.size(); ++i) CHECK(bare->unused[i].text == full->unused[i].text);
    }
}

TEST_CASE("words of DeepSpeed's own file inside accelerate's are told, as accelerate does not hear them there") {
  const std::string head =
      "distributed_type: DEEPSPEED\nnum_machines: 1\nnum_processes: 8\nmixed_precision: bf16\ndeepspeed_config:\n"
      "  zero_stage: 2\n  gradient_accumulation_steps: 1\n";
  const Files files;
  const auto told = [&](const std::string& more, const std::string& word) {
    CAPTURE(more);
    const Result<LaunchJob> job = files.read("acc.yaml", head + more);
    REQUIRE(job);
    CHECK(job->fixed.zero == 2);
    return std::count_if(job->notes.begin(), job->notes.end(),
                         [&](const Note& note) { return note.text.find(word) != std::string::npos; });
  };
  CHECK(told("  zero_optimization:\n    stage: 3\n    overlap_comm: true\n", "zero_optimization") == 1);
  CHECK(told("  train_batch_size: 64\n", "train_batch_size") == 1);
  CHECK(told("  zero3_init_flag: false\n", "zero3_init_flag") == 0);
}

TEST_CASE("processes that a command leaves to its caller are not those of the file it names") {
  const TemporaryFolder folder;
  folder.write("acc.yaml", yaml("", ""));
  const auto gpus = [&](const std::string& words) {
    const std::string script = folder.write(
        "run.sh", fmt::format("#!/bin/bash\naccelerate launch --config_file acc.yaml {} train.py --model_name_or_path "
                              "Qwen/Qwen2.5-7B --per_device_train_batch_size 1 --bf16\n",
                              words));
    const Result<LaunchJob> job = read_launch_files({script});
    REQUIRE(job);
    return job->gpus;
  };
  CHECK(gpus("") == 8);
  CHECK(gpus("--num_processes 4") == 4);
  CHECK(gpus("--num_processes $COUNT") == 0);
}

TEST_CASE("degrees that do not multiply to the processes are refused at one of them") {
  const Files files;
  for (const char* degree : {"dp_replicate", "dp_shard", "tp", "cp", "sp"}) {
    CAPTURE(degree);
    const Result<LaunchJob> job = files.read(
        "acc.yaml", fmt::format("{}parallelism_config:\n  parallelism_config_{}_size: 3\n", yaml("", ""), degree));
    REQUIRE_FALSE(job);
    CHECK(job.error().front().message.find("acc.yaml:9: ") != std::string::npos);
  }
}

TEST_CASE("precision in the words of accelerate's first releases counts") {
  const Files files;
  const std::string text = yaml("fp16: true\n", "");
  const Result<LaunchJob> old = files.read("acc.yaml", replaced(text, "mixed_precision: bf16\n", ""));
  const Result<LaunchJob> present = files.read("acc.yaml", replaced(yaml("", ""), "bf16", "fp16"));
  REQUIRE(old);
  REQUIRE(present);
  CHECK(names(old->unused, "fp16") == names(present->unused, "fp16"));
}

TEST_CASE("ranks of accelerate's file share the machines that it states") {
  const Files files;
  for (const int machines : {1, 2, 3, 4, 8})
    for (const int each : {1, 2, 4, 8}) {
      CAPTURE(machines);
      CAPTURE(each);
      const std::string sharded = yaml("", "", machines, machines * each);
      const std::string deepspeed = fmt::format(
          "distributed_type: DEEPSPEED\nnum_machines: {}\nnum_processes: {}\nmixed_precision: bf16\n"
          "deepspeed_config:\n  zero_stage: 2\n  gradient_accumulation_steps: 1\n",
          machines, machines * each);
      for (const std::string& text : {sharded, deepspeed}) {
        const Result<LaunchJob> job = files.read("acc.yaml", text);
        REQUIRE(job);
        CHECK(job->gpus == machines * each);
        CHECK(job->gpus_per_node == (machines > 1 ? each : 0));
      }
    }
}

TEST_CASE("words that accelerate stops at are refused, and those that it takes are not") {
  struct Row {
    std::string line;  ///< of a file for FSDP2, in place of the one that has its key
    bool taken;
  };
  const std::string file =
      "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nmixed_precision: bf16\nnum_machines: 1\n"
      "num_processes: 8\nfsdp_config:\n  fsdp_version: 2\n  fsdp_state_dict_type: SHARDED_STATE_DICT\n"
      "parallelism_config:\n  parallelism_config_dp_shard_size: 4\n  parallelism_config_cp_size: 2\n"
      "  parallelism_config_cp_comm_strategy: alltoall\n";
  const std::vector<Row> rows = {{"mixed_precision: 'no'", true},
                                 {"mixed_precision: no", true},
                                 {"mixed_precision: fp16", true},
                                 {"mixed_precision: fp8", true},
                                 {"mixed_precision: bfloat16", false},
                                 {"mixed_precision: fp4", false},
                                 {"  fsdp_version: 3", false},
                                 {"  fsdp_version: '2'", true},
                                 {"  fsdp_state_dict_type: FULL_STATE_DICT", true},
                                 {"  fsdp_state_dict_type: LOCAL_STATE_DICT", false},
                                 {"  parallelism_config_cp_comm_strategy: allgather", true},
                                 {"  parallelism_config_cp_comm_strategy: ring", false}};
  const Files files;
  CHECK(files.read("acc.yaml", file));
  for (const Row& row : rows) {
    CAPTURE(row.line);
    const std::string key = row.line.substr(0, row.line.find(':') + 1);
    const std::size_t at = file.find(key);
    REQUIRE(at != std::string::npos);
    std::string changed = file;
    changed.replace(at, file.find('\n', at) - at, row.line);
    CHECK(files.read("acc.yaml", changed).has_value() == row.taken);
  }
}

TEST_CASE("degrees of accelerate's mesh that do not make up its processes are refused under FSDP and DeepSpeed") {
  const Files files;
  for (const std::string kind : {"FSDP", "DEEPSPEED"})
    for (const int copies : {1, 2, 4})
      for (const int shards : {1, 2, 4})
        for (const int ranks : {1, 2}) {
          const std::string sharding =
              kind == "FSDP" ? "fsdp_config:\n  fsdp_version: 2\n" : "deepspeed_config:\n  zero_stage: 3\n";
          const std::string split = kind == "FSDP" ? "cp" : "sp";
          const std::string text = fmt::format(
              "compute_environment: LOCAL_MACHINE\ndistributed_type: {}\nmixed_precision: bf16\nnum_machines: 1\n"
              "num_processes: 8\n{}parallelism_config:\n  parallelism_config_dp_replicate_size: {}\n"
              "  parallelism_config_dp_shard_size: {}\n  parallelism_config_{}_size: {}\n",
              kind, sharding, copies, shards, split, ranks);
          CAPTURE(text);
          const int product = copies * shards * ranks;
          const Result<LaunchJob> job = files.read("acc.yaml", text);
          REQUIRE(job.has_value() == (product == 8 || product == 1));
          if (!job) CHECK(job.error().front().code == "does_not_divide");
        }
}

TEST_CASE("a quantized base without an adapter is refused, as axolotl refuses it") {
  const std::string text = "base_model: Qwen/Qwen2.5-7B\nsequence_len: 2048\nmicro_batch_size: 1\nbf16: auto\n";
  for (const std::string more : {"", "deepspeed: deepspeed_configs/zero1.json\n"})
    for (const std::string bits : {"load_in_4bit: true\n", "load_in_8bit: true\n"}) {
      CHECK(error_of("a.yaml", text + more + bits, on(8)) == "conflicting_keys");
      const Files files;
      const Error error = files.read("a.yaml", text + more + bits, on(8)).error().front();
      const std::string adapter = bits.find("4bit") != std::string::npos ? "qlora" : "lora";
      REQUIRE(error.help.size() == 1);
      CHECK(error.help.front() == "add `adapter: " + adapter + "`, or turn it off");
      CHECK(job_of("a.yaml", text + more + bits + "adapter: " + adapter + "\nlora_r: 8\nlora_target_linear: true\n",
                   on(8))
                .training->lora.rank == 8);
      CHECK(error_of("a.yaml", text + more + bits + "adapter:\n", on(8)) == "conflicting_keys");
      CHECK(job_of("a.yaml", text + more + bits + "adapter: lora\nlora_r: 8\nlora_target_linear: true\n", on(8))
                .training->lora.rank == 8);
    }
}

TEST_CASE("a degree that leaves ranks over is refused under DeepSpeed as under FSDP") {
  const std::string sharding[] = {
      "distributed_type: DEEPSPEED\ndeepspeed_config: {zero_stage: 3}\n",
      "distributed_type: FSDP\nfsdp_config: {fsdp_version: 2, fsdp_reshard_after_forward: true}\n"};
  for (const std::string& kind : sharding)
    for (const int ranks : {2, 4, 8}) {
      const std::string text = fmt::format(
          "{}mixed_precision: bf16\nnum_machines: 1\nnum_processes: 8\nparallelism_config:\n"
          "  parallelism_config_sp_size: {}\n",
          kind, ranks);
      const Files files;
      const Result<LaunchJob> job = files.read("acc.yaml", text);
      CAPTURE(text);
      REQUIRE(job.has_value() == (ranks == 8));
      if (!job) CHECK(job.error().front().code == "does_not_divide");
    }
}
