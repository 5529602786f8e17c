// The catalog's table of batch-size laws. Tested by tests/formulas/rules_test.cpp.
#include "formulas/textbook/batch.hpp"

#include <cmath>

namespace plan {
namespace {

constexpr Symbol kLossSymbol[] = {{"l", "training loss", "nats/token"}};
constexpr Symbol kCompute[] = {{"C", "compute budget", "FLOP"}};
constexpr Symbol kB{"B", "batch size", "tokens"};
constexpr Symbol kCritical{"B_crit", "critical batch size", "tokens"};
constexpr Symbol kStepsSymbols[] = {{"S_min", "least steps, with an endless batch", "steps"}, kB, kCritical};
constexpr Symbol kExamplesSymbols[] = {{"E_min", "least tokens, with a tiny batch", "tokens"}, kB, kCritical};
constexpr Symbol kSequences{"B", "global batch", "sequences", kNoTypical, Domain::Count};
constexpr Symbol kTokensSymbols[] = {kSequences, {"s", "sequence length", "tokens", kNoTypical, Domain::Count}};
constexpr Symbol kMicroSymbols[] = {kSequences,
                                    {"d", "data-parallel replicas", "", 1, Domain::Count},
                                    {"b", "sequences in a micro-batch", "", 1, Domain::Count}};

constexpr CatalogEntry kEntries[] = {
    entry<critical_batch>(kCriticalBatch, kLossSymbol),
    entry<best_batch>(kDeepSeekBatch, kCompute),
    entry<steps_needed>(kSteps, kStepsSymbols),
    entry<examples_needed>(kExamples, kExamplesSymbols),
    entry<tokens_per_step>(kTokensPerStep, kTokensSymbols),
    entry<micro_batches_per_rank>(kMicroBatches, kMicroSymbols),
};

}  // namespace

double critical_batch(const LossValueInput& in) { return 2e8 / std::pow(in.loss, 1 / 0.21); }
double best_batch(const ComputeInput& in) { return 0.292 * std::pow(in.flops, 0.3271); }

std::span<const CatalogEntry> batch_formulas() { return kEntries; }

}  // namespace plan
