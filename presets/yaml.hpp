#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "formulas/names.hpp"
#include "formulas/result.hpp"
#include "formulas/units.hpp"
#include "presets/quantity.hpp"

/// Strict YAML: unknown and duplicate keys, missing keys and units, values out of range are mistakes, and all
/// mistakes of a file are reported at once, each with its place. No anchors, aliases or tags: no file needs them.
///
///     auto document = yaml::parse(text, "node.yaml");
///     if (!document) return tl::unexpected(document.error());
///     yaml::Reader reader(*document);
///     yaml::Map root = reader.root();
///     root.quantity("memory", gpu.memory);                           // required
///     root.integer("sm_count", gpu.sm_count, {1, 1000}, yaml::kOptional);
///     root.finish();                                                 // whatever was not asked for is unknown
///     if (reader.failed()) return fail(reader.take());
namespace plan::yaml {

/// A file larger than this is none of ours.
inline constexpr std::size_t kMostBytes = 16u << 20;
inline constexpr int kMostDepth = 16;

enum class Kind { Null, Scalar, Sequence, Map };

/// One value as written. `items` of a map are key, value, key, value, ...
struct Node {
  Kind kind = Kind::Null;
  std::string text{};
  int line = 0;
  int column = 0;
  std::vector<Node> items{};
};

/// A parsed file: the tree and the lines for the caret.
struct Document {
  std::string file;
  std::string source;
  Node root;
};

[[nodiscard]] Result<Document> parse(std::string source, std::string file);

/// `parse` for files that others wrote: `&name` marks a value, `*name` repeats it, and `<<: *name` adds the keys that a
/// map lacks. Of a key that is written twice the last one counts. The repeated values count towards the limit of a
/// file.
[[nodiscard]] Result<Document> parse_with_anchors(std::string source, std::string file);

/// The text of a file as it was at one moment, or an Error that says why not (no such file, a directory, too large,
/// changed by another program while it was read).
[[nodiscard]] Result<std::string> read_text(const std::string& path);

/// `word` fit for a message: control and invalid bytes replaced, at most 60 characters.
[[nodiscard]] std::string printable(std::string_view word);

enum class Need { Required, Optional };
inline constexpr Need kRequired = Need::Required, kOptional = Need::Optional;

/// Least and greatest value that is accepted.
struct Range {
  double least = 0;
  double most = 0;
};
inline constexpr Range kAnyCount{0, 1e8};  ///< widths, heads, vocabulary; 0 means none
inline constexpr Range kPositive{1e-300, 1e300};
inline constexpr Range kNotNegative{0, 1e300};
inline constexpr Range kShare{0, 1};

template <class T>
constexpr Dimension dimension_of() {
  if constexpr (std::is_same_v<T, Bytes>) return Dimension::Bytes;
  if constexpr (std::is_same_v<T, Seconds>) return Dimension::Time;
  if constexpr (std::is_same_v<T, BytesPerSecond>) return Dimension::ByteRate;
  if constexpr (std::is_same_v<T, FlopsPerSecond>) return Dimension::FlopRate;
}

class Reader;

/// The keys of one map. A key that was asked for is known; finish() reports the others.
class Map {
 public:
  Map(Reader& reader, const Node& node, std::string path);

  bool has(std::string_view key) const;
  /// The value of `key`, known from now on; nullptr if absent (and an error if required).
  const Node* get(std::string_view key, Need need = kRequired);
  /// A nested map; an absent or mistaken one reads as empty and asks for nothing more.
  Map map(std::string_view key, Need need = kRequired);
  /// The elements of a sequence; a lone scalar counts as a sequence of one.
  std::vector<const Node*> list(std::string_view key, Need need = kRequired);

  // Each returns whether it wrote to `out`.
  bool text(std::string_view key, std::string& out, Need need = kRequired);
  bool boolean(std::string_view key, bool& out, Need need = kRequired);
  bool number(std::string_view key, double& out, Range range, Need need = kRequired);
  bool quantity(std::string_view key, double& out, Dimension dimension, Range range, Need need = kRequired);

  template <class Int>
  bool integer(std::string_view key, Int& out, Range range, Need need = kRequired) {
    std::int64_t wide = 0;
    if (!integer64(key, wide, range, need)) return false;
    out = static_cast<Int>(wide);
    return true;
  }

  /// Bytes, Seconds, BytesPerSecond, FlopsPerSecond.
  template <class T>
  bool quantity(std::string_view key, T& out, Range range = kPositive, Need need = kRequired) {
    double value = 0;
    if (!quantity(key, value, dimension_of<T>(), range, need)) return false;
    if constexpr (std::is_same_v<T, Bytes>)
      out = round_bytes(value);
    else
      out = T(value);
    return true;
  }

  /// A word of one of the tables of formulas/names.hpp.
  template <class E, std::size_t N>
  bool word(std::string_view key, E& out, const Named<E> (&table)[N], Need need = kRequired) {
    std::array<std::string_view, N> names{};
    for (std::size_t i = 0; i < N; ++i) names[i] = table[i].name;
    const int found = word_index(key, names.data(), N, need);
    if (found < 0) return false;
    out = table[found].value;
    return true;
  }

  /// Every key in the order written; all count as known. For maps whose keys are names of the user's.
  std::vector<std::pair<const Node*, const Node*>> entries();

  /// What to write for a key that nobody asks for, in sentences.
  using Meaning = std::function<std::vector<std::string>(const std::string& key)>;
  /// Reports the keys that nobody asked for, each with what it means, or else with the nearest known one. Call last.
  void finish(const Meaning& meaning = {});

  const Node& node() const { return *node_; }
  Reader& reader() { return *reader_; }
  /// "`key`" with the path to it: `peak.bf16`.
  std::string path_of(std::string_view key) const;

 private:
  bool integer64(std::string_view key, std::int64_t& out, Range range, Need need);
  int word_index(std::string_view key, const std::string_view* names, std::size_t count, Need need);
  const Node* scalar(std::string_view key, Need need, std::string_view wanted);

  Reader* reader_;
  const Node* node_;
  std::string path_;
  bool silent_ = false;  ///< absent: its keys are not missed again
  std::vector<std::string> known_{};
};

/// Reads one document and collects its mistakes.
class Reader {
 public:
  explicit Reader(const Document& document) : document_(&document) {}
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  /// The top-level map; a document that is none is a mistake and reads as empty.
  Map root();
  /// A map that is an element of a list. `path` names it in messages.
  Map map(const Node& node, std::string path);

  // Values of lists. `what` names the value in the message.
  bool integer(const Node& node, std::string_view what, std::int64_t& out, Range range);
  bool number(const Node& node, std::string_view what, double& out, Range range);
  bool quantity(const Node& node, std::string_view what, double& out, Dimension dimension, Range range);

  void error(const Node& at, std::string code, std::string message, std::vector<std::string> help = {});
  /// An error about what was to be a number; where separators of thousands are all that is wrong, it says what to
  /// write.
  void not_a_number(const Node& at, std::string message);
  /// An error, and false, where the number lies outside of the range.
  bool in_range(const Node& node, std::string_view what, double number, Range range);
  Place place(const Node& at) const;

  bool failed() const { return !errors_.empty(); }
  Errors take() { return std::move(errors_); }

 private:
  friend class Map;
  const Document* document_;
  Errors errors_{};
};

/// What `read` takes from a document: it is handed the top-level map, whose finish() is its own to call, and a value to
/// fill. The mistakes of the text and of the reading are returned instead where there are any.
template <class T, class Read>
[[nodiscard]] Result<T> read_document(std::string text, std::string file, const Read& read) {
  const Result<Document> document = parse(std::move(text), std::move(file));
  if (!document) return tl::unexpected<Errors>(document.error());
  Reader reader(*document);
  Map root = reader.root();
  T out{};
  read(root, out);
  if (reader.failed()) return fail(reader.take());
  return out;
}

}  // namespace plan::yaml
