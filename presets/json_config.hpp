#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "formulas/model.hpp"
#include "formulas/result.hpp"

namespace plan {

/// The values of one config.json with their mistakes and places. null counts as absent, as in transformers.
class JsonConfig {
 public:
  JsonConfig(const nlohmann::json& object, std::string_view text, std::string file)
      : object_(&object), text_(text), file_(std::move(file)) {}

  using Keys = std::initializer_list<std::string_view>;

  bool has(std::string_view key) const { return find(key) != nullptr; }
  /// First of `keys` that is present; a mistake if none is.
  std::int64_t size(Keys keys, double least = 1, double most = 1e8);
  std::int64_t size_or(Keys keys, std::int64_t assumed, double least = 0, double most = 1e9);
  double number_or(std::string_view key, double assumed);
  bool flag_or(std::string_view key, bool assumed);
  std::string text_or(std::string_view key, std::string assumed);
  std::vector<std::string> words(std::string_view key);
  std::vector<std::int64_t> sizes(std::string_view key);
  /// A nested object; an empty one if absent.
  JsonConfig object(std::string_view key);
  /// Takes over the mistakes of an object made from this one.
  void take(const JsonConfig& nested);

  void error(std::string_view key, std::string code, std::string message, std::vector<std::string> help = {});
  Place place(std::string_view key) const;
  const Errors& errors() const { return errors_; }

 private:
  const nlohmann::json* find(std::string_view key) const;

  const nlohmann::json* object_;
  std::string_view text_;  ///< from the object's own position on
  std::string file_;
  int line_ = 1;  ///< of text_'s begin
  Errors errors_{};
};

/// What a builder adds to: layers by value, kinds made of equal ones.
struct ModelBuilder {
  Model model{};
  void add(const Layer& layer) { model.layers.push_back(kind(layer)); }
  int kind(const Layer& layer);
};

/// Fills a model from the config of one family.
using FamilyBuilder = void (*)(JsonConfig& config, ModelBuilder& out);
struct ModelFamily {
  std::string_view model_type;
  FamilyBuilder build;
};

/// Families whose layers are all equal but for windows and widths; those with experts, latent attention or Mamba.
[[nodiscard]] const std::vector<ModelFamily>& dense_families();
[[nodiscard]] const std::vector<ModelFamily>& mixed_families();

/// hidden, vocabulary, tying; the attention heads. Shared by the families.
void read_common(JsonConfig& config, Model& model, bool tied);
[[nodiscard]] AttentionShape read_heads(JsonConfig& config, std::int64_t hidden);
[[nodiscard]] std::int64_t read_depth(JsonConfig& config);
/// Per layer whether `layer_types` (or else `every`, counted from 1: full at multiples) makes it sliding.
[[nodiscard]] std::vector<bool> sliding_layers(JsonConfig& config, std::int64_t depth, std::int64_t every);

}  // namespace plan
