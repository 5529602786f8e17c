#include "cli/terminal/diagnostic.hpp"

#include <doctest/doctest.h>

#include <set>
#include <sstream>
#include <string>

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

TEST_CASE("computed changes stand under one heading, each number below the others") {
  Error error{"no_layout", "no layout uses all 1000 GPUs"};
  error.changes = {{"--gpus 960", "tp 8", "9.5 of 80.0 GiB"}, {"--gpus 1024", "tp 16", "11.5 of 80.0 GiB"}};
  CHECK(diagnostic(error, Terminal{}) ==
        "error: no layout uses all 1000 GPUs\n"
        "help: smallest changes that work, one at a time\n"
        "        --gpus 960           tp 8                            9.5 of 80.0 GiB\n"
        "        --gpus 1024          tp 16                          11.5 of 80.0 GiB\n");
  Error words{"no_layout", "no layout uses all 1000 GPUs", {}, {"--gpus 960"}};
  CHECK(diagnostic(words, Terminal{}).ends_with("one at a time\n        --gpus 960\n"));
}

TEST_CASE(
    "columns of changes stay aligned beside one that is too long for its own, and nothing is wider than a screen") {
  Error error{"no_layout", "no layout fits"};
  error.changes = {{"--gpus 128", "tp 4  pp 8 (vp 5)  dp 4  ep 16", "116.7 of 140.4 GiB"},
                   {"--offload optimizer,attn_norm+qkv_linear+core_attn+attn_proj+mlp_norm --host-memory 3200GiB",
                    "tp 1  pp 1  dp 8", "9.5 of 140.4 GiB"},
                   {"--task lora", "tp 1  pp 1  dp 8", "66.5 of 140.4 GiB"}};
  std::istringstream text(diagnostic(error, Terminal{}));
  std::set<std::size_t> layouts, numbers;
  std::string all;
  for (std::string line; std::getline(text, line);) {
    CHECK(line.size() <= 80);
    all += line.substr(std::min(line.find_first_not_of(' '), line.size())) + " ";
    if (line.find(" of ") == std::string::npos) continue;
    layouts.insert(line.find("tp ")), numbers.insert(line.find(" of "));
  }
  CHECK(layouts.size() == 1);
  CHECK(numbers.size() == 1);
  for (const char* word : {"--gpus 128 ", "--host-memory 3200GiB ", "ep 16 ", " 9.5 of 140.4 GiB", "--task lora "})
    CHECK(all.find(word) != std::string::npos);
}

TEST_CASE(
    "of a line too long for a terminal of any width what is around its column is shown, with the caret below it") {
  std::string text;
  for (int i = 0; i < 60; ++i) text += "abcdefghij";
  for (int width = 0; width <= 120; width += 7)
    for (const int column : {1, 2, 15, 300, 590, 600}) {
      Terminal terminal;
      terminal.width = width;
      std::istringstream lines(diagnostic({"x", "wrong", {}, {}, {"a.json", 3, column, 1, text}}, terminal));
      std::string source, caret, line;
      while (std::getline(lines, line)) {
        if (line.starts_with(" 3 | ")) source = line;
        if (line.find('^') != std::string::npos) caret = line;
      }
      CAPTURE(width);
      CAPTURE(column);
      REQUIRE(caret.find('^') < source.size());
      CHECK(source[caret.find('^')] == text[static_cast<std::size_t>(column - 1)]);
      CHECK(static_cast<int>(source.size()) <= std::max(width, 26));
      CHECK(source.size() >= 20);
    }
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
