#pragma once

// Small launch files of our own, written to a folder and read.

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "cli/launch/launch.hpp"
#include "temporary_folder.hpp"

namespace plan::launching {

struct Files {
  TemporaryFolder folder{};
  Result<LaunchJob> read(const std::string& name, const std::string& text, const LaunchContext& context = {}) const {
    return read_launch_files({folder.write(name, text)}, context);
  }
};

/// What a file states, of which each input is said once.
inline LaunchJob job_of(const std::string& name, const std::string& text, const LaunchContext& context = {}) {
  const Files files;
  const Result<LaunchJob> job = files.read(name, text, context);
  REQUIRE_MESSAGE(job, (job ? "" : job.error().front().message));
  std::multiset<std::string> keys;
  for (const Input& input : job->inputs) keys.insert(input.key);
  for (const std::string& key : keys) CHECK_MESSAGE(keys.count(key) == 1, key);
  return *job;
}

/// Code of the first mistake.
inline std::string error_of(const std::string& name, const std::string& text, const LaunchContext& context = {}) {
  const Files files;
  const Result<LaunchJob> job = files.read(name, text, context);
  REQUIRE_FALSE(job);
  return job.error().front().code;
}

inline bool names(const std::vector<Note>& notes, const std::string& word) {
  return std::any_of(notes.begin(), notes.end(),
                     [&](const Note& note) { return note.text.find(word) != std::string::npos; });
}

/// Does the job say of this input that nobody stated it?
inline bool guesses(const LaunchJob& job, const std::string& key) {
  return std::any_of(job.inputs.begin(), job.inputs.end(),
                     [&](const Input& input) { return input.key == key && input.guessed; });
}

/// A command line that gives the GPUs, 8 a node.
inline LaunchContext on(int gpus) { return {.model = {}, .gpus = gpus, .gpus_per_node = 8, .arguments = {}}; }

/// `text` with the first `from` replaced, which must be there.
inline std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace plan::launching
