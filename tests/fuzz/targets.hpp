#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

/// Readers of files that others wrote, as functions of bytes: libFuzzer calls them with bytes of its own
/// (tests/fuzz/run.sh), and tests/fuzz/corpus_test.cpp with the files that are here.
namespace plan::fuzz {

struct Target {
  std::string_view name;  ///< its own inputs are in tests/fuzz/corpus/<name>
  void (*run)(std::string_view bytes);
  std::vector<std::string_view> seeds{};  ///< further files, and folders of such, below the source folder
};

[[nodiscard]] std::span<const Target> targets();
/// nullptr if there is no such target.
[[nodiscard]] const Target* find_target(std::string_view name);

/// Every input of a target that is kept in the repository, sorted.
[[nodiscard]] std::vector<std::string> inputs_of(const Target& target, const std::string& source_folder);

/// The target in whole_command.cpp.
void whole_command(std::string_view bytes);

/// What a target throws where a reader breaks its promise, for instance a failure without a message.
struct Broken {
  std::string what{};
};

}  // namespace plan::fuzz
