// A `preset: model/1` file: sizes, the building blocks as sections, and `layers`, which says front to back what each
// layer is made of. Tested by tests/presets/model_test.cpp and, against published totals, totals_test.cpp.
#include <fmt/format.h>

#include <algorithm>

#include "formulas/absurdity.hpp"
#include "formulas/layer_kinds.hpp"
#include "presets/header.hpp"
#include "presets/model_parts.hpp"
#include "presets/reader.hpp"
#include "presets/suggest.hpp"

namespace plan {
namespace {

using yaml::kOptional;

ModelPart* find_part(std::vector<ModelPart>& parts, std::string_view name) {
  for (ModelPart& part : parts)
    if (part.name == name) return &part;
  return nullptr;
}

/// Sections named after their block, then `variants` of them.
std::vector<ModelPart> read_parts(yaml::Map& root) {
  std::vector<ModelPart> parts;
  for (const LayerPartRow* of : layer_parts()) {
    if (!root.has(of->name)) {
      root.get(of->name, kOptional);
      continue;
    }
    yaml::Map map = root.map(of->name);
    ModelPart part{std::string(of->name), of, {}, false};
    read_part(map, part, true);
    map.finish();
    parts.push_back(std::move(part));
  }
  yaml::Map variants = root.map("variants", kOptional);
  for (const auto& [key, value] : variants.entries()) {
    yaml::Map map = root.reader().map(*value, fmt::format("variants.{}", yaml::printable(key->text)));
    std::string of;
    if (!map.text("of", of)) continue;
    ModelPart* base = find_part(parts, of);
    if (base == nullptr || base->name != base->of->name || find_part(parts, key->text) != nullptr) {
      root.reader().error(base == nullptr ? *map.get("of") : *key, "bad_value",
                          base == nullptr ? fmt::format("no section `{}` above", yaml::printable(of))
                                          : fmt::format("`{}` names a section already", yaml::printable(key->text)));
      continue;
    }
    base->used = true;
    ModelPart part{key->text, base->of, base->layer, false};
    read_part(map, part, false);
    map.finish();
    parts.push_back(std::move(part));
  }
  return parts;
}

/// Index of the kind that `spelling` ("latent+moe") means, added to the model if new; -1 with an error.
int kind_of(const std::string& spelling, std::vector<ModelPart>& parts, int norms, const yaml::Node& at,
            yaml::Reader& reader, Model& model) {
  Layer layer;
  layer.mixer = Mixer::None;
  layer.ffn = Ffn::None;
  const std::size_t plus = spelling.find('+');
  std::vector<std::string> names{spelling.substr(0, plus)};
  if (plus != std::string::npos) names.push_back(spelling.substr(plus + 1));
  for (const std::string& name : names) {
    ModelPart* part = find_part(parts, name);
    if (part == nullptr) {
      std::vector<std::string> known;
      known.reserve(parts.size());
      for (const ModelPart& p : parts) known.push_back(p.name);
      const std::string near = nearest_name(name, known);
      reader.error(at, "unknown_part", fmt::format("no section `{}` in this file", yaml::printable(name)),
                   {near.empty() ? fmt::format("sections here: {}", fmt::join(known, ", "))
                                 : fmt::format("a section with a similar name exists: `{}`", near)});
      return -1;
    }
    part->used = true;
    part->of->put(layer, part->layer);
  }
  const bool whole = layer.mixer != Mixer::None && layer.ffn != Ffn::None;
  if (names.size() == 2 && !whole) {
    reader.error(at, "bad_value", fmt::format("`{}` is not a mixer and an FFN", yaml::printable(spelling)));
    return -1;
  }
  layer.norms = whole ? norms : 1;
  return kind_of(model, layer);
}

std::vector<int> read_layers(yaml::Map& map, std::vector<ModelPart>& parts, int norms, Model& model) {
  std::string text;
  if (!map.text("layers", text)) return {};
  const yaml::Node& at = *map.get("layers");
  const LayerList list = parse_layers(text);
  std::vector<int> layers;
  if (!list.problem.empty()) {
    map.reader().error(at, "bad_value", fmt::format("`{}`: {}", map.path_of("layers"), yaml::printable(list.problem)),
                       {"write `3 x latent+dense, 58 x latent+moe`"});
    return {};
  }
  std::vector<std::pair<std::string, int>> seen;
  for (const std::string& spelling : list.layers) {
    auto known = std::find_if(seen.begin(), seen.end(), [&](const auto& s) { return s.first == spelling; });
    if (known == seen.end())
      known = seen.insert(seen.end(), {spelling, kind_of(spelling, parts, norms, at, map.reader(), model)});
    layers.push_back(known->second);
  }
  return layers;
}

/// The node of the key `name` of a map, or the map where it has none.
const yaml::Node& key_of(const yaml::Node& map, std::string_view name) {
  for (std::size_t i = 0; map.kind == yaml::Kind::Map && i + 1 < map.items.size(); i += 2)
    if (map.items[i].text == name) return map.items[i];
  return map;
}

/// Where a part is written: as a section of its own, or under `variants`.
const yaml::Node& section_of(const yaml::Node& root, const ModelPart& part) {
  const yaml::Node& own = key_of(root, part.name);
  if (&own != &root) return own;
  for (std::size_t i = 0; i + 1 < root.items.size(); i += 2)
    if (root.items[i].text == "variants") return key_of(root.items[i + 1], part.name);
  return root;
}

/// The value of the key `name` in the map or a section of it which a problem of the whole model names: `7` of "32 query
/// heads cannot share 7 KV heads evenly". Null if it is a default that nobody wrote.
const yaml::Node* named_value(const yaml::Node& map, std::string_view name, std::string_view problem) {
  for (std::size_t i = 0; map.kind == yaml::Kind::Map && i + 1 < map.items.size(); i += 2) {
    const yaml::Node& value = map.items[i + 1];
    if (map.items[i].text == name && value.kind == yaml::Kind::Scalar &&
        fmt::format(" {} ", problem).find(fmt::format(" {} ", value.text)) != std::string::npos)
      return &value;
    if (const yaml::Node* inside = named_value(value, name, problem)) return inside;
  }
  return nullptr;
}

/// Where a problem of the whole model is written: at the key of what it is about, where its value is the one that the
/// problem names, else at what `layers` says.
const yaml::Node& place_of_problem(const yaml::Node& root, std::string_view problem) {
  struct Named {
    std::string_view part;  ///< as the problem calls it; the most telling first
    const char* key;
  };
  constexpr Named kNamed[] = {
      {"KV heads", "kv_heads"}, {"experts", "top_k"}, {"experts", "experts"}, {"heads", "heads"}, {"hidden", "hidden"}};
  for (const Named& named : kNamed)
    if (problem.find(named.part) != std::string_view::npos)
      if (const yaml::Node* value = named_value(root, named.key, problem)) return *value;
  return key_of(root, "layers");
}

void read_mtp(yaml::Map& root, std::vector<ModelPart>& parts, int norms, Model& model) {
  yaml::Map mtp = root.map("mtp", kOptional);
  mtp.integer("depth", model.mtp.depth, {1, 64});
  mtp.integer("passes", model.mtp.passes, {1, 64}, kOptional);
  mtp.boolean("own_embedding", model.mtp.own_embedding, kOptional);
  if (root.has("mtp")) model.mtp.kinds = read_layers(mtp, parts, norms, model);
  mtp.finish();
}

void read_sizes(yaml::Map& root, Model& model) {
  root.integer("hidden", model.hidden, {1, 1e6});
  root.integer("vocab", model.vocab, {1, 1e8});
  root.boolean("tied", model.tied, kOptional);
  root.integer("positions", model.positions, {0, 1e8}, kOptional);
  root.word("norm", model.norm, kNormNames, kOptional);
  root.boolean("norm_bias", model.norm_bias, kOptional);
  root.boolean("norm_weights", model.norm_weights, kOptional);
  root.boolean("embedding_norm", model.embedding_norm, kOptional);
  root.boolean("head_bias", model.head_bias, kOptional);
  root.number("dropout", model.dropout, yaml::kShare, kOptional);
  root.integer("extra_parameters", model.extra_parameters, {0, 1e15}, kOptional);
  double seq = 0, batch = 0;
  if (root.quantity("seq", seq, Dimension::Tokens, {1, 1e9}, kOptional))
    model.default_seq = static_cast<std::int64_t>(seq);
  if (root.quantity("global_batch", batch, Dimension::Sequences, {1, 1e9}, kOptional))
    model.default_global_batch = static_cast<std::int64_t>(batch);
}

}  // namespace

Result<Model> read_model(std::string text, std::string file) {
  return yaml::read_document<Model>(std::move(text), std::move(file), [&](yaml::Map& root, Model& model) {
    yaml::Reader& reader = root.reader();
    read_header(root, "model/1", model.name);
    read_sizes(root, model);
    int norms = 2;
    root.integer("norms", norms, {0, 8}, kOptional);
    std::vector<ModelPart> parts = read_parts(root);
    model.layers = read_layers(root, parts, norms, model);
    read_mtp(root, parts, norms, model);
    for (const ModelPart& part : parts)
      if (!part.used && !reader.failed())
        reader.error(section_of(root.node(), part), "unused_part",
                     fmt::format("no layer uses the section `{}`", part.name),
                     {"leave it out, or name it in `layers`"});
    root.finish();
    if (!reader.failed())
      if (const std::string problem = absurdity(model); !problem.empty())
        reader.error(place_of_problem(root.node(), problem), "absurd_model", problem);
  });
}

}  // namespace plan
