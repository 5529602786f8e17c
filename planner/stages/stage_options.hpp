#pragma once

// One pipeline while its stages are given layers: what each stage may do with some of them, and at what cost.
#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

#include "planner/estimate/stages.hpp"
#include "planner/rules/complete_layout.hpp"
#include "planner/search/enumerate.hpp"
#include "planner/stages/stage_search.hpp"

namespace plan {

/// What a stage does with some layers: the fastest way that fits.
struct StageOption {
  Seconds forward{}, backward{};  ///< of a micro-batch, recomputation in backward
  Recompute recompute{};
  bool fits = false;
  Seconds work() const { return forward + backward; }
};

/// One pipeline, its stages yet without layers.
class Pipeliner {
 public:
  Pipeliner(StageModels& models, const Problem& problem, const Layout& base, RealBytes capacity)
      : models_(models),
        problem_(problem),
        base_(base),
        capacity_(capacity),
        straggler_(1 + problem.cluster.calibration.jitter * slowest_of(base.world())),
        evaluator_(problem, models.costs(problem.training.offload.layers, base), base) {
    pipeline_ = pipeline_of(problem, base_);
    up_to_.emplace_back();
    for (const int kind : problem.model.layers) {
      up_to_.push_back(up_to_.back());
      ++up_to_.back().layers_of_kind[static_cast<std::size_t>(kind)];
    }
    by_layers_.resize(static_cast<std::size_t>(base_.pp) * up_to_.size() * up_to_.size());
  }

  int depth() const { return problem_.model.depth(); }
  const Pipeline& pipeline() const { return pipeline_; }
  const Hops& hops() const { return evaluator_.hops(); }
  const Placement& placement() const { return evaluator_.placement(); }
  /// What a step on the balanced layers takes at least, whatever is recomputed.
  Seconds least_balanced() {
    evaluator_.recompute({});
    return evaluator_.least_time_of_any();
  }
  double straggler() const { return straggler_; }
  std::int64_t stages_priced() const { return static_cast<std::int64_t>(options_.size()); }

  const StageOption& option(int stage, int first, int last) {
    const auto width = up_to_.size();
    const StageOption*& known =
        by_layers_[(static_cast<std::size_t>(stage) * width + static_cast<std::size_t>(first)) * width +
                   static_cast<std::size_t>(last)];
    if (known == nullptr) known = &option_of_layers(stage, first, last);
    return *known;
  }
  const StageOption& option_of_layers(int stage, int first, int last) {
    return option(stage, layers_between(problem_.model, up_to_[static_cast<std::size_t>(first)],
                                        up_to_[static_cast<std::size_t>(last)], {stage == 0, stage + 1 == base_.pp}));
  }
  const StageOption& option(int stage, const StageContent& content) {
    const auto [known, fresh] = options_.try_emplace({stage, content.layers_of_kind});
    if (fresh) known->second = fastest(stage, content);
    return known->second;
  }

  /// The layout with those layers, its stages recomputing what they must.
  Layout layout_of(const std::vector<int>& layers) {
    std::vector<Recompute> ways;
    int first = 0;
    for (int stage = 0; stage < base_.pp; ++stage) {
      const int last = first + layers[static_cast<std::size_t>(stage)];
      ways.push_back(option(stage, first, last).recompute), first = last;
    }
    return layout_of(layers, ways);
  }
  Layout layout_of(const std::vector<int>& chunk_layers, const std::vector<Recompute>& ways) const {
    Layout layout = base_;
    layout.chunk_layers = chunk_layers;
    for (const Recompute& way : ways) layout.stages.push_back({way, problem_.training.offload.layers});
    settle_stages(problem_, layout);
    return layout;
  }
  Score score(const Layout& layout) { return score_stages(models_, problem_, layout); }

 private:
  bool fits(int stage, const StageContent& content, const Recompute& way) {
    Layout layout = base_;
    layout.recompute = way;
    const MemoryModel& memory = models_.memory(problem_.training.offload.layers, layout);
    return memory.stage(layout, stage, content, evaluator_.held_by(stage)).total() <= capacity_;
  }

  StageOption fastest(int stage, const StageContent& content) {
    for (StageOption option : ways_of(content)) {
      option.fits = fits(stage, content, option.recompute);
      if (option.fits) return option;
    }
    return {};
  }

  /// Every recomputation of these layers, the fastest first: how many stages are in front counts for memory alone.
  const std::vector<StageOption>& ways_of(const StageContent& content) {
    const auto [known, fresh] = ways_.try_emplace({content.embedding, content.head, content.layers_of_kind});
    if (!fresh) return known->second;
    const int layers = std::accumulate(content.layers_of_kind.begin(), content.layers_of_kind.end(), 0);
    for (const Recompute& way : enumerate_recomputes(problem_, std::max(1, layers))) {
      const StageCost cost = evaluator_.content_cost(content, way);
      known->second.push_back({cost.forward.total(), cost.backward(), way, false});
    }
    std::stable_sort(known->second.begin(), known->second.end(),
                     [](const StageOption& a, const StageOption& b) { return a.work() < b.work(); });
    return known->second;
  }

  StageModels& models_;
  const Problem& problem_;
  const Layout& base_;
  RealBytes capacity_;
  double straggler_;
  Evaluator evaluator_;
  Pipeline pipeline_{};
  std::vector<StageContent> up_to_{};            ///< of the first layers together
  std::vector<const StageOption*> by_layers_{};  ///< by stage, first layer and the one after the last
  std::map<std::pair<int, std::array<int, kMaxLayerKinds>>, StageOption> options_{};
  std::map<std::tuple<bool, bool, std::array<int, kMaxLayerKinds>>, std::vector<StageOption>> ways_{};
};

}  // namespace plan
