// Follows a bash script: which commands would run, with which words. Nothing is executed.
// Tested by tests/launch/shell_test.cpp.
#include "cli/launch/shell.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <memory>
#include <optional>
#include <utility>

#include "cli/launch/shell_statements.hpp"
#include "cli/launch/shell_text.hpp"
#include "cli/launch/shell_words.hpp"

namespace plan {
namespace {

using shell::Scope;
using shell::Text;
using shell::Token;
using shell::Value;

constexpr int kMostCommands = 20000;        // of one script, loops followed
constexpr int kDeepest = 16;                // scripts and functions within each other
constexpr std::size_t kMostNotes = 100;     // of one script
constexpr std::size_t kStatementCost = 64;  // characters' worth of work that even an empty statement takes

enum class Truth { No, Yes, Unknown };

Truth truth(bool value) { return value ? Truth::Yes : Truth::No; }
Truth negated(Truth value) { return value == Truth::Unknown ? value : value == Truth::Yes ? Truth::No : Truth::Yes; }

/// One open `if`, `case` or loop.
struct Block {
  enum class Kind { If, Case, Loop } kind = Kind::If;
  bool outer = true;           ///< whether what surrounds it runs
  bool active = true;          ///< whether the current branch runs
  bool taken = false;          ///< a branch has run or may have
  std::string name{};          ///< for: variable
  std::vector<Text> values{};  ///< for: those still to come, last first
  std::size_t body = 0;        ///< for: token where the body starts
};

/// Shared, since a body may define its own function anew while it runs.
using Function = std::shared_ptr<const std::vector<Token>>;

class Follower {
 public:
  Follower(const std::string& file, Script& script) : file_(file), script_(script) {}

  void run(std::string_view text, int first_line) {
    follow(shell::tokens(text, first_line));
    if (scope.budget == 0) stop(first_line);  // words may lack what could not be afforded
  }
  Scope scope{};

 private:
  void note(int line, std::string text) {
    Note note{"script_not_followed", fmt::format("{}:{}: {}", file_, line, text)};
    if (script_.notes.size() >= kMostNotes) return;
    const bool known = std::any_of(script_.notes.begin(), script_.notes.end(),
                                   [&](const Note& other) { return other.text == note.text; });
    if (!known) script_.notes.push_back(std::move(note));
  }

  /// Whether the script may go on; one whose loops never seem to end is left where it is.
  bool affords(std::size_t work, int line) {
    if (scope.spend(work)) return true;
    stop(line);
    return false;
  }
  void stop(int line) {
    note(line, "the script does too much to be followed further");
    stopped_ = true;
  }

  bool active() const { return blocks_.empty() || blocks_.back().active; }

  void follow(const std::vector<Token>& tokens) {
    if (++depth_ > kDeepest) {
      --depth_;
      return;
    }
    std::vector<Block> outer = std::move(blocks_);
    blocks_.clear();
    Truth last = Truth::Yes;
    for (std::size_t at = 0; at < tokens.size() && !stopped_;) {
      std::vector<Token> words;
      std::size_t work = kStatementCost;
      while (at < tokens.size() && tokens[at].word)
        work += tokens[at].raw.chars.size() + 1, words.push_back(tokens[at++]);
      if (!affords(work, at < tokens.size() ? tokens[at].line : 0)) break;
      const std::string op = at < tokens.size() ? tokens[at].raw.chars : "";
      if (function_starts(words, op, tokens, at)) continue;
      if (at < tokens.size()) ++at;
      const bool skip = (joined_ == "&&" && last != Truth::Yes) || (joined_ == "||" && last != Truth::No);
      if (!words.empty()) {
        const Truth now = statement(words, tokens, at, skip);
        if (!skip) last = now;
      }
      joined_ = op == "&&" || op == "||" ? op : "";
      if (joined_.empty() && condition_) decide(last);
      if (op == ";;") end_case_branch();
      if (in_case_ && (op == ";;" || op == "in")) at = case_pattern(tokens, at);
    }
    blocks_ = std::move(outer);
    --depth_;
  }

  /// `name() {` ... `}` and `function name {`: remembers the body. True if there was one.
  bool function_starts(const std::vector<Token>& words, const std::string& op, const std::vector<Token>& tokens,
                       std::size_t& at) {
    const std::optional<shell::FunctionText> found = shell::function_at(words, op, tokens, at);
    if (!found) return false;
    std::size_t work = 0;
    for (const Token& token : found->body) work += token.raw.chars.size() + 1;
    if (active() && affords(work, words.front().line))
      functions_[found->name] = std::make_shared<const std::vector<Token>>(found->body);
    at = found->end;
    joined_.clear();
    return true;
  }

  /// One command between separators, or keywords with one behind them.
  Truth statement(std::vector<Token>& words, const std::vector<Token>& tokens, std::size_t& at, bool skip) {
    bool negate = false;
    std::size_t keywords = 0;
    for (; keywords < words.size(); ++keywords) {
      const std::string& word = words[keywords].raw.chars;
      if (word == "else" && in(Block::Kind::If)) {
        Block& block = blocks_.back();
        block.active = block.outer && !block.taken;
        block.taken = true, skip = false;
      } else if (word != "then" && word != "do" && word != "{" && word != "!") {
        break;
      }
      negate ^= word == "!";
    }
    words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(keywords));
    const Truth value = words.empty() ? Truth::Yes : plain_statement(words, tokens, at, skip);
    return negate ? negated(value) : value;
  }

  /// The same behind `then`, `do`, `else`, `{` and `!`.
  Truth plain_statement(std::vector<Token>& words, const std::vector<Token>& tokens, std::size_t& at, bool skip) {
    const std::string first = words.front().raw.chars;
    const int line = words.front().line;
    const auto rest = [&] { words.erase(words.begin()); };
    if (first == "if") {
      blocks_.push_back({.kind = Block::Kind::If, .outer = active() && !skip, .active = active() && !skip});
      condition_ = blocks_.back().outer;
      return rest(), words.empty() ? Truth::Unknown : test(words);
    }
    if (first == "elif" && in(Block::Kind::If)) {
      blocks_.back().active = blocks_.back().outer && !blocks_.back().taken;
      condition_ = blocks_.back().active;
      return rest(), words.empty() ? Truth::Unknown : test(words);
    }
    if ((first == "fi" && in(Block::Kind::If)) || (first == "esac" && in(Block::Kind::Case))) return close_block();
    if (first == "done" && in(Block::Kind::Loop)) return end_loop(at);
    if (first == "for") return start_for(words, tokens, at, skip);
    if (first == "while" || first == "until" || first == "select") {
      if (active() && !skip) note(line, fmt::format("a `{}` loop is not followed", first));
      blocks_.push_back({.kind = Block::Kind::Loop, .outer = active(), .active = false});
      return Truth::Unknown;
    }
    if (first == "case") return start_case(words, skip);
    if (first == "}" || !active() || skip) return Truth::Yes;
    return test(words);
  }

  bool in(Block::Kind kind) const { return !blocks_.empty() && blocks_.back().kind == kind; }

  Truth close_block() {
    blocks_.pop_back();
    in_case_ = in(Block::Kind::Case);
    return Truth::Yes;
  }

  /// The condition of an `if` is known: its branch runs, or the next one is tried.
  void decide(Truth value) {
    condition_ = false;
    if (!in(Block::Kind::If)) return;
    Block& block = blocks_.back();
    if (value == Truth::Unknown) note(condition_line_, "a condition is not known; its branch is left out");
    block.active = value == Truth::Yes;
    block.taken |= block.active;
  }

  Truth start_for(std::vector<Token>& words, const std::vector<Token>&, std::size_t at, bool skip) {
    Block block{.kind = Block::Kind::Loop, .outer = active(), .active = false};
    if (active() && !skip) {
      if (words.size() > 2 && words[2].raw.chars == "in") {
        block.name = words[1].raw.chars;
        for (std::size_t i = 3; i < words.size(); ++i)
          for (Text& text : shell::expand(words[i].raw, scope)) block.values.push_back(std::move(text));
        std::reverse(block.values.begin(), block.values.end());
      } else {
        note(words.front().line, "a counting `for` loop is not followed");
      }
    }
    block.body = at;
    if (!block.values.empty()) {
      block.active = true;
      set(block.name, {{block.values.back()}, false, false});
      block.values.pop_back();
    }
    blocks_.push_back(std::move(block));
    return Truth::Yes;
  }

  Truth end_loop(std::size_t& at) {
    Block& block = blocks_.back();
    if (block.active && !block.values.empty()) {
      set(block.name, {{block.values.back()}, false, false});
      block.values.pop_back();
      at = block.body;
      return Truth::Yes;
    }
    return close_block();
  }

  /// `case WORD in`: what follows are patterns.
  Truth start_case(const std::vector<Token>& words, bool skip) {
    Block block{.kind = Block::Kind::Case, .outer = active() && !skip, .active = false};
    if (block.outer && words.size() > 1) block.values.push_back(shell::expand_one(words[1].raw, scope));
    blocks_.push_back(std::move(block));
    in_case_ = true;
    return Truth::Yes;
  }

  /// Reads `a|b)` from token `at`; returns the token behind it.
  std::size_t case_pattern(const std::vector<Token>& tokens, std::size_t at) {
    Block& block = blocks_.back();
    bool match = false;
    for (; at < tokens.size() && tokens[at].raw.chars != ")"; ++at) {
      if (tokens[at].word && tokens[at].raw.chars == "esac") return at;
      if (!tokens[at].word || block.values.empty()) continue;
      match |= shell::matches(shell::expand_one(tokens[at].raw, scope).chars, block.values.front().chars);
    }
    block.active = block.outer && !block.taken && match;
    block.taken |= block.active;
    return std::min(at + 1, tokens.size());
  }
  void end_case_branch() {
    if (in(Block::Kind::Case)) blocks_.back().active = false;
  }

  void set(const std::string& name, Value value) {
    Value& slot = scope.variables[name];
    value.exported = value.exported || slot.exported;
    slot = std::move(value);
    if (slot.exported) publish(name, slot);
  }
  void publish(const std::string& name, const Value& value) {
    const Text text = value.items.empty() ? Text{} : value.items.front();
    script_.exported[name] = {text.chars, text.line()};
  }

  /// A simple command or a test.
  Truth test(std::vector<Token> words) {
    condition_line_ = words.front().line;
    const auto start = std::find_if(words.begin(), words.end(), [](const Token& t) { return t.raw.chars != "!"; });
    const bool negate = (start - words.begin()) % 2 != 0;
    words.erase(words.begin(), start);
    const Truth value = words.empty() ? Truth::Unknown : plain_test(words);
    return negate ? negated(value) : value;
  }

  Truth plain_test(const std::vector<Token>& words) {
    const std::string& first = words.front().raw.chars;
    if (first == "[" || first == "[[" || first == "test") return compare(words);
    if (first.starts_with("((")) {
      const std::optional<long long> value =
          shell::arithmetic(std::string_view(first).substr(2, first.size() - 4), scope);
      return value ? truth(*value != 0) : Truth::Unknown;
    }
    return simple(words);
  }

  Truth simple(std::vector<Token> words) {
    std::vector<shell::Assignment> assigned;
    std::map<std::string, std::string> before;
    bool exports = false;
    while (!words.empty()) {
      const std::string& word = words.front().raw.chars;
      if (word == "export" || word == "declare" || word == "local" || word == "readonly" || word == "typeset") {
        exports |= word == "export";
        words.erase(words.begin());
        while (!words.empty() && words.front().raw.chars.starts_with('-')) words.erase(words.begin());
        return declare(words, exports);
      }
      std::optional<shell::Assignment> set_to = shell::assignment(words.front(), scope);
      if (!set_to) break;
      words.erase(words.begin());
      assigned.push_back(std::move(*set_to));
    }
    if (words.empty()) {
      for (auto& [name, value] : assigned) set(name, std::move(value));
      return Truth::Yes;
    }
    for (const auto& [name, value] : assigned)
      before[name] = value.items.empty() ? std::string() : value.items.front().chars;
    return command(words, std::move(before));
  }

  /// `export A=1 B`, `local C=2`.
  Truth declare(const std::vector<Token>& words, bool exports) {
    for (const Token& word : words) {
      if (std::optional<shell::Assignment> set_to = shell::assignment(word, scope)) {
        set_to->value.exported = exports;
        set(set_to->name, std::move(set_to->value));
      } else if (exports && scope.variables.contains(word.raw.chars)) {
        Value& value = scope.variables[word.raw.chars];
        value.exported = true;
        publish(word.raw.chars, value);
      }
    }
    return Truth::Yes;
  }

  Truth command(const std::vector<Token>& raw, std::map<std::string, std::string> environment) {
    if (++commands_ > kMostCommands) {
      stopped_ = true;
      return Truth::Unknown;
    }
    std::vector<Text> words;
    for (const Token& token : raw)
      for (Text& text : shell::expand(token.raw, scope)) words.push_back(std::move(text));
    if (words.empty()) return Truth::Yes;
    const std::string& name = words.front().chars;
    if (name == "exit" || name == "return") {
      stopped_ = name == "exit" && depth_ == 1;
      return Truth::Yes;
    }
    if (name == "true" || name == ":") return Truth::Yes;
    if (name == "false") return Truth::No;
    if (name == "set" || name == "shopt" || name == "echo" || name == "printf") return Truth::Yes;
    if (name == "source" || name == ".")
      note(raw.front().line, fmt::format("`{}` is not followed; give it with its own `--from`",
                                         words.size() > 1 ? words[1].chars : "source"));
    if (const auto found = functions_.find(name); found != functions_.end())
      return call(Function(found->second), words);
    if (name == "eval") return inner(joined_words(words, 1), words, words.size());
    record(words, std::move(environment));
    return follow_dash_c(words);
  }

  Truth call(const Function& body, const std::vector<Text>& words) {
    std::vector<Text> outer = std::exchange(scope.positional, words);
    const bool knew = std::exchange(scope.knows_positional, true);
    follow(*body);
    scope.positional = std::move(outer);
    scope.knows_positional = knew;
    return Truth::Yes;
  }

  static Text joined_words(const std::vector<Text>& words, std::size_t from) {
    Text out;
    for (std::size_t i = from; i < words.size(); ++i) {
      if (i > from) out.add(' ', words[i].line());
      out.add(words[i]);
    }
    return out;
  }

  /// Follows `text` as a script of its own, with the words from `from` on as `$0 $1 ...`.
  Truth inner(const Text& text, const std::vector<Text>& words, std::size_t from) {
    std::vector<Text> outer = scope.positional;
    const bool knew = scope.knows_positional;
    if (from < words.size()) {
      scope.positional.assign(words.begin() + static_cast<std::ptrdiff_t>(from), words.end());
      scope.knows_positional = true;
    }
    follow(shell::tokens(text));
    scope.positional = std::move(outer);
    scope.knows_positional = knew;
    return Truth::Yes;
  }

  /// `srun ... bash -c 'torchrun ... "$@"' name arguments`
  Truth follow_dash_c(const std::vector<Text>& words) {
    for (std::size_t i = 0; i + 2 < words.size(); ++i) {
      const std::string_view name = words[i].chars;
      const bool is_shell = name == "bash" || name == "sh" || name.ends_with("/bash") || name.ends_with("/sh");
      if (is_shell && words[i + 1].chars.starts_with('-') && words[i + 1].chars.ends_with('c'))
        return inner(words[i + 2], words, i + 3);
    }
    return Truth::Yes;
  }

  void record(const std::vector<Text>& words, std::map<std::string, std::string> environment) {
    ShellCommand command;
    command.environment = std::move(environment);
    for (const auto& [name, word] : script_.exported)
      if (scope.spend(name.size() + word.text.size())) command.environment.try_emplace(name, word.text);
    int line = 0;
    for (const Text& word : words) {
      line = word.line(line);
      command.words.push_back({word.chars, line});
    }
    script_.commands.push_back(std::move(command));
  }

  Truth compare(const std::vector<Token>& raw) {
    std::vector<std::string> words;
    bool known = true;
    for (std::size_t i = 1; i < raw.size(); ++i) {
      if (raw[i].raw.chars == "]" || raw[i].raw.chars == "]]") break;
      const Text text = shell::expand_one(raw[i].raw, scope);
      words.push_back(text.chars);
      known &= text.chars.find('$') == std::string::npos && text.chars.find('`') == std::string::npos;
    }
    // An unset name is empty to bash, but whether it is set where the script runs is not known here.
    if (!known) return Truth::Unknown;
    return shell::compare(words) ? truth(*shell::compare(words)) : Truth::Unknown;
  }

  const std::string& file_;
  Script& script_;
  std::vector<Block> blocks_{};
  std::map<std::string, Function> functions_{};
  std::string joined_{};
  bool condition_ = false;
  int condition_line_ = 0;
  bool in_case_ = false;
  bool stopped_ = false;
  int depth_ = 0;
  int commands_ = 0;
};

}  // namespace

Script follow_script(std::string_view text, const std::string& file) {
  Script script;
  script.sbatch = shell::sbatch_directives(text);
  Follower follower(file, script);
  shell::set_slurm_variables(script.sbatch, follower.scope);
  follower.run(text, 1);
  return script;
}

}  // namespace plan
