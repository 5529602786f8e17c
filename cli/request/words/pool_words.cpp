// Several kinds of GPU in the words of a person. Tested by tests/cli/pools_test.cpp.
#include "cli/request/words/pool_words.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <iterator>

#include "cli/request/words/gpu_words.hpp"
#include "cli/request/words/layout_flag.hpp"
#include "cli/terminal/numbers.hpp"
#include "cli/terminal/words.hpp"
#include "formulas/keep_errors.hpp"
#include "formulas/text.hpp"
#include "planner/problem/axes.hpp"
#include "presets/entries.hpp"
#include "presets/machines.hpp"
#include "presets/quantity.hpp"
#include "presets/reader.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

constexpr std::string_view kDigits = "0123456789";

Error bad_pool(std::string_view item, std::string_view why) {
  return {"bad_value",
          fmt::format("`--gpus` names `{}`, {}", item, why),
          {},
          {"write `--gpus 64xa100-sxm-80gb,64xh100-sxm`, with `,link=25GB/s` for the network between them"}};
}

Result<Tier> read_link(std::string_view item, std::string_view text) {
  const ParsedQuantity rate = parse_quantity(text, Dimension::ByteRate);
  if (!rate || !(rate.value > 0 && rate.value <= 1e15))
    return fail(bad_pool(item, "and a link is a bandwidth above 0 of one GPU, as in `link=25GB/s`"));
  return Tier{.name = "between pools", .bandwidth = BytesPerSecond(rate.value)};
}

/// How long the number with separators of thousands is with which an item begins, as `2,048` in `2,048xh100`; 0: it
/// has none. What follows may not be a name of digits, as in `8 910b`.
std::size_t grouped_number(std::string_view item) {
  const std::size_t first = std::min(item.find_first_not_of(kDigits), item.size());
  const char sign = first < item.size() ? item[first] : '\0';
  if (first < 1 || first > 3 || sign == '\0' || std::string_view(",_'. ").find(sign) == std::string_view::npos)
    return 0;
  std::size_t end = first;
  while (end < item.size() && item[end] == sign) {
    const std::size_t next = std::min(item.find_first_not_of(kDigits, end + 1), item.size());
    if (next - end != 4) break;
    end = next;
  }
  const bool parted = end == item.size() || std::string_view(" x*,:-").find(item[end]) != std::string_view::npos;
  return end > first && parted ? end : 0;
}

/// Where the number of GPUs ends: at the `x`, or at the blank of `8 rtx-4090`.
std::size_t end_of_number(std::string_view item) {
  const std::size_t times = item.find('x'), blank = item.find(' ');
  const std::size_t behind = blank < item.size() ? item.find_first_not_of(' ', blank) : times;
  return behind < times ? blank : times;
}

/// A noun where the kind of GPU belongs: `16xgpu`, `2xnodes`.
std::optional<Error> names_no_kind(std::string_view item, std::int64_t gpus, std::string_view kind,
                                   const StoreOptions& store) {
  const std::optional<WordedCount> meant = worded_count(fmt::format("{} {}", gpus, kind), "", store);
  return meant ? std::optional(refused_words(item, *meant, false)) : std::nullopt;
}

Result<Pool> read_pool(std::string_view item, const StoreOptions& store) {
  const std::size_t times = end_of_number(item);
  const bool counted = !item.empty() && std::isdigit(static_cast<unsigned char>(item.front())) != 0;
  if (!counted || times == std::string_view::npos || times + 1 == item.size())
    return fail(bad_pool(item, "which is no number of GPUs, an `x` and their kind"));
  const Result<std::int64_t> gpus = read_count("--gpus", trim(item.substr(0, times)), 1, kMostRanks);
  if (!gpus) return fail(gpus.error());
  const std::string_view kind = trim(item.substr(times + 1));
  if (const auto error = machines_or_gpus("gpus", item, store, false)) return fail(*error);
  if (const std::size_t end = std::min(kind.find_first_not_of(kDigits), kind.size());
      end > 0 && (end == kind.size() || kind[end] == 'x') && !load_gpu(kind, store))
    if (const Result<std::int64_t> each = read_count("--gpus", kind.substr(0, end), 1, kMostRanks / *gpus); each) {
      if (const auto error = names_no_kind(item, *gpus * *each, trim(kind.substr(end), "x "), store); error)
        return fail(*error);
      return fail({"bad_value",
                   fmt::format("`--gpus` counts GPUs and not nodes: `{}`", item),
                   {},
                   {fmt::format("write `--gpus {}{}`", *gpus * *each, kind.substr(end))}});
    }
  if (const auto error = names_no_kind(item, *gpus, kind, store); error) return fail(*error);
  Result<Found<Cluster>> found = load_cluster_of_gpu(kind, store);
  if (!found && machine_called(kind).gpus > 0)  // a cluster may go by the same name
    if (const auto rented = counted_gpus(item, store)) return fail(refused_count("gpus", item, *rented, false, false));
  if (!found) {
    Result<Found<Cluster>> cluster = load_cluster(kind, store);
    if (!cluster) return fail(found.error());
    found = std::move(cluster);
  }
  return Pool{std::move(found->value), static_cast<int>(*gpus)};
}

/// Do digits call a GPU or a cluster? The whole name of one they may be; and from four digits on a part of it, as 6000
/// is of `rtx-pro-6000`.
bool in_a_name(std::string_view digits, const StoreOptions& store) {
  constexpr std::size_t kModelDigits = 4;
  for (const PresetKind kind : {PresetKind::Gpu, PresetKind::Cluster}) {
    if (find_entry(kind, digits, store)) return true;
    if (digits.size() < kModelDigits) continue;
    for (const PresetEntry& entry : list_presets(kind, store))
      if (fmt::format("-{}-", entry.name).find(fmt::format("-{}-", digits)) != std::string::npos) return true;
  }
  return false;
}

}  // namespace

bool names_pools(std::string_view text) {
  if (const auto plain = without_separators(text); plain && plain->find_first_of(",x") == std::string::npos)
    return false;
  return text.find(',') != std::string_view::npos || (trim(text).find_first_of("x ") != std::string_view::npos &&
                                                      std::isdigit(static_cast<unsigned char>(text.front())) != 0);
}

std::optional<Error> grouped_gpus(std::string_view text, const StoreOptions& store) {
  std::string plain;
  bool grouped = false;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t from = std::min(text.find_first_not_of(' ', at), text.size());
    const std::size_t number = grouped_number(text.substr(from)), end = text.find(',', from + number);
    grouped = grouped || number > 0;
    for (const char c : text.substr(from, number))
      if (kDigits.find(c) != std::string_view::npos) plain += c;
    at = end == std::string_view::npos ? text.size() : end + 1;
    plain += text.substr(from + number, at - from - number);
  }
  if (!grouped || plain.find_first_not_of(kDigits) == std::string::npos) return std::nullopt;
  if (auto error = number_without_kind("gpus", plain, store)) return error;
  std::string meant;
  if (const auto kinds = several_kinds(plain, store))
    for (const CountedGpus& one : *kinds) add_pool(meant, one.gpus, one.kind);
  else if (const auto worded = worded_count(plain, "", store); worded && worded->gpus > 0)
    meant = std::to_string(worded->gpus);
  else if (const auto counted = counted_gpus(plain, store))
    add_pool(meant, counted->gpus, counted->kind);
  else
    std::copy_if(plain.begin(), plain.end(), std::back_inserter(meant), [](char c) { return c != ' '; });
  return Error{"bad_number",
               fmt::format("`--gpus` counts without separators of thousands, got `{}`", yaml::printable(text)),
               {},
               {fmt::format("write `--gpus {}`", meant)}};
}

void add_pool(std::string& words, int gpus, std::string_view kind) {
  words += fmt::format("{}{}x{}", words.empty() ? "" : ",", gpus, kind);
}

std::string pools_text(const PooledCluster& cluster) {
  std::string out;
  for (const Pool& pool : cluster.pools) add_pool(out, pool.gpus, pool.cluster.gpu.name);
  if (!cluster.link) return out;
  std::string rate = format_quantity(cluster.link->bandwidth.value, Dimension::ByteRate);
  std::erase(rate, ' ');
  return out + ",link=" + rate;
}

Result<PooledCluster> read_pools(std::string_view text, const StoreOptions& store) {
  PooledCluster words;
  Errors errors;
  std::vector<Pool> named;
  for (const std::string_view item : split(text, ",")) {
    if (item.starts_with("link=")) {
      const Result<Tier> link = read_link(item, item.substr(5));
      if (!keep_errors(errors, link)) continue;
      if (words.link)
        errors.push_back(bad_pool(item, "and the link is given already"));
      else
        words.link = *link;
      continue;
    }
    Result<Pool> pool = read_pool(trim(item), store);
    if (pool)
      named.push_back(std::move(*pool));
    else if (errors.empty() || errors.back().help != pool.error().front().help)  // one way to write them, said once
      keep_errors(errors, pool);
  }
  for (Pool& pool : named) {
    const auto same = std::find_if(words.pools.begin(), words.pools.end(), [&](const Pool& known) {
      return known.cluster.name == pool.cluster.name && known.cluster.gpu.name == pool.cluster.gpu.name;
    });
    if (same == words.pools.end())
      words.pools.push_back(std::move(pool));
    else if (words.link)
      errors.push_back(bad_pool(text,
                                "and pools of one kind with a slow link between them are tiers of one cluster: "
                                "see plan-preset(5)"));
    else
      same->gpus += pool.gpus;
  }
  std::int64_t all = 0;
  for (const Pool& pool : words.pools) all += pool.gpus;
  if (errors.empty() && (words.pools.empty() || words.pools.size() > kMostPools))
    errors.push_back(bad_pool(text, fmt::format("and a job has 1 to {} kinds of GPU", kMostPools)));
  for (const Pool& pool : words.pools)
    if (words.pools.size() > 1 && !pool.cluster.tiers.empty() && pool.cluster.tiers.front().torus.any())
      errors.push_back(
          bad_pool(pool.cluster.name, "whose slices are tori: they stand in no pipeline with other kinds"));
  if (errors.empty() && words.link && words.pools.size() < 2)
    errors.push_back(bad_pool(text, "and a link needs two kinds of GPU"));
  if (all > kMostRanks) errors.push_back(bad_pool(text, fmt::format("and a job has at most {} GPUs", kMostRanks)));
  if (!errors.empty()) return fail(std::move(errors));
  return words;
}

std::optional<Error> number_without_kind(std::string_view key, std::string_view text, const StoreOptions& store) {
  std::string_view bare;
  bool counted = false;
  for (const std::string_view part : split(text, ",")) {
    const std::string_view item = trim(part);
    if (item.starts_with("link=")) continue;
    const bool number = !item.empty() && item.find_first_not_of(kDigits) == std::string_view::npos;
    if (number && bare.empty()) bare = item;
    const std::optional<CountedGpus> found = number ? std::nullopt : counted_gpus(item, store);
    if (!number && !found) return std::nullopt;
    counted = counted || (found && (found->machine.empty() || item.find_first_of(kDigits) == 0));
  }
  if (bare.empty() || !counted) return std::nullopt;  // `64, p5.48xlarge` are so many machines
  return Error{
      "bad_value",
      fmt::format("`--{}` names `{}` without a kind of GPU: `{}`", key, bare, yaml::printable(text)),
      {},
      {fmt::format("put its kind behind each number, as in `{}xh100-sxm`: `plan list gpus` lists the kinds", bare)}};
}

std::optional<Error> number_for_kind(std::string_view key, std::string_view text, bool counted, bool file,
                                     const StoreOptions& store) {
  const std::optional<std::string> plain = without_separators(text);  // with separators a number is no name
  const auto number = read_count("--gpus", plain.value_or(std::string(text)), 1, kMostRanks);
  if (!number || (!plain && in_a_name(text, store))) return std::nullopt;
  const char* const kinds = "`plan list gpus` and `plan list clusters` name them";
  return Error{"bad_value",
               fmt::format("`--{}` is a kind, and `{}` a number", key, yaml::printable(text)),
               {},
               {counted ? kinds : fmt::format("write `{} {}`", file ? "gpus:" : "--gpus", *number)}};
}

Result<std::vector<Fixed>> read_pool_layouts(std::string_view text) {
  std::vector<Fixed> all;
  Errors errors;
  for (const std::string_view part : split(text, "/")) {
    Result<Fixed> fixed = read_layout(part);
    if (keep_errors(errors, fixed)) all.push_back(std::move(*fixed));
  }
  if (!errors.empty()) return fail(std::move(errors));
  return all;
}

}  // namespace plan
