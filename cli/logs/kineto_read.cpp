// Traces of PyTorch's profiler: Chrome's trace format, where every kernel is one complete event ("ph": "X") with its
// start and duration in microseconds. Read as a stream, because whole traces are larger than memory should be. A trace
// without a GPU has operators in the place of kernels: each moment of a thread belongs to the innermost one that runs.
// Tested by tests/logs/trace_test.cpp.
#include <algorithm>
#include <cmath>
#include <map>

#include "cli/logs/json_stream.hpp"
#include "cli/logs/trace.hpp"

namespace plan {
namespace {

constexpr double kMicro = 1e-6;

/// One event, as far as it matters here.
struct Event {
  std::string phase{}, category{}, name{}, group{}, collective{};
  double start = 0, duration = -1, thread = 0, ranks = 0;
};

/// An operator on a thread of the CPU.
struct Operator {
  double start = 0, end = 0;
  KernelFamily family = KernelFamily::Other;
  int group = -1;  ///< of communication
};

/// What an operator of PyTorch does, by its name.
KernelFamily family_of_operator(std::string_view name) {
  constexpr std::string_view kProducts[] = {"aten::mm",     "aten::addmm",  "aten::bmm",        "aten::baddbmm",
                                            "aten::linear", "aten::matmul", "aten::_scaled_mm", "aten::_grouped_mm"};
  if (name.starts_with("gloo:") || name.starts_with("c10d::") || name.starts_with("nccl:"))
    return KernelFamily::Communication;
  if (std::find(std::begin(kProducts), std::end(kProducts), name) != std::end(kProducts)) return KernelFamily::Gemm;
  if (name.find("attention") != std::string_view::npos) return KernelFamily::Attention;
  if (name.find("copy") != std::string_view::npos) return KernelFamily::Copy;
  return name.starts_with("aten::") ? KernelFamily::Pointwise : KernelFamily::Other;
}

/// Collects kernels, and operators as long as there is no kernel.
class Collector {
 public:
  explicit Collector(Trace& trace) : trace_(trace) {}

  void take(const Event& event) {
    if (event.phase != "X" || !(event.duration >= 0) || !std::isfinite(event.start + event.duration)) return;
    const double start = event.start * kMicro, end = (event.start + event.duration) * kMicro;
    if (event.name.starts_with("ProfilerStep#") && event.category != "gpu_user_annotation")
      trace_.steps.emplace_back(start, end);
    if (event.category == "kernel" || event.category == "gpu_memcpy" || event.category == "gpu_memset")
      take_kernel(event, start, end);
    else if (trace_.kernels.empty())
      take_operator(event, start, end);
  }

  /// Operators stand for kernels where there are none.
  void finish() {
    if (!trace_.kernels.empty() || threads_.empty()) return;
    trace_.of_cpu = true;
    for (auto& [thread, operators] : threads_) split(operators);
  }

 private:
  static constexpr std::size_t kMostOperators = 4'000'000;

  void take_kernel(const Event& event, double start, double end) {
    TraceKernel kernel{start, end, event.category == "kernel" ? family_of(event.name) : KernelFamily::Copy, -1};
    if (kernel.family == KernelFamily::Communication)
      kernel.group = group_index(trace_, event.name,
                                 {event.collective, event.group, static_cast<int>(std::clamp(event.ranks, 0.0, 1e9))});
    trace_.kernels.push_back(kernel);
    threads_.clear();
  }

  void take_operator(const Event& event, double start, double end) {
    const bool updates = event.name.starts_with("Optimizer.step#");
    if (event.category != "cpu_op" && !event.name.starts_with("gloo:") && !updates) return;
    if (++operators_ > kMostOperators) return;
    Operator one{start, end, updates ? KernelFamily::Optimizer : family_of_operator(event.name), -1};
    if (one.family == KernelFamily::Communication)
      one.group = group_index(trace_, {}, {event.name.substr(event.name.find_last_of(':') + 1), {}, 0});
    threads_[event.thread].push_back(one);
  }

  /// Gives every moment of a thread to the innermost operator; within an update all of them are the optimizer's.
  void split(std::vector<Operator>& operators) {
    std::stable_sort(operators.begin(), operators.end(), [](const Operator& a, const Operator& b) {
      return a.start != b.start ? a.start < b.start : a.end > b.end;
    });
    std::vector<Operator> running;
    double now = 0;
    const auto pass_to = [&](double to) {
      if (!running.empty() && to > now)
        trace_.kernels.push_back({now, to, running.back().family, running.back().group});
      now = std::max(now, to);
    };
    const auto retire = [&](double until) {
      while (!running.empty() && running.back().end <= until) pass_to(running.back().end), running.pop_back();
    };
    for (Operator one : operators) {
      retire(one.start);
      pass_to(one.start);
      if (!running.empty()) {
        one.end = std::min(one.end, running.back().end);
        if (running.back().family == KernelFamily::Optimizer) one.family = KernelFamily::Optimizer, one.group = -1;
      }
      running.push_back(one);
    }
    retire(HUGE_VAL);
  }

  Trace& trace_;
  std::map<double, std::vector<Operator>> threads_{};
  std::size_t operators_ = 0;
};

bool read_arguments(JsonStream& in, Event& event) {
  return in.object([&](std::string_view key) {
    if (key == "Process Group Description" && in.peek() == '"') return in.text(event.group);
    if (key == "Collective name" && in.peek() == '"') return in.text(event.collective);
    if (key == "Group size" && in.peek() != '"') return in.number(event.ranks);
    return in.skip();
  });
}

bool read_event(JsonStream& in, Event& event) {
  return in.object([&](std::string_view key) {
    const char first = in.peek();
    if (first == '"') {
      if (key == "ph") return in.text(event.phase);
      if (key == "cat") return in.text(event.category);
      if (key == "name") return in.text(event.name);
    } else if (first == '{') {
      if (key == "args") return read_arguments(in, event);
    } else if (first == '-' || (first >= '0' && first <= '9')) {
      if (key == "ts") return in.number(event.start);
      if (key == "dur") return in.number(event.duration);
      if (key == "tid") return in.number(event.thread);
    }
    return in.skip();
  });
}

bool read_events(JsonStream& in, Collector& collector) {
  Event event;
  return in.array([&] {
    if (in.peek() != '{') return in.skip();
    for (std::string* text : {&event.phase, &event.category, &event.name, &event.group, &event.collective})
      text->clear();
    event.start = event.thread = event.ranks = 0, event.duration = -1;
    if (!read_event(in, event)) return false;
    collector.take(event);
    return true;
  });
}

}  // namespace

Result<Trace> read_kineto(const std::string& path) {
  JsonStream in(path);
  const Place place{path, 0, 0, 1, {}};
  if (!in.open()) return fail({"cannot_read", path + " cannot be opened", {}, {}, place});
  Trace trace;
  trace.file = path;
  Collector collector(trace);
  // A profiler that was killed leaves a trace without its end: what stands before it is good.
  const bool whole = in.peek() == '[' ? read_events(in, collector) : in.object([&](std::string_view key) {
    return key == "traceEvents" && in.peek() == '[' ? read_events(in, collector) : in.skip();
  });
  collector.finish();
  if (!whole && trace.kernels.empty()) return fail({"bad_trace", path + ": no trace: " + in.error(), {}, {}, place});
  if (trace.kernels.empty())
    return fail({"no_kernels",
                 path + ": no kernel of a GPU in it",
                 {},
                 {"profile with ProfilerActivity.CUDA, and for long enough to hold a whole step"},
                 place});
  std::stable_sort(trace.kernels.begin(), trace.kernels.end(),
                   [](const TraceKernel& a, const TraceKernel& b) { return a.start < b.start; });
  return trace;
}

}  // namespace plan
