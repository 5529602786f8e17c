// Writing the result. Tested by tests/cli/output_test.cpp and tests/cli/golden_test.cpp.
#include "cli/terminal/output.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

namespace plan {
namespace {

tl::unexpected<Errors> cannot_write(const std::string& path, int reason) {
  return fail({"cannot_write", fmt::format("cannot write `{}`: {}", path, std::strerror(reason))});
}

/// What must not be renamed over: devices, pipes, and names such as /dev/stdout that lead to an open file.
bool is_special(const std::string& path) {
  std::error_code ignored;
  if (path.starts_with("/dev/") || path.starts_with("/proc/")) return true;
  const std::filesystem::file_status status = std::filesystem::status(path, ignored);
  return std::filesystem::exists(status) && !std::filesystem::is_regular_file(status);
}

/// Where a file is that a name stands for: a link is kept, and what it leads to is written.
std::string behind_links(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_symlink(path, ignored)) return path;
  const std::filesystem::path real = std::filesystem::canonical(path, ignored);
  return real.empty() ? path : real.string();
}

/// A file beside its place until it is finished; without that it goes away. Both steps give 0 or an errno.
class Draft {
 public:
  Draft() = default;
  ~Draft() {
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
  }
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;

  int write(const OutputFile& file) {
    const bool direct = is_special(file.path);
    path_ = direct ? file.path : behind_links(file.path);
    if (!direct) temporary_ = fmt::format("{}.{}.tmp", path_, ::getpid());
    const int descriptor = ::open(direct ? path_.c_str() : temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
                                  file.executable ? 0777 : 0666);
    if (descriptor < 0) return errno;
    const int reason = write_all(descriptor, file.text) ? 0 : errno;
    return ::close(descriptor) != 0 && reason == 0 ? errno : reason;
  }
  int finish() {
    if (temporary_.empty()) return 0;
    if (std::rename(temporary_.c_str(), path_.c_str()) != 0) return errno;
    temporary_.clear();
    return 0;
  }

 private:
  std::string path_{}, temporary_{};
};

/// Bytes of the character that starts at `at`; 0 where none does.
std::size_t character_at(std::string_view text, std::size_t at) {
  const auto byte = static_cast<unsigned char>(text[at]);
  const std::size_t length = byte < 0x80   ? 1
                             : byte < 0xc2 ? 0
                             : byte < 0xe0 ? 2
                             : byte < 0xf0 ? 3
                             : byte < 0xf5 ? 4
                                           : 0;
  if (at + length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((static_cast<unsigned char>(text[at + i]) & 0xc0) != 0x80) return 0;
  return length;
}

}  // namespace

std::string as_utf8(std::string text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = character_at(text, at);
    if (length == 0) text[at] = '?';
    at += length == 0 ? 1 : length;
  }
  return text;
}

bool write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno == EPIPE;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

Result<bool> write_whole(const std::vector<OutputFile>& files) {
  std::vector<Draft> drafts(files.size());
  for (std::size_t i = 0; i < files.size(); ++i)
    if (const int reason = drafts[i].write(files[i]); reason != 0) return cannot_write(files[i].path, reason);
  for (std::size_t i = 0; i < files.size(); ++i)
    if (const int reason = drafts[i].finish(); reason != 0) return cannot_write(files[i].path, reason);
  return true;
}

Result<bool> write_whole(const std::string& path, std::string_view text) { return write_whole({{path, text}}); }

}  // namespace plan
