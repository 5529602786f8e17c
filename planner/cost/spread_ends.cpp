// What stages say to each other that hold a share of the vocabulary each. Tested by
// tests/planner/message_mechanisms_test.cpp.
#include "planner/cost/spread_ends.hpp"

#include "formulas/kernel_laws.hpp"
#include "formulas/rank_grid.hpp"

namespace plan {

// sail-sg/VocabularyParallelism, megatron/core/pipeline_parallel/vocab_parallel_schedule.py: the last stage broadcasts
// what the head reads, in fp32; largest logits, the target's and sums of exponentials are summed in fp32, and so are
// the input's gradients, embedded tokens on their way to the first stage, and their gradients on the way back, in
// the type of activations.
SpreadMessages spread_messages(const Problem& problem, const Layout& layout) {
  SpreadMessages out;
  if (problem.training.stack.vocab_barriers == 0 || layout.pp == 1) return out;
  const Group group = RankGrid(layout).stages();
  const double tokens = static_cast<double>(problem.training.seq) * layout.micro_batch / layout.cp /
                        (layout.sequence_parallel ? layout.tp : 1);
  const double wide = tokens * static_cast<double>(problem.model.hidden);
  const double element = activation_bytes(problem.training.precision);
  const auto send = [&](Seconds& pass, Collective op, double bytes, double count) {
    const Seconds each(collective_seconds<double>(problem.cluster, op, RealBytes(bytes), group));
    out.messages.push_back({Axis::Tp, op, group, RealBytes(bytes), count, each, count * each, {}});
    pass += count * each;
  };
  send(out.forward, Collective::AllReduce, element * wide, 1);
  send(out.forward, Collective::Broadcast, 4 * wide, 1);
  send(out.forward, Collective::AllReduce, 4 * tokens, 3);
  send(out.backward, Collective::AllReduce, element * wide, 1);
  send(out.backward, Collective::Broadcast, element * wide, 1);
  return out;
}

}  // namespace plan
