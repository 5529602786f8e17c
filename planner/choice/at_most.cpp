// On how many of the GPUs to train: all of them, or one after the other of a few smaller numbers. Tested by
// tests/planner/fewer_gpus_test.cpp.
#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "planner/choice/choice.hpp"
#include "planner/choice/fewer_gpus.hpp"
#include "planner/choice/starved.hpp"
#include "planner/estimate/evaluate.hpp"
#include "planner/estimate/physics.hpp"
#include "planner/memory/host_memory.hpp"
#include "planner/problem/axes.hpp"
#include "planner/search/plainest.hpp"
#include "planner/search/plainness.hpp"
#include "planner/search/switches.hpp"

namespace plan {
namespace {

constexpr double kNearlyAsBusy = 0.85;  ///< fewer may still train faster: deep pipelines wait longer
constexpr std::size_t kMostBusy = 3;    ///< numbers of GPUs, tried where all of them cannot be kept busy

constexpr double kEqual = 1e-9;  ///< steps that differ by less, as a share, are the same

/// Of each number of GPUs the fastest step alone is asked for, until it is known which number to use.
constexpr Extent kFirst{.best_alone = true};

/// A search, and whether it is all of one or the fastest step alone.
struct Found {
  RunnableSearch search{};
  bool whole = false;
};

Problem on(const Problem& problem, int gpus) {
  Problem job = problem;
  job.gpus = gpus;
  return job;
}

Problem with_best_alone(const Problem& problem, int gpus) {
  Problem one = on(problem, gpus);
  one.top = 1, one.pareto = false;
  return one;
}

bool leaves_to_host(const RunnableSearch& found) {
  return (found.result.ranking.best().front().switched & kHostSwitches) != 0;
}

/// Is this not what the wanted frameworks do with what fits the GPUs, or may it not stay that? On another number of
/// GPUs, that divides better, other frameworks or the host may answer, too.
bool unusual(const RunnableSearch& found, const Problem& asked) {
  return ready(found) != Ready::Yes || found.problem.framework != asked.framework || leaves_to_host(found) ||
         short_of_memory(found) || (fills_memory(found) && !divides_well(asked, found.problem.gpus));
}

/// Does anything fit the GPUs for certain that some framework runs and that leaves nothing to the host?
bool anything_on_gpus(const Problem& problem, Searches& searches) {
  const Extent any{.best_alone = true, .certain = true, .if_any = true};
  return ready(find_runnable(on_gpus(problem), any, searches)) == Ready::Yes;
}

/// The fastest step of what find_runnable() answers, if it fits for certain and is no slower than `slowest`.
/// `anything`: other frameworks and the host are asked even where something fits without them.
RunnableSearch find_no_slower(const Problem& problem, Seconds slowest, bool anything, Searches& searches) {
  RunnableSearch found = find_faster(problem, slowest, Extent{}.families, searches);
  if (!found.result.ranking.best().empty() || (found.result.slower && !anything)) return found;
  // Those answer where nothing else fits, or is far slower: what has to be known whole, and seldom is as fast.
  Extent quick = kFirst;
  quick.certain = quick.if_any = true, quick.slowest = slowest;
  RunnableSearch fast = find_runnable(problem, quick, searches);
  if (ready(fast) != Ready::Yes) return found;
  if (fast.problem.framework == problem.framework && leaves_to_host(fast) && !anything_on_gpus(problem, searches))
    return fast;
  RunnableSearch answer = find_runnable(problem, kFirst, searches);
  return ready(answer) == Ready::Yes && fastest_step(answer) <= slowest ? answer : found;
}

/// The fastest step where nothing runs what was found so far: of what some framework runs and fits for certain, however
/// slow, or of what nothing runs, if it is no slower than `slowest`.
RunnableSearch find_readier(const Problem& problem, Seconds slowest, Searches& searches) {
  RunnableSearch found = find_runnable(problem, {.best_alone = true, .certain = true, .if_any = true}, searches);
  if (ready(found) == Ready::Yes) return found;
  Problem paper = on_gpus(problem);
  paper.framework = Framework::None;
  if (slowest < least_compute(paper, 1)) return found;
  const SearchResult fast = searches.find(paper, {.best_alone = true, .slowest = slowest, .if_any = true});
  // Where there is none, whatever else there is answers no better.
  return fast.ranking.best().empty() ? found : find_runnable(problem, kFirst, searches);
}

/// Tries smaller numbers of GPUs and keeps the one that answers best. Fewer GPUs have to be faster by more than
/// plainness is worth, unless what more of them have could not be started.
class FewerGpus {
 public:
  FewerGpus(const Problem& problem, const RunnableSearch& all, std::vector<int> tried, Searches& searches)
      : problem_(problem), best_{all}, tried_(std::move(tried)), searches_(searches) {}

  /// Does this number answer better than all before it?
  bool offer(int gpus) {
    if (std::find(offered_.begin(), offered_.end(), gpus) == offered_.end()) offered_.push_back(gpus);
    if (std::find(tried_.begin(), tried_.end(), gpus) != tried_.end()) return false;
    tried_.push_back(gpus);
    const Ready before = ready(best_.search);
    Found other = find(gpus, before);
    const Ready now = ready(other.search);
    // GPUs are left idle for what starts for certain, or where there is no other answer.
    const bool readier = now > before && (now == Ready::Yes || before == Ready::Nothing);
    const bool faster = now == before && now != Ready::Nothing && fastest_step(other.search) < slowest(gpus, before) &&
                        worth_its_hosts(other.search);
    if (readier || faster) best_ = std::move(other);
    return readier || faster;
  }

  const RunnableSearch& best() const { return best_.search; }
  Found take() { return std::move(best_); }
  /// Numbers that are known not to answer better.
  const std::vector<int>& tried() const { return tried_; }
  /// Numbers that are looked at for this one, whether or not it was known before what they answer.
  const std::vector<int>& offered() const { return offered_; }

 private:
  /// More GPUs than the best so far uses have to be faster at all, fewer by more than plainness is worth.
  Seconds slowest(int gpus, Ready before) const {
    if (before == Ready::Nothing) return Seconds::infinity();
    return fastest_step(best_.search) / (gpus > best_.search.problem.gpus ? 1 : 1 + kPriceOfPlainness);
  }

  /// Is it so much faster than what leaves nothing to the hosts, if that is what there was?
  bool worth_its_hosts(const RunnableSearch& other) const {
    return !leaves_to_host(other) || leaves_to_host(best_.search) ||
           worth_the_host(problem_) * fastest_step(other) <= fastest_step(best_.search);
  }

  Found find(int gpus, Ready before) {
    const Problem first = with_best_alone(problem_, gpus);
    if (before == Ready::Yes)
      return {find_no_slower(first, slowest(gpus, before), unusual(best_.search, problem_), searches_), false};
    if (before == Ready::Paper) return {find_readier(first, slowest(gpus, before), searches_), false};
    return {find_runnable(first, kFirst, searches_), false};
  }

  const Problem& problem_;
  Found best_;
  std::vector<int> tried_, offered_{};
  Searches& searches_;
};

/// Of the fastest step, which there must be.
double mfu_of(const RunnableSearch& found) {
  return estimate(found.problem, found.result.ranking.best().front()).mfu.model_causal;
}

/// Has the fastest layout as many replicas as divide both the batch and the GPUs? More of them may be faster.
bool all_replicas(const Problem& problem, const RunnableSearch& found) {
  const int replicas = found.result.ranking.best().front().layout.dp;
  return replicas == std::gcd(std::int64_t{problem.gpus}, problem.training.global_batch);
}

/// May half as many GPUs answer better? Where the batch has too little for each GPU, or nothing runs on so many, since
/// frameworks that know data parallelism alone need a sequence for each.
bool worth_halving(const RunnableSearch& found) {
  if (found.nothing_runs || found.result.stats.legal == 0) return true;
  return ready(found) == Ready::Yes && mfu_of(found) < kStarvedMfu;  // else fewer hold less still
}

/// Of numbers that divide well those of the upper half, then, where a framework knows no layout of any, those of the
/// half below, and so on.
void offer_dividing(const Problem& problem, FewerGpus& fewer) {
  int most = problem.gpus;
  do {
    for (const int gpus : fewer_that_divide(on(problem, most))) fewer.offer(gpus);
    most = (most - 1) / 2 + 1;
  } while (most > 1 && ready(fewer.best()) != Ready::Yes && worth_halving(fewer.best()));
}

void offer_smaller(const Problem& problem, const RunnableSearch& all, FewerGpus& fewer) {
  const bool answered = ready(all) == Ready::Yes;
  const double busy = answered ? kNearlyAsBusy * busy_gpus(problem, problem.gpus) : 0;
  const std::vector<int> busier = fewer_but_busier(problem, busy, kMostBusy);
  for (const int gpus : busier) fewer.offer(gpus);
  const bool odd = unusual(all, problem);
  if (all.result.stats.legal == 0 || odd || mfu_of(all) < kHardlyBusy || few_nodes(problem) ||
      all_replicas(problem, all))
    for (const int gpus : fewer_with_more_replicas(problem, ready(all) == Ready::Nothing)) fewer.offer(gpus);
  if (odd)
    for (const int gpus : fewer_with_more_twos(problem)) fewer.offer(gpus);
  if (!answered) offer_dividing(problem, fewer);
  if (!worth_halving(fewer.best())) return;
  // Halves of what divides well run where others do not.
  const bool none = ready(fewer.best()) == Ready::Nothing && !busier.empty();
  for (int gpus = none ? busier.front() : fewer.best().problem.gpus; gpus % 2 == 0;) {
    gpus /= 2;
    if (!fewer.offer(gpus) && ready(fewer.best()) == Ready::Yes) break;  // the rest has still less to offer
  }
}

/// The answer on fewer GPUs, with what all of them had.
RunnableSearch on_fewer(RunnableSearch found, const RunnableSearch& all) {
  found.all_ready = ready(all);
  found.all_gpus = all.result.ranking.best().empty() ? Seconds() : fastest_step(all);
  return found;
}

Seconds recommended_step(const RunnableSearch& found) {
  return found.result.recommended ? found.result.recommended->score.step_time : fastest_step(found);
}

/// What was found so far: the searches, and the answers of whoever asks for a number of GPUs.
struct Known {
  Searches searches{};
  std::map<int, RunnableSearch> answers{};
};

const RunnableSearch& answer_on(const Problem& problem, int gpus, Known& known);

/// What all GPUs take with the hosts' memory, `slowest` at most, where they were asked without it.
RunnableSearch find_hosted(const Problem& problem, const RunnableSearch& all, const Extent& extent, Seconds slowest,
                           Searches& searches) {
  RunnableSearch hosted = find_offloaded(problem, extent, slowest, searches);
  hosted.without_hosts = fastest_step(all);
  return hosted;
}

/// Numbers of GPUs that may take no longer than the problem's: those that were offered, and of few nodes all near ones.
std::vector<int> perhaps_sooner(const Problem& problem, const std::vector<int>& offered) {
  if (few_nodes(problem)) {
    std::vector<int> numbers = near_below(problem);
    for (const int gpus : offered)
      if (std::find(numbers.begin(), numbers.end(), gpus) == numbers.end()) numbers.push_back(gpus);
    return numbers;
  }
  std::vector<int> numbers = offered;
  std::erase_if(numbers, [&](int gpus) { return gpus < kNearlyAsBusy * problem.gpus; });
  return numbers;
}

/// What numbers of GPUs beside those of an answer say of it.
struct Sooner {
  std::optional<RunnableSearch> answer{};  ///< the best that is sooner recommended, if any is
  Seconds within = Seconds::infinity();    ///< nothing on fewer takes less, though less than what is recommended
};

/// Where the fastest on fewer GPUs takes longer than the fastest of the answer, that is all that has to be known.
Sooner find_sooner(const RunnableSearch& answer, const Problem& problem, const std::vector<int>& numbers,
                   Known& known) {
  Sooner found;
  if (ready(answer) != Ready::Yes) return found;
  const bool odd = few_nodes(problem) && unusual(answer, problem);
  std::multimap<Seconds, int> fast;  // by the fastest step on so many, each of which may be recommended for fewer still
  for (const int gpus : numbers) {
    if (gpus == answer.problem.gpus) continue;
    const Seconds sooner = (1 - kEqual) * recommended_step(answer);
    // To ask the hosts, too, takes longest, and is worth it for most of the GPUs alone.
    const bool anything = odd && gpus >= kNearlyAsBusy * problem.gpus;
    const RunnableSearch quick = find_no_slower(with_best_alone(problem, gpus), sooner, anything, known.searches);
    if (quick.result.ranking.best().empty()) continue;
    if (gpus < answer.problem.gpus && fastest_step(quick) >= fastest_step(answer))
      found.within = std::min(found.within, fastest_step(quick));
    else
      fast.emplace(fastest_step(quick), gpus);
  }
  for (const auto& [fastest, gpus] : fast) {
    const Seconds sooner = (1 - kEqual) * recommended_step(found.answer ? *found.answer : answer);
    if (fastest > sooner) break;
    const RunnableSearch& other = answer_on(problem, gpus, known);
    if (ready(other) == Ready::Yes && recommended_step(other) <= sooner) found.answer = other;
  }
  return found;
}

/// The same search with a plain layout that takes no longer than that.
RunnableSearch recommended_within(RunnableSearch found, Seconds within) {
  found.result.recommended = plainest(found.result, within);
  return found;
}

/// A plainer layout of more GPUs must not take longer than what is recommended for fewer. Where it does, as plain a one
/// as takes no longer; the fewer GPUs where all of them have none that fast.
RunnableSearch no_slower_than_fewer(RunnableSearch all, const Problem& problem, const std::vector<int>& fewer,
                                    Known& known) {
  Sooner sooner = find_sooner(all, problem, fewer, known);
  const Seconds other = sooner.answer ? recommended_step(*sooner.answer) : Seconds::infinity();
  const Seconds as_soon = std::min(sooner.within, other);
  if (as_soon == Seconds::infinity()) return all;
  if (fastest_step(all) <= as_soon) return recommended_within(std::move(all), as_soon);
  if (leaves_to_host(*sooner.answer) && !leaves_to_host(all)) {
    RunnableSearch hosted = find_hosted(problem, all, {}, other, known.searches);
    if (ready(hosted) == Ready::Yes) return recommended_within(std::move(hosted), as_soon);
  }
  return on_fewer(std::move(*sooner.answer), all);
}

/// The answer on that many GPUs, or on fewer. `first`: what is known of all of them already; `tried` as above.
RunnableSearch find_from(const Problem& problem, std::optional<Found> first, std::vector<int> tried, Known& known) {
  Searches& searches = known.searches;
  if (!first && divides_well(problem, problem.gpus)) first = {find_runnable(problem, {}, searches), true};
  if (!first) first = {find_runnable(with_best_alone(problem, problem.gpus), kFirst, searches), false};
  const RunnableSearch& all = first->search;
  // A word that does not suit is reported. Too big for a number that divides badly may fit fewer that divide well.
  if (ready(all) == Ready::Nothing && !fixed_words(problem.fixed).empty()) return all;
  FewerGpus fewer(problem, all, std::move(tried), searches);
  offer_smaller(problem, all, fewer);
  const int used = fewer.best().problem.gpus;
  if (ready(fewer.best()) == Ready::Nothing) return all;
  if (used == problem.gpus)
    return no_slower_than_fewer(first->whole ? std::move(first->search) : find_runnable(problem, {}, searches), problem,
                                perhaps_sooner(problem, fewer.offered()), known);
  // A number that was not short of memory was asked without the hosts, which fewer may answer with.
  if (ready(all) == Ready::Yes && !leaves_to_host(all) && leaves_to_host(fewer.best())) {
    const Seconds slowest = (1 + kPriceOfPlainness) * fastest_step(fewer.best());
    RunnableSearch hosted = find_hosted(problem, all, {}, slowest, searches);
    if (ready(hosted) == Ready::Yes) return hosted;
  }
  // Who asks for the number that is used gets the same answer: it may be bettered by a smaller one as this was.
  RunnableSearch answer = find_from(on(problem, used), fewer.take(), fewer.tried(), known);
  std::vector<int> between = perhaps_sooner(problem, fewer.offered());
  std::erase_if(between, [&](int gpus) { return gpus <= answer.problem.gpus; });
  Sooner sooner = find_sooner(answer, problem, between, known);
  return on_fewer(sooner.answer ? std::move(*sooner.answer) : std::move(answer), all);
}

const RunnableSearch& answer_on(const Problem& problem, int gpus, Known& known) {
  const auto before = known.answers.find(gpus);
  if (before != known.answers.end()) return before->second;
  return known.answers[gpus] = find_from(on(problem, gpus), std::nullopt, {}, known);
}

}  // namespace

RunnableSearch find_on_at_most(const Problem& problem) {
  if (problem.objective == Objective::Memory) return find_runnable(problem);
  Known known;
  return find_from(problem, std::nullopt, {}, known);
}

}  // namespace plan
