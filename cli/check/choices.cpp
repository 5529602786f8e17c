// The choices of a job by key, as reports print them, and where each of them is written.
#include <fmt/core.h>

#include <map>
#include <utility>

#include "cli/check/check.hpp"
#include "cli/terminal/bf16_layers.hpp"
#include "cli/terminal/offload_flag.hpp"
#include "cli/terminal/state_formats.hpp"
#include "cli/terminal/words.hpp"
#include "planner/problem/axes.hpp"
#include "planner/problem/spelled_out.hpp"
#include "presets/quantity.hpp"

namespace plan {
namespace {

struct ChoiceRow {
  const char* key;
  std::string (*text)(const Problem&, const Layout&);
};

std::string or_none(std::string text) { return text.empty() ? "none" : std::move(text); }

/// What follows from the layout and the batch.
const ChoiceRow kMicroBatches{"micro_batches", [](const Problem& p, const Layout& l) {
                                return fmt::format("{}", micro_batches(p.training.global_batch, l.dp, l.micro_batch));
                              }};

/// What is an input of the job and not its layout's own.
const ChoiceRow kInputs[] = {
    {"seq", [](const Problem& p, const Layout&) { return fmt::format("{}", p.training.seq); }},
    {"global_batch", [](const Problem& p, const Layout&) { return fmt::format("{}", p.training.global_batch); }},
    {"precision", [](const Problem& p, const Layout&) { return std::string(name(p.training.precision)); }},
    {"optimizer", [](const Problem& p, const Layout&) { return std::string(name(p.training.optimizer)); }},
    {"gpus", [](const Problem& p, const Layout&) { return fmt::format("{}", p.gpus); }},
    {"gpu", [](const Problem& p, const Layout&) { return p.cluster.gpu.name; }},
};

/// Switches of the training that a suggestion may turn, and whose change since a baseline is reported as any other
/// input's.
const ChoiceRow kSwitches[] = {
    {"offload", [](const Problem& p, const Layout&) { return or_none(offload_text(p.training.offload)); }},
    {"bf16_layers",
     [](const Problem& p, const Layout&) {
       return or_none(p.training.bf16_layers.any() ? bf16_layers_text(p.training.bf16_layers) : "");
     }},
    {"state_formats", [](const Problem& p, const Layout&) { return or_none(state_formats_text(p.training)); }},
};

/// The value of an axis as reports print it; empty where the other axes make it meaningless, as a schedule without
/// stages.
template <class T>
std::string shown(const LayoutAxis<T>& axis, const Layout& layout) {
  if (!means_something(axis.value, layout)) return "";
  if (axis.is(&Layout::shard) && layout.shard == 0) return "all";
  return axis_text(layout.*axis.value);
}

/// Where "file:line" points; no line if the text is not one.
Place parse_where(const std::string& where) {
  const std::size_t colon = where.rfind(':');
  if (colon == std::string::npos) return {};
  const auto line = parse_integer(std::string_view(where).substr(colon + 1));
  if (!line || *line <= 0 || *line > 100'000'000) return {};
  return {where.substr(0, colon), static_cast<int>(*line), 1, 1, {}};
}

}  // namespace

std::string choice_text(std::string_view key, const Problem& problem, const Layout& layout) {
  std::string text;
  each_axis([&](const auto& axis) {
    if (axis.key == key) text = shown(axis, layout);
  });
  if (kMicroBatches.key == key) text = kMicroBatches.text(problem, layout);
  for (const ChoiceRow& row : kInputs)
    if (row.key == key) text = row.text(problem, layout);
  for (const ChoiceRow& row : kSwitches)
    if (row.key == key) text = row.text(problem, layout);
  return text;
}

const std::vector<std::string>& suggested_keys() {
  static const std::vector<std::string> kKeys = [] {
    std::vector<std::string> keys = choice_keys();
    for (const ChoiceRow& row : kSwitches) keys.emplace_back(row.key);
    return keys;
  }();
  return kKeys;
}

const std::vector<std::string>& choice_keys() {
  static const std::vector<std::string> kKeys = [] {
    std::vector<std::string> keys;
    each_axis([&](const auto& axis) { keys.emplace_back(axis.key); });
    keys.emplace_back(kMicroBatches.key);
    for (const std::string& key : input_choice_keys()) keys.push_back(key);
    return keys;
  }();
  return kKeys;
}

const std::vector<std::string>& input_choice_keys() {
  static const std::vector<std::string> kKeys = [] {
    std::vector<std::string> keys;
    for (const ChoiceRow& row : kInputs) keys.emplace_back(row.key);
    return keys;
  }();
  return kKeys;
}

Place home_of_input(const ResolvedJob& job, std::string_view key) {
  const auto home = job.homes.find(key);
  if (home != job.homes.end())
    if (Place place = parse_where(home->second); place.line > 0) return place;
  return job.budget->from.empty() ? Place{} : Place{job.budget->from.front().text, 1, 1, 1, {}};
}

Place place_of_input(const ResolvedJob& job, std::string_view key) {
  const auto place = [&](std::string_view wanted) {
    const Input* input = find_input(job.problem.inputs, wanted);
    return input != nullptr && input->origin == Origin::File ? parse_where(input->where) : Place{};
  };
  if (Place own = place(key); own.line > 0) return own;
  if (Place whole = place("layout"); whole.line > 0) return whole;
  return {};
}

}  // namespace plan
