// Which GEMMs a model's training runs, and which groups of ranks plans use. Tested by tests/hwprobe/sweep_test.cpp.
#include "hwprobe/sweep/sweep_shapes.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "formulas/transient.hpp"

namespace plan {

std::vector<TrainingGemm> training_gemms(const Model& model, int tp, std::int64_t tokens) {
  std::vector<TrainingGemm> all;
  const auto t = static_cast<double>(tokens > 0 ? tokens : model.default_seq);
  const auto add = [&](const std::string& label, double out, double in) {
    all.push_back({label, t, out, in, Orientation::Forward});
    all.push_back({label, t, in, out, Orientation::DataGrad});
    all.push_back({label, out, in, t, Orientation::WeightGrad});
  };
  for (std::size_t kind = 0; kind < model.kinds.size(); ++kind) {
    Layout layout;
    layout.tp = tp;
    const LinearShapes shapes = linear_shapes(model, model.kinds[kind], layout);
    for (int i = 0; i < shapes.size; ++i) {
      const LinearShape& s = shapes.shapes[static_cast<std::size_t>(i)];
      if (s.count > 1) continue;  // grouped GEMMs of experts follow their own law
      const auto whole = [](double x) { return x == std::floor(x); };
      if (whole(s.rows) && whole(s.columns))
        add(fmt::format("{} tp{} linear {}", model.name, tp, i), s.rows, s.columns);
    }
  }
  if (model.vocab > 0 && model.vocab % tp == 0)
    add(fmt::format("{} tp{} head", model.name, tp), static_cast<double>(model.vocab / tp),
        static_cast<double>(model.hidden));
  return all;
}

std::vector<GroupShape> group_shapes(int ranks, int ranks_per_node) {
  std::vector<GroupShape> shapes;
  const int per_node = std::max(1, std::min(ranks, ranks_per_node));
  const int nodes = ranks / per_node;
  for (int n = 2; n <= per_node; n *= 2) shapes.push_back({n, n, 1, true});
  if (per_node > 2 && (per_node & (per_node - 1)) != 0) shapes.push_back({per_node, per_node, 1, true});
  for (int k = 2; k <= nodes; k *= 2) {
    shapes.push_back({k, 1, k, true});
    if (per_node > 1) shapes.push_back({k * per_node, per_node, k, true});
  }
  // Experts that are split as well, and copies of a model that lie side by side in a node, form groups of some of each
  // node's ranks; all such groups together share a node's adapters.
  for (int inside = 2; inside < per_node && nodes > 1; inside *= 2) {
    if (per_node % inside != 0) continue;
    shapes.push_back({nodes * inside, inside, nodes, true});
    if (nodes > 2) shapes.push_back({2 * inside, inside, 2, true});
  }
  const bool odd = nodes > 2 && (nodes & (nodes - 1)) != 0;
  if (odd) shapes.push_back({nodes, 1, nodes, true});
  if (odd && per_node > 1) shapes.push_back({nodes * per_node, per_node, nodes, true});
  return shapes;
}

}  // namespace plan
