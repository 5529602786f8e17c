// Traces of PyTorch's profiler: Chrome's trace format, where every kernel is one complete event ("ph": "X") with its
// start and duration in microseconds. Parsed as a stream of tokens, because whole traces are larger than memory should
// be. Tested by tests/logs/trace_test.cpp.
#include <zlib.h>

#include <algorithm>
#include <array>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <streambuf>

#include "cli/logs/trace.hpp"

namespace plan {
namespace {

/// A file read through zlib, which also passes on what is not compressed.
class GzipBuffer : public std::streambuf {
 public:
  explicit GzipBuffer(const std::string& path) : file_(gzopen(path.c_str(), "rb"), gzclose) {}
  [[nodiscard]] bool open() const { return file_ != nullptr; }

 protected:
  int_type underflow() override {
    const int n = gzread(file_.get(), buffer_.data(), static_cast<unsigned>(buffer_.size()));
    if (n <= 0) return traits_type::eof();
    setg(buffer_.data(), buffer_.data(), buffer_.data() + n);
    return traits_type::to_int_type(*gptr());
  }

 private:
  std::unique_ptr<gzFile_s, int (*)(gzFile)> file_;
  std::array<char, 1 << 16> buffer_{};
};

/// One event, as far as it matters here.
struct Event {
  std::string phase{}, category{}, name{}, group{}, collective{};
  double start = 0, duration = -1;
  int ranks = 0;
};

using Json = nlohmann::json;

/// Collects the events of `traceEvents` and drops everything else unread.
class Handler : public nlohmann::json_sax<Json> {
 public:
  explicit Handler(Trace& trace) : trace_(trace) {}
  std::string error{};

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t v) override { return number(static_cast<double>(v)); }
  bool number_unsigned(number_unsigned_t v) override { return number(static_cast<double>(v)); }
  bool number_float(number_float_t v, const string_t&) override { return number(v); }
  bool binary(binary_t&) override { return true; }
  bool string(string_t& text) override {
    if (depth_ == event_depth_) {
      if (key_ == "ph") event_.phase = text;
      if (key_ == "cat") event_.category = text;
      if (key_ == "name") event_.name = text;
    } else if (event_depth_ > 0 && depth_ == event_depth_ + 1) {
      if (key_ == "Process Group Description") event_.group = text;
      if (key_ == "Collective name") event_.collective = text;
    }
    return true;
  }
  bool key(string_t& name) override {
    key_ = name;
    return true;
  }
  bool start_object(std::size_t) override {
    ++depth_;
    if (in_events_ && depth_ == events_depth_ + 1) event_ = {}, event_depth_ = depth_;
    return nested();
  }
  bool end_object() override {
    if (event_depth_ > 0 && depth_ == event_depth_) take(), event_depth_ = 0;
    --depth_;
    return true;
  }
  bool start_array(std::size_t) override {
    ++depth_;
    if ((depth_ == 1 || key_ == "traceEvents") && !in_events_) in_events_ = true, events_depth_ = depth_;
    return nested();
  }
  bool end_array() override {
    if (in_events_ && depth_ == events_depth_) in_events_ = false;
    --depth_;
    return true;
  }
  bool parse_error(std::size_t at, const std::string&, const nlohmann::detail::exception& problem) override {
    // A profiler that was killed leaves a trace without its end: what stands before it is good.
    error = "byte " + std::to_string(at) + ": " + problem.what();
    return false;
  }

 private:
  bool nested() {
    constexpr int kDeepest = 64;
    if (depth_ <= kDeepest) return true;
    error = "nested too deeply";
    return false;
  }
  bool number(double value) {
    if (event_depth_ > 0 && depth_ == event_depth_) {
      if (key_ == "ts") event_.start = value;
      if (key_ == "dur") event_.duration = value;
    } else if (event_depth_ > 0 && depth_ == event_depth_ + 1 && key_ == "Group size") {
      event_.ranks = static_cast<int>(std::clamp(value, 0.0, 1e9));
    }
    return true;
  }
  void take() {
    constexpr double kMicro = 1e-6;
    if (event_.phase != "X" || !(event_.duration >= 0)) return;
    const double start = event_.start * kMicro, end = (event_.start + event_.duration) * kMicro;
    if (event_.name.starts_with("ProfilerStep#") && event_.category != "gpu_user_annotation")
      trace_.steps.emplace_back(start, end);
    if (event_.category != "kernel" && event_.category != "gpu_memcpy" && event_.category != "gpu_memset") return;
    TraceKernel kernel{start, end, event_.category == "kernel" ? family_of(event_.name) : KernelFamily::Copy};
    if (kernel.family == KernelFamily::Communication)
      kernel.group = group_index(trace_, event_.name, {event_.collective, event_.group, event_.ranks});
    trace_.kernels.push_back(kernel);
  }

  Trace& trace_;
  Event event_{};
  std::string key_{};
  int depth_ = 0, events_depth_ = 0, event_depth_ = 0;
  bool in_events_ = false;
};

}  // namespace

Result<Trace> read_kineto(const std::string& path) {
  GzipBuffer buffer(path);
  const Place place{path, 0, 0, 1, {}};
  if (!buffer.open()) return fail({"cannot_read", path + " cannot be opened", {}, {}, place});
  std::istream in(&buffer);
  Trace trace;
  trace.file = path;
  Handler handler(trace);
  const bool whole = Json::sax_parse(in, &handler);
  if (!whole && trace.kernels.empty()) return fail({"bad_trace", path + ": no trace: " + handler.error, {}, {}, place});
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
