// One plan in every format: the numbers are the same, digit by digit where they are printed the same way, exactly where
// they are written for programs.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

#include "cli/explain/explain.hpp"
#include "cli/report/parts/tables.hpp"
#include "cli/report/plan/csv.hpp"
#include "cli/report/plan/report.hpp"
#include "cli/report/plan/trace.hpp"
#include "cli/request/resolve.hpp"
#include "cli/request/words/layout_flag.hpp"
#include "cli/terminal/format.hpp"
#include "page_tags.hpp"
#include "planner/planner.hpp"

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

TEST_CASE("CSV has the numbers of the JSON exactly, column by column") {
  const auto pointer = [](const char* path) { return json::json_pointer(path); };
  // What is nowhere in the JSON as it stands is checked below.
  std::map<std::string, json::json_pointer> places = {{"micro_batches", pointer("/layout/micro_batches")},
                                                      {"step_time_s", pointer("/step_time_s")},
                                                      {"step_time_low_s", pointer("/step_time_low_s")},
                                                      {"step_time_high_s", pointer("/step_time_high_s")},
                                                      {"tokens_per_s", pointer("/tokens_per_s")},
                                                      {"tokens_per_s_per_gpu", pointer("/tokens_per_s_per_gpu")},
                                                      {"mfu_causal_ratio", pointer("/mfu_ratio/model_causal")},
                                                      {"mfu_full_ratio", pointer("/mfu_ratio/model_full")},
                                                      {"mfu_hardware_ratio", pointer("/mfu_ratio/hardware")},
                                                      {"fits", pointer("/memory/fits")}};
  for (const char* key : {"tp", "cp", "cp_kind", "pp", "vp", "dp", "ep", "etp", "zero", "micro_batch", "schedule"})
    places[key] = pointer((std::string("/layout/") + key).c_str());
  for (const char* term : {"compute", "recompute", "tp", "cp", "ep", "pp", "dp", "bubble", "optimizer", "straggler"})
    places[std::string(term) + "_s"] = pointer((std::string("/terms_s/") + term).c_str());
  for (const char* key : {"capacity_bytes", "peak_bytes", "peak_low_bytes", "peak_high_bytes"})
    places[key] = pointer((std::string("/memory/") + key).c_str());
  constexpr int kSpares = 3;
  for (const Plan& plan : plans()) {
    const RunOptions run{.price_per_hour = 2.5, .spares = kSpares};
    const json report = json::parse(json_report(plan, run));
    std::istringstream lines(csv_report(plan, run));
    std::string head, line;
    std::getline(lines, head);
    const std::vector<std::string> names = split(head);
    std::vector<std::pair<std::string, json>> expected = {{"best,1", report["best"]}};
    if (report.contains("fastest")) expected.emplace_back("fastest,1", report["fastest"]);
    if (report.contains("fastest_on_paper")) expected.emplace_back("paper,1", report["fastest_on_paper"]);
    int rank = 1;
    for (const json& runner : report["runners_up"]) expected.emplace_back(fmt::format("next,{}", ++rank), runner);
    rank = 0;
    for (const json& member : report["front"]) expected.emplace_back(fmt::format("front,{}", ++rank), member);
    for (const auto& expected_row : expected) {
      const json& layout = expected_row.second;
      REQUIRE(std::getline(lines, line));
      CHECK(line.starts_with(expected_row.first + ","));
      const std::vector<std::string> cells = split(line);
      REQUIRE(cells.size() == names.size());
      std::map<std::string, std::string> row;
      for (std::size_t i = 0; i < names.size(); ++i) row[names[i]] = cells[i];
      for (const auto& place : places) {
        const std::string& column = place.first;
        CAPTURE(column);
        REQUIRE(row.count(column) == 1);
        REQUIRE(layout.contains(place.second));
        const json& value = layout[place.second];
        if (value.is_number())
          CHECK(std::stod(row[column]) == value.get<double>());
        else
          CHECK(row[column] == (value.is_boolean() ? (value.get<bool>() ? "yes" : "no") : value.get<std::string>()));
      }
      CHECK(std::stoi(row["gpus"]) == plan.problem.gpus);
      CHECK(row["gpu"] == plan.problem.cluster.gpu.name);
      CHECK((row["sequence_parallel"] == "1") == layout["layout"]["sequence_parallel"].get<bool>());
      std::int64_t peak = 0;
      for (const json& stage : layout["memory"]["stages"])
        peak = std::max(peak, stage["total_bytes"].get<std::int64_t>());
      CHECK(layout["memory"]["stages"][std::stoul(row["peak_stage"])]["total_bytes"] == peak);
      const double hours = 1e12 / layout["tokens_per_s"].get<double>() / 3600 * (plan.problem.gpus + kSpares);
      CHECK(std::stod(row["gpu_hours_per_T_tokens"]) == doctest::Approx(hours).epsilon(1e-12));
      CHECK(std::stod(row["usd_per_T_tokens"]) == doctest::Approx(2.5 * hours).epsilon(1e-12));
      const Result<Fixed> again = read_layout(row["layout"]);  // the flag that asks for it again
      REQUIRE(again.has_value());
      CHECK(again->tp.value_or(1) == layout["layout"]["tp"].get<int>());
      CHECK(again->pp.value_or(1) == layout["layout"]["pp"].get<int>());
    }
    CHECK_FALSE(std::getline(lines, line));
  }
}

TEST_CASE("tables in Markdown and on the page have the rows of the JSON") {
  for (const Plan& plan : plans()) {
    CAPTURE(plan.problem.model.name);
    const RunOptions run{.tokens = 1e12, .price_per_hour = 2.5, .spares = 1};
    const json report = json::parse(json_report(plan, run)), best = report["best"];
    const std::string text = markdown_report(plan, run), page = html_report(plan, run);
    const auto table_with = [](const auto& tables, const std::string& head) {
      for (const auto& table : tables)
        if (std::find(table.front().begin(), table.front().end(), head) != table.front().end()) return table;
      return std::decay_t<decltype(tables.front())>{};
    };
    const auto markdown = pages::markdown_tables(text), html = pages::tables_of(page);
    const auto memory = table_with(markdown, "weights");
    REQUIRE(memory.size() > 1);
    CHECK(memory == table_with(pages::tables_of(pages::section_of(page, "memory")), "weights"));
    int next_stage = 0;
    for (std::size_t i = 1; i < memory.size(); ++i) {  // "0", "1-14": each stage once, in order
      const std::string& stages = memory[i][0];
      const std::size_t dash = stages.find('-');
      CHECK(std::stoi(stages) == next_stage);
      next_stage = std::stoi(dash == std::string::npos ? stages : stages.substr(dash + 1)) + 1;
      double sum = 0;
      for (std::size_t column = 1; column < 6; ++column) sum += std::stod(memory[i][column]);
      CHECK(sum == doctest::Approx(std::stod(memory[i][6])));
      for (int stage = std::stoi(stages); stage < next_stage; ++stage) {
        const json& bytes = best["memory"]["stages"][static_cast<std::size_t>(stage)];
        const char* keys[] = {"weights_bytes", "grads_bytes", "optimizer_bytes", "activations_bytes"};
        for (std::size_t column = 1; column < 5; ++column)
          CHECK(std::abs(std::stod(memory[i][column]) - bytes[keys[column - 1]].get<double>() / kGiB) < 0.11);
        CHECK(std::abs(std::stod(memory[i][6]) - bytes["total_bytes"].get<double>() / kGiB) < 0.06);
      }
    }
    CHECK(next_stage == best["layout"]["pp"].get<int>());

    const auto terms = table_with(markdown, "term");
    double shares = 0, whole = 0;
    for (std::size_t i = 1; i < terms.size(); ++i) {
      whole += std::stod(terms[i][1]), shares += std::stod(terms[i][2]);
      std::string key = terms[i][0].substr(0, terms[i][0].find(' '));
      if (key == "stragglers") key = "straggler";
      const double seconds = best["terms_s"][key].get<double>(), factor = terms[0][1] == "ms" ? 1e3 : 1;
      CHECK(std::abs(std::stod(terms[i][1]) - seconds * factor) <=
            1.01 * std::pow(10.0, -time_scale(plan.best.step_time).decimals));
      CHECK(std::abs(std::stod(terms[i][2]) - 100 * seconds / best["step_time_s"].get<double>()) <= 1);
    }
    CHECK(shares == doctest::Approx(100));
    CHECK(whole == doctest::Approx(best["step_time_s"].get<double>() * (terms[0][1] == "ms" ? 1e3 : 1)).epsilon(0.005));

    const auto messages = table_with(markdown, "message");
    REQUIRE(messages.size() == best["communication"].size() + 1);
    CHECK(messages == table_with(pages::tables_of(pages::section_of(page, "communication")), "message"));
    for (std::size_t i = 1; i < messages.size(); ++i) {
      const json& row = best["communication"][i - 1];
      CHECK(messages[i] ==
            std::vector<std::string>{row["axis"].get<std::string>() + " " + row["op"].get<std::string>(),
                                     fmt::format("{} on {}", row["group"].get<int>(), row["tier"].get<std::string>()),
                                     count_text(std::round(row["count_per_step"].get<double>())),
                                     traffic_text(Bytes(row["bytes_per_step"].get<std::int64_t>())),
                                     seconds_text(Seconds(row["time_s"].get<double>())),
                                     seconds_text(Seconds(row["exposed_s"].get<double>()))});
    }

    const auto others = table_with(markdown, "90 % of draws");
    REQUIRE(others.size() == report["runners_up"].size() + 1);
    const auto drawn = table_with(pages::tables_of(pages::section_of(page, "next")), "90 % of draws");
    REQUIRE(drawn.size() == others.size());
    for (std::size_t i = 1; i < others.size(); ++i) {
      const json& runner = report["runners_up"][i - 1];
      const double ratio = runner["step_time_s"].get<double>() / best["step_time_s"].get<double>();
      CHECK(others[i][0] == fmt::format("{}", i + 1));
      CHECK(others[i][3] == signed_percent(ratio - 1));
      CHECK(others[i][5] == gib(Bytes(runner["memory"]["peak_bytes"].get<std::int64_t>())));
      for (const char* axis : {"tp", "dp"}) CHECK(others[i][1].find(fmt::format("{} ", axis)) != std::string::npos);
      CHECK(drawn[i] == std::vector<std::string>{others[i][0], others[i][1], others[i][6], others[i][2], others[i][3],
                                                 others[i][4], others[i][5]});
    }
    const std::string spare = "spare GPUs";
    CHECK(text.find("| spare GPUs | 1 | |") != std::string::npos);
    CHECK(page.find("<td>spare GPUs</td><td>1</td>") != std::string::npos);
    CHECK(markdown_report(plan, {}).find(spare) == std::string::npos);
    CHECK(html_report(plan, {}).find(spare) == std::string::npos);

    const auto search = table_with(pages::tables_of(pages::section_of(page, "search")), "layouts");
    const json& counts = report["search"];
    std::map<std::string, std::int64_t> rows;
    for (std::size_t i = 1; i < search.size(); ++i) {
      std::string digits = search[i][1];
      std::erase(digits, ' ');
      rows[search[i][0]] = std::stoll(digits);
    }
    for (const char* key : {"considered", "legal", "fit"}) CHECK(rows[key] == counts[key].get<std::int64_t>());
    CHECK(rows["proven worse by a bound"] == counts["pruned"].get<std::int64_t>());
    CHECK(rows["legal"] == rows["fit"] + rows["do not fit"] + rows["proven worse by a bound"]);
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
