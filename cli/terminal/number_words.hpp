#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formulas/result.hpp"

namespace plan {

/// What a number may be meant as that people write in other ways than this command line takes: `2,048`, `15 trillion
/// tokens`, `$2.50/h`, `2,5`, `64 GPUs`. The likeliest first; whether one is taken is for the reader to say. Words of a
/// unit are left out where `counted`, a flag or a unit of limits, counts in them. `decimal`: letters are powers of 1000
/// to that reader.
[[nodiscard]] std::vector<std::string> plain_numbers(std::string_view counted, std::string_view text, bool decimal);

/// "write `--gpus 64`", and without the flag where the text is no word of its own behind one.
[[nodiscard]] std::string write_number(std::string_view flag, std::string_view number);

/// The error of a text that is no number, with the first that `reads` takes of what it may be meant as. Where none is
/// taken, and one for another fault, as out of range, that is its error.
template <class Reads>
[[nodiscard]] Error number_error(Error error, std::string_view flag, std::string_view text, bool decimal,
                                 const Reads& reads) {
  std::optional<Error> other;
  for (const std::string& number : plain_numbers(flag, text, decimal)) {
    if (number == text) continue;
    const auto read = reads(number);
    if (read) {
      error.help = {write_number(flag, number)};
      return error;
    }
    if (!other && read.error().front().code != error.code) other = read.error().front();
  }
  return other.value_or(std::move(error));
}

}  // namespace plan
