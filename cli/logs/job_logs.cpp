// What several logs say of one job. Tested by tests/cli/diagnose_test.cpp and tests/cli/check_measured_test.cpp.
#include "cli/logs/job_logs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "cli/logs/log_read.hpp"
#include "cli/logs/slow_ranks.hpp"
#include "formulas/keep_errors.hpp"
#include "planner/estimate/physics.hpp"
#include "planner/runs/run_rates.hpp"

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

namespace {

/// What a log prints of its speed, the figure that counts first.
struct PrintedSpeed {
  std::string_view what;
  Steady step;
  const Series* series = nullptr;
  double work = 0;  ///< of a step, where the series has rates; 0: it has seconds
};

/// A run that went at one speed and then at another.
struct TwoSpeeds {
  std::int64_t first = 0;  ///< steps before the change
  double before = 0, after = 0;
  bool gradual = false;  ///< from the one to the other steadily, with no change at once
};

double middle(std::vector<double> values) {
  const auto half = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), half, values.end());
  return *half;
}

double apart_from(const std::vector<double>& values, double centre) {
  double sum = 0;
  for (const double value : values) sum += std::fabs(value - centre);
  return sum;
}

/// How far values are from two medians, one before the split.
double apart_from_two(const std::vector<double>& values, std::size_t split) {
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(split);
  const std::vector<double> head(values.begin(), at), tail(at, values.end());
  return apart_from(head, middle(head)) + apart_from(tail, middle(tail));
}

/// How far values are from a straight line through the medians of their first and their last third.
double apart_from_line(const std::vector<double>& values) {
  const std::size_t third = values.size() / 3, last = values.size() - third;
  const double from = middle({values.begin(), values.begin() + static_cast<std::ptrdiff_t>(third)});
  const double to = middle({values.begin() + static_cast<std::ptrdiff_t>(last), values.end()});
  std::vector<double> level;
  for (std::size_t i = 0; i < values.size(); ++i)
    level.push_back(values[i] - (to - from) * static_cast<double>(i) / static_cast<double>(last));
  return apart_from(level, middle(level));
}

/// Does a line describe the steps better than two speeds do? Of a drift by so many percent a step their logarithms.
bool is_gradual(std::vector<double> steps, std::size_t split) {
  if (apart_from_line(steps) < apart_from_two(steps, split)) return true;
  if (std::any_of(steps.begin(), steps.end(), [](double step) { return !(step > 0); })) return false;
  for (double& step : steps) step = std::log(step);
  return apart_from_line(steps) < apart_from_two(steps, split);
}

/// Splits the steps where two medians describe them best. A warm-up is shorter than ten steps, steps
/// scatter less than they change, and a change below a tenth is none.
std::optional<TwoSpeeds> two_speeds(const PrintedSpeed& speed) {
  constexpr std::size_t kMost = 400, kFewest = 10;
  constexpr double kChange = 0.1, kScatter = 1.0 / 3;
  if (speed.series == nullptr) return std::nullopt;
  const std::size_t stride = speed.series->values().size() / kMost + 1;
  std::vector<double> steps;
  for (std::size_t i = 0; i < speed.series->values().size(); i += stride) {
    const double value = speed.series->values()[i];
    steps.push_back(speed.work > 0 && value > 0 ? speed.work / value : value);
  }
  double least = std::numeric_limits<double>::infinity();
  std::size_t split = 0;
  for (std::size_t at = 1; at < steps.size(); ++at)
    if (const double cost = apart_from_two(steps, at); cost < least) least = cost, split = at;
  if (split < kFewest || steps.size() - split < kFewest) return std::nullopt;
  const auto at = steps.begin() + static_cast<std::ptrdiff_t>(split);
  TwoSpeeds two{static_cast<std::int64_t>(split * stride) * speed.series->every(), middle({steps.begin(), at}),
                middle({at, steps.end()})};
  const double change = std::fabs(two.after - two.before);
  if (!(change > kChange * std::min(two.before, two.after)) ||
      !(least < kScatter * change * static_cast<double>(steps.size())))
    return std::nullopt;
  if (is_gradual(steps, split)) {
    two.gradual = true;
    two.before = middle({steps.begin(), steps.begin() + kFewest});
    two.after = middle({steps.end() - kFewest, steps.end()});
  }
  return two;
}

std::vector<PrintedSpeed> printed_speeds(const MeasuredLog& log, const Problem& problem) {
  std::vector<PrintedSpeed> speeds;
  if (const Series* times = log.find(LogFigure::StepTime)) speeds.push_back({"step times", steady(*times), times});
  const auto from_rate = [&](std::string_view what, LogFigure figure, double work) {
    const Series* rates = log.find(figure);
    if (rates == nullptr) return;
    Steady rate = steady(*rates);
    if (!(rate.median > 0)) return;
    rate.median = work / rate.median;
    speeds.push_back({what, rate, rates, work});
  };
  const double sequences = static_cast<double>(problem.training.global_batch);
  const double tokens = static_cast<double>(problem.training.tokens_per_step());
  from_rate("tokens/s of a GPU", LogFigure::TokensPerSecondGpu, tokens / problem.gpus);
  from_rate("tokens/s", LogFigure::TokensPerSecond, tokens);
  from_rate("samples/s", LogFigure::SamplesPerSecond, sequences);
  const Series* mean = log.find(LogFigure::TokensPerSecondSoFar);  // the last one rests on the most steps
  if (speeds.empty() && mean != nullptr && mean->last() > 0)
    speeds.push_back({"mean tokens/s", {tokens / mean->last(), 0, 0, mean->count(), 0}});
  return speeds;
}

Error not_of_these_gpus(std::string message) {
  return {"files_disagree",
          std::move(message),
          {"the log is of another job, or prints its figures in another unit"},
          {"--model, --seq, --global-batch, --precision, --gpu and --gpus of the run that wrote it"}};
}

}  // namespace

std::optional<Steady> step_of(const MeasuredLog& log, const Problem& problem) {
  const std::vector<PrintedSpeed> speeds = printed_speeds(log, problem);
  return speeds.empty() ? std::nullopt : std::optional(speeds.front().step);
}

std::vector<std::string> speeds_apart(const MeasuredLog& log, const Problem& problem) {
  constexpr double kApart = 1.3, kWorkApart = 2;
  const auto apart = [](double a, double b, double most) { return a > b * most || b > a * most; };
  std::vector<std::string> said;
  const std::vector<PrintedSpeed> speeds = printed_speeds(log, problem);
  if (speeds.empty() || !(speeds.front().step.median > 0)) return said;
  const double step = speeds.front().step.median;
  const std::optional<TwoSpeeds> two = two_speeds(speeds.front());
  if (two && two->gradual)
    said.push_back(fmt::format("the steps of {} change steadily, from {:.3g} s to {:.3g} s, and {:.3g} s count",
                               log.file, two->before, two->after, step));
  else if (two)
    said.push_back(
        fmt::format("the first {} steps of {} take {:.3g} s and those behind them {:.3g} s: something changed while "
                    "it ran, and {:.3g} s count",
                    two->first, log.file, two->before, two->after, step));
  for (const PrintedSpeed& other : speeds)
    if (apart(other.step.median, step, kApart))
      said.push_back(fmt::format("the {} of {} are steps of {:.3g} s of this job, its {} of {:.3g} s, which count",
                                 other.what, log.file, other.step.median, speeds.front().what, step));
  const Series* rates = log.find(LogFigure::TflopsPerGpu);
  if (rates == nullptr || problem.training.adapters()) return said;
  const CountedFlops counted = counted_by_any(problem.model, static_cast<double>(problem.training.seq));
  const double tokens = static_cast<double>(problem.training.tokens_per_step()) / problem.gpus;
  const double work = steady(*rates).median * 1e12 * step / tokens;
  if (work < counted.least / kWorkApart || work > counted.most * kWorkApart)
    said.push_back(
        fmt::format("{} counts {:.3g} GFLOPs a token where this job has {:.3g} to {:.3g}: its model, sequence or "
                    "batch are others",
                    log.file, work / 1e9, counted.least / 1e9, counted.most / 1e9));
  return said;
}

Errors beyond_gpus(const JobLogs& logs, RealBytes device, const Problem& problem, const Estimate& planned) {
  Errors errors;
  const Gpu& gpu = problem.cluster.gpu;
  const Seconds least = least_step(problem, planned);
  if (logs.step && logs.step->median < least.value)
    errors.push_back(
        not_of_these_gpus(fmt::format("{} has steps of {:.3g} s, and this job's take {:.3g} s at the peak "
                                      "of {} x {}",
                                      logs.logs.front().file, logs.step->median, least.value, problem.gpus, gpu.name)));
  const double peak = peak_flops(gpu, problem.training.precision);
  const double most = most_printed_flops(problem, planned.layout.tp);
  for (const MeasuredLog& log : logs.logs)
    if (const Series* rates = log.find(LogFigure::TflopsPerGpu); errors.empty() && rates != nullptr && peak > 0)
      if (const double rate = steady(*rates).median * 1e12; rate > most)
        errors.push_back(
            not_of_these_gpus(fmt::format("{} prints {:.4g} TFLOP/s of a GPU, and the peak of {} is {:.4g}", log.file,
                                          rate / 1e12, gpu.name, peak / 1e12)));
  for (const LogFigure figure : {LogFigure::Allocated, LogFigure::Reserved, LogFigure::Device})
    device = std::max(device, most_memory(logs.logs, figure));
  // GB may be printed for GiB, and cards have a little more than their preset leaves to a job.
  if (device > kLooseUnit * RealBytes(gpu.memory))
    errors.push_back(
        not_of_these_gpus(fmt::format("the run took {:.1f} GiB of a GPU, and {} has {:.1f}", device.value / kGiB,
                                      gpu.name, static_cast<double>(gpu.memory.value) / kGiB)));
  return errors;
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
