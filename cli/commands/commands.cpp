// From words to an exit status: parse, answer what every verb answers the same way, run the verb.
#include "cli/commands/commands.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <optional>
#include <string_view>
#include <system_error>

#include "cli/commands/help.hpp"
#include "cli/commands/write_output.hpp"
#include "cli/request/flags/options.hpp"
#include "cli/request/table/command_table.hpp"
#include "cli/terminal/diagnostic.hpp"
#include "presets/store.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

ColorMode color_mode(const Args::Text& word) {
  if (word == "always") return ColorMode::Always;
  if (word == "never") return ColorMode::Never;
  return ColorMode::Auto;
}

/// The word after --color, also on a command line that does not parse.
Args::Text color_word(const std::vector<std::string>& words) {
  constexpr std::string_view kFlag = "--color";
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == kFlag && i + 1 < words.size()) return words[i + 1];
    if (words[i].starts_with("--color=")) return words[i].substr(kFlag.size() + 1);
  }
  return std::nullopt;
}

std::string verb_text(const Command& command) {
  return command.name.empty() ? "plan" : fmt::format("plan {}", command.name);
}

Error wrong_format(const Command& command, std::string_view format) {
  std::string owners;
  for (const Command& other : kCommands)
    if (writes_format(other, format)) owners += fmt::format("{}`{}`", owners.empty() ? "" : ", ", verb_text(other));
  return {"unknown_format",
          fmt::format("`--format {}` does not go with `{}`", format, verb_text(command)),
          {},
          {fmt::format("it belongs to {}", owners)}};
}

struct Runner {
  std::uint16_t bit;
  int (*run)(const Args&, Streams&);
};
constexpr Runner kRunners[] = {
    {kForPlan, run_plan},   {kForEstimate, run_estimate}, {kForExplain, run_explain},   {kForFormula, run_formula},
    {kForList, run_list},   {kForShow, run_show},         {kForValidate, run_validate}, {kForCalibrate, run_calibrate},
    {kForEmit, run_emit},   {kForProbe, run_probe},       {kForCompare, run_compare},   {kForSweep, run_sweep},
    {kForCheck, run_check}, {kForDiagnose, run_diagnose}, {kForCapture, run_capture},   {kForNext, run_next},
};
static_assert(std::size(kRunners) == std::size(kCommands));

int run(const Command& command, const Args& args, Streams& streams) {
  return std::find_if(std::begin(kRunners), std::end(kRunners), [&](const Runner& r) { return r.bit == command.bit; })
      ->run(args, streams);
}

int answer(const Args& args, Streams& streams) {
  const Command& command = *find_command(args.verb);
  if (args.help) {
    streams.out = help_text(command, !args.short_help, streams.out_terminal);
    return kYes;
  }
  if (args.version) {
    streams.out = version_text();
    return kYes;
  }
  if (args.completion) {
    streams.out = completion_script(*args.completion);
    return kYes;
  }
  if (args.json && args.format && *args.format != "json")
    return report_errors(
        {Error{"conflicting_flags",
               fmt::format("`--json` is `--format json`, and `--format {}` asks for another", *args.format),
               {},
               {"leave one of them out"}}},
        streams);
  if (args.format && !writes_format(command, *args.format))
    return report_errors({wrong_format(command, *args.format)}, streams);
  return run(command, args, streams);
}

/// Is it the name of a file, be it behind a flag and its `=`?
bool is_a_file(std::string_view word) {
  const auto is = [](std::string_view name) {
    std::error_code none;
    return std::filesystem::exists(std::filesystem::path(name), none);
  };
  return is(word) || (word.find('=') != std::string_view::npos && is(word.substr(word.find('=') + 1)));
}

/// Words that no file has for a good reason, and that would forge lines of a log.
Errors control_characters(const std::vector<std::string>& words) {
  Errors errors;
  for (const std::string& word : words)
    if (has_controls(word))
      errors.push_back(
          {"control_character",
           fmt::format("a word of the command line holds a control character: `{}`", yaml::printable(word)),
           {},
           {is_a_file(word) ? "rename the file" : "write the word without it"}});
  return errors;
}

/// What PLAN_PRESET_PATH names and is no folder: its presets would be passed over, and others of their names taken.
Errors lacking_folders() {
  Errors errors;
  for (const std::string& folder : StoreOptions::from_environment().path)
    if (std::error_code none; !std::filesystem::is_directory(folder, none))
      errors.push_back({"bad_value",
                        fmt::format("`PLAN_PRESET_PATH` names `{}`, which is no folder", yaml::printable(folder)),
                        {},
                        {"name folders that are there, with a colon between two of them, or unset it"}});
  return errors;
}

/// Is the result text for a person, or for a program that quotes what needs it?
bool is_for_people(const Args& args) {
  return !args.json && (!args.format || *args.format == "human" || *args.format == "markdown");
}

constexpr std::string_view kStandardOutput = "-";  ///< as a file's name, which no file gets by mistake

/// A flag whose file is kept, and that was given the standard output's name instead.
std::optional<std::string_view> kept_on_standard_output(const Args& args) {
  if (args.output == kStandardOutput && find_command(args.verb)->product) return "--output";
  if (args.rows == kStandardOutput) return "--rows";
  if (args.append == kStandardOutput) return "--append";
  return std::nullopt;
}

int run_and_write(const Args& args, Streams& streams) {
  if (const std::optional<std::string_view> flag = kept_on_standard_output(args))
    return report_errors(
        {{"bad_value",
          fmt::format("`{} -`: what this command writes is kept, and cannot go to the standard output", *flag),
          {},
          {fmt::format("name it, as `{} ./-`", *flag == "--output" ? "-o" : *flag)}}},
        streams);
  const bool product = find_command(args.verb)->product, standard = args.output == kStandardOutput;
  const bool redirected = args.output && !product && !standard;
  const int status = answer(args, streams);
  if (is_for_people(args)) streams.out = for_people(streams.out, streams.out_terminal.color);
  if (status != kYes && status != kNo) return status;
  if (redirected && !streams.out.empty()) {
    const Result<bool> written = write_outputs(args, {{*args.output, streams.out}});
    if (!written) return report_errors(written.error(), streams);
    streams.out.clear();
  }
  if (args.quiet) streams.out.clear();
  return status;
}

int run_words(const std::vector<std::string>& words, Streams& streams) {
  const Environment env = read_environment();
  streams.err_terminal = inspect_terminal(STDERR_FILENO, color_mode(color_word(words)), false, env);
  if (const Errors errors = control_characters(words); !errors.empty()) return report_errors(errors, streams);
  const Result<Args> args = parse_arguments(words.empty() ? std::vector<std::string>{"-h"} : words);
  if (!args) return report_errors(args.error(), streams);
  streams.out_terminal = inspect_terminal(STDOUT_FILENO, color_mode(args->color), args->ascii, env);
  streams.err_terminal = inspect_terminal(STDERR_FILENO, color_mode(args->color), args->ascii, env);
  if (args->output && !find_command(args->verb)->product)
    streams.out_terminal = make_terminal(false, 0, color_mode(args->color), args->ascii, env);
  streams.quiet = args->quiet;
  if (!args->help && !args->version)  // which need no preset
    if (const Errors errors = lacking_folders(); !errors.empty()) return report_errors(errors, streams);
  return run_and_write(*args, streams);
}

}  // namespace

int run_command_line(const std::vector<std::string>& words, Streams& streams) {
  const int status = run_words(words, streams);
  streams.err = for_people(streams.err, streams.err_terminal.color);
  return status;
}

}  // namespace plan
