// Layers laid as an operator leaves them, where that costs little: a split that balances embedding and head to the last
// layer has to be spelled out, checked and carried along. Tested by tests/planner/search_test.cpp.
#include "planner/search/plain_layers.hpp"

#include <utility>
#include <vector>

#include "formulas/partition.hpp"
#include "planner/estimate/evaluate.hpp"
#include "planner/memory/memory.hpp"

namespace plan {

Candidate plainly_laid(const Problem& problem, const CostModel& costs, Candidate candidate, const Allowance& allowance,
                       RealBytes capacity, RealBytes host) {
  if (candidate.layout.pp == 1 || !candidate.layout.chunk_layers.empty()) return candidate;
  Candidate plain = candidate;
  candidate.by_hand = true;
  Layout& layout = plain.layout;
  layout.chunk_layers = plain_chunks(problem.model.depth(), static_cast<int>(layout.chunks()));
  if (layout.chunk_layers.empty()) return candidate;
  Evaluator evaluator(problem, costs, candidate.layout);
  if (evaluator.stages().chunk_layers == layout.chunk_layers) {
    candidate.by_hand = false;
    return candidate;
  }
  plain.runs_on = accepting(problem, layout, candidate.runs_on);
  if (plain.runs_on == 0 || broken_rule(problem, layout) >= 0) return candidate;
  evaluator.place(layout);
  const MemoryModel memory(problem, layout);
  evaluator.recompute(layout.recompute);
  const Terms terms = evaluator.step_terms(layout, memory);
  plain.score = {terms.total(), evaluator.peak_memory(layout, memory)};
  if (host < RealBytes::infinity() && evaluator.host_memory(layout, memory) > host) return candidate;
  return plain.score.peak <= capacity && allowance.allows(plain.score.step_time, terms) ? plain : candidate;
}

}  // namespace plan
