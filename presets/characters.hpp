#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

/// Characters of UTF-8, and those of them that a reader cannot see. Tested by tests/presets/characters_test.cpp.
namespace plan {

/// A character of a text: what Unicode numbers it, and its bytes; none where no character begins.
struct Character {
  std::uint32_t code = 0;
  std::size_t size = 0;
};

/// The character that begins at `at`. Overlong forms, surrogates and what lies behind Unicode's end are none (RFC 3629,
/// section 4).
[[nodiscard]] constexpr Character character_at(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(text[i])); };
  const std::uint32_t lead = byte(at);
  if (lead < 0x80) return {lead, 1};
  const std::size_t size = lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
  if (size == 0 || at + size > text.size()) return {};
  std::uint32_t code = lead & (0xffu >> (size + 1));
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(at + i) & 0xc0) != 0x80) return {};
    code = code << 6 | (byte(at + i) & 0x3f);
  }
  constexpr std::uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  if (code < kLeast[size] || (code >= 0xd800 && code < 0xe000) || code > 0x10ffff) return {};
  return {code, size};
}

/// Is it a control character, or one that steers how the lines and directions of the text around it are shown, or none
/// at all?
[[nodiscard]] constexpr bool is_control(std::uint32_t code) {
  constexpr std::uint32_t kRanges[][2] = {
      {0x00, 0x1f}, {0x7f, 0x9f}, {0x2028, 0x202e}, {0x2066, 0x2069}, {0xfffe, 0xffff}};
  for (const auto& [first, last] : kRanges)
    if (code >= first && code <= last) return true;
  return false;
}

/// Can no reader see it, so that a word with it looks like another word? Joiners, marks of a direction, tags, selectors
/// and fillers without a width, and blanks that are not the usual one. Names of files do have them: those in Hebrew and
/// Arabic, and variants of Chinese characters and emoji.
[[nodiscard]] constexpr bool is_unseen(std::uint32_t code) {
  constexpr std::uint32_t kRanges[][2] = {{0xa0, 0xa0},     {0xad, 0xad},     {0x34f, 0x34f},    {0x61c, 0x61c},
                                          {0x115f, 0x1160}, {0x1680, 0x1680}, {0x17b4, 0x17b5},  {0x180b, 0x180f},
                                          {0x2000, 0x200f}, {0x202f, 0x202f}, {0x205f, 0x2065},  {0x206a, 0x206f},
                                          {0x3000, 0x3000}, {0x3164, 0x3164}, {0xfe00, 0xfe0f},  {0xfeff, 0xfeff},
                                          {0xffa0, 0xffa0}, {0xfff0, 0xfffb}, {0xe0000, 0xe0fff}};
  for (const auto& [first, last] : kRanges)
    if (code >= first && code <= last) return true;
  return false;
}

}  // namespace plan
