// What statements that are left out would have done, and what is reported of it. Tested by
// tests/launch/left_out_test.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iterator>

#include "cli/shell/follower.hpp"
#include "cli/shell/statements.hpp"

namespace plan::shell {
namespace {

constexpr int kDeepestCalls = 4;        // functions that call functions
constexpr std::size_t kMostNamed = 12;  // variables that one note names

bool among(std::string_view word, std::span<const std::string_view> all) {
  return std::find(all.begin(), all.end(), word) != all.end();
}

/// Programs that prepare a machine or print: without them a trainer is given the same words.
constexpr std::string_view kHarmless[] = {
    "echo",  "printf", "exit",  "return",   "true",  "false", ":",       "[",     "[[",    "test",     "mkdir",
    "cd",    "pushd",  "popd",  "rm",       "cp",    "mv",    "ln",      "touch", "chmod", "date",     "ls",
    "sleep", "module", "ml",    "wait",     "kill",  "trap",  "pip",     "pip3",  "conda", "mamba",    "wget",
    "curl",  "tee",    "shopt", "ulimit",   "git",   "which", "command", "hash",  "grep",  "continue", "break",
    "apt",   "sudo",   "rsync", "hostname", "unzip", "tar",   "sed",     "head",  "tail",  "local",    "cat"};

/// Programs that are asked something, whose answer the machine alone knows.
constexpr std::string_view kAsking[] = {"grep", "egrep",      "command",  "which",  "type",    "hash",  "ls",
                                        "diff", "nvidia-smi", "rocm-smi", "python", "python3", "pgrep", "test"};

/// Programs that are there to be asked, where others of these also do something.
bool searches(std::string_view program) { return program == "grep" || program == "egrep"; }

constexpr std::string_view kOpens[] = {"if", "case", "for", "while", "until", "select", "{"};
constexpr std::string_view kCloses[] = {"fi", "esac", "done", "}"};
constexpr std::string_view kGoesOn[] = {"then", "do", "!", "else", "elif"};
constexpr std::string_view kDeclares[] = {"export", "declare", "local", "readonly", "typeset"};

/// The name that `NAME=value` or `NAME+=value` sets; empty if the word is neither.
std::string_view name_set(std::string_view word) {
  std::size_t end = 0;
  while (end < word.size() && (std::isalnum(static_cast<unsigned char>(word[end])) != 0 || word[end] == '_')) ++end;
  if (end == 0 || std::isdigit(static_cast<unsigned char>(word[0])) != 0) return {};
  const std::string_view rest = word.substr(end);
  return rest.starts_with('=') || rest.starts_with("+=") || rest.starts_with('[') ? word.substr(0, end)
                                                                                  : std::string_view{};
}

void add_name(std::string_view name, std::vector<std::string>& names) {
  if (name.empty() || std::find(names.begin(), names.end(), name) != names.end()) return;
  names.emplace_back(name);
}

}  // namespace

bool is_open(std::string_view word) { return word.find_first_of("$`") != std::string_view::npos; }

/// Goes through statements and keeps what they set or do, without following any.
class LeftOutWalk {
 public:
  LeftOutWalk(const std::vector<Token>& tokens, Extent extent) : tokens_(tokens), extent_(extent) {}

  LeftOut from(std::size_t at) {
    for (std::size_t i = at; i < tokens_.size() && !ended_; ++i) {
      const Token& token = tokens_[i];
      if (!token.word)
        separator(token.raw.chars);
      else if (token.redirection == Redirection::None)
        word(token.raw.chars, i + 1 < tokens_.size() && !tokens_[i + 1].word ? tokens_[i + 1].raw.chars : "");
    }
    return std::move(out_);
  }

  std::vector<std::string> called{};  ///< programs and functions that they start

 private:
  void separator(std::string_view op) {
    const bool top = open_.empty();
    if (top && extent_ == Extent::Statement) ended_ = true;
    if (top && extent_ == Extent::Branch && op == ";;") ended_ = true;
    pattern_ = !top && open_.back() == "case" && (op == "in" || op == ";;" || (pattern_ && op != ")"));
    head_ = true, declares_ = false;
  }

  void word(std::string_view text, std::string_view next) {
    if (declares_) return add_name(name_set(text), out_.names);
    if (!head_) return;
    if (pattern_ && (next == ")" || next == "|")) return;
    if (among(text, kOpens)) {
      open_.emplace_back(text);
      head_ = text == "if" || text == "while" || text == "until" || text == "{";
      return;
    }
    if (among(text, kCloses)) {
      head_ = false;
      if (open_.empty())
        ended_ = extent_ != Extent::Rest;
      else
        open_.pop_back();
      ended_ |= open_.empty() && extent_ == Extent::Statement;
      return;
    }
    if (among(text, kGoesOn)) {
      ended_ |= open_.empty() && extent_ == Extent::Branch && text.starts_with("el");
      return;
    }
    if (const std::string_view name = name_set(text); !name.empty()) return add_name(name, out_.names);
    declares_ = among(text, kDeclares);
    head_ = false;
    if (!declares_) called.emplace_back(text);
  }

  const std::vector<Token>& tokens_;
  Extent extent_;
  LeftOut out_{};
  std::vector<std::string> open_{};
  bool head_ = true;  ///< the next word starts a command
  bool declares_ = false, pattern_ = false, ended_ = false;
};

LeftOut Follower::left_out(const std::vector<Token>& tokens, std::size_t from, Extent extent, int depth) const {
  LeftOutWalk walk(tokens, extent);
  LeftOut out = walk.from(from);
  for (const std::string& name : walk.called) {
    const auto function = functions_.find(name);
    if (function != functions_.end() && depth < kDeepestCalls) {
      const LeftOut inner = left_out(*function->second, 0, Extent::Block, depth + 1);
      for (const std::string& set : inner.names) add_name(set, out.names);
      out.acts |= inner.acts;
    } else if (!among(name, kHarmless)) {
      out.acts = true;
    }
  }
  return out;
}

std::string LeftOut::text(std::string_view verb) const {
  if (names.empty()) return {};
  std::string out;
  for (std::size_t i = 0; i < std::min(names.size(), kMostNamed); ++i)
    out += fmt::format("{}`{}`", i == 0 ? "" : ", ", names[i]);
  return fmt::format(", which {} {}{},", verb, out, names.size() > kMostNamed ? " and more" : "");
}

void Follower::tell_condition(Truth value, const std::vector<Token>& tokens, std::size_t at) {
  if (value == Truth::Unknown) {
    const LeftOut left = left_out(tokens, at, Extent::Branch);
    if (left.matters())
      note(condition_line_, fmt::format("a condition is not known; its branch{} is left out", left.text("sets")));
  } else if (!assumed_.empty() && (searches(assumed_) || !among(assumed_, kHarmless)) &&
             left_out(tokens, at, Extent::Block).matters()) {
    note(condition_line_, fmt::format("whether `{}` succeeds is not known; it is taken to", assumed_));
  }
}

void Follower::tell_joined(Truth last, const std::vector<Token>& tokens, const std::string& before) {
  if (last != Truth::Unknown && (before.empty() || !among(before, kAsking))) return;
  const LeftOut left = left_out(tokens, statement_at_, Extent::Statement);
  const int line = tokens[statement_at_].line;
  if (last != Truth::Unknown && (searches(before) ? left.matters() : !left.names.empty()))
    note(line, fmt::format("whether `{}` succeeds is not known; it is taken to", before));
  else if (last == Truth::Unknown && left.matters())
    note(line, fmt::format("a condition is not known; what hangs on it{} is left out", left.text("sets")));
}

void Follower::tell_end(const std::vector<Token>& tokens, std::size_t at) {
  if (at > 0 && at < tokens.size() && left_out(tokens, at, Extent::Rest).acts)
    note(tokens[at - 1].line, "the script ends here; what is below is left out");
}

void Follower::tell_case(const Token& asked, std::string_view value, const std::vector<Token>& tokens, std::size_t at) {
  const LeftOut left = left_out(tokens, at, Extent::Block);
  if (!left.matters()) return;
  note(asked.line, fmt::format("`case` asks for `{}`, which is not known; branches of its own{} are left out", value,
                               left.text("set")));
}

}  // namespace plan::shell
