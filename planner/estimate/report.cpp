// What a report shows of one layout, from the evaluator's numbers. Tested by tests/planner/estimate_test.cpp.
#include <algorithm>
#include <numeric>
#include <span>

#include "formulas/bf16_layers.hpp"
#include "formulas/communication.hpp"
#include "formulas/efficiency.hpp"
#include "formulas/enum_rows.hpp"
#include "formulas/flops.hpp"
#include "formulas/partition.hpp"
#include "formulas/rank_grid.hpp"
#include "planner/answer/switch_words.hpp"
#include "planner/cost/scale_messages.hpp"
#include "planner/cost/spread_ends.hpp"
#include "planner/estimate/evaluate.hpp"
#include "planner/estimate/learnt.hpp"
#include "planner/estimate/stage_cells.hpp"
#include "planner/estimate/uncertainty.hpp"
#include "planner/memory/host_memory.hpp"

namespace plan {
namespace {

static_assert(kMembers<Terms, std::size(kTimeTerms)>);
// Beside the categories: which stage, its layers, and parts of categories or what is beside the total.
static_assert(kMembers<StageMemory, std::size(kMemoryCategories) + 6>);

/// Rounds, and stops at an exbibyte: no job moves or holds it, and sums still fit in 64 bits.
Bytes whole_bytes(RealBytes bytes) { return round_bytes(std::min(bytes, RealBytes(0x1p60))); }

/// FLOPs per token that recomputation repeats, averaged over the model's layers.
Flops recomputed_flops(const Problem& problem, const Layout& layout, const std::vector<int>& stage_layers) {
  if (layout.recompute.kind == RecomputeKind::None) return {};
  double covered = 1;  // share of the layers
  if (layout.recompute.kind == RecomputeKind::Full && layout.recompute.layers > 0) {
    int layers = 0, held = 0;
    for (const int stage : stage_layers) layers += std::min(stage, layout.recompute.layers), held += stage;
    covered = static_cast<double>(layers) / std::max(1, held);
  }
  Flops sum{};
  for (const int kind : problem.model.layers) {
    const Layer& layer = problem.model.kinds[static_cast<std::size_t>(kind)];
    const LayerFlops flops = layer_flops(problem.model, layer, static_cast<double>(problem.training.seq));
    sum += covered * recompute_flops(flops, layout.recompute.kind, layout.recompute.modules,
                                     precision_of(layer, problem.training));
  }
  return sum;
}

/// `recomputed`: FLOPs per token.
Mfu utilisation(const Problem& problem, const Layout& layout, Flops recomputed, double step_time) {
  const double seq = static_cast<double>(problem.training.seq);
  const FlopsOptions options = flops_options(problem.training, layout.tp);
  const double per_flop = static_cast<double>(problem.training.tokens_per_step()) /
                          (step_time * problem.gpus * mfu_peak(problem.cluster.gpu).rate.value);
  const Flops causal = model_flops_per_token(problem.model, seq, FlopsConvention::ModelCausal, options);
  const Flops full = model_flops_per_token(problem.model, seq, FlopsConvention::ModelFull, options);
  return {.model_causal = (causal * per_flop).value,
          .model_full = (full * per_flop).value,
          .hardware = ((causal + recomputed) * per_flop).value};
}

/// One message kind of the report: what it adds to the row of its axis, operation, group and tier.
void add_row(Estimate& estimate, const Cluster& cluster, Communication row, Group group) {
  row.group = group;
  row.tier = group_tier(cluster, group).name;
  for (Communication& other : estimate.communication)
    if (other.axis == row.axis && other.op == row.op && other.group.size == group.size && other.tier == row.tier) {
      other.per_step += row.per_step, other.count += row.count;
      other.time += row.time, other.exposed += row.exposed;
      return;
    }
  estimate.communication.push_back(std::move(row));
}

/// Hand-overs that a rank sends for one micro-batch.
struct Sent {
  double count = 0;
  Seconds time{};
};

/// Those of the busiest rank: a chunk's result on to the next chunk's rank, the gradient of a chunk's input back to the
/// last one's. Of the two directions of DualPipe a micro-batch takes one.
Sent sent_by_busiest(const Layout& layout, const Hops& hops) {
  const bool both = both_ways(layout.schedule);
  std::vector<Sent> sent(static_cast<std::size_t>(layout.pp));
  const auto count = [&](int rank, int to) {
    const double share = both ? 0.5 : 1;
    const auto add = [&](int sender, int receiver) {
      Sent& all = sent[static_cast<std::size_t>(sender)];
      all.count += share, all.time += share * hops.between(sender, receiver);
    };
    add(rank, to);
    if (both) add(layout.pp - 1 - rank, layout.pp - 1 - to);
  };
  for (int chunk = 0; chunk + 1 < static_cast<int>(layout.chunks()); ++chunk) {
    const int from = rank_of_chunk(chunk, layout.pp, v_shaped(layout.schedule));
    const int to = rank_of_chunk(chunk + 1, layout.pp, v_shaped(layout.schedule));
    if (from != to) count(from, to), count(to, from);
  }
  return *std::max_element(sent.begin(), sent.end(), [](const Sent& a, const Sent& b) {
    return std::pair(a.count, a.time.value) < std::pair(b.count, b.time.value);
  });
}

/// The messages of a resharding, which nothing hides.
LayerCost resharding_cost(const Resharding& resharding) {
  LayerCost cost;
  for (const std::vector<ReshardingGather>* way : {&resharding.forward, &resharding.backward})
    for (const ReshardingGather& gather : *way)
      cost.messages.push_back(
          {Axis::Tp, Collective::AllGather, gather.group, gather.bytes, 1, gather.time, gather.time});
  return cost;
}

/// Rows know what one layer leaves exposed by itself; pairs of micro-batches, split backwards and a spread vocabulary
/// change that for the whole axis, whose time is the step's term.
void settle_exposed(Estimate& estimate, Axis axis, Seconds term) {
  Seconds exposed{}, sent{};
  for (const Communication& row : estimate.communication)
    if (row.axis == axis) exposed += row.exposed, sent += row.time;
  if (sent.value <= 0) return;
  for (Communication& row : estimate.communication)
    if (row.axis == axis) row.exposed = term * (exposed.value > 0 ? row.exposed / exposed : row.time / sent);
}

}  // namespace

MfuPeak mfu_peak(const Gpu& gpu) { return {type_of_16_bits(gpu), peak_of_16_bits(gpu)}; }

namespace {

/// Whether a peak fits, and the interval that it lies in, on the GPUs of a problem.
template <class Peak>
void judge_memory(const Problem& problem, Peak& of) {
  const Interval interval = memory_interval(problem);
  of.capacity = problem.cluster.gpu.memory;
  of.peak_low = std::min(of.peak, whole_bytes(RealBytes(of.peak) * interval.low));
  of.peak_high = std::max(of.peak, whole_bytes(RealBytes(of.peak) * interval.high));
  const bool stated = problem.headroom.bytes || problem.headroom.share;
  of.fits = of.peak <= certain_memory(problem)      ? Fits::Yes
            : !stated && of.peak_low <= of.capacity ? Fits::AtRisk
                                                    : Fits::No;
}

/// The same of what is left in host memory, and of both together.
template <class Peak>
void judge_host(const Problem& problem, const Layout& layout, std::span<const StageMemory> stages, Peak& of) {
  const RealBytes need = host_of_node(problem.cluster, layout, stages);
  of.host = whole_bytes(need);
  if (of.host.value > 0) of.host_capacity = problem.cluster.host_memory;
  of.fits = std::max(of.fits, fits_host(of.host, of.host_capacity));
}

}  // namespace

void Evaluator::fill_memory(Estimate& estimate, const MemoryModel& memory) const {
  const StageContent* fullest = nullptr;
  double most = -1;  // share of a GPU's memory where GPUs differ, else bytes
  for (int rank = 0; rank < estimate.layout.pp; ++rank) {
    const StageContent& content = stages().contents[content_of(rank)];
    StageMemory stage = stage_memory(estimate.layout, memory, rank, content);
    stage.stage = rank;
    stage.layers = stages().stage_layers[static_cast<std::size_t>(rank)];
    double full = static_cast<double>(stage.total().value);
    if (!cells_.empty()) full /= std::max(1.0, certain_memory(problem_of(content)).value);
    if (full > most) {
      most = full, fullest = &content;
      estimate.peak = stage.total();
      estimate.peak_stage = rank;
      const char* instant = "";
      stage_memory(estimate.layout, memory, rank, content, &instant);
      estimate.peak_instant = instant;
    }
    estimate.stages.push_back(stage);
  }
  judge_memory(problem_of(*fullest), estimate);
  if (problem_.pools.empty()) judge_host(problem_, estimate.layout, estimate.stages, estimate);
}

/// What each run of a job with several kinds of GPU takes of their memory, and how long they work.
void Evaluator::fill_runs(Estimate& estimate) const {
  int first = 0;
  for (const Cell& cell : cells_) {
    PoolRun run;
    run.layout = cell.layout, run.first_stage = first;
    run.layout.pp = cell.stages;
    const auto begin = stages().chunk_layers.begin() + first;
    run.layout.chunk_layers.assign(begin, begin + cell.stages);
    Seconds busy;
    for (int rank = first; rank < first + cell.stages; ++rank) {
      const StageMemory& stage = estimate.stages[static_cast<std::size_t>(rank)];
      if (rank == first || stage.total() > run.peak) run.peak = stage.total(), run.peak_stage = rank;
      const Seconds work = static_cast<double>(estimate.micro_batches) * cost(rank).total();
      busy += work / cell.stages, run.busy = std::max(run.busy, work);
    }
    judge_memory(*cell.problem, run);
    judge_host(
        *cell.problem, run.layout,
        std::span(estimate.stages).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(cell.stages)),
        run);
    estimate.fits = std::max(estimate.fits, run.fits);
    if (run.host > estimate.host) estimate.host = run.host, estimate.host_capacity = run.host_capacity;
    run.idle_ratio = std::max(0.0, 1 - busy / estimate.step_time);
    estimate.runs.push_back(std::move(run));
    first += cell.stages;
  }
}

void Evaluator::report_layers(Estimate& estimate) const {
  const StageContent& stage = stages().contents[content_of(bottleneck_)];
  const double visits = static_cast<double>(estimate.micro_batches) * stages_met(layout_.schedule);
  const auto add_all = [&](std::span<const Message> messages, double layers) {
    for (const Message& message : messages) {
      const double times = visits * layers * message.count;
      add_row(estimate, problem_of(stage).cluster,
              {.axis = message.axis,
               .op = message.op,
               .per_step = whole_bytes(times * message.size * wire_factor(message.op, message.group.size)),
               .count = times,
               .time = times * message.time,
               .exposed = visits * layers * message.exposed},
              message.group);
    }
  };
  const auto add = [&](const LayerCost& cost, double layers) { add_all(cost.messages, layers); };
  add_all(spread_messages(problem_, layout_).messages, 1 / stages_met(layout_.schedule));
  const bool spread = problem_.training.stack.vocab_barriers > 0;  // a share of both ends on every rank
  each_run(stage, [&](const StageContent& content) {
    const CostModel& costs = costs_of(content);
    for (int kind = 0; kind < costs.kinds(); ++kind)
      if (const int count = content.layers_of_kind[static_cast<std::size_t>(kind)]; count > 0)
        add(costs.layer(kind), count);
    if (spread || content.embedding) add(costs.embedding(), spread ? 1.0 / layout_.pp : 1);
    if (spread || content.head) add(costs.head(), spread ? 1.0 / layout_.pp : 1);
    if (const Cell* cell = cell_of(content)) add(resharding_cost(cell->input), 1);
  });
  settle_exposed(estimate, Axis::Tp, base_.tp);
  settle_exposed(estimate, Axis::Cp, base_.cp);
  settle_exposed(estimate, Axis::Ep, base_.ep);
}

void Evaluator::report_pipeline(Estimate& estimate) const {
  if (layout_.pp == 1) return;
  RealBytes bytes = hand_over_bytes(problem_, layout_);
  for (std::size_t i = 0; i < cells_.size(); ++i)  // inside a stage there is none
    if (const bool last = i + 1 == cells_.size() || cells_[i + 1].stages > 0; last || cells_[i].stages > 0)
      bytes = std::max(bytes, hand_over_bytes(problem_, cells_[i].layout));
  const Sent sent = sent_by_busiest(layout_, hops_);
  const auto micro_batches = static_cast<double>(estimate.micro_batches);
  const double sends = sent.count * micro_batches;
  add_row(estimate, problem_.cluster,
          {.axis = Axis::Pp,
           .op = Collective::SendRecv,
           .per_step = whole_bytes(sends * bytes),
           .count = sends,
           .time = micro_batches * sent.time,
           .exposed = run_.hop},
          RankGrid(layout_).stages());
}

/// Of the rank whose messages take longest, which is not always the one that computes longest.
void Evaluator::report_gradients(Estimate& estimate, const MemoryModel& memory, const Exposed& exposed,
                                 std::span<const DataParallel> prices) const {
  const auto sent = [](const DataParallel& price) { return price.reduce + price.gather + price.table; };
  std::size_t slowest = 0;
  for (std::size_t i = 1; i < prices.size(); ++i)
    if (sent(prices[i]) > sent(prices[slowest])) slowest = i;
  const DataParallel& price = prices[slowest];
  const StageContent& content = stages().contents[slowest];
  const auto add = [&](const Layout& layout, const ShardingMessage& message) {
    const Seconds time = pricer_.pass_time(message, problem_of(content).cluster);
    using What = ShardingMessage::What;
    const bool last = message.what == What::Table || message.what == What::Outer;  // once all else is done
    const auto share = [](Seconds whole, Seconds part, Seconds all) { return whole * part.value / all.value; };
    Seconds left = price.table > Seconds() ? share(exposed.table * message.passes, time, price.table) : Seconds();
    if (message.what == What::Reduce) left = share(exposed.reduce, time, price.reduce);
    if (message.what == What::Gather) left = share(exposed.gather, time, price.gather);
    if (layout.zero == 3 && !last) left = share(exposed.reduce + exposed.gather, time, price.reduce + price.gather);
    add_row(estimate, problem_of(content).cluster,
            {.axis = Axis::Dp,
             .op = message.op,
             .per_step = whole_bytes(message.passes * message.bytes * wire_factor(message.op, message.group.size)),
             .count = message.passes * message.parts,
             .time = message.passes * time,
             .exposed = left},
            message.group);
  };
  each_state(content, [&](const StageContent& part) {
    const Layout& layout = layout_of(part, estimate.layout);
    for (const ShardingMessage& message : pricer_.messages(layout, memory_of(part, memory).sums(part), part, passes_))
      add(layout, message);
  });
  const ScaleMessages scales = scale_messages(problem_, layout_);
  if (scales_ > Seconds())
    add_row(
        estimate, problem_.cluster,
        {.axis = Axis::Dp,
         .op = Collective::AllReduce,
         .per_step = whole_bytes(scales.passes * scales.bytes * wire_factor(Collective::AllReduce, scales.group.size)),
         .count = scales.passes,
         .time = scales_,
         .exposed = scales_},
        scales.group);
  settle_exposed(estimate, Axis::Dp, exposed.reduce + exposed.gather + exposed.table + scales_);
}

Flops Evaluator::recomputed_per_token(const Layout& layout) const {
  if (cells_.empty()) return recomputed_flops(problem_, layout, stages().stage_layers);
  Flops sum{};  // of the layers that each cell holds
  const std::vector<int>& all = stages().stage_layers;
  const double everywhere = std::max(1, std::accumulate(all.begin(), all.end(), 0));
  auto first = all.begin();
  const auto add = [&](const Layout& own, const std::vector<int>& held) {
    const double layers = std::accumulate(held.begin(), held.end(), 0.0);
    sum += layers / everywhere * recomputed_flops(problem_, own, held);
  };
  for (std::size_t i = 0; i < cells_.size(); first += cells_[i].stages, ++i) {
    if (!cells_[i].part) add(cells_[i].layout, {first, first + cells_[i].stages});
    if (!cells_[i].part || cells_[i].stages == 0) continue;
    for (const StageContent& run : placement_->runs[i].runs)
      add(cell_of(run)->layout, {std::accumulate(run.layers_of_kind.begin(), run.layers_of_kind.end(), 0)});
  }
  return sum;
}

void Evaluator::fill(Estimate& estimate, const MemoryModel& memory) const {
  const Layout& layout = estimate.layout;
  const std::vector<DataParallel> prices = prices_of(layout, memory);
  const Exposed hidden = exposed(layout, prices);
  estimate.micro_batches = pipeline_.micro_batches;
  estimate.stage_layers = stages().stage_layers;
  estimate.terms = terms(hidden);
  estimate.step_time = estimate.terms.total();
  estimate.tokens_per_s = static_cast<double>(problem_.training.tokens_per_step()) / estimate.step_time.value;
  estimate.tokens_per_s_per_gpu = estimate.tokens_per_s / problem_.gpus;
  estimate.mfu = utilisation(problem_, layout, recomputed_per_token(layout), estimate.step_time.value);
  fill_memory(estimate, memory);
  if (!problem_.pools.empty()) fill_runs(estimate);
  report_layers(estimate);
  report_pipeline(estimate);
  report_gradients(estimate, memory, hidden, prices);
  Interval interval{1, 1};
  const auto widen = [&](const Problem& problem, double measured) {
    const Interval one = time_interval(problem, estimate.terms, measured);
    interval = {std::min(interval.low, one.low), std::max(interval.high, one.high)};
  };
  if (problem_.pools.empty())
    interval = step_interval(problem_, estimate);
  else
    for (const Cell& cell : cells_) widen(*cell.problem, 0);
  estimate.step_time_low = estimate.step_time * interval.low;
  estimate.step_time_high = estimate.step_time * interval.high;
  estimate.layout.chunk_layers = stages().chunk_layers;
}

Estimate estimate(const Problem& problem, const Layout& layout) {
  if (!layout.stages.empty()) return estimate_stages(problem, layout);
  const CostModel costs(problem, split_of(layout));
  Evaluator evaluator(problem, costs, layout);
  evaluator.recompute(layout.recompute);
  Estimate result;
  result.layout = layout, result.switches = switch_words(problem);
  evaluator.fill(result, MemoryModel(problem, layout));
  return result;
}

Estimate estimate_cells(const Problem& problem, std::span<const Cell> cells, Hops hops) {
  Evaluator evaluator(problem, cells, std::move(hops));
  const Cell& front = cells.front();
  evaluator.recompute(front.layout.recompute);
  Estimate result;
  result.layout = front.layout;
  evaluator.fill(result, *front.memory);
  return result;
}

}  // namespace plan
