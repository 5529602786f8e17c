#include "formulas/partition.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace plan {
namespace {

using doctest::Approx;

double largest_chunk(const PartitionCost& cost, const std::vector<int>& split) {
  const std::vector<double> chunks = rank_costs(cost, split, static_cast<int>(split.size()));
  return *std::max_element(chunks.begin(), chunks.end());
}

/// Largest piece of the best of all splits, tried one by one.
double brute_force(const PartitionCost& cost, std::vector<int>& split, int chunk, int left) {
  if (chunk + 1 == static_cast<int>(split.size())) {
    split[chunk] = left;
    return largest_chunk(cost, split);
  }
  double best = 1e300;
  for (int take = 0; take <= left; ++take) {
    split[chunk] = take;
    best = std::min(best, brute_force(cost, split, chunk + 1, left - take));
  }
  return best;
}

TEST_CASE("worked splits") {
  // plan-formulas(7) H
  struct Row {
    int layers, chunks;
    double each, embedding, head, largest;
    std::vector<int> split;
  };
  const Row rows[] = {
      {8, 4, 3, 0.3, 1.5, 7.5, {2, 2, 2, 2}},  // with the ends counted as layers: 3, 2, 2, 3
      {10, 4, 3, 0.3, 4.0, 9.3, {3, 3, 3, 1}},
      {12, 3, 1, 0.5, 2.5, 5.5, {4, 5, 3}},
      {10, 4, 1, 0, 0, 3, {2, 2, 3, 3}},
      {126, 16, 1, 0.01, 0.62625, 8, {7, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 7}},
  };
  for (const Row& row : rows) {
    const std::vector<double> layers(row.layers, row.each);
    const PartitionCost cost{layers, row.embedding, row.head};
    const std::vector<int> split = partition_layers(cost, row.chunks);
    CHECK(split == row.split);
    CHECK(largest_chunk(cost, split) == Approx(row.largest));
  }
}

TEST_CASE("one layer a chunk, embedding and head alone") {
  // Llama 3 405B, arXiv:2407.21783: pp 16, vp 8
  const std::vector<double> layers(126, 1.0);
  const PartitionCost cost{layers, 0.01, 0.62625};
  std::vector<int> expected(128, 1);
  expected.front() = expected.back() = 0;
  CHECK(partition_layers(cost, 128) == expected);
  CHECK(partition_interleaved(cost, 16, 8) == expected);
}

TEST_CASE("no split is better") {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> costs(0.5, 3.0);
  for (int round = 0; round < 300; ++round) {
    const int layers = 1 + static_cast<int>(random() % 9), chunks = 1 + static_cast<int>(random() % 4);
    const double kinds[2] = {costs(random), costs(random)};
    std::vector<double> each(layers);
    for (double& layer : each) layer = round % 3 == 0 ? costs(random) : kinds[random() % 2];
    const PartitionCost cost{each, round % 2 ? costs(random) * 0.2 : 0, costs(random)};
    const std::vector<int> split = partition_layers(cost, chunks);
    CAPTURE(round);
    CHECK(static_cast<int>(split.size()) == chunks);
    CHECK(std::accumulate(split.begin(), split.end(), 0) == layers);
    std::vector<int> scratch(chunks, 0);
    CHECK(largest_chunk(cost, split) == Approx(brute_force(cost, scratch, 0, layers)).epsilon(1e-9));
  }
}

TEST_CASE(
    "no chunk between the ends is empty where layers suffice, nor the first where one fits beside the embedding") {
  std::mt19937 random(13);
  std::uniform_real_distribution<double> costs(0.5, 3.0);
  for (int round = 0; round < 2000; ++round) {
    const int chunks = 2 + static_cast<int>(random() % 30), layers = chunks - 2 + static_cast<int>(random() % 40);
    const double kinds[2] = {costs(random), costs(random)};
    std::vector<double> each(static_cast<std::size_t>(layers));
    for (std::size_t i = 0; i < each.size(); ++i) each[i] = kinds[i % 4 == 3];
    const PartitionCost cost{each, 0.1 * costs(random), 4 * costs(random)};
    const std::vector<int> split = partition_layers(cost, chunks);
    CAPTURE(round);
    CHECK(std::find(split.begin() + 1, split.end() - 1, 0) == split.end() - 1);
    const bool fits = layers > 0 && cost.embedding + each.front() <= largest_chunk(cost, split);
    if (layers >= chunks - 1 && fits) CHECK(split.front() > 0);
  }
}

/// `least`: layers of every chunk between the ends.
double brute_force_ranks(const PartitionCost& cost, std::vector<int>& split, int chunk, int left, int pp, bool v,
                         int least = 0) {
  if (chunk + 1 == static_cast<int>(split.size())) {
    split[chunk] = left;
    const std::vector<double> ranks = rank_costs(cost, split, pp, v);
    return *std::max_element(ranks.begin(), ranks.end());
  }
  double best = 1e300;
  for (int take = chunk > 0 ? least : 0; take <= left; ++take) {
    split[chunk] = take;
    best = std::min(best, brute_force_ranks(cost, split, chunk + 1, left - take, pp, v, least));
  }
  return best;
}

TEST_CASE("chunks of a rank balance in sum") {
  std::mt19937 random(11);
  std::uniform_real_distribution<double> costs(0.5, 3.0);
  for (int round = 0; round < 120; ++round) {
    const int pp = 2 + static_cast<int>(random() % 2), vp = 2;
    const bool v = round % 2;
    const int layers = pp * vp + static_cast<int>(random() % 4);
    const bool equal = round % 3 != 0;
    const double one = costs(random), other = costs(random);
    std::vector<double> each(layers, one);
    if (!equal) std::fill(each.begin(), each.begin() + 3, other);
    const PartitionCost cost{each, 0.1, costs(random)};
    const std::vector<int> split = partition_interleaved(cost, pp, vp, v);
    CAPTURE(round);
    CHECK(std::accumulate(split.begin(), split.end(), 0) == layers);
    const std::vector<double> ranks = rank_costs(cost, split, pp, v);
    std::vector<int> scratch(split.size(), 0);
    const double best = brute_force_ranks(cost, scratch, 0, layers, pp, v);
    const double ours = *std::max_element(ranks.begin(), ranks.end());
    if (equal) CHECK(ours == Approx(best).epsilon(1e-9));
    // Unequal layers: never worse than the best by more than one of them.
    CHECK(ours <= best + std::max(one, other) + 1e-9);
  }
}

TEST_CASE("only the ends are empty where that is asked, and no such split balances better") {
  std::mt19937 random(17);
  std::uniform_real_distribution<double> costs(0.5, 1.5);
  int moved = 0;
  for (int round = 0; round < 120; ++round) {
    const int pp = 2 + static_cast<int>(random() % 2), vp = 2 + static_cast<int>(random() % 2);
    const bool v = vp == 2 && round % 2;
    const int layers = pp * vp - 2 + static_cast<int>(random() % 3);
    const std::vector<double> each(static_cast<std::size_t>(layers), costs(random));
    const PartitionCost cost{each, 0.1, 4 * costs(random)};  // a head as heavy as some layers
    const std::vector<int> split = partition_interleaved(cost, pp, vp, v, true);
    CAPTURE(round);
    CHECK(std::accumulate(split.begin(), split.end(), 0) == layers);
    CHECK(std::find(split.begin() + 1, split.end() - 1, 0) == split.end() - 1);
    const std::vector<double> ranks = rank_costs(cost, split, pp, v);
    std::vector<int> scratch(split.size(), 0);
    CHECK(*std::max_element(ranks.begin(), ranks.end()) ==
          Approx(brute_force_ranks(cost, scratch, 0, layers, pp, v, 1)).epsilon(1e-9));
    moved += split == partition_interleaved(cost, pp, vp, v) ? 0 : 1;
  }
  CHECK(moved > 20);
}

TEST_CASE("no layer's worth of count moved off a chunk of the costliest rank makes the costliest cheaper") {
  std::mt19937 random(13);
  std::uniform_real_distribution<double> costs(0.2, 3.0);
  for (int round = 0; round < 300; ++round) {
    const int pp = 2 + static_cast<int>(random() % 4), vp = 2 + static_cast<int>(random() % 2), chunks = pp * vp;
    const bool v = vp == 2 && round % 2 == 0;
    std::vector<double> each(static_cast<std::size_t>(chunks) + random() % 12);
    for (double& layer : each) layer = costs(random);
    const PartitionCost cost{each, 0.1, costs(random)};
    const std::vector<int> split = partition_interleaved(cost, pp, vp, v);
    const auto largest = [&](const std::vector<int>& of) {
      const std::vector<double> ranks = rank_costs(cost, of, pp, v);
      return *std::max_element(ranks.begin(), ranks.end());
    };
    CAPTURE(round);
    const std::vector<double> ranks = rank_costs(cost, split, pp, v);
    const int costliest = static_cast<int>(std::max_element(ranks.begin(), ranks.end()) - ranks.begin());
    for (int from = 0; from < chunks; ++from)
      for (int to = 0; to < chunks; ++to) {
        // Chunks are dealt out round and round, or there and back.
        if ((v && from >= pp ? chunks - 1 - from : from % pp) != costliest) continue;
        std::vector<int> other = split;
        const int keep = from == 0 || from == chunks - 1 ? 0 : 1;  // beside the embedding, or the head
        if (from == to || --other[static_cast<std::size_t>(from)] < keep) continue;
        ++other[static_cast<std::size_t>(to)];
        CHECK(largest(other) >= largest(split) * (1 - 1e-9));
      }
  }
}

}  // namespace
}  // namespace plan
