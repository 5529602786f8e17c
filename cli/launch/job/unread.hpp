#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/launch/job/launch_job.hpp"

namespace plan {

/// Names in a job's files that nothing reads and that sound as if they weighed. They are reported in one note, which
/// says where the first of them is.
class Unread {
 public:
  void add(std::string_view name, std::string_view where);
  /// Adds "a.yaml:3: what these keys change is not known: `a`, `b`" to the notes; nothing where no name was added.
  void tell(std::vector<Note>& notes, std::string_view whose = "these keys", const char* code = "not_used") const;

 private:
  std::string names_{}, where_{};
};

/// That nothing here reads a degree which a file states: the job is split in another way than an answer without it.
[[nodiscard]] Error degree_not_read(std::string_view where, std::string_view key, std::string_view value);

}  // namespace plan
