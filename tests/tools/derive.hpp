#pragma once

#include <string>
#include <vector>

#include "formulas/cluster.hpp"
#include "hwprobe/fits/fit.hpp"
#include "tests/tools/hardware_csv.hpp"

namespace plan::derive {

/// Rows of one kind, e.g. every bf16 GEMM that NVIDIA published for one GPU.
using Rows = std::vector<const Row*>;
Rows select(const std::vector<Row>& all, const std::string& gpu, const std::string& what, const std::string& dtype);

struct GemmRate {
  double m = 0, n = 0, k = 0, rate = 0;  ///< FLOP/s
};
/// The published m x n x k grid of a GPU; `dtype` in the file's words (bfloat16, fp8, nvfp4).
std::vector<GemmRate> gemm_rates(const std::vector<Row>& all, const std::string& gpu, const std::string& dtype);

/// Published linears of fp8 and fp4 quantise what they read: their seconds are `share` of the 16-bit product's of the
/// same shape, `per_element` for each of m x k inputs, and a floor.
struct QuantisedLinear {
  double share = 1, per_element = 0, floor = 0;
  double seconds(const GemmRate& wide) const;
};
QuantisedLinear quantised_linear(const std::vector<GemmRate>& wide, const std::vector<GemmRate>& narrow);
/// The product alone, at the shapes that are published in 16 bits.
std::vector<GemmRate> product_alone(std::vector<GemmRate> wide, const QuantisedLinear& linear);
/// Rows of `wide` at the shapes of `narrow`, one for each.
std::vector<GemmRate> at_shapes_of(const std::vector<GemmRate>& narrow, const std::vector<GemmRate>& wide);

/// Grid of the rows whose coordinates lie on the given axes.
GemmGrid grid_of(const std::vector<GemmRate>& rates, const std::vector<double>& m, const std::vector<double>& n,
                 const std::vector<double>& k);
std::vector<double> axis(const std::vector<GemmRate>& rates, double GemmRate::*coordinate);

/// Roofline of a grid whose small shapes were published only as a fit: t0 and the bandwidth share are given.
GemmFit grid_fit(const std::vector<GemmRate>& rates, DType dtype, double t0, double bandwidth);

/// A prompt whose attention TensorRT-LLM's own operator computes.
struct PromptShape {
  double batch = 0, seq = 0, heads = 0, kv_heads = 0, dim = 0;
};
/// What that operator does before the kernel, in a pass of its own: it turns queries and keys by their positions and
/// writes keys and values into the cache (ai-dynamo/aiconfigurator, collector/trtllm/collect_attn.py: RopeParams and
/// KVCacheManager). Training turns them in a kernel that is counted apart, and has no cache.
Seconds rotated_and_cached(const Gpu& gpu, const PromptShape& shape);
/// Forward kernels of NVIDIA's tables, without that pass, on a GPU with `memory` bytes a second; forward or backward
/// ones of SimuMax's.
std::vector<AttentionSample> attention_forward(const std::vector<Row>& all, const std::string& gpu, double memory);
std::vector<AttentionSample> attention_simumax(const std::vector<Row>& all, const std::string& gpu, bool backward);

/// One curve; `op` in the file's words.
std::vector<CollectiveSample> collective_curve(const std::vector<Row>& all, const std::string& gpu,
                                               const std::string& op, const std::string& dtype, int ranks,
                                               const std::string& nodes = "1");

struct GroupedSample {
  double experts = 0, rows = 0, n = 0, k = 0, rate = 0;
  Orientation orientation = Orientation::Forward;
};
std::vector<GroupedSample> grouped(const std::vector<Row>& all, const std::string& gpu);

/// GEMMs of one linear layer in its three orientations.
struct Linear {
  double tokens = 0, in = 0, out = 0;
  double rate[kOrientations] = {0, 0, 0};
};
std::vector<Linear> linears(const std::vector<Row>& all, const std::string& gpu);

/// The words of the file for an operation.
const char* csv_name(Collective op);

}  // namespace plan::derive
