#pragma once

#include "formulas/hardware_profile.hpp"

namespace plan {

/// A profile of two nodes of eight H100s as `plan probe` writes it.
[[nodiscard]] inline HardwareProfile sample() {
  HardwareProfile p;
  p.name = "node";
  p.provenance = {{.id = "m1",
                   .tool = "plan 0.1.0",
                   .date_utc = "2026-11-20T10:02:11Z",
                   .driver = "580.95.05",
                   .nccl_env = "NCCL_IB_HCA=mlx5_0,mlx5_1: \"x\"",
                   .host_count = 2,
                   .gpu_count = 16,
                   .budget_s = 300}};
  p.gpu = {"NVIDIA H100 80GB HBM3", "h100-sxm", "2330", "9.0", 132, 50};
  p.gpus_per_node = 8;
  p.nodes = 2, p.host_memory_gib = 1007.5;
  p.memory = {79.65, 79.1, 0.52, 0.03125, "m1"};
  p.hbm = {{2990, 0.003}, {3010, 0.004}, 3.1, "m1"};
  ProfileGemm g{.format = "bf16"};
  for (const double m : {512.0, 2048.0, 8192.0})
    for (const double n : {1024.0, 4096.0})
      for (const double k : {1024.0, 16384.0}) g.grid.push_back({m, n, k, 3 + 2 * m * n * k / 7e8, 0.006});
  g.t0_us = 2.8, g.f_tflops = 765, g.w_tb_s = 2.2;
  g.quality = {12, 0.033, 0.11, 0.04, {}};
  g.sustained_tflops = 640, g.burst_tflops = 720, g.sm_clock_mhz_p50 = 1755;
  g.throttle = {"sw_power_cap"};
  g.prov = "m1";
  p.gemm = {g};
  p.attention = {{.grid = {{1, 16, 2, 8192, 812.5, 0.01}},
                  .t0_us = 5.2,
                  .fmax_tflops = 574,
                  .s0 = 1176,
                  .b0 = 16.4,
                  .prov = "m1"}};
  p.memory_bound = {{"rmsnorm", 0.81, 2400, 3, 0.01, "m1"}, {"adam", 0.9, 2700, 4, 0.01, "m1"}};
  p.host_link = {"pcie", 5, 16, {55.4, 0.01}, {55.1, 0}, {98, 0}, {41, 0.02}, "m1"};
  p.pairs = {{0, 1, 396, 1.2, "m1"}};
  p.tiers = {{.id = "nvlink", .kind = "scale_up", .size = 8, .per_gpu_gb_s = 450, .prov = "m1"},
             {.id = "spine",
              .kind = "scale_out",
              .per_gpu_gb_s = 50,
              .measured_gb_s = 43.9,
              .oversubscription = 2,
              .prov = "m1"}};
  ProfileCurve inside{.op = Collective::AllReduce,
                      .dtype = "bf16",
                      .layout = {8, 8, 1, true},
                      .table = {{512, 16, 0.05}, {131072, 22, 0.02}, {536870912, 2050, 0.004}},
                      .alpha_us = 15.9,
                      .busbw_gb_s = 462,
                      .algo = "NVLS",
                      .quality = {3, 0.03, 0.05, 0.04, {}},
                      .prov = "m1"};
  ProfileCurve rail{.op = Collective::AllGather,
                    .dtype = "bf16",
                    .layout = {2, 1, 2, true},
                    .table = {{512, 30, 0.1}, {536870912, 6100, 0.01}},
                    .alpha_us = 29,
                    .busbw_gb_s = 44,
                    .quality = {2, 0.01, 0.01, 0, {}},
                    .prov = "m1"};
  p.collectives = {inside, rail};
  p.overlap = {{"gemm", "all_gather", 1.09, 1.14, "m1"}};
  p.nccl_memory = {{"all_to_all", 8, 2.63, "m1"}};
  p.warnings = {{"PCIE_WIDTH", "node02/gpu3", "PCIe x8 (x16 expected)"}};
  p.skipped = {{"all_gather bf16 n8", "budget"}};
  return p;
}

}  // namespace plan
