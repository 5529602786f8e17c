// What can be wrong with a run, each with what it does to the parts of a step. A fault that the model has a switch or a
// constant for is put into the model and estimated again, so that what it does to hidden communication, to the bubble
// and to the wait for others follows by itself. The others say what they add.
// Tested by tests/planner/diagnosis_test.cpp.
#include <algorithm>

#include "formulas/rank_grid.hpp"
#include "planner/runs/diagnosis.hpp"

namespace plan {
namespace {

/// The parts of the step after a change of the problem or the layout.
template <class Change>
StepParts changed(const Problem& problem, const Estimate& e, const Change& change) {
  Problem other = problem;
  Layout layout = e.layout;
  change(other, layout);
  return parts_of(other, estimate(other, layout));
}

/// `seconds` more of one part, and of the step.
StepParts longer(StepParts parts, Observable part, double seconds) {
  parts[static_cast<std::size_t>(part)] += seconds;
  parts[static_cast<std::size_t>(Observable::Step)] += seconds;
  return parts;
}

bool always(const Problem&, const Estimate&) { return true; }
bool several_nodes(const Problem& problem, const Estimate&) { return problem.gpus > problem.cluster.scale_up_size(); }
bool several_gpus(const Problem& problem, const Estimate&) { return problem.gpus > 1; }

StepParts slow_network(const Problem& problem, const Estimate& e, double factor) {
  return changed(problem, e, [&](Problem& p, Layout&) {
    p.cluster.calibration.scale_out /= factor;
    for (std::size_t i = 1; i < p.cluster.tiers.size(); ++i)
      p.cluster.tiers[i].latency = p.cluster.tiers[i].latency * factor;
  });
}

StepParts slow_links(const Problem& problem, const Estimate& e, double factor) {
  return changed(problem, e, [&](Problem& p, Layout&) { p.cluster.calibration.scale_up /= factor; });
}

StepParts low_clocks(const Problem& problem, const Estimate& e, double factor) {
  return changed(problem, e, [&](Problem& p, Layout&) {
    p.cluster.calibration.gemm /= factor;
    p.cluster.calibration.attention /= factor;
  });
}

/// The healthy ranks wait where they first meet the slow one: in the reduction of gradients, else in the pipeline, else
/// inside the layers.
StepParts slow_rank(const Problem& problem, const Estimate& e, double factor) {
  const Observable meets = e.layout.dense_group() > 1 ? Observable::Dp
                           : e.layout.pp > 1          ? Observable::Pipeline
                                                      : Observable::Tp;
  return longer(parts_of(problem, e), meets, (factor - 1) * (e.terms.compute + e.terms.recompute).value);
}

bool recomputes_less_than_all(const Problem&, const Estimate& e) {
  return e.layout.recompute.kind != RecomputeKind::Full || e.layout.recompute.layers > 0;
}
StepParts recomputes_all(const Problem& problem, const Estimate& e, double) {
  return changed(problem, e, [](Problem&, Layout& layout) { layout.recompute = {RecomputeKind::Full, 0, 0, 0}; });
}

bool overlaps_gradients(const Problem& problem, const Estimate& e) {
  return e.layout.dense_group() > 1 &&
         (problem.training.stack.overlap_grad_reduce || problem.training.stack.overlap_param_gather);
}
StepParts no_overlap(const Problem& problem, const Estimate& e, double) {
  return changed(problem, e, [](Problem& p, Layout&) {
    p.training.stack.overlap_grad_reduce = false;
    p.training.stack.overlap_param_gather = false;
  });
}

bool routes(const Problem& problem, const Estimate&) { return problem.model.moe(); }
StepParts imbalance(const Problem& problem, const Estimate& e, double factor) {
  return changed(problem, e, [&](Problem& p, Layout&) { p.training.stack.routing_imbalance *= factor; });
}

bool fused(const Problem& problem, const Estimate&) {
  return problem.training.stack.fused_pointwise && !problem.training.stack.eager_launches;
}
StepParts eager(const Problem& problem, const Estimate& e, double) {
  return changed(problem, e, [](Problem& p, Layout&) {
    p.training.stack.fused_pointwise = p.training.stack.fused_norms = p.training.stack.fused_activation = false;
    p.training.stack.cuda_graphs = false;
  });
}

bool flash(const Problem& problem, const Estimate&) { return problem.training.stack.flash_attention; }
StepParts no_flash(const Problem& problem, const Estimate& e, double) {
  return changed(problem, e, [](Problem& p, Layout&) { p.training.stack.flash_attention = false; });
}

bool narrow(const Problem& problem, const Estimate&) { return is_narrow(problem.training.precision); }
StepParts bf16(const Problem& problem, const Estimate& e, double) {
  return changed(problem, e, [](Problem& p, Layout&) { p.training.precision = Precision::Bf16; });
}

bool order_can_differ(const Problem& problem, const Estimate& e) { return order_matters(problem.cluster, e.layout); }
StepParts other_order(const Problem& problem, const Estimate& e, double) {
  return changed(problem, e, [](Problem&, Layout& layout) {
    layout.order = layout.order == AxisOrder::DataOutermost ? AxisOrder::PipelineOutermost : AxisOrder::DataOutermost;
  });
}

/// Messages that were to stay among the GPUs of a node, and could leave it.
bool stays_inside(const Problem& problem, const Communication& row) {
  return (row.axis == Axis::Tp || row.axis == Axis::Cp) && problem.cluster.tiers.size() > 1 &&
         row.tier == problem.cluster.tiers.front().name;
}
bool groups_inside(const Problem& problem, const Estimate& e) {
  return several_nodes(problem, e) && std::any_of(e.communication.begin(), e.communication.end(),
                                                  [&](const auto& row) { return stays_inside(problem, row); });
}
/// What they take on the wire grows as the bandwidths differ; what was hidden of it stays hidden.
StepParts spread_groups(const Problem& problem, const Estimate& e, double) {
  StepParts parts = parts_of(problem, e);
  const std::vector<Tier>& tiers = problem.cluster.tiers;
  const double slower = tiers.front().bandwidth.value / tiers[1].bandwidth.value;
  for (const Communication& row : e.communication)
    if (stays_inside(problem, row))
      parts = longer(parts, row.axis == Axis::Tp ? Observable::Tp : Observable::Cp,
                     std::max(0.0, slower - 1) * row.time.value);
  return parts;
}

StepParts data_loading(const Problem& problem, const Estimate& e, double factor) {
  return longer(parts_of(problem, e), Observable::Idle, (factor - 1) * e.step_time.value);
}

}  // namespace

const std::vector<Fault>& faults() {
  static const std::vector<Fault> kFaults{
      {"network_slow", "the network between nodes gives less than planned",
       "NCCL_IB_HCA, NCCL_SOCKET_IFNAME, GPUDirect RDMA, and the rails of each node",
       "nccl-tests' all_reduce_perf over two nodes, or `plan probe` on them", 1.1, 30, several_nodes, slow_network},
      {"links_slow", "GPUs of a node reach each other by a slower way than planned (PCIe, host memory)",
       "`nvidia-smi topo -m`, `nvidia-smi nvlink -s`, NCCL_P2P_DISABLE, NCCL_P2P_LEVEL",
       "NCCL_DEBUG=INFO: channels `via P2P`, not `via SHM`", 1.1, 30, several_gpus, slow_links},
      {"clocks_low", "the GPUs compute slower than planned: power cap, heat, or low clocks",
       "`nvidia-smi -q -d PERFORMANCE,CLOCK,POWER`", "clocks.sm and clocks_event_reasons while the job runs", 1.05, 4,
       always, low_clocks},
      {"slow_rank", "one rank is slower than the others, and all wait for it", "the slowest rank's GPU, host and NIC",
       "step times by rank (`--log` of several ranks), or a run without that node", 1.03, 4, several_gpus, slow_rank},
      {"recompute_on", "every layer is recomputed, which was not planned",
       "--recompute-granularity, activation checkpointing of the framework", "peak memory: far below what was planned",
       1, 1, recomputes_less_than_all, recomputes_all},
      {"no_overlap", "gradients and parameters are exchanged after compute and not beside it",
       "--overlap-grad-reduce, --overlap-param-gather, CUDA_DEVICE_MAX_CONNECTIONS",
       "a trace: reductions start when the last backward pass ends", 1, 1, overlaps_gradients, no_overlap},
      {"imbalance", "experts get unequal numbers of tokens",
       "the auxiliary loss, the router's bias, the capacity factor", "tokens per expert, which most frameworks log",
       1.05, 8, routes, imbalance},
      {"eager_kernels", "norms, activations and residuals run as separate kernels",
       "torch.compile, fused kernels, Apex or TransformerEngine", "a trace: names of pointwise kernels", 1, 1, fused,
       eager},
      {"no_flash", "attention is not the fused kernel", "--attention-backend, attn_implementation, head dimension",
       "a trace: softmax kernels of their own", 1, 1, flash, no_flash},
      {"wide_gemms", "GEMMs run in 16 bits and not in the planned format", "--fp8-format, the recipe of quantisation",
       "a trace: names of GEMM kernels", 1, 1, narrow, bf16},
      {"wrong_order", "pipeline and data-parallel ranks stand in the other order than planned",
       "--use-tp-pp-dp-mapping, the order of the device mesh, the launcher's rank order",
       "a trace: the ranks of each process group", 1, 1, order_can_differ, other_order},
      {"spread_groups", "groups that were to share a node are spread over nodes: the axes stand in another order",
       "the launcher's ranks and --ntasks-per-node, the order of the device mesh",
       "a trace: the ranks of the tensor group; NCCL_DEBUG=INFO: its channels `via NET`", 1, 1, groups_inside,
       spread_groups},
      {"data_loading", "the GPUs wait for data or for the host", "workers of the data loader, storage, logging, Python",
       "a trace: gaps between steps with no kernel", 1.03, 10, always, data_loading},
      {"fragmentation", "memory is in pieces: the allocator gives it back and takes it again, and the GPU waits",
       "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, a smaller micro-batch",
       "num_alloc_retries of torch.cuda.memory_stats(), which should be 0", 1.03, 10, always, data_loading, true},
  };
  return kFaults;
}

}  // namespace plan
