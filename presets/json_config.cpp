// Values of a Hugging Face config.json, read so that every mistake has a place.
// nlohmann-json keeps no places, so they are found again by the key. Tested by
// tests/presets/config_json_test.cpp.
#include "presets/json_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "formulas/layer_kinds.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

const nlohmann::json& empty_object() {
  static const nlohmann::json kEmpty = nlohmann::json::object();
  return kEmpty;
}

/// Offset of `"key"` followed by a colon; npos if there is none.
std::size_t find_key(std::string_view text, std::string_view key) {
  const std::string quoted = fmt::format("\"{}\"", key);
  for (std::size_t at = text.find(quoted); at != std::string_view::npos; at = text.find(quoted, at + 1)) {
    const std::size_t next = text.find_first_not_of(" \t\r\n", at + quoted.size());
    if (next != std::string_view::npos && text[next] == ':') return at;
  }
  return std::string_view::npos;
}

std::string join(JsonConfig::Keys keys) { return fmt::format("{}", fmt::join(keys, "` or `")); }

}  // namespace

const nlohmann::json* JsonConfig::find(std::string_view key) const {
  asked_.emplace(key);
  return raw(key);
}

const nlohmann::json* JsonConfig::raw(std::string_view key) const {
  const auto found = object_->find(key);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

std::vector<std::string> JsonConfig::unasked() const {
  std::vector<std::string> out;
  for (const auto& [key, value] : object_->items())
    if (!value.is_null() && !asked(key)) out.push_back(key);
  return out;
}

std::vector<std::string> JsonConfig::absent() const {
  std::vector<std::string> out;
  for (const std::string& key : asked_)
    if (!object_->contains(key)) out.push_back(key);
  return out;
}

std::vector<std::string> JsonConfig::answered() const {
  std::vector<std::string> out;
  for (const std::string& key : asked_)
    if (raw(key) != nullptr) out.push_back(key);
  return out;
}

std::int64_t JsonConfig::size(Keys keys, double least, double most) {
  for (const std::string_view key : keys) {
    if (has(key)) return size_or(keys, 0, least, most);
  }
  error("", "missing_key", fmt::format("`{}` is missing", join(keys)));
  return 1;
}

std::int64_t JsonConfig::size_or(Keys keys, std::int64_t assumed, double least, double most) {
  for (const std::string_view key : keys) {
    const nlohmann::json* value = find(key);
    if (value == nullptr) continue;
    if (!value->is_number() || value->get<double>() != std::floor(value->get<double>())) {
      error(key, "bad_value", fmt::format("`{}` is not a whole number", key));
      return std::max<std::int64_t>(1, assumed);
    }
    const double number = value->get<double>();
    if (!(number >= least && number <= most)) {
      error(key, "out_of_range", fmt::format("`{}` is out of range: {:g} to {:g} make sense", key, least, most));
      return std::max<std::int64_t>(1, assumed);
    }
    for (const std::string_view other : keys)  // two names of one number must agree
      if (has(other) && *find(other) != *value)
        error(other, "conflict", fmt::format("`{}` and `{}` are two names of one number, and differ", key, other));
    return static_cast<std::int64_t>(number);
  }
  return assumed;
}

double JsonConfig::number_or(std::string_view key, double assumed) {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return assumed;
  if (value->is_number()) return value->get<double>();
  error(key, "bad_value", fmt::format("`{}` is not a number", key));
  return assumed;
}

double JsonConfig::share(std::string_view key) {
  const double value = number_or(key, 0);
  if (value >= 0 && value <= 1) return value;
  error(key, "out_of_range", fmt::format("`{}` is out of range: 0 to 1 make sense", key));
  return 0;
}

bool JsonConfig::flag_or(std::string_view key, bool assumed) {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return assumed;
  if (value->is_boolean()) return value->get<bool>();
  error(key, "bad_value", fmt::format("`{}` is neither true nor false", key));
  return assumed;
}

std::string JsonConfig::text_or(std::string_view key, std::string assumed) {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return assumed;
  if (value->is_string()) return value->get<std::string>();
  error(key, "bad_value", fmt::format("`{}` is not a text", key));
  return assumed;
}

template <class T>
std::vector<T> JsonConfig::list(std::string_view key, bool (*is)(const nlohmann::json&), std::string_view what) {
  std::vector<T> out;
  const nlohmann::json* value = find(key);
  if (value == nullptr) return out;
  bool right = value->is_array();
  for (const nlohmann::json& item : *value) {
    right = right && is(item);
    if (right) out.push_back(item.get<T>());
  }
  if (!right) error(key, "bad_value", fmt::format("`{}` is not a list of {}", key, what));
  return out;
}

std::vector<std::string> JsonConfig::words(std::string_view key) {
  return list<std::string>(
      key, [](const nlohmann::json& item) { return item.is_string(); }, "words");
}

std::vector<std::int64_t> JsonConfig::sizes(std::string_view key) {
  return list<std::int64_t>(
      key, [](const nlohmann::json& item) { return item.is_number_integer(); }, "whole numbers");
}

void JsonConfig::judge_length(std::string_view key, std::size_t named, std::int64_t depth) {
  const auto items = static_cast<std::int64_t>(named);
  if (items == 0 || items == depth || !errors_.empty()) return;  // after other mistakes the depth may be wrong
  error(key, "bad_value", fmt::format("`{}` names {} layers of {}", key, named, depth),
        {items > depth ? fmt::format("cut the list to its first {}", depth)
                       : fmt::format("write an item for each of the {} layers, or leave `{}` out", depth, key)});
}

std::vector<std::int64_t> JsonConfig::sizes_of_layers(std::string_view key, std::int64_t depth) {
  std::vector<std::int64_t> out = sizes(key);
  judge_length(key, out.size(), depth);
  return out;
}

std::vector<std::int64_t> JsonConfig::layer_indexes(std::string_view key, std::int64_t depth) {
  std::vector<std::int64_t> out = sizes(key);
  const auto outside = [depth](std::int64_t i) { return i < 0 || i >= depth; };
  std::vector<std::int64_t> none;
  std::copy_if(out.begin(), out.end(), std::back_inserter(none), outside);
  if (!none.empty())
    error(key, "out_of_range", fmt::format("`{}` names layer {} of 0 to {}", key, none.front(), depth - 1),
          {fmt::format("leave {} out of the list", fmt::join(none, ", "))});
  std::erase_if(out, outside);
  return out;
}

std::vector<std::string> JsonConfig::layers(std::string_view key, std::int64_t depth, Keys known) {
  std::vector<std::string> out = words(key);
  judge_length(key, out.size(), depth);
  for (const std::string& word : out)
    if (std::find(known.begin(), known.end(), word) == known.end())
      error(key, "bad_value",
            fmt::format("`{}` has `{}`, which is no layer of this family", key, yaml::printable(word)),
            {fmt::format("its layers are {}", fmt::join(known, ", "))});
  return out;
}

JsonConfig JsonConfig::object(std::string_view key, bool required) {
  const nlohmann::json* value = find(key);
  const std::size_t at = value == nullptr ? std::string_view::npos : find_key(text_, key);
  if (value != nullptr && !value->is_object()) error(key, "bad_value", fmt::format("`{}` is not an object", key));
  if (value == nullptr && required) error("", "missing_key", fmt::format("`{}` is missing", key));
  JsonConfig nested(value != nullptr && value->is_object() ? *value : empty_object(), text_, file_);
  nested.line_ = line_;
  nested.mute_ = mute_ || (value == nullptr ? required : !value->is_object());
  if (at != std::string_view::npos) {
    nested.line_ += static_cast<int>(std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
    nested.text_ = text_.substr(text_.rfind('\n', at) == std::string_view::npos ? 0 : text_.rfind('\n', at) + 1);
  }
  return nested;
}

void JsonConfig::take(const JsonConfig& nested) {
  nested_.push_back(nested);
  for (const Error& made : nested.errors_)
    if (std::find(errors_.begin(), errors_.end(), made) == errors_.end()) errors_.push_back(made);
}

Place JsonConfig::place(std::string_view key) const {
  const std::size_t at = key.empty() ? std::string_view::npos : find_key(text_, key);
  if (at == std::string_view::npos) return {file_, 0, 0, 1, {}};
  const std::size_t before = text_.rfind('\n', at);
  const std::size_t begin = before == std::string_view::npos ? 0 : before + 1;
  std::string line(text_.substr(begin, std::min<std::size_t>(text_.find('\n', begin) - begin, 200)));
  const auto lines = std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(at), '\n');
  return {file_, line_ + static_cast<int>(lines), static_cast<int>(at - begin) + 1, static_cast<int>(key.size()) + 2,
          std::move(line)};
}

void JsonConfig::error(std::string_view key, std::string code, std::string message, std::vector<std::string> help) {
  if (mute_) return;
  Error made{std::move(code), std::move(message), {}, std::move(help), place(key)};
  if (errors_.size() < 20 && std::find(errors_.begin(), errors_.end(), made) == errors_.end())
    errors_.push_back(std::move(made));
}

int ModelBuilder::kind(const Layer& layer) { return kind_of(model, layer); }

void read_common(JsonConfig& c, Model& m, bool tied) {
  m.hidden = c.size({"hidden_size", "n_embd", "n_embed", "d_model"}, 1, 1e6);
  m.vocab = c.size({"vocab_size"});
  m.tied = c.flag_or("tie_word_embeddings", tied);
}

void read_dropout(JsonConfig& c, Model& m) {
  for (const char* key : {"resid_pdrop", "hidden_dropout", "residual_dropout", "hidden_dropout_prob", "dropout",
                          "attention_dropout", "attn_pdrop", "attn_dropout", "attention_probs_dropout_prob"})
    m.dropout = std::max(m.dropout, c.share(key));
  for (const char* key : {"embd_pdrop", "embedding_dropout", "emb_pdrop", "activation_dropout"})
    static_cast<void>(c.share(key));  // of other places than what is modelled: only checked
  if (c.share("layerdrop") > 0)
    c.error("layerdrop", "unsupported", "`layerdrop`, which leaves out layers at random, is not modelled",
            {"leave it out to plan for a training of all layers"});
}

AttentionShape read_heads(JsonConfig& c, std::int64_t hidden, std::int64_t head_dim) {
  AttentionShape a;
  a.heads = c.size({"num_attention_heads", "n_head", "n_heads"}, 1, 1e5);
  a.kv_heads = c.size_or({"num_key_value_heads", "num_kv_heads", "n_head_kv"}, a.heads, 1, 1e5);
  const std::int64_t shared = std::max<std::int64_t>(1, hidden / a.heads);
  a.head_dim = c.size_or({"head_dim", "attention_head_dim"}, head_dim > 0 ? head_dim : shared, 1, 1e5);
  if (head_dim == 0 && !c.has("head_dim") && !c.has("attention_head_dim") && hidden % a.heads != 0 &&
      c.errors().empty())
    for (const char* key : {"num_attention_heads", "n_head", "n_heads"})
      if (c.has(key))
        c.error(key, "bad_value", fmt::format("{} heads do not divide a hidden size of {}", a.heads, hidden),
                {"state their width: `head_dim`"});
  return a;
}

Layer begin_layer(JsonConfig& c, Model& m, bool tied, std::int64_t head_dim) {
  read_common(c, m, tied);
  Layer layer;
  layer.attention = read_heads(c, m.hidden, head_dim);
  return layer;
}

void read_attention_bias(JsonConfig& c, Layer& layer, bool assumed) {
  layer.attention.qkv_bias = layer.attention.out_bias = c.flag_or("attention_bias", assumed);
}

std::int64_t read_depth(JsonConfig& c) { return c.size({"num_hidden_layers", "n_layer", "n_layers"}, 1, 1e4); }

std::vector<bool> sliding_layers(JsonConfig& c, std::int64_t depth, std::int64_t every) {
  const std::vector<std::string> types =
      c.layers("layer_types", depth, {"full_attention", "sliding_attention", "chunked_attention"});
  std::vector<bool> sliding;
  for (std::int64_t i = 0; i < depth; ++i) {
    const auto at = static_cast<std::size_t>(i);
    sliding.push_back(at < types.size() ? types[at] != "full_attention" : every > 0 && (i + 1) % every != 0);
  }
  return sliding;
}

}  // namespace plan
