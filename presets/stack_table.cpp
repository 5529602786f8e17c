// Turns the files of presets/stacks into a header and a source of the planner when plan is built, so that a mistake in
// a file stops the build, a name that no file has does not compile, and nothing is read when plan runs: stack_table
// FOLDER.
#include <fmt/core.h>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

#include "presets/stack.hpp"

namespace {

using namespace plan;

constexpr const char* kMade = "// Made by presets/stack_table.cpp from presets/stacks.\n";

/// A name of a file as a function's.
std::string function_of(std::string name) {
  for (char& c : name)
    if (c == '-' || c == '.') c = '_';
  return name;
}

/// The value of a fact as C++ writes it.
struct Literal {
  int value;
  std::string operator()(bool Stack::*) const { return value != 0 ? "true" : "false"; }
  std::string operator()(int Stack::*) const { return std::to_string(value); }
  std::string operator()(StateLayout Stack::*) const { return fmt::format("static_cast<StateLayout>({})", value); }
  std::string operator()(CrossEntropy Stack::*) const { return fmt::format("static_cast<CrossEntropy>({})", value); }
  std::string operator()(AttentionKernel Stack::*) const {
    return fmt::format("static_cast<AttentionKernel>({})", value);
  }
};

std::string definition_of(const std::string& name, const Stack& stack) {
  std::string lines =
      fmt::format("Stack {}() {{\n  Stack stack;\n  stack.framework = \"{}\";\n", function_of(name), stack.framework);
  for (const StackFactRow& row : stack_fact_rows()) {
    const int value = fact_of(row, stack);
    if (value == fact_of(row, Stack{})) continue;
    lines += fmt::format("  stack.{} = {};\n", row.name, std::visit(Literal{value}, row.member));
  }
  return lines + "  return stack;\n}\n\n";
}

/// Leaves a file alone that says the same already, so that nothing is compiled again.
void write(const std::string& path, const std::string& text) {
  std::stringstream before;
  before << std::ifstream(path, std::ios::binary).rdbuf();
  if (before.str() != text) std::ofstream(path, std::ios::binary) << text;
}

}  // namespace

int main(int count, char** words) {
  if (count != 2) return 2;
  std::string declarations, definitions;
  for (const std::string& name : stack_names()) {
    const Result<Stack> stack = load_default_stack(name);
    if (!stack) {
      for (const Error& error : stack.error()) fmt::print(stderr, "stacks/{}.yaml: {}\n", name, error.message);
      return 2;
    }
    declarations += fmt::format("[[nodiscard]] Stack {}();\n", function_of(name));
    definitions += definition_of(name, *stack);
  }
  const std::string folder = words[1];
  write(folder + "/stack_data.hpp",
        fmt::format("{}#pragma once\n\n#include \"formulas/training.hpp\"\n\nnamespace plan::stacks {{\n\n{}\n"
                    "}}  // namespace plan::stacks\n",
                    kMade, declarations));
  write(folder + "/stack_data.cpp", fmt::format("{}#include \"planner/rules/stack_data.hpp\"\n\nnamespace plan::stacks "
                                                "{{\n\n{}}}  // namespace plan::stacks\n",
                                                kMade, definitions));
}
