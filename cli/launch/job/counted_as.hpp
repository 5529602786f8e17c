#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/launch/job/job_builder.hpp"

/// Keys that a framework knows and whose other values change time or memory in a way that nothing here prices.
namespace plan {

/// A key that is counted as if it had one of the plain values, and what is said where it has another.
struct CountedAs {
  std::string_view key;
  std::string_view plain;  ///< values that change nothing, between blanks; numbers by their size
  std::string_view what;
};

/// The words of a list, or the one value.
[[nodiscard]] std::vector<std::string> words_of(const Setting& setting);
[[nodiscard]] bool is_plain(std::string_view word, std::string_view plain);
/// Names the key in the first lines of the answer where its value is none of the plain ones; whether it did.
bool tell_counted_as(JobBuilder& builder, const CountedAs& row);

/// A setting of Megatron core, or of the trainers around it, by the last part of its key, which tools hand on under
/// sections of their own; null: none that is counted in one way only.
[[nodiscard]] const CountedAs* counted_setting(std::string_view name);

}  // namespace plan
