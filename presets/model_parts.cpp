// The sections of a model file, one for each building block of plan-formulas(7) A1.
#include "presets/model_parts.hpp"

namespace plan {
namespace {

using yaml::kOptional;
using yaml::Need;

constexpr yaml::Range kHeads{1, 1e5}, kHeadDim{1, 1e5}, kWidth{1, 1e7}, kExperts{1, 1e5}, kWindow{0, 1e9};

void read_attention(yaml::Map& m, AttentionShape& a, Need need) {
  m.integer("heads", a.heads, kHeads, need);
  if (!m.integer("kv_heads", a.kv_heads, kHeads, kOptional) && need == Need::Required) a.kv_heads = a.heads;
  m.integer("head_dim", a.head_dim, kHeadDim, need);
  m.boolean("qkv_bias", a.qkv_bias, kOptional);
  m.boolean("out_bias", a.out_bias, kOptional);
  m.word("qk_norm", a.qk_norm, kQkNormNames, kOptional);
  m.boolean("sinks", a.sinks, kOptional);
  m.boolean("output_gate", a.output_gate, kOptional);
  double window = 0;
  if (m.quantity("window", window, Dimension::Tokens, kWindow, kOptional)) a.window = static_cast<std::int64_t>(window);
}

void read_latent(yaml::Map& m, LatentShape& a, Need need) {
  m.integer("heads", a.heads, kHeads, need);
  m.integer("q_rank", a.q_rank, {0, 1e6}, kOptional);
  m.integer("kv_rank", a.kv_rank, {1, 1e6}, need);
  m.integer("nope_dim", a.nope_dim, {0, 1e5}, need);
  m.integer("rope_dim", a.rope_dim, {0, 1e5}, need);
  m.integer("value_dim", a.value_dim, kHeadDim, need);
  m.integer("index_heads", a.index_heads, {0, 1e5}, kOptional);
  m.integer("index_dim", a.index_dim, {0, 1e5}, kOptional);
  double top_k = 0;
  if (m.quantity("index_top_k", top_k, Dimension::Tokens, kWindow, kOptional))
    a.index_top_k = static_cast<std::int64_t>(top_k);
}

void read_mamba(yaml::Map& m, Mamba2Shape& a, Need need) {
  m.integer("heads", a.heads, kHeads, need);
  m.integer("head_dim", a.head_dim, kHeadDim, need);
  m.integer("groups", a.groups, kHeads, need);
  m.integer("state", a.state, kHeadDim, need);
  m.integer("conv", a.conv, {1, 1e3}, need);
}

void read_delta(yaml::Map& m, DeltaNetShape& a, Need need) {
  m.integer("key_heads", a.key_heads, kHeads, need);
  m.integer("value_heads", a.value_heads, kHeads, need);
  m.integer("key_dim", a.key_dim, kHeadDim, need);
  m.integer("value_dim", a.value_dim, kHeadDim, need);
  m.integer("conv", a.conv, {1, 1e3}, need);
}

void read_dense(yaml::Map& m, DenseShape& d, Need need) {
  m.integer("width", d.width, kWidth, need);
  m.boolean("gated", d.gated, kOptional);
  m.boolean("bias", d.bias, kOptional);
}

void read_moe(yaml::Map& m, MoeShape& e, Need need) {
  m.integer("experts", e.experts, kExperts, need);
  m.integer("top_k", e.top_k, kExperts, need);
  m.integer("expert_width", e.expert_width, kWidth, need);
  m.integer("shared_width", e.shared_width, {0, 1e7}, kOptional);
  m.boolean("gated", e.gated, kOptional);
  m.boolean("expert_bias", e.expert_bias, kOptional);
  m.boolean("router_bias", e.router_bias, kOptional);
  m.boolean("score_bias", e.score_bias, kOptional);
  m.boolean("shared_gate", e.shared_gate, kOptional);
  m.integer("latent", e.latent, {0, 1e6}, kOptional);
}

}  // namespace

bool is_mixer(std::string_view part) { return part != "dense" && part != "moe"; }

void read_part(yaml::Map& map, std::string_view of, Layer& layer, bool all) {
  const Need need = all ? Need::Required : Need::Optional;
  if (of == "attention") read_attention(map, layer.attention, need);
  if (of == "latent") read_latent(map, layer.latent, need);
  if (of == "mamba") read_mamba(map, layer.mamba, need);
  if (of == "delta") read_delta(map, layer.delta, need);
  if (of == "dense") read_dense(map, layer.dense, need);
  if (of == "moe") read_moe(map, layer.moe, need);
}

void put_part(const ModelPart& part, Layer& layer) {
  const Layer& from = part.layer;
  if (part.of == "attention") layer.mixer = Mixer::Attention, layer.attention = from.attention;
  if (part.of == "latent") layer.mixer = Mixer::Latent, layer.latent = from.latent;
  if (part.of == "mamba") layer.mixer = Mixer::Mamba2, layer.mamba = from.mamba;
  if (part.of == "delta") layer.mixer = Mixer::DeltaNet, layer.delta = from.delta;
  if (part.of == "dense") layer.ffn = Ffn::Dense, layer.dense = from.dense;
  if (part.of == "moe") layer.ffn = Ffn::Moe, layer.moe = from.moe;
}

}  // namespace plan
