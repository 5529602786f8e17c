// Nodes of another size than the preset of a GPU has: what launch files start on each node is the node.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cli/request/node_size.hpp"
#include "cli/request/options.hpp"
#include "cli/request/resolve.hpp"
#include "presets/store.hpp"
#include "temporary_folder.hpp"

using namespace plan;

namespace {

const std::string kJob =
    " pretrain_gpt.py --num-layers 32 --hidden-size 4096 --num-attention-heads 32 --seq-length 4096 "
    "--max-position-embeddings 4096 --micro-batch-size 1 --global-batch-size 64 --vocab-size 32000 --bf16 "
    "--tokenizer-type NullTokenizer --eval-interval 100 --train-iters 10\n";

Problem problem_of(int nodes, int each, std::vector<std::string> more = {"--gpu", "a100-sxm-80gb"}) {
  const TemporaryFolder folder;
  const std::string script =
      folder.write("run.sh", fmt::format("torchrun --nnodes {} --nproc-per-node {}{}", nodes, each, kJob));
  more.insert(more.begin(), {"--from", script});
  const Result<Problem> problem = resolve_problem(parse_arguments(more).value());
  REQUIRE_MESSAGE(problem, (problem ? "" : problem.error().front().message));
  return *problem;
}

bool says(const Problem& problem) {
  const auto node = [](const Input& input) { return input.key == "gpus_per_node"; };
  return std::any_of(problem.inputs.begin(), problem.inputs.end(), node);
}

}  // namespace

TEST_CASE("nodes are as large as the files start them, fast links among them alone") {
  for (const int nodes : {1, 2, 4, 16})
    for (const int each : {1, 2, 4, 8, 16}) {
      CAPTURE(nodes);
      CAPTURE(each);
      const Problem problem = problem_of(nodes, each);
      CHECK(problem.gpus == nodes * each);
      const bool one_node = nodes * each <= std::min(each, 8);
      CHECK(problem.cluster.gpus_per_node == (one_node ? 8 : each));
      CHECK(problem.cluster.scale_up_size() == problem.cluster.gpus_per_node);
      CHECK(says(problem) == (problem.cluster.gpus_per_node != 8));
    }
}

TEST_CASE("hardware that is named stays, and the answer names the difference") {
  const Problem named = problem_of(4, 4, {"--cluster", "dgx-a100"});
  CHECK(named.cluster.gpus_per_node == 8);
  REQUIRE_FALSE(named.unused.empty());
  CHECK(named.unused.front().text.find("nodes of 4 GPUs") != std::string::npos);
  CHECK(problem_of(4, 4, {"--gpu", "a100-sxm-80gb", "--gpus", "64"}).cluster.gpus_per_node == 8);
}

TEST_CASE("a domain wider than a node stays as it is") {
  const Problem wide = problem_of(4, 4, {"--gpu", "gb200"});
  CHECK(wide.cluster.scale_up_size() > 4);
  CHECK(wide.unused.empty());
}
