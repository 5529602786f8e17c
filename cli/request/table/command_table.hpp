#pragma once

#include <cstdint>
#include <string_view>

namespace plan {

/// Verbs as bits, so that one row says who takes a flag.
enum VerbBit : std::uint16_t {
  kForPlan = 1,
  kForEstimate = 2,
  kForExplain = 4,
  kForFormula = 8,
  kForList = 16,
  kForShow = 32,
  kForValidate = 64,
  kForCalibrate = 128,
  kForEmit = 256,
  kForCapture = 512,
  kForCheck = 1024,
  kForProbe = 2048,
  kForCompare = 4096,
  kForSweep = 8192,
  kForDiagnose = 16384,
  kForNext = 32768,
  kForProblem = kForPlan | kForEstimate | kForExplain | kForEmit | kForCompare | kForSweep | kForDiagnose | kForNext,
  kForAll = 0xffff,
};

/// A verb of the command line: its help, its manual and its completions come from this row.
struct Command {
  std::string_view name;      ///< empty: bare `plan`
  std::string_view synopsis;  ///< after the name
  std::string_view help;
  std::uint16_t bit;
  int most_words;                           ///< positional words it takes
  std::string_view formats = "human json";  ///< words of --format that it writes
  bool product = false;                     ///< --output names what it makes, not the report
};

/// More words than a shell passes.
inline constexpr int kAnyWords = 1'000'000;

inline constexpr Command kCommands[] = {
    {"", "--model NAME|FILE --gpus N [flags]", "find the best layout", kForPlan, 0,
     "human json markdown csv html trace"},
    {"estimate", "--layout tp8,pp16,... --model NAME|FILE --gpus N [flags]", "report on one layout", kForEstimate, 0,
     "human json markdown csv html trace"},
    {"explain", "TERM|--all --model NAME|FILE --gpus N [flags]", "show how a number comes about", kForExplain, 1,
     "human json markdown html"},
    {"compare", "A B [--model NAME|FILE --gpus N] [flags]", "what differs between two plans, and what it does",
     kForCompare, 2, "human json markdown html"},
    {"sweep", "--gpus 256..65536 --model NAME|FILE [flags]", "the best layout at every value of a flag", kForSweep, 0,
     "human json markdown csv html"},
    {"formula", "NAME [--set s=2048,b=1,...]", "evaluate a formula by name", kForFormula, 1},
    {"list", "models|gpus|clusters|frameworks|formulas|terms|limits", "list what is known", kForList, 1},
    {"show", "model|gpu|cluster|formula NAME", "show one of them whole", kForShow, 2},
    {"validate", "FILE... [--rows FILE] [--rough]", "compare predictions with measured runs", kForValidate, kAnyWords,
     "human json html"},
    {"calibrate", "FILE... [-o profile.yaml]", "fit a cluster's constants to its own runs", kForCalibrate, kAnyWords,
     "human json", true},
    {"emit", "FRAMEWORK -o FOLDER --model NAME|FILE --gpus N [flags]", "write the launch files of the best layout",
     kForEmit, 1, "human json", true},
    {"capture", "-o job.json [--timeout 60s] -- COMMAND...", "record the job that a command would start", kForCapture,
     0, "human json", true},
    {"probe", "[-o node.yaml] [--model NAME --tp 1,2,4,8] [flags]", "measure this node or job", kForProbe, kAnyWords,
     "human json", true},
    {"diagnose", "--log FILE --from FILE [flags]", "measured beside predicted: what is off, and why", kForDiagnose, 0,
     "human json markdown github html"},
    {"next", "[FILE...] --model NAME|FILE --gpus N [flags]", "which short runs would tell most", kForNext, kAnyWords,
     "human json markdown"},
    {"check", "--budget FILE... [--baseline FILE] [flags]", "hold jobs to their budgets, for CI", kForCheck, kAnyWords,
     "human json github markdown html junit sarif"}};

/// Does the command write this format?
[[nodiscard]] bool writes_format(const Command& command, std::string_view format);

/// nullptr if there is no such verb.
[[nodiscard]] const Command* find_command(std::string_view name);

}  // namespace plan
