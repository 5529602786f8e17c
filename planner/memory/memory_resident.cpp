// What a rank holds whatever runs, and what its allocator cannot hand out, each as one law: V is double for the search,
// Traced for `plan explain` (formulas/traced.hpp). Tested by tests/cli/trail_test.cpp.
#include "formulas/activation.hpp"
#include "formulas/transient.hpp"
#include "planner/memory/memory.hpp"

namespace plan {
namespace {

/// DeepSpeed's default bucket, in elements.
constexpr double kReduceBucket = 5e8;

/// What is known already, or the law that gave it.
template <class Held, class Law>
Held known_or(RealBytes known, const Law& law) {
  if constexpr (std::is_same_v<Held, RealBytes>)
    return known;
  else
    return law();
}

}  // namespace

template <class V>
BytesOf<V> MemoryModel::dummy_gradients(unsigned owners) const {
  BytesOf<V> bytes(0.0);
  if (!caches_dummies_) return bytes;
  int number = 0;
  for (const Shape& shape : shapes_) {
    if (!(shape.owners & owners)) continue;
    ++number;
    bytes = bytes + BytesOf<V>(2.0) * symbol<V>("r", number, shape.rows, "rows of a weight on the rank", kShapeOrigin) *
                        symbol<V>("c", number, shape.columns, "its columns", kShapeOrigin);
  }
  return bytes;
}

/// The pool of CUDA graphs of parts of a layer: that of the layer kind whose graphs need most.
Traced MemoryModel::traced_graph_pool() const {
  Traced most = 0.0;
  for (const Layer& layer : problem_->model.kinds) {
    const Traced one =
        graph_pool(layer, traced_transient(problem_->model, layer, training_, split_), training_.stack.graph_scopes);
    if (one.value() > most.value()) most = one;
  }
  return most;
}

template <class V>
BytesOf<V> MemoryModel::resident_law(const Layout& layout, int rank, const StageContent& content,
                                     const StageSums& sums) const {
  using Held = BytesOf<V>;
  Held bytes = symbol<Held>("o", kStaticResidue, "random states, scalars, small tables: 3 MiB as measured", "stack") +
               symbol<Held>("w", workspaces_, "workspace of TransformerEngine's GEMMs", "GPU preset");
  bytes = bytes + known_or<Held>(loader_mask_, [&] {
            return lettered("k", loader_mask<V>(training_, split_), "attention mask of the data loader", "bytes");
          });
  bytes = bytes + known_or<Held>(graph_, [&] {
            return lettered("q", traced_graph_pool(), "pool of CUDA graphs of parts of a layer", "bytes");
          });
  if (states_of(layout) != StateLayout::MegatronFsdp)
    bytes =
        bytes + lettered("g", dummy_gradients<V>(sums.kinds), "cached gradients, one of each weight's shape", "bytes");
  if (content.head || sums.moe)
    bytes = bytes + symbol<Held>("t", torch_workspaces_, "workspaces of PyTorch's own products", "GPU preset");
  if (sums.moe)
    bytes = bytes + symbol<Held>("x", grouped_workspaces_, "workspaces of the grouped GEMM's streams", "GPU preset");
  if (content.head)
    bytes = bytes + known_or<Held>(ends_.head_resident, [&] {
              return lettered("h", traced_head(problem_->model, training_, split_).resident,
                              "the head's gathered input", "bytes");
            });
  if (rank > 0)
    bytes = bytes + known_or<Held>(stale_, [&] {
              return lettered("s", traced_checkpoint(problem_->model, training_, split_),
                              "gradient that was sent to the stage before", "bytes");
            });
  if (training_.stack.states == StateLayout::DeepSpeed && layout.zero > 0) {
    // where they are reduced beside backward, two in turn
    const double trained = sums.trained_dense + sums.trained_expert + sums.ends;
    const V bucket = smaller(symbol<V>("b", kReduceBucket, "elements of a bucket of gradients", "stack"),
                             symbol<V>("P", trained, "parameters of the rank", kShapeOrigin));
    bytes = bytes + Held((training_.stack.overlap_grad_reduce ? 2.0 : 1.0) * 2.0 * bucket);
  }
  return bytes;
}

RealBytes MemoryModel::resident_transient(const Layout& layout, int rank, const StageContent& content,
                                          const StageSums& sums) const {
  return resident_law<double>(layout, rank, content, sums);
}
Traced MemoryModel::traced_resident(const Layout& layout, int rank, const StageContent& content) const {
  return resident_law<Traced>(layout, rank, content, sums(content));
}

template <class V>
BytesOf<V> MemoryModel::reserve_law(const BytesOf<V>& held, const BytesOf<V>& hole, const BytesOf<V>& pool) const {
  const Stack& stack = problem_->training.stack;
  const char* pages = stack.expandable_segments ? "with expandable segments" : "without expandable segments";
  return symbol<V>("u", problem_->cluster.calibration.allocator_reserve, "against what is usual", kConstantsOrigin) *
             symbol<V>("f", allocator_reserve(stack.expandable_segments), pages, "stack") * held +
         hole + pool;
}

RealBytes MemoryModel::reserve(const ShardedMemory& sharded, const Instant& instant) const {
  const RealBytes held = sharded.states() + instant.activations + instant.transient;
  const RealBytes left = pool_left(instant.pool, sharded.pool, sharded.forward, sharded.embedding);
  return reserve_law<double>(held, instant.hole, left);
}

Traced MemoryModel::traced_reserve(const Layout& layout, int rank, const StageContent& content,
                                   double in_flight) const {
  const StageSums total = sums(content);
  const ShardedMemory held = sharded(layout, rank, content, total);
  const Instant instant = peak(held, activity(layout, content, total, in_flight));
  const auto states = static_cast<double>(held.states().value);
  const Traced alive = symbol<Traced>("S", states, "weights, gradients and optimizer states", "plan explain memory") +
                       symbol<Traced>("A", instant.activations.value, "activations", "plan explain activations") +
                       symbol<Traced>("T", instant.transient.value, "alive at the peak", "plan explain transient.a");
  Traced hole = 0.0, left = 0.0;
  if (instant.hole > RealBytes())
    hole = lettered<Traced>("h", traced_head(problem_->model, training_, split_).hole,
                            "freed logits, whose place nothing that follows fits in", "bytes");
  if (held.pool > RealBytes()) {
    const Traced pool = lettered<Traced>("p", gather_pool<Traced>(total.block, ends_.head_parameters),
                                         "pool that gathers fill on their own stream", "bytes");
    const Traced forward =
        symbol<Traced>("G", held.forward.value, "weights gathered while a layer's forward runs", kShapeOrigin);
    const Traced embedding =
        symbol<Traced>("E", held.embedding.value, "gathered when the embedding's gradient appears", kShapeOrigin);
    left = pool_left(instant.pool, pool, forward, embedding);
  }
  return reserve_law<Traced>(alive, hole, left);
}

}  // namespace plan
