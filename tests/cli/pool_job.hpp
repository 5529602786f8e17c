#pragma once

// A small dense job, as words of a command line, for tests of several kinds of GPU.
#include <string>
#include <vector>

namespace plan::checks {

/// The verb in `first`, the job, then `more`.
inline std::vector<std::string> pool_job(std::vector<std::string> first, const std::vector<std::string>& more) {
  for (const char* word : {"--model", "8b", "--seq", "4096", "--global-batch", "64"}) first.emplace_back(word);
  first.insert(first.end(), more.begin(), more.end());
  return first;
}

}  // namespace plan::checks
