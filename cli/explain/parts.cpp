// What explanations are put together from. Tested by tests/cli/explain_test.cpp.
#include "cli/explain/parts.hpp"

#include <algorithm>

#include "planner/estimate/stages.hpp"

namespace plan {

Explanation explained(std::string title, std::string equation, double value, std::string unit,
                      std::vector<ExplainedSymbol> symbols, std::string source, std::vector<Explanation> parts) {
  return {.name = {},
          .title = std::move(title),
          .equation = std::move(equation),
          .symbols = std::move(symbols),
          .value = value,
          .unit = std::move(unit),
          .source = std::move(source),
          .notes = {},
          .parts = std::move(parts)};
}

Explanation explained(std::string title, const Traced& law, std::string unit, std::string source) {
  std::vector<ExplainedSymbol> symbols;
  std::vector<Explanation> parts;
  for (const TracedSymbol& symbol : law.symbols()) {
    symbols.push_back({symbol.name, symbol.value, symbol.meaning, symbol.origin});
    if (symbol.law == nullptr) continue;
    parts.push_back(explained(symbol.meaning, *symbol.law, symbol.unit, source));
    parts.back().name = symbol.name;
  }
  return explained(std::move(title), law.equation(), law.value(), std::move(unit), std::move(symbols),
                   std::move(source), std::move(parts));
}

void ExplainedSum::add(const std::string& factor, ExplainedSymbol symbol) {
  if (symbol.value == 0) return;
  equation += (equation.empty() ? "" : " + ") + factor + symbol.name;
  symbols.push_back(std::move(symbol));
}

void ExplainedSum::add(const std::string& factor, std::string meaning, Explanation part) {
  if (part.value == 0) return;
  add(factor, {part.name, part.value, std::move(meaning), {}});
  parts.push_back(std::move(part));
}

StageRank stage_rank(const Plan& plan, int stage) {
  const Layout& layout = plan.best.layout;
  const CostModel costs(plan.problem, split_of(layout));
  const Stages stages = plan_stages(plan.problem, costs, layout);
  StageRank out{.model = MemoryModel(plan.problem, layout)};
  out.content = stages.contents[static_cast<std::size_t>(stages.content_of[static_cast<std::size_t>(stage)])];
  out.sums = out.model.sums(out.content);
  out.held = held(pipeline_of(plan.problem, layout), stage);
  out.instant = out.model.peak_instant(layout, stage, out.content, out.held);
  return out;
}

SlowestStage slowest_stage(const Plan& plan) {
  const Layout& layout = plan.best.layout;
  const CostModel costs(plan.problem, split_of(layout));
  Evaluator evaluator(plan.problem, costs, layout);
  evaluator.recompute(layout.recompute);
  const int slowest = evaluator.bottleneck();
  SlowestStage out;
  const Stages& stages = evaluator.stages();
  out.content = stages.contents[static_cast<std::size_t>(stages.content_of[static_cast<std::size_t>(slowest)])];
  out.cost = evaluator.cost(slowest);
  out.visits = stages_met(layout.schedule);
  out.ends = out.visits / (plan.problem.training.stack.vocab_barriers > 0 ? layout.pp : 1);
  out.times = evaluator.bottleneck_times();
  out.host_wait = evaluator.bottleneck_host_wait();
  out.pipeline = evaluator.pipeline_time();
  out.hop = evaluator.hops().slowest();
  return out;
}

}  // namespace plan
