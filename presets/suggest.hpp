#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "formulas/result.hpp"
#include "formulas/text.hpp"

namespace plan {

/// Letters that one text has and the other lacks, whichever lacks more: no edit makes up for two. Never above the
/// distance, and far quicker.
[[nodiscard]] inline std::size_t letters_apart(std::string_view a, std::string_view b) {
  std::array<int, 64> surplus{};
  for (const char c : a) ++surplus[static_cast<unsigned char>(lower_case(c)) % surplus.size()];
  for (const char c : b) --surplus[static_cast<unsigned char>(lower_case(c)) % surplus.size()];
  std::size_t more = 0, fewer = 0;
  for (const int n : surplus) (n > 0 ? more : fewer) += static_cast<std::size_t>(std::abs(n));
  return std::max(more, fewer);
}

/// Optimal string alignment distance without regard to case: insert, delete, replace, swap two neighbours. Any number
/// from `enough` on may stand for a larger one.
[[nodiscard]] inline std::size_t edit_distance(std::string_view a, std::string_view b, std::size_t enough = SIZE_MAX) {
  const std::size_t gap = a.size() > b.size() ? a.size() - b.size() : b.size() - a.size();
  if (gap >= enough) return gap;
  if (letters_apart(a, b) >= enough) return enough;
  const auto lower = lower_case;
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), now(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    now[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool same = lower(a[i - 1]) == lower(b[j - 1]);
      now[j] = std::min({last[j] + 1, now[j - 1] + 1, last[j - 1] + (same ? 0 : 1)});
      if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1]))
        now[j] = std::min(now[j], before[j - 2] + 1);
    }
    // A swap reaches back two rows, so both must be hopeless.
    const std::size_t least = *std::min_element(now.begin(), now.end());
    if (least >= enough && *std::min_element(last.begin(), last.end()) >= enough) return least;
    std::swap(before, last);
    std::swap(last, now);
  }
  return last[b.size()];
}

/// Whether `name` holds `word` whole, as `dgx-h100` holds `h100`: a part left out is one mistake, however long.
[[nodiscard]] inline bool holds_word(std::string_view name, std::string_view word) {
  constexpr std::size_t kShort = 3;  // fewer letters are in too many names
  const auto same = [](char a, char b) { return lower_case(a) == lower_case(b); };
  return word.size() >= kShort && std::search(name.begin(), name.end(), word.begin(), word.end(), same) != name.end();
}

/// The candidate nearest to `word`, at most a third of its length away or holding it; empty if none. First of equals
/// wins.
template <class Range>
[[nodiscard]] std::string nearest_name(std::string_view word, const Range& candidates) {
  if (word.size() > 100) return {};
  std::size_t least = std::max<std::size_t>(1, word.size() / 3) + 1;
  std::string best;
  for (const auto& candidate : candidates) {
    const std::string_view name(candidate);
    const std::size_t distance =
        holds_word(name, word) ? std::min<std::size_t>(name.size() - word.size(), 1) : edit_distance(word, name, least);
    if (distance < least) {
      least = distance;
      best = std::string(name);
    }
  }
  return best;
}

/// The help of an error about a word that is no name, where another is near.
[[nodiscard]] inline std::string the_nearest_is(std::string_view name) {
  return "the nearest is `" + std::string(name) + "`";
}

/// Adds that help where a candidate is near; says whether one was.
template <class Range>
bool suggest(Error& error, std::string_view word, const Range& candidates) {
  const std::string near = nearest_name(word, candidates);
  if (!near.empty()) error.help.push_back(the_nearest_is(near));
  return !near.empty();
}

}  // namespace plan
