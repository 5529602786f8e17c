// What an error about a word proposes is itself read: a change that does not work is worse than none.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <random>
#include <string>
#include <vector>

#include "cli/request/sources/releases.hpp"
#include "cli/request/sources/switches.hpp"
#include "cli/request/words/choice_words.hpp"
#include "cli/request/words/layout_flag.hpp"
#include "cli/terminal/cuda_graphs.hpp"
#include "cli/terminal/offload_flag.hpp"
#include "oracle/random_problem.hpp"
#include "planner/problem/axes.hpp"

using namespace plan;

namespace {

/// What `help` holds behind `start` up to the next backquote; all of them.
std::vector<std::string> quoted_behind(const std::string& help, const std::string& start) {
  std::vector<std::string> found;
  for (std::size_t at = help.find(start); at != std::string::npos; at = help.find(start, at)) {
    at += start.size();
    found.push_back(help.substr(at, help.find('`', at) - at));
  }
  return found;
}

std::string any_of(std::mt19937& random, const std::vector<std::string>& words) {
  return words[random() % words.size()];
}

/// Words of `flag` that are no value of it: each is refused with another that is one.
template <class Read>
void each_is_answered(const std::string& flag, const std::vector<std::string>& words, const Read& read) {
  for (const std::string& word : words) {
    CAPTURE(flag);
    CAPTURE(word);
    const auto value = read(word);
    REQUIRE_FALSE(value.has_value());
    int proposed = 0;
    for (const std::string& help : value.error().front().help)
      for (const std::string& other : quoted_behind(help, "`" + flag + " ")) {
        CAPTURE(other);
        CHECK(read(other).has_value());
        ++proposed;
      }
    CHECK(proposed > 0);
  }
}

}  // namespace

TEST_CASE("layouts to compare are read both, and differ") {
  std::mt19937 random(11);
  const std::vector<std::string> items = {"tp2",  "tp4", "TP=2",   "pp2",  "pp4", "zero3",
                                          "fsdp", "sp",  "sp=off", "1f1b", "dp8", "recompute=full",
                                          "foo",  "tp0"};
  int offered = 0;
  for (int round = 0; round < oracle::rounds(2000); ++round) {
    std::string words = any_of(random, items);
    for (auto more = 1 + random() % 4; more > 0; --more) words += "," + any_of(random, items);
    CAPTURE(words);
    const Result<Fixed> read = read_layout(words);
    if (read) continue;
    for (const Error& error : read.error())
      for (const std::string& help : error.help)
        for (const std::string& both : quoted_behind(help, "`plan compare ")) {
          CAPTURE(both);
          const std::size_t blank = both.find(' ');
          const Result<Fixed> a = read_layout(both.substr(0, blank)), b = read_layout(both.substr(blank + 1));
          REQUIRE(a.has_value());
          REQUIRE(b.has_value());
          CHECK_FALSE(*a == *b);
          ++offered;
        }
  }
  CHECK(offered > 0);
}

TEST_CASE("an axis with a value that it does not take is one mistake, and items that are proposed for it are read") {
  std::vector<std::string> axes;
  each_axis([&](const auto& axis) { axes.emplace_back(axis.word); });
  const std::vector<std::string> values = {"fsdp", "ddp", "2.5", "0.5", "yes", "no",    "on",  "off",   "true", "none",
                                           "auto", "all", "max", "-1",  "two", "zero3", "tp4", "1.000", "?",    "x"};
  for (const std::string& axis : axes)
    for (const std::string& value : values)
      for (const char* between : {"=", " ", ":"}) {
        const std::string text = axis + between + value;
        CAPTURE(text);
        const Result<Fixed> read = read_layout(text);
        if (read) continue;
        if (std::string_view(between) == " " &&
            (value == "fsdp" || value == "ddp" || value == "zero3" || value == "tp4"))
          continue;  // items of their own
        CHECK(read.error().size() == 1);
        for (const std::string& help : read.error().front().help) {
          CHECK(help.find("``") == std::string::npos);
          if (!help.starts_with("write `") || help.find('N') != std::string::npos) continue;
          for (std::string item :
               quoted_behind(help, help.find("`--layout ") == std::string::npos ? "`" : "`--layout ")) {
            if (item.find(axis.substr(0, 2)) != 0) continue;  // what is between two quoted words
            CAPTURE(item);
            CHECK(read_layout(item).has_value());
          }
        }
        if (read.error().front().code != "out_of_range") CHECK_FALSE(read.error().front().help.empty());
      }
}

TEST_CASE("an axis said not to be there is answered with the item that says so") {
  for (const auto& [axis, item] : {std::pair{"sp", "sp=off"},
                                   {"tp", "tp1"},
                                   {"zero", "zero0"},
                                   {"fsdp", "zero0"},
                                   {"recompute", "recompute=none"},
                                   {"pp", "pp1"},
                                   {"ac", "recompute=none"}})
    for (const char* no : {"no-", "no_", "no", "without-"}) {
      const std::string word = std::string(no) + axis;
      CAPTURE(word);
      const Result<Fixed> read = read_layout(word);
      REQUIRE_FALSE(read.has_value());
      CHECK(read.error().front().help.front() == fmt::format("write `{}`", item));
      CHECK(read_layout(item).has_value());
    }
}

TEST_CASE("a value behind a blank is the value of the axis before it") {
  for (const auto& row : {std::pair{"sp off", "sp=off"},
                          {"tp 2 sp on", "tp2,sp"},
                          {"zero 3 recompute none", "zero3,recompute=none"},
                          {"recompute full tp 8", "recompute=full,tp8"},
                          {"schedule 1f1b", "schedule=1f1b"},
                          {"layers 7+2x8+7", "layers=7+2x8+7"},
                          {"sp tp 8", "sp,tp8"},
                          {"zero3 1f1b", "zero3,schedule=1f1b"}}) {
    CAPTURE(row.first);
    REQUIRE(read_layout(row.first).has_value());
    CHECK(*read_layout(row.first) == *read_layout(row.second));
  }
}

TEST_CASE("words that people write for a value are refused with the value") {
  each_is_answered("--cuda-graphs", {"yes", "on", "true", "no", "off", "0"}, read_cuda_graphs);
  each_is_answered("--offload",
                   {"optimizer=50%", "optimizer=50", "optimizer=100", "optimizer=0", "optimizer=half", "optimizer=-1",
                    "yes", "off", "cpu"},
                   read_offload);
  each_is_answered("--release", {"26.4", "2026.04", "2026-04", "26-04", "v26.04", "nemo:26.04", "26.4-py3", "25.9"},
                   read_release);
  each_is_answered("--imbalance", {"130%", "30%", "150 %"}, read_imbalance);
  each_is_answered("--objective", {"tokens", "tok/s", "mem", "usd", "mfu"},
                   [](const std::string& word) { return read_choice("--objective", word); });
  for (const double percent : {100.0, 130.0, 250.0, 400.0}) {
    CAPTURE(percent);
    CHECK(read_imbalance(fmt::format("{:g}%", percent))
              .error()
              .front()
              .help.front()
              .find(fmt::format("`--imbalance {:g}`", percent / 100)) != std::string::npos);
  }
}
