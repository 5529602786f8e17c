// Numbers in other people's writing. Tested by tests/cli/numbers_test.cpp.
#include "cli/terminal/number_words.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <optional>

#include "cli/terminal/words.hpp"
#include "formulas/text.hpp"
#include "presets/quantity.hpp"

namespace plan {
namespace {

/// Words of a flag's unit or of a limit's, between commas: they add nothing behind its number.
struct Unit {
  std::string_view counted, words;
};
constexpr Unit kUnits[] = {
    {"seq,tokens", "tokens,token"},
    {"global-batch", "sequences,sequence,seqs,seq,samples,sample,examples"},
    {"gpus,spares", "gpus,gpu,devices,chips,cards,accelerators"},
    {"threads", "threads,cores"},
    {"deadline", "days,day,d"},
    {"price,price_per_hour",
     "usd,$,us$,dollars,dollar,usd/h,$/h,usd/hr,$/hr,usd/hour,$/hour,/h,/hr,/hour,per hour,usd/gpu-hour"},
    {"layers,recompute", "layers,layer"},
    {"layout", "gpus,gpu,ranks,x,way,ways,-way,-ways"},
    {"tokens/s", "tokens/s,tok/s,toks/s,token/s,tokens/sec,tokens/second,tokens per second,tps,t/s,tokens"},
    {"GPU-hours", "gpu-hours,gpu-hour,gpu hours,gpu-h,gpuh,hours,h"},
    {"USD", "usd,$,us$,dollars,dollar"}};

struct Size {
  std::string_view word;
  char letter;
  double size;
};
constexpr Size kSizes[] = {{"thousand", 'K', 1e3},   {"million", 'M', 1e6}, {"millions", 'M', 1e6},
                           {"mio", 'M', 1e6},        {"mn", 'M', 1e6},      {"billion", 'B', 1e9},
                           {"billions", 'B', 1e9},   {"bn", 'B', 1e9},      {"trillion", 'T', 1e12},
                           {"trillions", 'T', 1e12}, {"tn", 'T', 1e12},     {"trn", 'T', 1e12}};

bool among(std::string_view words, std::string_view word) {
  const std::vector<std::string_view> all = split(words, ",");
  return std::any_of(all.begin(), all.end(), [&](std::string_view one) { return same_but_for_case(one, word); });
}

/// "--gpus" as "gpus"; "layers=" and "--layout tp" by their first word.
std::string_view bare(std::string_view flag) {
  flag = trim(flag, "-= ");
  return flag.substr(0, flag.find_first_of(" ="));
}

bool counts_in(std::string_view counted, std::string_view word) {
  return std::any_of(std::begin(kUnits), std::end(kUnits),
                     [&](const Unit& unit) { return among(unit.counted, counted) && among(unit.words, word); });
}

/// The words behind a number without those of the unit that is counted in.
std::string_view without_unit(std::string_view counted, std::string_view words) {
  if (words.empty() || counts_in(counted, words)) return {};
  for (std::size_t at = words.find(' '); at != std::string_view::npos; at = words.find(' ', at + 1))
    if (counts_in(counted, trim(words.substr(at)))) return trim(words.substr(0, at));
  for (std::size_t letters = 1; letters <= 2 && letters < words.size(); ++letters)  // `15Ttokens`, `16Mitokens`
    if (counts_in(counted, words.substr(letters))) return words.substr(0, letters);
  return words;
}

/// `2,5` as `2.5`; other commas part thousands, or the items of a list.
std::string with_point(std::string_view number) {
  std::string out(number);
  const std::size_t comma = out.find(',');
  const std::size_t behind = comma == std::string::npos ? 0 : out.size() - comma - 1;
  if ((behind == 1 || behind == 2) && out.find(',', comma + 1) == std::string::npos) out[comma] = '.';
  return out;
}

}  // namespace

std::vector<std::string> plain_numbers(std::string_view counted, std::string_view text, bool decimal) {
  const std::string_view name = bare(counted);
  const std::string whole = without_separators(text).value_or(std::string(trim(text)));
  std::vector<std::string> out;
  if (whole != text) out.push_back(whole);  // may be all that is wrong with it
  std::string_view rest = trim(whole, " \t~+");
  if (counts_in(name, "$"))
    for (const std::string_view sign : {"us$", "usd", "$"})
      if (rest.size() > sign.size() && same_but_for_case(rest.substr(0, sign.size()), sign)) {
        rest = trim(rest.substr(sign.size()));
        break;
      }
  const std::size_t digits = std::min(rest.find_first_not_of("0123456789.,"), rest.size());
  const std::string number = with_point(rest.substr(0, digits));
  const std::string_view words = without_unit(name, trim(rest.substr(digits)));
  const std::optional<double> value = parse_number(number);
  if (!value) return out;
  const std::size_t first = std::min(words.find(' '), words.size());
  const auto* size = std::find_if(std::begin(kSizes), std::end(kSizes),
                                  [&](const Size& one) { return same_but_for_case(one.word, words.substr(0, first)); });
  std::string plain = number + std::string(words);
  if (size != std::end(kSizes))
    plain = (decimal ? number + size->letter : fmt::format("{:.0f}", *value * size->size)) +
            std::string(words.substr(first));
  if (plain != whole) out.push_back(std::move(plain));
  return out;
}

std::string write_number(std::string_view flag, std::string_view number) {
  if (!flag.starts_with("--") || flag.find(' ') != std::string_view::npos) return fmt::format("write `{}`", number);
  const bool quoted = number.find(' ') != std::string_view::npos;
  return fmt::format("write `{} {}{}{}`", flag, quoted ? "'" : "", number, quoted ? "'" : "");
}

}  // namespace plan
