// Linears of a layer on one rank: their three products, what quantising their inputs costs, and adapters beside them
// (plan-formulas(7) B1, E). Tested by tests/planner/estimate_test.cpp.
#include <numeric>

#include "formulas/efficiency.hpp"
#include "formulas/quantising.hpp"
#include "formulas/states.hpp"
#include "formulas/transient.hpp"
#include "planner/cost/layer_cost.hpp"

namespace plan {

double LayerBuilder::gemm_rate(DType dtype) const {
  const bool fp8 = dtype == DType::Fp8, fp4 = dtype == DType::Fp4;
  switch (generation(gpu_.architecture)) {
    case GpuGeneration::Blackwell:
      return fit_.gemm * fit_.blackwell * (fp8 ? fit_.blackwell_fp8 : fp4 ? fit_.blackwell_fp4 : 1);
    case GpuGeneration::Hopper: return fit_.gemm * fit_.hopper * (fp8 || fp4 ? fit_.hopper_fp8 : 1);
    case GpuGeneration::Ampere: break;
  }
  return fit_.gemm;
}

LinearTime LayerBuilder::linear_time(double m, double n, double k, DType dtype) const {
  const auto time = [&](GemmShape shape, Orientation orientation) {
    return gemm_time(gpu_, shape, dtype, orientation) / gemm_rate(dtype);
  };
  Linear cost{.forward = time({m, n, k}, Orientation::Forward), .data = time({m, k, n}, Orientation::DataGrad)};
  if (trains_base_) cost.weight = time({n, k, m}, Orientation::WeightGrad);
  return cost;
}

LayerBuilder::Linear LayerBuilder::add_linear(double m, double n, double k, DType dtype, std::uint16_t module) {
  const Linear cost = add_products(m, n, k, dtype, module);
  add_quantising(m, n, k, dtype, module);
  return cost;
}

LayerBuilder::Linear LayerBuilder::add_linears(double m, std::initializer_list<double> widths, double k, bool fused,
                                               std::uint16_t module) {
  const double width = std::accumulate(widths.begin(), widths.end(), 0.0);
  if (fused) return add_linear(m, width, k, dtype_, module);
  Linear all{};
  for (const double n : widths) {
    const Linear one = add_products(m, n, k, dtype_, module);
    all.forward += one.forward, all.data += one.data, all.weight += one.weight;
  }
  add_input_gradients(m, static_cast<double>(widths.size()), k);
  // A compiler quantises the input that they share once, and so do we of eager stacks: none of them is known to run
  // fp8 without one.
  add_quantising(m, width, k, dtype_, module);
  return all;
}

void LayerBuilder::add_input_gradients(double m, double products, double k) {
  // Autograd adds them up two by two: reads two, writes one. A compiler adds all in one kernel, and where no collective
  // wants their sum, in the one that reads it.
  const double sums = products - 1;
  const double each = !stack_.fused_pointwise ? 3 * sums : split_.tp > 1 ? products + 1 : sums;
  const double kernels = stack_.fused_pointwise ? 1 : sums;
  add_launches(0, kernels);
  cost_.backward_input.compute += pointwise_time({"sum of input gradients", m, k, 0, 0, kernels},
                                                 KernelTime::Pass::Backward, RealBytes(element() * each));
}

LayerBuilder::Linear LayerBuilder::add_products(double m, double n, double k, DType dtype, std::uint16_t module) {
  Linear cost = linear(m, n, k, dtype);
  tell_linear(m, n, k, dtype, cost, gemm_rate(dtype));
  if (adapted_) {  // two thin GEMMs beside the frozen one
    const double rank = static_cast<double>(training_.lora.rank);
    const auto thin = [&](GemmShape shape, Orientation o) { return gemm_time(gpu_, shape, wide(), o); };
    cost.forward += thin({m, rank, k}, Orientation::Forward) + thin({m, n, rank}, Orientation::Forward);
    cost.data += thin({m, k, rank}, Orientation::DataGrad) + thin({m, rank, n}, Orientation::DataGrad);
    cost.weight += thin({rank, k, m}, Orientation::WeightGrad) + thin({n, rank, m}, Orientation::WeightGrad);
    tell_adapters(m, n, k);
    // Two products, a scale and a sum; twice as many backward, where each product has two gradients.
    constexpr double kAdapter = 4;
    add_launches(kAdapter, 2 * kAdapter);
  }
  if (!stack_.gradient_fusion && stack_.states != StateLayout::Fsdp2 && cost.weight > Seconds()) {
    // The gradient is written, read, and added to its sum in a pass of its own; DeepSpeed's bf16 optimizer makes an
    // fp32 copy of it first (bf16_optimizer.py, update_hp_grads).
    const double copy = stack_.states == StateLayout::DeepSpeed && training_.grad_bytes == 4 ? 4 + 4 : 0;
    cost.weight += pointwise_time({"sum of the gradient", n, k, 0, 0, 1}, KernelTime::Pass::WeightGrad,
                                  RealBytes(4 + copy + 2 * training_.grad_bytes));
  }
  if (training_.task == Task::Qlora) {
    // Weights of 4 bits are turned to 16 in a kernel of their own before each product (bitsandbytes, MatMul4Bit).
    const RealBytes each = frozen_weight_bytes(training_) + RealBytes(2);
    const auto time = [&](KernelTime::Pass pass) {
      return pointwise_time({"weights from 4 bits to 16", n, k, 0, 0, 1}, pass, each);
    };
    add_launches(1, 1);
    cost.forward += time(KernelTime::Pass::Forward), cost.data += time(KernelTime::Pass::Backward);
  }
  add_linear_cost(cost, module);
  return cost;
}

void LayerBuilder::add_quantising(double m, double n, double k, DType dtype, std::uint16_t module) {
  if (stack_.fp8_rowwise && is_narrow(precision_) && dtype == dtype_) add_row_scales(m, n, k);
  // Under sequence parallelism what is as wide as the model is quantised before it is gathered.
  const bool whole = m != tokens_ || shard_tokens_ == tokens_;
  const auto operand = [&](double width) {
    return !whole && width == static_cast<double>(model_.hidden) ? Operand{shard_tokens_, width, m}
                                                                 : Operand{m, width, 0};
  };
  quantise({dtype, module, 1}, operand(k), operand(n));
}

void LayerBuilder::quantise(const Quantised& what, const Operand& inputs, const Operand& gradients) {
  if (!is_narrow(what.dtype)) return;
  const auto index = static_cast<std::size_t>(what.dtype);
  if (gpu_.gemm[index][0].fit.rate.value <= 0) return;  // the gain of a type that nobody measured is net of it
  const GpuGeneration chip = generation(gpu_.architecture);
  const RealBytes turned = trains_base_ ? transposing_bytes(training_.precision, chip) : RealBytes();
  const auto time = [&](const char* name, const Operand& of, KernelTime::Pass pass) {
    const bool later = of.gathered > 0 && turned > RealBytes();  // its columns are copied once it is whole
    const RealBytes each = quantising_bytes(training_, chip, trains_base_ && !later);
    const Seconds cast = pointwise_time({name, of.rows, of.width, 0, 0, what.kernels}, pass, each);
    return later ? cast + pointwise_time({"transposition", of.gathered, of.width, 0, 0, what.kernels}, pass, turned)
                 : cast;
  };
  add_launches(what.kernels, what.kernels);
  add_forward({.compute = time("quantisation of inputs", inputs, KernelTime::Pass::Forward)}, what.module);
  cost_.backward_input.compute += time("quantisation of gradients", gradients, KernelTime::Pass::Backward);
}

void LayerBuilder::add_row_scales(double m, double n, double k) {
  // Each operand is read in 16 bits and written in 8, once along either of its axes.
  constexpr double kQuantise = 2 + 1;
  add_pointwise({"row-wise scales", m, k, kQuantise, kQuantise, 1});
  add_pointwise({"row-wise scales of the gradient", m, n, 0, 2 * kQuantise, 1});
  add_pointwise({"row-wise scales of the weights", n, k, kQuantise, kQuantise, 1});
}

void LayerBuilder::tell_linear(double m, double n, double k, DType dtype, const Linear& cost, double share) const {
  using Pass = KernelTime::Pass;
  const auto one = [&](Pass pass, GemmShape shape, Orientation orientation, Seconds time) {
    tell({.pass = pass, .time = time, .share = share, .shape = shape, .dtype = dtype, .orientation = orientation});
  };
  one(Pass::Forward, {m, n, k}, Orientation::Forward, cost.forward);
  one(Pass::Backward, {m, k, n}, Orientation::DataGrad, cost.data);
  one(Pass::WeightGrad, {n, k, m}, Orientation::WeightGrad, cost.weight);
}

void LayerBuilder::tell_adapters(double m, double n, double k) const {
  if (kernels_ == nullptr) return;
  const double rank = static_cast<double>(training_.lora.rank);
  for (const auto& [out, in] : {std::pair(rank, k), std::pair(n, rank)}) {
    const auto time = [&](GemmShape shape, Orientation o) { return gemm_time(gpu_, shape, wide(), o); };
    tell_linear(m, out, in, wide(),
                {time({m, out, in}, Orientation::Forward), time({m, in, out}, Orientation::DataGrad),
                 time({out, in, m}, Orientation::WeightGrad)},
                1);
  }
}

void LayerBuilder::add_linear_cost(const Linear& cost, std::uint16_t module) {
  add_launches(1, 2);
  add_forward({.compute = cost.forward}, module);
  cost_.backward_input.compute += cost.data;
  cost_.backward_weight.compute += cost.weight;
}

}  // namespace plan
