// Which slices of chips exist, and what closes to a ring in them. Tested by tests/formulas/torus_test.cpp.
#include "formulas/slice.hpp"

#include <algorithm>
#include <charconv>

namespace plan {
namespace {

SliceShape sorted(SliceShape shape) {
  std::sort(shape.begin(), shape.end());
  return shape;
}

bool multiples(const SliceShape& shape, int of) {
  return std::all_of(shape.begin(), shape.end(), [&](int size) { return size % of == 0; });
}

/// Is the longest axis of `a` shorter than that of `b`, or else the next?
bool rounder(const SliceShape& a, const SliceShape& b) {
  return std::lexicographical_compare(a.rbegin(), a.rend(), b.rbegin(), b.rend());
}

}  // namespace

int Torus::links() const {
  int links = 0;
  for (const TorusAxis& axis : axes) links += axis.size > 1 ? 2 : 0;
  return links;
}

Torus torus_of(const SliceRules& rules, SliceShape shape) {
  shape = sorted(shape);
  Torus torus{.axes = {}, .link = rules.link};
  const bool whole = rules.cube == 0 || multiples(shape, rules.cube);
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const bool rings = rules.ring > 0 && shape[i] > 2 && shape[i] % rules.ring == 0;
    torus.axes[i] = {shape[i], rings && whole};
  }
  return torus;
}

bool exists(const SliceRules& rules, SliceShape shape) {
  shape = sorted(shape);
  const auto same = [&](const SliceShape& listed) { return sorted(listed) == shape; };
  if (std::any_of(rules.listed.begin(), rules.listed.end(), same)) return true;
  if (rules.cube == 0 || shape[0] < 1 || !multiples(shape, rules.cube)) return false;
  const SliceShape largest = sorted(rules.largest);
  for (std::size_t i = 0; i < shape.size(); ++i)
    if (shape[i] > largest[i]) return false;
  return true;
}

std::optional<SliceShape> slice_of(const SliceRules& rules, int chips) {
  std::optional<SliceShape> best;
  const auto offer = [&](const SliceShape& shape) {
    if (chips_of(shape) == chips && (!best || rounder(sorted(shape), *best))) best = sorted(shape);
  };
  for (const SliceShape& shape : rules.listed) offer(shape);
  if (rules.cube == 0) return best;
  const SliceShape largest = sorted(rules.largest);
  for (int a = rules.cube; a <= largest[0]; a += rules.cube)
    for (int b = a; b <= largest[1]; b += rules.cube)
      if (const int c = chips / (a * b); c >= b && exists(rules, {a, b, c})) offer({a, b, c});
  return best;
}

std::optional<SliceShape> slices_of(const SliceRules& rules, int chips) {
  int most = chips_of(rules.largest);
  for (const SliceShape& shape : rules.listed) most = std::max(most, chips_of(shape));
  if (chips <= most) return slice_of(rules, chips);
  for (int each = most; each >= (most + 1) / 2; --each) {
    if (chips % each != 0) continue;
    if (const std::optional<SliceShape> shape = slice_of(rules, each)) return shape;
  }
  return std::nullopt;
}

NearChips near_chips(const SliceRules& rules, int chips) {
  const auto made = [&](int n) { return slices_of(rules, n).has_value(); };
  NearChips near;
  for (int n = chips - 1; n > 0 && near.fewer == 0; --n)
    if (made(n)) near.fewer = n;
  const int most = 2 * chips + 64;  // the smallest slice of any kind has no more than a cube
  for (int n = chips + 1; n <= most && near.more == 0; ++n)
    if (made(n)) near.more = n;
  return near;
}

std::string slice_text(const SliceShape& shape) {
  std::string text;
  for (const int size : sorted(shape))
    if (size > 1) text += (text.empty() ? "" : "x") + std::to_string(size);
  return text.empty() ? "1x1" : text.find('x') == std::string::npos ? "1x" + text : text;
}

std::optional<SliceShape> read_slice(std::string_view text) {
  SliceShape shape{1, 1, 1};
  const char *at = text.data(), *end = at + text.size();
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    const auto [next, error] = std::from_chars(at, end, shape[axis]);
    constexpr int kLongest = 1024;
    if (error != std::errc{} || shape[axis] < 1 || shape[axis] > kLongest) return std::nullopt;
    at = next;
    if (at == end) return axis > 0 ? std::optional(sorted(shape)) : std::nullopt;
    if (*at++ != 'x') return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace plan
