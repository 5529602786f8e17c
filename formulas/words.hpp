#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

namespace plan {

/// What a path names: all that is behind its last slash.
[[nodiscard]] constexpr std::string_view base_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

/// A table of words that are written with a blank between two of them: `word_list([] { return "tp cp pp"; })`.
template <class Text>
[[nodiscard]] constexpr auto word_list(Text) {
  constexpr std::string_view all = Text{}();
  std::array<std::string_view, std::count(all.begin(), all.end(), ' ') + 1> words;
  std::string_view left = all;
  for (std::string_view& word : words) {
    word = left.substr(0, left.find(' '));
    left.remove_prefix(std::min(word.size() + 1, left.size()));
  }
  return words;
}

/// One table behind the other.
template <std::size_t M, std::size_t N>
[[nodiscard]] constexpr auto chained(const std::array<std::string_view, M>& first,
                                     const std::array<std::string_view, N>& second) {
  std::array<std::string_view, M + N> words;
  std::copy(second.begin(), second.end(), std::copy(first.begin(), first.end(), words.begin()));
  return words;
}

}  // namespace plan
