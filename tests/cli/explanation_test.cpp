#include "cli/explain/explanation.hpp"

#include <doctest/doctest.h>

#include "cli/report/plan/explanation_html.hpp"

using namespace plan;

TEST_CASE("symbols give way to their values and nothing else does") {
  Explanation e{.name = "a", .title = "t", .equation = "2e8*s/cp + min(m*l, held_s) - sqrt(s)"};
  e.symbols = {{"s", 8192, "", ""}, {"cp", 2, "", ""}, {"m", 16, "", ""}, {"l", 0.5, "", ""}, {"held_s", 7, "", ""}};
  CHECK(substituted(e) == "2e8*8192/2 + min(16*0.5, 7) - sqrt(8192)");
}

TEST_CASE("values with their units") {
  CHECK(value_text(45634027520, "bytes") == "45 634 027 520 B = 42.5 GiB");
  CHECK(value_text(6.314, "s") == "6.31 s");
  CHECK(value_text(0.2727, "") == "0.2727");
  CHECK(value_text(16777216, "tokens") == "16 777 216 = 16.8 M tokens");
}

TEST_CASE("nothing of an explanation is markup in a table of Markdown") {
  Explanation e{.name = "a", .title = "x|y *z* a_b <c> d>e (f) - g", .equation = "s"};
  e.symbols = {{"s", 1, "of a|b", "plan explain *x*"}};
  const std::string text = markdown_explanation(e);
  CHECK(text.find(R"(x\|y \*z\* a\_b \<c> d>e (f) - g)") != std::string::npos);
  CHECK(text.find(R"(of a\|b | plan explain \*x\*)") != std::string::npos);
}
