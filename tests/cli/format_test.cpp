#include "cli/terminal/format.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <map>
#include <numeric>
#include <random>
#include <string>

using namespace plan;

TEST_CASE("numbers as people read them") {
  CHECK(gib(Bytes(67645734912)) == "63.0");
  CHECK(memory_text(Bytes(45634027520)) == "42.5 GiB");
  CHECK(memory_text(Bytes(1 << 20)) == "1.0 MiB");
  CHECK(traffic_text(Bytes(1234567890)) == "1.23 GB");
  CHECK(traffic_text(Bytes(999999)) == "1.00 MB");
  CHECK(seconds_text(Seconds(6.314)) == "6.31 s");
  CHECK(seconds_text(Seconds(0.0431)) == "43.1 ms");
  CHECK(seconds_text(Seconds(1234)) == "1234 s");
  CHECK(count_text(405853388800) == "405.9 B");
  CHECK(count_text(16777216) == "16.8 M");
  CHECK(count_text(2816) == "2816");
  CHECK(count_text(15.6e12) == "15.6 T");
  CHECK(count_text(12.34) == "12.3");
  CHECK(percent(0.414) == "41.4 %");
  CHECK(signed_percent(0.0414) == "+4.1 %");
  CHECK(signed_percent(-0.0273) == "-2.7 %");
  CHECK(signed_percent(-0.0004) == "0.0 %");  // no sign of what is not there
  CHECK(signed_percent(0.0004) == "0.0 %");
  CHECK(signed_percent(-0.004, 0) == "0 %");
  CHECK(signed_number(-0.0062, 2) == "-0.01");
  CHECK(signed_number(12.0, 0) == "+12");
  CHECK(grouped(45634027520) == "45 634 027 520");
  CHECK(grouped(-1234) == "-1 234");
  CHECK(grouped(123) == "123");
  CHECK(number_text(21.25) == "21.25");
  CHECK(number_text(8192) == "8192");
}

TEST_CASE("shown parts add up to the shown whole") {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> uniform(0, 50);
  for (int round = 0; round < 2000; ++round) {
    std::vector<double> values(1 + round % 9);
    for (double& v : values) v = uniform(random) * (round % 3 == 0 ? 1e-3 : 1);
    const int decimals = round % 4;
    const std::vector<double> parts = apportion(values, decimals);
    const double unit = std::pow(10, decimals);
    const double sum = std::accumulate(values.begin(), values.end(), 0.0);
    const double shown = std::accumulate(parts.begin(), parts.end(), 0.0);
    CHECK(std::llround(shown * unit) == std::llround(sum * unit));
    for (std::size_t i = 0; i < values.size(); ++i) CHECK(std::fabs(parts[i] - values[i]) * unit < 1.0 + 1e-9);
  }
}

TEST_CASE("a time of any length is shown to a hundredth, in a unit of which there are a hundred at most, but days") {
  const std::map<std::string, double> units{{"us", 1e-6}, {"ms", 1e-3}, {"s", 1},
                                            {"min", 60},  {"h", 3600},  {"days", 86400}};
  std::mt19937 random(11);
  for (int round = 0; round < 2000; ++round) {
    const double seconds = std::pow(10, -6 + 14 * static_cast<double>(random() % 10000) / 10000);
    const std::string text = duration_text(Seconds(seconds));
    CAPTURE(text);
    const std::size_t blank = text.find(' ');
    const std::string unit = text.substr(blank + 1);
    REQUIRE(units.count(unit) == 1);
    const double number = std::atof(text.c_str());
    CHECK(number * units.at(unit) == doctest::Approx(seconds).epsilon(0.035));
    if (seconds >= 100 && unit != "days") CHECK(number <= 100);
    if (seconds >= 100) CHECK(number >= 1);
  }
}

TEST_CASE("a step of any length shows three digits") {
  CHECK(time_scale(Seconds(6.3)).decimals == 2);
  CHECK(time_scale(Seconds(1234)).decimals == 0);
  CHECK(std::string(time_scale(Seconds(0.0431)).unit) == "ms");
}
