// Slips of a digit or of a unit in a profile, and figures that only look like one.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <cmath>
#include <string>
#include <string_view>
#include <utility>

#include "formulas/efficiency.hpp"
#include "presets/hardware.hpp"
#include "presets/sample_profile.hpp"
#include "presets/store.hpp"

using namespace plan;

namespace {

/// A figure of the sample, and how a factor gets into it.
struct Slip {
  const char* key;
  void (*make)(HardwareProfile&, double factor);
};

/// The sample with a slip is refused by the key alone.
void check_refused(const Slip& slip, double by, const Gpu& sheet) {
  CAPTURE(slip.key);
  CAPTURE(by);
  HardwareProfile p = sample();
  slip.make(p, by);
  const Result<Cluster> cluster = cluster_of_profile(p, sheet);
  REQUIRE_FALSE(cluster);
  CHECK(cluster.error().size() == 1);
  CHECK(cluster.error().front().message.find(fmt::format("`{}`", slip.key)) != std::string::npos);
}

}  // namespace

TEST_CASE("a figure beyond the data sheet is refused by its key, and no rate is nothing") {
  const Gpu sheet = load_gpu("h100-sxm", StoreOptions{}).value().value;
  const Slip slips[] = {
      {"gemm[0].roofline.f_tflops", [](HardwareProfile& p, double by) { p.gemm[0].f_tflops *= by; }},
      {"gemm[0].sustained_tflops", [](HardwareProfile& p, double by) { p.gemm[0].sustained_tflops *= by; }},
      {"gemm[0].burst_tflops", [](HardwareProfile& p, double by) { p.gemm[0].burst_tflops *= by; }},
      {"gemm[0].grid[11]", [](HardwareProfile& p, double by) { p.gemm[0].grid[11].us /= by; }},
      {"gemm[0].grid[11]", [](HardwareProfile& p, double by) { p.gemm[0].grid[11].k *= by; }},
      {"attention[0].fit.fmax_tflops", [](HardwareProfile& p, double by) { p.attention[0].fmax_tflops *= by; }},
      {"memory.total_gib", [](HardwareProfile& p, double by) { p.memory.total_gib *= by; }},
      {"memory.usable_gib", [](HardwareProfile& p, double by) { p.memory.usable_gib *= by; }},
      {"hbm.copy_gb_s", [](HardwareProfile& p, double by) { p.hbm.copy.value *= by; }},
      {"hbm.triad_gb_s", [](HardwareProfile& p, double by) { p.hbm.triad.value *= by; }},
      {"pairs[0].gb_s", [](HardwareProfile& p, double by) { p.pairs[0].gb_s *= by; }},
      {"collectives[0].fit.busbw_gb_s", [](HardwareProfile& p, double by) { p.collectives[0].busbw_gb_s *= by; }},
      {"collectives[0].table[2]", [](HardwareProfile& p, double by) { p.collectives[0].table[2].us /= by; }},
      {"tiers[1].measured_gb_s_per_gpu", [](HardwareProfile& p, double by) { p.tiers[1].measured_gb_s *= by; }}};
  CHECK(cluster_of_profile(sample(), sheet));
  for (const Slip& slip : slips)
    for (const double by : {8.0, 1000.0, 1e6}) check_refused(slip, by, sheet);
  const std::string text = write_hardware(sample());
  for (const char* rate : {"copy_gb_s: 2990", "h2d_gb_s: 55.4", "gb_s: 396", "measured_gb_s_per_gpu: 43.9",
                           "busbw_gb_s: 462", "f_tflops: 765", "fmax_tflops: 574", "w_tb_s: 2.2"}) {
    CAPTURE(rate);
    const std::string_view key = std::string_view(rate).substr(0, std::string_view(rate).find(':'));
    std::string edited = text;
    REQUIRE(edited.find(rate) != std::string::npos);
    edited.replace(edited.find(rate), std::string_view(rate).size(), fmt::format("{}: 0", key));
    CHECK_FALSE(read_hardware(edited, "node.yaml").has_value());
  }
  const std::pair<std::string, std::string> rows[] = {
      {"- [512, 1024, 1024,", "- [0.512, 1024, 1024,"}, {"- [512, 16,", "- [512.5, 16,"}, {"to: 1,", "to: 0,"}};
  for (const auto& row : rows) {
    CAPTURE(row.first);
    std::string edited = text;
    REQUIRE(edited.find(row.first) != std::string::npos);
    edited.replace(edited.find(row.first), row.first.size(), row.second);
    CHECK_FALSE(read_hardware(edited, "node.yaml").has_value());
  }
  HardwareProfile pairs = sample();
  pairs.pairs.push_back({0, 2, 0, 0, "m1"});  // of which only the latency is known, say
  CHECK(std::isfinite(send_time(cluster_of_profile(pairs, sheet).value(), RealBytes(1e9), 1).value));
}

TEST_CASE("each row of each table is held to the data sheet, the first as the last") {
  const Gpu sheet = load_gpu("h100-sxm", StoreOptions{}).value().value;
  const auto named = [&](const HardwareProfile& p, const std::string& key) {
    const Result<Cluster> cluster = cluster_of_profile(p, sheet);
    REQUIRE_FALSE(cluster);
    bool found = false;
    for (const Error& error : cluster.error()) found |= error.message.find("`" + key + "`") != std::string::npos;
    return found;
  };
  const HardwareProfile good = sample();
  for (std::size_t i = 0; i < good.collectives.size(); ++i)
    for (std::size_t row = 0; row < good.collectives[i].table.size(); ++row) {
      HardwareProfile p = good;
      p.collectives[i].table[row].us = 1e-6;
      CHECK(named(p, fmt::format("collectives[{}].table[{}]", i, row)));
    }
  for (std::size_t i = 0; i < good.gemm.size(); ++i)
    for (std::size_t row = 0; row < good.gemm[i].grid.size(); ++row) {
      HardwareProfile p = good;
      p.gemm[i].grid[row].us = 1e-6;
      CHECK(named(p, fmt::format("gemm[{}].grid[{}]", i, row)));
    }
  for (std::size_t i = 0; i < good.pairs.size(); ++i) {
    HardwareProfile p = good;
    p.pairs[i].gb_s = 1e6;
    CHECK(named(p, fmt::format("pairs[{}].gb_s", i)));
  }
}

TEST_CASE("a rate far below the data sheet and a latency that nothing has are refused by their keys") {
  const Gpu sheet = load_gpu("h100-sxm", StoreOptions{}).value().value;
  const Slip slow[] = {
      {"gemm[0].roofline.f_tflops", [](HardwareProfile& p, double by) { p.gemm[0].f_tflops /= by; }},
      {"gemm[0].roofline.w_tb_s", [](HardwareProfile& p, double by) { p.gemm[0].w_tb_s /= by; }},
      {"gemm[0].sustained_tflops", [](HardwareProfile& p, double by) { p.gemm[0].sustained_tflops /= by; }},
      {"gemm[0].burst_tflops", [](HardwareProfile& p, double by) { p.gemm[0].burst_tflops /= by; }},
      {"attention[0].fit.fmax_tflops", [](HardwareProfile& p, double by) { p.attention[0].fmax_tflops /= by; }},
      {"memory.usable_gib", [](HardwareProfile& p, double by) { p.memory.usable_gib /= by; }},
      {"memory.context_gib", [](HardwareProfile& p, double by) { p.memory.context_gib *= by; }},
      {"memory.cublas_workspace_gib", [](HardwareProfile& p, double) { p.memory.cublas_workspace_gib *= 1e4; }},
      {"nccl_memory[0].gib", [](HardwareProfile& p, double by) { p.nccl_memory[0].gib *= by; }},
      {"hbm.copy_gb_s", [](HardwareProfile& p, double by) { p.hbm.copy.value /= by; }},
      {"hbm.triad_gb_s", [](HardwareProfile& p, double by) { p.hbm.triad.value /= by; }},
      {"hbm.fixed_us", [](HardwareProfile& p, double) { p.hbm.fixed_us *= 1e4; }},
      {"memory_bound[1].gb_s", [](HardwareProfile& p, double by) { p.memory_bound[1].gb_s /= by; }},
      {"host_link.h2d_gb_s", [](HardwareProfile& p, double by) { p.host_link.h2d.value *= by; }},
      {"host_link.d2h_gb_s", [](HardwareProfile& p, double by) { p.host_link.d2h.value /= by; }},
      {"host_link.bidir_total_gb_s", [](HardwareProfile& p, double by) { p.host_link.bidir.value *= by; }},
      {"pairs[0].gb_s", [](HardwareProfile& p, double by) { p.pairs[0].gb_s /= by; }},
      {"tiers[1].measured_gb_s_per_gpu", [](HardwareProfile& p, double by) { p.tiers[1].measured_gb_s /= by; }},
      {"collectives[0].fit.busbw_gb_s", [](HardwareProfile& p, double by) { p.collectives[0].busbw_gb_s /= by; }},
      {"collectives[1].fit.busbw_gb_s", [](HardwareProfile& p, double by) { p.collectives[1].busbw_gb_s /= by; }},
      {"collectives[0].fit.alpha_us", [](HardwareProfile& p, double by) { p.collectives[0].alpha_us *= by; }}};
  for (const Slip& slip : slow) check_refused(slip, 1000, sheet);
}

TEST_CASE("what rounding, bridges, slow networks and many ranks do to a profile is no slip") {
  const Gpu sheet = load_gpu("h100-sxm", StoreOptions{}).value().value;
  HardwareProfile rounded = sample();
  rounded.memory.usable_gib = 1.005 * rounded.memory.total_gib;
  CHECK(cluster_of_profile(rounded, sheet));
  rounded.memory.usable_gib = 1.02 * rounded.memory.total_gib;
  CHECK_FALSE(cluster_of_profile(rounded, sheet));
  HardwareProfile ethernet = sample();  // 10 Gb/s, shared by the GPUs of a host
  ethernet.tiers[1].measured_gb_s = 0.15, ethernet.collectives[1].busbw_gb_s = 0.15;
  ethernet.collectives[1].layout = {1024, 8, 128, true}, ethernet.collectives[1].alpha_us = 4e4;
  CHECK(cluster_of_profile(ethernet, sheet));
  HardwareProfile unlinked = sample();  // NVLink is off
  unlinked.pairs[0].gb_s = 4, unlinked.collectives[0].busbw_gb_s = 3;
  CHECK(cluster_of_profile(unlinked, sheet));
  HardwareProfile cores = sample();  // no tensor core has this format
  cores.gemm[0].format = "fp32", cores.gemm[0].f_tflops = cores.gemm[0].burst_tflops = 50;
  cores.gemm[0].sustained_tflops = 30;
  CHECK(cluster_of_profile(cores, sheet));
  HardwareProfile unfit = sample();  // such fits are not planned with
  unfit.collectives[0].quality.median_err = 0.6, unfit.collectives[0].busbw_gb_s = 0.361;
  CHECK(cluster_of_profile(unfit, sheet));
  for (const char* card : {"a100-pcie-80gb", "a100-pcie-40gb", "h100-pcie"}) {
    CAPTURE(card);
    const Gpu gpu = load_gpu(card, StoreOptions{}).value().value;
    HardwareProfile bridged{.gpu = {.preset = card}, .gpus_per_node = 2};
    bridged.pairs = {{0, 1, 262, 2.1, ""}, {1, 0, 262, 2.1, ""}};
    bridged.tiers = {
        {.id = "node", .kind = "scale_up", .size = 2, .per_gpu_gb_s = gpu.scale_up.value / 1e9, .measured_gb_s = 230}};
    bridged.collectives = {{.op = Collective::AllReduce,
                            .dtype = "bf16",
                            .layout = {2, 2, 1, true},
                            .table = {{512, 9, 0}, {268435456, 1190, 0}},
                            .alpha_us = 9,
                            .busbw_gb_s = 230}};
    CHECK(cluster_of_profile(bridged, gpu));
    bridged.pairs[0].gb_s *= 1000;
    CHECK_FALSE(cluster_of_profile(bridged, gpu));
  }
}
