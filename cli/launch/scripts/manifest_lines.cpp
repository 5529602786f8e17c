// The script that a manifest's command becomes, each word on the line where it is written. Tested by
// tests/launch/manifests_test.cpp.
#include "cli/launch/scripts/manifest_lines.hpp"

#include <fmt/core.h>

#include "cli/launch/scripts/pods.hpp"
#include "formulas/words.hpp"

namespace plan::manifest {

using yaml::Node;

void add_variable(Lines& lines, int line, const std::string& name, const std::string& value) {
  lines.add(line, fmt::format("export {}={}", name, shell_quoted(value)));
}

namespace {

bool is_shell_name(std::string_view word) {
  constexpr std::string_view kShells[] = {"bash", "sh", "dash", "ash", "zsh", "ksh"};
  return std::find(std::begin(kShells), std::end(kShells), base_name(word)) != std::end(kShells);
}

/// Index of the text that a shell is given behind `-c`, whatever options are in front of it and behind it: `bash -x
/// -c`, `bash -euxo pipefail -c`, `bash -c --`; 0: the words start no shell so.
std::size_t text_of_shell(const std::vector<Node>& words) {
  if (words.empty() || !is_shell_name(words[0].text)) return 0;
  bool text = false;
  std::size_t i = 1;
  for (; i < words.size(); ++i) {
    const std::string& word = words[i].text;
    if (word.size() < 2 || (word[0] != '-' && word[0] != '+')) break;
    if (word == "--rcfile" || word == "--init-file") ++i;  // bash's options with a value of their own
    if (word == "--") {
      ++i;
      break;
    }
    if (word.starts_with("--")) continue;
    text |= word[0] == '-' && word.find('c') != std::string::npos;
    i +=
        static_cast<std::size_t>(std::count(word.begin(), word.end(), 'o') + std::count(word.begin(), word.end(), 'O'));
  }
  return text && i < words.size() ? i : 0;
}

/// Kubernetes puts a variable's value in where `$(NAME)` is written.
void expand(std::string& text, const std::string& reference, const std::string& value) {
  for (std::size_t at = text.find(reference); at != std::string::npos; at = text.find(reference, at + value.size()))
    text.replace(at, reference.size(), value);
}

std::vector<Node> words_of(const Node& map) {
  std::vector<Node> words;
  for (const char* key : {"command", "args", "arguments"})
    if (const Node* list = value_of(map, key); list != nullptr && list->kind == yaml::Kind::Sequence)
      words.insert(words.end(), list->items.begin(), list->items.end());
  return words;
}

}  // namespace

bool has_command(const Node& map) { return !words_of(map).empty(); }

bool add_container(Lines& lines, const Node& map) {
  std::vector<Node> words = words_of(map);
  if (words.empty()) return false;
  const std::size_t shell = text_of_shell(words);
  const int start = words[shell].line;  // variables are known from there on, wherever `env:` is
  const Node* variables = value_of(map, "env");
  if (variables == nullptr) variables = value_of(map, "envVars");
  if (variables != nullptr)
    for (const Node& one : variables->items) {
      const Node *name = value_of(one, "name"), *value = value_of(one, "value");
      if (name == nullptr || value == nullptr) continue;
      add_variable(lines, std::min(name->line, start), name->text, value->text);
      for (Node& word : words) expand(word.text, fmt::format("$({})", name->text), value->text);
    }
  if (shell > 0)
    lines.add_text(words[shell]);
  else
    lines.add_command(words);  // kubectl writes `args:` in front of `command:`
  return true;
}

}  // namespace plan::manifest
