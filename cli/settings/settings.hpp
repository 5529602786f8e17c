#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/shell/launch_source.hpp"
#include "formulas/result.hpp"

/// What TOML, YAML, JSON and Python configuration files have in common: keys with dots, values, places.
namespace plan {

/// One value that a file states: `parallelism.tensor_parallel_degree`, `8`, `run.toml:12`. A list of lists is one
/// setting an inner list, `key[0]`, `key[1]`, ...
struct Setting {
  std::string key{};
  std::string value{};               ///< a scalar, as written
  std::vector<std::string> items{};  ///< a list
  bool list = false;
  Place place{};  ///< without the line's text
  [[nodiscard]] std::string where() const;
};

/// The settings of one or more files, each key once, and which of them were asked for.
class Settings {
 public:
  void add(Setting setting) { all_.push_back(std::move(setting)); }
  void append(const Settings& other);
  /// Forgets what is stated of a section, here and where these settings are appended: a new object takes its place.
  void replace_section(const std::string& key);
  /// Where a section starts, in files that name it on a line of its own.
  void add_section(std::string key, Place place) { sections_.emplace(std::move(key), std::move(place)); }
  /// Keeps the text of a file, for the line above the caret.
  void remember(const LaunchSource& source) { sources_.push_back(source); }
  [[nodiscard]] std::span<const Setting> all() const { return all_; }

  /// The setting of a key, known from now on; nullptr if no file states it.
  const Setting* get(std::string_view key);
  /// A value of that kind; nothing where there is none, or where it is none, which is then noted as a mistake.
  std::optional<std::int64_t> integer(std::string_view key);
  std::optional<double> number(std::string_view key);
  /// A single letter (`y`, `n`, `t`, `f`) is a text in YAML and JSON, which programs take as on: it is refused there.
  std::optional<bool> boolean(std::string_view key);
  std::optional<std::string> text(std::string_view key);
  /// `file:line` of a key that is stated, empty otherwise.
  [[nodiscard]] std::string where(std::string_view key) const;
  /// `file:line` where a key that no file states would be written: in front of its section, else of its file.
  [[nodiscard]] std::string home(std::string_view key) const;
  [[nodiscard]] bool states(std::string_view key) const;
  /// Does any key start so?
  [[nodiscard]] bool has_section(std::string_view prefix) const;
  [[nodiscard]] bool asked(const Setting& setting) const { return asked_.count(setting.key) > 0; }

  /// The keys that were asked for, whether a file states them or not.
  [[nodiscard]] std::vector<std::string_view> asked_keys() const;

  /// A value that its framework would refuse, too.
  void refuse(const Setting& setting, std::string_view wanted);
  [[nodiscard]] Errors& errors() { return errors_; }

  /// The setting of a key, which is not known for that.
  [[nodiscard]] const Setting* find(std::string_view key) const;

 private:
  void forget_section(const std::string& key);

  std::vector<Setting> all_{};
  std::vector<std::string> replaced_{};  ///< sections whose earlier settings do not count
  std::map<std::string, Place, std::less<>> sections_{};
  std::vector<LaunchSource> sources_{};
  std::set<std::string, std::less<>> asked_{};
  mutable std::set<std::string, std::less<>> looked_for_{};  ///< by states()
  Errors errors_{};
};

/// The mistake of taking a shell script for a file of settings; nothing where `source` is none.
[[nodiscard]] std::optional<Error> script_for_settings(const LaunchSource& source);

/// Each reads one file; a malformed one is one error with line and column.
[[nodiscard]] Result<Settings> settings_of_yaml(const LaunchSource& source);
[[nodiscard]] Result<Settings> settings_of_json(const LaunchSource& source);
[[nodiscard]] Result<Settings> settings_of_toml(const LaunchSource& source);
/// Assignments to attributes in a recipe function: `p = config.parallelism`, `p.tensor_parallel_degree = 8`.
[[nodiscard]] Result<Settings> settings_of_python(const LaunchSource& source);

/// More keys or flags than the files of one job have: MaxText, which has the most, knows some 1,400.
inline constexpr std::size_t kMostKeys = 4096;
/// What is wrong with a file, or a command at `where`, that has more of `what` than kMostKeys.
[[nodiscard]] std::optional<Error> too_many(std::string_view what, std::size_t count, std::string_view where);
/// The settings of one file, or an error if there are more than kMostKeys.
[[nodiscard]] Result<Settings> bounded(Settings settings, const LaunchSource& source);

/// A key as its file has it, without the mark that says which of several files it is from.
[[nodiscard]] std::string_view shown_key(std::string_view key);

/// A place in a file with the text of its line.
[[nodiscard]] Place place_in(const LaunchSource& source, int line, int column);

/// The words of `[core_attn, mlp]`, or one word.
[[nodiscard]] std::vector<std::string> listed(std::string text);

/// A word for yes or no: YAML 1.1's as PyYAML reads it (`yes`, `no`, `on`, `off`), and those of argument parsers
/// (transformers' string_to_bool, pydantic: `t`, `f`, `y`, `n`, `1`, `0`); nothing where it is none.
[[nodiscard]] std::optional<bool> truth_of(std::string_view word);

/// `8`, `-1`, `8_192`; nothing if the word is no integer that fits.
[[nodiscard]] std::optional<std::int64_t> to_integer(std::string_view word);

}  // namespace plan
