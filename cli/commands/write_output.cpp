// Guards what is there already: inputs are never written over, files of another kind only with `--force`.
// Tested by tests/cli/output_test.cpp.
#include "cli/commands/write_output.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "cli/request/resolve.hpp"
#include "cli/request/table/command_table.hpp"
#include "cli/request/words/choice_words.hpp"

namespace plan {
namespace {

/// Every word of the command line that may name a file to read. `--resume` and `--append` are no such: their files are
/// carried on, though not by the answer that `-o` writes.
std::vector<std::string> inputs(const Args& args, const std::string& path) {
  std::vector<std::string> out = args.words;
  for (const auto* list : {&args.from, &args.import_files, &args.budget, &args.log, &args.trace, &args.smi,
                           &args.snapshot, &args.measured})
    out.insert(out.end(), list->begin(), list->end());
  for (const std::string& recipe : args.from) out.push_back(recipe.substr(0, recipe.rfind(':')));  // `FILE.py:NAME`
  for (const Args::Text* one : {&args.model, &args.gpu, &args.cluster, &args.profile, &args.baseline, &args.site,
                                &args.diff, &args.nccl_lib, &args.cublas_lib, &args.cudnn_lib})
    if (*one) out.push_back(**one);
  if (args.append && args.output == path) out.push_back(*args.append);
  if (args.model) out.push_back((std::filesystem::path(*args.model) / "config.json").string());
  return out;
}

/// The beginning of a regular file; empty where there is none.
std::string beginning(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return "";
  std::string text(1 << 16, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  return text;
}

/// What to write where a format was given as a file's name.
std::string instead_of(const std::string& format, const std::string& verb) {
  const Command* const command = find_command(verb);
  if (command == nullptr || writes_format(*command, format)) return fmt::format("write `--format {}`", format);
  std::string formats;
  for (const char c : command->formats) formats += c == ' ' ? std::string(", ") : std::string(1, c);
  return fmt::format("it is none of this command, which writes {}", formats);
}

}  // namespace

Errors judge_output(const Args& args, const std::string& path, std::string_view text) {
  std::error_code ignored;
  if (const Result<std::string> format = read_choice("--format", path); format && !args.format && !wants_json(args))
    return {{"format_as_file",
             fmt::format("`{}` is a format of answers, and would be a file's name", path),
             {},
             {instead_of(*format, args.verb), fmt::format("a file of that name is `-o ./{}`", path)}}};
  for (const std::string& input : inputs(args, path))
    if (std::filesystem::is_regular_file(path, ignored) && std::filesystem::equivalent(input, path, ignored))
      return {{"overwrites_input",
               fmt::format("`{}` is read by this command, and would be written over", path),
               {},
               {"write to another file"}}};
  const std::string there = kind_of(beginning(path)), here = kind_of(text);
  if (args.force || there.empty() || here.empty() || there == here) return {};
  return {{"other_kind",
           fmt::format("`{}` holds {}, and would be written over with {}", path, there, here),
           {},
           {"write to another file, or add `--force`"}}};
}

Result<bool> write_outputs(const Args& args, const std::vector<OutputFile>& files) {
  Errors errors;
  for (const OutputFile& file : files)
    for (Error& error : judge_output(args, file.path, file.text)) errors.push_back(std::move(error));
  if (!errors.empty()) return fail(std::move(errors));
  return write_whole(files);
}

}  // namespace plan
