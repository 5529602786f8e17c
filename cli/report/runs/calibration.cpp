// What `plan calibrate` prints. Tested by tests/cli/calibration_test.cpp.
#include "cli/report/runs/calibration.hpp"

#include <fmt/core.h>

#include "cli/report/plan/json.hpp"
#include "cli/terminal/format.hpp"
#include "cli/terminal/json_list.hpp"

namespace plan {
namespace {

std::string error_line(std::string_view name, const ErrorScore& e) {
  return fmt::format("  {:<18}{:>6} {:>8} {:>8} {:>8} {:>9}\n", name, e.n, percent(e.median_ape), percent(e.mape),
                     percent(e.p90_ape), signed_percent(e.bias));
}

std::string error_lines(std::string_view name, const HeldOut& held_out) {
  if (held_out.before.n == 0) return {};
  return error_line(fmt::format("{} before", name), held_out.before) +
         error_line(fmt::format("{} after", name), held_out.after);
}

Json error_json(const ErrorScore& e) {
  if (e.n == 0) return {{"n", 0}, {"median_ape", nullptr}, {"mape", nullptr}, {"p90_ape", nullptr}, {"bias", nullptr}};
  return {{"n", e.n}, {"median_ape", e.median_ape}, {"mape", e.mape}, {"p90_ape", e.p90_ape}, {"bias", e.bias}};
}

}  // namespace

std::string calibration_text(const CalibrationResult& result, const std::string& gpu, const Terminal& terminal) {
  std::string out = fmt::format("{}: fitted to {} of {} runs\n\n", gpu, result.runs,
                                result.runs + static_cast<int>(result.skipped.size()));
  out += paint(terminal, Style::Bold, fmt::format("{:<20}", "Held-out runs"));
  out += "     n   median     mean      p90      bias\n";
  out += error_lines("step time", result.step_time) + error_lines("memory", result.memory);
  out += fmt::format("  {}\n", result.leave_one_out ? "each run predicted from the others"
                                                    : "every fifth run predicted from the rest");
  if (result.traced > 0) out += fmt::format("  {} runs say where their time went\n", result.traced);
  if (result.step_time.after.n > 0)
    out += fmt::format("  nine in ten layouts like these: {:.3f} to {:.3f} of the predicted step\n", result.unseen.low,
                       result.unseen.high);
  out += "\n";
  out += paint(terminal, Style::Bold, fmt::format("{:<20}", "Constants"));
  out += "before    after   known to\n";
  for (const FittedConstant& c : result.constants)
    out += fmt::format("  {:<18}{:>6} {:>8} {:>10}\n", c.field->name, number_text(c.before, 3), number_text(c.after, 3),
                       fmt::format("± {:.0f} %", 100 * c.spread));
  for (const FittedConstant& c : result.constants)
    if (c.stands_in())
      out += "\n" +
             wrap(fmt::format("{} went {:.1f} standard deviations from what is usual. It scales {}: make sure "
                              "first that nothing about them is left out or misstated in the runs, for which "
                              "it would stand in.",
                              c.field->name, std::abs(c.deviations()), c.field->scales),
                  terminal.width, 2) +
             "\n";
  return out;
}

std::string calibration_json(const CalibrationResult& result, const std::string& gpu) {
  Json json = {{"schema", "plan-calibrate/1"},
               {"gpu", gpu},
               {"rows", result.runs + static_cast<int>(result.skipped.size())},
               {"fitted", result.runs},
               {"traced", result.traced}};
  json["skipped"] = json_list(result.skipped, [](const ScoredRun& run) -> Json {
    return {{"id", run.run.id}, {"reason", run.reason}};
  });
  json["held_out"] = {
      {"method", result.leave_one_out ? "leave_one_out" : "every_fifth"},
      {"step_time", {{"before", error_json(result.step_time.before)}, {"after", error_json(result.step_time.after)}}},
      {"memory", {{"before", error_json(result.memory.before)}, {"after", error_json(result.memory.after)}}}};
  if (result.step_time.after.n > 0)
    json["unseen_step_time"] = {{"low_ratio", result.unseen.low}, {"high_ratio", result.unseen.high}};
  json["constants"] = Json::object();
  for (const FittedConstant& c : result.constants)
    json["constants"][std::string(c.field->name)] = {{"before", c.before},
                                                     {"after", c.after},
                                                     {"relative_spread", c.spread},
                                                     {"prior_deviations", c.deviations()},
                                                     {"stands_in", c.stands_in()}};
  return dump(json);
}

}  // namespace plan
