#pragma once

// Chips that are joined to their neighbours in a grid rather than through switches: TPUs. A slice is the part of a pod
// that a job gets; an axis of it whose ends are joined, too, is a ring, one whose ends are not is a line.
// Sources: Google Cloud TPU documentation (the topologies of each generation), TPU v4 paper (arXiv 2304.01433).

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formulas/units.hpp"

namespace plan {

inline constexpr int kTorusAxes = 3;
/// Chips along each axis; 1 for an axis that is not there.
using SliceShape = std::array<int, kTorusAxes>;

/// Chips of a slice of that shape.
[[nodiscard]] constexpr int chips_of(const SliceShape& shape) { return shape[0] * shape[1] * shape[2]; }

/// What slices of a kind of chip exist. A fact of its preset; nothing is stated for GPUs behind switches.
struct SliceRules {
  BytesPerSecond link{};             ///< one direction of one link; 0: no torus
  std::vector<SliceShape> listed{};  ///< that exist as they are
  int cube = 0;                      ///< others have axes that are multiples of it; 0: only those listed exist
  int ring = 0;                 ///< an axis that is a multiple of it closes to a ring; with `cube`, if all axes are
  SliceShape largest{1, 1, 1};  ///< no axis, sorted, is longer
  bool any() const { return link.value > 0; }
  bool operator==(const SliceRules&) const = default;
};

struct TorusAxis {
  int size = 1;
  bool wraps = false;
  bool operator==(const TorusAxis&) const = default;
};

/// One slice.
struct Torus {
  std::array<TorusAxis, kTorusAxes> axes{};  ///< shortest first
  BytesPerSecond link{};                     ///< one direction of one link; 0: this tier is no torus
  bool any() const { return link.value > 0; }
  SliceShape shape() const { return {axes[0].size, axes[1].size, axes[2].size}; }
  int chips() const { return axes[0].size * axes[1].size * axes[2].size; }
  /// Links of a chip, those of a line's ends counted like the others'.
  int links() const;
  bool operator==(const Torus&) const = default;
};

/// The slice of a shape, its axes in any order; what closes to a ring follows from the rules.
[[nodiscard]] Torus torus_of(const SliceRules& rules, SliceShape shape);

/// Does such a slice exist? Axes in any order.
[[nodiscard]] bool exists(const SliceRules& rules, SliceShape shape);

/// The slice of so many chips whose longest axis is the shortest; none where no slice has as many.
[[nodiscard]] std::optional<SliceShape> slice_of(const SliceRules& rules, int chips);

/// That slice, or the fewest equal ones where no slice is as large; none where it takes slices of less than half the
/// largest, which nobody asks for without saying so.
[[nodiscard]] std::optional<SliceShape> slices_of(const SliceRules& rules, int chips);

/// Numbers of chips around one that no slices make up: the next smaller and the next larger that they do. 0: none.
struct NearChips {
  int fewer = 0, more = 0;
};
[[nodiscard]] NearChips near_chips(const SliceRules& rules, int chips);

/// "4x4x8", and back, shortest axis first; none for anything else. A chip's two dimensions have two numbers.
[[nodiscard]] std::string slice_text(const SliceShape& shape);
[[nodiscard]] std::optional<SliceShape> read_slice(std::string_view text);

}  // namespace plan
