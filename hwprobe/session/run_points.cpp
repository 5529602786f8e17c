// The points of a probe one after another, with a canary between them and a second pass; plan-measuring(7) 1.0.
// Tested by tests/hwprobe/run_points_test.cpp.
#include "hwprobe/session/run_points.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <map>
#include <optional>

#include "formulas/units.hpp"
#include "hwprobe/clock.hpp"
#include "hwprobe/fits/fit.hpp"
#include "hwprobe/fits/statistics.hpp"
#include "hwprobe/session/rank_work.hpp"

namespace plan {
namespace {

constexpr double kOverBudget = 1.1;
constexpr double kBetweenCanaries = 5;
constexpr double kCanaryBytes = 64.0 * kMiB, kCanaryWidth = 4096;

/// The results of all ranks as one observation. A rank that could not measure the point is a reason to skip it, with
/// its words; only a rank that is lost for everything that follows is an error.
struct Gathered {
  std::optional<Observation> observation{};
  std::vector<GpuPulse> pulses{};
  std::string skip{};
  bool wrong = false;  ///< it ran, and computed something else than it should
  Errors failure{};
};

bool lost(const RankResult& r) {
  return r.status == PLAN_PROBE_LOST || r.status == PLAN_PROBE_ABORTED || r.status == PLAN_PROBE_STUCK;
}

/// How much the words of a status tell: those of a rank that waited for another are the other's to explain.
int weight(int status) {
  switch (status) {
    case PLAN_PROBE_OK: return 0;
    case PLAN_PROBE_PEER:
    case PLAN_PROBE_ABORTED: return 1;
    case PLAN_PROBE_STUCK: return 2;
    case PLAN_PROBE_LOST: return 4;
    default: return 3;
  }
}

/// The rank whose words count; -1 if all measured.
int speaker(const std::vector<RankResult>& results) {
  int chosen = -1;
  for (std::size_t r = 0; r < results.size(); ++r)
    if (weight(results[r].status) > (chosen < 0 ? 0 : weight(results[static_cast<std::size_t>(chosen)].status)))
      chosen = static_cast<int>(r);
  return chosen;
}

Gathered gather(const SweepPoint& planned, const std::vector<std::string>& payloads,
                const std::vector<std::string>& names) {
  Gathered out;
  Observation o{.planned = planned};
  std::vector<std::vector<double>> samples;
  std::vector<RankResult> results;
  for (const std::string& payload : payloads) {
    Result<RankResult> result = unpack_result(payload);
    if (!result) {
      out.failure = result.error();
      return out;
    }
    out.pulses.insert(out.pulses.end(), result->pulses.begin(), result->pulses.end());
    results.push_back(*std::move(result));
  }
  if (const int r = speaker(results); r >= 0) {
    const RankResult& said = results[static_cast<std::size_t>(r)];
    const std::string& who = names[static_cast<std::size_t>(r)];
    if (std::any_of(results.begin(), results.end(), lost))
      out.failure = {{"point_failed", fmt::format("`{}` failed on {}: {}", planned.id, who, said.error)}};
    // What no rank of this kind can do needs no name; what one could not, does.
    const bool all = std::all_of(results.begin(), results.end(),
                                 [&](const RankResult& other) { return other.status == said.status; });
    out.skip = all && said.status == PLAN_PROBE_UNSUPPORTED ? said.error : fmt::format("{}: {}", who, said.error);
    out.wrong = said.status == PLAN_PROBE_WRONG_RESULT;
    return out;
  }
  for (std::size_t r = 0; r < results.size(); ++r) {
    const plan_probe_result& d = results[r].data;
    for (std::size_t i = 0; i < std::size(o.value); ++i) o.value[i] = std::max(o.value[i], d.value[i]);
    if (d.took_part == 0) continue;
    samples.emplace_back(d.seconds, d.seconds + d.count);
    o.ranks.push_back(static_cast<int>(r));
    o.medians.push_back(median(samples.back()));
    o.bytes = std::max(o.bytes, d.bytes);
    if (o.text.empty()) o.text = d.text;
  }
  o.samples = slowest_rank(samples);
  o.summary = summarise(o.samples);
  o.two_modes = bimodal(o.samples);
  out.observation = std::move(o);
  return out;
}

/// Does one GPU alone decide the point, so that it can be measured again at another time?
bool repeatable(const SweepPoint& point) {
  return point.section <= Section::HostLink && point.section != Section::Memory &&
         point.point.kind != PLAN_PROBE_SUSTAINED;
}

SweepPoint canary(Section section, bool copy) {
  SweepPoint point{.section = section, .id = copy ? "canary copy" : "canary gemm"};
  point.point.kind = copy ? PLAN_PROBE_COPY : PLAN_PROBE_GEMM;
  point.point.format = PLAN_PROBE_BF16;
  for (int i = 0; i < 3; ++i) point.point.number[i] = static_cast<std::int64_t>(copy ? kCanaryBytes : kCanaryWidth);
  point.point.least_samples = 5, point.point.most_samples = 9, point.point.max_seconds = 0.05;
  return point;
}

/// What is known of a section beside its points.
struct SectionWatch {
  std::vector<GpuPulse> pulses{};
  std::array<std::vector<double>, 2> canaries{};  ///< seconds of GEMM and copy
  std::vector<double> repeats{};                  ///< |second pass / first - 1|
  std::size_t points = 0;
};

double drift(const SectionWatch& watch) {
  double most = watch.repeats.empty() ? 0 : median(watch.repeats);
  for (const std::vector<double>& seconds : watch.canaries)
    if (const auto [low, high] = std::minmax_element(seconds.begin(), seconds.end()); low != high && *low > 0)
      most = std::max(most, *high / *low - 1);
  return most;
}

class Runner {
 public:
  Runner(const Sweep& sweep, double budget_s, const PointRounds& rounds)
      : sweep_(sweep), budget_s_(budget_s), rounds_(rounds), left_(sweep.seconds) {}

  SessionOutcome run() {
    outcome_.skipped = sweep_.skipped;
    bool on = true;
    for (std::size_t i = 0; i < sweep_.points.size() && on; ++i) on = first_time(i);
    for (std::size_t i = sweep_.points.size(); i-- > 0 && on;) on = second_time(i);
    for (const auto& [section, watch] : watches_) outcome_.conditions.push_back(conditions(section, watch));
    return std::move(outcome_);
  }

 private:
  bool interrupted() {
    if (rounds_.interrupted && rounds_.interrupted()) outcome_.interrupted = true;
    return outcome_.interrupted;
  }

  /// Lets the ranks measure a point; nothing if it was skipped, or failed and ended the probe.
  std::optional<Observation> measure(const SweepPoint& point) {
    const Result<std::vector<std::string>> payloads = rounds_.ask(point);
    if (!payloads) {
      outcome_.failure = payloads.error();
      return std::nullopt;
    }
    Gathered gathered = gather(point, *payloads, rounds_.names);
    SectionWatch& watch = watches_[point.section];
    watch.pulses.insert(watch.pulses.end(), gathered.pulses.begin(), gathered.pulses.end());
    outcome_.failure = std::move(gathered.failure);
    skip_ = std::move(gathered.skip);
    if (gathered.wrong) outcome_.warnings.push_back({"WRONG_RESULT", point.id, skip_});
    return std::move(gathered.observation);
  }

  /// A canary that this GPU cannot run is left out from then on.
  bool look_for_drift(Section section) {
    if (section > Section::HostLink || section == Section::Memory) return true;
    if (section == canary_section_ && since(last_canary_) < kBetweenCanaries) return true;
    canary_section_ = section;
    for (std::size_t which = 0; which < 2; ++which) {
      if (!canaries_[which]) continue;
      const std::optional<Observation> seen = measure(canary(section, which == 1));
      if (!outcome_.failure.empty()) return false;
      canaries_[which] = seen.has_value();
      if (seen) watches_[section].canaries[which].push_back(seen->summary.median);
    }
    last_canary_ = SteadyClock::now();
    return true;
  }

  bool first_time(std::size_t i) {
    const SweepPoint& point = sweep_.points[i];
    if (interrupted()) return false;
    left_ -= point.cost_s;
    if (since(begin_) > kOverBudget * budget_s_ && point.priority > 0) {
      outcome_.skipped.push_back({point.id, "budget"});
      return true;
    }
    if (rounds_.show) rounds_.show({i, sweep_.points.size(), point.id, left_, name(point.section)});
    if (!look_for_drift(point.section)) return false;
    std::optional<Observation> seen = measure(point);
    if (!outcome_.failure.empty()) return false;
    if (!skip_.empty()) outcome_.skipped.push_back({point.id, skip_});
    if (!seen) return true;
    ++watches_[point.section].points;
    where_[i] = outcome_.observations.size();
    outcome_.observations.push_back(*std::move(seen));
    return true;
  }

  bool second_time(std::size_t i) {
    const SweepPoint& point = sweep_.points[i];
    const auto before = where_.find(i);
    if (before == where_.end() || !repeatable(point) || since(begin_) + point.cost_s > budget_s_) return true;
    if (interrupted()) return false;
    if (rounds_.show)
      rounds_.show(
          {sweep_.points.size() - 1, sweep_.points.size(), point.id, budget_s_ - since(begin_), "second pass"});
    const std::optional<Observation> seen = measure(point);
    if (!outcome_.failure.empty()) return false;
    if (!seen) return true;
    Observation& first = outcome_.observations[before->second];
    if (first.summary.median > 0)
      watches_[point.section].repeats.push_back(std::abs(seen->summary.median / first.summary.median - 1));
    first.samples.insert(first.samples.end(), seen->samples.begin(), seen->samples.end());
    first.summary = summarise(first.samples);
    for (std::size_t r = 0; r < std::min(first.medians.size(), seen->medians.size()); ++r)
      first.medians[r] = 0.5 * (first.medians[r] + seen->medians[r]);
    return true;
  }

  static ProfileConditions conditions(Section section, const SectionWatch& watch) {
    const PulseSummary pulse = summarise(watch.pulses);
    ProfileConditions out{.section = std::string(name(section)), .samples = pulse.samples};
    out.sm_clock_mhz_p50 = pulse.sm_mhz, out.memory_clock_mhz_p50 = pulse.memory_mhz;
    out.power_w_p50 = pulse.watts, out.temperature_c_max = pulse.celsius;
    out.throttle = throttle_words(pulse.reasons);
    out.drift_pct = 100 * drift(watch);
    out.passes = watch.points > 0 && watch.repeats.size() == watch.points ? 2 : 1;
    return out;
  }

  const Sweep& sweep_;
  double budget_s_;
  const PointRounds& rounds_;
  double left_;
  SessionOutcome outcome_{};
  std::string skip_{};
  std::map<Section, SectionWatch> watches_{};
  std::map<std::size_t, std::size_t> where_{};  ///< observation of a point
  std::array<bool, 2> canaries_{true, true};
  Section canary_section_ = Section::Memory;
  SteadyClock::time_point begin_ = SteadyClock::now(), last_canary_{};
};

}  // namespace

SessionOutcome run_points(const Sweep& sweep, double budget_s, const PointRounds& rounds) {
  return Runner(sweep, budget_s, rounds).run();
}

}  // namespace plan
