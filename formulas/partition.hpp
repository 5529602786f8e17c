#pragma once

#include <span>
#include <vector>

namespace plan {

/// What a split is weighed by, in any one unit (FLOPs, seconds): layers front to back, and the two ends.
struct PartitionCost {
  std::span<const double> layers;
  double embedding = 0;  ///< on the first chunk
  double head = 0;       ///< on the last chunk
};

/// Layers of each of `chunks` consecutive pieces such that the costliest piece, embedding and head
/// included, is as cheap as any split can make it. Exact. Among equal splits the pieces are as even as a
/// sweep from the back makes them, with the fewer layers in front, where more micro-batches are in
/// flight. An end piece may hold no layer: the embedding or the head alone.
[[nodiscard]] std::vector<int> partition_layers(const PartitionCost& cost, int chunks);

/// Layers of each of pp * vp chunks, in model order, where rank r runs chunks r, r + pp, r + 2 pp, ...
/// (`v_shaped`: r and 2 pp - 1 - r). What binds a rank is the sum of its chunks, so that sum is balanced,
/// then spread evenly over its chunks. Optimal for equal layers; for unequal ones the balanced counts are
/// improved by moving single layers until no move off the costliest rank helps. Beside a heavy head chunks of the last
/// rank may hold no layer; with `none_empty` only the two ends may, as long as there are enough layers.
[[nodiscard]] std::vector<int> partition_interleaved(const PartitionCost& cost, int pp, int vp, bool v_shaped = false,
                                                     bool none_empty = false);

/// Cost of each of `pp` ranks under a split into chunks.
[[nodiscard]] std::vector<double> rank_costs(const PartitionCost& cost, std::span<const int> chunk_layers, int pp,
                                             bool v_shaped = false);

/// Chunks of as many layers each, or with embedding and loss counted as a layer; empty if they do not divide.
[[nodiscard]] std::vector<int> equal_chunks(int layers, int chunks, bool embedding, bool loss);
/// Equal chunks; where layers do not divide, with embedding and loss counted; empty if neither does.
[[nodiscard]] std::vector<int> plain_chunks(int layers, int chunks);

/// How even the chunks of a pipeline are, in the words that launch files have for it.
enum class SplitShape {
  Equal,
  EndsCounted,  ///< equal once embedding and loss count as a layer each
  OwnEnds,      ///< without interleaving: first and last stage differ from the equal ones between them
  Uneven,
};
[[nodiscard]] SplitShape split_shape(std::span<const int> chunk_layers, int layers, int vp);

/// Rank that runs chunk `chunk`, counted in model order.
[[nodiscard]] constexpr int rank_of_chunk(int chunk, int pp, bool v_shaped) {
  return v_shaped && chunk >= pp ? 2 * pp - 1 - chunk : chunk % pp;
}

}  // namespace plan
