// Cluster files with several kinds of GPU: what they say, what is wrong with them and where.
#include <doctest/doctest.h>

#include "embedded_only.hpp"
#include "presets/reader.hpp"
#include "presets/store.hpp"

using namespace plan;

namespace {

Result<PooledCluster> read(const std::string& text) {
  return parse_pools({"mixed", {}, "mixed.yaml", text}, kEmbeddedOnly);
}

const std::string kHead = "preset: cluster/1\nname: mixed\npools:\n";
const std::string kSlow = "  - {gpus: 16, gpu: a100-sxm-80gb}\n";
const std::string kFast = "  - {gpus: 8, gpu: h100-sxm}\n";
const std::string kThird = "  - {gpus: 8, cluster: dgx-v100, name: old}\n";

/// Code and line of the first mistake.
std::pair<std::string, int> mistake(const std::string& text) {
  const Result<PooledCluster> found = read(text);
  if (found) return {"", 0};
  return {found.error().front().code, found.error().front().place.line};
}

}  // namespace

TEST_CASE("pools: a GPU in its usual cluster, a cluster by name, and one that is spelt out") {
  const std::string text = kHead + kSlow +
                           "  - cluster: dgx-h100\n    gpus: 8\n"
                           "  - name: ours\n    gpus: 4\n    gpu: v100-sxm2-16gb\n    gpus_per_node: 4\n    pue: 1.5\n"
                           "    tiers:\n      - {name: nvlink, size: 4, bandwidth: 100 GB/s}\n"
                           "      - {name: net, size: all, bandwidth: 5 GB/s}\n"
                           "link: {bandwidth: 10 GB/s, latency: 20 us, oversubscription: 2}\n"
                           "links:\n  - {between: [ours, dgx-h100], bandwidth: 1 GB/s}\n";
  const Result<PooledCluster> found = read(text);
  REQUIRE(found);
  REQUIRE(found->pools.size() == 3);
  CHECK(found->gpus() == 28);
  const Cluster usual = load_cluster_of_gpu("a100-sxm-80gb", kEmbeddedOnly)->value;
  const Cluster named = load_cluster("dgx-h100", kEmbeddedOnly)->value;
  CHECK(write_cluster(found->pools[0].cluster) == write_cluster(usual));
  CHECK(write_cluster(found->pools[1].cluster) == write_cluster(named));
  CHECK(found->pools[1].cluster.gpu.gemm[0][0].fit.rate.value == named.gpu.gemm[0][0].fit.rate.value);
  const Cluster& own = found->pools[2].cluster;
  CHECK(own.name == "ours");
  CHECK(own.gpus_per_node == 4);
  CHECK(own.pue == 1.5);
  CHECK(own.tiers[1].bandwidth.value == 5e9);
  CHECK(!own.gpu.efficiency.empty() == !load_gpu("v100-sxm2-16gb", kEmbeddedOnly)->value.efficiency.empty());
  REQUIRE(found->link);
  CHECK(found->link->bandwidth.value == 10e9);
  CHECK(found->link->latency.value == doctest::Approx(20e-6));
  CHECK(found->link->oversubscription == 2);
  REQUIRE(found->links.size() == 1);
  CHECK(found->links[0].one == 1);
  CHECK(found->links[0].other == 2);
  CHECK(found->links[0].tier.bandwidth.value == 1e9);
  const std::string written = write_pooled_cluster(*found, "source");
  const Result<PooledCluster> again = read(written);
  REQUIRE(again);
  CHECK(write_pooled_cluster(*again, "source") == written);
}

TEST_CASE("pools: every mistake has its place") {
  using Pair = std::pair<std::string, int>;
  const std::string two = kHead + kSlow + kFast, three = two + kThird, link = "link: {bandwidth: 10 GB/s}\n";
  CHECK(mistake(two) == Pair{"", 0});
  CHECK(mistake(three + link) == Pair{"", 0});
  CHECK(mistake(kHead + kSlow) == Pair{"out_of_range", 4});
  CHECK(mistake(kHead + "  - {gpus: 0, gpu: h100-sxm}\n" + kSlow) == Pair{"out_of_range", 4});
  CHECK(mistake(kHead + "  - {gpu: h100-sxm}\n" + kSlow) == Pair{"missing_key", 4});
  CHECK(mistake(kHead + kSlow + "  - {gpus: 8, gpu: h1000}\n") == Pair{"unknown_gpu", 5});
  CHECK(mistake(kHead + kSlow + "  - {gpus: 8, cluster: dgx-h1000}\n") == Pair{"unknown_cluster", 5});
  CHECK(mistake(kHead + kSlow + "  - {gpus: 8}\n") == Pair{"missing_key", 5});
  CHECK(mistake(kHead + kSlow + "  - {gpus: 8, cluster: dgx-h100, gpu: h100-sxm}\n") == Pair{"unknown_key", 5});
  CHECK(mistake(kHead + kSlow + "  - {gpus: 8, gpu: h100-sxm, node: 8}\n") == Pair{"unknown_key", 5});
  CHECK(mistake(kHead + kSlow + "  - {gpus: 8, gpu: h100-sxm, gpus_per_node: 8}\n") == Pair{"missing_key", 5});
  CHECK(mistake(two + kSlow) == Pair{"conflict", 6});
  CHECK(mistake(kHead + kSlow + "  - {gpus: 8, gpu: h100-sxm, name: a100-sxm-80gb}\n") == Pair{"conflict", 5});
  CHECK(mistake(kHead + kSlow + "  - {gpus: 8, gpu: tpu-v5p}\n") == Pair{"bad_value", 5});
  CHECK(mistake(two + "gpu: h100-sxm\n") == Pair{"unknown_key", 6});
  CHECK(mistake(two + "link: 10 GB/s\n").second == 6);
  CHECK(mistake(two + "link: {bandwidth: 10}\n") == Pair{"missing_unit", 6});
  CHECK(mistake(two + "link: {bandwidth: 0 GB/s}\n") == Pair{"out_of_range", 6});
  CHECK(mistake(two + "link: {bandwidth: 10 GB/s, size: 8}\n") == Pair{"unknown_key", 6});
  const auto own = [](const std::string& between) {
    return "links:\n  - {between: [" + between + "], bandwidth: 1 GB/s}\n";
  };
  CHECK(mistake(three + own("old, h100-sxm")) == Pair{"", 0});
  CHECK(mistake(three + own("old, h100")) == Pair{"unknown_pool", 8});
  CHECK(mistake(three + own("old, old")) == Pair{"bad_value", 8});
  CHECK(mistake(three + own("old")) == Pair{"bad_value", 8});
  CHECK(mistake(three + own("old, h100-sxm") + "  - {between: [h100-sxm, old], bandwidth: 2 GB/s}\n") ==
        Pair{"conflict", 9});
  CHECK(mistake(two + link + own("a100-sxm-80gb, h100-sxm")) == Pair{"conflict", 6});
}

TEST_CASE("pools: who asks for a cluster of one kind is told") {
  const auto lookup = [](std::string_view name) {
    return load_gpu(name, kEmbeddedOnly).map([](auto f) { return f.value; });
  };
  const Result<Cluster> one = read_cluster(kHead + kSlow + kFast, "mixed.yaml", lookup);
  REQUIRE_FALSE(one);
  CHECK(one.error().front().code == "several_pools");
  CHECK(one.error().front().place.line == 4);
}
