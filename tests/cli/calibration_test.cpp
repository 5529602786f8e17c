#include "planner/runs/calibrate.hpp"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "cli/report/runs/calibration.hpp"
#include "cli/request/run_files.hpp"
#include "oracle/random_problem.hpp"
#include "planner/runs/diagnosis.hpp"
#include "presets/reader.hpp"

using namespace plan;

namespace {

constexpr const char* kGpu = "h100-sxm";

Cluster cluster_with(const Calibration& calibration) {
  Cluster cluster = load_cluster_of_gpu(kGpu, {})->value;
  cluster.calibration = calibration;
  return cluster;
}

/// Jobs that differ in everything that a constant shows in: width, sequence, tp, cp, pp, replicas, micro-batch.
std::vector<Run> jobs() {
  std::string text = "id,suite,quality,status,model,gpu,gpus,gpus_per_node,seq,global_batch,micro_batch,tp,cp,pp\n";
  int id = 0;
  for (const auto* model : {"llama3-8b", "llama3-70b"})
    for (const int seq : {4096, 32768})
      for (const int tp : {2, 4, 8})
        for (const int cp : {1, 2})
          for (const int pp : {1, 4})
            for (const int gpus : {64, 512})
              text += fmt::format("r{},mine,A,ok,{},{},{},8,{},{},1,{},{},{}\n", id++, model, kGpu, gpus, seq, gpus * 2,
                                  tp, cp, pp);
  return read_runs(text, "jobs").value();
}

/// The jobs, measured on a cluster.
std::vector<Run> measured_on(const Cluster& truth) {
  std::vector<Run> runs = jobs();
  for (Run& run : runs) run.step_time_s = 1e6;  // longer than any GPU needs
  const Validation ideal = validate(runs, preset_catalogue({}, truth));
  std::vector<Run> out;
  for (const ScoredRun& scored : ideal.runs)
    if (scored.step_time) {
      out.push_back(scored.run);
      out.back().step_time_s = scored.step_time->predicted;
    }
  return out;
}

std::vector<Run> with_more(std::vector<Run> runs, const std::vector<Run>& more) {
  runs.insert(runs.end(), more.begin() + 10, more.begin() + 14);
  return runs;
}

double gap(double found, double truth) { return std::abs(found / truth - 1); }

}  // namespace

TEST_CASE("a calibration recovers the constants that made the runs") {
  Calibration truth;
  truth.gemm *= 0.9, truth.attention *= 0.85, truth.scale_up *= 0.8, truth.scale_out *= 0.7;
  const std::vector<Run> runs = measured_on(cluster_with(truth));
  REQUIRE(runs.size() > 60);
  const CalibrationResult found = calibrate(runs, preset_catalogue({})).value();
  CHECK(gap(found.calibration.gemm, truth.gemm) < 0.02);
  CHECK(gap(found.calibration.attention, truth.attention) < 0.02);
  CHECK(gap(found.calibration.scale_up, truth.scale_up) < 0.02);
  CHECK(gap(found.calibration.scale_out, truth.scale_out) < 0.02);
  CHECK(found.step_time.before.median_ape > 0.05);
  CHECK(found.step_time.after.median_ape < 0.005);
  CHECK_FALSE(found.leave_one_out);
  CHECK(calibrate(runs, preset_catalogue({})).value().calibration == found.calibration);
}

TEST_CASE("a wild run does not decide") {
  Calibration truth;
  truth.gemm *= 0.9;
  std::vector<Run> runs = measured_on(cluster_with(truth));
  *runs[7].step_time_s *= 5;
  CHECK(gap(calibrate(runs, preset_catalogue({}))->calibration.gemm, truth.gemm) < 0.03);
}

TEST_CASE("three runs suffice, and two do not") {
  Calibration truth;
  truth.gemm *= 0.9;
  std::vector<Run> runs = measured_on(cluster_with(truth));
  runs.resize(3);
  const CalibrationResult found = calibrate(runs, preset_catalogue({})).value();
  CHECK(found.leave_one_out);
  CHECK(found.step_time.after.median_ape < found.step_time.before.median_ape);
  for (double wrong : {0.3, 3.0}) {  // measurements far from any cluster: pulled, not torn away
    std::vector<Run> odd = runs;
    for (Run& run : odd) *run.step_time_s *= wrong;
    const CalibrationResult pulled = calibrate(odd, preset_catalogue({})).value();
    for (const FittedConstant& c : pulled.constants) {
      CAPTURE(std::string(c.field->name));
      CHECK(std::isfinite(c.after));
      CHECK(std::abs(std::log(c.after / c.before)) < std::log(10.0));
      CHECK(c.spread <= c.field->spread * 1.001);
    }
  }
  runs.resize(2);
  CHECK(calibrate(runs, preset_catalogue({})).error()[0].code == "too_few_runs");
}

TEST_CASE("twenty steps of an unknown cluster: unseen layouts within 3 %, and an interval that holds nine in ten") {
  std::mt19937 random(29);
  std::normal_distribution<double> normal;
  constexpr double kNoise = 0.03;
  int unseen = 0, held = 0;
  std::vector<double> all;
  const int worlds = oracle::rounds(8);
  for (int world = 0; world < worlds; ++world) {
    Calibration truth;
    for (const CalibrationField& field : kCalibrationFields) truth.*field.value *= std::exp(0.2 * normal(random));
    Cluster cluster = cluster_with(truth);
    for (Tier& tier : cluster.tiers) {  // of what is not fitted, too
      tier.bandwidth = tier.bandwidth * std::exp(0.2 * normal(random));
      tier.latency = tier.latency * std::exp(0.3 * normal(random));
    }
    cluster.gpu.memory_bandwidth = cluster.gpu.memory_bandwidth * std::exp(0.1 * normal(random));
    std::vector<Run> runs = measured_on(cluster);
    std::shuffle(runs.begin(), runs.end(), random);
    for (Run& run : runs) *run.step_time_s *= std::exp(kNoise * normal(random));
    const std::vector<Run> seen(runs.begin(), runs.begin() + 20);
    const std::vector<Run> others(runs.begin() + 20, runs.end());
    const CalibrationResult found = calibrate(seen, preset_catalogue({})).value();
    CHECK(found.leave_one_out);
    std::vector<double> errors;
    for (const ScoredRun& run : validate(others, preset_catalogue({}, cluster_with(found.calibration))).runs) {
      if (!run.step_time) continue;
      const double ratio = run.step_time->measured / run.step_time->predicted;
      errors.push_back(std::abs(ratio - 1));
      ++unseen, held += ratio >= found.unseen.low && ratio <= found.unseen.high ? 1 : 0;
    }
    REQUIRE(errors.size() > 30);
    all.insert(all.end(), errors.begin(), errors.end());
  }
  // Measured steps of unseen layouts, whose own noise is in the error: of all clusters together.
  std::nth_element(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2), all.end());
  CHECK(all[all.size() / 2] < 0.03);
  MESSAGE("held ", held, " of ", unseen, ", median error ", all[all.size() / 2]);
  // The layouts of one cluster err together, so a share holds by the number of clusters: 5 points of eight of them.
  const double margin = 0.14 / std::sqrt(worlds);
  CHECK(held >= (0.9 - margin) * unseen);
  CHECK(held <= (0.9 + margin) * unseen);
}

TEST_CASE("where the time went tells what the whole step cannot") {
  Calibration truth;
  truth.gemm *= 0.9, truth.scale_up *= 0.7, truth.scale_out *= 1.3;
  std::vector<Run> runs = measured_on(cluster_with(truth));
  runs.resize(3);
  const CalibrationResult totals = calibrate(runs, preset_catalogue({})).value();
  const Catalogue known = preset_catalogue({}, cluster_with(truth));
  for (Run& run : runs) {
    const RunProblem job = problem_of(run, known).value();
    const StepParts parts = parts_of(job.problem, estimate(job.problem, job.layout));
    for (std::size_t i = 1; i < parts.size(); ++i)
      run.facts[std::string(kObservableNames[i]) + "_s"] = fmt::format("{:.6g}", parts[i]);
  }
  const CalibrationResult terms = calibrate(runs, preset_catalogue({})).value();
  CHECK(totals.traced == 0);
  CHECK(terms.traced == 3);
  CHECK(gap(terms.calibration.gemm, truth.gemm) < gap(totals.calibration.gemm, truth.gemm));
  CHECK(gap(terms.calibration.scale_up, truth.scale_up) < gap(totals.calibration.scale_up, truth.scale_up));
  runs[0].facts["tp_s"] = "soon";
  const CalibrationResult skipped = calibrate(with_more(runs, measured_on(cluster_with(truth))), known).value();
  CHECK(skipped.skipped.size() == 1);
}

TEST_CASE("a part of a step is between nothing and all of it, or its run is left out by the part's name") {
  std::vector<Run> runs = measured_on(cluster_with({}));
  runs.resize(4);
  std::size_t i = 1;
  const double step = *runs[2].step_time_s = 1.5;
  struct Part {
    std::string text;
    bool possible;
  };
  for (const Part& part : {Part{"0", true},
                           {fmt::format("{}", step), true},
                           {"0.75", true},
                           {"1.5001", false},
                           {"-0.1", false},
                           {"nan", false},
                           {"0.5s", false},
                           {"soon", false}}) {
    CAPTURE(part.text);
    const std::string key = std::string(kObservableNames[i]) + "_s";
    i = 1 + i % (kObservableNames.size() - 1);
    runs[2].facts = {{key, part.text}};
    const CalibrationResult found = calibrate(runs, preset_catalogue({})).value();
    REQUIRE(found.skipped.size() == (part.possible ? 0 : 1));
    CHECK(found.runs == (part.possible ? 4 : 3));
    if (!part.possible) CHECK(found.skipped[0].reason.find(key + " ") != std::string::npos);
    if (!part.possible) CHECK(found.skipped[0].reason.find(part.text) != std::string::npos);
  }
}

TEST_CASE("a constant that leaves what is usual is named with what it scales") {
  Calibration truth;
  const CalibrationResult usual = calibrate(measured_on(cluster_with(truth)), preset_catalogue({})).value();
  for (const FittedConstant& c : usual.constants) CHECK_FALSE(c.stands_in());
  CHECK(calibration_text(usual, kGpu, Terminal{}).find("stand in") == std::string::npos);
  truth.gemm *= 0.6;  // as if two fifths of all products were not counted
  const CalibrationResult odd = calibrate(measured_on(cluster_with(truth)), preset_catalogue({})).value();
  for (const FittedConstant& c : odd.constants) CHECK(c.stands_in() == (c.field->name == "gemm"));
  std::string text = calibration_text(odd, kGpu, Terminal{});
  std::replace(text.begin(), text.end(), '\n', ' ');  // wrapped wherever a line is full
  const auto spaces = [](char a, char b) { return a == ' ' && b == ' '; };
  text.erase(std::unique(text.begin(), text.end(), spaces), text.end());
  CHECK(text.find("gemm went 5.") != std::string::npos);
  CHECK(text.find("matrix products") != std::string::npos);
}

TEST_CASE("what the runs do not tell stays") {
  std::vector<Run> runs = measured_on(cluster_with({}));
  const CalibrationResult found = calibrate(runs, preset_catalogue({})).value();
  for (const FittedConstant& c : found.constants) CHECK(gap(c.after, c.before) < 0.01);
}

TEST_CASE("held-out published runs are predicted no worse") {
  constexpr double kNoise = 0.02;
  for (const char* suite : {"hagemann", "vtrain-multi", "simumax", "selene", "zero-bubble"}) {
    CAPTURE(std::string(suite));
    const auto runs = read_run_files({std::string(PLAN_SOURCE_DIR "/tests/published/runs/") + suite + ".csv"});
    const CalibrationResult found = calibrate(runs.value(), preset_catalogue({})).value();
    CHECK(found.step_time.after.median_ape <= found.step_time.before.median_ape + kNoise);
    CHECK(found.step_time.after.mape <= found.step_time.before.mape + kNoise);
  }
}

TEST_CASE("a profile reads back") {
  Calibration fitted;
  fitted.gemm = 0.8125, fitted.jitter = 0.031, fitted.allocator_reserve = 1.4;
  const std::string text = write_cluster(cluster_with(fitted));
  const GpuLookup none = [](std::string_view) { return Gpu{}; };
  const Result<Cluster> read = read_cluster(text, "profile.yaml", none);
  REQUIRE(read.has_value());
  CHECK(read->calibration == fitted);
  CHECK(write_cluster(cluster_with({})).find("calibration:") == std::string::npos);
}

TEST_CASE("the report adds up") {
  std::vector<Run> runs = measured_on(cluster_with({}));
  runs.resize(4);
  runs[3].model = "gpt-9";
  const CalibrationResult found = calibrate(runs, preset_catalogue({})).value();
  const auto json = nlohmann::ordered_json::parse(calibration_json(found, kGpu));
  CHECK(json.begin().value() == "plan-calibrate/1");
  CHECK(json["rows"] == 4);
  CHECK(json["fitted"] == 3);
  CHECK(json["skipped"][0]["id"] == runs[3].id);
  CHECK(json["held_out"]["memory"]["before"]["median_ape"].is_null());
  CHECK(json["constants"].size() == std::size(kCalibrationFields));
  CHECK(calibration_text(found, kGpu, Terminal{}).find("h100-sxm: fitted to 3 of 4 runs") == 0);
}
