// Failures in every format, spare GPUs, and nodes lost in a sweep.
#include <doctest/doctest.h>

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "cli/commands/sweep_points.hpp"
#include "cli/report/plan/report.hpp"
#include "cli/report/sweep/sweep.hpp"
#include "cli/request/resolve.hpp"
#include "cli/terminal/format.hpp"
#include "planner/choice/advice.hpp"
#include "planner/choice/thumb.hpp"
#include "planner/planner.hpp"
#include "sample_plan.hpp"

namespace plan {
namespace {

using nlohmann::json;

Args args_of(const char* gpus) {
  Args args;
  args.model = "8b", args.gpus = gpus;
  return args;
}

Plan plan_of(const Args& args) { return search(resolve_problem(args).value()).value(); }

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("failures stand in every format, with the same numbers") {
  Args args = args_of("256");
  args.tokens = "15T", args.gpu_mtbf = "500h", args.restart = "20min", args.storage = "100GB/s", args.price = "2";
  const Plan plan = plan_of(args);
  const RunOptions run = resolve_run(args).value();
  const json report = json::parse(json_report(plan, run));
  const json& failures = report["failures"];
  const double goodput = failures["goodput_ratio"];
  CHECK(failures["gpu_mtbf_s"] == 500.0 * 3600);
  CHECK(failures["interruption_s"].get<double>() == doctest::Approx(500.0 * 3600 / plan.problem.gpus));
  CHECK(failures["restart_s"] == 1200.0);
  CHECK(failures["restart_origin"] == "flag");
  CHECK(report["run"]["expected_time_s"].get<double>() ==
        doctest::Approx(report["run"]["time_s"].get<double>() / goodput));
  CHECK(report["run"]["expected_cost_usd"].get<double>() ==
        doctest::Approx(report["run"]["cost_usd"].get<double>() / goodput));
  CHECK(report["run"]["cost_usd"].get<double>() ==
        doctest::Approx(2 * 256 * 15e12 / plan.best.tokens_per_s / 3600).epsilon(1e-9));
  const std::string days = fmt::format("{:.1f} days", report["run"]["expected_time_s"].get<double>() / 86400);
  for (const std::string& text :
       {human_report(plan, run, Terminal{}), markdown_report(plan, run), html_report(plan, run)}) {
    CHECK(has(text, days));
    CHECK(has(text, percent(goodput)));
    CHECK(has(text, count_text(report["run"]["expected_cost_usd"])));
    CHECK_FALSE(has(text, "not stated)"));
  }
}

TEST_CASE("what nobody states of failures is said to be so, and a rate that nobody knows is not guessed") {
  Args args = args_of("4096");
  args.tokens = "15T";
  const Plan plan = plan_of(args);
  const RunOptions run = resolve_run(args).value();
  CHECK(has(human_report(plan, run, Terminal{.width = 200}), "(storage, restart not stated)"));
  CHECK(json::parse(json_report(plan, run))["failures"]["storage_origin"] == "default");
  Plan unknown = plan;
  unknown.problem.cluster.gpu_mtbf_hours = 0;
  CHECK(has(human_report(unknown, run, Terminal{}), "not counted"));
  const json without = json::parse(json_report(unknown, run));
  CHECK_FALSE(without.contains("failures"));
  CHECK_FALSE(without["run"].contains("expected_time_s"));
  CHECK_FALSE(has(human_report(unknown, {}, Terminal{}), "failures"));
}

TEST_CASE("spare GPUs train nothing, and are paid for") {
  Args args = args_of("72");
  args.spares = "8", args.tokens = "1T", args.price = "3";
  const Plan plan = plan_of(args);
  const RunOptions run = resolve_run(args).value();
  CHECK(plan.problem.gpus == 64);
  CHECK(plan.best.layout == plan_of(args_of("64")).best.layout);
  const json report = json::parse(json_report(plan, run));
  CHECK(report["spare_gpus"] == 8);
  CHECK(report["inputs"]["gpus"]["value"] == 72);
  CHECK(report["inputs"]["spares"]["value"] == 8);
  CHECK(report["run"]["gpu_hours"].get<double>() ==
        doctest::Approx(72 * report["run"]["time_s"].get<double>() / 3600).epsilon(1e-12));
  CHECK(has(human_report(plan, run, Terminal{}), "on 64 x h100-sxm, 8 nodes of 8, 8 spare"));
  args.spares = "72";
  CHECK_FALSE(resolve_problem(args).has_value());
  args.spares = "some";
  CHECK_FALSE(resolve_problem(args).has_value());
}

TEST_CASE("times and bandwidths that are none are refused") {
  using Typed = std::pair<Args::Text Args::*, const char*>;
  for (const Typed& typed :
       {Typed{&Args::gpu_mtbf, "50700"}, Typed{&Args::gpu_mtbf, "-1h"}, Typed{&Args::storage, "fast"},
        Typed{&Args::storage, "2TB"}, Typed{&Args::restart, "0s"}}) {
    Args args = args_of("8");
    args.*typed.first = typed.second;
    CAPTURE(typed.second);
    CHECK_FALSE(resolve_run(args).has_value());
  }
}

TEST_CASE("a sweep over lost nodes plans what is left, and prices the layout with fewer replicas") {
  Args args = args_of("128");
  args.verb = "sweep", args.lose = "1..3";
  const PlanSweep sweep = run_sweep_points(args, [](int, int) {}).value();
  REQUIRE(sweep.points.size() == 4);
  const Plan& whole = *sweep.points[0].plan;
  CHECK(whole.best.layout == plan_of(args_of("128")).best.layout);
  REQUIRE(sweep.losses.size() == 3);
  for (const Loss& loss : sweep.losses) {
    const Plan& left = *sweep.points[loss.point].plan;
    CAPTURE(loss.nodes);
    CHECK(left.problem.gpus <= 128 - 8 * loss.nodes);
    CHECK(loss.slower == doctest::Approx(1 - left.best.tokens_per_s / whole.best.tokens_per_s));
    if (!loss.replicas) continue;
    CHECK(loss.replicas->layout.world() <= 128 - 8 * loss.nodes);
    CHECK(loss.replicas->layout.tp == whole.best.layout.tp);
    CHECK(loss.replicas_batch * whole.best.layout.dp == whole.problem.training.global_batch * loss.replicas->layout.dp);
  }
  const json report = json::parse(sweep_json(sweep));
  CHECK(report["losses"].size() == 3);
  CHECK(report["points"][2]["at"]["lose"] == "2");
  for (const std::string& text : {sweep_text(sweep, Terminal{}), sweep_markdown(sweep), sweep_html(sweep)})
    CHECK(has(text, "2 nodes lost"));
  args.lose = "16";
  const PlanSweep all = run_sweep_points(args, [](int, int) {}).value();
  REQUIRE(all.points.size() == 2);
  CHECK_FALSE(all.points[1].plan.has_value());
  for (const char* wrong : {"4..1", "-1", "x", "1..2..3"}) {
    args.lose = wrong;
    CHECK_FALSE(run_sweep_points(args, [](int, int) {}).has_value());
  }
}

TEST_CASE("rules and advice never push a report off its screen, and JSON has them all") {
  Plan plan = sample::plan();
  for (int i = 0; i < 9; ++i)
    plan.thumbs.push_back({"gemm-rows", 1.0 * i, 2,
                           "a rule of thumb that takes more than a line of eighty columns, "
                           "as some of them do",
                           "because"});
  plan.problem.cluster.gpu_mtbf_hours = 1000;
  const std::string text = human_report(plan, {.tokens = 15e12, .spares = 8}, Terminal{});
  CHECK(std::count(text.begin(), text.end(), '\n') <= 40);
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) CHECK(display_width(line) <= 80);
  const json notes = json::parse(json_report(plan, {}))["notes"];
  CHECK(std::count_if(notes.begin(), notes.end(), [](const json& n) { return n["code"] == "rule_of_thumb"; }) == 9);
}

TEST_CASE("advice is in every format") {
  Args args = args_of("24");
  args.framework = "megatron";
  const Problem problem = resolve_problem(args).value();
  Plan plan = search(problem).value();
  plan.advice = advice(problem, plan);
  REQUIRE_FALSE(plan.advice->empty());
  const json report = json::parse(json_report(plan, {}));
  REQUIRE(report["advice"].size() == plan.advice->size());
  for (const std::string& text : {human_report(plan, {}, Terminal{}), markdown_report(plan, {}), html_report(plan, {})})
    for (const json& one : report["advice"]) CHECK(has(text, one["change"].get<std::string>()));
}

}  // namespace plan
