// Which statements of a script run: `&&` and `||`, `if`, `case`, `for`, functions. Tested by
// tests/launch/shell_test.cpp.
#include "cli/shell/follower.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "cli/shell/statements.hpp"

namespace plan::shell {
namespace {

constexpr int kDeepest = 16;                // scripts and functions within each other
constexpr std::size_t kStatementCost = 64;  // characters' worth of work that even an empty statement takes

/// Whether the condition of an `if` or a loop ends at token `at`: of `if a; b; then` the last command decides.
bool ends_condition(const std::vector<Token>& tokens, std::size_t at) {
  while (at < tokens.size() && !tokens[at].word && tokens[at].raw.chars == "\n") ++at;
  return at >= tokens.size() || tokens[at].raw.chars == "then" || tokens[at].raw.chars == "do";
}

}  // namespace

Truth Follower::follow(const std::vector<Token>& tokens) {
  if (++depth_ > kDeepest) {
    --depth_;
    return Truth::Unknown;
  }
  std::vector<Block> outer = std::exchange(blocks_, {});  // a function may be called in the midst of a statement
  joined_.clear();
  Truth last = Truth::Yes;
  Pipeline pipeline;
  std::size_t at = 0;
  while (at < tokens.size() && !stopped_ && !exited_ && !returned_) {
    std::vector<Token> words;
    statement_at_ = at;
    std::size_t work = kStatementCost;
    redirections_.clear();
    for (; at < tokens.size() && tokens[at].word; ++at) {
      work += tokens[at].raw.chars.size() + 1;
      (tokens[at].redirection == Redirection::None ? words : redirections_).push_back(tokens[at]);
    }
    if (!affords(work, at < tokens.size() ? tokens[at].line : 0)) break;
    std::string op = at < tokens.size() ? tokens[at].raw.chars : "";
    if (function_starts(words, op, tokens, at)) continue;
    if (at < tokens.size()) ++at;
    if (!pipeline.open)
      pipeline = {.skips = (joined_ == "&&" && last != Truth::Yes) || (joined_ == "||" && last != Truth::No),
                  .denied = denies(words)};
    const bool piped = pipeline.open;
    pipeline.open = op == "|";
    const std::string before = words.empty() ? "" : std::exchange(assumed_, {});
    input_ = std::exchange(printed_, std::nullopt);
    if (!piped) input_.reset();
    if (!words.empty()) {
      if (!joined_.empty() && active()) tell_joined(last, tokens, before);
      const std::string first = words.front().raw.chars;
      // Behind a branch that ran, the next one says nothing of what has come out, and neither does the end of them.
      const bool runs = active() && first != "else" && first != "elif", closes = first == "}";
      const bool ends = ends_block(first), keeps = ends && keeps_last(blocks_.back());
      const bool denied = ends && blocks_.back().outer && blocks_.back().denied;
      const std::size_t behind = at;
      Truth now = statement(words, tokens, at, pipeline.skips);
      if (at != behind) pipeline.open = false, op.clear();  // a loop begins its next turn: what is behind it waits
      if (piped && !pipeline.open && pipeline.denied) now = negated(now);
      if (!pipeline.skips && !closes && !keeps && (runs || active())) last = now;
      if (closes) assumed_ = before;
      if (denied && at == behind) deny(pipeline, last);
    }
    joined_ = op == "&&" || op == "||" ? op : "";
    if (joined_.empty() && !pipeline.open && !blocks_.empty() && blocks_.back().condition && ends_condition(tokens, at))
      decide(last, tokens, at);
    if (op == ";;") end_case_branch();
    if (in(Block::Kind::Case) && (op == ";;" || op == "in")) at = case_pattern(tokens, at);
  }
  if (exited_ && depth_ == 1) tell_end(tokens, at);
  blocks_ = std::move(outer);
  returned_ = false;
  printed_.reset();  // of several statements the last one printed only its own part
  --depth_;
  return last;
}

bool Follower::function_starts(const std::vector<Token>& words, const std::string& op, const std::vector<Token>& tokens,
                               std::size_t& at) {
  const std::optional<FunctionText> found = function_at(words, op, tokens, at);
  if (!found) return false;
  std::size_t work = 0;
  for (const Token& token : found->body) work += token.raw.chars.size() + 1;
  if (active() && affords(work, words.front().line))
    functions_[found->name] = std::make_shared<const std::vector<Token>>(found->body);
  at = found->end;
  joined_.clear();
  return true;
}

bool Follower::ends_block(std::string_view first) const {
  return (first == "}" && in(Block::Kind::Group)) || (first == "fi" && in(Block::Kind::If)) ||
         (first == "esac" && in(Block::Kind::Case)) || (first == "done" && in(Block::Kind::Loop));
}

bool Follower::keeps_last(const Block& block) {
  if (block.kind == Block::Kind::Group || !block.outer) return true;  // one that is left out leaves what was before it
  if (block.kind == Block::Kind::Loop) return block.active && !block.asks;
  return block.taken;
}

Truth Follower::statement(std::vector<Token>& words, const std::vector<Token>& tokens, std::size_t& at, bool skip) {
  bool negate = false;
  std::size_t keywords = 0;
  for (; keywords < words.size(); ++keywords) {
    const std::string& word = words[keywords].raw.chars;
    if (word == "{") {
      const bool runs = active() && !skip;
      blocks_.push_back({.kind = Block::Kind::Group, .outer = runs, .active = runs, .denied = negate});
      negate = false;
    }
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
  const std::size_t outer = blocks_.size();
  const Truth value = words.empty() ? Truth::Yes : plain_statement(words, tokens, at, skip);
  if (blocks_.size() <= outer) return negate ? negated(value) : value;
  blocks_[outer].denied |= negate;  // `! if`: what the whole of it comes to is denied
  return value;
}

Truth Follower::plain_statement(std::vector<Token>& words, const std::vector<Token>& tokens, std::size_t& at,
                                bool skip) {
  const std::string first = words.front().raw.chars;
  const int line = words.front().line;
  const auto rest = [&] { words.erase(words.begin()); };
  if (first == "if") {
    blocks_.push_back({.kind = Block::Kind::If, .outer = active() && !skip, .active = active() && !skip});
    return rest(), condition(words, tokens, at);
  }
  if (first == "elif" && in(Block::Kind::If)) {
    blocks_.back().active = blocks_.back().outer && !blocks_.back().taken;
    return rest(), condition(words, tokens, at);
  }
  if ((first == "fi" && in(Block::Kind::If)) || (first == "esac" && in(Block::Kind::Case))) return close_block();
  if (first == "}" && in(Block::Kind::Group)) return close_block();
  if (first == "done" && in(Block::Kind::Loop)) return end_loop(at);
  if (first == "for") return start_for(words, tokens, at, skip);
  if (first == "while" || first == "until") return start_while(words, tokens, skip);
  if (first == "break" || first == "continue") {
    if (active() && !skip) leave_turn(first == "break");
    return Truth::Yes;
  }
  if (first == "select") {
    if (active() && !skip) note(line, "a `select` loop is not followed");
    blocks_.push_back({.kind = Block::Kind::Loop, .outer = active() && !skip, .active = false});
    return Truth::Unknown;
  }
  if (first == "case") return start_case(words, tokens, at, skip);
  if (first == "}" || !active() || skip) return Truth::Yes;
  return test(words);
}

Truth Follower::close_block() {
  blocks_.pop_back();
  return Truth::Yes;
}

void Follower::deny(Pipeline& pipeline, Truth& last) {
  if (pipeline.open)
    pipeline.denied = true;
  else
    last = negated(last);
}

Truth Follower::condition(std::vector<Token>& words, const std::vector<Token>& tokens, std::size_t& at) {
  blocks_.back().condition = blocks_.back().active;
  return words.empty() ? Truth::Unknown : statement(words, tokens, at, false);  // which may open a block left out
}

void Follower::decide(Truth value, const std::vector<Token>& tokens, std::size_t at) {
  Block& block = blocks_.back();
  block.condition = false;
  if (block.kind == Block::Kind::Loop) {
    if (value == Truth::Unknown) note(condition_line_, "a loop whose condition is not known is left out");
    block.active = value == (block.until ? Truth::No : Truth::Yes);
    return;
  }
  tell_condition(value, tokens, at);
  block.active = value == Truth::Yes;
  block.taken |= block.active;
}

/// `((i=0; i<N; i++))`: every value of the counter, where the body leaves it alone. False if it cannot be followed.
bool Follower::counted(const Token& token, Block& block) {
  constexpr std::size_t kMostTurns = 10'000;
  std::string_view text = token.raw.chars;
  if (!text.starts_with("((") || !text.ends_with("))")) return false;
  text = text.substr(2, text.size() - 4);
  const std::size_t first = text.find(';'), second = text.find(';', first + 1), equals = text.find('=');
  if (first == std::string_view::npos || second == std::string_view::npos || equals > first) return false;
  const auto trimmed = [](std::string_view part) {
    std::string out(part);
    std::erase(out, ' ');
    return out;
  };
  const std::string name = trimmed(text.substr(0, equals)), step = trimmed(text.substr(second + 1));
  const std::string_view condition = text.substr(first + 1, second - first - 1);
  std::string by = "1";
  if (step.starts_with(name + "+="))
    by = step.substr(name.size() + 2);
  else if (step != name + "++" && step != "++" + name)
    return false;
  std::optional<long long> value = arithmetic(text.substr(equals + 1, first - equals - 1), scope);
  Scope inside = scope;
  while (value && block.values.size() < kMostTurns && affords(1, token.line)) {
    Text shown;
    shown.add(std::to_string(*value), token.line);
    inside.variables[name] = {{shown}, false, false};
    const std::optional<long long> goes_on = arithmetic(condition, inside), more = arithmetic(by, inside);
    if (!goes_on || !more || *more <= 0) return block.values.clear(), false;
    if (*goes_on == 0) break;
    block.values.push_back(std::move(shown));
    *value += *more;
  }
  block.name = name;
  std::reverse(block.values.begin(), block.values.end());
  return value.has_value() && block.values.size() < kMostTurns;
}

Truth Follower::start_for(std::vector<Token>& words, const std::vector<Token>&, std::size_t at, bool skip) {
  Block block{.kind = Block::Kind::Loop, .outer = active() && !skip, .active = false};
  if (active() && !skip) {
    if (words.size() > 2 && words[2].raw.chars == "in") {
      block.name = words[1].raw.chars;
      for (std::size_t i = 3; i < words.size(); ++i)
        for (Text& text : expand(words[i].raw, scope)) block.values.push_back(std::move(text));
      std::reverse(block.values.begin(), block.values.end());
    } else if (words.size() == 2 && !words[1].raw.chars.starts_with("((") && scope.knows_positional) {
      block.name = words[1].raw.chars;  // `for word; do`: over the arguments
      if (!scope.positional.empty()) block.values.assign(scope.positional.rbegin(), std::prev(scope.positional.rend()));
    } else if (words.size() != 2 || !counted(words[1], block)) {
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

namespace {

/// Whether a condition asks for nothing that runs: a test, a constant, the next option.
bool asks_nobody(const std::vector<Token>& words) {
  constexpr std::string_view kTests[] = {"[", "[[", "test", "true", ":", "getopts"};
  const auto first = std::find_if(words.begin(), words.end(), [](const Token& word) { return word.raw.chars != "!"; });
  if (first == words.end()) return false;
  return first->raw.chars.starts_with("((") ||
         std::find(std::begin(kTests), std::end(kTests), first->raw.chars) != std::end(kTests);
}

/// `$#`, `"$1"` and getopts ask for the arguments.
bool asks_for_arguments(const std::vector<Token>& words) {
  return std::any_of(words.begin(), words.end(), [](const Token& word) {
    const std::string& text = word.raw.chars;
    return text == "getopts" || text.find("$#") != text.npos || text.find("$1") != text.npos ||
           text.find("${1") != text.npos;
  });
}

}  // namespace

Truth Follower::start_while(std::vector<Token>& words, const std::vector<Token>& tokens, bool skip) {
  const std::string head = words.front().raw.chars;
  const int line = words.front().line;
  const std::optional<std::string> before = std::exchange(again_, std::nullopt);
  Block block{.kind = Block::Kind::Loop, .outer = active() && !skip, .active = active() && !skip};
  block.asks = true, block.until = head == "until", block.body = statement_at_;
  block.denied = std::exchange(denied_again_, false);
  while (tokens[block.body].raw.chars != head) ++block.body;
  words.erase(words.begin());
  if (block.active && !asks_nobody(words)) {
    note(line, fmt::format("a `{}` loop is not followed", head));
    block.active = false;
  } else if (block.active && !scope.knows_positional && asks_for_arguments(words)) {
    note(line, "the script's arguments are taken as not given; `--args` gives them");
    block.active = false;
  } else if (block.active) {
    for (const Token& word : words) block.asked += expand_one(word.raw, scope).chars + '\n';
    block.asked += fmt::format("{} {} {}", scope.positional.size(), option_, letter_);
    // Nothing that the condition asks for has changed: what ends the loop is not known, or nothing does.
    if (before == block.asked) {
      note(line, fmt::format("a `{}` loop is followed once", head));
      block.active = false;
    }
  }
  const bool asks = block.condition = block.active;
  blocks_.push_back(std::move(block));
  return asks ? test(words) : Truth::Unknown;
}

Truth Follower::end_loop(std::size_t& at) {
  Block& block = blocks_.back();
  const bool turned = block.active || block.continues;
  block.continues = false;
  if (turned && block.asks) {
    again_ = block.asked, denied_again_ = block.denied;
    at = block.body;
    return close_block();
  }
  if (turned && !block.values.empty()) {
    block.active = true;
    set(block.name, {{block.values.back()}, false, false});
    block.values.pop_back();
    at = block.body;
    return Truth::Yes;
  }
  return close_block();
}

void Follower::leave_turn(bool ends) {
  for (auto block = blocks_.rbegin(); block != blocks_.rend(); ++block) {
    block->active = false;
    if (block->kind != Block::Kind::Loop) {
      block->outer = false;
      continue;
    }
    block->continues = !ends;
    return;
  }
}

Truth Follower::start_case(const std::vector<Token>& words, const std::vector<Token>& tokens, std::size_t at,
                           bool skip) {
  Block block{.kind = Block::Kind::Case, .outer = active() && !skip, .active = false};
  if (block.outer && words.size() > 1) {
    block.values.push_back(expand_one(words[1].raw, scope));
    if (const std::string value = block.values.front().chars; is_open(value)) tell_case(words[1], value, tokens, at);
  }
  blocks_.push_back(std::move(block));
  return Truth::Yes;
}

std::size_t Follower::case_pattern(const std::vector<Token>& tokens, std::size_t at) {
  Block& block = blocks_.back();
  bool match = false;
  for (; at < tokens.size() && tokens[at].raw.chars != ")"; ++at) {
    if (tokens[at].word && tokens[at].raw.chars == "esac") return at;
    if (!tokens[at].word || block.values.empty()) continue;
    match |= matches(expand_one(tokens[at].raw, scope).chars, block.values.front().chars);
  }
  block.active = block.outer && !block.taken && match;
  block.taken |= block.active;
  return std::min(at + 1, tokens.size());
}

void Follower::end_case_branch() {
  if (in(Block::Kind::Case)) blocks_.back().active = false;
}

}  // namespace plan::shell
