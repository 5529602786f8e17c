#pragma once

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace plan {

/// The bytes of a file; none where it cannot be read.
inline std::string contents_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace plan
