// Items of --layout: an axis and its value each. Tested by tests/cli/layout_flag_test.cpp.
#include "cli/request/words/layout_items.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "cli/request/words/layout_values.hpp"
#include "cli/terminal/numbers.hpp"
#include "cli/terminal/words.hpp"
#include "formulas/keep_errors.hpp"
#include "planner/problem/axes.hpp"
#include "presets/quantity.hpp"

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

/// What a number of an axis may mean that is written as `text`: a whole item for it (`zero=fsdp`, `zero=zero3`), a word
/// for none of it or all, or both whole numbers around `2.5`.
std::vector<int> meant_numbers(const LayoutAxis<int>& axis, const std::string& text) {
  if (among_words("no none off false", text)) return {axis.least};
  const bool few = axis.most < kMostRanks;  // of so many ranks nobody asks for all
  if (few && among_words("yes on true full all max", text)) return {axis.most};
  if (const std::optional<double> number = parse_number(text);
      number && *number > axis.least && *number < axis.most && std::trunc(*number) != *number)
    return {static_cast<int>(std::floor(*number)), static_cast<int>(std::ceil(*number))};
  const Item inner = known_item(text);
  if (inner.name != axis.word && inner.name != axis.key) return {};
  const Result<std::int64_t> number = read_count(axis.word, inner.value, axis.least, axis.most);
  return number ? std::vector{static_cast<int>(*number)} : std::vector<int>{};
}

/// An axis as messages about its number name it.
std::string named(const LayoutAxis<int>& axis) { return fmt::format("--layout {}", axis.word); }

/// The value of an axis, by its kind.
Result<bool> read_value(const LayoutAxis<int>& axis, const std::string& text, std::optional<int>& out) {
  const Result<std::int64_t> value = read_count(named(axis), text, axis.least, axis.most);
  if (!value) {
    Errors errors = value.error();
    for (std::string& help : errors.front().help)  // `mb1.000` is written as `mb1000`
      if (help.starts_with("write `")) help.insert(std::string_view("write `").size(), axis.word);
    if (text == "auto" || text == "-1") errors.front().help = {fmt::format("leave `{}` out", axis.word)};
    if (text.empty()) errors.front().help = {fmt::format("write `{}{}`", axis.word, std::min(axis.most, 2))};
    if (const std::vector<int> meant = meant_numbers(axis, text); errors.front().help.empty() && !meant.empty())
      errors.front().help = {fmt::format("write `{}{}`", axis.word, meant.front()) +
                             (meant.size() > 1 ? fmt::format(" or `{}{}`", axis.word, meant.back()) : "")};
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

/// Of a list with axes twice, that its two layouts are compared: of each axis the first item, and the last. Empty where
/// they are the same layout, or one of them is none.
std::string compared_layouts(std::string_view words, SayUnknown say_unknown) {
  const std::vector<std::string_view> parts = split(words, ",");
  std::vector<std::string> axes;
  for (const std::string_view part : parts) axes.push_back(known_item(part).name);
  std::vector<std::string_view> first, last;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto at = axes.begin() + static_cast<std::ptrdiff_t>(i);
    const bool earlier = std::find(axes.begin(), at, *at) != at,
               later = std::find(at + 1, axes.end(), *at) != axes.end();
    if (earlier && later) return {};  // of three values, which two?
    if (!earlier) first.push_back(parts[i]);
    if (!later) last.push_back(parts[i]);
  }
  const std::string one = fmt::format("{}", fmt::join(first, ",")), other = fmt::format("{}", fmt::join(last, ","));
  const Result<Fixed> a = read_items(one, say_unknown), b = read_items(other, say_unknown);
  if (!a || !b || *a == *b) return {};
  return fmt::format("two layouts are compared: `plan compare {} {}`", one, other);
}

/// Each axis that is given more than once.
Errors given_twice(std::string_view words, const std::vector<std::string>& axes, SayUnknown say_unknown) {
  Errors errors;
  std::vector<std::string> said;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto at = axes.begin() + static_cast<std::ptrdiff_t>(i);
    if (std::find(axes.begin(), at, *at) == at || std::find(said.begin(), said.end(), *at) != said.end()) continue;
    said.push_back(*at);
    errors.push_back({"given_twice", fmt::format("`{}` is given twice in `--layout`", *at), {}, {"write it once"}});
  }
  if (errors.empty()) return errors;
  if (std::string compared = compared_layouts(words, say_unknown); !compared.empty())
    errors.front().help.push_back(std::move(compared));
  return errors;
}

}  // namespace

Result<Fixed> read_items(std::string_view words, SayUnknown say_unknown) {
  Fixed fixed;
  Errors errors;
  std::vector<std::string> seen;
  for (const std::string_view part : split(words, ",")) {
    if (part.empty()) continue;
    const Item item = known_item(part);
    const Result<bool> read = read_item(part, item, fixed, say_unknown);
    keep_errors(errors, read);
    seen.push_back(item.name);
  }
  for (Error& error : given_twice(words, seen, say_unknown)) errors.push_back(std::move(error));
  if (seen.empty()) errors.push_back({"missing_value", "`--layout` names no axis", {}, {"write `--layout tp8,pp16`"}});
  if (!errors.empty()) return fail(std::move(errors));
  return fixed;
}

NamedAxis axis_of_item(std::string_view text) {
  const Item item = known_item(text);
  NamedAxis named{{}, !item.value.empty()};
  each_axis([&](const auto& axis) {
    if (axis.key == item.name) named.key = axis.key;
  });
  return named;
}

void add_examples(Errors& errors) {
  for (Error& error : errors)
    each_axis([&](const auto& axis) {
      if constexpr (std::is_same_v<decltype(axis), const LayoutAxis<int>&>)
        if (error.code == "bad_number" && error.help.empty() &&
            error.message.starts_with(fmt::format("`{}` ", named(axis))))
          error.help = {
              fmt::format("write a whole number, such as `{}{}`, or leave it out", axis.word, std::min(axis.most, 2))};
    });
}

std::string item_without(std::string_view axis_word) {
  const Item positive = known_item(axis_word);
  std::string item;
  each_axis([&](const auto& axis) {
    if (axis.key != positive.name) return;
    using Value = std::decay_t<decltype(Fixed{}.*axis.fixed)>;
    if constexpr (std::is_same_v<Value, std::optional<int>>)
      if (positive.value != std::to_string(axis.least))  // `noddp` is not `zero0`, which `ddp` is
        item = fmt::format("{}{}", axis.word, axis.least);
    if constexpr (std::is_same_v<Value, std::optional<bool>>) item = fmt::format("{}=off", axis.word);
    if constexpr (std::is_same_v<Value, std::optional<Recompute>>) item = fmt::format("{}=none", axis.word);
  });
  return item;
}

}  // namespace plan
