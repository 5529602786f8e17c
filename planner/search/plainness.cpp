// What an operator would rather launch of two layouts that the model cannot tell apart in speed.
// Tested by tests/planner/search_test.cpp.
#include "planner/search/plainness.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <tuple>

#include "planner/rules/frameworks.hpp"

namespace plan {
namespace {

/// Sequences below this fit a rank: published recipes split context from 8192 tokens on (NeMo, llama3_70b.py and
/// llama31_405b.py: cp 2 at 8192; its recipes of 2048 and 4096 tokens have none).
constexpr std::int64_t kLongSequence = 8192;

/// Megatron-FSDP in the place of the distributed optimizer is a second way to train, with words and limits of its own.
bool other_engine(const Problem& problem, const Layout& l) {
  return l.zero >= 2 && framework_row(problem.framework).sharded.has_value();
}

int axes(const Problem& problem, const Layout& l) {
  return int(l.tp > 1) + int(l.cp > 1) + int(l.pp > 1) + int(l.ep > 1) + int(other_engine(problem, l));
}

/// How often `parts` have to be halved to be one.
int halvings(std::int64_t parts) {
  return static_cast<int>(std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(parts, 1) - 1)));
}

/// How often groups are halved over what is slower than a scale-up domain: into the domains that tensor and context
/// groups and those of experts reach into. What leaves a domain is what waits, breaks and has to be placed by hand.
int reach(const Problem& problem, const Layout& l) {
  const std::int64_t domain = std::max<std::int64_t>(problem.cluster.scale_up_size(), 1);
  const auto domains = [&](int degree, int inside) { return (std::int64_t{degree} * inside + domain - 1) / domain; };
  return halvings(domains(l.cp, l.tp)) + halvings(domains(l.ep, l.etp));
}

/// Layers divide, or they do with the embedding and the head counted as one layer each.
bool even(int layers, int parts) { return layers % parts == 0 || (layers + 2) % parts == 0; }

bool common(Schedule schedule) { return schedule == Schedule::OneFOneB || schedule == Schedule::Interleaved; }

int recomputing(const Recompute& recompute) {
  if (recompute.kind != RecomputeKind::Full) return static_cast<int>(recompute.kind);
  return recompute.layers == 0 && recompute.uniform <= 1 ? 2 : 3;
}

/// FSDP shards weights unless it is told otherwise, everything else the optimizer's states: what each is made for.
int sharding(const Problem& problem, const Layout& l) {
  const bool fsdp = problem.training.stack.states == StateLayout::Fsdp2;
  const int usual = fsdp ? 3 : 1;
  // Nothing to share out, or not chosen yet. A distributed optimizer is launched as such on one replica, too.
  const bool alone = l.dense_group() == 1 && (fsdp || l.world() == 1), open = l.zero == Layout{}.zero;
  return (alone || open ? 0 : std::abs(l.zero - usual)) + (l.shard > 0 ? 4 : 0);
}

}  // namespace

bool operator<(const Plainness& a, const Plainness& b) {
  return std::tie(a.counts, a.score.peak, a.score.step_time) < std::tie(b.counts, b.score.peak, b.score.step_time);
}

Plainness plainness(const Problem& problem, const Candidate& candidate) {
  const Layout& l = candidate.layout;
  const int layers = problem.model.depth();
  const bool pipeline = l.pp > 1;
  return {{std::popcount(candidate.switched), int(l.order != Layout{}.order), int(pipeline && !even(layers, l.pp)),
           int(pipeline && !even(layers, l.pp * l.vp)), int(candidate.by_hand),
           int(l.recompute.kind == RecomputeKind::Full), int(l.cp > 1 && problem.training.seq < kLongSequence),
           halvings(l.pp) + reach(problem, l), reach(problem, l), axes(problem, l),
           int(pipeline && !common(l.schedule)), int(l.group > 0), int(l.tp > 1 && !l.sequence_parallel),
           int(!std::has_single_bit(static_cast<unsigned>(l.micro_batch))), int(l.cp_kind == CpKind::Hybrid),
           recomputing(l.recompute), sharding(problem, l), l.pp * l.vp},
          candidate.score};
}

bool plainer(const Problem& problem, const Candidate& a, const Candidate& b) {
  const Plainness left = plainness(problem, a), right = plainness(problem, b);
  if (left < right) return true;
  return !(right < left) && better(Objective::StepTime, a, b);
}

}  // namespace plan
