#pragma once

#include <cstdlib>
#include <string>

namespace plan {

/// The words before a command that start it in an environment of its own: neither the user's presets nor the locale
/// show, and `folder` is the first of PATH. `more`: further variables. What tools that watch over tests say to
/// programs, sanitizers and the switch of tests/tools/mutants.cpp, is kept.
inline std::string clean_environment(const std::string& folder, const std::string& more = "") {
  std::string words = "env -i PATH='" + folder + ":/usr/bin:/bin' HOME=/nonexistent LC_ALL=C.UTF-8 " + more + " ";
  for (const char* kept : {"UBSAN_OPTIONS", "PLAN_MUTANT", "PLAN_MUTANT_LOG", "PLAN_MUTANT_TEST"})
    if (std::getenv(kept) != nullptr) words += std::string(kept) + "=\"$" + kept + "\" ";
  return words;
}

}  // namespace plan
