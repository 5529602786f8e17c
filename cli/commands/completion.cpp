// Completion scripts, generated from the tables so that they cannot go stale; names of presets come from
// `plan list` itself. Tested by tests/cli/options_test.cpp.
#include <fmt/format.h>

#include <algorithm>

#include "cli/commands/help.hpp"

namespace plan {
namespace {

std::vector<std::string> all_flags() {
  std::vector<std::string> flags;
  for (const Option& option : options()) {
    flags.emplace_back(option.flag);
    if (option.letter != 0) flags.push_back(fmt::format("-{}", option.letter));
  }
  return flags;
}

std::vector<std::string> all_verbs() {
  std::vector<std::string> verbs;
  for (const Command& command : kCommands)
    if (!command.name.empty()) verbs.emplace_back(command.name);
  return verbs;
}

std::string pattern(const Option& option) {
  return option.letter == 0 ? std::string(option.flag) : fmt::format("{}|-{}", option.flag, option.letter);
}

/// The shell command that prints the names a flag takes, one a line; empty if none does.
std::string lister(Complete complete) {
  switch (complete) {
    case Complete::Models: return "plan list models --names";
    case Complete::Gpus: return "plan list gpus --names";
    case Complete::Clusters: return "plan list clusters --names";
    case Complete::Nothing:
    case Complete::File:
    case Complete::Words: break;
  }
  return "";
}

std::string bash_case(const Option& option) {
  const std::string head = fmt::format("    {})", pattern(option));
  if (option.complete == Complete::Words)
    return fmt::format("{} COMPREPLY=($(compgen -W \"{}\" -- \"$cur\")); return ;;\n", head,
                       fmt::join(option.words(), " "));
  if (option.complete == Complete::File)
    return fmt::format("{} COMPREPLY=($(compgen -f -- \"$cur\")); return ;;\n", head);
  const std::string names = lister(option.complete);
  if (!names.empty())
    return fmt::format("{} COMPREPLY=($(compgen -f -W \"$({} 2>/dev/null)\" -- \"$cur\")); return ;;\n", head, names);
  return fmt::format("{} return ;;\n", head);
}

std::string bash() {
  std::string cases;
  for (const Option& option : options())
    if (option.takes_value()) cases += bash_case(option);
  return fmt::format(
      "# bash completion for plan; made by `plan --completion bash`\n"
      "_plan() {{\n"
      "  local cur=\"${{COMP_WORDS[COMP_CWORD]}}\" prev=\"${{COMP_WORDS[COMP_CWORD-1]}}\"\n"
      "  COMPREPLY=()\n"
      "  case \"$prev\" in\n{}"
      "    list) COMPREPLY=($(compgen -W \"{}\" -- \"$cur\")); return ;;\n"
      "    show) COMPREPLY=($(compgen -W \"model gpu cluster formula\" -- \"$cur\")); return ;;\n"
      "    formula) COMPREPLY=($(compgen -W \"$(plan list formulas --names 2>/dev/null)\" -- \"$cur\")); return ;;\n"
      "    explain) COMPREPLY=($(compgen -W \"$(plan list terms --names 2>/dev/null)\" -- \"$cur\")); return ;;\n"
      "  esac\n"
      "  if [[ $cur == -* ]]; then\n"
      "    COMPREPLY=($(compgen -W \"{}\" -- \"$cur\"))\n"
      "  elif [[ $COMP_CWORD -eq 1 ]]; then\n"
      "    COMPREPLY=($(compgen -W \"{}\" -- \"$cur\"))\n"
      "  fi\n"
      "}}\n"
      "complete -F _plan plan\n",
      cases, fmt::join(find_option("--list")->words(), " "), fmt::join(all_flags(), " "), fmt::join(all_verbs(), " "));
}

/// Text that can be written inside zsh's '[...]' or fish's '...': the characters that would end it are left out.
std::string plain(std::string_view text) {
  std::string out;
  for (const char c : text)
    if (c != '\'' && c != '[' && c != ']' && c != ':' && c != '`') out += c;
  return out;
}

std::string zsh_action(const Option& option) {
  if (!option.takes_value()) return "";
  const std::string label = plain(option.argument);
  if (option.complete == Complete::Words) return fmt::format(":{}:({})", label, fmt::join(option.words(), " "));
  if (option.complete == Complete::File) return fmt::format(":{}:_files", label);
  const std::string names = lister(option.complete);
  if (!names.empty())
    return fmt::format(":{}:_alternative \"names\\:name\\:($({} 2>/dev/null))\" \"files\\:file\\:_files\"", label,
                       names);
  return fmt::format(":{}: ", label);
}

std::string zsh() {
  std::string rows;
  for (const Option& option : options()) {
    const std::string tail = fmt::format("[{}]{}", plain(option.help), zsh_action(option));
    rows += fmt::format("    '{}{}'\n", option.flag, tail);
    if (option.letter != 0) rows += fmt::format("    '-{}{}'\n", option.letter, tail);
  }
  return fmt::format(
      "#compdef plan\n"
      "# zsh completion for plan; made by `plan --completion zsh`\n"
      "_plan() {{\n"
      "  local -a flags\n"
      "  flags=(\n{}  )\n"
      "  _arguments -S $flags '1:command:({})' '*:word:_default'\n"
      "}}\n"
      "_plan \"$@\"\n",
      rows, fmt::join(all_verbs(), " "));
}

std::string fish() {
  std::string out = "# fish completion for plan; made by `plan --completion fish`\n";
  for (const Command& command : kCommands)
    if (!command.name.empty())
      out += fmt::format("complete -c plan -n __fish_use_subcommand -f -a {} -d '{}'\n", command.name,
                         plain(command.help));
  for (const Option& option : options()) {
    std::string row = fmt::format("complete -c plan -l {}", option.flag.substr(2));
    if (option.letter != 0) row += fmt::format(" -s {}", option.letter);
    if (option.takes_value()) row += " -r";
    if (option.complete == Complete::Words) row += fmt::format(" -f -a '{}'", fmt::join(option.words(), " "));
    const std::string names = lister(option.complete);
    if (!names.empty()) row += fmt::format(" -a '({} 2>/dev/null)'", names);
    out += row + fmt::format(" -d '{}'\n", plain(option.help));
  }
  return out;
}

}  // namespace

std::string completion_script(std::string_view shell) {
  if (shell == "bash") return bash();
  if (shell == "zsh") return zsh();
  return fish();
}

}  // namespace plan
