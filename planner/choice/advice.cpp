// Shadow prices: the same search on the job with one input changed. Nothing is canned, and a change that was not
// computed is not offered. Assumes that all but the changed input stay as they are, the learning rate with the batch
// among them. Tested by tests/planner/advice_test.cpp.
#include "planner/choice/advice.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "planner/choice/choice.hpp"
#include "planner/choice/fewer_gpus.hpp"
#include "planner/search/switches.hpp"

namespace plan {
namespace {

constexpr int kNearBatch = 4, kTriedBatches = 3;  // a batch moves by a quarter at most
constexpr std::size_t kNextKinds = 2;
constexpr double kOneMore = kGiB;

using Changes = std::vector<ChangedJob>;

}  // namespace

std::vector<ChangedJob> near_batches(const Problem& problem) {
  const std::int64_t batch = problem.training.global_batch;
  const std::int64_t lacking = problem.gpus / std::gcd(std::int64_t{problem.gpus}, batch);
  const std::int64_t twos = problem.gpus & -problem.gpus;
  std::int64_t odd = lacking;
  while (odd % 2 == 0) odd /= 2;
  Changes changes;
  if (odd > batch / kNearBatch) return changes;
  std::int64_t unit = odd;
  // Of a batch that lacks twos alone, units that it has are of no use, nor more twos than the GPUs have.
  while (2 * unit <= batch / kNearBatch && (odd > 1 || 2 * unit <= twos)) unit *= 2;
  std::vector<std::int64_t> tried;
  for (int i = 0; i < kTriedBatches && unit % odd == 0 && (odd > 1 || batch % unit != 0); ++i, unit /= 2) {
    const std::int64_t below = batch / unit * unit, above = below + unit;
    const bool nearer = batch - below <= above - batch;
    for (const std::int64_t near : {nearer ? below : above, nearer ? above : below})
      if (near > 0 && near != batch && std::find(tried.begin(), tried.end(), near) == tried.end()) {
        tried.push_back(near);
        changes.push_back(with_batch(problem, near));
      }
  }
  return changes;
}

namespace {

/// The next whole number of nodes that divides well, if the job's does not.
Changes better_numbers(const Problem& problem) {
  if (divides_well(problem, problem.gpus)) return {};
  const int node = std::max(1, problem.cluster.gpus_per_node);
  for (int gpus = problem.gpus / node * node + node; gpus < 2 * problem.gpus; gpus += node)
    if (divides_well(problem, gpus)) return {with_gpus(problem, gpus)};
  return {};
}

Changes more_memory(const Problem& problem) {
  ChangedJob change{"1 GiB more memory", problem};
  Bytes& memory = change.problem.cluster.gpu.memory;
  memory = round_bytes(static_cast<double>(memory.value) + kOneMore);
  return {std::move(change)};
}

/// The job on other GPUs of the same maker: the first few kinds in the order of other_gpus.
Changes next_kinds(const Problem& problem) {
  Changes changes;
  for (ChangedJob& change : other_gpus(problem)) {
    if (changes.size() == kNextKinds || change.problem.cluster.gpu.vendor != problem.cluster.gpu.vendor) continue;
    const bool known =
        std::any_of(changes.begin(), changes.end(), [&](const ChangedJob& c) { return c.flag == change.flag; });
    if (!known) changes.push_back(std::move(change));
  }
  return changes;
}

double usd_per_token(const Problem& problem, const Estimate& e) {
  return e.tokens_per_s > 0 ? problem.cluster.gpu.price_per_hour * problem.gpus / e.tokens_per_s : 0;
}

}  // namespace

std::optional<Advice> worth(const ChangedJob& change, const Problem& asked, const Plan& plan, double least,
                            std::int64_t families) {
  Problem problem = change.problem;
  problem.top = 1, problem.pareto = false;
  const Estimate& own = plan.fastest ? *plan.fastest : plan.best;
  const double tokens = static_cast<double>(problem.training.tokens_per_step());
  const RunnableSearch found =
      find_faster(problem, Seconds(tokens / own.tokens_per_s / (1 + least) * (1 + 1e-9)), families);
  if (found.result.ranking.best().empty()) return std::nullopt;
  const Candidate& fastest = found.result.ranking.best().front();
  Advice out{change.flag, with_switches(found.problem, fastest.switched), estimate(found.problem, fastest), 0, {}};
  out.faster = out.fastest.tokens_per_s / own.tokens_per_s - 1;
  Problem paid = plan.problem;
  paid.gpus = asked.gpus;
  const double before = usd_per_token(paid, own), after = usd_per_token(found.problem, out.fastest);
  if (before > 0 && after > 0) out.cheaper = 1 - after / before;
  return out;
}

namespace {

/// The best of changes of one kind, if it is worth saying: sooner, or cheaper.
void offer(std::vector<Advice>& all, const Changes& changes, const Problem& asked, const Plan& plan) {
  const auto tried = [&](const ChangedJob& change, const std::optional<Advice>& best) {
    std::optional<Advice> one = worth(change, asked, plan, best ? best->faster : kWorthSaying);
    const bool better = one && one->faster >= kWorthSaying && (!best || one->faster > best->faster);
    return better ? std::move(one) : std::nullopt;
  };
  offer_best(all, changes, tried, [](const Advice&) { return false; });
}

}  // namespace

std::vector<Advice> advice(const Problem& asked, const Plan& plan) {
  std::vector<Advice> all;
  const bool graphs = (turnable_switches(asked) & kSwitchGraphs) != 0;  // the search tries them itself
  for (const Changes& changes :
       {near_batches(asked), Changes{with_batch(asked, 2 * asked.training.global_batch)}, better_numbers(asked),
        more_memory(asked), other_precisions(asked), narrower_states(asked), offloads(asked), other_messages(asked),
        graphs ? Changes{} : graph_launches(asked)})
    offer(all, changes, asked, plan);
  for (const Changes& each : {freed_axes(asked), next_kinds(asked)})
    for (const ChangedJob& change : each) offer(all, {change}, asked, plan);
  std::stable_sort(all.begin(), all.end(), [](const Advice& a, const Advice& b) { return a.faster > b.faster; });
  return all;
}

}  // namespace plan
