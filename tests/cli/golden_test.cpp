// Runs the program as a user would: tests/golden/<case>/cmd in a shell, in that folder, and compares standard output,
// standard error and exit status with the files beside it. PLAN_UPDATE_GOLDEN=1 rewrites them.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "clean_environment.hpp"
#include "contents.hpp"

namespace fs = std::filesystem;
using plan::contents_of;

namespace {

void write(const fs::path& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

std::vector<fs::path> cases() {
  std::vector<fs::path> folders;
  for (const fs::directory_entry& entry : fs::directory_iterator(PLAN_SOURCE_DIR "/tests/golden"))
    if (entry.is_directory()) folders.push_back(entry.path());
  std::sort(folders.begin(), folders.end());
  return folders;
}

struct Outcome {
  std::string out, err, code;
};

Outcome run(const fs::path& folder, const fs::path& scratch) {
  const std::string binary_folder = fs::path(PLAN_BINARY).parent_path().string();
  const std::string command = "cd '" + folder.string() + "' && " + plan::clean_environment(binary_folder) +
                              "sh ./cmd >'" + (scratch / "out").string() + "' 2>'" + (scratch / "err").string() +
                              "' </dev/null";
  const int status = std::system(command.c_str());
  return {contents_of(scratch / "out"), contents_of(scratch / "err"), std::to_string(WEXITSTATUS(status)) + "\n"};
}

}  // namespace

TEST_CASE("golden") {
  const bool update = std::getenv("PLAN_UPDATE_GOLDEN") != nullptr;
  const fs::path scratch = fs::temp_directory_path() / ("plan_golden." + std::to_string(::getpid()));
  fs::create_directory(scratch);
  const std::vector<fs::path> folders = cases();
  CHECK(folders.size() > 20);
  for (const fs::path& folder : folders) {
    const std::string name = folder.filename().string();
    CAPTURE(name);
    const Outcome now = run(folder, scratch);
    if (update) {
      write(folder / "out", now.out);
      write(folder / "err", now.err);
      write(folder / "code", now.code);
      continue;
    }
    CHECK(now.out == contents_of(folder / "out"));
    CHECK(now.err == contents_of(folder / "err"));
    CHECK(now.code == contents_of(folder / "code"));
    if (now.code == "2\n") CHECK(now.out.empty());
  }
  fs::remove_all(scratch);
}
