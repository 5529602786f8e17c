#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "formulas/result.hpp"

namespace plan {

struct OutputFile {
  std::string path{};
  std::string_view text{};
  bool executable = false;
};

/// Writes all files whole or none at all: temporary files beside them, then renames. Devices and pipes are written to
/// directly.
[[nodiscard]] Result<bool> write_whole(const std::vector<OutputFile>& files);
[[nodiscard]] Result<bool> write_whole(const std::string& path, std::string_view text);

/// `text` with every byte that is not UTF-8 as `?`: names of files may hold any.
[[nodiscard]] std::string as_utf8(std::string text);

/// Writes all of `text` to a descriptor. A reader that has gone away is no error.
[[nodiscard]] bool write_all(int descriptor, std::string_view text);

}  // namespace plan
