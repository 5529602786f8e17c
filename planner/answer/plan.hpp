#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formulas/result.hpp"
#include "planner/answer/estimate.hpp"
#include "planner/problem/problem.hpp"

namespace plan {

struct Rejected {
  std::string reason;  ///< stable code of the rule
  std::int64_t count = 0;
};

/// What the search did. considered = legal + sum of rejected; legal = fit + does_not_fit + pruned.
struct SearchStats {
  std::int64_t considered = 0;
  std::int64_t legal = 0;
  std::int64_t fit = 0;
  std::int64_t pruned = 0;  ///< proven worse by a bound, never evaluated
  std::vector<Rejected> rejected{};
};

/// One term in which a runner-up differs from the winner, in seconds of step time.
struct TermDelta {
  std::string term;
  Seconds delta{};
};

struct RunnerUp {
  Estimate estimate{};
  Difference difference{};                ///< of its step to the winner's
  std::vector<TermDelta> against_best{};  ///< biggest first
};

/// A framework that runs the recommended layout, and its step and fit under that framework's own software.
struct RunsOn {
  Framework framework = Framework::Any;
  Seconds step_time{};
  Fits fits = Fits::Yes;
};

/// How the recommended layout was chosen.
struct Certainty {
  double best_share = 0;              ///< of draws of the model's errors in which it is the fastest
  double degrees_share = 0;           ///< in which the fastest has its tp, cp, pp and ep
  double within_2_percent_share = 0;  ///< in which it is at most 2 % slower than the fastest
  Bytes headroom{};                   ///< memory that it leaves free
};

/// A rule of thumb (formulas/textbook/rules_of_thumb.hpp) that the layout breaks.
struct BrokenThumb {
  std::string_view rule;  ///< its name
  double value = 0;       ///< of the layout
  double limit = 0;       ///< that the value should be on the other side of
  std::string text{};     ///< what it says and what the layout has instead
  std::string why{};
};

/// What one change of the job is worth: its own search against the job's.
struct Advice {
  std::string change;  ///< as it is typed, or a GiB of memory
  Problem problem{};
  Estimate fastest{};               ///< that a framework runs
  double faster = 0;                ///< tokens/s more, as a share
  std::optional<double> cheaper{};  ///< USD of a token less, as a share; where both prices are known
};

/// One kind of GPU of a job that has several, used alone.
struct PoolAlone {
  int pool = 0;
  std::optional<Estimate> best{};  ///< none: nothing fits
};

/// Layers and recomputation of every stage by itself (planner/stages/stage_search.hpp), beside a layout whose stages
/// are the same.
struct PerStage {
  /// The fastest; none: nothing is faster than the fastest whose stages are equal.
  std::optional<Estimate> best{};
  Difference difference{};        ///< of its step to the recommended layout's
  std::vector<RunsOn> runs_on{};  ///< frameworks of the list that run it
  std::int64_t pipelines = 0;     ///< (degrees, schedule, sharding) that were looked into
  bool exact = true;              ///< nothing faster was left out
};

/// Runs of layers inside stages, each with tp, cp, ZeRO and recomputation of its own (planner/stages/per_layer.hpp),
/// beside layouts whose layers all have one strategy.
struct PerLayer {
  /// The fastest that Galvatron runs; none: nothing is faster than the fastest whose layers all have one strategy.
  std::optional<Estimate> best{};
  Difference difference{};     ///< of its step to the recommended layout's
  std::int64_t pipelines = 0;  ///< (GPUs of a stage, sequences that it takes, ZeRO) that were looked into
  bool exact = true;           ///< nothing faster was left out
};

struct Plan {
  Problem problem{};
  Estimate best{};                             ///< the recommended layout
  std::optional<Estimate> fastest{};           ///< the fastest that a wanted framework runs
  std::optional<Estimate> fastest_on_paper{};  ///< the fastest, whether or not anything runs it
  std::string paper_lacks{};                   ///< what keeps frameworks from running it; empty: nothing does
  int idle_gpus = 0;                           ///< of those that were given: `problem.gpus` are used
  std::vector<RunsOn> runs_on{};               ///< frameworks that run the recommended layout
  std::optional<Certainty> choice{};
  std::optional<PerStage> per_stage{};  ///< when asked for
  std::optional<PerLayer> per_layer{};  ///< when asked for
  std::vector<RunnerUp> runners_up{};
  std::vector<Estimate> front{};  ///< memory against step time, when asked for
  SearchStats search{};
  std::vector<std::string> why{};  ///< sentences: what separates the winner from its neighbours
  std::vector<Note> notes{};
  std::vector<BrokenThumb> thumbs{};            ///< the furthest from its limit first
  std::vector<PoolAlone> alone{};               ///< of several kinds of GPU, each by itself
  std::optional<std::vector<Advice>> advice{};  ///< when asked for (planner/choice/advice.hpp)
  /// Where the GPUs are starved, changes that give each more to do (planner/choice/starved.hpp).
  std::optional<std::vector<Advice>> starved{};
};

}  // namespace plan
