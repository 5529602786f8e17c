// Terms of a stage's memory. Tested by tests/cli/explain_test.cpp.
#include <fmt/core.h>

#include "cli/explain/parts.hpp"
#include "cli/explain/terms.hpp"
#include "cli/terminal/format.hpp"

namespace plan {
namespace {

const StageMemory& memory_of(const Plan& plan, int stage) { return plan.best.stages[static_cast<std::size_t>(stage)]; }

double value(Bytes bytes) { return static_cast<double>(bytes.value); }

ExplainedSymbol symbol_of(const MemoryCategory& row, const StageMemory& memory) {
  return {std::string(row.symbol), value(memory.*row.bytes), std::string(row.about),
          row.source.empty() ? fmt::format("plan explain {}", row.key()) : std::string(row.source)};
}

std::string sum_of(const std::vector<ExplainedSymbol>& symbols) {
  std::string sum;
  for (const ExplainedSymbol& symbol : symbols) sum += (sum.empty() ? "" : " + ") + symbol.name;
  return sum;
}

/// What has no column of its own.
Bytes others(const StageMemory& memory) {
  Bytes sum{};
  for (const MemoryCategory& row : kMemoryCategories)
    if (!row.column) sum = sum + memory.*row.bytes;
  return sum;
}

}  // namespace

Result<Explanation> explain_other(const Plan& plan, int stage) {
  const StageMemory& memory = memory_of(plan, stage);
  Explanation out{.name = {},
                  .title = fmt::format("transients, buffers and context of stage {}", stage),
                  .equation = {},
                  .value = value(others(memory)),
                  .unit = "bytes",
                  .source = "TransformerEngine, Megatron-LM and NCCL sources; measured peaks"};
  for (const MemoryCategory& row : kMemoryCategories) {
    if (row.column) continue;
    if (row.bytes != &StageMemory::transient) {
      out.symbols.push_back(symbol_of(row, memory));
      continue;
    }
    out.symbols.push_back({std::string(row.symbol), value(memory.transient - memory.reserve), std::string(row.about),
                           "plan explain transient.a"});
    out.symbols.push_back(
        {"r", value(memory.reserve), "what the allocator cannot hand out", "plan explain transient.r"});
  }
  out.equation = sum_of(out.symbols);
  return out;
}

Result<Explanation> explain_memory(const Plan& plan, int stage) {
  const StageMemory& memory = memory_of(plan, stage);
  Explanation out{.name = {},
                  .title = fmt::format("peak memory of stage {}", stage),
                  .equation = {},
                  .value = value(memory.total()),
                  .unit = "bytes",
                  .source = {}};
  for (const MemoryCategory& row : kMemoryCategories)
    if (row.column) out.symbols.push_back(symbol_of(row, memory));
  out.symbols.push_back({"x", value(others(memory)), "all other", "plan explain other"});
  out.equation = sum_of(out.symbols);
  if (stage == plan.best.peak_stage && !plan.best.peak_instant.empty())
    out.notes.push_back(fmt::format("the peak is reached at: {}", plan.best.peak_instant));
  return out;
}

}  // namespace plan
