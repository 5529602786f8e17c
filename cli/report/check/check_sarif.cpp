// SARIF 2.1.0 (OASIS), as code scanning reads it. Rule ids are the names of limits and never change, and a result's
// fingerprint is its job and rule, so that alerts are followed from run to run. Tested by
// tests/cli/check_formats_test.cpp and, against the published schema, tests/validators.
#include <fmt/core.h>

#include "cli/report/check/check.hpp"
#include "cli/report/check/check_text.hpp"
#include "cli/report/plan/json.hpp"
#include "cli/terminal/json_list.hpp"

namespace plan {
namespace {

/// A path as a relative URI reference.
std::string uri(std::string_view path) {
  std::string out;
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("/-._~").find(c) != std::string_view::npos;
    out += plain ? std::string(1, c) : fmt::format("%{:02X}", byte);
  }
  return out;
}

Json location(const Place& place) {
  Json physical = {{"artifactLocation", {{"uri", uri(place.file)}}}};
  if (place.line > 0) {
    physical["region"] = {{"startLine", place.line}};
    if (place.column > 0) physical["region"]["startColumn"] = place.column;
  }
  return {{"physicalLocation", std::move(physical)}};
}

Json rule(const std::string& id, std::string_view help) {
  return {{"id", id}, {"name", id}, {"shortDescription", {{"text", help}}}};
}

/// Every limit that there is, whether or not a budget sets it: a rule keeps its place in the list.
Json rules() {
  Json out = Json::array();
  for (const MetricRow& row : metrics()) {
    out.push_back(rule(std::string(row.name), row.help));
    if (row.metric != Metric::MemoryFit)
      out.push_back(
          rule(std::string(row.name) + ".since_baseline", fmt::format("change since the baseline: {}", row.help)));
  }
  out.push_back(rule("layout", "the layout can run on these GPUs with this framework"));
  out.push_back(rule("profile", "the hardware was measured"));
  return out;
}

std::size_t index_of(const Json& rules, const std::string& id) {
  for (std::size_t i = 0; i < rules.size(); ++i)
    if (rules[i]["id"] == id) return i;
  return 0;
}

Json result(const Broken& broken, const Json& rules, bool warn_only) {
  const Finding& f = *broken.finding;
  const Place& first = first_place(f);
  Json json = {{"ruleId", f.rule},
               {"ruleIndex", index_of(rules, f.rule)},
               {"level", f.state == State::Fail && !warn_only ? "error" : "warning"},
               {"message", {{"text", clean_text(sentence(*broken.job, f))}}},
               {"locations", Json::array({location(first)})}};
  if (!(first == f.place)) {
    Json related = location(f.place);
    related["message"] = {{"text", fmt::format("the limit: {}", clean_text(f.limit))}};
    json["relatedLocations"] = Json::array({std::move(related)});
  }
  json["partialFingerprints"] = {
      {"planLimit/v1", fmt::format("{}:{}:{}", clean_text(broken.job->budget), clean_text(broken.job->name), f.rule)}};
  return json;
}

/// What the verdicts rest on: notifications of the one invocation.
Json invocation(const CheckReport& report) {
  Json notes = Json::array();
  for (const CheckedJob& job : report.jobs) {
    Place budget;
    budget.file = job.budget;
    for (const Note& note : job.notes)
      notes.push_back({{"descriptor", {{"id", note.code}}},
                       {"level", "note"},
                       {"message", {{"text", clean_text(note.text)}}},
                       {"locations", Json::array({location(budget)})}});
  }
  return {{"executionSuccessful", true}, {"toolExecutionNotifications", std::move(notes)}};
}

}  // namespace

std::string check_sarif(const CheckReport& report) {
  const Json all = rules();
  Json results =
      json_list(broken_limits(report), [&](const Broken& broken) { return result(broken, all, report.warn_only); });
  const Json driver = {{"name", "plan"}, {"version", PLAN_VERSION}, {"semanticVersion", PLAN_VERSION}, {"rules", all}};
  const Json run = {{"tool", {{"driver", driver}}},
                    {"columnKind", "utf16CodeUnits"},
                    {"invocations", Json::array({invocation(report)})},
                    {"results", std::move(results)}};
  return dump(
      {{"$schema", "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"},
       {"version", "2.1.0"},
       {"runs", Json::array({run})}});
}

}  // namespace plan
