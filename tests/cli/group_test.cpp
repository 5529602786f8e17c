// Groups of micro-batches in interleaved pipelines: what is written for a framework means the same group when it is
// read, and a script that Megatron refuses is refused.
#include <doctest/doctest.h>

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "check_files.hpp"

using namespace plan;

namespace {

using Words = std::vector<std::string>;
using Json = checks::Json;

/// Megatron's own check (forward_backward_pipelining_with_interleaving in schedules.py), read for this test.
bool megatron_takes(int group, int pp, int micro_batches) {
  if (group > micro_batches || group < pp) return false;
  const int left = micro_batches % group;
  return left == 0 || left >= pp;
}

std::string script(int micro_batches, const std::string& more) {
  return fmt::format(
      "torchrun --nproc-per-node 8 --nnodes 2 pretrain_gpt.py --num-layers 32 --hidden-size 4096 "
      "--num-attention-heads 32 --seq-length 4096 --max-position-embeddings 4096 --micro-batch-size 1 "
      "--global-batch-size {} --train-iters 10 --eval-interval 10 --vocab-size 32000 --bf16 "
      "--tensor-model-parallel-size 4 "
      "--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 4 {}\n",
      micro_batches, more);
}

checks::Ran estimated(const std::string& text) {
  std::ofstream("run.sh") << text;
  return checks::run({"estimate", "--from", "run.sh", "--cluster", "dgx-h100", "--accept-risk", "--json"});
}

}  // namespace

TEST_CASE("a script's group of micro-batches is its layout's, and one that Megatron refuses is refused") {
  const checks::Folder folder;
  for (int micro_batches = 2; micro_batches <= 18; ++micro_batches)
    for (const int group : {0, 2, 4, 5, 6, 8, 16}) {
      const std::string flag =
          group > 0 ? fmt::format("--microbatch-group-size-per-virtual-pipeline-stage {}", group) : "";
      CAPTURE(micro_batches);
      CAPTURE(group);
      const checks::Ran ran = estimated(script(micro_batches, flag));
      CAPTURE(ran.err);
      const int taken = group > 0 ? group : 4;  // pp, where the script says nothing
      if (!megatron_takes(taken, 4, micro_batches)) {
        CHECK(ran.status == 1);
        CHECK(ran.err.find("the layout is not possible: the schedule accepts pp, vp and the number of") !=
              std::string::npos);
        continue;
      }
      REQUIRE(ran.status <= 1);
      CHECK(Json::parse(ran.out)["best"]["layout"]["group"] == taken);
    }
}

TEST_CASE("larger groups hold more and idle no less") {
  const checks::Folder folder;
  double peak = 0, step = 0;
  for (const int group : {4, 8, 16}) {
    const checks::Ran ran =
        estimated(script(16, fmt::format("--microbatch-group-size-per-virtual-pipeline-stage {}", group)));
    REQUIRE(ran.status <= 1);
    const Json json = Json::parse(ran.out)["best"];
    CHECK(json["memory"]["peak_bytes"].get<double>() > peak);
    CHECK(json["step_time_s"].get<double>() >= step * 0.99);
    peak = json["memory"]["peak_bytes"], step = json["step_time_s"];
  }
}

TEST_CASE("the group of a layout is written into every file of Megatron's and comes back") {
  for (const std::string kind : {"megatron-lm", "flagscale", "megatron-bridge", "verl", "ms-swift"})
    for (const std::pair<int, int>& sizes : {std::pair{16, 8}, std::pair{10, 5}, std::pair{12, 4}}) {
      const int batch = sizes.first, group = sizes.second;
      CAPTURE(kind);
      CAPTURE(batch);
      const checks::Folder folder;
      const std::string layout = fmt::format("tp4,pp4,vp2,dp1,mb1{}", group == 8 ? ",group8" : "");
      const Words job = {"emit",
                         kind,
                         "-o",
                         "a",
                         "--model",
                         "llama3-8b",
                         "--gpus",
                         "16",
                         "--global-batch",
                         fmt::format("{}", batch),
                         "--seq",
                         "4096",
                         "--layout",
                         layout};
      const checks::Ran written = checks::run(job);
      CAPTURE(written.err);
      REQUIRE(written.status == 0);
      Words from = {"estimate", "--cluster", "dgx-h100", "--json"};
      for (const auto& entry : std::filesystem::recursive_directory_iterator("a"))
        if (entry.is_regular_file()) from.insert(from.end(), {"--from", entry.path().string()});
      const checks::Ran read = checks::run(from);
      CAPTURE(read.err);
      REQUIRE(read.status <= 1);
      CHECK(Json::parse(read.out)["best"]["layout"]["group"] == group);
    }
}
