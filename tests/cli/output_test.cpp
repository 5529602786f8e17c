#include "cli/terminal/output.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

using namespace plan;
namespace fs = std::filesystem;

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
