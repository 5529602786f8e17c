// The catalog's table of efficiency laws. Tested by tests/formulas/equations_test.cpp.
#include "formulas/textbook/efficiency_laws.hpp"

#include <array>
#include <string>

#include "formulas/kernel_laws.hpp"

namespace plan::law {
namespace {

constexpr std::string_view kFitted = "fitted to NVIDIA's and SimuMax's published kernels, presets/efficiency";

// Without equations: the laws tell those themselves, below.
constexpr Formula kGemm{"gemm-time", "GEMM outside the measured shapes: a roofline with a soft knee", {}, "seconds",
                        kFitted,     "Inside the measured grid the rate is interpolated instead."};
constexpr Formula kGrouped{"grouped-gemm-time",
                           "Grouped GEMM of a MoE layer",
                           {},
                           "seconds",
                           kFitted,
                           "B holds every expert's weights: few rows per expert make it a read of the weights."};
constexpr Formula kAttention{"attention-time",
                             "Fused attention kernel",
                             {},
                             "seconds",
                             kFitted,
                             "Backward: 2.5 times the FLOPs, with its own rate."};
constexpr Formula kMemory{"memory-bound-time",
                          "Kernels bound by memory",
                          {},
                          "seconds",
                          "ai-dynamo/aiconfigurator's default: 0.8 of HBM and 3 us a kernel"};
constexpr Formula kCollective{"collective-time",
                              "Collective by latency and bus bandwidth with a soft knee",
                              {},
                              "seconds",
                              "fitted to NVIDIA's published nccl-tests curves, presets/efficiency",
                              "p = 1 adds latency and transfer; measured curves have p near 0.62 inside a node and 0.8 "
                              "over the network: slower around the knee than the sum."};

constexpr Symbol kRate{"F", "rate of large shapes", "FLOP/s"};
constexpr Symbol kBandwidth{"W", "memory bandwidth", "bytes/s"};
constexpr Symbol kBytes{"B", "bytes moved", "bytes", kNoTypical, Domain::Amount};
constexpr Symbol kFloor{"t_0", "time of an empty kernel", "seconds", 3e-6, Domain::Amount};
constexpr Symbol kGemmSymbols[] = {{"m", "rows of the result"},
                                   {"n", "columns of the result"},
                                   {"k", "length of the sums"},
                                   kBytes,
                                   kFloor,
                                   kRate,
                                   kBandwidth};
constexpr Symbol kGroupedSymbols[] = {{"E", "experts on this GPU"},
                                      {"m", "tokens of one expert"},
                                      {"n", "columns of the weight"},
                                      {"k", "rows of the weight"},
                                      kBytes,
                                      {"t_e", "launch of one expert", "seconds", 3.6e-6, Domain::Amount},
                                      kRate,
                                      kBandwidth};
constexpr Symbol kAttentionSymbols[] = {
    {"b", "sequences"},
    {"a", "heads on this GPU"},
    {"s", "queries of a sequence"},
    {"c", "keys that a query meets on average, s/2 if causal"},
    {"d", "head size", "", 128},
    kFloor,
    kRate,
    {"s0", "short sequences: length at which the rate halves", "", 0, Domain::Amount},
    {"b0", "small kernels: rows at which the rate halves, in 1024", "", 0, Domain::Amount},
    {"d0", "softmax, in units of head size", "", 0, Domain::Amount}};
constexpr Symbol kMemorySymbols[] = {kBytes,
                                     {"n", "kernels", "", 1, Domain::Amount},
                                     kFloor,
                                     {"e", "share of the bandwidth reached", "", 0.8},
                                     kBandwidth};
constexpr Symbol kCollectiveSymbols[] = {{"S_w", "bytes on the wire of one rank", "bytes"},
                                         {"alpha", "latency of the smallest message", "seconds"},
                                         {"W", "bus bandwidth of the largest message", "bytes/s"},
                                         {"p", "softness of the knee", "", 0.62, Domain::Share}};

constexpr CatalogEntry kEntries[] = {
    entry<gemm>(kGemm, kGemmSymbols),
    entry<grouped_gemm>(kGrouped, kGroupedSymbols),
    entry<attention>(kAttention, kAttentionSymbols),
    entry<memory_bound>(kMemory, kMemorySymbols),
    entry<collective>(kCollective, kCollectiveSymbols),
};

// Each law on plain numbers: the function of the catalog with V = double, its equation with V = Traced.

template <class V>
SecondsOf<V> law_of(const GemmInput& in) {
  const GemmFit fit{
      .t0 = Seconds(in.floor), .rate = FlopsPerSecond(in.rate), .bandwidth = BytesPerSecond(in.bandwidth)};
  return roofline_law<V>(fit, product_flops<V>({in.m, in.n, in.k}), symbol<V>("B", in.bytes, "bytes moved", ""));
}

template <class V>
SecondsOf<V> law_of(const GroupedGemmInput& in) {
  const GroupedGemmFit fit{Seconds(in.per_expert), FlopsPerSecond(in.rate), BytesPerSecond(in.bandwidth)};
  return grouped_law<V>(fit, {in.rows, in.n, in.k, in.experts}, RealBytes(in.bytes));
}

template <class V>
SecondsOf<V> law_of(const AttentionInput& in) {
  const AttentionFit fit{
      .t0 = Seconds(in.floor), .rate = FlopsPerSecond(in.rate), .s0 = in.s0, .b0 = in.b0, .d0 = in.d0};
  return attention_law<V>(fit, {in.batch, in.seq, in.context, in.heads, in.dim, in.dim}, false);
}

template <class V>
SecondsOf<V> law_of(const MemoryInput& in) {
  Gpu gpu;
  gpu.memory_efficiency = in.efficiency;
  gpu.memory_bandwidth = BytesPerSecond(in.bandwidth);
  gpu.kernel_floor = Seconds(in.floor);
  return memory_bound_law<V>(gpu, symbol<V>("B", in.bytes, "bytes moved", ""),
                             symbol<V>("n", in.kernels, "kernels", ""));
}

template <class V>
SecondsOf<V> law_of(const CollectiveInput& in) {
  const V transfer = symbol<V>("S_w", in.wire, "bytes on the wire of one rank", "") /
                     symbol<V>("W", in.busbw, "bus bandwidth of the largest message", "");
  return message_law<V>({.alpha = Seconds(in.alpha), .transfer = {}, .p = in.p}, transfer, "");
}

/// The equation of a law, on numbers of which no term of it is nothing.
template <class Input>
std::string equation_of(const Input& any) {
  return law_of<Traced>(any).equation();
}

}  // namespace

Seconds gemm(const GemmInput& in) { return law_of<double>(in); }
Seconds grouped_gemm(const GroupedGemmInput& in) { return law_of<double>(in); }
Seconds attention(const AttentionInput& in) { return law_of<double>(in); }
Seconds memory_bound(const MemoryInput& in) { return law_of<double>(in); }
Seconds collective(const CollectiveInput& in) { return law_of<double>(in); }

std::span<const CatalogEntry> efficiency_formulas() {
  static const std::array equations = {
      equation_of(GemmInput{2, 3, 5, 7, 11, 13, 17}), equation_of(GroupedGemmInput{2, 3, 5, 7, 11, 13, 17, 19}),
      equation_of(AttentionInput{2, 3, 5, 7, 11, 13, 17, 19, 23, 29}), equation_of(MemoryInput{2, 3, 5, 7, 11}),
      equation_of(CollectiveInput{2, 3, 5, 0.7})};
  static const auto entries = [] {
    std::array<CatalogEntry, std::size(kEntries)> out{};
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = kEntries[i];
      out[i].formula.equation = equations.at(i);
    }
    return out;
  }();
  return entries;
}

}  // namespace plan::law
