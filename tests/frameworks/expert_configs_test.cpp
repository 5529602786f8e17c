// Published configurations of torchtitan and MaxText: each is a layout that the framework's rules allow, and none that
// ran is said not to fit.
#include <doctest/doctest.h>

#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "planner/planner.hpp"
#include "planner/rules/frameworks.hpp"
#include "presets/store.hpp"

using namespace plan;

namespace {

using Row = std::map<std::string, std::string>;

std::vector<std::string> cells(const std::string& line) {
  std::vector<std::string> out(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      out.emplace_back();
    } else if (c != '\r') {
      out.back().push_back(c);
    }
  }
  return out;
}

std::vector<Row> rows() {
  std::ifstream file(std::string(PLAN_SOURCE_DIR) + "/tests/published/expert_configs.csv");
  std::string line;
  std::getline(file, line);
  const std::vector<std::string> header = cells(line);
  std::vector<Row> all;
  while (std::getline(file, line)) {
    const std::vector<std::string> values = cells(line);
    Row row;
    for (std::size_t i = 0; i < header.size() && i < values.size(); ++i) row[header[i]] = values[i];
    all.push_back(std::move(row));
  }
  return all;
}

int number(const Row& row, const std::string& key, int otherwise = 1) {
  const std::string& text = row.at(key);
  return text.empty() ? otherwise : std::atoi(text.c_str());
}

/// The preset of a name that the table has; empty for one that states no layout worth checking.
std::string preset(const std::string& name) {
  const std::map<std::string, std::string> names = {{"deepseek_v3 671B", "deepseek-v3"},
                                                    {"Llama 3.1 8B", "llama3-8b"},
                                                    {"Llama 3.1 70B", "llama3-70b"},
                                                    {"Llama 3.1 405B", "llama3-405b"}};
  const auto found = names.find(name);
  return found == names.end() ? "" : found->second;
}

std::string gpu_of(const std::string& name) {
  if (name.rfind("GB200", 0) == 0) return "gb200";
  if (name.rfind("B200", 0) == 0) return "b200";
  return name.rfind("A100", 0) == 0 ? "a100-80gb" : "h100-sxm";
}

Problem problem_of(const Row& row, Framework framework) {
  const StoreOptions store = StoreOptions::from_environment();
  Problem problem;
  problem.model = load_model(preset(row.at("model")), store)->value;
  problem.cluster = load_cluster_of_gpu(gpu_of(row.at("gpu")), store)->value;
  problem.framework = framework;
  problem.gpus = number(row, "gpus");
  problem.training.stack = framework_row(framework).stack;
  problem.training.seq = number(row, "seq");
  problem.training.precision =
      row.at("precision") == "bf16" || row.at("precision") == "BF16" ? Precision::Bf16 : Precision::Fp8Tensorwise;
  return problem;
}

Layout layout_of(const Row& row, Framework framework) {
  Layout l;
  l.tp = number(row, "tp"), l.cp = number(row, "cp"), l.pp = number(row, "pp"), l.dp = number(row, "dp");
  l.ep = number(row, "ep"), l.vp = number(row, "vpp");
  l.cp_kind = CpKind::AllGather;
  // Of a pipeline the table states the batch of a step; its micro-batch is 1 in every source.
  l.micro_batch = l.pp > 1 ? 1 : number(row, "mbs");
  l.sequence_parallel = l.tp > 1;
  l.schedule = l.vp > 1 ? Schedule::Interleaved : Schedule::OneFOneB;
  l.zero = l.pp > 1 ? 2 : 3;  // torchtitan's default policy
  // Where a row does not state what is recomputed, a job that ran may have recomputed everything.
  l.recompute = {.kind = RecomputeKind::Full};
  if (framework == Framework::Torchtitan && row.at("recompute") == "selective")
    l.recompute = {.kind = RecomputeKind::Selective, .modules = kRecomputeOps};
  return l;
}

}  // namespace

TEST_CASE("published torchtitan and MaxText configurations are legal, and fit or nearly") {
  int checked = 0, fit = 0;
  std::string unfit;
  for (const Row& row : rows()) {
    const std::optional<Framework> framework = find_framework(row.at("framework"));
    if (framework != Framework::Torchtitan && framework != Framework::Maxtext) continue;
    if (row.at("fits_world") == "NO" || row.at("gpus").empty() || preset(row.at("model")).empty()) continue;
    CAPTURE(row.at("source"));
    CAPTURE(row.at("notes"));
    Problem problem = problem_of(row, *framework);
    const Layout layout = layout_of(row, *framework);
    problem.training.global_batch =
        number(row, "gbs", layout.dp * layout.micro_batch * (layout.pp > 1 ? layout.pp : 1));
    const Result<Plan> plan = plan_layout(problem, layout);
    if (!plan) FAIL(plan.error().front().message);
    ++checked;
    if (plan->best.fits == Fits::No)
      unfit += "\n" + row.at("model") + " " + row.at("gpus") + " " + row.at("source") + " " +
               std::to_string(plan->best.peak.value >> 20) + " of " + std::to_string(plan->best.capacity.value >> 20) +
               " MiB";
    fit += plan->best.fits != Fits::No;
  }
  MESSAGE(fit << " of " << checked << " fit or nearly; the others:" << unfit);
  CHECK(checked >= 25);
  CHECK(fit >= 0.97 * checked);
}
