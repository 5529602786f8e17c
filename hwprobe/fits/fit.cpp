// Fits of measured curves to the laws of formulas (plan-measuring(7) 1 and 2): Levenberg-Marquardt on logarithms under
// a soft-L1 loss. Assumes errors that are shares of the time, as timers and clocks of GPUs make them. Tested by
// tests/hwprobe/fit_test.cpp.
#include "hwprobe/fits/fit.hpp"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>

#include "formulas/traced.hpp"

namespace plan {
namespace {

constexpr double kSoftL1Scale = 0.1;
constexpr double kDefaultP = 0.62;
constexpr std::size_t kSizesToFreeP = 8;
constexpr int kIterations = 200;

/// Weight of a residual under the soft-L1 loss 2 c^2 (sqrt(1 + (r/c)^2) - 1).
double residual_weight(double residual) {
  return 1 / std::sqrt(1 + residual * residual / (kSoftL1Scale * kSoftL1Scale));
}

double loss(const Eigen::VectorXd& residuals) {
  double sum = 0;
  for (const double r : residuals) sum += std::sqrt(1 + r * r / (kSoftL1Scale * kSoftL1Scale)) - 1;
  return sum;
}

using Residuals = std::function<Eigen::VectorXd(const Eigen::VectorXd&)>;

Eigen::MatrixXd jacobian(const Residuals& residuals, const Eigen::VectorXd& x, const Eigen::VectorXd& at) {
  constexpr double kStep = 1e-6;
  Eigen::MatrixXd j(at.size(), x.size());
  for (Eigen::Index i = 0; i < x.size(); ++i) {
    Eigen::VectorXd moved = x;
    moved[i] += kStep;
    j.col(i) = (residuals(moved) - at) / kStep;
  }
  return j;
}

Eigen::VectorXd minimise(const Residuals& residuals, Eigen::VectorXd x) {
  double damping = 1e-2;
  Eigen::VectorXd r = residuals(x);
  double best = loss(r);
  for (int iteration = 0; iteration < kIterations && damping < 1e12; ++iteration) {
    const Eigen::MatrixXd j = jacobian(residuals, x, r);
    const Eigen::VectorXd w = r.unaryExpr(&residual_weight);
    Eigen::MatrixXd normal = j.transpose() * w.asDiagonal() * j;
    normal.diagonal() += damping * (normal.diagonal().array() + 1e-9).matrix();
    const Eigen::VectorXd step = normal.ldlt().solve(-(j.transpose() * w.asDiagonal() * r));
    const Eigen::VectorXd next = x + step.cwiseMax(-1.0).cwiseMin(1.0);
    const Eigen::VectorXd next_r = residuals(next);
    const double next_loss = next_r.allFinite() ? loss(next_r) : HUGE_VAL;
    if (next_loss >= best) {
      damping *= 4;
      continue;
    }
    const bool settled = best - next_loss < 1e-12 * best;
    x = next;
    r = next_r;
    best = next_loss;
    damping = std::max(damping / 3, 1e-9);
    if (settled) break;
  }
  return x;
}

}  // namespace

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 != 0 ? values[half] : 0.5 * (values[half - 1] + values[half]);
}

FitQuality fit_quality(std::span<const double> predicted, std::span<const double> measured) {
  std::vector<double> errors, magnitudes;
  for (std::size_t i = 0; i < measured.size(); ++i) errors.push_back(predicted[i] / measured[i] - 1);
  if (errors.empty()) return {};
  for (const double e : errors) magnitudes.push_back(std::abs(e));
  std::sort(magnitudes.begin(), magnitudes.end());
  const auto ninety = static_cast<std::size_t>(std::ceil(0.9 * static_cast<double>(magnitudes.size()))) - 1;
  return {.count = static_cast<int>(errors.size()),
          .median = median(magnitudes),
          .p90 = magnitudes[ninety],
          .max = magnitudes.back(),
          .bias = median(errors)};
}

std::vector<double> fit_log(const std::function<double(std::span<const double>, std::size_t)>& model,
                            std::span<const double> measured, std::vector<double> start) {
  const auto count = static_cast<Eigen::Index>(start.size());
  const auto natural = [&](const Eigen::VectorXd& logs) {
    std::vector<double> values(start.size());
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::exp(logs[static_cast<Eigen::Index>(i)]);
    return values;
  };
  const Residuals residuals = [&](const Eigen::VectorXd& logs) {
    const std::vector<double> values = natural(logs);
    Eigen::VectorXd r(static_cast<Eigen::Index>(measured.size()));
    for (std::size_t i = 0; i < measured.size(); ++i)
      r[static_cast<Eigen::Index>(i)] = std::log(model(values, i) / measured[i]);
    return r;
  };
  Eigen::VectorXd x(count);
  for (Eigen::Index i = 0; i < count; ++i) x[i] = std::log(start[static_cast<std::size_t>(i)]);
  return natural(minimise(residuals, x));
}

CollectiveFit fit_collective(Collective op, int ranks, std::span<const CollectiveSample> samples) {
  const double factor = wire_factor(op, ranks);
  std::vector<double> seconds, wire;
  double fastest = HUGE_VAL, busbw = 0;
  for (const CollectiveSample& s : samples) {
    seconds.push_back(s.seconds);
    wire.push_back(s.bytes * factor);
    fastest = std::min(fastest, s.seconds);
    busbw = std::max(busbw, s.bytes * factor / s.seconds);
  }
  CollectiveFit fit{.op = op, .ranks = ranks, .p = kDefaultP, .provenance = Provenance::Fitted};
  if (samples.empty()) return fit;
  const auto model = [&](std::span<const double> x, std::size_t i) {
    return soft_sum(x[0], wire[i] / x[1], x.size() > 2 ? std::clamp(x[2], kLeastP, kMostP) : kDefaultP);
  };
  std::vector<double> start{fastest, busbw * 1.1};
  if (samples.size() >= kSizesToFreeP) start.push_back(kDefaultP);
  const std::vector<double> found = fit_log(model, seconds, start);
  fit.alpha = Seconds(found[0]);
  fit.busbw = BytesPerSecond(found[1]);
  if (found.size() > 2) fit.p = std::clamp(found[2], kLeastP, kMostP);
  return fit;
}

GemmFit fit_gemm(std::span<const GemmSample> samples, const GemmFit& start) {
  std::vector<double> seconds;
  for (const GemmSample& s : samples) seconds.push_back(s.seconds);
  const auto unpack = [&](std::span<const double> x) {
    return GemmFit{.t0 = Seconds(x[0]),
                   .rate = FlopsPerSecond(x[1]),
                   .bandwidth = BytesPerSecond(x[2]),
                   .norm = start.norm,
                   .provenance = Provenance::Fitted};
  };
  const auto model = [&](std::span<const double> x, std::size_t i) {
    return roofline_time(unpack(x), Flops(samples[i].flops), RealBytes(samples[i].bytes)).value;
  };
  return unpack(fit_log(model, seconds, {start.t0.value, start.rate.value, start.bandwidth.value}));
}

AttentionFit fit_attention(std::span<const AttentionSample> samples, const AttentionFit& start, bool backward) {
  std::vector<double> seconds;
  for (const AttentionSample& s : samples) seconds.push_back(s.seconds);
  const auto unpack = [&](std::span<const double> x) {
    AttentionFit fit = start;
    fit.t0 = Seconds(x[0]);
    fit.rate = FlopsPerSecond(x[1]);
    fit.s0 = x[2];
    fit.b0 = x[3];
    fit.provenance = Provenance::Fitted;
    return fit;
  };
  const auto model = [&](std::span<const double> x, std::size_t i) {
    return attention_time(unpack(x), samples[i].work, backward).value;
  };
  return unpack(fit_log(model, seconds, {start.t0.value, start.rate.value, start.s0, start.b0}));
}

}  // namespace plan
