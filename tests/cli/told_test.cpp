// What `plan explain` prints is what the computation told, for random jobs: models, schedules, shardings, software,
// offloading, copies that train apart. Every equation gives its value; and where the answer is falsified, no symbol
// follows it: one that did would be what the answer leaves over, which makes any equation come out right.
#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <set>

#include "cli/explain/explain.hpp"
#include "draw.hpp"
#include "formulas/names.hpp"
#include "oracle/equation_eval.hpp"
#include "oracle/random_problem.hpp"
#include "planner/estimate/evaluate.hpp"
#include "planner/rules/frameworks.hpp"
#include "planner/rules/rules.hpp"

using namespace plan;

namespace {

/// Ends of an interval that depends on the whole answer: they read it there.
const std::set<std::string_view> kReadOff = {"step_time_low", "step_time_high"};

Problem drawn_problem(std::mt19937& random) {
  Problem problem = oracle::widened(oracle::random_problem(random, 64), random);
  problem.framework = Framework::None;
  problem.fixed = {};
  Training& training = problem.training;
  const std::span<const FrameworkRow> known = frameworks().first(frameworks().size() - 1);  // without `none`
  training.stack = known[random() % known.size()].stack;
  training.stack.overlap_grad_reduce = random() % 2 == 0;
  training.stack.tp_overlap = random() % 4 == 0;
  training.stack.ep_overlap = random() % 4 == 0;
  training.stack.loader_attention_mask = random() % 4 == 0;
  training.stack.graph_scopes = pick<std::uint16_t>(random, {0, 0, kGraphAttention, kGraphMlp, kGraphExperts});
  training.global_batch = pick<std::int64_t>(random, {16, 48, 64});
  problem.cluster.gpu.host_link = BytesPerSecond(55e9);
  if (random() % 5 == 0) training.offload.optimizer = pick(random, {0.5, 1.0});
  if (random() % 8 == 0) training.offload.parameters = true;
  if (random() % 8 == 0) training.offload.layers = 1;
  if (random() % 4 == 0) training.local = {.steps = pick(random, {1, 100}), .copies = 2};
  return problem;
}

Layout drawn_layout(std::mt19937& random, const Problem& problem) {
  Layout out;
  out.tp = pick(random, {1, 2, 4}), out.pp = pick(random, {1, 2, 4}), out.dp = pick(random, {1, 2, 4});
  out.cp = pick(random, {1, 1, 2}), out.micro_batch = pick(random, {1, 2});
  if (problem.model.moe()) out.ep = pick(random, {1, 2, 4});
  out.zero = static_cast<int>(random() % 4);
  out.sequence_parallel = out.tp > 1 && random() % 2 == 0;
  if (out.pp > 1) out.schedule = static_cast<Schedule>(random() % kSchedules);
  if (schedule_row(out.schedule).chunks == Chunks::Many || v_shaped(out.schedule)) out.vp = 2;
  out.recompute = pick(
      random, {Recompute{}, Recompute{.kind = RecomputeKind::Full}, Recompute{.kind = RecomputeKind::Full, .layers = 1},
               Recompute{.kind = RecomputeKind::Selective, .modules = kRecomputeCoreAttention},
               Recompute{.kind = RecomputeKind::Selective, .modules = kRecomputeNorm}});
  return out;
}

/// Calls `visit` with estimates of random layouts that divide.
template <class Visit>
void each_plan(int usual, const Visit& visit) {
  std::mt19937 random(20260725);
  for (int found = 0, tries = 0; found < oracle::rounds(usual) && tries < 200 * usual; ++tries) {
    Plan plan;
    plan.problem = drawn_problem(random);
    const Layout layout = drawn_layout(random, plan.problem);
    plan.problem.gpus = layout.world();
    if (broken_rule(plan.problem, layout) >= 0) continue;
    plan.best = estimate(plan.problem, layout);
    ++found;
    visit(plan);
  }
}

/// Every figure of the answer, larger: times by half, bytes by a gibibyte.
Plan falsified(const Plan& plan) {
  Plan out = plan;
  constexpr Bytes kMore{1 << 30};
  for (const auto& [name, term] : kTimeTerms) out.best.terms.*term = 1.5 * (plan.best.terms.*term);
  for (StageMemory& stage : out.best.stages) {
    for (const MemoryCategory& row : kMemoryCategories)
      if ((stage.*row.bytes).value > 0) stage.*row.bytes += kMore;
    stage.reserve += Bytes(kMore.value / 2);
  }
  out.best.peak += kMore;
  out.best.step_time = 1.5 * plan.best.step_time;
  return out;
}

const Explanation* part_of(const Explanation& whole, const std::string& name) {
  for (const Explanation& part : whole.parts)
    if (part.name == whole.name + "." + name) return &part;
  return nullptr;
}

double evaluated(const Explanation& e) {
  return oracle::evaluate_equation(e.equation, [&](std::string_view name) {
    for (const ExplainedSymbol& symbol : e.symbols)
      if (symbol.name == name) return symbol.value;
    throw oracle::EquationError("no symbol " + std::string(name));
  });
}

void check_equations(const Explanation& e) {
  CAPTURE(e.name);
  CAPTURE(e.equation);
  const double slack = e.unit == "bytes" ? 1.5 : 1e-12;
  CHECK(std::fabs(evaluated(e) - e.value) <= 2e-9 * std::fabs(e.value) + slack);
  for (const ExplainedSymbol& symbol : e.symbols)
    if (const Explanation* part = part_of(e, symbol.name)) {
      CAPTURE(symbol.name);
      CHECK(std::fabs(part->value - symbol.value) <= 2e-9 * std::fabs(symbol.value) + slack);
    }
  for (const Explanation& part : e.parts) check_equations(part);
}

/// Symbols that neither a part nor another term explains.
void gather_leaves(const Explanation& e, std::map<std::string, double>& leaves) {
  for (const ExplainedSymbol& symbol : e.symbols)
    if (part_of(e, symbol.name) == nullptr && !symbol.origin.starts_with("plan explain"))
      leaves[e.name + "." + symbol.name] = symbol.value;
  for (const Explanation& part : e.parts) gather_leaves(part, leaves);
}

}  // namespace

TEST_CASE("every equation gives the number of the report, for random jobs") {
  int explained = 0;
  each_plan(150, [&](const Plan& plan) {
    CAPTURE(name(plan.best.layout.schedule));
    CAPTURE(plan.best.layout.zero);
    CAPTURE(plan.best.layout.pp);
    for (const Term& term : terms())
      for (const int stage : {0, plan.best.layout.pp - 1})
        if (const Result<Explanation> e = explain(plan, term.name, stage)) check_equations(*e), ++explained;
  });
  CHECK(explained > oracle::at_least(6000));
}

TEST_CASE("no symbol follows an answer that is falsified, for random jobs") {
  int leaves = 0;
  each_plan(150, [&](const Plan& plan) {
    const Plan wrong = falsified(plan);
    CAPTURE(name(plan.best.layout.schedule));
    for (const Term& term : terms()) {
      if (kReadOff.count(term.name) != 0) continue;
      const Result<Explanation> told = explain(plan, term.name, 0), again = explain(wrong, term.name, 0);
      REQUIRE(told.has_value() == again.has_value());
      if (!told) continue;
      std::map<std::string, double> honest, followed;
      gather_leaves(*told, honest), gather_leaves(*again, followed);
      CAPTURE(term.name);
      REQUIRE(honest.size() == followed.size());
      for (const auto& one : honest) {
        CAPTURE(one.first);
        CHECK(one.second == followed[one.first]);
        ++leaves;
      }
    }
  });
  CHECK(leaves > oracle::at_least(20000));
}
