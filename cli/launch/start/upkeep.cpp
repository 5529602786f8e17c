// How often a job saves, and when it ends by itself. A checkpoint lies Daly's interval from the last: failures of GPUs
// and the time limit of a batch job interrupt it, at rates that add. The time of a checkpoint is that of writing it:
// one that is written behind the training's back stalls it for less, and the interval is then longer than the best, by
// little, since the curve is flat there.
// Source: Daly 2006 (formulas/textbook/reliability.hpp), planner/estimate/failures.hpp. Tested by
// tests/cli/site_test.cpp.
#include "cli/launch/start/upkeep.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/launch/start/launcher.hpp"
#include "formulas/textbook/reliability.hpp"
#include "presets/quantity.hpp"

namespace plan {
namespace {

constexpr double kHour = 3600, kMinute = 60;
/// GPU-hours between interruptions of Llama 3's 16,384 H100: 419 in 54 days (Grattafiori et al. 2024, arXiv:2407.21783,
/// section 3.3.4).
constexpr double kPublishedMtbf = 50700;
/// Limit of a batch script whose site states none.
constexpr std::int64_t kDay = 24 * 3600;

double interruption(double mtbf_hours, int gpus, std::int64_t limit_s) {
  const double rate = gpus / (mtbf_hours * kHour) + (limit_s > 0 ? 1.0 / static_cast<double>(limit_s) : 0);
  return 1 / rate;
}

/// The last checkpoint and a step, each twice, since storage that all jobs share is slow at times, and a minute to end.
std::int64_t lead(const Upkeep& upkeep, Seconds step) {
  const double need = 2 * (upkeep.save_time + step).value + kMinute;
  const auto whole = static_cast<std::int64_t>(std::ceil(need / kMinute) * kMinute);
  return std::min(whole, upkeep.limit_s / 2);
}

}  // namespace

std::string launcher_of(const EmitOptions& options) { return options.launcher.empty() ? "slurm" : options.launcher; }

Upkeep upkeep_of(const Plan& plan, const EmitOptions& options) {
  const Problem& problem = plan.problem;
  const FailureFacts& facts = options.failures;
  Upkeep out;
  out.gpu_mtbf_hours = facts.gpu_mtbf_hours.value_or(problem.cluster.gpu_mtbf_hours);
  out.assumed = !(out.gpu_mtbf_hours > 0);
  if (out.assumed) out.gpu_mtbf_hours = kPublishedMtbf;
  const RealBytes bytes = checkpoint_bytes(problem);
  const int gpus = std::max(1, problem.gpus);
  out.size = round_bytes(bytes);
  out.save_time = bytes / BytesPerSecond(facts.storage_bytes_per_s.value_or(kStoragePerGpu * gpus));
  if (launcher_of(options) == "slurm") out.limit_s = options.site ? options.site->time_limit_s : kDay;
  const double mtti = interruption(out.gpu_mtbf_hours, gpus, out.limit_s), delta = out.save_time.value;
  out.interval = delta < 2 * mtti ? daly_interval({delta, mtti}) : Seconds(mtti);
  const double step = plan.best.step_time.value;
  out.every = step > 0 ? std::max<std::int64_t>(1, std::llround(std::min(1e9, out.interval.value / step))) : 1;
  out.interval = Seconds(static_cast<double>(out.every) * step);
  if (out.limit_s > 0) out.lead_s = lead(out, plan.best.step_time);
  return out;
}

std::string Upkeep::line() const {
  return fmt::format(
      "A checkpoint of {:.3g} GB every {} steps, {:.3g} min: it takes {:.2g} min, and one GPU fails in {:.0f} h{}.",
      static_cast<double>(size.value) / 1e9, every, interval.value / kMinute, save_time.value / kMinute, gpu_mtbf_hours,
      assumed ? ", as Llama 3's did: nobody states it" : "");
}

std::string checkpoint_folder(const Plan& plan, const EmitOptions& options) {
  if (!options.site) return options.checkpoint_dir;
  const Site& site = *options.site;
  if (!options.checkpoint_dir.empty())
    return options.checkpoint_dir.front() == '/' || site.work_dir.empty()
               ? options.checkpoint_dir
               : site.work_dir + "/" + options.checkpoint_dir;
  if (!site.checkpoints.empty()) return site.checkpoints;
  return fmt::format("{}/checkpoints/{}", site.work_dir, job_name(plan, options));
}

std::int64_t exit_minutes(const Upkeep& upkeep) {
  return upkeep.limit_s > 0 ? (upkeep.limit_s - upkeep.lead_s / 2) / 60 : 0;
}

}  // namespace plan
