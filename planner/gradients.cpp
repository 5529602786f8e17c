// Data-parallel work of an Evaluator: gradients summed, parameters gathered, optimizer stepped, and what of it the
// pipeline hides. Tested by tests/planner/estimate_test.cpp.
#include <algorithm>

#include "formulas/efficiency.hpp"
#include "formulas/textbook_states.hpp"
#include "planner/evaluate.hpp"

namespace plan {

bool sums_whole_gradients(const Training& training, const Layout& layout) {
  return training.stack.states == StateLayout::DeepSpeed && layout.zero == 1 && layout.pp > 1 &&
         training.precision == Precision::Bf16;
}

void Evaluator::price_sharding(const Layout& layout, const MemoryModel& memory,
                               std::vector<DataParallel>& prices) const {
  const Training& training = problem_.training;
  const Cluster& cluster = problem_.cluster;
  const Calibration& fit = cluster.calibration;
  const auto time = [&](Collective op, double bytes, Group group) {
    if (group.size <= 1 || bytes <= 0) return 0.0;
    const bool inside = group.inside(cluster.scale_up_size()) == group.size;
    return collective_time(cluster, op, bytes, group).value / (inside ? fit.scale_up : fit.scale_out);
  };
  const double element = training.grad_bytes;
  const double weight = is_fp8(training.precision) && training.stack.fp8_param_gather ? 1 : training.weight_bytes();
  // Dense states shard over `shard` neighbours and replicate over the rest; experts over their own group.
  // Both directions of DualPipe reduce the same stage, so its group is twice as large.
  const int directions = layout.schedule == Schedule::DualPipe ? 2 : 1;
  const int shard = layout.shard_group();
  const Group all{layout.dense_group() * directions, layout.tp}, inner{shard, layout.tp};
  const Group outer{layout.dense_group() / shard, layout.tp * shard};
  const Group experts{layout.expert_dp() * directions, layout.etp * layout.ep};
  prices.clear();
  for (const StageContent& content : stages().contents) {
    double dense = 0, expert = 0;
    for (int kind = 0; kind < costs_.kinds(); ++kind) {
      const double count = content.layers_of_kind[static_cast<std::size_t>(kind)];
      dense += count * memory.layer(kind).trained_dense;
      expert += count * memory.layer(kind).trained_expert;
    }
    if (!training.adapters()) {
      if (content.embedding) dense += memory.ends().embedding_parameters;
      if (content.head) dense += memory.ends().head_parameters + content.mtp * memory.ends().mtp_parameters;
    }
    DataParallel price;
    if (layout.zero == 0 || sums_whole_gradients(training, layout)) {
      price.reduce =
          time(Collective::AllReduce, dense * element, all) + time(Collective::AllReduce, expert * element, experts);
    } else {
      price.reduce = time(Collective::ReduceScatter, dense * element, inner) +
                     time(Collective::AllReduce, dense * element / shard, outer) +
                     time(Collective::ReduceScatter, expert * element, experts);
    }
    if (layout.zero > 0) {
      price.gather =
          time(Collective::AllGather, dense * weight, inner) + time(Collective::AllGather, expert * weight, experts);
    }
    if (layout.zero == 3) {  // fetched layer by layer
      const double messages = placement_->layers[prices.size()] * training.stack.gathers_per_layer;
      price.gather += std::max(0.0, messages - 1) * time(Collective::AllGather, 1, inner);
      price.reduce += std::max(0.0, messages - 1) * time(Collective::ReduceScatter, 1, inner);
    }
    const double group = layout.zero == 0 ? 1 : shard, expert_group = layout.zero == 0 ? 1 : layout.expert_dp();
    const double owned = dense / group + expert / expert_group;
    const Offload& offload = training.offload;
    if (offload.parameters && layout.zero >= 2 && cluster.gpu.host_link.value > 0) {
      // The shard is fetched before every gather, its gradient sent away behind every reduction.
      price.gather += owned * (training.stack.states == StateLayout::Fsdp2 ? 4 : weight) / cluster.gpu.host_link.value;
      price.reduce += owned * element / cluster.gpu.host_link.value;
    }
    // Zero the gradients, read them for the norm, then Adam: 30 bytes a parameter (plan-formulas(7) F4).
    const double bytes = 4 * (dense + expert) + 34 * (1 - offload.optimizer) * owned;
    price.optimizer = memory_bound_time(cluster.gpu, bytes, 20).value / fit.memory_bound;
    if (offload.optimizer > 0 && cluster.gpu.host_link.value > 0)
      price.optimizer += textbook::offload_time({offload.optimizer, owned, 1, cluster.gpu.host_link.value}).value;
    prices.push_back(price);
  }
}

/// ZeRO-3: the next block's gather hides under this block's compute, forward and backward.
double Evaluator::block_exposed(const StageCost& cost, const DataParallel& price, double layers) const {
  const double tax = problem_.cluster.calibration.overlap_tax;
  const bool overlaps = problem_.training.stack.overlap_param_gather;
  const auto hide = [&](double comm, double compute) {
    if (!overlaps) return comm;
    return std::max(0.0, comm - compute) + tax * std::min(comm, compute);
  };
  const double blocks = std::max(1.0, layers);
  const double again = problem_.training.stack.reshard_after_forward ? price.gather + price.reduce : price.reduce;
  return blocks *
         (hide(price.gather / blocks, cost.forward.total() / blocks) + hide(again / blocks, cost.backward() / blocks));
}

Evaluator::Exposed Evaluator::exposed(const Layout& layout, std::span<const DataParallel> prices) const {
  const Stack& stack = problem_.training.stack;
  const double tax = problem_.cluster.calibration.overlap_tax;
  // Interleaved chunks reduce (and fetch) one by one, aligned over the ranks: all but the last hide under the others'
  // micro-batches, which pass in groups of pp.
  const bool by_chunk = layout.schedule == Schedule::Interleaved && layout.vp > 1;
  const double last = by_chunk ? 1.0 / layout.vp : 1.0, others = (1 - last) * layout.pp;
  const auto expose = [&](double comm, double pass, double slack, bool overlap) {
    const double early = std::min((1 - last) * comm, others * pass);
    const double hidden = overlap ? early + std::min(comm - early, slack) : 0;
    return comm - hidden + tax * hidden;
  };
  Exposed worst;
  double before_forward = 0, before_backward = 0;  // work of earlier ranks: slack before this rank is waited for
  for (const Segment& segment : placement_->segments) {
    const auto content = static_cast<std::size_t>(segment.content);
    const StageCost& cost = stage_costs_[content];
    const DataParallel& price = prices[content];
    worst.optimizer = std::max(worst.optimizer, price.optimizer);
    if (layout.zero == 3) {
      worst.reduce = std::max(worst.reduce, passes_ * block_exposed(cost, price, placement_->layers[content]));
      continue;
    }
    // Rank 0 hides its buckets under its own last backward pass, later ranks under the drain of the pipeline:
    // of equal ones the first has the least time.
    const double backward = cost.backward(), forward = cost.forward.total();
    const double reduce_slack = segment.first == 0 ? 0.9 * last * backward : before_backward;
    const double gather_slack = segment.first == 0 ? 0.9 * last * forward : before_forward;
    const double repeated =
        layout.zero == 2 ? (passes_ - 1) * std::max(tax * price.reduce, price.reduce - backward) : 0;
    worst.reduce =
        std::max(worst.reduce, repeated + expose(price.reduce, backward, reduce_slack, stack.overlap_grad_reduce));
    worst.gather = std::max(worst.gather, expose(price.gather, forward, gather_slack, stack.overlap_param_gather));
    before_forward += segment.ranks * forward / layout.vp, before_backward += segment.ranks * backward / layout.vp;
  }
  return worst;
}

}  // namespace plan
