#include <doctest/doctest.h>

#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "check_files.hpp"

using plan::checks::run;

namespace {

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

/// The flags at the start of a line "--layout tp2 --gpus 8   tp 2  pp 1 ...".
std::vector<std::string> flags_of(const std::string& line) {
  const std::vector<std::string> words = words_of(line);
  std::vector<std::string> flags;
  for (std::size_t i = 0; i + 1 < words.size() && words[i].rfind("--", 0) == 0; i += 2)
    flags.insert(flags.end(), {words[i], words[i + 1]});
  return flags;
}

}  // namespace

TEST_CASE("what `estimate` proposes for a layout that is not possible is possible, and keeps the typed words but one") {
  std::mt19937 random(17);
  const auto pick = [&](const std::vector<std::string>& from) { return from[random() % from.size()]; };
  int refused = 0, proposed = 0;
  for (int round = 0; round < 150; ++round) {
    const std::string gpus = pick({"8", "24", "64", "96", "128"}), batch = pick({"60", "96", "128", "1000"});
    std::string layout;
    for (const auto& [word, values] :
         std::vector<std::pair<std::string, std::vector<std::string>>>{{"tp", {"1", "2", "3", "4", "48"}},
                                                                       {"pp", {"1", "2", "4", "5"}},
                                                                       {"vp", {"2", "3"}},
                                                                       {"dp", {"2", "8", "12"}},
                                                                       {"mb", {"1", "3", "7"}},
                                                                       {"cp", {"1", "2", "3"}}})
      if (random() % 2 == 0) layout += (layout.empty() ? "" : ",") + word + pick(values);
    if (layout.empty()) continue;
    const std::vector<std::string> job = {"estimate", "--model",  pick({"8b", "qwen3-30b-a3b"}),
                                          "--gpus",   gpus,       "--global-batch",
                                          batch,      "--layout", layout};
    const plan::checks::Ran ran = run(job);
    if (ran.err.find("is not possible") == std::string::npos) continue;
    ++refused;
    CAPTURE(layout);
    CAPTURE(gpus);
    CAPTURE(batch);
    CAPTURE(ran.err);
    std::istringstream lines(ran.err);
    for (std::string line; std::getline(lines, line);) {
      const std::vector<std::string> flags = flags_of(line);
      if (flags.empty()) continue;
      ++proposed;
      std::vector<std::string> again = job;
      for (std::size_t i = 0; i < flags.size(); i += 2) {
        const auto at = std::find(again.begin(), again.end(), flags[i]);
        if (at == again.end())
          again.insert(again.end(), {flags[i], flags[i + 1]});
        else
          *(at + 1) = flags[i + 1];
      }
      const plan::checks::Ran second = run(again);
      CAPTURE(line);
      CHECK(second.err == "");
      CHECK(second.status < 2);
      if (line.find("tp ") == std::string::npos) std::getline(lines, line);  // flags that have a line to themselves
      const std::size_t degrees = line.find("tp ");
      REQUIRE(degrees != std::string::npos);
      std::string shown = line.substr(degrees, line.find("  ", line.find("dp ", degrees)) - degrees);
      for (const std::string& number : words_of(shown)) CHECK(second.out.find(number) != std::string::npos);
    }
  }
  CHECK(refused > 30);
  CHECK(proposed > refused);
}
