// Time of one transformer layer on one rank: forward, input gradient, weight gradient (plan-formulas(7) B1, E, F).
// Tested by tests/planner/estimate_test.cpp.
#include "planner/cost/layer_cost.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "formulas/bf16_layers.hpp"
#include "formulas/communication.hpp"
#include "formulas/kernel_laws.hpp"
#include "formulas/layer_rows.hpp"
#include "formulas/parameters.hpp"
#include "formulas/quantising.hpp"
#include "formulas/rank_grid.hpp"
#include "formulas/transient.hpp"

namespace plan {
namespace {

double as_double(std::int64_t n) { return static_cast<double>(n); }

}  // namespace

LayerBuilder::LayerBuilder(const Problem& problem, const Split& split, std::vector<KernelTime>* kernels,
                           CommonCosts* known)
    : problem_(problem),
      model_(problem.model),
      training_(problem.training),
      stack_(problem.training.stack),
      cluster_(problem.cluster),
      gpu_(problem.cluster.gpu),
      fit_(problem.cluster.calibration),
      split_(split),
      tokens_(as_double(problem.training.seq) * split.micro_batch / split.cp),
      shard_tokens_(split.sequence_parallel ? tokens_ / split.tp : tokens_),
      trains_base_(!problem.training.adapters()),
      kernels_(kernels),
      known_(known) {
  multiply_in(problem.training.precision);
}

void LayerBuilder::multiply_in(Precision precision) {
  precision_ = precision;
  dtype_ = stack_.fp8_rowwise ? DType::Bf16 : gemm_dtype(precision);
}

void CommonCosts::turn_to(const Split& split) {
  Split same = split;
  if (split_) same.ep = split_->ep, same.etp = split_->etp;
  if (split_ != same) parts_.clear();
  split_ = split, next_ = 0;
}

bool CommonCosts::resumes(LayerBuilder& builder) {
  if (next_ == parts_.size()) return false;
  builder.resume(parts_[next_++]);
  return true;
}

void CommonCosts::keep(const LayerBuilder& builder) { parts_.push_back(builder.so_far()), next_ = parts_.size(); }

void LayerBuilder::resume(const PartOfLayer& part) {
  cost_ = part.cost, modules_ = part.modules, graphed_ = part.graphed;
  forward_kernels_ = part.forward_kernels, backward_kernels_ = part.backward_kernels;
}

void LayerBuilder::mixer(const Layer& layer) {
  multiply_in(precision_of(layer, training_));
  adapted_ = training_.adapters() && training_.lora.attention;
  const MixerRow& row = mixer_row(layer.mixer);
  enter(row.graph);
  row.compute(*this, {.model = model_,
                      .training = training_,
                      .layer = layer,
                      .hidden = as_double(model_.hidden),
                      .t = static_cast<double>(split_.tp),
                      .c = static_cast<double>(split_.cp),
                      .tokens = tokens_,
                      .shard_tokens = shard_tokens_});
}

void LayerBuilder::feed_forward(const Layer& layer) {
  multiply_in(precision_of(layer, training_));
  adapted_ = training_.adapters() && training_.lora.ffn;
  switch (layer.ffn) {
    case Ffn::None: break;
    case Ffn::Dense:
      enter(kGraphMlp);
      dense(layer.dense);
      break;
    case Ffn::Moe: moe(layer.moe); break;
  }
  adapted_ = false;
  enter(0);
  norms(layer.norms);
  finish_layer();
}

/// The all-to-alls of one micro-batch run beside the compute of another: the pair takes the longer of both, and no less
/// than the host needs to launch it.
void LayerBuilder::finish_layer() {
  const auto compute = [&] {
    return cost_.forward.compute + cost_.backward_input.compute + cost_.backward_weight.compute;
  };
  const Seconds ep = cost_.forward.ep + cost_.backward_input.ep;
  const Seconds exposed = hidden_under(ep, compute());
  const Seconds busy = cost_.forward.total() + cost_.backward_input.total() + cost_.backward_weight.total() - ep;
  const Seconds before = compute();
  wait_for_launches();
  const Seconds idle = compute() - before;
  const Seconds launches = launch_time(forward_kernels_ + backward_kernels_);
  cost_.paired_ep = std::max(busy + exposed, launches) - busy - idle;
  if (launches > busy + exposed) cost_.waiting = std::max(cost_.waiting, 1 - (busy + exposed) / launches);
}

void LayerBuilder::dense(const DenseShape& shape) {
  const double h = as_double(model_.hidden), f = as_double(shape.width) / split_.tp;
  const Linear in = shape.gated ? add_linears(tokens_, {f, f}, h, stack_.fused_gate, kRecomputeMlp)
                                : add_linear(tokens_, f, h, dtype_, kRecomputeMlp);
  add_activation(tokens_, f, shape.gated, kRecomputeMlpActivation);
  const Linear out = add_linear(tokens_, h, f, dtype_, kRecomputeMlp);
  cost_.last.compute = out.forward;
  tensor_messages(h, h, in, shape.gated && stack_.reduces_per_linear ? 2 : 1);
}

void LayerBuilder::norms(int count) {
  // Norms and residual additions run on the sequence shard.
  const double h = as_double(model_.hidden);
  const double n = count;
  add_pointwise({"norms", n * shard_tokens_, h, 4, 6, n, kRecomputeNorm, norm_chain(model_, stack_)});
  add_pointwise({"residual additions", 2 * shard_tokens_, h, 6, 6, 2});
  if (training_.dropout > 0) add_pointwise({"dropout", 2 * shard_tokens_, h, 5, 5, 2});
}

void LayerBuilder::embedding() {
  const double h = as_double(model_.hidden);
  add_pointwise({"embedding", tokens_, h, 4, 6, 2});
  if (split_.tp == 1) return;
  const Group group = tensor_group(split_.tp, problem_.gpus);
  const RealBytes size = hidden_bytes(tokens_, model_.hidden, training_.precision);
  const Collective forward = split_.sequence_parallel ? Collective::ReduceScatter : Collective::AllReduce;
  const Seconds time = tensor_time(forward, size, group);
  cost_.forward.tp += time;
  add_message(Axis::Tp, forward, group, size, 1, time, time);
  if (!split_.sequence_parallel) return;  // what was summed passes its gradient on as it is
  const Seconds gather = message_time(Collective::AllGather, size, group);
  cost_.backward_input.tp += gather;
  add_message(Axis::Tp, Collective::AllGather, group, size, 1, gather, gather);
}

void LayerBuilder::head() {
  const double h = as_double(model_.hidden);
  const double vocab = as_double(padded_vocab(model_.vocab, split_.tp)) / split_.tp;
  const Linear out = add_linear(tokens_, vocab, h, wide_dtype(training_.precision));
  const bool unfused = stack_.cross_entropy == CrossEntropy::Unfused || stack_.cross_entropy == CrossEntropy::Eager;
  add_pointwise({"cross entropy", tokens_, vocab, unfused ? 22. : 8., unfused ? 10. : 4., unfused ? 8. : 2.});
  add_pointwise({"final norm", shard_tokens_, h, 4, 6, 1, 0, norm_chain(model_, stack_)});
  if (split_.tp == 1) return;
  const Group group = tensor_group(split_.tp, problem_.gpus);
  const RealBytes size = hidden_bytes(tokens_, model_.hidden, training_.precision);
  if (split_.sequence_parallel) {
    const Seconds gather = tensor_time(Collective::AllGather, size, group);
    const Seconds scatter = tensor_time(Collective::ReduceScatter, size, group);
    cost_.forward.tp += gather;
    const Seconds again = stack_.keeps_gathered ? Seconds() : hidden_under(gather, out.data);
    const Seconds hidden = reduced_beside(scatter, out.weight);
    cost_.backward_input.tp += again + hidden;
    add_message(Axis::Tp, Collective::AllGather, group, size, stack_.keeps_gathered ? 1 : 2, gather, gather + again);
    add_message(Axis::Tp, Collective::ReduceScatter, group, size, 1, scatter, hidden);
  } else {
    const Seconds reduce = tensor_time(Collective::AllReduce, size, group);
    const Seconds hidden = reduced_beside(reduce, out.weight);
    cost_.backward_input.tp += hidden;
    add_message(Axis::Tp, Collective::AllReduce, group, size, 1, reduce, hidden);
  }
  const RealBytes numbers(4 * tokens_);  // max, target logit, sum
  const Seconds loss = tensor_time(Collective::AllReduce, numbers, group);
  cost_.forward.tp += 3 * loss;
  add_message(Axis::Tp, Collective::AllReduce, group, numbers, 3, loss, 3 * loss);
}

void LayerBuilder::mtp_projection() {
  const double h = as_double(model_.hidden);
  add_linear(tokens_, h / split_.tp, 2 * h, dtype_);
}

void LayerBuilder::tensor_messages(double width_in, double width_out, const Linear& column, int sums) {
  if (split_.tp == 1) return;
  const Group group = tensor_group(split_.tp, problem_.gpus);
  const RealBytes in(element() * tokens_ * width_in), out(element() * tokens_ * width_out);
  const RealBytes gathered = gathered_bytes(training_, precision_, false) * tokens_ * width_in;
  const RealBytes gathered_grad = gathered_bytes(training_, precision_, true) * tokens_ * width_out;
  if (split_.sequence_parallel) {
    const Seconds gather = tensor_time(Collective::AllGather, gathered, group);
    const Seconds scatter = tensor_time(Collective::ReduceScatter, out, group);
    const Seconds gather_grad = tensor_time(Collective::AllGather, gathered_grad, group);
    const Seconds scatter_grad = tensor_time(Collective::ReduceScatter, in, group);
    const Seconds again = stack_.keeps_gathered ? Seconds() : hidden_under(gather, column.data);
    const Seconds hidden_scatter = reduced_beside(scatter_grad, column.weight);
    cost_.forward.tp += chunked(gather) + chunked(scatter) + summed_chunks(width_out);
    cost_.backward_input.tp += chunked(gather_grad) + again + hidden_scatter + summed_chunks(width_in);
    cost_.split_penalty += scatter_grad - hidden_scatter;
    add_message(Axis::Tp, Collective::AllGather, group, gathered, stack_.keeps_gathered ? 1 : 2, gather,
                chunked(gather) + again);
    add_message(Axis::Tp, Collective::ReduceScatter, group, out, 1, scatter,
                chunked(scatter) + summed_chunks(width_out));
    add_message(Axis::Tp, Collective::AllGather, group, gathered_grad, 1, gather_grad, chunked(gather_grad));
    add_message(Axis::Tp, Collective::ReduceScatter, group, in, 1, scatter_grad,
                hidden_scatter + summed_chunks(width_in));
    add_launches(2, stack_.keeps_gathered ? 2 : 3);
  } else {
    const Seconds forward = tensor_time(Collective::AllReduce, out, group);
    const Seconds backward = tensor_time(Collective::AllReduce, in, group);
    const Seconds hidden = sums * reduced_beside(backward, column.weight / sums);
    cost_.forward.tp += chunked(forward);
    cost_.backward_input.tp += hidden;
    cost_.split_penalty += sums * backward - hidden;
    add_message(Axis::Tp, Collective::AllReduce, group, out, 1, forward, chunked(forward));
    add_message(Axis::Tp, Collective::AllReduce, group, in, sums, backward, hidden);
    add_launches(1, sums);
  }
}

void LayerBuilder::enter(std::uint16_t scopes) {
  // A graph is replayed by one call that copies its inputs in and its outputs out
  // (megatron/core/transformer/cuda_graphs.py, TransformerEngine's make_graphed_callables).
  constexpr double kReplay = 3;
  graphed_ = false;
  if (!(stack_.graph_scopes & scopes)) return;
  add_launches(kReplay, kReplay);
  graphed_ = true;
}

void LayerBuilder::add_launches(double forward, double backward) {
  if (!graphed_) forward_kernels_ += forward, backward_kernels_ += backward;
}

Seconds LayerBuilder::launch_time(double kernels) const {
  if (stack_.cuda_graphs) return {};
  return launch_law(kernels, stack_.eager_launches ? fit_.eager_gap_us : fit_.kernel_gap_us);
}

void LayerBuilder::wait_for_launches() {
  const auto wait = [&](Phase& phase, KernelTime::Pass pass, double kernels, Seconds busy) {
    const Seconds idle = std::max(Seconds(), launch_wait_law<double>(launch_time(kernels), busy));
    phase.compute += idle;
    if (idle > Seconds()) cost_.waiting = std::max(cost_.waiting, idle / phase.total());
    tell({.law = KernelTime::Law::Launches,
          .pass = pass,
          .time = idle,
          .kernels = kernels,
          .launch = launch_time(1),
          .busy = busy});
  };
  const Seconds backward = cost_.backward_input.total() + cost_.backward_weight.total();
  wait(cost_.forward, KernelTime::Pass::Forward, forward_kernels_, cost_.forward.total());
  wait(cost_.backward_input, KernelTime::Pass::Backward, backward_kernels_, backward);
}

Seconds LayerBuilder::pointwise_time(const Pointwise& work, KernelTime::Pass pass, RealBytes each) const {
  const Seconds time = memory_bound_time(gpu_, each * work.rows * work.width, work.kernels) / fit_.memory_bound;
  tell({.law = KernelTime::Law::Memory,
        .pass = pass,
        .time = time,
        .share = fit_.memory_bound,
        .what = work.what,
        .rows = work.rows,
        .width = work.width,
        .each = each,
        .kernels = work.kernels});
  return time;
}

void LayerBuilder::add_pointwise(const Pointwise& work) {
  add_launches(work.kernels, work.kernels);
  const bool chain = !stack_.fused_pointwise && work.chain.forward > 0;
  const auto time = [&](KernelTime::Pass pass, double fused, double unfused) {
    return pointwise_time(work, pass, RealBytes(element() / 2 * (chain ? unfused : fused)));
  };
  add_forward({.compute = time(KernelTime::Pass::Forward, work.forward, work.chain.forward)}, work.module);
  cost_.backward_input.compute += time(KernelTime::Pass::Backward, work.backward, work.chain.backward);
}

void LayerBuilder::add_activation(double rows, double width, bool gated, std::uint16_t module) {
  if (gated)
    add_pointwise({"gated activation", rows, width, 6, 10, 1, module, kGatedChain});
  else
    add_pointwise({"activation", rows, width, 4, 6, 1, module});
}

void LayerBuilder::add_forward(const Phase& phase, std::uint16_t module) {
  cost_.forward += phase;
  if (module != 0) modules_[static_cast<std::size_t>(std::countr_zero(module))] += phase;
}

void LayerBuilder::add_message(Axis axis, Collective op, Group group, RealBytes size, double count, Seconds time,
                               Seconds exposed, const Exchange& exchange) {
  if (known_ != nullptr) return;
  for (Message& message : cost_.messages)
    if (message.axis == axis && message.op == op && message.size == size && message.group.size == group.size &&
        message.group.stride == group.stride) {
      message.count += count, message.exposed += exposed;
      return;
    }
  cost_.messages.push_back({axis, op, group, size, count, time, exposed, exchange});
}

Seconds LayerBuilder::message_time(Collective op, RealBytes size, Group group) const {
  const auto time = [&] { return collective_seconds<double>(cluster_, op, size, group); };
  return known_ == nullptr || group.size < 1 ? time() : known_->messages.of(op, size, 1, group, time);
}

Seconds LayerBuilder::reduced_beside(Seconds communication, Seconds weight_gradient) const {
  if (stack_.tp_async_reduce) return hidden_under(communication, weight_gradient);
  return chunked(communication);  // beside the input gradient itself
}

Seconds LayerBuilder::chunked(Seconds communication) const {
  if (!stack_.tp_overlap || !(pipelined_by_torch() || userbuffers_carry(precision_))) return communication;
  const Seconds first = communication / split_.tp;  // one chunk finds no product beside it
  // Userbuffers leave the rest to copy engines. PyTorch's chunks alternate between two streams that wait for all ranks,
  // and slow the product like whatever else is hidden.
  return first + (pipelined_by_torch() ? fit_.overlap_tax * (communication - first) : Seconds());
}

Seconds LayerBuilder::summed_chunks(double width) const {
  // PyTorch's pipelined product and reduce-scatter leaves a partial sum of every rank, which one more kernel adds up
  // (torch/distributed/_symmetric_memory, _fused_matmul_reduce_scatter_impl). Userbuffers add while they copy.
  if (!stack_.tp_overlap || !pipelined_by_torch()) return {};
  const RealBytes each(element() * (1 + 1.0 / split_.tp) * tokens_ * width);
  return memory_bound_time(gpu_, each, 1) / fit_.memory_bound;
}

Seconds LayerBuilder::hidden_under(Seconds communication, Seconds compute) const {
  return std::max(Seconds(), communication - compute) + fit_.overlap_tax * std::min(communication, compute);
}

}  // namespace plan
