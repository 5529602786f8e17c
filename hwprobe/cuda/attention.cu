// Causal attention as training runs it, through cuDNN's fused kernels: forward with the softmax's statistics, and
// backward. The operations are those that cuDNN recognises as attention (its frontend writes the same ones).
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "hwprobe/cuda/cudnn_graph.cuh"

namespace plan_cuda {
namespace {

using namespace dnn;
constexpr int kCheckedRows = 4;

struct Shape {
  int64_t batch, heads, kv_heads, seq, dim;
  Sizes q() const { return {batch, heads, seq, dim}; }
  Sizes kv() const { return {batch, kv_heads, seq, dim}; }
  Sizes scores() const { return {batch, heads, seq, seq}; }
  Sizes rows() const { return {batch, heads, seq, 1}; }
  /// In memory a token's heads lie together, as projections write them.
  static Sizes strides(const Sizes& d) { return {d[1] * d[2] * d[3], d[3], d[1] * d[3], 1}; }
  static size_t elements(const Sizes& d) { return static_cast<size_t>(d[0] * d[1] * d[2] * d[3]); }
};

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

/// Tensors in memory, by their number in the graph.
struct Inputs {
  int q, keys, values, out, statistics;
};

Inputs forward_graph(Graph& g, const Shape& shape) {
  const Sizes kv = Shape::strides(shape.kv()), q = Shape::strides(shape.q());
  Inputs in{};
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

struct Gradients {
  int q, keys, values, out, statistics, d_out, row_sums, d_q, d_q_sum, d_keys, d_values;
};

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

Gradients backward_graph(Graph& g, const Shape& shape) {
  const Sizes q = Shape::strides(shape.q()), kv = Shape::strides(shape.kv());
  const Sizes across{kv[0], kv[1], kv[3], kv[2]};
  Gradients in{};
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

/// Largest error of a few rows of the output against a sum in fp32, one thread a column.
__global__ void compare_rows(const __nv_bfloat16* q, const __nv_bfloat16* k, const __nv_bfloat16* v,
                             const __nv_bfloat16* out, int heads, int kv_heads, int seq, int dim, float* worst) {
  const int row = static_cast<int>((blockIdx.x * 7919ull + 1) % seq), head = static_cast<int>(blockIdx.x % heads);
  const int kv_head = head / (heads / kv_heads), column = static_cast<int>(threadIdx.x);
  float most = -1e30f, sum = 0, value = 0;
  for (int pass = 0; pass < 2; ++pass)
    for (int key = 0; key <= row; ++key) {
      float score = 0;
      for (int d = 0; d < dim; ++d)
        score += __bfloat162float(q[(size_t(row) * heads + head) * dim + d]) *
                 __bfloat162float(k[(size_t(key) * kv_heads + kv_head) * dim + d]);
      score *= rsqrtf(float(dim));
      if (pass == 0) {
        most = fmaxf(most, score);
        continue;
      }
      const float weight = expf(score - most);
      sum += weight;
      value += weight * __bfloat162float(v[(size_t(key) * kv_heads + kv_head) * dim + column]);
    }
  const float off = fabsf(__bfloat162float(out[(size_t(row) * heads + head) * dim + column]) - value / sum);
  atomicMax(reinterpret_cast<int*>(worst), __float_as_int(off));
}

/// Device memory of one point.
struct Tensors {
  Buffer q, k, v, out, statistics, d_out, row_sums, d_q, d_q_sum, d_k, d_v, workspace, worst;

  Status fill(Device& device, const Shape& shape, bool backward) {
    const size_t queries = Shape::elements(shape.q()), keys = Shape::elements(shape.kv());
    const size_t rows = Shape::elements(shape.rows());
    for (const auto& [buffer, bytes] : {std::pair(&q, 2 * queries),
                                        {&k, 2 * keys},
                                        {&v, 2 * keys},
                                        {&out, 2 * queries},
                                        {&statistics, 4 * rows},
                                        {&worst, sizeof(float)}})
      if (Status s = buffer->allocate(bytes); !s) return s;
    if (backward)
      for (const auto& [buffer, bytes] : {std::pair(&d_out, 2 * queries),
                                          {&row_sums, 4 * rows},
                                          {&d_q, 2 * queries},
                                          {&d_q_sum, 4 * queries},
                                          {&d_k, 2 * keys},
                                          {&d_v, 2 * keys}})
        if (Status s = buffer->allocate(bytes); !s) return s;
    unsigned seed = 21;
    for (const auto& [buffer, count] : {std::pair(&q, queries), {&k, keys}, {&v, keys}})
      if (Status s = fill_random(buffer->as(), count, PLAN_PROBE_BF16, device.stream, seed++); !s) return s;
    return backward ? fill_random(d_out.as(), queries, PLAN_PROBE_BF16, device.stream, seed) : ok();
  }
};

Status verify(Device& device, const Shape& shape, Tensors& t) {
  cudaMemsetAsync(t.worst.as(), 0, sizeof(float), device.stream);
  compare_rows<<<kCheckedRows, static_cast<unsigned>(shape.dim), 0, device.stream>>>(
      t.q.as<__nv_bfloat16>(), t.k.as<__nv_bfloat16>(), t.v.as<__nv_bfloat16>(), t.out.as<__nv_bfloat16>(),
      static_cast<int>(shape.heads), static_cast<int>(shape.kv_heads), static_cast<int>(shape.seq),
      static_cast<int>(shape.dim), t.worst.as<float>());
  if (Status s = device.wait(device.stream); !s) return s;
  float off = 0;
  cudaMemcpy(&off, t.worst.as(), sizeof off, cudaMemcpyDeviceToHost);
  return off < 0.05f ? ok() : failed("attention differs from a sum in fp32", PLAN_PROBE_WRONG_RESULT);
}

}  // namespace

std::string cudnn_version(Device& device) {
  if (!device.cudnn) device.cudnn = std::make_shared<Library>();
  return device.cudnn->load(device.setup.cudnn_library) ? device.cudnn->version() : "";
}

Status measure_attention(Device& device, const plan_probe_point& point, plan_probe_result& result) {
  const Shape shape{point.number[0], point.number[1], point.number[2], point.number[3], point.number[4]};
  const bool backward = point.orientation == 1;
  cudnn_version(device);
  Library& library = *device.cudnn;
  if (Status s = library.load(device.setup.cudnn_library); !s) return s;
  if (Status s = library.on_stream(device.stream); !s) return s;
  Tensors t;
  if (Status s = t.fill(device, shape, backward); !s) return s;
  Graph forward(library);
  const Inputs in = forward_graph(forward, shape);
  size_t bytes = 0;
  if (Status s = forward.build(bytes); !s) return s;
  if (Status s = t.workspace.allocate(bytes); !s) return s;
  const std::map<int, void*> once = {{in.q, t.q.as()},
                                     {in.keys, t.k.as()},
                                     {in.values, t.v.as()},
                                     {in.out, t.out.as()},
                                     {in.statistics, t.statistics.as()}};
  if (Status s = forward.run(once, t.workspace.as()); !s) return s;
  if (Status s = verify(device, shape, t); !s) return s;
  result.bytes = 0;
  if (!backward)
    return sample(
        device, point, [&] { return forward.run(once, t.workspace.as()); }, result);

  Graph gradients(library);
  const Gradients g = backward_graph(gradients, shape);
  if (Status s = gradients.build(bytes); !s) return s;
  if (Status s = t.workspace.allocate(bytes); !s) return s;
  const std::map<int, void*> then = {{g.q, t.q.as()},
                                     {g.keys, t.k.as()},
                                     {g.values, t.v.as()},
                                     {g.out, t.out.as()},
                                     {g.d_out, t.d_out.as()},
                                     {g.statistics, t.statistics.as()},
                                     {g.row_sums, t.row_sums.as()},
                                     {g.d_values, t.d_v.as()},
                                     {g.d_keys, t.d_k.as()},
                                     {g.d_q_sum, t.d_q_sum.as()},
                                     {g.d_q, t.d_q.as()}};
  const size_t accumulated = 4 * Shape::elements(shape.q());
  return sample(
      device, point,
      [&]() -> Status {
        cudaMemsetAsync(t.d_q_sum.as(), 0, accumulated, device.stream);
        return gradients.run(then, t.workspace.as());
      },
      result);
}

}  // namespace plan_cuda
