// --cuda-graphs: which parts of a step graphs launch, as words. Tested by tests/cli/cuda_graphs_test.cpp.
#include "cli/terminal/cuda_graphs.hpp"

#include <fmt/format.h>

#include <optional>
#include <utility>
#include <vector>

#include "cli/terminal/words.hpp"
#include "presets/suggest.hpp"

namespace plan {
namespace {

constexpr std::string_view kNone = "none", kFull = "full";

Error unknown_scope(std::string_view word) {
  std::vector<std::string> known = words_of(kGraphScopeNames);
  known.insert(known.begin(), {std::string(kNone), std::string(kFull)});
  Error error{"unknown_value", fmt::format("`--cuda-graphs` does not know `{}`", word), {}, {}};
  suggest(error, word, known);
  error.help.push_back(
      fmt::format("none, full (the whole iteration), or parts: {}", fmt::join(words_of(kGraphScopeNames), "+")));
  return error;
}

Error conflict(std::string message) { return {"conflicting_values", std::move(message), {}, {}}; }

}  // namespace

Result<CudaGraphs> read_cuda_graphs(std::string_view text) {
  CudaGraphs out;
  if (text == kNone) return out;
  if (text == kFull) return CudaGraphs{.iteration = true};
  Errors errors;
  for (const std::string_view word : split(text, "+")) {
    if (const std::optional<GraphScope> scope = parse(kGraphScopeNames, word))
      out.scopes = static_cast<std::uint16_t>(out.scopes | *scope);
    else
      errors.push_back(unknown_scope(word));
  }
  if ((out.scopes & kGraphExperts) && (out.scopes & (kGraphRouter | kGraphPreprocess)))
    errors.push_back(conflict("`--cuda-graphs moe` holds the router already"));
  if ((out.scopes & kGraphPreprocess) && !(out.scopes & kGraphRouter))
    errors.push_back(conflict("`--cuda-graphs moe_preprocess` goes with `moe_router`, whose choice it counts"));
  if (!errors.empty()) return fail(std::move(errors));
  return out;
}

}  // namespace plan
