// Pipeline schedules: what a rank holds and how long a step takes, in closed form.
//
// Every law was derived from the event graph of the schedule and is checked against the simulator in
// tests/oracle/pipeline_sim.cpp: exactly for equal stages, within stated bounds for unequal ones.
// Sources: arXiv:2104.04473 (1F1B, interleaved), 2211.05953 (breadth-first), 2401.10241 (ZB-H1, ZB-H2),
// 2405.15362 (ZB-V, V-half, V-min), github.com/deepseek-ai/DualPipe.
// Tested by tests/formulas/schedule_test.cpp and pipeline_laws_test.cpp.

#include "formulas/schedule.hpp"

#include <algorithm>
#include <cmath>

namespace plan {
namespace {

using Stages = std::span<const StageTime>;

/// Seconds as plain numbers inside this file: every quantity here is a time.
struct Stage {
  double f, i, w;
  explicit Stage(const StageTime& t) : f(t.forward.value), i(t.backward_input.value), w(t.backward_weight.value) {}
  double b() const { return i + w; }
  double work() const { return f + i + w; }
};

double positive(double x) { return x > 0 ? x : 0; }

double group_size(const Pipeline& pipe) {
  if (schedule_row(pipe.schedule).passes == Passes::Once) return static_cast<double>(pipe.micro_batches);
  return pipe.group > 0 ? pipe.group : pipe.pp;
}

struct Totals {
  double f = 0, b = 0;
  double f_max = 0, b_max = 0, work_max = 0;
  std::size_t slowest = 0;
};

Totals totals(Stages stages) {
  Totals sum;
  for (std::size_t r = 0; r < stages.size(); ++r) {
    const Stage stage(stages[r]);
    sum.f += stage.f;
    sum.b += stage.b();
    sum.f_max = std::max(sum.f_max, stage.f);
    sum.b_max = std::max(sum.b_max, stage.b());
    if (stage.work() > sum.work_max) sum.work_max = stage.work(), sum.slowest = r;
  }
  return sum;
}

/// What is lost in the steady phase because a micro-batch's round trip through neighbours of the slowest
/// stage takes longer than the work that covers it. A trip to one neighbour more costs that neighbour's
/// work and two hops, and is covered by `cover` micro-batches (chunks, when interleaved) more: 1 under
/// 1F1B, 2 when interleaved, after the difference of neighbours in warm-up.
struct RoundTrip {
  double excess = 0;   ///< of a trip through all neighbours that are slow enough to matter
  double covered = 1;  ///< micro-batches of slowest-stage work during that trip

  /// Equal hops: the neighbours that matter, wherever they are.
  RoundTrip(Stages stages, std::size_t slowest, double part, double cover, double hop) {
    const double work = Stage(stages[slowest]).work();
    if (hop <= 0) return;
    for (std::size_t r = 0; r < stages.size(); ++r) {
      const double more = (Stage(stages[r]).work() - cover * work) * part + 2 * hop;
      if (r != slowest && more > 0) excess += more, covered += cover;
    }
  }
  /// From one end of a stretch to the other and back.
  RoundTrip(Stages stages, double slowest_work, double part, double cover, const Hops& hops, Hops::Stretch stretch) {
    covered += cover * (stretch.last - stretch.first);
    for (int r = stretch.first; r <= stretch.last; ++r)
      excess += Stage(stages[static_cast<std::size_t>(r)]).work() * part;
    excess += 2 * (hops.before(stretch.last) - hops.before(stretch.first)) - covered * slowest_work * part;
    excess = positive(excess);
  }
  double loss(double micro_batches) const {
    if (covered < 2 || micro_batches <= 0) return 0;
    const double trips = std::floor(micro_batches / covered), rest = micro_batches - trips * covered;
    return trips * excess + positive(rest - 1) * excess / (covered - 1);
  }
};

/// The most that round trips cost so many micro-batches of the steady phase.
class SteadyPhase {
 public:
  SteadyPhase(Stages stages, const Totals& sum, double part, double cover, const Hops& hops)
      : stages_(stages),
        work_(sum.work_max),
        part_(part),
        cover_(cover),
        hops_(hops),
        alike_(stages, sum.slowest, part, cover, hops.alike() ? hops.slowest().value : 0) {}
  double loss(double micro_batches) const {
    double most = alike_.loss(micro_batches);
    for (const Hops::Stretch& stretch : hops_.stretches())
      most = std::max(most, RoundTrip(stages_, work_, part_, cover_, hops_, stretch).loss(micro_batches));
    return most;
  }

 private:
  Stages stages_;
  double work_, part_, cover_;
  const Hops& hops_;
  RoundTrip alike_;
};

/// Makespan with free hand-overs and with the given ones.
struct Span {
  double still = 0, moving = 0;
  void at_least(double still_path, double moving_path) {
    still = std::max(still, still_path), moving = std::max(moving, moving_path);
  }
};

/// A run of equal stages binds at one of its ends: a path's length is convex in the stage it dwells on.
bool inside_run(Stages stages, std::size_t r) {
  const auto same = [](const StageTime& a, const StageTime& b) {
    return a.forward == b.forward && a.backward_input == b.backward_input && a.backward_weight == b.backward_weight;
  };
  return r > 0 && r + 1 < stages.size() && same(stages[r - 1], stages[r]) && same(stages[r], stages[r + 1]);
}

/// 1F1B: the longest path that dwells on some stage r. It enters after the stages before r, does all of
/// r's work, and leaves through them; while dwelling it may follow the first micro-batch to the end of
/// the pipeline and back (waiting for the first backward), likewise the last one.
Span one_f_one_b(const Pipeline& pipe, Stages stages, const Totals& sum, const Hops& hops) {
  const double m = static_cast<double>(pipe.micro_batches);
  const SteadyPhase steady(stages, sum, 1, 1, hops);
  Span longest;
  double before = 0, trip = sum.f + sum.b;
  for (int r = 0; r < pipe.pp; ++r) {
    const Stage stage(stages[static_cast<std::size_t>(r)]);
    const double work = stage.work(), after = pipe.pp - 1 - r, held = std::min(m, after + 1);
    // With all micro-batches in flight at once the two trips overlap.
    const bool overlap = m <= after + 1 && after > 0;
    const auto path = [&](double to, double from) {  // hops to this stage, and from it to the end
      const double first = positive(trip + 2 * from - held * stage.f - stage.b());
      const double last = positive(trip + 2 * from - stage.f - held * stage.b());
      return before + 2 * to + m * work + (overlap ? std::max(first, last) : first + last);
    };
    if (overlap || m == after + 2 || !inside_run(stages, static_cast<std::size_t>(r)))
      longest.at_least(path(0, 0), path(hops.before(r), hops.after(r, pipe.pp)) +
                                       (work >= sum.work_max ? steady.loss(m - 1 - held) : 0));
    // Or it follows the first micro-batch to the end of the pipeline and back to r, dwells on the slowest stage behind
    // r, and follows the last one: of a slow stage at the back, r's own path meets fewer of the round trips.
    if (m > held && static_cast<std::size_t>(r) < sum.slowest)
      longest.at_least(0, sum.f + sum.b + 2 * hops.before(pipe.pp - 1) + trip + 2 * hops.after(r, pipe.pp) +
                              (m - 1 - held) * sum.work_max + steady.loss(m - 1 - held));
    before += work;
    trip -= work;
  }
  return longest;
}

/// Interleaved and breadth-first, as 1F1B: the longest path that dwells on stage r. On the way to its first
/// backward it may follow one micro-batch to the end of the pipeline and back, where each rank further on
/// warms up with two chunks fewer; and it may follow a micro-batch around all ranks from chunk to chunk,
/// which one group of r's own work covers. Likewise after the last forward. Or it leaves r when the last
/// rank starts its backwards, dwells there until the forwards are done, and comes back.
Span interleaved(const Pipeline& pipe, Stages stages, const Totals& sum, const Hops& hops) {
  const double m = static_cast<double>(pipe.micro_batches), part = 1.0 / pipe.vp, group = group_size(pipe);
  const double rounds = pipe.vp - 1, warm_up = rounds * group, end_work = Stage(stages.back()).work();
  const SteadyPhase steady(stages, sum, part, 2, hops);
  Span longest;
  double before = 0, behind = sum.f + sum.b;
  for (int r = 0; r < pipe.pp; ++r) {
    const Stage stage(stages[static_cast<std::size_t>(r)]);
    const double f = stage.f * part, b = stage.b() * part, work = stage.work(), after = pipe.pp - 1 - r;
    behind -= work;
    const bool overlap = (2 * after + warm_up + 1) * part >= m;
    const auto path = [&](double to, double from, double around) {
      const double turn = behind * part + 2 * from, enter = before * part + 2 * to;
      const double round_f = rounds * positive(sum.f * part - group * f + around);
      const double round_b = rounds * positive(sum.b * part - group * b + around);
      const double first = positive(turn - 2 * after * f) + round_f, last = positive(turn - 2 * after * b) + round_b;
      const double stay = m * work + (overlap ? std::max(first, last) : first + last);
      const double move =
          (warm_up + 1) * part * work + (m - (warm_up + 1) * part) * end_work + turn + round_f + round_b;
      return enter + (after > 0 && warm_up * part < m ? std::max(stay, move) : stay);
    };
    if (overlap || !inside_run(stages, static_cast<std::size_t>(r))) {
      // In the steady phase following a micro-batch around all ranks is covered by a group of both kinds.
      const double left = positive(m / part - 2 - 2 * after - warm_up);
      const double around = hops.ring(pipe.pp);
      const double ring = positive(std::max(sum.f, sum.b) * part + around - group * (f + b));
      const double lost =
          work >= sum.work_max && around > 0 ? std::max(steady.loss(left), left / group * rounds * part * ring) : 0;
      longest.at_least(path(0, 0, 0), path(hops.before(r), hops.after(r, pipe.pp), around) + lost);
    }
    before += work;
  }
  return longest;
}

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
    if (hops.alike()) return hops.slowest().value * (steady + trips);
    return steady * hops.steady() + trips * hops.mean();
  }
};

ExposedHops exposed(double trips, double steady) { return {trips, steady}; }

/// The laws of one schedule.
struct Laws {
  /// Are there enough micro-batches, and do they divide as it needs? Chunks are asked about before.
  bool (*allows)(const Pipeline&);
  double (*held_input)(const Pipeline&, int rank);      ///< in_flight_input()
  double (*held)(const Pipeline&, int rank) = nullptr;  ///< in_flight(), where that is more
  PipelineTime (*time)(const Pipeline&, Stages, const Totals&, const Hops&);
  // Of split backwards, for equal stages (simulation).
  /// Wait that one more stage adds, in whole-stage time.
  double (*wait)(const Pipeline&, const Stage&) = nullptr;
  /// Time between two micro-batches in the steady phase. V-half and V-min hold so few that a rank must wait when
  /// forward, input gradient and weight gradient differ.
  double (*period)(const Stage&) = [](const Stage& s) { return s.work(); };
  ExposedHops (*hops)(const Pipeline&) = nullptr;
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
     .held_input = [](const Pipeline& pipe, int) { return count(pipe); },
     .time = gpipe},
    {.allows = always, .held_input = held_one_chunk, .time = longest_path<one_f_one_b>},            // 1F1B
    {.allows = whole_groups, .held_input = held_many_chunks, .time = longest_path<interleaved>},    // interleaved
    {.allows = fills_pipeline, .held_input = held_many_chunks, .time = longest_path<interleaved>},  // breadth-first
    {.allows = always,                                                                              // ZB-H1
     .held_input = held_one_chunk,
     .held = [](const Pipeline& pipe, int) { return std::min<double>(pipe.pp, count(pipe)); },
     .time = zero_bubble,
     .wait = [](const Pipeline& pipe,
                const Stage& s) { return std::max(std::max(s.f, s.i), s.f + s.i - filled(pipe, s, pipe.pp)); },
     .hops =
         [](const Pipeline& pipe) {
           return exposed(2 * (pipe.pp - 1.0), 2 * (std::min<double>(count(pipe), pipe.pp) - 1));
         }},
    {.allows = always,  // ZB-H2
     .held_input = [](const Pipeline& pipe, int rank) { return std::min(2.0 * (pipe.pp - 1 - rank) + 1, count(pipe)); },
     .held = [](const Pipeline& pipe, int) { return std::min(2.0 * pipe.pp - 1, count(pipe)); },
     .time = zero_bubble,
     .wait = [](const Pipeline& pipe,
                const Stage& s) { return std::max(s.f, s.f + s.i - filled(pipe, s, 2 * pipe.pp - 1)); },
     .hops = [](const Pipeline& pipe) { return exposed(pipe.pp - 1.0, 0); }},
    {.allows = fills_pipeline,  // ZB-V
     .held_input = [](const Pipeline& pipe, int) { return std::min<double>(pipe.pp, count(pipe)); },
     .time = zero_bubble,
     .wait =
         [](const Pipeline& pipe, const Stage& s) {
           return std::max(1.0, 2 * shortage(pipe)) * std::max({s.f, s.i, 2 * (s.i - s.w)}) / 2;
         },
     .hops = [](const Pipeline& pipe) { return exposed(5.0 * pipe.pp - 7, 0); }},
    {.allows = fills_pipeline,  // V-half
     .held_input = [](const Pipeline& pipe, int) { return std::min(std::floor(pipe.pp / 2.0) + 1, count(pipe)); },
     .time = zero_bubble,
     .wait = [](const Pipeline&, const Stage& s) { return (s.f + 2 * s.i + positive(s.i - s.w)) / 2; },
     .period = [](const Stage& s) { return std::max(s.work(), std::max(2 * s.i + s.w / 2, 2 * s.f + s.w)); },
     .hops = [](const Pipeline& pipe) { return exposed(5.0 * pipe.pp - 8, 2 * count(pipe)); }},
    {.allows = fills_pipeline,  // V-min
     .held_input = [](const Pipeline& pipe, int) { return std::min(std::floor(pipe.pp / 3.0) + 1, count(pipe)); },
     .held = [](const Pipeline& pipe,
                int) { return std::min(std::floor(pipe.pp / 3.0) + (pipe.pp % 3 == 2 ? 2 : 1), count(pipe)); },
     .time = zero_bubble,
     .wait = [](const Pipeline&, const Stage& s) { return s.f + s.i; },
     .period = [](const Stage& s) { return std::max(s.work(), 3 * std::max(s.f, s.i)); },
     .hops =
         [](const Pipeline& pipe) { return exposed(3.0 * pipe.pp - 2, 6 * count(pipe) * (pipe.pp - 1) / pipe.pp); }},
    {.allows =
         [](const Pipeline& pipe) { return pipe.pp % 2 == 0 && pipe.micro_batches % 2 == 0 && fills_twice(pipe); },
     .held_input = [](const Pipeline& pipe, int) { return std::min(pipe.pp + 1.0, count(pipe)); },  // DualPipe
     .time = dualpipe,
     .hops =
         [](const Pipeline& pipe) {
           return exposed(std::max(1.0, 1.5 * pipe.pp - 3), count(pipe) * (pipe.pp - 1) / pipe.pp);
         }},
    {.allows = fills_twice,  // DualPipeV
     .held_input = [](const Pipeline& pipe, int) { return std::min(pipe.pp + 0.5, count(pipe)); },
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

double in_flight(const Pipeline& pipe, int rank) {
  const Laws& laws = laws_of(pipe.schedule);
  return (laws.held != nullptr ? laws.held : laws.held_input)(pipe, rank);
}

double in_flight_input(const Pipeline& pipe, int rank) { return laws_of(pipe.schedule).held_input(pipe, rank); }

PipelineTime pipeline_time(const Pipeline& pipe, std::span<const StageTime> stages, const Hops& hops) {
  const Totals sum = totals(stages);
  if (pipe.pp == 1) return {Seconds(busy_time(pipe, sum)), {}, {}};
  return laws_of(pipe.schedule).time(pipe, stages, sum, hops);
}

bool schedule_allows(const Pipeline& pipe) {
  if (pipe.pp < 1 || pipe.vp < 1 || pipe.micro_batches < 1 || !takes_chunks(pipe.schedule, pipe.vp)) return false;
  if (schedule_row(pipe.schedule).chunks != Chunks::One && pipe.pp == 1) return false;
  return laws_of(pipe.schedule).allows(pipe);
}

}  // namespace plan
