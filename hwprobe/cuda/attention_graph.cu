// Attention as a graph of cuDNN's operations. Tested without a GPU by tests/hwprobe/attention_graph_test.cu.
#include "hwprobe/cuda/attention_graph.cuh"

#include <cmath>
#include <limits>

namespace plan_cuda::dnn {
namespace {

using Shape = AttentionGraphShape;

Sizes transposed(const Sizes& d) { return {d[0], d[1], d[3], d[2]}; }

/// q k^T / sqrt(d).
int scaled_scores(Graph& g, const Shape& shape, int q, int keys) {
  const int scores = g.scratch(shape.scores()), scaled = g.scratch(shape.scores());
  g.matmul(q, keys, scores);
  g.pointwise(kMultiply, scores, g.scalar(1 / std::sqrt(static_cast<float>(shape.dim))), scaled);
  return scaled;
}

/// What lies right of the diagonal becomes minus infinity.
int causal(Graph& g, const Shape& shape, int scores) {
  const int row = g.scratch(shape.scores(), kInt32), column = g.scratch(shape.scores(), kInt32);
  const int left = g.scratch(shape.scores(), kBoolean), masked = g.scratch(shape.scores());
  g.pointwise(kIndex, scores, -1, row, kInt32, -1, 2);
  g.pointwise(kIndex, scores, -1, column, kInt32, -1, 3);
  g.pointwise(kAtLeast, row, column, left, kBoolean);
  g.pointwise(kSelect, scores, g.scalar(-std::numeric_limits<float>::infinity()), masked, kFloat, left);
  return masked;
}

}  // namespace

AttentionInputs forward_graph(Graph& g, const Shape& shape) {
  const Sizes kv = Shape::strides(shape.kv()), q = Shape::strides(shape.q());
  AttentionInputs in{};
  in.q = g.tensor(shape.q(), q, kBf16, false);
  in.keys = g.tensor(transposed(shape.kv()), {kv[0], kv[1], kv[3], kv[2]}, kBf16, false);
  in.values = g.tensor(shape.kv(), kv, kBf16, false);
  const int masked = causal(g, shape, scaled_scores(g, shape, in.q, in.keys));
  const int most = g.scratch(shape.rows()), shifted = g.scratch(shape.scores()), powers = g.scratch(shape.scores());
  const int sum = g.scratch(shape.rows()), log = g.scratch(shape.rows());
  const int probabilities = g.scratch(shape.scores(), kBf16);
  in.statistics = g.tensor(shape.rows(), packed(shape.rows()), kFloat, false);
  in.out = g.tensor(shape.q(), q, kBf16, false);
  g.reduce(kMax, masked, most);
  g.pointwise(kSubtract, masked, most, shifted);
  g.pointwise(kExp, shifted, -1, powers);
  g.reduce(kSum, powers, sum);
  g.pointwise(kLog, sum, -1, log);
  g.pointwise(kAdd, most, log, in.statistics);
  g.pointwise(kDivide, powers, sum, probabilities);
  g.matmul(probabilities, in.values, in.out);
  return in;
}

namespace {

/// sum(dO * O) of every row. cuDNN wants it scaled by what dropout kept: by one.
void row_sums(Graph& g, const Shape& shape, int out, int d_out, int sums) {
  const int product = g.scratch(shape.q()), sum = g.scratch(shape.rows());
  g.pointwise(kMultiply, d_out, out, product);
  g.reduce(kSum, product, sum);
  g.pointwise(kMultiply, sum, g.scalar(1), sums);
}

/// Sums over the query heads that share a key head, where they do.
void to_key_heads(Graph& g, const Shape& shape, int left, int right, int out) {
  if (shape.heads == shape.kv_heads) return g.matmul(left, right, out);
  const int whole = g.scratch(shape.q(), kBf16);
  g.matmul(left, right, whole);
  g.reduce(kSum, whole, out);
}

int turned(Graph& g, const Shape& shape, int scores) {
  const Sizes d = shape.scores(), by_rows = packed(d);
  const int out = g.tensor(transposed(d), {by_rows[0], by_rows[1], by_rows[3], by_rows[2]}, kBf16, true);
  g.reshape(scores, out);
  return out;
}

}  // namespace

AttentionGradients backward_graph(Graph& g, const Shape& shape) {
  const Sizes q = Shape::strides(shape.q()), kv = Shape::strides(shape.kv());
  const Sizes across{kv[0], kv[1], kv[3], kv[2]};
  AttentionGradients in{};
  in.q = g.tensor(shape.q(), q, kBf16, false);
  in.keys = g.tensor(transposed(shape.kv()), across, kBf16, false);
  in.values = g.tensor(transposed(shape.kv()), across, kBf16, false);
  in.out = g.tensor(shape.q(), q, kBf16, false);
  in.d_out = g.tensor(shape.q(), q, kBf16, false);
  in.statistics = g.tensor(shape.rows(), packed(shape.rows()), kFloat, false);
  in.row_sums = g.tensor(shape.rows(), packed(shape.rows()), kFloat, false);
  in.d_values = g.tensor(shape.kv(), kv, kBf16, false);
  in.d_keys = g.tensor(shape.kv(), kv, kBf16, false);
  in.d_q_sum = g.tensor(shape.q(), packed(shape.q()), kFloat, false);
  in.d_q = g.tensor(shape.q(), q, kBf16, false);
  row_sums(g, shape, in.out, in.d_out, in.row_sums);
  const int shifted = g.scratch(shape.scores()), probabilities = g.scratch(shape.scores());
  g.pointwise(kSubtract, scaled_scores(g, shape, in.q, in.keys), in.statistics, shifted);
  g.pointwise(kExp, causal(g, shape, shifted), -1, probabilities);
  to_key_heads(g, shape, turned(g, shape, probabilities), in.d_out, in.d_values);
  const int d_p = g.scratch(shape.scores()), centred = g.scratch(shape.scores()), weighed = g.scratch(shape.scores());
  const int d_scores = g.scratch(shape.scores());
  g.matmul(in.d_out, in.values, d_p);
  g.pointwise(kSubtract, d_p, in.row_sums, centred);
  g.pointwise(kMultiply, centred, probabilities, weighed);
  g.pointwise(kMultiply, weighed, g.scalar(1 / std::sqrt(static_cast<float>(shape.dim))), d_scores);
  to_key_heads(g, shape, turned(g, shape, d_scores), in.q, in.d_keys);
  const int keys = g.tensor(shape.kv(), kv, kBf16, true);
  g.reshape(in.keys, keys);
  g.matmul(d_scores, keys, in.d_q_sum);
  g.pointwise(kIdentity, in.d_q_sum, -1, in.d_q);
  return in;
}

}  // namespace plan_cuda::dnn
