// A strategy for every run of layers: what each stage may do (planner/stages/layer_choices.cpp), and stages put
// together from the front, by a bound. Tested against brute force by tests/planner/layer_search_test.cpp.
#include "planner/stages/layer_search.hpp"

#include <algorithm>
#include <tuple>

#include "planner/problem/axes.hpp"
#include "planner/problem/stage_layout.hpp"
#include "planner/rules/complete_layout.hpp"
#include "planner/stages/layer_choices.hpp"

namespace plan {
namespace {

/// The same strategies, with the first run's tp, cp and ZeRO as those of the layout.
Layout with_front_first(const Layout& layout) {
  Layout out = layout_of_run(layout, layout.stages.front());
  out.recompute = {};
  out.stages = layout.stages;
  const auto state = [&](StageStrategy& run) {
    if (run.tp == 0) run.tp = layout.tp;
    if (run.cp == 0) run.cp = layout.cp;
    if (run.zero < 0) run.zero = layout.zero;
  };
  for (StageStrategy& stage : out.stages) {
    state(stage);
    std::for_each(stage.behind.begin(), stage.behind.end(), state);
  }
  return out;
}

class RunSearch {
 public:
  RunSearch(StageModels& models, const Problem& problem, const Layout& base, std::span<const StageStrategy> ways,
            RealBytes capacity, Seconds beat, std::int64_t most)
      : models_(models), problem_(problem), base_(base), ways_(ways), capacity_(capacity), beat_(beat), most_(most) {}

  StageSearch run() {
    LayerChoices choices(models_, problem_, base_, ways_, capacity_);
    straggler_ = choices.straggler();
    int first = 0;
    for (int stage = 0; stage < base_.pp; ++stage) {
      const int last = first + base_.chunk_layers[static_cast<std::size_t>(stage)];
      lists_.push_back(choices.of(stage, first, last, beat_));
      first = last;
      if (lists_.back().empty()) break;
    }
    StageSearch found{
        .pipelines = 1, .stages = choices.looked_at(), .followed = choices.followed(), .exact = choices.complete()};
    if (static_cast<int>(lists_.size()) < base_.pp || lists_.back().empty()) return found;
    find_rest();
    std::vector<const LayerChoice*> chosen;
    for (const auto& list : lists_) chosen.push_back(&list.front());
    offer(chosen);
    offer_uniform();
    if (base_.pp > 1) improve(chosen);
    chosen.clear();
    descend(0, {}, chosen);
    found.best = best_, found.exact = found.exact && !left_;
    return found;
  }

 private:
  Seconds beat() const { return best_ ? best_->score.step_time : beat_; }
  Seconds step(Seconds least) const { return kBelow * straggler_ * least; }

  /// By stage: what a step takes at least from where a micro-batch reaches the stage, whatever it and those behind do.
  void find_rest() {
    rest_.assign(lists_.size() + 1, {});
    for (std::size_t stage = lists_.size(); stage-- > 0;) {
      Seconds work = lists_[stage].front().work;
      for (const LayerChoice& choice : lists_[stage]) work = std::min(work, choice.work);
      rest_[stage] = std::max(lists_[stage].front().least, work + rest_[stage + 1]);
    }
  }

  Layout layout_of(const std::vector<const LayerChoice*>& chosen) const {
    Layout layout = base_;
    layout.recompute = {};
    for (const LayerChoice* choice : chosen) {
      std::vector<StageStrategy> runs;
      for (const LayerRun& run : choice->runs) {
        runs.push_back(ways_[static_cast<std::size_t>(run.way)]);
        runs.back().layers = run.layers;
      }
      runs.back().layers = 0;  // those that are left
      layout.stages.push_back(runs.front());
      layout.stages.back().behind.assign(runs.begin() + 1, runs.end());
    }
    layout = with_front_first(layout);
    if (layout.pp == 1) layout.chunk_layers.clear();
    settle_stages(problem_, layout);
    return layout;
  }

  void offer(const std::vector<const LayerChoice*>& chosen) {
    --most_;
    Layout layout = layout_of(chosen);
    const Score score = score_stages(models_, problem_, layout);
    if (score.peak > capacity_) return;
    const auto key = [](const Layout& l, const Score& s) {
      return std::tuple(s.step_time, s.peak, l.tp, l.cp, l.zero, stages_text(l.stages));
    };
    if (best_ ? key(layout, score) < key(best_->layout, best_->score) : score.step_time < beat_)
      best_ = FoundStages{std::move(layout), score};
  }

  /// All layers of all stages under one way, each way in turn.
  void offer_uniform() {
    for (int way = 0; way < static_cast<int>(ways_.size()); ++way) {
      std::vector<const LayerChoice*> chosen;
      for (const auto& list : lists_) {
        const auto uniform = std::find_if(list.begin(), list.end(), [way](const LayerChoice& choice) {
          return choice.runs.size() == 1 && choice.runs.front().way == way;
        });
        if (uniform == list.end()) break;
        chosen.push_back(&*uniform);
      }
      if (chosen.size() == lists_.size()) offer(chosen);
    }
  }

  /// One stage after the other does what is best beside the others, until nothing is better: a first bound.
  void improve(std::vector<const LayerChoice*>& chosen) {
    constexpr std::size_t kTried = 16;
    for (bool better = true; better && most_ > 0;) {
      better = false;
      for (std::size_t stage = 0; stage < lists_.size(); ++stage) {
        const LayerChoice* const known = chosen[stage];
        const LayerChoice* best = known;
        for (std::size_t i = 0; i < std::min(kTried, lists_[stage].size()) && most_ > 0; ++i) {
          const Seconds before = beat();
          chosen[stage] = &lists_[stage][i];
          if (chosen[stage] == known || step(chosen[stage]->least) > before) continue;
          offer(chosen);
          if (beat() < before) best = chosen[stage], better = true;
        }
        chosen[stage] = best;
      }
    }
  }

  /// Every choice of the stages from `stage` on that may be faster than what is known. `front`: what a
  /// micro-batch takes through those before, both ways. A stage begins when it is through them, so that this much and
  /// all of the stage's own work pass at least.
  void descend(std::size_t stage, Seconds front, std::vector<const LayerChoice*>& chosen) {
    if (--walked_ <= 0) left_ = true;
    if (stage == lists_.size()) {
      if (most_ <= 0)
        left_ = true;
      else
        offer(chosen);
      return;
    }
    for (const LayerChoice& choice : lists_[stage]) {
      if (left_ || step(front + choice.least) > beat()) return;
      if (step(front + choice.work + rest_[stage + 1]) > beat()) continue;
      chosen.push_back(&choice);
      descend(stage + 1, front + choice.work, chosen);
      chosen.pop_back();
    }
  }

  StageModels& models_;
  const Problem& problem_;
  const Layout& base_;
  std::span<const StageStrategy> ways_;
  RealBytes capacity_;
  Seconds beat_;
  double straggler_ = 1;
  std::int64_t most_, walked_ = kMostWalked;
  bool left_ = false;
  std::vector<std::vector<LayerChoice>> lists_{};  ///< by stage, the least first
  std::vector<Seconds> rest_{};
  std::optional<FoundStages> best_{};
};

}  // namespace

StageSearch best_runs(StageModels& models, const Problem& problem, const Layout& base,
                      std::span<const StageStrategy> ways, RealBytes capacity, Seconds beat, std::int64_t most) {
  Layout placed = base;
  placed.recompute = {}, placed.stages.clear();
  if (placed.chunk_layers.empty()) {
    Evaluator evaluator(problem, models.costs(problem.training.offload.layers, placed), placed);
    placed.chunk_layers = evaluator.stages().chunk_layers;
  }
  return RunSearch(models, problem, placed, ways, capacity, beat, most).run();
}

}  // namespace plan
