// Memory of a pipeline rank: continuous-integration peaks of Megatron-LM, and what must always hold.
#include "planner/memory/memory.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>

#include "tests/formulas/models.hpp"
#include "tests/published/megatron_ci_peaks.hpp"

namespace {

using namespace plan;
using published::CiPeak;
using published::CiPlatform;

StageContent content_of(const Model& model, int pp, int rank) {
  StageContent content;
  const int layers = model.depth() / pp;
  for (int i = rank * layers; i < (rank + 1) * layers; ++i)
    ++content.layers_of_kind[static_cast<std::size_t>(model.layers[static_cast<std::size_t>(i)])];
  content.embedding = rank == 0;
  content.head = rank == pp - 1;
  return content;
}

Cluster platform(CiPlatform which) {
  Cluster cluster;
  cluster.gpu.architecture = which == CiPlatform::A100    ? Architecture::Ampere
                             : which == CiPlatform::Gb200 ? Architecture::Blackwell
                                                          : Architecture::Hopper;
  cluster.gpu.nvlink_sharp = which != CiPlatform::A100;
  return cluster;
}

double error(const CiPeak& peak, const Problem& problem, const Layout& layout, double in_flight) {
  const MemoryModel memory(problem, layout);
  const int last = layout.pp - 1;
  const StageMemory stage = memory.stage(layout, last, content_of(problem.model, layout.pp, last), in_flight);
  return static_cast<double>(memory_kinds(stage).allocated.value) / kMiB / peak.mib - 1;
}

/// Megatron-LM's 7B test: grouped queries, biases, LayerNorm, dropout, no fusion, deterministic.
Problem gpt_7b(const CiPeak& peak) {
  Problem problem;
  Model& model = problem.model = fixture::gpt(32, 4096, 32, 131073);
  model.norm = Norm::Layer;
  model.positions = 8192;
  AttentionShape& attention = model.kinds[0].attention;
  attention.kv_heads = 8;
  attention.qkv_bias = attention.out_bias = model.kinds[0].dense.bias = true;
  problem.cluster = platform(peak.platform);
  Training& training = problem.training;
  training.seq = 8192;
  training.dropout = 0.1;
  training.stack.cross_entropy = CrossEntropy::Unfused;
  training.stack.gradient_fusion = false;
  training.stack.deterministic = true;
  training.stack.loader_attention_mask = true;
  // cuDNN's kernel keeps Megatron's sequence-first layout; those of the other two platforms do not.
  training.stack.batch_first_attention = peak.platform != CiPlatform::H100;
  return problem;
}

TEST_CASE("Megatron-LM's 7B test, TP4: within 0.01 % on three platforms") {
  for (const CiPeak& peak : published::kGpt7bTp4) {
    CAPTURE(std::string(peak.name));
    CHECK(std::abs(error(peak, gpt_7b(peak), {.tp = 4, .dp = 2, .micro_batch = 2}, 1)) < 1e-4);
  }
}

TEST_CASE("Megatron-LM's 7B test, PP4 interleaved: within 1 %") {
  for (const CiPeak& peak : published::kGpt7bPp4) {
    CAPTURE(std::string(peak.name));
    const Layout layout{.pp = 4, .vp = 8, .dp = 2, .schedule = Schedule::Interleaved};
    CHECK(std::abs(error(peak, gpt_7b(peak), layout, 29.0 / 8)) < 0.01);
  }
}

TEST_CASE("Megatron-LM's 15B test, TP8 with sequence parallelism: within 1 %") {
  for (const CiPeak& peak : published::kGpt15bTp8) {
    Problem problem;
    problem.model = fixture::gpt(32, 6144, 48, 256000);
    problem.model.norm = Norm::Layer;
    problem.model.kinds[0].attention.kv_heads = 8;
    problem.cluster = platform(peak.platform);
    problem.training.seq = 4096;
    problem.training.stack.cross_entropy = CrossEntropy::Unfused;  // its fused loss works on fp32 logits as well
    problem.training.stack.gradient_fusion = false;  // that container's TransformerEngine caches no dummies
    CHECK(std::abs(error(peak, problem, {.tp = 8, .dp = 16, .micro_batch = 4, .sequence_parallel = true}, 1)) < 0.01);
  }
}

struct Llama405b {
  Problem problem;
  Layout layout{.tp = 8, .pp = 16, .vp = 1, .dp = 128, .zero = 2, .sequence_parallel = true};
  Llama405b() {
    problem.model = fixture::llama3_405b();
    problem.cluster = platform(CiPlatform::H100);
    problem.training.seq = 8192;
  }
  /// The first stage: seven layers and the embedding, sixteen micro-batches in flight.
  StageMemory first() const {
    StageContent content;
    content.layers_of_kind[0] = 7;
    content.embedding = true;
    return MemoryModel(problem, layout).stage(layout, 0, content, 16);
  }
};

TEST_CASE("Llama 3 405B trained without recompute: it fits 80 GB as Meta sharded it") {
  Llama405b run;
  const StageMemory memory = run.first();
  CHECK(static_cast<double>(memory.activations.value) == doctest::Approx(7 * 16 * 508.5 * kMiB).epsilon(0.001));
  const Bytes states = memory.weights + memory.grads + memory.optimizer;
  CHECK(static_cast<double>(states.value) == doctest::Approx(6.551e9).epsilon(0.01));
  CHECK(memory.total().value < 80'000'000'000);
  run.layout.zero = 1;  // Megatron's whole gradient buffer: 12 GB more
  CHECK(run.first().total().value - memory.total().value > 10'000'000'000);
}

TEST_CASE("categories add up, kinds are ordered, more shards never take more") {
  std::mt19937 random(7);
  const auto pick = [&](std::initializer_list<int> values) {
    return values.begin()[std::uniform_int_distribution<std::size_t>(0, values.size() - 1)(random)];
  };
  const Model models[] = {fixture::llama3_8b(), fixture::deepseek_v3(1), fixture::gpt(24, 2048, 16, 50257)};
  for (int i = 0; i < 3000; ++i) {
    Problem problem;
    problem.model = models[static_cast<std::size_t>(pick({0, 1, 2}))];
    problem.cluster = platform(static_cast<CiPlatform>(pick({0, 1, 2})));
    Training& training = problem.training;
    training.seq = 512 * pick({1, 2, 8, 16});
    training.precision = static_cast<Precision>(pick({0, 1, 2, 3, 4, 5, 6, 7}));
    training.optimizer = static_cast<Optimizer>(pick({0, 1, 2, 3, 4, 5}));
    training.grad_bytes = pick({2, 4});
    training.task = static_cast<Task>(pick({0, 0, 1, 2, 3}));
    training.stack.states = static_cast<StateLayout>(pick({0, 1, 2, 3}));
    training.stack.cross_entropy = static_cast<CrossEntropy>(pick({0, 1, 2, 3, 4}));
    training.stack.flash_attention = pick({0, 1});
    Layout layout{.tp = pick({1, 2, 8}), .cp = pick({1, 2}), .pp = pick({1, 2}), .dp = 8 * pick({1, 2})};
    layout.cp_kind = static_cast<CpKind>(pick({0, 1, 2}));
    layout.ep = problem.model.moe() ? pick({1, 2, 8}) : 1;
    layout.sequence_parallel = layout.tp > 1 && pick({0, 1});
    layout.recompute = {static_cast<RecomputeKind>(pick({0, 1, 2})), static_cast<std::uint16_t>(pick({1, 4, 8, 127})),
                        pick({0, 2}), pick({0, 3})};
    layout.zero = 0;
    const MemoryModel memory(problem, layout);
    StageContent content = content_of(problem.model, layout.pp, 0);
    content.head = pick({0, 1});
    content.mtp = content.head ? problem.model.mtp.depth : 0;
    const double in_flight = pick({1, 2, 5});
    Bytes states{INT64_MAX / 2};
    for (layout.zero = 0; layout.zero <= 3; ++layout.zero) {
      const StageMemory stage = memory.stage(layout, 0, content, in_flight);
      const MemoryKinds kinds = memory_kinds(stage);
      Bytes sum{};
      for (const MemoryCategory& row : kMemoryCategories) sum = sum + stage.*row.bytes;
      REQUIRE(stage.total() == sum);
      REQUIRE(kinds.allocated > Bytes{0});
      REQUIRE(kinds.reserved >= kinds.allocated);
      REQUIRE(kinds.device >= kinds.reserved);
      for (const Bytes part : {stage.weights, stage.grads, stage.optimizer, stage.activations, stage.transient})
        REQUIRE(part >= Bytes{0});
      const Bytes now = stage.weights + stage.grads + stage.optimizer;
      if (training.stack.states == StateLayout::DeepSpeed) continue;  // stages trade kinds of gradients
      REQUIRE(now.value <= states.value + 8);
      states = now;
      REQUIRE(std::string(memory.peak_instant(layout, 0, content, in_flight)) != "");
    }
  }
}

TEST_CASE("recompute never keeps more, and full less than selective") {
  Problem problem;
  problem.model = fixture::llama3_70b();
  problem.cluster = platform(CiPlatform::H100);
  const auto kept = [&](Recompute recompute) {
    const Layout layout{.pp = 4, .dp = 8, .recompute = recompute};
    return MemoryModel(problem, layout).stage(layout, 1, content_of(problem.model, 4, 1), 3).activations;
  };
  const Bytes none = kept({});
  const Bytes mlp = kept({.kind = RecomputeKind::Selective, .modules = kRecomputeMlp});
  const Bytes block = kept({.kind = RecomputeKind::Full, .layers = 10});
  const Bytes full = kept({.kind = RecomputeKind::Full});
  CHECK(mlp < none);
  CHECK(full < mlp);
  CHECK(full < block);
  CHECK(block < none);
  CHECK(full.value == 3 * 20 * 2 * 4096 * 8192LL);
  CHECK(kept({.kind = RecomputeKind::Full, .uniform = 2}).value == full.value / 2);
}

TEST_CASE("layers rebuilt together keep one input a group, and no group is larger than its chunk") {
  // As Megatron's loop goes through each chunk: from one kept input to the next, the last group what is left.
  for (int layers = 1; layers <= 40; ++layers)
    for (int vp = 1; vp <= std::min(layers, 6); ++vp)
      for (int together = 1; together <= 12; ++together) {
        int inputs = 0, largest = 0;
        for (int chunk = 0; chunk < vp; ++chunk) {
          const int size = layers / vp + (chunk < layers % vp ? 1 : 0);
          for (int at = 0; at < size; at += together, ++inputs)
            largest = std::max(largest, std::min(together, size - at));
        }
        const Recompute recompute{.kind = RecomputeKind::Full, .uniform = together};
        REQUIRE(inputs_kept(recompute, vp, layers) == inputs);
        REQUIRE(rebuilt_together(recompute, vp, layers) == largest);
      }
}

TEST_CASE("tied embeddings: once on one rank, on both ends of a pipeline") {
  Problem problem;
  problem.model = fixture::llama3_8b();
  problem.cluster = platform(CiPlatform::H100);
  const auto weights = [&](bool tied, int pp, int rank) {
    problem.model.tied = tied;
    const Layout layout{.pp = pp, .dp = 8};
    return MemoryModel(problem, layout).stage(layout, rank, content_of(problem.model, pp, rank), 1).weights;
  };
  const Bytes table{2 * 128256LL * 4096};
  CHECK(weights(false, 1, 0) - weights(true, 1, 0) == table);
  CHECK(weights(false, 2, 0) == weights(true, 2, 0));
  CHECK(weights(false, 2, 1) == weights(true, 2, 1));
}

TEST_CASE("a vocabulary spread over all stages: every stage holds its part, and one more micro-batch a barrier") {
  // arXiv:2411.05288 table 5, 8 stages of GPT-4B with 256 K tokens, sequence 2048: 25.6 GB on one rank becomes 18.6
  // and 17.8 GB on all, with two barriers and with one.
  Problem problem;
  problem.model = fixture::gpt(32, 3072, 24, 262144);
  problem.model.tied = false;
  problem.cluster = platform(CiPlatform::A100);
  problem.training.seq = 2048;
  const Layout layout{.pp = 8};
  const auto total = [&](int barriers, const StageContent& content, double in_flight) {
    problem.training.stack.vocab_barriers = barriers;
    return MemoryModel(problem, layout).stage(layout, content.embedding ? 0 : 3, content, in_flight);
  };
  const StageContent first{.layers_of_kind = {4}, .embedding = true}, middle{.layers_of_kind = {4}};
  CHECK(total(2, first, 5).weights == total(2, middle, 5).weights);  // no stage has more of the vocabulary
  const double vocab = 2.0 * 262144 * 3072 * 2;                      // embedding and head, bf16
  const double whole = static_cast<double>(total(0, middle, 5).weights.value);
  CHECK(static_cast<double>(total(2, middle, 5).weights.value) == doctest::Approx(whole + vocab / 8).epsilon(0.01));
  const auto activations = [&](int barriers, double in_flight) {
    return static_cast<double>(total(barriers, middle, in_flight).activations.value);
  };
  const double waiting = activations(2, 5) - activations(1, 5);
  CHECK(waiting == doctest::Approx(activations(0, 6) - activations(0, 5)).epsilon(0.05));  // and the embedding's mask
}

TEST_CASE("adapters: a frozen base has neither gradients nor states") {
  Problem problem;
  problem.model = fixture::llama3_8b();
  problem.cluster = platform(CiPlatform::H100);
  const auto run = [&](Task task) {
    problem.training.task = task;
    const Layout layout{.dp = 8};
    return MemoryModel(problem, layout).stage(layout, 0, content_of(problem.model, 1, 0), 1);
  };
  const StageMemory whole = run(Task::FullFinetune), lora = run(Task::Lora), qlora = run(Task::Qlora);
  CHECK(lora.grads.value < whole.grads.value / 50);
  CHECK(lora.optimizer.value < whole.optimizer.value / 50);
  CHECK(qlora.weights.value < lora.weights.value / 2);
}

TEST_CASE("DualPipe's two stages share their optimizer with the mirrored rank") {
  Problem problem;
  problem.model = fixture::deepseek_v3();
  problem.cluster = platform(CiPlatform::H100);
  const auto run = [&](Schedule schedule, int zero) {
    const Layout layout{.pp = 2, .dp = 8, .ep = 8, .zero = zero, .schedule = schedule};
    StageContent content;  // of DualPipe: both stages of the rank
    content.layers_of_kind[1] = 4;
    return MemoryModel(problem, layout).stage(layout, 0, content, 2);
  };
  CHECK(run(Schedule::DualPipe, 1).weights == run(Schedule::OneFOneB, 1).weights);
  CHECK(run(Schedule::DualPipe, 1).optimizer.value * 2 == run(Schedule::OneFOneB, 1).optimizer.value);
  CHECK(run(Schedule::DualPipe, 0).optimizer == run(Schedule::OneFOneB, 0).optimizer);
}

TEST_CASE("large flat buffers of the step have segments of their own, unless pages are mapped") {
  Problem problem;
  problem.model = fixture::llama3_8b();
  problem.cluster = platform(CiPlatform::A100);
  Training& training = problem.training;
  training.stack.states = StateLayout::DeepSpeed;
  const Layout layout{.pp = 4, .dp = 8, .zero = 1};
  const StageContent middle{.layers_of_kind = {8}};
  const auto run = [&](bool expandable) {
    training.stack.expandable_segments = expandable;
    return MemoryModel(problem, layout).stage(layout, 1, middle, 3);
  };
  // bf16 sums gradients in fp32 and casts the whole of them to be reduced; updated weights are gathered in a bucket.
  const double parameters = 8 * 218112000.0;
  const StageMemory stage = run(false);
  CHECK(static_cast<double>(stage.cached.value) == doctest::Approx(2 * parameters + 2 * 5e8).epsilon(1e-6));
  CHECK(memory_kinds(stage).device == stage.total() + stage.cached);
  CHECK(memory_kinds(stage).reserved == stage.total() + stage.cached - stage.outside());
  CHECK(run(true).cached == Bytes{0});
  training.stack.states = StateLayout::Megatron;  // sums and updates in pieces
  CHECK(run(false).cached == Bytes{0});
}

TEST_CASE("DeepSpeed's stage 3 flattens a rank's gradients into a copy for the step, a sub-group at a time") {
  Problem problem;
  problem.model = fixture::llama3_8b();
  problem.cluster = platform(CiPlatform::A100);
  Training& training = problem.training;
  training.stack.states = StateLayout::DeepSpeed;
  const auto cached = [&](int layers, int dp) {
    const StageContent middle{.layers_of_kind = {layers}};
    const Layout layout{.dp = dp, .zero = 3};
    return static_cast<double>(MemoryModel(problem, layout).stage(layout, 0, middle, 1).cached.value);
  };
  CHECK(cached(8, 8) == doctest::Approx(4 * 218112000.0));
  CHECK(cached(16, 2) == doctest::Approx(4e9));  // sub_group_size
  training.offload.optimizer = 1;                // is stepped in host memory
  CHECK(cached(8, 8) == 0);
}

TEST_CASE("a CUDA graph keeps what it runs in to itself") {
  Problem problem;
  problem.model = fixture::llama3_8b();
  problem.cluster = platform(CiPlatform::H100);
  const Layout layout{.dp = 8, .zero = 1};
  const auto run = [&](std::uint16_t scopes) {
    problem.training.stack.graph_scopes = scopes;
    return MemoryModel(problem, layout).stage(layout, 0, content_of(problem.model, 1, 0), 1).total().value;
  };
  const std::int64_t none = run(0), mlp = run(kGraphMlp), attention = run(kGraphAttention);
  CHECK(none < mlp);
  CHECK(none < attention);
  CHECK(run(kGraphMlp | kGraphAttention) == std::max(mlp, attention));  // they run in turn, in one pool
  CHECK(run(kGraphExperts) == none);                                    // it has none
}

TEST_CASE("layers in host memory: in a pipeline a chunk is on its way out and another one back") {
  Problem problem;
  problem.model = fixture::llama3_8b();
  problem.cluster = platform(CiPlatform::H100);
  const auto run = [&](int layers, int pp) {
    problem.training.offload.layers = layers;
    const Layout layout{.pp = pp, .dp = 8, .zero = 1};
    StageContent middle{.layers_of_kind = {8}};
    return MemoryModel(problem, layout).stage(layout, 1, middle, 4);
  };
  const auto held = [](const StageMemory& stage) { return static_cast<double>(stage.activations.value); };
  for (int away = 0; away <= 8; ++away)  // of eight layers each holds as much
    CHECK(held(run(away, 4)) == doctest::Approx(held(run(0, 4)) * (8 - away) / 8));
  const double layer = held(run(0, 4)) / 4 / 8,
               extra = static_cast<double>((run(8, 4).transient - run(8, 1).transient).value);
  CHECK(extra == doctest::Approx(2 * 8 * layer).epsilon(0.05));  // less its share of the allocator's reserve
}

}  // namespace
