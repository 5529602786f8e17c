// From the words of a budget and the launch files that it names to a problem. They are read as flags are, so that both
// mean the same; mistakes are then spelt as the budget's keys. Tested by tests/cli/check_test.cpp.
#include <fmt/core.h>

#include "cli/check/budget_keys.hpp"
#include "cli/check/check.hpp"
#include "cli/launch/launch.hpp"
#include "cli/request/resolve.hpp"
#include "cli/request/unstated.hpp"
#include "cli/request/words/gpu_words.hpp"
#include "cli/terminal/numbers.hpp"
#include "formulas/text.hpp"
#include "planner/problem/axes.hpp"
#include "planner/rules/complete_layout.hpp"
#include "planner/rules/words.hpp"
#include "presets/store.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

/// "16384 x h100-sxm" is a number and a kind. A kind that the budget states twice, and numbers in other words, are left
/// for the reader of `gpus` to refuse.
void split_gpus(Asked& asked) {
  const auto gpus = asked.words.find("gpus");
  if (gpus == asked.words.end()) return;
  const std::string text = gpus->second.text;
  const std::size_t at = text.find(" x ");
  if (at == std::string::npos) return;
  const std::string kind(trim(std::string_view(text).substr(at + 3)));
  const StoreOptions store = StoreOptions::from_environment();
  if (!read_count("gpus", trim(std::string_view(text).substr(0, at)), 1, kMostRanks)) return;
  if (text.find(',') != std::string::npos) return;  // several kinds, or thousands
  if (machines_or_gpus("gpus", text, store, true)) return;
  if (!load_gpu(kind, store) && (several_kinds(text, store) || counted_gpus(text, store))) return;
  bool typed = false;  // on the command line, where it replaces what the budget says
  for (const char* key : {"cluster", "profile", "gpu"})
    if (const Word* other = asked.find(key)) {
      if (!other->place.file.empty()) return;
      typed = true;
    }
  gpus->second.text.resize(text.find_last_not_of(' ', at) + 1);
  if (!typed) asked.words["gpu"] = {kind, gpus->second.place};
}

/// The words of a budget's job; of those that were typed, the ones that go with `plan check`.
Asked asked_of_job(const BudgetJob& job, const Args& typed) {
  Asked asked;
  asked.takes_pools = true;
  for (const std::string_view key : job_words())
    if (const auto found = job.words.find(key); found != job.words.end()) asked.words.insert(*found);
  split_gpus(asked);
  for (const Word& file : job.from) asked.from.push_back(file.text);
  if (typed.threads) asked.words["threads"] = {*typed.threads, {}};
  asked.strict = typed.strict;
  asked.arguments = typed.arguments.value_or("");
  if (typed.profile) {
    asked.words["profile"] = {*typed.profile, {}};
    asked.words.erase("gpu"), asked.words.erase("cluster");
  }
  return asked;
}

Error in_budget(Error error, const BudgetJob& job) {
  if (!error.of_launch_file) error.message = spelt_as_keys(error.message);
  for (std::string& help : error.help) help = spelt_as_keys(help, error.of_launch_file);
  for (Change& change : error.changes) change.flags = spelt_as_keys(change.flags);
  const bool missing = error.code == "missing_flag";
  if (missing && !job.from.empty()) {
    error.message += fmt::format(": neither the budget nor `{}` states it", job.from.front().text);
    if (job.from.size() > 1) error.message += fmt::format(" (or the {} files with it)", job.from.size() - 1);
  }
  if (!error.place.file.empty()) return error;
  if (missing || job.from.empty()) {
    error.place = job.place;
    return error;
  }
  std::string files;  // they say too little, or what does not go together
  for (const Word& file : job.from) files += (files.empty() ? "" : ", ") + file.text;
  error.facts.push_back(fmt::format("read from {}", files));
  error.place = job.from.front().place;
  return error;
}

}  // namespace

Result<ResolvedJob> resolve_job(const BudgetJob& job, const Args& typed) {
  Asked asked = asked_of_job(job, typed);
  Result<Problem> problem = resolve_problem(asked);
  if (!problem) {
    Errors errors;
    for (Error& error : problem.error()) errors.push_back(in_budget(std::move(error), job));
    return fail(std::move(errors));
  }
  ResolvedJob out{.budget = &job, .asked = std::move(asked), .problem = std::move(*problem), .run = job.budget.run};
  const bool one = job.words.contains("layout") || !job.from.empty();
  out.pooled = one && !out.problem.pools.empty();
  if (one && !out.pooled) {
    out.layout = complete_layout(out.problem);
    Errors dropped = dropped_words(out.problem);
    for (Error& error : dropped) error = in_budget(std::move(error), job);
    if (!dropped.empty()) return fail(std::move(dropped));
  }
  for (const std::string& line : unstated_lines(out.problem)) out.notes.push_back({"not_stated", line});
  out.notes.insert(out.notes.end(), out.problem.notes.begin(), out.problem.notes.end());
  std::erase_if(out.notes, [](const Note& note) { return note.code == "defaults_taken"; });
  out.homes = out.problem.homes;
  if (!(out.run.price > 0)) out.run.price = out.problem.cluster.gpu.price_per_hour;
  Errors errors;
  for (const Limit& limit : job.budget.limits)
    if (limit.metric == Metric::Cost && !(out.run.price > 0))
      errors.push_back({"missing_key",
                        fmt::format("`cost` needs a price: none is known for {}", out.problem.cluster.gpu.name),
                        {},
                        {"write `price: 2.5 USD/h` beside `limits`"},
                        limit.place});
  if (!errors.empty()) return fail(std::move(errors));
  return out;
}

}  // namespace plan
