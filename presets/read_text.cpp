// The text of a file, whole or not at all. Another program may rewrite a file while it is read: a shortened one then
// hands out zeros where its text was, and a longer one the beginning of the new text behind the end of the old. So the
// file's size and time of change are compared before and after, and a file that changed is read again, a few times.
// Tested by tests/presets/yaml_test.cpp and tests/cli/hostile_surroundings_test.cpp.
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <utility>

#include "presets/shell_quoted.hpp"
#include "presets/yaml.hpp"

namespace plan::yaml {
namespace {

constexpr int kAttempts = 5;

class Descriptor {
 public:
  explicit Descriptor(const std::string& path) : value_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int value() const { return value_; }

 private:
  int value_;
};

bool unchanged(const struct stat& before, const struct stat& after) {
  return before.st_size == after.st_size && before.st_mtim.tv_sec == after.st_mtim.tv_sec &&
         before.st_mtim.tv_nsec == after.st_mtim.tv_nsec;
}

Error unreadable(const std::string& path, const char* why) {
  return {"unreadable_file", fmt::format("`{}` {}", printable(path), why), {}, {}, {path, 0, 0, 1, {}}};
}

/// The text of the file as it now is; nothing where it changed meanwhile.
Result<std::optional<std::string>> read_once(const std::string& path) {
  const Descriptor file(path);
  struct stat before {};
  if (file.value() < 0 || ::fstat(file.value(), &before) != 0) return fail(unreadable(path, "cannot be opened"));
  std::string text;
  std::array<char, 65536> chunk{};
  while (text.size() <= kMostBytes) {
    const ssize_t got = ::read(file.value(), chunk.data(), chunk.size());
    if (got == 0) break;
    if (got > 0)
      text.append(chunk.data(), static_cast<std::size_t>(got));
    else if (errno != EINTR)
      return fail(unreadable(path, "cannot be read"));
  }
  struct stat after {};
  if (S_ISREG(before.st_mode) && (::fstat(file.value(), &after) != 0 || !unchanged(before, after))) return std::nullopt;
  return text;
}

/// The encoding that a mark at the start names; empty without one. Windows' shells redirect in UTF-16: to no reader but
/// that of logs is that text. UTF-32's little mark begins as UTF-16's does, whose texts hold no NUL behind it.
std::string_view wide_encoding(std::string_view text) {
  using namespace std::string_view_literals;
  if (text.starts_with("\xff\xfe\0\0"sv) || text.starts_with("\0\0\xfe\xff"sv)) return "UTF-32";
  return text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff") ? "UTF-16" : "";
}

}  // namespace

Result<std::string> read_text(const std::string& path) {
  const Place whole{path, 0, 0, 1, {}};
  std::error_code status;
  if (!std::filesystem::exists(path, status)) {
    if (status) return fail(unreadable(path, ("cannot be opened: " + status.message()).c_str()));
    return fail({"unreadable_file", fmt::format("no file `{}`", printable(path)), {}, {}, whole});
  }
  if (std::filesystem::is_directory(path, status)) return fail(unreadable(path, "is a directory"));
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    Result<std::optional<std::string>> text = read_once(path);
    if (!text) return fail(std::move(text.error()));
    if (!*text) continue;
    if ((*text)->size() > kMostBytes)
      return fail({"too_large", fmt::format("the file is larger than {} MiB", kMostBytes >> 20), {}, {}, whole});
    if (const std::string_view wide = wide_encoding(**text); !wide.empty())
      return fail({"not_text",
                   fmt::format("the file is {} text, and is read as UTF-8", wide),
                   {},
                   {fmt::format("write it anew: `iconv -f {} -t UTF-8 {} > FILE`", wide, shell_quoted(path))},
                   whole});
    return *std::move(*text);
  }
  return fail(unreadable(path, "is being changed by another program: read it again when that is done"));
}

}  // namespace plan::yaml
