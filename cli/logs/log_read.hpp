#pragma once

#include <istream>
#include <string>
#include <string_view>
#include <vector>

#include "cli/logs/measured_run.hpp"
#include "formulas/result.hpp"

namespace plan {

/// Reads logs line by line: a log of any length in bounded memory. Lines longer than 64 KiB are cut.
class LogReader {
 public:
  explicit LogReader(std::string file) { log_.file = std::move(file); }
  void take(std::string_view line);
  /// The next bytes of the log, lines cut anywhere.
  void take_bytes(std::string_view bytes);
  /// What was read so far; a line that has not ended yet is left out.
  [[nodiscard]] MeasuredLog so_far() const;
  [[nodiscard]] MeasuredLog finish() &&;

 private:
  void take_whole(std::string_view line);
  void take_pieces();
  void take_step(std::string_view line);
  /// Takes down a step by its number; was it before? Where every rank prints, the first line of a step counts.
  [[nodiscard]] bool take_again(double step);
  void take_bar(std::string_view line);
  void take_nccl(std::string_view line);
  void take_out_of_memory(std::string_view line);

  MeasuredLog log_{};
  std::string line_{};                     ///< that has begun
  std::vector<std::string> pieces_{};      ///< lines that may be one, wrapped by a terminal
  std::vector<double> counted_{};          ///< the last steps, by number
  std::map<std::int64_t, Series> bars_{};  ///< seconds a step of progress bars, by their number of steps
  int p2p_ = 0, shared_memory_ = 0, sockets_ = 0, rdma_ = 0, staged_ = 0,
      disabled_ = 0;  ///< NCCL's channels by transport
};

/// The log of a file, or that it cannot be read, or that it holds no training step and no out-of-memory error.
[[nodiscard]] Result<MeasuredLog> read_log(const std::string& path);

/// Reads a log from a stream that messages call `file`.
[[nodiscard]] Result<MeasuredLog> read_log(std::istream& in, const std::string& file);

}  // namespace plan
