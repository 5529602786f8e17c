// Every axis of a layout, by its row alone: changed alone it shows in words, and a report sets it back; what means
// nothing beside the other axes changes no figure. No axis is named here, so that a new one takes part.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>

#include "oracle/random_layout.hpp"
#include "oracle/random_problem.hpp"
#include "planner/answer/layout_text.hpp"
#include "planner/choice/cause.hpp"
#include "planner/problem/spelled_out.hpp"
#include "planner/rules/rules.hpp"
#include "planner/search/enumerate.hpp"

using namespace plan;

namespace {

/// Every pp of the layouts divides them: where it does not, groups of pp are none.
constexpr int kMicroBatches = 12;

/// What a screen says of a layout.
std::string words_of(const Layout& layout) {
  Estimate estimate;
  estimate.layout = layout, estimate.micro_batches = kMicroBatches, estimate.stage_layers = layout.chunk_layers;
  return fmt::format("{}\n{}", axes_text(estimate, true), fmt::join(choices({}, estimate), "\n"));
}

bool train_alike(const Layout& a, const Layout& b) {
  return spelled_out(a, kMicroBatches) == spelled_out(b, kMicroBatches);
}

/// Calls `visit` with pairs of layouts that differ in one axis.
template <class Visit>
void each_change(unsigned seed, int rounds, const Visit& visit) {
  std::mt19937 random(seed);
  for (int round = 0; round < rounds; ++round) {
    const Layout layout = oracle::any_values(random), other = oracle::any_values(random);
    each_axis([&](const auto& axis) {
      Layout changed = layout;
      changed.*axis.value = other.*axis.value;
      if (changed != layout) visit(axis, layout, changed);
    });
  }
}

}  // namespace

TEST_CASE("each axis that is changed alone is told on screen, and in the words that are typed") {
  int told = 0, nothing = 0;
  each_change(1, oracle::rounds(500), [&](const auto& axis, const Layout& layout, const Layout& changed) {
    CAPTURE(axis.key);
    CAPTURE(words_of(layout));
    CAPTURE(layout_flag(layout));
    CAPTURE(layout_flag(changed));
    if (train_alike(layout, changed)) {
      ++nothing;
      return;
    }
    ++told;
    // Nothing is said of how one rank shares what it holds alone.
    const bool sharding = axis.is(&Layout::zero) || axis.is(&Layout::shard);
    if (!sharding || layout.dense_group() > 1) CHECK(words_of(layout) != words_of(changed));
    CHECK(layout_flag(layout) != layout_flag(changed));
  });
  CHECK(told > oracle::at_least(3000));
  CHECK(nothing > oracle::at_least(500));
}

TEST_CASE("each axis that is changed alone is a change that can be set back") {
  Problem problem;
  problem.model = oracle::dense_model(8, 1024, 8, 8, 4096, 32000);
  problem.cluster = oracle::plain_cluster();
  problem.gpus = 64;
  each_change(2, oracle::rounds(100), [&](const auto& axis, const Layout& before, const Layout& now) {
    if (axis.key == "dp" || train_alike(before, now)) return;
    CAPTURE(axis.key);
    CAPTURE(layout_flag(before));
    CAPTURE(layout_flag(now));
    CHECK(restorations(problem, now, {.layout = before}).size() == 1);
  });
}

TEST_CASE("what means nothing beside the other axes changes no figure") {
  std::mt19937 random(3);
  int changed = 0;
  for (int round = 0; round < oracle::rounds(200); ++round) {
    Problem problem = oracle::random_problem(random, 16);
    problem.fixed = {};
    Tally tally;
    for (const Family& family : enumerate_families(problem, tally)) {
      if (random() % 20 != 0) continue;
      for (const Pipelining& run : enumerate_runs(problem, family.layout, tally)) {
        if (random() % 4 != 0) continue;
        Layout layout = run_of(problem, family.layout, run);
        const Layout other = oracle::any_values(random);
        layout.zero = other.zero;
        Layout same = layout;
        each_axis([&](const auto& axis) {
          if (!means_something(axis.value, layout) && !axis.is(&Layout::chunk_layers) && !axis.is(&Layout::stages))
            same.*axis.value = other.*axis.value;
        });
        if (same == layout || broken_rule(problem, layout) >= 0 || broken_rule(problem, same) >= 0) continue;
        CAPTURE(layout_flag(layout));
        CAPTURE(layout_flag(same));
        const Estimate a = estimate(problem, layout), b = estimate(problem, same),
                       c = estimate(problem, spelled_out(layout, micro_batches(problem.training.global_batch, layout.dp,
                                                                               layout.micro_batch)));
        CHECK(b.step_time.value == doctest::Approx(a.step_time.value).epsilon(1e-12));
        CHECK(a.peak == b.peak);
        CHECK(c.step_time.value == doctest::Approx(a.step_time.value).epsilon(1e-12));
        CHECK(a.peak == c.peak);
        ++changed;
      }
    }
  }
  CHECK(changed > oracle::at_least(400));
}

TEST_CASE("what recomputes the same layers in the same way has one word, and no other has it") {
  std::map<std::string, Recompute> words;
  for (const int layers : {0, 1, 2, 3})
    for (const int uniform : {0, 1, 2, 3}) {
      if (layers > 0 && uniform > 0) continue;  // a block of layers is rebuilt layer by layer
      const Recompute full{.kind = RecomputeKind::Full, .layers = layers, .uniform = uniform};
      const auto entry = words.emplace(recompute_text(full), full);
      const Recompute& known = entry.first->second;
      const auto same = [&](int a, int b) { return std::max(a, 1) == std::max(b, 1); };
      CAPTURE(recompute_text(full));
      CHECK((entry.second || (known.layers == layers && same(known.uniform, uniform))));
    }
  CHECK(words.size() == 6);  // full, blocks of 1 to 3, groups of 2 and 3
}
