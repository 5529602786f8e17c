#include "oracle/faulty_run.hpp"

#include <algorithm>
#include <cmath>
#include <map>

namespace plan::oracle {
namespace {

constexpr int kUnits = 12;   ///< what the rank computes is cut into so many equal pieces, forward and backward
constexpr int kBuckets = 8;  ///< of gradients
constexpr double kNoise = 0.03;
/// Shares of a unit's compute; of experts' layers half of the products is in the experts.
constexpr double kProducts = 0.66, kAttention = 0.14, kPointwise = 0.20, kOfExperts = 0.5;
constexpr double kNetworkRatio = 9;  ///< of a node's links to what one GPU has to the outside: 450 and 50 GB/s

double size_of(const std::vector<std::pair<Trouble, double>>& troubles, Trouble one) {
  for (const auto& [trouble, size] : troubles)
    if (trouble == one) return size;
  return 0;
}

/// Seconds of everything in one step, once the troubles that lengthen single things have done so.
struct Lengths {
  double products = 0, experts = 0, attention = 0,
         pointwise = 0;           ///< of one unit forward; backward takes twice as long
  double tp = 0, cp = 0, ep = 0;  ///< exposed, of one unit forward or backward
  double hop = 0, bubble = 0, optimizer = 0, idle = 0;
  double wire = 0;  ///< of the gradients' messages
  [[nodiscard]] double unit() const { return products + experts + attention + pointwise; }
};

class Step {
 public:
  Step(const PlannedStep& planned, std::vector<std::pair<Trouble, double>> troubles, std::mt19937& random)
      : planned_(planned), troubles_(std::move(troubles)), random_(random) {}

  /// Errors of the run as a whole, drawn once.
  void settle() {
    for (const char* kind : {"compute", "tp", "cp", "ep", "pp", "dp", "optimizer"}) errs_[kind] = noisy(1);
  }

  std::vector<Event> run(double& length) {
    events_.clear(), now_ = 0, computed_ = 0;
    const Lengths at = lengths();
    start(at);
    const bool again = planned_.recomputed || has(Trouble::Recomputation);
    for (int i = 0; i < kUnits; ++i) pass(at, true);
    const double before = now_;
    std::vector<std::pair<double, double>> done;  // of each unit: when, and how much was computed by then
    for (int i = 0; i < kUnits; ++i) {
      if (again) pass(at, true);
      pass(at, false);
      done.emplace_back(now_, computed_);
    }
    wait_for_neighbours(at, 0.5);
    gradients(at, before, done);
    kernel("void at::native::multi_tensor_apply_kernel<FusedAdamMathFunctor>", at.optimizer);
    length = now_;
    return events_;
  }

 private:
  [[nodiscard]] bool has(Trouble trouble) const { return size_of(troubles_, trouble) > 0; }
  [[nodiscard]] double factor(Trouble trouble) const { return has(trouble) ? size_of(troubles_, trouble) : 1; }
  double noisy(double value) { return value * std::exp(kNoise * std::normal_distribution<double>()(random_)); }

  [[nodiscard]] double err(const char* kind) const {
    const auto at = errs_.find(kind);
    return at == errs_.end() ? 1 : at->second;
  }

  /// What messages take on the wire beyond the plan, shared out over inside and between nodes.
  [[nodiscard]] double wire_of(const PlannedStep::Wire& wire, bool spread) const {
    const double inside = spread ? wire.inside * kNetworkRatio : wire.inside * factor(Trouble::SlowLinks);
    return inside + wire.between * factor(Trouble::SlowNetwork);
  }
  /// The same of gradients. Replicas that share a node send through as many of its NICs; where stages stand between
  /// them, fewer do.
  [[nodiscard]] double gradients_wire() const {
    if (!has(Trouble::WrongOrder)) return wire_of(planned_.dp, false);
    const int block = planned_.tp_ranks * planned_.cp_ranks;
    const double planned = std::min(planned_.dp_ranks, planned_.node / block);
    const double now = std::max(1, planned_.node / (block * planned_.pp_ranks));
    const PlannedStep::Wire moved{0, planned_.dp.inside * kNetworkRatio / now + planned_.dp.between * planned / now, 0};
    return wire_of(moved, false);
  }
  /// Stages that share a node hand over inside it.
  [[nodiscard]] double hand_over() const {
    const bool near = planned_.tp_ranks * planned_.cp_ranks * planned_.pp_ranks <= planned_.node;
    return has(Trouble::WrongOrder) && near ? planned_.hop / kNetworkRatio * factor(Trouble::SlowLinks)
                                            : planned_.hop * factor(Trouble::SlowNetwork);
  }
  /// Of that, what nobody hides: what was hidden stays so.
  [[nodiscard]] double exposed_of(const PlannedStep::Wire& wire, bool spread) const {
    return std::max(0.0, wire_of(wire, spread) - (wire.all() - wire.exposed));
  }

  [[nodiscard]] Lengths lengths() const {
    Lengths out;
    const double passes = (planned_.recomputed ? 4 : 3) * kUnits;  // backward takes twice as long as forward
    const double unit = planned_.compute / passes * err("compute");
    const double clocks = factor(Trouble::LowClocks);
    const double products = unit * kProducts * clocks, of_experts = planned_.moe ? kOfExperts : 0;
    out.products = products * (1 - of_experts);
    out.experts = products * of_experts * factor(Trouble::Imbalance);
    out.attention = unit * kAttention * clocks;
    out.pointwise = unit * kPointwise * (has(Trouble::EagerKernels) ? size_of(troubles_, Trouble::EagerKernels) : 1);
    const bool spread = has(Trouble::SpreadGroups);
    out.tp = exposed_of(planned_.tp, spread) / (2 * kUnits) * err("tp");
    out.cp = exposed_of(planned_.cp, spread) / (3 * kUnits) * err("cp");
    out.ep = exposed_of(planned_.ep, false) / (2 * kUnits) * err("ep") * factor(Trouble::Imbalance);
    out.wire = gradients_wire() * err("dp");
    const double healthy = planned_.compute / kUnits + 2 * exposed(planned_) / (2 * kUnits);
    const double now = (planned_.recomputed ? 4 : 3) * out.unit() + 2 * (out.tp + out.ep) + 3 * out.cp +
                       (has(Trouble::Recomputation) ? out.unit() + out.tp + out.ep + out.cp : 0);
    out.bubble = planned_.bubble * now / healthy * err("pp");
    out.hop = hand_over() * err("pp");
    out.optimizer = planned_.optimizer * err("optimizer");
    out.idle = 0.004;
    return out;
  }
  static double exposed(const PlannedStep& step) { return step.tp.exposed + step.ep.exposed + step.cp.exposed; }

  void kernel(const std::string& name, double length, const std::string& axis = {}) {
    if (!(length > 0)) return;
    const double noisy_length = noisy(length);
    events_.push_back({name, axis, now_, noisy_length, false});
    now_ += noisy_length;
    if (axis.empty()) computed_ += noisy_length;
  }
  void host(const std::string& name, double length) {
    events_.push_back({name, {}, now_, length, true});
    now_ += length;
  }

  /// Nothing runs until the batch is there; then the pipeline fills.
  void start(const Lengths& at) {
    now_ += noisy(at.idle);
    if (has(Trouble::DataLoading))
      host("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
           noisy((factor(Trouble::DataLoading) - 1) * planned_.planned_step));
    wait_for_neighbours(at, 0.5);
    if (planned_.dp_ranks > 1 || !has(Trouble::SlowRank)) return;
    const double late = (factor(Trouble::SlowRank) - 1) * planned_.compute;
    if (planned_.pp_ranks > 1)
      kernel("ncclDevKernel_SendRecv", late, "pp");
    else if (planned_.tp_ranks > 1)
      kernel("ncclDevKernel_AllGather_RING_LL", late, "tp");
  }

  void wait_for_neighbours(const Lengths& at, double share) {
    if (planned_.pp_ranks > 1) kernel("ncclDevKernel_SendRecv", share * (at.bubble + at.hop), "pp");
  }

  /// One unit of layers forward, or backward with twice the work.
  void pass(const Lengths& at, bool forward) {
    const double times = forward ? 1 : 2;
    const bool eager = has(Trouble::EagerKernels);
    const char* const norm = eager ? "void at::native::reduce_kernel<512, 1, at::native::MeanOps>"
                                   : "transformer_engine::normalization::rmsnorm_tuned_kernel";
    const char* const act = eager ? "void at::native::vectorized_elementwise_kernel<4, at::native::silu_kernel>"
                                  : "transformer_engine::swiglu_kernel";
    if (has(Trouble::Fragmentation)) {
      const double wait = (factor(Trouble::Fragmentation) - 1) * planned_.planned_step / (2 * kUnits);
      host("cudaFree", 0.7 * wait);
      host("cudaMalloc", 0.3 * wait);
    }
    kernel(norm, times * at.pointwise / 2);
    kernel("ncclDevKernel_AllGather_RING_LL", at.tp / 2, "tp");
    kernel("nvjet_tst_128x256_64x4_2x1_v_bz_TNT", times * at.products / 2);
    kernel("ncclDevKernel_SendRecv", times * at.cp, "cp");
    kernel(forward ? "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16"
                   : "cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16",
           times * at.attention);
    kernel("ncclDevKernel_AllToAll", at.ep / 2, "ep");
    kernel("nvjet_tst_256x128_64x4_1x2_h_bz_NNT", times * at.products / 2);
    kernel("cutlass::device_kernel<grouped_gemm_bf16>", times * at.experts);
    kernel("ncclDevKernel_AllToAll", at.ep / 2, "ep");
    kernel(act, times * at.pointwise / 2);
    kernel("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL", at.tp / 2, "tp");
  }

  /// Buckets leave as the backward pass gets to them, one after another, when all ranks are there.
  void gradients(const Lengths& at, double backward, const std::vector<std::pair<double, double>>& done) {
    if (planned_.dp_ranks < 2 || !(at.wire > 0)) return;
    // They can hide behind the backward pass of the last micro-batch; how much of them does was planned. The last
    // pieces are there only when it ends.
    const double end = now_, last = std::max((end - backward) / planned_.micro_batches, planned_.dp.all());
    const double each = at.wire / kBuckets, usual = planned_.dp.all() / kBuckets;
    const double late = has(Trouble::SlowRank) ? factor(Trouble::SlowRank) - 1 : 0;
    double free = 0;
    for (int k = 0; k < kBuckets; ++k) {
      const double left = kBuckets - k, early = end - last * (left - 1) / kBuckets;
      const double ready =
          has(Trouble::NoOverlap) ? end : std::max(backward, std::min(early, end + planned_.dp.exposed - left * usual));
      double computed = 0;
      for (const auto& [when, sum] : done)
        if (when <= ready) computed = sum;
      const double begin = std::max(free, ready);
      const double there = std::max(begin, ready + late * std::max(computed, 0.9 * computed_));
      const double wait = k == 0 ? planned_.straggler : 0;
      free = there + wait + noisy(each);
      events_.push_back({"ncclDevKernel_ReduceScatter_Sum_f32_RING_LL", "dp", begin, free - begin, false});
    }
    now_ = std::max(now_, free);
  }

  PlannedStep planned_;
  std::vector<std::pair<Trouble, double>> troubles_;
  std::mt19937& random_;
  std::map<std::string, double> errs_{};
  std::vector<Event> events_{};
  double now_ = 0, computed_ = 0;
};

/// What a painter of moments sees: compute before all, then the message that began first.
std::map<std::string, double> seen(const std::vector<Event>& events, double length) {
  std::map<std::string, double> out;
  std::vector<double> moments{0, length};
  for (const Event& event : events) moments.push_back(event.start), moments.push_back(event.start + event.length);
  std::sort(moments.begin(), moments.end());
  for (std::size_t i = 1; i < moments.size(); ++i) {
    const double middle = (moments[i - 1] + moments[i]) / 2;
    std::string what = "idle";
    double since = HUGE_VAL;
    for (const Event& event : events) {
      if (event.host || event.start > middle || event.start + event.length < middle) continue;
      if (event.axis.empty()) {
        what = event.name.find("multi_tensor") == std::string::npos ? "compute" : "optimizer";
        break;
      }
      if (event.start < since) since = event.start, what = event.axis;
    }
    out[what == "pp" ? "pipeline" : what] += moments[i] - moments[i - 1];
  }
  return out;
}

}  // namespace

const char* code_of(Trouble trouble) {
  constexpr std::array<const char*, kTroubles> kCodes{"network_slow", "links_slow",    "clocks_low",    "slow_rank",
                                                      "recompute_on", "no_overlap",    "imbalance",     "eager_kernels",
                                                      "data_loading", "fragmentation", "spread_groups", "wrong_order"};
  return kCodes[static_cast<std::size_t>(trouble)];
}

double MadeRun::part(const std::string& name) const {
  for (const auto& [part, seconds] : parts)
    if (part == name) return seconds;
  return 0;
}

bool can_have(const PlannedStep& step, Trouble trouble) {
  switch (trouble) {
    case Trouble::SlowNetwork: return step.dp.between > 0 || step.ep.between > 0 || step.hop > 0;
    case Trouble::SlowLinks: return step.tp.inside + step.cp.inside + step.ep.inside + step.dp.inside > 0;
    case Trouble::Recomputation: return !step.recomputed;
    case Trouble::NoOverlap: return step.dp.all() > step.dp.exposed && step.dp_ranks > 1;
    case Trouble::Imbalance: return step.moe;
    case Trouble::SpreadGroups: return step.tp.inside > 0 && step.tp_ranks > 1;
    case Trouble::WrongOrder:  // experts' gradients have groups of their own, which lie the same way in either order
      return !step.moe && step.pp_ranks > 1 && step.dp_ranks > 1 && step.tp_ranks * step.cp_ranks < step.node &&
             step.tp_ranks * step.cp_ranks * step.pp_ranks * step.dp_ranks > step.node;
    case Trouble::SlowRank: return step.dp_ranks > 1 || step.pp_ranks > 1 || step.tp_ranks > 1;
    default: return true;
  }
}

MadeRun make_run(const PlannedStep& planned, const std::vector<std::pair<Trouble, double>>& troubles, int steps,
                 std::mt19937& random) {
  Step step(planned, troubles, random);
  step.settle();
  MadeRun run;
  std::map<std::string, double> parts;
  for (int i = 0; i < steps; ++i) {
    double length = 0;
    run.steps.push_back(step.run(length));
    run.lengths.push_back(length);
    for (const auto& [what, seconds] : seen(run.steps.back(), length)) parts[what] += seconds / steps;
  }
  run.parts.assign(parts.begin(), parts.end());
  return run;
}

}  // namespace plan::oracle
