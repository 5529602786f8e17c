#include "tests/tools/intervals.hpp"

#include <Eigen/Dense>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "tests/tools/time_fit.hpp"

namespace plan::fit {
namespace {

constexpr double kFloor = 0.01;  // residuals below it are luck
constexpr double kRidge = 2;     // runs' worth of belief that a doubt changes nothing
constexpr double kTails = 0.1;
using Scale = std::array<double, kDoubts + 1>;

double scale_of(const Scale& scale, const std::array<double, kDoubts>& doubts) {
  double log = scale[0];
  for (int i = 0; i < kDoubts; ++i) log += scale[static_cast<std::size_t>(i) + 1] * doubts[static_cast<std::size_t>(i)];
  return std::exp(log);
}

template <class Rows>
std::map<std::string, double> weights_of(const Rows& rows, double votes) {
  std::map<std::string, double> count;
  for (const auto& row : rows) ++count[row.suite];
  for (auto& [suite, n] : count) n = std::min(n, votes) / n;
  return count;
}

Scale fit_scale(const std::vector<Residual>& rows, const std::string& left_out) {
  const std::map<std::string, double> weights = weights_of(rows, kSuiteVotes);
  constexpr Eigen::Index n = kDoubts + 1;
  Eigen::MatrixXd normal = Eigen::MatrixXd::Zero(n, n);
  Eigen::VectorXd right = Eigen::VectorXd::Zero(n);
  for (Eigen::Index i = 1; i < n; ++i) normal(i, i) = kRidge;
  for (const Residual& row : rows) {
    if (row.suite == left_out) continue;
    Eigen::VectorXd x(n);
    x(0) = 1;
    for (Eigen::Index i = 1; i < n; ++i) x(i) = row.doubts[static_cast<std::size_t>(i - 1)];
    const double weight = weights.at(row.suite);
    normal += weight * x * x.transpose();
    right += weight * std::log(std::abs(row.log) + kFloor) * x;
  }
  const Eigen::VectorXd found = normal.ldlt().solve(right);
  Scale scale{};
  for (Eigen::Index i = 0; i < n; ++i) scale[static_cast<std::size_t>(i)] = found(i);
  for (std::size_t i = 1; i < scale.size(); ++i) scale[i] = std::max(0.0, scale[i]);  // doubt never makes sure
  return scale;
}

/// Quantiles of residuals over their scales.
Interval band(const std::vector<Residual>& rows, const Scale& scale, const std::string& left_out, double tail) {
  const std::map<std::string, double> weights = weights_of(rows, kSuiteVotes);
  std::vector<Weighted> values;
  for (const Residual& row : rows)
    if (row.suite != left_out) values.push_back({row.log / scale_of(scale, row.doubts), weights.at(row.suite)});
  return {std::min(0.0, weighted_quantile(values, tail)), std::max(0.0, weighted_quantile(values, 1 - tail))};
}

struct Covered {
  double share = 0, width = 0;
};

Covered left_out_coverage(const std::vector<Residual>& rows, const std::map<std::string, Scale>& scales, double tail) {
  Covered mean;
  for (const auto& [suite, scale] : scales) {
    const Interval limits = band(rows, scale, suite, tail);
    double inside = 0, width = 0, n = 0;
    for (const Residual& row : rows) {
      if (row.suite != suite) continue;
      const double s = scale_of(scale, row.doubts);
      inside += limits.low * s <= row.log && row.log <= limits.high * s;
      width += std::exp((limits.high - limits.low) * s), ++n;
    }
    mean.share += inside / n / static_cast<double>(scales.size());
    mean.width += width / n / static_cast<double>(scales.size());
  }
  return mean;
}

}  // namespace

Conformal conformal(const std::vector<Residual>& residuals, double wanted) {
  std::map<std::string, Scale> scales;
  for (const Residual& row : residuals) scales.try_emplace(row.suite);
  for (auto& [suite, scale] : scales) scale = fit_scale(residuals, suite);
  double tail = kTails;
  while (tail > 0.002 && left_out_coverage(residuals, scales, tail).share < wanted) tail -= 0.002;
  Conformal result;
  result.scale = fit_scale(residuals, "");
  const Interval limits = band(residuals, result.scale, "", tail);
  const Covered covered = left_out_coverage(residuals, scales, tail);
  result.low = limits.low, result.high = limits.high;
  result.coverage = covered.share, result.width = covered.width;
  return result;
}

namespace {

using KindSuite = std::pair<std::string, std::string>;

/// How far the middles of suites lie from what is predicted: what two of three lie within.
double between_suites(const std::vector<KindResidual>& residuals, const std::string& left_out) {
  std::map<KindSuite, std::vector<Weighted>> suites;
  for (const KindResidual& row : residuals)
    if (row.suite != left_out) suites[{row.kind, row.suite}].push_back({row.log, 1});
  std::vector<Weighted> apart;
  for (const auto& [key, rows] : suites) apart.push_back({std::abs(weighted_quantile(rows, 0.5)), 1});
  return weighted_quantile(apart, 0.68);
}

/// Of a logarithm; two suites of one kind that agree are no proof that a third will.
double least_width(const std::vector<KindResidual>& residuals, const std::string& left_out, double multiple) {
  constexpr double kNarrowest = 0.1;
  return std::max(kNarrowest, multiple * between_suites(residuals, left_out));
}

/// Rows from which one in twenty, a tail, can be told. Where a kind has fewer, rows of all others fill them up.
constexpr double kRowsOfTail = 20;

KindBand band_of(const std::vector<KindResidual>& residuals, const std::string& kind, const std::string& left_out,
                 double least) {
  std::vector<KindResidual> own, others;
  for (const KindResidual& row : residuals)
    if (row.suite != left_out) (row.kind == kind ? own : others).push_back(row);
  std::vector<Weighted> values;
  const auto add = [&](const std::vector<KindResidual>& rows, std::optional<double> votes) {
    const std::map<std::string, double> weights = weights_of(rows, kSuiteVotes);
    double total = 0;
    for (const KindResidual& row : rows) total += weights.at(row.suite);
    for (const KindResidual& row : rows)
      values.push_back({row.log, weights.at(row.suite) * (votes ? *votes / total : 1)});
    return total;
  };
  const double votes = add(own, {});
  if (votes < kRowsOfTail) add(others, kRowsOfTail - votes);
  return {kind,
          {std::exp(std::min(-least, weighted_quantile(values, kTails / 2))),
           std::exp(std::max(least, weighted_quantile(values, 1 - kTails / 2)))},
          static_cast<int>(own.size())};
}

using InsideOf = std::map<KindSuite, std::pair<double, double>>;  // rows inside, rows

InsideOf memory_covered(const std::vector<KindResidual>& residuals, double multiple) {
  InsideOf inside;
  std::map<KindSuite, KindBand> bands;
  for (const KindResidual& row : residuals) {
    const auto [band, fresh] = bands.try_emplace({row.kind, row.suite});
    if (fresh) band->second = band_of(residuals, row.kind, row.suite, least_width(residuals, row.suite, multiple));
    const double ratio = std::exp(row.log);
    auto& [covered, rows] = inside[{row.kind, row.suite}];
    covered += band->second.interval.low <= ratio && ratio <= band->second.interval.high, ++rows;
  }
  return inside;
}

double memory_coverage(const std::vector<KindResidual>& residuals, double multiple) {
  const InsideOf inside = memory_covered(residuals, multiple);
  double mean = 0;
  for (const auto& [key, rows] : inside) mean += rows.first / rows.second / static_cast<double>(inside.size());
  return mean;
}

}  // namespace

MemoryBands memory_bands(const std::vector<KindResidual>& residuals, double wanted) {
  constexpr double kStep = 0.1, kMost = 4;
  double multiple = 1;
  while (multiple < kMost && memory_coverage(residuals, multiple) < wanted) multiple += kStep;
  MemoryBands out;
  out.least = least_width(residuals, "", multiple);
  out.coverage = memory_coverage(residuals, multiple);
  for (const auto& [key, rows] : memory_covered(residuals, multiple))
    out.suites.push_back({key.first, key.second, rows.first / rows.second, static_cast<int>(rows.second)});
  std::set<std::string> kinds;
  for (const KindResidual& row : residuals) kinds.insert(row.kind);
  for (const std::string& kind : kinds) out.bands.push_back(band_of(residuals, kind, "", out.least));
  return out;
}

}  // namespace plan::fit
