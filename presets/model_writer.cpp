// Writes what model_reader.cpp reads. Shapes that differ from the first of their block become `variants`.
#include <fmt/core.h>

#include <algorithm>

#include "presets/lines.hpp"
#include "presets/model_parts.hpp"
#include "presets/reader.hpp"

namespace plan {
namespace {

/// Writes `key` if it differs from what the reader would assume, or if `all`.
template <class T>
void count(Lines& out, int indent, std::string_view key, T value, T assumed, bool all = false) {
  if (all || value != assumed) out.data(indent, key, fmt::format("{}", value));
}
void flag(Lines& out, int indent, std::string_view key, bool value, bool assumed) {
  if (value != assumed) out.flag(indent, key, value);
}
void tokens(Lines& out, int indent, std::string_view key, std::int64_t value, std::int64_t assumed) {
  if (value != assumed) out.data(indent, key, fmt::format("{} tokens", value));
}

void write_attention(Lines& out, int in, const AttentionShape& a, const AttentionShape& base, bool all) {
  count(out, in, "heads", a.heads, base.heads, all);
  count(out, in, "kv_heads", a.kv_heads, base.kv_heads, all);
  count(out, in, "head_dim", a.head_dim, base.head_dim, all);
  flag(out, in, "qkv_bias", a.qkv_bias, base.qkv_bias);
  flag(out, in, "out_bias", a.out_bias, base.out_bias);
  if (a.qk_norm != base.qk_norm) out.data(in, "qk_norm", detail::name_in(kQkNormNames, a.qk_norm));
  flag(out, in, "sinks", a.sinks, base.sinks);
  flag(out, in, "output_gate", a.output_gate, base.output_gate);
  tokens(out, in, "window", a.window, base.window);
}

void write_latent(Lines& out, int in, const LatentShape& a, const LatentShape& base, bool all) {
  count(out, in, "heads", a.heads, base.heads, all);
  count(out, in, "q_rank", a.q_rank, base.q_rank);
  count(out, in, "kv_rank", a.kv_rank, base.kv_rank, all);
  count(out, in, "nope_dim", a.nope_dim, base.nope_dim, all);
  count(out, in, "rope_dim", a.rope_dim, base.rope_dim, all);
  count(out, in, "value_dim", a.value_dim, base.value_dim, all);
  count(out, in, "index_heads", a.index_heads, base.index_heads);
  count(out, in, "index_dim", a.index_dim, base.index_dim);
  tokens(out, in, "index_top_k", a.index_top_k, base.index_top_k);
}

void write_mamba(Lines& out, int in, const Mamba2Shape& a, const Mamba2Shape& base, bool all) {
  count(out, in, "heads", a.heads, base.heads, all);
  count(out, in, "head_dim", a.head_dim, base.head_dim, all);
  count(out, in, "groups", a.groups, base.groups, all);
  count(out, in, "state", a.state, base.state, all);
  count(out, in, "conv", a.conv, base.conv, all);
}

void write_delta(Lines& out, int in, const DeltaNetShape& a, const DeltaNetShape& base, bool all) {
  count(out, in, "key_heads", a.key_heads, base.key_heads, all);
  count(out, in, "value_heads", a.value_heads, base.value_heads, all);
  count(out, in, "key_dim", a.key_dim, base.key_dim, all);
  count(out, in, "value_dim", a.value_dim, base.value_dim, all);
  count(out, in, "conv", a.conv, base.conv, all);
}

void write_dense(Lines& out, int in, const DenseShape& d, const DenseShape& base, bool all) {
  count(out, in, "width", d.width, base.width, all);
  flag(out, in, "gated", d.gated, base.gated);
  flag(out, in, "bias", d.bias, base.bias);
}

void write_moe(Lines& out, int in, const MoeShape& e, const MoeShape& base, bool all) {
  count(out, in, "experts", e.experts, base.experts, all);
  count(out, in, "top_k", e.top_k, base.top_k, all);
  count(out, in, "expert_width", e.expert_width, base.expert_width, all);
  count(out, in, "shared_width", e.shared_width, base.shared_width);
  flag(out, in, "gated", e.gated, base.gated);
  flag(out, in, "expert_bias", e.expert_bias, base.expert_bias);
  flag(out, in, "router_bias", e.router_bias, base.router_bias);
  flag(out, in, "score_bias", e.score_bias, base.score_bias);
  flag(out, in, "shared_gate", e.shared_gate, base.shared_gate);
  count(out, in, "latent", e.latent, base.latent);
}

/// The keys of `part` that differ from `base`; all required ones of a section of its own.
void write_part(Lines& out, int indent, const ModelPart& part, const Layer& base, bool all) {
  if (part.of == "attention") write_attention(out, indent, part.layer.attention, base.attention, all);
  if (part.of == "latent") write_latent(out, indent, part.layer.latent, base.latent, all);
  if (part.of == "mamba") write_mamba(out, indent, part.layer.mamba, base.mamba, all);
  if (part.of == "delta") write_delta(out, indent, part.layer.delta, base.delta, all);
  if (part.of == "dense") write_dense(out, indent, part.layer.dense, base.dense, all);
  if (part.of == "moe") write_moe(out, indent, part.layer.moe, base.moe, all);
}

std::string_view block_of(Mixer mixer) {
  switch (mixer) {
    case Mixer::None: return {};
    case Mixer::Attention: return "attention";
    case Mixer::Latent: return "latent";
    case Mixer::Mamba2: return "mamba";
    case Mixer::DeltaNet: return "delta";
  }
  return {};
}
std::string_view block_of(Ffn ffn) { return ffn == Ffn::None ? "" : ffn == Ffn::Dense ? "dense" : "moe"; }

/// The part of `parts` with block `of` and the shape in `layer`, added under a new name if there is none.
std::string part_name(std::vector<ModelPart>& parts, std::string_view of, const Layer& layer) {
  if (of.empty()) return {};
  ModelPart part{std::string(of), std::string(of), {}, false};
  Layer wanted;
  part.layer = layer;
  put_part(part, wanted);
  part.layer = wanted;
  int same_block = 0;
  for (const ModelPart& known : parts) {
    if (known.of != of) continue;
    ++same_block;
    if (known.layer == wanted) return known.name;
  }
  if (same_block > 0) part.name = fmt::format("{}-{}", of, same_block + 1);
  parts.push_back(part);
  return part.name;
}

std::string spelling(std::vector<ModelPart>& parts, const Layer& layer) {
  Layer shape = layer;
  shape.norms = Layer{}.norms;
  const std::string mixer = part_name(parts, block_of(layer.mixer), shape);
  const std::string ffn = part_name(parts, block_of(layer.ffn), shape);
  return mixer.empty() ? ffn : ffn.empty() ? mixer : fmt::format("{}+{}", mixer, ffn);
}

void write_sizes(Lines& out, const Model& m) {
  const Model assumed;
  out.data(0, "hidden", fmt::format("{}", m.hidden));
  out.data(0, "vocab", fmt::format("{}", m.vocab));
  flag(out, 0, "tied", m.tied, assumed.tied);
  count(out, 0, "positions", m.positions, assumed.positions);
  if (m.norm != assumed.norm) out.data(0, "norm", detail::name_in(kNormNames, m.norm));
  flag(out, 0, "norm_bias", m.norm_bias, assumed.norm_bias);
  flag(out, 0, "norm_weights", m.norm_weights, assumed.norm_weights);
  flag(out, 0, "embedding_norm", m.embedding_norm, assumed.embedding_norm);
  flag(out, 0, "head_bias", m.head_bias, assumed.head_bias);
  for (const Layer& kind : m.kinds)
    if (kind.mixer != Mixer::None && kind.ffn != Ffn::None) {
      count(out, 0, "norms", kind.norms, 2);
      break;
    }
  count(out, 0, "dropout", m.dropout, assumed.dropout);
  count(out, 0, "extra_parameters", m.extra_parameters, assumed.extra_parameters);
  tokens(out, 0, "seq", m.default_seq, assumed.default_seq);
  if (m.default_global_batch != assumed.default_global_batch)
    out.data(0, "global_batch", fmt::format("{} sequences", m.default_global_batch));
}

void write_variants(Lines& out, const std::vector<ModelPart>& parts) {
  bool any = false;
  for (const ModelPart& part : parts) {
    if (part.name == part.of) continue;
    if (!any) out.plain("variants:");
    any = true;
    out.plain(fmt::format("  {}:", part.name));
    out.plain(fmt::format("    of: {}", part.of));
    const auto base = std::find_if(parts.begin(), parts.end(), [&](const ModelPart& p) { return p.name == part.of; });
    write_part(out, 4, part, base->layer, false);
  }
}

}  // namespace

std::string write_model(const Model& model, std::string_view source) {
  std::vector<ModelPart> parts;
  const auto spell = [&](const std::vector<int>& layers) {
    std::vector<std::string> words;
    words.reserve(layers.size());
    for (const int kind : layers) words.push_back(spelling(parts, model.kinds[static_cast<std::size_t>(kind)]));
    return words;
  };
  const std::vector<std::string> layers = spell(model.layers), module = spell(model.mtp.kinds);
  Lines out(source);
  out.plain("preset: model/1");
  out.plain(fmt::format("name: {}", model.name));
  write_sizes(out, model);
  for (const ModelPart& part : parts) {
    if (part.name != part.of) continue;
    out.plain(part.name + ":");
    write_part(out, 2, part, Layer{}, true);
  }
  write_variants(out, parts);
  out.data(0, "layers", format_layers(layers));
  if (model.mtp.depth > 0) {
    out.plain("mtp:");
    out.data(2, "depth", fmt::format("{}", model.mtp.depth));
    if (model.mtp.passes > 1) out.data(2, "passes", fmt::format("{}", model.mtp.passes));
    out.data(2, "layers", format_layers(module));
    flag(out, 2, "own_embedding", model.mtp.own_embedding, false);
  }
  return out.text();
}

}  // namespace plan
