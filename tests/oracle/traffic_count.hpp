#pragma once

#include <string>
#include <vector>

#include "formulas/cluster.hpp"
#include "formulas/layout.hpp"
#include "formulas/model.hpp"
#include "formulas/training.hpp"

/// Counts what the GPUs of a job send, rank by rank and tensor by tensor: from the list of layers, the layout and the
/// sizes of the network's tiers alone. Shares value types with the planner and no computation.
namespace plan::oracle {

/// Messages of one kind that one rank sends in a step.
struct CountedRow {
  std::string axis{};  ///< tp, cp, ep, pp, dp
  Collective op = Collective::AllReduce;
  int group = 1;
  std::string tier{};  ///< innermost one in which every group of the kind lies whole
  double bytes = 0;    ///< on the wire
  double count = 0;
};

struct TrafficCase {
  const Model& model;
  const Training& training;
  const Layout& layout;            ///< chunk_layers filled in
  const std::vector<Tier>& tiers;  ///< innermost first; sizes divide one another and the job
};

/// What a rank of pipeline rank `stage` sends for its layers and for its gradients.
[[nodiscard]] std::vector<CountedRow> count_layers(const TrafficCase& job, int stage);
[[nodiscard]] std::vector<CountedRow> count_gradients(const TrafficCase& job, int stage);
/// What the rank that hands over most sends to its neighbours in the pipeline.
[[nodiscard]] std::vector<CountedRow> count_hand_overs(const TrafficCase& job);

}  // namespace plan::oracle
