// Two plans side by side: what was decided differently, then what that does, largest effect first, parts adding up.
// Tested by tests/cli/comparison_test.cpp.
#include "cli/report/sweep/comparison.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "cli/report/parts/choice_text.hpp"
#include "cli/report/parts/tables.hpp"
#include "cli/request/sources/plan_json_read.hpp"
#include "cli/terminal/format.hpp"
#include "formulas/names.hpp"
#include "formulas/words.hpp"
#include "planner/answer/layout_text.hpp"
#include "planner/problem/spelled_out.hpp"

namespace plan {
namespace {

constexpr std::size_t kLongestName = 10;

/// What an axis came to, as text; empty where it means nothing.
template <class T>
std::string came_to(const LayoutAxis<T>& axis, const Estimate& e) {
  if (axis.is(&Layout::chunk_layers)) return stage_layers_text(e.stage_layers);
  if (axis.is(&Layout::recompute) && !e.layout.stages.empty()) return stages_text(e.layout.stages);
  if (!means_something(axis.value, e.layout)) return "";
  return axis_text(spelled_out(e.layout, e.micro_batches).*axis.value);
}

void compare_inputs(Comparison& out) {
  for (const Input& a : out.a.inputs) {
    if (a.key == "layout") continue;  // shown choice by choice
    const Input* b = find_input(out.b.inputs, a.key);
    if (b == nullptr) continue;
    if (a.value == b->value)
      ++out.same_inputs;
    else
      out.inputs.push_back({a.key, a.value, b->value});
  }
}

void compare_layouts(Comparison& out) {
  each_axis([&](const auto& axis) {
    if (axis.is(&Layout::stages)) return;  // they say what is recomputed
    const std::string a = came_to(axis, out.a.best), b = came_to(axis, out.b.best);
    if (a == b && !a.empty()) ++out.same_choices;
    // A choice that one of the two does not have follows from another change.
    if (a == b || a.empty() || b.empty()) return;
    out.layout.push_back({axis.is(&Layout::chunk_layers) ? "stage_layers" : std::string(axis.key), a, b});
  });
}

EffectVerdict judge(double a, double b, bool less_is_better) {
  if (a == b) return EffectVerdict::Same;
  return (b < a) == less_is_better ? EffectVerdict::Better : EffectVerdict::Worse;
}

void sort_parts(Effect& effect) {
  std::stable_sort(effect.parts.begin(), effect.parts.end(), [](const EffectPart& a, const EffectPart& b) {
    return std::fabs(a.delta()) > std::fabs(b.delta());
  });
}

double tokens_of(const Estimate& e) { return e.tokens_per_s * e.step_time.value; }

bool same_work(const Estimate& a, const Estimate& b) { return std::fabs(tokens_of(a) - tokens_of(b)) < 0.5; }

Effect time_effect(const Comparison& c) {
  const Estimate &a = c.a.best, &b = c.b.best;
  Effect out{"step_time", EffectKind::Time, a.step_time.value, b.step_time.value, EffectVerdict::Same, {}};
  out.verdict = same_work(a, b) ? judge(out.a, out.b, true) : EffectVerdict::Neither;
  const std::vector<NamedTerm> terms_a = named_terms(a.terms), terms_b = named_terms(b.terms);
  for (std::size_t i = 0; i < terms_a.size(); ++i)
    if (terms_a[i].time.value != 0 || terms_b[i].time.value != 0)
      out.parts.push_back({terms_a[i].name, terms_a[i].time.value, terms_b[i].time.value});
  sort_parts(out);
  return out;
}

const StageMemory& peak_stage(const Estimate& e) { return e.stages[static_cast<std::size_t>(e.peak_stage)]; }

Effect memory_effect(const Comparison& c) {
  const Estimate &a = c.a.best, &b = c.b.best;
  Effect out{"memory.peak",
             EffectKind::Memory,
             static_cast<double>(a.peak.value),
             static_cast<double>(b.peak.value),
             EffectVerdict::Same,
             {}};
  out.verdict = judge(out.a, out.b, true);
  if (a.stages.empty() || b.stages.empty()) return out;
  EffectPart other{"other", 0, 0};
  for (const MemoryCategory& row : kMemoryCategories) {
    const auto first = static_cast<double>((peak_stage(a).*row.bytes).value);
    const auto second = static_cast<double>((peak_stage(b).*row.bytes).value);
    if (row.column)
      out.parts.push_back({std::string(row.word), first, second});
    else
      other.a += first, other.b += second;
  }
  out.parts.push_back(other);
  sort_parts(out);
  return out;
}

std::string verdict_text(EffectVerdict verdict) {
  switch (verdict) {
    case EffectVerdict::Same: return "same";
    case EffectVerdict::Better: return "better";
    case EffectVerdict::Worse: return "worse";
    case EffectVerdict::Neither: break;
  }
  return "other work per step";
}

const char* fits_text(Fits fits) {
  switch (fits) {
    case Fits::Yes: return "yes";
    case Fits::AtRisk: return "at risk";
    case Fits::No: break;
  }
  return "no";
}

std::string relative_text(double a, double b) { return a > 0 && a != b ? signed_percent(b / a - 1) : ""; }

/// Numbers of one effect as text: unit, decimals, and values that add up.
struct Printer {
  double factor = 1;
  int decimals = 1;
  std::string unit{};
  std::string operator()(double shown) const { return fmt::format("{:.{}f}", shown, decimals); }
  std::string change(double shown) const {
    const std::string text = signed_number(shown, decimals);
    return reads_zero(text) ? "=" : text;
  }
};

void show_parts(const Effect& effect, const Printer& print, ShownEffect& out) {
  std::vector<double> a, b;
  for (const EffectPart& part : effect.parts) a.push_back(part.a * print.factor), b.push_back(part.b * print.factor);
  a = apportion(a, print.decimals), b = apportion(b, print.decimals);
  double rest_a = 0, rest_b = 0;
  int rest = 0;
  std::string last;
  for (std::size_t i = 0; i < effect.parts.size(); ++i) {
    const std::string change = print.change(b[i] - a[i]);
    if (change != "=") {
      out.parts.push_back({effect.parts[i].name, print(a[i]), print(b[i]), change});
      continue;
    }
    rest_a += a[i], rest_b += b[i], ++rest, last = effect.parts[i].name;
  }
  if (rest > 0) out.parts.push_back({rest == 1 ? last : "the rest", print(rest_a), print(rest_b), "="});
}

ShownEffect shown_sum(const Effect& effect, const Printer& print, const std::string& name) {
  ShownEffect out{.name = name,
                  .a = {},
                  .b = {},
                  .change = {},
                  .relative = relative_text(effect.a, effect.b),
                  .verdict = verdict_text(effect.verdict)};
  const double unit = std::pow(10.0, print.decimals);
  const double a = std::round(effect.a * print.factor * unit) / unit,
               b = std::round(effect.b * print.factor * unit) / unit;
  out.a = fmt::format("{} {}", print(a), print.unit), out.b = fmt::format("{} {}", print(b), print.unit);
  const std::string change = print.change(b - a);
  out.change = change == "=" ? (effect.a == effect.b ? "=" : "< 1 digit") : fmt::format("{} {}", change, print.unit);
  show_parts(effect, print, out);
  return out;
}

ShownEffect shown(const Effect& effect) {
  switch (effect.kind) {
    case EffectKind::Time: {
      const TimeScale scale = time_scale(Seconds(std::max(effect.a, effect.b)));
      return shown_sum(effect, {scale.factor, scale.decimals, scale.unit}, "step time");
    }
    case EffectKind::Memory: return shown_sum(effect, {1 / kGiB, 1, "GiB"}, effect.name);
    case EffectKind::Ratio:
      return {"MFU",
              percent(effect.a),
              percent(effect.b),
              signed_number(100 * effect.delta(), 1) + " points",
              "",
              verdict_text(effect.verdict),
              {}};
    case EffectKind::Rate: break;
  }
  return {effect.name == "throughput" ? "tokens/s" : "tokens/s a GPU",
          count_text(std::round(effect.a)),
          count_text(std::round(effect.b)),
          "",
          relative_text(effect.a, effect.b),
          verdict_text(effect.verdict),
          {}};
}

/// "runs/main.plan.json" -> "main".
std::string short_name(const std::string& typed) {
  const std::string file(base_name(typed));
  const std::size_t dot = file.find('.');
  return dot == std::string::npos || dot == 0 ? file : file.substr(0, dot);
}

}  // namespace

Comparison compare(ComparedPlan a, ComparedPlan b) {
  Comparison out{.a = std::move(a), .b = std::move(b)};
  compare_inputs(out);
  compare_layouts(out);
  const Estimate &first = out.a.best, &second = out.b.best;
  // Errors that two steps share cancel only where all but the layout is the same.
  if (out.inputs.empty() && out.same_inputs > 0 && same_work(first, second) && first.layout != second.layout)
    out.difference = paired_difference(second.terms, first.terms, std::min(out.a.measured_share, out.b.measured_share));
  out.effects.push_back(time_effect(out));
  out.effects.push_back(memory_effect(out));
  const auto more = [&](const char* name, EffectKind kind, double x, double y) {
    out.effects.push_back({name, kind, x, y, judge(x, y, false), {}});
  };
  more("mfu", EffectKind::Ratio, first.mfu.model_causal, second.mfu.model_causal);
  more("throughput", EffectKind::Rate, first.tokens_per_s, second.tokens_per_s);
  if (first.layout.world() != second.layout.world())
    more("throughput_per_gpu", EffectKind::Rate, first.tokens_per_s_per_gpu, second.tokens_per_s_per_gpu);
  return out;
}

std::vector<ShownEffect> shown_effects(const Comparison& comparison) {
  std::vector<ShownEffect> out;
  const Fits a = comparison.a.best.fits, b = comparison.b.best.fits;
  for (const Effect& effect : comparison.effects) {
    out.push_back(shown(effect));
    if (effect.kind == EffectKind::Memory && a != b)
      out.push_back({"fits", fits_text(a), fits_text(b), "", "", b < a ? "better" : "worse", {}});
  }
  return out;
}

SideNames side_names(const Comparison& comparison) {
  SideNames names{short_name(comparison.a.name), short_name(comparison.b.name)};
  names.letters = names.a == names.b || std::max(names.a.size(), names.b.size()) > kLongestName;
  if (names.letters) names.a = "A", names.b = "B";
  return names;
}

std::string difference_line(const Comparison& c) {
  if (!c.difference) return "";
  const Difference& d = *c.difference;
  const SideNames names = side_names(c);
  const std::string faster = d.high < 0  ? fmt::format("{} is faster", names.b)
                             : d.low > 0 ? fmt::format("{} is faster", names.a)
                                         : "either may be faster";
  return fmt::format("step time of {} against {}: {}, with 90 % certainty {}; {}", names.b, names.a,
                     signed_percent(d.middle), difference_text(d), faster);
}

std::string same_text(const Comparison& c) {
  std::string out;
  if (c.same_inputs > 0) out = fmt::format("{} input{}", c.same_inputs, c.same_inputs == 1 ? "" : "s");
  if (c.same_choices > 0)
    out +=
        fmt::format("{}{} layout choice{}", out.empty() ? "" : " and ", c.same_choices, c.same_choices == 1 ? "" : "s");
  return out.empty() ? "nothing is the same" : out + " are the same";
}

}  // namespace plan
