// What is wrong with a text that is no JSON, in words of who wrote it. nlohmann-json says at which byte it stopped, and
// whether it still wanted something there. Tested by tests/presets/json_syntax_test.cpp.
#include "presets/json_syntax.hpp"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "formulas/text.hpp"

namespace plan {
namespace {

/// What stands at `at` that JSON has not: a comma before a bracket, a comment, a word in single quotes.
std::vector<std::string> what_json_lacks(std::string_view text, std::size_t at) {
  if (at >= text.size()) return {};
  const std::size_t before = at == 0 ? std::string_view::npos : text.find_last_not_of(kWhiteSpace, at - 1);
  const bool comma = before != std::string_view::npos && text[before] == ',';
  if (comma && (text[at] == '}' || text[at] == ']')) return {"leave out the comma in front of it"};
  if (text[at] == '/' || text[at] == '#') return {"leave the comment out: JSON has none"};
  if (text[at] == '\'') return {"write words in double quotes"};
  return {};
}

}  // namespace

Place json_place(const std::string& text, const std::string& file, std::size_t offset) {
  constexpr std::size_t kShown = 200;
  offset = std::min(offset, text.size());
  const std::size_t before = offset == 0 ? std::string::npos : text.rfind('\n', offset - 1);
  const std::size_t begin = before == std::string::npos ? 0 : before + 1;
  const auto line = std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(begin), '\n');
  const std::size_t end = std::min(text.find('\n', begin), text.size());
  std::string shown = text.substr(begin, std::min(end - begin, kShown));
  for (char& c : shown)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  return {file, static_cast<int>(line) + 1, static_cast<int>(offset - begin) + 1, 1, std::move(shown)};
}

Error json_syntax_error(const nlohmann::json::parse_error& error, const std::string& text, const std::string& file) {
  const std::string_view why = error.what();
  const std::size_t at = error.byte > 0 ? error.byte - 1 : 0;
  if (why.find("; expected end of input") != std::string_view::npos) {
    return {"json_syntax",
            "something follows the end of the JSON",
            {},
            {"leave out what stands behind the bracket that closes the first one"},
            json_place(text, file, at)};
  }
  std::vector<std::string> help = what_json_lacks(text, at);
  const bool ends = help.empty() && at + 1 >= text.size();
  return {"json_syntax",
          ends ? "the file ends in the middle" : "not valid JSON",
          {},
          std::move(help),
          json_place(text, file, at)};
}

}  // namespace plan
