// Layers and recomputation of every stage: dynamic programming over layers and stages, from the back of the pipeline,
// on the law of unequal stages under 1F1B; then what its bound leaves is weighed exactly.
// Tested against brute force by tests/planner/stage_search_test.cpp.
#include "planner/stages/stage_search.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "planner/search/enumerate.hpp"
#include "planner/stages/stage_options.hpp"

namespace plan {
namespace {

/// Stages from some stage to the last with their layers: one of the ways that no other beats in both its numbers.
struct Label {
  Seconds trip{};  ///< of a micro-batch through them, both ways
  Seconds path{};  ///< of the step from when the first micro-batch reaches them, at least
  int layers = 0;  ///< of the first of them
  std::size_t next = 0;
};

class LayerSearch {
 public:
  LayerSearch(Pipeliner& pipeliner, Seconds beat, std::int64_t most)
      : pipeliner_(pipeliner), beat_(beat), most_(most), pp_(pipeliner.pipeline().pp), depth_(pipeliner.depth()) {}

  StageSearch run() {
    if (depth_ < pp_) return {};
    find_front();
    if (front_sum_[at(pp_, depth_)] == kNever) return {};
    offer_best_of_law();
    std::vector<int> layers;
    descend(pp_, depth_, {}, layers);
    return {.best = best_, .pipelines = 1, .exact = left_ == 0};
  }

 private:
  static constexpr Seconds kNever = Seconds::infinity();
  static constexpr std::size_t kMostLabels = 64;

  std::size_t at(int stages, int layers) const {
    return static_cast<std::size_t>(stages) * static_cast<std::size_t>(depth_ + 1) + static_cast<std::size_t>(layers);
  }
  double micro_batches() const { return static_cast<double>(pipeliner_.pipeline().micro_batches); }
  Seconds beat() const { return best_ ? best_->score.step_time : beat_; }

  /// More layers take more time and more memory, whatever is recomputed.
  bool too_much(const StageOption& option) const {
    return !option.fits || kBelow * micro_batches() * option.work() * pipeliner_.straggler() > beat();
  }

  /// For the first stages with the first layers: the least that a micro-batch takes through them, and the least that
  /// the slowest of them takes.
  void find_front() {
    front_sum_.assign(at(pp_, depth_) + 1, kNever), front_most_ = front_sum_;
    front_sum_[0] = front_most_[0] = {};
    for (int stage = 0; stage < pp_; ++stage)
      for (int first = stage; first + pp_ - stage <= depth_; ++first) {
        if (front_sum_[at(stage, first)] == kNever) continue;
        const int behind = pp_ - stage - 1;
        for (int last = behind == 0 ? depth_ : first + 1; last + behind <= depth_; ++last) {
          const StageOption& option = pipeliner_.option(stage, first, last);
          if (too_much(option)) break;
          Seconds& sum = front_sum_[at(stage + 1, last)];
          Seconds& most = front_most_[at(stage + 1, last)];
          sum = std::min(sum, front_sum_[at(stage, first)] + option.work());
          most = std::min(most, std::max(front_most_[at(stage, first)], option.work()));
        }
      }
  }

  /// One stage in front of those of `next`: formulas/pipeline_paths.cpp, one_f_one_b().
  Label before(int stage, const StageOption& option, const Label& next) const {
    const double m = micro_batches(), after = pp_ - 1 - stage, held = std::min(m, after + 1);
    const Hops& hops = pipeliner_.hops();
    const Seconds to{pp_ > 1 ? hops.before(stage) : 0}, from{pp_ > 1 ? hops.after(stage, pp_) : 0};
    Label label;
    label.trip = next.trip + option.work();
    const Seconds first = std::max(Seconds(), label.trip + 2 * from - held * option.forward - option.backward);
    const Seconds last = std::max(Seconds(), label.trip + 2 * from - option.forward - held * option.backward);
    const bool overlap = m <= after + 1 && after > 0;
    const Seconds dwell = 2 * to + m * option.work() + (overlap ? std::max(first, last) : first + last);
    label.path = std::max(dwell, next.path + option.work());
    return label;
  }

  /// What the step takes at least with these stages behind `stages` others, which hold the first `layers`.
  Seconds least_step(int stages, int layers, const Label& label) const {
    const Seconds sum = front_sum_[at(stages, layers)], most = front_most_[at(stages, layers)];
    return kBelow * pipeliner_.straggler() * std::max(label.path + sum, micro_batches() * most);
  }

  static void keep(std::vector<Label>& labels, const Label& label) {
    const auto beats = [](const Label& a, const Label& b) { return a.trip <= b.trip && a.path <= b.path; };
    for (const Label& known : labels)
      if (beats(known, label)) return;
    std::erase_if(labels, [&](const Label& known) { return beats(label, known); });
    if (labels.size() < kMostLabels) labels.push_back(label);
  }

  /// The shortest step by the law of the pipeline alone, and the same with other labels of its first stage.
  void offer_best_of_law() {
    std::vector<std::vector<Label>> labels(at(pp_, depth_) + 1);
    labels[at(pp_, depth_)].push_back({});
    for (int stage = pp_ - 1; stage >= 0; --stage)
      for (int first = stage; first < depth_; ++first) {
        if (front_sum_[at(stage, first)] == kNever) continue;
        for (int last = first + 1; last <= depth_; ++last) {
          const std::vector<Label>& behind = labels[at(stage + 1, last)];
          if (behind.empty()) continue;
          const StageOption& option = pipeliner_.option(stage, first, last);
          if (!option.fits) continue;
          for (std::size_t next = 0; next < behind.size(); ++next) {
            Label label = before(stage, option, behind[next]);
            if (least_step(stage, first, label) > beat_) continue;
            label.layers = last - first, label.next = next;
            keep(labels[at(stage, first)], label);
          }
        }
      }
    for (const Label& start : labels[0]) {
      std::vector<int> layers;
      const Label* label = &start;
      for (int stage = 0, first = 0; stage < pp_; ++stage) {
        layers.push_back(label->layers), first += label->layers;
        label = &labels[at(stage + 1, first)][label->next];
      }
      offer(layers);
    }
  }

  void offer(const std::vector<int>& layers) {
    const Layout layout = pipeliner_.layout_of(layers);
    const Score score = pipeliner_.score(layout);
    const auto better = [&] {
      if (!best_) return score.step_time < beat_;
      return std::tuple(score.step_time, score.peak, layout.chunk_layers) <
             std::tuple(best_->score.step_time, best_->score.peak, best_->layout.chunk_layers);
    };
    if (better()) best_ = FoundStages{layout, score};
  }

  /// Every way to fill the stages before `stages`, from the last one, that may be faster than what is known.
  void descend(int stages, int layers, const Label& label, std::vector<int>& behind) {
    if (stages == 0) {
      if (most_ <= 0) {
        ++left_;
        return;
      }
      --most_;
      offer({behind.rbegin(), behind.rend()});
      return;
    }
    if (--walked_ <= 0) ++left_;
    const int stage = stages - 1;
    for (int first = stage == 0 ? 0 : layers - 1; first >= stage; --first) {
      if (front_sum_[at(stage, first)] == kNever) continue;
      const StageOption& option = pipeliner_.option(stage, first, layers);
      if (too_much(option)) break;
      const Label more = before(stage, option, label);
      if (least_step(stage, first, more) > beat() || left_ > 0) continue;
      behind.push_back(layers - first);
      descend(stage, first, more, behind);
      behind.pop_back();
    }
  }

  Pipeliner& pipeliner_;
  Seconds beat_;
  std::int64_t most_, left_ = 0, walked_ = kMostWalked;
  int pp_, depth_;
  std::vector<Seconds> front_sum_{}, front_most_{};  ///< by stages and layers
  std::optional<FoundStages> best_{};
};

/// Layers as they are balanced, each stage recomputing what it must.
StageSearch on_balanced_layers(Pipeliner& pipeliner, Seconds beat) {
  if (pipeliner.least_balanced() > beat) return {};
  const Stages& stages = pipeliner.placement().stages;
  std::vector<Recompute> ways;
  for (std::size_t stage = 0; stage < stages.content_of.size(); ++stage) {
    const StageContent& content = stages.contents[static_cast<std::size_t>(stages.content_of[stage])];
    const StageOption& option = pipeliner.option(static_cast<int>(stage), content);
    if (!option.fits) return {};
    ways.push_back(option.recompute);
  }
  const Layout layout = pipeliner.layout_of(stages.chunk_layers, ways);
  const Score score = pipeliner.score(layout);
  if (!(score.step_time < beat)) return {};
  return {.best = FoundStages{layout, score}, .pipelines = 1};
}

/// What a micro-batch takes at least through all layers, both ways.
Seconds least_trip(StageModels& models, const Problem& problem, const Layout& base) {
  const CostModel& costs = models.costs(problem.training.offload.layers, base);
  Seconds sum;
  for (const int kind : problem.model.layers) sum += costs.layer(kind).least();
  return kBelow * sum * (1 + problem.cluster.calibration.jitter * slowest_of(base.world()));
}

}  // namespace

/// What a step takes at least on any split of the layers: the mean stage's work. Under GPipe and 1F1B a stage
/// begins when a micro-batch is through those in front of it, so that w_1 + ... + w_(s-1) + m w_s pass at least; the
/// split that makes all of these equal has T = trip / (1 - (1 - 1/m)^pp).
Seconds least_step(Seconds trip, const Problem& problem, const Layout& layout) {
  const auto m = static_cast<double>(micro_batches(problem.training.global_batch, layout.dp, layout.micro_batch));
  const bool waits = schedule_row(layout.schedule).chunks == Chunks::One && !splits_backward(layout.schedule);
  const Seconds mean = m * trip / layout.pp;
  return waits ? std::max(mean, trip / (1 - std::pow(1 - 1 / m, layout.pp))) : mean;
}

Score score_stages(StageModels& models, const Problem& problem, const Layout& layout) {
  std::vector<Cell> cells;
  Layout front = layout;
  const bool list = !layout.stages.empty();
  if (list) cells = models.cells(layout), front = cells.front().layout;
  const int offload = problem.training.offload.layers;
  const MemoryModel& memory = list ? *cells.front().memory : models.memory(offload, layout);
  Evaluator evaluator =
      list ? Evaluator(problem, cells, models.hops(layout)) : Evaluator(problem, models.costs(offload, layout), front);
  evaluator.recompute(front.recompute);
  return {evaluator.step_terms(front, memory).total(), evaluator.peak_memory(front, memory)};
}

StageSearch best_stages(StageModels& models, const Problem& problem, const Layout& base, RealBytes capacity,
                        Seconds beat, std::int64_t most) {
  Pipeliner pipeliner(models, problem, base, capacity);
  const bool one = base.schedule == Schedule::OneFOneB && base.vp == 1 && base.chunk_layers.empty();
  StageSearch found = one ? LayerSearch(pipeliner, beat, most).run() : on_balanced_layers(pipeliner, beat);
  found.exact = found.exact && base.zero <= 1;
  found.stages = pipeliner.stages_priced();
  return found;
}

StageSearch find_stages(const Problem& problem, RealBytes capacity, Seconds beat) {
  StageSearch found;
  StageModels models(problem);
  Tally tally;
  const FrameworkMask wanted = wanted_frameworks(problem);
  struct Bounded {
    Layout family{};
    Seconds trip{}, mean{};  ///< at least: of a micro-batch, of a step under any schedule
  };
  std::vector<Bounded> families;
  for (const Family& family : enumerate_families(problem, tally)) {
    if (family.layout.pp == 1) continue;
    Layout any = family.layout;
    any.schedule = Schedule::Interleaved;
    const Seconds trip = least_trip(models, problem, any);
    families.push_back({family.layout, trip, least_step(trip, problem, any)});
  }
  std::stable_sort(families.begin(), families.end(),
                   [](const Bounded& a, const Bounded& b) { return a.mean < b.mean; });
  Seconds known = beat;
  bool within = true;
  const auto look_into = [&](const Layout& base) {
    if (accepting(problem, base, wanted) == 0) return;  // but for its list of stages some framework runs it
    within = found.stages < kMostStages;
    if (!within) return;
    ++found.pipelines;
    StageSearch one = best_stages(models, problem, base, capacity, known);
    found.exact = found.exact && one.exact;
    found.stages += one.stages;
    if (one.best) known = one.best->score.step_time, found.best = std::move(one.best);
  };
  for (const Bounded& entry : families) {
    if (entry.mean > known || !within) break;
    for (const Pipelining& run : enumerate_runs(problem, entry.family, tally)) {
      Layout base = run_of(problem, entry.family, run);
      if (least_step(entry.trip, problem, base) > known) continue;
      for (const Sharding& sharding : enumerate_shardings(problem, base, tally)) {
        base.zero = sharding.zero, base.shard = sharding.shard;
        look_into(base);
      }
    }
  }
  found.exact = found.exact && within;
  return found;
}

}  // namespace plan
