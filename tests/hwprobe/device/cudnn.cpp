// A libcudnn as far as one attention graph needs it: descriptors keep what is set, and a plan takes the time of the
// products among its operations.
#include <cudnn.h>

#include <cstring>
#include <map>
#include <vector>

#include "streams.hpp"
#include "truth.hpp"

namespace {

struct Descriptor {
  cudnnBackendDescriptorType_t kind{};
  std::map<int, std::vector<char>> values{};

  template <class T>
  std::vector<T> get(int attribute) const {
    const auto found = values.find(attribute);
    std::vector<T> out(found == values.end() ? 0 : found->second.size() / sizeof(T));
    if (!out.empty()) std::memcpy(out.data(), found->second.data(), out.size() * sizeof(T));
    return out;
  }
};
Descriptor* of(cudnnBackendDescriptor_t d) { return static_cast<Descriptor*>(static_cast<void*>(d)); }

std::size_t width(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_BOOLEAN:
    case CUDNN_TYPE_CHAR: return 1;
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR: return 8;
    default: return 4;
  }
}

/// FLOPs of the products of a graph, of which causal attention spends half.
double flops(const Descriptor& graph) {
  double sum = 0;
  for (Descriptor* operation : graph.get<Descriptor*>(CUDNN_ATTR_OPERATIONGRAPH_OPS)) {
    if (operation->kind != CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR) continue;
    const auto a = operation->get<Descriptor*>(CUDNN_ATTR_OPERATION_MATMUL_ADESC)[0]->get<std::int64_t>(
        CUDNN_ATTR_TENSOR_DIMENSIONS);
    const auto c = operation->get<Descriptor*>(CUDNN_ATTR_OPERATION_MATMUL_CDESC)[0]->get<std::int64_t>(
        CUDNN_ATTR_TENSOR_DIMENSIONS);
    double product = static_cast<double>(a[3]);
    for (const std::int64_t d : c) product *= static_cast<double>(d);
    sum += product;
  }
  return sum;
}

cudaStream_t stream = nullptr;
std::map<const Descriptor*, double>& configured() {
  static auto* const all = new std::map<const Descriptor*, double>;
  return *all;
}

}  // namespace

extern "C" {
std::size_t cudnnGetVersion() { return 91900; }
const char* cudnnGetErrorString(cudnnStatus_t status) {
  return status >= CUDNN_STATUS_EXECUTION_FAILED ? "CUDNN_STATUS_EXECUTION_FAILED" : "CUDNN_STATUS_INTERNAL_ERROR";
}
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  static int something;
  return *handle = reinterpret_cast<cudnnHandle_t>(&something), CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t, cudaStream_t to) { return stream = to, CUDNN_STATUS_SUCCESS; }
cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t kind, cudnnBackendDescriptor_t* out) {
  *out = static_cast<cudnnBackendDescriptor_t>(static_cast<void*>(new Descriptor{kind}));
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t d) {
  configured().erase(of(d));
  return delete of(d), CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t d) {
  if (of(d)->kind == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)
    configured()[of(d)] = configured()[of(d)->get<Descriptor*>(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG).at(0)];
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t count, const void* value) {
  const auto* bytes = static_cast<const char*>(value);
  of(d)->values[name].assign(bytes, bytes + width(type) * static_cast<std::size_t>(count));
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t, std::int64_t, std::int64_t* count, void* value) {
  *count = 1;
  if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) *static_cast<std::int64_t*>(value) = 1 << 20;
  if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS)
    configured()[static_cast<Descriptor**>(value)[0]] =
        flops(*of(d)->get<Descriptor*>(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH).at(0));
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendExecute(cudnnHandle_t, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t) {
  if (!truth::of_rank("fail_attention", answering::own_rank()).empty()) return CUDNN_STATUS_EXECUTION_FAILED;
  answering::host_pass(4e-6);
  answering::enqueue(stream, {answering::Unit::Compute, truth::attention_seconds(configured()[of(plan)])});
  return CUDNN_STATUS_SUCCESS;
}
}
