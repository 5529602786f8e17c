// Rules of thumb: the catalog's table of their limits, and their reasons. Tested by tests/formulas/rules_test.cpp.
#include "formulas/textbook/rules_of_thumb.hpp"

#include "formulas/textbook/batch.hpp"

namespace plan {
namespace {

constexpr Symbol kW{"W", "bandwidth of one GPU, per direction", "bytes/s"};
constexpr Symbol kC{"C", "rate that GEMMs reach on one GPU", "FLOP/s"};
constexpr Symbol kQ{"q", "query width", "", kNoTypical, Domain::Count};
constexpr Symbol kP{"p", "pipeline stages", "", 1, Domain::Count};

constexpr Symbol kTp[] = {{"F", "FFN width", "", kNoTypical, Domain::Count}, kW, kC};
constexpr Symbol kFsdp[] = {kW, kC, {"g", "bytes of a reduced gradient", "bytes", 2}};
constexpr Symbol kRing[] = {kQ, {"kv", "key and value width", "", kNoTypical, Domain::Count}, kW, kC};
constexpr Symbol kBlock[] = {kW, kC};
constexpr Symbol kHalf[] = {
    {"F_lin", "training FLOPs per token of all GEMMs", "FLOP"}, {"L", "layers", "", kNoTypical, Domain::Count}, kQ};
constexpr Symbol kTarget[] = {
    kP, {"v", "model chunks of a stage", "", 1, Domain::Count}, {"f", "bubble share", "", 0.1}};
constexpr Symbol kRows[] = {{"N", "tokens of a micro-batch on the rank", "tokens", kNoTypical, Domain::Count},
                            {"k", "experts of a token", "", kNoTypical, Domain::Count},
                            {"E", "routed experts", "", kNoTypical, Domain::Count},
                            {"ep", "expert-parallel ranks", "", 1, Domain::Count}};
constexpr Symbol kShare[] = {{"x", "recomputed share of the forward pass", "", 1, Domain::Share}};
constexpr Symbol kSaving[] = {{"s", "sequence length", "tokens", kNoTypical, Domain::Count},
                              {"b", "sequences in a micro-batch", "", 1, Domain::Count},
                              {"h", "hidden width", "", kNoTypical, Domain::Count},
                              {"t", "tensor-parallel ranks", "", 1, Domain::Count}};
constexpr Symbol kWorld[] = {{"t", "tensor-parallel ranks", "", 1, Domain::Count},
                             {"c", "context-parallel ranks", "", 1, Domain::Count},
                             kP,
                             {"d", "data-parallel replicas", "", 1, Domain::Count}};

constexpr CatalogEntry kEntries[] = {
    entry<tp_limit>(kTpLimit, kTp,
                    misstatement("CS336 lecture 7 notes, p. 49", "tensor parallelism can only be 8",
                                 "8 is the NVLink domain of an HGX board, not a law: 72 GPUs share one on GB200 NVL72, "
                                 "and heads and FFN must divide.")),
    entry<fsdp_min_tokens>(kFsdpLimit, kFsdp),
    entry<ring_min_tokens>(kRingLimit, kRing),
    entry<ring_block>(kRingBlock, kBlock),
    entry<ring_sequence>(kRingSequence, kBlock),
    entry<attention_half_sequence>(kAttentionHalf, kHalf),
    entry<micro_batches_for_bubble>(kBubbleTarget, kTarget),
    entry<rows_per_expert>(kRowsPerExpert, kRows),
    entry<recompute_overhead>(kRecomputeOverhead, kShare),
    entry<sp_saving>(
        kSpSaving, kSaving,
        misstatement("CS336 lecture 7 notes, p. 51", "sequence parallelism is what ring attention rests on",
                     "It splits norms and dropout over the tensor-parallel ranks and gathers before attention. Ring "
                     "attention splits the sequence inside attention too, over ranks of its own.")),
    entry<world_size>(kWorldSize, kWorld),
};

constexpr RuleOfThumb kRules[] = {
    {"tp-domain", "tensor parallelism stays inside the NVLink domain",
     "every layer waits for its gathers and scatters; the network is ten times slower",
     "domains of 72 GPUs move the limit; wide FFNs over fast networks stretch it", "tp-limit"},
    {"sp-with-tp", "sequence parallelism wherever there is tensor parallelism",
     "it splits the activations that tensor parallelism leaves whole, 10 sbh a layer",
     "it gathers inputs once more, a quarter more traffic", "sp-saving"},
    {"bubble", "four micro-batches a stage, or interleaving", "the bubble is p - 1 parts of m v + p - 1",
     "zero-bubble schedules fill it with weight gradients", "micro-batches-for-bubble"},
    {"fsdp-tokens", "FSDP needs enough tokens on each rank", "a layer's weights must arrive while another computes",
     "gathered weights that are kept, or gathered once for several micro-batches", "fsdp-min-tokens"},
    {"hsdp-node", "hybrid sharding shards over one node", "three passes over the weights stay on NVLink",
     "states that need more than a node's memory", "hsdp-inter-traffic"},
    {"cp-long", "context parallelism from 8 to 16 thousand tokens", "activations and attention grow with the sequence",
     "short sequences, where data parallelism costs less", "attention-half-sequence"},
    {"ring-hidden", "a ring needs enough tokens on each rank", "keys and values must arrive while a block computes",
     "all-to-alls move less once c kv exceeds q + kv", "ring-min-tokens"},
    {"expert-rows", "expert parallelism over tensor parallelism for experts",
     "splitting experts thins their GEMMs; splitting the set of them keeps rows", "few large experts on a fast domain",
     "rows-per-expert"},
    {"zero1-always", "shard the optimizer always", "reduce-scatter and all-gather move what the all-reduce did",
     "fp32 gradients: 6 bytes a parameter against 4", "zero1-traffic"},
    {"recompute", "recompute attention first, whole layers last", "attention is the largest tensor for the least work",
     "flash attention, which keeps no such tensor: then it saves nothing", "recompute-overhead"},
    {"gemm-rows", "the largest micro-batch that fits", "GEMMs reach their rate at about 4096 rows",
     "beyond that it only costs micro-batches, and so bubble", "micro-batches-for-bubble"},
    {"critical-batch", "no batch beyond the critical one", "twice the examples for ever fewer steps",
     "a deadline worth the extra tokens", "critical-batch"},
    {"bubble-share", "a bubble of at most a fifth of the step", "a stage that waits trains nothing",
     "a batch too small for more micro-batches", "bubble-fraction"},
    {"filled-stages", "no fewer micro-batches than pipeline stages", "with fewer some stage idles at every moment",
     "a batch too small for its replicas", "bubble-fraction"},
    {"fsdp-thousand", "no weights sharded over more than a thousand GPUs, and nothing else",
     "every gather waits for the slowest of all, and latency grows with the ring",
     "batches large enough to hide the gathers", "fsdp-min-tokens"},
    {"ep-domain", "experts spread inside the NVLink domain", "every token crosses the network several times a layer",
     "dispatch that sends a token once to a node, under compute of another micro-batch", "ep-traffic"},
    {"starved", "a tenth of the peak at least",
     "below it GPUs wait for what too little memory or too small a batch asks", "trials that only have to run", "mfu"},
};

}  // namespace

std::span<const RuleOfThumb> rules_of_thumb() { return kRules; }

const RuleOfThumb* find_rule(std::string_view name) {
  for (const RuleOfThumb& rule : kRules)
    if (rule.name == name) return &rule;
  return nullptr;
}

RuleVerdict batch_below_critical(const BatchCheck& in) { return at_most(in.tokens, critical_batch({in.loss})); }

std::span<const CatalogEntry> rule_formulas() { return kEntries; }

}  // namespace plan
