// --overlap: which messages run beside compute, as words. Tested by tests/cli/overlap_words_test.cpp.
#include "cli/terminal/overlap_words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "cli/terminal/words.hpp"
#include "formulas/overlap.hpp"
#include "presets/suggest.hpp"

namespace plan {
namespace {

constexpr std::string_view kNone = "none";

Error unknown_part(std::string_view word) {
  std::vector<std::string> known{std::string(kNone)};
  for (const OverlapPart& part : kOverlapParts) known.emplace_back(part.name);
  Error error{"unknown_value", fmt::format("`--overlap` does not know `{}`", word), {}, {}};
  if (const std::string near = nearest_name(word, known); !near.empty())
    error.help.push_back(fmt::format("the nearest is `{}`", near));
  error.help.push_back(fmt::format("none, or what runs beside compute: {}", overlap_words(kOverlapAll)));
  return error;
}

}  // namespace

Result<Overlap> read_overlap(std::string_view text) {
  if (text == kNone) return Overlap{};
  Errors errors;
  unsigned parts = 0;
  for (const std::string_view word : split(text, "+")) {
    const auto* part = std::find_if(std::begin(kOverlapParts), std::end(kOverlapParts),
                                    [&](const OverlapPart& row) { return row.name == word; });
    if (part == std::end(kOverlapParts))
      errors.push_back(unknown_part(word));
    else
      parts |= part->bit;
  }
  if (!errors.empty()) return fail(std::move(errors));
  return Overlap{static_cast<std::uint8_t>(parts)};
}

}  // namespace plan
