// Graphs of cuDNN's backend interface. Tested without a GPU by tests/hwprobe/attention_graph_test.cu, on one by
// tests/gpu/run_all.sh.
#include "hwprobe/cuda/cudnn_graph.cuh"

#include <dlfcn.h>

#include <algorithm>

namespace plan_cuda::dnn {

Status Library::load(const char* path) {
  if (library_ != nullptr) return ok();
  void* opened = dlopen(path != nullptr ? path : "libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) return failed(std::string("no cuDNN: ") + dlerror(), PLAN_PROBE_UNSUPPORTED);
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(opened, name));
    return function != nullptr;
  };
  bool all = find(create, "cudnnBackendCreateDescriptor") && find(destroy, "cudnnBackendDestroyDescriptor");
  all = all && find(finalize, "cudnnBackendFinalize") && find(set, "cudnnBackendSetAttribute");
  all = all && find(get, "cudnnBackendGetAttribute") && find(execute, "cudnnBackendExecute");
  all = all && find(create_handle_, "cudnnCreate") && find(set_stream_, "cudnnSetStream");
  all = all && find(version_, "cudnnGetVersion") && find(words_, "cudnnGetErrorString");
  if (!all || version_() < 90000) return failed("this libcudnn is older than 9", PLAN_PROBE_UNSUPPORTED);
  library_ = opened;
  return ok();
}

std::string Library::version() const {
  const size_t v = library_ == nullptr ? 0 : version_();
  return v == 0 ? "" : std::to_string(v / 10000) + "." + std::to_string(v / 100 % 100) + "." + std::to_string(v % 100);
}

Status Library::check(int status, const char* what) const {
  if (status == 0) return ok();
  const int code =
      status >= kNotSupported && status < kNotSupported + 1000 ? PLAN_PROBE_UNSUPPORTED : PLAN_PROBE_FAILED;
  return failed(std::string("cuDNN, ") + what + ": " + words_(status), code);
}

Status Library::handle(void*& out) {
  if (handle_ == nullptr)
    if (Status s = check(create_handle_(&handle_), "starting"); !s) return s;
  out = handle_;
  return ok();
}

Status Library::on_stream(cudaStream_t stream) {
  void* handle_now = nullptr;
  if (Status s = handle(handle_now); !s) return s;
  return check(set_stream_(handle_now, stream), "stream");
}

Status Library::build_for(const std::string& gpu) {
  if (Status s = check(create(kGpuKind, &gpu_), "GPU (needs cuDNN 9.8)"); !s) return s;
  const auto count = static_cast<int64_t>(gpu.size() + 1);
  if (Status s = check(set(gpu_, kGpuJson, kCharType, count, gpu.c_str()), "description of a GPU"); !s) return s;
  return check(finalize(gpu_), "description of a GPU");
}

Sizes packed(const Sizes& d) { return {d[1] * d[2] * d[3], d[2] * d[3], d[3], 1}; }

Graph::~Graph() {
  for (Descriptor d : all_) library_.destroy(d);
}

Descriptor Graph::make(int kind) {
  Descriptor d = nullptr;
  if (status_) status_ = library_.check(library_.create(kind, &d), "descriptor");
  if (d != nullptr) all_.push_back(d);
  return d;
}

void Graph::put(Descriptor d, int attribute, int type, int64_t count, const void* value) {
  if (status_) status_ = library_.check(library_.set(d, attribute, type, count, value), "attribute");
}

void Graph::done(Descriptor d, bool operation) {
  if (status_) status_ = library_.check(library_.finalize(d), operation ? "operation" : "descriptor");
  if (operation) operations_.push_back(d);
}

int Graph::describe(const Sizes& dimensions, const Sizes& strides, Data type, int64_t alignment, int flag, bool set) {
  Descriptor d = make(kTensorKind);
  const auto id = static_cast<int64_t>(tensors_.size());
  const int data = type;
  put(d, kTensorType, kDataTypeType, 1, &data);
  put(d, kTensorDimensions, kInt64Type, 4, dimensions.data());
  put(d, kTensorStrides, kInt64Type, 4, strides.data());
  put(d, kTensorId, kInt64Type, 1, &id);
  put(d, kTensorAlignment, kInt64Type, 1, &alignment);
  put(d, flag, kBooleanType, 1, &set);
  done(d, false);
  tensors_.push_back(d);
  return static_cast<int>(id);
}

int Graph::tensor(const Sizes& dimensions, const Sizes& strides, Data type, bool is_virtual) {
  return describe(dimensions, strides, type, 16, kTensorVirtual, is_virtual);
}

int Graph::scalar(float value) {
  const Sizes one{1, 1, 1, 1};
  const int id = describe(one, one, kFloat, 4, kTensorByValue, true);
  scalars_[id] = value;
  return id;
}

void Graph::matmul(int a, int b, int c) {
  const int precision = kFloat;
  Descriptor how = make(kMatmulKind), operation = make(kOperationMatmul);
  put(how, kMatmulPrecision, kDataTypeType, 1, &precision);
  done(how, false);
  put(operation, kMatmulA, a);
  put(operation, kMatmulB, b);
  put(operation, kMatmulC, c);
  put(operation, kMatmulDescriptor, kDescriptorType, 1, &how);
  done(operation, true);
}

void Graph::pointwise(Mode mode, int x, int b, int y, Data precision, int t, int axis) {
  const int word = mode, type = precision;
  Descriptor how = make(kPointwiseKind), operation = make(kOperationPointwise);
  put(how, kPointwiseMode, kPointwiseType, 1, &word);
  put(how, kPointwisePrecision, kDataTypeType, 1, &type);
  const int64_t along = axis;
  if (axis >= 0) put(how, kPointwiseAxis, kInt64Type, 1, &along);
  done(how, false);
  put(operation, kPointwiseDescriptor, kDescriptorType, 1, &how);
  put(operation, kPointwiseX, x);
  if (b >= 0) put(operation, kPointwiseB, b);
  if (t >= 0) put(operation, kPointwiseT, t);
  put(operation, kPointwiseY, y);
  done(operation, true);
}

void Graph::reduce(Reduce how_word, int x, int y) {
  const int word = how_word, precision = kFloat;
  Descriptor how = make(kReductionKind), operation = make(kOperationReduction);
  put(how, kReductionPrecision, kDataTypeType, 1, &precision);
  put(how, kReductionOperator, kReductionType, 1, &word);
  done(how, false);
  put(operation, kReductionX, x);
  put(operation, kReductionY, y);
  put(operation, kReductionDescriptor, kDescriptorType, 1, &how);
  done(operation, true);
}

void Graph::reshape(int x, int y) {
  Descriptor operation = make(kOperationReshape);
  put(operation, kReshapeX, x);
  put(operation, kReshapeY, y);
  done(operation, true);
}

/// The GPU that is only described, where there is no handle to say which.
void Graph::put_gpu(Descriptor d, int attribute) {
  if (Descriptor gpu = library_.described_gpu(); gpu != nullptr) put(d, attribute, kDescriptorType, 1, &gpu);
}

Status Graph::plan_of(Descriptor graph, void* handle) {
  Descriptor heuristic = make(kHeuristicKind);
  const int mode = kHeuristicFast;
  put(heuristic, kHeuristicGraph, kDescriptorType, 1, &graph);
  put(heuristic, kHeuristicMode, kHeuristicType, 1, &mode);
  put_gpu(heuristic, kHeuristicGpu);
  done(heuristic, false);
  constexpr int kMost = 8;
  std::array<Descriptor, kMost> configs{};
  for (Descriptor& config : configs) config = make(kConfigKind);
  int64_t found = 0;
  if (status_)
    status_ = library_.check(library_.get(heuristic, kHeuristicResults, kDescriptorType, kMost, &found, configs.data()),
                             "engines");
  if (!status_) return status_;
  Status last = failed("cuDNN has no engine for this attention on this GPU", PLAN_PROBE_UNSUPPORTED);
  for (int64_t i = 0; i < std::min<int64_t>(found, kMost); ++i) {
    Descriptor plan = make(kPlanKind);
    if (handle != nullptr) put(plan, kPlanHandle, kHandleType, 1, &handle);
    put_gpu(plan, kPlanGpu);
    put(plan, kPlanConfig, kDescriptorType, 1, &configs[static_cast<size_t>(i)]);
    if (!status_) return status_;
    last = library_.check(library_.finalize(plan), "plan");
    if (!last) continue;
    plan_ = plan;
    return ok();
  }
  return last;
}

Status Graph::build(size_t& workspace) {
  void* handle = nullptr;
  if (status_ && library_.described_gpu() == nullptr) status_ = library_.handle(handle);
  Descriptor graph = make(kGraphKind);
  if (handle != nullptr) put(graph, kGraphHandle, kHandleType, 1, &handle);
  put(graph, kGraphOperations, kDescriptorType, static_cast<int64_t>(operations_.size()), operations_.data());
  done(graph, false);
  if (!status_) return status_;
  if (Status s = plan_of(graph, handle); !s) return s;
  int64_t bytes = 0, count = 0;
  const int got = library_.get(plan_, kPlanWorkspace, kInt64Type, 1, &count, &bytes);
  workspace = static_cast<size_t>(std::max<int64_t>(0, bytes));
  return library_.check(got, "workspace");
}

Status Graph::run(const std::map<int, void*>& pointers, void* workspace) {
  std::vector<int64_t> ids;
  std::vector<void*> data;
  for (const auto& [tensor, pointer] : pointers) ids.push_back(tensor), data.push_back(pointer);
  for (auto& [tensor, value] : scalars_) ids.push_back(tensor), data.push_back(&value);
  Descriptor pack = nullptr;
  if (Status s = library_.check(library_.create(kPackKind, &pack), "variant pack"); !s) return s;
  const auto count = static_cast<int64_t>(ids.size());
  int problem = library_.set(pack, kPackIds, kInt64Type, count, ids.data());
  if (problem == 0) problem = library_.set(pack, kPackPointers, kPointerType, count, data.data());
  if (problem == 0) problem = library_.set(pack, kPackWorkspace, kPointerType, 1, &workspace);
  if (problem == 0) problem = library_.finalize(pack);
  void* handle = nullptr;
  if (problem == 0 && library_.handle(handle)) problem = library_.execute(handle, plan_, pack);
  library_.destroy(pack);
  return library_.check(problem, "attention");
}

}  // namespace plan_cuda::dnn
