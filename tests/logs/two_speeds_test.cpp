// A run that went at one speed and then at another says so, wherever the change is; a warm-up and noise do not.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "cli/logs/job_logs.hpp"
#include "cli/logs/log_read.hpp"

using namespace plan;

namespace {

/// What is said of the speeds of a run of such steps, as MaxText prints them.
std::vector<std::string> said_of(const std::vector<double>& steps) {
  std::string text;
  for (std::size_t i = 0; i < steps.size(); ++i)
    text += fmt::format("completed step: {}, seconds: {:.4f}, TFLOP/s/device: 200\n", i, steps[i]);
  std::istringstream in(text);
  MeasuredLog log = read_log(in, "out.log").value();
  Problem problem;
  problem.gpus = 8, problem.training.task = Task::Lora;  // whose rates are compared with nothing
  return speeds_apart(log, problem);
}

}  // namespace

TEST_CASE("two speeds in one log are said, wherever the run changes") {
  std::mt19937 random(5);
  const auto any = [&](double low, double high) { return std::uniform_real_distribution<double>(low, high)(random); };
  for (int round = 0; round < 60; ++round) {
    const int steps = static_cast<int>(any(60, 900)), change = static_cast<int>(any(0.2, 0.8) * steps);
    const double first = any(1, 20), second = first * (any(0, 1) < 0.5 ? any(1.25, 3) : any(0.3, 0.8));
    std::vector<double> run;
    for (int i = 0; i < steps; ++i) run.push_back((i < change ? first : second) * any(0.98, 1.02));
    CAPTURE(steps);
    CAPTURE(change);
    CAPTURE(second / first);
    const std::vector<std::string> said = said_of(run);
    REQUIRE(said.size() == 1);
    int told = 0;
    std::istringstream words(said.front().substr(std::string("the first ").size()));
    words >> told;
    CHECK(told == doctest::Approx(change).epsilon(0.05));
  }
}

TEST_CASE("a warm-up, noise and stalls are no second speed") {
  std::mt19937 random(6);
  const auto any = [&](double low, double high) { return std::uniform_real_distribution<double>(low, high)(random); };
  for (int round = 0; round < 60; ++round) {
    const int steps = static_cast<int>(any(60, 900)), warm = static_cast<int>(any(0, 8));
    const double usual = any(1, 20), noise = any(0.005, 0.15);
    std::vector<double> run;
    for (int i = 0; i < steps; ++i)
      run.push_back(usual * (i < warm ? any(2, 10) : i % 50 == 49 ? 4 : any(1 - noise, 1 + noise)));
    CAPTURE(warm);
    CAPTURE(noise);
    const std::vector<std::string> said = said_of(run);
    CHECK_MESSAGE(said.empty(), (said.empty() ? std::string() : said.front()));
  }
}

TEST_CASE("steps that drift steadily are no two speeds, and are said to drift") {
  std::mt19937 random(7);
  const auto any = [&](double low, double high) { return std::uniform_real_distribution<double>(low, high)(random); };
  for (int round = 0; round < 60; ++round) {
    const int steps = static_cast<int>(any(60, 900));
    const bool compound = any(0, 1) < 0.5;
    const double first = any(1, 20), times = any(0, 1) < 0.5 ? any(1.4, 3) : any(0.35, 0.7);
    std::vector<double> run;
    for (int i = 0; i < steps; ++i) {
      const double share = static_cast<double>(i) / steps;
      run.push_back(first * (compound ? std::pow(times, share) : 1 + (times - 1) * share) * any(0.98, 1.02));
    }
    CAPTURE(steps);
    CAPTURE(compound);
    CAPTURE(times);
    const std::vector<std::string> said = said_of(run);
    REQUIRE(said.size() == 1);
    CHECK_MESSAGE(said.front().starts_with("the steps of out.log change steadily, from "), said.front());
  }
}
