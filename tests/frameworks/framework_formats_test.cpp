// Which number formats a framework takes on which GPU: as its own check of the device has it.
#include <doctest/doctest.h>

#include <string>
#include <utility>

#include "planner/answer/plan.hpp"
#include "planner/rules/frameworks.hpp"
#include "planner/rules/words.hpp"
#include "presets/store.hpp"

using namespace plan;

namespace {

/// NVIDIA's compute capability of a GPU, https://developer.nvidia.com/cuda-gpus; 0 for another maker's.
double capability(const std::string& gpu) {
  for (const auto& [start, number] :
       {std::pair{"v100", 7.0}, {"t4", 7.5},       {"a100", 8.0},         {"a800", 8.0},         {"a30", 8.0},
        {"a10", 8.6},           {"a40", 8.6},      {"rtx-3090", 8.6},     {"rtx-a", 8.6},        {"l4", 8.9},
        {"l20", 8.9},           {"rtx-4090", 8.9}, {"rtx-6000-ada", 8.9}, {"h100", 9.0},         {"h200", 9.0},
        {"h800", 9.0},          {"h20-", 9.0},     {"gh200", 9.0},        {"b200", 10.0},        {"gb200", 10.0},
        {"b300", 10.3},         {"gb300", 10.3},   {"rtx-5090", 12.0},    {"rtx-pro-6000", 12.0}})
    if (gpu.starts_with(start)) return number;
  return 0;
}

/// TransformerEngine's check_recipe_support, pytorch/quantization.py.
bool recipe_runs(double capability, Precision precision) {
  switch (precision) {
    case Precision::Fp8Delayed:
    case Precision::Fp8Tensorwise: return capability >= 8.9;
    case Precision::Fp8Blockwise: return capability >= 9.0;
    case Precision::Mxfp8: return capability >= 10.0 && capability < 12.0;
    case Precision::Nvfp4: return capability >= 10.0;
    default: return true;
  }
}

bool takes(Framework framework, const Gpu& gpu, Precision precision) {
  Problem problem;
  problem.model = load_model("llama3-8b", StoreOptions{})->value;
  problem.cluster = load_cluster("dgx-h100", StoreOptions{})->value;
  problem.cluster.gpu = gpu;
  problem.framework = framework;
  problem.training.precision = precision;
  for (const Error& error : unsupported_hardware(problem))
    if (error.code == "unsupported_precision") return false;
  return true;
}

}  // namespace

TEST_CASE("a framework takes a format on a GPU where its own check of the device does") {
  int gpus = 0;
  for (const PresetEntry& entry : list_presets(PresetKind::Gpu, {})) {
    const auto gpu = load_gpu(entry.name, {});
    REQUIRE(gpu.has_value());
    if (gpu->value.vendor != "nvidia") continue;
    CAPTURE(entry.name);
    const double device = capability(entry.name);
    REQUIRE(device > 0);
    for (const Precision precision : {Precision::Fp8Delayed, Precision::Fp8Tensorwise, Precision::Fp8Blockwise,
                                      Precision::Mxfp8, Precision::Nvfp4}) {
      CAPTURE(static_cast<int>(precision));
      CHECK(takes(Framework::Megatron, gpu->value, precision) == recipe_runs(device, precision));
    }
    // torchtitan's has_cuda_capability, components/quantization: float8 8.9, mx 10.0
    CHECK(takes(Framework::Torchtitan, gpu->value, Precision::Fp8Tensorwise) == (device >= 8.9));
    CHECK(takes(Framework::Torchtitan, gpu->value, Precision::Mxfp8) == (device >= 10.0));
    ++gpus;
  }
  CHECK(gpus >= 30);
}
