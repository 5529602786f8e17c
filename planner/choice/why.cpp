// Reasons, computed: the winner's neighbours are estimated and compared. Tested by tests/planner/why_test.cpp and
// tests/cli/screens_test.cpp.
#include "planner/choice/why.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/core.h>

#include "planner/rules/rules.hpp"

namespace plan {
namespace {

struct Neighbour {
  std::string change;  ///< "pp 8 instead of 16"
  Layout layout;
};

/// Moves a factor of two between an axis and dp, so that the GPUs stay the same.
void trade_with_dp(std::vector<Neighbour>& list, const Layout& best, int Layout::*axis, const char* name) {
  const int value = best.*axis;
  const auto text = [&](int other) {
    return std::string(name) + " " + std::to_string(other) + " instead of " + std::to_string(value);
  };
  Layout layout = best;
  layout.chunk_layers.clear(), layout.shard = 0;
  if (value % 2 == 0) {
    Layout less = layout;
    less.*axis = value / 2, less.dp = best.dp * 2;
    less.sequence_parallel = less.tp > 1 && best.sequence_parallel;
    list.push_back({text(value / 2), less});
  }
  if (best.dp % 2 == 0) {
    Layout more = layout;
    more.*axis = value * 2, more.dp = best.dp / 2;
    more.sequence_parallel = more.tp > 1;
    list.push_back({text(value * 2), more});
  }
}

std::vector<Neighbour> neighbours(const Estimate& best) {
  std::vector<Neighbour> list;
  trade_with_dp(list, best.layout, &Layout::tp, "tp");
  trade_with_dp(list, best.layout, &Layout::pp, "pp");
  trade_with_dp(list, best.layout, &Layout::cp, "cp");
  Layout layout = best.layout;
  layout.chunk_layers.clear();
  if (layout.vp > 1) {
    Layout fewer = layout;
    fewer.vp = layout.vp / 2;
    if (fewer.vp == 1) fewer.schedule = Schedule::OneFOneB;
    list.push_back({"vp " + std::to_string(fewer.vp) + " instead of " + std::to_string(layout.vp), fewer});
  }
  if (layout.recompute.kind != RecomputeKind::None) {
    Layout none = layout;
    none.recompute = {};
    list.push_back({"without recomputation", none});
  }
  if (layout.zero != 1 && layout.dense_group() > 1) {
    Layout zero = layout;
    zero.zero = 1;
    list.push_back({"zero 1 instead of " + std::to_string(layout.zero), zero});
  }
  if (layout.ep > 1) {
    Layout fewer = layout;
    fewer.ep = layout.ep / 2;
    list.push_back({"ep " + std::to_string(fewer.ep) + " instead of " + std::to_string(layout.ep), fewer});
  }
  Layout bigger = layout;
  bigger.micro_batch *= 2;
  list.push_back(
      {"micro_batch " + std::to_string(bigger.micro_batch) + " instead of " + std::to_string(layout.micro_batch),
       bigger});
  return list;
}

/// A neighbour that may run out of memory where the winner does not is held back by that, whatever its time.
bool fits_worse(const Estimate& other, const Estimate& best) {
  return other.fits == Fits::No || other.fits > best.fits;
}

std::string sentence(const Neighbour& neighbour, const Estimate& best, const Estimate& other) {
  if (fits_worse(other, best))
    return fmt::format("{} needs {:.1f} of {:.1f} GiB{}", neighbour.change,
                       static_cast<double>(other.peak.value) / kGiB, static_cast<double>(other.capacity.value) / kGiB,
                       other.fits == Fits::AtRisk ? ", at risk" : "");
  const double slower = other.step_time.value / best.step_time.value - 1;
  std::string terms;
  for (const TermDelta& delta : against(best, other)) {
    if (terms.size() > 24) break;
    terms += best.step_time.value < 1 ? fmt::format(" {} {:+.0f} ms", delta.term, 1000 * delta.delta.value)
                                      : fmt::format(" {} {:+.2f} s", delta.term, delta.delta.value);
  }
  return fmt::format("{} is {:.1f} % slower:{}", neighbour.change, 100 * slower, terms);
}

}  // namespace

std::vector<TermDelta> against(const Estimate& best, const Estimate& other) {
  std::vector<TermDelta> deltas;
  for (const auto& [name, term] : kTimeTerms) {
    const Seconds delta = other.terms.*term - best.terms.*term;
    if (std::abs(delta.value) >= 1e-3) deltas.push_back({name, delta});
  }
  std::stable_sort(deltas.begin(), deltas.end(), [](const TermDelta& a, const TermDelta& b) {
    return std::abs(a.delta.value) > std::abs(b.delta.value);
  });
  return deltas;
}

std::vector<std::string> why(const Problem& problem, const Estimate& best, std::size_t most) {
  std::vector<std::string> reasons, slower;
  for (const Neighbour& neighbour : neighbours(best)) {
    if (const int rule = broken_rule(problem, neighbour.layout); rule >= 0) continue;
    const Estimate other = estimate(problem, neighbour.layout);
    // What does not fit for certain says most; then what is slower. Equal neighbours say nothing.
    if (fits_worse(other, best))
      reasons.push_back(sentence(neighbour, best, other));
    else if (other.step_time.value > 1.002 * best.step_time.value)
      slower.push_back(sentence(neighbour, best, other));
  }
  if (reasons.size() > most - 1) reasons.resize(most - 1);
  reasons.insert(reasons.end(), slower.begin(), slower.end());
  if (reasons.size() > most) reasons.resize(most);
  return reasons;
}

}  // namespace plan
