#include "cli/terminal/terminal.hpp"

#include <doctest/doctest.h>

using namespace plan;

TEST_CASE("colour needs a terminal and can be refused") {
  const Environment plain{"xterm", "", "C"};
  CHECK(make_terminal(true, 80, ColorMode::Auto, false, plain).color);
  CHECK_FALSE(make_terminal(false, 80, ColorMode::Auto, false, plain).color);
  CHECK_FALSE(make_terminal(true, 80, ColorMode::Auto, false, {"dumb", "", "C"}).color);
  CHECK_FALSE(make_terminal(true, 80, ColorMode::Auto, false, {"xterm", "1", "C"}).color);
  CHECK(make_terminal(false, 0, ColorMode::Always, false, {"dumb", "1", "C"}).color);
  CHECK_FALSE(make_terminal(true, 80, ColorMode::Never, false, plain).color);
}

TEST_CASE("characters follow the locale, width the terminal") {
  struct Row {
    const char* locale;
    bool ascii;
    bool unicode;
  };
  for (const Row& row : {Row{"C", false, false},
                         {"", false, false},
                         {"en_US.UTF-8", false, true},
                         {"C.utf8", false, true},
                         {"C.UTF-8", true, false}}) {
    CAPTURE(row.locale);
    CHECK(make_terminal(true, 80, ColorMode::Auto, row.ascii, {"xterm", "", row.locale}).unicode == row.unicode);
  }
  CHECK(make_terminal(true, 300, ColorMode::Auto, false, {}).width == 100);
  CHECK(make_terminal(false, 0, ColorMode::Auto, false, {}).width == 80);
}

TEST_CASE("bars keep their length to an eighth") {
  const Terminal utf8{.unicode = true}, ascii{};
  CHECK(bar(utf8, 2.5) == "██▌");
  CHECK(bar(utf8, 0.1) == "▏");
  CHECK(bar(utf8, 0) == "");
  CHECK(bar(ascii, 2.6) == "###");
  CHECK(bar(ascii, -1) == "");
  CHECK(display_width(bar(utf8, 7.25)) == 8);
}

TEST_CASE("wrapped text stays inside the width") {
  const std::string text = wrap("one two three four five six", 10, 2);
  CHECK(text == "one two\n  three\n  four\n  five six");
  CHECK(wrap("", 10, 2).empty());
  CHECK(wrap("slower by 0.3 %, or 14 GiB more.", 14, 0) == "slower by\n0.3 %, or\n14 GiB more.");
  CHECK(wrap("its word 8 reads", 10, 0) == "its word 8\nreads");
  CHECK(wrap("unbreakable-longer-than-width", 10, 2) == "unbreakable-longer-than-width");
}

TEST_CASE("lists break between items only") {
  CHECK(wrap_items({"one two", "three four", "five"}, 16, 2) == "one two,\n  three four,\n  five");
  CHECK(wrap_items({"a", "b"}, 80, 2) == "a, b");
  CHECK(wrap_items({}, 80, 2).empty());
}

TEST_CASE("escapes take no columns") {
  const Terminal terminal{.color = true};
  CHECK(display_width(paint(terminal, Style::Bad, "abc")) == 3);
  CHECK(paint(Terminal{}, Style::Bad, "abc") == "abc");
}
