#pragma once

#include "hwprobe/cuda/cudnn_graph.cuh"

namespace plan_cuda::dnn {

/// Queries, keys and values of one point: [batch, heads, seq, dim], key heads shared by groups of query heads.
struct AttentionGraphShape {
  int64_t batch, heads, kv_heads, seq, dim;
  Sizes q() const { return {batch, heads, seq, dim}; }
  Sizes kv() const { return {batch, kv_heads, seq, dim}; }
  Sizes scores() const { return {batch, heads, seq, seq}; }
  Sizes rows() const { return {batch, heads, seq, 1}; }
  /// In memory a token's heads lie together, as projections write them.
  static Sizes strides(const Sizes& d) { return {d[1] * d[2] * d[3], d[3], d[1] * d[3], 1}; }
  static size_t elements(const Sizes& d) { return static_cast<size_t>(d[0] * d[1] * d[2] * d[3]); }
};

/// Tensors in memory, by their number in the graph.
struct AttentionInputs {
  int q, keys, values, out, statistics;
};

struct AttentionGradients {
  int q, keys, values, out, statistics, d_out, row_sums, d_q, d_q_sum, d_keys, d_values;
};

/// The operations that cuDNN recognises as causal attention (its frontend writes the same ones): forward with the
/// softmax's statistics, and backward.
AttentionInputs forward_graph(Graph& graph, const AttentionGraphShape& shape);
AttentionGradients backward_graph(Graph& graph, const AttentionGraphShape& shape);

}  // namespace plan_cuda::dnn
