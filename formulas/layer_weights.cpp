// Shares of a weight on one rank (plan-formulas(7) A1, C2). Tested by
// tests/formulas/parameters_test.cpp and, against published totals, tests/presets.
#include "formulas/layer_weights.hpp"

namespace plan {

/// Ranks that share the weight's split side.
double Weight::shared_by(int tp, int etp) const {
  switch (spread) {
    case Spread::Whole:
    case Spread::ExpertWhole: return 1;
    case Spread::Expert: return etp;
    case Spread::Tensor: return tp;
  }
  return 1;
}

double Weight::rows_on_rank(int tp, int etp) const {
  const double rows = static_cast<double>(out) / (second ? 1 : shared_by(tp, etp));
  if (kv_out == 0) return rows;
  const auto heads = static_cast<double>(kv_heads), head = static_cast<double>(kv_out / kv_heads);
  return rows + shared_heads_on_rank<double>(heads, head, tp);
}

double Weight::columns_on_rank(int tp, int etp) const {
  if (!matrix()) return 1;
  return static_cast<double>(in) / (second ? shared_by(tp, etp) : 1);
}

}  // namespace plan
