#pragma once

#include <string>
#include <vector>

#include "cli/request/run_cost.hpp"
#include "cli/terminal/terminal.hpp"
#include "planner/answer/plan.hpp"

namespace plan {

/// One line of a report: what it is about, and what there is to say.
struct Fact {
  std::string name;
  std::string text;
  bool usual = false;  ///< what everybody expects who says nothing: a screen has no room for it
};

/// What the report is about: task and adapter, optimizer, formats, the peak that MFU counts against, memory to be left
/// free, framework and release, price.
[[nodiscard]] std::vector<Fact> subject_facts(const Plan& plan, const RunOptions& options);

/// What failures leave of the run, and with --tokens what it then takes. Nothing where nobody says how often GPUs fail
/// and nobody asks; `usual` where they hardly matter.
[[nodiscard]] std::vector<Fact> failure_facts(const Plan& plan, const RunOptions& options);

/// How the layout was chosen: who runs it, the fastest that a framework runs, the fastest on paper with what it lacks,
/// how sure the choice is. Of an estimate: who runs it.
[[nodiscard]] std::vector<Fact> choice_facts(const Plan& plan);

/// What must be read before any number, a line each, unwrapped: that the layout may not fit, that no framework runs it,
/// that GPUs stay idle, a precision that was put in the place of the usual one.
[[nodiscard]] std::vector<std::string> warning_lines(const Plan& plan);

/// Lines such as what nobody stated, dimmed and wrapped to the terminal.
[[nodiscard]] std::string dim_lines(const std::vector<std::string>& lines, const Terminal& terminal);

/// The same in Markdown, as a quotation.
[[nodiscard]] std::string quoted_lines(const std::vector<std::string>& lines);

/// Is this note said in the first lines of a report, so that its end need not say it again?
[[nodiscard]] bool is_shown_above(const Note& note);

/// "-1..+4 %": how far a runner-up's step may be from the best's.
[[nodiscard]] std::string difference_text(const Difference& difference);

}  // namespace plan
