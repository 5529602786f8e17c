// Attention kernels, context parallelism, scans and expert layers of a LayerBuilder (plan-formulas(7) E2, E6, F3).
// Tested by tests/planner/estimate_test.cpp.
#include <algorithm>
#include <tuple>

#include "formulas/communication.hpp"
#include "formulas/kernel_laws.hpp"
#include "formulas/rank_grid.hpp"
#include "formulas/transient.hpp"
#include "planner/cost/layer_cost.hpp"

namespace plan {
namespace {

/// Longest sequence of Megatron's fused softmax (scaled_upper_triang_masked_softmax.h).
constexpr std::int64_t kFusedSoftmax = 4096;

/// Calls from Python that route the tokens of one layer (scores, choice, map, loss: Megatron's router.py), count them,
/// gather and copy to the host what all-to-alls need to know (token_dispatcher.py, MoEAlltoAllTokenDispatcher), order
/// them and exchange them with their scores, back as well, and drive the two grouped products (TransformerEngine's
/// GroupedLinear and its quantisers); and what one of them costs, in bare launches.
constexpr double kRouterCalls = 45, kPreprocessCalls = 20, kExchangeCalls = 18, kProductCalls = 32,
                 kLaunchesPerCall = 3;
/// The same with DeepEP, whose kernels count, send and tell the host (the same file, _DeepepManager and fused_a2a.py):
/// two copies and the chosen experts; layout, dispatch, map, order, sum, and back order and combine. HybridEP
/// (_HybridEPManager) has six fewer, since it orders as well.
constexpr double kFusedPreprocessCalls = 4, kFusedExchangeCalls = 12;
/// Of the router's calls those that choose experts (8), score them for the loss (6) and make it (4), each of which
/// TransformerEngine has in one (moe_router_fusion; Megatron core, moe_utils.py).
constexpr double kFusibleCalls = 8 + 6 + 4, kFusedCalls = 3;
/// Where all-to-alls run beside another micro-batch every layer is cut into nodes of their own (Megatron core,
/// models/gpt/fine_grained_callables.py: before dispatch, dispatch, experts, combine); and what drives one of them:
/// stream, event and range entered and left, inputs and outputs detached, recorded and freed
/// (pipeline_parallel/utils.py, ScheduleNode).
constexpr double kScheduleNodes = 4, kNodeCalls = 12;
/// Launches from C++ that multiply one expert's tokens, or quantise and multiply them, in each product.
constexpr double kExpertLaunches = 1, kQuantisedExpertLaunches = 4;

/// Bytes an element of what gpt-oss's experts do between their products, kernel by kernel: biases of both halves 12,
/// two clamps 8, sigmoid of the scaled gate 8, products with gate, shifted half and probability 22, the output's bias
/// 6; their gradients, and sums of those of the biases.
constexpr struct { double forward, backward; } kBiasedChain{56, 110};

/// Bytes an element of a chunked scan's inputs, by kernel (state-spaces/mamba, ssd_combined.py, chunks of 128 tokens
/// and a state of as many): convolution 4, states of chunks written 6 and passed on 12 in fp32, read with the inputs 8,
/// gated norm 6; backward once more all but the norm, then gradients of norm 9, states 18, inputs 12, coefficients 14,
/// convolution 6 and of the concatenated projection 4.
constexpr struct {
  const char* what;
  double forward, backward;
} kAroundScan{"convolution, gate and states of the scan", 36, 91};

double as_double(std::int64_t n) { return static_cast<double>(n); }

}  // namespace

double LayerBuilder::average_context(std::int64_t window) const {
  const double seq = training_.packed_length > 0 ? training_.packed_length : as_double(training_.seq);
  const double w = as_double(window);
  return window > 0 && w < seq ? w - w * w / (2 * seq) : seq / 2;
}

void LayerBuilder::core_attention(double heads, double kv_heads, double qk_dim, double v_dim, double context) {
  if (!stack_.flash_attention) return unfused_attention(heads, qk_dim, v_dim);
  const int spread = split_.exchanging();
  // A ring runs one kernel per hop on its own block of keys; gathered or exchanged context takes one.
  const int ring = split_.cp_kind == CpKind::Ring || split_.cp_kind == CpKind::Hybrid ? split_.cp / spread : 1;
  const AttentionWork work{.batch = static_cast<double>(split_.micro_batch),
                           .seq = as_double(training_.seq) / split_.cp * spread,
                           .context = context / ring,
                           .heads = heads / spread,
                           .qk_dim = qk_dim,
                           .v_dim = v_dim};
  const Seconds forward = ring * attention_forward_time(gpu_, work) / attention_rate();
  const Seconds backward = ring * attention_backward_time(gpu_, work) / attention_rate();
  add_launches(ring, ring);
  for (const bool back : {false, true})
    tell({.law = KernelTime::Law::Attention,
          .pass = back ? KernelTime::Pass::Backward : KernelTime::Pass::Forward,
          .time = back ? backward : forward,
          .share = attention_rate(),
          .runs = static_cast<double>(ring),
          .work = work});
  add_forward({.compute = forward}, kRecomputeCoreAttention);
  cost_.backward_input.compute += backward;
  context_messages({heads * qk_dim, kv_heads * (qk_dim + v_dim), heads * v_dim}, forward, backward);
}

double LayerBuilder::attention_rate() const {
  // Kernels of 4-byte elements reach the same share of that type's peak: measured are those of 2 bytes alone.
  const double wide_peak = gpu_.peak[static_cast<std::size_t>(DType::Fp32)].value, peak = peak_of_16_bits(gpu_).value;
  const double wide_share = wide() == DType::Fp32 && wide_peak > 0 && peak > 0 ? wide_peak / peak : 1;
  // Kernels written for Ampere's instructions keep their order on later GPUs and fall behind the vendor's together.
  const bool later = generation(gpu_.architecture) != GpuGeneration::Ampere;
  const double vendor = wide_share * fit_.attention, flash2 = vendor * (later ? fit_.flash2_rate : 1);
  switch (stack_.attention_kernel) {
    case AttentionKernel::Vendor: return vendor;
    case AttentionKernel::Flash2: return flash2;
    case AttentionKernel::Flash1: return flash2 * fit_.flash1_rate;
    case AttentionKernel::Triton: return flash2 * fit_.triton_rate;
  }
  return vendor;
}

void LayerBuilder::unfused_attention(double heads, double qk_dim, double v_dim) {
  // Two batched GEMMs around passes over the s x s scores of every head.
  const double seq = as_double(training_.seq), batch = split_.micro_batch * heads;
  const double rows = seq / split_.cp;
  const auto time = [&](GemmShape shape, Orientation o) {
    return gemm_time(gpu_, shape, wide(), o) / gemm_rate(wide());
  };
  const GemmShape score_shape{rows, seq, qk_dim, batch}, value_shape{rows, v_dim, seq, batch};
  const Seconds scores = time(score_shape, Orientation::Forward);
  const Seconds values = time(value_shape, Orientation::Forward);
  for (const double times : {1.0, 2.0})
    for (const auto& [shape, one] : {std::pair(score_shape, scores), std::pair(value_shape, values)})
      tell({.pass = times == 1 ? KernelTime::Pass::Forward : KernelTime::Pass::Backward,
            .time = times * one,
            .share = gemm_rate(wide()),
            .runs = times,
            .shape = shape});
  add_forward({.compute = scores + values}, kRecomputeCoreAttention);
  cost_.backward_input.compute += 2 * (scores + values);
  add_launches(2, 4);
  // Megatron's softmax scales and masks too and reads the lower triangle alone, for sequences up to 4096; its dropout,
  // the random state of that and the copy that puts heads beside each other again are calls of their own.
  const bool fused = stack_.fused_softmax && training_.seq <= kFusedSoftmax;
  const double passes = stack_.fused_pointwise ? 1 : fit_.eager_traffic;
  const double dropout = training_.dropout > 0 ? 5 : 0, draws = training_.dropout > 0 ? 2 : 0;
  if (fused)
    add_pointwise(
        {"softmax and dropout", batch * rows, seq, 3 + dropout, 4 + dropout, 2 + draws, kRecomputeCoreAttention});
  else
    add_pointwise({"scale, mask, softmax, dropout", batch * rows, seq, passes * 9 + dropout, passes * 10 + dropout,
                   2 + draws, kRecomputeCoreAttention});
}

void LayerBuilder::context_messages(const ContextWidths& width, Seconds forward_core, Seconds backward_core) {
  if (split_.cp == 1) return;
  const int ulysses = split_.exchanging();
  const int ring = split_.cp / ulysses;
  if (ulysses > 1) {
    const Group group = context_group(ulysses, split_.tp, 1, problem_.gpus);
    exchange_heads(group, width.queries + width.keys_values, width.results);
  }
  if (ring == 1) return;
  const Group group = context_group(ring, split_.tp, ulysses, problem_.gpus);
  const RealBytes local(element() * tokens_ * width.keys_values);  // of one rank; heads/u x tokens*u
  if (split_.cp_kind == CpKind::AllGather) {
    const Seconds gather = message_time(Collective::AllGather, local * ring, group);
    const Seconds scatter = message_time(Collective::ReduceScatter, local * ring, group);
    cost_.forward.cp += gather;
    cost_.backward_input.cp += gather + scatter;
    add_message(Axis::Cp, Collective::AllGather, group, local * ring, 2, gather, 2 * gather);
    add_message(Axis::Cp, Collective::ReduceScatter, group, local * ring, 1, scatter, scatter);
    return;
  }
  // Ring: each of c-1 hops hides under one block of attention. In the backward pass dK and dV follow one block behind
  // K and V and go the whole way round: their last hop finds nothing left to hide under.
  const Seconds hop = send_seconds<double>(cluster_, local, group);
  const Seconds both = send_seconds<double>(cluster_, 2 * local, group);
  const Seconds forward = (ring - 1) * hidden_under(hop, forward_core / ring);
  const Seconds alone = 2 * hidden_under(hop, backward_core / ring) + hop;
  const Seconds together = (ring - 2) * hidden_under(both, backward_core / ring);
  cost_.forward.cp += forward;
  cost_.backward_input.cp += alone + together;
  add_message(Axis::Cp, Collective::SendRecv, group, local, ring - 1 + 3, hop, forward + alone);
  if (ring > 2) add_message(Axis::Cp, Collective::SendRecv, group, 2 * local, ring - 2, both, together);
}

void LayerBuilder::exchange_heads(Group group, double width_in, double width_out) {
  for (const double width : {width_in, width_out}) {
    const RealBytes bytes(element() * tokens_ * width);
    const Seconds time = message_time(Collective::AllToAll, bytes, group);
    cost_.forward.cp += time;
    cost_.backward_input.cp += time;
    add_message(Axis::Cp, Collective::AllToAll, group, bytes, 2, time, 2 * time);
  }
}

void LayerBuilder::attention(const AttentionCore& core) {
  if (!core.fused) return unfused_attention(core.heads, core.qk_dim, core.v_dim);  // all scores, whatever the window
  double context = average_context(core.window);
  if (core.top_k > 0) context = std::min(context, as_double(core.top_k));
  core_attention(core.heads, core.kv_heads, core.qk_dim, core.v_dim, context);
}

void LayerBuilder::scan(const ScanCore& core) {
  add_scan(core.flops);
  if (split_.cp > 1) exchange_heads(context_group(split_.cp, split_.tp, 1, problem_.gpus), core.read, core.written);
  add_pointwise({kAroundScan.what, tokens_, core.width, kAroundScan.forward, kAroundScan.backward, 8});
}

void LayerBuilder::add_scan(Flops flops) {
  const FlopsPerSecond rate = scan_rate();
  const auto time = [&](KernelTime::Pass pass, double runs) {
    const Seconds time = scan_law<double>(runs, flops, rate);
    tell({.law = KernelTime::Law::Scan, .pass = pass, .time = time, .runs = runs, .flops = flops, .rate = rate});
    return time;
  };
  add_forward({.compute = time(KernelTime::Pass::Forward, 1)}, 0);
  cost_.backward_input.compute += time(KernelTime::Pass::Backward, 2);
}

FlopsPerSecond LayerBuilder::scan_rate() const {
  // Products of 64 to 128 rows between fp32 exponentials and masks; Mamba-2's own benchmark on A100 has a tenth of the
  // peak (arXiv:2405.21060, section 9.3).
  constexpr double kScanShare = 0.1;
  // Triton issues Ampere's instructions for them everywhere, of which a later SM does no more at once.
  constexpr double kAmpereSm = 312e12 / 108;  // FLOP/s
  double peak = peak_of_16_bits(gpu_).value;
  if (peak <= 0) peak = kUnknownRate;
  if (gpu_.sm_count > 0) peak = std::min(peak, kAmpereSm * gpu_.sm_count);
  return FlopsPerSecond(peak * kScanShare * gemm_rate(DType::Bf16) * fit_.scan);
}

void LayerBuilder::moe(const MoeShape& shape) {
  const double h = as_double(model_.hidden);
  add_routing_calls(kGraphRouter, kRouterCalls - (stack_.fused_router ? kFusibleCalls - kFusedCalls : 0));
  add_linear(shard_tokens_, as_double(shape.experts), h, wide());  // router
  add_pointwise({"router's probabilities and choice", shard_tokens_, as_double(shape.experts), 16, 12, 6});
  const bool fused = stack_.dedup_dispatch && split_.ep * split_.etp > 1;  // alone, Megatron core refuses either
  add_routing_calls(kGraphPreprocess, fused ? kFusedPreprocessCalls : kPreprocessCalls);
  add_routing_calls(kGraphExperts, kProductCalls + (fused ? kFusedExchangeCalls : kExchangeCalls));
  if (shape.latent > 0) {
    add_linear(shard_tokens_, as_double(shape.latent), h, dtype_);
    add_linear(shard_tokens_, h, as_double(shape.latent), dtype_);
  }
  routed_experts(shape);
  if (shape.shared_width == 0) return;
  const double f = as_double(shape.shared_width) / split_.tp;
  const Linear in = add_linear(tokens_, (shape.gated ? 2 : 1) * f, h, dtype_, kRecomputeSharedExperts);
  add_activation(tokens_, f, shape.gated, kRecomputeSharedExperts);
  add_linear(tokens_, h, f, dtype_, kRecomputeSharedExperts);
  tensor_messages(h, h, in);
}

double LayerBuilder::small_calls(double calls) const {
  return stack_.eager_launches ? calls * fit_.kernel_gap_us / fit_.eager_gap_us : calls;
}

void LayerBuilder::add_routing_calls(std::uint16_t scope, double calls) {
  enter(static_cast<std::uint16_t>(scope | kGraphExperts));
  const double launches = small_calls(calls * kLaunchesPerCall);
  add_launches(launches, 2 * launches);
}

void LayerBuilder::routed_experts(const MoeShape& shape) {
  const double width = as_double(shape.latent > 0 ? shape.latent : model_.hidden);
  const double f = as_double(shape.expert_width) / split_.etp;
  const double local = as_double(shape.experts) / split_.ep;
  // Each tp rank routes its share of the tokens; etp ranks then work on all of theirs together.
  const double routed = tokens_ / split_.tp * as_double(shape.top_k) * split_.etp * stack_.routing_imbalance;
  const double rows = routed / local;

  const double share = gemm_rate(dtype_) * fit_.grouped_gemm;
  const auto time = [&](double n, double k, Orientation o) {
    const Seconds one = grouped_gemm_time(gpu_, local, rows, n, k, dtype_, o) / share;
    tell({.law = KernelTime::Law::GroupedGemm,
          .pass = static_cast<KernelTime::Pass>(o),
          .time = one,
          .share = share,
          .shape = {rows, n, k, local},
          .dtype = dtype_,
          .orientation = o});
    return one;
  };
  const auto expert_linear = [&](double n, double k) {
    if (local == 1 && stack_.transformer_engine) {
      // TransformerEngine multiplies expert by expert (common/gemm/cublaslt_gemm.cu, nvte_multi_stream_cublas_gemm):
      // one alone is a product like any other.
      const Linear one = linear(rows, n, k, dtype_);
      tell_linear(rows, n, k, dtype_, one, gemm_rate(dtype_));
      return one;
    }
    return Linear{time(n, k, Orientation::Forward), time(n, k, Orientation::DataGrad),
                  trains_base_ ? time(n, k, Orientation::WeightGrad) : Seconds()};
  };
  if (stack_.ep_overlap && split_.ep > 1) add_routing_calls(kGraphExperts, kScheduleNodes * kNodeCalls);
  const double launches = small_calls(2 * local * (is_narrow(dtype_) ? kQuantisedExpertLaunches : kExpertLaunches));
  add_launches(launches, 2 * launches);
  const double inner = (shape.gated ? 2 : 1) * f;
  add_linear_cost(expert_linear(inner, width), kRecomputeMoe);
  add_linear_cost(expert_linear(width, f), kRecomputeMoe);
  quantise({dtype_, kRecomputeMoe, 0}, {routed, width + f, 0}, {routed, inner + width, 0});
  // TransformerEngine fuses them with the quantisers of MXFP8 alone (ops/fused/forward_grouped_mlp.py).
  const bool fused = stack_.fused_biased_experts && precision_ == Precision::Mxfp8;
  if (shape.expert_bias && !fused)
    add_pointwise(
        {"bias, clamp and gate", routed, f, kBiasedChain.forward, kBiasedChain.backward, 10, kRecomputeMoeActivation});
  else
    add_activation(routed, f, shape.gated, kRecomputeMoeActivation);
  add_pointwise({"permute and unpermute", 2 * routed, width, 4, 4, 4});
  expert_messages(shape, width);
}

void LayerBuilder::expert_messages(const MoeShape& shape, double width) {
  if (split_.etp > 1) {
    const Group group = expert_tensor_group(split_.etp, problem_.gpus);
    // Gathered before they are copied to their experts when that moves less (all-gather dispatcher).
    const double copies = as_double(std::min<std::int64_t>(shape.top_k, split_.ep));
    const RealBytes size(element() * tokens_ / split_.tp * copies * split_.etp * width);
    const Seconds gather = tensor_time(Collective::AllGather, size, group);
    const Seconds scatter = tensor_time(Collective::ReduceScatter, size, group);
    add_forward({.tp = gather + scatter}, 0);
    cost_.backward_input.tp += gather + scatter;
    add_message(Axis::Tp, Collective::AllGather, group, size, 2, gather, 2 * gather);
    add_message(Axis::Tp, Collective::ReduceScatter, group, size, 2, scatter, 2 * scatter);
  }
  if (split_.ep == 1) return;
  const Group group = expert_group(split_.ep, split_.etp, problem_.gpus);
  const auto exchange = [&](double element) {
    const RealBytes size =
        dispatch_bytes(tokens_ / split_.tp, shape.top_k, shape.latent > 0 ? shape.latent : model_.hidden, element);
    const int nodes = group.instances(cluster_.scale_up_size());
    // DeepEP and HybridEP send one copy of a token to each rank that has experts of it, however many.
    const double ranks =
        stack_.dedup_dispatch ? distinct_nodes(shape.experts, shape.top_k, group.size) : as_double(shape.top_k);
    Exchange out{.sent = size * ranks / as_double(shape.top_k), .imbalance = stack_.routing_imbalance};
    if (stack_.dedup_dispatch && nodes > 1) {
      // One copy of a token per node over the network, the rest over NVLink.
      const double reached = stack_.node_limit > 0 ? std::min(stack_.node_limit, nodes)
                                                   : distinct_nodes(shape.experts, shape.top_k, nodes);
      out.by_node = true;
      out.remote = RealBytes(tokens_ / split_.tp * width * element * reached * (nodes - 1) / nodes);
    }
    const Seconds all_to_all = out.by_node ? Seconds() : message_time(Collective::AllToAll, out.sent, group);
    return std::tuple(size, exchange_seconds<double>(cluster_, out, all_to_all), out);
  };
  const auto [dispatch_size, dispatch, sent] =
      exchange(stack_.fp8_dispatch && is_fp8(precision_) ? 1.0 + 1.0 / 32 : element());
  const auto [combine_size, combine, returned] = exchange(element());
  add_forward({.ep = dispatch + combine}, kRecomputeMoe);
  cost_.backward_input.ep += 2 * combine;
  add_message(Axis::Ep, Collective::AllToAll, group, dispatch_size, 1, dispatch, dispatch, sent);
  add_message(Axis::Ep, Collective::AllToAll, group, combine_size, 3, combine, 3 * combine, returned);
}

template <class V>
SecondsOf<V> exchange_seconds(const Cluster& cluster, const Exchange& exchange, const SecondsOf<V>& all_to_all) {
  using Time = SecondsOf<V>;
  const V uneven = exchange.imbalance == 1
                       ? V(1.0)
                       : symbol<V>("u", exchange.imbalance, "tokens of the most loaded rank over the mean", "stack");
  if (!exchange.by_node) return all_to_all * uneven;
  const Time network = send_seconds<V>(cluster, exchange.remote, cluster.scale_up_size());
  const Time local(
      symbol<V>("S", exchange.sent.value, "bytes that the rank sends", kShapeOrigin) /
      symbol<V>("W", cluster.gpu.scale_up.value, "bytes a second inside the domain", "GPU preset") /
      symbol<V>("eta", cluster.calibration.scale_up, "share of that rate that training reaches", kConstantsOrigin));
  return larger(lettered("r", network, "one copy of a token a node, over the network", "s"),
                lettered("l", local, "all copies, inside the domain", "s")) *
         uneven;
}
template Seconds exchange_seconds<double>(const Cluster&, const Exchange&, const Seconds&);
template Traced exchange_seconds<Traced>(const Cluster&, const Exchange&, const Traced&);

}  // namespace plan
