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

/// Writes one key if it differs from `base`; required ones too if `all`.
struct FieldWriter {
  Lines& out;
  int indent;
  const ShapeField& field;
  Layer& layer;
  Layer& base;
  bool all;

  void operator()(std::int64_t& (*of)(Layer&)) const {
    if (field.tokens) return tokens(out, indent, field.key, of(layer), of(base));
    count(out, indent, field.key, of(layer), of(base), all && field.need != ShapeField::Need::Optional);
  }
  void operator()(bool& (*of)(Layer&)) const { flag(out, indent, field.key, of(layer), of(base)); }
  void operator()(QkNorm& (*of)(Layer&)) const {
    if (of(layer) != of(base)) out.data(indent, field.key, detail::name_in(kQkNormNames, of(layer)));
  }
};

/// The keys of `part` that differ from `base`; all required ones of a section of its own.
void write_part(Lines& out, int indent, ModelPart part, Layer base, bool all) {
  for (const ShapeField& field : part.of->fields)
    std::visit(FieldWriter{out, indent, field, part.layer, base, all}, field.of);
}

/// The part of `parts` with block `of` and the shape in `layer`, added under a new name if there is none.
std::string part_name(std::vector<ModelPart>& parts, const LayerPartRow& of, const Layer& layer) {
  if (of.name.empty()) return {};
  Layer wanted;
  of.put(wanted, layer);
  ModelPart part{std::string(of.name), &of, wanted, false};
  int same_block = 0;
  for (const ModelPart& known : parts) {
    if (known.of != &of) continue;
    ++same_block;
    if (known.layer == wanted) return known.name;
  }
  if (same_block > 0) part.name = fmt::format("{}-{}", of.name, same_block + 1);
  parts.push_back(part);
  return part.name;
}

std::string spelling(std::vector<ModelPart>& parts, const Layer& layer) {
  const std::string mixer = part_name(parts, mixer_row(layer.mixer).part, layer);
  const std::string ffn = part_name(parts, ffn_row(layer.ffn).part, layer);
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
    if (part.name == part.of->name) continue;
    if (!any) out.plain("variants:");
    any = true;
    out.plain(fmt::format("  {}:", part.name));
    out.plain(fmt::format("    of: {}", part.of->name));
    const auto base =
        std::find_if(parts.begin(), parts.end(), [&](const ModelPart& p) { return p.name == part.of->name; });
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
    if (part.name != part.of->name) continue;
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
