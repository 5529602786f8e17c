// The word after --layout: axes that the user fixes. Tested by tests/cli/layout_flag_test.cpp.
#include "cli/request/layout_flag.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <vector>

#include "cli/terminal/numbers.hpp"
#include "cli/terminal/words.hpp"
#include "presets/suggest.hpp"

namespace plan {
namespace {

using Number = std::optional<int> Fixed::*;

struct NumberAxis {
  std::string_view name;
  Number field;
  int least;
  int most;
};

constexpr int kMostRanks = 1 << 24;

/// Axes with a number, the name that reports use first.
constexpr NumberAxis kNumberAxes[] = {
    {"tp", &Fixed::tp, 1, kMostRanks},
    {"cp", &Fixed::cp, 1, kMostRanks},
    {"pp", &Fixed::pp, 1, kMostRanks},
    {"vp", &Fixed::vp, 1, kMostRanks},
    {"dp", &Fixed::dp, 1, kMostRanks},
    {"ep", &Fixed::ep, 1, kMostRanks},
    {"etp", &Fixed::etp, 1, kMostRanks},
    {"zero", &Fixed::zero, 0, 3},
    {"shard", &Fixed::shard, 0, kMostRanks},
    {"mb", &Fixed::micro_batch, 1, kMostRanks},
    {"micro_batch", &Fixed::micro_batch, 1, kMostRanks},
    {"cp_ulysses", &Fixed::cp_ulysses, 1, kMostRanks},
};

constexpr std::array<std::string_view, 6> kWordAxes = {"cp_kind", "schedule", "sched", "recompute", "sp", "layers"};

/// One item of the list: `tp8`, `tp=8`, `schedule=1f1b`, `sp`.
struct Item {
  std::string name;
  std::string value;
};

Item split_item(std::string_view text) {
  Item item;
  const std::size_t equals = text.find('=');
  std::size_t at = equals;
  if (equals == std::string_view::npos) {
    at = 0;
    while (at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])) == 0) ++at;
    if (at > 0 && at < text.size() && text[at - 1] == '-') --at;  // a negative number keeps its sign
    item.value = std::string(text.substr(at));
  } else {
    item.value = std::string(text.substr(equals + 1));
  }
  item.name = std::string(text.substr(0, at));
  std::replace(item.name.begin(), item.name.end(), '-', '_');
  return item;
}

tl::unexpected<Errors> unknown_value(std::string_view axis, std::string_view word,
                                     const std::vector<std::string>& known) {
  Error error{"unknown_" + std::string(axis), fmt::format("unknown {} `{}` in `--layout`", axis, word), {}, {}};
  const std::string near = nearest_name(word, known);
  if (!near.empty()) error.help.push_back(fmt::format("the nearest is `{}`", near));
  error.help.push_back(fmt::format("`{}=` takes {}", axis, fmt::join(known, ", ")));
  return fail(error);
}

template <class E, std::size_t N>
Result<bool> read_word(std::string_view axis, std::string_view text, const Named<E> (&table)[N],
                       std::optional<E>& out) {
  out = parse(table, text);
  if (!out) return unknown_value(axis, text, words_of(table));
  return true;
}

Result<bool> read_switch(const std::string& text, std::optional<bool>& out) {
  if (text.empty() || text == "on" || text == "1" || text == "true")
    out = true;
  else if (text == "off" || text == "0" || text == "false")
    out = false;
  else
    return unknown_value("sp", text, {"on", "off"});
  return true;
}

/// `7+14x8+7` or `7+8+7`: layers of each chunk in model order.
Result<bool> read_layers(const std::string& text, std::optional<std::vector<int>>& out) {
  std::vector<int> layers;
  for (const std::string_view part : split(text, "+")) {
    const std::size_t times = part.find('x');
    std::int64_t repeat = 1;
    if (times != std::string_view::npos) {
      const Result<std::int64_t> count = read_count("layers=", part.substr(0, times), 1, 10000);
      if (!count) return fail(count.error());
      repeat = *count;
    }
    const Result<std::int64_t> count =
        read_count("layers=", times == std::string_view::npos ? part : part.substr(times + 1), 0, 100000);
    if (!count) return fail(count.error());
    layers.insert(layers.end(), static_cast<std::size_t>(repeat), static_cast<int>(*count));
  }
  out = std::move(layers);
  return true;
}

Result<bool> read_word_axis(const Item& item, Fixed& fixed) {
  if (item.name == "cp_kind") return read_word("cp-kind", item.value, kCpKindNames, fixed.cp_kind);
  if (item.name == "schedule" || item.name == "sched")
    return read_word("schedule", item.value, kScheduleNames, fixed.schedule);
  if (item.name == "sp") return read_switch(item.value, fixed.sequence_parallel);
  if (item.name == "layers") return read_layers(item.value, fixed.chunk_layers);
  const Result<Recompute> recompute = read_recompute(item.value);
  if (!recompute) return fail(recompute.error());
  fixed.recompute = *recompute;
  return true;
}

Error unknown_axis(std::string_view text, const Item& item) {
  std::vector<std::string> names;
  for (const NumberAxis& axis : kNumberAxes) names.emplace_back(axis.name);
  names.insert(names.end(), kWordAxes.begin(), kWordAxes.end());
  Error error{"unknown_axis", fmt::format("unknown axis `{}` in `--layout`", text), {}, {}};
  const std::string near = nearest_name(item.name, names);
  if (!near.empty()) error.help.push_back(fmt::format("an axis with a similar name exists: `{}`", near));
  error.help.push_back("axes: tp cp pp vp dp ep etp zero shard mb cp-kind schedule recompute sp layers");
  return error;
}

Result<bool> read_item(std::string_view text, Fixed& fixed) {
  Item item = split_item(text);
  for (const NumberAxis& axis : kNumberAxes) {
    if (axis.name != item.name) continue;
    const Result<std::int64_t> value =
        read_count(fmt::format("--layout {}", axis.name), item.value, axis.least, axis.most);
    if (!value) return fail(value.error());
    fixed.*axis.field = static_cast<int>(*value);
    return true;
  }
  if (parse(kScheduleNames, text)) item = {"schedule", std::string(text)};
  if (std::find(kWordAxes.begin(), kWordAxes.end(), item.name) != kWordAxes.end()) return read_word_axis(item, fixed);
  return fail(unknown_axis(text, item));
}

/// `full-4` read as `full` and 4; nothing if the word does not start so.
std::optional<std::string_view> after(std::string_view text, std::string_view start) {
  if (text.substr(0, start.size()) != start) return std::nullopt;
  return text.substr(start.size());
}

}  // namespace

Result<Recompute> read_recompute(std::string_view text) {
  Recompute out;
  if (text == "none") return out;
  out.kind = RecomputeKind::Full;
  if (text == "full") return out;
  for (const auto& [start, field] :
       {std::pair{"full-", &Recompute::layers}, std::pair{"uniform-", &Recompute::uniform}}) {
    const std::optional<std::string_view> rest = after(text, start);
    if (!rest) continue;
    const Result<std::int64_t> layers = read_count("recompute", *rest, 1, 100000);
    if (!layers) return fail(layers.error());
    out.*field = static_cast<int>(*layers);
    return out;
  }
  out.kind = RecomputeKind::Selective;
  for (const std::string_view word : split(text, "+")) {
    const std::optional<RecomputeModule> module = parse(kRecomputeModuleNames, word);
    if (!module) {
      std::vector<std::string> known = words_of(kRecomputeModuleNames);
      known.insert(known.begin(), {"none", "full"});
      return unknown_value("recompute", word, known);
    }
    out.modules = static_cast<std::uint16_t>(out.modules | *module);
  }
  return out;
}

Result<Fixed> read_layout(std::string_view text) {
  Fixed fixed;
  Errors errors;
  std::vector<std::string> seen;
  for (const std::string_view part : split(text, ",")) {
    if (part.empty()) continue;
    const std::string axis = split_item(part).name;
    const Result<bool> read = read_item(part, fixed);
    if (!read) errors.insert(errors.end(), read.error().begin(), read.error().end());
    if (std::find(seen.begin(), seen.end(), axis) != seen.end())
      errors.push_back({"given_twice", fmt::format("`{}` is given twice in `--layout`", axis)});
    seen.push_back(axis);
  }
  if (seen.empty()) errors.push_back({"missing_value", "`--layout` names no axis", {}, {"write `--layout tp8,pp16`"}});
  if (!errors.empty()) return fail(std::move(errors));
  return fixed;
}

}  // namespace plan
