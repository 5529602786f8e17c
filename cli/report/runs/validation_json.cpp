// Validation for machines: JSON (schema plan-validate/1) and one CSV line a run. Tested by
// tests/cli/validation_test.cpp.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <string_view>

#include "cli/report/plan/json.hpp"
#include "cli/report/runs/validation.hpp"

namespace plan {
namespace {

/// A statistic of nothing is null: zero would read as a perfect score, or as none.
Json known(bool any, double value) { return any ? Json(value) : Json(nullptr); }

Json time_json(const ErrorScore& e) {
  return {{"n", e.n},
          {"median_ape", known(e.n > 0, e.median_ape)},
          {"mape", known(e.n > 0, e.mape)},
          {"p90_ape", known(e.n > 0, e.p90_ape)},
          {"bias", known(e.n > 0, e.bias)}};
}

Json suite_json(const SuiteScore& score) {
  Json memory = Json::object();
  for (const auto& [kind, e] : score.memory)
    memory[kind] = {{"n", e.n}, {"median_ape", e.median_ape}, {"p90_ape", e.p90_ape}, {"bias", e.bias}};
  const RankingScore& ranking = score.ranking;
  const bool ranked = ranking.groups > 0;
  return {{"step_time", time_json(score.step_time)},
          {"memory", std::move(memory)},
          {"fit",
           {{"n", score.fit.n},
            {"correct", score.fit.correct},
            {"balanced_accuracy", known(score.fit.n > 0, score.fit.balanced_accuracy)}}},
          {"ranking",
           {{"groups", ranking.groups},
            {"median_regret", known(ranked, ranking.median_regret)},
            {"p90_regret", known(ranked, ranking.p90_regret)},
            {"kendall_tau", known(ranked, ranking.kendall_tau)}}},
          {"coverage",
           {{"step_time", known(score.coverage.step_times > 0, score.coverage.step_time)},
            {"memory", known(score.coverage.memories > 0, score.coverage.memory)}}}};
}

/// A CSV cell, quoted where it has to be.
std::string cell(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

/// measured,predicted,error,low,high; empty cells where nothing was compared.
std::string compared_cells(const std::optional<Compared>& pair, bool whole) {
  if (!pair) return ",,,,";
  const auto number = [&](double v) { return whole ? fmt::format("{:.0f}", v) : fmt::format("{:.6g}", v); };
  return fmt::format("{},{},{:.5f},{},{}", number(pair->measured), number(pair->predicted), pair->error(),
                     number(pair->low), number(pair->high));
}

}  // namespace

std::string validation_json(const Validation& validation) {
  Json json = {{"schema", "plan-validate/1"}, {"rows", validation.runs.size()}, {"scored", validation.scored}};
  json["skipped"] = Json::array();
  for (const ScoredRun& run : validation.runs)
    if (!run.reason.empty()) json["skipped"].push_back({{"id", run.run.id}, {"reason", run.reason}});
  json["remarks"] = Json::array();
  for (const ScoredRun& run : validation.runs)
    for (const std::string& remark : run.remarks) json["remarks"].push_back({{"id", run.run.id}, {"remark", remark}});
  json["suites"] = Json::object();
  for (const auto& [name, score] : validation.suites) json["suites"][name] = suite_json(score);
  json["overall"] = suite_json(validation.overall);
  return dump(json);
}

std::string validation_rows(const Validation& validation) {
  std::string out =
      "id,suite,quality,model,gpu,gpus,step_time_measured_s,step_time_predicted_s,step_time_error,step_time_low_s,"
      "step_time_high_s,memory_kind,memory_measured_bytes,memory_predicted_bytes,memory_error,memory_low_bytes,"
      "memory_high_bytes,fits_measured,fits_predicted,reason,remarks\n";
  for (const ScoredRun& scored : validation.runs) {
    const Run& run = scored.run;
    out += fmt::format("{},{},{},{},{},{},", cell(run.id), cell(run.suite), cell(run.quality), cell(run.model),
                       cell(run.gpu), run.gpus ? fmt::format("{}", *run.gpus) : "");
    out += compared_cells(scored.step_time, false);
    out += fmt::format(",{},{}", scored.memory ? cell(run.memory_kind) : "", compared_cells(scored.memory, true));
    const auto yes = [](bool value) { return value ? "yes" : "no"; };
    out += fmt::format(",{},{}", scored.fits ? yes(scored.fitted) : "", scored.fits ? yes(*scored.fits) : "");
    out += fmt::format(",{},{}\n", cell(scored.reason), cell(fmt::format("{}", fmt::join(scored.remarks, "; "))));
  }
  return out;
}

}  // namespace plan
