// Typed values of a map and of lists, each mistake with its place. Tested by tests/presets/yaml_test.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "presets/suggest.hpp"
#include "presets/yaml.hpp"

namespace plan::yaml {

Map::Map(Reader& reader, const Node& node, std::string path)
    : reader_(&reader), node_(&node), path_(std::move(path)), silent_(node.kind != Kind::Map) {}

bool Map::has(std::string_view key) const {
  if (silent_) return false;
  for (std::size_t i = 0; i + 1 < node_->items.size(); i += 2)
    if (node_->items[i].text == key) return true;
  return false;
}

std::string Map::path_of(std::string_view key) const {
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

const Node* Map::get(std::string_view key, Need need) {
  if (std::find(known_.begin(), known_.end(), key) == known_.end()) known_.emplace_back(key);
  if (silent_) return nullptr;
  for (std::size_t i = 0; i + 1 < node_->items.size(); i += 2) {
    if (node_->items[i].text != key) continue;
    if (node_->items[i + 1].kind != Kind::Null) return &node_->items[i + 1];
    reader_->error(node_->items[i], "missing_value", fmt::format("`{}` has no value", path_of(key)));
    return nullptr;
  }
  if (need == kRequired) reader_->error(*node_, "missing_key", fmt::format("`{}` is missing", path_of(key)));
  return nullptr;
}

Map Map::map(std::string_view key, Need need) {
  static const Node kNothing{};
  const Node* node = get(key, need);
  if (node == nullptr) return Map(*reader_, kNothing, path_of(key));
  return reader_->map(*node, path_of(key));
}

std::vector<const Node*> Map::list(std::string_view key, Need need) {
  const Node* node = get(key, need);
  if (node == nullptr) return {};
  if (node->kind == Kind::Scalar) return {node};
  std::vector<const Node*> items;
  if (node->kind == Kind::Sequence)
    for (const Node& item : node->items) items.push_back(&item);
  else
    reader_->error(*node, "bad_value", fmt::format("`{}` is not a list", path_of(key)));
  return items;
}

const Node* Map::scalar(std::string_view key, Need need, std::string_view wanted) {
  const Node* node = get(key, need);
  if (node == nullptr || node->kind == Kind::Scalar) return node;
  reader_->error(*node, "bad_value", fmt::format("`{}` is not {}", path_of(key), wanted));
  return nullptr;
}

bool Map::text(std::string_view key, std::string& out, Need need) {
  const Node* node = scalar(key, need, "a text");
  if (node == nullptr) return false;
  out = node->text;
  return true;
}

bool Map::boolean(std::string_view key, bool& out, Need need) {
  const Node* node = scalar(key, need, "`yes` or `no`");
  if (node == nullptr) return false;
  const bool yes = node->text == "yes" || node->text == "true";
  if (!yes && node->text != "no" && node->text != "false") {
    reader_->error(*node, "bad_value", fmt::format("`{}` is neither `yes` nor `no`", path_of(key)));
    return false;
  }
  out = yes;
  return true;
}

bool Map::number(std::string_view key, double& out, Range range, Need need) {
  const Node* node = scalar(key, need, "a number");
  return node != nullptr && reader_->number(*node, path_of(key), out, range);
}

bool Map::quantity(std::string_view key, double& out, Dimension dimension, Range range, Need need) {
  const Node* node = scalar(key, need, "a number with a unit");
  return node != nullptr && reader_->quantity(*node, path_of(key), out, dimension, range);
}

bool Map::integer64(std::string_view key, std::int64_t& out, Range range, Need need) {
  const Node* node = scalar(key, need, "a whole number");
  return node != nullptr && reader_->integer(*node, path_of(key), out, range);
}

int Map::word_index(std::string_view key, const std::string_view* names, std::size_t count, Need need) {
  const Node* node = scalar(key, need, "a word");
  if (node == nullptr) return -1;
  const std::vector<std::string_view> all(names, names + count);
  for (std::size_t i = 0; i < count; ++i)
    if (all[i] == node->text) return static_cast<int>(i);
  const std::string near = nearest_name(node->text, all);
  reader_->error(*node, "unknown_word", fmt::format("unknown `{}` `{}`", path_of(key), printable(node->text)),
                 {near.empty() ? fmt::format("one of: {}", fmt::join(all, ", "))
                               : fmt::format("a word with a similar name exists: `{}`", near)});
  return -1;
}

std::vector<std::pair<const Node*, const Node*>> Map::entries() {
  std::vector<std::pair<const Node*, const Node*>> all;
  if (silent_) return all;
  for (std::size_t i = 0; i + 1 < node_->items.size(); i += 2) {
    known_.push_back(node_->items[i].text);
    all.emplace_back(&node_->items[i], &node_->items[i + 1]);
  }
  return all;
}

void Map::finish(const Meaning& meaning) {
  if (silent_) return;
  std::vector<std::string> wanted = known_;  // before what is there already
  std::erase_if(wanted, [&](const std::string& key) { return has(key); });
  for (std::size_t i = 0; i + 1 < node_->items.size(); i += 2) {
    const Node& key = node_->items[i];
    if (std::find(known_.begin(), known_.end(), key.text) != known_.end()) continue;
    std::vector<std::string> help = meaning ? meaning(key.text) : std::vector<std::string>{};
    std::string near = nearest_name(key.text, wanted);
    if (near.empty()) near = nearest_name(key.text, known_);
    if (help.empty())
      help.push_back(near.empty() ? fmt::format("keys here: {}", fmt::join(known_, ", "))
                                  : fmt::format("a key with a similar name exists: `{}`", near));
    const std::string missing = fmt::format("`{}` is missing", path_of(near));  // is no second mistake
    std::erase_if(reader_->errors_,
                  [&](const Error& made) { return made.code == "missing_key" && made.message == missing; });
    reader_->error(key, "unknown_key", fmt::format("unknown key `{}`", printable(path_of(key.text))), std::move(help));
  }
}

// ---- Reader

Map Reader::root() { return map(document_->root, {}); }

Map Reader::map(const Node& node, std::string path) {
  if (node.kind != Kind::Map)
    error(node, "bad_value",
          path.empty() ? std::string("the file is not a list of keys and values")
                       : fmt::format("`{}` is not a map of keys and values", path));
  return Map(*this, node, std::move(path));
}

void Reader::not_a_number(const Node& node, std::string message) {
  std::optional<std::string> plain =
      node.kind == Kind::Scalar ? without_separators(node.text) : std::optional<std::string>{};
  if (!plain && node.kind == Kind::Scalar)
    if (const ParsedQuantity counted = parse_quantity(node.text, Dimension::Tokens);
        counted.problem == "has an unknown unit" && !counted.instead.empty() &&
        node.text.find(' ') == std::string::npos)
      plain = counted.instead.front().substr(0, counted.instead.front().find(' '));
  error(node, "bad_value", std::move(message),
        plain ? std::vector{fmt::format("write `{}`", printable(*plain))} : std::vector<std::string>{});
}

bool Reader::in_range(const Node& node, std::string_view what, double number, Range range) {
  if (number >= range.least && number <= range.most) return true;
  error(node, "out_of_range",
        fmt::format("`{}` is out of range: {:g} to {:g} make sense", what, range.least, range.most));
  return false;
}

bool Reader::integer(const Node& node, std::string_view what, std::int64_t& out, Range range) {
  const std::optional<double> number = node.kind == Kind::Scalar ? parse_number(node.text) : std::nullopt;
  if (!number || *number != std::floor(*number)) {
    not_a_number(node, fmt::format("`{}` is not a whole number", what));
    return false;
  }
  if (!in_range(node, what, *number, range)) return false;
  const std::optional<std::int64_t> value = parse_integer(node.text);
  if (!value) {  // 4e3: a number, but nobody writes a width so
    error(node, "bad_value", fmt::format("`{}` is not written as a whole number", what));
    return false;
  }
  out = *value;
  return true;
}

bool Reader::number(const Node& node, std::string_view what, double& out, Range range) {
  const std::optional<double> value = node.kind == Kind::Scalar ? parse_number(node.text) : std::nullopt;
  if (!value) {
    not_a_number(node, fmt::format("`{}` is not a number", what));
    return false;
  }
  if (!in_range(node, what, *value, range)) return false;
  out = *value;
  return true;
}

namespace {

/// The bound of a quantity that a number lies beyond.
std::string sensible(double number, Range range, Dimension dimension) {
  if (number > range.most) return fmt::format("{} and less make sense", format_quantity(range.most, dimension));
  if (range.least == kPositive.least) return "more than 0 makes sense";
  return range.least > 0 ? fmt::format("{} and more make sense", format_quantity(range.least, dimension))
                         : "0 and more make sense";
}

/// What a number without its unit, or with one that is not known, may mean and the key takes. Of a time that is none of
/// these the units which things that last so long come in: microseconds of what is within a second, and hours.
std::vector<std::string> in_reach(const ParsedQuantity& parsed, std::string_view text, Range range,
                                  Dimension dimension) {
  std::vector<std::string> meant = parsed.instead;
  if (parsed.problem == "needs a unit" && dimension == Dimension::Time) {
    const auto in = [&](std::string_view unit) { return fmt::format("{} {}", printable(text), unit); };
    if (range.most <= 1) meant = {in("us"), in("ms")};
    if (range.least >= 1) meant = {in("h"), in("s")};
  }
  std::erase_if(meant, [&](const std::string& one) {
    const ParsedQuantity read = parse_quantity(one, dimension);
    return read && (read.value < range.least || read.value > range.most);
  });
  return meant;
}

}  // namespace

bool Reader::quantity(const Node& node, std::string_view what, double& out, Dimension dimension, Range range) {
  if (node.kind != Kind::Scalar) {
    error(node, "bad_value", fmt::format("`{}` is not a number with a unit", what));
    return false;
  }
  const ParsedQuantity parsed = parse_quantity(node.text, dimension);
  if (!parsed) {
    std::vector<std::string> help;
    if (parsed.instead.empty() && !parsed.help.empty()) help.push_back(parsed.help);
    if (const std::vector<std::string> meant = in_reach(parsed, node.text, range, dimension); !meant.empty())
      help.push_back(fmt::format("write `{}`", fmt::join(meant, "` or `")));
    error(node, parsed.problem == "needs a unit" ? "missing_unit" : "bad_value",
          fmt::format("`{}` {}", what, parsed.problem), std::move(help));
    return false;
  }
  if (dimension == Dimension::Bytes) range.most = std::min(range.most, 1e17);  // fits an int64 with room to multiply
  if (parsed.value < range.least || parsed.value > range.most) {
    error(node, "out_of_range",
          fmt::format("`{}` is {}: {}", what, parsed.value < 0 ? "negative" : "out of range",
                      sensible(parsed.value, range, dimension)));
    return false;
  }
  out = parsed.value;
  return true;
}

}  // namespace plan::yaml
