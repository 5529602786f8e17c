// The terms of a step under the words that tables and `plan explain` use. Tested by tests/cli/explain_test.cpp.
#include "cli/explain/term_names.hpp"

namespace plan {

std::vector<NamedTerm> named_terms(const Terms& t) {
  return {{"compute", t.compute, "compute"},
          {"recompute", t.recompute, "recompute"},
          {"tp exposed", t.tp, "tp"},
          {"cp exposed", t.cp, "cp"},
          {"ep exposed", t.ep, "ep"},
          {"pp exposed", t.pp, "pp"},
          {"dp exposed", t.dp, "dp"},
          {"bubble", t.bubble, "bubble"},
          {"optimizer", t.optimizer, "optimizer_step"},
          {"stragglers", t.straggler, "straggler"}};
}

}  // namespace plan
