#include <doctest/doctest.h>

#include <cmath>
#include <sstream>
#include <string>

#include "cli/report/parts/choice_text.hpp"
#include "cli/report/parts/tables.hpp"
#include "cli/report/plan/report.hpp"
#include "sample_plan.hpp"

using namespace plan;

namespace {
std::vector<std::string> screen_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}
bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
}  // namespace

TEST_CASE("the report is one screen of 80 columns and 40 lines") {
  for (const int pp : {1, 4, 16, 64}) {
    Plan plan = sample::plan();
    plan.best = sample::estimate(pp, 6.3);
    for (const bool unicode : {false, true}) {
      const std::vector<std::string> lines = screen_lines(human_report(plan, {}, Terminal{.unicode = unicode}));
      CAPTURE(pp);
      CHECK(lines.size() <= 40);
      for (const std::string& line : lines) {
        CAPTURE(line);
        CHECK(display_width(line) <= 80);
      }
    }
  }
}

TEST_CASE("a plan that leaves GPUs idle says of how many it uses some, from the first on") {
  for (const int idle : {0, 1, 2, 40}) {
    Plan plan = sample::plan();
    plan.idle_gpus = idle;
    const std::string text = human_report(plan, {}, Terminal{});
    CHECK(has(text, "on 1024 x h100-sxm") == (idle == 0));
    CHECK(has(text, "on 1024 of " + std::to_string(1024 + idle) + " x h100-sxm") == (idle > 0));
  }
}

TEST_CASE("shares of a step's terms add up, however many are shown together as others") {
  for (const int pp : {1, 8}) {
    const Estimate estimate = sample::estimate(pp, 6.3);
    for (int most = 2; most <= 9; ++most) {
      CAPTURE(most);
      int percents = 0, rows = 0;
      for (const std::string& line : screen_lines(time_table(estimate, most, Terminal{})))
        if (const std::size_t sign = line.find(" %"); sign != std::string::npos)
          percents += std::stoi(line.substr(line.rfind(' ', sign - 1))), ++rows;
      CHECK(rows <= most);
      CHECK(percents == 100);
    }
  }
}

TEST_CASE("what no draw won is not said to be impossible") {
  Plan plan = sample::plan();
  for (const double share : {0.0, 0.004, 0.01, 1.0}) {
    CAPTURE(share);
    plan.choice = Certainty{.degrees_share = share, .within_2_percent_share = share};
    const std::string text = human_report(plan, {}, Terminal{});
    CHECK_FALSE(has(text, " 0 %"));
    CHECK(has(text, "how sure   under 1 % to be") == (share < 0.005));
  }
}

TEST_CASE("what the report says") {
  const std::string text =
      human_report(sample::plan(), {.tokens = 15.6e12, .price_per_hour = 2}, Terminal{.unicode = true});
  CHECK(has(text, "on 1024 x h100-sxm, 128 nodes of 8"));
  CHECK(has(text, "sequence 8192, global batch 256 = 2.10 M tokens per step"));
  CHECK(has(text, "tp 8   cp 1   pp 8 (vp 4)   dp 16   micro_batch 1 x 16"));
  CHECK(has(text, "step time  6.31 s ± 12 %"));
  CHECK(has(text, "MFU  41.4 %"));
  CHECK(has(text, "15.6 T tokens in 67.9 days"));
  CHECK(has(text, "cp +0.62 bubble -0.31\n"));
  CHECK(has(text, "recompute full"));
  CHECK(has(text, "note: dgx-h100 is a preset"));
}

TEST_CASE("both conventions of utilisation are printed when they are far apart") {
  Plan plan = sample::plan();
  plan.best.mfu.model_full = 0.55;
  CHECK(has(human_report(plan, {}, {}), "41.4 % counting causal attention, 55.0 % counting it in full"));
}

TEST_CASE("fits is said with its interval") {
  Plan plan = sample::plan();
  plan.best.fits = Fits::AtRisk;
  CHECK(has(human_report(plan, {}, {}), "fits: at risk"));
  plan.best.fits = Fits::No;
  CHECK(has(human_report(plan, {}, {}), "does not fit"));
}

TEST_CASE("stages that show the same numbers share a row, the worst keeps its own") {
  std::vector<StageMemory> stages;
  for (int i = 0; i < 64; ++i) stages.push_back(sample::stage(i, 64));
  stages[20].activations = Bytes(200 * sample::kGibi);
  for (const int most : {1, 3, 5, 8}) {
    const std::vector<StageRow> rows = stage_rows(stages, most);
    CHECK(static_cast<int>(rows.size()) <= most);
    CHECK(rows.front().first == 0);
    CHECK(rows.back().last == 63);
    for (std::size_t i = 1; i < rows.size(); ++i) CHECK(rows[i].first == rows[i - 1].last + 1);
    if (most >= 5) {
      const auto worst = std::find_if(rows.begin(), rows.end(), [](const StageRow& r) { return r.first == 20; });
      REQUIRE(worst != rows.end());
      CHECK(worst->last == 20);
    }
  }
  const std::vector<StageMemory> equal(16, sample::stage(3, 8));
  CHECK(stage_rows(equal, 8).size() == 1);
}

TEST_CASE("the parts of a memory bar never exceed the whole") {
  for (int gib = 1; gib < 120; gib += 3) {
    StageMemory memory = sample::stage(0, 8);
    memory.activations = Bytes(gib * sample::kGibi);
    const std::string bar = memory_bar(memory, Bytes(80 * sample::kGibi), 25);
    REQUIRE(bar.size() == 25);
    const auto used = static_cast<double>(25 - std::count(bar.begin(), bar.end(), '.'));
    const double share = memory.total() / Bytes(80 * sample::kGibi);
    CHECK(std::fabs(used - std::min(share, 1.0) * 25) <= 0.5 + 1e-9);
    CHECK((bar.back() == '>') == (share > 1));
  }
}

TEST_CASE("starved GPUs are told how much more each would do, and how much less all of fewer would") {
  Plan plan;
  plan.best.tokens_per_s_per_gpu = 100, plan.best.mfu.model_causal = 0.1;
  plan.fastest.reset();
  plan.starved.emplace();
  const auto text = [&] { return warning_lines(plan).front(); };
  CHECK(text().find("10.0 % MFU; no single change") != std::string::npos);
  for (const double faster : {-0.5, -0.05, 0.0, 0.3, 0.999, 7.0}) {
    Advice one;
    one.change = "--gpus 8", one.faster = faster;
    one.fastest.tokens_per_s_per_gpu = 250, one.fastest.mfu.model_causal = 0.25;
    plan.starved = {one};
    CAPTURE(faster);
    CHECK(text().find("2.5 times as many with --gpus 8 (25.0 % MFU") != std::string::npos);
    CHECK((text().find("% fewer in all") != std::string::npos) == (faster < 0));
    if (faster == -0.5) CHECK(text().find("MFU, 50 % fewer in all)") != std::string::npos);
    plan.starved->front().fastest.tokens_per_s_per_gpu = 1200;
    CHECK(text().find("are 12 times as many") != std::string::npos);
  }
  plan.starved->assign(5, plan.starved->front());  // three are enough to choose from
  std::size_t named = 0;
  for (std::size_t at = text().find("times as many"); at != std::string::npos;
       at = text().find("times as many", at + 1))
    ++named;
  CHECK(named == 3);
}
