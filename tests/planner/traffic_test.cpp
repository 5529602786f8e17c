// What an estimate says is sent, against a count that knows only the layers and the layout.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "draw.hpp"
#include "formulas/flops.hpp"
#include "formulas/layer_rows.hpp"
#include "formulas/names.hpp"
#include "oracle/random_problem.hpp"
#include "oracle/traffic_count.hpp"
#include "oracle/traffic_holding.hpp"
#include "planner/answer/estimate.hpp"
#include "planner/choice/nearest.hpp"
#include "planner/estimate/evaluate.hpp"
#include "planner/rules/rules.hpp"

namespace plan {
namespace {

using oracle::CountedRow;

Layer random_layer(std::mt19937& random, std::int64_t hidden, bool experts) {
  Layer layer;
  // Every second layer attends, the others mix in any of the ways there are.
  layer.mixer = chance(random, 50) ? Mixer::Attention : static_cast<Mixer>(random() % std::size(kMixerRows));
  oracle::mixer_count(layer.mixer).vary(random, layer);
  layer.dense = {.width = 4 * hidden, .gated = chance(random, 70), .bias = chance(random, 20)};
  layer.ffn = chance(random, 10) ? Ffn::None : Ffn::Dense;
  layer.norms = pick(random, {1, 2, 4});
  if (!experts || chance(random, 30)) return layer;
  layer.ffn = Ffn::Moe;
  layer.moe = {.experts = 16,
               .top_k = pick<std::int64_t>(random, {1, 2, 4}),
               .expert_width = 512,
               .shared_width = pick<std::int64_t>(random, {0, 1024}),
               .gated = chance(random, 70),
               .expert_bias = chance(random, 20),
               .router_bias = chance(random, 20),
               .shared_gate = chance(random, 20),
               .latent = pick<std::int64_t>(random, {0, 0, 512})};
  return layer;
}

Model random_model(std::mt19937& random) {
  Model model;
  model.name = "random";
  model.hidden = pick<std::int64_t>(random, {1024, 2048});
  model.vocab = pick<std::int64_t>(random, {32000, 50257, 129280});
  model.tied = chance(random, 40);
  model.positions = chance(random, 20) ? 4096 : 0;
  model.norm = chance(random, 30) ? Norm::Layer : Norm::Rms;
  model.norm_bias = chance(random, 70), model.embedding_norm = chance(random, 10);
  const bool experts = chance(random, 50);
  const std::size_t kinds = 1 + random() % 3;
  for (std::size_t i = 0; i < kinds; ++i) model.kinds.push_back(random_layer(random, model.hidden, experts));
  for (int i = 0; i < 16; ++i) model.layers.push_back(static_cast<int>(random() % kinds));
  if (chance(random, 25)) model.mtp = {.depth = pick(random, {1, 2}), .kinds = {static_cast<int>(random() % kinds)}};
  return model;
}

Problem random_job(std::mt19937& random) {
  Problem problem;
  problem.model = random_model(random);
  problem.cluster = oracle::plain_cluster();
  problem.cluster.tiers[1].size = 32;
  problem.training.seq = 4096;
  problem.training.global_batch = 64;
  problem.training.precision =
      pick(random, {Precision::Bf16, Precision::Bf16, Precision::Fp16, Precision::Fp32, Precision::Fp8Delayed,
                    Precision::Fp8Blockwise, Precision::Mxfp8, Precision::Nvfp4});
  problem.training.grad_bytes = pick(random, {2, 4});
  Stack& stack = problem.training.stack;
  stack.states = pick(random, {StateLayout::Megatron, StateLayout::Megatron, StateLayout::Fsdp2});
  stack.keeps_gathered = chance(random, 30), stack.reduces_per_linear = chance(random, 30);
  stack.fp8_dispatch = chance(random, 30), stack.scatters_hand_overs = chance(random, 30);
  stack.reduces_once = chance(random, 30), stack.reshard_after_forward = chance(random, 70);
  stack.gathers_per_layer = pick(random, {1, 12}), stack.broadcasts_shards = chance(random, 20);
  stack.shards_in_lists = chance(random, 20), stack.transformer_engine = chance(random, 70);
  return problem;
}

/// Powers of two, so that groups lie whole in the tiers.
Layout random_layout(std::mt19937& random, const Model& model) {
  Layout layout;
  layout.tp = pick(random, {1, 2, 4, 8}), layout.cp = pick(random, {1, 1, 2, 4});
  layout.pp = pick(random, {1, 2, 4}), layout.dp = pick(random, {1, 2, 4, 8});
  layout.cp_kind = pick(random, {CpKind::Ring, CpKind::AllGather, CpKind::Ulysses, CpKind::Hybrid});
  layout.cp_ulysses = layout.cp_kind == CpKind::Hybrid ? 2 : 1;
  if (layout.cp == 1) layout.cp_kind = CpKind::Ring, layout.cp_ulysses = 1;
  if (model.moe()) layout.ep = pick(random, {1, 2, 4, 8, 16}), layout.etp = pick(random, {1, layout.tp});
  layout.zero = static_cast<int>(random() % 4);
  if (layout.zero > 0 && chance(random, 50)) layout.shard = std::max(1, layout.dense_group() / pick(random, {1, 2, 4}));
  layout.micro_batch = pick(random, {1, 2});
  layout.sequence_parallel = layout.tp > 1 && chance(random, 60);
  if (layout.pp > 1) {
    layout.schedule = static_cast<Schedule>(random() % kSchedules);
    layout.vp = pick(random, {1, 2, 2, 4});
    const bool whole = !model.moe() || layout.etp * layout.ep == layout.tp * layout.cp;
    if (whole && chance(random, 40)) layout.order = AxisOrder::DataOutermost;
  }
  return layout;
}

std::string axis_name(Axis axis) {
  switch (axis) {
    case Axis::Tp: return "tp";
    case Axis::Cp: return "cp";
    case Axis::Ep: return "ep";
    case Axis::Pp: return "pp";
    case Axis::Dp: return "dp";
  }
  return {};
}

std::vector<CountedRow> rows_of(const Estimate& e, std::initializer_list<Axis> axes) {
  std::vector<CountedRow> rows;
  for (const Communication& row : e.communication)
    if (std::find(axes.begin(), axes.end(), row.axis) != axes.end())
      rows.push_back(
          {axis_name(row.axis), row.op, row.group.size, row.tier, static_cast<double>(row.per_step.value), row.count});
  return rows;
}

bool near(double a, double b) { return std::abs(a - b) <= 1e-9 * std::max(a, b) + 16; }

/// Empty if equal; else the first difference in words.
std::string difference(const std::vector<CountedRow>& told, const std::vector<CountedRow>& counted) {
  const auto text = [](const CountedRow& r) {
    return r.axis + " " + std::string(name(r.op)) + " over " + std::to_string(r.group) + " on " + r.tier + ": " +
           std::to_string(r.bytes) + " bytes in " + std::to_string(r.count);
  };
  for (const auto& [from, to] : {std::pair(&told, &counted), std::pair(&counted, &told)})
    for (const CountedRow& row : *from) {
      const auto found = std::find_if(to->begin(), to->end(), [&](const CountedRow& other) {
        return other.axis == row.axis && other.op == row.op && other.group == row.group && other.tier == row.tier;
      });
      const std::string whose = from == &told ? "only told: " : "only counted: ";
      if (found == to->end()) return whose + text(row);
      if (!near(found->bytes, row.bytes) || std::abs(found->count - row.count) > 1e-6)
        return text(row) + " against " + text(*found);
    }
  return {};
}

/// The rows are those of one stage. Empty if they are; else how they differ from the last one's.
template <class Count>
std::string difference_from_stages(const std::vector<CountedRow>& told, int stages, const Count& count) {
  std::string first;
  for (int stage = 0; stage < stages; ++stage) {
    const std::string wrong = difference(told, count(stage));
    if (wrong.empty()) return {};
    if (first.empty()) first = wrong;
  }
  return first;
}

}  // namespace

TEST_CASE("a mixer's row stands at its place, and its core computes what is counted") {
  std::mt19937 random(11);
  for (std::size_t i = 0; i < std::size(kMixerRows); ++i) {
    const MixerRow& row = *kMixerRows[i];
    CAPTURE(row.part.name);
    CHECK(static_cast<std::size_t>(row.mixer) == i);
    const oracle::MixerCount& counted = oracle::mixer_count(row.mixer);
    REQUIRE(counted.mixer == row.mixer);
    Layer layer;
    layer.mixer = row.mixer;
    counted.vary(random, layer);
    CHECK(layer_flops({.hidden = 1024}, layer, 4096).core.value == doctest::Approx(counted.core(layer, 4096)));
    Layer copy;
    row.part.put(copy, layer);
    copy.ffn = layer.ffn;
    CHECK(copy == layer);
  }
}

TEST_CASE("every message is what an independent count finds") {
  std::mt19937 random(71);
  int checked = 0, tied = 0, experts = 0, hybrid = 0, both = 0;
  for (int i = 0; checked < oracle::rounds(2000) && i < 100000; ++i) {
    Problem problem = random_job(random);
    Layout layout = random_layout(random, problem.model);
    problem.gpus = layout.world();
    if (broken_rule(problem, layout) >= 0) continue;
    ++checked;
    const Estimate e = estimate(problem, layout);
    layout.chunk_layers = e.layout.chunk_layers;
    const oracle::TrafficCase job{problem.model, problem.training, layout, problem.cluster.tiers};
    CAPTURE(i);
    CAPTURE(degrees_text(layout));
    CAPTURE(layout.zero);
    CAPTURE(layout.shard);
    CAPTURE(static_cast<int>(layout.schedule));
    CAPTURE(static_cast<int>(layout.cp_kind));
    CAPTURE(static_cast<int>(layout.order));
    CHECK(difference_from_stages(rows_of(e, {Axis::Tp, Axis::Cp, Axis::Ep}), layout.pp,
                                 [&](int stage) { return count_layers(job, stage); }) == "");
    CHECK(difference_from_stages(rows_of(e, {Axis::Dp}), layout.pp,
                                 [&](int stage) { return count_gradients(job, stage); }) == "");
    CHECK(difference(rows_of(e, {Axis::Pp}), count_hand_overs(job)) == "");
    tied += problem.model.tied && layout.pp > 1, experts += layout.ep > 1, hybrid += layout.shard > 0;
    both += layout.schedule == Schedule::DualPipe;
  }
  CHECK(checked >= oracle::rounds(2000));
  for (const int met : {tied, experts, hybrid, both}) CHECK(met >= oracle::at_least(30));
}

namespace {

/// A dense model with tables of so many rows on 16 GPUs.
Problem dense_job(std::int64_t vocab) {
  Problem problem;
  problem.model = oracle::dense_model(16, 2048, 16, 16, 8192, vocab);
  problem.cluster = oracle::plain_cluster();
  problem.gpus = 16;
  problem.training.global_batch = 64;
  return problem;
}

}  // namespace

TEST_CASE("weights of GEMMs that are gathered in fp8 take a byte each, and all others as before") {
  Problem problem = dense_job(32000);
  const Model dense = problem.model;
  Model routed = dense;
  routed.kinds[0].ffn = Ffn::Moe;
  routed.kinds[0].moe = {.experts = 16, .top_k = 2, .expert_width = 1024};
  const double table = 2.0 * 32000 * 2048;
  for (const int i : {0, 1, 2, 3, 4, 5, 6, 7})
    for (const Precision precision : {Precision::Bf16, Precision::Fp8Delayed, Precision::Fp8Blockwise}) {
      const int zero = i % 4;
      const bool experts = i >= 4;
      problem.model = experts ? routed : dense;
      const double linear = 16.0 * (4.0 * 2048 * 2048 + 3.0 * 2048 * (experts ? 16 * 1024 : 8192));
      CAPTURE(zero);
      CAPTURE(experts);
      CAPTURE(name(precision));
      Layout layout;
      layout.dp = 16, layout.zero = zero;
      const auto gathered = [&](bool in_fp8) {
        Problem job = problem;
        job.training.precision = precision, job.training.stack.fp8_param_gather = in_fp8;
        double sum = 0;
        for (const Communication& row : estimate(job, layout).communication)
          if (row.axis == Axis::Dp && row.op == Collective::AllGather)
            sum += static_cast<double>(row.per_step.value) / row.count * (zero == 3 ? row.count : 1);
        return sum;
      };
      const double without = gathered(false), with = gathered(true), share = 15.0 / 16;
      CHECK((without > 0) == (zero > 0));
      const double times = without / (2 * share * (linear + table));  // a weight is fetched
      if (precision == Precision::Bf16) CHECK(with == without);
      if (precision == Precision::Bf16 || zero == 0) continue;
      CHECK(without - with >= 0.999 * times * share * linear);
      CHECK(without - with <= 1.001 * times * share * linear);  // embedding, head and norms stay in 16 bits
    }
}

TEST_CASE("a tied embedding is reduced once, and over the pipeline's ends where they are two ranks") {
  Problem problem = dense_job(128000);
  const auto bytes = [&](const Layout& layout, Collective op, int group) {
    double sum = 0;
    for (const Communication& row : estimate(problem, layout).communication)
      if (row.axis == Axis::Dp && row.op == op && row.group.size == group)
        sum += static_cast<double>(row.per_step.value);
    return sum;
  };
  Layout layout;
  layout.dp = 16, layout.zero = 0;
  const double apart = bytes(layout, Collective::AllReduce, 16);
  problem.model.tied = true;
  const double table = 128000.0 * 2048 * 4;
  CHECK(apart - bytes(layout, Collective::AllReduce, 16) == doctest::Approx(table * 2 * 15 / 16));
  layout.dp = 2, layout.pp = 8, layout.zero = 1;
  const Seconds with = estimate(problem, layout).terms.dp;
  CHECK(bytes(layout, Collective::AllReduce, 2) == table);  // twice (n - 1)/n of it, n = 2
  problem.model.tied = false;
  CHECK(bytes(layout, Collective::AllReduce, 2) == 0);
  CHECK(with > estimate(problem, layout).terms.dp);
}

}  // namespace plan
