// Characters of UTF-8, and words of a person in messages.
#include "presets/characters.hpp"

#include <doctest/doctest.h>

#include <random>
#include <string>

#include "presets/yaml.hpp"

using namespace plan;

namespace {

/// UTF-8 of a code point, written from RFC 3629's table.
std::string utf8(std::uint32_t code) {
  const auto byte = [](std::uint32_t value) { return static_cast<char>(static_cast<unsigned char>(value)); };
  if (code < 0x80) return {byte(code)};
  if (code < 0x800) return {byte(0xc0 | code >> 6), byte(0x80 | (code & 0x3f))};
  if (code < 0x10000) return {byte(0xe0 | code >> 12), byte(0x80 | (code >> 6 & 0x3f)), byte(0x80 | (code & 0x3f))};
  return {byte(0xf0 | code >> 18), byte(0x80 | (code >> 12 & 0x3f)), byte(0x80 | (code >> 6 & 0x3f)),
          byte(0x80 | (code & 0x3f))};
}

}  // namespace

TEST_CASE("each code point is read from its bytes, and surrogates are none") {
  int wrong = 0;
  for (std::uint32_t code = 0; code < 0x110000; ++code) {
    const Character read = character_at("x" + utf8(code), 1);
    const bool surrogate = code >= 0xd800 && code < 0xe000;
    wrong += surrogate ? read.size != 0 : (read.code != code || read.size != utf8(code).size());
  }
  CHECK(wrong == 0);
  for (const char* bytes : {"\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x80\x80", "\xe0\x9f\xbf", "\xf0\x8f\xbf\xbf",
                            "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "\xe2\x82", "\xc3(", "\xf0\x9f\x98"})
    CHECK(character_at(bytes, 0).size == 0);
}

TEST_CASE("a word in a message is as it was typed where it can be seen, and holds nothing that cannot") {
  for (const char* word : {"llama3-8b", "lláma3-8b", "通义千问", "модель", "ＴＰ８", "µ½²", "tp8，pp2", "😀"})
    CHECK(yaml::printable(word) == word);
  CHECK(yaml::printable("a\x1b[31mb") == "a\\x1b[31mb");
  CHECK(yaml::printable("a\u202eb") == "a\\u202eb");
  CHECK(yaml::printable("llama3-8b\u200b") == "llama3-8b\\u200b");
  CHECK(yaml::printable("a\u00a0b\xff") == "a\\u00a0b\\xff");
  CHECK(yaml::printable("\u0085\n") == "\\u0085\\x0a");
  std::mt19937 random(5);
  for (int round = 0; round < 5000; ++round) {
    std::string word;
    for (auto i = random() % 80; i > 0; --i)
      word += random() % 3 == 0 ? std::string(1, static_cast<char>(random() % 256))
                                : utf8(static_cast<std::uint32_t>(random() % 0x3100));
    const std::string shown = yaml::printable(word);
    std::size_t characters = 0;
    for (std::size_t at = 0; at < shown.size(); ++characters) {
      const Character character = character_at(shown, at);
      REQUIRE(character.size > 0);
      CHECK_FALSE(is_control(character.code));
      CHECK_FALSE(is_unseen(character.code));
      at += character.size;
    }
    CHECK(characters <= 60);
  }
}
