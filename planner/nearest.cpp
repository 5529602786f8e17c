// The nearest feasible requests: one input changed at a time, the whole search run again.
// Tested by tests/planner/nearest_test.cpp.
#include "planner/nearest.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>

#include <fmt/core.h>

#include "formulas/names.hpp"
#include "planner/enumerate.hpp"
#include "planner/evaluate.hpp"
#include "planner/rules/rules.hpp"

namespace plan {
namespace {

constexpr std::size_t kSuggestions = 3;

std::string gib(double bytes) { return fmt::format("{:.1f} GiB", bytes / kGiB); }

/// One changed input, as the user would type it, and the problem it makes.
struct Change {
  std::string flag;
  Problem problem;
};

bool has_legal(const Problem& problem) {
  Tally tally;
  for (const Family& family : enumerate_families(problem, tally))
    if (const auto runs = enumerate_runs(problem, family.layout, tally); !runs.empty()) {
      if (!enumerate_shardings(problem, run_of(problem, family.layout, runs.front()), tally).empty()) return true;
    }
  return false;
}

/// The suggestion as one line, if the changed problem has a layout.
std::optional<std::string> tried(const Change& change) {
  if (!has_legal(change.problem)) return std::nullopt;
  Problem problem = change.problem;
  problem.top = 1, problem.pareto = false;
  const SearchResult found = find_layouts(problem);
  if (found.ranking.best().empty() || found.at_risk) return std::nullopt;
  const Candidate& best = found.ranking.best().front();
  return fmt::format("{:<20} {:<30} {:>5.1f} of {}", change.flag, degrees_text(best.layout), best.score.peak / kGiB,
                     gib(static_cast<double>(problem.cluster.gpu.memory.value)));
}

/// The user's own fixed axes, each set free.
std::vector<Change> freed_axes(const Problem& problem) {
  std::vector<Change> changes;
  const auto free = [&](auto member, const char* name) {
    if (!(problem.fixed.*member)) return;
    Change change{std::string("leave ") + name + " free", problem};
    Fixed& fixed = change.problem.fixed;
    const std::string_view axis = name;
    (fixed.*member).reset();
    if (axis == "pp" || axis == "vp" || axis == "schedule")
      fixed.chunk_layers.reset();  // they suit that pipeline alone
    changes.push_back(std::move(change));
  };
  free(&Fixed::recompute, "recompute");
  free(&Fixed::micro_batch, "micro_batch");
  free(&Fixed::zero, "zero");
  free(&Fixed::shard, "shard");
  free(&Fixed::chunk_layers, "layers");
  free(&Fixed::schedule, "schedule");
  free(&Fixed::vp, "vp");
  free(&Fixed::cp_kind, "cp_kind");
  free(&Fixed::cp, "cp");
  free(&Fixed::dp, "dp");
  free(&Fixed::pp, "pp");
  free(&Fixed::tp, "tp");
  free(&Fixed::etp, "etp");
  free(&Fixed::ep, "ep");
  return changes;
}

Change with_gpus(const Problem& problem, int gpus) {
  Change change{"--gpus " + std::to_string(gpus), problem};
  change.problem.gpus = gpus;
  return change;
}

/// The nearest legal values below and above `value`, found by testing them one by one.
std::vector<std::int64_t> nearest_values(std::int64_t value, std::int64_t step, int tries,
                                         const std::function<bool(std::int64_t)>& legal) {
  std::vector<std::int64_t> found;
  const std::int64_t below = (value - 1) / step * step, above = (value / step + 1) * step;
  for (int i = 0; i < tries; ++i)
    if (const std::int64_t v = below - i * step; v > 0 && legal(v)) {
      found.push_back(v);
      break;
    }
  for (int i = 0; i < tries; ++i)
    if (legal(above + i * step)) {
      found.push_back(above + i * step);
      break;
    }
  std::stable_sort(found.begin(), found.end(),
                   [value](std::int64_t a, std::int64_t b) { return std::abs(a - value) < std::abs(b - value); });
  return found;
}

std::vector<Change> other_gpu_counts(const Problem& problem, bool divides) {
  std::vector<Change> changes;
  if (!divides) {
    const auto legal = [&](std::int64_t gpus) { return has_legal(with_gpus(problem, static_cast<int>(gpus)).problem); };
    for (const std::int64_t gpus : nearest_values(problem.gpus, problem.cluster.gpus_per_node, 64, legal))
      changes.push_back(with_gpus(problem, static_cast<int>(gpus)));
    return changes;
  }
  // Too big: more GPUs, doubling until something fits.
  for (int gpus = problem.gpus * 2, i = 0; i < 12 && gpus > 0 && gpus <= 1 << 22; ++i, gpus *= 2) {
    Change change = with_gpus(problem, gpus);
    if (tried(change)) return {change};
  }
  return {};
}

std::vector<Change> other_batches(const Problem& problem) {
  std::vector<Change> changes;
  const auto with_batch = [&](std::int64_t batch) {
    Change change{"--global-batch " + std::to_string(batch), problem};
    change.problem.training.global_batch = batch;
    return change;
  };
  const auto legal = [&](std::int64_t batch) { return has_legal(with_batch(batch).problem); };
  for (const std::int64_t batch : nearest_values(problem.training.global_batch, 1, 512, legal))
    changes.push_back(with_batch(batch));
  return changes;
}

std::vector<Change> other_sequences(const Problem& problem) {
  const std::int64_t step = 2ll * problem.fixed.cp.value_or(1) * problem.fixed.tp.value_or(1);
  std::vector<Change> changes;
  const auto with_seq = [&](std::int64_t seq) {
    Change change{"--seq " + std::to_string(seq), problem};
    change.problem.training.seq = seq;
    return change;
  };
  const auto legal = [&](std::int64_t seq) { return has_legal(with_seq(seq).problem); };
  for (const std::int64_t seq : nearest_values(problem.training.seq, step, 64, legal)) changes.push_back(with_seq(seq));
  return changes;
}

std::vector<Change> other_gpus(const Problem& problem) {
  std::vector<Change> changes;
  for (const Cluster& cluster : problem.alternatives) {
    Change change{"--gpu " + cluster.gpu.name, problem};
    change.problem.cluster = cluster;
    changes.push_back(std::move(change));
  }
  return changes;
}

void suggest(Error& error, const std::vector<Change>& changes) {
  for (const Change& change : changes) {
    if (error.help.size() >= kSuggestions) return;
    if (auto line = tried(change)) error.help.push_back(std::move(*line));
  }
}

/// "2^3 * 5^3"
std::string factors_text(std::int64_t number) {
  std::string text;
  const auto add = [&](std::int64_t prime, int power) {
    text += (text.empty() ? "" : " * ") + std::to_string(prime) + (power > 1 ? "^" + std::to_string(power) : "");
  };
  for (std::int64_t prime = 2; prime * prime <= number; ++prime) {
    int power = 0;
    for (; number % prime == 0; number /= prime) ++power;
    if (power > 0) add(prime, power);
  }
  if (number > 1 || text.empty()) add(number, 1);
  return text;
}

/// The part of the GPUs' number that no axis but pp can divide by.
std::int64_t left_to_stages(const Problem& problem) {
  std::int64_t heads = 0;  // that all layer kinds share
  for (const Layer& kind : problem.model.kinds) {
    if (kind.mixer == Mixer::Attention) heads = std::gcd(heads, kind.attention.heads);
    if (kind.mixer == Mixer::Latent) heads = std::gcd(heads, kind.latent.heads);
    if (kind.mixer == Mixer::Mamba2) heads = std::gcd(heads, kind.mamba.heads);
    if (kind.mixer == Mixer::DeltaNet) heads = std::gcd(heads, std::gcd(kind.delta.key_heads, kind.delta.value_heads));
  }
  std::int64_t rest = problem.gpus;
  for (const std::int64_t axis : {problem.training.global_batch, heads, problem.training.seq})
    if (axis > 0) rest /= std::gcd(rest, axis);
  return rest;
}

std::string share_text(std::int64_t part, std::int64_t whole) {
  const double percent = 100 * static_cast<double>(part) / static_cast<double>(whole);
  return percent < 1 ? "less than 1 %" : fmt::format("{:.0f} %", percent);
}

/// The rule that rejected most, and what it demands.
void blame_rules(Error& error, const Problem& problem, const SearchResult& found) {
  auto rows = found.stats.rejected;
  std::stable_sort(rows.begin(), rows.end(), [](const Rejected& a, const Rejected& b) { return a.count > b.count; });
  const std::string gpus = std::to_string(problem.gpus), factors = factors_text(problem.gpus);
  error.facts.push_back(fmt::format("{}{}; global batch {}", gpus, factors == gpus ? " is prime" : " = " + factors,
                                    problem.training.global_batch));
  if (const std::int64_t rest = left_to_stages(problem); rest > 1)
    error.facts.push_back(
        fmt::format("{} divides neither {} sequences, the heads nor {} tokens: pp would be {} or more, for {} layers",
                    rest, problem.training.global_batch, problem.training.seq, rest, problem.model.depth()));
  for (const Rejected& row : rows) {
    if (error.facts.size() >= 4) break;
    for (const Rule& rule : rules())
      if (rule.code == row.reason)
        error.facts.push_back(
            fmt::format("{}: broken by {} of all layouts", rule.text, share_text(row.count, found.stats.considered)));
  }
}

/// The layout that comes closest to fitting, found by a search for the least memory without a limit.
void blame_memory(Error& error, const Problem& problem) {
  Problem unlimited = problem;
  unlimited.cluster.gpu.memory = Bytes(std::int64_t{1} << 60);
  unlimited.objective = Objective::Memory;
  unlimited.top = 1, unlimited.pareto = false;
  const SearchResult found = find_layouts(unlimited);
  if (found.ranking.best().empty()) return;
  const Candidate& closest = found.ranking.best().front();
  const double capacity = static_cast<double>(problem.cluster.gpu.memory.value);
  const CostModel costs(problem, split_of(closest.layout));
  const Estimate detail = estimate(unlimited, closest.layout);
  const StageMemory& worst = detail.stages[static_cast<std::size_t>(detail.peak_stage)];
  const double states = static_cast<double>((worst.weights + worst.grads + worst.optimizer).value);
  error.message = "no layout fits: " + problem.model.name + " needs at least " + gib(closest.score.peak) +
                  " on each of " + std::to_string(problem.gpus) + " GPUs; " + problem.cluster.gpu.name + " has " +
                  gib(capacity);
  error.facts.push_back("closest: " + degrees_text(closest.layout) + ", over by " + gib(closest.score.peak - capacity));
  error.facts.push_back("weights, gradients and optimizer alone take " + gib(states) + " there");
}

}  // namespace

std::string degrees_text(const Layout& layout) {
  std::string text = "tp " + std::to_string(layout.tp);
  if (layout.cp > 1) text += "  cp " + std::to_string(layout.cp);
  text += "  pp " + std::to_string(layout.pp);
  if (layout.vp > 1) text += " (vp " + std::to_string(layout.vp) + ")";
  text += "  dp " + std::to_string(layout.dp);
  if (layout.ep > 1) text += "  ep " + std::to_string(layout.ep);
  return text;
}

Error explain_no_layout(const Problem& problem, const SearchResult& found) {
  Error error{.code = "no_layout", .message = "no layout uses all " + std::to_string(problem.gpus) + " GPUs"};
  const bool divides = found.stats.legal > 0;
  if (divides)
    blame_memory(error, problem);
  else
    blame_rules(error, problem, found);
  suggest(error, freed_axes(problem));
  suggest(error, other_gpu_counts(problem, divides));
  if (divides) {
    suggest(error, other_gpus(problem));
  } else {
    suggest(error, other_batches(problem));
    suggest(error, other_sequences(problem));
  }
  return error;
}

}  // namespace plan
