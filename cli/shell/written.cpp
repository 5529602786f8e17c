// Files that a script writes itself, and those of them that it starts. Tested by tests/launch/written_scripts_test.cpp.
#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "cli/shell/follower.hpp"
#include "cli/shell/launch_source.hpp"
#include "formulas/words.hpp"

namespace plan::shell {

std::optional<Text> Follower::document(const std::vector<Token>& redirections) {
  std::optional<Text> out;
  for (const Token& token : redirections) {
    if (token.redirection == Redirection::Literal) out = token.raw;
    if (token.redirection == Redirection::Here) out = expand_document(token.raw, scope);
  }
  return out;
}

bool Follower::copy(const std::vector<Text>& words) {
  std::size_t first = 1;
  while (first < words.size() && words[first].chars.starts_with('-')) ++first;
  if (words.size() != first + 2) return false;
  const std::string &from = words[first].chars, &to = words[first + 1].chars;
  const std::string file{base_name(to)};
  Text text;
  if (const auto found = written_.find(std::string(base_name(from))); found != written_.end())
    text = found->second;
  else if (const std::optional<LaunchSource> there = source != nullptr ? beside(*source, from) : std::nullopt)
    text.add(there->text, words.front().line());
  else
    return lose(file, "cp"), false;
  if (file.empty() || !scope.spend(text.chars.size())) return false;
  script_.written[file] = text.chars;
  written_[file] = std::move(text), changed_.erase(file);
  if (const auto changed = changed_.find(std::string(base_name(from))); changed != changed_.end())
    changed_[file] = changed->second;
  return true;
}

bool Follower::write(const std::vector<Text>& words, const std::vector<Token>& redirections) {
  if (words.front().chars == "cp") return copy(words);
  const bool formats = words.front().chars == "printf";
  const bool prints = formats || words.front().chars == "echo", tees = words.front().chars == "tee";
  std::size_t first = 1;
  while (first < words.size() && words[first].chars.starts_with('-')) ++first;
  if (!prints && words.size() != first + static_cast<std::size_t>(tees)) return false;  // of files nothing is known
  std::optional<Text> text = prints ? std::nullopt : document(redirections);
  std::string file = tees ? std::string(base_name(words.back().chars)) : "";
  bool appends = tees && first > 1;
  for (const Token& token : redirections) {
    if (tees || (token.redirection != Redirection::Into && token.redirection != Redirection::Onto)) continue;
    file = base_name(expand_one(token.raw, scope).chars);
    appends = token.redirection == Redirection::Onto;
  }
  if (file.empty()) return true;
  if (formats) {
    if (words.size() > 1) text = printed(words, words[1].chars == "--" && words.size() > 2 ? 2 : 1);
    if (!text) return false;  // what it prints is not followed: nothing is known of the file
  } else if (prints) {
    first = 1;
    while (first < words.size() && (words[first].chars == "-e" || words[first].chars == "-n")) ++first;
    text = joined_words(words, first), text->add('\n', words.front().line());
  }
  Text& kept = written_[file];
  if (!appends || !text) kept = {}, changed_.erase(file);
  if (text && scope.spend(text->chars.size())) kept.add(*text);
  script_.written[file] = kept.chars;
  return true;
}

void Follower::lose(const std::string& file, std::string_view program) {
  if (written_.contains(file)) changed_[file] = program;
}

void Follower::lose_written(const std::vector<Text>& words, const std::vector<Token>& redirections) {
  const std::string_view program = base_name(words.front().chars);
  for (const Token& token : redirections)
    if (token.redirection == Redirection::Into || token.redirection == Redirection::Onto)
      lose(std::string(base_name(expand_one(token.raw, scope).chars)), program);
  const bool edits = std::any_of(words.begin(), words.end(), [](const Text& word) {
    const std::string_view flag = word.chars;
    return flag.starts_with("--in-place") ||
           (flag.starts_with('-') && !flag.starts_with("--") && flag.find('i') != std::string_view::npos);
  });
  if (program == "patch" || (edits && (program == "sed" || program == "perl")))
    for (std::size_t i = 1; i < words.size(); ++i) lose(std::string(base_name(words[i].chars)), program);
}

void Follower::child(const Text& text, const std::vector<Text>& words, std::size_t from) {
  std::map<std::string, Value> outer = scope.variables;
  std::erase_if(scope.variables,
                [](const auto& one) { return !one.second.exported && !one.first.starts_with("SLURM_"); });
  auto functions = std::exchange(functions_, {});
  inner(text, words, from);
  exited_ = false;  // the shell within, and not the script
  functions_ = std::move(functions);
  scope.variables = std::move(outer);
}

bool Follower::follow_input(const std::vector<Text>& words, const std::vector<Token>& redirections) {
  std::size_t last = words.size();
  while (last > 1 && (words[last - 1].chars == "-s" || words[last - 1].chars == "-" || words[last - 1].chars == "-l"))
    --last;
  const std::string_view shell = base_name(words[last - 1].chars);
  if (shell != "bash" && shell != "sh" && base_name(words.front().chars) != "sbatch") return false;
  const std::optional<Text> text = document(redirections);
  if (!text) return false;
  record(words, {});  // the launcher says on how many GPUs
  child(*text, words, words.size());
  return true;
}

bool Follower::follow_written(const std::vector<Text>& words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string_view before = i > 0 ? base_name(words[i - 1].chars) : "bash";
    if (before != "bash" && before != "sh" && before != "sbatch" && before != "srun") continue;
    const std::string file{base_name(words[i].chars)};
    const auto found = written_.find(file);
    if (found == written_.end() || found->second.chars.empty()) continue;
    if (const auto changed = changed_.find(file); changed != changed_.end()) {
      note(words.front().line(),
           fmt::format("`{}` is left out: `{}` has changed what the script wrote into it", file, changed->second));
      return true;
    }
    if (i > 0) record(words, {});  // the launcher says on how many GPUs
    const Text text = found->second;
    child(text, words, i);
    return true;
  }
  return false;
}

}  // namespace plan::shell
