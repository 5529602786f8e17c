// Slurm's compressed node lists, parsed here rather than by `scontrol`, which compute nodes may lack and which would be
// a shell-out. The grammar is Slurm's hostlist.c: names with any number of bracketed lists of numbers and ranges.
// Tested by tests/hwprobe/nodelist_test.cpp.
#include "hwprobe/start/nodelist.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <cstdint>

namespace plan {
namespace {

constexpr std::size_t kMostNames = 65'536;
constexpr std::size_t kMostDigits = 18;
constexpr std::size_t kMostCharacters = 255;  // of a name (RFC 1035)

tl::unexpected<Errors> bad(std::string_view part, std::string_view why) {
  return fail(Error{"bad_nodelist", fmt::format("`{}` is no part of a node list: {}", part.substr(0, 60), why)});
}

bool digits(std::string_view text) {
  return !text.empty() && text.size() <= kMostDigits &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

std::uint64_t digits_of(std::string_view text) {
  std::uint64_t value = 0;
  for (const char c : text) value = value * 10 + static_cast<std::uint64_t>(c - '0');
  return value;
}

/// `7`, `007-010`: the texts it stands for.
Result<std::vector<std::string>> expand_range(std::string_view range) {
  const std::size_t dash = range.find('-');
  const std::string_view low = range.substr(0, dash);
  const std::string_view high = dash == std::string_view::npos ? low : range.substr(dash + 1);
  if (!digits(low) || !digits(high)) return bad(range, "a range is two numbers");
  const std::uint64_t first = digits_of(low), last = digits_of(high);
  if (last < first) return bad(range, "the range runs backwards");
  if (last - first >= kMostNames) return bad(range, "more than 65536 names");
  std::vector<std::string> texts;
  for (std::uint64_t i = first; i <= last; ++i) texts.push_back(fmt::format("{:0{}}", i, low.size()));
  return texts;
}

/// The inside of one pair of brackets.
Result<std::vector<std::string>> expand_brackets(std::string_view inside) {
  std::vector<std::string> all;
  while (true) {
    const std::size_t comma = inside.find(',');
    Result<std::vector<std::string>> some = expand_range(inside.substr(0, comma));
    if (!some) return some;
    all.insert(all.end(), some->begin(), some->end());
    if (all.size() > kMostNames) return bad(inside, "more than 65536 names");
    if (comma == std::string_view::npos) return all;
    inside.remove_prefix(comma + 1);
  }
}

bool name_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.' || c == ':';
}

/// One element up to a comma outside brackets: `c[0-1][2-3]-ib`.
Result<std::vector<std::string>> expand_element(std::string_view element) {
  if (element.empty()) return bad(element, "a name is empty");
  std::vector<std::string> names{""};
  for (std::size_t i = 0; i < element.size(); ++i) {
    if (element[i] != '[') {  // up to the next bracket at once: there may be 65536 names
      const std::string_view part = element.substr(i, element.find('[', i) - i);
      if (!std::all_of(part.begin(), part.end(), name_character))
        return bad(element, "it holds a character that no host name has");
      if (names.front().size() + part.size() > kMostCharacters) return bad(element, "no host's name is as long");
      for (std::string& name : names) name += part;
      i += part.size() - 1;
      continue;
    }
    const std::size_t close = element.find(']', i);
    if (close == std::string_view::npos) return bad(element, "a bracket is not closed");
    Result<std::vector<std::string>> texts = expand_brackets(element.substr(i + 1, close - i - 1));
    if (!texts) return texts;
    if (names.size() * texts->size() > kMostNames) return bad(element, "more than 65536 names");
    std::vector<std::string> product;
    for (const std::string& name : names)
      for (const std::string& text : *texts) {
        if (name.size() + text.size() > kMostCharacters) return bad(element, "no host's name is as long");
        product.push_back(name + text);
      }
    names = std::move(product);
    i = close;
  }
  return names;
}

}  // namespace

Result<std::vector<std::string>> expand_nodelist(std::string_view text) {
  std::vector<std::string> all;
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : ',';
    if (c == '[') ++depth;
    if (c == ']' && --depth < 0) return bad(text.substr(begin), "a bracket closes that was not opened");
    if (depth > 1) return bad(text.substr(begin), "brackets inside brackets");
    if (c != ',' || (depth > 0 && i < text.size())) continue;
    Result<std::vector<std::string>> names = expand_element(text.substr(begin, i - begin));
    if (!names) return names;
    if (all.size() + names->size() > kMostNames) return bad(text, "more than 65536 names");
    all.insert(all.end(), names->begin(), names->end());
    begin = i + 1;
  }
  return all;
}

}  // namespace plan
