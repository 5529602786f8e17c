#include "presets/json_syntax.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace {

plan::Error mistake_in(const std::string& text) {
  try {
    const nlohmann::json parsed = nlohmann::json::parse(text);
    CHECK(parsed.is_null());
  } catch (const nlohmann::json::parse_error& error) { return plan::json_syntax_error(error, text, "f.json"); }
  return {};
}

}  // namespace

TEST_CASE("a text that is no JSON is told where it stops, and why") {
  const std::string whole = "{\n  \"a\": [1, 2],\n  \"b\": {\"c\": 3}\n}\n";
  for (std::size_t cut = 1; cut + 2 < whole.size(); ++cut) {  // a comma at the cut wants something behind it, too
    CAPTURE(cut);
    CHECK(mistake_in(whole.substr(0, cut)).message == "the file ends in the middle");
  }
  for (const std::string behind : {"}", "]", "{}", "1", ","}) {
    CAPTURE(behind);
    const plan::Error error = mistake_in(whole + behind);
    CHECK(error.message == "something follows the end of the JSON");
    CHECK(error.place.line == 5);
  }
  struct Case {
    std::string text, help;
    int line;
  };
  for (const Case& one : {Case{"{\n  \"a\": 1,\n}", "leave out the comma in front of it", 3},
                          Case{"[1, 2,\n ]", "leave out the comma in front of it", 2},
                          Case{"// mine\n{}", "leave the comment out: JSON has none", 1},
                          Case{"{\n # mine\n}", "leave the comment out: JSON has none", 2},
                          Case{"{'a': 1}", "write words in double quotes", 1}}) {
    CAPTURE(one.text);
    const plan::Error error = mistake_in(one.text);
    CHECK(error.message == "not valid JSON");
    CHECK(error.place.line == one.line);
    REQUIRE(error.help.size() == 1);
    CHECK(error.help.front() == one.help);
  }
}
