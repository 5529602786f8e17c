// Every name of accelerate's file is heard, but for those that this test lists because they change neither memory nor
// time of a step, and its ranks share the machines that it states.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/launch/small_files.hpp"

using namespace plan;
using plan::launching::Files;
using plan::launching::names;

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
