// The fitted constants as the program has them, against the file that they come from.
#include "tests/tools/time_fit.hpp"

#include <doctest/doctest.h>
#include <yaml-cpp/yaml.h>

#include <set>

#include "planner/estimate/uncertainty.hpp"

using namespace plan;
using namespace plan::fit;

namespace {
YAML::Node file() { return YAML::LoadFile(PLAN_SOURCE_DIR "/presets/calibration.yaml"); }
}  // namespace

TEST_CASE("the program has the constants of the file, all of them and no others") {
  const YAML::Node rows = file()["constants"];
  std::set<std::string> names;
  for (const Constant& constant : constants()) {
    CAPTURE(constant.name);
    REQUIRE(rows[constant.name]);
    CHECK(rows[constant.name]["value"].as<double>() == Calibration{}.*constant.member);
    names.insert(constant.name);
  }
  for (const auto& row : rows) CHECK_MESSAGE(names.count(row.first.as<std::string>()) == 1, row.first);
}

TEST_CASE("the program has the intervals of the file") {
  const YAML::Node all = file();
  for (const auto& row : all["memory"]) {
    const Interval interval = memory_interval({}, row.first.as<std::string>());
    CHECK(interval.low == row.second["low"].as<double>());
    CHECK(interval.high == row.second["high"].as<double>());
  }
  CHECK(all["memory"].size() == 5);
  CHECK(all["step_time"]["scale"].size() == kDoubts + 1);
  CHECK(paired_parts(0).same == all["pair"]["same"].as<double>());
  CHECK(paired_parts(0).different == all["pair"]["different"].as<double>());
}

TEST_CASE("a value is put in its place, and nothing else moves") {
  const std::string text = "constants:\n  a: {value: 1, prior: 2}  # why\n  ab: 3\nx:\n  l: [1, 2]\n  m: {low: 1}\n";
  bool found = true;
  CHECK(with_value(text, "a", "7", found) ==
        "constants:\n  a: {value: 7, prior: 2}  # why\n  ab: 3\nx:\n  l: [1, 2]\n  m: {low: 1}\n");
  CHECK(with_value(text, "ab", "7", found).find("  ab: 7\nx:") != std::string::npos);
  CHECK(with_value(text, "l", "[5]", found).find("  l: [5]\n") != std::string::npos);
  CHECK(with_value(text, "m", "{low: 2}", found).find("  m: {low: 2}\n") != std::string::npos);
  CHECK(found);
  CHECK(with_value(text, "b", "7", found) == text);
  CHECK_FALSE(found);
}
