// The choices of a job by key, as reports print them, and where each of them is written.
#include <fmt/core.h>

#include <map>

#include "cli/check/check.hpp"
#include "cli/terminal/words.hpp"
#include "planner/layout_text.hpp"
#include "presets/quantity.hpp"

namespace plan {
namespace {

struct ChoiceRow {
  const char* key;
  std::string (*text)(const Problem&, const Layout&);
};

template <int Layout::*Axis>
std::string degree(const Problem&, const Layout& layout) {
  return fmt::format("{}", layout.*Axis);
}

const ChoiceRow kRows[] = {
    {"tp", degree<&Layout::tp>},
    {"cp", degree<&Layout::cp>},
    {"cp_kind", [](const Problem&, const Layout& l) { return std::string(l.cp > 1 ? name(l.cp_kind) : ""); }},
    {"pp", degree<&Layout::pp>},
    {"vp", degree<&Layout::vp>},
    {"dp", degree<&Layout::dp>},
    {"ep", degree<&Layout::ep>},
    {"etp", degree<&Layout::etp>},
    {"zero", degree<&Layout::zero>},
    {"shard",
     [](const Problem&, const Layout& l) { return l.shard > 0 ? fmt::format("{}", l.shard) : std::string("all"); }},
    {"micro_batch", degree<&Layout::micro_batch>},
    {"layers", [](const Problem&, const Layout& l) { return stage_layers_text(l.chunk_layers); }},
    {"micro_batches",
     [](const Problem& p, const Layout& l) {
       return fmt::format("{}", micro_batches(p.training.global_batch, l.dp, l.micro_batch));
     }},
    {"schedule", [](const Problem&, const Layout& l) { return std::string(l.pp > 1 ? name(l.schedule) : ""); }},
    {"recompute", [](const Problem&, const Layout& l) { return recompute_text(l.recompute); }},
    {"sequence_parallel",
     [](const Problem&, const Layout& l) { return std::string(l.sequence_parallel ? "on" : "off"); }},
    {"seq", [](const Problem& p, const Layout&) { return fmt::format("{}", p.training.seq); }},
    {"global_batch", [](const Problem& p, const Layout&) { return fmt::format("{}", p.training.global_batch); }},
    {"precision", [](const Problem& p, const Layout&) { return std::string(name(p.training.precision)); }},
    {"optimizer", [](const Problem& p, const Layout&) { return std::string(name(p.training.optimizer)); }},
    {"gpus", [](const Problem& p, const Layout&) { return fmt::format("{}", p.gpus); }},
    {"gpu", [](const Problem& p, const Layout&) { return p.cluster.gpu.name; }},
};

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
  for (const ChoiceRow& row : kRows)
    if (row.key == key) return row.text(problem, layout);
  return {};
}

const std::vector<std::string>& choice_keys() {
  static const std::vector<std::string> kKeys = [] {
    std::vector<std::string> keys;
    for (const ChoiceRow& row : kRows) keys.emplace_back(row.key);
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
