#pragma once

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "contents.hpp"

namespace plan::launching {

/// Compares lines with what is kept in tests/launch/recorded, and names the first that differs. With
/// PLAN_UPDATE_GOLDEN, as tests/tools/renew.sh sets it, they are kept instead.
inline void compare_with_record(const std::string& name, const std::string& text) {
  const std::string path = PLAN_SOURCE_DIR "/tests/launch/recorded/" + name + ".txt";
  if (std::getenv("PLAN_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path, std::ios::binary) << text;
    return;
  }
  std::istringstream now(text), then(contents_of(path));
  std::string a, b;
  for (int line = 1;; ++line) {
    const bool more_now = static_cast<bool>(std::getline(now, a)), more_then = static_cast<bool>(std::getline(then, b));
    if (!more_now && !more_then) return;
    if (more_now && more_then && a == b) continue;
    FAIL_CHECK(path << ":" << line << "\n  recorded: " << (more_then ? b : "(nothing)")
                    << "\n  now:      " << (more_now ? a : "(nothing)"));
    return;
  }
}

}  // namespace plan::launching
