#pragma once

#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formulas/result.hpp"
#include "planner/answer/estimate.hpp"

namespace plan {

/// What a limit can be set on.
enum class Metric : std::uint8_t {
  MemoryFit,  ///< the peak against the GPU's own memory: checked for every job
  MemoryPeak,
  MemoryCategory,  ///< the first of kMemoryCategories; the others follow it
  StepTime = MemoryCategory + std::size(kMemoryCategories),
  Mfu,
  TokensPerSecond,
  Gpus,
  GpuHours,
  Cost,
  BytesTp,
  BytesCp,
  BytesEp,
  BytesPp,
  BytesDp,
  MemoryHost,  ///< what the ranks of a node keep in its memory: checked where the cluster states how much it has
};

/// How a metric is written and compared.
enum class MetricUnit : std::uint8_t { Memory, Traffic, Time, Ratio, Rate, Count, Hours, Money };

/// One thing that a budget can limit. The table is the list that plan-budget(5) documents.
struct MetricRow {
  Metric metric;
  std::string_view name;  ///< "memory.peak": the key in a budget and the id of the rule in reports
  MetricUnit unit;
  bool more_is_better;
  std::string_view help;
};
[[nodiscard]] std::span<const MetricRow> metrics();
[[nodiscard]] const MetricRow& metric_row(Metric metric);
/// The category of memory that it limits; nullptr if it limits something else.
[[nodiscard]] const MemoryCategory* category_of(Metric metric);
/// nullptr if no budget can limit it.
[[nodiscard]] const MetricRow* find_metric(std::string_view name);

/// The whole run, for GPU-hours and cost.
struct RunLength {
  double tokens = 0;  ///< 0: not known
  double price = 0;   ///< USD per GPU-hour; 0: not known
};

/// A figure and the ends of its interval. Only the peak has an interval that a budget counts: memory that runs out
/// ends the run, a step that is slower does not.
struct Figure {
  double value = 0, low = 0, high = 0;
};
/// The GPUs of a job, and those of them that its layout trains on: the others stay idle, and cost it nothing.
struct JobGpus {
  int given = 0, used = 0;
};
/// In bytes, seconds, ratio, tokens/s, GPUs, hours or USD. Memory categories: the stage that holds the most of each.
/// Communication: what a rank sends in a step.
[[nodiscard]] Figure measure(Metric metric, const Estimate& estimate, JobGpus gpus, const RunLength& run);

enum class Sense : std::uint8_t { AtMost, AtLeast };

/// "at most 60 GiB"; against a baseline "at most +2 %".
struct Bound {
  Sense sense = Sense::AtMost;
  double value = 0;
  bool relative = false;  ///< since the baseline: a share of it
  std::string text{};     ///< as written: "at most 60 GiB"
};

/// How the bound reads that a node's own memory is.
inline constexpr std::string_view kNodeHas = "a node has";

struct Limit {
  Metric metric = Metric::MemoryPeak;
  bool since_baseline = false;
  std::optional<Bound> fail{}, warn{};
  Place place{};  ///< of its key in the budget
};

/// What an interval that reaches past a limit counts for.
enum class Risk : std::uint8_t {
  Yes,     ///< the limit has to hold for certain: the upper end counts
  AtRisk,  ///< a limit that may hold is a warning
};

enum class State : std::uint8_t { Pass, Warn, Fail };

/// A limit held against a figure.
struct Verdict {
  Limit limit{};
  Figure now{};
  std::optional<double> before{};  ///< in the baseline
  State state = State::Pass;
  bool at_risk = false;  ///< one end of the interval is inside, the other is not
  double counted = 0;    ///< what was compared: the end of the interval, or the change since the baseline
  Bound bound{};         ///< the one that decided: what was broken, or else what would fail
  double margin = 0;     ///< distance to it; negative: broken
};

/// Exact comparison: no tolerance that nobody wrote. `before` is needed by limits on the change.
[[nodiscard]] Verdict judge(const Limit& limit, const Figure& now, std::optional<double> before, Risk risk);

/// Limits of one job.
struct Budget {
  std::vector<Limit> limits{};
  RunLength run{};
  Risk risk = Risk::Yes;
};

/// An earlier estimate to compare with.
struct Baseline {
  Estimate estimate{};
  JobGpus gpus{};
};

/// Every limit in the order written, the GPU's memory first.
[[nodiscard]] std::vector<Verdict> judge_all(const Budget& budget, const Estimate& now, JobGpus gpus,
                                             const Baseline* baseline);

/// Does no limit fail?
[[nodiscard]] bool passes(const std::vector<Verdict>& verdicts);

}  // namespace plan
