// What a tally says it rejected, against counts kept here.
#include <doctest/doctest.h>

#include <map>
#include <numeric>
#include <random>

#include "oracle/random_problem.hpp"
#include "planner/rules/rules.hpp"
#include "planner/search/enumerate.hpp"

using namespace plan;

TEST_CASE("tallies that are merged hold every rejection of each, once, by its rule") {
  std::mt19937 random(6);
  for (int round = 0; round < oracle::rounds(100); ++round) {
    std::map<std::string, std::int64_t> expected;
    std::int64_t sum = 0;
    Tally whole;
    for (std::size_t part = random() % 4; part > 0; --part) {
      Tally tally;
      for (std::size_t times = random() % 6; times > 0; --times) {
        const std::size_t rule = random() % rules().size();
        const auto layouts = static_cast<std::int64_t>(1 + random() % 3);
        tally.reject(static_cast<int>(rule), layouts);
        expected[std::string(rules()[rule].code)] += layouts, sum += layouts;
      }
      whole.merge(tally);
    }
    CHECK(whole.total() == sum);
    std::map<std::string, std::int64_t> found;
    for (const Rejected& row : whole.rows()) {
      CHECK(row.count > 0);
      found[row.reason] += row.count;
    }
    CHECK(found == expected);
  }
}
