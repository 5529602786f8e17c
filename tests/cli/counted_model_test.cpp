#include <doctest/doctest.h>

#include "cli/request/resolve.hpp"
#include "formulas/parameters.hpp"

namespace plan {

TEST_CASE("a sequence longer than the positions that a model learned has rows for all its tokens") {
  const auto resolved = [](const char* model, const char* seq) {
    Args args;
    args.model = model, args.seq = seq, args.gpus = "8";
    return resolve_problem(args).value();
  };
  for (const char* model : {"gpt2-xl", "gpt3-175b", "opt-1.3b"}) {
    CAPTURE(model);
    const Problem usual = resolved(model, "1024");
    const Problem longer = resolved(model, "8192");
    CHECK(longer.model.positions == 8192);
    CHECK(model_parameters(longer.model).total - model_parameters(usual.model).total ==
          (8192 - usual.model.positions) * usual.model.hidden);
    const auto told = [](const Problem& problem) {
      int count = 0;
      for (const Note& note : problem.notes) count += note.code == "positions_added";
      return count;
    };
    CHECK(told(usual) == 0);
    CHECK(told(longer) == 1);
  }
  CHECK(resolved("llama3-8b", "1M").model.positions == 0);  // rotary ones have no table
}

}  // namespace plan
