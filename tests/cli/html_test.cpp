// The page of a plan: well-formed, self-contained, small, with the screen's numbers.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cli/report/page/page.hpp"
#include "cli/report/parts/tables.hpp"
#include "cli/report/plan/report.hpp"
#include "cli/request/words/layout_flag.hpp"
#include "cli/terminal/format.hpp"
#include "planner/planner.hpp"
#include "planner/rules/complete_layout.hpp"
#include "planner/rules/frameworks.hpp"
#include "presets/store.hpp"
#include "sample_plan.hpp"

using namespace plan;

namespace {

Plan plan_of(const char* model, int gpus, const char* layout) {
  Problem problem;
  problem.model = load_model(model, StoreOptions{}).value().value;
  problem.cluster = load_cluster("dgx-h100", StoreOptions{}).value().value;
  problem.training.seq = problem.model.default_seq;
  problem.training.global_batch = problem.model.default_global_batch;
  problem.training.stack = framework_row(Framework::Any).stack;
  problem.gpus = gpus;
  problem.fixed = read_layout(layout).value();
  problem.inputs = {{"model", "a <b> & \"c\"", Origin::Flag}};
  Plan plan = plan_layout(problem, complete_layout(problem)).value();
  const Plan sample = sample::plan();
  plan.runners_up = sample.runners_up, plan.why = sample.why;
  plan.front = {plan.best, sample.best};
  plan.search = sample.search;
  return plan;
}

struct Case {
  const char* model;
  int gpus;
  const char* layout;
};
constexpr Case kCases[] = {{"405b", 16384, "tp8,pp16,vp8"},
                           {"405b", 16384, "tp8,pp16,vp2,schedule=zb-v"},
                           {"8b", 1, "tp1"},
                           {"8b", 64, "tp2,pp4,zero2,mb2"},
                           {"deepseek-v3", 2048, "pp16,ep64,schedule=dualpipe"}};

/// Tags that do not close as they opened; every element but the void ones.
std::vector<std::string> unbalanced(const std::string& page) {
  std::vector<std::string> open, wrong;
  for (std::size_t at = page.find('<', 1); at != std::string::npos; at = page.find('<', at + 1)) {
    const std::size_t end = page.find('>', at);
    if (end == std::string::npos) return {"no end"};
    const std::string tag = page.substr(at + 1, end - at - 1), word = tag.substr(0, tag.find_first_of(" /"));
    if (tag.ends_with('/') || word == "meta") continue;
    if (!tag.starts_with('/')) {
      open.push_back(word);
    } else if (open.empty() || open.back() != tag.substr(1)) {
      wrong.push_back(tag);
    } else {
      open.pop_back();
    }
  }
  wrong.insert(wrong.end(), open.begin(), open.end());
  return wrong;
}

}  // namespace

TEST_CASE("a plan's page is well-formed, small, without script or network") {
  for (const Case& row : kCases) {
    CAPTURE(row.model);
    CAPTURE(row.layout);
    const std::string page = html_report(plan_of(row.model, row.gpus, row.layout), {});
    CHECK(unbalanced(page).empty());
    CHECK(page.size() < 300'000);
    for (const char* word : {"<script", "http", "url(", "@import", ">nan", "\"nan", " nan", "inf%", "onclick"}) {
      CAPTURE(word);
      CHECK(page.find(word) == std::string::npos);
    }
    CHECK(page.find("a &lt;b&gt; &amp; &quot;c&quot;") != std::string::npos);
    CHECK(page.find("prefers-color-scheme:dark") != std::string::npos);
  }
}

TEST_CASE("the page has the numbers of the screen's tables") {
  for (const Case& row : kCases) {
    CAPTURE(row.model);
    CAPTURE(row.layout);
    const Plan plan = plan_of(row.model, row.gpus, row.layout);
    const std::string page = html_report(plan, {.tokens = 15.6e12, .price_per_hour = 2.0});
    const auto has = [&](const std::string& text) {
      CAPTURE(text);
      CHECK(page.find(text) != std::string::npos);
    };
    const TimeScale scale = time_scale(plan.best.step_time);
    for (const ShownTerm& term : shown_terms(plan.best)) {
      has(fmt::format("{}</span><span>{:.{}f} {}</span><span>{:.0f} %", term.name, term.shown, scale.decimals,
                      scale.unit, term.percent));
    }
    for (const StageRow& stage : stage_rows(plan.best.stages, 16))
      for (const double part : shown_categories(stage.memory)) has(fmt::format("<td>{:.1f}</td>", part));
    for (const Communication& c : plan.best.communication)
      has(fmt::format("<td>{}</td><td>{}</td><td>{}</td>", traffic_text(c.per_step), seconds_text(c.time),
                      seconds_text(c.exposed)));
    has(percent(plan.best.mfu.model_causal));
    has(gib(plan.best.peak) + " GiB");
    has("15.6 T tokens");
    for (const RunnerUp& runner : plan.runners_up) has(step_text(plan, runner.estimate.step_time));
    for (const std::string& sentence : plan.why) has(escape_html(sentence));
  }
}

TEST_CASE("ticks are round and inside") {
  CHECK(axis_ticks(0, 10, false, 6) == std::vector<double>{0, 2, 4, 6, 8, 10});
  CHECK(axis_ticks(200, 70000, true) == std::vector<double>{1000, 10000});
  CHECK(axis_ticks(0, 8, true) == axis_ticks(0, 8, false));  // nought has no logarithm
  CHECK(axis_ticks(5, 5, false) == std::vector<double>{5});
  for (const double high : {1.0, 7.3, 80.0, 123456.0}) {
    const std::vector<double> ticks = axis_ticks(0, high, false, 7);
    CHECK(ticks.size() >= 3);
    CHECK(ticks.size() <= 9);
    CHECK(ticks.back() <= high * 1.0001);
  }
}

TEST_CASE("a bar's parts lie one after another") {
  CHECK(svg_bar({{0, 0.25, "a"}, {1, 0.5, ""}}, 0.9) ==
        "<svg height=\"16\"><rect class=\"f0\" x=\"0.00%\" width=\"25.00%\" height=\"16\"><title>a</title></rect>"
        "<rect class=\"f1\" x=\"25.00%\" width=\"50.00%\" height=\"16\"></rect>"
        "<line class=\"mark\" x1=\"90.00%\" x2=\"90.00%\" y1=\"-2\" y2=\"18\"/></svg>");
}
