#pragma once

#include <string>
#include <vector>

#include "cli/request/table/args.hpp"
#include "cli/terminal/streams.hpp"

namespace plan {

int run_plan(const Args& args, Streams& streams);
int run_estimate(const Args& args, Streams& streams);
int run_explain(const Args& args, Streams& streams);
int run_formula(const Args& args, Streams& streams);
int run_list(const Args& args, Streams& streams);
int run_show(const Args& args, Streams& streams);
int run_validate(const Args& args, Streams& streams);
int run_calibrate(const Args& args, Streams& streams);
int run_capture(const Args& args, Streams& streams);
int run_emit(const Args& args, Streams& streams);
int run_probe(const Args& args, Streams& streams);
int run_compare(const Args& args, Streams& streams);
int run_sweep(const Args& args, Streams& streams);
int run_check(const Args& args, Streams& streams);
int run_diagnose(const Args& args, Streams& streams);
int run_next(const Args& args, Streams& streams);

/// Parses, runs and returns the exit status. `words` are the arguments without the program's name.
int run_command_line(const std::vector<std::string>& words, Streams& streams);

}  // namespace plan
