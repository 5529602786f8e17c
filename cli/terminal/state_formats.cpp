// --state-formats: gradients, weights and moments of the optimizer, as words. Tested by
// tests/cli/state_formats_test.cpp.
#include "cli/terminal/state_formats.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "cli/terminal/words.hpp"
#include "formulas/keep_errors.hpp"
#include "formulas/text.hpp"
#include "presets/suggest.hpp"

namespace plan {
namespace {

struct NumberFormat {
  std::string_view word;
  double bytes;
};
constexpr NumberFormat kGradients[] = {{"fp32", 4}, {"bf16", 2}};
/// fp16: the 16 bits that a bf16 weight lacks of its fp32 master (Megatron core, store_param_remainders).
constexpr NumberFormat kMasters[] = {{"fp32", 4}, {"fp16", 2}};
constexpr NumberFormat kMoments[] = {{"fp32", 4}, {"bf16", 2}, {"fp8", 1}};
constexpr NumberFormat kKept[] = {{"bf16", 2}, {"fp8", 1}};

struct FormattedState {
  std::string_view name;
  std::string_view others;  ///< what libraries and people call it
  std::span<const NumberFormat> formats;
  std::vector<std::optional<double> StateFormats::*> members;
};

const std::vector<FormattedState>& states() {
  static const std::vector<FormattedState> rows = {
      {"grads", "grad gradient gradients main-grads", kGradients, {&StateFormats::gradients}},
      {"master", "masters master-weights main-params", kMasters, {&StateFormats::master}},
      {"moments", "moment optimizer-states", kMoments, {&StateFormats::moment1, &StateFormats::moment2}},
      {"moment1", "exp-avg first-moment moment-1 m", kMoments, {&StateFormats::moment1}},
      {"moment2", "exp-avg-sq second-moment moment-2 v", kMoments, {&StateFormats::moment2}},
      {"kept", "", kKept, {&StateFormats::kept}}};
  return rows;
}

std::string formats_of(const FormattedState& state) {
  std::vector<std::string_view> words;
  for (const NumberFormat& format : state.formats) words.push_back(format.word);
  return fmt::format("{}", fmt::join(words, ", "));
}

/// A format without what libraries write around it: `torch.bfloat16` and `BF16` are bf16.
std::string bare(std::string_view format) {
  std::string word = lowered(std::string(trim(format)));
  if (const std::size_t dot = word.rfind('.'); dot != std::string::npos) word.erase(0, dot + 1);
  if (word.starts_with("bfloat")) word.replace(0, 6, "bf");
  if (word.starts_with("float")) word.replace(0, 5, "fp");
  return word;
}

/// `exp_avg_dtype` without the noun behind it, in small letters with hyphens.
std::string plain_name(std::string_view name) {
  std::string word = lowered(std::string(trim(name)));
  std::replace(word.begin(), word.end(), '_', '-');
  if (word.ends_with("-dtype")) word.erase(word.size() - 6);
  return word;
}

Error unknown_state(std::string_view word) {
  std::vector<std::string> known;
  for (const FormattedState& state : states()) known.emplace_back(state.name);
  Error error{"unknown_value", fmt::format("`--state-formats` does not know `{}`", word), {}, {}};
  suggest(error, word, known);
  error.help.push_back(fmt::format("{}, each with = and a format", fmt::join(known, ", ")));
  return error;
}

Result<bool> read_part(std::string_view part, StateFormats& out) {
  const std::size_t equals = part.find('=');
  const std::string name = plain_name(part.substr(0, equals));
  const std::string word = equals == std::string_view::npos ? std::string() : bare(part.substr(equals + 1));
  for (const FormattedState& state : states()) {
    if (state.name != name && !among_words(state.others, name)) continue;
    for (const NumberFormat& format : state.formats) {
      if (format.word != word) continue;
      for (const auto member : state.members) {
        if (out.*member && *(out.*member) != format.bytes)
          return fail({"conflicting_values", fmt::format("`--state-formats` gives `{}` twice", state.name), {}, {}});
        out.*member = format.bytes;
      }
      return true;
    }
    return fail({"unknown_value",
                 fmt::format("`--state-formats {}` is no format of it", part),
                 {},
                 {fmt::format("write `{}=` with one of {}", state.name, formats_of(state))}});
  }
  return fail(unknown_state(part.substr(0, equals)));
}

std::string_view word_of(std::span<const NumberFormat> formats, double bytes) {
  for (const NumberFormat& format : formats)
    if (format.bytes == bytes) return format.word;
  return {};
}

}  // namespace

void StateFormats::apply(Training& training) const {
  if (gradients) training.grad_bytes = static_cast<int>(*gradients);
  if (master) training.master_bytes = *master;
  if (moment1) training.moment1_bytes = *moment1;
  if (moment2) training.moment2_bytes = *moment2;
  if (kept) training.stack.fp8_param_gather = training.stack.fp8_activation_input = *kept < 2;
  if (training.master_bytes < 4 || training.moment1_bytes < 4 || training.moment2_bytes < 4)
    training.precision_aware = true;
}

Result<StateFormats> read_state_formats(std::string_view text) {
  StateFormats out;
  Errors errors;
  for (const std::string_view part : split(text, ",")) keep_errors(errors, read_part(part, out));
  if (!errors.empty()) return fail(std::move(errors));
  return out;
}

std::string state_formats_text(const Training& training) {
  std::vector<std::string> parts;
  const auto add = [&](std::string_view name, std::span<const NumberFormat> formats, double bytes) {
    const std::string_view word = word_of(formats, bytes);
    if (bytes < 4 && !word.empty()) parts.push_back(fmt::format("{}={}", name, word));
  };
  add("grads", kGradients, training.grad_bytes);
  add("master", kMasters, training.master_bytes);
  if (training.moment1_bytes == training.moment2_bytes)
    add("moments", kMoments, training.moment1_bytes);
  else
    add("moment1", kMoments, training.moment1_bytes), add("moment2", kMoments, training.moment2_bytes);
  if (training.stack.fp8_activation_input) parts.emplace_back("kept=fp8");
  return fmt::format("{}", fmt::join(parts, ","));
}

}  // namespace plan
