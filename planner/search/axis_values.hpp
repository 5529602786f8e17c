#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "planner/problem/problem.hpp"
#include "planner/rules/rules.hpp"

namespace plan {

/// What the user fixed, or else all candidates.
template <class T>
std::vector<T> choose(const std::optional<T>& fixed, std::vector<T> candidates) {
  if (fixed) return {*fixed};
  return candidates;
}

struct ContextChoice {
  CpKind kind = CpKind::Ring;
  int ulysses = 1;
};

/// Divisors of `n` in order.
[[nodiscard]] std::vector<int> divisors(std::int64_t n);

/// Where nobody fixed it: as the framework does, and off where tp does not divide a context rank's tokens. Where it
/// does, splitting them too keeps less and moves as much.
[[nodiscard]] bool sequence_parallel(const Problem& problem, const Layout& grid);

/// What is fixed of the context needs a group to hold for: none of it is dropped at cp 1.
[[nodiscard]] std::vector<ContextChoice> context_choices(const Problem& problem, int cp);

/// An axis that is chosen when tp, cp, pp and dp are, before context and schedule.
struct OuterAxis {
  std::vector<int> (*values)(const Problem&, const Layout& grid);  ///< those that the search tries
  void (*put)(Layout&, int value);
  int (*depend)(const Layout& grid);  ///< what of the grid they depend on, as a number
  Level level;                        ///< of the rules that can be asked when it is chosen, and all of that level
};
/// From the outermost to the innermost, those of one level together.
[[nodiscard]] std::span<const OuterAxis> outer_axes();

/// Every schedule is the same without stages, but a fixed one asks for them, as a fixed group does for interleaving.
[[nodiscard]] std::vector<Schedule> schedule_choices(const Problem& problem, int pp);

/// Ranks that may share one copy of the states, the fixed number alone where there is one; 0: all replicas.
[[nodiscard]] std::vector<int> shard_choices(const Problem& problem, const Layout& run);

/// Stages of ZeRO that the search tries.
[[nodiscard]] std::vector<int> zero_choices(const Problem& problem);

/// Without sharding there is nothing to divide.
[[nodiscard]] std::size_t shards_under(const Problem& problem, int zero, const std::vector<int>& shards);

/// Micro-batches that pass a chunk of an interleaved pipeline in a row: the fewest that it takes (0), twice and four
/// times as many as stages. Twice as many hide the way around the ranks unless a hop takes longer than a pass, and
/// every one more is held in memory. Rules leave out those that the micro-batches do not divide into.
[[nodiscard]] std::vector<int> group_choices(const Problem& problem, int pp, Schedule schedule);

/// Chunks that each rank of the family may hold under a schedule.
[[nodiscard]] std::vector<int> chunks_per_rank(const Problem& problem, const Layout& family, Schedule schedule);

/// Ways to recompute that a model offers, whatever the framework.
[[nodiscard]] std::vector<Recompute> possible_recomputes(const Problem& problem, int stage_layers);

}  // namespace plan
