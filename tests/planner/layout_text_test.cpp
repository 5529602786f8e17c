// What lines of words say of a layout: all that a reader needs beside the columns of axes, and nothing that means
// nothing in that layout.
#include "planner/answer/layout_text.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "draw.hpp"
#include "formulas/names.hpp"
#include "oracle/random_problem.hpp"

using namespace plan;

namespace {

bool has(const std::vector<std::string>& words, const std::string& begin) {
  return std::any_of(words.begin(), words.end(), [&](const std::string& word) { return word.starts_with(begin); });
}

Layout random_layout(std::mt19937& random) {
  Layout l{
      .tp = pick(random, {1, 2}), .cp = pick(random, {1, 2}), .pp = pick(random, {1, 2}), .dp = pick(random, {2, 4})};
  l.vp = l.pp > 1 ? pick(random, {1, 2}) : 1;
  l.schedule = l.vp > 1 ? Schedule::Interleaved : pick(random, {0, 1}) == 0 ? Schedule::OneFOneB : Schedule::GPipe;
  l.cp_kind = pick(random, {0, 1}) == 0 ? CpKind::Ring : CpKind::AllGather;
  l.zero = pick(random, {0, 1, 2, 3}), l.shard = pick(random, {0, 2});
  l.micro_batch = pick(random, {1, 2});
  l.sequence_parallel = pick(random, {0, 1}) == 1;
  if (pick(random, {0, 1}) == 1) l.order = AxisOrder::DataOutermost;
  if (pick(random, {0, 1}) == 1) l.recompute.kind = RecomputeKind::Full;
  const int front = pick(random, {15, 16});
  l.chunk_layers = l.pp * l.vp == 1   ? std::vector<int>{32}
                   : l.pp * l.vp == 2 ? std::vector<int>{front, 32 - front}
                                      : std::vector<int>{front - 8, 8, 8, 24 - front};
  return l;
}

}  // namespace

TEST_CASE("what was chosen is said where it means something") {
  std::mt19937 random(2);
  for (int round = 0; round < oracle::rounds(200); ++round) {
    Problem problem;
    problem.training.grad_bytes = pick(random, {2, 4});
    Estimate estimate;
    const Layout l = estimate.layout = random_layout(random);
    estimate.micro_batches = 8, estimate.stage_layers = l.chunk_layers;
    const std::vector<std::string> words = choices(problem, estimate);
    CAPTURE(fmt::format("{}", fmt::join(words, ", ")));
    CHECK(words.front() == fmt::format("zero {}", l.zero) + (l.shard > 0 ? fmt::format(" over {}", l.shard) : ""));
    for (const Named<Schedule>& row : kScheduleNames)
      CHECK(has(words, std::string(row.name)) == (l.pp > 1 && row.value == l.schedule));
    CHECK(has(words, "layers ") == (l.pp > 1));
    CHECK(has(words, "sequence parallel") == l.sequence_parallel);
    CHECK(has(words, "order ") == (l.order == AxisOrder::DataOutermost));
    CHECK(has(words, "no recompute") == (l.recompute.kind == RecomputeKind::None));
    CHECK(has(words, "fp32 gradients") == (problem.training.grad_bytes == 4));
    CHECK(has(words, "bf16 gradients") == (problem.training.grad_bytes == 2));
  }
}

TEST_CASE("another layout is told by what differs and is in no column, its layers where nothing else does") {
  std::mt19937 random(3);
  int layers_alone = 0, columns_alone = 0;
  for (int round = 0; round < oracle::rounds(2000); ++round) {
    const Layout best = random_layout(random);
    Layout other = random_layout(random);
    if (round % 2 == 0) {  // one thing alone
      Layout one = best;
      switch (random() % 4) {
        case 0: one.chunk_layers = other.chunk_layers, one.pp = other.pp, one.vp = other.vp; break;
        case 1: one.dp = other.dp; break;
        case 2: one.micro_batch = other.micro_batch; break;
        default: one.zero = other.zero; break;
      }
      other = one;
    }
    const std::vector<std::string> words = other_choices(best, other);
    CAPTURE(layout_flag(best));
    CAPTURE(layout_flag(other));
    CAPTURE(fmt::format("{}", fmt::join(words, ", ")));
    const bool said = !words.empty() && !has(words, "layers ");
    CHECK(has(words, "mb ") == (best.micro_batch != other.micro_batch));
    CHECK(has(words, "zero ") == (best.zero != other.zero));
    CHECK(has(words, "shard ") == (best.shard != other.shard));
    CHECK(has(words, "order ") == (best.order != other.order));
    CHECK((has(words, "sp") || has(words, "no sp")) == (best.sequence_parallel != other.sequence_parallel));
    CHECK((has(words, "ring") || has(words, "all-gather")) == (other.cp > 1 && best.cp_kind != other.cp_kind));
    const bool grid = best.pp == other.pp && best.vp == other.vp;
    CHECK(has(words, "layers ") == (!said && grid && best.chunk_layers != other.chunk_layers));
    layers_alone += has(words, "layers ") ? 1 : 0;
    columns_alone += words.empty() && !grid ? 1 : 0;
  }
  CHECK(layers_alone >= oracle::at_least(9));
  CHECK(columns_alone >= oracle::at_least(21));
}
