#pragma once

#include <string>

#include "temporary_folder.hpp"

namespace plan {

/// A file in a folder of its own that goes away with the object.
class Temporary {
 public:
  Temporary(const std::string& name, const std::string& text) : path_(folder_.write(name, text)) {}

  const std::string& path() const { return path_; }

 private:
  TemporaryFolder folder_{};
  std::string path_{};
};

}  // namespace plan
