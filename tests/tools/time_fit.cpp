#include "tests/tools/time_fit.hpp"

#include <Eigen/Dense>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <map>

#include "planner/answer/estimate.hpp"

namespace plan::fit {
namespace {

std::array kConstants{
    Constant{"gemm", &Calibration::gemm, 0, 0},
    Constant{"hopper", &Calibration::hopper, 0, 0},
    Constant{"hopper_fp8", &Calibration::hopper_fp8, 0, 0},
    Constant{"blackwell", &Calibration::blackwell, 0, 0},
    Constant{"blackwell_fp8", &Calibration::blackwell_fp8, 0, 0},
    Constant{"blackwell_fp4", &Calibration::blackwell_fp4, 0, 0},
    Constant{"grouped_gemm", &Calibration::grouped_gemm, 0, 0},
    Constant{"attention", &Calibration::attention, 0, 0},
    Constant{"scan", &Calibration::scan, 0, 0},
    Constant{"memory_bound", &Calibration::memory_bound, 0, 0},
    Constant{"scale_up", &Calibration::scale_up, 0, 0},
    Constant{"scale_out", &Calibration::scale_out, 0, 0},
    Constant{"network_decay", &Calibration::network_decay, 0, 0},
    Constant{"tensor_parallel", &Calibration::tensor_parallel, 0, 0},
    Constant{"eager_traffic", &Calibration::eager_traffic, 0, 0},
    Constant{"flash2_rate", &Calibration::flash2_rate, 0, 0},
    Constant{"flash1_rate", &Calibration::flash1_rate, 0, 0},
    Constant{"triton_rate", &Calibration::triton_rate, 0, 0},
    Constant{"overlap_tax", &Calibration::overlap_tax, 0, 0},
    Constant{"jitter", &Calibration::jitter, 0, 0},
    Constant{"kernel_gap_us", &Calibration::kernel_gap_us, 0, 0},
    Constant{"eager_gap_us", &Calibration::eager_gap_us, 0, 0},
    Constant{"fixed_step_ms", &Calibration::fixed_step_ms, 0, 0},
};

constexpr double kStep = 0.02;        // of a logarithm, for slopes
constexpr double kNoise = 0.06;       // what a good prediction misses by: repeats on other clusters differ by 5 %
constexpr double kCauchy = 1.5;       // of kNoise: runs that miss by far, for what nobody states, hardly pull
constexpr double kLongestStep = 0.3;  // of a logarithm

/// Of every run: rows of one model in one suite share a vote, models the votes of their suite.
std::vector<double> run_weights(std::span<const Timed> runs) {
  std::map<std::pair<std::string, std::string>, double> rows;
  for (const Timed& run : runs) ++rows[{run.suite, run.model}];
  std::map<std::string, double> models;
  for (const auto& [of, n] : rows) ++models[of.first];
  std::vector<double> weights;
  for (const Timed& run : runs) {
    const double n = models.at(run.suite);
    weights.push_back(std::min(n, kSuiteModels) / n / rows.at({run.suite, run.model}));
  }
  return weights;
}

}  // namespace

std::span<const Constant> constants() { return kConstants; }

bool read_beliefs(const std::string& text) {
  for (Constant& constant : kConstants) {
    const std::size_t line = text.find(std::string("\n  ") + constant.name + ": {value: ");
    if (line == std::string::npos) return false;
    const auto behind = [&](const char* key) { return std::strtod(text.c_str() + text.find(key, line) + 8, nullptr); };
    constant.prior = behind(" prior: "), constant.spread = behind("spread: ");
    if (!(constant.prior > 0 && constant.spread > 0)) return false;
  }
  return true;
}

std::string with_value(std::string text, const std::string& key, const std::string& value, bool& found) {
  for (const char* form : {": {value: ", ": "}) {
    const std::string head = "\n  " + key + form;
    std::size_t at = text.find(head);
    if (at == std::string::npos) continue;
    at += head.size();
    const char first = text[at];
    const std::size_t end = first == '['   ? text.find(']', at) + 1
                            : first == '{' ? text.find('}', at) + 1
                                           : text.find_first_of(",}\n #", at);
    return text.replace(at, end - at, value);
  }
  found = false;
  return text;
}

std::vector<double> residuals(std::span<Timed> runs, const Calibration& calibration) {
  std::vector<double> result;
  result.reserve(runs.size());
  for (Timed& timed : runs) {
    timed.run.problem.cluster.calibration = calibration;
    result.push_back(std::log(estimate(timed.run.problem, timed.run.layout).step_time.value / timed.measured));
  }
  return result;
}

Linear linearise(std::span<Timed> runs, const Calibration& calibration) {
  Linear linear{.residual = residuals(runs, calibration)};
  linear.slope.assign(runs.size(), std::vector<double>(kConstants.size()));
  for (std::size_t j = 0; j < kConstants.size(); ++j) {
    Calibration moved = calibration;
    moved.*kConstants[j].member *= std::exp(kStep);
    const std::vector<double> there = residuals(runs, moved);
    for (std::size_t i = 0; i < runs.size(); ++i) linear.slope[i][j] = (there[i] - linear.residual[i]) / kStep;
  }
  return linear;
}

Calibration improve(std::span<const Timed> runs, const Linear& linear, const Calibration& calibration,
                    const std::string& left_out) {
  const auto n = static_cast<Eigen::Index>(kConstants.size());
  const std::vector<double> weights = run_weights(runs);
  Eigen::VectorXd step = Eigen::VectorXd::Zero(n);
  for (int pass = 0; pass < 20; ++pass) {  // reweighted least squares on the linear model
    Eigen::MatrixXd normal = Eigen::MatrixXd::Zero(n, n);
    Eigen::VectorXd right = Eigen::VectorXd::Zero(n);
    for (Eigen::Index j = 0; j < n; ++j) {
      const Constant& constant = kConstants[static_cast<std::size_t>(j)];
      const double trust = 1 / (constant.spread * constant.spread);
      normal(j, j) += trust;
      right(j) += trust * std::log(constant.prior / calibration.*constant.member);
    }
    for (std::size_t i = 0; i < runs.size(); ++i) {
      if (runs[i].suite == left_out || runs[i].run.guessed) continue;
      const Eigen::Map<const Eigen::VectorXd> slope(linear.slope[i].data(), n);
      const double now = (linear.residual[i] + slope.dot(step)) / kNoise;
      const double robust = 1 / (1 + now * now / (kCauchy * kCauchy));
      const double weight = weights[i] * robust / (kNoise * kNoise);
      normal += weight * slope * slope.transpose();
      right -= weight * linear.residual[i] * slope;
    }
    step = normal.ldlt().solve(right).cwiseMax(-kLongestStep).cwiseMin(kLongestStep);
  }
  Calibration better = calibration;
  for (std::size_t j = 0; j < kConstants.size(); ++j)
    better.*kConstants[j].member *= std::exp(step(static_cast<Eigen::Index>(j)));
  return better;
}

double weighted_quantile(std::vector<Weighted> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end(), [](const Weighted& a, const Weighted& b) { return a.value < b.value; });
  double total = 0, sum = 0;
  for (const Weighted& v : values) total += v.weight;
  for (const Weighted& v : values)
    if ((sum += v.weight) >= q * total) return v.value;
  return values.back().value;
}

}  // namespace plan::fit
