// The one place where numbers become text. fmt, not iostreams: no locale can change the bytes.
// Tested by tests/cli/format_test.cpp.
#include "cli/terminal/format.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace plan {
namespace {

/// Decimals that give `value` three digits, at most `most`.
int three_digits(double value, int most = 2) {
  const double size = std::fabs(value);
  const int decimals = size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2;
  return std::min(decimals, most);
}

struct Prefix {
  double size;
  const char* unit;
};

template <std::size_t N>
std::string with_prefix(double value, const std::array<Prefix, N>& prefixes) {
  for (const Prefix& prefix : prefixes) {
    const double scaled = value / prefix.size;
    if (std::fabs(scaled) >= 0.9995) return fmt::format("{:.{}f} {}", scaled, three_digits(scaled), prefix.unit);
  }
  return fmt::format("{:.{}f} {}", value / prefixes.back().size, three_digits(value), prefixes.back().unit);
}

}  // namespace

std::string gib(Bytes bytes) {
  const double value = static_cast<double>(bytes.value) / kGiB;
  return fmt::format("{:.1f}", value);
}

std::string memory_text(Bytes bytes) {
  const double value = static_cast<double>(bytes.value);
  if (std::fabs(value) >= kGiB) return fmt::format("{:.1f} GiB", value / kGiB);
  if (std::fabs(value) >= 0.01 * kMiB) return fmt::format("{:.1f} MiB", value / kMiB);
  return fmt::format("{} B", bytes.value);
}

std::string traffic_text(Bytes bytes) {
  static constexpr std::array<Prefix, 5> kDecimal = {{{1e12, "TB"}, {1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}, {1, "B"}}};
  return with_prefix(static_cast<double>(bytes.value), kDecimal);
}

std::string seconds_text(Seconds time) {
  static constexpr std::array<Prefix, 3> kTime = {{{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}}};
  return with_prefix(time.value, kTime);
}

std::string duration_text(Seconds time) {
  struct Step {
    double seconds, below;
    const char* unit;
  };
  constexpr Step kSteps[] = {{60, 6000, "min"}, {3600, 360'000, "h"}};
  if (time.value < 100) return seconds_text(time);
  for (const Step& step : kSteps)
    if (time.value < step.below) return fmt::format("{:.1f} {}", time.value / step.seconds, step.unit);
  return fmt::format("{:.1f} days", time.value / 86400);
}

std::string count_text(double count) {
  if (std::fabs(count) < 1e5 && count == std::floor(count)) return fmt::format("{:.0f}", count);
  static constexpr std::array<Prefix, 5> kCount = {{{1e12, "T"}, {1e9, "B"}, {1e6, "M"}, {1e3, "k"}, {1, ""}}};
  for (const Prefix& prefix : kCount) {
    const double scaled = count / prefix.size;
    if (std::fabs(scaled) < 0.9995) continue;
    const int decimals = std::fabs(scaled) >= 9.995 ? 1 : 2;
    const std::string text = fmt::format("{:.{}f} {}", scaled, decimals, prefix.unit);
    return prefix.size > 1 ? text : text.substr(0, text.size() - 1);
  }
  return fmt::format("{:.2g}", count);
}

std::string percent(double ratio, int decimals) { return fmt::format("{:.{}f} %", ratio * 100, decimals); }

bool reads_zero(std::string_view number) { return number.find_first_of("123456789") == std::string_view::npos; }

std::string signed_number(double value, int decimals) {
  std::string text = fmt::format("{:+.{}f}", value, decimals);
  if (reads_zero(text)) text.erase(0, 1);
  return text;
}

std::string signed_percent(double ratio, int decimals) { return signed_number(100 * ratio, decimals) + " %"; }

std::string grouped(std::int64_t value) {
  const std::string digits = fmt::format("{}", value);
  std::string out;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    const bool first = i == 0 || digits[i - 1] == '-';
    if (!first && (digits.size() - i) % 3 == 0) out.push_back(' ');
    out.push_back(digits[i]);
  }
  return out;
}

std::string number_text(double value, int digits) {
  if (value == std::floor(value) && std::fabs(value) < 1e15) return fmt::format("{:.0f}", value);
  return fmt::format("{:.{}g}", value, digits);
}

std::vector<double> apportion(const std::vector<double>& values, int decimals) {
  const double unit = std::pow(10.0, decimals);
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  std::vector<double> whole(values.size());
  std::transform(values.begin(), values.end(), whole.begin(), [&](double v) { return std::floor(v * unit); });
  auto left = std::llround(sum * unit) - std::llround(std::accumulate(whole.begin(), whole.end(), 0.0));
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return values[a] * unit - whole[a] > values[b] * unit - whole[b];
  });
  for (std::size_t i = 0; i < order.size() && left > 0; ++i, --left) whole[order[i]] += 1;
  for (double& v : whole) v /= unit;
  return whole;
}

TimeScale time_scale(Seconds total) {
  const double s = std::fabs(total.value);
  if (s >= 999.5) return {1, 0, "s", "seconds"};
  if (s >= 99.95) return {1, 1, "s", "seconds"};
  if (s >= 0.9995) return {1, 2, "s", "seconds"};
  if (s >= 0.09995) return {1e3, 0, "ms", "milliseconds"};
  if (s >= 0.009995) return {1e3, 1, "ms", "milliseconds"};
  return {1e3, 2, "ms", "milliseconds"};
}

}  // namespace plan
