// Where presets are looked for, as the environment says. Tested by tests/presets/store_test.cpp.
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "presets/entries.hpp"

namespace plan {
namespace {

namespace fs = std::filesystem;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

}  // namespace

StoreOptions StoreOptions::from_environment() {
  StoreOptions options;
  const std::string path = variable("PLAN_PRESET_PATH");
  for (std::size_t begin = 0; begin < path.size();) {
    const std::size_t end = std::min(path.find(':', begin), path.size());
    if (end > begin) options.path.push_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  if (const std::string home = variable("XDG_DATA_HOME"); !home.empty())
    options.data_home = home + "/plan/presets";
  else if (const std::string user = variable("HOME"); !user.empty())
    options.data_home = user + "/.local/share/plan/presets";
  std::error_code status;
  const fs::path self = fs::read_symlink("/proc/self/exe", status);
  if (!status) options.installed = (self.parent_path().parent_path() / "share/plan/presets").string();
  return options;
}

}  // namespace plan
