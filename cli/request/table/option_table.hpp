#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/request/table/args.hpp"
#include "cli/request/table/command_table.hpp"

namespace plan {

/// What a shell offers after the flag.
enum class Complete : std::uint8_t { Nothing, File, Words, Models, Gpus, Clusters };

/// One flag. This row is its help, its completion, its line in the manual (checked by a test) and its parser.
struct Option {
  std::string_view flag;      ///< "--model"
  char letter;                ///< 'o', or 0
  std::string_view argument;  ///< "NAME|FILE"; empty for a switch
  std::string_view group;     ///< heading in the help
  std::string_view help;      ///< one line
  std::string_view more;      ///< further lines of `--help`
  Complete complete;
  std::uint16_t verbs;
  std::vector<std::string> (*words)() = nullptr;  ///< what `Complete::Words` offers and the parser accepts
  Args::Text Args::*value = nullptr;
  std::vector<std::string> Args::*values = nullptr;
  bool Args::*on = nullptr;

  [[nodiscard]] constexpr bool takes_value() const { return on == nullptr; }
  [[nodiscard]] constexpr bool takes_number() const { return argument == "N" || argument == "USD"; }
};

[[nodiscard]] std::span<const Option> options();

/// The row of a flag, nullptr if there is none.
[[nodiscard]] const Option* find_option(std::string_view flag);
/// The row of the flag that states an input of a report, nullptr if none does: `--KEY`, of `price_per_hour` `--price`.
[[nodiscard]] const Option* option_of(std::string_view key);

}  // namespace plan
