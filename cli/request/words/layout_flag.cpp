// The word after --layout: axes that the user fixes. Tested by tests/cli/layout_flag_test.cpp.
#include "cli/request/words/layout_flag.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "cli/request/words/layout_items.hpp"
#include "cli/request/words/layout_notation.hpp"
#include "cli/request/words/layout_spacing.hpp"
#include "cli/request/words/layout_unknown.hpp"
#include "presets/yaml.hpp"

namespace plan {

Result<Fixed> read_layout(std::string_view text) {
  const std::string words = without_blanks(text);
  constexpr std::ptrdiff_t kMostWords = 64;  // there are fewer axes, and each word that is wrong asks what was meant
  if (const auto commas = std::count(words.begin(), words.end(), ','); commas >= kMostWords)
    return fail({"given_twice",
                 fmt::format("`--layout` has {} words, and no layout has as many axes", commas + 1),
                 {},
                 {"write each axis once: `--layout tp8,pp16`"}});
  Result<Fixed> read = read_items(words, unknown_axis);
  if (read) return read;
  const Errors& errors = read.error();
  if (const std::string spaced = between_commas(words); spaced != words && read_layout(spaced))
    return fail({"unknown_axis",
                 fmt::format("the axes of `--layout {}` do not stand between commas", yaml::printable(text)),
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
  add_examples(read.error());  // last: where nothing better is known
  return read;
}

}  // namespace plan
