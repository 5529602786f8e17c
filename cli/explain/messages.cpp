// Communication of each axis, message by message, down to latency, bytes and rate. Tested by
// tests/cli/explain_test.cpp.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "cli/explain/parts.hpp"
#include "cli/explain/terms.hpp"
#include "cli/terminal/format.hpp"
#include "formulas/collective_law.hpp"
#include "formulas/communication.hpp"
#include "formulas/kernel_laws.hpp"
#include "formulas/names.hpp"
#include "formulas/rank_grid.hpp"
#include "planner/cost/scale_messages.hpp"
#include "planner/cost/spread_ends.hpp"
#include "planner/estimate/evaluate.hpp"

namespace plan {
namespace {

/// "all_gather" -> "ag": the initials, numbered when taken.
std::string short_name(std::string_view op, const std::vector<ExplainedSymbol>& taken) {
  std::string out;
  for (std::size_t i = 0; i < op.size(); ++i)
    if (i == 0 || op[i - 1] == '_') out += op[i];
  const auto used = [&](const std::string& word) {
    for (const ExplainedSymbol& symbol : taken)
      if (symbol.name == word) return true;
    return false;
  };
  if (!used(out)) return out;
  for (int i = 2;; ++i) {
    std::string word = fmt::format("{}_{}", out, i);
    if (!used(word)) return word;
  }
}

/// The law of one message of a layer.
Traced law_of(const Cluster& cluster, const Message& message) {
  const RealBytes size = message.size;
  const Group& group = message.group;
  if (message.op == Collective::SendRecv) return send_seconds<Traced>(cluster, size, group);
  if (const Exchange& exchange = message.exchange; exchange.sent > RealBytes())
    return exchange_seconds<Traced>(cluster, exchange,
                                    collective_seconds<Traced>(cluster, message.op, exchange.sent, group));
  Traced alone = collective_seconds<Traced>(cluster, message.op, size, group);
  const double slower = message.axis == Axis::Tp ? beside_products(cluster.calibration, message.op) : 1;
  if (slower == 1) return alone;
  return alone * symbol<Traced>("v", slower,
                                "of its time beside the products of a layer, with which it shares SMs "
                                "and memory",
                                kConstantsOrigin);
}

constexpr const char* kMessageLaw = "plan formula collective-time; man plan-preset, collectives";

Explanation explain_message(const Cluster& cluster, const Message& message) {
  Explanation out = explained(fmt::format("one {} over {} ranks on {}", plan::name(message.op), message.group.size,
                                          group_tier(cluster, message.group).name),
                              law_of(cluster, message), "s", kMessageLaw);
  out.name = "t";
  return out;
}

/// One message kind: how often, how long, and which share of it no computation hides.
Explanation exposed_message(const Plan& plan, const std::string& name, const Message& message, double visits) {
  const double count = visits * message.count, each = message.time.value, exposed = visits * message.exposed.value;
  Explanation time = explain_message(plan.problem.cluster, message);
  Explanation out =
      explained(fmt::format("exposed {} over {} ranks, {} each", plan::name(message.op), message.group.size,
                            traffic_text(round_bytes(message.size))),
                "n*t*u", exposed, "s",
                {{"n", count, "of them in a step", "layout"},
                 {"t", each, "seconds of one", {}},
                 {"u", count * each > 0 ? exposed / (count * each) : 0, "share that no computation hides", "stack"}},
                fmt::format("hidden time costs {:.0f} % of itself, as kernels share the GPU",
                            100 * plan.problem.cluster.calibration.overlap_tax));
  out.name = name;
  out.parts.push_back(std::move(time));
  return out;
}

Result<Explanation> nothing(std::string_view what) {
  return fail(Error{"nothing_to_explain", fmt::format("the layout has no {} communication", what)});
}

/// The parts of the slowest stage, each with the times that a micro-batch meets it.
struct MetPart {
  const LayerCost& cost;
  double times = 0;
};
std::vector<MetPart> parts_met(const Plan& plan, const CostModel& costs, const SlowestStage& slowest) {
  std::vector<MetPart> out;
  const auto add = [&](const LayerCost& cost, double times) {
    if (times > 0) out.push_back({cost, times});
  };
  for (int kind = 0; kind < costs.kinds(); ++kind)
    add(costs.layer(kind), slowest.visits * slowest.content.layers_of_kind[static_cast<std::size_t>(kind)]);
  const bool spread = plan.problem.training.stack.vocab_barriers > 0;
  add(costs.embedding(), spread || slowest.content.embedding ? slowest.ends : 0);
  add(costs.head(), spread || slowest.content.head ? slowest.ends : 0);
  return out;
}

/// What a time that each part has adds in a step: "n*(l_1*q_1 + ...)".
Explanation of_each_part(const SlowestStage& slowest, const std::vector<MetPart>& parts, const char* title,
                         const char* letter, const char* meaning,
                         const std::function<Seconds(const LayerCost&)>& time) {
  ExplainedSum sum;
  double covered = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const double each = time(parts[i].cost).value;
    if (each == 0) continue;
    const std::string times = fmt::format("l_{}", i + 1);
    sum.give({times, parts[i].times, "times that a micro-batch meets a layer of a kind, or an end", "layout"});
    sum.add(times + "*", {fmt::format("{}_{}", letter, i + 1), each, meaning, kShapeOrigin});
    covered += parts[i].times * each;
  }
  sum.give({"n", slowest.times, "micro-batches that the stage works one after another", "layout and schedule"});
  return explained(title, "n*(" + sum.equation + ")", slowest.times * covered, "s", std::move(sum.symbols));
}

/// The all-to-alls of pairs: of every part what is left beside the work of another micro-batch, and all of them in the
/// passes that find none.
Result<Explanation> explain_pairs(const Plan& plan, const SlowestStage& slowest, const std::vector<MetPart>& parts,
                                  double whole) {
  const Layout& layout = plan.best.layout;
  const double alone = schedule_row(layout.schedule).pairs ? 0 : passes_alone(pipeline_of(plan.problem, layout));
  Explanation out = of_each_part(slowest, parts, "expert-parallel communication that stays exposed", "q",
                                 "seconds that its all-to-alls, or its launches, take beyond all other work of a pair; "
                                 "all of them in the first and last passes, which run alone",
                                 [&](const LayerCost& cost) {
                                   const Seconds whole_ep = cost.forward.ep + cost.backward_input.ep;
                                   return alone * whole_ep + (1 - alone) * cost.paired_ep;
                                 });
  if (out.value == 0) return fail(Error{"nothing_to_explain", "other micro-batches hide all that goes to experts"});
  out.value = whole;
  out.notes = {
      "micro-batches run in pairs, of which one computes while the other sends to its experts; `--format json`"
      " of a plan lists the messages themselves"};
  return out;
}

/// Messages of layers and ends on the slowest stage.
Result<Explanation> explain_layer_axis(const Plan& plan, Axis axis, Seconds whole, std::string_view what) {
  const CostModel costs(plan.problem, split_of(plan.best.layout));
  const SlowestStage slowest = slowest_stage(plan);
  const Layout& layout = plan.best.layout;
  const std::vector<MetPart> parts = parts_met(plan, costs, slowest);
  const bool beside = schedule_row(layout.schedule).pairs || plan.problem.training.stack.ep_overlap;
  const auto sends = [](const MetPart& part) { return part.cost.forward.ep > Seconds(); };
  if (axis == Axis::Ep && beside && std::any_of(parts.begin(), parts.end(), sends))
    return explain_pairs(plan, slowest, parts, whole.value);
  ExplainedSum sum;
  const auto add = [&](std::span<const Message> messages, double visits) {
    for (const Message& message : messages) {
      if (message.axis != axis) continue;
      const std::string symbol = short_name(name(message.op), sum.symbols);
      Explanation one = exposed_message(plan, symbol, message, visits);
      const std::string title = one.title;
      sum.add("", title, std::move(one));
    }
  };
  for (const MetPart& part : parts) add(part.cost.messages, slowest.times * part.times);
  add(spread_messages(plan.problem, layout).messages, slowest.times);
  if (axis == Axis::Tp && layout.pp > 1 && splits_backward(layout.schedule)) {
    Explanation split = of_each_part(slowest, parts, "reductions of input gradients that no weight gradient hides", "z",
                                     "seconds that it adds to separate the two", &LayerCost::split_penalty);
    split.name = "x";
    sum.add("", "reductions of input gradients that no weight gradient hides", std::move(split));
  }
  if (sum.symbols.empty()) return nothing(what);
  Explanation out = explained(fmt::format("{} communication that stays exposed", what), sum.equation, whole.value, "s",
                              std::move(sum.symbols), {}, std::move(sum.parts));
  out.notes = {"messages of the slowest stage; what computation hides is not counted"};
  return out;
}

}  // namespace

Explanation explain_hand_over(const Plan& plan, std::string name) {
  const Layout& layout = plan.best.layout;
  const Problem& problem = plan.problem;
  const RealBytes bytes = hand_over_bytes(problem, layout);
  const std::vector<std::size_t> tiers = hop_tiers(problem.cluster, layout);
  const Hops hops = hand_overs(problem, layout);
  std::size_t slowest = 0;
  for (std::size_t i = 1; i < tiers.size(); ++i)
    if (tiers[i] > tiers[slowest]) slowest = i;
  Explanation out =
      explained(hops.uniform() ? "one hand-over between pipeline stages" : "the slowest hand-over between stages",
                hop_seconds<Traced>(problem.cluster, bytes, tiers[slowest]), "s", kMessageLaw);
  if (!hops.uniform()) out.notes = {"`plan explain placement` says which stages hand over across which tier"};
  out.name = std::move(name);
  return out;
}

Result<Explanation> explain_tp(const Plan& plan, int) {
  return explain_layer_axis(plan, Axis::Tp, plan.best.terms.tp, "tensor-parallel");
}
Result<Explanation> explain_cp(const Plan& plan, int) {
  return explain_layer_axis(plan, Axis::Cp, plan.best.terms.cp, "context-parallel");
}
Result<Explanation> explain_ep(const Plan& plan, int) {
  return explain_layer_axis(plan, Axis::Ep, plan.best.terms.ep, "expert-parallel");
}

Result<Explanation> explain_pp(const Plan& plan, int) {
  if (plan.best.layout.pp == 1) return nothing("pipeline");
  const SlowestStage slowest = slowest_stage(plan);
  Explanation hop = explain_hand_over(plan, "t");
  const double each = slowest.hop.value;
  return explained("pipeline communication that stays exposed", "n*t", plan.best.terms.pp.value, "s",
                   {{"n", each > 0 ? slowest.pipeline.hop.value / each : 0,
                     "hand-overs as slow that the pipeline waits for", "schedule"},
                    {"t", each, "seconds of one", {}}},
                   "closed form of the schedule, checked by simulation", {std::move(hop)});
}

Result<Explanation> explain_dp(const Plan& plan, int) {
  const Layout& layout = plan.best.layout;
  const CostModel costs(plan.problem, split_of(layout));
  Evaluator evaluator(plan.problem, costs, layout);
  evaluator.recompute(layout.recompute);
  const auto exposed = evaluator.traced_sharding(layout, MemoryModel(plan.problem, layout)).exposed;
  ExplainedSum sum;
  const auto add = [&](const char* name, const char* title, const Traced& law) {
    Explanation part = explained(title, law, "s", kMessageLaw);
    part.name = name;
    sum.add("", title, std::move(part));
  };
  add("r", layout.zero == 3 ? "exposed reductions and gathers, layer by layer" : "exposed reduction of gradients",
      exposed.reduce);
  add("g", "exposed gathering of parameters", exposed.gather);
  add("e", "sum of what both ends of the pipeline, or copies that train apart, hold", exposed.table);
  const Traced scales = scale_seconds<Traced>(plan.problem.cluster, scale_messages(plan.problem, layout));
  if (scales.value() > 0) add("s", "all-reduces of the largest values that delayed scaling goes by", scales);
  if (sum.symbols.empty()) return nothing("data-parallel");
  return explained("data-parallel communication that stays exposed", sum.equation, plan.best.terms.dp.value, "s",
                   std::move(sum.symbols),
                   "hidden under the pipeline's last backwards and first forwards, or under the next layer",
                   std::move(sum.parts));
}

}  // namespace plan
