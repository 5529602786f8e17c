// Names that may weigh and that nothing reads. Tested by tests/launch/unread_test.cpp.
#include "cli/launch/unread.hpp"

#include <fmt/core.h>

namespace plan {

void Unread::add(std::string_view name, std::string_view where) {
  if (names_.empty()) where_ = where;
  names_ += fmt::format("{}`{}`", names_.empty() ? "" : ", ", name);
}

void Unread::tell(std::vector<Note>& notes, std::string_view whose, const char* code) const {
  if (!names_.empty())
    notes.push_back({code, fmt::format("{}: what {} change is not known: {}", where_, whose, names_)});
}

}  // namespace plan
