#pragma once

#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "cli/commands/commands.hpp"
#include "temporary_folder.hpp"

namespace plan::checks {

using Json = nlohmann::ordered_json;

/// A folder with files, the working directory while it lives.
class Folder {
 public:
  Folder() : before_(std::filesystem::current_path()) { std::filesystem::current_path(folder_.path()); }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::current_path(before_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  void write(const std::string& name, const std::string& text) const { folder_.write(name, text); }

 private:
  TemporaryFolder folder_{};
  std::filesystem::path before_;
};

struct Ran {
  int status = 0;
  std::string out, err;
};

inline Ran run(const std::vector<std::string>& words) {
  Streams streams;
  const int status = run_command_line(words, streams);
  return {status, streams.out, streams.err};
}

inline Json run_json(std::vector<std::string> words) {
  words.emplace_back("--json");
  return Json::parse(run(words).out);
}

/// The limit named `rule` of the first job.
inline Json limit_of(const Json& report, const std::string& rule) {
  for (const Json& limit : report["jobs"][0]["limits"])
    if (limit["rule"] == rule) return limit;
  return {};
}

/// Checks that a job, changed as a suggestion says, passes with the memory and the time that it promised.
inline bool keeps_its_word(const Ran& again, const Json& suggestion) {
  CAPTURE(again.err);
  CHECK(again.status == 0);
  if (again.status != 0) return false;
  const Json now = Json::parse(again.out)["jobs"][0]["plan"]["best"];
  CHECK(now["memory"]["peak_bytes"] == suggestion["peak_bytes"]);
  CHECK(now["step_time_s"] == suggestion["step_time_s"]);
  return true;
}

}  // namespace plan::checks
