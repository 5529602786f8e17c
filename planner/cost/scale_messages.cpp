// What ranks tell each other of the largest values that they saw, under fp8 with delayed scaling. Assumption: each sum
// waits for all ranks of its stage, and the next pass for it. Source: TransformerEngine, pytorch/fp8.py,
// reduce_and_update_fp8_tensors (later quantization.py): one all-reduce where the outermost fp8_autocast ends and one
// where the backward pass of what it held does; Megatron core opens one around a chunk (transformer_block.py), over all
// ranks of tensor, context and data parallelism (parallel_state.py, get_amax_reduction_group, unless
// tp_only_amax_red). Tested by tests/planner/traffic_test.cpp.
#include "planner/cost/scale_messages.hpp"

#include "formulas/kernel_laws.hpp"
#include "formulas/rank_grid.hpp"

namespace plan {
namespace {

/// Products of a layer that have scales of their own.
double scaled_products(const Layer& layer, const Layout& layout) {
  if (layer.in_bf16) return 0;
  double products = layer.mixer == Mixer::None ? 0 : 2;
  // Queries by way of a narrower width, or not; keys and values always; the result.
  if (layer.mixer == Mixer::Latent) products = layer.latent.q_rank > 0 ? 5 : 4;
  if (layer.ffn == Ffn::Dense) products += 2;
  if (layer.ffn != Ffn::Moe) return products;
  const double local = static_cast<double>(layer.moe.experts) / layout.ep;
  return products + 2 * local + (layer.moe.shared_width > 0 ? 2 : 0) + (layer.moe.latent > 0 ? 2 : 0);
}

}  // namespace

ScaleMessages scale_messages(const Problem& problem, const Layout& layout) {
  const Training& training = problem.training;
  if (training.precision != Precision::Fp8Delayed || !training.stack.transformer_engine) return {};
  double products = 0;
  for (const int kind : problem.model.layers)
    products += scaled_products(problem.model.kinds[static_cast<std::size_t>(kind)], layout);
  // Of a product the input, the weight and the result forward, the gradients of result and input backward, in fp32.
  constexpr double kEach = 4 * (3 + 2) / 2.0;
  const auto chunks = static_cast<double>(layout.chunks());
  // Of two stages that a rank holds for both ways of a pipeline every micro-batch meets one.
  const auto passes = static_cast<double>(micro_batches(training.global_batch, layout.dp, layout.micro_batch));
  return {RankGrid(layout).stage(), RealBytes(kEach * products / chunks), 2 * passes * layout.vp};
}

template <class V>
SecondsOf<V> scale_seconds(const Cluster& cluster, const ScaleMessages& messages) {
  if (messages.group.size < 2 || messages.passes <= 0) return SecondsOf<V>(0.0);
  return symbol<V>("n", messages.passes, "forward and backward passes of a rank's chunks in a step", "schedule") *
         lettered("t", collective_seconds<V>(cluster, Collective::AllReduce, messages.bytes, messages.group),
                  "one all-reduce of largest values over the ranks of a stage", "s");
}
template Seconds scale_seconds<double>(const Cluster&, const ScaleMessages&);
template Traced scale_seconds<Traced>(const Cluster&, const ScaleMessages&);

}  // namespace plan
