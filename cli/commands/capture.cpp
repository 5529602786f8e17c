// `plan capture`: the job that a command of the user's own would start. Tested by tests/launch/capture_test.cpp.
#include "cli/launch/capture/capture.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include "cli/commands/commands.hpp"
#include "cli/commands/plan_report.hpp"
#include "cli/commands/write_output.hpp"
#include "cli/request/flags/probe_options.hpp"
#include "cli/terminal/diagnostic.hpp"
#include "cli/terminal/terminal.hpp"
#include "presets/shell_quoted.hpp"

namespace plan {
namespace {

constexpr double kSeconds = 60;

Errors judge(const Args& args) {
  Errors errors;
  if (args.words.empty())
    errors.push_back({"missing_command",
                      "`plan capture` needs the command that starts the training",
                      {},
                      {"write it behind two dashes: `plan capture -o job.json -- bash train.sh 8B 1 8`"}});
  if (!args.output)
    errors.push_back({"missing_flag", "`--output` is missing", {}, {"write `-o job.json`: the record goes there"}});
  return errors;
}

std::string answer(const Args& args, const Capture& capture, int width) {
  std::string out = fmt::format("wrote {}: {} {} would have been started\n", *args.output, capture.calls.size(),
                                capture.calls.size() == 1 ? "program" : "programs");
  for (const CapturedCall& call : capture.calls) {
    constexpr std::size_t kMost = 6;
    std::string words;
    for (std::size_t i = 0; i < call.words.size() && i < kMost; ++i) words += " " + call.words[i];
    out += fmt::format("  {}{}\n", words, call.words.size() > kMost ? " ..." : "");
  }
  for (const std::string& note : capture.notes) out += fmt::format("note: {}\n", wrap(note, width, 6));
  return out + fmt::format("read it with `plan estimate --from {}`\n", shell_quoted(*args.output));
}

}  // namespace

int run_capture(const Args& args, Streams& streams) {
  if (const Errors errors = judge(args); !errors.empty()) return report_errors(errors, streams);
  double seconds = kSeconds;
  if (args.timeout) {
    const Result<double> typed = read_duration("--timeout", *args.timeout);
    if (!typed) return report_errors(typed.error(), streams);
    seconds = *typed;
  }
  if (!args.quiet) {
    const std::string notice = fmt::format(
        "note: running `{}` in a scratch folder, for at most {:g} s; launchers and python only write down their "
        "words{}",
        fmt::join(args.words, " "), seconds,
        args.resolve ? ", and programs of hydra's run to print their configuration" : "");
    static_cast<void>(
        write_all(STDERR_FILENO, as_utf8(for_people(wrap(notice, streams.err_terminal.width, 6) + "\n", false))));
  }
  const Result<Capture> capture = capture_command(args.words, seconds, args.resolve);
  if (!capture) {
    const bool interrupted = capture.error().front().code == "interrupted";
    const int status = report_errors(capture.error(), streams, "captured");
    return interrupted ? static_cast<int>(kInterrupted) : status;
  }
  const std::string record = capture_json(*capture);
  const Result<bool> written = write_outputs(args, {{*args.output, record}});
  if (!written) return report_errors(written.error(), streams, "captured");
  streams.out = args.json || args.format == "json" ? record : answer(args, *capture, streams.out_terminal.width);
  return kYes;
}

}  // namespace plan
