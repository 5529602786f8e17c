// What conditions that are pipelines do to a job: the last command of one decides.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <string>
#include <utility>

#include "cli/shell/shell.hpp"

namespace plan {
namespace {

/// What `run` was given, and the notes.
struct Told {
  std::string words{}, notes{};
};
Told told(const std::string& text) {
  Told out;
  const Script script = follow_script(text, "x.sh");
  for (const ShellCommand& command : script.commands)
    if (!command.words.empty() && command.words[0].text == "run")
      for (const ShellWord& word : command.words) out.words += word.text + ";";
  for (const Note& note : script.notes) out.notes += note.text + "\n";
  return out;
}

/// Conditions that hold, that do not, and that only the machine can answer: those are taken to hold, and told.
constexpr const char* kHolds[] = {"echo \"$ARGS\" | grep -q -- --scaling",
                                  "! echo \"$ARGS\" | grep -q fp8",
                                  "echo x | cat | true",
                                  "echo \"$ARGS\" |& grep -q scal",
                                  "{ echo \"$ARGS\" | grep -q scal; }",
                                  "! { echo \"$ARGS\" | grep -q fp8; }",
                                  "true && { false || true; }",
                                  "[[ $ARGS =~ scal ]]",
                                  "false | true"};
constexpr const char* kFails[] = {"echo \"$ARGS\" | grep -q -- --simulate",
                                  "echo \"$ARGS\" | grep -qw fp8 | false",
                                  "! echo \"$ARGS\" | grep -q sc",
                                  "echo \"$ARGS\" |& grep -q fp8",
                                  "{ echo \"$ARGS\" | grep -q zzz; }",
                                  "! { true; }",
                                  "true && { true; false; }",
                                  "[[ $ARGS =~ ^sc ]]",
                                  "true | false"};
constexpr const char* kAsks[] = {"nvidia-smi | grep -q H100",     "echo \"$UNSET\" | grep -q x",
                                 "echo a | grep -q x file",       "echo a | grep -qP '\\d'",
                                 "nvidia-smi |& grep -q H100",    "{ echo \"$UNSET\" | grep -q zzz; }",
                                 "{ nvidia-smi | grep -q H100; }"};

}  // namespace

TEST_CASE("a pipeline comes to what its last command comes to") {
  const std::string start = "ARGS='--scaling 2 --tp'\nTP=4\n";
  for (const char* form : {"if {}; then TP=1; fi", "{} && TP=1", "if false; then TP=2; elif {}; then TP=1; fi"}) {
    for (const char* condition : kHolds) {
      CAPTURE(std::string(form) + condition);
      CHECK(told(start + fmt::format(fmt::runtime(form), condition) + "\nrun $TP").words == "run;1;");
    }
    for (const char* condition : kFails) {
      CAPTURE(std::string(form) + condition);
      CHECK(told(start + fmt::format(fmt::runtime(form), condition) + "\nrun $TP").words == "run;4;");
    }
    for (const char* condition : kAsks) {
      CAPTURE(std::string(form) + condition);
      CHECK(told(start + fmt::format(fmt::runtime(form), condition) + "\nrun $TP").notes.find("grep") !=
            std::string::npos);
    }
  }
}

TEST_CASE("a block comes to what its last statement came to, and `!` before it denies the whole") {
  const std::pair<const char*, const char*> kEnds[] = {
      {"if case a in a) false;; esac; then TP=1; fi", "4"},
      {"if case a in a) true;; esac; then TP=1; fi", "1"},
      {"if false; then TP=2; elif case a in a) true;; esac; then TP=1; fi", "1"},
      {"if ! case a in a) true;; esac; then TP=1; fi", "4"},
      {"f() { for i in 1 2; do [ $i = 1 ]; done; }; if f; then TP=1; fi", "4"},
      {"f() { for i in 1 2; do [ $i = 2 ]; done; }; if f; then TP=1; fi", "1"},
      {"f() { for i in 1 2; do false; break; done; }; if f; then TP=1; fi", "1"},
      {"f() { for i in; do false; done; }; if f; then TP=1; fi", "1"},
      {"for i in 1 2; do [ $i = 1 ]; done || TP=1", "1"},
      {"! for i in 1 2; do [ $i = 1 ]; done || TP=1", "4"},
      {"! case a in a) true;; esac || TP=1", "1"},
      {"! case a in a) false;; esac || TP=1", "4"},
      {"! case a in b) true;; esac || TP=1", "1"},
      {"! if true; then true; fi || TP=1", "1"},
      {"! if true; then false; fi || TP=1", "4"},
      {"! if false; then false; fi || TP=1", "1"},
      {"if ! if true; then true; fi; then TP=1; fi", "4"},
      {"! if ! true; then true; else false; fi || TP=1", "4"},
      {"false && if true; then true; fi || TP=1", "1"},
      {"false && case a in a) true;; esac || TP=1", "1"},
      {"false && for i in 1; do true; done || TP=1", "1"},
      {"true || ! if true; then true; fi && TP=1", "1"},
      {"! if true; then true; fi | true && TP=1", "4"},
      {"i=0; while [ $i -lt 2 ]; do i=$((i+1)); done || TP=1", "4"},
      {"i=0; ! while [ $i -lt 2 ]; do i=$((i+1)); done || TP=1", "1"},
      {"i=2; ! while [ $i -lt 2 ]; do i=$((i+1)); done || TP=1", "1"},
      {"i=0; ! until [ $i -ge 2 ]; do i=$((i+1)); done && TP=1", "4"},
      {"i=0; if ! while [ $i -lt 2 ]; do i=$((i+1)); done; then TP=1; fi", "4"},
      {"i=0; ! while [ $i -lt 2 ]; do i=$((i+1)); done; j=0; while [ $j -lt 2 ]; do j=$((j+1)); done && TP=1", "1"},
  };
  for (const auto& row : kEnds) {
    CAPTURE(std::string(row.first));
    CHECK(told(fmt::format("TP=4\n{}\nrun $TP", row.first)).words == fmt::format("run;{};", row.second));
  }
}

TEST_CASE("what `&&` and `||` leave out, they leave out with all of its pipeline") {
  CHECK(told("false && echo a | run b").words.empty());
  CHECK(told("true || echo a | run b").words.empty());
  CHECK(told("true && echo a | run b").words == "run;b;");
}

TEST_CASE("a loop that prints into a command runs as often as without") {
  CHECK(told("for i in 1 2; do run $i; done | tee log").words == "run;1;run;2;");
}

}  // namespace plan
