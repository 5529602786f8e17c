// The part of cuDNN's backend interface that one attention graph needs, loaded at run time: operations on tensors, put
// together to one kernel. Numbers are those of cudnn_graph.h since cuDNN 9; where the header is, they are compared.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "hwprobe/cuda/device.cuh"

#if __has_include(<cudnn.h>)
#include <cudnn.h>
#define PLAN_SAME(number, name) static_assert(int(number) == int(name))
#else
#define PLAN_SAME(number, name) static_assert(int(number) >= 0)
#endif

namespace plan_cuda::dnn {

using Descriptor = void*;

enum Kind {
  kPointwiseKind = 0,
  kHeuristicKind = 4,
  kPlanKind = 5,
  kConfigKind = 3,
  kOperationPointwise = 13,
  kGraphKind = 15,
  kPackKind = 16,
  kTensorKind = 17,
  kMatmulKind = 18,
  kOperationMatmul = 19,
  kReductionKind = 21,
  kOperationReduction = 22,
  kOperationReshape = 31,
  kGpuKind = 38
};
enum Attribute {
  kPointwiseMode = 0,
  kPointwisePrecision = 1,
  kPointwiseAxis = 9,
  kHeuristicMode = 200,
  kHeuristicGraph = 201,
  kHeuristicResults = 202,
  kHeuristicGpu = 204,
  kPlanHandle = 400,
  kPlanConfig = 401,
  kPlanWorkspace = 402,
  kPlanGpu = 407,
  kPointwiseDescriptor = 750,
  kPointwiseX = 751,
  kPointwiseB = 752,
  kPointwiseY = 753,
  kPointwiseT = 758,
  kGraphHandle = 800,
  kGraphOperations = 801,
  kTensorAlignment = 900,
  kTensorType = 901,
  kTensorDimensions = 902,
  kTensorStrides = 903,
  kTensorId = 906,
  kTensorVirtual = 907,
  kTensorByValue = 908,
  kPackIds = 1000,
  kPackPointers = 1001,
  kPackWorkspace = 1003,
  kMatmulPrecision = 1500,
  kMatmulA = 1520,
  kMatmulB = 1521,
  kMatmulC = 1522,
  kMatmulDescriptor = 1523,
  kReductionOperator = 1600,
  kReductionPrecision = 1601,
  kReductionX = 1610,
  kReductionY = 1611,
  kReductionDescriptor = 1612,
  kReshapeX = 2200,
  kReshapeY = 2201,
  kGpuJson = 2702
};
enum Type {
  kHandleType = 0,
  kDataTypeType = 1,
  kBooleanType = 2,
  kInt64Type = 3,
  kPointerType = 6,
  kHeuristicType = 8,
  kPointwiseType = 14,
  kDescriptorType = 15,
  kReductionType = 18,
  kCharType = 24
};
enum Data { kFloat = 0, kInt32 = 4, kBf16 = 9, kBoolean = 11 };
enum Mode {
  kAdd = 0,
  kMultiply = 1,
  kDivide = 6,
  kSubtract = 9,
  kExp = 13,
  kLog = 15,
  kIdentity = 21,
  kAtLeast = 303,
  kIndex = 501,
  kSelect = 601
};
enum Reduce { kSum = 0, kMax = 3 };
constexpr int kHeuristicFast = 3, kNotSupported = 3000;

PLAN_SAME(kOperationReshape, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
PLAN_SAME(kOperationPointwise, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
PLAN_SAME(kOperationMatmul, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
PLAN_SAME(kOperationReduction, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
PLAN_SAME(kPackKind, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
PLAN_SAME(kPlanKind, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
PLAN_SAME(kPointwiseAxis, CUDNN_ATTR_POINTWISE_AXIS);
PLAN_SAME(kHeuristicResults, CUDNN_ATTR_ENGINEHEUR_RESULTS);
PLAN_SAME(kPlanWorkspace, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
PLAN_SAME(kPointwiseT, CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
PLAN_SAME(kGraphOperations, CUDNN_ATTR_OPERATIONGRAPH_OPS);
PLAN_SAME(kTensorByValue, CUDNN_ATTR_TENSOR_IS_BY_VALUE);
PLAN_SAME(kPackWorkspace, CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
PLAN_SAME(kMatmulDescriptor, CUDNN_ATTR_OPERATION_MATMUL_DESC);
PLAN_SAME(kReductionDescriptor, CUDNN_ATTR_OPERATION_REDUCTION_DESC);
PLAN_SAME(kReshapeY, CUDNN_ATTR_OPERATION_RESHAPE_YDESC);
PLAN_SAME(kReductionType, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE);
PLAN_SAME(kDescriptorType, CUDNN_TYPE_BACKEND_DESCRIPTOR);
PLAN_SAME(kBoolean, CUDNN_DATA_BOOLEAN);
PLAN_SAME(kAtLeast, CUDNN_POINTWISE_CMP_GE);
PLAN_SAME(kIndex, CUDNN_POINTWISE_GEN_INDEX);
PLAN_SAME(kSelect, CUDNN_POINTWISE_BINARY_SELECT);
PLAN_SAME(kMax, CUDNN_REDUCE_TENSOR_MAX);
PLAN_SAME(kHeuristicFast, CUDNN_HEUR_MODE_A);
PLAN_SAME(kNotSupported, CUDNN_STATUS_NOT_SUPPORTED);
#if defined(CUDNN_VERSION) && CUDNN_VERSION >= 90800
PLAN_SAME(kGpuKind, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
PLAN_SAME(kHeuristicGpu, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP);
PLAN_SAME(kPlanGpu, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP);
PLAN_SAME(kGpuJson, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION);
PLAN_SAME(kCharType, CUDNN_TYPE_CHAR);
#endif

/// The functions of a libcudnn found at run time, and its handle.
class Library {
 public:
  Status load(const char* path);
  std::string version() const;
  Status on_stream(cudaStream_t stream);
  Status handle(void*& out);
  /// From now on plans are built, and never run, for a GPU that is not there: `gpu` is cuDNN's JSON of its properties.
  Status build_for(const std::string& gpu);
  Descriptor described_gpu() const { return gpu_; }
  Status check(int status, const char* what) const;

  int (*create)(int, Descriptor*) = nullptr;
  int (*destroy)(Descriptor) = nullptr;
  int (*finalize)(Descriptor) = nullptr;
  int (*set)(Descriptor, int, int, int64_t, const void*) = nullptr;
  int (*get)(Descriptor, int, int, int64_t, int64_t*, void*) = nullptr;
  int (*execute)(void*, Descriptor, Descriptor) = nullptr;

 private:
  void* library_ = nullptr;
  void* handle_ = nullptr;
  Descriptor gpu_ = nullptr;
  int (*create_handle_)(void**) = nullptr;
  int (*set_stream_)(void*, cudaStream_t) = nullptr;
  size_t (*version_)() = nullptr;
  const char* (*words_)(int) = nullptr;
};

using Sizes = std::array<int64_t, 4>;
Sizes packed(const Sizes& dimensions);

/// Operations on tensors of four dimensions, then one plan for all of them. The first failure is kept.
class Graph {
 public:
  explicit Graph(Library& library) : library_(library) {}
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  int tensor(const Sizes& dimensions, const Sizes& strides, Data type, bool is_virtual);
  int scratch(const Sizes& dimensions, Data type = kFloat) {
    return tensor(dimensions, packed(dimensions), type, true);
  }
  int scalar(float value);
  void matmul(int a, int b, int c);
  void pointwise(Mode mode, int x, int b, int y, Data precision = kFloat, int t = -1, int axis = -1);
  void reduce(Reduce how, int x, int y);
  void reshape(int x, int y);
  /// Finds an engine; `workspace` in bytes.
  Status build(size_t& workspace);
  /// Runs on the handle's stream. `pointers` by tensor.
  Status run(const std::map<int, void*>& pointers, void* workspace);

 private:
  Descriptor make(int kind);
  /// One tensor with one further attribute that is true or false; its number.
  int describe(const Sizes& dimensions, const Sizes& strides, Data type, int64_t alignment, int flag, bool set);
  void put(Descriptor d, int attribute, int type, int64_t count, const void* value);
  void put(Descriptor d, int attribute, int tensor) { put(d, attribute, kDescriptorType, 1, &tensors_[tensor]); }
  void done(Descriptor d, bool operation);
  Status plan_of(Descriptor graph, void* handle);
  void put_gpu(Descriptor d, int attribute);

  Library& library_;
  Status status_ = ok();
  std::vector<Descriptor> all_{}, tensors_{}, operations_{};
  std::map<int, float> scalars_{};
  Descriptor plan_ = nullptr;
};

}  // namespace plan_cuda::dnn
