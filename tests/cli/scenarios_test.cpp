// What people plan: models on the GPUs they have, from one card to a hundred thousand. Every answer must be one that
// somebody could launch: run by a framework (or the first line says that none does), sure to fit, nearly as fast as the
// fastest, and said to be so.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "cli/report/parts/choice_text.hpp"
#include "cli/report/plan/report.hpp"
#include "cli/request/resolve.hpp"
#include "planner/planner.hpp"
#include "planner/rules/frameworks.hpp"

namespace plan {
namespace {

struct Scenario {
  const char* model;
  const char* gpus;
  const char* gpu;
  const char* precision = "";
  const char* task = "";
  const char* seq = "";
  const char* batch = "";
};
using S = Scenario;

const Scenario kScenarios[] = {
    // a card, a node
    S{"llama3.2-1b", "1", "rtx-4090", "", "lora"}, S{"qwen2.5-0.5b", "1", "rtx-4090"}, S{"gpt2", "8", "v100-32gb"},
    S{"pythia-410m", "8", "a100-40gb"}, S{"llama3.2-3b", "8", "h100"}, S{"gemma2-2b", "8", "a100"},
    S{"qwen3-4b", "8", "h100"}, S{"8b", "8", "h100"}, S{"8b", "8", "h200"}, S{"8b", "8", "b200"},
    S{"8b", "8", "mi300x"}, S{"qwen3-8b", "8", "h200", "fp8"}, S{"gemma3-4b", "8", "l40s"},
    S{"mistral-7b", "8", "a100"}, S{"olmo2-7b", "8", "h100"}, S{"phi-4", "8", "h200"},
    // fine-tuning and adapters
    S{"8b", "8", "h100", "", "finetune"}, S{"8b", "1", "h100", "", "lora"}, S{"8b", "8", "rtx-4090", "", "lora"},
    S{"8b", "1", "rtx-4090", "", "qlora"}, S{"70b", "8", "h100", "", "lora"}, S{"70b", "1", "h100", "", "qlora"},
    S{"70b", "32", "h100", "", "finetune"}, S{"mixtral-8x7b", "8", "h200", "", "lora"},
    S{"qwen2.5-7b", "4", "a100", "", "finetune", "", "64"}, S{"qwen3-30b-a3b", "8", "h200", "", "lora"},
    S{"70b", "16", "h200", "", "finetune"}, S{"gemma2-9b", "8", "h100", "", "finetune"},
    // some nodes
    S{"8b", "16", "h100"}, S{"8b", "32", "h100"}, S{"8b", "64", "h100"}, S{"8b", "64", "a100"}, S{"8b", "256", "h100"},
    S{"8b", "512", "h100"}, S{"llama2-13b", "64", "a100"}, S{"qwen2.5-14b", "64", "h100"}, S{"qwen3-32b", "64", "h100"},
    S{"qwen2.5-32b", "128", "h200"}, S{"gemma2-27b", "128", "h100"}, S{"gemma3-27b", "64", "b200"},
    S{"olmo2-32b", "128", "h100"}, S{"yi-34b", "128", "a800"}, S{"mpt-30b", "128", "a100-40gb"},
    S{"falcon-40b", "384", "a100-40gb"}, S{"opt-66b", "256", "a100"}, S{"starcoder2-15b", "64", "h100"},
    S{"nemotron4-15b", "384", "h100"}, S{"gpt-neox-20b", "96", "a100-40gb"},
    // seventy billion
    S{"70b", "64", "h100"}, S{"70b", "128", "h100"}, S{"70b", "256", "h100"}, S{"70b", "512", "h100"},
    S{"70b", "1024", "h100"}, S{"70b", "2048", "h100", "fp8"}, S{"70b", "64", "b200"}, S{"70b", "72", "gb200"},
    S{"70b", "64", "mi300x"}, S{"llama2-70b", "128", "a100"}, S{"llama2-70b", "2048", "a100"},
    S{"qwen2.5-72b", "256", "h800"}, S{"llama1-65b", "2048", "a100"}, S{"70b", "264", "h100"}, S{"70b", "296", "h100"},
    S{"70b", "256", "tpu-v5p"},
    // long sequences
    S{"8b", "32", "h100", "", "", "131072", "64"}, S{"70b", "256", "h100", "", "", "131072", "64"},
    S{"8b", "64", "h100", "", "", "32768", "256"}, S{"405b", "16384", "h100", "", "", "131072", "128"},
    // the largest
    S{"gpt3-175b", "512", "h100", "fp8"}, S{"gpt3-175b", "1024", "a100"}, S{"bloom-176b", "384", "a100"},
    S{"opt-175b", "992", "a100"}, S{"falcon-180b", "4096", "a100-40gb"}, S{"mt-nlg-530b", "2240", "a100"},
    S{"nemotron4-340b", "6144", "h100"}, S{"mistral-large-123b", "512", "h100"}, S{"405b", "512", "h100"},
    S{"405b", "1024", "h100"}, S{"405b", "1024", "mi300x"}, S{"405b", "4096", "h100"}, S{"405b", "8192", "h100"},
    S{"405b", "12288", "h100"}, S{"405b", "16384", "h100"}, S{"405b", "576", "gb200", "fp8"},
    S{"405b", "65536", "h100"}, S{"palm-540b", "6144", "tpu-v4"}, S{"megatron-1t", "3072", "a100"},
    // experts
    S{"mixtral-8x7b", "64", "h100"}, S{"mixtral-8x22b", "256", "h100"}, S{"qwen3-30b-a3b", "16", "h100"},
    S{"qwen3-30b-a3b", "64", "h100"}, S{"qwen3-235b-a22b", "256", "h100"}, S{"qwen3-235b-a22b", "64", "b200"},
    S{"deepseek-moe-16b", "64", "h100"}, S{"deepseek-v2", "512", "h800"}, S{"deepseek-v2-lite", "16", "h100"},
    S{"deepseek-v3", "1024", "h100"}, S{"deepseek-v3", "2048", "h800", "fp8"},
    S{"deepseek-v3", "256", "gb200", "mxfp8"}, S{"kimi-k2", "2048", "h100"}, S{"gpt-oss-20b", "8", "h100"},
    S{"gpt-oss-120b", "64", "h100"}, S{"llama4-scout", "256", "h100"}, S{"glm-4.5-air", "128", "h100"},
    S{"dbrx", "512", "h100"},
    // other layers
    S{"nemotron-h-8b", "16", "h200"}, S{"nemotron-h-56b", "256", "h100"}, S{"qwen3-next-80b-a3b", "64", "h100"}};

std::string name_of(const Scenario& s) {
  std::string out = std::string(s.model) + " on " + s.gpus + " " + s.gpu;
  for (const char* more : {s.precision, s.task, s.seq}) out += *more == 0 ? "" : std::string(" ") + more;
  return out;
}

Args args_of(const Scenario& s) {
  Args args;
  args.model = s.model, args.gpus = s.gpus, args.gpu = s.gpu;
  if (*s.precision != 0) args.precision = s.precision;
  if (*s.task != 0) args.task = s.task;
  if (*s.seq != 0) args.seq = s.seq;
  if (*s.batch != 0) args.global_batch = s.batch;
  return args;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// The rule that the answer breaks; empty if a job could be launched from it.
std::string judged(const Plan& plan) {
  const Estimate& best = plan.best;
  const std::vector<std::string> first = warning_lines(plan);
  const bool says_so =
      std::any_of(first.begin(), first.end(), [](const std::string& line) { return has(line, "no framework"); });
  if (plan.runs_on.empty() && !says_so) return "nobody runs it, and the first lines do not say so";
  if (best.fits != Fits::Yes || best.peak_high > best.capacity) return "not sure to fit";
  if (!plan.fastest || best.step_time > 1.03 * plan.fastest->step_time) return "over 3 % slower than the fastest";
  if (!plan.choice) return "not said how sure";
  if (best.mfu.hardware > 1) return "beyond physics";
  const int node = std::max(1, plan.problem.cluster.gpus_per_node);
  const bool dense = !plan.problem.model.moe();
  if (dense && plan.problem.gpus <= node && best.layout.pp > 1 && plan.fastest->layout.pp == 1)
    return "a pipeline inside a node where none is needed";
  const Layout &plain = best.layout, &fast = plan.fastest->layout;
  std::vector<int> layers = fast.chunk_layers;  // embedding and head may count as a layer each
  if (layers.size() > 2 && layers.front() + 1 == layers[1]) ++layers.front(), ++layers.back();
  const bool equal = std::adjacent_find(layers.begin(), layers.end(), std::not_equal_to<>()) == layers.end();
  const bool no_further = fast.tp * fast.cp <= std::max(plan.problem.cluster.scale_up_size(), plain.tp * plain.cp) &&
                          fast.etp * fast.ep <= plain.etp * plain.ep;
  const bool rebuilds = fast.recompute.kind == RecomputeKind::Full && plain.recompute.kind != RecomputeKind::Full;
  const bool short_split = fast.cp > 1 && plan.problem.training.seq < 8192;  // which nobody would launch for that
  if (equal && no_further && !rebuilds && !short_split && fast.order == plain.order && plain.pp >= 2 * fast.pp)
    return "a deeper pipeline than the fastest needs";
  const std::string text = human_report(plan, {}, Terminal{});
  for (const char* line : {"\n  runs on ", "\n  fastest ", "\n  how sure "})
    if (!has(text, line)) return std::string("no line") + line;
  if (!plan.paper_lacks.empty() && !has(text, "\n  on paper ")) return "no line on paper";
  if (!plan.why.empty() && !has(text, "\nWhy: ")) return "no reason";
  if (plan.problem.gpus == 1 && has(text, "zero ")) return "one rank is said to share its states";
  std::istringstream lines(text);
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count)
    if (display_width(line) > 80) return "a line over 80 columns: " + line;
  return count > 40 ? "over 40 lines" : "";
}

}  // namespace

TEST_CASE("every scenario is answered with a layout that one would launch") {
  CHECK(std::size(kScenarios) >= 103);
  std::set<std::string> names;
  int planned = 0;
  for (const Scenario& scenario : kScenarios) {
    const std::string name = name_of(scenario);
    CAPTURE(name);
    CHECK(names.insert(name).second);
    const Result<Problem> problem = resolve_problem(args_of(scenario));
    CHECK_MESSAGE(problem.has_value(), (problem ? "" : problem.error()[0].message));
    if (!problem) continue;
    const Result<Plan> plan = search(*problem);
    CHECK_MESSAGE(plan.has_value(), (plan ? "" : plan.error()[0].message));
    if (!plan) continue;
    ++planned;
    const std::string wrong = judged(*plan);
    CHECK(wrong == "");
  }
  CHECK(planned >= 103);
}

}  // namespace plan
