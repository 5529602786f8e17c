// Turns the files of presets/stacks into a header and a source of the planner when plan is built, so that a mistake in
// a file stops the build, a name that no file has does not compile, and nothing is read when plan runs: stack_table
// FOLDER.
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "formulas/text.hpp"
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

/// A text as C++ writes it.
std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) out += c == '"' || c == '\\' ? fmt::format("\\{}", c) : std::string(1, c);
  return out + "\"";
}

std::string literal(const RunFact& fact) {
  switch (fact.row->kind) {
    case RunFactKind::Boolean: return fact.number != 0 ? "true" : "false";
    case RunFactKind::Count: return fmt::format("{}", static_cast<int>(fact.number));
    case RunFactKind::Number: return fmt::format("{}", fact.number);
    case RunFactKind::Size: return fmt::format("Bytes({})", static_cast<std::int64_t>(fact.number));
    case RunFactKind::Text: return quoted(fact.text);
    case RunFactKind::Cp: return fmt::format("static_cast<CpKind>({})", static_cast<int>(fact.number));
    case RunFactKind::Precision: return fmt::format("static_cast<Precision>({})", static_cast<int>(fact.number));
    case RunFactKind::Modules:
    case RunFactKind::Scopes: return fmt::format("static_cast<std::uint16_t>({})", static_cast<int>(fact.number));
  }
  return {};
}

void join(std::string& all, std::string_view between, const std::string& one) {
  if (!one.empty()) all.append(all.empty() ? "" : between).append(one);
}

/// The condition of an entry as C++ writes it; empty if it has none.
std::string condition(const RunWhen& when) {
  std::string all, precisions, models, tasks, words;
  if (when.since) join(all, " && ", fmt::format("run.month >= {}", *when.since));
  if (when.below) join(all, " && ", fmt::format("run.version < {}", *when.below));
  for (const Precision one : when.precision)
    join(precisions, " || ", fmt::format("run.precision == static_cast<Precision>({})", static_cast<int>(one)));
  for (const std::string& one : when.model) join(models, " || ", fmt::format("run.model == {}", quoted(one)));
  for (const std::string& one : when.task) join(tasks, " || ", fmt::format("run.task == {}", quoted(one)));
  for (const std::string& one : when.says) join(words, " || ", fmt::format("run.says({})", quoted(one)));
  for (const std::string& one : when.silent) join(all, " && ", fmt::format("!run.says({})", quoted(one)));
  for (const std::string* any : {&precisions, &models, &tasks, &words})
    if (!any->empty()) join(all, " && ", fmt::format("({})", *any));
  for (const RunWhenRow& row : run_when_rows())
    if (when.*row.member) join(all, " && ", fmt::format("{}run.{}", *(when.*row.member) ? "" : "!", row.name));
  return all;
}

std::string lines_of(const std::vector<StackFact>& facts, std::string_view indent) {
  std::string lines;
  for (const StackFact& fact : facts)
    lines +=
        fmt::format("{}of.stack.{} = {};\n", indent, fact.row->name, std::visit(Literal{fact.value}, fact.row->member));
  return lines;
}

/// What runs of the software did: all that the one does that it is like, its own facts, and its entries.
std::string runs_of(const std::string& name, const StackPreset& preset) {
  std::string lines = fmt::format(
      "void {}_runs([[maybe_unused]] const RunSigns& run, [[maybe_unused]] RunDefaults& of) {{\n", function_of(name));
  if (!preset.like.empty()) lines += fmt::format("  {}_runs(run, of);\n", function_of(preset.like));
  lines += lines_of(preset.facts, "  ");
  for (const RunEntry& entry : preset.runs) {
    const std::string asked = condition(entry.when);
    lines += asked.empty() ? "  {\n" : fmt::format("  if ({}) {{\n", asked);
    lines += lines_of(entry.stack, "    ");
    for (const RunFact& fact : entry.job) lines += fmt::format("    of.job.{} = {};\n", fact.row->name, literal(fact));
    lines += "  }\n";
  }
  return lines + "}\n\n";
}

/// One row of the table of software, with its lists of names in arrays before it.
struct SoftwareRow {
  std::string names, row;
};
SoftwareRow row_of(const std::string& name, const StackPreset& preset) {
  const std::string function = function_of(name);
  SoftwareRow made;
  const auto array = [&](std::string_view kind, const std::vector<std::string>& list) {
    if (list.empty()) return std::string("{}");
    std::string words;
    for (const std::string& word : list) join(words, ", ", quoted(word));
    made.names += fmt::format("constexpr std::string_view k_{}_{}[] = {{{}}};\n", function, kind, words);
    return fmt::format("k_{}_{}", function, kind);
  };
  const std::string names = array("names", preset.names), general = array("general", preset.general),
                    makers = array("makers", preset.makers);
  made.row = fmt::format("    {{{}, {}, {}, {}, {}, {}, {}_runs}},\n", quoted(name), names, general, makers,
                         preset.stands_over() ? "true" : "false", function, function);
  return made;
}

/// What is wrong with the files together: software that two of them name.
std::string doubt(const std::vector<std::pair<std::string, StackPreset>>& files) {
  for (const auto& [key, preset] : files)
    for (const std::string& name : preset.names)
      for (const auto& [other, second] : files)
        for (const std::string& again : second.names)
          if (key < other && same_but_for_case(name, again))
            return fmt::format("{} and {} both name `{}`", key, other, name);
  return {};
}

/// Leaves a file alone that says the same already, so that nothing is compiled again.
void write(const std::string& path, const std::string& text) {
  std::stringstream before;
  before << std::ifstream(path, std::ios::binary).rdbuf();
  if (before.str() != text) std::ofstream(path, std::ios::binary) << text;
}

/// The files in an order in which each follows the one that it is like.
std::vector<std::pair<std::string, StackPreset>> files_in_order() {
  std::vector<std::pair<std::string, StackPreset>> files;
  const auto there = [&](const std::string& name) {
    return name.empty() ||
           std::any_of(files.begin(), files.end(), [&](const auto& file) { return file.first == name; });
  };
  const std::vector<std::string> names = stack_names();
  for (std::size_t before = files.size() + 1; before != files.size();) {
    before = files.size();
    for (const std::string& name : names)
      if (const auto preset = load_stack_preset(name); preset && *preset && !there(name) && there((*preset)->like))
        files.emplace_back(name, **preset);
  }
  return files;
}

std::string header(const std::string& declarations) {
  return fmt::format(
      "{}#pragma once\n\n#include <span>\n\n#include \"formulas/training.hpp\"\n\nnamespace plan {{\n"
      "struct RunSoftware;\n}}\n\nnamespace plan::stacks {{\n\n{}\n"
      "[[nodiscard]] std::span<const RunSoftware> run_software();\n\n}}  // namespace plan::stacks\n",
      kMade, declarations);
}

std::string source(const std::string& definitions, const std::string& runs, const SoftwareRow& table) {
  return fmt::format(
      "{}#include \"planner/rules/stack_data.hpp\"\n\n#include \"planner/rules/run_software.hpp\"\n\n"
      "namespace plan::stacks {{\n\n{}namespace {{\n\n{}{}constexpr RunSoftware kSoftware[] = {{\n{}}};\n\n"
      "}}  // namespace\n\nstd::span<const RunSoftware> run_software() {{ return kSoftware; }}\n\n"
      "}}  // namespace plan::stacks\n",
      kMade, definitions, runs, table.names, table.row);
}

}  // namespace

int main(int count, char** words) {
  if (count != 2) return 2;
  std::string declarations, definitions, runs;
  SoftwareRow table;
  for (const std::string& name : stack_names()) {
    const Result<Stack> stack = load_default_stack(name);
    if (!stack) {
      for (const Error& error : stack.error()) fmt::print(stderr, "stacks/{}.yaml: {}\n", name, error.message);
      return 2;
    }
    declarations += fmt::format("[[nodiscard]] Stack {}();\n", function_of(name));
    definitions += definition_of(name, *stack);
  }
  const std::vector<std::pair<std::string, StackPreset>> files = files_in_order();
  if (const std::string wrong = doubt(files); !wrong.empty()) {
    fmt::print(stderr, "presets/stacks: {}\n", wrong);
    return 2;
  }
  for (const auto& [name, preset] : files) {
    runs += runs_of(name, preset);
    const SoftwareRow row = row_of(name, preset);
    table.names += row.names, table.row += row.row;
  }
  const std::string folder = words[1];
  write(folder + "/stack_data.hpp", header(declarations));
  write(folder + "/stack_data.cpp", source(definitions, runs, table));
}
