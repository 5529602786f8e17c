// Look-ups in the table of verbs. Tested by tests/cli/options_test.cpp.
#include "cli/request/table/command_table.hpp"

#include <algorithm>

namespace plan {

bool writes_format(const Command& command, std::string_view format) {
  std::string_view left = command.formats;
  while (!left.empty()) {
    const std::size_t end = std::min(left.find(' '), left.size());
    if (left.substr(0, end) == format) return true;
    left.remove_prefix(std::min(end + 1, left.size()));
  }
  return false;
}

const Command* find_command(std::string_view name) {
  for (const Command& command : kCommands)
    if (command.name == name) return &command;
  return nullptr;
}

}  // namespace plan
