// A run's own figures, to be held against the limits of its job. Tested by tests/cli/check_measured_test.cpp.
#include "cli/check/measured.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "cli/logs/no_number.hpp"
#include "cli/logs/smi_read.hpp"
#include "formulas/keep_errors.hpp"
#include "planner/estimate/claims.hpp"

namespace plan {
namespace {

/// The peak of a GPU, from the figure that leaves least out. What an allocator does not see is taken as predicted.
void take_peak(MeasuredJob& measured, const JobLogs& logs, RealBytes device, const Estimate& planned) {
  const StageMemory& worst = planned.stages[static_cast<std::size_t>(planned.peak_stage)];
  const RealBytes outside = worst.outside();
  const RealBytes reserved = most_memory(logs.logs, LogFigure::Reserved);
  const RealBytes allocated = most_memory(logs.logs, LogFigure::Allocated);
  device = std::max(device, most_memory(logs.logs, LogFigure::Device));
  if (device > RealBytes(0)) {
    measured.peak = device, measured.peak_kind = "device";
  } else if (reserved > RealBytes(0)) {
    measured.unseen = outside, measured.peak = reserved + outside, measured.peak_kind = "reserved";
  } else if (allocated > RealBytes(0)) {
    measured.unseen = outside + RealBytes(worst.reserve);
    measured.peak = allocated + measured.unseen, measured.peak_kind = "allocated";
  }
  for (const MeasuredLog& log : logs.logs)
    if (log.out_of_memory && !measured.out_of_memory) measured.out_of_memory = log.out_of_memory;
  if (!measured.out_of_memory) return;
  const OutOfMemory& oom = *measured.out_of_memory;
  if (oom.capacity > RealBytes(0))
    measured.peak = oom.capacity - oom.free + oom.asked, measured.peak_kind = "out of memory", measured.unseen = {};
}

}  // namespace

Result<MeasuredJob> measured_job(const std::vector<std::string>& logs, const std::vector<std::string>& smi,
                                 const Problem& problem, const Estimate& planned) {
  Errors errors;
  MeasuredJob measured;
  measured.files = fmt::format("{}", fmt::join(logs, ", "));
  Result<JobLogs> read = read_job_logs(logs, problem);
  if (!read) errors = read.error();
  RealBytes device{};
  for (const std::string& file : smi) {
    const Result<SmiSummary> summary = read_smi(file);
    if (keep_errors(errors, summary)) device = std::max(device, summary->memory_used);
  }
  if (read) {
    const Errors beyond = beyond_gpus(*read, device, problem, planned);
    errors.insert(errors.end(), beyond.begin(), beyond.end());
  }
  if (!errors.empty()) return fail(std::move(errors));
  measured.step = read->step;
  for (const MeasuredLog& log : read->logs)
    if (const Series* none = log.find(LogFigure::NotNumber)) measured.no_number += none->sum();
  for (const MeasuredLog& log : read->logs)
    for (std::string& said : speeds_apart(log, problem)) measured.speeds.push_back(std::move(said));
  take_peak(measured, *read, device, planned);
  return measured;
}

bool shows(const MeasuredJob& measured, Metric metric) {
  if (metric == Metric::MemoryFit) return measured.peak > RealBytes(0) || measured.step || measured.out_of_memory;
  if (metric == Metric::MemoryPeak) return measured.peak > RealBytes(0);
  return rests_on_time(metric) && measured.step.has_value();
}

Estimate as_measured(Estimate planned, const MeasuredJob& measured) {
  if (measured.step) {
    const double slower = measured.step->median / planned.step_time.value;
    planned.step_time = planned.step_time_low = planned.step_time_high = Seconds(measured.step->median);
    planned.tokens_per_s /= slower, planned.tokens_per_s_per_gpu /= slower;
    for (double* ratio : {&planned.mfu.model_causal, &planned.mfu.model_full, &planned.mfu.hardware}) *ratio /= slower;
  }
  if (measured.peak > RealBytes(0)) planned.peak = planned.peak_low = planned.peak_high = round_bytes(measured.peak);
  // The GPU itself said that it was full, whatever the peak looks like beside it.
  if (measured.out_of_memory) {
    const Bytes said = round_bytes(measured.out_of_memory->capacity);
    if (said > Bytes(0)) planned.capacity = said;
    const Bytes beyond = planned.capacity + Bytes(1);
    for (Bytes* bytes : {&planned.peak, &planned.peak_low, &planned.peak_high}) *bytes = std::max(*bytes, beyond);
  }
  return planned;
}

std::string measured_text(const MeasuredJob& measured) {
  if (!measured.step) return fmt::format("no finished step in {}", measured.files);
  return fmt::format("{} steps of {}, {} of warm-up left out{}", measured.step->used, measured.files,
                     measured.step->left_out, no_number_text(measured.no_number));
}

}  // namespace plan
