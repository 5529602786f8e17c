// A measured profile (`schema: plan.hardware/1`). Tested by tests/presets/hardware_profile_test.cpp.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "presets/hardware.hpp"
#include "presets/hardware_fields.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

using yaml::kNotNegative;
using yaml::kOptional;

/// Reads the fields that hardware_fields.hpp lists.
class FieldReader {
 public:
  explicit FieldReader(yaml::Map map) : map_(std::move(map)) {}

  /// In GiB, GB/s, TFLOP/s, microseconds: nothing real is larger, and bytes stay countable.
  void number(const char* key, double& out, double least = 0, double most = 1e9) {
    map_.number(key, out, {least == 0 && is_rate(key) ? kLeastRate : least, most}, kOptional);
  }
  void integer(const char* key, int& out, int least = 0) {
    map_.integer(key, out, {static_cast<double>(least), 1e9}, kOptional);
  }
  void index(const char* key, int& out) { integer(key, out); }
  void text(const char* key, std::string& out) { map_.text(key, out, kOptional); }
  void flag(const char* key, bool& out) { map_.boolean(key, out, kOptional); }
  template <class E, std::size_t N>
  void word(const char* key, E& out, const Named<E> (&table)[N]) {
    map_.word(key, out, table, kOptional);
  }
  void measured(const std::string& key, Measured& out) {
    number(key.c_str(), out.value);
    number(spread_key(key).c_str(), out.spread);
  }
  void words(const char* key, std::vector<std::string>& out) {
    for (const yaml::Node* node : map_.list(key, kOptional)) out.push_back(node->text);
  }
  template <class Fill>
  void section(const char* key, Fill fill) {
    if (!map_.has(key)) return known(key);
    FieldReader inner(map_.map(key));
    fill(inner);
    inner.map_.finish();
  }
  template <class T>
  void group(const char* key, T& out) {
    section(key, [&](FieldReader& inner) { hardware::fields(inner, out); });
  }
  template <class T>
  void list(const char* key, std::vector<T>& out) {
    std::size_t i = 0;
    for (const yaml::Node* node : map_.list(key, kOptional)) {
      FieldReader inner(map_.reader().map(*node, fmt::format("{}[{}]", map_.path_of(key), i++)));
      hardware::fields(inner, out.emplace_back());
      inner.map_.finish();
    }
  }
  /// Rows of numbers; the last column, the spread, may be left out.
  template <class T>
  void rows(const char* key, std::vector<T>& out) {
    for (const yaml::Node* node : map_.list(key, kOptional)) {
      const auto targets = hardware::columns(out.emplace_back());
      if (node->kind != yaml::Kind::Sequence || node->items.size() + 1 < targets.size() ||
          node->items.size() > targets.size()) {
        map_.reader().error(
            *node, "bad_value",
            fmt::format("a row of `{}` has {} or {} numbers", map_.path_of(key), targets.size() - 1, targets.size()));
        continue;
      }
      for (std::size_t i = 0; i < node->items.size(); ++i) {
        const bool counts = i + 2 < targets.size();  // shapes and bytes, before the time and its spread
        map_.reader().number(node->items[i], map_.path_of(key), *targets[i],
                             i + 1 < targets.size() ? yaml::kPositive : kNotNegative);
        if (counts && *targets[i] != std::floor(*targets[i]))
          map_.reader().error(node->items[i], "bad_value",
                              fmt::format("`{}` of a row of `{}` is not a whole number",
                                          yaml::printable(node->items[i].text), map_.path_of(key)));
      }
    }
  }
  void sources(const char* key, std::vector<ProfileSource>& out) {
    section(key, [&](FieldReader& inner) {
      for (const auto& [name, value] : inner.map_.entries()) {
        FieldReader row(map_.reader().map(*value, fmt::format("{}.{}", key, name->text)));
        out.emplace_back().id = name->text;
        hardware::fields(row, out.back());
        row.map_.finish();
      }
    });
  }
  void finish() { map_.finish(); }

 private:
  /// Nothing that was measured moves less; what was not measured is left out, and is no rate of 0.
  static constexpr double kLeastRate = 1e-6;
  static bool is_rate(std::string_view key) {
    return key.find("gb_s") != std::string_view::npos || key.ends_with("tflops") || key.ends_with("tb_s");
  }
  static std::string spread_key(const std::string& key) {
    const std::size_t unit = key.find("_gb_s");
    return key.substr(0, unit) + "_spread";
  }
  void known(const char* key) { static_cast<void>(map_.get(key, kOptional)); }
  yaml::Map map_;
};

void check_layouts(yaml::Map& root, const HardwareProfile& profile) {
  for (std::size_t i = 0; i < profile.collectives.size(); ++i) {
    const GroupShape& g = profile.collectives[i].layout;
    if (g.n >= 2 && g.nodes >= 1 && g.ranks_per_node >= 1 && g.n == g.ranks_per_node * g.nodes) continue;
    root.reader().error(root.node(), "bad_value",
                        fmt::format("`collectives[{}].layout` has n {} with {} ranks in each of {} nodes", i, g.n,
                                    g.ranks_per_node, g.nodes));
  }
  for (std::size_t i = 0; i < profile.pairs.size(); ++i)
    if (profile.pairs[i].from == profile.pairs[i].to)
      root.reader().error(root.node(), "bad_value", fmt::format("`pairs[{}]` is of one GPU with itself", i));
  for (const ProfileTier& tier : profile.tiers)
    if (tier.oversubscription < 1)
      root.reader().error(root.node(), "bad_value",
                          fmt::format("`oversubscription` of tier `{}` is less than 1", yaml::printable(tier.id)));
}

/// Every `prov` of a file, however deep, names a source that `provenance` lists.
void check_sources(const yaml::Node& node, const std::string& path, const HardwareProfile& profile,
                   yaml::Reader& reader) {
  const bool map = node.kind == yaml::Kind::Map;
  for (std::size_t i = map ? 1 : 0; i < node.items.size(); i += map ? 2 : 1) {
    const yaml::Node& item = node.items[i];
    const std::string where = !map           ? fmt::format("{}[{}]", path, i)
                              : path.empty() ? node.items[i - 1].text
                                             : path + "." + node.items[i - 1].text;
    check_sources(item, where, profile, reader);
    if (!map || node.items[i - 1].text != "prov" || item.text.empty()) continue;
    if (item.text == "user" || item.text == "datasheet") continue;
    const auto same = [&](const ProfileSource& source) { return source.id == item.text; };
    if (std::none_of(profile.provenance.begin(), profile.provenance.end(), same))
      reader.error(item, "unknown_provenance",
                   fmt::format("`{}` names `{}`, which `provenance` does not list", where, yaml::printable(item.text)));
  }
}

}  // namespace

bool is_hardware_profile(std::string_view text) {
  return text.starts_with("schema: plan.hardware/") || text.find("\nschema: plan.hardware/") != std::string_view::npos;
}

Result<HardwareProfile> read_hardware(std::string text, std::string file) {
  return yaml::read_document<HardwareProfile>(
      std::move(text), std::move(file), [&](yaml::Map& root, HardwareProfile& profile) {
        yaml::Reader& reader = root.reader();
        std::string schema;
        if (root.text("schema", schema) && schema != "plan.hardware/1")
          reader.error(root.node(), "unknown_schema",
                       fmt::format("`{}` is not a schema that this version reads", yaml::printable(schema)),
                       {"it reads `schema: plan.hardware/1`"});
        FieldReader visitor(root);
        visitor.text("schema", schema);
        hardware::fields(visitor, profile);
        visitor.finish();
        if (!reader.failed()) check_layouts(root, profile);
        check_sources(root.node(), {}, profile, reader);
        if (profile.gpu.model.empty() && profile.gpu.preset.empty())
          reader.error(root.node(), "missing_key", "`gpu.model` is missing",
                       {"write the driver's name of the GPU, or `gpu: {preset: h100-sxm}`"});
      });
}

}  // namespace plan
