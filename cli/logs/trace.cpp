// What a GPU did in a step, from the kernels that ran on it. Tested by tests/logs/trace_test.cpp.
#include "cli/logs/trace.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <queue>

#include "cli/logs/course.hpp"
#include "presets/suggest.hpp"

namespace plan {
namespace {

/// A word in a kernel's name, lower case, and what it tells. The first that is part of the name counts.
struct FamilyWord {
  std::string_view word;
  KernelFamily family;
};
constexpr FamilyWord kFamilyWords[] = {
    {"nccl", KernelFamily::Communication},
    {"rccl", KernelFamily::Communication},
    {"deep_ep", KernelFamily::Communication},
    {"nvshmem", KernelFamily::Communication},
    {"adam", KernelFamily::Optimizer},
    {"multi_tensor", KernelFamily::Optimizer},
    {"multitensor", KernelFamily::Optimizer},
    {"flash", KernelFamily::Attention},
    {"fmha", KernelFamily::Attention},
    {"attention", KernelFamily::Attention},
    {"_attn", KernelFamily::Attention},
    {"sdpa", KernelFamily::Attention},
    {"gemm", KernelFamily::Gemm},
    {"cutlass", KernelFamily::Gemm},
    {"nvjet", KernelFamily::Gemm},
    {"xmma", KernelFamily::Gemm},
    {"cijk_", KernelFamily::Gemm},
    {"splitkreduce", KernelFamily::Gemm},
    {"memcpy", KernelFamily::Copy},
    {"memset", KernelFamily::Copy},
    {"elementwise", KernelFamily::Pointwise},
    {"triton", KernelFamily::Pointwise},
    {"norm", KernelFamily::Pointwise},
    {"softmax", KernelFamily::Pointwise},
    {"cast", KernelFamily::Pointwise},
    {"reduce", KernelFamily::Pointwise},
    {"swiglu", KernelFamily::Pointwise},
    {"rope", KernelFamily::Pointwise},
    {"rotary", KernelFamily::Pointwise},
    {"dropout", KernelFamily::Pointwise},
};

/// Launching a kernel from Python takes some 5 to 60 microseconds; a longer gap waits for something else.
constexpr double kLongestLaunch = 200e-6;

/// What the GPU is about between two moments.
enum class Doing { Compute, Optimizer, Communication, Idle };

struct Window {
  double start = 0, end = 0;
};

/// Steps that lie wholly in the trace; the first is left out where there are several, since profiling starts in it.
std::vector<Window> windows_of(const Trace& trace, double step_seconds, int& steps) {
  std::vector<Window> windows;
  for (const auto& [start, end] : trace.steps) windows.push_back({start, end});
  if (windows.size() > 2) windows.erase(windows.begin());
  steps = static_cast<int>(windows.size());
  if (!windows.empty()) return windows;
  double end = 0;
  for (const TraceKernel& kernel : trace.kernels) end = std::max(end, kernel.end);
  const double span = end - trace.kernels.front().start;
  steps = step_seconds > 0 ? std::max(1, static_cast<int>(std::lround(span / step_seconds))) : 1;
  return {{trace.kernels.front().start, end}};
}

/// Sweeps over one window, handing every interval between two changes to `take`.
template <class Take>
void sweep(const Trace& trace, const Window& window, const Take& take) {
  const auto later = [&](std::size_t a, std::size_t b) { return trace.kernels[a].end > trace.kernels[b].end; };
  std::vector<std::size_t> running;  // by start, so that the first of a kind is the oldest
  std::priority_queue<std::size_t, std::vector<std::size_t>, decltype(later)> ends(later);
  double now = window.start;
  const auto pass_to = [&](double to) {
    to = std::clamp(to, window.start, window.end);
    if (to > now) take(running, to - now), now = to;
  };
  const auto retire = [&](double until) {
    while (!ends.empty() && trace.kernels[ends.top()].end <= until) {
      pass_to(trace.kernels[ends.top()].end);
      running.erase(std::find(running.begin(), running.end(), ends.top()));
      ends.pop();
    }
  };
  for (std::size_t i = 0; i < trace.kernels.size(); ++i) {
    if (trace.kernels[i].end <= window.start) continue;
    if (trace.kernels[i].start >= window.end) break;
    retire(trace.kernels[i].start);
    pass_to(trace.kernels[i].start);
    running.push_back(i), ends.push(i);
  }
  retire(window.end);
  pass_to(window.end);
}

}  // namespace

std::string_view family_name(KernelFamily family) {
  constexpr std::array<std::string_view, kKernelFamilies> kNames{"GEMM",   "attention",     "pointwise", "optimizer",
                                                                 "copies", "communication", "other"};
  return kNames[static_cast<std::size_t>(family)];
}

KernelFamily family_of(std::string_view kernel) {
  const std::string name = lowered(std::string(kernel));
  for (const FamilyWord& row : kFamilyWords)
    if (name.find(row.word) != std::string::npos) return row.family;
  return KernelFamily::Other;
}

KernelSign sign_of(std::string_view kernel, KernelFamily family) {
  const std::string name = lowered(std::string(kernel));
  const auto holds = [&](std::initializer_list<std::string_view> words) {
    return std::any_of(words.begin(), words.end(),
                       [&](std::string_view word) { return name.find(word) != std::string::npos; });
  };
  switch (family) {
    case KernelFamily::Attention:
      // What goes before and after the backward kernel, and the kernel of dq where dk and dv have one of their own.
      if (holds({"dot_do_o", "convert", "preprocess", "postprocess", "combine"})) return KernelSign::None;
      if (holds({"bwd_dq"}) && !holds({"dq_dk", "dkdv", "dk_dv"})) return KernelSign::None;
      if (holds({"bwd", "bprop", "backward", "fmha_cutlassb"})) return KernelSign::AttentionBackward;
      if (holds({"fwd", "fprop", "forward", "fmha_cutlassf"})) return KernelSign::AttentionForward;
      return KernelSign::None;
    case KernelFamily::Pointwise:
      if (holds({"softmax"}) && !holds({"log_softmax", "logsoftmax", "cross_entropy", "topk"}))
        return KernelSign::Softmax;
      // ATen's elementwise and reducing kernels work through one operation of Python each.
      return holds({"at::native", "at_native"}) && holds({"elementwise", "reduce_kernel"}) ? KernelSign::Eager
                                                                                           : KernelSign::Fused;
    case KernelFamily::Gemm:
      if (holds({"e4m3", "e5m2", "e2m1", "fp8", "fp4", "float8", "_qq", "nvjet_sm90_qq", "nvjet_sm100_qq", "_oo"}))
        return KernelSign::NarrowGemm;
      return holds({"bf16", "f16", "nvjet", "16816", "_bbs_", "_hbs_"}) ? KernelSign::WideGemm : KernelSign::None;
    case KernelFamily::Optimizer:
    case KernelFamily::Copy:
    case KernelFamily::Communication:
    case KernelFamily::Other: break;
  }
  return KernelSign::None;
}

bool waits_for_batch(std::string_view name) {
  constexpr std::string_view kBegin[] = {"enumerate(DataLoader)", "batch-generator", "get_batch", "dataloader"};
  return std::any_of(std::begin(kBegin), std::end(kBegin),
                     [&](std::string_view word) { return name.starts_with(word); });
}

int group_index(Trace& trace, std::string_view kernel, TraceGroup group) {
  constexpr std::size_t kMostGroups = 4096;
  for (const char* op : {"AllReduce", "AllGather", "ReduceScatter", "SendRecv", "AllToAll", "Broadcast", "Reduce"})
    if (group.op.empty() && kernel.find(op) != std::string_view::npos) group.op = op;
  const auto find = [&] { return std::find(trace.groups.begin(), trace.groups.end(), group); };
  auto found = find();
  if (found == trace.groups.end() && trace.groups.size() >= kMostGroups) {
    group = {group.op};
    found = find();
  }
  const auto index = static_cast<int>(found - trace.groups.begin());
  if (found == trace.groups.end()) trace.groups.push_back(std::move(group));
  return index;
}

Result<std::vector<Trace>> read_traces(const std::string& path) {
  std::array<char, 15> head{};
  std::ifstream(path, std::ios::binary).read(head.data(), head.size());
  constexpr std::string_view kSqlite = "SQLite format 3";
  if (std::string_view(head.data(), head.size()) == kSqlite) return read_nsys(path);
  Result<Trace> trace = read_kineto(path);
  if (!trace) return tl::unexpected(std::move(trace).error());
  return std::vector<Trace>{std::move(*trace)};
}

bool in_counted_step(const Trace& trace, double moment) {
  int steps = 0;
  if (trace.steps.empty()) return true;
  const std::vector<Window> windows = windows_of(trace, 0, steps);
  return std::any_of(windows.begin(), windows.end(),
                     [&](const Window& window) { return moment >= window.start && moment < window.end; });
}

TraceTimes trace_times(const Trace& trace, std::span<const Observable> part_of, double step_seconds) {
  TraceTimes times;
  if (trace.kernels.empty()) return times;
  std::vector<std::size_t> parts;
  for (const Observable part : part_of) parts.push_back(static_cast<std::size_t>(part));
  const std::vector<Window> windows = windows_of(trace, step_seconds, times.steps);
  Course course(Seconds(windows.front().end - windows.front().start));
  const auto take = [&](const std::vector<std::size_t>& running, double seconds) {
    Doing doing = Doing::Idle;
    std::optional<std::size_t> message;
    std::array<bool, kObservables> sent{};
    for (const std::size_t i : running) {
      const TraceKernel& kernel = trace.kernels[i];
      times.families[static_cast<std::size_t>(kernel.family)] += seconds;
      if (kernel.family == KernelFamily::Communication) {
        const std::size_t part = parts[static_cast<std::size_t>(kernel.group)];
        sent[part] = true;
        if (!message) message = part;
        if (doing == Doing::Idle) doing = Doing::Communication;
      } else if (kernel.family == KernelFamily::Optimizer) {
        if (doing != Doing::Compute) doing = Doing::Optimizer;
      } else {
        doing = Doing::Compute;
      }
    }
    const auto add = [&](Observable part) {
      times.parts[static_cast<std::size_t>(part)] += seconds;
      if (part != Observable::Step) course.add(part, Seconds(seconds));
    };
    add(Observable::Step);
    for (std::size_t part = 0; part < sent.size(); ++part)
      if (sent[part] && !(doing == Doing::Communication && part == *message)) times.hidden[part] += seconds;
    switch (doing) {
      case Doing::Compute: add(Observable::Compute); break;
      case Doing::Optimizer: add(Observable::Optimizer); break;
      case Doing::Communication: add(static_cast<Observable>(*message)); break;
      case Doing::Idle:
        add(Observable::Idle);
        if (seconds < kLongestLaunch) times.gaps += seconds;
        break;
    }
  };
  for (const Window& window : windows) {
    sweep(trace, window, take);
    if (times.course.empty()) times.course = course.parts();
  }
  for (auto* sums : {&times.parts, &times.hidden})
    for (double& sum : *sums) sum /= times.steps;
  for (double& sum : times.families) sum /= times.steps;
  times.gaps /= times.steps;
  return times;
}

}  // namespace plan
