// The Trainer's own `fsdp` and `fsdp_config`: in flags, in a file, in both forms of the file's names.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <array>
#include <string>

#include "tests/launch/small_files.hpp"

using namespace plan;
using plan::launching::Files;

namespace {

const std::string kStart =
    "torchrun --nnodes 2 --nproc_per_node 8 train.py --model_name_or_path meta-llama/Llama-3.1-8B "
    "--per_device_train_batch_size 1 --bf16 True ";

LaunchJob read_in(const Files& files, const std::string& name, const std::string& text) {
  const Result<LaunchJob> job = files.read(name, text);
  REQUIRE_MESSAGE(job, (job ? "" : job.error().front().message));
  return *job;
}

}  // namespace

TEST_CASE("words of the Trainer's --fsdp say what is sharded and what lies on the host") {
  struct Row {
    std::string words;
    int zero, shard;
    bool offload;
  };
  const std::array rows = {
      Row{"\"full_shard auto_wrap\"", 3, 0, false},        Row{"\"shard_grad_op auto_wrap\"", 2, 0, false},
      Row{"\"full_shard offload auto_wrap\"", 3, 0, true}, Row{"no_shard", 0, 0, false},
      Row{"\"hybrid_shard auto_wrap\"", 3, 8, false},      Row{"\"hybrid_shard_zero2\"", 2, 8, false}};
  for (const Row& row : rows) {
    CAPTURE(row.words);
    const LaunchJob job = read_in(Files(), "run.sh", kStart + "--fsdp " + row.words + "\n");
    CHECK(job.fixed.zero == row.zero);
    CHECK(job.fixed.shard == row.shard);
    CHECK(job.training->offload.parameters == row.offload);
  }
}

TEST_CASE("fsdp_config is read from a file, from the flag and from a section, with and without fsdp_ in its names") {
  for (const char* prefix : {"", "fsdp_"}) {
    const std::string json = fmt::format(
        "{{\"{0}activation_checkpointing\": true, \"{0}version\": 2, \"{0}reshard_after_forward\": false}}", prefix);
    Files beside;
    beside.folder.write("fsdp.json", json);
    const std::string yaml = fmt::format(
        "model_name_or_path: meta-llama/Llama-3.1-8B\nper_device_train_batch_size: 1\nfsdp: full_shard\n"
        "fsdp_config:\n  {0}activation_checkpointing: true\n  {0}version: 2\n  {0}reshard_after_forward: false\n",
        prefix);
    const LaunchJob jobs[] = {read_in(beside, "run.sh", kStart + "--fsdp full_shard --fsdp_config fsdp.json\n"),
                              read_in(Files(), "run.sh", kStart + "--fsdp full_shard --fsdp_config '" + json + "'\n"),
                              read_in(Files(), "args.yaml", yaml)};
    for (const LaunchJob& job : jobs) {
      CHECK(job.fixed.zero == 2);
      CHECK(job.fixed.recompute->kind == RecomputeKind::Full);
    }
  }
}

TEST_CASE("accelerate's file may name the first version's strategy under either of two keys") {
  for (const char* key : {"fsdp_sharding_strategy", "fsdp_reshard_after_forward"}) {
    CAPTURE(key);
    const LaunchJob job = read_in(Files(), "acc.yaml",
                                  fmt::format("compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\n"
                                              "num_processes: 8\nfsdp_config:\n  {}: SHARD_GRAD_OP\n",
                                              key));
    CHECK(job.fixed.zero == 2);
  }
}

TEST_CASE("an fsdp_config that cannot be opened is an error that names it") {
  const Result<LaunchJob> job = Files().read("run.sh", kStart + "--fsdp full_shard --fsdp_config gone.json\n");
  REQUIRE_FALSE(job);
  CHECK(job.error().front().message.find("gone.json") != std::string::npos);
}

TEST_CASE("a process alone has nobody to share FSDP's shards with") {
  for (const int version : {1, 2})
    for (const int processes : {1, 2, 8}) {
      CAPTURE(version);
      CAPTURE(processes);
      const LaunchJob job = read_in(Files(), "acc.yaml",
                                    fmt::format("compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\n"
                                                "num_processes: {}\nfsdp_config:\n  fsdp_version: {}\n",
                                                processes, version));
      CHECK(job.fixed.zero == (processes == 1 ? 0 : 3));
    }
}

TEST_CASE("LLaMA-Factory's second generation shares a sequence by Ulysses under FSDP2, wherever it is stated") {
  for (const int cp : {1, 2, 4, 8})
    for (const bool nested : {false, true}) {
      const std::string indent = nested ? "  " : "";
      const std::string text = fmt::format(
          "model: Qwen/Qwen2.5-7B\nmodel_class: llm\nmicro_batch_size: 1\nglobal_batch_size: 16\ncutoff_len: 8192\n"
          "bf16: true\ndist_config:\n  name: fsdp2\n{}cp_mode: ulysses\n{}cp_size: {}\n",
          indent, indent, cp);
      CAPTURE(text);
      const LaunchJob job = launching::job_of("v1.yaml", text, launching::on(8));
      CHECK(job.fixed.cp == cp);
      CHECK(job.fixed.dp == 8 / cp);
      CHECK(job.fixed.zero == 3);
      CHECK(job.framework == (cp > 1 ? Framework::Any : Framework::Accelerate));  // accelerate has none under FSDP
      if (cp > 1) CHECK(job.fixed.cp_kind == CpKind::Ulysses);
    }
}
