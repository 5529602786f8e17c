// What libFuzzer found once, and the files that it starts from, through the same functions, in every build.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/fuzz/targets.hpp"

using namespace plan::fuzz;

TEST_CASE("every kept input is read or refused, and nothing else") {
  for (const Target& target : targets()) {
    CAPTURE(target.name);
    const std::vector<std::string> inputs = inputs_of(target, PLAN_SOURCE_DIR);
    CHECK(inputs.size() >= 2);
    for (const std::string& path : inputs) {
      CAPTURE(path);
      std::ifstream file(path, std::ios::binary);
      const std::string bytes{std::istreambuf_iterator<char>(file), {}};
      std::string broken;
      try {
        target.run(bytes);
      } catch (const Broken& promise) { broken = promise.what; }
      CHECK(broken == "");
    }
  }
}

TEST_CASE("every folder of inputs belongs to a target") {
  for (const auto& entry : std::filesystem::directory_iterator(PLAN_SOURCE_DIR "/tests/fuzz/corpus"))
    CHECK(find_target(entry.path().filename().string()) != nullptr);
}

TEST_CASE("an input cut anywhere is read or refused") {
  for (const Target& target : targets()) {
    CAPTURE(target.name);
    for (const std::string& path : inputs_of(target, PLAN_SOURCE_DIR)) {
      std::ifstream file(path, std::ios::binary);
      const std::string bytes{std::istreambuf_iterator<char>(file), {}};
      for (std::size_t i = 1; i <= 8; ++i) CHECK_NOTHROW(target.run(bytes.substr(0, bytes.size() * i / 9)));
    }
  }
}
