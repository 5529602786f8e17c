// Numbers as people type them. Tested by tests/cli/numbers_test.cpp.
#include "cli/terminal/numbers.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <optional>
#include <string>

#include "cli/terminal/format.hpp"
#include "cli/terminal/number_words.hpp"
#include "cli/terminal/words.hpp"
#include "formulas/text.hpp"
#include "presets/quantity.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

constexpr std::int64_t kMostSequences = 100'000'000;

/// A number and the letter behind it.
struct Lettered {
  double number = 0;
  char letter = 0;  ///< upper case; 0 if none
};

std::optional<Lettered> split_letter(std::string_view text) {
  Lettered out;
  if (!text.empty() && std::isalpha(static_cast<unsigned char>(text.back())) != 0) {
    out.letter = upper_case(text.back());
    text.remove_suffix(1);
  }
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  const std::optional<double> number = parse_number(text);
  if (!number) return std::nullopt;
  out.number = *number;
  return out;
}

std::optional<double> power(char letter, double base) {
  switch (letter) {
    case 0: return 1;
    case 'K': return base;
    case 'M': return base * base;
    case 'B':
    case 'G': return base * base * base;
    case 'T': return base * base * base * base;
    default: return std::nullopt;
  }
}

/// What the letters behind a count stand for: `8k` and `8Ki` are 8192.
struct CountUnit {
  std::string_view letters;
  double size;
};
constexpr CountUnit kCountUnits[] = {{"ki", 1024}, {"mi", 1024 * 1024}, {"k", 1024}, {"m", 1024 * 1024}};

CountUnit unit_behind(std::string_view text) {
  for (const CountUnit& unit : kCountUnits) {
    if (text.size() <= unit.letters.size()) continue;
    if (same_but_for_case(text.substr(text.size() - unit.letters.size()), unit.letters)) return unit;
  }
  return {"", 1};
}

/// `1.000` and `2.048` without their points, which part thousands in some countries; empty if they part none.
std::string without_points(std::string_view text) {
  std::string plain;
  const std::vector<std::string_view> groups = split(text, ".");
  for (const std::string_view group : groups) {
    const bool digits = !group.empty() && group.find_first_not_of("0123456789") == std::string_view::npos;
    if (!digits || (plain.empty() ? group.size() > 3 || group.front() == '0' : group.size() != 3)) return {};
    plain += group;
  }
  return groups.size() > 1 ? plain : std::string();
}

/// The power of two that people call so many thousands, as 131072 is `131k`: another number than so many times 1024. 0:
/// there is none.
std::int64_t called_thousands(double number) {
  for (std::int64_t power = std::int64_t{1} << 15; power <= std::int64_t{1} << 30; power *= 2) {
    const double thousands = static_cast<double>(power) / 1000;
    const bool called = number == std::floor(thousands) || number == std::round(thousands);
    if (called && number * 1024 != static_cast<double>(power)) return power;
  }
  return 0;
}

bool power_of_two(double value) { return value >= 1 && std::exp2(std::round(std::log2(value))) == value; }

/// The two counts around `sequences` that split well: multiples of 64 where that is near, else whole numbers.
std::vector<std::string> near_batches(double sequences, std::int64_t seq) {
  const double unit = sequences >= 640 ? 64 : 1;
  std::vector<std::string> help;
  for (const double count : {std::floor(sequences / unit) * unit, std::ceil(sequences / unit) * unit})
    if (count >= 1)
      help.push_back(
          fmt::format("--global-batch {:<10.0f} {} tokens", count, count_text(count * static_cast<double>(seq))));
  return help;
}

Result<std::int64_t> from_tokens(std::string_view text, std::string_view amount, std::int64_t seq) {
  const bool binary = amount.size() > 1 && (amount.back() == 'i');
  const std::optional<Lettered> parsed = split_letter(binary ? amount.substr(0, amount.size() - 1) : amount);
  const std::optional<double> size =
      parsed ? power(parsed->letter, binary || power_of_two(parsed->number) ? 1024 : 1000) : std::nullopt;
  if (!size || !(parsed->number > 0))
    return fail(number_error({"bad_number",
                              fmt::format("`--global-batch` needs a number of sequences or tokens, got `{}`", text),
                              {},
                              {"write `2048` or `16M tokens`"}},
                             "--global-batch", text, false,
                             [&](const std::string& plain) { return read_global_batch(plain, seq); }));
  const double sequences = parsed->number * *size / static_cast<double>(seq);
  if (sequences > static_cast<double>(kMostSequences))
    return fail({"out_of_range", fmt::format("`--global-batch {}` is more than {} sequences", text, kMostSequences)});
  if (sequences != std::floor(sequences) || sequences < 1)
    return fail(
        {"uneven_batch",
         fmt::format("{} tokens are {} sequences of {}, not a whole number", amount, number_text(sequences, 8), seq),
         {},
         near_batches(sequences, seq)});
  return static_cast<std::int64_t>(sequences);
}

/// A count of sequences. Millions and more are tokens with the word left out.
Result<std::int64_t> read_batch(std::string_view text, std::int64_t seq) {
  const std::string_view number = text.ends_with('i') ? text.substr(0, text.size() - 1) : text;
  const bool many = !number.empty() && std::string_view("mMbBgGtT").find(number.back()) != std::string_view::npos;
  if (!many || !split_letter(number)) return read_count("--global-batch", text, 1, kMostSequences);
  const Result<std::int64_t> sequences = from_tokens(text, text, seq);
  std::vector<std::string> help =
      sequences ? std::vector{fmt::format("tokens: `--global-batch '{} tokens'`, which are {} sequences of {}", text,
                                          *sequences, seq)}
                : sequences.error().front().help;
  help.emplace_back("sequences: write their number in full");
  return fail(
      {"bad_number", fmt::format("`--global-batch {}` counts sequences or tokens?", text), {}, std::move(help)});
}

}  // namespace

Result<std::int64_t> read_count(std::string_view flag, std::string_view text, std::int64_t least, std::int64_t most) {
  const CountUnit unit = unit_behind(text);
  const std::string shown = yaml::printable(text);
  const std::optional<double> number = parse_number(text.substr(0, text.size() - unit.letters.size()));
  const double value = number.value_or(0) * unit.size;
  if (number && value < static_cast<double>(least))
    return fail({"out_of_range", fmt::format("`{}` must be at least {}, got `{}`", flag, least, shown)});
  if (number && value > static_cast<double>(most))
    return fail({"out_of_range", fmt::format("`{}` must be at most {}, got `{}`", flag, most, shown)});
  Error error{"bad_number", fmt::format("`{}` needs a whole number, got `{}`", flag, shown)};
  const bool whole = number && value == std::floor(value);
  if (const std::string plain = without_points(text); !plain.empty() && read_count(flag, plain, least, most)) {
    error.help.push_back(write_number(flag, plain));
    if (whole) error.help.push_back(write_number(flag, fmt::format("{:.0f}", value)));
    return fail(std::move(error));
  }
  if (const std::int64_t power = number ? called_thousands(*number) : 0;
      power > 0 && same_but_for_case(unit.letters, "k") && power <= most) {
    error.message = fmt::format("`{} {}` is {} or {:.0f}?", flag, text, power, value);
    error.help = {write_number(flag, fmt::format("{}k", power / 1024)),
                  write_number(flag, fmt::format("{:.0f}", value))};
    return fail(std::move(error));
  }
  if (whole) return static_cast<std::int64_t>(value);
  // Thousands times 1024 that are no whole number may be whole in thousands: `131.072k`.
  const double decimal = number.value_or(0) * (unit.size > 1024 ? 1e6 : 1e3), rounded = std::round(decimal);
  if (number && !unit.letters.empty() && unit.letters.back() != 'i' && std::fabs(decimal - rounded) < 1e-6 &&
      rounded >= static_cast<double>(least) && rounded <= static_cast<double>(most)) {
    error.help.push_back(write_number(flag, fmt::format("{:.0f}", rounded)));
    return fail(std::move(error));
  }
  return fail(number_error(std::move(error), flag, text, false,
                           [&](const std::string& plain) { return read_count(flag, plain, least, most); }));
}

Result<double> read_amount(std::string_view flag, std::string_view text, double most, std::string_view example) {
  const std::optional<Lettered> parsed = split_letter(text);
  const std::optional<double> size = parsed ? power(parsed->letter, 1000) : std::nullopt;
  if (!size || !(parsed->number > 0) || !std::isfinite(parsed->number * *size)) {
    Error error{
        "bad_number", fmt::format("`{}` needs a positive number such as `{}`, got `{}`", flag, example, text), {}, {}};
    if (flag.ends_with("tokens") && parse_quantity(text, Dimension::Bytes))
      error.help = {"bytes of text are no tokens: a tokenizer says how many they are"};
    error = number_error(std::move(error), flag, text, true,
                         [&](const std::string& plain) { return read_amount(flag, plain, most, example); });
    if (error.help.empty() && flag == "--price") error.help = {"it is in US dollars of a GPU-hour: write their number"};
    return fail(std::move(error));
  }
  if (parsed->number * *size > most)
    return fail({"out_of_range", fmt::format("`{}` must be at most {:g}, got `{}`", flag, most, text)});
  return parsed->number * *size;
}

Result<SliceShape> read_slice_word(std::string_view text) {
  if (const std::optional<SliceShape> shape = read_slice(text)) return *shape;
  std::string meant;  // the same numbers, whatever is between them
  for (const char c : trim(text, " \t[](){}")) {
    const bool digit = c >= '0' && c <= '9';
    if (digit || (!meant.empty() && meant.back() != 'x')) meant += digit ? c : 'x';
  }
  const bool letters = std::any_of(text.begin(), text.end(), [](char c) {
    return lower_case(c) >= 'a' && lower_case(c) <= 'z' && lower_case(c) != 'x';
  });
  return fail(
      Error{"bad_value",
            fmt::format("`--slice {}` is no shape of a slice", yaml::printable(text)),
            {},
            {!letters && read_slice(meant) ? fmt::format("write `--slice {}`", meant) : "write it as 4x8 or 4x4x8"}});
}

Result<std::int64_t> read_global_batch(std::string_view text, std::int64_t seq) {
  const auto before = [&](std::initializer_list<std::string_view> units) -> std::optional<std::string_view> {
    for (const std::string_view unit : units)
      if (text.size() > unit.size() && same_but_for_case(text.substr(text.size() - unit.size()), unit))
        return trim(text.substr(0, text.size() - unit.size()));
    return std::nullopt;
  };
  if (const auto amount = before({"tokens", "token"})) return from_tokens(text, *amount, seq);
  if (const auto count = before({"sequences", "sequence", "seqs", "samples"}))
    return read_count("--global-batch", *count, 1, kMostSequences);
  return read_batch(text, seq);
}

namespace {

/// What a headroom that is none may be meant as, amounts before shares: `80G`, `5 percent`, `0.05`, `4`.
std::vector<std::string> meant_headroom(std::string_view text, const ParsedQuantity& bytes) {
  std::vector<std::string> meant = bytes.instead;
  if (const std::optional<double> number = parse_number(text)) {
    const std::string share = fmt::format("{}%", number_text(*number < 1 ? 100 * *number : *number));
    meant = *number < 1 ? std::vector{share} : std::vector{fmt::format("{}GiB", text), share};
  }
  const ParsedQuantity share = parse_quantity(text, Dimension::Ratio);
  meant.insert(meant.end(), share.instead.begin(), share.instead.end());
  std::vector<std::string> help;
  for (std::string one : meant) {
    std::erase(one, ' ');
    if (one != text && read_headroom(one)) help.push_back(write_number("--headroom", one));
  }
  return help;
}

}  // namespace

Result<Headroom> read_headroom(std::string_view text) {
  Headroom headroom;
  const ParsedQuantity bytes = parse_quantity(text, Dimension::Bytes);
  if (bytes)
    headroom.bytes = bytes.value;
  else if (const ParsedQuantity share = parse_quantity(text, Dimension::Ratio);
           share && (text.ends_with('%') || share.value == 0))
    headroom.share = share.value;
  const bool sane =
      (headroom.bytes && *headroom.bytes >= 0) || (headroom.share && *headroom.share >= 0 && *headroom.share < 1);
  if (sane) return headroom;
  std::vector<std::string> help = meant_headroom(text, bytes);
  if (help.empty()) help.emplace_back("write a share (`5%`), an amount (`4GiB`) or `0`");
  return fail({"bad_number", fmt::format("`--headroom` does not take `{}`", text), {}, std::move(help)});
}

Result<Bytes> read_host_memory(std::string_view text) {
  constexpr double kLeast = 1e9, kMost = 1e15;
  const std::optional<double> bare = parse_number(text);
  const ParsedQuantity parsed =
      parse_quantity(bare ? fmt::format("{} GiB", text) : std::string(text), Dimension::Bytes);
  if (parsed && parsed.value >= kLeast && parsed.value <= kMost) return Bytes(std::llround(parsed.value));
  if (parsed)
    return fail({"out_of_range",
                 fmt::format("`--host-memory {}` is the memory of no node: {} to {} are taken", text,
                             format_quantity(kLeast, Dimension::Bytes), format_quantity(kMost, Dimension::Bytes)),
                 {},
                 {"a bare number counts GiB: `--host-memory 2048`"}});
  Error error{"bad_number", fmt::format("`--host-memory` does not take `{}`", text), {}, {}};
  for (std::string one : parsed.instead) {
    std::erase(one, ' ');
    if (read_host_memory(one)) error.help.push_back(write_number("--host-memory", one));
  }
  if (text.ends_with('x') && parse_number(text.substr(0, text.size() - 1)))
    error.help = {"factors of what the cluster has are swept: `plan sweep --host-memory 0.5x..2x`"};
  if (error.help.empty()) error.help.emplace_back("write the memory of one node: `--host-memory 2TiB`");
  return fail(std::move(error));
}

}  // namespace plan
