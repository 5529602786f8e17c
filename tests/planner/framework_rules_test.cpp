// Each framework's own rules: one layout that it runs, and one change each that it rejects.
#include <doctest/doctest.h>

#include <random>
#include <string>

#include "oracle/random_layout.hpp"
#include "oracle/random_problem.hpp"
#include "planner/cost/cost.hpp"
#include "planner/estimate/stages.hpp"
#include "planner/problem/spelled_out.hpp"
#include "planner/rules/frameworks.hpp"
#include "planner/rules/rules.hpp"
#include "planner/search/enumerate.hpp"

using namespace plan;

namespace {

std::string broken(const Problem& problem, const Layout& layout) {
  const int rule = broken_rule(problem, layout);
  return rule < 0 ? "" : std::string(rules()[static_cast<std::size_t>(rule)].code);
}

Problem llama(Framework framework) {
  Problem problem;
  problem.model = oracle::dense_model(32, 4096, 32, 8, 14336, 128256);
  problem.cluster = oracle::plain_cluster();
  problem.framework = framework;
  problem.built = true;  // whatever layers a test puts in
  problem.gpus = 64;
  problem.training.seq = 8192, problem.training.global_batch = 256;
  return problem;
}

Problem mixtral(Framework framework) {
  Problem problem = llama(framework);
  Layer& kind = problem.model.kinds.front();
  kind.ffn = Ffn::Moe;
  kind.moe = {.experts = 8, .top_k = 2, .expert_width = 14336};
  return problem;
}

Layout with(Layout layout, void (*change)(Layout&)) {
  change(layout);
  return layout;
}

const Layout kFsdp{.dp = 64, .zero = 3};

}  // namespace

TEST_CASE("torchtitan runs FSDP2 with tp, cp and pp, and says what it does not") {
  const Problem problem = llama(Framework::Torchtitan);
  CHECK(broken(problem, kFsdp) == "");
  const Layout full{.tp = 4,
                    .cp = 2,
                    .cp_kind = CpKind::AllGather,
                    .pp = 2,
                    .dp = 4,
                    .zero = 3,
                    .shard = 4,
                    .sequence_parallel = true};
  CHECK(broken(problem, full) == "");
  // Adapters go into models that FSDP alone splits, unless somebody's file says otherwise.
  Problem adapters = problem;
  adapters.training.task = Task::Lora;
  CHECK(broken(adapters, full) == "");
  adapters.built = false;
  CHECK(broken(adapters, kFsdp) == "");
  for (const Layout& split :
       {Layout{.tp = 2, .dp = 32, .zero = 3, .sequence_parallel = true},
        Layout{.cp = 2, .cp_kind = CpKind::AllGather, .dp = 32, .zero = 3}, Layout{.pp = 2, .dp = 32, .zero = 3}})
    CHECK(broken(adapters, split) == "torchtitan_adapters");
  // torchtune shares weights over all ranks: no replicas, whole or of shards.
  for (const Layout& replicas : {Layout{.dp = 64, .zero = 0}, Layout{.dp = 64, .zero = 3, .shard = 8}})
    CHECK(broken(adapters, replicas) == "torchtitan_adapter_shards");
  CHECK(broken(adapters, Layout{.dp = 64, .zero = 2}) == "");
  CHECK(broken(problem, with(full, [](Layout& l) { l.zero = 2; })) == "");
  CHECK(broken(problem, with(full, [](Layout& l) { l.zero = 1; })) == "torchtitan_zero");
  CHECK(broken(problem, with(full, [](Layout& l) { l.zero = 0, l.shard = 0; })) == "torchtitan_zero");
  CHECK(broken(problem, with(kFsdp, [](Layout& l) { l.zero = 0; })) == "");  // plain replication
  CHECK(broken(problem, with(full, [](Layout& l) { l.shard = 1; })) == "torchtitan_shard");
  CHECK(broken(problem, with(full, [](Layout& l) { l.cp_kind = CpKind::Ulysses; })) == "torchtitan_cp_kind");
  const Layout whole = with(full, [](Layout& l) { l.sequence_parallel = false; });
  Problem proposed = problem;
  proposed.built = false;  // no file of main's says so
  CHECK(broken(proposed, whole) == "torchtitan_sequence_parallel");
  CHECK(broken(problem, whole) == "");
  CHECK(broken(problem, with(full, [](Layout& l) { l.schedule = Schedule::ZbH1; })) == "torchtitan_schedule");
  CHECK(broken(problem, with(full, [](Layout& l) { l.schedule = Schedule::DualPipeV, l.vp = 2; })) == "");
  CHECK(broken(problem, with(full, [](Layout& l) { l.recompute = {.kind = RecomputeKind::Full, .layers = 1}; })) ==
        "torchtitan_recompute");
  CHECK(broken(problem, with(full, [](Layout& l) { l.micro_batch = 64; })) == "torchtitan_micro_batches");
  const Layout no_shards{.tp = 8, .pp = 8, .zero = 3, .sequence_parallel = true};
  CHECK(broken(problem, no_shards) == "torchtitan_mixed_precision");

  Problem other = problem;
  other.model.kinds.front().attention.kv_heads = 2;
  CHECK(broken(other, full) == "torchtitan_kv_heads");
  other = problem, other.model.tied = true;
  CHECK(broken(other, full) == "torchtitan_pipeline_ends");
  other = problem, other.model.kinds.front().attention.qk_norm = QkNorm::PerHead;
  CHECK(broken(other, full) == "torchtitan_pipeline_models");
  other = problem, other.training.precision = Precision::Nvfp4;
  CHECK(broken(other, full) == "torchtitan_precision");
  other = problem, other.training.seq = 8200;
  CHECK(broken(other, full) == "torchtitan_sequence");
}

TEST_CASE("torchtitan's experts borrow ranks from the shard group and tp") {
  const Problem problem = mixtral(Framework::Torchtitan);
  const Layout layout{.tp = 2, .dp = 32, .ep = 8, .zero = 3, .sequence_parallel = true};
  CHECK(broken(problem, layout) == "");
  CHECK(broken(problem, with(layout, [](Layout& l) { l.etp = 2; })) == "");
  CHECK(broken(problem, with(layout, [](Layout& l) { l.ep = 1; })) == "torchtitan_etp");
  CHECK(broken(problem, with(layout, [](Layout& l) { l.shard = 2; })) == "torchtitan_expert_shard");
}

TEST_CASE("DeepSpeed's file has ZeRO, AutoTP, AutoEP or Ulysses") {
  const Problem problem = llama(Framework::DeepSpeed);
  for (const int zero : {0, 1, 2, 3}) CHECK(broken(problem, Layout{.dp = 64, .zero = zero}) == "");
  CHECK(broken(problem, Layout{.tp = 4, .dp = 16, .zero = 3}) == "");
  CHECK(broken(problem, Layout{.cp = 4, .cp_kind = CpKind::Ulysses, .dp = 16, .zero = 3}) == "");
  CHECK(broken(problem, Layout{.cp = 4, .dp = 16, .zero = 3}) == "deepspeed_cp_kind");
  CHECK(broken(problem, Layout{.pp = 2, .dp = 32}) == "deepspeed_pipeline");
  CHECK(broken(problem, Layout{.tp = 2, .cp = 2, .cp_kind = CpKind::Ulysses, .dp = 16}) == "deepspeed_tp_or_cp");
  CHECK(broken(problem, Layout{.tp = 2, .dp = 32, .sequence_parallel = true}) == "deepspeed_sequence_parallel");
  CHECK(broken(problem, Layout{.dp = 64, .zero = 3, .shard = 8}) == "deepspeed_shard");
  const Problem moe = mixtral(Framework::DeepSpeed);
  CHECK(broken(moe, Layout{.dp = 64, .ep = 8, .zero = 2}) == "");
  CHECK(broken(moe, Layout{.tp = 2, .dp = 32, .ep = 8, .etp = 2, .zero = 2}) == "deepspeed_experts");
}

TEST_CASE("accelerate has FSDP2 with tp and cp, without pp and ep") {
  const Problem problem = llama(Framework::Accelerate);
  CHECK(broken(problem, kFsdp) == "");
  CHECK(broken(problem, Layout{.tp = 4, .cp = 2, .dp = 8, .zero = 3, .shard = 8}) == "");
  CHECK(broken(problem, Layout{.tp = 4, .cp = 2, .dp = 8, .zero = 3, .shard = 2}) == "accelerate_replicas");
  CHECK(broken(problem, Layout{.dp = 64, .zero = 0}) == "");
  CHECK(broken(problem, Layout{.dp = 64, .zero = 1}) == "accelerate_zero");
  CHECK(broken(problem, Layout{.pp = 2, .dp = 32, .zero = 3}) == "accelerate_pipeline");
  CHECK(broken(problem, Layout{.cp = 2, .cp_kind = CpKind::Ulysses, .dp = 32, .zero = 3}) == "accelerate_cp_kind");
  CHECK(broken(mixtral(Framework::Accelerate), Layout{.dp = 64, .ep = 2, .zero = 3}) == "accelerate_experts");
}

TEST_CASE("MaxText's pipeline has equal stages and whole rounds of micro-batches") {
  const Problem problem = llama(Framework::Maxtext);
  const Recompute full{.kind = RecomputeKind::Full};
  const Layout layout{.pp = 4, .vp = 2, .dp = 16, .zero = 3, .schedule = Schedule::BreadthFirst, .recompute = full};
  CHECK(broken(problem, layout) == "");
  CHECK(broken(problem, with(layout, [](Layout& l) { l.vp = 3; })) == "maxtext_stages");
  CHECK(broken(problem, with(layout, [](Layout& l) { l.micro_batch = 8; })) == "schedule_limits");
  CHECK(broken(problem, with(layout, [](Layout& l) { l.schedule = Schedule::Interleaved; })) == "maxtext_schedule");
  CHECK(broken(problem, with(layout, [](Layout& l) { l.recompute = {}; })) == "maxtext_recompute");
  CHECK(broken(problem, with(layout, [](Layout& l) { l.zero = 2; })) == "maxtext_zero");
  CHECK(broken(problem, with(layout, [](Layout& l) { l.chunk_layers = {3, 5, 4, 4, 4, 4, 4, 4}; })) ==
        "maxtext_stages");
  Problem fp8 = problem;
  fp8.training.precision = Precision::Fp8Delayed;
  CHECK(broken(fp8, layout) == "");
  CHECK(broken(fp8, Layout{.dp = 64, .zero = 3, .micro_batch = 4, .recompute = full}) == "");
  CHECK(broken(fp8, Layout{.dp = 64, .zero = 3, .micro_batch = 2, .recompute = full}) == "maxtext_delayed_fp8");
  const Problem moe = mixtral(Framework::Maxtext);
  CHECK(broken(moe, Layout{.dp = 64, .ep = 8, .zero = 3, .recompute = full}) == "");
  CHECK(broken(moe, Layout{.dp = 64, .ep = 8, .zero = 3, .shard = 4, .recompute = full}) == "maxtext_shard");
  CHECK(broken(moe, Layout{.dp = 64, .ep = 8, .zero = 0, .recompute = full}) == "maxtext_zero");
}

TEST_CASE("a framework offers no recomputation that it cannot run") {
  for (const FrameworkRow& row : frameworks()) {
    const Framework framework = row.framework;
    if (!named(framework) || framework == Framework::Megatron) continue;  // which runs blocks of layers
    Problem problem = llama(framework);
    const std::vector<Recompute> options = enumerate_recomputes(problem, 8);
    CHECK(options.size() >= 2);
    for (const Recompute& option : options) CHECK(broken_rule(problem, option) < 0);
    problem.fixed.recompute = Recompute{.kind = RecomputeKind::Full, .layers = 3};
    // torchtitan's every n-th layer is a block of as many here: taken where it is asked for, never proposed.
    CHECK(enumerate_recomputes(problem, 8).size() == (framework == Framework::Torchtitan ? 1 : 0));
  }
}

TEST_CASE("earlier releases of Megatron reject what the newest runs") {
  const Layout wide{.tp = 4, .dp = 16, .zero = 1, .sequence_parallel = true};
  const Layout experts{.dp = 64, .ep = 8, .zero = 1};
  const Layout stages{.pp = 3, .dp = 16, .zero = 1};
  const Layout norms{.dp = 64, .zero = 1, .recompute = {RecomputeKind::Selective, kRecomputeNorm}};
  const Layout context{.cp = 2, .cp_kind = CpKind::Ring, .dp = 32, .zero = 1};
  Problem dense = llama(Framework::Megatron), half = mixtral(Framework::Megatron), narrow = dense, predicts = dense,
          muon = dense, uneven = dense, few = dense, mamba = dense, delta = dense;
  mamba.model.kinds.front().mixer = Mixer::Mamba2, delta.model.kinds.front().mixer = Mixer::DeltaNet;
  mamba.model.kinds.front().mamba = {.heads = 32, .head_dim = 64, .groups = 8, .state = 128, .conv = 4};
  delta.model.kinds.front().delta = {.key_heads = 16, .value_heads = 32, .key_dim = 128, .value_dim = 128, .conv = 4};
  few.model.kinds.front().attention.kv_heads = 2;
  half.training.precision = Precision::Fp16;
  narrow.training.precision = Precision::Fp8Tensorwise;
  predicts.model.mtp.depth = 1;
  muon.training.optimizer = Optimizer::Muon;
  uneven.gpus = 48, uneven.training.global_batch = 192;
  struct Row {
    Problem problem;
    Layout layout;
    int until;
    std::string code;
  };
  for (const Row& row : {Row{few, wide, 15, "early_tp_kv_heads"}, Row{half, experts, 15, "early_expert_precision"},
                         Row{uneven, stages, 12, "early_stages"}, Row{narrow, norms, 13, "early_recompute_fp8"},
                         Row{predicts, context, 13, "early_mtp_context"},
                         Row{mamba, context, 12, "early_mamba_context"}, Row{delta, context, 17, "early_delta_context"},
                         Row{muon, with(kFsdp, [](Layout& l) { l.zero = 1; }), 17, "early_muon"}}) {
    CAPTURE(row.code);
    Problem problem = row.problem;
    CHECK(broken(problem, row.layout) == "");
    problem.release = row.until;
    CHECK(broken(problem, row.layout) == row.code);
    problem.release = row.until + 1;
    CHECK(broken(problem, row.layout) == "");
  }
}

TEST_CASE("context ranks take whole heads of what scans, under Megatron alone") {
  // By dealing heads out: rank r of tp * cp has the r-th equal share, each head of one group.
  const auto deals = [](std::int64_t heads, std::int64_t groups, int tp, int cp, bool copies) {
    if (heads % (static_cast<std::int64_t>(tp) * cp) != 0 || groups % tp != 0) return false;
    const std::int64_t share = heads / tp / cp, group = heads / groups;
    for (std::int64_t first = 0; first < heads; first += share)  // whole groups, or a whole part of one
      if (first % group != 0 && (!copies || first / group != (first + share - 1) / group)) return false;
    return copies || share % group == 0;
  };
  for (const Mixer mixer : {Mixer::Mamba2, Mixer::DeltaNet})
    for (const std::int64_t groups : {2, 4, 6, 8, 16})
      for (const int tp : {1, 2, 4})
        for (const int cp : {2, 3, 4, 6, 8, 16}) {
          CAPTURE(groups);
          CAPTURE(tp);
          CAPTURE(cp);
          Problem problem = llama(Framework::Megatron);
          Layer& layer = problem.model.kinds.front();
          layer.mixer = mixer;
          layer.mamba = {.heads = 48 / 6 * groups, .head_dim = 64, .groups = groups, .state = 128, .conv = 4};
          layer.delta = {.key_heads = groups, .value_heads = 8 * groups, .key_dim = 64, .value_dim = 64, .conv = 4};
          problem.training.seq = 48 * 1024, problem.training.global_batch = 64;
          problem.gpus = tp * cp * 4;
          const Layout layout{.tp = tp, .cp = cp, .dp = 4, .zero = 1, .sequence_parallel = tp > 1};
          const bool possible = deals(8 * groups, groups, tp, cp, mixer == Mixer::Mamba2);
          CHECK(broken(problem, layout).empty() == possible);
          problem.framework = Framework::Torchtitan;
          CHECK(broken(problem, layout) != "");
        }
}

TEST_CASE("Megatron core 0.12 takes stages that are equal but for the two ends") {
  Problem problem = llama(Framework::Megatron);
  problem.release = 12;
  Layout layout{.pp = 4, .dp = 16, .zero = 1};
  for (const std::vector<int>& chunks : {std::vector<int>{8, 8, 8, 8}, {7, 9, 9, 7}, {6, 10, 10, 6}, {}}) {
    layout.chunk_layers = chunks;
    CHECK(broken(problem, layout) == "");
  }
  layout.chunk_layers = {8, 9, 8, 7};
  CHECK(broken(problem, layout) == "early_stages");
  problem.model.mtp.depth = 1;
  layout.chunk_layers = {6, 10, 10, 6};
  CHECK(broken(problem, layout) == "early_stages");
}

TEST_CASE("a shard group of all ranks is legal wherever no word for it is") {
  std::mt19937 random(5);
  int legal = 0;
  for (const FrameworkRow& row : frameworks())
    for (int round = 0; round < oracle::rounds(40); ++round) {
      Problem problem = oracle::random_problem(random, 16);
      problem.framework = row.framework, problem.built = true, problem.fixed = {};
      Tally tally;
      for (const Family& family : enumerate_families(problem, tally)) {
        Layout open = family.layout;
        open.zero = static_cast<int>(random() % 4), open.shard = 0;
        Layout whole = open;
        whole.shard = open.dense_group();
        CAPTURE(row.name);
        CAPTURE(broken(problem, whole));
        CHECK((broken_rule(problem, open) < 0) == (broken_rule(problem, whole) < 0));
        legal += broken_rule(problem, open) < 0 ? 1 : 0;
      }
    }
  CHECK(legal > oracle::at_least(500));
}

TEST_CASE("layers that the planner places are layers that the framework takes") {
  std::mt19937 random(15);
  int placed = 0;
  for (const FrameworkRow& row : frameworks())
    for (int round = 0; round < oracle::rounds(30); ++round) {
      Problem problem = oracle::random_problem(random, 16);
      problem.framework = row.framework, problem.fixed = {};
      problem.model.vocab *= 1 + static_cast<std::int64_t>(random() % 40);  // a head as heavy as several layers
      Tally tally;
      for (const Family& family : enumerate_families(problem, tally)) {
        Layout layout = family.layout;
        if (layout.pp == 1 || broken_rule(problem, layout) >= 0) continue;
        layout.chunk_layers = plan_stages(problem, CostModel(problem, split_of(layout)), layout).chunk_layers;
        CAPTURE(row.name);
        CAPTURE(layout.pp);
        CAPTURE(layout.vp);
        CHECK(broken(problem, layout) == "");
        ++placed;
      }
    }
  CHECK(placed > oracle::at_least(500));
}

TEST_CASE("what means nothing beside the other axes breaks no rule of a framework, and mends none") {
  std::mt19937 random(6);
  int legal = 0, illegal = 0;
  for (const FrameworkRow& row : frameworks())
    for (int round = 0; round < oracle::rounds(30); ++round) {
      Problem problem = oracle::random_problem(random, 16);
      problem.framework = row.framework, problem.built = true, problem.fixed = {};
      Tally tally;
      for (const Family& family : enumerate_families(problem, tally)) {
        Layout layout = family.layout, same = layout;
        layout.zero = same.zero = static_cast<int>(random() % 4);
        const Layout other = oracle::any_values(random);
        each_axis([&](const auto& axis) {
          const bool idle = axis.is(&Layout::cp_kind) || axis.is(&Layout::cp_ulysses) || axis.is(&Layout::order);
          if (idle && !means_something(axis.value, layout)) same.*axis.value = other.*axis.value;
        });
        if (same == layout) continue;
        CAPTURE(row.name);
        CAPTURE(broken(problem, layout));
        CAPTURE(broken(problem, same));
        const bool runs = broken_rule(problem, layout) < 0;
        CHECK(runs == (broken_rule(problem, same) < 0));
        ++(runs ? legal : illegal);
      }
    }
  CHECK(legal > oracle::at_least(300));
  CHECK(illegal > oracle::at_least(100));
}
