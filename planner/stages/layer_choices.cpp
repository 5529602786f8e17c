// Strategies of the layers of one stage: dynamic programming from its first layer on. A state is how many layers of
// each kind every way has, with the ways of the first and the last of them; what is kept of it are the orders of which
// no other is better in resharding, in the groups that it needs, and in what is alive for one layer's sake. Tested by
// tests/planner/layer_search_test.cpp.
#include "planner/stages/layer_choices.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>

namespace plan {
namespace {

std::vector<Cell> cells_between(StageModels& models, const Problem& problem, const Layout& base,
                                std::span<const StageStrategy> ways) {
  std::vector<Cell> cells;
  const int offload = problem.training.offload.layers;
  std::vector<Layout> layouts;
  for (const StageStrategy& way : ways) layouts.push_back(layout_of_run(base, way));
  for (std::size_t before = 0; before <= ways.size(); ++before)
    for (const Layout& layout : layouts) {
      Resharding input = before > 0 ? resharding(problem, layouts[before - 1], layout) : Resharding{};
      cells.push_back({&models.problem(offload), &models.costs(offload, layout), &models.memory(offload, layout),
                       layout, 0, 0, false, std::move(input)});
    }
  cells.front().stages = base.pp;
  return cells;
}

/// How many different tables there are of the number of layers for each kind and way.
double mixes_of(const std::vector<int>& kinds, std::size_t ways) {
  std::map<int, int> count;
  for (const int kind : kinds) ++count[kind];
  double all = 1;
  for (const auto& [kind, layers] : count)
    for (std::size_t i = 1; i < ways; ++i)
      all *= static_cast<double>(layers + static_cast<int>(i)) / static_cast<double>(i);
  return all;
}

}  // namespace

/// All that a sequence of layers can do where each layer does it in one of a few ways: a way is a strategy for one
/// layer, a mix says which layer has which.
class LayerMixes {
 public:
  LayerMixes(LayerChoices& choices, const std::vector<int>& kinds, std::vector<int> ways, Seconds most_work)
      : choices_(choices), kinds_(kinds), ways_(std::move(ways)), most_work_(most_work) {
    least_behind_.assign(kinds.size() + 1, Seconds());
    for (std::size_t i = kinds.size(); i-- > 0;) {
      Seconds least = work(ways_.front(), kinds[i]);
      for (const int way : ways_) least = std::min(least, work(way, kinds[i]));
      least_behind_[i] = least_behind_[i + 1] + least;
    }
    deepest_kind_ = static_cast<std::size_t>(*std::max_element(kinds.begin(), kinds.end())) + 1;
  }

  /// Mixes that were begun or grown by a layer.
  std::int64_t followed() const { return std::ssize(all_); }

  /// Appends those that use so many of the ways at least. Returns whether all were followed.
  bool run(std::vector<LayerRuns>& out, std::int64_t least) {
    if (ways_.size() == 2 && one_kind()) return run_pair(out, least);
    for (std::size_t i = 0; i < ways_.size(); ++i) start(i);
    for (std::size_t layer = 1; layer < kinds_.size(); ++layer) {
      const States before = std::exchange(states_, {});
      for (const auto& [key, labels] : before)
        for (const std::size_t label : labels)
          for (std::size_t i = 0; i < ways_.size(); ++i) extend(layer, key, label, i);
      drop_slowest();
    }
    for (const auto& [key, labels] : states_) {
      std::vector<int> used(ways_.size());
      for (std::size_t at = kCounts; at < key.size(); ++at) used[(at - kCounts) / deepest_kind_] += key[at];
      if (std::ssize(used) - std::count(used.begin(), used.end(), 0) < least) continue;
      for (const std::size_t label : labels) out.push_back(runs_of(label));
    }
    return whole_;
  }

 private:
  /// What two mixes of the same layers must share to be compared: the index of the first layer's way and of the last
  /// one's, the kinds of layer in the last run as bits, then the number of layers for each way and kind.
  using Key = std::vector<std::int16_t>;
  static constexpr std::size_t kFirst = 0, kLast = 1, kMask = 2, kCounts = 3;
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  bool one_kind() const {
    return std::all_of(kinds_.begin(), kinds_.end(), [this](int kind) { return kind == kinds_.front(); });
  }

  /// Two ways of layers of one kind: of the orders that have as many layers of each way, and the same way first and
  /// last, the one with the fewest changes of way is no worse in anything that is asked, and is known without a look at
  /// the others: AABB, ABBBAA.
  bool run_pair(std::vector<LayerRuns>& out, std::int64_t least) {
    const int layers = static_cast<int>(kinds_.size()), kind = kinds_.front();
    const auto change = [&](int before, int way) {
      const Resharding& input = choices_.between(before, way);
      return total_of(input.forward).time + total_of(input.backward).time;
    };
    const auto offer = [&](std::initializer_list<LayerRun> runs) {
      Seconds all;
      LayerRuns kept;
      for (const LayerRun& run : runs) {
        if (run.layers == 0) continue;
        if (!kept.empty()) all += change(kept.back().way, run.way);
        all += run.layers * work(run.way, kind);
        kept.push_back(run);
      }
      const bool enough = least < 2 || kept.size() > 1;
      if (enough && !too_slow(all, kinds_.size())) out.push_back(std::move(kept));
    };
    for (const int first : ways_)
      for (const int last : ways_) {
        const int other = first == ways_[0] ? ways_[1] : ways_[0];
        for (int own = 1; own <= layers; ++own)  // layers of the first way
          if (first != last && own < layers)
            offer({{first, own}, {last, layers - own}});
          else if (first == last && own == layers)
            offer({{first, layers}});
          else if (first == last && own > 1)
            offer({{first, 1}, {other, layers - own}, {first, own - 1}});
      }
    return true;
  }

  struct Label {
    Seconds work{};                   ///< of all layers so far
    Seconds resharding{};             ///< of it
    RealBytes forward{}, backward{};  ///< of runs that ended, and of reshardings
    GroupSet groups{};                ///< of the reshardings
    int way = 0;
    std::size_t before = kNone;
  };
  using States = std::map<Key, std::vector<std::size_t>>;

  /// Does a mix that takes so long up to a layer take too long, however the rest goes?
  bool too_slow(Seconds work, std::size_t layers) const { return kBelow * (work + least_behind_[layers]) > most_work_; }
  Seconds work(int way, int kind) const {
    return choices_.facts_[static_cast<std::size_t>(way)].work[static_cast<std::size_t>(kind)];
  }
  std::size_t place(std::size_t way, int kind) const {
    return kCounts + way * deepest_kind_ + static_cast<std::size_t>(kind);
  }

  void start(std::size_t i) {
    const int kind = kinds_.front();
    Key key(kCounts + ways_.size() * deepest_kind_);
    key[kFirst] = key[kLast] = static_cast<std::int16_t>(i);
    key[kMask] = static_cast<std::int16_t>(1 << kind);
    key[place(i, kind)] = 1;
    keep(key, {.work = work(ways_[i], kind), .way = ways_[i]}, 1);
  }

  void extend(std::size_t layer, const Key& key, std::size_t before, std::size_t i) {
    const int kind = kinds_[layer], way = ways_[i];
    if (too_slow(all_[before].work + work(way, kind), layer + 1)) return;
    Key next = key;
    ++next[place(i, kind)];
    next[kLast] = static_cast<std::int16_t>(i);
    Label label = all_[before];
    label.before = before, label.way = way, label.work += work(way, kind);
    if (key[kLast] == next[kLast]) {
      next[kMask] = static_cast<std::int16_t>(next[kMask] | (1 << kind));
    } else {
      const int last = ways_[static_cast<std::size_t>(key[kLast])];
      const Resharding& input = choices_.between(last, way);
      const GatherSum there = total_of(input.forward), back = total_of(input.backward);
      const auto ended = choices_.transients(last, static_cast<unsigned>(key[kMask]));
      label.forward = std::max({label.forward, ended.first, there.bytes});
      label.backward = std::max({label.backward, ended.second, back.bytes});
      label.groups |= choices_.groups_between(last, way);
      label.resharding += there.time + back.time, label.work += there.time + back.time;
      next[kMask] = static_cast<std::int16_t>(1 << kind);
    }
    keep(next, label, layer + 1);
  }

  void keep(const Key& key, const Label& label, std::size_t layers) {
    if (too_slow(label.work, layers)) return;
    const auto beats = [](const Label& a, const Label& b) {
      return a.resharding <= b.resharding && a.forward <= b.forward && a.backward <= b.backward &&
             (a.groups & ~b.groups).none();
    };
    std::vector<std::size_t>& known = states_[key];
    for (const std::size_t other : known)
      if (beats(all_[other], label)) return;
    std::erase_if(known, [&](std::size_t other) { return beats(label, all_[other]); });
    known.push_back(all_.size());
    all_.push_back(label);
  }

  /// Keeps what may be followed on.
  void drop_slowest() {
    std::vector<Seconds> works;
    for (const auto& [key, labels] : states_)
      for (const std::size_t label : labels) works.push_back(all_[label].work);
    if (works.size() <= kMostMixLabels) return;
    whole_ = false;
    std::nth_element(works.begin(), works.begin() + kMostMixLabels, works.end());
    const Seconds most = works[kMostMixLabels];
    for (auto& [key, labels] : states_)
      std::erase_if(labels, [&](std::size_t label) { return all_[label].work >= most; });
    std::erase_if(states_, [](const auto& state) { return state.second.empty(); });
  }

  LayerRuns runs_of(std::size_t label) const {
    LayerRuns runs;
    for (; label != kNone; label = all_[label].before)
      if (const int way = all_[label].way; runs.empty() || runs.back().way != way)
        runs.push_back({way, 1});
      else
        ++runs.back().layers;
    std::reverse(runs.begin(), runs.end());
    return runs;
  }

  LayerChoices& choices_;
  const std::vector<int>& kinds_;
  std::vector<int> ways_;
  Seconds most_work_;
  std::size_t deepest_kind_ = 1;
  std::vector<Seconds> least_behind_{};  ///< of the layers from each on
  std::vector<Label> all_{};
  States states_{};
  bool whole_ = true;
};

LayerChoices::LayerChoices(StageModels& models, const Problem& problem, const Layout& base,
                           std::span<const StageStrategy> ways, RealBytes capacity)
    : problem_(problem),
      ways_(ways.size()),
      capacity_(capacity),
      straggler_(1 + problem.cluster.calibration.jitter * slowest_of(problem.gpus)),
      pp_(base.pp),
      micro_batches_(pipeline_of(problem, base).micro_batches),
      passes_(sharding_passes(pipeline_of(problem, base))),
      cells_(cells_between(models, problem, base, ways)),
      evaluator_(problem, cells_, Hops{}) {
  number_groups();
  evaluator_.recompute({});
  for (std::size_t way = 0; way < ways_; ++way) {
    const Cell& cell = cells_[way];
    WayFacts facts;
    for (int kind = 0; kind < cell.costs->kinds(); ++kind) {
      const LayerCost& cost = cell.costs->layer(kind);
      Seconds least = cost.least();
      if (cell.layout.recompute.kind == RecomputeKind::Full) least += cell.costs->full_recompute(kind).total();
      facts.work.push_back(stages_met(base.schedule) * least);
    }
    facts_.push_back(std::move(facts));
  }
}

void LayerChoices::number_groups() {
  std::vector<GatheringGroup> known;
  for (const Cell& cell : cells_) {
    GroupSet& set = groups_.emplace_back();
    for (const GatheringGroup& group : groups_of(cell.input)) {
      const auto place = std::find(known.begin(), known.end(), group);
      const auto number = static_cast<std::size_t>(place - known.begin());
      if (place == known.end()) known.push_back(group);
      if (number < set.size())
        set.set(number);
      else
        complete_ = false;
    }
  }
}

std::pair<RealBytes, RealBytes> LayerChoices::transients(int way, unsigned kinds) {
  auto& known = facts_[static_cast<std::size_t>(way)].transients;
  const auto [found, fresh] = known.try_emplace(kinds);
  if (fresh) {
    const Cell& cell = cells_[static_cast<std::size_t>(way)];
    StageContent content{.hands_on = false};
    for (std::size_t kind = 0; kind < content.layers_of_kind.size(); ++kind)
      content.layers_of_kind[kind] = (kinds >> kind) & 1u ? 1 : 0;
    const ActivityMemory activity = cell.memory->activity(cell.layout, content, cell.memory->sums(content), 1);
    found->second = {activity.forward, activity.backward};
  }
  return found->second;
}

const std::vector<LayerRuns>& LayerChoices::mixes(const std::vector<int>& kinds, Seconds most_work) {
  const auto [known, fresh] = known_.try_emplace(kinds);
  if (!fresh) return known->second;
  const int ways = static_cast<int>(ways_);
  const auto follow = [&, to = &known->second](std::vector<int> of, std::int64_t least) {
    LayerMixes mixes(*this, kinds, std::move(of), most_work);
    complete_ &= mixes.run(*to, least);
    followed_ += mixes.followed();
  };
  if (mixes_of(kinds, ways_) <= kMostMixes) {
    std::vector<int> all(ways_);
    std::iota(all.begin(), all.end(), 0);
    follow(std::move(all), 1);
    return known->second;
  }
  for (int one = 0; one < ways; ++one) follow({one}, 1);
  for (int one = 0; one < ways; ++one)
    for (int other = one + 1; other < ways && followed_ < kMostFollowed; ++other) follow({one, other}, 2);
  complete_ &= followed_ < kMostFollowed;
  complete_ &= ways <= 2;
  return known->second;
}

StageRuns LayerChoices::content_of(int stage, int first, const LayerRuns& runs) const {
  std::vector<StageContent> contents;
  int before = -1;
  for (const LayerRun& run : runs) {
    StageContent content{.hands_on = false, .cell = static_cast<int>(cell_of(before, run.way))};
    for (int layer = first; layer < first + run.layers; ++layer)
      ++content.layers_of_kind[static_cast<std::size_t>(problem_.model.layers[static_cast<std::size_t>(layer)])];
    first += run.layers, before = run.way;
    contents.push_back(content);
  }
  contents.front().embedding = stage == 0;
  contents.back().head = stage + 1 == pp_, contents.back().hands_on = true;
  if (contents.back().head) contents.back().mtp = problem_.model.mtp.depth;
  return Evaluator::grouped(std::move(contents), cells_);
}

LayerChoice LayerChoices::priced(const StageRuns& content, LayerRuns runs) const {
  const Stack& stack = problem_.training.stack;
  const double tax = problem_.cluster.calibration.overlap_tax;
  const StageCost cost = evaluator_.cost_of_runs(content);
  const Seconds rebuilt = evaluator_.recompute_of_runs(content).total();
  const Seconds backward = cost.backward_input.total() + cost.backward_weight.total() + rebuilt;
  const Evaluator::Moved moved = evaluator_.moved_of_runs(content);
  LayerChoice choice{std::move(runs), cost.forward.total() + backward};
  choice.least = static_cast<double>(micro_batches_) * choice.work + moved.blocks + moved.late.optimizer +
                 std::min(1.0, tax) * (moved.late.reduce + moved.late.gather);
  if (!stack.reduces_once)
    choice.least += static_cast<double>(passes_ - 1) * std::max(tax * moved.repeated, moved.repeated - backward);
  return choice;
}

std::vector<LayerChoice> LayerChoices::of(int stage, int first, int last, Seconds beat) {
  const auto begin = problem_.model.layers.begin();
  const std::vector<int> kinds(begin + first, begin + last);
  std::vector<LayerChoice> all;
  if (kinds.empty()) return all;
  for (const LayerRuns& runs : mixes(kinds, beat / straggler_ / static_cast<double>(micro_batches_))) {
    ++looked_at_;
    const StageRuns content = content_of(stage, first, runs);
    LayerChoice choice = priced(content, runs);
    if (kBelow * choice.least * straggler_ > beat) continue;
    if (evaluator_.memory_of_runs(content, stage).total() > capacity_) continue;
    all.push_back(std::move(choice));
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const LayerChoice& a, const LayerChoice& b) { return a.least < b.least; });
  return all;
}

}  // namespace plan
