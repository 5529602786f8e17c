// Attention on AMD's GPUs: there is no library that computes causal attention behind an interface in C, so that it is
// not measured, and the plan rests on the preset's figures for it.
#include "hwprobe/cuda/device.cuh"

namespace plan_cuda::dnn {
class Library {};
}  // namespace plan_cuda::dnn

namespace plan_cuda {

void preload_attention() {}

std::string cudnn_version(Device&) { return {}; }

Status measure_attention(Device&, const plan_probe_point&, plan_probe_result&) {
  return failed(maker::kNoAttention, PLAN_PROBE_UNSUPPORTED);
}

}  // namespace plan_cuda
