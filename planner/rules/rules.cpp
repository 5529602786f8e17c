// What makes a layout legal: one table of all rules, asked level by level (plan-formulas(7) G, plan-launch(7) 4).
// Tested by tests/planner/rules_test.cpp.
#include "planner/rules/rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "formulas/layer_rows.hpp"
#include "planner/rules/frameworks.hpp"
#include "planner/rules/rule_tables.hpp"

namespace plan {
namespace {

constexpr std::size_t kFrameworks = std::size(kFrameworkRows);
static_assert(kFrameworks <= 8 * sizeof(FrameworkMask));

}  // namespace

std::int64_t heads_of(const Model& model) {
  std::int64_t heads = 0;
  for (const Layer& kind : model.kinds)
    for (const std::int64_t some : mixer_row(kind.mixer).heads(kind)) heads = std::gcd(heads, some);
  return heads;
}

std::uint16_t modules_of(const Model& model) {
  unsigned modules = kRecomputeNorm;
  for (const Layer& layer : model.kinds) {
    modules |= mixer_row(layer.mixer).rebuilt;
    if (layer.ffn == Ffn::Dense) modules |= kRecomputeMlp;
    if (layer.ffn == Ffn::Moe) modules |= kRecomputeMoe | kRecomputeMoeActivation;
    if (layer.ffn == Ffn::Moe && layer.moe.shared_width > 0) modules |= kRecomputeSharedExperts;
  }
  return static_cast<std::uint16_t>(modules);
}

std::span<const Rule> rules() {
  static const std::vector<Rule> table = [] {
    std::vector<Rule> all(common_rules().begin(), common_rules().end());
    for (const FrameworkRow& row : frameworks())
      for (const std::span<const Rule> more : {row.rules, row.earlier}) all.insert(all.end(), more.begin(), more.end());
    return all;
  }();
  return table;
}

namespace {

constexpr std::size_t kLevels = static_cast<std::size_t>(Level::Recompute) + 1;
constexpr std::array<Level, kLevels> kLevelOrder = {Level::Grid,     Level::Experts,  Level::MicroBatch, Level::Context,
                                                    Level::Schedule, Level::Sharding, Level::Recompute};

/// Rules of each level.
using ByLevel = std::array<std::vector<const Rule*>, kLevels>;

/// Those that hold for one framework, all of them and the ones that not every framework has.
struct Held {
  ByLevel all{}, own{};
};

Held held_by(Framework framework) {
  Held held;
  for (const Rule& rule : rules()) {
    if ((rule.frameworks & framework_bit(framework)) == 0) continue;
    const auto level = static_cast<std::size_t>(rule.level);
    held.all[level].push_back(&rule);
    if (rule.frameworks != kAllFrameworks) held.own[level].push_back(&rule);
  }
  return held;
}

/// By framework. A search asks millions of times.
const std::array<Held, kFrameworks>& held_rules() {
  static const std::array<Held, kFrameworks> held = [] {
    std::array<Held, kFrameworks> all;
    for (std::size_t i = 0; i < kFrameworks; ++i) all[i] = held_by(static_cast<Framework>(i));
    return all;
  }();
  return held;
}

}  // namespace

std::span<const Rule* const> rules_of(Framework framework, Level level) {
  return held_rules()[static_cast<std::size_t>(framework)].all[static_cast<std::size_t>(level)];
}

int broken_rule(const Problem& problem, const Layout& layout, Level level) {
  for (const Rule* rule : rules_of(problem.framework, level))
    if (rule->asked(problem) && !rule->holds(problem, layout)) return static_cast<int>(rule - rules().data());
  return -1;
}

FrameworkMask wanted_frameworks(const Problem& problem) {
  if (problem.framework != Framework::Any)
    return problem.framework == Framework::None ? kAllFrameworks : framework_bit(problem.framework);
  unsigned wanted = 0;
  for (const FrameworkRow& row : frameworks())
    if (named(row.framework) && row.stack.states == problem.training.stack.states &&
        runs_on(row, problem.cluster.gpu.vendor) && !drops_stated(problem, row))
      wanted |= framework_bit(row.framework);
  return static_cast<FrameworkMask>(wanted);
}

FrameworkMask accepting(const Problem& problem, const Layout& layout, Level level, FrameworkMask frameworks) {
  if (problem.framework != Framework::Any) return frameworks;  // rules of the search itself
  const std::array<Held, kFrameworks>& held = held_rules();
  unsigned left = frameworks;
  for (unsigned framework = 0; framework < kFrameworks; ++framework) {
    const FrameworkMask bit = framework_bit(static_cast<Framework>(framework));
    if ((left & bit) == 0) continue;
    const std::vector<const Rule*>& own = held[framework].own[static_cast<std::size_t>(level)];
    const auto broken = [&](const Rule* rule) { return rule->asked(problem) && !rule->holds(problem, layout); };
    if (std::any_of(own.begin(), own.end(), broken)) left &= ~static_cast<unsigned>(bit);
  }
  return static_cast<FrameworkMask>(left);
}

FrameworkMask accepting(const Problem& problem, const Layout& layout, FrameworkMask frameworks) {
  for (const Level level : kLevelOrder) frameworks = accepting(problem, layout, level, frameworks);
  return frameworks;
}

int broken_rule(const Problem& problem, const Layout& layout) {
  for (const Level level : kLevelOrder)
    if (const int rule = broken_rule(problem, layout, level); rule >= 0) return rule;
  return -1;
}

std::string broken_text(const Problem& problem, const Layout& layout, int rule) {
  const Rule& row = rules()[static_cast<std::size_t>(rule)];
  if (row.numbers == nullptr) return std::string(row.text);
  return fmt::format("{}: {}", row.text, row.numbers(problem, layout));
}

bool precision_aware(const Training& training) {
  return training.precision_aware || training.master_bytes < 4 || training.moment1_bytes < 4 ||
         training.moment2_bytes < 4 || training.offload.optimizer > 0;
}

}  // namespace plan
