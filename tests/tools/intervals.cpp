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
/// What share of residuals over their scales lies outside on either side.
struct Tails {
  double low = kTails, high = kTails;
};
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
Interval band(const std::vector<Residual>& rows, const Scale& scale, const std::string& left_out, const Tails& tails) {
  const std::map<std::string, double> weights = weights_of(rows, kSuiteVotes);
  std::vector<Weighted> values;
  for (const Residual& row : rows)
    if (row.suite != left_out) values.push_back({row.log / scale_of(scale, row.doubts), weights.at(row.suite)});
  return {std::min(0.0, weighted_quantile(values, tails.low)),
          std::max(0.0, weighted_quantile(values, 1 - tails.high))};
}

/// Rows of suites that had no part in their intervals: shares that lie beyond either end, in the mean over suites and
/// of all rows, and how wide the intervals are, high over low, macro.
struct Coverage {
  double below = 0, above = 0;          // macro
  double all_below = 0, all_above = 0;  // of all rows
  double width = 0;
};

Coverage left_out_coverage(const std::vector<Residual>& rows, const std::map<std::string, Scale>& scales,
                           const Tails& tails) {
  Coverage out;
  const auto suites = static_cast<double>(scales.size()), all = static_cast<double>(rows.size());
  for (const auto& [suite, scale] : scales) {
    const Interval limits = band(rows, scale, suite, tails);
    double below = 0, above = 0, width = 0, n = 0;
    for (const Residual& row : rows) {
      if (row.suite != suite) continue;
      const double s = scale_of(scale, row.doubts), low = limits.low * s, high = limits.high * s;
      below += row.log < low ? 1 : 0;
      above += row.log > high ? 1 : 0;
      width += std::exp(high - low), ++n;
    }
    out.below += below / n / suites, out.above += above / n / suites, out.width += width / n / suites;
    out.all_below += below / all, out.all_above += above / all;
  }
  return out;
}

}  // namespace

Conformal conformal(const std::vector<Residual>& residuals, double wanted) {
  constexpr double kStep = 0.002;
  std::map<std::string, Scale> scales;
  for (const Residual& row : residuals) scales.try_emplace(row.suite);
  for (auto& [suite, scale] : scales) scale = fit_scale(residuals, suite);
  const double most = (1 - wanted) / 2;  // on either side
  Tails tails;
  // A band that holds the mean over suites, or all rows, may still leave out too much of the other.
  const auto low_leaves = [&] {
    const Coverage now = left_out_coverage(residuals, scales, tails);
    return std::max(now.below, now.all_below);
  };
  const auto high_leaves = [&] {
    const Coverage now = left_out_coverage(residuals, scales, tails);
    return std::max(now.above, now.all_above);
  };
  while (tails.low > kStep && low_leaves() > most) tails.low -= kStep;
  while (tails.high > kStep && high_leaves() > most) tails.high -= kStep;
  Conformal result;
  result.scale = fit_scale(residuals, "");
  const Interval limits = band(residuals, result.scale, "", tails);
  const Coverage covered = left_out_coverage(residuals, scales, tails);
  result.low = limits.low, result.high = limits.high;
  result.coverage = 1 - covered.below - covered.above, result.width = covered.width;
  return result;
}

namespace {

using KindSuite = std::pair<std::string, std::string>;

/// How far the middles of suites lie from what is predicted: what two of three lie within. Of one kind upwards, of all
/// kinds either way.
double between_suites(const std::vector<KindResidual>& residuals, const std::string& kind, const std::string& left_out,
                      double& suites) {
  std::map<KindSuite, std::vector<Weighted>> rows_of;
  for (const KindResidual& row : residuals)
    if (row.suite != left_out && (kind.empty() || row.kind == kind))
      rows_of[{row.kind, row.suite}].push_back({row.log, 1});
  std::vector<Weighted> apart;
  for (const auto& [key, rows] : rows_of) {
    const double middle = weighted_quantile(rows, 0.5);
    apart.push_back({kind.empty() ? std::abs(middle) : std::max(0.0, middle), 1});
  }
  suites = static_cast<double>(apart.size());
  return weighted_quantile(apart, 0.68);
}

/// The least widths of a kind's interval, of a logarithm. Two suites of one kind that agree are no proof that a third
/// will, so a kind's own distance is shrunk towards that of all kinds. Upwards alone: contexts, libraries and fragments
/// add to what a tool shows, nothing takes away from it.
struct LeastWidth {
  double down = 0, up = 0;
};
LeastWidth least_width(const std::vector<KindResidual>& residuals, const std::string& kind, const std::string& left_out,
                       double multiple) {
  constexpr double kNarrowest = 0.1;
  constexpr double kShrink = 2;  // suites' worth of belief that a kind is like all
  double suites = 0, all = 0;
  const double pooled = between_suites(residuals, "", left_out, all);
  const double own = between_suites(residuals, kind, left_out, suites);
  const double shrunk = std::sqrt((suites * own * own + kShrink * pooled * pooled) / (suites + kShrink));
  return {std::max(kNarrowest, multiple * pooled), std::max(kNarrowest, multiple * shrunk)};
}

/// Rows from which one in twenty, a tail, can be seen. Where a kind has fewer, rows of all others fill them up.
constexpr double kRowsOfTail = 20;

/// A kind's own rows decide how much more is shown than was predicted. How much less is a matter of the prediction,
/// whatever shows it: the rows of all kinds decide that together.
KindBand band_of(const std::vector<KindResidual>& residuals, const std::string& kind, const std::string& left_out,
                 double multiple) {
  std::vector<KindResidual> own, others;
  for (const KindResidual& row : residuals)
    if (row.suite != left_out) (row.kind == kind ? own : others).push_back(row);
  const auto weighted = [&](const std::vector<KindResidual>& rows, std::vector<Weighted> into,
                            std::optional<double> votes) {
    const std::map<std::string, double> weights = weights_of(rows, kSuiteVotes);
    double total = 0;
    for (const KindResidual& row : rows) total += weights.at(row.suite);
    for (const KindResidual& row : rows)
      into.push_back({row.log, weights.at(row.suite) * (votes ? *votes / total : 1)});
    return into;
  };
  const std::vector<Weighted> alone = weighted(own, {}, {});
  double votes = 0;
  for (const Weighted& row : alone) votes += row.weight;
  const std::vector<Weighted> filled = votes < kRowsOfTail ? weighted(others, alone, kRowsOfTail - votes) : alone;
  const std::vector<Weighted> all = weighted(others, alone, {});
  const LeastWidth least = least_width(residuals, kind, left_out, multiple);
  return {kind,
          {std::exp(std::min(-least.down, weighted_quantile(all, kTails / 2))),
           std::exp(std::max(least.up, weighted_quantile(filled, 1 - kTails / 2)))},
          static_cast<int>(own.size())};
}

using InsideOf = std::map<KindSuite, std::pair<double, double>>;  // rows inside, rows

InsideOf memory_covered(const std::vector<KindResidual>& residuals, double multiple) {
  InsideOf inside;
  std::map<KindSuite, KindBand> bands;
  for (const KindResidual& row : residuals) {
    const auto [band, fresh] = bands.try_emplace({row.kind, row.suite});
    if (fresh) band->second = band_of(residuals, row.kind, row.suite, multiple);
    const double ratio = std::exp(row.log);
    auto& [covered, rows] = inside[{row.kind, row.suite}];
    covered += band->second.interval.low <= ratio && ratio <= band->second.interval.high, ++rows;
  }
  return inside;
}

/// Macro, and of the suite with enough rows to tell that is covered worst.
struct MemoryCoverage {
  double mean = 0, worst = 1;
};
MemoryCoverage memory_coverage(const InsideOf& inside) {
  MemoryCoverage out;
  for (const auto& [key, rows] : inside) {
    const double share = rows.first / rows.second;
    out.mean += share / static_cast<double>(inside.size());
    if (rows.second >= kRowsOfTail) out.worst = std::min(out.worst, share);
  }
  return out;
}

}  // namespace

MemoryBands memory_bands(const std::vector<KindResidual>& residuals, double wanted) {
  constexpr double kStep = 0.1, kMost = 6, kWorst = 0.75;
  double multiple = 1;
  const auto met = [&] {
    const MemoryCoverage now = memory_coverage(memory_covered(residuals, multiple));
    return now.mean >= wanted && now.worst >= kWorst;
  };
  while (multiple < kMost && !met()) multiple += kStep;
  MemoryBands out;
  const InsideOf inside = memory_covered(residuals, multiple);
  out.multiple = multiple, out.coverage = memory_coverage(inside).mean;
  for (const auto& [key, rows] : inside)
    out.suites.push_back({key.first, key.second, rows.first / rows.second, static_cast<int>(rows.second)});
  std::set<std::string> kinds;
  for (const KindResidual& row : residuals) kinds.insert(row.kind);
  for (const std::string& kind : kinds) out.bands.push_back(band_of(residuals, kind, "", multiple));
  return out;
}

}  // namespace plan::fit
