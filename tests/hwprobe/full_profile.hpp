#pragma once

#include "formulas/hardware_profile.hpp"

namespace plan {

/// A profile with some of everything that a probe measures; no two figures are alike.
[[nodiscard]] inline HardwareProfile full_profile() {
  HardwareProfile p;
  p.name = "node";
  p.provenance = {{.id = "m1"}};
  p.memory = {.total_gib = 80, .usable_gib = 79, .context_gib = 0.5, .cublas_workspace_gib = 0.03, .prov = "m1"};
  p.hbm = {.copy = {2990, 0.003}, .triad = {3010, 0.002}, .fixed_us = 3};
  for (const std::string format : {"fp32", "fp16", "bf16", "fp8", "mxfp8", "nvfp4"})
    for (const Orientation o : {Orientation::Forward, Orientation::DataGrad, Orientation::WeightGrad})
      p.gemm.push_back({.format = format,
                        .orientation = o,
                        .grid = {{512, 1024, 2048, 9, 0.02}, {8192, 8192, 8192, 1500, 0.006}, {4096, 8192, 8192, 760}},
                        .sustained_tflops = 610,
                        .burst_tflops = 700});
  for (const bool backward : {false, true})
    for (const int dim : {64, 128})
      p.attention.push_back(
          {.backward = backward, .head_dim = dim, .grid = {{1, 8, 8, 4096, 120, 0.01}}, .fmax_tflops = 400.0 + dim});
  for (const std::string op : {"rmsnorm", "adam"}) p.memory_bound.push_back({.op = op, .gb_s = 2400, .spread = 0.01});
  p.host_link = {.kind = "pcie", .h2d = {55, 0.01}, .d2h = {50, 0.01}, .bidir = {90, 0.01}};
  p.pairs = {{0, 1, 390}, {0, 2, 391}, {1, 0, 392}};
  p.tiers = {{.id = "nvlink", .kind = "scale_up", .size = 8, .per_gpu_gb_s = 450, .measured_gb_s = 360},
             {.id = "network", .kind = "scale_out", .per_gpu_gb_s = 50, .measured_gb_s = 46}};
  for (const Collective op : {Collective::AllReduce, Collective::AllGather})
    for (const std::string dtype : {"bf16", "fp32"})
      for (const GroupShape shape : {GroupShape{8, 8, 1, true}, GroupShape{8, 8, 1, false}, GroupShape{2, 1, 2, true}})
        p.collectives.push_back({.op = op,
                                 .dtype = dtype,
                                 .layout = shape,
                                 .table = {{512, 11, 0.01}, {1 << 20, 40, 0.01}, {1 << 29, 1300, 0.01}}});
  p.overlap = {{"gemm", "all_reduce", 1.1, 1.2}};
  p.nccl_memory = {{"init", 8, 0.2}, {"all_reduce", 8, 0.6}};
  p.nccl_channels = {16, 24, 32, "m1"};
  p.conditions = {{.section = "gemm", .samples = 30}, {.section = "kernels", .samples = 20}};
  return p;
}

}  // namespace plan
