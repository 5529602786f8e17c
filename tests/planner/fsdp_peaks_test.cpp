// Peaks of FSDP2 against PyTorch's own trackers: FSDPMemTracker of torch 2.15.0 around torchtitan 0.3.0's Llama 3 under
// FakeTensorMode on fake process groups, second step, rank 0; workspaces, NCCL and context are not tracked. `compiled`
// stands for what the min-cut partitioner keeps, with the loss in one kernel.
#include <doctest/doctest.h>

#include "planner/memory.hpp"
#include "tests/formulas/models.hpp"

namespace {

using namespace plan;

constexpr Recompute kNone{}, kOps{.kind = RecomputeKind::Selective, .modules = kRecomputeOps},
    kFull{.kind = RecomputeKind::Full};

struct Peak {
  const char* name;
  int gpus, tp, pp, zero, shard, seq, micro_batch;
  Recompute recompute;
  bool compiled;
  double gigabytes;  ///< of 1e9 bytes
};

const Peak kPeaks[] = {
    {"64 GPUs", 64, 1, 1, 3, 0, 8192, 1, kNone, true, 43.57},
    {"64 GPUs, selective op", 64, 1, 1, 3, 0, 8192, 1, kOps, true, 23.70},
    {"64 GPUs, full", 64, 1, 1, 3, 0, 8192, 1, kFull, true, 9.18},
    {"8 GPUs, selective op", 8, 1, 1, 3, 0, 8192, 1, kOps, true, 34.24},
    {"8 GPUs, full", 8, 1, 1, 3, 0, 8192, 1, kFull, true, 19.98},
    {"64 GPUs, four of 2k", 64, 1, 1, 3, 0, 2048, 4, kNone, true, 43.47},
    {"64 GPUs, four of 8k, full", 64, 1, 1, 3, 0, 8192, 4, kFull, true, 28.63},
    {"HSDP 8 x 8, full", 64, 1, 1, 3, 8, 8192, 1, kFull, true, 19.98},
    {"TP 2", 64, 2, 1, 3, 0, 8192, 1, kNone, true, 24.79},
    {"TP 8", 64, 8, 1, 3, 0, 8192, 1, kNone, true, 10.70},
    {"TP 8, two, full", 64, 8, 1, 3, 0, 8192, 2, kFull, true, 3.51},
    {"never reshard", 64, 1, 1, 2, 0, 8192, 1, kNone, true, 58.58},
    {"PP 4, always reshard", 64, 1, 4, 3, 0, 8192, 1, kNone, true, 49.04},
    {"PP 4, never reshard", 64, 1, 4, 2, 0, 8192, 1, kNone, true, 52.71},
    {"64 GPUs, eager", 64, 1, 1, 3, 0, 8192, 1, kNone, false, 59.49},
    {"64 GPUs, selective op, eager", 64, 1, 1, 3, 0, 8192, 1, kOps, false, 32.11},
    {"64 GPUs, full, eager", 64, 1, 1, 3, 0, 8192, 1, kFull, false, 17.58},
    {"8 GPUs, full, eager", 8, 1, 1, 3, 0, 8192, 1, kFull, false, 28.12},
    {"64 GPUs, four of 8k, full, eager", 64, 1, 1, 3, 0, 8192, 4, kFull, false, 62.25},
    {"TP 2, eager", 64, 2, 1, 3, 0, 8192, 1, kNone, false, 34.85},
    {"TP 8, eager", 64, 8, 1, 3, 0, 8192, 1, kNone, false, 13.21},
    {"TP 8, two, full, eager", 64, 8, 1, 3, 0, 8192, 2, kFull, false, 6.66},
};

/// Allocated on the first stage, without the workspaces that no tracker sees.
double allocated(const Peak& peak) {
  Problem problem;
  problem.model = fixture::llama3_8b();
  problem.gpus = peak.gpus;
  problem.cluster.gpu.architecture = Architecture::Hopper;
  const int dp = peak.gpus / peak.tp / peak.pp;
  Training& training = problem.training;
  training.seq = peak.seq;
  training.global_batch = static_cast<std::int64_t>(dp) * peak.micro_batch * (peak.pp > 1 ? 8 : 1);
  Stack& stack = training.stack;
  stack.states = StateLayout::Fsdp2;
  stack.transformer_engine = stack.gradient_fusion = false;
  stack.keeps_gathered = true;
  stack.fused_activation = stack.fused_pointwise = peak.compiled;
  stack.cross_entropy = peak.compiled ? CrossEntropy::Compiled : CrossEntropy::Eager;
  const Layout layout{.tp = peak.tp,
                      .pp = peak.pp,
                      .dp = dp,
                      .zero = peak.zero,
                      .shard = peak.shard,
                      .micro_batch = peak.micro_batch,
                      .recompute = peak.recompute,
                      .sequence_parallel = peak.tp > 1};
  StageContent content;
  content.layers_of_kind[0] = problem.model.depth() / peak.pp;
  content.embedding = true, content.head = peak.pp == 1;
  const StageMemory stage = MemoryModel(problem, layout).stage(layout, 0, content, peak.pp);
  return static_cast<double>(memory_kinds(stage).allocated.value);
}

TEST_CASE("peaks of FSDP2 as PyTorch's trackers count them") {
  for (const Peak& peak : kPeaks) {
    CAPTURE(peak.name);
    CHECK(allocated(peak) / 1e9 == doctest::Approx(peak.gigabytes).epsilon(0.03));
  }
}

}  // namespace
