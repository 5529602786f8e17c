// One plan in every format: the numbers are the same, digit by digit where they are printed the same way, exactly where
// they are written for programs.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "cli/explain/explain.hpp"
#include "cli/report/csv.hpp"
#include "cli/report/report.hpp"
#include "cli/report/tables.hpp"
#include "cli/report/trace.hpp"
#include "cli/request/resolve.hpp"
#include "cli/terminal/format.hpp"
#include "planner/plan.hpp"

namespace plan {
namespace {

using nlohmann::json;

const std::vector<Plan>& plans() {
  static const std::vector<Plan> all = [] {
    std::vector<Plan> out;
    for (const auto& [model, gpus] : {std::pair{"8b", "64"}, {"70b", "256"}, {"mixtral-8x7b", "64"}}) {
      Args args;
      args.model = model, args.gpus = gpus, args.pareto = true;
      out.push_back(search(resolve_problem(args).value()).value());
    }
    return out;
  }();
  return all;
}

constexpr std::size_t kTermsOfAnyScreen = 3;

std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> out(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"') quoted = !quoted;
    if (c == ',' && !quoted)
      out.emplace_back();
    else if (c != '"')
      out.back() += c;
  }
  return out;
}

/// Every text that stands for a number of the best layout on the screen. `few`: of the terms the largest, since a
/// screen may print the smallest as one.
std::vector<std::string> shown(const Plan& plan, const json& best, bool few) {
  const Seconds step(best["step_time_s"].get<double>());
  const TimeScale scale = time_scale(step);
  std::vector<std::string> out = {fmt::format("{:.{}f} {}", step.value * scale.factor, scale.decimals, scale.unit),
                                  count_text(best["tokens_per_s"]),
                                  percent(best["mfu_ratio"]["model_causal"]),
                                  gib(Bytes(best["memory"]["peak_bytes"].get<std::int64_t>())),
                                  gib(Bytes(best["memory"]["capacity_bytes"].get<std::int64_t>())),
                                  gib(Bytes(best["memory"]["peak_low_bytes"].get<std::int64_t>())),
                                  gib(Bytes(best["memory"]["peak_high_bytes"].get<std::int64_t>()))};
  std::vector<ShownTerm> terms = shown_terms(plan.best);
  if (few && terms.size() > kTermsOfAnyScreen) terms.resize(kTermsOfAnyScreen);
  for (const ShownTerm& term : terms) out.push_back(fmt::format("{:.{}f}", term.shown, scale.decimals));
  for (const RunnerUp& runner : plan.runners_up) out.push_back(gib(runner.estimate.peak));
  return out;
}

}  // namespace

TEST_CASE("screen, Markdown and page show the numbers of the JSON") {
  for (const Plan& plan : plans()) {
    CAPTURE(plan.problem.model.name);
    const RunOptions run{.tokens = 1e12, .price_per_hour = 2.5};
    const json report = json::parse(json_report(plan, run));
    const std::string days = fmt::format("{:.1f} days", report["run"]["time_s"].get<double>() / 86400);
    const std::map<std::string, std::string> reports = {{"human", human_report(plan, run, Terminal{})},
                                                        {"markdown", markdown_report(plan, run)},
                                                        {"html", html_report(plan, run)}};
    for (const auto& report_of : reports) {
      const std::string &format = report_of.first, &text = report_of.second;
      CAPTURE(format);
      for (const std::string& number : shown(plan, report["best"], format == "human")) {
        CAPTURE(number);
        CHECK(text.find(number) != std::string::npos);
      }
      CHECK(text.find(days) != std::string::npos);
      CHECK(text.find(count_text(report["run"]["cost_usd"])) != std::string::npos);
    }
  }
}

TEST_CASE("CSV has the numbers of the JSON exactly") {
  const std::map<std::string, std::string> terms = {{"compute", "compute_s"},
                                                    {"recompute", "recompute_s"},
                                                    {"tp", "tp_s"},
                                                    {"cp", "cp_s"},
                                                    {"ep", "ep_s"},
                                                    {"pp", "pp_s"},
                                                    {"dp", "dp_s"},
                                                    {"bubble", "bubble_s"},
                                                    {"optimizer", "optimizer_s"},
                                                    {"straggler", "straggler_s"}};
  for (const Plan& plan : plans()) {
    const json report = json::parse(json_report(plan, {}));
    std::istringstream lines(csv_report(plan, {}));
    std::string head, line;
    std::getline(lines, head);
    const std::vector<std::string> names = split(head);
    std::vector<json> expected = {report["best"]};
    for (const char* role : {"fastest", "fastest_on_paper"})
      if (report.contains(role)) expected.push_back(report[role]);
    for (const json& runner : report["runners_up"]) expected.push_back(runner);
    for (const json& member : report["front"]) expected.push_back(member);
    for (const json& layout : expected) {
      REQUIRE(std::getline(lines, line));
      const std::vector<std::string> cells = split(line);
      REQUIRE(cells.size() == names.size());
      std::map<std::string, std::string> row;
      for (std::size_t i = 0; i < names.size(); ++i) row[names[i]] = cells[i];
      CHECK(std::stod(row["step_time_s"]) == layout["step_time_s"].get<double>());
      CHECK(std::stod(row["tokens_per_s"]) == layout["tokens_per_s"].get<double>());
      CHECK(std::stod(row["mfu_full_ratio"]) == layout["mfu_ratio"]["model_full"].get<double>());
      CHECK(std::stoll(row["peak_bytes"]) == layout["memory"]["peak_bytes"].get<std::int64_t>());
      CHECK(std::stoi(row["tp"]) == layout["layout"]["tp"].get<int>());
      CHECK(row["schedule"] == layout["layout"]["schedule"].get<std::string>());
      for (const auto& [key, column] : terms) CHECK(std::stod(row[column]) == layout["terms_s"][key].get<double>());
    }
    CHECK_FALSE(std::getline(lines, line));
  }
}

TEST_CASE("the trace carries the estimate of the JSON whole") {
  for (const Plan& plan : plans()) {
    const json report = json::parse(json_report(plan, {}));
    const json trace = json::parse(trace_report(plan, replay(plan).value()));
    CHECK(trace["otherData"]["estimate"] == report["best"]);
    CHECK(trace["otherData"]["step_time_s"] == report["best"]["step_time_s"]);
  }
}

TEST_CASE("every term of the JSON can be explained, and comes to its number") {
  for (const Plan& plan : plans()) {
    CAPTURE(plan.problem.model.name);
    const json best = json::parse(json_report(plan, {}))["best"];
    const auto check = [&](const std::string& term, double expected) {
      CAPTURE(term);
      const Result<Explanation> e = explain(plan, term, plan.best.peak_stage);
      if (expected == 0) return;
      REQUIRE(e.has_value());
      CHECK(e->value == doctest::Approx(expected).epsilon(1e-12));
    };
    for (const auto& [key, seconds] : best["terms_s"].items())
      check(key == "optimizer" ? "optimizer_step" : key, seconds);
    const json& stage = best["memory"]["stages"][static_cast<std::size_t>(plan.best.peak_stage)];
    for (const char* category :
         {"weights", "grads", "optimizer", "activations", "transient", "communication", "context"})
      check(category, stage[std::string(category) + "_bytes"]);
    check("memory", stage["total_bytes"]);
    check("step_time", best["step_time_s"]);
    check("step_time_low", best["step_time_low_s"]), check("step_time_high", best["step_time_high_s"]);
    check("peak_low", best["memory"]["peak_low_bytes"]), check("peak_high", best["memory"]["peak_high_bytes"]);
    check("throughput", best["tokens_per_s"]), check("throughput_per_gpu", best["tokens_per_s_per_gpu"]);
    check("mfu", best["mfu_ratio"]["model_causal"]), check("mfu_full", best["mfu_ratio"]["model_full"]);
    check("mfu_hardware", best["mfu_ratio"]["hardware"]);
  }
}

}  // namespace plan
