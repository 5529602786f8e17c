#pragma once

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "cli/commands.hpp"

namespace plan::checks {

using Json = nlohmann::ordered_json;

/// A folder with files, the working directory while it lives.
class Folder {
 public:
  Folder() : before_(std::filesystem::current_path()) {
    static int count = 0;
    path_ = std::filesystem::temp_directory_path() /
            ("plan_check." + std::to_string(::getpid()) + "." + std::to_string(count++));
    std::filesystem::create_directories(path_);
    std::filesystem::current_path(path_);
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::current_path(before_, ignored);
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  void write(const std::string& name, const std::string& text) const {
    const std::filesystem::path file = path_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << text;
  }

 private:
  std::filesystem::path before_, path_;
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
