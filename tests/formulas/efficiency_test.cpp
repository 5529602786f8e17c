#include "formulas/efficiency.hpp"
#include "formulas/traced.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <vector>

namespace {
using namespace plan;

constexpr auto kBf16 = static_cast<std::size_t>(DType::Bf16);

Gpu datasheet_h100() {
  Gpu gpu;
  gpu.peak[kBf16] = FlopsPerSecond(989e12);
  gpu.peak[static_cast<std::size_t>(DType::Fp8)] = FlopsPerSecond(1979e12);
  gpu.memory_bandwidth = BytesPerSecond(3350e9);
  gpu.scale_up = BytesPerSecond(450e9);
  gpu.nic = BytesPerSecond(50e9);
  return gpu;
}

Gpu gridded() {
  Gpu gpu = datasheet_h100();
  const std::array<double, 2> m{2048, 8192}, n{1024, 4096}, k{1024, 4096};
  const std::array<double, 8> rates{200e12, 300e12, 400e12, 500e12, 450e12, 550e12, 600e12, 700e12};
  GemmTable& table = gpu.gemm[kBf16][0];
  table.fit = {.t0 = Seconds(2.8e-6), .rate = FlopsPerSecond(765e12), .bandwidth = BytesPerSecond(2.2e12)};
  table.grid = make_gemm_grid(m, n, k, rates);
  return gpu;
}

double rate(const Gpu& gpu, GemmShape s, Orientation o = Orientation::Forward, DType d = DType::Bf16) {
  return 2 * s.m * s.n * s.k * s.batch / gemm_time(gpu, s, d, o).value;
}

/// One tier of NVLink and one of rails, as in a P6-B200 cluster (50 GB/s of EFA per GPU).
Cluster b200_cluster() {
  Cluster cluster;
  cluster.gpu = datasheet_h100();
  cluster.gpu.scale_up = BytesPerSecond(900e9);
  cluster.tiers = {{.name = "nvlink", .size = 8, .bandwidth = BytesPerSecond(900e9)},
                   {.name = "rail", .size = 4096, .bandwidth = BytesPerSecond(50e9)}};
  return cluster;
}

}  // namespace

TEST_CASE("a measured GEMM is returned as measured, and interpolation is logarithmic") {
  const Gpu gpu = gridded();
  CHECK(rate(gpu, {2048, 1024, 1024}) == doctest::Approx(200e12).epsilon(1e-5));
  CHECK(rate(gpu, {8192, 4096, 4096}) == doctest::Approx(700e12).epsilon(1e-5));
  CHECK(rate(gpu, {4096, 1024, 1024}) == doctest::Approx(std::sqrt(200e12 * 450e12)).epsilon(1e-5));
  CHECK(rate(gpu, {2048, 2048, 1024}) == doctest::Approx(std::sqrt(200e12 * 400e12)).epsilon(1e-5));
  CHECK(rate(gpu, {2048, 1024, 2048}) == doctest::Approx(std::sqrt(200e12 * 300e12)).epsilon(1e-5));
}

TEST_CASE("attention that computes nothing takes no time, and any other a launch at least") {
  const Gpu gpu = datasheet_h100();
  const AttentionWork work{.batch = 1, .seq = 1024, .context = 512, .heads = 8, .qk_dim = 128, .v_dim = 128};
  for (double AttentionWork::*size : {&AttentionWork::batch, &AttentionWork::heads, &AttentionWork::seq}) {
    AttentionWork none = work;
    none.*size = 0;
    CHECK(attention_forward_time(gpu, none) == Seconds(0));
    CHECK(attention_backward_time(gpu, none) == Seconds(0));
    AttentionWork tiny = work;
    tiny.*size = 1e-12;
    CHECK(attention_forward_time(gpu, tiny) > Seconds(1e-7));
  }
}

TEST_CASE("outside the grid the rate falls towards small shapes and never passes the best measured") {
  const Gpu gpu = gridded();
  CHECK(rate(gpu, {65536, 65536, 65536}) <= 700.1e12);
  CHECK(rate(gpu, {65536, 65536, 65536}) >= 650e12);
  double last = 0;
  for (const double n : {32., 64., 128., 256., 512., 1024.}) {
    const double now = rate(gpu, {4096, n, 4096});
    CHECK(now > last);
    last = now;
  }
  CHECK(rate(gpu, {4096, 64, 4096}) < 0.35 * rate(gpu, {4096, 1024, 4096}));
}

TEST_CASE("orientations without a table scale the forward one") {
  Gpu gpu = gridded();
  gpu.orientation_ratio[kBf16] = {1, 0.95, 0.9};
  const GemmShape shape{4096, 2048, 2048};
  CHECK(rate(gpu, shape, Orientation::WeightGrad) / rate(gpu, shape) == doctest::Approx(0.9).epsilon(1e-5));
}

TEST_CASE("an orientation with a fit of its own takes it, in every type, and no other orientation does") {
  for (const DType dtype : {DType::Bf16, DType::Fp8})
    for (int own = 0; own < kOrientations; ++own) {
      Gpu gpu;
      auto& tables = gpu.gemm[static_cast<std::size_t>(dtype)];
      const auto fit = [](double rate) {
        return GemmFit{.t0 = Seconds(1e-6), .rate = FlopsPerSecond(rate), .bandwidth = BytesPerSecond(3e12)};
      };
      tables[0].fit = fit(5e14);
      tables[static_cast<std::size_t>(own)].fit = fit(7e14);
      for (int o = 0; o < kOrientations; ++o)
        CHECK(gemm_fit(gpu, dtype, static_cast<Orientation>(o)).rate.value == (o == own || own == 0 ? 7e14 : 5e14));
    }
}

TEST_CASE("a batch of products takes at least one larger product's time and less than one after another") {
  const Gpu gpu = gridded();
  const double one = gemm_time(gpu, {2048, 1024, 1024}, DType::Bf16, Orientation::Forward).value;
  const double four = gemm_time(gpu, {2048, 1024, 1024, 4}, DType::Bf16, Orientation::Forward).value;
  CHECK(four < 4 * one);
  CHECK(four >= gemm_time(gpu, {8192, 1024, 1024}, DType::Bf16, Orientation::Forward).value);
}

TEST_CASE("a type that the GPU lacks runs as the next wider one") {
  Gpu gpu = datasheet_h100();
  gpu.peak[static_cast<std::size_t>(DType::Fp8)] = {};
  CHECK(rate(gpu, {8192, 8192, 8192}, Orientation::Forward, DType::Fp8) == rate(gpu, {8192, 8192, 8192}));
}

TEST_CASE("fp4 runs as itself where the GPU has it, else as fp8, else as bf16") {
  const GemmShape square{8192, 8192, 8192};
  Gpu gpu = datasheet_h100();  // no fp4
  const auto as = [&](DType dtype) { return rate(gpu, square, Orientation::Forward, dtype); };
  CHECK(as(DType::Fp4) == as(DType::Fp8));
  CHECK(as(DType::Fp4) > 1.5 * as(DType::Bf16));
  gpu.peak[static_cast<std::size_t>(DType::Fp4)] = FlopsPerSecond(4000e12);
  CHECK(as(DType::Fp4) > 1.5 * as(DType::Fp8));
  gpu.peak[static_cast<std::size_t>(DType::Fp4)] = gpu.peak[static_cast<std::size_t>(DType::Fp8)] = {};
  CHECK(as(DType::Fp4) == as(DType::Bf16));
  gpu.peak[static_cast<std::size_t>(DType::Fp16)] = FlopsPerSecond(500e12);
  gpu.peak[kBf16] = {};
  CHECK(as(DType::Bf16) == as(DType::Fp16));
}

TEST_CASE(
    "fp16 runs as fast as bf16 was measured, and bf16 as fp16 was, whatever their peaks; each as itself if it was") {
  constexpr auto kFp16 = static_cast<std::size_t>(DType::Fp16);
  const GemmShape shape{2048, 1024, 1024};
  for (const double peak : {0.0, 300e12, 989e12}) {
    Gpu gpu = gridded();
    gpu.peak[kFp16] = FlopsPerSecond(peak);
    const double measured = rate(gpu, shape);
    CHECK(rate(gpu, shape, Orientation::Forward, DType::Fp16) == measured);
    std::swap(gpu.gemm[kBf16], gpu.gemm[kFp16]);
    CHECK(rate(gpu, shape) == measured);
    CHECK(rate(gpu, shape, Orientation::Forward, DType::Fp16) == measured);
    gpu.gemm[kBf16] = gpu.gemm[kFp16];
    for (float& log_rate : gpu.gemm[kBf16][0].grid.log_rate) log_rate -= 1;
    CHECK(rate(gpu, shape) < 0.5 * measured);
    CHECK(rate(gpu, shape, Orientation::Forward, DType::Fp16) == measured);
  }
}

TEST_CASE("grouped GEMM: small experts are bound by reading weights, large ones by arithmetic") {
  const Gpu gpu = datasheet_h100();
  const auto time = [&](double rows, Orientation o) {
    return grouped_gemm_time(gpu, 32, rows, 4096, 7168, DType::Bf16, o).value;
  };
  const double weights = 32. * 4096 * 7168 * 2;
  CHECK(time(8, Orientation::Forward) > weights / gpu.memory_bandwidth.value);
  CHECK(time(16, Orientation::Forward) < 1.1 * time(8, Orientation::Forward));
  CHECK(time(16384, Orientation::Forward) / time(8192, Orientation::Forward) == doctest::Approx(2).epsilon(0.02));
  CHECK(time(128, Orientation::WeightGrad) > 1.5 * time(128, Orientation::Forward));
}

TEST_CASE("attention: causal work halves, backward is five GEMMs, few heads starve the GPU") {
  const Gpu gpu = datasheet_h100();
  const AttentionWork causal{1, 8192, 4096, 64, 128, 128};
  AttentionWork full = causal;
  full.context = 8192;
  CHECK(attention_flops(causal).value == doctest::Approx(2. * 64 * 8192 * 8192 * 128));
  CHECK(attention_forward_time(gpu, full) / attention_forward_time(gpu, causal) > 1.8);
  CHECK(attention_backward_time(gpu, causal) / attention_forward_time(gpu, causal) > 2.5);
  AttentionWork few = causal;
  few.heads = 4;
  CHECK(attention_forward_time(gpu, causal) / attention_forward_time(gpu, few) < 14);
}

TEST_CASE("soft sum: p = 1 adds, large p takes the larger") {
  CHECK(soft_sum(2, 3, 1) == doctest::Approx(5));
  CHECK(soft_sum(2, 3, 60) == doctest::Approx(3).epsilon(1e-6));
  CHECK(soft_sum(1, 1, 0.62) == doctest::Approx(std::pow(2, 1 / 0.62)));
}

TEST_CASE("collectives: nothing for one rank, growing with bytes, all-reduce is reduce-scatter plus all-gather") {
  const Cluster cluster = b200_cluster();
  CHECK(collective_time(cluster, Collective::AllReduce, RealBytes(1e9), {1, 1}).value == 0);
  for (const Group group : {Group{2, 1}, Group{8, 1}, Group{4, 8}, Group{64, 1}, Group{16, 4}}) {
    double last = 0;
    for (double bytes = 1e3; bytes < 1e10; bytes *= 3) {
      const double now = collective_time(cluster, Collective::AllGather, RealBytes(bytes), group).value;
      CHECK(now > last);
      last = now;
    }
    const double both = collective_time(cluster, Collective::AllGather, RealBytes(4e9), group).value +
                        collective_time(cluster, Collective::ReduceScatter, RealBytes(4e9), group).value;
    CHECK(collective_time(cluster, Collective::AllReduce, RealBytes(4e9), group).value / both ==
          doctest::Approx(1).epsilon(0.1));
  }
}

TEST_CASE("nobody measured: a ring's latency grows with its ranks, messages go straight to whom they are for") {
  Gpu gpu;
  gpu.scale_up = BytesPerSecond(450e9);
  const auto alpha = [&](Collective op, int ranks) { return scale_up_fit(gpu, op, ranks).alpha.value; };
  for (const Collective op :
       {Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter, Collective::Broadcast})
    for (int ranks = 2; ranks < 64; ++ranks) CHECK(alpha(op, ranks + 1) > alpha(op, ranks));
  for (const Collective op : {Collective::AllToAll, Collective::SendRecv})
    for (int ranks = 2; ranks < 64; ++ranks) CHECK(alpha(op, ranks + 1) == alpha(op, ranks));
}

TEST_CASE("siblings share a node's network: twice the members per node reach twice the bandwidth") {
  const Cluster cluster = b200_cluster();
  const double one = collective_time(cluster, Collective::AllGather, RealBytes(8e9), {4, 8}).value /
                     wire_factor(Collective::AllGather, 4);
  const double two = collective_time(cluster, Collective::AllGather, RealBytes(8e9), {8, 4}).value /
                     wire_factor(Collective::AllGather, 8);
  CHECK(one / two == doctest::Approx(2).epsilon(0.01));
}

TEST_CASE("an oversubscribed spine slows what crosses it") {
  Cluster cluster = b200_cluster();
  cluster.tiers[1].size = 256;
  cluster.tiers.push_back({.name = "spine", .size = 4096, .bandwidth = BytesPerSecond(50e9), .oversubscription = 4});
  CHECK(send_time(cluster, RealBytes(1e9), 8) < send_time(cluster, RealBytes(1e9), 256));
  CHECK(send_time(cluster, RealBytes(1e9), 256) / send_time(cluster, RealBytes(1e9), 8) ==
        doctest::Approx(4).epsilon(0.05));
  CHECK(collective_time(cluster, Collective::AllToAll, RealBytes(1e9), {64, 8}).value >
        1.9 * collective_time(b200_cluster(), Collective::AllToAll, RealBytes(1e9), {64, 8}).value);
}

TEST_CASE("a measured curve of sends is what a hop takes in its domain, point by point, and nothing beyond it") {
  const Cluster law = b200_cluster();
  Cluster probed = law;
  CollectiveFit fit{.op = Collective::SendRecv, .alpha = Seconds(9e-6), .busbw = BytesPerSecond(600e9)};
  fit.log_bytes = {10, 15, 20}, fit.log_ratio = {0.3F, -0.2F, 0.1F};
  probed.gpu.collectives.push_back(fit);
  for (std::size_t i = 0; i < fit.log_bytes.size(); ++i) {
    const double bytes = std::exp(static_cast<double>(fit.log_bytes[i]));
    const double seconds = soft_sum(9e-6, bytes / 600e9, fit.p) * std::exp(static_cast<double>(fit.log_ratio[i]));
    CHECK(send_time(probed, RealBytes(bytes), 1).value == doctest::Approx(seconds).epsilon(1e-5));
    CHECK(hop_time(probed, RealBytes(bytes), 0).value == doctest::Approx(seconds).epsilon(1e-5));
    CHECK(send_time(probed, RealBytes(bytes), 8) == send_time(law, RealBytes(bytes), 8));
  }
  CHECK(send_time(probed, RealBytes(0), 1).value == 0);
  CHECK(hop_time(probed, RealBytes(0), 1).value == 0);
}

TEST_CASE("all-reduce of 4 GiB on 4 nodes of 8 B200: 22.05 ms published") {
  const double t = collective_time(b200_cluster(), Collective::AllReduce, RealBytes(4.0 * kGiB), {32, 1}).value;
  CHECK(t == doctest::Approx(22.053e-3).epsilon(0.1));
}

TEST_CASE("a group is placed on the innermost tier that holds it") {
  const Cluster cluster = b200_cluster();
  CHECK(group_tier(cluster, {8, 1}).name == "nvlink");
  CHECK(group_tier(cluster, {2, 8}).name == "rail");
  CHECK(group_tier(cluster, {8192, 1}).name == "rail");
  CHECK(group_tier(Cluster{}, {8, 1}).name == "node");
}

TEST_CASE("a measured network curve is returned as measured, and scales the law elsewhere") {
  const Cluster law = b200_cluster();
  Cluster probed = law;
  const Group four_nodes{4, 8}, sixteen_nodes{16, 8};
  CollectiveFit fit{.op = Collective::AllGather, .ranks = 4, .alpha = Seconds(80e-6), .busbw = BytesPerSecond(40e9)};
  fit.p = 0.8;
  probed.network = {{.inside = 1, .fit = fit}};
  for (const double bytes : {1e5, 1e7, 1e9}) {
    CHECK(collective_time(probed, Collective::AllGather, RealBytes(bytes), four_nodes).value ==
          doctest::Approx(curve_time(fit, RealBytes(bytes), 4).value));
    const double scale = curve_time(fit, RealBytes(bytes), 4).value /
                         collective_time(law, Collective::AllGather, RealBytes(bytes), four_nodes).value;
    CHECK(collective_time(probed, Collective::AllGather, RealBytes(bytes), sixteen_nodes).value ==
          doctest::Approx(scale * collective_time(law, Collective::AllGather, RealBytes(bytes), sixteen_nodes).value));
  }
  // Other operations and groups with more members per node were not measured.
  CHECK(collective_time(probed, Collective::AllReduce, RealBytes(1e8), four_nodes) ==
        collective_time(law, Collective::AllReduce, RealBytes(1e8), four_nodes));
  CHECK(collective_time(probed, Collective::AllGather, RealBytes(1e8), {16, 1}) ==
        collective_time(law, Collective::AllGather, RealBytes(1e8), {16, 1}));
}

TEST_CASE("a measured tier is what was reached, not the line's rate") {
  const Cluster law = b200_cluster();
  Cluster probed = law;
  probed.tiers[1].provenance = Provenance::Measured;
  const double wire = collective_time(law, Collective::AllGather, RealBytes(8e9), {4, 8}).value;
  CHECK(collective_time(probed, Collective::AllGather, RealBytes(8e9), {4, 8}).value ==
        doctest::Approx(0.96 * wire).epsilon(0.01));
}

TEST_CASE("a tier's stated latency counts once a hop, whatever the operation") {
  const Cluster usual = b200_cluster();
  const auto with = [&](std::size_t tier, double seconds) {
    Cluster cluster = usual;
    cluster.tiers[tier].latency = Seconds(seconds);
    return cluster;
  };
  constexpr double kUsual = 1e-6, kLate = 21e-6, kTiny = 8;
  const auto more = [&](Collective op, Group group) {
    return (collective_time(with(1, kLate), op, RealBytes(kTiny), group) -
            collective_time(usual, op, RealBytes(kTiny), group))
        .value;
  };
  const double hop = kLate - kUsual;
  CHECK(more(Collective::AllGather, {4, 8}) == doctest::Approx(3 * hop).epsilon(0.02));
  CHECK(more(Collective::ReduceScatter, {32, 1}) == doctest::Approx(3 * hop).epsilon(0.02));  // of four nodes
  CHECK(more(Collective::AllReduce, {8, 8}) == doctest::Approx(2 * 3 * hop).epsilon(0.02));   // a tree, up and down
  CHECK(more(Collective::AllToAll, {8, 8}) == doctest::Approx(3 * hop).epsilon(0.02));
  CHECK((send_time(with(1, kLate), RealBytes(kTiny), 8) - send_time(usual, RealBytes(kTiny), 8)).value ==
        doctest::Approx(hop).epsilon(0.02));
  CHECK(collective_time(with(1, kLate), Collective::AllGather, RealBytes(kTiny), {8, 1}) ==
        collective_time(usual, Collective::AllGather, RealBytes(kTiny), {8, 1}));  // inside a node nothing crosses
  // What NCCL's constants hold already changes nothing; a better fabric is faster.
  CHECK(collective_time(with(1, kUsual), Collective::AllGather, RealBytes(kTiny), {4, 8}).value ==
        doctest::Approx(collective_time(usual, Collective::AllGather, RealBytes(kTiny), {4, 8}).value));
  CHECK(collective_time(with(1, 0.3e-6), Collective::AllGather, RealBytes(kTiny), {4, 8}) <
        collective_time(usual, Collective::AllGather, RealBytes(kTiny), {4, 8}));
  // Inside a domain: seven steps of a ring, one of an exchange.
  const auto inside = [&](Collective op) {
    return (collective_time(with(0, 10.6e-6), op, RealBytes(kTiny), {8, 1}) -
            collective_time(usual, op, RealBytes(kTiny), {8, 1}))
        .value;
  };
  CHECK(inside(Collective::AllGather) == doctest::Approx(7 * 10e-6));
  CHECK(inside(Collective::AllReduce) == doctest::Approx(14 * 10e-6));
  CHECK(inside(Collective::AllToAll) == doctest::Approx(10e-6));
}
