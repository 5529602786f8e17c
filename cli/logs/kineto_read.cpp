// Traces of PyTorch's profiler: Chrome's trace format, where every kernel is one complete event ("ph": "X") with its
// start and duration in microseconds. Read as a stream, because whole traces are larger than memory should be. A trace
// without a GPU has operators in the place of kernels: each moment of a thread belongs to the innermost one that runs.
// Tested by tests/logs/trace_test.cpp.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>

#include "cli/logs/json_stream.hpp"
#include "cli/logs/trace.hpp"

namespace plan {
namespace {

constexpr double kMicro = 1e-6;

/// One event, as far as it matters here.
struct Event {
  std::string phase{}, category{}, name{}, group{}, collective{}, members{};
  double start = 0, duration = -1, thread = 0, ranks = 0, stream = -1;
};

/// An operator on a thread of the CPU.
struct Operator {
  double start = 0, end = 0;
  KernelFamily family = KernelFamily::Other;
  int group = -1;  ///< of communication
};

/// Until 2022 categories were written as "Kernel", "Memcpy" and "Memset".
bool is_kernel(std::string_view category) { return category == "kernel" || category == "Kernel"; }
bool runs_on_gpu(std::string_view category) {
  return is_kernel(category) || category == "gpu_memcpy" || category == "gpu_memset" || category == "Memcpy" ||
         category == "Memset";
}

/// From the first rank to the second of "[0, 8, 16]"; 0 where there are not two.
int stride_of(std::string_view members) {
  std::array<long, 2> ranks{};
  const char *at = members.data(), *end = at + members.size();
  for (long& rank : ranks) {
    while (at < end && (*at < '0' || *at > '9')) ++at;
    const auto [next, error] = std::from_chars(at, end, rank);
    if (error != std::errc()) return 0;
    at = next;
  }
  return static_cast<int>(std::clamp(ranks[1] - ranks[0], 0L, 1'000'000'000L));
}

/// Does the host take or give back memory of the GPU, or wait for a batch?
std::optional<HostWork> host_work(std::string_view name) {
  for (const std::string_view call : {"cudaMalloc", "cudaFree", "hipMalloc", "hipFree"})
    if (name == call) return HostWork::Memory;
  return waits_for_batch(name) ? std::optional(HostWork::Data) : std::nullopt;
}

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
    // Newer profilers count from 1970, where a double of seconds is blurred by a quarter of a microsecond.
    if (!origin_) origin_ = event.start;
    const double start = (event.start - *origin_) * kMicro, end = start + event.duration * kMicro;
    if (event.name.starts_with("ProfilerStep#") && event.category != "gpu_user_annotation")
      trace_.steps.emplace_back(start, end);
    if (runs_on_gpu(event.category))
      take_kernel(event, start, end);
    else
      take_host(event, start, end);
  }

  /// Operators stand for kernels where there are none.
  void finish() {
    if (!trace_.kernels.empty() || threads_.empty()) return;
    trace_.of_cpu = true;
    for (auto& [thread, operators] : threads_) split(operators);
  }

 private:
  static constexpr std::size_t kMostOperators = 4'000'000;

  void take_host(const Event& event, double start, double end) {
    constexpr std::size_t kMostCalls = 1'000'000;
    const std::optional<HostWork> work = host_work(event.name);
    if (work && trace_.calls.size() < kMostCalls) trace_.calls.push_back({start, end, *work});
    if (trace_.kernels.empty()) take_operator(event, start, end);
  }

  /// A trace repeats few names many times.
  const std::pair<KernelFamily, KernelSign>& kind_of(const std::string& name) {
    constexpr std::size_t kMostNames = 100'000;
    if (kinds_.size() > kMostNames) kinds_.clear();
    const auto [at, is_new] = kinds_.try_emplace(name);
    if (is_new) at->second = {family_of(name), sign_of(name, family_of(name))};
    return at->second;
  }

  void take_kernel(const Event& event, double start, double end) {
    TraceKernel kernel{start, end, KernelFamily::Copy, KernelSign::None, -1};
    if (is_kernel(event.category)) std::tie(kernel.family, kernel.sign) = kind_of(event.name);
    const bool unnamed = event.group.empty() || event.group == "undefined";
    if (kernel.family == KernelFamily::Communication)
      kernel.group =
          group_index(trace_, event.name,
                      {event.collective, event.group, static_cast<int>(std::clamp(event.ranks, 0.0, 1e9)),
                       stride_of(event.members), unnamed ? static_cast<int>(std::clamp(event.stream, -1.0, 1e9)) : -1});
    trace_.kernels.push_back(kernel);
    threads_.clear();
  }

  void take_operator(const Event& event, double start, double end) {
    const bool updates = event.name.starts_with("Optimizer.step#");
    if (event.category != "cpu_op" && !event.name.starts_with("gloo:") && !updates) return;
    if (++operators_ > kMostOperators) return;
    Operator one{start, end, updates ? KernelFamily::Optimizer : family_of_operator(event.name), -1};
    if (one.family == KernelFamily::Communication)
      one.group = group_index(trace_, {}, {event.name.substr(event.name.find_last_of(':') + 1)});
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
        trace_.kernels.push_back({now, to, running.back().family, KernelSign::None, running.back().group});
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
  std::unordered_map<std::string, std::pair<KernelFamily, KernelSign>> kinds_{};
  std::size_t operators_ = 0;
  std::optional<double> origin_{};  ///< microseconds of the first event
};

bool read_arguments(JsonStream& in, Event& event) {
  return in.object([&](std::string_view key) {
    if (key == "Process Group Description" && in.peek() == '"') return in.text(event.group);
    if (key == "Collective name" && in.peek() == '"') return in.text(event.collective);
    if (key == "Process Group Ranks" && in.peek() == '"') return in.text(event.members);
    if (key == "stream" && in.peek() != '"') return in.number(event.stream);
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
    for (std::string* text :
         {&event.phase, &event.category, &event.name, &event.group, &event.collective, &event.members})
      text->clear();
    event.start = event.thread = event.ranks = 0, event.duration = event.stream = -1;
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
  // A profiler that was killed leaves a trace without its end: what comes before it is good.
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
  if (!whole) trace.cut = in.error();
  std::stable_sort(trace.kernels.begin(), trace.kernels.end(),
                   [](const TraceKernel& a, const TraceKernel& b) { return a.start < b.start; });
  return trace;
}

}  // namespace plan
