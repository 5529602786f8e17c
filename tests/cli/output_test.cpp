#include "cli/terminal/output.hpp"

#include <doctest/doctest.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "check_files.hpp"
#include "cli/commands/write_output.hpp"
#include "cli/request/flags/options.hpp"
#include "cli/request/table/command_table.hpp"
#include "cli/request/table/option_table.hpp"
#include "contents.hpp"
#include "presets/yaml.hpp"

using namespace plan;
using namespace plan::checks;
namespace fs = std::filesystem;

namespace {

mode_t mode_of(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 ? status.st_mode & 0777U : 0;
}

const std::vector<std::string> kEstimate = {"estimate", "--model", "8b", "--gpus", "64", "--layout", "tp2"};
Ran estimate_to(const std::string& file, const std::vector<std::string>& more = {}) {
  std::vector<std::string> words = kEstimate;
  words.insert(words.end(), {"-o", file});
  words.insert(words.end(), more.begin(), more.end());
  return checks::run(words);
}

}  // namespace

TEST_CASE("of what a terminal obeys only colours pass, and those only where there are any") {
  for (const char* color : {"\033[0m", "\033[1;31m", "\033[m"}) {
    CHECK(for_people("a" + std::string(color) + "b", true) == "a" + std::string(color) + "b");
    CHECK(for_people("a" + std::string(color) + "b", false) == "a?" + std::string(color).substr(1) + "b");
  }
  for (const char* other : {"\033[2J", "\033[31", "\033[1;31H", "\033]0;title", "\033", "\a", "\x7f", "\r"})
    for (const bool color : {false, true}) {
      CAPTURE(std::string(other).substr(1));
      CHECK(for_people("a" + std::string(other), color) == "a?" + std::string(other).substr(1));
    }
  CHECK(for_people("a\tb\n c\n", true) == "a\tb\n c\n");
}

TEST_CASE("a file appears whole or not at all") {
  const fs::path folder = fs::temp_directory_path() / ("plan_output_test." + std::to_string(::getpid()));
  fs::create_directory(folder);
  const std::string path = (folder / "plan.json").string();
  CHECK(write_whole(path, "first").has_value());
  CHECK(write_whole(path, "second").has_value());
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  CHECK(text.str() == "second");
  CHECK(std::distance(fs::directory_iterator(folder), fs::directory_iterator()) == 1);
  const Result<bool> failed = write_whole((folder / "no" / "such.json").string(), "x");
  REQUIRE_FALSE(failed.has_value());
  CHECK(failed.error()[0].code == "cannot_write");
  CHECK_FALSE(write_whole(folder.string(), "x").has_value());
  CHECK(write_whole("/dev/null", "x").has_value());
  const fs::path link = folder / "link";
  fs::create_symlink(path, link);
  CHECK(write_whole(link.string(), "third").has_value());
  CHECK(fs::is_symlink(link));
  std::ifstream linked(path);
  std::string word;
  linked >> word;
  CHECK(word == "third");
  fs::remove_all(folder);
}

TEST_CASE("a dash is the standard output, and no file of what is kept") {
  const Folder folder;
  const std::vector<std::string> words = {"estimate", "--model", "8b", "--gpus", "8", "--layout", "tp8", "--json"};
  std::vector<std::string> dashed = words;
  dashed.insert(dashed.end(), {"-o", "-"});
  const Ran plain = run(words), dash = run(dashed);
  CHECK(dash.status == plain.status);
  CHECK(dash.out == plain.out);
  CHECK(run({"emit", "megatron-lm", "--model", "8b", "--gpus", "8", "-o", "-"}).status == 2);
  CHECK(run({"probe", "-o", "-"}).status == 2);
  for (const std::vector<std::string>& asked :
       {std::vector<std::string>{"validate", "runs.csv", "--rows", "-"}, {"diagnose", "--append", "-"}}) {
    const Ran refused = run(asked);
    CHECK(refused.status == 2);
    CHECK(refused.err.find(asked[asked.size() - 2] + " -`: what this command writes is kept") != std::string::npos);
  }
  CHECK(std::filesystem::is_empty("."));
}

TEST_CASE("a written file keeps the mode of the one that it replaces, and names that lie in wait are not followed") {
  const Folder folder;
  folder.write("victim.txt", "mine");
  folder.write("secret.json", "old");
  ::chmod("secret.json", 0600);
  fs::create_symlink("victim.txt", "secret.json." + std::to_string(::getpid()) + ".tmp");
  CHECK(write_whole("secret.json", "fresh").has_value());
  CHECK(mode_of("secret.json") == 0600);
  CHECK(contents_of("secret.json") == "fresh");
  CHECK(contents_of("victim.txt") == "mine");
  folder.write("run.sh", "old");
  ::chmod("run.sh", 0640);
  CHECK(write_whole({{"run.sh", "fresh", true}}).has_value());
  CHECK(mode_of("run.sh") == 0750);
  fs::create_symlink("not/there.json", "dangling");
  CHECK_FALSE(write_whole("dangling", "x").has_value());
  fs::create_directory("not");
  CHECK(write_whole("dangling", "x").has_value());
  CHECK(fs::is_symlink("dangling"));
  CHECK(contents_of("not/there.json") == "x");
}

TEST_CASE("a format's name is no file's unless it is said to be") {
  const Folder folder;
  for (const char* format : {"json", "markdown", "csv", "html"}) {
    CAPTURE(format);
    const Ran refused = run({"--model", "8b", "--gpus", "8", "--output", format});
    CHECK(refused.status == 2);
    CHECK(refused.err.find(fmt::format("--format {}", format)) != std::string::npos);
    CHECK_FALSE(fs::exists(format));
  }
  for (const char* format : {"github", "junit", "sarif"}) {  // those of other commands
    CAPTURE(format);
    const Ran refused = run({"--model", "8b", "--gpus", "8", "-o", format});
    CHECK(refused.status == 2);
    CHECK(refused.err.find("--format") == std::string::npos);
    CHECK(refused.err.find("it is none of this command, which writes human, json") != std::string::npos);
    CHECK_FALSE(fs::exists(format));
  }
  CHECK(run({"--model", "8b", "--gpus", "8", "--output", "./json"}).status == 0);
  CHECK(run({"--model", "8b", "--gpus", "8", "--json", "--output", "csv"}).status == 0);
}

TEST_CASE("an input is never written over, not even by force; a file of another kind only by force") {
  const Folder folder;
  const std::string preset = run({"show", "model", "8b"}).out;
  folder.write("in.yaml", preset);
  for (const std::vector<std::string>& more : {std::vector<std::string>{}, {"--force"}}) {
    std::vector<std::string> words = {"--model", "in.yaml", "--gpus", "64", "-o", "./in.yaml"};
    words.insert(words.end(), more.begin(), more.end());
    const Ran refused = run(words);
    CHECK(refused.status == 2);
    CHECK(refused.err.find("is read by this command") != std::string::npos);
    CHECK(contents_of("in.yaml") == preset);
  }
  const Ran other = estimate_to("in.yaml");
  CHECK(other.status == 2);
  CHECK(other.err.find("--force") != std::string::npos);
  CHECK(contents_of("in.yaml") == preset);
  CHECK(estimate_to("in.yaml", {"--force", "--json"}).status == 0);
  CHECK(contents_of("in.yaml") != preset);
  CHECK(estimate_to("in.yaml", {"--json"}).status == 0);  // a report over a report
  folder.write("empty", "");
  CHECK(estimate_to("empty").status == 0);
  fs::create_directory("job");
  folder.write("job/plan-llama3-8b.sbatch", "notes of mine\n");
  CHECK(run({"emit", "megatron-lm", "--model", "8b", "--gpus", "64", "-o", "job"}).status == 2);
  CHECK(contents_of("job/plan-llama3-8b.sbatch") == "notes of mine\n");
  const mode_t mask = ::umask(0022);
  CHECK(run({"emit", "megatron-lm", "--model", "8b", "--gpus", "64", "-o", "fresh"}).status == 0);
  ::umask(mask);
  CHECK(mode_of("fresh/plan-llama3-8b.sbatch") == (0777 & ~0022));
  const Ran itself =
      run({"emit", "megatron-lm", "--from", "fresh/plan-llama3-8b.sbatch", "--gpus", "64", "-o", "fresh"});
  CHECK(itself.status == 2);
}

TEST_CASE("whichever flag names a file that is read, no answer is written over it") {
  const Folder folder;
  folder.write("read.py", "x");
  int flags = 0;
  for (const Option& option : options()) {
    const bool file = option.argument.find("FILE") != std::string_view::npos || option.argument == "LOG";
    // What is written, and what is carried on in its own file.
    if (!file || option.flag == "--output" || option.flag == "--rows") continue;
    if (option.flag == "--resume" || option.flag == "--append") continue;
    CAPTURE(option.flag);
    for (const Command& command : kCommands) {
      if ((option.verbs & command.bit) == 0 || (option.flag == "--budget" && command.name == "probe")) continue;
      std::vector<std::string> words = {std::string(option.flag), "read.py"};
      if (!command.name.empty()) words.insert(words.begin(), std::string(command.name));
      const Result<Args> args = parse_arguments(words);
      if (!args) continue;
      const Errors errors = judge_output(*args, "./read.py", "{}");
      REQUIRE(errors.size() == 1);
      CHECK(errors.front().code == "overwrites_input");
      CHECK(judge_output(*args, "other", "{}").empty());
      ++flags;
    }
  }
  CHECK(flags > 20);
  const Args appended = parse_arguments({"diagnose", "--append", "read.py", "-o", "./read.py", "--force"}).value();
  CHECK(judge_output(appended, "read.py", "{}").empty());
  CHECK(judge_output(appended, "./read.py", "{}").size() == 1);
  const Args recipe = parse_arguments({"--from", "read.py:recipe", "--force"}).value();
  REQUIRE(judge_output(recipe, "read.py", "{}").size() == 1);
  CHECK(judge_output(recipe, "read.py", "{}").front().code == "overwrites_input");
}

TEST_CASE("kinds of files") {
  const std::pair<const char*, const char*> rows[] = {{"", ""},
                                                      {" \n", ""},
                                                      {"{\n \"schema\": \"plan/1\"}", "JSON of schema plan/1"},
                                                      {"{\"a\": 1}", "JSON"},
                                                      {"#!/bin/bash\n", "a script"},
                                                      {"# c\npreset: gpu/1\n", "a file of `preset: gpu/1`"},
                                                      {"<!DOCTYPE html>", "HTML"},
                                                      {"<?xml version", "XML"},
                                                      {"a: b", "YAML"},
                                                      {"[job]", "TOML"},
                                                      {"id,suite\n", "CSV"},
                                                      {"some words", "text"}};
  for (const auto& row : rows) CHECK_MESSAGE(kind_of(row.first) == row.second, row.first);
  CHECK(kind_of(std::string("a\0b", 3)) == "binary data");
}

TEST_CASE("nothing that a terminal or a CI service would obey reaches them, whatever the names hold") {
  const char* hostile[] = {"\x1b[31m",
                           "\x1b]0;title\x07",
                           "a\n::error::pwn",
                           "\r::add-mask::x",
                           "##[group]x",
                           "##vso[task]y",
                           ("\xc2\x9b"
                            "2J"),
                           "\x7f\x08",
                           " ::stop-commands::t"};
  for (const std::string name : hostile) {
    for (const bool color : {false, true}) {
      const std::string shown = for_people("begin " + name + "\n" + name + "\n", color);
      std::istringstream lines(shown);
      for (std::string line; std::getline(lines, line);) {
        const std::size_t first = line.find_first_not_of(" \t");
        CHECK((first == std::string::npos || line.compare(first, 2, "::") != 0));
        CHECK(line.find("##[") == std::string::npos);
        CHECK(line.find("##vso[") == std::string::npos);
        CHECK(line.find('\r') == std::string::npos);
        CHECK(line.find('\x07') == std::string::npos);
        if (!color) CHECK_FALSE(has_controls(line));
      }
    }
    if (!has_controls(name)) continue;
    const Ran ran = run({"check", "--budget", name + ".yaml"});
    CHECK(ran.status == 2);
    for (const std::string& text : {ran.out, ran.err}) {
      CHECK(text.find('\x1b') == std::string::npos);
      CHECK(text.find("\n::") == std::string::npos);
    }
  }
  CHECK(for_people("\x1b[1;31mred\x1b[0m\tx\n", true) == "\x1b[1;31mred\x1b[0m\tx\n");
  CHECK(for_people("caf\xc3\xa9 ### heading [x] a::b", false) == "caf\xc3\xa9 ### heading [x] a::b");
}

TEST_CASE("a file is read whatever its name is written in, but for what steers a terminal") {
  // A variant of a Chinese character, marks of direction, a joiner of words, the flag of Scotland.
  for (const std::string name :
       {"\u8fbb\U000e0101", "\u200emodel\u200f", "\u061c\u0645", "a\u2060b",
        "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f", "caf\u00e9\u00a0\u901a\u4e49"}) {
    const std::string path = "unseen-" + name + ".yaml";
    CAPTURE(path);
    std::ofstream(path) << "budget: 1\njobs: {a: {model: llama3-8b, gpus: 8}}\n";
    CHECK(run({"check", "--budget", path}).err.find("control character") == std::string::npos);
    CHECK_FALSE(has_controls(path));
    std::filesystem::remove(path);
  }
  for (const std::string name : {"a\x1b[1mb", "a\u0085b", "a\u2028b", "a\u202eb", "a\u2066b"}) {
    const std::string path = "seen-" + name + ".yaml";
    CAPTURE(yaml::printable(path));
    CHECK(run({"check", "--budget", path}).err.find("rename") == std::string::npos);
    std::ofstream(path) << "budget: 1\n";
    CHECK(run({"check", "--budget", path}).err.find("help: rename the file\n") != std::string::npos);
    std::filesystem::remove(path);
  }
}
