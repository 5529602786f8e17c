#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "planner/answer/estimate.hpp"
#include "planner/problem/problem.hpp"

namespace plan {

/// A job with something changed.
struct Variant {
  Problem problem{};
  Layout layout{};
};

/// Does this job keep every limit?
using Accepts = std::function<bool(const Problem&, const Estimate&)>;

/// A job that breaks a limit, or whose layout is not possible.
struct Patient {
  const Problem& problem;
  const Layout& layout;
  Accepts accepts;
  std::vector<Variant> first{};  ///< to be tried before all others: what the job was before
};

/// A changed job that keeps every limit, as estimated.
struct Remedy {
  Problem problem{};
  Layout layout{};
  Estimate estimate{};
};

/// The smallest changes, at most `most`, each estimated: of every axis and switch alone (recompute, micro_batch, zero,
/// sequence parallelism, cp, pp and vp, tp, ep; the optimizer in host memory, narrower optimizer states, another
/// precision; batch, number of GPUs, kind of GPU) the nearest that is enough, or of those that differ in price the
/// fastest; of them the cheapest first, by the price of a token. Before all comes what the job was. Two at a time only
/// if no single one is enough; the whole search only if no two are.
[[nodiscard]] std::vector<Remedy> find_remedies(const Patient& patient, std::size_t most = 3);

}  // namespace plan
