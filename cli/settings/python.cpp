// A torchtitan recipe is a Python function that sets attributes. This follows its assignments one by one without
// running anything: names for parts of the configuration, whole numbers with + - * //, words, lists, and calls by name.
// What it does not follow is kept as a setting for the reader to tell. Tested by tests/launch/python_recipes_test.cpp.
#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "cli/settings/python_statements.hpp"
#include "cli/settings/settings.hpp"
#include "cli/shell/text.hpp"
#include "formulas/text.hpp"

namespace plan {
namespace {

using namespace python;

/// Sections of a configuration that weigh: an assignment to one of them tells that its object is the configuration.
constexpr std::string_view kSections[] = {"training",  "parallelism", "activation_checkpoint", "compile", "model_spec",
                                          "optimizer", "loss"};
/// Names that say nothing of memory or time, whatever sets them.
constexpr std::string_view kHarmless[] = {"profiler",     "profiling",      "metrics",      "tokenizer", "dataloader",
                                          "lr_scheduler", "checkpoint",     "checkpointer", "comm",      "validator",
                                          "validation",   "hf_assets_path", "dump_folder"};

bool one_of(std::string_view word, const auto& words) {
  return std::find(std::begin(words), std::end(words), word) != std::end(words);
}
std::string_view first_part(std::string_view path) { return path.substr(0, path.find('.')); }
std::string_view behind_first(std::string_view path) {
  const std::size_t dot = path.find('.');
  return dot == std::string_view::npos ? std::string_view{} : path.substr(dot + 1);
}
/// Follows names and writes settings.
class Recipe {
 public:
  explicit Recipe(const LaunchSource& source) { settings_.remember(source), file_ = source.path; }

  void follow(const std::vector<Statement>& statements) {
    for (const Statement& statement : statements) {
      while (!blocks_.empty() && statement.indent <= blocks_.back().indent) blocks_.pop_back();
      if (opens(statement)) continue;
      const Block::Kind kind = blocks_.empty() ? Block::Plain : blocks_.back().kind;
      if (kind == Block::Skipped || ended_) continue;
      if (kind == Block::Conditional)
        conditional(statement);
      else
        plain(statement);
    }
  }
  Settings take() { return std::move(settings_); }
  [[nodiscard]] std::size_t steps() const { return steps_; }

 private:
  struct Block {
    enum Kind { Plain, Conditional, Skipped } kind = Plain;
    int indent = 0;
  };

  /// Headers of blocks. What a function of the recipe's own does is not followed, nor what a class is.
  bool opens(const Statement& statement) {
    const std::string_view text = statement.text;
    if (!text.ends_with(':')) return false;
    const Block::Kind outer = blocks_.empty() ? Block::Plain : blocks_.back().kind;
    const auto starts = [&](std::string_view word) {
      return text.starts_with(word) && text.find_first_of(" :(") == word.size();
    };
    Block::Kind kind = Block::Conditional;
    if (starts("def") || starts("class") || starts("async")) {
      kind = blocks_.empty() && starts("def") ? Block::Plain : Block::Skipped;
      if (kind == Block::Plain) ended_ = false, parameters(text);
    } else if (starts("with") && outer != Block::Conditional) {
      kind = Block::Plain;
    } else if (std::none_of(std::begin(kHeaders), std::end(kHeaders), starts)) {
      return false;
    }
    if (outer == Block::Skipped) kind = Block::Skipped;
    // What a module does when it is run by itself is not what its recipe does.
    if (blocks_.empty() && text.find("__main__") != std::string_view::npos) kind = Block::Skipped;
    blocks_.push_back({kind, statement.indent});
    return true;
  }
  static constexpr std::string_view kHeaders[] = {"if",  "elif",   "else",    "for",   "while",
                                                  "try", "except", "finally", "match", "case"};

  /// `def mine(tp: int = 8)`: a default counts, since torchtitan calls a recipe without arguments.
  void parameters(std::string_view header) {
    const std::size_t open = header.find('('), close = header.rfind(')');
    if (open == std::string_view::npos || close == std::string_view::npos || close < open) return;
    for (const std::string_view part : split_outside(header.substr(open + 1, close - open - 1), ',')) {
      const std::vector<std::string_view> sides = split_assignment(part);
      if (sides.size() == 2) local(before(':', sides[0]), sides[1], {});
    }
  }
  static std::string_view before(char separator, std::string_view text) {  // an empty text has no parts
    const std::vector<std::string_view> parts = split_outside(text, separator);
    return parts.empty() ? text : parts.front();
  }

  /// `config.training` as `training`, `p.x` as what `p` stands for; nothing for what is no part of a configuration.
  std::optional<std::string> path_of(std::string_view name, const Statement& at) {
    if (std::optional<std::string> known = known_path(name)) return known;
    const std::string_view base = first_part(name), rest = behind_first(name);
    // An object of unknown make with a part that weighs is the configuration, unless that is known already.
    const auto call = calls_.find(base);
    if (rest.empty()) return std::nullopt;
    if (!one_of(first_part(rest), kSections) || (rooted_ && call == calls_.end()))
      return not_followed(at), std::nullopt;
    if (call != calls_.end() && !rooted_) add("recipe", call->second.substr(0, call->second.find('(')), at);
    aliases_[std::string(base)] = "", rooted_ = true;
    return std::string(rest);
  }

  void not_followed(const Statement& at) { add(fmt::format("not_followed[{}]", others_++), at.text, at); }

  /// A name of the function's own, or of the module's.
  void local(std::string_view name, std::string_view value, const Statement& at) {
    const std::string key(name);
    forget(name);
    if (const std::optional<std::int64_t> number = number_of(value)) {
      numbers_.variables[key].items = {shell::Text{fmt::format("{}", *number), {}}};
    } else if (is_quoted(value) || value.starts_with('[')) {
      words_[key] = std::string(value);
    } else if (const auto word = words_.find(value); word != words_.end()) {
      words_[key] = word->second;
    } else if (is_call(value)) {
      made(key, value, at);
    } else if (is_name(value)) {
      if (const auto call = calls_.find(value); call != calls_.end()) calls_[key] = call->second;
      if (const std::optional<std::string> path = known_path(value)) aliases_[key] = *path;
    }
  }
  /// `config = llama3_70b()` starts a configuration, `config = Trainer.Config(...)` is one.
  void made(const std::string& name, std::string_view call, const Statement& at) {
    const std::string_view what = call.substr(0, call.find('('));
    if (what.ends_with("Trainer.Config") && !rooted_) {
      aliases_[name] = "", rooted_ = true;
      return keywords("", arguments_of(call), at);
    }
    if (arguments_of(call).empty() && what.find('.') == std::string_view::npos && !what.ends_with("Config")) {
      aliases_[name] = "", rooted_ = true;
      return add("recipe", what, at);
    }
    calls_[name] = std::string(call);
  }
  void forget(std::string_view name) {
    const std::string key(name);
    aliases_.erase(key), words_.erase(key), calls_.erase(key), numbers_.variables.erase(key);
  }

  void plain(const Statement& statement) {
    const std::string_view text = statement.text;
    const std::vector<std::string_view> words = split_outside(text, ' ');
    if (words.size() >= 4 && words[0] == "from" && words[2] == "import") {
      if (text.find("model_registry") != std::string_view::npos) imported(words[1], statement);
      return;
    }
    if (words[0] == "return") return returned(trim(text.substr(6), kWhiteSpace), statement);
    if (one_of(words[0], kIdle) || text.starts_with('"') || text.starts_with('\'') || text.starts_with('@')) return;
    const std::vector<std::string_view> sides = split_assignment(text);
    if (sides.size() < 2) return expression(statement);
    for (std::size_t i = 0; i + 1 < sides.size(); ++i) targets(sides[i], sides.back(), statement);
  }
  static constexpr std::string_view kIdle[] = {"import", "assert", "pass",     "global",
                                               "raise",  "print",  "nonlocal", "del"};

  void targets(std::string_view target, std::string_view value, const Statement& at) {
    const std::vector<std::string_view> names = split_outside(target, ','), values = split_outside(value, ',');
    if (names.size() > 1 && names.size() == values.size()) {
      for (std::size_t i = 0; i < names.size(); ++i) targets(names[i], values[i], at);
      return;
    }
    const std::size_t bare = target.find_last_not_of("+-*/%|&^@") + 1;  // behind the name of `x *= 2`
    if (bare > 0 && bare < target.size()) {
      const std::string_view name = trim(target.substr(0, bare), kWhiteSpace);
      return targets(name, fmt::format("{} {} ({})", name, target.substr(bare), value), at);
    }
    const std::string_view name = before(':', target);
    if (!is_name(name)) return expression(at);
    if (name.find('.') == std::string_view::npos) return local(name, value, at);
    if (const auto call = calls_.find(first_part(name));
        call != calls_.end() && !one_of(first_part(behind_first(name)), kSections))
      return changed(std::string(first_part(name)), behind_first(name), value);
    if (const std::optional<std::string> path = path_of(name, at); path && !path->empty()) assign(*path, value, at);
  }
  /// `parallelism.tensor_parallel_degree = 8` behind `parallelism = ParallelismConfig()`: one argument more.
  void changed(const std::string& name, std::string_view attribute, std::string_view value) {
    std::string& call = calls_[name];
    const bool bare = arguments_of(call).empty();
    call.insert(call.size() - 1, fmt::format("{}{}={}", bare ? "" : ", ", attribute, value));
  }

  /// A statement that assigns nothing: a call that is given a part of the configuration may change it.
  void expression(const Statement& at) {
    const std::string_view text = at.text;
    if (text.starts_with("setattr(") && is_call(text)) {
      const std::vector<std::string_view> parts = split_outside(arguments_of(text), ',');
      if (parts.size() == 3 && is_name(parts[0]) && is_quoted(parts[1]))
        return targets(fmt::format("{}.{}", parts[0], parts[1].substr(1, parts[1].size() - 2)), parts[2], at);
    }
    if (text.find("__post_init__") == std::string_view::npos && touches(text)) not_followed(at);
  }
  /// Does a text name the configuration, or a part of it that weighs?
  [[nodiscard]] bool touches(std::string_view text) const {
    for (const std::string_view name : names_in(text)) {
      const auto alias = aliases_.find(first_part(name));
      if (alias == aliases_.end()) continue;
      const std::string_view section =
          alias->second.empty() ? first_part(behind_first(name)) : first_part(alias->second);
      if (!one_of(section, kHarmless)) return true;
    }
    return false;
  }

  /// Under a condition or in a loop: what it sets is not known, and a name that it sets neither.
  void conditional(const Statement& at) {
    const std::vector<std::string_view> sides = split_assignment(at.text);
    if (one_of(before(' ', at.text), kIdle)) return;
    if (sides.size() < 2) {
      if (at.text.starts_with("return") || touches(at.text)) not_followed(at);
      return;
    }
    bool sets = false;
    for (std::size_t i = 0; i + 1 < sides.size(); ++i)
      for (const std::string_view target : split_outside(before(':', sides[i]), ','))
        if (target.find('.') == std::string_view::npos)
          forget(target);
        else
          sets |= touches(target) || one_of(first_part(behind_first(target)), kSections);
    if (sets || touches(sides.back())) not_followed(at);
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
  void returned(std::string_view value, const Statement& at) {
    ended_ = true;
    if (!is_call(value)) {
      const auto call = calls_.find(value);
      if (call != calls_.end()) returned(std::string(call->second), at);
      return;
    }
    const std::string_view what = value.substr(0, value.find('('));
    if (what.ends_with("Config")) return keywords("", arguments_of(value), at);
    if (arguments_of(value).empty()) return add("recipe", what, at);
    if (what.ends_with("replace")) return replaced("", value, at);
    not_followed(at);
  }
  /// `dataclasses.replace(config.training, steps=5)`
  void replaced(const std::string& key, std::string_view call, const Statement& at) {
    const std::vector<std::string_view> parts = split_outside(arguments_of(call), ',');
    const std::optional<std::string> path = parts.empty() || !is_name(parts[0]) ? std::nullopt : path_of(parts[0], at);
    if (!path || *path != key) return not_followed(at);
    const std::string_view arguments = arguments_of(call);
    const std::size_t comma = arguments.find(',');
    if (comma != std::string_view::npos) keywords(key, arguments.substr(comma + 1), at);
  }
  // NOLINTNEXTLINE(misc-no-recursion): as deep as kMostDepth
  void keywords(const std::string& section, std::string_view arguments, const Statement& at) {
    int position = 0;
    for (const std::string_view argument : split_outside(arguments, ',')) {
      const std::vector<std::string_view> sides = split_assignment(argument);
      const std::string dot = section.empty() ? "" : section + ".";
      if (argument.starts_with('*'))
        not_followed(at);
      else if (sides.size() == 2)
        assign(dot + std::string(sides[0]), sides[1], at);
      else if (!section.empty())
        assign(fmt::format("{}{}", dot, position), argument, at);
      ++position;
    }
  }

  // NOLINTNEXTLINE(misc-no-recursion)
  void assign(const std::string& key, std::string_view value, const Statement& at) {
    if (value.empty() || depth_ > kMostDepth || ++steps_ > kMostKeys) return;  // names of calls of names multiply
    ++depth_;
    assign_value(key, value, at);
    --depth_;
  }

  // NOLINTNEXTLINE(misc-no-recursion)
  void assign_value(const std::string& key, std::string_view value, const Statement& at) {
    if (value == "None") return add(key, "none", at);
    if (const auto call = calls_.find(value); call != calls_.end()) return assign(key, std::string(call->second), at);
    if (const auto word = words_.find(value); word != words_.end()) return assign(key, std::string(word->second), at);
    if (is_quoted(value)) {  // a number between quotes is none
      const std::string_view word = value.substr(1, value.size() - 2);
      return add(key, to_integer(word) ? value : word, at);
    }
    if (value.starts_with('[') && value.ends_with(']')) return list(key, value, at);
    if (const std::optional<std::int64_t> number = number_of(value)) return add(key, fmt::format("{}", *number), at);
    if (is_call(value)) return call(key, value, at);
    if (is_name(value))
      if (const std::optional<std::string> path = known_path(value)) return copy(key, *path, value, at);
    add(key, value, at);
  }
  [[nodiscard]] std::optional<std::string> known_path(std::string_view name) const {
    const auto alias = aliases_.find(first_part(name));
    if (alias == aliases_.end()) return std::nullopt;
    const std::string_view rest = behind_first(name);
    if (alias->second.empty() || rest.empty()) return alias->second + std::string(rest);
    return fmt::format("{}.{}", alias->second, rest);
  }
  /// `config.training.max_context_length`, where it was set before; its name otherwise, which is no value.
  void copy(const std::string& key, const std::string& from, std::string_view value, const Statement& at) {
    const Setting* set = settings_.find(from);
    add(key, set != nullptr && !set->list ? std::string(set->value) : std::string(value), at);
  }

  /// `8192 * 32 * 8`, `LAYERS // 2`
  [[nodiscard]] std::optional<std::int64_t> number_of(std::string_view text) {
    if (const std::optional<std::int64_t> number = to_integer(text)) return number;
    std::string plain = with_shell_signs(text);
    if (plain.empty()) return std::nullopt;
    for (const std::string_view name : names_in(text)) {  // parts of the configuration that were set before
      const std::optional<std::string> path =
          name.find('.') == std::string_view::npos ? std::nullopt : known_path(name);
      if (!path) continue;
      const Setting* set = settings_.find(*path);
      if (set == nullptr || set->list || !to_integer(set->value)) return std::nullopt;
      plain.replace(plain.find(name), name.size(), set->value);
    }
    const std::optional<long long> value = shell::arithmetic(plain, numbers_);
    constexpr long long kMost = 1'000'000'000'000'000;
    return value && *value <= kMost && *value >= -kMost ? std::optional<std::int64_t>(*value) : std::nullopt;
  }

  // NOLINTNEXTLINE(misc-no-recursion)
  void list(const std::string& key, std::string_view value, const Statement& at) {
    Setting setting{.key = key, .value = {}, .items = {}, .list = true, .place = place(at)};
    std::size_t index = 0;
    for (const std::string_view item : split_outside(value.substr(1, value.size() - 2), ',')) {
      if (item.empty()) continue;
      if (item.starts_with('['))
        assign(fmt::format("{}[{}]", key, index), item, at);
      else
        setting.items.emplace_back(is_quoted(item) ? item.substr(1, item.size() - 2) : item);
      ++index;
    }
    settings_.add(std::move(setting));
  }

  /// `FullAC.Config()`, `CompileConfig(enable=True)`, `model_registry("405B", converters=[...])`: an object of its own,
  /// with nothing of what was there.
  // NOLINTNEXTLINE(misc-no-recursion)
  void call(const std::string& key, std::string_view value, const Statement& at) {
    const std::string_view name = value.substr(0, value.find('('));
    if (name.ends_with("replace")) return replaced(key, value, at);
    settings_.replace_section(key);
    add(key, name, at);
    keywords(key, arguments_of(value), at);
  }

  [[nodiscard]] Place place(const Statement& at) const {
    return {.file = file_, .line = at.line, .column = at.column, .length = 1, .text = {}};
  }
  void add(const std::string& key, std::string_view value, const Statement& at) {
    settings_.add({.key = key, .value = std::string(value), .items = {}, .list = false, .place = place(at)});
  }

  static constexpr std::size_t kMostDepth = 16;
  Settings settings_{};
  std::size_t depth_ = 0, others_ = 0, steps_ = 0;
  bool rooted_ = false;  ///< a name stands for the configuration
  bool ended_ = false;   ///< behind the function's `return`
  std::string file_{};
  std::vector<Block> blocks_{};
  std::map<std::string, std::string, std::less<>> aliases_{};  ///< name, and the section that it stands for
  std::map<std::string, std::string, std::less<>> words_{};    ///< name, and its word between quotes or its list
  std::map<std::string, std::string, std::less<>> calls_{};    ///< name, and the call that made it
  shell::Scope numbers_{};
};

}  // namespace

Result<Settings> settings_of_python(const LaunchSource& source) {
  const Result<std::vector<Statement>> statements = statements_of(source);
  if (!statements) return tl::unexpected(statements.error());
  Recipe recipe(source);
  recipe.follow(*statements);
  if (std::optional<Error> error = too_many("values", recipe.steps(), source.path)) return fail(std::move(*error));
  return bounded(recipe.take(), source);
}

}  // namespace plan
