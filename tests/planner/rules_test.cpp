#include <doctest/doctest.h>

#include <numeric>
#include <random>
#include <set>
#include <string>

#include "oracle/random_problem.hpp"
#include "planner/answer/estimate.hpp"
#include "planner/rules/rules.hpp"

using namespace plan;

namespace {

std::string broken(const Problem& problem, const Layout& layout) {
  const int rule = broken_rule(problem, layout);
  return rule < 0 ? "" : std::string(rules()[static_cast<std::size_t>(rule)].code);
}

Problem llama() {
  Problem problem;
  problem.model = oracle::dense_model(32, 4096, 32, 8, 14336, 128256);
  problem.cluster = oracle::plain_cluster();
  problem.gpus = 64;
  problem.training.seq = 8192, problem.training.global_batch = 256;
  return problem;
}

}  // namespace

TEST_CASE("each rule rejects what it names") {
  const Problem problem = llama();
  Layout good;
  good.tp = 4, good.pp = 2, good.dp = 8, good.sequence_parallel = true;
  CHECK(broken(problem, good) == "");

  Layout layout = good;
  layout.dp = 4;
  CHECK(broken(problem, layout) == "gpus_divide");
  layout = good, layout.tp = 1, layout.pp = 64, layout.dp = 1;
  CHECK(broken(problem, layout) == "layers_fill_stages");
  Problem stated = problem;  // embedding and head on ranks of their own, as BLOOM was trained
  stated.gpus = 34, layout.pp = 34, layout.sequence_parallel = false;
  CHECK(broken(stated, layout) == "layers_fill_stages");
  layout.chunk_layers.assign(34, 1), layout.chunk_layers.front() = layout.chunk_layers.back() = 0;
  stated.fixed.chunk_layers = layout.chunk_layers;
  CHECK(broken(stated, layout) == "");
  layout = good, layout.tp = 16, layout.pp = 1, layout.dp = 4;
  CHECK(broken(problem, layout) == "tp_leaves_scale_up");
  layout = good, layout.micro_batch = 64;
  CHECK(broken(problem, layout) == "micro_batch_divides");
  Problem wide = problem;
  wide.gpus = 8192, layout = good, layout.cp = 32, layout.tp = 8, layout.pp = 32, layout.dp = 1;
  CHECK(broken(wide, layout) == "replica_too_wide");
  wide.fixed.dp = 1;
  CHECK(broken(wide, layout) != "replica_too_wide");
  layout = good, layout.schedule = Schedule::Interleaved;
  CHECK(broken(problem, layout) == "schedule_limits");
  layout = good, layout.schedule = Schedule::Interleaved, layout.vp = 32;
  CHECK(broken(problem, layout) == "chunks_need_layers");
  layout = good, layout.shard = 3;
  CHECK(broken(problem, layout) == "shard_divides");
  layout = good, layout.cp = 4, layout.dp = 2, layout.cp_kind = CpKind::Ulysses;
  CHECK(broken(problem, layout) == "ulysses_heads");

  Problem odd = problem;
  odd.training.global_batch = 100;
  CHECK(broken(odd, good) == "batch_divides");
  odd = problem, odd.training.seq = 8190, layout = good, layout.cp = 4, layout.dp = 2;
  CHECK(broken(odd, layout) == "sequence_divides");
  odd = problem, odd.model.kinds[0].attention.heads = 30;
  CHECK(broken(odd, good) == "heads_divide");
  odd = problem, odd.model.kinds[0].attention.kv_heads = 6;
  CHECK(broken(odd, good) == "kv_heads_divide");
  odd = problem, odd.model.kinds[0].dense.width = 14338;
  CHECK(broken(odd, good) == "ffn_divides");
}

TEST_CASE("Megatron runs fewer schedules than there are") {
  Problem problem = llama();
  Layout layout;
  layout.tp = 4, layout.pp = 2, layout.dp = 8, layout.sequence_parallel = true, layout.vp = 2,
  layout.schedule = Schedule::ZbV;
  CHECK(broken(problem, layout) == "");
  problem.framework = Framework::Megatron;
  CHECK(broken(problem, layout) == "schedule_unknown");
}

TEST_CASE("codes are unique and texts say something") {
  std::set<std::string> codes;
  for (const Rule& rule : rules()) {
    CHECK(codes.insert(std::string(rule.code)).second);
    CHECK(rule.text.size() > 10);
  }
}

TEST_CASE("layers of a layout are one number a chunk, and all the model's") {
  std::mt19937 random(16);
  Problem problem = llama();
  int legal = 0;
  for (int i = 0; i < oracle::rounds(300); ++i) {
    Layout layout;
    layout.tp = 4, layout.sequence_parallel = true;
    layout.pp = 1 << random() % 4, layout.vp = layout.pp > 1 ? 1 + static_cast<int>(random() % 3) : 1;
    layout.dp = problem.gpus / layout.tp / layout.pp;
    if (layout.vp > 1) layout.schedule = Schedule::Interleaved;
    problem.framework = random() % 2 == 0 ? Framework::Any : Framework::Torchtitan;
    if (problem.framework == Framework::Torchtitan) layout.zero = 3, layout.cp_kind = CpKind::AllGather;
    if (!broken(problem, layout).empty()) continue;
    const int chunks = layout.pp * layout.vp + static_cast<int>(random() % 8 == 0);
    layout.chunk_layers.assign(static_cast<std::size_t>(chunks), 0);
    for (int layer = 0; layer < 32 + static_cast<int>(random() % 8 == 0); ++layer)
      ++layout.chunk_layers[random() % layout.chunk_layers.size()];
    const std::vector<int>& layers = layout.chunk_layers;
    const bool whole = chunks == layout.pp * layout.vp && std::accumulate(layers.begin(), layers.end(), 0) == 32;
    bool inside = true;
    for (std::size_t c = 1; c + 1 < layers.size(); ++c) inside = inside && layers[c] > 0;
    const std::string rule = broken(problem, layout);
    if (!whole) CHECK((rule == "layers_count" || rule == "layers_sum"));
    if (whole && inside) CHECK(rule.empty());
    if (whole && !inside && problem.framework == Framework::Torchtitan) CHECK(rule == "layers_empty");
    if (!rule.empty()) continue;
    ++legal;
    const Estimate e = estimate(problem, layout);
    CHECK(e.layout.chunk_layers == layers);
    CHECK(std::accumulate(e.stage_layers.begin(), e.stage_layers.end(), 0) == 32);
  }
  CHECK(legal >= oracle::at_least(100));
}

TEST_CASE("a stage of nothing at all is no stage") {
  const Problem problem = llama();
  Layout layout{.tp = 4, .pp = 4, .dp = 4, .sequence_parallel = true};
  for (const auto& [layers, rule] : {std::pair{std::vector{0, 16, 16, 0}, ""},
                                     {std::vector{8, 0, 16, 8}, "layers_empty"},
                                     {std::vector{8, 8, 8, 9}, "layers_sum"},
                                     {std::vector{8, -8, 24, 8}, "layers_sum"},
                                     {std::vector{32}, "layers_count"}}) {
    layout.chunk_layers = layers;
    CHECK(broken(problem, layout) == rule);
  }
  layout.vp = 2, layout.schedule = Schedule::Interleaved;
  layout.chunk_layers = {4, 4, 0, 4, 5, 5, 5, 5};  // the third stage has its second chunk
  CHECK(broken(problem, layout) == "");
}

TEST_CASE("a broken rule says its numbers") {
  const Problem problem = llama();
  const Layout layout{.tp = 16, .dp = 8};
  CHECK(broken_text(problem, layout, broken_rule(problem, layout)) ==
        "tp * cp * pp * dp uses every GPU: 16 * 1 * 1 * 8 is 128, and the job has 64");
}

TEST_CASE("a schedule that is refused says what it takes") {
  Problem problem = llama();
  Layout layout;
  layout.pp = 4, layout.dp = 16;
  const auto text = [&](Schedule schedule, int vp, int micro_batches) {
    problem.training.global_batch = 16 * micro_batches;
    layout.schedule = schedule, layout.vp = vp;
    const int rule = broken_rule(problem, layout);
    return rule < 0 ? "" : broken_text(problem, layout, rule);
  };
  const auto says = [](const std::string& whole, const std::string& part) {
    return whole.find(part) != std::string::npos;
  };
  CHECK(text(Schedule::Interleaved, 2, 6) == "");  // all six in one group
  CHECK(says(text(Schedule::Interleaved, 2, 3), "takes at least pp micro-batches"));
  CHECK(text(Schedule::Interleaved, 2, 8) == "");
  CHECK(says(text(Schedule::Interleaved, 1, 8), "takes vp 2 or more, got pp 4, vp 1"));
  CHECK(says(text(Schedule::OneFOneB, 2, 8), "1f1b takes vp 1"));
  CHECK(says(text(Schedule::ZbV, 3, 8), "zb-v takes vp 2,"));
  CHECK(says(text(Schedule::DualPipe, 1, 6), "at least 2 pp, got pp 4, vp 1, 6"));
  CHECK(says(text(Schedule::DualPipeV, 2, 7), "at least 2 pp micro-batches, got"));
  CHECK(says(text(Schedule::BreadthFirst, 2, 3), "at least pp micro-batches, got"));
}

TEST_CASE(
    "states in less than fp32, or away from the GPU, need Megatron-LM's precision-aware optimizer, and no others do") {
  const Training usual;
  CHECK(usual.master_bytes == 4);
  CHECK_FALSE(precision_aware(usual));
  for (double Training::*bytes : {&Training::master_bytes, &Training::moment1_bytes, &Training::moment2_bytes})
    for (const int width : {1, 2, 4}) {
      Training other = usual;
      other.*bytes = width;
      CHECK(precision_aware(other) == (width < 4));
    }
  Training other = usual;
  other.offload.optimizer = 0.5;
  CHECK(precision_aware(other));
  other = usual;
  other.precision_aware = true;
  CHECK(precision_aware(other));
}

TEST_CASE("chunks that layers do not divide into are for who fixes their number or their layers") {
  Problem problem = llama();
  problem.model = oracle::dense_model(17, 4096, 32, 8, 14336, 128256);
  Layout layout;
  layout.tp = 4, layout.pp = 4, layout.dp = 4, layout.vp = 4, layout.sequence_parallel = true;
  layout.schedule = Schedule::Interleaved;
  CHECK(broken(problem, layout) == "chunks_uneven");
  problem.fixed.vp = 4;
  CHECK(broken(problem, layout) == "");
  problem.fixed.vp.reset();
  problem.fixed.chunk_layers = std::vector<int>(16, 1);
  CHECK(broken(problem, layout) == "");
}
