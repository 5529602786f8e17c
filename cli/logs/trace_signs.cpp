// What the kernels of a trace show of a fault beside how long they take. A count of kernels does not hang on how fast a
// GPU is or how well a law fits, so that it decides what times leave open. Assumption: kernels have the names that
// their libraries give them (FlashAttention, cuDNN, Triton, CUTLASS, cuBLAS, Transformer Engine, ATen).
// Tested by tests/logs/nsys_test.cpp.
#include "cli/logs/trace_signs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "cli/logs/slow_ranks.hpp"
#include "hwprobe/fits/fit.hpp"

namespace plan {
namespace {

using Signs = std::array<std::int64_t, kKernelSigns>;

std::int64_t count(const Signs& signs, KernelSign sign) { return signs[static_cast<std::size_t>(sign)]; }

/// Kernels of each sign, and seconds that they run.
struct Counted {
  Signs kernels{};
  std::array<double, kKernelSigns> seconds{};
  [[nodiscard]] std::int64_t operator[](KernelSign sign) const { return count(kernels, sign); }
  [[nodiscard]] double time(KernelSign sign) const { return seconds[static_cast<std::size_t>(sign)]; }
};

Counted counted(const Trace& trace) {
  Counted out;
  for (const TraceKernel& kernel : trace.kernels) {
    const auto sign = static_cast<std::size_t>(kernel.sign);
    ++out.kernels[sign], out.seconds[sign] += kernel.end - kernel.start;
  }
  return out;
}

class Speaker {
 public:
  void speak(const char* fault, bool speaks_for, std::string text, bool direct = false) {
    said_.push_back({fault, speaks_for, std::move(text), direct});
  }
  std::vector<Evidence> said() && { return std::move(said_); }

 private:
  std::vector<Evidence> said_{};
};

/// Attention runs forward once more where its layer is recomputed.
void recomputation(const Counted& seen, const Layout& layout, Speaker& to) {
  constexpr std::int64_t kFewest = 4;
  constexpr double kOnce = 1.25, kTwice = 1.6;
  const std::int64_t forward = seen[KernelSign::AttentionForward], backward = seen[KernelSign::AttentionBackward];
  if (backward < kFewest || forward < kFewest) return;
  const bool planned =
      layout.recompute.kind == RecomputeKind::Full ||
      (layout.recompute.kind == RecomputeKind::Selective && (layout.recompute.modules & kRecomputeCoreAttention) != 0);
  if (planned) return;
  const double ratio = static_cast<double>(forward) / static_cast<double>(backward);
  if (ratio > kTwice)
    to.speak(
        "recompute_on", true,
        fmt::format("attention runs forward {} times and backward {} times: layers are recomputed", forward, backward),
        true);
  else if (ratio < kOnce)
    to.speak("recompute_on", false, fmt::format("attention runs forward as often as backward, {} times", backward));
}

void kernels(const Counted& seen, const Problem& problem, Speaker& to) {
  const std::int64_t attention = seen[KernelSign::AttentionForward] + seen[KernelSign::AttentionBackward];
  if (problem.training.stack.flash_attention && seen[KernelSign::Softmax] > 0 && attention == 0)
    to.speak("no_flash", true,
             fmt::format("{} softmax kernels, and none of fused attention", seen[KernelSign::Softmax]), true);
  if (attention > 0) to.speak("no_flash", false, fmt::format("{} kernels of fused attention", attention));

  const double eager = seen.time(KernelSign::Eager), fused = seen.time(KernelSign::Fused);
  constexpr double kMostly = 0.7, kHardly = 0.3;
  if (problem.training.stack.fused_pointwise && eager > kMostly * (eager + fused))
    to.speak("eager_kernels", true,
             fmt::format("{:.0f} % of the pointwise time is of PyTorch's own kernels, {} launches",
                         100 * eager / (eager + fused), seen[KernelSign::Eager]),
             true);
  else if (fused > 0 && eager < kHardly * (eager + fused))
    to.speak("eager_kernels", false, "pointwise kernels are fused");

  const std::int64_t narrow = seen[KernelSign::NarrowGemm], wide = seen[KernelSign::WideGemm];
  const DType dtype = gemm_dtype(problem.training.precision);
  if (dtype != DType::Fp8 && dtype != DType::Fp4) return;
  if (narrow == 0 && wide > 0)
    to.speak("wide_gemms", true, fmt::format("none of {} GEMM kernels is of 8 bits or fewer", wide), true);
  else if (narrow > 0)
    to.speak("wide_gemms", false, fmt::format("{} GEMM kernels of 8 bits or fewer", narrow));
}

/// Of the data-parallel messages that were to run beside compute, what does; or beside a wait for the next stage, which
/// the rank has to make in any case. What is left exposed tells nothing: in it
/// are waits for ranks that arrive late.
void overlap(const TraceTimes& times, const Estimate& estimate, Speaker& to) {
  constexpr double kNone = 0.1, kSome = 0.5, kWorth = 0.002;
  double planned = 0;
  for (const Communication& row : estimate.communication)
    if (row.axis == Axis::Dp) planned += (row.time - row.exposed).value;
  const double hidden = times.hidden[static_cast<std::size_t>(Observable::Dp)];
  if (!(planned > kWorth * estimate.step_time.value) || times.parts[static_cast<std::size_t>(Observable::Dp)] <= 0)
    return;
  if (hidden < kNone * planned)
    to.speak("no_overlap", true,
             fmt::format("{:.3g} s a step of data-parallel messages run beside other work, {:.3g} s were to", hidden,
                         planned),
             true);
  else if (hidden > kSome * planned)
    to.speak("no_overlap", false,
             fmt::format("{:.3g} s a step of data-parallel messages run beside other work", hidden));
}

/// Ranks of a group lie as far apart as the order of the axes puts them.
void order(const Trace& trace, std::span<const Observable> parts, const Layout& layout, Speaker& to) {
  const int inner = layout.tp * layout.cp;
  const bool outermost = layout.order == AxisOrder::DataOutermost;
  for (std::size_t i = 0; i < trace.groups.size(); ++i) {
    const int stride = trace.groups[i].stride, ranks = trace.groups[i].ranks;
    int planned = 0;
    if (parts[i] == Observable::Tp && ranks == layout.tp) planned = 1;
    if (parts[i] == Observable::Cp && ranks == layout.cp) planned = layout.tp;
    if (parts[i] == Observable::Dp && ranks == layout.dp && layout.cp == 1)
      planned = inner * (outermost ? layout.pp : 1);
    if (stride <= 0 || planned <= 0) continue;
    const bool right = stride == planned;
    to.speak(parts[i] == Observable::Dp ? "wrong_order" : "spread_groups", !right,
             fmt::format("ranks of the {} group lie {} apart{}", kObservableNames[static_cast<std::size_t>(parts[i])],
                         stride, right ? ", as planned" : fmt::format(", and {} were planned", planned)),
             !right);
  }
}

/// Of equal messages, a network that is slow makes all long; a rank that is late, those at which the others wait.
void waits(const Trace& trace, std::span<const Observable> parts, Speaker& to) {
  constexpr std::size_t kFewest = 4;
  constexpr double kMany = 4, kShare = 0.5;
  std::vector<std::vector<double>> lengths(trace.groups.size());
  for (const TraceKernel& kernel : trace.kernels)
    if (kernel.group >= 0 && parts[static_cast<std::size_t>(kernel.group)] == Observable::Dp &&
        in_counted_step(trace, kernel.start))
      lengths[static_cast<std::size_t>(kernel.group)].push_back(kernel.end - kernel.start);
  double all = 0, late = 0;
  for (const std::vector<double>& group : lengths) {
    if (group.size() < kFewest) continue;
    const double usual = median(group);
    for (const double length : group) all += length, late += length > kMany * usual ? length - usual : 0;
  }
  if (!(all > 0) || !(late > kShare * all)) return;
  to.speak("slow_rank", true,
           fmt::format("a few data-parallel messages take {:.0f} % of their time, the others are quick: ranks arrive "
                       "late",
                       100 * late / all));
}

/// What the host did while the GPU had nothing to run.
void host(const Trace& trace, const TraceTimes& times, Speaker& to) {
  constexpr double kShare = 0.3;
  double memory = 0, data = 0;
  int calls = 0;
  for (const HostCall& call : trace.calls) {
    if (!in_counted_step(trace, call.start)) continue;
    (call.work == HostWork::Memory ? memory : data) += (call.end - call.start) / times.steps;
    calls += call.work == HostWork::Memory ? 1 : 0;
  }
  const double idle = times.parts[static_cast<std::size_t>(Observable::Idle)];
  if (!(idle > 0)) return;
  if (memory > kShare * idle && calls >= times.steps)
    to.speak("fragmentation", true,
             fmt::format("{} calls of cudaMalloc and cudaFree a step, {:.3g} s of it", calls / times.steps, memory));
  if (data > kShare * idle && data > memory)
    to.speak("data_loading", true, fmt::format("the host waits {:.3g} s a step for its next batch", data));
}

}  // namespace

std::vector<Evidence> signs_of(const Trace& trace, std::span<const Observable> parts, const TraceTimes& times,
                               const Problem& problem, const Estimate& estimate) {
  if (trace.of_cpu || times.steps < 1) return {};
  Speaker to;
  const Counted seen = counted(trace);
  recomputation(seen, estimate.layout, to);
  kernels(seen, problem, to);
  overlap(times, estimate, to);
  order(trace, parts, estimate.layout, to);
  waits(trace, parts, to);
  host(trace, times, to);
  return std::move(to).said();
}

std::vector<Evidence> signs_between(std::span<const Trace> traces, std::span<const TraceTimes> times) {
  std::vector<NamedTime> compute;
  for (std::size_t i = 0; i < traces.size(); ++i)
    compute.push_back({traces[i].file, times[i].parts[static_cast<std::size_t>(Observable::Compute)]});
  std::vector<Evidence> said;
  for (const SlowRank& slow : slow_ranks(compute))
    said.push_back({"slow_rank", true,
                    fmt::format("{} computes {:.3g} s a step, the others {:.3g} s", slow.name, slow.time, slow.usual)});
  return said;
}

}  // namespace plan
