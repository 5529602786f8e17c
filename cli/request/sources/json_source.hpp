#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "cli/terminal/json_text.hpp"
#include "formulas/result.hpp"

namespace plan {

/// A JSON file that was read, its text kept for the places of mistakes.
struct JsonSource {
  std::string file;
  std::string text;
  Json root{};
};

/// Strict JSON: syntax, duplicate keys, nesting and size are checked, a mistake has its line and column.
[[nodiscard]] Result<JsonSource> parse_json_source(std::string text, std::string file);

/// Typed values of one object of the file. Mistakes are collected where the outermost one was made; what is missing
/// reads as empty. Keys that nobody asks for are fine: a newer `plan` may have written them.
class JsonFields {
 public:
  JsonFields(const JsonSource& source, Errors& errors) : JsonFields(source, errors, &source.root, {}) {}

  bool has(std::string_view key) const { return find(key) != nullptr; }
  JsonFields object(std::string_view key) const;
  /// The elements of a list of objects.
  std::vector<JsonFields> objects(std::string_view key) const;
  std::vector<int> integers(std::string_view key) const;
  std::vector<std::string> texts(std::string_view key) const;
  /// Keys of this object, in their order, each with its value as an object.
  std::vector<std::pair<std::string, JsonFields>> members() const;

  std::string text(std::string_view key) const;
  bool boolean(std::string_view key) const;
  double number(std::string_view key, double least = 0) const;
  std::int64_t whole(std::string_view key, std::int64_t least = 0, std::int64_t most = std::int64_t{1} << 60) const;
  /// A number as `fmt` writes it, or a text.
  std::string word(std::string_view key) const;

  /// A mistake about `key`, or about the object itself if it is empty.
  void error(std::string_view key, std::string code, std::string message, std::vector<std::string> help = {}) const;
  /// "`best.memory.peak_bytes`".
  std::string path_of(std::string_view key) const;
  const Json& json() const { return *object_; }
  bool present() const { return present_; }
  /// Whether there is a mistake by now: numbers that lack or cannot be read contradict no other.
  bool failed() const { return !errors_->empty(); }

 private:
  JsonFields(const JsonSource& source, Errors& errors, const Json* object, std::vector<std::string> path);
  const Json* find(std::string_view key) const;
  /// A mistake that the object lacks `key`: with others that it lacks, one.
  void lacks(std::string_view key) const;
  const Json* need(std::string_view key, std::string_view wanted, bool (Json::*is)() const noexcept) const;

  const JsonSource* source_;
  Errors* errors_;
  const Json* object_;
  std::vector<std::string> path_;
  bool present_ = true;
};

}  // namespace plan
