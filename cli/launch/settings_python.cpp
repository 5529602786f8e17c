// A torchtitan recipe is a Python function that sets attributes. This follows its assignments line by line without
// running anything: names for parts of the configuration, numbers with * and //, words, lists, and calls by name.
// Tested by tests/frameworks/framework_files_test.cpp.
#include <fmt/core.h>

#include <cctype>
#include <cmath>
#include <map>

#include "cli/launch/settings.hpp"

namespace plan {
namespace {

std::string_view trim(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) text.remove_suffix(1);
  return text;
}

/// A statement: lines joined while brackets are open, comments dropped.
struct Statement {
  std::string text{};
  int line = 0;
  int column = 0;
};

struct Splitter {
  std::vector<Statement> statements{};
  Statement now{};
  int depth = 0;
  char quote = 0;

  void end_line() {
    if (depth > 0 || quote != 0) return;
    if (!trim(now.text).empty()) statements.push_back(now);
    now = {};
  }
  void take(char c) {
    if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '(' || c == '[' || c == '{') {
      ++depth;
    } else if (c == ')' || c == ']' || c == '}') {
      --depth;
    }
    now.text.push_back(c);
  }
};

/// Statements of a file, or where a bracket or quote is never closed.
Result<std::vector<Statement>> statements_of(const LaunchSource& source) {
  Splitter split;
  int line = 1, column = 0;
  bool comment = false;
  for (const char c : source.text) {
    ++column;
    if (c == '\n') {
      if (split.quote != 0) split.quote = 0;  // a quote does not cross lines; """ is three of them
      comment = false, split.end_line(), ++line, column = 0;
      if (split.depth > 0) split.now.text.push_back(' ');
    } else if (!comment && split.quote == 0 && c == '#') {
      comment = true;
    } else if (!comment) {
      if (split.now.text.empty()) split.now.line = line, split.now.column = column;
      if (split.now.text.empty() && c == ' ') continue;
      split.take(c);
    }
  }
  split.end_line();
  if (split.depth > 0)
    return fail({"bad_python",
                 "a bracket is opened here and never closed",
                 {},
                 {},
                 place_in(source, split.now.line, split.now.column)});
  return split.statements;
}

/// Cuts at `separator` outside brackets and quotes.
std::vector<std::string_view> split_outside(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  int depth = 0;
  char quote = 0;
  std::size_t start = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '(' || c == '[') {
      ++depth;
    } else if (c == ')' || c == ']') {
      --depth;
    } else if (c == separator && depth == 0) {
      parts.push_back(trim(text.substr(start, i - start)));
      start = i + 1;
    }
  }
  if (!trim(text.substr(start)).empty()) parts.push_back(trim(text.substr(start)));
  return parts;
}

/// Follows names and writes settings.
class Recipe {
 public:
  explicit Recipe(const LaunchSource& source) { settings_.remember(source), file_ = source.path; }

  void statement(const Statement& statement) {
    const std::vector<std::string_view> words = split_outside(statement.text, ' ');
    if (words.size() >= 4 && words[0] == "from" && words[2] == "import") {
      if (statement.text.find("model_registry") != std::string::npos) imported(words[1], statement);
      return;
    }
    if (words.size() >= 2 && words[0] == "return" && statement.text.back() == ')') return returned(statement);
    const std::vector<std::string_view> sides = split_outside(statement.text, '=');
    if (sides.size() != 2) return;
    const std::string target = expand(sides[0]);
    if (target.empty()) return;
    assign(target, sides[1], statement);
  }
  Settings take() { return std::move(settings_); }

 private:
  /// `config.training` as `training`, `p.x` as what `p` stands for; empty for a name of its own.
  std::string expand(std::string_view name) const {
    const std::size_t dot = name.find('.');
    const auto alias = aliases_.find(name.substr(0, dot));
    if (alias == aliases_.end()) return dot == std::string_view::npos ? "" : std::string(name.substr(dot + 1));
    if (dot == std::string_view::npos) return "";
    const std::string rest(name.substr(dot + 1));
    return alias->second.empty() ? rest : alias->second + "." + rest;
  }

  void add(const std::string& key, std::string_view value, const Statement& at) {
    settings_.add({.key = key,
                   .value = std::string(value),
                   .items = {},
                   .list = false,
                   .place = {.file = file_, .line = at.line, .column = at.column, .length = 1, .text = {}}});
  }

  void imported(std::string_view module, const Statement& at) {
    constexpr std::string_view kModels = "torchtitan.models.", kFolder = "/models/";
    std::string_view family = module;
    if (module.rfind(kModels, 0) == 0) {
      family.remove_prefix(kModels.size());
      family = family.substr(0, family.find('.'));
    } else if (const std::size_t folder = file_.rfind(kFolder); module == "." && folder != std::string::npos) {
      family = std::string_view(file_).substr(folder + kFolder.size());
      family = family.substr(0, family.find('/'));
    } else {
      return;
    }
    if (family != "common") add("model.name", family, at);
  }

  /// `return Trainer.Config(training=..., parallelism=...)`: each argument is a part of the configuration.
  void returned(const Statement& at) {
    const std::string_view text = at.text;
    const std::size_t open = text.find('(');
    if (open == std::string_view::npos || text.substr(0, open).find("Config") == std::string_view::npos) return;
    for (const std::string_view argument : split_outside(text.substr(open + 1, text.size() - open - 2), ',')) {
      const std::vector<std::string_view> sides = split_outside(argument, '=');
      if (sides.size() == 2) assign(std::string(sides[0]), sides[1], at);
    }
  }

  // Calls and lists nest as deep as kMostDepth.
  // NOLINTNEXTLINE(misc-no-recursion)
  void assign(const std::string& key, std::string_view value, const Statement& at) {
    if (value.empty() || depth_ > kMostDepth) return;
    ++depth_;
    assign_value(key, value, at);
    --depth_;
  }

  // NOLINTNEXTLINE(misc-no-recursion)
  void assign_value(const std::string& key, std::string_view value, const Statement& at) {
    if (value == "None") return add(key, "none", at);
    if (const auto call = calls_.find(value); call != calls_.end() && key != "recipe")
      return assign(key, std::string(call->second), at);
    if (value.front() == '"' || value.front() == '\'')
      return add(key, value.substr(1, std::max<std::size_t>(2, value.size()) - 2), at);
    if (value.front() == '[') return list(key, value, at);
    if (const std::optional<std::int64_t> number = product(value)) return add(key, fmt::format("{}", *number), at);
    if (value.back() == ')') return call(key, value, at);
    add(key, value, at);
  }

  /// `8192 * 32 * 8`
  std::optional<std::int64_t> product(std::string_view text) const {
    double all = 1;
    for (const std::string_view factor : split_outside(text, '*')) {
      std::optional<std::int64_t> value = to_integer(factor);
      if (!value)
        if (const auto known = numbers_.find(factor); known != numbers_.end()) value = known->second;
      if (!value) return std::nullopt;
      all *= static_cast<double>(*value);
    }
    if (!(std::abs(all) <= 1e15)) return std::nullopt;
    return static_cast<std::int64_t>(all);
  }

  void list(const std::string& key, std::string_view value, const Statement& at) {
    Setting setting{.key = key,
                    .value = {},
                    .items = {},
                    .list = true,
                    .place = {.file = file_, .line = at.line, .column = at.column, .length = 1, .text = {}}};
    const std::string_view inside = value.substr(1, value.size() - 2);
    std::size_t index = 0;
    for (const std::string_view item : split_outside(inside, ',')) {
      if (item.empty()) continue;
      if (item.front() == '[')
        assign(fmt::format("{}[{}]", key, index), item, at);
      else
        setting.items.emplace_back(item.front() == '"' || item.front() == '\'' ? item.substr(1, item.size() - 2)
                                                                               : item);
      ++index;
    }
    settings_.add(std::move(setting));
  }

  /// `FullAC.Config()`, `CompileConfig(enable=True)`, `model_registry("405B", converters=[...])`
  void call(const std::string& key, std::string_view value, const Statement& at) {
    const std::size_t open = value.find('(');
    const std::string_view name = value.substr(0, open);
    add(key, name, at);
    const std::string_view arguments = value.substr(open + 1, value.size() - open - 2);
    int position = 0;
    for (const std::string_view argument : split_outside(arguments, ',')) {
      const std::vector<std::string_view> sides = split_outside(argument, '=');
      if (sides.size() == 2)
        assign(key + "." + std::string(sides[0]), sides[1], at);
      else
        assign(fmt::format("{}.{}", key, position), argument, at);
      ++position;
    }
  }

 public:
  /// `config = llama3_70b()` starts the configuration, `p = config.parallelism` names a part of it, `seq = 8192` a
  /// number.
  bool name(const Statement& statement) {
    const std::vector<std::string_view> sides = split_outside(statement.text, '=');
    if (sides.size() != 2 || sides[0].find('.') != std::string_view::npos) return false;
    if (const std::optional<std::int64_t> number = product(sides[1])) {
      numbers_[std::string(sides[0])] = *number;
      return true;
    }
    if (sides[1].size() > 2 && sides[1].substr(sides[1].size() - 2) == "()") {
      aliases_[std::string(sides[0])] = "";
      add("recipe", sides[1].substr(0, sides[1].size() - 2), statement);
      return true;
    }
    if (sides[1].back() == ')' && sides[0].find_first_of("([ ") == std::string_view::npos) {
      calls_[std::string(sides[0])] = std::string(sides[1]);
      if (sides[0] == "model_spec") assign("model_spec", sides[1], statement);
      return true;
    }
    if (sides[1].find_first_of("([{\"' ") != std::string_view::npos) return false;
    aliases_[std::string(sides[0])] = expand(sides[1]);
    return true;
  }

 private:
  static constexpr int kMostDepth = 16;
  Settings settings_{};
  int depth_ = 0;
  std::string file_{};
  std::map<std::string, std::string, std::less<>> aliases_{};  ///< name, and the section that it stands for
  std::map<std::string, std::int64_t, std::less<>> numbers_{};
  std::map<std::string, std::string, std::less<>> calls_{};  ///< name, and the call that made it
};

}  // namespace

Result<Settings> settings_of_python(const LaunchSource& source) {
  const Result<std::vector<Statement>> statements = statements_of(source);
  if (!statements) return tl::unexpected(statements.error());
  Recipe recipe(source);
  for (const Statement& statement : *statements)
    if (!recipe.name(statement)) recipe.statement(statement);
  return bounded(recipe.take(), source);
}

}  // namespace plan
