// Times of causal attention as training runs it, forward and backward. Tested on a GPU by tests/gpu/run_all.sh.
#include <memory>

#include "hwprobe/cuda/attention_graph.cuh"

namespace plan_cuda {
namespace {

using namespace dnn;
using Shape = AttentionGraphShape;
constexpr int kCheckedRows = 4;

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

void preload_attention() {
  cudaFuncAttributes attributes{};
  cudaFuncGetAttributes(&attributes, compare_rows);
}

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
  const AttentionInputs in = forward_graph(forward, shape);
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
  const AttentionGradients g = backward_graph(gradients, shape);
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
