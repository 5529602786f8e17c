#include "hostile.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

namespace plan::hostile {
namespace {

constexpr rlim_t kMostMemory = rlim_t{1} << 30;         // of address space; sanitizers need terabytes of it
constexpr rlim_t kMostSeconds = kSanitized ? 600 : 60;  // of processor time, many times what any case takes

void redirect(const std::string& path, int descriptor) {
  const int file = ::open(path.c_str(), descriptor == 0 ? O_RDONLY : O_WRONLY | O_CREAT | O_TRUNC, 0666);
  ::dup2(file, descriptor);
  ::close(file);
}

}  // namespace

Child::Child(const TemporaryFolder& folder, std::vector<std::string> words, const std::function<void()>& before)
    : out_(folder.at("stdout")), err_(folder.at("stderr")) {
  words.insert(words.begin(), PLAN_BINARY);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_ = ::fork();
  if (pid_ != 0) return;
  redirect("/dev/null", STDIN_FILENO), redirect(out_, STDOUT_FILENO), redirect(err_, STDERR_FILENO);
  if (!kSanitized) limit(RLIMIT_AS, kMostMemory);
  limit(RLIMIT_CPU, kMostSeconds), limit(RLIMIT_CORE, 0);
  ::setenv("HOME", "/nonexistent", 1), ::setenv("LC_ALL", "C.UTF-8", 1);
  if (before) before();
  ::execv(PLAN_BINARY, argv.data());
  ::_exit(127);
}

Outcome Child::wait() const {
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {}
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, contents_of(out_), contents_of(err_)};
}

void Child::limit(int what, rlim_t most) {
  const rlimit both{most, most};
  ::setrlimit(static_cast<decltype(RLIMIT_AS)>(what), &both);
}

Outcome run(const std::vector<std::string>& words, const std::function<void()>& before) {
  const TemporaryFolder folder;
  return Child(folder, words, before).wait();
}

void check_refused(const Outcome& outcome) {
  CAPTURE(outcome.err.substr(0, 2000));
  CHECK(outcome.status == 2);
  CHECK(outcome.out.empty());
  CHECK(outcome.err.starts_with("error: "));
  CHECK(outcome.err.find("internal") == std::string::npos);
  CHECK(outcome.err.find("bad_alloc") == std::string::npos);
  CHECK(outcome.err.size() < 20'000);
  CHECK(is_utf8(outcome.err));
}

std::vector<std::vector<std::string>> readers(const std::string& file) {
  return {{"--gpus", "8", "--model", file},
          {"--gpus", "8", "--model", "8b", "--cluster", file},
          {"--gpus", "8", "--model", "8b", "--gpu", file},
          {"--gpus", "8", "--model", "8b", "--profile", file},
          {"estimate", "--from", file},
          {"check", "--budget", file},
          {"check", "--budget", file, "--baseline", file},
          {"compare", file, file},
          {"validate", file},
          {"calibrate", file},
          {"probe", "--import", file},
          {"show", "model", file}};
}

void check_refused_by_all(const std::string& file) {
  for (const std::vector<std::string>& words : readers(file)) {
    CAPTURE(words.front());
    CAPTURE(words[words.size() - 2]);
    check_refused(run(words));
  }
}

bool is_utf8(const std::string& text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const std::size_t length = byte < 0x80                   ? 1
                               : byte >= 0xf0 && byte < 0xf8 ? 4
                               : byte >= 0xe0                ? 3
                               : byte >= 0xc2                ? 2
                                                             : 0;
    if (length == 0 || byte >= 0xf8 || i + length > text.size()) return false;
    for (std::size_t k = 1; k < length; ++k)
      if ((static_cast<unsigned char>(text[i + k]) & 0xc0) != 0x80) return false;
    i += length;
  }
  return true;
}

std::string repeated(std::string_view part, std::size_t times) {
  std::string text;
  text.reserve(part.size() * times);
  for (std::size_t i = 0; i < times; ++i) text += part;
  return text;
}

}  // namespace plan::hostile
