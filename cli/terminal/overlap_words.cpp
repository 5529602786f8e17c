// --overlap: which messages run beside compute, as words. Tested by tests/cli/overlap_words_test.cpp.
#include "cli/terminal/overlap_words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "cli/terminal/words.hpp"
#include "formulas/overlap.hpp"
#include "formulas/text.hpp"
#include "presets/suggest.hpp"

namespace plan {
namespace {

constexpr std::string_view kNone = "none";

/// What frameworks call the same messages, between blanks.
constexpr std::pair<std::string_view, std::string_view> kOverlapElsewhere[] = {
    {"dp ddp grad gradients data-parallel overlap-grad-reduce grad-reduce reduce-scatter all-reduce allreduce",
     "grads"},
    {"param weights param-gather overlap-param-gather all-gather allgather prefetch", "params"},
    {"fsdp zero zero3 zero-3", "grads+params"},
    {"tensor tp-comm tp-comm-overlap tensor-parallel async-tp userbuffers", "tp"},
    {"pp pipeline p2p-comm overlap-p2p-comm send-recv", "p2p"},
    {"ep moe expert a2a alltoall all-to-all ep-a2a overlap-moe-expert-parallel-comm", "experts"},
    {"all yes on true full", "grads+params+tp+p2p+experts"},
    {"no off false nothing", kNone}};

Error unknown_part(std::string_view text, std::string_view word) {
  std::vector<std::string> known{std::string(kNone)};
  for (const OverlapPart& part : kOverlapParts) known.emplace_back(part.name);
  Error error{"unknown_value", fmt::format("`--overlap` does not know `{}`", word), {}, {}};
  std::string dashed = lowered(std::string(word));
  std::replace(dashed.begin(), dashed.end(), '_', '-');
  for (const auto& [words, meant] : kOverlapElsewhere)
    if (among_words(words, dashed)) {
      error.help.push_back(text == word ? fmt::format("write `--overlap {}`", meant)
                                        : fmt::format("write `{}`", meant));
      return error;
    }
  suggest(error, word, known);
  error.help.push_back(fmt::format("none, or what runs beside compute: {}", overlap_words(kOverlapAll)));
  return error;
}

}  // namespace

Result<Overlap> read_overlap(std::string_view text) {
  if (text == kNone) return Overlap{};
  Errors errors;
  unsigned parts = 0;
  for (const std::string_view word : split(text, "+")) {
    const auto* part = std::find_if(std::begin(kOverlapParts), std::end(kOverlapParts),
                                    [&](const OverlapPart& row) { return row.name == word; });
    if (part == std::end(kOverlapParts))
      errors.push_back(unknown_part(text, word));
    else
      parts |= part->bit;
  }
  if (!errors.empty()) return fail(std::move(errors));
  return Overlap{static_cast<std::uint8_t>(parts)};
}

}  // namespace plan
