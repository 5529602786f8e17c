#pragma once

// Collectives on a torus, every group of a kind at once, each message on the links of its own group's axes.
//
// A group of ranks occupies whole axes of the slice or equal parts of them. On the axis it has `members`, `step`
// chips apart; the chips between them belong to sibling groups, which share the links. Of a ring both directions carry,
// of a line the chip at its end has one link.
//   gather, scatter  each axis must carry what its members bring together before another axis carries it on, whatever
//                    the order: time >= S (prod m_i over T - 1) / (n sum r_i over T) for each set T of axes, and some
//                    mix of orders reaches the largest of these bounds (they are the tight sets of a base polytope).
//                    r_i = links * rate / step. On equal rings it is V / (k * 2 * rate), k axes.
//   all-reduce       a scatter and a gather
//   all-to-all       dimension by dimension; across the middle of a ring of m pass S floor(m^2/4) / (2 m) bytes a link,
//                    of a line twice as many
// Assumes that XLA finds these schedules, and lays each axis of a mesh on whole axes of the torus where it can (as
// jax.experimental.mesh_utils does). Twisted tori are taken as plain ones.
// Sources: Chan et al. 2007, Collective communication: theory, practice, and experience; Jouppi et al. 2023,
// arXiv 2304.01433; Austin et al. 2025, How to Scale Your Model (jax-ml.github.io/scaling-book), parts 2 and 3.
// Tested by tests/formulas/torus_test.cpp against messages on links.

#include <array>
#include <string>

#include "formulas/cluster.hpp"
#include "formulas/collective_law.hpp"

namespace plan {

/// A group's part of one axis.
struct TorusPart {
  int axis = 0;        ///< of the slice
  int members = 1;     ///< of the group along it
  int step = 1;        ///< chips from one to the next
  bool wraps = false;  ///< the last is joined to the first
};

struct TorusGroup {
  std::array<TorusPart, kTorusAxes> parts{};
  int count = 0;      ///< of `parts`
  bool exact = true;  ///< its ranks fill parts of axes; else they are taken as a line through the slice
  int size() const;
};

/// Where a group of `size` ranks, `stride` apart, is placed. What is inside the stride is laid on the axes first, the
/// same way for every group with it.
[[nodiscard]] TorusGroup torus_group(const Torus& torus, int size, int stride);

/// Can groups of these degrees, the innermost first, be laid on the axes one after the other?
[[nodiscard]] bool lies_on_axes(const Torus& torus, int size, int stride);

/// Law of one collective inside a slice; `hop` is the latency of one link. Bytes as in `collective_time`.
[[nodiscard]] CollectiveLaw torus_law(const Torus& torus, Collective op, RealBytes bytes, const TorusGroup& group,
                                      Seconds hop);

/// Makes the innermost tier of the cluster a slice of this shape.
void put_on_slices(Cluster& cluster, const SliceShape& shape);

/// "4 on axis 0 (ring), 2 of axis 1 (line)".
[[nodiscard]] std::string placement_text(const Torus& torus, const TorusGroup& group);

}  // namespace plan
