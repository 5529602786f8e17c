#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "planner/answer/plan.hpp"
#include "planner/search/search.hpp"
#include "planner/search/switches.hpp"

namespace plan {

/// Batches within a quarter of the job's that share with its GPUs the odd factor, or else the twos, that its own batch
/// lacks: those that share the most twos first, of two equals the nearer; none if it lacks none.
[[nodiscard]] std::vector<ChangedJob> near_batches(const Problem& problem);

/// Changes that bring something, the most valuable first: another global batch near the job's and twice it, more GPUs
/// that divide better, a GiB more memory, one switch (precision, narrower states, offload, CUDA graphs), a word of
/// `--layout` left free, the next kinds of GPU. None is worth less than `kWorthSaying`.
inline constexpr double kWorthSaying = 0.005;
[[nodiscard]] std::vector<Advice> advice(const Problem& asked, const Plan& plan);

/// One change searched, `families` of its layouts at most; nothing where it has no layout that fits for certain and
/// brings `least` more tokens/s, a share.
[[nodiscard]] std::optional<Advice> worth(const ChangedJob& change, const Problem& asked, const Plan& plan,
                                          double least, std::int64_t families = Extent{}.families);

/// Of changes of one kind, the best. `tried` searches one and says nothing where it is no better than the best so far;
/// the first that is `enough` is not compared with what comes after it.
template <class Tried, class Enough>
void offer_best(std::vector<Advice>& all, const std::vector<ChangedJob>& changes, const Tried& tried,
                const Enough& enough) {
  std::optional<Advice> best;
  for (const ChangedJob& change : changes) {
    if (std::optional<Advice> one = tried(change, best)) best = std::move(one);
    if (best && enough(*best)) break;
  }
  if (best) all.push_back(std::move(*best));
}

}  // namespace plan
