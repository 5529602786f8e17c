// Names that may weigh and that nothing reads. Tested by tests/launch/unread_test.cpp.
#include "cli/launch/job/unread.hpp"

#include <fmt/core.h>

#include "presets/yaml.hpp"

namespace plan {

void Unread::add(std::string_view name, std::string_view where) {
  if (names_.empty()) where_ = where;
  names_ += fmt::format("{}`{}`", names_.empty() ? "" : ", ", name);
}

void Unread::tell(std::vector<Note>& notes, std::string_view whose, const char* code) const {
  if (!names_.empty())
    notes.push_back({code, fmt::format("{}: what {} change is not known: {}", where_, whose, names_)});
}

Error degree_not_read(std::string_view where, std::string_view key, std::string_view value) {
  return {"degree_not_read",
          fmt::format("{}: `{}` splits the job over {} ranks in a way that plan does not know", where,
                      yaml::printable(key), value),
          {},
          {"leave it out of the file that plan reads, and state the axis that it is by `--layout`"}};
}

}  // namespace plan
