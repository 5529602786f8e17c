#include "presets/quantity.hpp"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "presets/suggest.hpp"

using plan::Dimension;
using plan::parse_quantity;

TEST_CASE("a quantity is a number and a unit of its dimension") {
  struct Row {
    const char* text;
    Dimension dimension;
    double value;
  };
  constexpr Row kRows[] = {
      {"79.6 GiB", Dimension::Bytes, 79.6 * 1073741824},
      {"80GB", Dimension::Bytes, 80e9},
      {"512 MiB", Dimension::Bytes, 536870912},
      {"989.4 TFLOP/s", Dimension::FlopRate, 989.4e12},
      {"450 GB/s", Dimension::ByteRate, 450e9},
      {"400 Gb/s", Dimension::ByteRate, 50e9},
      {"3.35 TB/s", Dimension::ByteRate, 3.35e12},
      {"2.8 us", Dimension::Time, 2.8e-6},
      {"2 h", Dimension::Time, 7200},
      {"700 W", Dimension::Power, 700},
      {"2.5 USD/h", Dimension::Price, 2.5},
      {"30 %", Dimension::Ratio, 0.3},
      {"0.3", Dimension::Ratio, 0.3},
      {"  1e3   ms  ", Dimension::Time, 1.0},
  };
  for (const Row& row : kRows) {
    CAPTURE(row.text);
    const auto parsed = parse_quantity(row.text, row.dimension);
    CHECK(parsed);
    CHECK(parsed.value == doctest::Approx(row.value).epsilon(1e-15));
  }
}

// The SI Brochure's prefixes, those of IEC 80000-13, and eight bits a byte.
TEST_CASE("every unit is what it says") {
  const std::pair<const char*, double> prefixes[] = {{"K", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}, {"P", 1e15}};
  int units = 0;
  const auto check = [&](const std::string& unit, Dimension dimension, double value) {
    const auto parsed = parse_quantity("3 " + unit, dimension);
    if (!parsed) return;  // the unit is too large to be of use
    CAPTURE(unit);
    CHECK(parsed.value == doctest::Approx(3 * value).epsilon(1e-15));
    ++units;
  };
  for (const auto& [prefix, value] : prefixes) {
    const std::string p = prefix;
    check(p + "B", Dimension::Bytes, value);
    check(p + "iB", Dimension::Bytes, std::pow(1024, std::round(std::log10(value) / 3)));
    check(p + "B/s", Dimension::ByteRate, value);
    check(p + "b/s", Dimension::ByteRate, value / 8);
    check(p + "iB/s", Dimension::ByteRate, std::pow(1024, std::round(std::log10(value) / 3)));
    check(p + "FLOP/s", Dimension::FlopRate, value);
  }
  CHECK(units == 21);
  const std::pair<const char*, double> times[] = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1},
                                                  {"min", 60},  {"h", 3600},  {"d", 86400}};
  for (const auto& [unit, value] : times) check(unit, Dimension::Time, value);
  check("B", Dimension::Bytes, 1);
  check("B/s", Dimension::ByteRate, 1);
  check("FLOP/s", Dimension::FlopRate, 1);
  check("W", Dimension::Power, 1);
  check("kW", Dimension::Power, 1000);
  check("tokens", Dimension::Tokens, 1);
  check("sequences", Dimension::Sequences, 1);
  CHECK(units == 35);
}

TEST_CASE("what is no quantity says why") {
  CHECK(parse_quantity("6.5", Dimension::Time).problem == "needs a unit");
  CHECK(parse_quantity("6.5 parsec", Dimension::Time).problem == "has an unknown unit");
  CHECK(parse_quantity("6.5 GB", Dimension::Time).problem == "has an unknown unit");
  CHECK(parse_quantity("80 Gib", Dimension::Bytes).help == "write `80 GiB`");
  CHECK(parse_quantity("80 G", Dimension::Bytes).help == "write `80 GiB` or `80 GB`");
  CHECK(parse_quantity("90 %", Dimension::Bytes).instead.empty());
  for (const auto& [text, dimension] : {std::pair{"30 seconds", Dimension::Time},
                                        {"1 Minute", Dimension::Time},
                                        {"2,5 h", Dimension::Time},
                                        {"80 gb", Dimension::Bytes},
                                        {"81,559 mib", Dimension::Bytes},
                                        {"80", Dimension::Bytes},
                                        {"400 Gbps", Dimension::ByteRate},
                                        {"50 GBps", Dimension::ByteRate},
                                        {"989 TFLOPS", Dimension::FlopRate},
                                        {"$2.50/h", Dimension::Price},
                                        {"3 USD/hour", Dimension::Price},
                                        {"700 watts", Dimension::Power}}) {
    const std::string written = text;
    CAPTURE(written);
    const plan::ParsedQuantity read = parse_quantity(text, dimension);
    REQUIRE_FALSE(read);
    REQUIRE_FALSE(read.instead.empty());
    for (const std::string& instead : read.instead) CHECK(parse_quantity(instead, dimension));
  }
  for (const char* text : {"30-40 s", "1/2 s", "3:20 s"}) CHECK(parse_quantity(text, Dimension::Time).instead.empty());
  for (const char* text : {"", "fast", "nan GiB", "inf GiB", "1e999 GiB", "--3 GiB", "GiB", "0x10 GiB"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_quantity(text, Dimension::Bytes));
  }
}

TEST_CASE("a written quantity reads back as the same number") {
  const double values[] = {0,    1,    80e9,   85899345920.0, 3.35e12, 989.4e12,   2.8e-6, 1.0 / 3, 12345.678901234567,
                           4096, 1e-9, 312e12, 0.1 + 0.2,     5e10,    141e9 * 1.1};
  for (const Dimension d : {Dimension::Bytes, Dimension::ByteRate, Dimension::FlopRate, Dimension::Time,
                            Dimension::Power, Dimension::Price, Dimension::Ratio})
    for (const double value : values) {
      const std::string text = plan::format_quantity(value, d);
      CAPTURE(text);
      const double read = parse_quantity(text, d).value;
      CHECK((d == Dimension::Bytes ? std::round(read) == std::round(value) : read == value));
    }
  std::mt19937 random(1);
  for (int round = 0; round < 4000; ++round) {  // any number at all, and those with three digits
    double value = std::exp(static_cast<double>(random() % 70000) / 1000 - 20);
    if (round % 2 == 0) value = std::stod(fmt::format("{:.3g}", value));
    for (const Dimension d : {Dimension::ByteRate, Dimension::FlopRate, Dimension::Time, Dimension::Power}) {
      const std::string text = plan::format_quantity(value, d);
      CAPTURE(text);
      CHECK(parse_quantity(text, d).value == value);
    }
  }
  CHECK(plan::format_quantity(450e9, Dimension::ByteRate) == "450 GB/s");
  CHECK(plan::format_quantity(2.8e-6, Dimension::Time) == "2.8 us");
  CHECK(plan::format_quantity(62.1e-6, Dimension::Time) == "62.1 us");
  CHECK(plan::format_quantity(std::round(79.6 * 1073741824), Dimension::Bytes) == "79.6 GiB");
  CHECK(plan::format_quantity(80e9, Dimension::Bytes) == "80 GB");
  CHECK(plan::format_quantity(989.4e12, Dimension::FlopRate) == "989.4 TFLOP/s");
  CHECK(plan::format_quantity(0, Dimension::Bytes) == "0 B");
}

TEST_CASE("whole numbers are nothing but digits") {
  CHECK(plan::parse_integer("16384") == 16384);
  CHECK(plan::parse_integer("-1") == -1);
  for (const char* text : {"", "1.0", "16K", "1e3", " 1", "1 ", "0x10", "99999999999999999999"}) {
    CAPTURE(text);
    CHECK_FALSE(plan::parse_integer(text).has_value());
  }
}

TEST_CASE("the nearest name is at most a third of the word away, or holds it") {
  const std::vector<std::string> names = {"llama3-405b", "llama3-70b", "deepseek-v3", "h100-sxm"};
  CHECK(plan::nearest_name("llama3-504b", names) == "llama3-405b");
  CHECK(plan::nearest_name("LLAMA3-405B", names) == "llama3-405b");
  CHECK(plan::nearest_name("h100-smx", names) == "h100-sxm");
  CHECK(plan::nearest_name("deepsek-v3", names) == "deepseek-v3");
  CHECK(plan::nearest_name("mixtral", names).empty());
  CHECK(plan::nearest_name("h100", names) == "h100-sxm");
  CHECK(plan::nearest_name("", names).empty());
  CHECK(plan::edit_distance("ca", "ac") == 1);
  CHECK(plan::edit_distance("kitten", "sitting") == 3);
}

TEST_CASE("a distance that may stop early is right up to where it may") {
  std::mt19937 random(7);
  const auto word = [&] {
    std::string letters(random() % 7, 'a');
    for (char& letter : letters) letter = static_cast<char>('a' + random() % 3);
    return letters;
  };
  for (int i = 0; i < 3000; ++i) {
    const std::string a = word(), b = word();
    const std::size_t whole = plan::edit_distance(a, b);
    for (std::size_t enough = 1; enough < 8; ++enough)
      REQUIRE(std::min(plan::edit_distance(a, b, enough), enough) == std::min(whole, enough));
  }
}

TEST_CASE("a number ends in a digit") {
  for (const char* text : {"5.", "5.e3", "1.", "-2."}) CHECK_FALSE(plan::parse_number(text));
  for (const char* text : {"5", "5.0", ".5", "5.25e3", "1e3"}) CHECK(plan::parse_number(text));
}
