// Numbers as people type them. Tested by tests/cli/numbers_test.cpp.
#include "cli/terminal/numbers.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <optional>
#include <string>

#include "cli/terminal/format.hpp"
#include "formulas/text.hpp"
#include "presets/quantity.hpp"

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

/// What to write for a number with separators of thousands; nothing if it has none.
std::vector<std::string> without_separators_of(std::string_view flag, std::string_view text) {
  const std::optional<std::string> plain = without_separators(text);
  if (!plain) return {};
  const bool alone = flag.starts_with("--") && flag.find(' ') == std::string_view::npos;
  return {fmt::format("write `{}{}{}`", alone ? flag : "", alone ? " " : "", *plain)};
}

tl::unexpected<Errors> not_a_count(std::string_view flag, std::string_view text) {
  return fail({"bad_number",
               fmt::format("`{}` needs a whole number, got `{}`", flag, text),
               {},
               without_separators_of(flag, text)});
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
    if (alike(text.substr(text.size() - unit.letters.size()), unit.letters)) return unit;
  }
  return {"", 1};
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
  const std::optional<std::string> plain = without_separators(text);
  const std::optional<Lettered> parsed = split_letter(binary ? amount.substr(0, amount.size() - 1) : amount);
  const std::optional<double> size =
      parsed ? power(parsed->letter, binary || power_of_two(parsed->number) ? 1024 : 1000) : std::nullopt;
  if (!size || !(parsed->number > 0))
    return fail({"bad_number",
                 fmt::format("`--global-batch` needs a number of sequences or tokens, got `{}`", text),
                 {},
                 plain ? std::vector{fmt::format("write `--global-batch '{}'`", *plain)}
                       : std::vector<std::string>{"write `2048` or `16M tokens`"}});
  const double sequences = parsed->number * *size / static_cast<double>(seq);
  if (sequences > static_cast<double>(kMostSequences))
    return fail({"bad_number", fmt::format("`--global-batch {}` is more than {} sequences", text, kMostSequences)});
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
  const std::optional<double> number = parse_number(text.substr(0, text.size() - unit.letters.size()));
  if (!number) return not_a_count(flag, text);
  const double value = *number * unit.size;
  if (value < static_cast<double>(least))
    return fail({"out_of_range", fmt::format("`{}` must be at least {}, got `{}`", flag, least, text)});
  if (value > static_cast<double>(most))
    return fail({"out_of_range", fmt::format("`{}` must be at most {}, got `{}`", flag, most, text)});
  if (value != std::floor(value)) return not_a_count(flag, text);
  return static_cast<std::int64_t>(value);
}

Result<double> read_amount(std::string_view flag, std::string_view text, double most, std::string_view example) {
  const std::optional<Lettered> parsed = split_letter(text);
  const std::optional<double> size = parsed ? power(parsed->letter, 1000) : std::nullopt;
  if (!size || !(parsed->number > 0) || !std::isfinite(parsed->number * *size))
    return fail({"bad_number",
                 fmt::format("`{}` needs a positive number such as `{}`, got `{}`", flag, example, text),
                 {},
                 without_separators_of(flag, text)});
  if (parsed->number * *size > most)
    return fail({"out_of_range", fmt::format("`{}` must be at most {:g}, got `{}`", flag, most, text)});
  return parsed->number * *size;
}

Result<std::int64_t> read_global_batch(std::string_view text, std::int64_t seq) {
  constexpr std::string_view kTokens = "tokens";
  if (text.size() <= kTokens.size() || text.substr(text.size() - kTokens.size()) != kTokens)
    return read_batch(text, seq);
  std::string_view amount = text.substr(0, text.size() - kTokens.size());
  while (!amount.empty() && amount.back() == ' ') amount.remove_suffix(1);
  return from_tokens(text, amount, seq);
}

Result<Headroom> read_headroom(std::string_view text) {
  Headroom headroom;
  if (const ParsedQuantity bytes = parse_quantity(text, Dimension::Bytes); bytes)
    headroom.bytes = bytes.value;
  else if (const ParsedQuantity share = parse_quantity(text, Dimension::Ratio);
           share && (text.ends_with('%') || share.value == 0))
    headroom.share = share.value;
  const bool sane =
      (headroom.bytes && *headroom.bytes >= 0) || (headroom.share && *headroom.share >= 0 && *headroom.share < 1);
  const std::optional<std::string> plain = without_separators(text);
  if (!sane)
    return fail({"bad_number",
                 fmt::format("`--headroom` does not take `{}`", text),
                 {},
                 plain ? std::vector{fmt::format("write `--headroom {}`", *plain)}
                       : std::vector<std::string>{"write a share (`5%`), an amount (`4GiB`) or `0`"}});
  return headroom;
}

}  // namespace plan
