// The word after --layout: axes that the user fixes. Tested by tests/cli/layout_flag_test.cpp.
#include "cli/request/layout_flag.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <tuple>
#include <vector>

#include "cli/request/layout_notation.hpp"
#include "cli/request/layout_spacing.hpp"
#include "cli/request/layout_unknown.hpp"
#include "cli/terminal/numbers.hpp"
#include "cli/terminal/words.hpp"
#include "formulas/keep_errors.hpp"
#include "planner/problem/axes.hpp"
#include "planner/problem/stage_layout.hpp"
#include "presets/yaml.hpp"

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

/// `14x8` read as 14 and `8`; without a number in front of an `x`, once.
struct Repeated {
  std::size_t times = 1;
  std::string_view what{};
};
Result<Repeated> read_repeated(std::string_view where, std::string_view part) {
  const std::size_t digits = std::min(part.find_first_not_of("0123456789"), part.size());
  if (digits == part.size() || part[digits] != 'x') return Repeated{1, part};
  const Result<std::int64_t> times = read_count(where, part.substr(0, digits), 1, 10000);
  if (!times) return fail(times.error());
  return Repeated{static_cast<std::size_t>(*times), part.substr(digits + 1)};
}

/// `7+14x8+7` or `7+8+7`: layers of each chunk in model order.
Result<std::vector<int>> read_layers(const std::string& text) {
  constexpr std::size_t kMostChunks = 1 << 16;
  std::vector<int> layers;
  for (const std::string_view part : split(text, "+")) {
    const Result<Repeated> item = read_repeated("layers=", part);
    if (!item) return fail(item.error());
    const Result<std::int64_t> count = read_count("layers=", item->what, 0, 100000);
    if (!count) return fail(count.error());
    layers.insert(layers.end(), item->times, static_cast<int>(*count));
    if (layers.size() > kMostChunks)
      return fail({"out_of_range", fmt::format("`layers=` has more than {} numbers", kMostChunks)});
  }
  return layers;
}

/// The value of an axis, by its kind.
Result<bool> read_value(const LayoutAxis<int>& axis, const std::string& text, std::optional<int>& out) {
  const Result<std::int64_t> value = read_count(fmt::format("--layout {}", axis.word), text, axis.least, axis.most);
  if (!value) {
    Errors errors = value.error();
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
Result<bool> read_value(const LayoutAxis<Recompute>&, const std::string& text, std::optional<Recompute>& out) {
  const Result<Recompute> recompute = read_recompute(text);
  if (!recompute) return fail(recompute.error());
  out = *recompute;
  return true;
}
Result<bool> read_value(const LayoutAxis<std::vector<int>>&, const std::string& text,
                        std::optional<std::vector<int>>& out) {
  Result<std::vector<int>> layers = read_layers(text);
  if (!layers) return fail(layers.error());
  out = std::move(*layers);
  return true;
}

Result<bool> read_value(const LayoutAxis<std::vector<StageStrategy>>&, const std::string& text,
                        std::optional<std::vector<StageStrategy>>& out) {
  Result<std::vector<StageStrategy>> stages = read_stages(text);
  if (!stages) return fail(stages.error());
  out = std::move(*stages);
  return true;
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

Result<bool> read_item(std::string_view text, const Item& item, Fixed& fixed) {
  Result<bool> read = true;
  bool known = false;
  each_axis([&](const auto& axis) {
    if (axis.key != item.name) return;
    known = true;
    read = read_value(axis, item.value, fixed.*axis.fixed);
  });
  if (!known) return fail(unknown_axis(text, item.name, item.value));
  return read;
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
  if (text == "selective") text = name(kRecomputeCoreAttention);  // Megatron's word for it
  for (const std::string_view word : split(text, "+")) {
    const std::optional<RecomputeModule> module = parse(kRecomputeModuleNames, word);
    if (!module) {
      std::vector<std::string> known = words_of(kRecomputeModuleNames);
      known.insert(known.begin(), {"none", "full"});
      return unknown_layout_word("recompute", word, known);
    }
    out.modules = static_cast<std::uint16_t>(out.modules | *module);
  }
  return out;
}

namespace {

/// `full-2@layers3@offload4@tp8@zero3`.
Result<StageStrategy> read_run(std::string_view text) {
  StageStrategy stage;
  const std::vector<std::string_view> parts = split(text, "@");
  const Result<Recompute> recompute = read_recompute(parts.front());
  if (!recompute) return fail(recompute.error());
  stage.recompute = *recompute;
  std::vector<std::string_view> seen;
  for (std::size_t i = 1; i < parts.size(); ++i) {
    std::string_view known;
    for (const RunAxis& axis : kRunAxes) {
      const std::optional<std::string_view> rest = after(parts[i], axis.word);
      if (!rest) continue;
      known = axis.word;
      const Result<std::int64_t> value =
          read_count(fmt::format("stages= @{}", axis.word), *rest, axis.least, axis.most);
      if (!value) return fail(value.error());
      stage.*axis.value = static_cast<int>(*value);
    }
    if (known.empty()) return unknown_layout_word("stages", parts[i], {"cpN", "layersN", "offloadN", "tpN", "zeroN"});
    if (std::find(seen.begin(), seen.end(), known) != seen.end())
      return fail({"given_twice", fmt::format("`@{}` is given twice for a stage in `--layout`", known)});
    seen.push_back(known);
  }
  return stage;
}

/// `full@layers3~none@tp4`: runs of layers, of which the last takes what is left.
Result<StageStrategy> read_stage(std::string_view text) {
  std::optional<StageStrategy> stage;
  const std::vector<std::string_view> parts = split(text, "~");
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Result<StageStrategy> run = read_run(parts[i]);
    if (!run) return fail(run.error());
    const bool last = i + 1 == parts.size();
    if (last != (run->layers == 0))
      return fail({"bad_value",
                   fmt::format("`{}` of `stages={}` in `--layout` {}", parts[i], text,
                               last ? "is the last run of its stage, which has all layers that are left"
                                    : "does not say how many layers it has"),
                   {},
                   {last ? "leave its `@layersN` out" : fmt::format("write `{}@layersN`", parts[i])}});
    if (!stage)
      stage = *run;
    else
      stage->behind.push_back(*run);
  }
  return *stage;
}

}  // namespace

Result<std::vector<StageStrategy>> read_stages(std::string_view text) {
  constexpr std::size_t kMostStages = 1 << 16;
  std::vector<StageStrategy> stages;
  std::size_t runs = 0;
  for (const std::string_view part : split(text, ":")) {
    const Result<Repeated> item = read_repeated("stages=", part);
    if (!item) return fail(item.error());
    const Result<StageStrategy> stage = read_stage(item->what);
    if (!stage) return fail(stage.error());
    runs += item->times * (1 + stage->behind.size());
    if (runs > kMostStages)
      return fail({"out_of_range", fmt::format("`stages=` has more than {} strategies", kMostStages)});
    stages.insert(stages.end(), item->times, *stage);
  }
  return stages;
}

namespace {

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

Result<Fixed> read_layout(std::string_view text) {
  Fixed fixed;
  Errors errors;
  std::vector<std::string> seen;
  const std::string words = without_blanks(text);
  constexpr std::ptrdiff_t kMostWords = 64;  // there are fewer axes, and each word that is wrong asks what was meant
  if (const auto commas = std::count(words.begin(), words.end(), ','); commas >= kMostWords)
    return fail({"given_twice",
                 fmt::format("`--layout` has {} words, and no layout has as many axes", commas + 1),
                 {},
                 {"write each axis once: `--layout tp8,pp16`"}});
  for (const std::string_view part : split(words, ",")) {
    if (part.empty()) continue;
    const Item item = known_item(part);
    const std::string& axis = item.name;
    const Result<bool> read = read_item(part, item, fixed);
    keep_errors(errors, read);
    if (std::find(seen.begin(), seen.end(), axis) != seen.end())
      errors.push_back({"given_twice",
                        fmt::format("`{}` is given twice in `--layout`", axis),
                        {},
                        {"write it once", said_of_both(words, axis)}});
    seen.push_back(axis);
  }
  if (seen.empty()) errors.push_back({"missing_value", "`--layout` names no axis", {}, {"write `--layout tp8,pp16`"}});
  if (errors.empty()) return fixed;
  if (const std::string spaced = between_commas(words); spaced != words && read_layout(spaced))
    return fail({"unknown_axis",
                 fmt::format("the axes of `--layout {}` do not stand between commas", text),
                 {},
                 {fmt::format("write `--layout {}`", spaced)}});
  const bool has_change = errors.size() == 1 && !errors[0].help.empty() &&
                          (errors[0].help[0].starts_with("write `") || errors[0].help[0].starts_with("leave `"));
  if (const auto meant = has_change ? std::nullopt : layout_in_words(text);
      meant && *meant != words && read_layout(*meant))
    return fail({"unknown_axis",
                 fmt::format("`--layout` does not take `{}`", yaml::printable(text)),
                 {},
                 {fmt::format("write `--layout {}`", *meant)}});
  return fail(std::move(errors));
}

}  // namespace plan
