// What of the model is counted otherwise than its file states it, each with a note. Tested by
// tests/cli/counted_model_test.cpp.
#include <fmt/format.h>

#include "cli/request/draft.hpp"
#include "cli/terminal/format.hpp"
#include "formulas/parameters.hpp"

namespace plan {

void tell_left_out(Draft& draft) {
  if (const std::string& parts = draft.request.left_out; !parts.empty())
    draft.problem.notes.push_back(
        {"parts_left_out",
         fmt::format("{} of the model's file is not counted: the language model is, in the job's precision", parts)});
  const auto extra = static_cast<double>(draft.problem.model.extra_parameters);
  if (extra < 1e-3 * static_cast<double>(model_parameters(draft.problem.model).total)) return;
  draft.problem.notes.push_back(
      {"parts_left_out",
       fmt::format("{} parameters beside the language model (towers of images or the like) are not counted: {:.2g} GiB "
                   "frozen, {:.2g} GiB trained by Adam on one GPU",
                   count_text(extra), 2 * extra / kGiB, 16 * extra / kGiB)});
}

void learn_positions(Draft& draft) {
  std::int64_t& positions = draft.problem.model.positions;
  const std::int64_t seq = draft.problem.training.seq;
  if (positions == 0 || positions >= seq) return;
  draft.problem.notes.push_back(
      {"positions_added",
       fmt::format("the model learns {} positions: counted are those of all {} tokens of a sequence", positions, seq)});
  positions = seq;
}

}  // namespace plan
