// The tables of the screen. Every one adds up in the digits shown. Tested by tests/cli/human_test.cpp.
#include "cli/report/parts/tables.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "cli/terminal/format.hpp"
#include "cli/terminal/words.hpp"
#include "formulas/parameters.hpp"
#include "planner/answer/layout_text.hpp"
#include "planner/memory/host_memory.hpp"

namespace plan {
namespace {

/// The categories as the screen groups them: weights, grads, optim, acts, other.
using Shares = std::array<std::int64_t, kMemoryColumns + 1>;

Shares shares(const StageMemory& m) {
  Shares shares{};
  std::size_t column = 0;
  for (const MemoryCategory& row : kMemoryCategories)
    shares[row.column ? column++ : kMemoryColumns] += (m.*row.bytes).value;
  return shares;
}

std::vector<StageRow> equal_runs(const std::vector<StageMemory>& stages) {
  std::vector<StageRow> rows;
  for (const StageMemory& memory : stages) {
    if (!rows.empty() && shown_categories(rows.back().memory) == shown_categories(memory))
      rows.back().last = memory.stage;
    else
      rows.push_back({memory.stage, memory.stage, memory});
  }
  return rows;
}

StageRow merged(const StageRow& a, const StageRow& b) {
  return {a.first, b.last, a.memory.total() >= b.memory.total() ? a.memory : b.memory};
}

/// Index of the pair of neighbours to merge next, or -1. `ends` keeps the first and the last row apart.
int closest_pair(const std::vector<StageRow>& rows, std::int64_t largest, bool ends) {
  int best = -1;
  std::int64_t best_gap = 0;
  for (std::size_t i = ends ? 1 : 0; i + (ends ? 2 : 1) < rows.size(); ++i) {
    const std::int64_t a = rows[i].memory.total().value, b = rows[i + 1].memory.total().value;
    if (ends && (a == largest || b == largest)) continue;
    const std::int64_t gap = std::abs(a - b);
    if (best >= 0 && gap >= best_gap) continue;
    best = static_cast<int>(i);
    best_gap = gap;
  }
  return best;
}

Style total_style(const Estimate& estimate, const StageMemory& memory) {
  if (memory.total() > estimate.capacity) return Style::Bad;
  if (estimate.fits == Fits::Yes) return Style::Good;
  return memory.total() == estimate.peak ? Style::Warn : Style::Plain;
}

}  // namespace

std::string parameters_text(const Model& model) {
  const ModelParameters parameters = model_parameters(model);
  std::string out = fmt::format("{} parameters", count_text(static_cast<double>(parameters.total)));
  if (model.moe()) out += fmt::format(", {} active", count_text(static_cast<double>(parameters.active)));
  return out;
}

std::string batch_text(const Training& training) {
  return fmt::format("sequence {}, global batch {} = {} tokens per step", training.seq, training.global_batch,
                     count_text(static_cast<double>(training.tokens_per_step())));
}

std::vector<Headline> headlines(const Plan& plan, const RunOptions& options) {
  const Estimate& e = plan.best;
  const TimeScale scale = time_scale(e.step_time);
  const auto time = [&](Seconds t) { return fmt::format("{:.{}f}", t.value * scale.factor, scale.decimals); };
  std::vector<Headline> out = {
      {"step time",
       fmt::format("{} {}", time(e.step_time), scale.unit),
       fmt::format("{} to {} {}", time(e.step_time_low), time(e.step_time_high), scale.unit),
       {}},
      {"throughput",
       fmt::format("{} tokens/s", count_text(e.tokens_per_s)),
       fmt::format("{} a GPU", count_text(std::round(e.tokens_per_s_per_gpu))),
       {}},
      {"MFU", percent(e.mfu.model_causal), fmt::format("{} counting attention in full", percent(e.mfu.model_full)), {}},
      {"memory", fmt::format("{} of {} GiB", gib(e.peak), gib(e.capacity)),
       fmt::format("{}: {} to {} GiB", phrase(fits_gpu(e)), gib(e.peak_low), gib(e.peak_high)), fits_gpu(e)}};
  if (e.host.value > 0)
    out.push_back({"memory of a node",
                   e.host_capacity.value > 0 ? fmt::format("{} of {} GiB", gib(e.host), gib(e.host_capacity))
                                             : fmt::format("{} GiB", gib(e.host)),
                   e.host_capacity.value > 0 ? std::string(phrase(fits_host(e.host, e.host_capacity))) : "",
                   fits_host(e.host, e.host_capacity)});
  if (const std::optional<RunCost> run = run_cost(plan, options))
    out.push_back({"whole run",
                   fmt::format("{:.1f} days", run->time.value / 86400),
                   fmt::format("{} tokens, {} GPU-hours{}", count_text(run->tokens), count_text(run->gpu_hours),
                               run->usd ? ", " + count_text(*run->usd) + " USD" : ""),
                   {}});
  return out;
}

std::string stage_name(const StageRow& row) {
  return row.first == row.last ? fmt::format("{}", row.first) : fmt::format("{}-{}", row.first, row.last);
}

std::vector<double> shown_categories(const StageMemory& memory) {
  std::vector<double> values;
  for (const std::int64_t bytes : shares(memory)) values.push_back(static_cast<double>(bytes) / kGiB);
  return apportion(values, 1);
}

std::vector<StageRow> stage_rows(const std::vector<StageMemory>& stages, int most) {
  std::vector<StageRow> rows = equal_runs(stages);
  std::int64_t largest = 0;
  for (const StageMemory& memory : stages) largest = std::max(largest, memory.total().value);
  while (static_cast<int>(rows.size()) > std::max(most, 1)) {
    int at = closest_pair(rows, largest, true);
    if (at < 0) at = closest_pair(rows, largest, false);
    const auto i = static_cast<std::ptrdiff_t>(at);
    rows[static_cast<std::size_t>(at)] =
        merged(rows[static_cast<std::size_t>(at)], rows[static_cast<std::size_t>(at) + 1]);
    rows.erase(rows.begin() + i + 1);
  }
  return rows;
}

std::string memory_bar(const StageMemory& memory, Bytes capacity, int columns) {
  static constexpr std::array<char, 5> kLetters = {'W', 'G', 'O', 'A', 'x'};
  const Shares parts = shares(memory);
  const double scale = capacity.value > 0 ? columns / static_cast<double>(capacity.value) : 0;
  std::string out;
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    sum += parts[i];
    const long end = std::clamp(std::lround(static_cast<double>(sum) * scale), 0L, static_cast<long>(columns));
    if (end > static_cast<long>(out.size())) out.resize(static_cast<std::size_t>(end), kLetters[i]);
  }
  if (memory.total() > capacity && columns > 0) {
    out.resize(static_cast<std::size_t>(columns), 'x');
    return out.replace(out.size() - 1, 1, ">");
  }
  out.resize(static_cast<std::size_t>(columns), '.');
  return out;
}

std::string memory_table(const Estimate& estimate, int most_rows, const Terminal& terminal) {
  const std::vector<StageRow> rows = stage_rows(estimate.stages, most_rows);
  std::size_t label = 5;
  for (const StageRow& row : rows) label = std::max(label, stage_name(row).size());
  std::string out = fmt::format("  {:>{}}  weights  grads  optim   acts  other  total  share of {}\n", "stage", label,
                                gib(estimate.capacity));
  const int columns = std::min(terminal.width, 90) - 49 - static_cast<int>(label);
  for (const StageRow& row : rows) {
    const std::vector<double> parts = shown_categories(row.memory);
    const double total = std::accumulate(parts.begin(), parts.end(), 0.0);
    out += fmt::format("  {:>{}}  {:>7.1f}  {:>5.1f}  {:>5.1f}  {:>5.1f}  {:>5.1f}  {}  {}\n", stage_name(row), label,
                       parts[0], parts[1], parts[2], parts[3], parts[4],
                       paint(terminal, total_style(estimate, row.memory), fmt::format("{:>5.1f}", total)),
                       memory_bar(row.memory, estimate.capacity, columns));
  }
  return out;
}

std::vector<ShownTerm> shown_terms(const Estimate& estimate) {
  std::vector<ShownTerm> terms;
  for (const NamedTerm& term : named_terms(estimate.terms))
    if (term.time.value != 0) terms.push_back({term.name, term.word, term.time});
  std::stable_sort(terms.begin(), terms.end(), [](const ShownTerm& a, const ShownTerm& b) { return a.time > b.time; });
  const double whole = std::max(estimate.terms.total().value, 1e-300);
  const TimeScale scale = time_scale(estimate.terms.total());
  std::vector<double> times, ratios;
  for (const ShownTerm& term : terms) times.push_back(term.time.value * scale.factor);
  for (const ShownTerm& term : terms) ratios.push_back(100 * term.time.value / whole);
  times = apportion(times, scale.decimals);
  ratios = apportion(ratios, 0);
  for (std::size_t i = 0; i < terms.size(); ++i) terms[i].shown = times[i], terms[i].percent = ratios[i];
  return terms;
}

/// The smallest of more than `most` terms together as one.
std::vector<ShownTerm> fewer_terms(std::vector<ShownTerm> terms, std::size_t most) {
  if (terms.size() <= most || most == 0) return terms;
  ShownTerm& rest = terms[most - 1];
  rest.name = "others", rest.word = "";
  for (std::size_t i = most; i < terms.size(); ++i)
    rest.time = rest.time + terms[i].time, rest.shown += terms[i].shown, rest.percent += terms[i].percent;
  terms.resize(most);
  return terms;
}

std::string time_table(const Estimate& estimate, int most_rows, const Terminal& terminal) {
  const std::vector<ShownTerm> terms = fewer_terms(shown_terms(estimate), static_cast<std::size_t>(most_rows));
  const double whole = std::max(estimate.terms.total().value, 1e-300);
  const TimeScale scale = time_scale(estimate.terms.total());
  std::string out = fmt::format("{}, {}\n", paint(terminal, Style::Bold, "Step time"), scale.long_unit);
  const double columns = std::min(terminal.width, 90) - 36.0;
  double sum = 0;
  double drawn = 0;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    sum += terms[i].time.value / whole * columns;
    const double end = std::round(sum * 8) / 8;
    const std::string drawing = bar(terminal, end - drawn);
    out += fmt::format("  {:<10}  {:>6.{}f}  {:>3.0f} %{}{}\n", terms[i].name, terms[i].shown, scale.decimals,
                       terms[i].percent, drawing.empty() ? "" : "  ", drawing);
    drawn = end;
  }
  return out;
}

}  // namespace plan
