// `plan compare A B`: earlier plans, launch files, layouts or the best one, side by side. Tested by
// tests/cli/comparison_test.cpp.
#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <utility>

#include "cli/commands/commands.hpp"
#include "cli/report/sweep/comparison.hpp"
#include "cli/request/resolve.hpp"
#include "cli/request/sources/plan_json_read.hpp"
#include "cli/request/sources/request.hpp"
#include "cli/request/words/layout_flag.hpp"
#include "cli/terminal/diagnostic.hpp"
#include "cli/terminal/progress.hpp"
#include "planner/estimate/claims.hpp"
#include "planner/planner.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

constexpr std::string_view kBest = "best";

bool is_file(const std::string& word) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(word, ignored);
}

/// Is it written as the name of a file? No word of a layout has a folder or an ending of letters.
bool names_file(const std::string& word) {
  const std::string ending = std::filesystem::path(word).extension();
  return word.find('/') != std::string::npos ||
         (ending.size() > 1 && std::isalpha(static_cast<unsigned char>(ending[1])));
}

/// A plan that `plan --json` wrote: JSON that names a schema.
bool is_earlier_plan(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string::npos && text[first] == '{' && text.find("\"schema\"") != std::string::npos;
}

/// `launch`: the launch file that is the other side, whose model, GPUs and training this one is asked for; or empty.
Result<ComparedPlan> read_side(const std::string& word, const Args& args, const std::string& launch,
                               const Streams& streams) {
  Args asked = args;
  if (is_file(word)) {
    Result<std::string> text = yaml::read_text(word);
    if (!text) return fail(text.error());
    if (is_earlier_plan(*text)) {
      Result<EarlierPlan> earlier = read_plan_json(std::move(*text), word);
      if (!earlier) return fail(earlier.error());
      return ComparedPlan{word, std::move(earlier->inputs), std::move(earlier->best), {}, 0};
    }
    asked.from = {word};
  } else if (word != kBest) {
    if (names_file(word))
      return fail(Error{"no_such_file",
                        fmt::format("no file `{}`", yaml::printable(word)),
                        {},
                        {"name a plan's JSON, a launch file, a layout such as `tp8,pp4`, or `best`"}});
    const Result<Fixed> layout = read_layout(word);
    if (!layout) {
      Errors errors = layout.error();
      errors.front().facts.push_back(fmt::format("`{}` is no file, so it is read as a layout", word));
      return fail(std::move(errors));
    }
    asked.layout = word;
  }
  const bool other = !launch.empty() && !is_file(word);
  if (other) asked.from = {launch};
  Result<Problem> problem = resolve_problem(asked);
  if (!problem) return fail(problem.error());
  // What the file decides is what it is compared in.
  if (other) problem->fixed = asked.layout ? read_layout(*asked.layout).value() : Fixed{};
  Result<Plan> plan = word == kBest ? search_with_progress(*problem, streams) : plan_layout(*problem);
  if (!plan) return fail(plan.error());
  const double measured = time_coverage(plan->problem, plan->best).share;
  return ComparedPlan{word, std::move(plan->problem.inputs), std::move(plan->best), std::move(plan->problem.unused),
                      measured};
}

/// What an earlier plan among the two was asked for; nothing if there is none.
std::vector<Input> stated_inputs(const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    if (!is_file(word)) continue;
    Result<std::string> text = yaml::read_text(word);
    if (!text || !is_earlier_plan(*text)) continue;
    if (Result<EarlierPlan> earlier = read_plan_json(std::move(*text), word)) return std::move(earlier->inputs);
  }
  return {};
}

/// The launch file among the two; empty if there is none.
std::string launch_file(const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    if (!is_file(word)) continue;
    const Result<std::string> text = yaml::read_text(word);
    if (text && !is_earlier_plan(*text)) return word;
  }
  return {};
}

}  // namespace

int run_compare(const Args& args, Streams& streams) {
  if (args.words.size() != 2)
    return report_errors(
        {{"missing_word",
          fmt::format("`plan compare` needs two plans, {} given", args.words.size()),
          {},
          {"each is a plan that `plan --json` wrote, a launch file, a layout such as tp8,pp16, or `best`"}}},
        streams);
  const Args asked = asked_as(args, stated_inputs(args.words));
  const std::string launch = launch_file(args.words);
  Result<ComparedPlan> a = read_side(args.words[0], asked, launch, streams);
  Result<ComparedPlan> b = read_side(args.words[1], asked, launch, streams);
  Errors errors = a ? Errors{} : a.error();
  if (!b)
    for (const Error& error : b.error())
      if (std::find(errors.begin(), errors.end(), error) == errors.end()) errors.push_back(error);
  if (!errors.empty()) return report_errors(errors, streams);
  const Comparison comparison = compare(std::move(*a), std::move(*b));
  if (wants_json(args))
    streams.out = comparison_json(comparison);
  else if (args.format == "markdown")
    streams.out = comparison_markdown(comparison);
  else if (args.format == "html")
    streams.out = comparison_html(comparison);
  else
    streams.out = comparison_text(comparison, streams.out_terminal);
  return kYes;
}

}  // namespace plan
