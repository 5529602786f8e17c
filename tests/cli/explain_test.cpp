// Every equation that `plan explain` prints is evaluated as text, by an evaluator that shares no code with the
// planner, and must give the number of the report.
#include "cli/explain/explain.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <set>

#include "check_files.hpp"
#include "cli/explain/parts.hpp"
#include "cli/request/words/layout_flag.hpp"
#include "oracle/equation_eval.hpp"
#include "planner/planner.hpp"
#include "planner/rules/complete_layout.hpp"
#include "planner/rules/frameworks.hpp"
#include "presets/store.hpp"

using namespace plan;

namespace {

Plan plan_of(const char* model, const char* cluster, int gpus, const char* layout) {
  Problem problem;
  problem.model = load_model(model, StoreOptions{}).value().value;
  problem.cluster = load_cluster(cluster, StoreOptions{}).value().value;
  problem.training.seq = problem.model.default_seq;
  problem.training.global_batch = problem.model.default_global_batch;
  problem.training.stack = framework_row(Framework::Any).stack;
  problem.gpus = gpus;
  problem.inputs = {{"gpus", "", Origin::Flag}, {"seq", "", Origin::Preset}, {"global_batch", "", Origin::Default}};
  problem.fixed = read_layout(layout).value();
  const Result<Plan> plan = plan_layout(problem, complete_layout(problem));
  REQUIRE_MESSAGE(plan.has_value(), plan.error()[0].message);
  return *plan;
}

double evaluate(const Explanation& e) {
  return oracle::evaluate_equation(e.equation, [&](std::string_view name) {
    for (const ExplainedSymbol& symbol : e.symbols)
      if (symbol.name == name) return symbol.value;
    throw oracle::EquationError("no symbol " + std::string(name));
  });
}

/// A leaf comes from what the user gave, a preset, a measurement, or what the framework and schedule are known to do.
bool is_origin(std::string_view text) {
  static const std::set<std::string_view> known = {"model",
                                                   "layout",
                                                   "model and layout",
                                                   "model and stack",
                                                   "stack",
                                                   "schedule",
                                                   "layout and schedule",
                                                   "precision",
                                                   "optimizer",
                                                   "recompute",
                                                   "precision and optimizer",
                                                   "seq, micro_batch and cp",
                                                   "cluster",
                                                   "GPU preset",
                                                   "cluster's constants",
                                                   "profile",
                                                   "default",
                                                   "NCCL sources",
                                                   "nccl-tests",
                                                   "residuals of published runs",
                                                   "a trillion",
                                                   "file",
                                                   "seq"};
  return known.count(text) != 0 || text.starts_with("--") || text.starts_with("measured kernels of ");
}

/// Every equation gives its value, and every symbol is an input or explained, with the same value.
int check_tree(const Plan& plan, const Explanation& e, int stage) {
  CAPTURE(e.name);
  CAPTURE(e.equation);
  const auto close = [&](double a, double b) {
    return std::fabs(a - b) <= 2e-9 * std::fabs(b) + (e.unit == "bytes" ? 1.5 : 1e-12);
  };
  CHECK(close(evaluate(e), e.value));
  for (const ExplainedSymbol& symbol : e.symbols) {
    CAPTURE(symbol.name);
    CAPTURE(symbol.origin);
    if (!symbol.origin.starts_with("plan explain ")) {
      CHECK(is_origin(symbol.origin));
      continue;
    }
    const Result<Explanation> there = explain(plan, symbol.origin.substr(13), stage);
    if (!there) {
      CHECK(there.error()[0].code == "nothing_to_explain");
      continue;
    }
    if (there->name.starts_with(e.name + ".")) CHECK(there->value == symbol.value);
  }
  int nodes = 1;
  for (const Explanation& part : e.parts) nodes += check_tree(plan, part, stage);
  return nodes;
}

struct Case {
  const char *model, *cluster;
  int gpus;
  const char* layout;
};
constexpr Case kCases[] = {
    {"405b", "dgx-h100", 16384, "tp8,pp16,vp8"},
    {"405b", "dgx-h100", 16384, "tp8,pp16,vp8,recompute=full"},
    {"405b", "dgx-h100", 16384, "tp8,cp16,pp16,vp8,recompute=core_attn+mlp"},
    {"405b", "dgx-h100", 16384, "tp8,pp16,vp4,recompute=full-1"},
    {"8b", "dgx-h100", 64, "tp2,dp32,zero0"},
    {"mixtral-8x7b", "dgx-h100", 128, "tp2,pp4,ep8"},
    {"deepseek-v3", "h800", 2048, "pp16,ep64"},
    {"deepseek-v3.2", "h800", 2048, "pp16,ep64"},
    {"nemotron3-nano-30b-a3b", "dgx-h100", 64, "tp2,pp2,ep8"},
    {"qwen3-next-80b-a3b", "dgx-h100", 128, "tp2,pp4,ep8"},
};

}  // namespace

TEST_CASE("every explained number is the report's, down to inputs and measurements") {
  for (const Case& row : kCases) {
    CAPTURE(row.model);
    CAPTURE(row.layout);
    const Plan plan = plan_of(row.model, row.cluster, row.gpus, row.layout);
    int explained = 0;
    for (const Term& term : terms()) {
      for (const int stage : {0, plan.best.layout.pp / 2, plan.best.layout.pp - 1}) {
        CAPTURE(term.name);
        CAPTURE(stage);
        const Result<Explanation> e = explain(plan, term.name, stage);
        if (!e) {
          CHECK((e.error()[0].code == "nothing_to_explain" || e.error()[0].code == "no_equation"));
          continue;
        }
        explained += check_tree(plan, *e, stage);
      }
    }
    CHECK(explained > 200);
  }
}

TEST_CASE("a term is found as reports print it") {
  const Plan plan = plan_of("8b", "dgx-h100", 64, "tp2,pp2,dp16");
  struct Row {
    const char *printed, *name;
  };
  for (const Row& row : {Row{"MFU", "mfu"}, Row{"step time", "step_time"}, Row{"Step-Time", "step_time"},
                         Row{"tp exposed", "tp"}, Row{"stragglers", "straggler"}, Row{"tokens/s", "throughput"},
                         Row{"gradients", "grads"}, Row{"acts", "activations"}, Row{"peak", "memory"},
                         Row{"weights.P", "weights.P"}, Row{"Optimizer", "optimizer"}}) {
    CAPTURE(row.printed);
    const Result<Explanation> e = explain(plan, row.printed, 0);
    REQUIRE(e);
    CHECK(e->name == row.name);
  }
}

TEST_CASE("unknown terms and stages are refused") {
  const Plan plan = plan_of("8b", "dgx-h100", 64, "tp2,dp32");
  CHECK(explain(plan, "activation", 0).error()[0].help[0] == "a term with a similar name exists: `activations`");
  CHECK(explain(plan, "weights", 1).error()[0].message == "there is no stage 1: the layout has stages 0 to 0");
  CHECK(explain(plan, "bubble", 0).error()[0].code == "nothing_to_explain");
  CHECK(explain(plan, "weights.P.p_0", 0).value().title == "parameters of one layer on a rank");
  CHECK(explain(plan, "weights.Q", 0).error()[0].help[0] == "its parts: weights.P, weights.P.p_0");
}

TEST_CASE("a term of a framework that was chosen says whose figures it shows") {
  const std::vector<std::string> job = {"--model", "llama4-scout", "--gpus", "32xh100-sxm", "--global-batch", "64"};
  for (const char* format : {"human", "markdown", "html"}) {
    std::vector<std::string> words = {"explain", "step_time", "--format", format};
    words.insert(words.end(), job.begin(), job.end());
    const checks::Ran ran = checks::run(words);
    CAPTURE(ran.err);
    CHECK(ran.out.find("the figures are of torchtitan, the fastest framework") != std::string::npos);
  }
}
