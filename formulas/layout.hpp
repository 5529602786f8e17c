#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "formulas/schedules.hpp"

namespace plan {

enum class CpKind : std::uint8_t { Ring, AllGather, Ulysses, Hybrid };

/// Order in which the axes number the ranks, the fastest first: tp, cp (ep in the experts' grid), then dp and pp or pp
/// and dp. What comes last is outermost: its neighbours are the farthest apart.
enum class AxisOrder : std::uint8_t { PipelineOutermost, DataOutermost };
inline constexpr int kAxisOrders = 2;

enum class RecomputeKind : std::uint8_t { None, Selective, Full };

/// Modules whose activations Megatron can drop and rebuild, one bit each (plan-formulas(7) D4).
enum RecomputeModule : std::uint16_t {
  kRecomputeCoreAttention = 1,
  kRecomputeNorm = 2,
  kRecomputeMlp = 4,
  kRecomputeMoe = 8,
  kRecomputeMoeActivation = 16,
  kRecomputeLatentUp = 32,
  kRecomputeSharedExperts = 64,
  kRecomputeMlpActivation = 128,  ///< a dense FFN's activation function alone
  kRecomputeOps = 256,            ///< torchtitan's "op": only every second GEMM output and the attention's are kept
};

struct Recompute {
  RecomputeKind kind = RecomputeKind::None;
  std::uint16_t modules = 0;  ///< Selective: RecomputeModule bits
  int layers = 0;             ///< Full: first `layers` of each stage (block); 0 = all, one by one (uniform 1)
  int uniform = 0;            ///< Full: checkpoint every `uniform` layers; 0 or 1 = each layer
  bool operator==(const Recompute&) const = default;
};

/// Layers of one pipeline rank that full recompute rebuilds. Megatron counts `layers` per model chunk.
[[nodiscard]] constexpr int recomputed_layers(const Recompute& recompute, int vp, int stage_layers) {
  if (recompute.kind != RecomputeKind::Full) return 0;
  if (recompute.layers == 0) return stage_layers;
  const int block = recompute.layers * vp;
  return block < stage_layers ? block : stage_layers;
}

/// What one pipeline rank does its own way, in a pipeline whose stages differ: with all of its layers, or with its
/// first ones, and with each run of layers behind those what that run says.
struct StageStrategy {
  Recompute recompute{};
  int offload = 0;  ///< layers of the run whose activations wait in host memory
  int tp = 0;       ///< 0: the layout's; a stage has as many GPUs whatever its tp * cp, so that dp makes up for it
  int zero = -1;    ///< below 0: the layout's
  int cp = 0;       ///< 0: the layout's; of the layout's kind
  int layers = 0;   ///< of the run; 0: all that are left
  std::vector<StageStrategy> behind{};  ///< further runs of the stage, front to back; they have none behind them
  bool operator==(const StageStrategy&) const = default;
};

/// Whether a strategy states context parallelism of its own.
[[nodiscard]] inline bool have_context(const std::vector<StageStrategy>& stages) {
  return std::any_of(stages.begin(), stages.end(),
                     [](const StageStrategy& stage) { return stage.cp > 1 || have_context(stage.behind); });
}

/// One choice of every parallel axis. world = tp*cp*pp*dp = etp*ep*pp*(expert dp).
struct Layout {
  int tp = 1;
  int cp = 1;
  CpKind cp_kind = CpKind::Ring;
  int cp_ulysses = 1;  ///< Hybrid: all-to-all part of cp
  int pp = 1;
  int vp = 1;     ///< model chunks per pipeline rank
  int group = 0;  ///< interleaved: micro-batches that pass a chunk before the next one's turn; 0 = fewest_in_group()
  int dp = 1;
  int ep = 1;
  int etp = 1;
  int zero = 1;
  int shard = 0;  ///< ranks that share one copy of the sharded states; 0 = all of dp*cp (HSDP otherwise)
  int micro_batch = 1;
  Schedule schedule = Schedule::OneFOneB;
  Recompute recompute{};
  bool sequence_parallel = false;
  AxisOrder order = AxisOrder::PipelineOutermost;
  std::vector<int> chunk_layers{};  ///< layers of each of chunks() in model order; empty = balanced
  /// Of each pipeline rank, front to back; empty: all do as the axes above say. Else `recompute` is none: the stages
  /// say what they recompute.
  std::vector<StageStrategy> stages{};

  /// Whether any layer is split along the sequence by context parallelism, so that its kind means something.
  bool any_context() const { return cp > 1 || have_context(stages); }
  int world() const { return tp * cp * pp * dp; }
  /// Model chunks of the whole pipeline, in model order.
  std::int64_t chunks() const { return static_cast<std::int64_t>(pp) * vp; }
  int expert_dp() const { return world() / (etp * ep * pp); }
  /// Ranks that average one dense gradient.
  int dense_group() const { return dp * cp; }
  /// Ranks over which dense states are sharded.
  int shard_group() const { return shard > 0 ? shard : dense_group(); }
  bool operator==(const Layout&) const = default;
};

/// Micro-batches per step on each rank: global_batch / (dp * micro_batch).
constexpr std::int64_t micro_batches(std::int64_t global_batch, int dp, int micro_batch) {
  return global_batch / (static_cast<std::int64_t>(dp) * micro_batch);
}

}  // namespace plan
