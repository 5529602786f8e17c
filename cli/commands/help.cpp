// Help texts from the tables of commands and options. Tested by the golden files.
#include "cli/commands/help.hpp"

#include <fmt/core.h>

namespace plan {
namespace {

constexpr int kFlagColumn = 27;

constexpr std::string_view kAbout =
    "plan finds how to train a language model on many GPUs: the layout of tensor,\n"
    "context, pipeline, data and expert parallelism that is fastest, whether it fits\n"
    "in memory, how long a step takes, and why.\n";

constexpr std::string_view kExamples =
    "  plan --model 405b --gpus 16384\n"
    "  plan --model deepseek-v3 --gpus 2048 --cluster h800 --top 10\n"
    "  plan estimate --model 405b --gpus 16384 --layout tp8,pp16,vp8 --json\n";

constexpr std::string_view kExit =
    "  0  yes    a layout was found\n"
    "  1  no     nothing fits, or nothing divides\n"
    "  2  error  a bad flag, an unreadable file, an unknown name\n";

std::string left_column(const Option& option) {
  std::string text = option.letter == 0 ? "  " : fmt::format("  -{}, ", option.letter);
  text += option.flag;
  if (!option.argument.empty()) text += fmt::format(" {}", option.argument);
  return text;
}

std::string option_lines(const Option& option, bool full, const Terminal& terminal) {
  const std::string left = left_column(option);
  std::string out = left;
  const int used = display_width(left);
  if (used + 2 > kFlagColumn)
    out += "\n" + std::string(kFlagColumn, ' ');
  else
    out += std::string(static_cast<std::size_t>(kFlagColumn - used), ' ');
  out += wrap(option.help, terminal.width, kFlagColumn) + "\n";
  if (full && !option.more.empty())
    out += std::string(kFlagColumn, ' ') + wrap(option.more, terminal.width, kFlagColumn) + "\n";
  return out;
}

std::string flags(const Command& command, bool full, const Terminal& terminal) {
  std::string out;
  std::string_view group;
  for (const Option& option : options()) {
    if ((option.verbs & command.bit) == 0) continue;
    if (option.group != group) out += fmt::format("\n{}\n", paint(terminal, Style::Bold, option.group));
    group = option.group;
    out += option_lines(option, full, terminal);
  }
  return out;
}

std::string verbs(const Terminal& terminal) {
  std::string out = fmt::format("\n{}\n", paint(terminal, Style::Bold, "Commands"));
  for (const Command& command : kCommands)
    out += fmt::format("  {:<15}  {}\n", command.name.empty() ? "plan" : fmt::format("plan {}", command.name),
                       command.help);
  return out;
}

std::string usage(const Command& command, const Terminal& terminal) {
  const std::string name = command.name.empty() ? "plan" : fmt::format("plan {}", command.name);
  const int indent = static_cast<int>(name.size()) + 8;
  return fmt::format("{} {} {}\n", paint(terminal, Style::Bold, "usage:"), name,
                     wrap(command.synopsis, terminal.width, indent));
}

}  // namespace

std::string help_text(const Command& command, bool full, const Terminal& terminal) {
  std::string out;
  if (command.name.empty())
    out = std::string(kAbout) + "\n" + usage(command, terminal) + "\n" + std::string(kExamples) + verbs(terminal);
  else
    out = fmt::format("plan {}: {}\n\n", command.name, command.help) + usage(command, terminal);
  out += flags(command, full, terminal);
  if (full && command.name.empty())
    out += fmt::format("\n{}\n", paint(terminal, Style::Bold, "Exit status")) + std::string(kExit);
  return out;
}

std::string version_text() { return fmt::format("plan {}\n", PLAN_VERSION); }

}  // namespace plan
