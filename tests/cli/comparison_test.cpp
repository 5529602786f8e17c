// Two plans side by side: decisions, effects that add up, words for which way is better.
#include "cli/report/sweep/comparison.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "check_files.hpp"
#include "cli/commands/sweep_points.hpp"
#include "cli/request/words/layout_flag.hpp"
#include "oracle/random_layout.hpp"
#include "oracle/random_problem.hpp"
#include "planner/answer/layout_text.hpp"
#include "planner/planner.hpp"
#include "planner/problem/spelled_out.hpp"
#include "planner/rules/complete_layout.hpp"
#include "planner/rules/frameworks.hpp"
#include "planner/rules/rules.hpp"
#include "presets/store.hpp"
#include "sample_plan.hpp"

namespace plan {
namespace {

using nlohmann::json;

ComparedPlan side(const char* name, const char* layout, std::int64_t batch = 2048, int gpus = 16384) {
  Problem problem;
  problem.model = load_model("405b", StoreOptions{}).value().value;
  problem.cluster = load_cluster("dgx-h100", StoreOptions{}).value().value;
  problem.training.seq = problem.model.default_seq;
  problem.training.global_batch = batch;
  problem.training.stack = framework_row(Framework::Any).stack;
  problem.gpus = gpus;
  problem.fixed = read_layout(layout).value();
  problem.inputs = {{"model", "llama3-405b", Origin::Flag}, {"gpus", std::to_string(gpus), Origin::Flag}};
  return {name, problem.inputs, plan_layout(problem, complete_layout(problem)).value().best};
}

const char* kLayouts[] = {"tp8,pp16,vp8",     "tp8,pp16,vp8,recompute=full",    "tp8,pp16",
                          "tp4,cp2,pp16,vp8", "tp2,cp8,pp64,vp2,schedule=zb-v", "tp8,pp16,mb2"};

double number(const std::string& text) { return text == "=" ? 0 : std::stod(text); }

}  // namespace

TEST_CASE("what was decided differently, in the order of the layout") {
  const Comparison c = compare(side("a.plan.json", "tp8,pp16,vp8"), side("b.plan.json", "tp8,pp16,vp8,recompute=full"));
  REQUIRE(c.layout.size() == 1);
  CHECK(c.layout[0].key == "recompute");
  CHECK(c.layout[0].a == "none");
  CHECK(c.layout[0].b == "full");
  CHECK(c.inputs.empty());
  CHECK(c.same_inputs == 2);
  CHECK(same_text(c) == "2 inputs and 15 layout choices are the same");
  CHECK(side_names(c).a == "a");
}

TEST_CASE("each axis that is changed alone is told as decided differently") {
  std::mt19937 random(5);
  constexpr int kMicroBatches = 12;
  const auto with = [](const Layout& layout) {
    ComparedPlan plan;
    plan.best.layout = layout, plan.best.micro_batches = kMicroBatches, plan.best.stage_layers = layout.chunk_layers;
    return plan;
  };
  int told = 0;
  for (int round = 0; round < oracle::rounds(200); ++round) {
    const Layout layout = oracle::any_values(random), other = oracle::any_values(random);
    each_axis([&](const auto& axis) {
      Layout changed = layout;
      changed.*axis.value = other.*axis.value;
      if (spelled_out(layout, kMicroBatches) == spelled_out(changed, kMicroBatches)) return;
      CAPTURE(axis.key);
      CAPTURE(layout_flag(layout));
      CAPTURE(layout_flag(changed));
      CHECK(!compare(with(layout), with(changed)).layout.empty());
      ++told;
    });
  }
  CHECK(told > oracle::at_least(1000));
}

TEST_CASE("parts add up to the effect, exactly and in the digits shown") {
  int shares = 0;
  for (const char* first : kLayouts)
    for (const char* second : kLayouts) {
      CAPTURE(first);
      CAPTURE(second);
      const Comparison c = compare(side(first, first), side(second, second));
      for (const Effect& e : c.effects) {
        if (e.parts.empty()) continue;
        double a = 0, b = 0, before = HUGE_VAL;
        for (const EffectPart& part : e.parts) {
          a += part.a, b += part.b;
          CHECK(std::fabs(part.delta()) <= before);
          before = std::fabs(part.delta());
        }
        CHECK(a == doctest::Approx(e.a).epsilon(1e-9));
        CHECK(b == doctest::Approx(e.b).epsilon(1e-9));
      }
      const auto mfu =
          std::find_if(c.effects.begin(), c.effects.end(), [](const Effect& e) { return e.kind == EffectKind::Ratio; });
      for (const ShownEffect& e : shown_effects(c)) {
        if (e.name != "MFU") continue;
        REQUIRE(mfu != c.effects.end());
        CHECK(e.change.ends_with(" points"));  // the distance of the two shares
        CHECK(std::fabs(std::stod(e.change) - 100 * (mfu->b - mfu->a)) <= 0.0501);
        ++shares;
      }
      for (const ShownEffect& e : shown_effects(c)) {
        if (e.parts.empty()) continue;
        double a = 0, b = 0, change = 0;
        for (const ShownEffect::Part& part : e.parts)
          a += number(part.a), b += number(part.b), change += number(part.change);
        CHECK(a == doctest::Approx(number(e.a)));
        CHECK(b == doctest::Approx(number(e.b)));
        CHECK(std::fabs(change - (number(e.b) - number(e.a))) < 1e-9);
      }
    }
  CHECK(shares > 0);
}

TEST_CASE("swapping the two swaps every verdict and sign") {
  const Comparison c = compare(side("x", kLayouts[0]), side("y", kLayouts[4]));
  const Comparison d = compare(side("y", kLayouts[4]), side("x", kLayouts[0]));
  REQUIRE(c.effects.size() == d.effects.size());
  for (std::size_t i = 0; i < c.effects.size(); ++i) {
    CHECK(c.effects[i].delta() == -d.effects[i].delta());
    CHECK((c.effects[i].verdict == EffectVerdict::Better) == (d.effects[i].verdict == EffectVerdict::Worse));
  }
}

TEST_CASE("lower step time and memory are better, higher MFU is; other work is not judged") {
  const Comparison c = compare(side("a", "tp8,pp16,vp8"), side("b", "tp8,pp16,vp8,recompute=full"));
  CHECK(c.effects[0].verdict == EffectVerdict::Worse);
  CHECK(c.effects[1].verdict == EffectVerdict::Better);
  CHECK(c.effects[2].verdict == EffectVerdict::Worse);
  const Comparison batch = compare(side("a", "tp8,pp16,vp8"), side("b", "tp8,pp16,vp8", 4096));
  CHECK(batch.effects[0].verdict == EffectVerdict::Neither);
  CHECK(batch.effects[3].verdict == EffectVerdict::Better);
  const Comparison same = compare(side("a", kLayouts[0]), side("b", kLayouts[0]));
  for (const Effect& e : same.effects) CHECK(e.verdict == EffectVerdict::Same);
  CHECK(compare(side("a", kLayouts[0]), side("b", kLayouts[0], 2048, 8192)).effects.size() == 5);
}

TEST_CASE("which of two layouts of one job is faster is said only where the interval is on one side") {
  int certain = 0, open = 0;
  for (const char* first : kLayouts)
    for (const char* second : kLayouts) {
      const Comparison c = compare(side("x", first), side("y", second));
      CAPTURE(first);
      CAPTURE(second);
      CHECK(c.difference.has_value() == (std::string_view(first) != second));
      if (!c.difference) continue;
      const std::string line = difference_line(c);
      const bool faster = c.difference->high < 0;
      const bool slower = c.difference->low > 0;
      CHECK((line.find("; y is faster") != std::string::npos) == faster);
      CHECK((line.find("; x is faster") != std::string::npos) == slower);
      CHECK((line.find("either may be faster") != std::string::npos) == (!faster && !slower));
      CHECK(c.difference->middle == doctest::Approx(c.effects[0].b / c.effects[0].a - 1));
      CHECK(json::parse(comparison_json(c))["difference_ratio"]["low"] == c.difference->low);
      CHECK(comparison_markdown(c).find(line) != std::string::npos);
      faster || slower ? ++certain : ++open;
    }
  CHECK(certain > 0);
  CHECK(open > 0);
  // Jobs that differ have nothing to be paired by.
  CHECK(!compare(side("x", kLayouts[0]), side("y", kLayouts[1], 4096)).difference);
  CHECK(!compare(side("x", kLayouts[0]), side("y", kLayouts[1], 2048, 8192)).difference);
}

TEST_CASE("what is wrong in either plan is refused, and what is wrong in both once") {
  const std::string job = "--model=8b", gpus = "--gpus=16", wrong = "tp2,dp2";
  for (const std::vector<std::string>& sides :
       {std::vector<std::string>{wrong, "tp2"}, {"tp2", wrong}, {wrong, wrong}}) {
    const checks::Ran ran = checks::run({"compare", sides[0], sides[1], job, gpus});
    CAPTURE(ran.err);
    CHECK(ran.status == 1);
    CHECK(ran.out.empty());
    const std::string error = "error: ";
    CHECK(ran.err.starts_with(error));
    CHECK(ran.err.find(error, 1) == std::string::npos);
  }
}

TEST_CASE("JSON has both sides whole; Markdown and HTML the same digits as the screen; lines fit") {
  const Comparison c = compare(side("a", kLayouts[0]), side("b", kLayouts[4]));
  const json report = json::parse(comparison_json(c));
  CHECK(report.begin() != report.end());
  CHECK(report["schema"] == "plan-compare/1");
  CHECK(report["a"]["best"]["step_time_s"] == c.a.best.step_time.value);
  CHECK(report["effects"][0]["delta"] == c.effects[0].delta());
  CHECK(report["changed_layout"][0] == json{{"key", "tp"}, {"a", "8"}, {"b", "2"}});
  const std::string text = comparison_text(c, Terminal{}), markdown = comparison_markdown(c), page = comparison_html(c);
  for (const ShownEffect& e : shown_effects(c)) {
    for (const std::string& where : {text, markdown, page}) {
      CHECK(where.find(e.a) != std::string::npos);
      CHECK(where.find(e.b) != std::string::npos);
    }
    for (const ShownEffect::Part& part : e.parts) {
      CHECK(markdown.find("| " + part.a + " | " + part.b + " | " + part.change + " |") != std::string::npos);
      CHECK(page.find("<td>" + part.a + "</td><td>" + part.b + "</td>") != std::string::npos);
    }
  }
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) CHECK(display_width(line) <= 80);
}

TEST_CASE("why a sweep's next point has another layout is what an estimate of the old one there says") {
  int breaking = 0, full = 0, timed = 0;
  for (const auto& [model, gpus] :
       {std::pair{"8b", "8..512"}, {"70b", "32,48,64,96,128,256"}, {"mixtral-8x7b", "16..256"}}) {
    Args args;
    args.verb = "sweep", args.model = model, args.gpus = gpus, args.global_batch = "512";
    const PlanSweep sweep = run_sweep_points(args, [](int, int) {}).value();
    for (const LayoutChange& change : sweep.changes) {
      const Plan &before = *sweep.points[change.from].plan, &here = *sweep.points[change.to].plan;
      CAPTURE(change.text);
      Layout old = before.best.layout;
      old.shard = 0, old.chunk_layers.clear();
      const std::int64_t dp = std::int64_t{old.dp} * here.problem.gpus;  // as many copies as the GPUs allow
      if (dp % before.problem.gpus == 0) old.dp = static_cast<int>(dp / before.problem.gpus);
      const bool breaks = broken_rule(here.problem, old) >= 0;
      CHECK((change.text.find("the old one breaks a rule there: ") != std::string::npos) == breaks);
      breaking += breaks;
      if (breaks) continue;
      const Estimate there = estimate(here.problem, old);
      const std::size_t needs = change.text.find("the old one needs ");
      full += needs != std::string::npos;
      if (needs != std::string::npos) {
        const double shown = std::stod(change.text.substr(needs + 18));
        CHECK(shown == doctest::Approx(static_cast<double>(there.peak.value) / kGiB).epsilon(0.06));
        continue;
      }
      const std::size_t slower = change.text.find("the old one is ");
      if (slower == std::string::npos) continue;
      const double shown = std::stod(change.text.substr(slower + 15));
      CHECK(std::fabs(shown - 100 * (there.step_time / here.best.step_time - 1)) <= 0.051);
      ++timed;
    }
  }
  MESSAGE(breaking << " break a rule, " << full << " need more memory, " << timed << " are slower");
  CHECK(breaking + full + timed > 4);
  CHECK(timed + full > 0);
}

}  // namespace plan
