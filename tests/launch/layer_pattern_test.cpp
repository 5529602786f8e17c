// Lists of layers against what Python makes of them: random sums and products whose value is known by construction, and
// texts that are none.
#include "cli/launch/job/layer_pattern.hpp"

#include <doctest/doctest.h>

#include <random>
#include <string>

namespace plan {
namespace {

struct Expression {
  std::string text;
  std::vector<bool> value;
};

std::vector<bool> repeated(const std::vector<bool>& one, int times) {
  std::vector<bool> all;
  for (int i = 0; i < times; ++i) all.insert(all.end(), one.begin(), one.end());
  return all;
}

Expression random_sum(std::mt19937& random, int deep);

Expression random_part(std::mt19937& random, int deep) {
  if (deep > 0 && random() % 3 == 0) {
    Expression inside = random_sum(random, deep - 1);
    return {"(" + inside.text + ")", inside.value};
  }
  Expression list{"[", {}};
  for (auto items = random() % 4; items > 0; --items) {
    list.value.push_back(random() % 2 == 0);
    list.text += list.value.back() ? "1" : "0";
    if (items > 1 || random() % 5 == 0) list.text += random() % 4 == 0 ? ", " : ",";
  }
  list.text += "]";
  return list;
}

Expression random_sum(std::mt19937& random, int deep) {
  Expression sum;
  for (auto parts = 1 + random() % 3; parts > 0; --parts) {
    Expression part = random_part(random, deep);
    const int times = static_cast<int>(random() % 5);
    if (random() % 4 == 0)
      part = {std::to_string(times) + "*" + part.text, repeated(part.value, times)};
    else if (random() % 3 > 0)
      part = {part.text + (random() % 4 == 0 ? " * " : "*") + std::to_string(times), repeated(part.value, times)};
    sum.text += (sum.text.empty() ? "" : "+") + part.text;
    sum.value.insert(sum.value.end(), part.value.begin(), part.value.end());
  }
  return sum;
}

}  // namespace

TEST_CASE("sums and products of lists are what Python makes of them") {
  std::mt19937 random(5);
  for (int draw = 0; draw < 3000; ++draw) {
    const Expression expression = random_sum(random, 3);
    CAPTURE(expression.text);
    CHECK(listed_layers(expression.text, expression.value.size()) == expression.value);
    CHECK_FALSE(listed_layers(expression.text, expression.value.size() + 1));
    if (!expression.value.empty()) CHECK_FALSE(listed_layers(expression.text, expression.value.size() - 1));
    std::string broken = expression.text;
    broken.erase(broken.find_first_of("[]"), 1);  // one bracket less
    CHECK_FALSE(listed_layers(broken, expression.value.size()));
  }
}

TEST_CASE("what is no list of layers is none, however large or deep") {
  for (const char* text : {"",
                           "3",
                           "[2]",
                           "[1",
                           "[1]]",
                           "[1]*",
                           "[1]+",
                           "+[1]",
                           "[1 1]",
                           "[1,,1]",
                           "[a]",
                           "([1]",
                           "[1])",
                           "[1]*-1",
                           "[1]-[0]",
                           "2*",
                           "*2",
                           "[,]",
                           "[1]*99999999999999999999",
                           "9999999999*[1]*9999999999"})
    for (const std::size_t depth : {0, 1, 2, 61}) {
      CAPTURE(text);
      CHECK_FALSE(listed_layers(text, depth));
    }
  CHECK_FALSE(listed_layers(std::string(100'000, '(') + "[1]" + std::string(100'000, ')'), 1));
}

}  // namespace plan
