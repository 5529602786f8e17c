// Pipeline schedules: what a rank holds and how long a step takes, in closed form.
//
// Every law was derived from the event graph of the schedule and is checked against the simulator in
// tests/oracle/pipeline_sim.cpp: exactly for equal stages, within stated bounds for unequal ones.
// Where steps roll on only ZB-H1 and ZB-H2 gain (arXiv:2401.10241, section 4). Under most others the first stage
// begins a step and ends it; what V-shaped ones and DualPipe might gain is left out.
//
// Sources: arXiv:2104.04473 (1F1B, interleaved), 2211.05953 (breadth-first), 2401.10241 (ZB-H1, ZB-H2),
// 2405.15362 (ZB-V, V-half, V-min), github.com/deepseek-ai/DualPipe.
// Tested by tests/formulas/schedule_test.cpp, pipeline_laws_test.cpp and rolling_steps_test.cpp.

#include "formulas/schedule.hpp"

#include <algorithm>
#include <cmath>

#include "formulas/pipeline_paths.hpp"

namespace plan {
namespace {

using namespace pipeline;

/// How far the micro-batches fall short of filling a schedule that warms up with 2 pp - 1 of them:
/// 0 with enough, 1 with only pp.
double shortage(const Pipeline& pipe) {
  return std::clamp(static_cast<double>(2 * pipe.pp - 1 - pipe.micro_batches) / (pipe.pp - 1), 0.0, 1.0);
}

/// Weight gradients that fill the wait for another stage: those of the micro-batches in flight there.
double filled(const Pipeline& pipe, const Stage& s, std::int64_t most) {
  return static_cast<double>(std::min(pipe.micro_batches, most) - 1) / (pipe.pp - 1) * s.w;
}

/// Exposed hand-overs of a schedule: of trips through the pipeline, and of the steady phase.
struct ExposedHops {
  double trips = 0, steady = 0;
  double seconds(const Hops& hops) const {
    if (hops.uniform()) return hops.slowest().value * (steady + trips);
    return steady * hops.steady() + trips * hops.mean();
  }
};

ExposedHops exposed(double trips, double steady) { return {trips, steady}; }

/// The laws of one schedule.
struct Laws {
  /// Are there enough micro-batches, and do they divide as it needs? Chunks are asked about before.
  bool (*allows)(const Pipeline&);
  double (*held)(const Pipeline&, int rank);  ///< in_flight()
  PipelineTime (*time)(const Pipeline&, Stages, const Totals&, const Hops&);
  // Of split backwards, for equal stages (simulation).
  /// Wait that one more stage adds, in whole-stage time.
  double (*wait)(const Pipeline&, const Stage&) = nullptr;
  /// Time between two micro-batches in the steady phase. V-half and V-min hold so few that a rank must wait when
  /// forward, input gradient and weight gradient differ.
  double (*period)(const Stage&) = [](const Stage& s) { return s.work(); };
  ExposedHops (*hops)(const Pipeline&) = nullptr;
  /// No stage waits longer than so many times its own work.
  double longest_wait = 1;
  double (*least)(const Pipeline&, const Stage& whole) = nullptr;  ///< least_span()
};
const Laws& laws_of(Schedule schedule);

PipelineTime split_time(double busy, double still, double moving) {
  return {Seconds(busy), Seconds(positive(still - busy)), Seconds(positive(moving - still))};
}

double busy_time(const Pipeline& pipe, const Totals& sum) {
  return static_cast<double>(pipe.micro_batches) * sum.work_max;
}

/// Their paths count the hops themselves.
template <Span (*Law)(const Pipeline&, Stages, const Totals&, const Hops&)>
PipelineTime longest_path(const Pipeline& pipe, Stages stages, const Totals& sum, const Hops& hops) {
  const Span span = Law(pipe, stages, sum, hops);
  return split_time(busy_time(pipe, sum), span.still, span.moving);
}

/// ZB-H1, ZB-H2, ZB-V, V-half, V-min: the slowest stage's work and each other stage's wait.
PipelineTime zero_bubble(const Pipeline& pipe, Stages stages, const Totals& sum, const Hops& hops) {
  const Laws& laws = laws_of(pipe.schedule);
  double wait = 0, spacing = 0;
  for (std::size_t r = 0; r < stages.size(); ++r) {
    const Stage stage(stages[r]);
    spacing = std::max(spacing, laws.period(stage));
    if (r != sum.slowest) wait += laws.wait(pipe, stage);
  }
  const double still = sum.work_max + static_cast<double>(pipe.micro_batches - 1) * spacing + wait;
  return split_time(busy_time(pipe, sum), still, still + laws.hops(pipe).seconds(hops));
}

/// Waits and periods are largest of sums of times: those of all stages add up to no less than that of their sum. The
/// slowest stage's own wait is not in the law.
double least_zero_bubble(const Pipeline& pipe, const Stage& whole) {
  const Laws& laws = laws_of(pipe.schedule);
  const double m = static_cast<double>(pipe.micro_batches), work = whole.work() / pipe.pp;
  const double spaced = m - 1 - laws.longest_wait;
  const double own = spaced > 0 ? work + spaced * laws.period(whole) / pipe.pp : (m - laws.longest_wait) * work;
  return own + laws.wait(pipe, whole);
}

/// The path that dwells on any stage and follows the first micro-batch, or the last one, to the end and back: it meets
/// all work of that one, and backward passes of the stage, or forward ones, of each other micro-batch.
double least_one_f_one_b(const Pipeline& pipe, const Stage& whole) {
  return whole.work() + static_cast<double>(pipe.micro_batches - 1) * std::max(whole.f, whole.b()) / pipe.pp;
}

/// DualPipe and DualPipeV: most micro-batches run as pairs, those of warm-up and cool-down alone.
PipelineTime dualpipe(const Pipeline& pipe, Stages stages, const Totals&, const Hops& hops) {
  const bool v = v_shaped(pipe.schedule);
  const double p = pipe.pp, alone = v ? p + 0.5 : p + 1;
  const double pairs = static_cast<double>(pipe.micro_batches) - alone;
  double longest = 0, wait = 0, slowest_wait = 0;
  for (const StageTime& time : stages) {
    const Stage s(time);
    const double pair = time.pair.value > 0 ? time.pair.value : s.work();
    const double busy = pairs * pair + alone * s.work(), gap = pair + s.b() - 3 * s.w;
    wait += gap / 2;
    if (busy > longest) longest = busy, slowest_wait = gap;
  }
  const double bubble = positive(v ? wait - slowest_wait / 2 : wait - slowest_wait);
  return {Seconds(longest), Seconds(bubble), Seconds(laws_of(pipe.schedule).hops(pipe).seconds(hops))};
}

/// GPipe: a flow shop of identical jobs forward, then one backward.
PipelineTime gpipe(const Pipeline& pipe, Stages, const Totals& sum, const Hops& hops) {
  const double more = static_cast<double>(pipe.micro_batches - 1);
  const double still = sum.f + sum.b + more * (sum.f_max + sum.b_max);
  return split_time(busy_time(pipe, sum), still, still + 2 * hops.after(0, pipe.pp));
}

double least_gpipe(const Pipeline& pipe, const Stage& whole) {
  return whole.work() * (1 + static_cast<double>(pipe.micro_batches - 1) / pipe.pp);
}

double count(const Pipeline& pipe) { return static_cast<double>(pipe.micro_batches); }
bool always(const Pipeline&) { return true; }
bool fills_pipeline(const Pipeline& pipe) { return pipe.micro_batches >= pipe.pp; }
bool fills_twice(const Pipeline& pipe) { return pipe.micro_batches >= std::int64_t{2} * pipe.pp; }
bool whole_groups(const Pipeline& pipe) {
  const std::int64_t m = pipe.micro_batches, group = pipe.group > 0 ? pipe.group : pipe.pp;
  return group >= pipe.pp && group <= m && (m % group == 0 || m % group >= pipe.pp);
}

double held_one_chunk(const Pipeline& pipe, int rank) { return std::min<double>(pipe.pp - rank, count(pipe)); }
double held_many_chunks(const Pipeline& pipe, int rank) {
  const double after = pipe.pp - 1 - rank;
  return std::min(count(pipe) * pipe.vp, 2 * after + (pipe.vp - 1.0) * group_size(pipe) + 1) / pipe.vp;
}

/// One row a schedule, in the order of Schedule.
constexpr Laws kLaws[] = {
    {.allows = always,  // GPipe
     .held = [](const Pipeline& pipe, int) { return count(pipe); },
     .time = gpipe,
     .least = least_gpipe},
    {.allows = always,  // 1F1B
     .held = held_one_chunk,
     .time = longest_path<one_f_one_b>,
     .least = least_one_f_one_b},
    {.allows = whole_groups, .held = held_many_chunks, .time = longest_path<interleaved>},    // interleaved
    {.allows = fills_pipeline, .held = held_many_chunks, .time = longest_path<interleaved>},  // breadth-first
    {.allows = always,                                                                        // ZB-H1
     .held = [](const Pipeline& pipe, int) { return std::min<double>(pipe.pp, count(pipe)); },
     .time = zero_bubble,
     .wait =
         [](const Pipeline& pipe, const Stage& s) {
           return std::max(pipe.rolls_on ? s.i : std::max(s.f, s.i), s.f + s.i - filled(pipe, s, pipe.pp));
         },
     .hops =
         [](const Pipeline& pipe) {
           return exposed(2 * (pipe.pp - 1.0), 2 * (std::min<double>(count(pipe), pipe.pp) - 1));
         },
     .least = least_zero_bubble},
    {.allows = always,  // ZB-H2
     .held = [](const Pipeline& pipe, int) { return std::min(2.0 * pipe.pp - 1, count(pipe)); },
     .time = zero_bubble,
     .wait =
         [](const Pipeline& pipe, const Stage& s) {
           const double least = pipe.rolls_on ? positive(s.i - s.f) : s.f;
           return std::max(least, s.f + s.i - filled(pipe, s, 2 * pipe.pp - 1));
         },
     .hops = [](const Pipeline& pipe) { return exposed((pipe.rolls_on ? 2 : 1) * (pipe.pp - 1.0), 0); },
     .least = least_zero_bubble},
    {.allows = fills_pipeline,  // ZB-V
     .held = [](const Pipeline& pipe, int) { return std::min<double>(pipe.pp, count(pipe)); },
     .time = zero_bubble,
     .wait =
         [](const Pipeline& pipe, const Stage& s) {
           return std::max(1.0, 2 * shortage(pipe)) * std::max({s.f, s.i, 2 * (s.i - s.w)}) / 2;
         },
     .hops = [](const Pipeline& pipe) { return exposed(5.0 * pipe.pp - 7, 0); },
     .longest_wait = 2,
     .least = least_zero_bubble},
    {.allows = fills_pipeline,  // V-half
     .held = [](const Pipeline& pipe, int) { return std::min(std::floor(pipe.pp / 2.0) + 1, count(pipe)); },
     .time = zero_bubble,
     .wait = [](const Pipeline&, const Stage& s) { return (s.f + 2 * s.i + positive(s.i - s.w)) / 2; },
     .period = [](const Stage& s) { return std::max(s.work(), std::max(2 * s.i + s.w / 2, 2 * s.f + s.w)); },
     .hops = [](const Pipeline& pipe) { return exposed(5.0 * pipe.pp - 8, 2 * count(pipe)); },
     .longest_wait = 2,
     .least = least_zero_bubble},
    {.allows = fills_pipeline,  // V-min
     .held = [](const Pipeline& pipe,
                int) { return std::min(std::floor(pipe.pp / 3.0) + (pipe.pp % 3 == 2 ? 2 : 1), count(pipe)); },
     .time = zero_bubble,
     .wait = [](const Pipeline&, const Stage& s) { return s.f + s.i; },
     .period = [](const Stage& s) { return std::max(s.work(), 3 * std::max(s.f, s.i)); },
     .hops = [](const Pipeline& pipe) { return exposed(3.0 * pipe.pp - 2, 6 * count(pipe) * (pipe.pp - 1) / pipe.pp); },
     .least = least_zero_bubble},
    {.allows =
         [](const Pipeline& pipe) { return pipe.pp % 2 == 0 && pipe.micro_batches % 2 == 0 && fills_twice(pipe); },
     .held = [](const Pipeline& pipe, int) { return std::min(pipe.pp + 1.0, count(pipe)); },  // DualPipe
     .time = dualpipe,
     .hops =
         [](const Pipeline& pipe) {
           return exposed(std::max(1.0, 1.5 * pipe.pp - 3), count(pipe) * (pipe.pp - 1) / pipe.pp);
         }},
    {.allows = fills_twice,  // DualPipeV
     .held = [](const Pipeline& pipe, int) { return std::min(pipe.pp + 0.5, count(pipe)); },
     .time = dualpipe,
     .hops =
         [](const Pipeline& pipe) { return exposed(2.0 * pipe.pp - 4, 2 * count(pipe) * (pipe.pp - 1) / pipe.pp); }},
};
static_assert(std::size(kLaws) == kSchedules);
static_assert([] {  // a schedule has the laws that its time asks for
  for (const Laws& laws : kLaws) {
    if (laws.time == zero_bubble && laws.wait == nullptr) return false;
    if ((laws.time == zero_bubble || laws.time == dualpipe) && laws.hops == nullptr) return false;
  }
  return true;
}());

const Laws& laws_of(Schedule schedule) { return kLaws[static_cast<std::size_t>(schedule)]; }

}  // namespace

double in_flight(const Pipeline& pipe, int rank) { return laws_of(pipe.schedule).held(pipe, rank); }

PipelineTime pipeline_time(const Pipeline& pipe, std::span<const StageTime> stages, const Hops& hops) {
  const Totals sum = totals(stages);
  if (pipe.pp == 1) return {Seconds(busy_time(pipe, sum)), {}, {}};
  return laws_of(pipe.schedule).time(pipe, stages, sum, hops);
}

Seconds least_span(const Pipeline& pipe, const StageTime& whole) {
  const Stage all(whole);
  const auto least = laws_of(pipe.schedule).least;
  const double even = static_cast<double>(pipe.micro_batches) * all.work() / pipe.pp;
  return Seconds(pipe.pp == 1 || least == nullptr ? even : std::max(even, least(pipe, all)));
}

std::int64_t fewest_in_group(int pp, std::int64_t micro_batches) {
  std::int64_t group = pp;
  while (group < micro_batches && micro_batches % group != 0 && micro_batches % group < pp) ++group;
  return group;
}

bool schedule_allows(const Pipeline& pipe) {
  if (pipe.pp < 1 || pipe.vp < 1 || pipe.micro_batches < 1 || !takes_chunks(pipe.schedule, pipe.vp)) return false;
  if (schedule_row(pipe.schedule).chunks != Chunks::One && pipe.pp == 1) return false;
  return laws_of(pipe.schedule).allows(pipe);
}

}  // namespace plan
