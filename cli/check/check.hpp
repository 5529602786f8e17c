#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/check/budget_file.hpp"
#include "cli/check/measured.hpp"
#include "cli/request/sources/plan_json_read.hpp"
#include "cli/request/sources/request.hpp"
#include "cli/request/table/args.hpp"
#include "formulas/result.hpp"
#include "planner/answer/plan.hpp"
#include "planner/choice/cause.hpp"
#include "planner/choice/remedy.hpp"
#include "planner/estimate/budget.hpp"

namespace plan {

/// A job of a budget, made into something that can be estimated.
struct ResolvedJob {
  const BudgetJob* budget = nullptr;
  Asked asked{};  ///< its words and its launch files, of which the problem was made
  Problem problem{};
  std::optional<Layout> layout{};  ///< empty: the best one is searched
  bool pooled = false;             ///< several kinds of GPU, whose layout the problem's axes say
  RunLength run{};
  std::vector<Note> notes{};
  std::vector<std::string> logs{}, smi{};                   ///< of the job's run; empty: nothing was measured
  std::map<std::string, std::string, std::less<>> homes{};  ///< where what no launch file states would be written
};

/// All mistakes at once, each with its place in the budget or the launch file.
[[nodiscard]] Result<ResolvedJob> resolve_job(const BudgetJob& job, const Args& args);

/// What one changed input did, alone.
struct Cause {
  std::string key{}, before{}, after{};
  std::string where{};  ///< "pretrain.sh:14", or what chose it
  Place place{};        ///< the same, for annotations; no line where nothing in a file says it
  bool known = false;   ///< could it be set back alone? Else nothing is said of its effect
  double effect = 0;    ///< what it added to the metric of the finding
  std::vector<std::pair<std::string, Bytes>> memory{};  ///< what it added to the peak, by category, biggest first
};

/// One changed input of a suggestion.
struct Step {
  std::string key{}, before{}, after{};
  Place place{};
};

/// A change that was estimated and keeps every limit.
struct Suggestion {
  std::vector<Step> steps{};
  Bytes peak{};
  Seconds step_time{};
  bool restores = false;  ///< sets back what changed since the baseline
};

/// One limit of one job, judged, in numbers and in words.
struct Finding {
  std::string rule{};  ///< stable: "memory.peak", "memory.peak.since_baseline", "layout", "profile"
  State state = State::Pass;
  bool at_risk = false;
  bool measured = false;  ///< the run is judged, not the prediction
  MetricUnit unit = MetricUnit::Memory;
  std::optional<Verdict> verdict{};                ///< none for `layout`, `profile` and a run that just went on
  std::optional<double> predicted{};               ///< of what was measured
  std::string now{}, limit{}, margin{}, change{};  ///< as the table shows them
  std::string message{};                           ///< what is broken, one sentence; empty for a pass
  Place place{};                                   ///< of the limit in the budget
  std::vector<std::string> facts{};
  std::vector<Cause> causes{};
  std::string allow{};              ///< the limit that would just hold, as the budget writes it
  std::vector<std::string> help{};  ///< besides the suggestions of the job
};

struct CheckedJob {
  std::string name{};          ///< as the budget names it; empty for an only job
  std::string title{};         ///< "llama3-405b on 16384 x h100-sxm"
  std::string budget{};        ///< file
  std::optional<Plan> plan{};  ///< none if the layout is not possible
  std::string baseline{};      ///< file it was compared with
  std::optional<MeasuredJob> measured{};
  std::vector<Finding> findings{};
  std::vector<Suggestion> suggestions{};
  std::vector<Note> notes{};
};

struct CheckReport {
  std::vector<std::string> budgets{};  ///< files
  std::vector<CheckedJob> jobs{};
  bool warn_only = false;
  int count(State state) const;
  int total() const;
};

/// Judges a job against its limits and, if one fails, looks for the smallest changes that would keep them all. Where a
/// run of the job was measured, limits that it shows are held against it. Errors are of the run's files.
[[nodiscard]] Result<CheckedJob> check_job(const ResolvedJob& job, const EarlierPlan* baseline, bool require_profile);

/// "activations +8.5 GiB, transient -0.1 GiB", all in the unit of the first; what is too small to see there is left
/// out.
[[nodiscard]] std::string categories_text(const std::vector<std::pair<std::string, Bytes>>& moved);

/// What the peak gained by category, worst stage against worst stage, biggest first.
[[nodiscard]] std::vector<std::pair<std::string, Bytes>> memory_change(const Estimate& now, const Estimate& before);

/// Inputs of the job that differ from those of the baseline, `model llama3-70b -> llama3-8b`; empty where none do.
[[nodiscard]] std::string inputs_apart(const ResolvedJob& job, const EarlierPlan& baseline);

/// The causes of a change in `metric`, biggest first.
[[nodiscard]] std::vector<Cause> find_causes(const ResolvedJob& job, const Plan& now, const EarlierPlan& baseline,
                                             Metric metric, const std::vector<Restoration>& restored);

/// Words of the job that are not what its baseline's inputs say, each set back alone: added ones left out, those that
/// went stated again. Without an estimate where a launch file keeps saying it, or the layout no longer works.
[[nodiscard]] std::vector<Restoration> word_restorations(const ResolvedJob& job, const Plan& now, const Layout& layout,
                                                         const EarlierPlan& baseline);

/// What the baseline says of the job, for setting its choices back.
[[nodiscard]] EarlierJob earlier_job(const EarlierPlan& baseline);
[[nodiscard]] JobGpus earlier_gpus(const EarlierPlan& baseline);

/// An input as reports print it, or `unstated` where there is none.
[[nodiscard]] std::string input_text(const std::vector<Input>& inputs, std::string_view key,
                                     std::string_view unstated = "not stated");

/// A choice as reports print it: "2", "core_attn+mlp", "interleaved". Empty for a key that is none.
[[nodiscard]] std::string choice_text(std::string_view key, const Problem& problem, const Layout& layout);
/// Keys of what can be set back to a baseline, in the order of reports.
[[nodiscard]] const std::vector<std::string>& choice_keys();
/// Keys of the choices that are inputs of a job and not parts of its layout.
[[nodiscard]] const std::vector<std::string>& input_choice_keys();
/// The same, and the switches of the training that a suggestion may turn: all keys that choice_text knows.
[[nodiscard]] const std::vector<std::string>& suggested_keys();

/// Where an input of the job is written: its file and line, or nothing.
[[nodiscard]] Place place_of_input(const ResolvedJob& job, std::string_view key);

/// Where an input that nothing states would be written: in the launch file, or in the budget.
[[nodiscard]] Place home_of_input(const ResolvedJob& job, std::string_view key);

/// Findings of a job that could be estimated.
[[nodiscard]] std::vector<Finding> find_findings(const ResolvedJob& job, const Plan& now, const EarlierPlan* baseline,
                                                 const std::vector<Restoration>& restored);
/// The same with what a run shows in the place of what was predicted of it; limits since a baseline stay between
/// predictions.
void judge_measured(const ResolvedJob& job, const Plan& now, const MeasuredJob& measured,
                    std::vector<Finding>& findings);
[[nodiscard]] std::vector<Suggestion> find_suggestions(const ResolvedJob& job, const Layout& layout,
                                                       const EarlierPlan* baseline,
                                                       const std::vector<Restoration>& restored);

/// Where the earlier reports of `--baseline` and of the jobs' own `baseline` keys are looked up.
class Baselines {
 public:
  /// nullptr if the file does not know the job (a new one); an error if it cannot be read or is none.
  [[nodiscard]] Result<const EarlierPlan*> of(const std::string& file, const std::string& job, const Place& asked);
  /// Jobs that a file which was read knows by name.
  [[nodiscard]] std::vector<std::string> names(const std::string& file) const;

 private:
  struct Loaded {
    bool many = false;  ///< a plan-check/1 report with a plan for each of its jobs
    std::vector<std::pair<std::string, EarlierPlan>> plans{};
  };
  Result<Loaded> load(const std::string& file, const Place& asked) const;
  std::vector<std::pair<std::string, Loaded>> loaded_{};
};

}  // namespace plan
