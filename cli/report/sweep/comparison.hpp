#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/terminal/terminal.hpp"
#include "planner/answer/estimate.hpp"
#include "planner/estimate/uncertainty.hpp"
#include "planner/problem/problem.hpp"

namespace plan {

/// One of the two that are compared.
struct ComparedPlan {
  std::string name{};  ///< as typed: a file, a layout, `best`
  std::vector<Input> inputs{};
  Estimate best{};
  std::vector<Note> unused{};  ///< what its files state and nothing here uses
  double measured_share = 0;   ///< of its step that rests on quantities measured here; 0 of a plan that was kept
};

/// Something that was decided or given differently.
struct ChangedChoice {
  std::string key;  ///< of the inputs or the layout, as in JSON
  std::string a, b;
};

enum class EffectVerdict : std::uint8_t { Same, Better, Worse, Neither };

/// What a quantity is, which decides how it is printed and which way is better.
enum class EffectKind : std::uint8_t { Time, Memory, Ratio, Rate };

/// A part of an effect; the parts add up to it.
struct EffectPart {
  std::string name;
  double a = 0, b = 0;
  double delta() const { return b - a; }
};

struct Effect {
  std::string name;  ///< "step_time", "memory.peak", "mfu", "throughput"
  EffectKind kind = EffectKind::Time;
  double a = 0, b = 0;  ///< s, bytes, ratio, tokens/s
  EffectVerdict verdict = EffectVerdict::Same;
  std::vector<EffectPart> parts{};  ///< largest change first
  double delta() const { return b - a; }
};

struct Comparison {
  ComparedPlan a{}, b{};
  std::vector<ChangedChoice> inputs{};  ///< what was asked for differently
  std::vector<ChangedChoice> layout{};  ///< what was decided differently
  int same_inputs = 0, same_choices = 0;
  std::vector<Effect> effects{};
  std::optional<Difference> difference{};  ///< of b's step to a's, where both are layouts of one job
};

/// Decisions first, then their effects. `b` is judged against `a`.
[[nodiscard]] Comparison compare(ComparedPlan a, ComparedPlan b);

[[nodiscard]] std::string comparison_text(const Comparison& comparison, const Terminal& terminal);
[[nodiscard]] std::string comparison_markdown(const Comparison& comparison);
[[nodiscard]] std::string comparison_html(const Comparison& comparison);
/// Schema plan-compare/1; every key is in man/plan-json.5.
[[nodiscard]] std::string comparison_json(const Comparison& comparison);

// What the formats share.

/// An effect in the digits that all formats print.
struct ShownEffect {
  std::string name, a, b, change, relative, verdict;
  struct Part {
    std::string name, a, b, change;
  };
  std::vector<Part> parts{};  ///< those that do not change are one line, "the rest"
};
[[nodiscard]] std::vector<ShownEffect> shown_effects(const Comparison& comparison);
/// Column titles: the names where they are short, else A and B.
struct SideNames {
  std::string a, b;
  bool letters = false;
};
[[nodiscard]] SideNames side_names(const Comparison& comparison);
/// The first lines: what both are about, and what nobody stated of them, "A: " and "B: " before what only one has.
[[nodiscard]] std::vector<std::string> compared_lines(const Comparison& comparison);
/// Which of the two is faster, and how sure that is; empty where the two are not layouts of one job.
[[nodiscard]] std::string difference_line(const Comparison& comparison);
/// "the other 9 layout choices and 8 inputs are the same".
[[nodiscard]] std::string same_text(const Comparison& comparison);

}  // namespace plan
