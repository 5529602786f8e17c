// Derives presets/efficiency (the tables and the README) from the published measurements:
//     derive_efficiency tests/published/hardware.csv presets/efficiency
#include <fmt/core.h>

#include <cstdio>
#include <fstream>

#include "tests/tools/efficiency_yaml.hpp"
#include "tests/tools/holdout.hpp"

namespace {

bool write(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  if (!file) fmt::print(stderr, "derive_efficiency: cannot write {}\n", path);
  return static_cast<bool>(file);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    fmt::print(stderr, "usage: derive_efficiency HARDWARE.csv DIRECTORY\n");
    return 2;
  }
  const std::vector<plan::derive::Row> rows = plan::derive::read_hardware(argv[1]);
  if (rows.empty()) {
    fmt::print(stderr, "derive_efficiency: nothing in {}\n", argv[1]);
    return 2;
  }
  bool written = write(fmt::format("{}/README.md", argv[2]), plan::derive::report(rows));
  for (const plan::derive::Subject& subject : plan::derive::subjects())
    written = write(fmt::format("{}/{}.yaml", argv[2], subject.preset),
                    plan::derive::to_yaml(plan::derive::derive_gpu(rows, subject))) &&
              written;
  return written ? 0 : 2;
}
