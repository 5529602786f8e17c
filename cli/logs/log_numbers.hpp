#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "formulas/real_bytes.hpp"

namespace plan {

/// The number at the start of `text`, spaces before it passed over: "1,234.5", "1.2K", "45.67GiB", "1E-3".
[[nodiscard]] std::optional<double> number_at(std::string_view text);

/// The number right behind `key`. A key counts where a word begins.
[[nodiscard]] std::optional<double> number_after(std::string_view line, std::string_view key);

/// A progress bar of tqdm: " 50%|#####     | 10/20 [00:50<00:50,  5.00s/it]".
struct Bar {
  std::int64_t steps = 0;  ///< of the whole bar
  double seconds = 0;      ///< a step
};

/// The bar on a line, if it has no description: the Trainer's own has none, those of loading, tokenizing and saving do.
/// What a launcher puts before a line holds a digit or ends in a bracket: "[rank0]:", "12:", "node7:".
[[nodiscard]] std::optional<Bar> bar_on(std::string_view line);

/// "2.00 GiB", "512.00 MiB" behind `key`; 0 where it is not said.
[[nodiscard]] RealBytes bytes_after(std::string_view line, std::string_view key);

/// What is printed before `words`, which PyTorch puts behind a figure: "70.10 GiB is allocated by PyTorch".
[[nodiscard]] RealBytes bytes_before(std::string_view line, std::string_view words);

}  // namespace plan
