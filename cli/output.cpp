// Writing the result. Tested by tests/cli/output_test.cpp and tests/cli/golden_test.cpp.
#include "cli/output.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
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

Result<bool> write_whole(const std::string& path, std::string_view text) {
  const bool direct = is_special(path);
  std::error_code ignored;
  if (!direct && std::filesystem::is_symlink(path, ignored))  // write the file, keep the link
    if (const std::filesystem::path real = std::filesystem::canonical(path, ignored); !real.empty())
      return write_whole(real.string(), text);
  const std::string target = direct ? path : fmt::format("{}.{}.tmp", path, ::getpid());
  const int descriptor = ::open(target.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor < 0) return cannot_write(path, errno);
  const bool written = write_all(descriptor, text);
  int reason = written ? 0 : errno;
  if (::close(descriptor) != 0 && reason == 0) reason = errno;
  if (reason == 0 && !direct && std::rename(target.c_str(), path.c_str()) != 0) reason = errno;
  if (reason == 0) return true;
  if (!direct) ::unlink(target.c_str());
  return cannot_write(path, reason);
}

}  // namespace plan
