// The log of a training run, line by line. Frameworks differ in a table (log_keys.cpp); here is what they share:
// colours, prefixes of launchers, numbers with separators and letters behind them, and what NCCL and PyTorch print
// themselves. Tested by tests/logs/log_test.cpp.
#include "cli/logs/log_read.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <istream>
#include <iterator>
#include <memory>
#include <utility>

#include "cli/logs/log_keys.hpp"
#include "cli/logs/log_numbers.hpp"
#include "cli/logs/no_number.hpp"
#include "formulas/text.hpp"
#include "hwprobe/fits/fit.hpp"

namespace plan {
namespace {

constexpr std::size_t kLongestLine = 64 * 1024;

/// The line without colour codes: ESC [ ... letter.
std::string without_colours(std::string_view line) {
  std::string out;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '\x1b') {
      out += line[i];
      continue;
    }
    while (i + 1 < line.size() && !std::isalpha(static_cast<unsigned char>(line[i + 1]))) ++i;
    ++i;
  }
  return out;
}

}  // namespace

void Series::add(double value) {
  constexpr std::size_t kMost = 1 << 16;
  largest_ = count_ == 0 ? value : std::max(largest_, value);
  last_ = value, sum_ += value;
  if (count_++ % every_ != 0) return;
  kept_.push_back(value);
  if (kept_.size() < kMost) return;
  for (std::size_t i = 0; 2 * i < kept_.size(); ++i) kept_[i] = kept_[2 * i];
  kept_.resize(kept_.size() / 2);
  every_ *= 2;
}

Steady steady(const Series& series) {
  const std::vector<double>& all = series.values();
  Steady out;
  if (all.empty()) return out;
  const double late = median({all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2), all.end()});
  std::size_t first = 0;
  while (first + 1 < all.size() && std::fabs(all[first] - late) > 0.1 * std::fabs(late)) ++first;
  const std::vector<double> rest(all.begin() + static_cast<std::ptrdiff_t>(first), all.end());
  out.median = median(rest);
  std::vector<double> deviations;
  for (const double value : rest) {
    deviations.push_back(std::fabs(value - out.median));
    out.spikes += value > 1.5 * out.median ? 1 : 0;
  }
  constexpr double kMadToSigma = 1.4826;  // of a normal distribution
  out.spread = out.median > 0 ? kMadToSigma * median(deviations) / out.median : 0;
  out.left_out = static_cast<std::int64_t>(first) * series.every();
  out.used = series.count() - out.left_out;
  out.spikes *= series.every();
  return out;
}

/// A step's line of Megatron-LM begins with this and ends in a bar: one without it was wrapped, perhaps inside a
/// number, by the terminal that it was copied from.
constexpr std::string_view kMegatronBegin = "consumed samples:";
bool ends_in_bar(std::string_view line) { return trim(line).ends_with('|'); }

void LogReader::take(std::string_view raw) {
  constexpr std::size_t kMostPieces = 8;
  ++log_.lines;
  raw = raw.substr(0, kLongestLine);
  const bool coloured = raw.find('\x1b') != std::string_view::npos;
  const std::string clean = coloured ? without_colours(raw) : std::string();
  const std::string_view line = coloured ? std::string_view(clean) : raw;
  const bool begins = line.find(kMegatronBegin) != std::string_view::npos;
  if (begins || pieces_.size() >= kMostPieces) take_pieces();
  if (pieces_.empty() && (!begins || ends_in_bar(line))) return take_whole(line);
  pieces_.emplace_back(line.ends_with('\r') ? line.substr(0, line.size() - 1) : line);
  if (!ends_in_bar(line)) return;
  const std::string whole = fmt::format("{}", fmt::join(std::exchange(pieces_, {}), ""));
  take_whole(whole);
}

/// Lines that are no pieces of one after all.
void LogReader::take_pieces() {
  for (const std::string& piece : std::exchange(pieces_, {})) take_whole(piece);
}

void LogReader::take_whole(std::string_view line) {
  if (line.find("NCCL") != std::string_view::npos) take_nccl(line);
  for (const std::string_view words : end_words())
    log_.ended = log_.ended || line.find(words) != std::string_view::npos;
  if (line.find("CUDA out of memory") != std::string_view::npos) take_out_of_memory(line);
  take_step(line);
}

bool LogReader::take_again(double step) {
  constexpr std::size_t kRemembered = 16;  // ranks are no further apart
  if (std::find(counted_.begin(), counted_.end(), step) != counted_.end()) return true;
  if (counted_.size() == kRemembered) counted_.erase(counted_.begin());
  counted_.push_back(step);
  return false;
}

namespace {

/// Of memory the largest counts, whichever rank prints it.
bool is_memory(LogFigure figure) {
  return figure == LogFigure::Allocated || figure == LogFigure::Reserved || figure == LogFigure::Device;
}

}  // namespace

void LogReader::take_step(std::string_view line) {
  const double no_number = has_no_number(line) ? 1 : 0;
  bool counts_them = false;  // the line does itself
  for (const LogLine& kind : log_lines()) {
    if (line.find(kind.anchor) == std::string_view::npos) continue;
    if (!kind.unless.empty() && line.find(kind.unless) != std::string_view::npos) return;
    bool found = false;
    const std::optional<double> step = kind.counter.empty() ? std::nullopt : number_after(line, kind.counter);
    const bool another_rank = step && take_again(*step);
    for (const LogKey& key : kind.keys) {
      const std::optional<double> value = number_after(line, key.key);
      if (!value || *value < 0 || !std::isfinite(*value * key.scale)) continue;
      if (another_rank && !is_memory(key.figure)) continue;
      const bool counted = key.figure == LogFigure::NotNumber;
      counts_them = counts_them || counted;
      log_.figures[key.figure].add(counted ? std::max(*value, no_number) : *value * key.scale);
      found = true;
    }
    if (no_number > 0 && !counts_them && !another_rank) log_.figures[LogFigure::NotNumber].add(no_number);
    if (found && kind.is_step && log_.dialect.empty()) log_.dialect = kind.dialect;
    return;
  }
  if (no_number > 0) log_.figures[LogFigure::NotNumber].add(no_number);
  if (line.find("%|") != std::string_view::npos) take_bar(line);
}

void LogReader::take_bar(std::string_view line) {
  constexpr std::size_t kMostBars = 16;
  const std::optional<Bar> bar = bar_on(line);
  if (!bar || (bars_.size() >= kMostBars && !bars_.contains(bar->steps))) return;
  bars_[bar->steps].add(bar->seconds);
}

void LogReader::take_nccl(std::string_view line) {
  constexpr std::size_t kMostVersions = 4;
  if (const std::size_t at = line.find("NCCL version "); at != std::string_view::npos) {
    const std::string_view rest = line.substr(at + 13);
    const std::string version(rest.substr(0, rest.find_first_of(" \r")));
    const auto& known = log_.nccl_versions;
    if (known.size() < kMostVersions && std::find(known.begin(), known.end(), version) == known.end())
      log_.nccl_versions.push_back(version);
  }
  if (const std::size_t at = line.find(" coll channels"); at != std::string_view::npos) {
    const std::size_t begin = line.find_last_not_of("0123456789", at - (at > 0)) + 1;
    if (const auto channels = number_at(line.substr(begin, at - begin)); channels && *channels < 1e6)
      log_.nccl_channels = std::max(log_.nccl_channels, static_cast<int>(*channels));
  }
  disabled_ += line.find("P2P is disabled between") != std::string_view::npos ||
               line.find("NCCL_P2P_DISABLE set by environment to 1") != std::string_view::npos;
  const std::size_t via = line.find(" via ");
  if (via == std::string_view::npos) return;
  const std::string_view way = line.substr(via + 5);
  p2p_ += way.starts_with("P2P") ? 1 : 0;
  shared_memory_ += way.starts_with("SHM") || way.starts_with("direct shared memory") ? 1 : 0;
  sockets_ += way.starts_with("NET/Socket") ? 1 : 0;
  if (way.starts_with("NET/") && !way.starts_with("NET/Socket"))
    ++(way.find("GDRDMA") != std::string_view::npos ? rdma_ : staged_);
}

void LogReader::take_out_of_memory(std::string_view line) {
  if (log_.out_of_memory) return;
  OutOfMemory& oom = log_.out_of_memory.emplace();
  oom.where = fmt::format("{}:{}", log_.file, log_.lines);
  oom.asked = bytes_after(line, "Tried to allocate ");
  oom.capacity = bytes_after(line, "total capacity of ");
  oom.free = bytes_before(line, " is free");
  oom.allocated = bytes_before(line, " is allocated by PyTorch");
  oom.reserved_unused = bytes_before(line, " is reserved by PyTorch but unallocated");
}

MeasuredLog LogReader::so_far() const {
  MeasuredLog log = log_;
  const auto speak = [&](const char* fault, bool speaks_for, std::string text) {
    log.evidence.push_back({fault, speaks_for, std::move(text)});
  };
  if (shared_memory_ > 0)
    speak("links_slow", true, fmt::format("NCCL went through host memory (SHM) on {} channels", shared_memory_));
  else if (disabled_ > 0)
    speak("links_slow", true, "NCCL says that P2P is disabled");
  else if (p2p_ > 0)
    speak("links_slow", false, "NCCL's channels inside nodes go directly between GPUs (P2P)");
  if (sockets_ > 0)
    speak("network_slow", true, fmt::format("NCCL went through TCP sockets (NET/Socket) on {} channels", sockets_));
  else if (staged_ > 0 && rdma_ == 0)
    speak("network_slow", true, fmt::format("NCCL's {} network channels lack GPUDirect RDMA (GDRDMA)", staged_));
  if (const Series* retries = log.find(LogFigure::AllocatorRetries); retries != nullptr && retries->largest() > 0)
    speak("fragmentation", true,
          fmt::format("the allocator gave everything back and began again {:.0f} times", retries->largest()));
  // Evaluation has bars of its own: training is the one that took longest.
  const auto longest = std::max_element(bars_.begin(), bars_.end(),
                                        [](const auto& a, const auto& b) { return a.second.sum() < b.second.sum(); });
  if (longest != bars_.end() && (log.dialect.empty() || log.dialect == "Trainer" || log.dialect == "LLaMA-Factory") &&
      log.find(LogFigure::StepTime) == nullptr) {
    log.figures[LogFigure::StepTime] = longest->second;
    if (log.dialect.empty()) log.dialect = "Trainer";
  }
  return log;
}

MeasuredLog LogReader::finish() && {
  if (!line_.empty()) take(std::exchange(line_, {}));
  take_pieces();
  return so_far();
}

void LogReader::take_bytes(std::string_view bytes) {
  // What frameworks print of steps is ASCII: in UTF-16, as PowerShell redirects it, every other byte of it is 0.
  std::string letters;
  if (bytes.find('\0') != std::string_view::npos) {
    std::copy_if(bytes.begin(), bytes.end(), std::back_inserter(letters), [](char c) { return c != '\0'; });
    bytes = letters;
  }
  while (!bytes.empty()) {
    const std::size_t end = bytes.find_first_of("\n\r");  // progress bars rewrite their line
    const std::string_view piece = bytes.substr(0, end);
    if (end == std::string_view::npos || !line_.empty())
      line_ += piece.substr(0, kLongestLine - std::min(kLongestLine, line_.size()));
    if (end == std::string_view::npos) return;
    take(line_.empty() ? piece : std::string_view(line_));
    line_.clear();
    bytes.remove_prefix(end + 1);
  }
}

namespace {

constexpr std::size_t kPiece = 1 << 16;

Result<MeasuredLog> finished(LogReader&& reader, const std::string& file) {
  MeasuredLog log = std::move(reader).finish();
  if (log.dialect.empty() && !log.out_of_memory) {
    std::vector<std::string_view> known;
    for (const LogLine& kind : log_lines())
      if (std::find(known.begin(), known.end(), kind.dialect) == known.end()) known.push_back(kind.dialect);
    return fail({"no_steps",
                 fmt::format("{}: no line of a training step among {} lines", file, log.lines),
                 {},
                 {fmt::format("plan reads the logs of {}", fmt::join(known, ", "))},
                 {file, 0, 0, 1, {}}});
  }
  return log;
}

}  // namespace

Result<MeasuredLog> read_log(std::istream& in, const std::string& file) {
  LogReader reader(file);
  std::array<char, kPiece> buffer{};
  while (in.read(buffer.data(), buffer.size()) || in.gcount() > 0)
    reader.take_bytes({buffer.data(), static_cast<std::size_t>(in.gcount())});
  return finished(std::move(reader), file);
}

Result<MeasuredLog> read_log(const std::string& path) {
  std::error_code status;
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> in(
      std::filesystem::is_directory(path, status) ? nullptr : gzopen(path.c_str(), "rb"), gzclose);
  if (in == nullptr)
    return fail({"cannot_read", fmt::format("{} cannot be opened", path), {}, {}, {path, 0, 0, 1, {}}});
  LogReader reader(path);
  std::array<char, kPiece> buffer{};
  for (int n = 0; (n = gzread(in.get(), buffer.data(), buffer.size())) > 0;)  // as it is where nothing is compressed
    reader.take_bytes({buffer.data(), static_cast<std::size_t>(n)});
  return finished(std::move(reader), path);
}

}  // namespace plan
