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
  if (among_words("yes on true 1 all", word))
    error.help.push_back(fmt::format("write `--cuda-graphs {}`", kFull));
  else if (among_words("no off false 0", word))
    error.help.push_back(fmt::format("write `--cuda-graphs {}`", kNone));
  else
    suggest(error, word, known);
  error.help.push_back(
      fmt::format("none, full (the whole iteration), or parts: {}", fmt::join(words_of(kGraphScopeNames), "+")));
  return error;
}

/// Parts that do not go together, and those to write in their place.
Error conflict(std::string message, int scopes) {
  const std::string right = cuda_graphs_text({.scopes = static_cast<std::uint16_t>(scopes)});
  return {"conflicting_values", std::move(message), {}, {fmt::format("write `--cuda-graphs {}`", right)}};
}

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
    errors.push_back(
        conflict("`--cuda-graphs moe` holds the router already", out.scopes & ~(kGraphRouter | kGraphPreprocess)));
  else if ((out.scopes & kGraphPreprocess) && !(out.scopes & kGraphRouter))
    errors.push_back(conflict("`--cuda-graphs moe_preprocess` goes with `moe_router`, whose choice it counts",
                              out.scopes | kGraphRouter));
  if (!errors.empty()) return fail(std::move(errors));
  return out;
}

std::string cuda_graphs_text(const CudaGraphs& graphs) {
  if (graphs.iteration) return std::string(kFull);
  std::string text;
  for (const auto& scope : kGraphScopeNames)
    if (graphs.scopes & scope.value) text.append(text.empty() ? "" : "+").append(scope.name);
  return text.empty() ? std::string(kNone) : text;
}

}  // namespace plan
