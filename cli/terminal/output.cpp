// Writing the result. Tested by tests/cli/output_test.cpp and tests/cli/golden_test.cpp.
#include "cli/terminal/output.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <random>

#include "presets/characters.hpp"

namespace plan {
namespace {

tl::unexpected<Errors> cannot_write(const std::string& path, int reason) {
  return fail({"cannot_write", fmt::format("cannot write `{}`: {}", path, std::strerror(reason))});
}

/// What must not be renamed over: devices, pipes, and names such as /dev/stdout that lead to an open file.
bool is_special(const std::string& path) {
  std::error_code ignored;
  for (const std::string_view open_file : {"/dev/std", "/dev/fd/", "/proc/"})
    if (path.starts_with(open_file)) return true;
  const std::filesystem::file_status status = std::filesystem::status(path, ignored);
  return std::filesystem::exists(status) && !std::filesystem::is_regular_file(status);
}

/// Where a file is that a name stands for: a link is kept, and what it leads to is written, though it be missing yet.
std::string behind_links(const std::string& path) {
  std::error_code failed;
  std::filesystem::path at = path;
  for (int links = 0; links < 40 && std::filesystem::is_symlink(at, failed); ++links) {
    const std::filesystem::path target = std::filesystem::read_symlink(at, failed);
    if (failed) break;
    at = at.parent_path() / target;  // an absolute target replaces the folder
  }
  return at.string();
}

/// Signals that end the program wait while a temporary file exists, so that none is left behind.
class SignalsWait {
 public:
  SignalsWait() {
    sigset_t ending;
    ::sigemptyset(&ending);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&ending, signal);
    ::pthread_sigmask(SIG_BLOCK, &ending, &before_);
  }
  ~SignalsWait() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsWait(const SignalsWait&) = delete;
  SignalsWait& operator=(const SignalsWait&) = delete;

 private:
  sigset_t before_{};
};

/// A file beside its place until it is finished; without that it goes away. Both steps give 0 or an errno.
class DraftFile {
 public:
  DraftFile() = default;
  ~DraftFile() {
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
  }
  DraftFile(const DraftFile&) = delete;
  DraftFile& operator=(const DraftFile&) = delete;

  int write(const OutputFile& file) {
    const bool direct = is_special(file.path);
    path_ = direct ? file.path : behind_links(file.path);
    const int descriptor = direct ? ::open(path_.c_str(), O_WRONLY | O_CLOEXEC) : open_fresh(file.executable);
    if (descriptor < 0) return errno;
    int reason = write_all(descriptor, file.text) ? 0 : errno;
    if (!direct && reason == 0 && ::fsync(descriptor) != 0 && errno != EINVAL) reason = errno;
    return ::close(descriptor) != 0 && reason == 0 ? errno : reason;
  }
  int finish() {
    if (temporary_.empty()) return 0;
    if (std::rename(temporary_.c_str(), path_.c_str()) != 0) return errno;
    temporary_.clear();
    return 0;
  }

 private:
  /// A file that nobody could lay there before, with the mode of the one that it will replace.
  int open_fresh(bool executable) {
    const std::string folder = std::filesystem::path(path_).parent_path().string();
    std::random_device random;
    for (int tries = 0; tries < 100; ++tries) {
      const std::string name = fmt::format("{}{}.plan-{:08x}{:08x}.tmp", folder,
                                           folder.empty() || folder == "/" ? "" : "/", random(), random());
      const int descriptor =
          ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, executable ? 0777 : 0666);
      if (descriptor < 0 && errno == EEXIST) continue;
      if (descriptor < 0) return -1;
      temporary_ = name;
      struct stat old {};
      if (::stat(path_.c_str(), &old) == 0) {
        const mode_t mode = old.st_mode & 0777U;
        static_cast<void>(::fchmod(descriptor, executable ? mode | ((mode & 0444U) >> 2U) : mode));
      }
      return descriptor;
    }
    errno = EEXIST;
    return -1;
  }

  std::string path_{}, temporary_{};
};

/// The first line that is neither empty nor a comment.
std::string_view first_line(std::string_view text) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const std::size_t begin = line.find_first_not_of(" \t\r");
    if (begin != std::string_view::npos && line[begin] != '#')
      return line.substr(begin, line.find_last_not_of(" \r") + 1 - begin);
  }
  return {};
}

std::string json_kind(std::string_view text) {
  const std::size_t key = text.substr(0, 4096).find("\"schema\"");
  const std::size_t begin = key == std::string_view::npos ? key : text.find('"', key + 8);
  if (begin == std::string_view::npos) return "JSON";
  return fmt::format("JSON of schema {}",
                     text.substr(begin + 1, std::min<std::size_t>(text.find('"', begin + 1) - begin - 1, 40)));
}

/// Bytes of the control character at `at`; 0 where none is.
std::size_t control_at(std::string_view text, std::size_t at) {
  const Character character = character_at(text, at);
  return is_control(character.code) ? character.size : 0;
}

/// Bytes of a colour (`ESC [ 1;31 m`) that begins `text`, 0 for anything else.
std::size_t color_at(std::string_view text) {
  if (!text.starts_with("\033[")) return 0;
  const std::size_t end = text.find_first_not_of("0123456789;", 2);
  return end != std::string_view::npos && text[end] == 'm' ? end + 1 : 0;
}

/// `##[group]`, `##vso[...]`: Azure's and GitHub's commands, obeyed anywhere in a line.
bool is_bracketed_command(std::string_view text) {
  if (!text.starts_with("##")) return false;
  const std::size_t word = text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", 2);
  return word != std::string_view::npos && text[word] == '[';
}

}  // namespace

bool has_controls(std::string_view word) {
  for (std::size_t i = 0; i < word.size(); ++i)
    if (control_at(word, i) > 0) return true;
  return false;
}

std::string for_people(std::string_view text, bool color) {
  std::string out;
  bool at_start = true;  // of a line, but for blanks
  for (std::size_t i = 0; i < text.size();) {
    const std::string_view rest = text.substr(i);
    const std::size_t painted = color ? color_at(rest) : 0, control = control_at(text, i);
    if (painted > 0 || text[i] == '\n' || text[i] == '\t' || control == 0) {
      if (at_start && rest.starts_with("::")) out += '\\';
      const std::size_t length = std::max<std::size_t>(painted, 1);
      at_start = text[i] == '\n' || (at_start && (painted > 0 || text[i] == ' ' || text[i] == '\t'));
      out += rest.substr(0, length), i += length;
      if (is_bracketed_command(rest)) out += '\\';  // #\#[group]
    } else {
      out += '?', i += control, at_start = false;
    }
  }
  return out;
}

std::string as_utf8(std::string text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = character_at(text, at).size;
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

std::string kind_of(std::string_view text) {
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) return "";
  if (text.find('\0') != std::string_view::npos) return "binary data";
  if (text.starts_with("#!")) return "a script";
  const std::string_view line = first_line(text);
  if (line.starts_with('{')) return json_kind(text);
  if (line.starts_with('<')) return line.starts_with("<?xml") ? "XML" : "HTML";
  for (const std::string_view mark : {"preset: ", "budget: "})
    if (line.starts_with(mark)) return fmt::format("a file of `{}`", line.substr(0, 40));
  const std::size_t word = line.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.");
  if (word == 0 || word == std::string_view::npos) return line.starts_with('[') ? "TOML" : "text";
  if (line[word] == ':') return "YAML";
  return line[word] == ',' ? "CSV" : "text";
}

Result<bool> write_whole(const std::vector<OutputFile>& files) {
  std::optional<SignalsWait> wait;  // a device or a pipe may take for ever: that must be possible to end
  if (std::none_of(files.begin(), files.end(), [](const OutputFile& file) { return is_special(file.path); }))
    wait.emplace();
  std::vector<DraftFile> drafts(files.size());
  for (std::size_t i = 0; i < files.size(); ++i)
    if (const int reason = drafts[i].write(files[i]); reason != 0) return cannot_write(files[i].path, reason);
  for (std::size_t i = 0; i < files.size(); ++i)
    if (const int reason = drafts[i].finish(); reason != 0) return cannot_write(files[i].path, reason);
  return true;
}

Result<bool> write_whole(const std::string& path, std::string_view text) { return write_whole({{path, text}}); }

}  // namespace plan
