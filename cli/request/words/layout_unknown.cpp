// What is said of a word of --layout that is no axis. Tested by tests/cli/layout_flag_test.cpp.
#include "cli/request/words/layout_unknown.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cli/request/table/option_table.hpp"
#include "cli/request/words/choice_words.hpp"
#include "cli/request/words/flag_words.hpp"
#include "cli/request/words/layout_items.hpp"
#include "cli/terminal/words.hpp"
#include "planner/problem/axes.hpp"
#include "presets/suggest.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

/// Words that name no axis, nor are flags, and what a person who writes them looks for.
constexpr std::pair<std::string_view, std::string_view> kElsewhere[] = {
    {"stage", "DeepSpeed's stages of ZeRO are `zero1`, `zero2` and `zero3`"},
    {"usp", "a sequence that is split in two ways is `cp8,cp-kind=hybrid`"},
    {"best", "`plan` finds it without `--layout`"},
    {"auto", "`plan` finds it without `--layout`"},
};

/// `no_sp` and `nosp` as `sp=off`; empty if the word says no such thing.
std::string negated(std::string_view name) {
  for (const std::string_view no : {"no_", "without_", "disable_", "no"})
    if (name.starts_with(no))
      if (std::string item = item_without(name.substr(no.size())); !item.empty()) return item;
  return {};
}

/// Is that a flag of planning with a value like this one?
bool takes(const Option& option, const std::string& value) {
  const bool number = !value.empty() && value.front() >= '0' && value.front() <= '9';
  const bool fits =
      option.words != nullptr ? read_choice(option.flag, value).has_value() : number == option.takes_number();
  return (option.verbs & kForPlan) != 0 && option.takes_value() && fits;
}

}  // namespace

Error unknown_axis(std::string_view text, const std::string& name, const std::string& value) {
  std::vector<std::string> names;
  each_axis([&](const auto& axis) { names.emplace_back(axis.word); });
  Error error{"unknown_axis", fmt::format("unknown axis `{}` in `--layout`", yaml::printable(text)), {}, {}};
  const std::string near = nearest_name(name, names);
  const std::string flag = "--" + folded(name);
  const auto* elsewhere = std::find_if(std::begin(kElsewhere), std::end(kElsewhere),
                                       [&](const auto& known) { return known.first == name; });
  if (elsewhere != std::end(kElsewhere))
    error.help.emplace_back(elsewhere->second);
  else if (const std::string off = value.empty() ? negated(name) : ""; !off.empty())
    error.help.push_back(fmt::format("write `{}`", off));
  else if (const std::optional<std::string> axis = name == "ulysses" ? std::nullopt : meant_axis(name, value))
    error.help.push_back(fmt::format("write `{}`", *axis));
  else if (const Option* option = find_option(flag); option != nullptr && takes(*option, value))
    error.help.push_back(fmt::format("it is no axis but a flag: `{} {}`", flag, value));
  else if (const std::optional<MeantFlag> choice = meant_flag(text, ""))
    error.help.push_back(fmt::format("it is no axis but a flag: `{} {}`", choice->flag, choice->value));
  else if (name.empty())
    error.help.emplace_back("each degree has the name of its axis before it: `tp8,pp4`");
  else if (const std::vector<std::string> said = meant_in_words(name, value); !said.empty())
    error.help = said;
  else if (name == "ulysses")
    error.help.push_back(fmt::format("write `{}`", ulysses_item(value)));
  else if (const std::optional<MeantFlag> meant = meant_flag(name, value))
    error.help.push_back(fmt::format("it is no axis but a flag: `{} {}`", meant->flag, meant->value));
  else if (!near.empty())
    error.help.push_back(fmt::format("an axis with a similar name exists: `{}`", near));
  error.help.push_back(fmt::format("axes: {}", fmt::join(names, " ")));
  return error;
}

}  // namespace plan
