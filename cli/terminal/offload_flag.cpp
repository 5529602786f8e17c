// --offload: what lies in host memory, as words. Tested by tests/cli/offload_flag_test.cpp.
#include "cli/terminal/offload_flag.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "cli/terminal/numbers.hpp"
#include "cli/terminal/words.hpp"
#include "formulas/keep_errors.hpp"
#include "formulas/text.hpp"
#include "presets/quantity.hpp"
#include "presets/suggest.hpp"

namespace plan {
namespace {

constexpr std::string_view kNone = "none", kOptimizer = "optimizer", kParameters = "parameters", kLayers = "layers";

/// Words of other tools for what stays in the host's memory.
constexpr std::pair<std::string_view, std::string_view> kMeant[] = {
    {"cpu", kOptimizer},
    {"states", kOptimizer},
    {"adam", kOptimizer},
    {"params", kParameters},
    {"weights", kParameters},
    {"model", kParameters},
    {"acts", "layers=4"},
    {"activations", "layers=4"},
    {"yes", kOptimizer},
    {"on", kOptimizer},
    {"true", kOptimizer},
    {"1", kOptimizer},
    {"no", kNone},
    {"off", kNone},
    {"false", kNone},
    {"0", kNone},
};

Error unknown(std::string_view word) {
  std::vector<std::string> known = words_of(kOffloadModuleNames);
  known.insert(known.begin(),
               {std::string(kNone), std::string(kOptimizer), std::string(kParameters), std::string(kLayers)});
  Error error{"unknown_value", fmt::format("`--offload` does not know `{}`", word), {}, {}};
  const auto* const meant =
      std::find_if(std::begin(kMeant), std::end(kMeant), [&](const auto& row) { return row.first == word; });
  if (meant != std::end(kMeant))
    error.help.push_back(fmt::format("write `--offload {}`", meant->second));
  else
    suggest(error, word, known);
  error.help.push_back("none, optimizer, optimizer=0.5, parameters, layers=4, or modules: " +
                       fmt::format("{}", fmt::join(words_of(kOffloadModuleNames), "+")));
  return error;
}

Result<bool> read_share(std::string_view text, double& share) {
  const std::optional<double> value = parse_number(text);
  if (!value || *value <= 0 || *value > 1) {
    Error error{"bad_number", fmt::format("`--offload optimizer={}` wants a share above 0, up to 1", text), {}, {}};
    // A whole number, or one with a sign behind it, is in percent; 1.5 is a slip of another kind.
    const std::optional<double> percent = parse_number(trim(text, " %"));
    const bool whole = percent && std::trunc(*percent) == *percent;
    if (percent && (whole || text.ends_with('%')) && *percent > 0 && *percent <= 100)
      error.help = {*percent < 100 ? fmt::format("write `--offload optimizer={:g}`", *percent / 100)
                                   : "write `--offload optimizer`: all of it"};
    else if (value == 0.0 || (percent && *percent == 0))
      error.help = {"leave `optimizer` out, or write `--offload none`"};
    else
      error.help = {"write `--offload optimizer=0.5` for a half"};
    return fail(std::move(error));
  }
  share = *value;
  return true;
}

Result<bool> read_modules(std::string_view text, std::uint16_t& modules) {
  Errors errors;
  for (const std::string_view word : split(text, "+")) {
    if (const std::optional<OffloadModule> module = parse(kOffloadModuleNames, word))
      modules = static_cast<std::uint16_t>(modules | *module);
    else
      errors.push_back(unknown(word));
  }
  if (!errors.empty()) return fail(std::move(errors));
  return true;
}

Result<bool> read_part(std::string_view part, Offload& out) {
  const std::size_t equals = part.find('=');
  const std::string_view name = part.substr(0, equals);
  const bool valued = equals != std::string_view::npos;
  const std::string_view value = valued ? part.substr(equals + 1) : std::string_view{};
  if (name == kOptimizer) return read_share(valued ? value : "1", out.optimizer);
  if (part == kParameters) return out.parameters = true;
  if (name != kLayers) return read_modules(part, out.modules);
  const Result<std::int64_t> layers = read_count("--offload layers", value, 1, 100000);
  if (!layers) return fail(layers.error());
  out.layers = static_cast<int>(*layers);
  return true;
}

}  // namespace

Result<Offload> read_offload(std::string_view text) {
  Offload out;
  if (text == kNone) return out;
  Errors errors;
  for (const std::string_view part : split(text, ",")) keep_errors(errors, read_part(part, out));
  if (out.layers > 0 && out.modules != 0)
    errors.push_back({"conflicting_values", "`--offload` takes whole layers or modules of them, not both", {}, {}});
  if ((out.modules & kOffloadAttentionProjection) != 0 && (out.modules & kOffloadCoreAttention) == 0)
    errors.push_back({"conflicting_values",
                      "`--offload attn_proj` frees nothing alone: the attention keeps its output, too",
                      {},
                      {"write `core_attn+attn_proj`"}});
  if (!errors.empty()) return fail(std::move(errors));
  return out;
}

std::string offload_text(const Offload& offload) {
  std::vector<std::string> parts;
  if (offload.optimizer >= 1) parts.emplace_back(kOptimizer);
  if (offload.optimizer > 0 && offload.optimizer < 1)
    parts.push_back(fmt::format("{}={}", kOptimizer, offload.optimizer));
  if (offload.parameters) parts.emplace_back(kParameters);
  if (offload.layers > 0) parts.push_back(fmt::format("{}={}", kLayers, offload.layers));
  std::string modules;
  for (const Named<OffloadModule>& row : kOffloadModuleNames)
    if ((offload.modules & row.value) != 0) modules.append(modules.empty() ? "" : "+").append(row.name);
  if (!modules.empty()) parts.push_back(std::move(modules));
  return fmt::format("{}", fmt::join(parts, ","));
}

}  // namespace plan
