// What the time of messages answers to: what hides them, how they are sent and who sends them, each against its
// absence.
#include <doctest/doctest.h>

#include <cstdint>

#include "formulas/collective_law.hpp"
#include "formulas/efficiency.hpp"
#include "oracle/random_problem.hpp"
#include "planner/answer/estimate.hpp"
#include "planner/cost/spread_ends.hpp"
#include "planner/small_job.hpp"

using namespace plan;
using namespace plan::small;

TEST_CASE("all-to-alls of the first forward and the last backward pass find nothing to run beside") {
  Problem problem = small_job(true);
  problem.training.stack.cuda_graphs = true;
  problem.cluster.calibration.jitter = 0;
  Layout layout = data_parallel();
  layout.ep = 8;
  const auto saved = [&](int micro_batches) {
    problem.training.global_batch = static_cast<std::int64_t>(layout.dp) * micro_batches;
    problem.training.stack.ep_overlap = false;
    const double apart = seconds(problem, layout);
    problem.training.stack.ep_overlap = true;
    return apart - seconds(problem, layout);
  };
  // One stage pairs all but one of its forward passes (Megatron core, combined_1f1b_schedule_for_no_pipelining).
  CHECK(saved(1) == doctest::Approx(0));
  const double one = saved(2);
  REQUIRE(one > 0);
  for (const int micro_batches : {3, 5, 16})
    CHECK(saved(micro_batches) == doctest::Approx((micro_batches - 1) * one).epsilon(1e-6));
}

TEST_CASE("stages that share embedding and head send each other what is as wide as the model") {
  Problem problem = small_job();
  problem.training.stack.vocab_barriers = 1;
  Layout layout;
  layout.pp = 8;
  const Estimate spread = estimate(problem, layout);
  const double micro_batches = static_cast<double>(problem.training.global_batch);
  const double wide = static_cast<double>(problem.training.seq * problem.model.hidden);
  double broadcasts = 0, sums = 0, broadcast = 0, summed = 0, exposed = 0, time = 0;
  for (const Communication& row : spread.communication) {
    if (row.axis != Axis::Tp) continue;
    exposed += row.exposed.value, time += row.time.value;
    if (row.op == Collective::AllReduce) sums += row.count, summed += static_cast<double>(row.per_step.value);
    if (row.op == Collective::Broadcast) {
      broadcasts += row.count;
      broadcast += static_cast<double>(row.per_step.value);
    }
  }
  // Hidden states in fp32 to the head, gradients of embedded tokens in 16 bits from the first stage; embedded tokens
  // and the head's input gradients are summed, and three numbers a token.
  CHECK(broadcasts == doctest::Approx(2 * micro_batches));
  CHECK(broadcast == doctest::Approx(micro_batches * (4 + 2) * wide));
  CHECK(sums == doctest::Approx(5 * micro_batches));
  // A ring of eight sends each byte to be summed 2 * 7 / 8 times.
  const double summable = (2 + 2) * wide + 3 * 4 * static_cast<double>(problem.training.seq);
  CHECK(summed == doctest::Approx(micro_batches * summable * 2 * 7 / 8));
  CHECK(exposed == doctest::Approx(spread.terms.tp.value));
  CHECK(exposed > 0);
  const SpreadMessages one = spread_messages(problem, layout);
  CHECK(time == doctest::Approx(micro_batches * (one.forward + one.backward).value));
  problem.training.stack.vocab_barriers = 0;
  CHECK(estimate(problem, layout).terms.tp.value == 0);
}

TEST_CASE("bandwidth between nodes falls with their number, and not among few") {
  const auto slowed = [](int domains) {
    Cluster steady = oracle::plain_cluster(), falling = steady;
    steady.calibration.network_decay = 0, falling.calibration.network_decay = 0.1;
    const auto time = [&](const Cluster& cluster) {
      return collective_time(cluster, Collective::AllGather, RealBytes(4e9), {domains * 8, 1}).value;
    };
    return time(falling) / time(steady);
  };
  CHECK(slowed(2) == 1);
  CHECK(slowed(4) == 1);
  double last = 1;
  for (const int domains : {8, 16, 64}) {
    CHECK(slowed(domains) > last);
    last = slowed(domains);
  }
  CHECK(slowed(1 << 12) < 2.1);
}

TEST_CASE("owners that broadcast in turn pay a latency each") {
  Problem problem = small_job();
  problem.training.stack.overlap_param_gather = false;
  const auto dp_term = [&](bool broadcasts, int zero) {
    problem.training.stack.broadcasts_shards = broadcasts;
    return estimate(problem, data_parallel(zero)).terms.dp.value;
  };
  CHECK(dp_term(true, 1) > dp_term(false, 1));
  CHECK(dp_term(true, 0) == doctest::Approx(dp_term(false, 0)));  // nobody owns a share
}

TEST_CASE("adapters on a fully sharded base pay for gathering the base") {
  Problem problem = small_job();
  problem.training.task = Task::Lora;
  problem.training.stack.states = StateLayout::Fsdp2;
  problem.training.stack.overlap_param_gather = false;
  CHECK(estimate(problem, data_parallel(3)).terms.dp.value > 10 * estimate(problem, data_parallel(1)).terms.dp.value);
}

TEST_CASE("FSDP that keeps gathered weights gathers them once a micro-batch, the base of adapters too") {
  Problem problem = small_job();
  problem.training.stack.states = StateLayout::Fsdp2;
  const auto gathered = [&](const Layout& layout) {
    double bytes = 0;
    for (const Communication& row : estimate(problem, layout).communication)
      if (row.axis == Axis::Dp && row.op == Collective::AllGather) bytes += static_cast<double>(row.per_step.value);
    return bytes;
  };
  for (const Task task : {Task::Pretrain, Task::Lora})
    for (const bool overlaps : {false, true})
      for (const int micro_batch : {1, 2, 8}) {
        problem.training.task = task, problem.training.stack.overlap_param_gather = overlaps;
        Layout kept = data_parallel(2), again = data_parallel(3);
        kept.micro_batch = again.micro_batch = micro_batch;
        CAPTURE(micro_batch);
        // ZeRO-3 gathers for the backward pass as well.
        CHECK(gathered(kept) == doctest::Approx(gathered(again) / 2));
        CHECK(estimate(problem, kept).terms.dp <= estimate(problem, again).terms.dp);
        // Replicas gather nothing.
        if (task == Task::Lora) CHECK(estimate(problem, data_parallel(0)).terms.dp < estimate(problem, kept).terms.dp);
      }
}

TEST_CASE("large layers that DeepSpeed recomputes are fetched once more") {
  Problem problem = small_job();
  problem.training.stack.states = StateLayout::DeepSpeed;
  problem.training.stack.overlap_param_gather = false;
  Layout layout = data_parallel(3);
  const auto dp_term = [&](std::int64_t hidden, RecomputeKind kind) {
    problem.model = oracle::dense_model(2, hidden, 16, 16, 4 * hidden, 32000);
    layout.recompute.kind = kind;
    return estimate(problem, layout).terms.dp.value;
  };
  CHECK(dp_term(4096, RecomputeKind::Full) == doctest::Approx(dp_term(4096, RecomputeKind::None)));
  CHECK(dp_term(12288, RecomputeKind::Full) > 1.2 * dp_term(12288, RecomputeKind::None));
}

TEST_CASE("collectives on lists view and copy every rank's share by itself") {
  Problem problem = small_job();
  problem.training.stack.states = StateLayout::DeepSpeed;
  problem.training.stack.overlap_param_gather = false;
  problem.training.stack.gathers_per_layer = 4;
  Calibration& free = problem.cluster.calibration;
  free.memory_bound = free.scale_up = free.scale_out = 1e9;  // launches are all that they cost
  const auto more = [&](int dp, int zero) {
    problem.gpus = dp;
    Layout layout = data_parallel(zero);
    layout.dp = dp;
    const auto dp_term = [&](bool lists) {
      problem.training.stack.shards_in_lists = lists;
      return estimate(problem, layout).terms.dp.value;
    };
    return dp_term(true) - dp_term(false);
  };
  // Two gathers of four tensors in each of eight layers, a view and a copy a rank, for every micro-batch. Gradients are
  // summed whole, in no list.
  const double call = 1.5 * problem.cluster.calibration.kernel_gap_us * 1e-6;
  CHECK(more(8, 3) == doctest::Approx(2 * 4 * 8 * 8 * call * (64.0 / 8)).epsilon(0.01));
  CHECK(more(16, 3) == doctest::Approx(2 * 4 * 8 * 16 * call * (64.0 / 16)).epsilon(0.01));
  CHECK(more(8, 1) == 0);
}

TEST_CASE("all-reduces between GEMMs cost what sharing them says, halves of one do not") {
  Problem problem = small_job();
  Layout layout;
  layout.tp = 8;
  const auto tp_term = [&](double beside, bool sequence_parallel) {
    layout.sequence_parallel = sequence_parallel;
    problem.cluster.calibration.tensor_parallel = beside;
    return estimate(problem, layout).terms.tp.value;
  };
  CHECK(tp_term(2, false) > 1.5 * tp_term(1, false));
  CHECK(tp_term(2, true) < 1.1 * tp_term(1, true));  // three of the loss are left
}

TEST_CASE("PyTorch's chunks of a collective slow the product beside them and are added up in a pass of their own") {
  Problem problem = small_job();
  Layout layout;
  layout.tp = 8, layout.sequence_parallel = true;
  const auto tp_term = [&](StateLayout states, double tax) {
    problem.training.stack.tp_overlap = true, problem.training.stack.tp_async_reduce = false;
    problem.training.stack.keeps_gathered = true;  // nothing is gathered again
    problem.training.stack.states = states;
    problem.cluster.calibration.overlap_tax = tax;
    return estimate(problem, layout).terms.tp.value;
  };
  const double userbuffers = tp_term(StateLayout::Megatron, 0), torch = tp_term(StateLayout::Fsdp2, 0);
  CHECK(torch > userbuffers);                                      // the pass
  CHECK(tp_term(StateLayout::Megatron, 0.5) < 1.2 * userbuffers);  // the head's alone
  CHECK(tp_term(StateLayout::Fsdp2, 0.5) > 1.5 * torch);
}
