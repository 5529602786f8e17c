// `--bf16-layers FIRST,LAST`: the layers that an fp8 or fp4 training leaves in bf16, in and out. Tested by
// tests/cli/bf16_layers_test.cpp.
#include "cli/terminal/bf16_layers.hpp"

#include <fmt/core.h>

#include <cstdint>

#include "cli/terminal/numbers.hpp"

namespace plan {

Result<Bf16Layers> read_bf16_layers(std::string_view text) {
  constexpr std::int64_t kMost = 1'000'000;  // deeper than any model
  const std::size_t comma = text.find(',');
  if (comma == std::string_view::npos || text.find(',', comma + 1) != std::string_view::npos)
    return fail(
        {"bad_value",
         fmt::format("`--bf16-layers {}` does not say how many layers at the start and how many at the end", text),
         {},
         {"write it as `--bf16-layers 1,1`"}});
  const Result<std::int64_t> first = read_count("--bf16-layers", std::string(text.substr(0, comma)), 0, kMost);
  if (!first) return fail(first.error());
  const Result<std::int64_t> last = read_count("--bf16-layers", std::string(text.substr(comma + 1)), 0, kMost);
  if (!last) return fail(last.error());
  return Bf16Layers{.first = static_cast<int>(*first), .last = static_cast<int>(*last)};
}

std::string bf16_layers_text(const Bf16Layers& layers) { return fmt::format("{},{}", layers.first, layers.last); }

}  // namespace plan
