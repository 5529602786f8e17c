// Recomputation, strategies of stages and layers of chunks, as --layout has them. Tested by
// tests/cli/layout_flag_test.cpp.
#include "cli/request/words/layout_values.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "cli/terminal/numbers.hpp"
#include "cli/terminal/words.hpp"
#include "planner/problem/stage_layout.hpp"
#include "presets/suggest.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

/// `14x8` read as 14 and `8`; without a number in front of an `x`, once.
struct Repeated {
  std::size_t times = 1;
  std::string_view what{};
};
Result<Repeated> read_repeated(std::string_view where, std::string_view part) {
  const std::size_t digits = std::min(part.find_first_not_of("0123456789"), part.size());
  if (digits == 0 || digits == part.size() || part[digits] != 'x') return Repeated{1, part};
  const Result<std::int64_t> times = read_count(where, part.substr(0, digits), 1, 10000);
  if (!times) return fail(times.error());
  return Repeated{static_cast<std::size_t>(*times), part.substr(digits + 1)};
}

/// `full-4` read as `full` and 4; nothing if the word does not start so.
std::optional<std::string_view> after(std::string_view text, std::string_view start) {
  if (text.substr(0, start.size()) != start) return std::nullopt;
  return text.substr(start.size());
}

}  // namespace

tl::unexpected<Errors> unknown_layout_word(std::string_view axis, std::string_view word,
                                           const std::vector<std::string>& known) {
  struct Hint {
    std::string_view axis, words, meant;
  };
  constexpr Hint kHints[] = {{"schedule", "zero-bubble zb", "zb-h1"},
                             {"schedule", "zbv zbvzerobubble", "zb-v"},
                             {"schedule", "1f1b-interleaved vpp dfs", "interleaved"},
                             {"schedule", "bfs loopedbfs", "breadth-first"},
                             {"schedule", "afab", "gpipe"},
                             {"sp", "yes y enable enabled", "on"},
                             {"sp", "no n none disable disabled", "off"},
                             {"recompute", "yes on true all", "full"},
                             {"recompute", "no off false", "none"},
                             {"recompute", "attention attn", "core_attn"}};
  Error error{"unknown_" + std::string(axis),
              fmt::format("unknown {} `{}` in `--layout`", axis, yaml::printable(word)),
              {},
              {}};
  const auto* hint = std::find_if(std::begin(kHints), std::end(kHints),
                                  [&](const Hint& row) { return row.axis == axis && among_words(row.words, word); });
  if (hint != std::end(kHints))
    error.help.push_back(fmt::format("write `{}={}`", axis, hint->meant));
  else if (word == "auto")
    error.help.push_back(fmt::format("leave `{}` out", axis));
  else
    suggest(error, word, known);
  error.help.push_back(fmt::format("`{}=` takes {}", axis, fmt::join(known, ", ")));
  return fail(error);
}

Result<std::vector<int>> read_layers(const std::string& text) {
  constexpr std::size_t kMostChunks = 1 << 16;
  std::vector<int> layers;
  for (const std::string_view part : split(text, "+")) {
    const Result<Repeated> item = read_repeated("layers=", part);
    if (!item) return fail(item.error());
    Result<std::int64_t> count = read_count("layers=", item->what, 0, 100000);
    if (const std::size_t times = text.find('*'); !count && times != std::string::npos) {
      std::string meant = text;  // `4*8` as `4x8`
      std::replace(meant.begin(), meant.end(), '*', 'x');
      if (read_layers(meant)) count.error().front().help = {fmt::format("write `layers={}`", meant)};
    }
    if (!count && count.error().front().help.empty())
      count.error().front().help = {"write the layers of each chunk, such as `layers=7+14x8+7`, or leave it out"};
    if (!count) return fail(count.error());
    layers.insert(layers.end(), item->times, static_cast<int>(*count));
    if (layers.size() > kMostChunks)
      return fail({"out_of_range", fmt::format("`layers=` has more than {} numbers", kMostChunks)});
  }
  return layers;
}

Result<Recompute> read_recompute(std::string_view text) {
  Recompute out;
  if (text == "none") return out;
  out.kind = RecomputeKind::Full;
  if (text == "full") return out;
  for (const auto& [start, field] :
       {std::pair{"full-", &Recompute::layers}, std::pair{"uniform-", &Recompute::uniform}}) {
    const std::optional<std::string_view> rest = after(text, start);
    if (!rest) continue;
    const Result<std::int64_t> layers = read_count("recompute", *rest, 1, 100000);
    if (!layers) return fail(layers.error());
    out.*field = static_cast<int>(*layers);
    return out;
  }
  out.kind = RecomputeKind::Selective;
  if (text == "selective") text = name(kRecomputeCoreAttention);  // Megatron's word for it
  for (const std::string_view word : split(text, "+")) {
    const std::optional<RecomputeModule> module = parse(kRecomputeModuleNames, word);
    if (!module) {
      std::vector<std::string> known = words_of(kRecomputeModuleNames);
      known.insert(known.begin(), {"none", "full"});
      return unknown_layout_word("recompute", word, known);
    }
    out.modules = static_cast<std::uint16_t>(out.modules | *module);
  }
  return out;
}

namespace {

/// `full-2@layers3@offload4@tp8@zero3`.
Result<StageStrategy> read_run(std::string_view text) {
  StageStrategy stage;
  const std::vector<std::string_view> parts = split(text, "@");
  const Result<Recompute> recompute = read_recompute(parts.front());
  if (!recompute) return fail(recompute.error());
  stage.recompute = *recompute;
  std::vector<std::string_view> seen;
  for (std::size_t i = 1; i < parts.size(); ++i) {
    std::string_view known;
    for (const RunAxis& axis : kRunAxes) {
      const std::optional<std::string_view> rest = after(parts[i], axis.word);
      if (!rest) continue;
      known = axis.word;
      const Result<std::int64_t> value =
          read_count(fmt::format("stages= @{}", axis.word), *rest, axis.least, axis.most);
      if (!value) return fail(value.error());
      stage.*axis.value = static_cast<int>(*value);
    }
    if (known.empty()) return unknown_layout_word("stages", parts[i], {"cpN", "layersN", "offloadN", "tpN", "zeroN"});
    if (std::find(seen.begin(), seen.end(), known) != seen.end())
      return fail({"given_twice", fmt::format("`@{}` is given twice for a stage in `--layout`", known)});
    seen.push_back(known);
  }
  return stage;
}

/// `full@layers3~none@tp4`: runs of layers, of which the last takes what is left.
Result<StageStrategy> read_stage(std::string_view text) {
  std::optional<StageStrategy> stage;
  const std::vector<std::string_view> parts = split(text, "~");
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Result<StageStrategy> run = read_run(parts[i]);
    if (!run) return fail(run.error());
    const bool last = i + 1 == parts.size();
    if (last != (run->layers == 0))
      return fail({"bad_value",
                   fmt::format("`{}` of `stages={}` in `--layout` {}", yaml::printable(parts[i]), yaml::printable(text),
                               last ? "is the last run of its stage, which has all layers that are left"
                                    : "does not say how many layers it has"),
                   {},
                   {last ? "leave its `@layersN` out" : fmt::format("write `{}@layersN`", parts[i])}});
    if (!stage)
      stage = *run;
    else
      stage->behind.push_back(*run);
  }
  return *stage;
}

}  // namespace

Result<std::vector<StageStrategy>> read_stages(std::string_view text) {
  constexpr std::size_t kMostStages = 1 << 16;
  std::vector<StageStrategy> stages;
  std::size_t runs = 0;
  for (const std::string_view part : split(text, ":")) {
    const Result<Repeated> item = read_repeated("stages=", part);
    if (!item) return fail(item.error());
    const Result<StageStrategy> stage = read_stage(item->what);
    if (!stage) return fail(stage.error());
    runs += item->times * (1 + stage->behind.size());
    if (runs > kMostStages)
      return fail({"out_of_range", fmt::format("`stages=` has more than {} strategies", kMostStages)});
    stages.insert(stages.end(), item->times, *stage);
  }
  return stages;
}

}  // namespace plan
