// Names of a sweep's parts, formats and kernels. Tested by tests/hwprobe/sweep_test.cpp.
#include "hwprobe/sweep/sweep_points.hpp"

#include <fmt/core.h>

namespace plan {
namespace {

constexpr std::string_view kSectionNames[] = {"memory",    "bandwidth",   "gemm",    "attention", "kernels",
                                              "host_link", "collectives", "overlap", "pairs"};
constexpr std::string_view kFormatNames[] = {"fp32", "fp16", "bf16", "fp8", "mxfp8", "nvfp4"};
constexpr std::string_view kKernelNames[] = {"rmsnorm", "rmsnorm_bwd",   "softmax", "swiglu", "residual",
                                             "rope",    "cross_entropy", "cast",    "adam",   "grad_norm"};
// Bytes an element: what each kernel reads and writes (bf16 activations, fp32 states).
constexpr double kKernelBytes[] = {4, 6, 4, 6, 6, 4, 4, 6, 30, 4};

}  // namespace

std::string_view name(Section section) { return kSectionNames[static_cast<std::size_t>(section)]; }

std::string_view format_name(int format) {
  return format >= 0 && format < 6 ? kFormatNames[format] : std::string_view("unknown");
}

int format_of(std::string_view name) {
  for (int i = 0; i < 6; ++i)
    if (kFormatNames[i] == name) return i;
  return -1;
}

std::string size_text(double bytes) {
  constexpr std::string_view kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  for (; bytes >= 1024 && unit < 4; ++unit) bytes /= 1024;
  return fmt::format("{:.3g} {}", bytes, kUnits[unit]);
}

std::string_view kernel_name(int kernel) {
  return kernel >= 0 && kernel < PLAN_PROBE_KERNELS ? kKernelNames[kernel] : std::string_view("unknown");
}

double kernel_bytes(int kernel, double elements) {
  return kernel >= 0 && kernel < PLAN_PROBE_KERNELS ? kKernelBytes[kernel] * elements : 0;
}

}  // namespace plan
