// Lists of layers as Megatron-LM's flags state them: what Python's eval makes of sums and products of lists of 0 and 1.
// Tested by tests/launch/layer_pattern_test.cpp.
#include "cli/launch/job/layer_pattern.hpp"

#include <cctype>

namespace plan {
namespace {

using Marks = std::vector<bool>;

constexpr int kMostNested = 16;
constexpr std::size_t kMost = 100'000;  // layers of a list, and times that one is repeated

/// sum = product ("+" product)*; product = part ("*" number)*, or number "*" part; part = "[" items "]" | "(" sum ")".
class PatternReader {
 public:
  explicit PatternReader(std::string_view text) : text_(text) {}

  std::optional<Marks> whole() {
    std::optional<Marks> layers = sum(0);
    space();
    return at_ == text_.size() ? layers : std::nullopt;
  }

 private:
  void space() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  bool take(char c) {
    space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  /// Digits; a number beyond what is taken counts as the first such.
  std::optional<std::size_t> number() {
    space();
    const std::size_t first = at_;
    std::size_t value = 0;
    for (; at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])); ++at_)
      value = value > kMost ? value : 10 * value + static_cast<std::size_t>(text_[at_] - '0');
    return at_ > first ? std::optional(value) : std::nullopt;
  }

  std::optional<Marks> sum(int nested) {
    std::optional<Marks> all = product(nested);
    while (all && take('+')) {
      const std::optional<Marks> more = product(nested);
      if (!more || all->size() + more->size() > kMost) return std::nullopt;
      all->insert(all->end(), more->begin(), more->end());
    }
    return all;
  }

  std::optional<Marks> product(int nested) {
    std::size_t times = 1;
    if (const std::optional<std::size_t> before = number()) {
      if (!take('*')) return std::nullopt;
      times = *before;
    }
    const std::optional<Marks> one = part(nested);
    while (one && take('*')) {
      const std::optional<std::size_t> more = number();
      if (!more || (times > 0 && *more > kMost / times)) return std::nullopt;
      times *= *more;
    }
    if (!one || one->size() * times > kMost) return std::nullopt;
    Marks all;
    for (std::size_t i = 0; i < times && !one->empty(); ++i) all.insert(all.end(), one->begin(), one->end());
    return all;
  }

  std::optional<Marks> part(int nested) {
    if (nested < kMostNested && take('(')) {
      std::optional<Marks> inside = sum(nested + 1);
      return take(')') ? inside : std::nullopt;
    }
    if (!take('[')) return std::nullopt;
    Marks items;
    while (!take(']')) {
      if (!items.empty() && !take(',')) return std::nullopt;
      if (!items.empty() && take(']')) break;  // Python takes a comma behind the last
      const std::optional<std::size_t> item = number();
      if (!item || *item > 1 || items.size() >= kMost) return std::nullopt;
      items.push_back(*item == 1);
    }
    return items;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

std::optional<std::vector<bool>> listed_layers(std::string_view text) { return PatternReader(text).whole(); }

std::optional<std::vector<bool>> listed_layers(std::string_view text, std::size_t depth) {
  std::optional<Marks> layers = listed_layers(text);
  return layers && layers->size() == depth ? layers : std::nullopt;
}

}  // namespace plan
