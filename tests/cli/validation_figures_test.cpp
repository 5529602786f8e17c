// The figures of a validation against a second count of its rows: errors, choices and order suite by suite, and the
// average over suites.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "cli/request/run_files.hpp"
#include "planner/answer/layout_text.hpp"
#include "planner/runs/validate.hpp"

using namespace plan;

namespace {

/// Every published run, predicted with the presets of the program alone.
const Validation& published() {
  static const Validation result = [] {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(PLAN_SOURCE_DIR "/tests/published/runs"))
      if (entry.path().extension() == ".csv") files.push_back(entry.path().string());
    const auto runs = read_run_files(files);
    REQUIRE(runs.has_value());
    return validate(*runs, preset_catalogue({}));
  }();
  return result;
}

/// Linear between the two nearest of the sorted values.
double share_below(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  const double at = q * static_cast<double>(values.size() - 1);
  const auto low = static_cast<std::size_t>(at), high = std::min(low + 1, values.size() - 1);
  return values[low] * (1 - (at - static_cast<double>(low))) + values[high] * (at - static_cast<double>(low));
}

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

}  // namespace

TEST_CASE("a suite's errors, choices and order are those of its rows, counted again") {
  int ranked = 0;
  for (const auto& entry : published().suites) {
    const std::string& suite = entry.first;
    const auto& score = entry.second;
    CAPTURE(suite);
    std::vector<double> errors, sizes, regrets, taus;
    std::map<std::string, std::vector<Compared>> jobs;
    std::map<std::string, std::set<std::string>> layouts;  // in the words of `--layout`
    for (const ScoredRun& row : published().runs) {
      if (row.run.suite != suite || !row.step_time) continue;
      errors.push_back(row.step_time->predicted / row.step_time->measured - 1);
      sizes.push_back(std::abs(errors.back()));
      std::ostringstream job;
      job << row.run.model << ' ' << row.run.seq.value_or(0) << ' ' << row.run.gpus.value_or(0) << ' '
          << row.run.global_batch.value_or(0) << ' ' << row.run.fact("release") << ' ' << row.run.attention;
      jobs[job.str()].push_back(*row.step_time);
      layouts[job.str()].insert(layout_flag(row.layout));
    }
    CHECK(score.step_time.n == static_cast<int>(errors.size()));
    if (!errors.empty()) {
      CHECK(score.step_time.median_ape == doctest::Approx(share_below(sizes, 0.5)));
      CHECK(score.step_time.p90_ape == doctest::Approx(share_below(sizes, 0.9)));
      CHECK(score.step_time.mape == doctest::Approx(mean_of(sizes)));
      CHECK(score.step_time.bias == doctest::Approx(mean_of(errors)));
    }
    for (const auto& [job, rows] : jobs) {
      if (layouts[job].size() < 2) continue;
      double chosen = 0, fastest = 0, least = 0;
      int order = 0, pairs = 0;
      for (std::size_t i = 0; i < rows.size(); ++i) {
        if (i == 0 || rows[i].predicted < least) least = rows[i].predicted, chosen = rows[i].measured;
        if (i == 0 || rows[i].measured < fastest) fastest = rows[i].measured;
        for (std::size_t j = 0; j < i; ++j, ++pairs) {
          const bool tied = rows[i].measured == rows[j].measured || rows[i].predicted == rows[j].predicted;
          const bool same = (rows[i].measured < rows[j].measured) == (rows[i].predicted < rows[j].predicted);
          order += tied ? 0 : same ? 1 : -1;
        }
      }
      regrets.push_back((chosen - fastest) / fastest);
      taus.push_back(static_cast<double>(order) / pairs);
    }
    CHECK(score.ranking.groups == static_cast<int>(regrets.size()));
    if (regrets.empty()) continue;
    ++ranked;
    CHECK(score.ranking.median_regret == doctest::Approx(share_below(regrets, 0.5)));
    CHECK(score.ranking.p90_regret == doctest::Approx(share_below(regrets, 0.9)));
    CHECK(score.ranking.kendall_tau == doctest::Approx(mean_of(taus)));
  }
  CHECK(ranked >= 5);
}

TEST_CASE("over all suites each weighs the same, and those without a figure weigh nothing") {
  const auto over_suites = [](const std::function<std::optional<double>(const SuiteScore&)>& figure) {
    std::vector<double> figures;
    for (const auto& [suite, score] : published().suites)
      if (const std::optional<double> one = figure(score)) figures.push_back(*one);
    REQUIRE(figures.size() > 1);
    return doctest::Approx(mean_of(figures));
  };
  const auto of_times = [&](double ErrorScore::*what) {
    return over_suites([what](const SuiteScore& score) {
      return score.step_time.n > 0 ? std::optional(score.step_time.*what) : std::nullopt;
    });
  };
  const auto of_choices = [&](double RankingScore::*what) {
    return over_suites([what](const SuiteScore& score) {
      return score.ranking.groups > 0 ? std::optional(score.ranking.*what) : std::nullopt;
    });
  };
  const SuiteScore& all = published().overall;
  CHECK(all.step_time.median_ape == of_times(&ErrorScore::median_ape));
  CHECK(all.step_time.p90_ape == of_times(&ErrorScore::p90_ape));
  CHECK(all.step_time.mape == of_times(&ErrorScore::mape));
  CHECK(all.step_time.bias == of_times(&ErrorScore::bias));
  CHECK(all.ranking.median_regret == of_choices(&RankingScore::median_regret));
  CHECK(all.ranking.p90_regret == of_choices(&RankingScore::p90_regret));
  CHECK(all.ranking.kendall_tau == of_choices(&RankingScore::kendall_tau));
  int timed = 0;
  for (const auto& [suite, score] : published().suites) timed += score.step_time.n;
  CHECK(all.step_time.n == timed);
}
