#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace plan {

/// A file of its own folder that goes away with the object.
class Temporary {
 public:
  Temporary(const std::string& name, const std::string& text) {
    std::string pattern = (std::filesystem::temp_directory_path() / "plan-launch-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    path_ = (folder_ / name).string();
    std::ofstream(path_, std::ios::binary) << text;
  }
  ~Temporary() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::filesystem::path folder_{};
  std::string path_{};
};

}  // namespace plan
