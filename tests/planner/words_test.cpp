// Words of a layout that cannot go together, against all that could: a number of layers for each chunk is possible
// where some pp and some vp have as many chunks.
#include "planner/rules/words.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <optional>

#include "oracle/random_problem.hpp"

using namespace plan;

namespace {

bool refused(const Problem& problem, const char* word) {
  const Errors errors = meaningless_words(problem, problem.fixed);
  return std::any_of(errors.begin(), errors.end(), [&](const Error& error) {
    return error.code == "meaningless_word" && error.message.starts_with(std::string("`") + word);
  });
}

bool some_grid(const std::optional<int>& pp, const std::optional<int>& vp, int chunks) {
  for (int p = 1; p <= chunks; ++p)
    for (int v = 1; v <= chunks; ++v)
      if (pp.value_or(p) == p && vp.value_or(v) == v && p * v == chunks) return true;
  return false;
}

}  // namespace

TEST_CASE("layers are refused where no pipeline has as many chunks, and only there") {
  constexpr int kDepth = 12;
  Problem problem;
  problem.model = oracle::dense_model(kDepth, 1024, 8, 8, 4096, 32000);
  problem.gpus = 64;
  int possible = 0, not_possible = 0;
  for (int chunks = 1; chunks <= kDepth; ++chunks)
    for (int pp = 0; pp <= 6; ++pp)
      for (int vp = 0; vp <= 6; ++vp) {
        problem.fixed = {};
        if (pp > 0) problem.fixed.pp = pp;
        if (vp > 0) problem.fixed.vp = vp;
        problem.fixed.chunk_layers.emplace(static_cast<std::size_t>(chunks), 1);
        problem.fixed.chunk_layers->back() += kDepth - chunks;
        CAPTURE(chunks);
        CAPTURE(pp);
        CAPTURE(vp);
        const bool some = some_grid(problem.fixed.pp, problem.fixed.vp, chunks);
        CHECK(refused(problem, "layers=") == !some);
        (some ? possible : not_possible)++;
        problem.fixed.chunk_layers->front() += 1;
        CHECK(refused(problem, "layers="));
      }
  CHECK(possible > 50);
  CHECK(not_possible > 50);
}
