// What a job on several kinds of GPU costs: each run of stages on its own cluster, the step by the law of unequal
// stages. Tested by tests/planner/pools_test.cpp.
#include "planner/pools/pools.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "formulas/kernel_laws.hpp"
#include "formulas/rank_grid.hpp"
#include "planner/estimate/stages.hpp"
#include "planner/rules/frameworks.hpp"
#include "planner/rules/rules.hpp"

namespace plan {
namespace {

/// Rate at which one GPU leaves its pool.
double way_out(const Cluster& cluster) {
  if (cluster.tiers.size() < 2) return cluster.gpu.nic.value > 0 ? cluster.gpu.nic.value : cluster.gpu.scale_up.value;
  double rate = std::numeric_limits<double>::infinity(), shared = 1;
  for (std::size_t i = 1; i < cluster.tiers.size(); ++i) {
    rate =
        std::min(rate, cluster.tiers[i].bandwidth.value > 0 ? cluster.tiers[i].bandwidth.value : cluster.gpu.nic.value);
    shared *= std::max(1.0, cluster.tiers[i].oversubscription);
  }
  return rate / shared;
}

Tier slowest_link(std::span<const Pool> pools) {
  Tier link{.name = "between pools", .provenance = Provenance::Assumed};
  double rate = std::numeric_limits<double>::infinity();
  for (const Pool& pool : pools) {
    if (pool.cluster.tiers.size() > 1) link.latency = std::max(link.latency, pool.cluster.tiers.back().latency);
    rate = std::min(rate, way_out(pool.cluster));
  }
  link.bandwidth = BytesPerSecond(rate);
  return link;
}

}  // namespace

int PooledLayout::stages() const {
  return std::accumulate(runs.begin(), runs.end(), 0, [](int sum, const PooledRun& r) { return sum + r.layout.pp; });
}

std::vector<int> PooledLayout::layers() const {
  std::vector<int> all;
  for (const PooledRun& run : runs)
    all.insert(all.end(), run.layout.chunk_layers.begin(), run.layout.chunk_layers.end());
  return all;
}

Cluster joined(std::span<const Pool> pools, const std::optional<Tier>& link) {
  Cluster all = pools.front().cluster;
  double gpus = 0, failures = 0;
  bool priced = true, known = true;
  for (const Pool& pool : pools) {
    gpus += pool.gpus;
    priced = priced && pool.cluster.gpu.price_per_hour > 0;
    known = known && pool.cluster.gpu_mtbf_hours > 0;
    if (pool.cluster.gpu_mtbf_hours > 0) failures += pool.gpus / pool.cluster.gpu_mtbf_hours;
  }
  const auto mean = [&](auto of) {
    double sum = 0;
    for (const Pool& pool : pools) sum += pool.gpus * of(pool.cluster);
    return sum / gpus;
  };
  for (std::size_t type = 0; type < all.gpu.peak.size(); ++type)
    all.gpu.peak[type] = FlopsPerSecond(mean([&](const Cluster& c) { return c.gpu.peak[type].value; }));
  all.gpu.price_per_hour = priced ? mean([](const Cluster& c) { return c.gpu.price_per_hour; }) : 0;
  all.gpu.power_w = mean([](const Cluster& c) { return c.gpu.power_w; });
  all.host_power_w = mean([](const Cluster& c) { return c.host_power_w; });
  all.gpu_mtbf_hours = known && failures > 0 ? gpus / failures : 0;
  for (const Pool& pool : pools.subspan(1)) {
    const Cluster& one = pool.cluster;
    all.name += " + " + one.name, all.gpu.name += " + " + one.gpu.name;
    if (all.gpu.vendor != one.gpu.vendor) all.gpu.vendor.clear();
    if (all.gpu.library != one.gpu.library) all.gpu.library = CollectiveLibrary::Unknown;
    all.gpu.memory = std::min(all.gpu.memory, one.gpu.memory);
    all.gpu.memory_bandwidth = std::max(all.gpu.memory_bandwidth, one.gpu.memory_bandwidth);
    all.gpus_per_node = std::min(all.gpus_per_node, one.gpus_per_node);
    all.nics_per_node = std::min(all.nics_per_node, one.nics_per_node);
    all.pue = std::max(all.pue, one.pue);
    all.calibration.jitter = std::max(all.calibration.jitter, one.calibration.jitter);
    all.calibration.fixed_step_ms = std::max(all.calibration.fixed_step_ms, one.calibration.fixed_step_ms);
    all.calibration.scale_out = std::min(all.calibration.scale_out, one.calibration.scale_out);
    all.measured = all.measured && one.measured;
    for (const std::string& part : one.unmeasured_parts) std::erase(all.measured_parts, part);
    if (one.measured_parts.empty()) all.measured_parts.clear();
  }
  Tier between = link ? *link : slowest_link(pools);
  between.size = kMostRanks;
  all.tiers = {Tier{.name = "pool", .size = 1}, std::move(between)};
  all.network.clear();
  return all;
}

Problem pool_alone(const Problem& problem, int pool) {
  const Pool& own = problem.pools[static_cast<std::size_t>(pool)];
  Problem alone = problem;
  alone.cluster = own.cluster, alone.gpus = own.gpus;
  alone.pools.clear(), alone.pool_links.clear(), alone.pool_fixed.clear();
  return alone;
}

std::optional<Layout> as_one(const PooledLayout& layout) {
  Layout one = layout.runs.front().layout;
  one.pp = 1, one.chunk_layers.clear();
  for (const PooledRun& run : layout.runs) {
    Layout other = run.layout;
    other.pp = 1, other.chunk_layers.clear();
    if (!(other == one)) return std::nullopt;
  }
  one.pp = layout.stages(), one.chunk_layers = layout.layers();
  return one;
}

std::vector<Layout> layouts_of(const PooledLayout& layout) {
  std::vector<Layout> all;
  for (const PooledRun& run : layout.runs) all.push_back(run.layout);
  return all;
}

PooledLayout pooled_layout(const Estimate& estimate) {
  PooledLayout layout;
  for (const PoolRun& run : estimate.runs) layout.runs.push_back({run.pool, run.layout});
  return layout;
}

bool suits_meshes(const std::vector<Layout>& runs) {
  const Layout& front = runs.front();
  // A mesh of tp 1 splits no sequence, whatever the others do.
  const auto split = std::find_if(runs.begin(), runs.end(), [](const Layout& run) { return run.tp > 1; });
  return std::all_of(runs.begin(), runs.end(), [&](const Layout& run) {
    return run.cp == front.cp && run.cp_kind == front.cp_kind && run.cp_ulysses == front.cp_ulysses &&
           run.ep == front.ep && run.zero == front.zero && run.zero <= 1 && run.shard == 0 &&
           (run.tp == 1 || run.sequence_parallel == split->sequence_parallel) && run.recompute == front.recompute &&
           run.schedule == Schedule::OneFOneB && run.vp == 1 && run.stages.empty();
  });
}

namespace {

/// A mesh of processes for each pool, which obeys by itself the rules of the framework that can start such meshes.
bool runs_as_meshes(const FrameworkRow& row, const Problem& problem, const PooledLayout& layout) {
  if (!suits_meshes(layouts_of(layout)) || problem.cluster.gpu.library == CollectiveLibrary::Unknown) return false;
  return std::all_of(layout.runs.begin(), layout.runs.end(), [&](const PooledRun& run) {
    Problem alone = pool_alone(problem, run.pool);
    alone.framework = row.framework;
    alone.fixed.pp = run.layout.pp, alone.fixed.dp = run.layout.dp, alone.fixed.chunk_layers.reset();
    Layout unsplit = run.layout;
    unsplit.chunk_layers.clear();
    return broken_rule(alone, unsplit) < 0;
  });
}

}  // namespace

std::vector<Framework> frameworks_that_run(const Problem& problem, const PooledLayout& layout) {
  if (problem.mesh_per_pool) {
    const FrameworkRow* row = framework_with(Framework::Any, &FrameworkRow::mesh_per_pool);
    return row != nullptr && runs_as_meshes(*row, problem, layout) ? std::vector{row->framework}
                                                                   : std::vector<Framework>{};
  }
  const std::optional<Layout> one = as_one(layout);
  if (!one || problem.cluster.gpu.library == CollectiveLibrary::Unknown) return {};
  std::vector<Framework> all;
  for (const FrameworkRow& row : frameworks()) {
    const bool asked = named(problem.framework) ? row.framework == problem.framework
                                                : row.stack.states == problem.training.stack.states;
    if (!named(row.framework) || !asked) continue;
    Problem whole = problem;
    whole.framework = row.framework;
    whole.fixed.pp = one->pp, whole.fixed.chunk_layers = one->chunk_layers;
    const bool runs = std::all_of(problem.pools.begin(), problem.pools.end(), [&](const Pool& pool) {
      whole.cluster = pool.cluster;
      return runs_on(row, pool.cluster.gpu.vendor) && broken_rule(whole, *one) < 0;
    });
    if (runs) all.push_back(row.framework);
  }
  return all;
}

PoolModels::PoolModels(const Problem& problem) : whole_(problem) {
  for (int pool = 0; pool < static_cast<int>(problem.pools.size()); ++pool) {
    problems_.push_back(pool_alone(problem, pool));
    problems_.back().gpus = problem.gpus;
  }
}

const CostModel& PoolModels::costs(int pool, const Layout& layout) {
  std::unique_ptr<CostModel>& known = costs_[{pool, split_of(layout)}];
  if (!known) known = std::make_unique<CostModel>(problem(pool), split_of(layout));
  return *known;
}

const MemoryModel& PoolModels::memory(int pool, const Layout& layout, int stages) {
  const Recompute& r = layout.recompute;
  if (whole_.training.stack.vocab_barriers == 0) stages = 1;  // it decides on nothing else
  std::unique_ptr<MemoryModel>& known =
      memory_[MemoryKey(pool, split_of(layout), stages, r.kind, r.modules, r.layers, r.uniform)];
  if (!known) {
    Layout all = layout;
    all.pp = stages;
    known = std::make_unique<MemoryModel>(problem(pool), all);
  }
  return *known;
}

std::vector<Cell> PoolModels::cells(const PooledLayout& layout) {
  const int stages = layout.stages();
  const std::vector<int> layers = layout.layers();
  std::vector<Cell> cells;
  for (const PooledRun& run : layout.runs) {
    Cell cell{&problem(run.pool), &costs(run.pool, run.layout), &memory(run.pool, run.layout, stages), run.layout,
              run.layout.pp};
    cell.layout.pp = stages, cell.layout.chunk_layers = layers;
    cells.push_back(std::move(cell));
  }
  return cells;
}

const Problem& PoolModels::joined_by(int one, int other) {
  for (std::size_t i = 0; i < whole_.pool_links.size(); ++i) {
    const PoolLink& link = whole_.pool_links[i];
    if (link.one != std::min(one, other) || link.other != std::max(one, other)) continue;
    linked_.resize(whole_.pool_links.size());
    if (!linked_[i]) {
      linked_[i] = std::make_unique<Problem>(whole_);
      linked_[i]->cluster = joined(whole_.pools, link.tier);
    }
    return *linked_[i];
  }
  return whole_;
}

Hops PoolModels::hops(const PooledLayout& layout) {
  std::vector<Seconds> each;
  const auto time = [&](const Cluster& cluster, RealBytes bytes, std::size_t tier) {
    return hop_seconds<double>(cluster, bytes, tier);
  };
  const std::size_t runs = layout.runs.size();
  for (std::size_t first = 0, next = 0; first < runs; first = next) {  // of one pool
    const int pool = layout.runs[first].pool;
    Layout together = layout.runs[first].layout;
    together.pp = 0;
    for (next = first; next < runs && layout.runs[next].pool == pool; ++next)
      together.pp += layout.runs[next].layout.pp;
    const Cluster& cluster = problem(pool).cluster;
    const std::vector<std::size_t> tiers = hop_tiers(cluster, together);
    std::size_t stage = 0;
    for (std::size_t run = first; run < next; ++run) {
      const RealBytes own = hand_over_bytes(whole_, layout.runs[run].layout);
      const RealBytes behind = run + 1 < runs ? hand_over_bytes(whole_, layout.runs[run + 1].layout) : own;
      for (int i = 1; i < layout.runs[run].layout.pp; ++i) each.push_back(time(cluster, own, tiers[stage++]));
      const RealBytes wider = std::max(own, behind);
      if (run + 1 < next) {
        each.push_back(time(cluster, wider, tiers[stage++]));
      } else {
        const int other = run + 1 < runs ? layout.runs[run + 1].pool : pool;
        const Cluster& theirs = problem(other).cluster;
        // Pools of one kind are in one cluster, and its outermost network joins them.
        const bool same = other != pool && theirs.name == cluster.name && theirs.gpu.name == cluster.gpu.name;
        each.push_back(same ? time(cluster, wider, cluster.tiers.size() - 1)
                            : time(joined_by(pool, other).cluster, wider, 1));
      }
    }
  }
  // Behind the last stage nothing follows: no schedule of one chunk a stage goes round.
  if (each.size() > 1) each.back() = *std::min_element(each.begin(), each.end() - 1);
  return each.size() > 1 ? Hops(each) : Hops();
}

PooledEvaluator::PooledEvaluator(PoolModels& models, const PooledLayout& layout)
    : models_(models),
      whole_(models.joined_by(layout.runs.front().pool, layout.runs.back().pool)),
      cells_(models.cells(layout)),
      hops_(models.hops(layout)) {
  pipeline_ = pipeline_of(models.whole(), cells_.front().layout);
  for (std::size_t run = 0; run < cells_.size(); ++run)
    run_of_.insert(run_of_.end(), static_cast<std::size_t>(cells_[run].stages), static_cast<int>(run));
  prepare_work();
}

void PooledEvaluator::prepare_work() {
  const auto work = [](const LayerCost& cost) { return cost.work().total(); };
  const std::vector<int>& kinds = models_.whole().model.layers;
  for (const Cell& cell : cells_) {
    const Recompute& r = cell.layout.recompute;
    std::vector<Seconds> up_to{Seconds()};
    for (const int kind : kinds) {
      Seconds layer = work(cell.costs->layer(kind));
      if (r.kind == RecomputeKind::Full && r.layers == 0) layer += cell.costs->full_recompute(kind).total();
      if (r.kind == RecomputeKind::Selective) layer += cell.costs->selective_recompute(kind, r.modules).total();
      up_to.push_back(up_to.back() + layer);
    }
    up_to_.push_back(std::move(up_to));
    embedding_.push_back(work(cell.costs->embedding())), head_.push_back(work(cell.costs->head()));
  }
  content_up_to_.emplace_back();
  for (const int kind : kinds) {
    content_up_to_.push_back(content_up_to_.back());
    ++content_up_to_.back().layers_of_kind[static_cast<std::size_t>(kind)];
  }
}

Seconds PooledEvaluator::work(int stage, int first, int last) const {
  const auto run = static_cast<std::size_t>(run_of(stage));
  Seconds sum = up_to_[run][static_cast<std::size_t>(last)] - up_to_[run][static_cast<std::size_t>(first)];
  if (stage == 0) sum += embedding_[run];
  if (stage + 1 == stages()) sum += head_[run];
  return sum;
}

Seconds PooledEvaluator::least_step(const std::vector<int>& layers) const {
  const Problem& whole = models_.whole();
  if (whole.training.stack.ep_overlap) return {};  // what is hidden of the experts' messages depends on the stage
  Seconds before, longest;
  int first = 0;
  for (int stage = 0; stage < stages(); ++stage) {
    const int last = first + layers[static_cast<std::size_t>(stage)];
    const Seconds one = work(stage, first, last);
    longest = std::max(longest, before + static_cast<double>(pipeline_.micro_batches) * one);
    before += one, first = last;
  }
  return kBelow * longest * (1 + whole.cluster.calibration.jitter * slowest_of(whole.gpus));
}

Bytes PooledEvaluator::memory(int stage, int first, int last) const {
  const Cell& cell = cells_[static_cast<std::size_t>(run_of(stage))];
  const StageContent content =
      layers_between(models_.whole().model, content_up_to_[static_cast<std::size_t>(first)],
                     content_up_to_[static_cast<std::size_t>(last)], {stage == 0, stage + 1 == stages()});
  return cell.memory->stage(cell.layout, stage, content, held(pipeline_, stage)).total();
}

std::optional<Score> PooledEvaluator::score(const std::vector<int>& layers, std::span<const RealBytes> capacity) {
  Bytes peak;
  int first = 0;
  for (int stage = 0; stage < stages(); ++stage) {
    const int last = first + layers[static_cast<std::size_t>(stage)];
    const Bytes bytes = memory(stage, first, last);
    if (bytes > capacity[static_cast<std::size_t>(run_of(stage))]) return std::nullopt;
    peak = std::max(peak, bytes), first = last;
  }
  for (Cell& cell : cells_) cell.layout.chunk_layers = layers;
  Evaluator evaluator(whole_, cells_, hops_);
  const Cell& front = cells_.front();
  evaluator.recompute(front.layout.recompute);
  return Score{evaluator.step_terms(front.layout, *front.memory).total(), peak};
}

Estimate PooledEvaluator::estimate(const PooledLayout& layout) {
  for (Cell& cell : cells_) cell.layout.chunk_layers = layout.layers();
  Estimate result = estimate_cells(whole_, cells_, hops_);
  for (std::size_t i = 0; i < result.runs.size(); ++i) {
    PoolRun& run = result.runs[i];
    run.pool = layout.runs[i].pool, run.gpus = layout.runs[i].layout.world();
    run.gpu = models_.problem(run.pool).cluster.gpu.name;
  }
  return result;
}

Estimate estimate(PoolModels& models, const PooledLayout& layout) {
  return PooledEvaluator(models, layout).estimate(layout);
}

}  // namespace plan
