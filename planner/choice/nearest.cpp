// The nearest feasible requests: one input changed at a time, the whole search run again.
// Tested by tests/planner/nearest_test.cpp.
#include "planner/choice/nearest.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>

#include <fmt/format.h>

#include "formulas/names.hpp"
#include "planner/choice/cheapest.hpp"
#include "planner/choice/choice.hpp"
#include "planner/choice/host_remedy.hpp"
#include "planner/estimate/evaluate.hpp"
#include "planner/memory/host_memory.hpp"
#include "planner/problem/axes.hpp"
#include "planner/rules/complete_layout.hpp"
#include "planner/rules/rules.hpp"
#include "planner/rules/words.hpp"
#include "planner/search/enumerate.hpp"
#include "planner/search/switches.hpp"

namespace plan {
namespace {

constexpr std::size_t kSuggestions = 3;

/// What suggestions may cost, in grids of (tp, cp, pp) that are looked at: counted and not timed, so that the same
/// request gets the same answer on every machine. A family that is searched takes as long as some hundred grids.
struct Looks {
  static constexpr std::int64_t kFamily = 250, kMostFamilies = 1500;  ///< the latter in one search
  std::int64_t left = 1'500'000;

  void searched(std::int64_t families) { left -= kFamily * families; }
  std::int64_t families() const { return std::clamp<std::int64_t>(left / kFamily, 0, kMostFamilies); }
};

bool has_legal(const Problem& problem, Tally& tally, Looks& looks) {
  if (problem.fixed.recompute)  // its rules read nothing else of a layout
    if (const int rule = broken_rule(problem, *problem.fixed.recompute); rule >= 0) {
      tally.reject(rule, 1);
      return false;
    }
  bool found = false;
  looks.left -= visit_families(problem, tally, looks.left, [&](const Family& family) {
    for (const Pipelining& run : enumerate_runs(problem, family.layout, tally)) {
      found = !enumerate_shardings(problem, run_of(problem, family.layout, run), tally).empty();
      if (found) return false;
    }
    return true;
  });
  return found;
}

bool has_legal(const Problem& problem, Looks& looks) {
  Tally tally;
  return has_legal(problem, tally, looks);
}

/// A changed job that has a layout, and what a token of it takes.
struct Suggestion {
  Change change;
  TokenCost token{};
};

/// `free`: with what the search may turn on by itself.
std::optional<Suggestion> tried(const ChangedJob& change, Looks& looks, bool free = false) {
  if (!has_legal(change.problem, looks)) return std::nullopt;
  Problem problem = change.problem;
  problem.top = 1, problem.pareto = false;
  if (!free) problem.free_switches = 0;
  const RunnableSearch found = find_runnable(problem, {.families = looks.families(), .best_alone = true});
  looks.searched(found.judged);
  const std::vector<Candidate>& ranked = found.result.ranking.best();
  if (ranked.empty() || found.result.at_risk || found.nothing_runs) return std::nullopt;
  const Candidate& best = ranked.front();
  const double seconds =
      problem.gpus * best.score.step_time.value / static_cast<double>(problem.training.tokens_per_step());
  Change shown = suggested_change(change.flag, best.layout, best.score.peak, problem.cluster.gpu.memory);
  if (const Bytes host = estimate(found.problem, best).host; host.value > 0)
    shown.memory += fmt::format(", {:.0f} GiB of each host", static_cast<double>(host.value) / kGiB);
  return Suggestion{std::move(shown), {seconds, problem.cluster.gpu.price_per_hour}};
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

std::vector<ChangedJob> other_gpu_counts(const Problem& problem, Looks& looks) {
  std::vector<ChangedJob> changes;
  const auto legal = [&](std::int64_t gpus) {
    return looks.left > 0 && has_legal(with_gpus(problem, static_cast<int>(gpus)).problem, looks);
  };
  std::vector<std::int64_t> near = nearest_values(problem.gpus, problem.cluster.gpus_per_node, 64, legal);
  // Where a framework has data parallelism alone: a sequence for each, or for every second.
  const bool fewer = std::any_of(near.begin(), near.end(), [&](std::int64_t gpus) { return gpus < problem.gpus; });
  std::int64_t gpus = fewer ? 0 : std::min<std::int64_t>(problem.training.global_batch, problem.gpus - 1);
  while (gpus > 0 && !legal(gpus)) gpus /= 2;
  if (gpus > 0) near.push_back(gpus);
  for (const std::int64_t number : near) changes.push_back(with_gpus(problem, static_cast<int>(number)));
  return changes;
}

/// Too big: more GPUs, doubling until something fits.
std::optional<Suggestion> more_gpus(const Problem& problem, Looks& looks) {
  std::int64_t gpus = problem.gpus;
  for (int i = 0; i < 12 && gpus <= 1 << 21 && looks.left > 0; ++i)
    if (auto line = tried(with_gpus(problem, static_cast<int>(gpus *= 2)), looks)) return line;
  return std::nullopt;
}

std::vector<ChangedJob> other_batches(const Problem& problem, Looks& looks) {
  std::vector<ChangedJob> changes;
  const auto legal = [&](std::int64_t batch) {
    return looks.left > 0 && has_legal(with_batch(problem, batch).problem, looks);
  };
  std::vector<std::int64_t> near = nearest_values(problem.training.global_batch, 1, 512, legal);
  if (near.empty() && legal(problem.gpus)) near.push_back(problem.gpus);
  for (const std::int64_t batch : near) changes.push_back(with_batch(problem, batch));
  return changes;
}

std::vector<ChangedJob> other_sequences(const Problem& problem, Looks& looks) {
  const std::int64_t step = 2ll * problem.fixed.cp.value_or(1) * problem.fixed.tp.value_or(1);
  std::vector<ChangedJob> changes;
  const auto with_seq = [&](std::int64_t seq) {
    ChangedJob change{"--seq " + std::to_string(seq), problem};
    change.problem.training.seq = seq;
    return change;
  };
  const auto legal = [&](std::int64_t seq) { return looks.left > 0 && has_legal(with_seq(seq).problem, looks); };
  for (const std::int64_t seq : nearest_values(problem.training.seq, step, 64, legal)) changes.push_back(with_seq(seq));
  return changes;
}

void suggest(Error& error, const std::vector<ChangedJob>& changes, Looks& looks) {
  for (const ChangedJob& change : changes) {
    if (error.changes.size() >= kSuggestions || looks.left <= 0) return;
    if (auto found = tried(change, looks)) error.changes.push_back(std::move(found->change));
  }
}

/// Too big: what makes it smaller or gives it more room. First what keeps the GPUs, and of that what changes least of
/// the training; then other hardware, the cheapest first, of which one at least is reported.
void suggest_room(Error& error, const Problem& problem, const std::optional<RoomierHosts>& roomier, Looks& looks) {
  std::vector<Suggestion> kept, bought;
  const auto first = [&](const std::vector<ChangedJob>& changes,
                         bool free = false) {  // of one kind, the first that fits
    for (const ChangedJob& change : changes) {
      if (looks.left <= 0) break;
      if (std::optional<Suggestion> one = tried(change, looks, free)) return one;
    }
    return std::optional<Suggestion>();
  };
  const auto offer = [](std::vector<Suggestion>& all, std::optional<Suggestion> one) {
    if (one) all.push_back(std::move(*one));
  };
  offer(bought, more_gpus(problem, looks));
  for (const auto& changes :
       {offloads(problem), adapter_tasks(problem), narrower_states(problem), other_precisions(problem)})
    offer(kept, first(changes));
  if (kept.empty() && (problem.free_switches & kHostSwitches) != 0) offer(kept, first(adapter_tasks(problem), true));
  offer(bought, first(other_gpus(problem)));
  if (roomier) offer(bought, tried(roomier->change, looks));
  sort_cheapest_first(bought, [](const Suggestion& one) { return one.token; });
  const std::size_t room = kSuggestions - std::min<std::size_t>(1, bought.size());
  for (std::vector<Suggestion>* some : {&kept, &bought})
    for (Suggestion& one : *some)
      if (error.changes.size() < (some == &kept ? room : kSuggestions)) error.changes.push_back(std::move(one.change));
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
  std::int64_t rest = problem.gpus;
  for (const std::int64_t axis : {problem.training.global_batch, heads_of(problem.model), problem.training.seq})
    if (axis > 0) rest /= std::gcd(rest, axis);
  return rest;
}

std::string share_text(std::int64_t part, std::int64_t whole) {
  const double percent = 100 * static_cast<double>(part) / static_cast<double>(whole);
  return percent < 1 ? "less than 1 %" : fmt::format("{:.0f} %", percent);
}

/// Of a framework's own rules that rejected something, the one of the last axes, since what it rejected had kept all
/// others; nullptr if there is none.
const Rule* framework_rule(const Tally& tally) {
  const Rule* last = nullptr;
  for (const Rejected& row : tally.rows())
    for (const Rule& rule : rules())
      if (rule.code == row.reason && rule.frameworks != kAllFrameworks && (last == nullptr || rule.level > last->level))
        last = &rule;
  return last;
}

/// What layouts with the fixed words break: of the layout that these alone make, and of those in which one free degree
/// takes the GPUs that they leave, the one that keeps most rules, which are asked in order. None where one breaks none.
std::optional<std::string> broken_words(const Problem& problem) {
  int furthest = -1;
  std::string text;
  const auto look = [&](const Problem& tried) {
    const Layout layout = complete_layout(tried);
    const int rule = broken_rule(tried, layout);
    if (rule > furthest) furthest = rule, text = broken_text(tried, layout, rule);
    return rule >= 0;
  };
  if (!look(problem)) return std::nullopt;
  const Layout alone = complete_layout(problem);
  const std::int64_t taken = static_cast<std::int64_t>(alone.tp) * alone.cp * alone.pp * alone.dp;
  if (problem.gpus % taken != 0 || problem.gpus == taken) return text;
  for (const auto& [degree, free] : {std::pair{&Layout::tp, &Fixed::tp}, std::pair{&Layout::cp, &Fixed::cp},
                                     std::pair{&Layout::pp, &Fixed::pp}, std::pair{&Layout::dp, &Fixed::dp}}) {
    if (problem.fixed.*free) continue;
    Problem filled = problem;
    filled.fixed.*free = alone.*degree * static_cast<int>(problem.gpus / taken);
    if (!look(filled)) return std::nullopt;
  }
  return text;
}

/// A fixed word that no layout has, whatever the other words: the reason; and whether only the framework lacks it.
struct Culprit {
  std::string text;
  bool framework = false;
};

std::optional<Culprit> culprit(const Problem& problem, const std::string& word, Looks& looks) {
  Tally tally;
  if (has_legal(problem, tally, looks) || looks.left <= 0) return std::nullopt;
  Problem any = problem;
  any.framework = Framework::Any;
  const Rule* own = framework_rule(tally);
  if (own != nullptr && has_legal(any, looks)) return Culprit{fmt::format("`{}`: {}", word, own->text), true};
  const std::optional<std::string> broken = broken_words(problem);
  if (!broken) return std::nullopt;
  return Culprit{fmt::format("`{}`: {}", word, *broken), false};
}

/// The fixed words that are to blame, each alone, or else all together.
void blame_words(Error& error, const Problem& problem, Looks& looks) {
  each_axis([&](const auto& axis) {
    const auto& value = problem.fixed.*axis.fixed;
    if (!value) return;
    Problem alone = problem;
    alone.fixed = {};
    alone.fixed.*axis.fixed = value;
    const std::optional<Culprit> found = culprit(alone, worded(axis, *value), looks);
    if (!found) return;
    if (found->framework) error.code = "unsupported_word";  // a mistake, not an answer
    error.facts.push_back(found->text);
  });
  const std::vector<std::string> words = fixed_words(problem.fixed);
  if (!error.facts.empty() || words.size() < 2) return;
  if (const std::optional<std::string> broken = broken_words(problem))
    error.facts.push_back(fmt::format("{}: {}", fmt::join(words, ","), *broken));
}

/// The rule that rejected most, and what it demands.
void blame_rules(Error& error, const Problem& problem, const SearchResult& found) {
  if (!error.facts.empty()) return;  // the words say it all
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

/// The layout that comes closest to fitting, found by a search for the least memory. The limit of the GPU is raised
/// step by step until something fits: what needs more than the limit is given up early, and of what fits the least is
/// the same under every limit.
void blame_memory(Error& error, const Problem& problem) {
  constexpr double kStep = 1.12, kMost = 1e18;  // the latter in bytes: more than any layout needs
  Problem raised = problem;
  raised.objective = Objective::Memory, raised.headroom = {.share = {}, .bytes = 0};
  raised.top = 1, raised.pareto = false, raised.free_switches = 0;
  raised.cluster.host_memory = Bytes();  // of GPUs alone
  RunnableSearch found{raised, {}};
  for (double limit = static_cast<double>(problem.cluster.gpu.memory.value);
       found.result.ranking.best().empty() && limit < kMost;) {
    limit *= kStep;
    raised.cluster.gpu.memory = Bytes(static_cast<std::int64_t>(limit));
    found = find_runnable(raised, {.best_alone = true});
  }
  if (found.result.ranking.best().empty()) return;
  const Candidate& closest = found.result.ranking.best().front();
  const bool stated = problem.headroom.bytes || problem.headroom.share;
  const RealBytes capacity = stated ? usable_memory(problem, false) : RealBytes(problem.cluster.gpu.memory);
  const Estimate detail = estimate(found.problem, closest.layout);
  const StageMemory& worst = detail.stages[static_cast<std::size_t>(detail.peak_stage)];
  const Bytes states = worst.weights + worst.grads + worst.optimizer;
  error.message = "no layout fits: " + problem.model.name + " needs at least " + gib_text(closest.score.peak) +
                  (problem.gpus > 1 ? " on each of " + std::to_string(problem.gpus) + " GPUs; " : "; ") +
                  problem.cluster.gpu.name + " has " + gib_text(RealBytes(problem.cluster.gpu.memory)) +
                  (stated ? ", " + gib_text(capacity) + " beside `--headroom`" : "");
  error.facts.push_back("closest: " + degrees_text(closest.layout) + ", over by " +
                        gib_text(closest.score.peak - capacity));
  error.facts.push_back("weights, gradients and optimizer alone take " + gib_text(states) + " there");
}

}  // namespace

std::string gib_text(RealBytes bytes) { return fmt::format("{:.1f} GiB", bytes.value / kGiB); }

std::string degrees_text(const Layout& layout) {
  std::string text = "tp " + std::to_string(layout.tp);
  if (layout.cp > 1) text += "  cp " + std::to_string(layout.cp);
  text += "  pp " + std::to_string(layout.pp);
  if (layout.vp > 1) text += " (vp " + std::to_string(layout.vp) + ")";
  text += "  dp " + std::to_string(layout.dp);
  if (layout.ep > 1) text += "  ep " + std::to_string(layout.ep);
  return text;
}

Change suggested_change(std::string flags, const Layout& layout, RealBytes peak, RealBytes capacity) {
  return {std::move(flags), degrees_text(layout), fmt::format("{:.1f} of {}", peak.value / kGiB, gib_text(capacity))};
}

Error explain_no_layout(const Problem& problem, const SearchResult& found) {
  Error error{.code = "no_layout", .message = "no layout uses all " + std::to_string(problem.gpus) + " GPUs"};
  const bool divides = found.stats.legal > 0;
  std::optional<RoomierHosts> roomier;
  Looks looks;
  if (divides) {
    roomier = with_roomier_hosts(problem);
    if (!roomier || !problem.training.offload.any()) blame_memory(error, problem);
    if (roomier) blame_hosts(error, problem, *roomier);
  } else {
    blame_words(error, problem, looks);
    blame_rules(error, problem, found);
  }
  suggest(error, freed_axes(problem), looks);
  if (divides) {
    if (error.changes.size() < kSuggestions) suggest_room(error, problem, roomier, looks);
  } else {
    suggest(error, other_gpu_counts(problem, looks), looks);
    suggest(error, other_batches(problem, looks), looks);
    suggest(error, other_sequences(problem, looks), looks);
  }
  return error;
}

}  // namespace plan
