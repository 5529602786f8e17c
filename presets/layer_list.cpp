// The notation for the order of layers in a model file. list := item ("," item)*; item := [count "x"] (kind | "(" list
// ")"); kind := word ["+" word]. Tested by tests/presets/model_test.cpp.
#include <fmt/core.h>

#include <algorithm>

#include "formulas/absurdity.hpp"
#include "presets/model_parts.hpp"

namespace plan {
namespace {

constexpr int kMostNesting = 3;

class LayerParser {
 public:
  explicit LayerParser(std::string_view text) : rest_(text) {}

  LayerList parse() {
    LayerList out;
    out.layers = list(0);
    if (problem_.empty() && !skip().empty()) problem_ = fmt::format("`{}` is not expected", rest_.substr(0, 20));
    if (!problem_.empty()) out.layers.clear();
    out.problem = problem_;
    return out;
  }

 private:
  std::string_view skip() {
    while (!rest_.empty() && (rest_.front() == ' ' || rest_.front() == '\t' || rest_.front() == '\n'))
      rest_.remove_prefix(1);
    return rest_;
  }
  bool eat(char c) {
    if (skip().empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  static bool word_char(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  }
  std::string_view word() {
    skip();
    std::size_t n = 0;
    while (n < rest_.size() && word_char(rest_[n])) ++n;
    const std::string_view w = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return w;
  }
  /// "58 x " before a kind or group; 1 if absent.
  std::size_t count() {
    if (skip().empty() || rest_.front() < '0' || rest_.front() > '9') return 1;
    const std::optional<std::int64_t> n = parse_integer(word());
    if (!n || word() != "x") {
      problem_ = "a count is written `58 x`";
      return 1;
    }
    if (*n < 1 || *n > static_cast<std::int64_t>(kMostDepth)) {
      problem_ = fmt::format("a count is 1 to {}", kMostDepth);
      return 1;
    }
    return static_cast<std::size_t>(*n);
  }
  std::string kind() {
    std::string name(word());
    if (name.empty()) problem_ = "a layer is written `attention+dense`";
    if (eat('+')) name += fmt::format("+{}", word());
    return name;
  }
  std::vector<std::string> item(int depth) {
    const std::size_t times = count();
    std::vector<std::string> once;
    if (eat('(')) {
      once = depth < kMostNesting ? list(depth + 1) : std::vector<std::string>{};
      if (!eat(')')) problem_ = "`)` is missing";
    } else {
      once.push_back(kind());
    }
    std::vector<std::string> all;
    if (once.size() * times > kMostDepth) problem_ = fmt::format("more than {} layers", kMostDepth);
    for (std::size_t i = 0; i < times && problem_.empty(); ++i) all.insert(all.end(), once.begin(), once.end());
    return all;
  }
  std::vector<std::string> list(int depth) {
    std::vector<std::string> all;
    do {
      const std::vector<std::string> more = item(depth);
      all.insert(all.end(), more.begin(), more.end());
      if (all.size() > kMostDepth) problem_ = fmt::format("more than {} layers", kMostDepth);
    } while (problem_.empty() && eat(','));
    return all;
  }

  std::string_view rest_;
  std::string problem_{};
};

/// How often layers[at, at + period) repeats from `at` on.
std::size_t repeats(const std::vector<std::string>& layers, std::size_t at, std::size_t period) {
  std::size_t n = 1;
  while (at + (n + 1) * period <= layers.size() &&
         std::equal(layers.begin() + static_cast<std::ptrdiff_t>(at),
                    layers.begin() + static_cast<std::ptrdiff_t>(at + period),
                    layers.begin() + static_cast<std::ptrdiff_t>(at + n * period)))
    ++n;
  return n;
}

std::string runs(const std::vector<std::string>& layers) {
  std::string out;
  for (std::size_t i = 0; i < layers.size();) {
    const std::size_t n = repeats(layers, i, 1);
    if (!out.empty()) out += ", ";
    if (n > 1) out += fmt::format("{} x ", n);
    out += layers[i];
    i += n;
  }
  return out;
}

}  // namespace

LayerList parse_layers(std::string_view text) { return LayerParser(text).parse(); }

std::string format_layers(const std::vector<std::string>& layers) {
  std::string out;
  std::vector<std::string> single;  // what no pattern covers, waiting
  const auto flush = [&] {
    if (single.empty()) return;
    out += fmt::format("{}{}", out.empty() ? "" : ", ", runs(single));
    single.clear();
  };
  for (std::size_t i = 0; i < layers.size();) {
    std::size_t best_period = 0, best_cover = 0;
    for (std::size_t period = 2; period <= 16 && i + 2 * period <= layers.size(); ++period) {
      const std::size_t cover = repeats(layers, i, period) * period;
      if (cover >= 2 * period && cover > best_cover + 1) best_cover = cover, best_period = period;
    }
    const std::size_t run = repeats(layers, i, 1);
    if (best_cover <= run + 1) {
      for (std::size_t k = 0; k < run; ++k) single.push_back(layers[i]);
      i += run;
      continue;
    }
    flush();
    const auto from = layers.begin() + static_cast<std::ptrdiff_t>(i);
    const std::vector<std::string> once(from, from + static_cast<std::ptrdiff_t>(best_period));
    out += fmt::format("{}{} x ({})", out.empty() ? "" : ", ", best_cover / best_period, runs(once));
    i += best_cover;
  }
  flush();
  return out;
}

}  // namespace plan
