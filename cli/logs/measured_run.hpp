#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "formulas/real_bytes.hpp"
#include "planner/runs/diagnosis.hpp"

namespace plan {

/// Figures that logs print on every step, or now and then. In SI units and bytes, whatever the log prints.
enum class LogFigure {
  StepTime,              ///< s
  TokensPerSecondGpu,    ///< tokens/s of one GPU
  TokensPerSecond,       ///< of the job
  TokensPerSecondSoFar,  ///< of the job, mean from its start on
  SamplesPerSecond,      ///< sequences of the job
  TflopsPerGpu,          ///< under the log's own convention
  Mfu,                   ///< ratio, likewise
  GlobalBatch,           ///< sequences a step
  BatchOfEither,         ///< sequences or tokens a step, by the release, to three digits
  LossScale,
  Skipped,          ///< steps without an update since the line before
  SkippedSoFar,     ///< the same since the start
  NotNumber,        ///< steps whose loss was no number, since the line before
  Allocated,        ///< bytes, peak of the framework's allocator
  Reserved,         ///< bytes, peak that the allocator took from the device
  Device,           ///< bytes, taken of the device by everything
  AllocatorRetries  ///< times that the allocator freed all it held to find room, since the start
};

/// Values of one figure in the order of the steps. A long run keeps every second, fourth, ... value, so that the memory
/// it takes is bounded.
class Series {
 public:
  void add(double value);
  [[nodiscard]] bool empty() const { return kept_.empty(); }
  [[nodiscard]] std::int64_t count() const { return count_; }
  /// Each kept value represents so many.
  [[nodiscard]] std::int64_t every() const { return every_; }
  [[nodiscard]] const std::vector<double>& values() const { return kept_; }
  [[nodiscard]] double largest() const { return largest_; }
  [[nodiscard]] double last() const { return last_; }
  [[nodiscard]] double sum() const { return sum_; }

 private:
  std::vector<double> kept_{};
  std::int64_t count_ = 0, every_ = 1;
  double largest_ = 0, last_ = 0, sum_ = 0;
};

/// A series without its warm-up; numbers of values count those that were not kept, too.
struct Steady {
  double median = 0;
  double spread = 0;          ///< relative standard deviation, from the median absolute deviation
  std::int64_t left_out = 0;  ///< values of the warm-up
  std::int64_t used = 0;
  std::int64_t spikes = 0;  ///< values above one and a half medians: checkpoints, evaluation, stalls
};
/// Leaves out leading values until one lies within a tenth of the median of the second half.
[[nodiscard]] Steady steady(const Series& series);

/// `torch.OutOfMemoryError` as PyTorch words it; 0 where the line does not say.
struct OutOfMemory {
  std::string where{};  ///< "out.log:1234"
  RealBytes asked{}, capacity{}, free{}, allocated{}, reserved_unused{};
};

/// What the log of a run says, read line by line.
struct MeasuredLog {
  std::string file{};
  std::string dialect{};  ///< "Megatron-LM", "torchtitan", ...; empty: no line of a training step was found
  std::map<LogFigure, Series> figures{};
  std::optional<OutOfMemory> out_of_memory{};
  std::vector<Evidence> evidence{};          ///< of NCCL's lines
  std::vector<std::string> nccl_versions{};  ///< as printed
  int nccl_channels = 0;                     ///< most of a communicator; 0: not printed
  bool ended = false;                        ///< the framework said that training is over
  std::int64_t lines = 0;

  [[nodiscard]] const Series* find(LogFigure figure) const {
    const auto found = figures.find(figure);
    return found == figures.end() ? nullptr : &found->second;
  }
  /// Steps without an update; nothing where the log does not count them.
  [[nodiscard]] std::optional<double> skipped() const {
    if (const Series* so_far = find(LogFigure::SkippedSoFar)) return so_far->largest();
    if (const Series* each = find(LogFigure::Skipped)) return each->sum();
    return std::nullopt;
  }
};

}  // namespace plan
