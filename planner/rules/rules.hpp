#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "formulas/layout.hpp"
#include "planner/problem/problem.hpp"

namespace plan {

/// Axes are chosen in this order; a rule is checked as soon as the axes it reads are known.
enum class Level : std::uint8_t {
  Grid,        ///< tp, cp, pp, dp
  Experts,     ///< ep, etp
  MicroBatch,  ///< micro_batch
  Context,     ///< cp_kind, cp_ulysses
  Schedule,    ///< schedule, vp, order
  Sharding,    ///< zero, shard
  Recompute,
};

/// Whether Megatron trains it with its precision-aware optimizer: states that are narrower than fp32 or offloaded.
[[nodiscard]] bool precision_aware(const Training& training);

/// Frameworks as bits, so that one rule can hold for several.
using FrameworkMask = std::uint16_t;
[[nodiscard]] constexpr FrameworkMask framework_bit(Framework framework) {
  return static_cast<FrameworkMask>(1u << static_cast<unsigned>(framework));
}
inline constexpr FrameworkMask kAllFrameworks = 0xffff;
/// The frameworks that have a name: all values but those that say how to choose one.
inline constexpr FrameworkMask kNamedFrameworks =
    static_cast<FrameworkMask>(kAllFrameworks & ~(framework_bit(Framework::Any) | framework_bit(Framework::None)));

/// Frameworks that a layout must suit, one of them at least. Of `any`: those whose software the figures are of, since
/// under other software the same layout is another job. Of `none`: all, for none is asked.
[[nodiscard]] FrameworkMask wanted_frameworks(const Problem& problem);

/// RecomputeModule bits of what exists in some layer of the model.
[[nodiscard]] std::uint16_t modules_of(const Model& model);

/// Heads that divide among ranks in every layer kind: the greatest common divisor of their numbers.
[[nodiscard]] std::int64_t heads_of(const Model& model);

/// One thing that a layout must satisfy. The table of rules is the list that `plan` documents.
struct Rule {
  std::string_view code;  ///< stable, in `rejected[].reason`
  std::string_view text;  ///< what must hold
  Level level;
  FrameworkMask frameworks;
  bool (*holds)(const Problem&, const Layout&);
  int until = 0;  ///< last release of Megatron core that asks for it; 0: the newest does
  /// The numbers of a layout that breaks it: "2 * 1 * 1 * 16 is 32, and the job has 64 GPUs". Null: the text says all.
  std::string (*numbers)(const Problem&, const Layout&) = nullptr;

  /// Is it a rule of the release that the problem is for?
  bool asked(const Problem& problem) const { return until == 0 || (problem.release > 0 && problem.release <= until); }
};

/// Every rule of every framework; an index of a rule counts in this order.
[[nodiscard]] std::span<const Rule> rules();

/// What is wrong with the strategies of a layout's stages, with numbers; empty if nothing is.
[[nodiscard]] std::string stages_fault(const Problem& problem, const Layout& layout);

/// Does the release lack a word for stages of any size, so that they are equal, or equal but for the two ends?
[[nodiscard]] bool plain_stages_only(const Problem& problem);

/// The rules that a framework has at a level.
[[nodiscard]] std::span<const Rule* const> rules_of(Framework framework, Level level);

/// Index of the first rule of `level` that the layout breaks, or -1.
[[nodiscard]] int broken_rule(const Problem& problem, const Layout& layout, Level level);
/// Of `frameworks` those whose rules of `level` the layout keeps, apart from the rules that every search asks.
[[nodiscard]] FrameworkMask accepting(const Problem& problem, const Layout& layout, Level level,
                                      FrameworkMask frameworks);
/// Of `frameworks` those whose rules the layout keeps at every level.
[[nodiscard]] FrameworkMask accepting(const Problem& problem, const Layout& layout, FrameworkMask frameworks);

/// Index of the first rule of any level that the layout breaks; -1: the layout is legal.
[[nodiscard]] int broken_rule(const Problem& problem, const Layout& layout);
/// What the rule demands, and the numbers with which the layout breaks it.
[[nodiscard]] std::string broken_text(const Problem& problem, const Layout& layout, int rule);

}  // namespace plan
