#include <doctest/doctest.h>

#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <type_traits>

#include "cli/report/plan/report.hpp"
#include "contents.hpp"
#include "planner/problem/axes.hpp"
#include "sample_plan.hpp"

using namespace plan;
using Json = nlohmann::ordered_json;

namespace {
/// A value of every optional key as well.
Plan complete_plan() {
  Plan plan = sample::plan();
  plan.front = {plan.best};
  plan.best.layout.cp_kind = CpKind::Hybrid;
  return plan;
}

/// Keys whose children are names of inputs and not keys of ours.
void collect(const Json& json, std::set<std::string>& keys) {
  if (json.is_array())
    for (const Json& item : json) collect(item, keys);
  if (!json.is_object()) return;
  for (const auto& [key, value] : json.items()) {
    keys.insert(key);
    collect(value, keys);
  }
}

}  // namespace

TEST_CASE("first key, order and adding up") {
  const std::string text = json_report(complete_plan(), {.tokens = 1e12});
  const Json json = Json::parse(text);
  CHECK(json.begin().key() == "schema");
  CHECK(json["schema"] == "plan/1");
  CHECK(json["inputs"]["gpus"]["value"] == 1024);
  CHECK(json["inputs"]["gpus"]["origin"] == "flag");
  const Json& best = json["best"];
  double sum = 0;
  for (const auto& [term, value] : best["terms_s"].items()) sum += value.get<double>();
  CHECK(sum == doctest::Approx(best["step_time_s"].get<double>()).epsilon(1e-12));
  for (const Json& stage : best["memory"]["stages"]) {
    std::int64_t total = 0;
    for (const auto& [key, value] : stage.items())
      if (key != "stage" && key != "total_bytes") total += value.get<std::int64_t>();
    CHECK(total == stage["total_bytes"].get<std::int64_t>());
  }
  CHECK(json["runners_up"].size() == 2);
  CHECK(json["runners_up"][0]["against_best"][0]["term"] == "cp");
  CHECK(json["search"]["rejected"][0]["count"] == 1204);
  CHECK(json["notes"][0]["code"] == "hardware_not_measured");
  CHECK(text == json_report(complete_plan(), {.tokens = 1e12}));
}

TEST_CASE("JSON is indented by two blanks a level and ends with one line's end") {
  const std::string text = json_report(complete_plan(), {});
  REQUIRE(text.ends_with("}\n"));
  std::size_t depth = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    CAPTURE(line);
    const std::size_t margin = line.find_first_not_of(' ');
    REQUIRE(margin != std::string::npos);
    if (line[margin] == '}' || line[margin] == ']') --depth;
    CHECK(margin == 2 * depth);
    if (line.back() == '{' || line.back() == '[') ++depth;
  }
  CHECK(depth == 0);
}

TEST_CASE("every key is in the manual") {
  const std::string manual = contents_of(PLAN_SOURCE_DIR "/man/plan-json.5");
  REQUIRE_FALSE(manual.empty());
  std::set<std::string> keys;
  Json json = Json::parse(json_report(complete_plan(), {.tokens = 1e12, .price_per_hour = 2}));
  collect(json, keys);
  for (const std::string& key : keys) {
    CAPTURE(key);
    CHECK(manual.find(key) != std::string::npos);
  }
}

TEST_CASE("every axis of words has them in the manual") {
  const std::string manual = contents_of(PLAN_SOURCE_DIR "/man/plan-json.5");
  int words = 0;
  each_axis([&](const auto& axis) {
    using Value = std::decay_t<decltype(Layout{}.*axis.value)>;
    if constexpr (std::is_enum_v<Value>)
      for (const auto& row : names_of(Value{})) {
        CAPTURE(row.name);
        CHECK(manual.find(row.name) != std::string::npos);
        ++words;
      }
  });
  CHECK(words > kSchedules);
}

TEST_CASE("no paths in the output") { CHECK(json_report(sample::plan(), {}).find("presets/") == std::string::npos); }
