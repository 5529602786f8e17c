#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "formulas/result.hpp"

namespace plan {

/// Ranks 1 to n-1 of this program, started by rank 0 on the same machine.
class Children {
 public:
  Children() = default;
  Children(Children&&) noexcept;
  Children& operator=(Children&&) noexcept;
  /// Ends whoever is still there: asked first, made to a second later.
  ~Children();

  /// Starts them with the arguments of this process and `address`, `token`, `job` in their environment.
  [[nodiscard]] static Result<Children> start(int world, const std::string& address, const std::string& token,
                                              const std::string& job);
  [[nodiscard]] const std::vector<pid_t>& processes() const { return processes_; }

 private:
  std::vector<pid_t> processes_{};
};

}  // namespace plan
