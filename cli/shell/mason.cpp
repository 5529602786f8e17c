// Ai2's launcher, which rewrites the command that it starts. Tested by tests/launch/mason_test.cpp.
#include "cli/shell/mason.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "cli/shell/statements.hpp"
#include "formulas/words.hpp"

namespace plan {
namespace {

using MasonWords = std::vector<ShellWord>;

/// The value behind `--name`; `last` where it is not given.
MasonWords::iterator value_of(MasonWords::iterator first, MasonWords::iterator last, std::string_view name) {
  const auto flag = std::find_if(first, last, [&](const ShellWord& word) { return word.text == name; });
  return flag == last ? last : flag + 1;
}

}  // namespace

void start_on_every_node(ShellCommand& command) {
  MasonWords& words = command.words;
  const auto mason = std::find_if(words.begin(), words.end(),
                                  [](const ShellWord& word) { return base_name(word.text) == "mason.py"; });
  const auto inside =
      std::find_if(mason, words.end(), [](const ShellWord& word) { return base_name(word.text) == "accelerate"; });
  if (inside == words.end()) return;
  const auto stated = value_of(mason, inside, "--num_nodes");
  const auto each = value_of(inside, words.end(), "--num_processes");
  if (stated == inside || each == words.end()) return;
  const int nodes = shell::count_of(stated->text), processes = shell::count_of(each->text);
  if (nodes < 2 || processes < 1 || processes > shell::kMostCounted / nodes) return;
  each->text = fmt::format("{}", processes * nodes);
  const ShellWord flag{"--num_machines", stated->line}, value{fmt::format("{}", nodes), stated->line};
  words.insert(each + 1, {flag, value});
}

}  // namespace plan
