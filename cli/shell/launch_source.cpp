// A launch file, what it is and what it names. Tested by tests/launch/shell_test.cpp.
#include "cli/shell/launch_source.hpp"

namespace plan {

bool is_shell(const LaunchSource& source) {
  if (!source.manifest.empty()) return true;
  if (source.text.starts_with("#!"))
    return source.text.substr(0, source.text.find('\n')).find("sh") != std::string::npos;
  return source.path.ends_with(".sh") || source.path.ends_with(".slurm") || source.path.ends_with(".sbatch");
}

std::optional<LaunchSource> beside(const LaunchSource& source, std::string_view name) {
  return source.open ? source.open(name) : std::nullopt;
}

}  // namespace plan
