#pragma once

#include <cstdint>
#include <string_view>

#include "cli/args.hpp"
#include "cli/options.hpp"
#include "cli/streams.hpp"

namespace plan {

int run_plan(const Args& args, Streams& streams);
int run_estimate(const Args& args, Streams& streams);
int run_explain(const Args& args, Streams& streams);
int run_formula(const Args& args, Streams& streams);
int run_list(const Args& args, Streams& streams);
int run_show(const Args& args, Streams& streams);
int run_validate(const Args& args, Streams& streams);
int run_calibrate(const Args& args, Streams& streams);
int run_emit(const Args& args, Streams& streams);
int run_probe(const Args& args, Streams& streams);
int run_compare(const Args& args, Streams& streams);
int run_sweep(const Args& args, Streams& streams);
int run_check(const Args& args, Streams& streams);

struct Command {
  std::string_view name;      ///< empty: bare `plan`
  std::string_view synopsis;  ///< after the name
  std::string_view help;
  std::uint16_t bit;
  int most_words;  ///< positional words it takes
  int (*run)(const Args&, Streams&);
  std::string_view formats = "human json";  ///< words of --format that it writes
  bool product = false;                     ///< --output names what it makes, not the report
};

/// More words than a shell passes.
inline constexpr int kAnyWords = 1'000'000;

inline constexpr Command kCommands[] = {
    {"", "--model NAME|FILE --gpus N [flags]", "find the best layout", kForPlan, 0, run_plan,
     "human json markdown csv html trace"},
    {"estimate", "--layout tp8,pp16,... --model NAME|FILE --gpus N [flags]", "report on one layout", kForEstimate, 0,
     run_estimate, "human json markdown csv html trace"},
    {"explain", "TERM|--all --model NAME|FILE --gpus N [flags]", "show how a number comes about", kForExplain, 1,
     run_explain, "human json markdown"},
    {"compare", "A B [--model NAME|FILE --gpus N] [flags]", "what differs between two plans, and what it does",
     kForCompare, 2, run_compare, "human json markdown html"},
    {"sweep", "--gpus 256..65536 --model NAME|FILE [flags]", "the best layout at every value of a flag", kForSweep, 0,
     run_sweep, "human json markdown csv html"},
    {"formula", "NAME [--set s=2048,b=1,...]", "evaluate a formula by name", kForFormula, 1, run_formula},
    {"list", "models|gpus|clusters|frameworks|formulas|terms|limits", "list what is known", kForList, 1, run_list},
    {"show", "model|gpu|cluster|formula NAME", "show one of them whole", kForShow, 2, run_show},
    {"validate", "FILE... [--rows FILE] [--rough]", "compare predictions with measured runs", kForValidate, kAnyWords,
     run_validate, "human json html"},
    {"calibrate", "FILE... [-o profile.yaml]", "fit a cluster's constants to its own runs", kForCalibrate, kAnyWords,
     run_calibrate, "human json", true},
    {"emit", "FRAMEWORK -o FOLDER --model NAME|FILE --gpus N [flags]", "write the launch files of the best layout",
     kForEmit, 1, run_emit, "human json", true},
    {"probe", "[-o node.yaml] [--model NAME --tp 1,2,4,8] [flags]", "measure this node or job", kForProbe, kAnyWords,
     run_probe, "human json", true},
    {"check", "--budget FILE... [--baseline FILE] [flags]", "hold jobs to their budgets, for CI", kForCheck, kAnyWords,
     run_check, "human json github markdown junit sarif"},
};

/// Does the command write this format?
[[nodiscard]] bool writes_format(const Command& command, std::string_view format);

/// nullptr if there is no such verb.
[[nodiscard]] const Command* find_command(std::string_view name);

/// Parses, runs and returns the exit status. `words` are the arguments without the program's name.
int run_command_line(const std::vector<std::string>& words, Streams& streams);

}  // namespace plan
