// GPUs and their number in one word, as clusters, clouds and people write it. Tested by tests/cli/proposals_test.cpp.
#include "cli/request/words/gpu_words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cli/terminal/numbers.hpp"
#include "cli/terminal/words.hpp"
#include "formulas/text.hpp"
#include "planner/problem/axes.hpp"
#include "presets/entries.hpp"
#include "presets/gpu_names.hpp"
#include "presets/hardware.hpp"
#include "presets/header.hpp"
#include "presets/machines.hpp"
#include "presets/reader.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

/// The names of Cloud TPU's types, and what their number counts: chips from v5e on but for v5p.
struct TpuType {
  std::string_view name, kind;
  int cores;  ///< of a chip, where it counts those
};
constexpr TpuType kTpuTypes[] = {{"v3", "tpu-v3", 2},         {"v4", "tpu-v4", 2},   {"v5p", "tpu-v5p", 2},
                                 {"v5litepod", "tpu-v5e", 1}, {"v5e", "tpu-v5e", 1}, {"v6e", "tpu-v6e", 1},
                                 {"7x", "tpu-v7", 2}};  // tpu7x-8 is a slice of 2x2x1 chips

constexpr std::string_view kDigits = "0123456789", kBetween = " x*:\t";

/// What people call GPUs and what holds them, and what is between their numbers.
constexpr std::string_view kGpuNouns =
    "gpu gpus chip chips card cards device devices accelerator accelerators rank ranks process processes tpu tpus gcd "
    "gcds";
constexpr std::string_view kNodeNouns =
    "node nodes host hosts machine machines server servers box boxes instance instances worker workers";
constexpr std::string_view kLinks = "x of with times by and";
constexpr std::string_view kOfOne = "each per a every";
constexpr std::string_view kUncounted = "all auto max any";

/// Words and numbers one by one; other signs than blanks and what multiplies end the search, and so do names that go on
/// with a number, as `a40` does: no tokens.
std::vector<std::string> tokens_of(std::string_view text) {
  std::vector<std::string> tokens;
  const auto kind = [](char c) { return c >= '0' && c <= '9' ? 1 : c >= 'a' && c <= 'z' ? 2 : 0; };
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t from = at;
    const int of = kind(text[at]);
    while (at < text.size() && kind(text[at]) == of && (of != 0 || at == from)) ++at;
    const std::string_view token = text.substr(from, at - from);
    if (of == 2 && at < text.size() && kind(text[at]) == 1 && !among_words(kLinks, token)) return {};
    if (of != 0)
      tokens.emplace_back(token);
    else if (text[from] == '*')
      tokens.emplace_back("x");
    else if (text[from] != ' ' && text[from] != '-')
      return {};
  }
  return tokens;
}

/// `0,1,2,3`, as CUDA numbers the devices of a node: how many they are; 0: it is no such list.
int devices_in(std::string_view text) {
  const std::vector<std::string_view> items = split(trim(text, " []"), ",");
  for (std::size_t i = 0; i < items.size(); ++i)
    if (trim(items[i]) != std::to_string(i)) return 0;
  return items.size() > 1 ? static_cast<int>(items.size()) : 0;
}

/// The preset of a GPU that goes by this name; empty if none does. Nothing is looked for that is merely like it.
std::string gpu_called(std::string_view name, const StoreOptions& store) {
  const std::optional<PresetEntry> entry = find_entry(PresetKind::Gpu, name, store);
  return entry ? entry->name : "";
}

/// A kind without a noun behind it: `h100 gpus`.
std::string_view without_noun(std::string_view kind) {
  kind = trim(kind);
  const std::size_t blank = kind.rfind(' ');
  const bool noun = blank != std::string_view::npos && among_words(kGpuNouns, kind.substr(blank + 1));
  return noun ? trim(kind.substr(0, blank)) : kind;
}

/// A plural without its `s`; not of a name that is another GPU's, as V100S is.
std::string_view without_plural(std::string_view kind, const StoreOptions& store) {
  if (!kind.ends_with('s')) return kind;
  for (const PresetEntry& entry : list_presets(PresetKind::Gpu, store))
    for (const std::string& other : scan_list(entry.text, "other_devices"))
      if (same_but_for_case(other, kind)) return kind;
  return kind.substr(0, kind.size() - 1);
}

/// A kind as a report has it: with a noun behind it, in the plural, or as drivers call it.
std::string bare_kind(std::string_view kind, const StoreOptions& store) {
  std::string bare(without_noun(kind));
  if (!gpu_called(bare, store).empty()) return bare;
  if (const std::string_view one = without_plural(bare, store); !gpu_called(one, store).empty())
    return std::string(one);
  const std::vector<PresetEntry> entries = list_presets(PresetKind::Gpu, store);
  if (std::string parts = gpu_of_parts(bare, entries); !parts.empty()) return parts;
  const std::string device = gpu_of_driver(bare, entries, store);
  return device.empty() ? bare : device;
}

std::optional<int> gpus_of(std::string_view text) {
  const bool digits = !text.empty() && text.find_first_not_of(kDigits) == std::string_view::npos;
  const auto count = digits ? read_count("", text, 1, kMostRanks) : Result<std::int64_t>(0);
  return count && *count > 0 ? std::optional(static_cast<int>(*count)) : std::nullopt;
}

/// So many machines of a kind, by a noun behind it: `2 h100 nodes`, `2 dgx-h100 servers`.
std::optional<CountedGpus> nodes_of(std::int64_t nodes, std::string_view kind, const StoreOptions& store) {
  const std::size_t blank = kind.rfind(' ');
  if (blank == std::string_view::npos || !among_words(kNodeNouns, kind.substr(blank + 1))) return std::nullopt;
  const std::string_view bare = trim(kind.substr(0, blank));
  std::optional<CountedGpus> node = machine_of_gpus(bare, store);
  if (const CloudMachine machine = machine_called(bare); !node && machine.gpus > 0)
    node = CountedGpus{machine.gpus, machine.gpu, false, machine.name};
  if (const auto found = node ? fail(Error{}) : load_gpu(bare_kind(bare, store), store); found)
    node = CountedGpus{found->value.gpus_per_node, found->value.name};
  if (!node || node->gpus < 1 || nodes * node->gpus > kMostRanks) return std::nullopt;
  node->gpus *= static_cast<int>(nodes);
  return node;
}

/// So many of a kind; `plain`: in whatever words.
std::optional<CountedGpus> known(std::int64_t gpus, std::string_view kind, const StoreOptions& store,
                                 bool plain = true) {
  if (kind.empty() || gpus > kMostRanks) return std::nullopt;
  const std::string_view bare = without_noun(kind);
  for (const std::string_view one : {bare, without_plural(bare, store)})
    if (const std::string name = gpu_called(one, store); !name.empty())
      return CountedGpus{static_cast<int>(gpus), name};
  if (auto nodes = nodes_of(gpus, kind, store)) return nodes;
  if (const CloudMachine machine = machine_called(kind); machine.gpus > 0) {  // its name may hold that of its GPU
    if (gpus * machine.gpus > kMostRanks) return std::nullopt;
    return CountedGpus{static_cast<int>(gpus) * machine.gpus, machine.gpu, false, machine.name};
  }
  if (!plain || machine_of_gpus(kind, store)) return std::nullopt;
  const std::string name = gpu_called(bare_kind(kind, store), store);
  return name.empty() ? std::nullopt : std::optional(CountedGpus{static_cast<int>(gpus), name});
}

std::optional<CountedGpus> tpu_slice(std::string_view word) {
  if (word.starts_with("tpu")) word = trim(word.substr(3), "-_ ");
  const std::size_t dash = word.find('-');
  const std::optional<int> count = dash < word.size() ? gpus_of(word.substr(dash + 1)) : std::nullopt;
  for (const TpuType& type : kTpuTypes)
    if (count && type.name == word.substr(0, dash) && *count % type.cores == 0)
      return CountedGpus{*count / type.cores, std::string(type.kind), type.cores > 1};
  return std::nullopt;
}

/// A number that a sign parts from the rest, which is what stays.
std::optional<int> number_in_front(std::string_view& kind) {
  const std::size_t end = kind.find_first_of(" x*:\t-");
  const std::optional<int> count = end < kind.size() ? gpus_of(kind.substr(0, end)) : std::nullopt;
  if (count) kind.remove_prefix(std::min(kind.find_first_not_of(kBetween, end + 1), kind.size()));
  return count;  // a name may end with an x
}

/// `h100x8` and `h100:8`; numbers may stand in front, too: `8xh100x2`.
std::optional<CountedGpus> counted_behind(std::string_view low, const StoreOptions& store) {
  const std::size_t sign = low.find_last_of(kBetween);
  const std::optional<int> behind = sign == std::string_view::npos ? std::nullopt : gpus_of(low.substr(sign + 1));
  if (!behind) return std::nullopt;
  constexpr std::string_view kSigns = " *:\t";
  const std::string_view kind = trim(low.substr(0, sign), kSigns);
  const std::string_view before = kind.ends_with('x') ? trim(kind.substr(0, kind.size() - 1), kSigns) : kind;
  for (const bool plain : {false, true})  // what is called just so goes first
    for (const std::string_view name : {kind, before})
      if (auto found = known(*behind, name, store, plain)) return found;
  std::string_view rest = before;
  const std::optional<int> front = number_in_front(rest);
  return front ? known(std::int64_t(*front) * *behind, rest, store) : std::nullopt;
}

/// What a word in small letters counts.
std::optional<CountedGpus> counted_in(const std::string& low, const StoreOptions& store) {
  if (low.empty()) return std::nullopt;
  if (auto one = known(1, low, store, false); one && !one->machine.empty()) return one;
  if (auto tpus = tpu_slice(low)) return tpus;
  std::string_view kind = low;
  std::int64_t gpus = 1;
  while (const std::optional<int> count = number_in_front(kind)) {
    if ((gpus *= *count) > kMostRanks) break;
    if (auto found = known(gpus, kind, store, false)) return found;
  }
  if (kind.size() < low.size())  // only what follows all of the numbers may be a device in a driver's words
    if (auto found = known(gpus, kind, store)) return found;
  const std::size_t digits = low.find_first_not_of(kDigits);  // `16h100`
  if (const auto glued = digits > 0 && digits < low.size() ? gpus_of(low.substr(0, digits)) : std::nullopt)
    if (const std::string name = gpu_called(low.substr(digits), store); !name.empty()) return CountedGpus{*glued, name};
  return counted_behind(low, store);
}

/// `2 nodes of 8 h100`, whose numbers multiply.
std::optional<CountedGpus> of_nodes(std::string_view low, const StoreOptions& store) {
  const std::optional<int> nodes = number_in_front(low);
  const std::size_t noun = low.find(' ');
  if (!nodes || noun == std::string_view::npos || !among_words(kNodeNouns, low.substr(0, noun))) return std::nullopt;
  low = trim(low.substr(noun));
  if (const std::size_t link = low.find(' '); link < low.size() && among_words(kLinks, low.substr(0, link)))
    low = trim(low.substr(link));
  std::string_view kind = low;
  return number_in_front(kind) ? counted_in(fmt::format("{}x{}", *nodes, low), store) : std::nullopt;
}

/// Lambda's machines, `gpu_8x_h100_sxm5`, or several of one: `2 x gpu_8x_h100_sxm5`.
std::optional<CountedGpus> of_lambda(std::string_view low, const StoreOptions& store) {
  std::int64_t count = 1;
  for (std::optional<int> number; count <= kMostRanks && (number = number_in_front(low));) count *= *number;
  if (!low.starts_with("gpu_") || low.find('x') == std::string_view::npos) return std::nullopt;
  std::string kind(low.substr(4));
  std::replace(kind.begin(), kind.end(), '_', ' ');
  std::optional<CountedGpus> found = counted_in(kind, store);
  if (!found || count * found->gpus > kMostRanks) return std::nullopt;
  found->gpus *= static_cast<int>(count);
  return found;
}

}  // namespace

std::optional<CountedGpus> machine_of_gpus(std::string_view kind, const StoreOptions& store) {
  const std::string low = folded_name(trim(kind));
  const bool board = low.starts_with("hgx"), box = board || low.starts_with("dgx");
  if (!box && low.find("nvl72") == std::string::npos) return std::nullopt;
  const bool gpu = !gpu_called(kind, store).empty();
  const Result<Found<Cluster>> cluster =
      gpu ? load_cluster_of_gpu(kind, store) : load_cluster(board ? "dgx" + low.substr(3) : std::string(kind), store);
  if (!cluster || cluster->value.tiers.empty()) return std::nullopt;
  return CountedGpus{cluster->value.tiers.front().size, cluster->value.gpu.name};
}

std::optional<CountedGpus> counted_gpus(std::string_view word, const StoreOptions& store) {
  const std::string_view typed = trim(word);
  std::string low = lowered(std::string(typed));
  if (const std::size_t comma = low.find(','); comma < low.size() && gpus_of(trim(typed.substr(0, comma)))) {
    const std::string rest(trim(std::string_view(low).substr(comma + 1)));
    if (counted_in(rest, store) && !known(1, rest, store, false)) return std::nullopt;  // `32,8xb200` is no product
    low[comma] = ' ';                                                                   // `64, h100`
  }
  if (low.find(',') != std::string::npos) return std::nullopt;
  if (auto found = counted_in(low, store)) return found;
  if (typed.ends_with('s') && kDigits.find(typed.front()) != std::string_view::npos)  // 8 V100s, and not 8 V100S
    if (auto found = counted_in(low.substr(0, low.size() - 1), store)) return found;
  if (auto found = of_nodes(low, store)) return found;
  return of_lambda(low, store);
}

std::optional<std::vector<CountedGpus>> several_kinds(std::string_view word, const StoreOptions& store) {
  for (const std::string_view sign : {",", "+", "&", ";", "/", " and ", " plus ", " "}) {
    std::vector<CountedGpus> kinds;
    const std::vector<std::string_view> items = split(word, sign);
    if (items.size() < 2) continue;
    for (const std::string_view item : items) {
      const auto one = counted_gpus(item, store);
      if (!one) {
        kinds.clear();
        break;
      }
      const auto same =
          std::find_if(kinds.begin(), kinds.end(), [&](const auto& kind) { return kind.kind == one->kind; });
      if (same == kinds.end())
        kinds.push_back(*one);
      else
        same->gpus = static_cast<int>(std::min<std::int64_t>(std::int64_t(same->gpus) + one->gpus, kMostRanks + 1LL));
    }
    if (!kinds.empty()) return kinds;
  }
  return std::nullopt;
}

Error refused_kinds(std::string_view key, std::string_view word, const std::vector<CountedGpus>& kinds, bool file) {
  Error error{"bad_value",
              fmt::format("`--{}` does not take several kinds of GPU as `{}`", key, yaml::printable(word))};
  std::string text;
  std::int64_t all = 0;
  for (const CountedGpus& one : kinds) {
    text += fmt::format("{}{}x{}", text.empty() ? "" : ",", one.gpus, one.kind);
    all += one.gpus;
  }
  if (kinds.size() > kMostPools)
    error.help.push_back(fmt::format("a job has 1 to {} kinds of GPU, and these are {}", kMostPools, kinds.size()));
  else if (all > kMostRanks)
    error.help.push_back(fmt::format("a job has at most {} GPUs", kMostRanks));
  else
    error.help.push_back(fmt::format("write `{}{}`", file ? "gpus: " : "--gpus ", text));
  return error;
}

std::optional<Error> machines_or_gpus(std::string_view key, std::string_view word, const StoreOptions& store,
                                      bool file) {
  const std::string low = lowered(std::string(trim(word)));
  std::string_view kind = low;
  std::int64_t count = 1;
  bool counted = false;
  for (std::optional<int> number; count <= kMostRanks && (number = number_in_front(kind));)
    counted = (count *= *number) <= kMostRanks;
  const auto box = counted ? machine_of_gpus(kind, store) : std::nullopt;
  if (!box || count * box->gpus > kMostRanks) return std::nullopt;
  const std::string_view flag = file ? "gpus: " : "--gpus ";
  return Error{"bad_value",
               fmt::format("`--{} {}` counts machines or GPUs?", key, yaml::printable(word)),
               {},
               {fmt::format("machines, each of {}: write `{}{}x{}`", box->gpus, flag, count * box->gpus, box->kind),
                fmt::format("GPUs: write `{}{}x{}`", flag, count, box->kind)}};
}

std::optional<WordedCount> worded_count(std::string_view word, std::string_view kind, const StoreOptions& store) {
  std::string low = lowered(std::string(trim(word)));
  if (const int devices = devices_in(low); devices > 0) return WordedCount{devices};
  if (among_words(kUncounted, low)) return WordedCount{};
  const std::string_view sign = "\u00d7";
  for (std::size_t at = 0; (at = low.find(sign)) != std::string::npos;) low.replace(at, sign.size(), "x");
  if (const std::size_t tpu = low.find("tpu");
      tpu != std::string::npos && tpu + 3 < low.size() && kDigits.find(low[tpu + 3]) != std::string_view::npos)
    return std::nullopt;  // `tpu7x-8` is a type
  std::vector<std::int64_t> numbers;
  bool links = false, gpus = false, nodes = false, of_one = false;
  for (const std::string& token : tokens_of(low)) {
    if (const std::optional<int> number = gpus_of(token)) {
      numbers.push_back(*number);
      continue;
    }
    const bool link = among_words(kLinks, token), gpu = among_words(kGpuNouns, token),
               node = among_words(kNodeNouns, token), one = among_words(kOfOne, token);
    if (!link && !gpu && !node && !one) return std::nullopt;
    links = links || link, gpus = gpus || gpu, nodes = nodes || node, of_one = of_one || one;
  }
  const auto whole = [](std::int64_t count) { return count > kMostRanks ? 0 : static_cast<int>(count); };
  if (numbers.size() > 1 && (links || nodes)) {
    const auto name = [&](std::int64_t number) {
      return number > 999 && !nodes && !gpus && !gpu_called(std::to_string(number), store).empty();
    };
    if (name(numbers.front()) || name(numbers.back())) return std::nullopt;  // 16x4090 are GPUs of that name
    std::int64_t product = 1;
    for (const std::int64_t number : numbers) product = std::min<std::int64_t>(product * number, kMostRanks + 1LL);
    return WordedCount{whole(product)};
  }
  if (numbers.size() != 1 || !(gpus || nodes)) return std::nullopt;
  if (of_one || (gpus && nodes)) return WordedCount{};
  if (!nodes) return WordedCount{whole(numbers[0])};
  constexpr int kUsualNode = 8;
  const Result<Found<Gpu>> found = kind.empty() ? fail(Error{}) : load_gpu(kind, store);
  const int of_node = found && found->value.gpus_per_node > 0 ? found->value.gpus_per_node : kUsualNode;
  return WordedCount{whole(numbers[0] * of_node), of_node};
}

Error refused_words(std::string_view word, const WordedCount& meant, bool file) {
  const std::string_view flag = file ? "gpus: " : "--gpus ";
  Error error{"bad_value", fmt::format("`--gpus` is the number of all GPUs, got `{}`", yaml::printable(word)), {}, {}};
  if (meant.gpus == 0)
    error.help = {fmt::format("write how many all nodes have together: `{}64`", flag)};
  else
    error.help = {fmt::format("write `{}{}`", flag, meant.gpus)};
  if (meant.of_node > 0) error.help.push_back(fmt::format("for nodes of {} GPUs", meant.of_node));
  return error;
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

Error refused_number(std::string_view word, bool file) {
  Error error = read_count("--gpus", word, 1, kMostRanks).error().front();
  const bool letters =
      std::any_of(word.begin(), word.end(), [](char c) { return lower_case(c) >= 'a' && lower_case(c) <= 'z'; });
  const bool number = !word.empty() && word.front() >= '0' && word.front() <= '9';  // as 1e300 is
  if (!letters || number || !error.help.empty()) return error;
  const std::string_view flag = file ? "gpus: " : "--gpus ";
  if (const auto box = machine_of_gpus(word, StoreOptions::from_environment())) {
    error.help.push_back(
        fmt::format("that is a machine of {} GPUs: write `{}{}x{}`", box->gpus, flag, box->gpus, box->kind));
    return error;
  }
  if (const std::string machine = about_machines(word); !machine.empty()) error.help.push_back(machine);
  error.help.push_back(
      fmt::format("write how many GPUs of which kind, as `{}8xh100-sxm`: `plan list gpus` lists the kinds", flag));
  return error;
}

}  // namespace plan
