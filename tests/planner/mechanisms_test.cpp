// What a step's time answers to: kernels, launches and software, each against its absence. Messages:
// message_mechanisms_test.cpp.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "formulas/efficiency.hpp"
#include "oracle/random_problem.hpp"
#include "planner/answer/estimate.hpp"
#include "planner/cost/kernels.hpp"
#include "planner/small_job.hpp"

using namespace plan;
using namespace plan::small;

TEST_CASE("layers cut into nodes that run beside another micro-batch cost the host more calls") {
  Problem problem = small_job(true);
  Layout layout = data_parallel();
  layout.ep = 8;
  problem.cluster.calibration.kernel_gap_us = 50;  // launches are all that counts
  const auto with = [&](bool overlap, bool graphs) {
    problem.training.stack.ep_overlap = overlap, problem.training.stack.cuda_graphs = graphs;
    return seconds(problem, layout);
  };
  CHECK(with(true, false) > 1.1 * with(false, false));
  CHECK(with(true, true) <= with(false, true) * (1 + 1e-9));
}

TEST_CASE("a fused router costs the host fifteen calls fewer a layer, and a dispatcher of one kernel 22") {
  Problem problem = small_job(true);
  Calibration& free = problem.cluster.calibration;  // launches are all that counts
  free.kernel_gap_us = 50, free.jitter = 0, free.scale_up = free.scale_out = 1e9;
  // Eight layers, eight micro-batches, three launches a call forward and twice as many backward.
  constexpr double kCall = 8 * 8 * 3 * (1 + 2) * 50e-6;
  const auto calls = [&](bool Stack::*fused, int ep, std::uint16_t scopes) {
    Layout layout = data_parallel();
    layout.ep = ep;
    Stack& stack = problem.training.stack = {};
    stack.graph_scopes = scopes, stack.*fused = false;
    const double apart = seconds(problem, layout);
    stack.*fused = true;
    return (apart - seconds(problem, layout)) / kCall;
  };
  for (const int ep : {1, 8}) {
    CHECK(calls(&Stack::fused_router, ep, 0) == doctest::Approx(15).epsilon(1e-3));
    // Sixteen of them count and copy, which a graph of that part does with the rest of it; one rank has no dispatcher.
    CHECK(calls(&Stack::dedup_dispatch, ep, 0) == doctest::Approx(ep > 1 ? 22 : 0).epsilon(1e-3));
    CHECK(calls(&Stack::dedup_dispatch, ep, kGraphPreprocess) == doctest::Approx(ep > 1 ? 6 : 0).epsilon(1e-3));
  }
}

TEST_CASE("the host routes tokens as fast under an eager stack as under any other") {
  const auto routing = [](bool eager) {  // what the calls of the router and the dispatcher cost, seconds
    Problem problem = small_job(true);
    problem.training.stack.eager_launches = eager;
    problem.cluster.calibration.kernel_gap_us = problem.cluster.calibration.eager_gap_us =
        5000;  // launches alone count
    const double slow = seconds(problem, data_parallel());
    problem.cluster.calibration.kernel_gap_us *= 2;
    return seconds(problem, data_parallel()) - slow;
  };
  CHECK(routing(true) > 0);
  CHECK(routing(true) < routing(false));  // whose other kernels take longer too
}

TEST_CASE("a prediction module that runs twice computes and keeps twice as much, on the same weights") {
  const auto job = [](int depth, int passes) {
    Problem problem = small_job();
    if (depth > 0) problem.model.mtp = {.depth = depth, .passes = passes, .kinds = {problem.model.layers.back()}};
    problem.cluster.calibration.kernel_gap_us = 0;
    Layout layout = data_parallel();
    return estimate(problem, layout);
  };
  const Estimate none = job(0, 1), once = job(1, 1), twice = job(1, 2), two = job(2, 1);
  const auto compute = [](const Estimate& e) { return e.terms.compute.value; };
  CHECK(compute(twice) == doctest::Approx(compute(two)));
  CHECK(compute(twice) - compute(once) == doctest::Approx(compute(once) - compute(none)));
  const auto weights = [](const Estimate& e) { return e.stages.front().weights.value; };
  const auto kept = [](const Estimate& e) { return e.stages.front().activations.value; };
  CHECK(weights(twice) == weights(once));
  CHECK(weights(two) > weights(once));
  CHECK(kept(twice) == kept(two));
}

TEST_CASE("a graph of a part of a layer spares the host what is in it, and no part of another model") {
  const auto with = [](bool experts, std::uint16_t scopes, bool whole = false) {
    Problem problem = small_job(experts);
    problem.cluster.calibration.kernel_gap_us = 5000;  // launches are all that counts
    problem.training.stack.graph_scopes = scopes, problem.training.stack.cuda_graphs = whole;
    return seconds(problem, data_parallel());
  };
  for (const bool experts : {false, true}) {
    const double none = with(experts, 0), whole = with(experts, 0, true);
    double last = none;
    std::uint16_t scopes = 0;
    for (const std::uint16_t part : experts
                                        ? std::vector<std::uint16_t>{kGraphAttention, kGraphRouter, kGraphPreprocess}
                                        : std::vector<std::uint16_t>{kGraphAttention, kGraphMlp}) {
      scopes = static_cast<std::uint16_t>(scopes | part);
      const double now = with(experts, scopes);
      CHECK(now < last);
      CHECK(now > whole);
      last = now;
    }
    CHECK(with(experts, kGraphMamba) == none);
    CHECK(with(experts, experts ? kGraphMlp : kGraphExperts | kGraphRouter) == none);
  }
  CHECK(with(true, kGraphExperts) < with(true, kGraphRouter | kGraphPreprocess));
}

TEST_CASE("attention that is not fused drops out where there is dropout") {
  const auto with = [](double dropout, bool flash) {
    Problem problem = small_job();
    problem.training.stack.flash_attention = flash, problem.training.dropout = dropout;
    return seconds(problem, data_parallel());
  };
  // What dropout costs beside the attention is the same with a fused kernel.
  CHECK(with(0.1, false) - with(0, false) > 1.5 * (with(0.1, true) - with(0, true)));
}

TEST_CASE("rows that are no multiple of 16 bytes feed tensor cores slowly") {
  const Gpu gpu = oracle::plain_cluster().gpu;
  const auto rate = [&](double n, double k, DType dtype = DType::Bf16, Orientation o = Orientation::Forward) {
    return n * k / gemm_time(gpu, {4096, n, k}, dtype, o).value;
  };
  for (const double odd : {4097., 4098., 4100.}) {
    CHECK(rate(4096, odd) < 0.9 * rate(4096, 4096));
    CHECK(rate(odd, 4096) == doctest::Approx(rate(4096, 4096)).epsilon(0.05));  // results are only written
    CHECK(rate(odd, 4096, DType::Bf16, Orientation::DataGrad) <
          0.9 * rate(4096, 4096, DType::Bf16, Orientation::DataGrad));
  }
  CHECK(rate(4096, 4097) < rate(4096, 4098));
  CHECK(rate(4096, 4098) < rate(4096, 4100));
  CHECK(rate(4096, 4104) == doctest::Approx(rate(4096, 4096)).epsilon(0.05));
  // Of a weight gradient the tokens are the inner extent, and every row of them is as wide as the layer.
  const auto gradient = [&](double tokens) {
    return tokens / gemm_time(gpu, {4096, 4096, tokens}, DType::Bf16, Orientation::WeightGrad).value;
  };
  CHECK(gradient(4097) == doctest::Approx(gradient(4096)).epsilon(0.01));
}

TEST_CASE("full recomputation that ends early costs less, and never less than nothing") {
  Problem problem = small_job();
  Layout layout = data_parallel();
  layout.recompute.kind = RecomputeKind::Full;
  const double whole = estimate(problem, layout).terms.recompute.value;
  problem.training.stack.prunes_recompute = true;
  const double pruned = estimate(problem, layout).terms.recompute.value;
  CHECK(pruned > 0.5 * whole);
  CHECK(pruned < 0.95 * whole);
}

TEST_CASE("a feed-forward that is rebuilt ends before its last product where the stack prunes") {
  Problem problem = small_job();
  const auto again = [&](std::uint16_t modules) {
    return CostModel(problem, split_of(data_parallel())).selective_recompute(0, modules).compute;
  };
  const Seconds whole = again(kRecomputeMlp), others = again(kRecomputeNorm | kRecomputeCoreAttention);
  const Seconds last = CostModel(problem, split_of(data_parallel())).layer(0).last.compute;
  CHECK(last > Seconds());
  problem.training.stack.prunes_recompute = true;
  CHECK((whole - again(kRecomputeMlp)).value == doctest::Approx(last.value));
  CHECK(again(kRecomputeMlp) > 0.5 * whole);
  CHECK(again(kRecomputeNorm | kRecomputeCoreAttention) == others);
}

TEST_CASE("attention with sinks keeps all scores where no fused kernel has them") {
  Problem problem = small_job();
  for (Layer& kind : problem.model.kinds) kind.attention.sinks = true, kind.attention.window = 128;
  const double fused = seconds(problem, data_parallel());
  problem.training.stack.fused_sinks = false;
  CHECK(seconds(problem, data_parallel()) > 1.05 * fused);
}

TEST_CASE("experts with biases pay for PyTorch's chain of kernels where nothing fuses it") {
  Problem problem = small_job(true);
  problem.cluster.gpu.peak[static_cast<std::size_t>(DType::Fp8)] = FlopsPerSecond(2e15);
  problem.training.stack.cuda_graphs = true;  // what the device takes, launches aside
  const auto with = [&](bool bias, bool fused, Precision precision) {
    for (Layer& kind : problem.model.kinds) kind.moe.expert_bias = bias;
    problem.training.stack.fused_biased_experts = fused, problem.training.precision = precision;
    return seconds(problem, data_parallel());
  };
  for (const Precision precision : {Precision::Bf16, Precision::Mxfp8})
    CHECK(with(false, true, precision) == doctest::Approx(with(false, false, precision)));
  CHECK(with(true, false, Precision::Mxfp8) > 1.02 * with(true, true, Precision::Mxfp8));
  // Only the quantisers of MXFP8 have a fused kernel.
  CHECK(with(true, true, Precision::Bf16) == doctest::Approx(with(true, false, Precision::Bf16)));
}

TEST_CASE("a rank's only expert is a product like any other, where each expert has one of its own") {
  Problem problem = small_job(true);
  const MoeShape& shape = problem.model.kinds[0].moe;
  const auto products = [&](int ep, bool transformer_engine) {  // of experts, forward: grouped and alone, seconds
    problem.training.stack.transformer_engine = transformer_engine;
    Split split;
    split.ep = ep;
    std::pair<double, double> sum;
    for (const KernelTime& kernel : layer_kernels(problem, split, 0)) {
      if (kernel.pass != KernelTime::Pass::Forward) continue;
      if (kernel.law == KernelTime::Law::GroupedGemm) sum.first += kernel.time.value;
      const bool inner = kernel.shape.n == (shape.gated ? 2.0 : 1.0) * static_cast<double>(shape.expert_width);
      if (kernel.law == KernelTime::Law::Gemm && inner) sum.second += kernel.time.value;
    }
    return sum;
  };
  const int experts = static_cast<int>(shape.experts);
  const double rows = 2048.0 * static_cast<double>(shape.top_k), h = static_cast<double>(problem.model.hidden);
  const double inner = (shape.gated ? 2.0 : 1.0) * static_cast<double>(shape.expert_width);
  const double alone = gemm_time(problem.cluster.gpu, {rows, inner, h}, DType::Bf16, Orientation::Forward).value;
  CHECK(products(experts, true).first == 0);
  CHECK(products(experts, true).second == doctest::Approx(alone / problem.cluster.calibration.gemm));
  CHECK(products(experts, false).first > 0);
  CHECK(products(experts / 2, true).first > 0);
}

TEST_CASE("scales of rows take what fp8 gains") {
  Problem problem = small_job();
  if (problem.cluster.gpu.peak[static_cast<std::size_t>(DType::Fp8)].value <= 0)
    problem.cluster.gpu.peak[static_cast<std::size_t>(DType::Fp8)] = FlopsPerSecond(2e15);
  const double wide = seconds(problem, data_parallel());
  problem.training.precision = Precision::Fp8Tensorwise;
  CHECK(seconds(problem, data_parallel()) < wide);
  problem.training.stack.fp8_rowwise = true;
  CHECK(seconds(problem, data_parallel()) > wide);
}

/// Bytes that the kernels of a layer called `what` read and write, and the width of its products and what they write.
struct LayerTally {
  double bytes = 0, columns = 0, written = 0;
};
LayerTally tally(const Problem& problem, int tp, std::string_view what) {
  Split split;
  split.tp = tp;
  LayerTally sum;
  for (const KernelTime& kernel : layer_kernels(problem, split, 0)) {
    if (kernel.law == KernelTime::Law::Memory && kernel.what == what)
      sum.bytes += kernel.rows * kernel.width * kernel.each.value;
    if (kernel.law != KernelTime::Law::Gemm) continue;
    if (kernel.pass == KernelTime::Pass::Forward) sum.columns += kernel.shape.n;
    if (kernel.pass == KernelTime::Pass::Backward) sum.written += kernel.shape.m * kernel.shape.n;
  }
  return sum;
}

TEST_CASE("products that keep their weights apart each leave a gradient of the input, which is added up") {
  Problem problem = small_job();
  problem.model.kinds[0].dense.gated = true;
  Stack& stack = problem.training.stack;
  stack.flash_attention = true;
  const auto sums = [&](bool qkv, bool gate, int tp) {
    stack.fused_qkv = qkv, stack.fused_gate = gate;
    return tally(problem, tp, "sum of input gradients");
  };
  const double input = 2048.0 * 2048;  // tokens of a micro-batch, width of the model
  for (const int tp : {1, 4}) {
    CAPTURE(tp);
    const LayerTally joined = sums(true, true, tp), apart = sums(false, false, tp);
    CHECK(joined.bytes == 0);
    CHECK(apart.columns == doctest::Approx(joined.columns));
    CHECK(apart.written == doctest::Approx(joined.written + 3 * input));  // three of qkv for one, two of gate and up
    stack.fused_pointwise = false;                                        // two by two: reads two and writes one
    CHECK(sums(false, true, tp).bytes == doctest::Approx(2 * 6 * input));
    CHECK(sums(true, false, tp).bytes == doctest::Approx(6 * input));
    stack.fused_pointwise = true;  // in the kernel that reads the sum, or in one of its own before a collective
    CHECK(sums(false, true, tp).bytes == doctest::Approx((tp == 1 ? 2 * 2 : 3 * 2 + 2) * input));
    CHECK(sums(true, false, tp).bytes == doctest::Approx((tp == 1 ? 2 : 2 * 2 + 2) * input));
  }
}

TEST_CASE("what is quantised for products of one input is quantised once") {
  Problem problem = small_job();
  problem.training.precision = Precision::Fp8Tensorwise;
  GemmFit& measured = problem.cluster.gpu.gemm[static_cast<std::size_t>(DType::Fp8)][0].fit;
  measured.rate = FlopsPerSecond(1e15), measured.bandwidth = BytesPerSecond(2e12);
  const auto quantised = [&](bool fused) {
    problem.training.stack.fused_qkv = problem.training.stack.fused_gate = fused;
    return tally(problem, 1, "quantisation of inputs").bytes;
  };
  CHECK(quantised(true) > 0);
  CHECK(quantised(false) == doctest::Approx(quantised(true)));
}

TEST_CASE("adapters and collectives are launched too") {
  Problem problem = small_job();
  problem.cluster.calibration.kernel_gap_us = 5000;  // launches alone count
  problem.training.stack.tp_overlap = false;
  problem.training.task = Task::Lora;
  const auto launches = [&](Lora targets, int tp, bool sequence_parallel) {
    problem.training.lora = targets;
    Split split;
    split.tp = tp, split.sequence_parallel = sequence_parallel;
    double kernels = 0;
    for (const KernelTime& kernel : layer_kernels(problem, split, 0))
      if (kernel.law == KernelTime::Law::Launches) kernels += kernel.kernels;
    return kernels;
  };
  const Lora none{16, false, false}, attention{16, true, false}, all{16, true, true};
  const double bare = launches(none, 1, false);
  // Two linears of attention and two of a plain feed-forward: four kernels forward and eight backward each.
  CHECK(launches(attention, 1, false) == doctest::Approx(bare + 2 * 12));
  CHECK(launches(all, 1, false) == doctest::Approx(bare + 4 * 12));
  // Attention and feed-forward: one all-reduce each way, or its halves, of which the input's is gathered again.
  CHECK(launches(none, 2, false) == doctest::Approx(bare + 2 * 2));
  CHECK(launches(none, 2, true) == doctest::Approx(bare + 2 * 5));
}
