// Nodes of another size than the preset of a GPU has: what launch files start on each node is the node.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cli/request/flags/options.hpp"
#include "cli/request/node_size.hpp"
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

TEST_CASE("no other number of GPUs is made of one that is none, of a node's own, or within a wider domain") {
  for (const PresetEntry& entry : list_presets(PresetKind::Cluster, StoreOptions{})) {
    const Cluster whole = load_cluster(entry.name, StoreOptions{}).value().value;
    CAPTURE(entry.name);
    const bool wider = whole.tiers.empty() || whole.tiers.front().size != whole.gpus_per_node;
    for (const int per_node : {-1, 0, 1, 2, whole.gpus_per_node, 16}) {
      const Cluster cut = with_node_of(whole, per_node);
      const int wanted = wider || per_node <= 0 ? whole.gpus_per_node : per_node;
      CHECK(cut.gpus_per_node == wanted);
      if (!whole.tiers.empty()) CHECK(cut.tiers.front().size == (wider ? whole.tiers.front().size : wanted));
    }
  }
}

TEST_CASE("who names a GPU gets the memory of the cluster preset that it is priced as, by name and only if it is one") {
  const StoreOptions store = StoreOptions::from_environment();
  int assumed = 0;
  for (const PresetEntry& gpu : list_presets(PresetKind::Gpu, store)) {
    CAPTURE(gpu.name);
    Args args;
    args.model = "8b", args.gpus = gpu.name.starts_with("tpu") ? "64" : "8", args.gpu = gpu.name;
    const Result<Problem> problem = resolve_problem(args);
    REQUIRE(problem);
    std::vector<Bytes> known;
    for (const PresetEntry& entry : list_presets(PresetKind::Cluster, store)) {
      const Result<Cluster> cluster = parse_cluster(entry, store);
      if (!cluster || cluster->gpu.name != gpu.name || cluster->host_memory.value == 0) continue;
      if (cluster->tiers.front().bandwidth == problem->cluster.tiers.front().bandwidth &&
          cluster->tiers.back().bandwidth == problem->cluster.tiers.back().bandwidth)
        known.push_back(cluster->host_memory);
    }
    const auto input = std::find_if(problem->inputs.begin(), problem->inputs.end(),
                                    [](const Input& one) { return one.key == "host_memory"; });
    CHECK((input != problem->inputs.end()) == !known.empty());
    CHECK(problem->cluster.host_memory.value ==
          (known.empty() ? 0 : std::min_element(known.begin(), known.end())->value));
    if (known.empty()) continue;
    ++assumed;
    CHECK(input->origin == Origin::Preset);
    CHECK(load_cluster(input->where, store)->value.host_memory == problem->cluster.host_memory);
    args.host_memory = "100GiB";
    CHECK(resolve_problem(args)->cluster.host_memory.value == static_cast<std::int64_t>(100 * kGiB));
  }
  CHECK(assumed >= 8);
}
