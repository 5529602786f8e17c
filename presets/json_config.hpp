#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "formulas/model.hpp"
#include "formulas/result.hpp"

namespace plan {

/// The values of one config.json with their mistakes and places. null counts as
/// absent, as in transformers.
class JsonConfig {
 public:
  JsonConfig(const nlohmann::json& object, std::string_view text, std::string file)
      : object_(&object), text_(text), file_(std::move(file)) {}

  using Keys = std::initializer_list<std::string_view>;

  bool has(std::string_view key) const { return find(key) != nullptr; }
  /// Stated as null, which is not what an absent key stands for.
  bool is_null(std::string_view key) const { return object_->contains(key) && !has(key); }
  bool is_list(std::string_view key) const { return has(key) && find(key)->is_array(); }
  bool is_text(std::string_view key) const { return has(key) && find(key)->is_string(); }
  /// First of `keys` that is present; a mistake if none is.
  std::int64_t size(Keys keys, double least = 1, double most = 1e8);
  std::int64_t size_or(Keys keys, std::int64_t assumed, double least = 0, double most = 1e9);
  double number_or(std::string_view key, double assumed);
  /// A number from 0 to 1; 0 if the key is absent.
  double share(std::string_view key);
  bool flag_or(std::string_view key, bool assumed);
  std::string text_or(std::string_view key, std::string assumed);
  std::vector<std::string> words(std::string_view key);
  /// A word of `known` for each layer; empty if the key is absent.
  std::vector<std::string> layers(std::string_view key, std::int64_t depth, Keys known);
  std::vector<std::int64_t> sizes(std::string_view key);
  /// A whole number for each layer; empty if the key is absent.
  std::vector<std::int64_t> sizes_of_layers(std::string_view key, std::int64_t depth);
  /// Layers by their index, from 0; a mistake if some of them are none.
  std::vector<std::int64_t> layer_indexes(std::string_view key, std::int64_t depth);
  /// A nested object; an empty one if absent. Of one that is no object, or absent where it is `required`, that is the
  /// one mistake that is told, and not what it lacks.
  JsonConfig object(std::string_view key, bool required = false);
  /// Takes over an object made from this one, whose readers have asked all that they ask, with its mistakes.
  void take(const JsonConfig& nested);
  /// What was taken over.
  const std::vector<JsonConfig>& nested() const { return nested_; }

  /// Whether a reader has asked for the key by now.
  bool asked(std::string_view key) const { return asked_.find(key) != asked_.end(); }

  /// All that is there, not asking for any of it.
  const nlohmann::json& values() const { return *object_; }
  /// The value as it stands; null if there is none. Not asking for it.
  const nlohmann::json* raw(std::string_view key) const;
  /// Keys that are there and nobody asked for, and those that somebody asked for and are not there.
  std::vector<std::string> unasked() const;
  std::vector<std::string> absent() const;
  std::vector<std::string> answered() const;  ///< those that somebody asked for and are there
  void error(std::string_view key, std::string code, std::string message, std::vector<std::string> help = {});
  Place place(std::string_view key) const;
  const Errors& errors() const { return errors_; }

 private:
  const nlohmann::json* find(std::string_view key) const;
  /// A mistake if a list of one item a layer has another length.
  void judge_length(std::string_view key, std::size_t named, std::int64_t depth);
  /// The elements of a list of which `is` holds; a mistake, which calls them `what`, if it has others.
  template <class T>
  std::vector<T> list(std::string_view key, bool (*is)(const nlohmann::json&), std::string_view what);

  const nlohmann::json* object_;
  std::string_view text_;  ///< from the object's own position on
  std::string file_;
  int line_ = 1;                                        ///< of text_'s begin
  bool mute_ = false;                                   ///< that it cannot be read was told
  mutable std::set<std::string, std::less<>> asked_{};  ///< keys that were looked for
  Errors errors_{};
  std::vector<JsonConfig> nested_{};
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

/// Dense families that descend from Llama, the other dense ones, those of
/// experts alone, and those with latent attention, linear attention or Mamba.
[[nodiscard]] const std::vector<ModelFamily>& llama_families();
[[nodiscard]] const std::vector<ModelFamily>& dense_families();
[[nodiscard]] const std::vector<ModelFamily>& expert_families();
[[nodiscard]] const std::vector<ModelFamily>& mixed_families();

/// The same layer with a plain feed-forward, or with a mixture.
[[nodiscard]] Layer dense_of(Layer layer, std::int64_t width);
[[nodiscard]] Layer moe_of(Layer layer, const MoeShape& moe);
/// Experts, how many a token goes to, and the width that the first present of
/// `width` states.
[[nodiscard]] MoeShape read_experts(JsonConfig& config, JsonConfig::Keys width);
/// DeepSeek's: shared experts are counted in widths of a routed one.
[[nodiscard]] MoeShape read_deepseek_experts(JsonConfig& config);
/// Whether layer `i` of DeepSeek's order, or of `mlp_layer_types`, is a
/// mixture. `dense`: how many layers in front are not, where the config does
/// not say.
[[nodiscard]] bool is_mixture(JsonConfig& config, std::int64_t i, std::int64_t dense = 0);
/// `num_nextn_predict_layers` prediction modules of that layer.
void add_mtp(JsonConfig& config, ModelBuilder& out, const Layer& layer, bool own_embedding);

/// A mistake for every key that shapes layers in some family, is there, and was
/// not asked for: what this family does with it nobody knows.
void judge_shapes(JsonConfig& config);
/// A mistake for every key that nobody asked for and that is a slip of the finger away from one that was looked for in
/// vain: an absent key has a default, which would replace it without a word. In nested objects likewise.
void judge_spelling(JsonConfig& config);

/// The probabilities of dropout, by the names that all families have for them.
void read_dropout(JsonConfig& config, Model& model);
/// hidden, vocabulary, tying; the attention heads. Shared by the families.
void read_common(JsonConfig& config, Model& model, bool tied);
/// `head_dim`: what an absent one stands for; 0 = hidden / heads.
[[nodiscard]] AttentionShape read_heads(JsonConfig& config, std::int64_t hidden, std::int64_t head_dim = 0);
/// Both of these, as the first layer that a family adds: without biases, with a plain feed-forward of no width yet.
[[nodiscard]] Layer begin_layer(JsonConfig& config, Model& model, bool tied, std::int64_t head_dim = 0);
/// `attention_bias`, of all four projections. `assumed`: what an absent one stands for.
void read_attention_bias(JsonConfig& config, Layer& layer, bool assumed = false);
[[nodiscard]] std::int64_t read_depth(JsonConfig& config);
/// Per layer whether `layer_types` (or else `every`, counted from 1: full at
/// multiples) makes it sliding.
[[nodiscard]] std::vector<bool> sliding_layers(JsonConfig& config, std::int64_t depth, std::int64_t every);

}  // namespace plan
