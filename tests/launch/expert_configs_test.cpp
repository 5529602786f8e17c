// Configurations that NVIDIA and others published for Megatron and its dialects (tests/published/expert_configs.csv):
// each that states its degrees is legal under the framework it is for, nearly all are said to fit the GPUs they ran on,
// and tests/published/experts.md compares them with ours.
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "cli/launch/megatron/megatron.hpp"
#include "planner/rules/rules.hpp"
#include "presets/store.hpp"
#include "tools/experts.hpp"

namespace plan {
namespace {

using experts::number;
using experts::Row;

std::vector<Row> rows() { return experts::read_rows(PLAN_SOURCE_DIR "/tests/published/expert_configs.csv"); }

/// Recipes that Megatron itself refuses as they stand: 128 replicas do not divide their batch of 192, and 13 stages not
/// the 32 micro-batches that an interleaved schedule goes through (plan-launch(7) 3.1.2, rules 4 and 24).
std::string_view known_refusal(const Row& row) {
  const std::string& source = row.at("source");
  for (const char* recipe :
       {"#nemotronh_56b_pretrain_256gpu_b200_bf16_config", "#nemotronh_56b_pretrain_256gpu_gb300_bf16_config"})
    if (source.ends_with(recipe)) return "batch_divides";
  // Stages of 14, 12 and 16 layers, which the table has no column for.
  if (source.ends_with("#glm52_pretrain_192gpu_gb200_bf16_config")) return "shared_index_stages";
  return source.ends_with("#glm52_pretrain_416gpu_h100_bf16_config") ? "schedule_limits" : "";
}

}  // namespace

TEST_CASE("published configurations of Megatron's family are legal") {
  const Cluster cluster = load_cluster("dgx-h100", StoreOptions{})->value;
  std::set<std::string> without_preset;
  int checked = 0, skipped = 0;
  for (const Row& row : rows()) {
    if (!experts::complete_megatron_row(row)) continue;
    Result<Problem> problem = experts::problem_of(row, cluster);
    if (!problem) {
      without_preset.insert(row.at("model"));
      ++skipped;
      continue;
    }
    problem->fixed.tp = number(row, "tp");
    problem->fixed.cp = number(row, "cp");
    const Layout layout = experts::layout_of(row, *problem);
    const int broken = broken_rule(*problem, layout);
    CAPTURE(row.at("model"));
    CAPTURE(row.at("source"));
    CAPTURE(row.at("gpus"));
    CAPTURE(layout.tp);
    CAPTURE(layout.cp);
    CAPTURE(layout.pp);
    CAPTURE(layout.vp);
    CAPTURE(layout.ep);
    CAPTURE(problem->training.global_batch);
    CAPTURE(layout.micro_batch);
    CAPTURE(row.at("precision"));
    const std::string_view code = broken < 0 ? "" : rules()[static_cast<std::size_t>(broken)].code;
    CHECK(code == known_refusal(row));
    const std::string& stages = row.at("pp_layout");
    if (stages.starts_with('E') && row.at("model").find("w/o MTP") == std::string::npos) {
      const int mtp = static_cast<int>(std::count(stages.begin(), stages.end(), 'm'));
      CHECK(read_pipeline_layout(stages, problem->model.depth(), mtp));
    }
    ++checked;
  }
  CHECK(checked > 700);
  std::string names;
  for (const std::string& name : without_preset) names += (names.empty() ? "" : ", ") + name;
  MESSAGE(checked << " rows are legal; " << skipped << " are of models without a preset: " << names);
}

TEST_CASE("and fit, or nearly, the GPUs that they are for") {
  int checked = 0, fit = 0;
  std::string unfit;
  for (const Row& row : rows()) {
    if (!experts::complete_megatron_row(row) || experts::gpu_preset(row).empty()) continue;
    const Result<Found<Cluster>> cluster = load_cluster_of_gpu(experts::gpu_preset(row), StoreOptions{});
    REQUIRE(cluster);
    const Result<Problem> problem = experts::problem_of(row, cluster->value);
    if (!problem || !known_refusal(row).empty()) continue;
    const std::optional<Plan> plan = experts::lightest_that_fits(*problem, row);
    if (!plan) continue;  // recipes whose batch goes with another count of GPUs
    ++checked;
    fit += plan->best.fits != Fits::No;
    if (plan->best.fits == Fits::No)
      unfit += "\n" + row.at("model") + " " + row.at("gpus") + " " + row.at("gpu") + " " + row.at("source");
  }
  CHECK(checked > 600);
  MESSAGE(fit << " of " << checked << " fit or nearly; the others:" << unfit);
  CHECK(fit >= 0.97 * checked);
}

namespace {

std::vector<std::string> cells(const std::string& line) {
  std::vector<std::string> out;
  std::istringstream in(line);
  for (std::string cell; std::getline(in, cell, '|');) out.push_back(cell);
  return out;
}

}  // namespace

TEST_CASE("the table of experts' layouts and ours is what the search finds") {
  std::ifstream file(PLAN_SOURCE_DIR "/tests/published/experts.md");
  std::map<std::string, std::vector<std::string>> published;
  for (std::string line; std::getline(file, line);)
    if (const std::vector<std::string> row = cells(line); row.size() > 9) published[row[1] + row[2] + row[3]] = row;
  REQUIRE(published.size() > 100);
  int checked = 0;
  for (const Row& row : experts::groups(rows())) {
    if (number(row, "gpus") > 64) continue;  // the small ones: a search of thousands of GPUs takes its time
    const Result<experts::Contest> contest = experts::contest(row);
    if (!contest || contest->problem.model.moe()) continue;
    const std::vector<std::string> now = cells(experts::line(*contest));
    const auto before = published.find(now[1] + now[2] + now[3]);
    if (before == published.end()) continue;
    // Seconds and GiB of both. A new calibration moves them; by this much, and the table has to be renewed.
    for (const std::size_t column : {4, 5, 7, 8})
      CHECK_MESSAGE(std::stod(now[column]) == doctest::Approx(std::stod(before->second[column])).epsilon(0.3),
                    now[1] << now[2]);
    ++checked;
  }
  CHECK(checked >= 10);
}

}  // namespace plan
