// Oracles: figures printed read back; a table of limits and their values; every mistake names its part of the text.
#include "cli/check/limit_text.hpp"

#include <doctest/doctest.h>

#include "formulas/units.hpp"

using namespace plan;

TEST_CASE("limits mean what they say") {
  struct Case {
    const char* text;
    Metric metric;
    bool since;
    double value;
    bool relative;
  };
  const Case cases[] = {
      {"at most 60 GiB", Metric::MemoryPeak, false, 60 * kGiB, false},
      {"at most 60GB", Metric::MemoryCategory, false, 60e9, false},
      {"at most 6.5 s", Metric::StepTime, false, 6.5, false},
      {"at most 6500 ms", Metric::StepTime, false, 6.5, false},
      {"at least 40 %", Metric::Mfu, false, 0.4, false},
      {"at least 2.5M tokens/s", Metric::TokensPerSecond, false, 2.5e6, false},
      {"at least 2500000 tokens/s", Metric::TokensPerSecond, false, 2.5e6, false},
      {"at most 1024", Metric::Gpus, false, 1024, false},
      {"at most 1024 GPUs", Metric::Gpus, false, 1024, false},
      {"at most 31 M GPU-hours", Metric::GpuHours, false, 31e6, false},
      {"at most 60M USD", Metric::Cost, false, 60e6, false},
      {"at most 40 GB", Metric::BytesDp, false, 40e9, false},
      {"at most +2 %", Metric::MemoryPeak, true, 0.02, true},
      {"at most 2%", Metric::MemoryPeak, true, 0.02, true},
      {"at least -1 %", Metric::Mfu, true, -0.01, true},
      {"at least -1 points", Metric::Mfu, true, -0.01, false},
      {"at most +512 MiB", Metric::MemoryPeak, true, 512 * kMiB, false},
      {"at most +0 s", Metric::StepTime, true, 0, false},
  };
  for (const Case& one : cases) {
    CAPTURE(one.text);
    const auto limit = read_limit(one.text, one.metric, one.since);
    REQUIRE(limit);
    REQUIRE(limit->fail);
    CHECK(limit->fail->value == doctest::Approx(one.value));
    CHECK(limit->fail->relative == one.relative);
    CHECK(!limit->warn);
  }
  const auto both = read_limit("at most 60 GiB, warn at most 55 GiB", Metric::MemoryPeak, false);
  REQUIRE(both);
  CHECK(both->warn->value == 55 * kGiB);
  CHECK(both->warn->text == "at most 55 GiB");
  CHECK(!read_limit("warn at least 40 %", Metric::Mfu, false)->fail);
}

TEST_CASE("mistakes name their part of the text and what to write") {
  struct Case {
    const char* text;
    Metric metric;
    const char *part, *problem, *help;
  };
  const Case cases[] = {
      {"60 GiB", Metric::MemoryPeak, "60 GiB", "says neither `at most` nor `at least`", "write `at most 60 GiB`"},
      {"at most 6.5", Metric::StepTime, "6.5", "needs a unit", "write `at most 6.5 s` or `at most 6.5 ms`"},
      {"at most 60", Metric::MemoryPeak, "60", "needs a unit", "write `at most 60 GiB` or `at most 60 GB`"},
      {"at least 40", Metric::Mfu, "40", "needs a unit", "write `at least 40 %`"},
      {"at least 0.4", Metric::Mfu, "0.4", "needs a unit", "write `at least 40 %`"},
      {"at least 1", Metric::Mfu, "1", "needs a unit", "write `at least 100 %`"},
      {"at least 2", Metric::Mfu, "2", "needs a unit", "write `at least 2 %`"},
      {"at least 2.5M", Metric::TokensPerSecond, "2.5M", "needs a unit", "write `at least 2.5M tokens/s`"},
      {"at most 60 Gb", Metric::MemoryPeak, "60 Gb", "has an unknown unit", ""},
      {"at least 140 %", Metric::Mfu, "140 %", "is above 100 %", "write `at least 40 %`"},
      {"at most -1 s", Metric::StepTime, "-1 s", "is not above zero", "write `at most 6.5 s`"},
      {"at most nan s", Metric::StepTime, "nan s", "is not a number with a unit", ""},
      {"at most 1 s, at most 2 s", Metric::StepTime, "at most 2 s", "has two limits",
       "only one, and one more after `warn`"},
      {"at most 1 s, warn at most 2 s", Metric::StepTime, "warn at most 2 s", "warns no earlier than the limit itself",
       "write the warning inside `at most 1 s`, or leave it out"},
      {"warn at least 40 %, at least 50 %", Metric::Mfu, "at least 50 %", "warns no earlier than the limit itself", ""},
      {"at most 1 s, warn", Metric::StepTime, "", "says neither `at most` nor `at least`", "write `at most 6.5 s`"},
      {"", Metric::StepTime, "", "says neither `at most` nor `at least`", "write `at most 6.5 s`"},
      {"atmost 1 s", Metric::StepTime, "atmost 1 s", "says neither `at most` nor `at least`", "write `at most 1 s`"},
  };
  for (const Case& one : cases) {
    CAPTURE(one.text);
    const auto limit = read_limit(one.text, one.metric, false);
    REQUIRE(!limit);
    const LimitMistake& mistake = limit.error();
    CHECK(std::string(one.text).substr(mistake.offset, mistake.length) == one.part);
    CHECK(mistake.problem == one.problem);
    if (*one.help != 0) CHECK(mistake.help == one.help);
  }
}

TEST_CASE("a limit in other words is refused with one that says the same") {
  struct Case {
    const char* text;
    Metric metric;
    const char* meant;
  };
  for (const Case& one : {Case{">= 38%", Metric::Mfu, "at least 38%"},
                          {"38% or more", Metric::Mfu, "at least 38%"},
                          {"> 0.38", Metric::Mfu, "at least 38 %"},
                          {"max 75 GiB", Metric::MemoryPeak, "at most 75 GiB"},
                          {"\u2264 30 seconds", Metric::StepTime, "at most 30 s"},
                          {"At most 30 s", Metric::StepTime, "at most 30 s"},
                          {"no more than $5M", Metric::Cost, "at most 5M USD"},
                          {"min 500k tok/s", Metric::TokensPerSecond, "at least 500k tokens/s"},
                          {"<= 30 s, warn <= 20 s", Metric::StepTime, "at most 30 s, warn at most 20 s"},
                          {"between 38% and 50%", Metric::Mfu, "at least 38%"},
                          {"38-50 %", Metric::Mfu, "at least 38 %"},
                          {"from 10 to 12 seconds", Metric::StepTime, "at most 12 s"},
                          {"2.5 million tokens per second", Metric::TokensPerSecond, "at least 2.5M tokens/s"},
                          {"3 parsec", Metric::TokensPerSecond, ""},
                          {"fast", Metric::StepTime, ""}}) {
    CAPTURE(one.text);
    CHECK_FALSE(read_limit(one.text, one.metric, false));
    CHECK(meant_limit(one.text, one.metric, false) == one.meant);
    if (*one.meant != 0) CHECK(read_limit(one.meant, one.metric, false));
  }
}

TEST_CASE("two values never print alike unless they are") {
  const MetricUnit units[] = {MetricUnit::Memory, MetricUnit::Traffic, MetricUnit::Time,  MetricUnit::Ratio,
                              MetricUnit::Rate,   MetricUnit::Count,   MetricUnit::Hours, MetricUnit::Money};
  for (const MetricUnit unit : units)
    for (const double a : {0.3999999, 6.5, 12345.0, 64424509440.0}) {
      const double b = a * (1 + 1e-9) + (unit == MetricUnit::Memory || unit == MetricUnit::Traffic ? 1 : 0);
      const Texts texts = distinct_texts(unit, a, b);
      CHECK(texts.a != texts.b);
      CHECK(distinct_texts(unit, a, a).a == figure_text(unit, a));
    }
  CHECK(distinct_texts(MetricUnit::Memory, 64424509440.0, 64424509441.0).b == "64 424 509 441 bytes");
  CHECK(change_text(MetricUnit::Memory, 8.5 * kGiB) == "+8.5 GiB");
  CHECK(change_text(MetricUnit::Ratio, -0.014) == "-1.4 points");
  CHECK(change_text(MetricUnit::Time, 0) == "=");
}
