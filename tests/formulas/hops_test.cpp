#include "formulas/hops.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "formulas/absurdity.hpp"
#include "formulas/efficiency.hpp"
#include "formulas/parameters.hpp"

using namespace plan;

TEST_CASE("of hops that differ the worst stretch sets the pace, by trying every stretch") {
  std::mt19937 random(4);
  for (int round = 0; round < 300; ++round) {
    const int ranks = 2 + static_cast<int>(random() % 9);
    std::vector<Seconds> each;
    for (int r = 0; r < ranks; ++r)
      each.emplace_back(1e-3 * (random() % 3 == 0 ? 1 + static_cast<double>(random() % 9) : 1));
    const Hops hops(each);
    const bool alike = std::all_of(each.begin(), each.end(), [&](Seconds s) { return s == each[0]; });
    CHECK(hops.uniform() == alike);
    double sum = 0, slowest = 0;
    for (int r = 0; r < ranks; ++r) {
      CHECK(hops.before(r) == doctest::Approx(sum));
      sum += each[static_cast<std::size_t>(r)].value;
      slowest = std::max(slowest, each[static_cast<std::size_t>(r)].value);
    }
    CHECK(hops.ring(ranks) == doctest::Approx(sum));
    CHECK(hops.slowest().value == slowest);
    for (int r = 0; r + 1 < ranks; ++r) {
      CHECK(hops.between(r, r + 1).value == doctest::Approx(each[static_cast<std::size_t>(r)].value));
      CHECK(hops.between(r + 1, r).value == doctest::Approx(each[static_cast<std::size_t>(r)].value));
      CHECK(hops.before(r) + hops.after(r, ranks) == doctest::Approx(sum - each.back().value));
    }
    if (ranks > 2) CHECK(hops.between(ranks - 1, 0).value == doctest::Approx(each.back().value));
    if (alike) continue;
    CHECK(hops.mean() == doctest::Approx((sum - each.back().value) / (ranks - 1)));
    double worst = 0;
    for (int a = 0; a < ranks; ++a)
      for (int b = a + 1; b < ranks; ++b) {
        double way = 0;
        for (int r = a; r < b; ++r) way += each[static_cast<std::size_t>(r)].value;
        worst = std::max(worst, way / (b - a + 1));
      }
    CHECK(hops.steady() == doctest::Approx(worst * ranks / (ranks - 1)));
  }
}

TEST_CASE("groups between two that were measured take times between theirs, the nearer one's more") {
  Cluster cluster;
  cluster.tiers = {{.name = "nvlink", .size = 64, .bandwidth = BytesPerSecond(4e11)}};
  cluster.gpu.scale_up = cluster.tiers[0].bandwidth;
  for (const Collective op : {Collective::AllReduce, Collective::AllGather, Collective::AllToAll}) {
    cluster.gpu.collectives = {{.op = op, .ranks = 4, .alpha = Seconds(1e-5), .busbw = BytesPerSecond(3e11), .p = 1},
                               {.op = op, .ranks = 32, .alpha = Seconds(1e-5), .busbw = BytesPerSecond(1e11), .p = 1}};
    const auto bus_rate = [&](int ranks) {
      return 1e9 * wire_factor(op, ranks) / collective_time(cluster, op, RealBytes(1e9), {ranks, 1}).value;
    };
    const double near = bus_rate(4), far = bus_rate(32);
    CHECK(near > 2.5 * far);
    double before = near;
    for (const int ranks : {5, 6, 8, 12, 16, 24, 31}) {
      const double rate = bus_rate(ranks);
      CHECK(rate < before);
      CHECK(rate > far);
      before = rate;
    }
    CHECK(bus_rate(5) - far > 0.7 * (near - far));
    CHECK(bus_rate(31) - far < 0.3 * (near - far));
  }
}

TEST_CASE("a model is absurd from a number of parameters on, whatever part of it they are in") {
  std::mt19937 random(8);
  for (int round = 0; round < 400; ++round) {
    Model model;
    model.hidden = std::int64_t{1} << (4 + random() % 16);
    model.vocab = std::int64_t{1} << (4 + random() % 20);
    Layer layer;
    layer.attention = {
        .heads = std::int64_t{1} << (random() % 14), .kv_heads = 1, .head_dim = std::int64_t{1} << (2 + random() % 14)};
    if (random() % 2 == 0) {
      layer.ffn = Ffn::Moe;
      layer.moe.experts = std::int64_t{1} << (random() % 14);
      layer.moe.top_k = 1;
      layer.moe.expert_width = std::int64_t{1} << (2 + random() % 20);
    } else {
      layer.dense = {.width = std::int64_t{1} << (2 + random() % 22)};
    }
    model.kinds = {layer};
    model.layers.assign(1 + random() % 300, 0);
    const double total = static_cast<double>(model_parameters(model).total);
    if (total > 0.8 * kMostParameters && total < 1.25 * kMostParameters) continue;
    const std::string said = absurdity(model);
    CHECK(said.empty() == (total < kMostParameters));
    if (said.empty()) continue;
    CHECK(std::stod(said.substr(said.find(' '))) == doctest::Approx(total).epsilon(0.5));
  }
}
