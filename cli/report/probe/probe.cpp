// The screens of `plan probe` (style_ux 12.4). Tested by tests/cli/probe_test.cpp and tests/golden/probe-*.
#include "cli/report/probe/probe.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cmath>
#include <map>

#include "cli/report/plan/json.hpp"
#include "cli/terminal/format.hpp"
#include "cli/terminal/json_list.hpp"
#include "formulas/names.hpp"

namespace plan {
namespace {

constexpr double kFaster = 0.1, kBelow = -0.07, kSlow = -0.2;
constexpr int kMostSkips = 3;

Style style_of(double better) { return better < kSlow ? Style::Bad : better < kBelow ? Style::Warn : Style::Plain; }

/// Rates in the unit that gives up to four digits before the point.
std::string value_text(double value, const std::string& unit) {
  if (unit == "GB/s" && value >= 1000) return fmt::format("{:.3g} TB/s", value / 1000);
  if (unit == "us" && value >= 1000) return fmt::format("{:.3g} ms", value / 1000);
  if (value >= 1000) return fmt::format("{:.0f} {}", value, unit);
  return fmt::format("{} {}", number_text(value, 3), unit);
}

std::string row(const FigureChange& c, const Terminal& terminal, std::string_view words) {
  const std::string spread = c.spread > 0 ? fmt::format("±{:>4.1f} %", 100 * c.spread) : "";
  const std::string line = fmt::format("{:<28}{:>12}{:>13} {:>4.0f} % {:<7} ", c.what, value_text(c.now, c.unit),
                                       value_text(c.before, c.unit), 100 * (1 + c.better), spread);
  return line + paint(terminal, style_of(c.better), words) + "\n";
}

std::string headline(const HardwareProfile& p) {
  const int gpus = std::max({1, p.gpus_per_node, p.gpus_per_node > 0 ? 0 : p.host_gpus}) * std::max(1, p.nodes);
  const std::string& gpu = p.gpu.model.empty() ? p.gpu.preset : p.gpu.model;
  std::string text = p.name.empty() ? "" : p.name + ": ";
  text += p.nodes > 1 ? fmt::format("{} nodes of {} x {}", p.nodes, p.gpus_per_node, gpu)
                      : fmt::format("{} x {}", gpus, gpu);
  const ProfileSource* source = p.provenance.empty() ? nullptr : &p.provenance.front();
  if (source != nullptr && !source->driver.empty()) text += ", driver " + source->driver;
  if (source != nullptr && !source->cuda_runtime.empty()) text += ", CUDA " + source->cuda_runtime;
  if (source != nullptr && !source->nccl.empty()) text += ", NCCL " + source->nccl;
  return text + "\n";
}

/// How good the fits are: "58 curves: 51 A, 6 B, 1 C; held-out error 3.1 %".
std::string fit_line(const HardwareProfile& p) {
  std::map<std::string_view, int> grades;
  std::vector<double> held_out;
  const auto count = [&](const CurveQuality& q) {
    if (q.points == 0) return;
    ++grades[grade(q)];
    if (q.held_out_err > 0) held_out.push_back(q.held_out_err);
  };
  for (const ProfileCurve& c : p.collectives) count(c.quality);
  for (const ProfileGemm& g : p.gemm) count(g.quality);
  for (const ProfileAttention& a : p.attention) count(a.quality);
  int all = 0;
  std::string list;
  for (const auto& [name, number] : grades) {
    all += number;
    list += fmt::format("{}{} {}", list.empty() ? "" : ", ", number, name);
  }
  if (all == 0) return {};
  std::string text = fmt::format("fit        {} curve{}: {}", all, all == 1 ? "" : "s", list);
  if (!held_out.empty()) {
    std::sort(held_out.begin(), held_out.end());
    text +=
        fmt::format("; points left out are predicted within {:.1f} % (median)", 100 * held_out[held_out.size() / 2]);
  }
  return text + "\n";
}

std::string extras(const HardwareProfile& p) {
  std::string text;
  for (const ProfileOverlap& o : p.overlap)
    text += fmt::format("overlap    {} beside {}: {:.2f} times as long; communication {:.2f} times\n", o.compute,
                        o.comm, o.compute_slowdown, o.comm_slowdown);
  std::string memory;
  for (const ProfileNcclMemory& m : p.nccl_memory)
    memory += fmt::format("{}{} {:.2f} GiB", memory.empty() ? "" : ", ", m.what, m.gib);
  if (!memory.empty()) text += "NCCL takes " + memory + "\n";
  return text;
}

std::string complaints(const HardwareProfile& p, const Terminal& terminal) {
  std::string text;
  for (const ProfileWarning& w : p.warnings)
    text += paint(terminal, Style::Warn, "warning:") + " " +
            wrap(fmt::format("{}: {}", w.where, w.text), terminal.width, 9) + "\n";
  std::map<std::string, std::vector<std::string>> reasons;
  for (const ProfileSkip& s : p.skipped) reasons[s.reason].push_back(s.what);
  for (const auto& [reason, whats] : reasons) {
    const std::size_t shown = std::min<std::size_t>(whats.size(), kMostSkips);
    std::vector<std::string> some(whats.begin(), whats.begin() + static_cast<std::ptrdiff_t>(shown));
    std::string list = fmt::format("{}", fmt::join(some, "; "));
    if (whats.size() > shown) list += fmt::format(" and {} more", whats.size() - shown);
    text += wrap(fmt::format("skipped    {}: {}", reason, list), terminal.width, 11) + "\n";
  }
  return text;
}

/// Five digits, which every machine computes the same.
double round5(double value) {
  if (value == 0 || !std::isfinite(value)) return 0;
  const double scale = std::pow(10, 4 - std::floor(std::log10(std::abs(value))));
  return std::round(value * scale) / scale;
}
double round_ratio(double value) { return std::round(value * 1e4) / 1e4; }

Json skip_json(const ProfileSkip& s) { return {{"what", s.what}, {"reason", s.reason}}; }

Json change_json(const FigureChange& c) {
  return {{"what", c.what},
          {"unit", c.unit},
          {"before", round5(c.before)},
          {"now", round5(c.now)},
          {"faster_ratio", round_ratio(c.better)},
          {"spread_ratio", round_ratio(c.spread)},
          {"beyond_noise", c.beyond_noise}};
}

}  // namespace

std::string_view verdict(double better) {
  if (better > kFaster) return "faster";
  if (better < kSlow) return "slow";
  return better < kBelow ? "below" : "as expected";
}

std::string machine_text(const Machine& machine) {
  std::string text = machine.host + ": ";
  text += machine.gpus.empty() ? "no GPU" : fmt::format("{} x {}", machine.gpus.size(), machine.gpus[0].name);
  if (!machine.driver.empty()) text += ", driver " + machine.driver;
  std::map<double, int> rates;
  for (const NicFacts& nic : machine.nics)
    if (nic.active) ++rates[nic.gb_s];
  for (const auto& [rate, count] : rates)
    text += fmt::format(", {} adapter{} of {:.0f} Gb/s", count, count == 1 ? "" : "s", 8 * rate);
  return text + fmt::format(", {} core{} on {} NUMA node{}", machine.cores, machine.cores == 1 ? "" : "s",
                            machine.numa_nodes, machine.numa_nodes == 1 ? "" : "s");
}

std::string probe_text(const HardwareProfile& profile, const Cluster& expected, const Terminal& terminal) {
  const std::vector<FigureChange> figures = common_figures(expected_profile(profile, expected), profile);
  std::string text = headline(profile);
  if (profile.partial) text += paint(terminal, Style::Bad, "partial:") + " " + profile.stopped + "\n";
  if (!figures.empty())
    text += "\n" +
            paint(terminal, Style::Dim,
                  fmt::format("{:<28}{:>12}{:>13}{:>7} {:<7} {}", "", "measured", "expected", "of it", "spread",
                              "verdict")) +
            "\n";
  for (const FigureChange& c : figures) text += row(c, terminal, verdict(c.better));
  text += "\n" + fit_line(profile) + extras(profile) + complaints(profile, terminal);
  return text;
}

std::string taken_text(const std::vector<TakenResult>& taken, const Terminal& terminal) {
  std::string text;
  for (const TakenResult& t : taken)
    text += wrap(fmt::format("took       {}: {}", t.file, t.what), terminal.width, 11, 0) + "\n";
  return text.empty() ? text : text + "\n";
}

std::string probe_json(const HardwareProfile& profile, const Cluster& expected, const std::vector<TakenResult>& taken) {
  const auto figure_json = [](const FigureChange& c) -> Json {
    return {{"what", c.what},
            {"unit", c.unit},
            {"measured", round5(c.now)},
            {"expected", round5(c.before)},
            {"faster_ratio", round_ratio(c.better)},
            {"spread_ratio", round_ratio(c.spread)},
            {"verdict", verdict(c.better)}};
  };
  const auto curve_json = [](const ProfileCurve& c) -> Json {
    return {{"op", name(c.op)},
            {"ranks", c.layout.n},
            {"nodes", c.layout.nodes},
            {"alpha_s", round5(c.alpha_us * 1e-6)},
            {"busbw_bytes_per_s", round5(c.busbw_gb_s * 1e9)},
            {"p", round_ratio(c.p)},
            {"points", c.quality.points},
            {"median_error_ratio", round_ratio(c.quality.median_err)},
            {"p90_error_ratio", round_ratio(c.quality.p90_err)},
            {"held_out_error_ratio", round_ratio(c.quality.held_out_err)},
            {"grade", grade(c.quality)},
            {"flags", c.quality.flags}};
  };
  const auto warning_json = [](const ProfileWarning& w) -> Json {
    return {{"code", w.code}, {"where", w.where}, {"text", w.text}};
  };
  Json root = {{"schema", "plan-probe/1"},
               {"gpu", profile.gpu.model},
               {"gpus_per_node", profile.gpus_per_node},
               {"nodes", profile.nodes},
               {"partial", profile.partial},
               {"stopped", profile.stopped},
               {"figures", json_list(common_figures(expected_profile(profile, expected), profile), figure_json)},
               {"curves", json_list(profile.collectives, curve_json)},
               {"warnings", json_list(profile.warnings, warning_json)},
               {"skipped", json_list(profile.skipped, skip_json)}};
  for (const TakenResult& t : taken) root["taken"].push_back({{"file", t.file}, {"what", t.what}});
  return dump(root);
}

std::string profile_diff_text(const HardwareProfile& before, const HardwareProfile& now, const Terminal& terminal) {
  const std::vector<FigureChange> changes = compare_profiles(before, now);
  if (changes.empty()) return "the two profiles measured nothing in common\n";
  std::string text =
      paint(terminal, Style::Dim,
            fmt::format("{:<28}{:>12}{:>13}{:>7} {:<7} {}", "", "now", "before", "of it", "spread", "change")) +
      "\n";
  int slower = 0, same = 0;
  for (const FigureChange& c : changes) {
    if (!c.beyond_noise) {
      ++same;
      continue;
    }
    if (c.better < 0) ++slower;
    text += row(c, terminal, c.better < 0 ? "slower" : "faster");
  }
  text += fmt::format("\n{} of {} figures are slower than before, {} within noise\n", slower, changes.size(), same);
  return text;
}

std::string profile_diff_json(const HardwareProfile& before, const HardwareProfile& now) {
  return dump({{"schema", "plan-probe-diff/1"}, {"figures", json_list(compare_profiles(before, now), change_json)}});
}

std::string sweep_text(const Sweep& sweep, const SweepRequest& request, const Terminal& terminal) {
  std::array<int, kSections> points{};
  std::array<double, kSections> seconds{};
  for (const SweepPoint& p : sweep.points) {
    ++points[static_cast<std::size_t>(p.section)];
    seconds[static_cast<std::size_t>(p.section)] += p.cost_s;
  }
  std::string text =
      fmt::format("{} GPU{} ({} a node), {}, formats {}\n\n", request.ranks, request.ranks == 1 ? "" : "s",
                  request.ranks_per_node, request.expected.gpu.name, fmt::join(request.formats, ", "));
  text += paint(terminal, Style::Dim, fmt::format("{:<14}{:>8}{:>10}", "section", "points", "time")) + "\n";
  for (std::size_t s = 0; s < kSections; ++s)
    if (points[s] > 0)
      text += fmt::format("{:<14}{:>8}{:>8.1f} s\n", name(static_cast<Section>(s)), points[s], seconds[s]);
  text +=
      fmt::format("{:<14}{:>8}{:>8.1f} s of {:.0f} s\n", "all", sweep.points.size(), sweep.seconds, request.budget_s);
  text += fmt::format("\nworking memory at most {} on each GPU\n", size_text(sweep.memory_bytes));
  if (!sweep.skipped.empty())
    text += wrap(fmt::format("{} points do not fit the time and would be listed as skipped, such as {}; `--budget "
                             "{:.0f}s` takes them all",
                             sweep.skipped.size(), sweep.skipped.front().what, std::ceil(sweep.wanted_s + 1)),
                 terminal.width, 0) +
            "\n";
  return text;
}

std::string sweep_json(const Sweep& sweep, const SweepRequest& request) {
  const auto point_json = [](const SweepPoint& p) -> Json {
    return {{"section", name(p.section)}, {"id", p.id}, {"operation_s", p.operation_s}, {"cost_s", p.cost_s}};
  };
  return dump({{"schema", "plan-probe-sweep/1"},
               {"gpus", request.ranks},
               {"budget_s", request.budget_s},
               {"seconds_s", sweep.seconds},
               {"memory_bytes", sweep.memory_bytes},
               {"points", json_list(sweep.points, point_json)},
               {"skipped", json_list(sweep.skipped, skip_json)}});
}

}  // namespace plan
