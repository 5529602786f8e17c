// How many layouts a family has, and how many of them each rule rejects. Tested by tests/planner/space_test.cpp.
#include "planner/search/family_search.hpp"

namespace plan {

std::int64_t FamilySearch::layouts_of(const Layout& run, const ShardingList& shardings, Tally& tally) {
  tally.merge(shardings.tally);
  if (shardings.all.empty()) return 0;
  const std::size_t layouts = recomputing_of(run).all.size() * shardings.all.size();
  if (layouts == 0)  // the one recomputation that the user fixed
    tally.reject(broken_rule(problem_, problem_.fixed.recompute.value_or(Recompute{})),
                 static_cast<std::int64_t>(shardings.all.size()));
  return static_cast<std::int64_t>(layouts);
}

const Counted& FamilySearch::counted(const Layout& family) {
  std::optional<Counted>& known = lists_.counted();
  if (known) return *known;
  known.emplace();
  const RunList& runs = lists_.runs(family, inner_);
  known->tally.merge(runs.tally);
  for (const Pipelining& run : runs.all) {
    const Layout layout = run_of(problem_, family, run);
    known->legal += layouts_of(layout, lists_.of(layout, inner_), known->tally);
  }
  return *known;
}

/// Where the best alone is asked for, what counts is whether anything is legal.
void FamilySearch::count(const Layout& family, Fate fate) {
  if (plainest_ || (extent_.best_alone && legal_)) return;
  const Counted& all = counted(family);
  outcome_->tally.merge(all.tally);
  count(all.legal, fate);
  legal_ |= all.legal > 0;
}

bool FamilySearch::counts_alone(const Costed& family, const Kept& kept) {
  if (family.costs == nullptr) return true;
  FamilyOutcome none{Kept(problem_)};
  kept_ = &kept, plainest_.reset(), outcome_ = &none;
  vp_ = 0, twins_.assign(1, {Seconds::infinity(), RealBytes::infinity()});
  return hopeless(family.layout, family.bound.any, {}, 0) && hopeless(family.layout, family.bound.any, {}, wanted_);
}

void FamilySearch::count(const Costed& family, std::int64_t families, FamilyOutcome& outcome) {
  outcome_ = &outcome;
  turn_to(family.layout);
  const Counted& all = counted(family.layout);
  outcome.tally.merge(all.tally, families);
  count(families * all.legal, family.costs == nullptr ? Fate::TooBig : Fate::Pruned);
}

}  // namespace plan
