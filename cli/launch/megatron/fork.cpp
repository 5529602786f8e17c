// What flags of Megatron-LM's forks come to in its own: Megatron-DeepSpeed's ZeRO stage and sequence parallelism,
// MindSpeed's layers without experts, shared experts and adapters, and the names that early releases had.
// Tested by tests/launch/reading_test.cpp.
#include <fmt/format.h>

#include <algorithm>

#include "cli/launch/megatron/megatron.hpp"
#include "formulas/names.hpp"

namespace plan {
namespace {

void move(MegatronArgs& args, std::string_view from, std::string_view to) {
  const auto found = args.given.find(from);
  if (found == args.given.end()) return;
  args.given.try_emplace(std::string(to), found->second);
  args.given.erase(args.given.find(from));
}

void set(MegatronArgs& args, std::string_view flag, const std::string& value, std::string_view like) {
  args.given[std::string(flag)] = {value.empty() ? std::vector<std::string>{} : std::vector<std::string>{value},
                                   args.where(like)};
}

void unused(MegatronArgs& args, std::string_view flag, std::string text) {
  args.unused.push_back({"not_used", fmt::format("{}: `--{}`: {}", args.where(flag), flag, text)});
}

/// Names of early releases: full recomputation was `--checkpoint-activations`, layers at a time by another flag.
void early_names(MegatronArgs& args) {
  move(args, "model-parallel-size", "tensor-model-parallel-size");
  move(args, "batch-size", "micro-batch-size");
  if (args.text("pipe-parallel-size") == "0") set(args, "pipe-parallel-size", "1", "pipe-parallel-size");  // none
  move(args, "pipe-parallel-size", "pipeline-model-parallel-size");
  const bool on = args.has("checkpoint-activations") || args.has("activations-checkpoint-method");
  if (!on || args.has("recompute-granularity")) return;
  const char* flag = args.has("checkpoint-activations") ? "checkpoint-activations" : "activations-checkpoint-method";
  set(args, "recompute-granularity", "full", flag);
  set(args, "recompute-method", args.text("activations-checkpoint-method") == "block" ? "block" : "uniform", flag);
  const std::int64_t layers = args.integer("checkpoint-num-layers", 1);
  set(args, "recompute-num-layers", fmt::format("{}", std::max<std::int64_t>(1, layers)), flag);
}

/// slime: the answers of a rollout, spread over its steps, are the batch. A stated one must be the same.
void rollout_batch(MegatronArgs& args) {
  const std::int64_t steps = args.integer("num-steps-per-rollout", 0), prompts = args.integer("rollout-batch-size", 0);
  const std::int64_t answers = args.integer("n-samples-per-prompt", 1);
  constexpr std::int64_t kMost = 1 << 30;
  if (steps < 1 || prompts < 1 || answers < 1 || prompts > kMost || answers > kMost) return;
  const std::int64_t batch = prompts * answers / steps;
  if (!args.has("global-batch-size"))
    set(args, "global-batch-size", fmt::format("{}", batch), "num-steps-per-rollout");
  else if (args.integer("global-batch-size", batch) != batch)
    unused(args, "num-steps-per-rollout",
           fmt::format("slime stops at a global batch that is not the {} of its rollouts", batch));
}

/// slime trains on prompts with their answers, whatever the length that Megatron was told, which nothing there uses:
/// the longest of a rollout are counted.
void rollout_length(MegatronArgs& args) {
  constexpr std::string_view kAnswer = "rollout-max-response-len", kPrompt = "rollout-max-prompt-len",
                             kBoth = "rollout-max-context-len";
  constexpr std::int64_t kMost = 1 << 26;
  const std::int64_t answer = args.integer(kAnswer, 0), prompt = args.integer(kPrompt, 0),
                     most = args.integer(kBoth, 0);
  if (answer < 1 || prompt < 0 || answer > kMost || prompt > kMost || most > kMost || args.has("seq-length")) return;
  set(args, "seq-length", fmt::format("{}", most > 0 ? most : prompt + answer), most > 0 ? kBoth : kAnswer);
  if (most < 1 && prompt < 1) unused(args, kAnswer, "prompts, whose length is not stated, are not counted");
}

void sequence_parallelism(MegatronArgs& args) {
  if (const std::int64_t ranks = args.integer("ds-sequence-parallel-size", 1); ranks > 1) {
    set(args, "context-parallel-size", fmt::format("{}", ranks), "ds-sequence-parallel-size");
    set(args, "cp-comm-type", "a2a", "ds-sequence-parallel-size");
  }
  const std::string algorithm = args.text("context-parallel-algo");
  if (algorithm.empty() || args.integer("context-parallel-size", 1) == 1) return;
  const std::int64_t cp = args.integer("context-parallel-size", 1), inner = args.integer("ulysses-degree-in-cp", 1);
  if (algorithm == "ulysses_cp_algo") {
    set(args, "cp-comm-type", "a2a", "context-parallel-algo");
  } else if (algorithm == "hybrid_cp_algo" && inner > 0 && cp % inner == 0) {
    set(args, "cp-comm-type", "a2a+p2p", "context-parallel-algo");
    args.given["hierarchical-context-parallel-sizes"] = {{fmt::format("{}", inner), fmt::format("{}", cp / inner)},
                                                         args.where("ulysses-degree-in-cp")};
  } else if (algorithm != "megatron_cp_algo") {
    unused(args, "context-parallel-algo", fmt::format("`{}` is counted as a ring", algorithm));
  }
}

/// `--noop-layers 61,62`: positions of layers that do nothing.
std::vector<int> listed_layers(const std::string& text) {
  std::vector<int> out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    out.push_back(std::atoi(text.substr(at, end - at).c_str()));
    at = end + 1;
  }
  return out;
}

/// Megatron-DeepSpeed's `--num-experts 1`, its default, is a feed-forward layer without experts.
void no_experts(MegatronArgs& args) {
  if (!args.fork || args.integer("num-experts", 0) != 1) return;
  for (const char* flag : {"num-experts", "moe-router-topk", "topk", "expert-model-parallel-size"})
    if (const auto found = args.given.find(flag); found != args.given.end()) args.given.erase(found);
}

/// Which layers have experts, by MindSpeed's rule: from the k-th on, every `--moe-layer-freq`-th.
void experts(MegatronArgs& args) {
  const std::int64_t shared = args.integer("n-shared-experts", 0);
  if (shared > 0 && shared < 1000 && !args.has("moe-shared-expert-intermediate-size"))
    set(args, "moe-shared-expert-intermediate-size",
        fmt::format("{}", shared * args.integer("moe-ffn-hidden-size", args.integer("ffn-hidden-size", 0))),
        "n-shared-experts");
  const std::int64_t depth = args.integer("num-layers", 0);
  std::vector<int> idle = listed_layers(args.text("noop-layers"));
  std::erase_if(idle, [&](int layer) { return layer < 0 || layer >= depth; });
  std::sort(idle.begin(), idle.end());
  idle.erase(std::unique(idle.begin(), idle.end()), idle.end());
  const std::string freq = args.text("moe-layer-freq");
  if (args.has("num-experts") && depth > 0 && depth < 10'000 && freq.find('[') == std::string::npos &&
      (args.has("first-k-dense-replace") || !idle.empty())) {
    const std::int64_t dense = args.integer("first-k-dense-replace", 0);
    const std::int64_t every = std::max<std::int64_t>(1, std::abs(args.integer("moe-layer-freq", 1)));
    std::string list;
    for (std::int64_t i = 0; i < depth; ++i)
      if (!std::binary_search(idle.begin(), idle.end(), static_cast<int>(i)))
        list += fmt::format("{}{}", list.empty() ? "" : ",", i >= dense && i % every == 0 ? 1 : 0);
    set(args, "moe-layer-freq", "[" + list + "]",
        args.has("first-k-dense-replace") ? "first-k-dense-replace" : "noop-layers");
  }
  if (idle.empty() || static_cast<std::int64_t>(idle.size()) >= depth) return;
  args.idle_layers = idle;
  set(args, "num-layers", fmt::format("{}", depth - static_cast<std::int64_t>(idle.size())), "num-layers");
}

/// BigScience's and epfLLM's parsers: a gated layer is as wide as a plain one unless a flag says otherwise.
void gated_width(MegatronArgs& args) {
  const std::string gate = args.text("glu-activation");
  if (gate.empty()) return;
  if (gate != "swiglu" && gate != "geglu" && gate != "reglu" && gate != "liglu")
    return unused(args, "glu-activation", "a gated feed-forward layer of this kind is counted as plain");
  set(args, "swiglu", "", "glu-activation");
  const std::int64_t hidden = args.integer("hidden-size", 0);
  if (hidden > 0 && hidden <= 1 << 24 && !args.has("ffn-hidden-size"))
    set(args, "ffn-hidden-size", fmt::format("{}", 4 * hidden), "glu-activation");
}

/// epfLLM's Megatron-LLM, in its own words for positions and number format.
void words_of_megatron_llm(MegatronArgs& args) {
  const std::string positions = args.text("position-embedding-type");
  for (const auto& [theirs, ours] : {std::pair{"rotary", "rope"}, {"absolute", "learned_absolute"}})
    if (positions == theirs) set(args, "position-embedding-type", ours, "position-embedding-type");
  if (args.has("fp8-e4m3")) set(args, "fp8-format", "e4m3", "fp8-e4m3");
}

/// FlagScale: the gated layer's width as Llama's first code has it, two thirds of four times hidden, rounded up.
void widths(MegatronArgs& args) {
  for (const char* norm : {"apply-layernorm-rms", "RMSNorm", "use-rms-norm"})
    if (args.has(norm)) set(args, "normalization", "RMSNorm", norm);
  const std::int64_t multiple = args.integer("multiple-of", 0), hidden = args.integer("hidden-size", 0);
  if (multiple < 1 || hidden < 1 || multiple > 1 << 20 || hidden > 1 << 24 || args.has("ffn-hidden-size")) return;
  const double factor = std::clamp(std::atof(args.text("hidden-dim-multiplier").c_str()), 0.0, 100.0);
  const auto width = static_cast<std::int64_t>(static_cast<double>(4 * hidden * 2 / 3) * (factor > 0 ? factor : 1));
  set(args, "ffn-hidden-size", fmt::format("{}", (width + multiple - 1) / multiple * multiple), "multiple-of");
}

void adapters(MegatronArgs& args) {
  for (const char* flag : {"stage", "train-mode"})
    if (const std::string stage = args.text(flag);
        !stage.empty() && stage != "sft" && stage != "pt" && stage != "pretrain" && stage != "finetune")
      unused(args, flag, fmt::format("the models beside the trained one of `{}` are not counted", stage));
  const std::int64_t rank = args.integer("lora-r", 0);
  if (rank < 1) return;
  args.task = args.has("qlora") ? Task::Qlora : Task::Lora;
  args.task_where = args.where("lora-r");
  args.lora_rank = rank, args.lora_where = args.task_where;
}

}  // namespace

void settle_forks(MegatronArgs& args) {
  if (args.has("actor-num-nodes")) {  // slime: megatron_utils/arguments.py
    if (!args.has("fp16")) args.given.try_emplace("bf16", StatedValue{{}, ""});
    args.given.try_emplace("use-distributed-optimizer", StatedValue{{}, ""});
    rollout_batch(args);
    rollout_length(args);
  }
  early_names(args);
  no_experts(args);
  sequence_parallelism(args);
  for (const char* heads : {"num-key-value-heads", "n-head-kv", "num-attention-heads-kv"})
    if (args.has(heads)) {
      set(args, "num-query-groups", args.text(heads), heads);
      set(args, "group-query-attention", "", heads);
    }
  // BigCode's: one head of keys for all, or one for each (Megatron-LM of bigcode-project, megatron/arguments.py). Forks
  // of it state how many beside it.
  if (const std::string heads = args.text("attention-head-type"); heads == "multiquery") {
    if (!args.has("num-query-groups")) set(args, "num-query-groups", "1", "attention-head-type");
    set(args, "group-query-attention", "", "attention-head-type");
  } else if (!heads.empty() && heads != "multihead") {
    unused(args, "attention-head-type", "the number of key heads is counted as stated elsewhere");
  }
  if (const std::string method = args.text("pp-partition-method"); method.find("embedding") != std::string::npos) {
    set(args, "account-for-embedding-in-pipeline-split", "", "pp-partition-method");
    set(args, "account-for-loss-in-pipeline-split", "", "pp-partition-method");
  } else if (!method.empty() && method != "uniform" && method.find("type:transformer") == std::string::npos) {
    unused(args, "pp-partition-method", fmt::format("stages split by `{}` are counted as equal", method));
  }
  gated_width(args);
  words_of_megatron_llm(args);
  widths(args);
  if (args.has("allgather-cp") && !args.has("cp-comm-type"))  // slime
    set(args, "cp-comm-type", "all_gather", "allgather-cp");
  if (args.has("gelu-tanh")) set(args, "swiglu", "", "gelu-tanh");
  experts(args);
  adapters(args);
}

}  // namespace plan
