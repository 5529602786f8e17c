// Items of --layout: an axis and its value each. Tested by tests/cli/layout_flag_test.cpp.
#include "cli/request/words/layout_items.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <utility>
#include <vector>

#include "cli/request/words/layout_values.hpp"
#include "cli/terminal/numbers.hpp"
#include "cli/terminal/words.hpp"
#include "formulas/keep_errors.hpp"
#include "planner/problem/axes.hpp"

namespace plan {
namespace {

/// Other words for an axis, some of which say its value, too.
struct Alias {
  std::string_view word;
  std::string_view key;
  std::string_view value{};
};
constexpr Alias kAliases[] = {
    {"sched", "schedule"}, {"sp", "sequence_parallel"},    {"mb", "micro_batch"}, {"mbs", "micro_batch"},
    {"ac", "recompute"},   {"fsdp", "zero", "3"},  // fully sharded: ZeRO 3
    {"ddp", "zero", "0"},  {"stages", "stage_strategies"}, {"vpp", "vp"}};

/// One item of the list: `tp8`, `tp=8`, `tp:8`, `schedule=1f1b`, `sp`.
struct Item {
  std::string name;
  std::string value;
};

Item split_item(std::string_view text) {
  Item item;
  const std::size_t equals = text.find_first_of("=:");
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

/// The value of an axis, by its kind.
Result<bool> read_value(const LayoutAxis<int>& axis, const std::string& text, std::optional<int>& out) {
  const Result<std::int64_t> value = read_count(fmt::format("--layout {}", axis.word), text, axis.least, axis.most);
  if (!value) {
    Errors errors = value.error();
    for (std::string& help : errors.front().help)  // `mb1.000` is written as `mb1000`
      if (help.starts_with("write `")) help.insert(std::string_view("write `").size(), axis.word);
    if (text == "auto" || text == "-1") errors.front().help = {fmt::format("leave `{}` out", axis.word)};
    if (text.empty()) errors.front().help = {fmt::format("write `{}{}`", axis.word, std::min(axis.most, 2))};
    return fail(std::move(errors));
  }
  out = static_cast<int>(*value);
  return true;
}
template <class E>
requires std::is_enum_v<E> Result<bool> read_value(const LayoutAxis<E>& axis, const std::string& text,
                                                   std::optional<E>& out) {
  out = parse(names_of(E{}), text);
  if (!out) return unknown_layout_word(axis.word, text, words_of(names_of(E{})));
  return true;
}
Result<bool> read_value(const LayoutAxis<bool>& axis, const std::string& text, std::optional<bool>& out) {
  if (text.empty() || text == "on" || text == "1" || text == "true")
    out = true;
  else if (text == "off" || text == "0" || text == "false")
    out = false;
  else
    return unknown_layout_word(axis.word, text, {"on", "off"});
  return true;
}
template <class T>
Result<bool> keep_value(Result<T> read, std::optional<T>& out) {
  if (!read) return fail(read.error());
  out = *std::move(read);
  return true;
}
Result<bool> read_value(const LayoutAxis<Recompute>&, const std::string& text, std::optional<Recompute>& out) {
  return keep_value(read_recompute(text), out);
}
Result<bool> read_value(const LayoutAxis<std::vector<int>>&, const std::string& text,
                        std::optional<std::vector<int>>& out) {
  return keep_value(read_layers(text), out);
}
Result<bool> read_value(const LayoutAxis<std::vector<StageStrategy>>&, const std::string& text,
                        std::optional<std::vector<StageStrategy>>& out) {
  return keep_value(read_stages(text), out);
}

/// The item as the table of axes has it: a schedule's name alone, or another word for an axis.
Item known_item(std::string_view text) {
  Item item = split_item(text);
  if (parse(kScheduleNames, text)) return {"schedule", std::string(text)};
  if (parse(kCpKindNames, text)) return {"cp_kind", std::string(text)};
  if (item.name == "zero" && item.value.starts_with('-')) item.value.erase(0, 1);  // `ZeRO-3` is no negative number
  for (const Alias& alias : kAliases) {
    // A word that says its value takes none: `fsdp2` may be PyTorch's second, or shards over two replicas.
    if (alias.word != item.name || (!alias.value.empty() && !item.value.empty())) continue;
    if (item.value.empty()) item.value = alias.value;
    item.name = alias.key;
    break;
  }
  return item;
}

Result<bool> read_item(std::string_view text, const Item& item, Fixed& fixed, SayUnknown say_unknown) {
  Result<bool> read = true;
  bool known = false;
  each_axis([&](const auto& axis) {
    if (axis.key != item.name) return;
    known = true;
    read = read_value(axis, item.value, fixed.*axis.fixed);
  });
  if (!known) return fail(say_unknown(text, item.name, item.value));
  return read;
}

/// Of a list with an axis twice, that its two layouts are compared: without what is last of the axis, and without
/// what is first of it.
std::string said_of_both(std::string_view words, std::string_view axis) {
  std::string first, last;
  bool met = false;
  const std::vector<std::string_view> parts = split(words, ",");
  const auto of_axis = [&](std::string_view part) { return known_item(part).name == axis; };
  for (const std::string_view part : parts) {
    const bool earlier = of_axis(part) && !met, later = of_axis(part) && met;
    met |= earlier;
    if (!later) first += fmt::format("{}{}", first.empty() ? "" : ",", part);
    if (!earlier) last += fmt::format("{}{}", last.empty() ? "" : ",", part);
  }
  return fmt::format("two layouts are compared: `plan compare {} {}`", first, last);
}

}  // namespace

Result<Fixed> read_items(std::string_view words, SayUnknown say_unknown) {
  Fixed fixed;
  Errors errors;
  std::vector<std::string> seen;
  for (const std::string_view part : split(words, ",")) {
    if (part.empty()) continue;
    const Item item = known_item(part);
    const std::string& axis = item.name;
    const Result<bool> read = read_item(part, item, fixed, say_unknown);
    keep_errors(errors, read);
    if (std::find(seen.begin(), seen.end(), axis) != seen.end())
      errors.push_back({"given_twice",
                        fmt::format("`{}` is given twice in `--layout`", axis),
                        {},
                        {"write it once", said_of_both(words, axis)}});
    seen.push_back(axis);
  }
  if (seen.empty()) errors.push_back({"missing_value", "`--layout` names no axis", {}, {"write `--layout tp8,pp16`"}});
  if (!errors.empty()) return fail(std::move(errors));
  return fixed;
}

}  // namespace plan
