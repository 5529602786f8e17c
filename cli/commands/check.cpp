// `plan check --budget FILE`: holds jobs to their limits before a GPU is rented. Tested by tests/cli/check_test.cpp and
// tests/golden/check*.
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <system_error>

#include "cli/check/check.hpp"
#include "cli/commands/commands.hpp"
#include "cli/launch/megatron/log.hpp"
#include "cli/logs/log_read.hpp"
#include "cli/report/check/check.hpp"
#include "cli/terminal/diagnostic.hpp"
#include "formulas/keep_errors.hpp"
#include "presets/shell_quoted.hpp"
#include "presets/suggest.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

/// The words of `--format` that are a report of this command.
struct FormatRow {
  std::string_view word;
  std::string (*text)(const CheckReport&);
};
constexpr FormatRow kFormats[] = {{"json", check_json}, {"github", check_github}, {"markdown", check_markdown},
                                  {"html", check_html}, {"junit", check_junit},   {"sarif", check_sarif}};

std::string report_text(const CheckReport& report, const Args& args, const Terminal& terminal) {
  const std::string word = args.json ? "json" : args.format.value_or("human");
  for (const FormatRow& row : kFormats)
    if (row.word == word) return row.text(report);
  return check_human(report, terminal);
}

/// Is it the log of a run? A pipe cannot be read twice, nor a device to its end.
bool is_log(const std::string& path) {
  if (std::error_code error; !std::filesystem::is_regular_file(path, error)) return false;
  const Result<std::string> text = yaml::read_text(path);
  if (!text) return false;
  std::istringstream in(*text);
  return static_cast<bool>(read_log(in, path));
}

std::vector<BudgetFile> read_budgets(const Args& args, Errors& errors) {
  std::vector<std::string> paths = args.budget;
  paths.insert(paths.end(), args.words.begin(), args.words.end());
  if (paths.empty())
    errors.push_back({"missing_flag",
                      "`--budget` is missing",
                      {},
                      {"write `plan check --budget budget.yaml`; plan-budget(5) says what it holds"}});
  std::vector<BudgetFile> budgets;
  for (const std::string& path : paths) {
    Result<BudgetFile> budget = read_budget_file(path);
    if (!budget && is_log(path))
      errors.push_back({"wrong_file",
                        fmt::format("`{}` is the log of a run, and no budget", yaml::printable(path)),
                        {},
                        {fmt::format("write `plan check --budget budget.yaml --measured {}`", shell_quoted(path))}});
    else if (keep_errors(errors, budget))
      budgets.push_back(std::move(*budget));
  }
  return budgets;
}

/// A run is of one layout: where neither budget nor flags say which, a log that prints its job's arguments does.
void name_job_of_log(BudgetJob& job, const Args& args, Errors& errors) {
  for (const std::string& log : args.measured)
    if (printed_arguments(log)) {
      job.from.push_back({log, {log, 0, 0, 1, {}}});
      return;
    }
  errors.push_back({"missing_key",
                    "nothing says which layout ran",
                    {"no log prints its job's arguments, as Megatron-LM's do"},
                    {"write `layout: tp8,pp16` in the budget, or `--from train.sbatch`"},
                    job.place});
}

/// What was typed beside the budgets holds for every job.
void override_jobs(std::vector<BudgetFile>& budgets, const Args& args, Errors& errors) {
  std::size_t jobs = 0;
  for (const BudgetFile& budget : budgets) jobs += budget.jobs.size();
  if (!args.from.empty() && jobs > 1)
    errors.push_back({"conflicting_flags",
                      fmt::format("`--from` names the launch files of one job; the budget has {}", jobs),
                      {},
                      {"name them in the budget: `from: train.sh` in each job, or `each: configs/*.sh`"}});
  if (!args.measured.empty() && jobs > 1)
    errors.push_back({"conflicting_flags",
                      fmt::format("`--measured` names the log of one run; the budget has {} jobs", jobs),
                      {},
                      {"keep the limits of runs that are measured in budgets of their own"}});
  if (args.measured.empty() && !args.smi.empty())
    errors.push_back({"missing_flag", "`--smi` goes with a run's log", {}, {"name the log with `--measured out.log`"}});
  for (BudgetFile& budget : budgets)
    for (BudgetJob& job : budget.jobs) {
      if (!args.measured.empty() && args.from.empty() && job.from.empty() && !job.words.contains("layout"))
        name_job_of_log(job, args, errors);
      if (!args.from.empty()) job.from.clear();
      for (const std::string& file : args.from) job.from.push_back({file, {file, 0, 0, 1, {}}});
      if (args.risk) job.budget.risk = *args.risk == "at-risk" ? Risk::AtRisk : Risk::Yes;
    }
}

/// The first limit since a baseline; nullptr if the job has none.
const Limit* limit_since_baseline(const BudgetJob& job) {
  const auto found =
      std::find_if(job.budget.limits.begin(), job.budget.limits.end(), [](const Limit& l) { return l.since_baseline; });
  return found == job.budget.limits.end() ? nullptr : &*found;
}

bool needs_baseline(const BudgetJob& job) { return limit_since_baseline(job) != nullptr; }

/// Jobs that a report knows and no budget has any more.
std::vector<std::string> lost_jobs(const std::vector<BudgetFile>& budgets, std::vector<std::string> known) {
  for (const BudgetFile& budget : budgets)
    for (const BudgetJob& job : budget.jobs) std::erase(known, job.name);
  return known;
}

/// A job that the report does not know is new, unless its name is a slip away from one that was lost: then its limits
/// would be gone without anybody meaning it.
void judge_new_job(const BudgetJob& job, const std::string& file, const std::vector<std::string>& lost,
                   std::vector<Note>& notes, Errors& errors) {
  const std::string near = needs_baseline(job) ? nearest_name(job.name, lost) : std::string();
  if (near.empty())
    return notes.push_back(
        {"new_job", fmt::format("{} does not know this job: limits since the baseline were left out", file)});
  errors.push_back({"renamed_job",
                    fmt::format("{} has no job `{}`, whose limits since the baseline would be left out", file,
                                yaml::printable(job.name)),
                    {fmt::format("it has `{}`, which no budget has", yaml::printable(near))},
                    {fmt::format("name the job `{}` again, or leave `since_baseline` out until the baseline is new",
                                 yaml::printable(near))},
                    limit_since_baseline(job)->place});
}

/// The earlier report that a job is compared with: the flag's, or its own; nullptr for none.
const EarlierPlan* baseline_of(const ResolvedJob& job, const Args& args, const std::vector<BudgetFile>& budgets,
                               Baselines& baselines, std::vector<Note>& notes, Errors& errors) {
  const auto word = job.budget->words.find("baseline");
  const bool own = !args.baseline && word != job.budget->words.end();
  const std::string file = args.baseline ? *args.baseline : own ? word->second.text : "none";
  if (file == "none") {
    if (needs_baseline(*job.budget) && !args.baseline && !own)
      errors.push_back(
          {"no_baseline",
           "`since_baseline` needs a baseline to compare with",
           {},
           {"give an earlier report with `--baseline main.json`, or `--baseline none` to leave these limits out"},
           limit_since_baseline(*job.budget)->place});
    else if (needs_baseline(*job.budget))
      notes.push_back({"no_baseline", "limits since the baseline were left out: `--baseline none`"});
    return nullptr;
  }
  const Result<const EarlierPlan*> found = baselines.of(file, job.budget->name, own ? word->second.place : Place{});
  if (!found) {
    for (const Error& error : found.error())
      if (std::find(errors.begin(), errors.end(), error) == errors.end()) errors.push_back(error);
    return nullptr;
  }
  if (*found == nullptr) judge_new_job(*job.budget, file, lost_jobs(budgets, baselines.names(file)), notes, errors);
  return *found;
}

}  // namespace

int run_check(const Args& args, Streams& streams) {
  Errors errors;
  std::vector<BudgetFile> budgets = read_budgets(args, errors);
  override_jobs(budgets, args, errors);
  std::vector<ResolvedJob> jobs;
  std::vector<const EarlierPlan*> earlier;
  Baselines baselines;
  if (errors.empty())
    for (const BudgetFile& budget : budgets)
      for (const BudgetJob& job : budget.jobs)
        if (auto resolved = value_or_errors(errors, resolve_job(job, args))) {
          resolved->logs = args.measured, resolved->smi = args.smi;
          earlier.push_back(baseline_of(*resolved, args, budgets, baselines, resolved->notes, errors));
          jobs.push_back(std::move(*resolved));
        }
  if (!errors.empty()) return report_errors(errors, streams, "checked");

  CheckReport report{.warn_only = args.warn_only};
  for (const BudgetFile& budget : budgets) report.budgets.push_back(budget.file);
  for (std::size_t i = 0; i < jobs.size(); ++i)
    if (auto checked = value_or_errors(errors, check_job(jobs[i], earlier[i], args.require_profile)))
      report.jobs.push_back(std::move(*checked));
  if (!errors.empty()) return report_errors(errors, streams, "checked");
  streams.out = report_text(report, args, streams.out_terminal);
  return report.count(State::Fail) > 0 && !args.warn_only ? kNo : kYes;
}

}  // namespace plan
