// Strict reading of YAML over yaml-cpp's event parser. yaml-cpp accepts duplicate keys, names no place for a missing
// key and expands aliases without limit, so the tree, its limits and its messages are ours. yaml-cpp throws; nothing
// but want of memory leaves this file as an exception. Tested by tests/presets/yaml_test.cpp.
#include "presets/yaml.hpp"

#include <fmt/core.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <new>
#include <set>
#include <sstream>
#include <stdexcept>

#include "presets/characters.hpp"

namespace plan::yaml {
namespace {

constexpr std::size_t kMostNodes = 1'000'000;
constexpr std::size_t kMostRepeated = 100'000;  ///< by aliases
constexpr std::size_t kMostErrors = 20;         ///< of one file; the rest is likely to follow from these

/// Thrown through yaml-cpp by the builder when a limit is passed; caught in parse().
struct Refused : std::runtime_error {
  Refused(int l, int c, const std::string& what) : std::runtime_error(what), line(l), column(c) {}
  int line, column;
};

/// Builds the tree from yaml-cpp's events; `open` holds the containers being filled.
class Builder : public YAML::EventHandler {
 public:
  explicit Builder(bool takes_anchors) : takes_anchors_(takes_anchors) {}
  Node root{};

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    plain(mark, anchor, "");
    add({Kind::Null, {}, mark.line + 1, mark.column + 1, {}});
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (!takes_anchors_) refuse(mark, "aliases are not accepted here");
    const auto marked = marked_.find(anchor);
    if (marked == marked_.end()) refuse(mark, "an alias of what is not complete yet is not accepted here");
    repeated_ += size_of(marked->second);
    if (repeated_ > kMostRepeated) refuse(mark, "too many values are repeated");
    if (open_.size() + depth_of(marked->second) > static_cast<std::size_t>(kMostDepth))
      refuse(mark, "is nested too deeply");
    add(marked->second);
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, const std::string& v) override {
    plain(mark, anchor, tag);
    const bool null = tag == "?" && (v.empty() || v == "~" || v == "null");
    Node node{null ? Kind::Null : Kind::Scalar, v, mark.line + 1, mark.column + 1, {}};
    if (anchor != 0) marked_[anchor] = node;
    add(std::move(node));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    plain(mark, anchor, tag);
    open(Kind::Sequence, mark, anchor);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    plain(mark, anchor, tag);
    open(Kind::Map, mark, anchor);
  }
  void OnMapEnd() override { close(); }

 private:
  [[noreturn]] static void refuse(const YAML::Mark& mark, const std::string& what) {
    throw Refused(mark.line + 1, mark.column + 1, what);
  }
  void plain(const YAML::Mark& mark, YAML::anchor_t anchor, const std::string& tag) const {
    if (anchor != 0 && !takes_anchors_) refuse(mark, "anchors are not accepted here");
    // `!!float 1e-5` says what the word is anyway; other tags build objects of a program's.
    constexpr std::string_view kPlain[] = {"float", "int", "str", "bool"}, kYaml = "tag:yaml.org,2002:";
    const bool typed = takes_anchors_ && tag.starts_with(kYaml) &&
                       std::find(std::begin(kPlain), std::end(kPlain), tag.substr(kYaml.size())) != std::end(kPlain);
    if (!tag.empty() && tag != "?" && tag != "!" && !typed) refuse(mark, "tags are not accepted here");
  }
  void open(Kind kind, const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (open_.size() >= static_cast<std::size_t>(kMostDepth)) refuse(mark, "is nested too deeply");
    open_.push_back({kind, {}, mark.line + 1, mark.column + 1, {}});
    anchors_.push_back(anchor);
  }
  void close() {
    Node done = std::move(open_.back());
    open_.pop_back();
    const YAML::anchor_t anchor = anchors_.back();
    anchors_.pop_back();
    if (takes_anchors_ && done.kind == Kind::Map) {
      keep_last(done);
      merge(done);
    }
    if (anchor != 0) marked_[anchor] = done;
    add(std::move(done));
  }
  /// Of a key that is written twice the last one counts, as in Python's reader, which those who write such files have.
  static void keep_last(Node& map) {
    std::set<std::string> later;
    std::vector<Node> kept;
    for (std::size_t i = map.items.size() / 2; i-- > 0;) {
      Node& key = map.items[2 * i];
      if (key.kind == Kind::Scalar && key.text != "<<" && !later.insert(key.text).second) continue;
      kept.push_back(std::move(map.items[2 * i + 1]));
      kept.push_back(std::move(key));
    }
    map.items.assign(std::make_move_iterator(kept.rbegin()), std::make_move_iterator(kept.rend()));
  }
  /// `<<: *base`, `<<: [*a, *b]`: the keys of the bases that the map lacks, the first base's first.
  static void merge(Node& map) {
    std::vector<Node> bases;
    for (std::size_t i = 0; i + 1 < map.items.size();) {
      const Kind kind = map.items[i + 1].kind;
      if (map.items[i].text != "<<" || (kind != Kind::Map && kind != Kind::Sequence)) {
        i += 2;
        continue;
      }
      if (kind == Kind::Map) bases.push_back(map.items[i + 1]);
      if (kind == Kind::Sequence)
        bases.insert(bases.end(), map.items[i + 1].items.begin(), map.items[i + 1].items.end());
      const auto at = map.items.begin() + static_cast<std::ptrdiff_t>(i);
      map.items.erase(at, at + 2);
    }
    for (const Node& base : bases)
      for (std::size_t k = 0; base.kind == Kind::Map && k + 1 < base.items.size(); k += 2)
        if (!has_key(map, base.items[k].text)) {
          map.items.push_back(base.items[k]);
          map.items.push_back(base.items[k + 1]);
        }
  }
  static bool has_key(const Node& map, const std::string& key) {
    for (std::size_t i = 0; i + 1 < map.items.size(); i += 2)
      if (map.items[i].text == key) return true;
    return false;
  }
  static std::size_t depth_of(const Node& node) {
    std::size_t deepest = 0;
    for (const Node& item : node.items) deepest = std::max(deepest, depth_of(item));
    return deepest + 1;
  }
  static std::size_t size_of(const Node& node) {
    std::size_t count = 1;
    for (const Node& item : node.items) count += size_of(item);
    return count;
  }
  void add(Node node) {
    if (++nodes_ > kMostNodes) throw Refused(node.line, node.column, "the file holds too many values");
    if (open_.empty())
      root = std::move(node);
    else
      open_.back().items.push_back(std::move(node));
  }
  bool takes_anchors_;
  std::vector<Node> open_{};
  std::vector<YAML::anchor_t> anchors_{};
  std::map<YAML::anchor_t, Node> marked_{};
  std::size_t nodes_ = 0, repeated_ = 0;
};

/// Line `number` (from 1) of `source`, cut at 200 bytes and made printable; tabs stay.
std::string line_of(std::string_view source, int number) {
  std::size_t begin = 0;
  for (int i = 1; i < number; ++i) {
    const std::size_t end = source.find('\n', begin);
    if (end == std::string_view::npos) return {};
    begin = end + 1;
  }
  std::string_view line = source.substr(begin, source.find('\n', begin) - begin);
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  std::string text(line.substr(0, 200));
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  return text;
}

/// How many columns the value takes on its line, quotes included.
int length_of(const std::string& line, const Node& at) {
  const auto begin = static_cast<std::size_t>(std::max(0, at.column - 1));
  if (begin >= line.size()) return 1;
  std::size_t length = std::max<std::size_t>(1, at.text.size());
  if (line[begin] == '"' || line[begin] == '\'') length += 2;
  return static_cast<int>(std::min(length, line.size() - begin));
}

Place place_in(const Document& d, const Node& at) {
  if (at.line <= 0) return {d.file, 0, 0, 1, {}};
  std::string line = line_of(d.source, at.line);
  const int length = length_of(line, at);
  return {d.file, at.line, at.column, length, std::move(line)};
}

void check_keys(const Document& d, const Node& node, Errors& errors) {
  for (const Node& item : node.items) check_keys(d, item, errors);
  if (node.kind != Kind::Map) return;
  std::vector<const Node*> keys;
  for (std::size_t i = 0; i + 1 < node.items.size(); i += 2) {
    const Node& key = node.items[i];
    if (key.kind == Kind::Scalar)
      keys.push_back(&key);
    else
      errors.push_back({"bad_key", "a key has to be a word", {}, {}, place_in(d, key)});
  }
  std::stable_sort(keys.begin(), keys.end(), [](const Node* a, const Node* b) { return a->text < b->text; });
  for (std::size_t i = 1; i < keys.size(); ++i) {
    if (keys[i]->text != keys[i - 1]->text) continue;
    errors.push_back({"duplicate_key",
                      fmt::format("key `{}` is given twice", printable(keys[i]->text)),
                      {fmt::format("first on line {}", keys[i - 1]->line)},
                      {},
                      place_in(d, *keys[i])});
  }
}

/// Bytes that no text of ours holds: NUL, UTF-16 and UTF-32 marks.
bool is_text(std::string_view source) {
  return source.find('\0') == std::string_view::npos && source.substr(0, 2) != "\xff\xfe" &&
         source.substr(0, 2) != "\xfe\xff";
}

/// The source with its comments cut off, which are half of a preset and which yaml-cpp reads slowly; lines and columns
/// of everything else stay. Unchanged where quotes or block scalars could hold a "#" of their own.
std::string without_comments(const std::string& source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t begin = 0; begin < source.size();) {
    const std::size_t end = std::min(source.find('\n', begin), source.size());
    std::string_view line(source.data() + begin, end - begin);
    for (std::size_t at = line.find('#'); at != std::string_view::npos; at = line.find('#', at + 1))
      if (at == 0 || line[at - 1] == ' ' || line[at - 1] == '\t') {
        line = line.substr(0, at);
        break;
      }
    if (line.find_first_of("\"'|>%&*!") != std::string_view::npos) return source;
    const std::size_t last = line.find_last_not_of(" \t\r");
    out.append(line.substr(0, last == std::string_view::npos ? 0 : last + 1)).push_back('\n');
    begin = end + 1;
  }
  return out;
}

Errors one_error(std::string code, std::string message, Place place, std::vector<std::string> help = {}) {
  return {Error{std::move(code), std::move(message), {}, std::move(help), std::move(place)}};
}

/// What to do about a tab that indents a line up to `number`, which YAML does not take: the parser stops behind it.
std::vector<std::string> tab_before(std::string_view source, int number) {
  int line = 1;
  for (std::size_t begin = 0; begin < source.size() && line <= number; ++line) {
    const std::size_t first = source.find_first_not_of(' ', begin);
    if (first != std::string_view::npos && source[first] == '\t')
      return {fmt::format("indent line {} with blanks: YAML takes no tabs", line)};
    const std::size_t end = source.find('\n', begin);
    if (end == std::string_view::npos) break;
    begin = end + 1;
  }
  return {};
}

Result<Document> parsed(std::string source, std::string file, bool takes_anchors) {
  Document d{std::move(file), std::move(source), {}};
  if (d.source.size() > kMostBytes)
    return fail(
        one_error("too_large", fmt::format("the file is larger than {} MiB", kMostBytes >> 20), {d.file, 0, 0, 1, {}}));
  if (!is_text(d.source))
    return fail(one_error("not_text", "the file is not UTF-8 text", {d.file, 0, 0, 1, {}},
                          {"save it as UTF-8, without bytes of zero"}));
  Builder builder(takes_anchors);
  try {
    std::istringstream stream(without_comments(d.source));
    YAML::Parser parser(stream);
    parser.HandleNextDocument(builder);
    d.root = std::move(builder.root);
    if (parser.HandleNextDocument(builder))
      return fail(one_error("yaml_syntax", "the file holds more than one document", {d.file, 0, 0, 1, {}}));
  } catch (const Refused& e) {
    return fail(one_error("yaml_refused", e.what(), place_in(d, {Kind::Null, {}, e.line, e.column, {}})));
  } catch (const YAML::Exception& e) {
    const Node at{Kind::Null, {}, e.mark.line + 1, e.mark.column + 1, {}};
    return fail(one_error("yaml_syntax", fmt::format("not valid YAML: {}", printable(e.msg)), place_in(d, at),
                          tab_before(d.source, at.line)));
  } catch (const std::bad_alloc&) {
    throw;  // no fault of the file's
  } catch (const std::exception& e) {
    return fail(
        one_error("yaml_syntax", fmt::format("not valid YAML: {}", printable(e.what())), {d.file, 0, 0, 1, {}}));
  }
  Errors errors;
  check_keys(d, d.root, errors);
  if (errors.size() > kMostErrors) errors.resize(kMostErrors);
  if (!errors.empty()) return fail(std::move(errors));
  return d;
}

}  // namespace

Result<Document> parse(std::string source, std::string file) {
  return parsed(std::move(source), std::move(file), false);
}

Result<Document> parse_with_anchors(std::string source, std::string file) {
  return parsed(std::move(source), std::move(file), true);
}

std::string printable(std::string_view word) {
  constexpr std::size_t kMost = 57;  // characters
  std::string out;
  std::size_t shown = 0;
  for (std::size_t at = 0; at < word.size();) {
    const Character character = character_at(word, at);
    std::string written(word.substr(at, character.size));
    if (character.size == 0)
      written = fmt::format("\\x{:02x}", static_cast<unsigned char>(word[at]));
    else if (character.code < 0x80 && is_control(character.code))
      written = fmt::format("\\x{:02x}", character.code);
    else if (is_control(character.code) || is_unseen(character.code))
      written = fmt::format("\\u{:04x}", character.code);
    shown += written.front() == '\\' ? written.size() : 1;
    if (shown > kMost) return out + "...";
    out += written;
    at += character.size == 0 ? 1 : character.size;
  }
  return out;
}

// ---- Reader

void Reader::error(const Node& at, std::string code, std::string message, std::vector<std::string> help) {
  if (errors_.size() >= kMostErrors) return;
  if (failed() && errors_.front().code == "wrong_preset")
    return;  // what another kind of file lacks is no mistake in it
  errors_.push_back({std::move(code), std::move(message), {}, std::move(help), place(at)});
}

Place Reader::place(const Node& at) const { return place_in(*document_, at); }

}  // namespace plan::yaml
