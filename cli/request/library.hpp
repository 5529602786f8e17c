#pragma once

#include <string>
#include <vector>

namespace plan {

/// One line of `plan list`.
struct Listed {
  std::string name;
  std::string about;
  std::string where{};
};

[[nodiscard]] std::vector<Listed> list_models();
[[nodiscard]] std::vector<Listed> list_gpus();
[[nodiscard]] std::vector<Listed> list_clusters();

}  // namespace plan
