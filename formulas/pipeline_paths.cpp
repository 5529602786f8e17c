// The longest paths through 1F1B, interleaved and breadth-first pipelines. Tested by
// tests/formulas/pipeline_laws_test.cpp.
#include "formulas/pipeline_paths.hpp"

#include <cmath>

namespace plan::pipeline {
namespace {

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
        equal_stages_(stages, sum.slowest, part, cover, hops.uniform() ? hops.slowest().value : 0) {}
  double loss(double micro_batches) const {
    double most = equal_stages_.loss(micro_batches);
    for (const Hops::Stretch& stretch : hops_.stretches())
      most = std::max(most, RoundTrip(stages_, work_, part_, cover_, hops_, stretch).loss(micro_batches));
    return most;
  }

 private:
  Stages stages_;
  double work_, part_, cover_;
  const Hops& hops_;
  RoundTrip equal_stages_;
};

/// A run of equal stages binds at one of its ends: a path's length is convex in the stage it dwells on.
bool inside_run(Stages stages, std::size_t r) {
  const auto same = [](const StageTime& a, const StageTime& b) {
    return a.forward == b.forward && a.backward_input == b.backward_input && a.backward_weight == b.backward_weight;
  };
  return r > 0 && r + 1 < stages.size() && same(stages[r - 1], stages[r]) && same(stages[r], stages[r + 1]);
}

}  // namespace

double group_size(const Pipeline& pipe) {
  if (schedule_row(pipe.schedule).passes == Passes::Once) return static_cast<double>(pipe.micro_batches);
  return pipe.group > 0 ? pipe.group : pipe.pp;
}

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

}  // namespace plan::pipeline
