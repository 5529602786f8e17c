#pragma once

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "oracle/traffic_count.hpp"

namespace plan::oracle {

inline double ints(std::int64_t n) { return static_cast<double>(n); }

/// Model chunks that a pipeline rank holds, and for how many of the micro-batches each works.
[[nodiscard]] std::vector<std::pair<int, double>> chunks_of(const Layout& layout, int stage);
[[nodiscard]] int chunks_in_all(const Layout& layout);
/// Kinds of the layers of a chunk.
[[nodiscard]] std::vector<int> layers_of(const TrafficCase& job, int chunk);
[[nodiscard]] double micro_batches_of(const TrafficCase& job);

/// Elements of a token's queries, keys, values and results on one tensor rank.
struct ContextTensors {
  double queries, keys, values, results;
};

/// What is known of a mixer beside its row.
struct MixerCount {
  Mixer mixer;
  void (*vary)(std::mt19937& random, Layer& layer);         ///< gives it a shape
  double (*tensors)(const Layer& layer, double h, int tp);  ///< elements that one tensor rank holds
  double (*core)(const Layer& layer, double seq);           ///< causal FLOPs of a token, without weights
  double (*read)(const Layer& layer, double h) = nullptr;   ///< width of what tensor ranks gather in front of it
  ContextTensors (*context)(const Layer& layer, int tp) = nullptr;  ///< of attention
  /// Of a scan: elements of a token that go to other context ranks for heads, and that come back.
  std::pair<double, double> (*scan)(const Layer& layer, int tp, int cp) = nullptr;
};
[[nodiscard]] const MixerCount& mixer_count(Mixer mixer);

/// A tensor of parameters as a checkpoint lists it: how many of its elements one rank holds.
struct Parameters {
  double dense = 0, expert = 0;
};

/// Elements of the embedding's table on one tensor rank; Megatron pads it to 128 rows a rank.
[[nodiscard]] double table_of(const TrafficCase& job);

/// What the ranks of a pipeline rank hold.
struct Holding {
  Parameters sum{};
  int layers = 0, routed = 0;
  bool first = false, last = false;
};
[[nodiscard]] Holding holding_of(const TrafficCase& job, int stage);

}  // namespace plan::oracle
