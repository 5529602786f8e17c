// The CSV of nvidia-smi: a header of names with units ("clocks.current.sm [MHz]"), then a line a GPU and a moment.
// Tested by tests/logs/log_test.cpp.
#include "cli/logs/smi_read.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>
#include <optional>
#include <set>

#include "cli/logs/slow_ranks.hpp"
#include "cli/terminal/words.hpp"
#include "formulas/text.hpp"
#include "hwprobe/fits/fit.hpp"

namespace plan {
namespace {

/// A GPU counts as slow where it would take so much longer at its median clock than the others.
constexpr double kSlower = 1 / 0.95;
/// Idle moments tell nothing about a job.
constexpr double kBusyPercent = 50;
/// MHz that no GPU runs at.
constexpr double kNoClock = 1e5;
constexpr std::size_t kMostSamples = 1'000'000;

std::string_view trimmed(std::string_view text) { return trim(text, " \t\r"); }

std::optional<double> number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  return value;
}

/// What the lines add up to.
struct Samples {
  std::map<std::string, std::vector<double>> clocks{};  ///< MHz by GPU, while busy
  std::map<std::string, int> reasons{};                 ///< throttling, number of lines
  std::set<std::string> narrow_links{};                 ///< GPUs whose PCIe link runs below its maximum while busy
  RealBytes memory_used{};                              ///< most of any GPU at any moment
  std::size_t lines = 0;
};

/// Columns by name without the unit; nvidia-smi renamed the throttle reasons in release 535.
struct Columns {
  explicit Columns(std::string_view header) {
    for (const std::string_view part : split(header, ",")) {
      const std::string_view name = trimmed(part);
      names.emplace_back(trimmed(name.substr(0, name.find('['))));
    }
  }
  [[nodiscard]] std::optional<std::size_t> find(std::initializer_list<std::string_view> words) const {
    for (std::size_t i = 0; i < names.size(); ++i)
      for (const std::string_view word : words)
        if (names[i] == word) return i;
    return std::nullopt;
  }
  std::vector<std::string> names{};
};

void take(const Columns& columns, const std::vector<std::string_view>& cells, Samples& samples) {
  const auto cell = [&](std::initializer_list<std::string_view> words) {
    const auto at = columns.find(words);
    return at && *at < cells.size() ? trimmed(cells[*at]) : std::string_view();
  };
  // MiB is nvidia-smi's only unit of memory, also where `nounits` leaves it out.
  if (const auto used = number(cell({"memory.used"})))
    samples.memory_used = std::max(samples.memory_used, RealBytes(*used * kMiB));
  const auto busy = number(cell({"utilization.gpu"}));
  if (busy && *busy < kBusyPercent) return;
  std::string gpu(cell({"uuid", "gpu_uuid", "index", "pci.bus_id", "gpu_bus_id"}));
  if (const auto clock = number(cell({"clocks.current.sm", "clocks.sm", "clocks.gr", "clocks.current.graphics"}));
      clock && *clock > 0 && *clock < kNoClock)  // a damaged line may say anything
    samples.clocks[gpu].push_back(*clock);
  constexpr std::string_view kPrefixes[] = {"clocks_event_reasons.", "clocks_throttle_reasons."};
  for (const std::string_view reason :
       {"sw_power_cap", "hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown"})
    for (const std::string_view prefix : kPrefixes)
      if (cell({std::string(prefix) + std::string(reason)}) == "Active") ++samples.reasons[std::string(reason)];
  const auto now = number(cell({"pcie.link.width.current"})), most = number(cell({"pcie.link.width.max"}));
  if (now && most && *now < *most) samples.narrow_links.insert(gpu);
}

std::vector<Evidence> evidence_of(const Samples& samples) {
  std::vector<Evidence> evidence;
  for (const auto& [reason, lines] : samples.reasons)
    if (10 * lines > static_cast<int>(samples.lines))  // a moment of it is normal
      evidence.push_back(
          {"clocks_low", true, fmt::format("nvidia-smi: {} active in {} of {} lines", reason, lines, samples.lines)});
  std::vector<NamedTime> cycles;
  for (const auto& [gpu, clocks] : samples.clocks) cycles.push_back({gpu, 1 / median(clocks)});
  for (const SlowRank& slow : slow_ranks(cycles, kSlower))
    evidence.push_back({"slow_rank", true,
                        fmt::format("nvidia-smi: GPU {} runs at {:.0f} MHz, the others at {:.0f}", slow.name,
                                    1 / slow.time, 1 / slow.usual)});
  for (const std::string& gpu : samples.narrow_links)
    evidence.push_back(
        {"slow_rank", true, fmt::format("nvidia-smi: the PCIe link of GPU {} is narrower than it can be", gpu)});
  return evidence;
}

}  // namespace

Result<SmiSummary> read_smi(const std::string& path) {
  const Place place{path, 1, 0, 1, {}};
  std::ifstream in(path);
  std::string line;
  if (!in || !std::getline(in, line)) return fail({"cannot_read", path + " cannot be read", {}, {}, place});
  const Columns columns(line);
  if (!columns.find({"clocks.current.sm", "clocks.sm", "clocks.gr", "clocks.current.graphics",
                     "pcie.link.width.current", "memory.used", "clocks_event_reasons.sw_power_cap",
                     "clocks_throttle_reasons.sw_power_cap"}))
    return fail(
        {"bad_smi",
         path + ": no column that tells how the GPUs ran",
         {},
         {"nvidia-smi --query-gpu=index,utilization.gpu,memory.used,clocks.sm,clocks_event_reasons.sw_power_cap "
          "--format=csv -l 5"},
         place});
  Samples samples;
  while (samples.lines < kMostSamples && std::getline(in, line)) {
    if (trimmed(line).empty()) continue;
    ++samples.lines;
    take(columns, split(line, ","), samples);
  }
  return SmiSummary{evidence_of(samples), samples.memory_used};
}

}  // namespace plan
