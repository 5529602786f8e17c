// Terms of a stage's memory. Tested by tests/cli/explain_test.cpp.
#include <fmt/core.h>

#include "cli/explain/parts.hpp"
#include "cli/explain/terms.hpp"
#include "cli/terminal/format.hpp"

namespace plan {
namespace {

const StageMemory& memory_of(const Plan& plan, int stage) { return plan.best.stages[static_cast<std::size_t>(stage)]; }

}  // namespace

Result<Explanation> explain_other(const Plan& plan, int stage) {
  const StageMemory& memory = memory_of(plan, stage);
  Explanation out{.name = {},
                  .title = fmt::format("transients, buffers and context of stage {}", stage),
                  .equation = "t + r + n + c",
                  .value = static_cast<double>((memory.transient + memory.communication + memory.context).value),
                  .unit = "bytes",
                  .source = "TransformerEngine, Megatron-LM and NCCL sources; measured peaks"};
  out.symbols = {{"t", static_cast<double>((memory.transient - memory.reserve).value), "alive only at the peak",
                  "plan explain transient.a"},
                 {"r", static_cast<double>(memory.reserve.value), "what the allocator cannot hand out",
                  "plan explain transient.r"},
                 {"n", static_cast<double>(memory.communication.value), "NCCL buffers", "plan explain communication"},
                 {"c", static_cast<double>(memory.context.value), "CUDA context and modules", "GPU preset"}};
  return out;
}

Result<Explanation> explain_memory(const Plan& plan, int stage) {
  const StageMemory& memory = memory_of(plan, stage);
  const auto value = [](Bytes bytes) { return static_cast<double>(bytes.value); };
  Explanation out{.name = {},
                  .title = fmt::format("peak memory of stage {}", stage),
                  .equation = "W + G + O + A + x",
                  .value = value(memory.total()),
                  .unit = "bytes",
                  .source = {}};
  out.symbols = {
      {"W", value(memory.weights), "weights", "plan explain weights"},
      {"G", value(memory.grads), "gradients", "plan explain grads"},
      {"O", value(memory.optimizer), "optimizer states", "plan explain optimizer"},
      {"A", value(memory.activations), "activations", "plan explain activations"},
      {"x", value(memory.transient + memory.communication + memory.context), "all other", "plan explain other"}};
  if (stage == plan.best.peak_stage && !plan.best.peak_instant.empty())
    out.notes.push_back(fmt::format("the peak is reached at: {}", plan.best.peak_instant));
  return out;
}

}  // namespace plan
