// Launch flags of Megatron-LM that published runs quote. Tested by tests/planner/run_stack_test.cpp.
#include "planner/runs/run_flags.hpp"

#include <charconv>
#include <string_view>

namespace plan {
namespace {

/// Launch flags quoted in a row's notes.
class Flags {
 public:
  explicit Flags(std::string_view notes) {
    const std::size_t at = notes.find("Flags: ");
    if (at != std::string_view::npos) text_ = notes.substr(at + 7);
  }
  bool any() const { return !text_.empty(); }
  std::string_view value(std::string_view name) const {
    for (std::size_t at = text_.find(name); at != std::string_view::npos; at = text_.find(name, at + 1)) {
      const bool starts = at == 0 || text_[at - 1] == ' ';
      const std::size_t end = at + name.size();
      if (!starts || end >= text_.size() || text_[end] != '=') continue;
      const std::size_t stop = text_.find(", ", end);
      return text_.substr(end + 1, stop == std::string_view::npos ? stop : stop - end - 1);
    }
    return {};
  }
  bool on(std::string_view name) const { return value(name) == "true"; }
  std::int64_t number(std::string_view name, std::int64_t otherwise) const {
    const std::string_view text = value(name);
    std::int64_t result = otherwise;
    std::from_chars(text.data(), text.data() + text.size(), result);
    return result;
  }

 private:
  std::string_view text_{};
};

/// Latent attention with Megatron's default widths, unless a flag narrows them.
void latent(const Flags& flags, Layer& layer) {
  layer.mixer = Mixer::Latent;
  layer.latent = {.heads = layer.attention.heads,
                  .q_rank = flags.number("q-lora-rank", 0),
                  .kv_rank = flags.number("kv-lora-rank", 512),
                  .nope_dim = flags.number("qk-head-dim", 128),
                  .rope_dim = flags.number("qk-pos-emb-head-dim", 64),
                  .value_dim = flags.number("v-head-dim", 128)};
}

/// Megatron-LM's arguments default to the GPT of 2019: LayerNorm, biases, tied embeddings, learned positions,
/// dropout 0.1, GPT-2's vocabulary; flags take each back.
void megatron_model(const Run& run, const Flags& flags, Problem& problem) {
  Model& model = problem.model;
  const bool rotary = !flags.value("rotary-percent").empty() || flags.on("multi-latent-attention") ||
                      flags.value("normalization") == "RMSNorm";
  const bool bias = !flags.on("disable-bias-linear");
  model.norm = flags.value("normalization") == "RMSNorm" ? Norm::Rms : Norm::Layer;
  model.tied = !flags.on("untie-embeddings-and-output-weights");
  model.positions = rotary ? 0 : problem.training.seq;
  problem.training.dropout = rotary ? 0 : 0.1;
  if (!run.vocab) model.vocab = 50257;
  for (Layer& layer : model.kinds) {
    layer.attention.qkv_bias = layer.attention.out_bias = layer.dense.bias = bias;
    if (flags.on("qk-layernorm")) layer.attention.qk_norm = QkNorm::PerHead;
    if (flags.on("swiglu")) layer.dense.gated = layer.moe.gated = true;
    if (flags.on("swiglu") && !run.ffn) layer.dense.width = 4 * model.hidden * 2 / 3 / 64 * 64;
    if (flags.on("swiglu") && !run.ffn && !run.expert_ffn) layer.moe.expert_width = layer.dense.width;
    if (flags.on("multi-latent-attention")) latent(flags, layer);
  }
}

}  // namespace

bool quotes_flags(const Run& run) { return run.task.starts_with("functional-test") && Flags(run.notes).any(); }

void apply_flags(const Run& run, Problem& problem) {
  const Flags flags(run.notes);
  megatron_model(run, flags, problem);
  Stack& stack = problem.training.stack;
  stack.cross_entropy = CrossEntropy::Unfused;  // the native fused loss works on fp32 logits as well
  stack.gradient_fusion = !flags.on("no-gradient-accumulation-fusion");
  stack.deterministic = flags.on("deterministic-mode");
  stack.grouped_gemm = flags.on("moe-grouped-gemm");
  stack.transformer_engine = flags.value("transformer-impl") != "local";
  stack.flash_attention = stack.transformer_engine && flags.value("attention-backend") != "unfused";
  stack.loader_attention_mask = run.model.find("no_create_attention_mask") == std::string::npos;
  if (flags.value("ckpt-format") == "fsdp_dtensor") stack.states = StateLayout::MegatronFsdp;
}

}  // namespace plan
