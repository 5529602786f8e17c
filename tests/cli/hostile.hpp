#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "contents.hpp"
#include "temporary_folder.hpp"

namespace plan::hostile {

using plan::contents_of;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#elif defined(__has_feature)
constexpr bool kSanitized = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
constexpr bool kSanitized = false;
#endif

struct Outcome {
  int status = -1;  ///< exit status; -1 where a signal ended it
  std::string out{}, err{};
};

/// The program itself, within limits of memory and time that the kernel keeps; its output goes to files of `folder`.
class Child {
 public:
  Child(const TemporaryFolder& folder, std::vector<std::string> words, const std::function<void()>& before = {});

  pid_t pid() const { return pid_; }
  Outcome wait() const;
  /// A limit of the kernel on this process, for instance RLIMIT_FSIZE.
  static void limit(int what, rlim_t most);

 private:
  std::string out_, err_;
  pid_t pid_ = -1;
};

/// Runs the program to its end; `before` is done in the new process.
[[nodiscard]] Outcome run(const std::vector<std::string>& words, const std::function<void()>& before = {});

/// Refused: an exit status of its own, one error, and no wall of text.
void check_refused(const Outcome& outcome);

/// Every way by which a command reads a file.
[[nodiscard]] std::vector<std::vector<std::string>> readers(const std::string& file);
void check_refused_by_all(const std::string& file);

[[nodiscard]] bool is_utf8(const std::string& text);
[[nodiscard]] std::string repeated(std::string_view part, std::size_t times);

}  // namespace plan::hostile
