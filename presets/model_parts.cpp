// The sections of a model file, one for each building block of plan-formulas(7) A1: the keys are in the blocks' rows
// (formulas/layer_rows.hpp).
#include "presets/model_parts.hpp"

namespace plan {
namespace {

using yaml::kOptional;
using yaml::Need;

/// Reads one key over the value in `layer`; `before` is the number that was read last.
struct FieldReader {
  yaml::Map& map;
  const ShapeField& field;
  Layer& layer;
  bool all;
  std::int64_t& before;

  void operator()(std::int64_t& (*of)(Layer&)) const {
    std::int64_t& value = of(layer);
    const yaml::Range range{field.least, field.most};
    if (field.tokens) {
      double tokens = 0;
      if (map.quantity(field.key, tokens, Dimension::Tokens, range, kOptional))
        value = static_cast<std::int64_t>(tokens);
      return;
    }
    const bool required = all && field.need == ShapeField::Need::Required;
    const bool read = map.integer(field.key, value, range, required ? Need::Required : kOptional);
    if (!read && all && field.need == ShapeField::Need::AsBefore) value = before;
    before = value;
  }
  void operator()(bool& (*of)(Layer&)) const { map.boolean(field.key, of(layer), kOptional); }
  void operator()(QkNorm& (*of)(Layer&)) const { map.word(field.key, of(layer), kQkNormNames, kOptional); }
};

}  // namespace

std::vector<const LayerPartRow*> layer_parts() {
  std::vector<const LayerPartRow*> parts;
  for (const MixerRow* row : kMixerRows)
    if (!row->part.name.empty()) parts.push_back(&row->part);
  for (const FfnRow* row : kFfnRows)
    if (!row->part.name.empty()) parts.push_back(&row->part);
  return parts;
}

void read_part(yaml::Map& map, ModelPart& part, bool all) {
  std::int64_t before = 0;
  for (const ShapeField& field : part.of->fields)
    std::visit(FieldReader{map, field, part.layer, all, before}, field.of);
}

}  // namespace plan
