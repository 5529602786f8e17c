// What makes a layout legal: one table of all rules, asked level by level (plan-formulas(7) G, plan-launch(7) 4).
// Tested by tests/planner/rules_test.cpp.
#include "planner/rules/rules.hpp"

#include <fmt/format.h>

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

/// Indices of the rules of each level that hold for one framework: a search asks millions of times.
using LevelIndex = std::array<std::vector<int>, kLevels>;

LevelIndex index_of(Framework framework) {
  LevelIndex index;
  for (std::size_t i = 0; i < rules().size(); ++i)
    if ((rules()[i].frameworks & framework_bit(framework)) != 0)
      index[static_cast<std::size_t>(rules()[i].level)].push_back(static_cast<int>(i));
  return index;
}

}  // namespace

std::span<const int> rules_of(Framework framework, Level level) {
  static const std::array<LevelIndex, kFrameworks> index = [] {
    std::array<LevelIndex, kFrameworks> all;
    for (std::size_t i = 0; i < kFrameworks; ++i) all[i] = index_of(static_cast<Framework>(i));
    return all;
  }();
  return index[static_cast<std::size_t>(framework)][static_cast<std::size_t>(level)];
}

int broken_rule(const Problem& problem, const Layout& layout, Level level) {
  const std::span<const Rule> table = rules();
  for (const int i : rules_of(problem.framework, level))
    if (const Rule& row = table[static_cast<std::size_t>(i)]; row.asked(problem) && !row.holds(problem, layout))
      return i;
  return -1;
}

FrameworkMask wanted_frameworks(const Problem& problem) {
  if (problem.framework != Framework::Any)
    return problem.framework == Framework::None ? kAllFrameworks : framework_bit(problem.framework);
  unsigned wanted = 0;
  for (const FrameworkRow& row : frameworks())
    if (named(row.framework) && row.stack.states == problem.training.stack.states &&
        runs_on(row, problem.cluster.gpu.vendor))
      wanted |= framework_bit(row.framework);
  return static_cast<FrameworkMask>(wanted);
}

FrameworkMask accepting(const Problem& problem, const Layout& layout, Level level, FrameworkMask frameworks) {
  if (problem.framework != Framework::Any) return frameworks;  // rules of the search itself
  unsigned left = frameworks;
  for (unsigned framework = 0; framework < kFrameworks; ++framework) {
    const FrameworkMask bit = framework_bit(static_cast<Framework>(framework));
    if ((left & bit) == 0) continue;
    for (const int i : rules_of(static_cast<Framework>(framework), level)) {
      const Rule& row = rules()[static_cast<std::size_t>(i)];
      if (row.frameworks == kAllFrameworks || !row.asked(problem) || row.holds(problem, layout)) continue;
      left &= ~static_cast<unsigned>(bit);
      break;
    }
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
