// Layouts whose axes do not stand between commas. Tested by tests/cli/layout_flag_test.cpp.
#include "cli/request/words/layout_spacing.hpp"

#include <algorithm>
#include <cctype>

#include "cli/request/words/layout_items.hpp"
#include "cli/terminal/words.hpp"
#include "formulas/text.hpp"

namespace plan {

std::string between_commas(std::string_view text) {
  constexpr std::string_view kBetween = "-x/+_;|.&";
  const auto is = [](char c, int (*kind)(int)) { return kind(static_cast<unsigned char>(c)) != 0; };
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool ends = i > 0 && is(text[i - 1], std::isdigit);  // of an item's number
    const std::size_t next = ends ? std::min(text.find_first_not_of(kBetween, i), text.size()) : i;
    if (ends && next < text.size() && is(text[next], std::isalpha)) {
      out += ',';
      i = next;
    }
    out += text[i];
  }
  return out;
}

std::string without_blanks(std::string_view text) {
  constexpr std::string_view kBetween = " ()";
  const auto is_sign = [](char c) { return c == '=' || c == ':'; };
  const std::string low = lowered(std::string(text));
  std::string out;
  for (const std::string_view item : split(low, ",")) {
    std::string last;
    for (std::size_t at = 0; (at = item.find_first_not_of(kBetween, at)) != std::string_view::npos;) {
      const std::size_t end = std::min(item.find_first_of(kBetween, at), item.size());
      const std::string_view word = item.substr(at, end - at);
      const bool number = word.find_first_not_of("0123456789") == std::string_view::npos;
      const bool axis = !last.empty() && last.find_first_not_of("abcdefghijklmnopqrstuvwxyz-_") == std::string::npos;
      // `sp off`, `schedule 1f1b`: a word of no other axis is the value of the one before it, if that has none.
      const NamedAxis before = axis ? axis_of_item(last) : NamedAxis{}, own = axis_of_item(word);
      const bool value = own.key.empty() || (own.key == before.key && own.valued);
      const bool valued = !number && !before.key.empty() && !before.valued && value && word != "-";
      const bool signed_word = !last.empty() && (is_sign(word.front()) || is_sign(last.back()));  // `sp = off`
      if (valued && !signed_word)
        out += '=';
      else if (!out.empty() && !signed_word && !(number && axis))
        out += ',';
      out += word, at = end;
      last = signed_word ? last.append(word) : std::string(word);
    }
  }
  return out;
}

}  // namespace plan
