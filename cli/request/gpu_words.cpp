// GPUs and their number in one word, as clusters, clouds and people write it. Tested by tests/cli/proposals_test.cpp.
#include "cli/request/gpu_words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cli/terminal/numbers.hpp"
#include "formulas/text.hpp"
#include "planner/problem/axes.hpp"
#include "presets/machines.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

/// The names of Cloud TPU's types, and what their number counts: chips from v5e on but for v5p.
struct TpuType {
  std::string_view name, kind;
  int cores;  ///< of a chip, where it counts those
};
constexpr TpuType kTpuTypes[] = {{"v3", "tpu-v3", 2},         {"v4", "tpu-v4", 2},   {"v5p", "tpu-v5p", 2},
                                 {"v5litepod", "tpu-v5e", 1}, {"v5e", "tpu-v5e", 1}, {"v6e", "tpu-v6e", 1}};

constexpr std::string_view kDigits = "0123456789", kBetween = " x*:\t";

std::optional<int> gpus_of(std::string_view text) {
  const bool digits = !text.empty() && text.find_first_not_of(kDigits) == std::string_view::npos;
  const auto count = digits ? read_count("", text, 1, kMostRanks) : Result<std::int64_t>(0);
  return count && *count > 0 ? std::optional(static_cast<int>(*count)) : std::nullopt;
}

std::optional<CountedGpus> known(std::int64_t gpus, std::string_view kind, const StoreOptions& store) {
  const Result<Found<Gpu>> found = kind.empty() || gpus > kMostRanks ? fail(Error{}) : load_gpu(kind, store);
  if (found) return CountedGpus{static_cast<int>(gpus), found->value.name};
  const CloudMachine machine = machine_called(kind);
  if (machine.gpus == 0 || gpus * machine.gpus > kMostRanks) return std::nullopt;
  return CountedGpus{static_cast<int>(gpus) * machine.gpus, machine.gpu, false, machine.name};
}

std::optional<CountedGpus> tpu_slice(std::string_view word) {
  if (word.starts_with("tpu")) word = trim(word.substr(3), "-_");
  const std::size_t dash = word.find('-');
  const std::optional<int> count = dash < word.size() ? gpus_of(word.substr(dash + 1)) : std::nullopt;
  for (const TpuType& type : kTpuTypes)
    if (count && type.name == word.substr(0, dash) && *count % type.cores == 0)
      return CountedGpus{*count / type.cores, std::string(type.kind), type.cores > 1};
  return std::nullopt;
}

}  // namespace

std::optional<CountedGpus> counted_gpus(std::string_view word, const StoreOptions& store) {
  const std::string low = lowered(std::string(trim(word)));
  if (low.empty()) return std::nullopt;
  if (auto tpus = tpu_slice(low)) return tpus;
  if (auto one = known(1, low, store); one && !one->machine.empty()) return one;
  std::string_view kind = low;
  std::int64_t gpus = 1;
  // In front a number that a sign parts from the rest, and before it that of nodes.
  for (std::size_t end = 0; (end = kind.find_first_of(" x*:\t-")) < kind.size();) {
    const std::optional<int> count = gpus_of(kind.substr(0, end));
    if (!count || (gpus *= *count) > kMostRanks) break;
    kind.remove_prefix(std::min(kind.find_first_not_of(kBetween, end + 1), kind.size()));  // a name may end with an x
    if (auto found = known(gpus, kind, store)) return found;
  }
  kind = low;  // a name of digits alone is no number in front
  const std::size_t sign = kind.find_last_of(kBetween);
  const std::optional<int> behind = sign == std::string_view::npos ? std::nullopt : gpus_of(kind.substr(sign + 1));
  if (!behind) return std::nullopt;
  constexpr std::string_view kSigns = " *:\t";
  kind = trim(kind.substr(0, sign), kSigns);
  if (auto found = known(*behind, kind, store)) return found;
  return kind.ends_with('x') ? known(*behind, trim(kind.substr(0, kind.size() - 1), kSigns), store) : std::nullopt;
}

Error refused_count(std::string_view key, std::string_view word, const CountedGpus& meant, bool kind_alone, bool file) {
  Error error{
      "bad_value", fmt::format("`--{}` does not take a kind and a number as `{}`", key, yaml::printable(word)), {}, {}};
  if (meant.cores) error.message += ", whose number is of TensorCores, two of each chip";
  if (!meant.machine.empty())
    error.message = fmt::format("`--{}` does not take a machine of a cloud: `{}` has {} {}", key, meant.machine,
                                machine_called(meant.machine).gpus, meant.kind);
  error.help = {kind_alone ? fmt::format("write `{}{}`", file ? "gpu: " : "--gpu ", meant.kind)
                           : fmt::format("write `{}{}x{}`", file ? "gpus: " : "--gpus ", meant.gpus, meant.kind)};
  return error;
}

}  // namespace plan
