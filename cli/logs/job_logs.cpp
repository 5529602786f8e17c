// What several logs say of one job. Tested by tests/cli/diagnose_test.cpp and tests/cli/check_measured_test.cpp.
#include "cli/logs/job_logs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/logs/log_read.hpp"
#include "cli/logs/slow_ranks.hpp"
#include "formulas/keep_errors.hpp"
#include "planner/physics.hpp"

namespace plan {
namespace {

/// A log of another job tells nothing about this one.
std::optional<Error> other_job(const MeasuredLog& log, const Problem& problem) {
  if (const Series* either = log.find(LogFigure::BatchOfEither)) {
    constexpr double kThreeDigits = 0.0051;
    const auto is = [&](std::int64_t count) {
      return std::fabs(either->last() / static_cast<double>(count) - 1) <= kThreeDigits;
    };
    if (is(problem.training.global_batch) || is(problem.training.tokens_per_step())) return std::nullopt;
    return Error{"files_disagree",
                 fmt::format("{} is of steps of {:g} sequences or tokens, and the job has {} and {}", log.file,
                             either->last(), problem.training.global_batch, problem.training.tokens_per_step()),
                 {},
                 {"--global-batch N, --seq N"}};
  }
  const Series* batches = log.find(LogFigure::GlobalBatch);
  if (batches == nullptr || std::llround(batches->last()) == problem.training.global_batch) return std::nullopt;
  return Error{"files_disagree",
               fmt::format("{} is of steps of {:.0f} sequences, and the job has {}", log.file, batches->last(),
                           problem.training.global_batch),
               {},
               {fmt::format("--global-batch {:.0f}", batches->last())}};
}

/// Ranks whose own steps take longer than the others' name the slow one.
void compare_ranks(const std::vector<NamedTime>& steps, std::vector<Evidence>& evidence) {
  for (const SlowRank& slow : slow_ranks(steps))
    evidence.push_back(
        {"slow_rank", true,
         fmt::format("{} takes {:.3g} s a step, the others {:.3g} s", slow.name, slow.time, slow.usual)});
}

}  // namespace

std::optional<Steady> step_of(const MeasuredLog& log, const Problem& problem) {
  if (const Series* times = log.find(LogFigure::StepTime)) return steady(*times);
  const auto from_rate = [&](LogFigure figure, double work) -> std::optional<Steady> {
    const Series* rates = log.find(figure);
    if (rates == nullptr) return std::nullopt;
    Steady rate = steady(*rates);
    if (!(rate.median > 0)) return std::nullopt;
    rate.median = work / rate.median;
    return rate;
  };
  const double sequences = static_cast<double>(problem.training.global_batch);
  const double tokens = static_cast<double>(problem.training.tokens_per_step());
  if (auto step = from_rate(LogFigure::TokensPerSecondGpu, tokens / problem.gpus)) return step;
  if (auto step = from_rate(LogFigure::TokensPerSecond, tokens)) return step;
  if (auto step = from_rate(LogFigure::SamplesPerSecond, sequences)) return step;
  const Series* mean = log.find(LogFigure::TokensPerSecondSoFar);  // the last one rests on the most steps
  if (mean == nullptr || !(mean->last() > 0)) return std::nullopt;
  return Steady{tokens / mean->last(), 0, 0, mean->count(), 0};
}

std::optional<Error> too_fast(const JobLogs& logs, const Problem& problem, const Estimate& planned) {
  const Seconds least = least_step(problem, planned);
  if (!logs.step || logs.step->median >= least.value) return std::nullopt;
  return Error{
      "files_disagree",
      fmt::format("{} has steps of {:.3g} s, and this job's take {:.3g} s at the peak of {} x {}",
                  logs.logs.front().file, logs.step->median, least.value, problem.gpus, problem.cluster.gpu.name),
      {"the log is of another job, or prints its speed of something else than this job's whole step"},
      {"--model, --seq, --global-batch and --gpus of the run that wrote it"}};
}

RealBytes most_memory(const std::vector<MeasuredLog>& logs, LogFigure figure) {
  RealBytes most{};
  for (const MeasuredLog& log : logs)
    if (const Series* series = log.find(figure)) most = std::max(most, RealBytes(series->largest()));
  return most;
}

Result<JobLogs> job_logs(std::vector<MeasuredLog> logs, const Problem& problem) {
  JobLogs read;
  Errors errors;
  std::vector<NamedTime> steps;
  for (MeasuredLog& log : logs) {
    if (auto error = other_job(log, problem)) {
      errors.push_back(*error);
      continue;
    }
    read.evidence.insert(read.evidence.end(), log.evidence.begin(), log.evidence.end());
    if (const std::optional<Steady> step = step_of(log, problem); step && step->median > 0) {
      steps.push_back({log.file, step->median});
      if (!read.step) read.step = step;
    }
    read.logs.push_back(std::move(log));
  }
  if (!errors.empty()) return fail(std::move(errors));
  compare_ranks(steps, read.evidence);
  return read;
}

Result<JobLogs> read_job_logs(const std::vector<std::string>& files, const Problem& problem) {
  std::vector<MeasuredLog> logs;
  Errors errors;
  for (const std::string& file : files)
    if (Result<MeasuredLog> log = read_log(file))
      logs.push_back(std::move(*log));
    else
      keep_errors(errors, log);
  Result<JobLogs> read = job_logs(std::move(logs), problem);
  keep_errors(errors, read);
  if (!errors.empty()) return fail(std::move(errors));
  return read;
}

}  // namespace plan
