#include "cli/terminal/diagnostic.hpp"

#include <doctest/doctest.h>

using namespace plan;

TEST_CASE("an error with its place, caret and help") {
  const Error error{"unknown_key",
                    "unknown limit `memroy.peak`",
                    {"since main: 54.5 GiB"},
                    {"a limit with a similar name exists: `memory.peak`"},
                    {"budgets/405b.yaml", 9, 3, 11, "  memroy.peak: at most 60 GiB"}};
  CHECK(diagnostic(error, Terminal{}) ==
        "error: unknown limit `memroy.peak`\n"
        "  --> budgets/405b.yaml:9:3\n"
        "   |\n"
        " 9 |   memroy.peak: at most 60 GiB\n"
        "   |   ^^^^^^^^^^^\n"
        "   = since main: 54.5 GiB\n"
        "help: a limit with a similar name exists: `memory.peak`\n");
}

TEST_CASE("computed changes stand under one heading") {
  const Error error{"no_layout", "no layout uses all 1000 GPUs", {}, {"--gpus 960   tp 8", "--gpus 1024  tp 8"}};
  CHECK(diagnostic(error, Terminal{}) ==
        "error: no layout uses all 1000 GPUs\n"
        "help: smallest changes that work, one at a time\n"
        "        --gpus 960   tp 8\n"
        "        --gpus 1024  tp 8\n");
}

TEST_CASE("tabs and carets past the end of a line do no harm") {
  const Error tab{"x", "m", {}, {}, {"f", 100, 2, 3, "\tabc"}};
  CHECK(diagnostic(tab, Terminal{}).find("    | \t^^^\n") != std::string::npos);
  const Error beyond{"x", "m", {}, {}, {"f", 1, 50, 9, "abc"}};
  CHECK(diagnostic(beyond, Terminal{}).find("^\n") != std::string::npos);
}

TEST_CASE("the exit status tells no from error") {
  Streams streams{.out = "half a result"};
  CHECK(report_errors({{"no_layout", "no"}}, streams) == kNo);
  CHECK(streams.out.empty());
  CHECK(report_errors({{"unknown_model", "bad"}}, streams) == kError);
  CHECK(report_errors({{"no_layout", "no"}, {"unknown_model", "bad"}}, streams) == kError);
  CHECK(streams.err.find("2 errors; nothing was computed") != std::string::npos);
}
