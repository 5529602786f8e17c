// Layout -> step time and peak memory, from the costs of its split. Tested by tests/planner/estimate_test.cpp.
#include "planner/estimate/evaluate.hpp"

#include <algorithm>
#include <cmath>

#include "formulas/communication.hpp"
#include "formulas/kernel_laws.hpp"
#include "formulas/rank_grid.hpp"
#include "formulas/textbook/reliability.hpp"
#include "planner/cost/scale_messages.hpp"
#include "planner/cost/spread_ends.hpp"
#include "planner/memory/host_memory.hpp"

namespace plan {
namespace {

bool pairs_micro_batches(Schedule schedule) { return schedule_row(schedule).pairs; }

}  // namespace

RealBytes hand_over_bytes(const Problem& problem, const Layout& layout) {
  const double tokens = static_cast<double>(problem.training.seq) * layout.micro_batch / layout.cp;
  const bool shares = layout.sequence_parallel || problem.training.stack.scatters_hand_overs;
  return hidden_bytes(tokens, problem.model.hidden, problem.training.precision) / (shares ? layout.tp : 1);
}

Hops hand_overs(const Problem& problem, const Layout& layout) {
  if (layout.pp == 1) return {};
  const RealBytes bytes = hand_over_bytes(problem, layout);
  std::vector<Seconds> by_tier;
  for (std::size_t tier = 0; tier <= problem.cluster.tiers.size(); ++tier)
    by_tier.push_back(hop_seconds<double>(problem.cluster, bytes, tier));
  std::vector<Seconds> each;
  for (const std::size_t tier : hop_tiers(problem.cluster, layout)) each.push_back(by_tier[tier]);
  return Hops(each);
}

double held(const Pipeline& pipeline, int rank) { return in_flight(pipeline, rank) * stages_met(pipeline.schedule); }

double slowest_of(int ranks) {
  return ranks > 1 ? straggler_step({.mean = 0, .deviation = 1, .groups = static_cast<double>(ranks)}).value : 0;
}

double passes_alone(const Pipeline& pipeline) {
  return std::min(1.0, in_flight(pipeline, pipeline.pp - 1) / static_cast<double>(pipeline.micro_batches));
}

std::int64_t sharding_passes(const Pipeline& pipeline) {
  switch (schedule_row(pipeline.schedule).passes) {
    case Passes::Once: return 1;
    case Passes::EachGroup: return (pipeline.micro_batches + pipeline.group - 1) / pipeline.group;
    case Passes::EachMicroBatch: break;
  }
  return pipeline.micro_batches;
}

void Evaluator::find_placement(const Layout& layout) {
  const int shape = both_ways(layout.schedule) ? 2 : v_shaped(layout.schedule) ? 1 : 0;
  if (layout.chunk_layers.empty())
    for (std::size_t i = 0; i < placements_.size(); ++i) {
      const Placement& known = *placements_[i];
      if (known.pp != layout.pp || known.vp != layout.vp || known.shape != shape) continue;
      placement_ = &known, placement_index_ = i;
      return;
    }
  auto placement = std::make_unique<Placement>();
  placement->pp = layout.pp, placement->shape = shape;
  placement->vp = layout.chunk_layers.empty() ? layout.vp : -1;  // given by hand: not to be found again
  std::vector<int> cell_of_rank;
  for (std::size_t cell = 0; cell < cells_.size(); ++cell)
    cell_of_rank.insert(cell_of_rank.end(), static_cast<std::size_t>(cells_[cell].stages), static_cast<int>(cell));
  placement->stages = plan_stages(problem_, costs_, layout, cell_of_rank);
  placement->segments = segments_of(placement->stages);
  for (const StageContent& content : placement->stages.contents) {
    double layers = 0;
    for (const int count : content.layers_of_kind) layers += count;
    placement->layers.push_back(layers);
  }
  const std::vector<int>& stage_layers = placement->stages.stage_layers;
  placement->deepest = *std::max_element(stage_layers.begin(), stage_layers.end());
  for (const Segment& segment : placement->segments)
    if (std::none_of(placement->holders.begin(), placement->holders.end(), [&](const Segment& other) {
          return other.content == segment.content && (other.first > 0) == (segment.first > 0);
        }))
      placement->holders.push_back(segment);
  std::size_t first = 0;
  for (std::size_t rank = 0; rank < cell_of_rank.size(); ++rank) {
    const int content = placement->stages.content_of[rank];
    const StageContent& stage = placement->stages.contents[static_cast<std::size_t>(content)];
    placement->runs.resize(cells_.size());
    if (cell_of(stage)->part) placement->runs[static_cast<std::size_t>(stage.cell)] = split_runs(first, stage);
    first += static_cast<std::size_t>(stage_layers[rank]);
  }
  placement_ = placement.get(), placement_index_ = placements_.size();
  placements_.push_back(std::move(placement));
}

void Evaluator::place(const Layout& layout) {
  layout_ = layout;
  pipeline_ = pipeline_of(problem_, layout);
  find_placement(layout);
  stage_costs_.clear();
  for (const StageContent& content : stages().contents) stage_costs_.push_back(stage_cost(content));
  if (const HopsOf now{layout.pp, layout.dp, layout.order}; cells_.empty() && !(hops_of_ == now))
    hops_ = hand_overs(problem_, layout), hops_of_ = now;
  scales_ = scale_seconds<double>(problem_.cluster, scale_messages(problem_, layout));
  const int world = cells_.empty() ? layout.world() : problem_.gpus;
  if (world_ != world) {
    world_ = world;
    straggler_ = problem_.cluster.calibration.jitter * slowest_of(world_);
  }
}

void Evaluator::add_block(StageCost& sum, const LayerCost& cost, double count) const {
  sum.forward += count * cost.forward;
  sum.backward_input += count * cost.backward_input;
  sum.backward_weight += count * cost.backward_weight;
  if (layout_.pp > 1 && splits_backward(layout_.schedule)) sum.backward_input.tp += count * cost.split_penalty;
  sum.paired_ep += count * cost.paired_ep;
}

/// Activations leave for the host beside the forward pass, and come back beside the backward one.
Evaluator::HostWait Evaluator::host_wait(const StageCost& work, const StageContent& content) const {
  const Offload& offload = problem_of(content).training.offload;
  if (!offload.activations()) return {};
  const double visits = stages_met(layout_.schedule);
  RealBytes bytes;
  double layers = 0;
  const CostModel& costs = costs_of(content);
  for (int kind = 0; kind < costs.kinds(); ++kind) {
    const double count = content.layers_of_kind[static_cast<std::size_t>(kind)];
    bytes += visits * count * costs.layer(kind).offloaded, layers += count;
  }
  if (offload.layers > 0 && layers > 0) bytes = bytes * std::min(1.0, offload.layers / layers);
  const BytesPerSecond link = problem_of(content).cluster.gpu.host_link;
  const auto stall = [&](Seconds beside) { return offload_stall(bytes, link, beside); };
  return {stall(work.forward.total()), stall(work.backward_input.total() + work.backward_weight.total())};
}

StageCost Evaluator::run_work(const StageContent& content) const {
  const double visits = stages_met(layout_.schedule);
  const CostModel& costs = costs_of(content);
  StageCost sum;
  for (int kind = 0; kind < costs.kinds(); ++kind)
    if (const int count = content.layers_of_kind[static_cast<std::size_t>(kind)]; count > 0)
      add_block(sum, costs.layer(kind), visits * count);
  const bool spread = problem_.training.stack.vocab_barriers > 0;
  if (spread || content.embedding) add_block(sum, costs.embedding(), spread ? visits / layout_.pp : visits);
  if (spread || content.head) add_block(sum, costs.head(), spread ? visits / layout_.pp : visits);
  if (spread) {
    const SpreadMessages said = spread_messages(problem_, layout_);
    sum.forward.tp += said.forward, sum.backward_input.tp += said.backward;
  }
  if (problem_.training.stack.ep_overlap && !pairs_micro_batches(layout_.schedule) && sum.forward.ep > Seconds()) {
    const double alone = passes_alone(pipeline_);
    for (Phase* pass : {&sum.forward, &sum.backward_input})
      pass->ep = alone * pass->ep + (1 - alone) * sum.paired_ep / 2;
  }
  return sum;
}

StageCost Evaluator::run_cost(const StageContent& content) const {
  StageCost sum = run_work(content);
  const HostWait wait = host_wait(sum, content);
  sum.forward.compute += wait.forward, sum.backward_input.compute += wait.backward;
  return sum;
}

Seconds Evaluator::bottleneck_host_wait() const {
  const StageContent& content = stages().contents[content_of(bottleneck_)];
  const HostWait wait = host_wait(run_work(content), content);
  return wait.forward + wait.backward;
}

Phase Evaluator::run_recompute(const StageContent& content, const Recompute& choice) const {
  Phase sum;
  if (choice.kind == RecomputeKind::None) return sum;
  int layers = 0;
  for (const int count : content.layers_of_kind) layers += count;
  const double covered = static_cast<double>(recomputed_layers(choice, layout_.vp, layers)) / std::max(1, layers);
  const double visits = stages_met(layout_.schedule);
  const CostModel& costs = costs_of(content);
  for (int kind = 0; kind < costs.kinds(); ++kind) {
    const int count = content.layers_of_kind[static_cast<std::size_t>(kind)];
    if (count == 0) continue;
    sum += visits * count *
           (choice.kind == RecomputeKind::Full ? covered * costs.full_recompute(kind)
                                               : costs.selective_recompute(kind, choice.modules));
  }
  return sum;
}

Evaluator::Started Evaluator::start_recompute(const Recompute& choice) {
  for (std::size_t i = 0; i < stage_costs_.size(); ++i) {
    const StageContent& content = stages().contents[i];
    stage_costs_[i].recompute = recompute_cost(content, recompute_of(content, choice));
  }
  Seconds slowest(-1);
  for (const Segment& segment : placement_->segments)
    if (const Seconds work = stage_costs_[static_cast<std::size_t>(segment.content)].total(); work > slowest)
      slowest = work, bottleneck_ = segment.first;
  busy_ = {};
  if (!pairs_micro_batches(layout_.schedule))  // a pair of micro-batches may take less than their work
    busy_ = kBelow * static_cast<double>(pipeline_.micro_batches) * slowest * (1 + straggler_);
  return Started(*this);
}

void Evaluator::finish_recompute() {
  const bool pairs = pairs_micro_batches(layout_.schedule);
  times_.clear();
  for (const Segment& segment : placement_->segments) {
    const StageCost& cost = stage_costs_[static_cast<std::size_t>(segment.content)];
    StageTime time{.forward = cost.forward.total(),
                   .backward_input = cost.backward_input.total() + cost.recompute.total(),
                   .backward_weight = cost.backward_weight.total()};
    if (pairs && cost.forward.ep > Seconds()) time.pair = cost.pair().total() + cost.recompute.total();
    times_.insert(times_.end(), static_cast<std::size_t>(segment.ranks), time);
  }
  run_ = plan::pipeline_time(pipeline_, times_, hops_);
  set_base();
}

Phase Evaluator::bottleneck_work() const {
  const StageCost& cost = stage_costs_[content_of(bottleneck_)];
  return pairs_micro_batches(layout_.schedule) ? cost.pair() : cost.work();
}

double Evaluator::bottleneck_times() const {
  return run_.busy / (bottleneck_work().total() + stage_costs_[content_of(bottleneck_)].recompute.total());
}

/// The busy time splits as the bottleneck's own micro-batches do.
void Evaluator::set_base() {
  const StageCost& cost = stage_costs_[content_of(bottleneck_)];
  const Phase work = bottleneck_work();
  const double share = bottleneck_times();
  base_ = {};
  base_.compute = share * work.compute;
  base_.recompute = share * cost.recompute.total();
  base_.tp = share * work.tp;
  base_.cp = share * work.cp;
  base_.ep = share * work.ep;
  base_.pp = run_.hop;
  base_.bubble = run_.bubble;
  passes_ = static_cast<double>(sharding_passes(pipeline_));
}

Seconds Evaluator::least_time() const { return terms({}).total(); }

/// With free hand-overs more work on any rank never shortens GPipe and 1F1B, nor interleaved pipelines with enough
/// micro-batches; slower ranks may hide more of the hand-overs. The laws of split backwards leave out the slowest
/// rank's own wait, and recomputation may change which rank that is.
Seconds Evaluator::least_time_of_any() const {
  const Schedule schedule = layout_.schedule;
  const bool chunks = schedule_row(schedule).chunks == Chunks::Many;
  if (splits_backward(schedule) || (chunks && pipeline_.micro_batches < 2 * layout_.pp)) return busy_;
  const Seconds still = base_.total() - base_.pp;
  return std::max(busy_, (1 - 1e-9) * still * (1 + straggler_));
}

double Evaluator::held_by(int rank) const { return held(pipeline_, rank); }

Terms Evaluator::terms(const Exposed& exposed) const {
  Terms terms = base_;
  terms.dp = exposed.reduce + exposed.gather + exposed.table + scales_;
  terms.optimizer = exposed.optimizer + problem_.cluster.calibration.fixed_step();
  terms.straggler = terms.total() * straggler_;
  return terms;
}

Seconds Evaluator::step_time(const Layout& layout, std::span<const DataParallel> prices) const {
  return terms(exposed(layout, prices)).total();
}

Terms Evaluator::step_terms(const Layout& layout, const MemoryModel& memory) const {
  return terms(exposed(layout, prices_of(layout, memory)));
}

Bytes Evaluator::peak_memory(const Layout& layout, const MemoryModel& memory) const {
  Bytes peak;
  for (const Segment& holder : placement_->holders) {
    const StageContent& content = stages().contents[static_cast<std::size_t>(holder.content)];
    peak = std::max(peak, stage_memory(layout, memory, holder.first, content).total());
  }
  return peak;
}

RealBytes Evaluator::host_memory(const Layout& layout, const MemoryModel& memory) const {
  std::vector<RealBytes> of_stage;
  for (int rank = 0; rank < layout.pp; ++rank)
    of_stage.push_back(RealBytes(stage_memory(layout, memory, rank, stages().contents[content_of(rank)]).host));
  return host_of_node(problem_.cluster, layout, of_stage);
}

}  // namespace plan
