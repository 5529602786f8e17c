// Faults injected where a program seldom meets them: the n-th allocation fails, once or from then on, and so does the
// n-th call that opens, writes, syncs or renames a file. Every command ends by itself, with a documented status or with
// the one exception that main.cpp turns into `error: no memory left`; a file that was there is whole, and no other file
// is left. This program replaces the operator new and the calls, so no library has to be loaded before it.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <new>
#include <string>
#include <vector>

#include "cli/commands/commands.hpp"
#include "contents.hpp"
#include "temporary_folder.hpp"

namespace {

/// Counts down to the call that fails; `lasting` makes all after it fail too.
struct Fault {
  std::atomic<long> left{-1};  ///< calls until the fault; below zero: none
  bool lasting = false;
  std::atomic<long> calls{0};

  bool strikes() {
    ++calls;
    if (left < 0) return false;
    const long now = left.fetch_sub(1);
    if (now == 0 && lasting) left = 0;
    return now == 0;
  }
};
Fault memory, files;

void* allocate(std::size_t bytes) {
  if (memory.strikes()) throw std::bad_alloc();
  if (void* space = std::malloc(bytes == 0 ? 1 : bytes)) return space;
  throw std::bad_alloc();
}

bool fails(int reason) {
  if (!files.strikes()) return false;
  errno = reason;
  return true;
}

}  // namespace

void* operator new(std::size_t bytes) { return allocate(bytes); }
void* operator new[](std::size_t bytes) { return allocate(bytes); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return memory.strikes() ? nullptr : std::malloc(bytes == 0 ? 1 : bytes);
}
void* operator new[](std::size_t bytes, const std::nothrow_t& none) noexcept { return operator new(bytes, none); }
void operator delete(void* space, const std::nothrow_t&) noexcept { std::free(space); }
void operator delete[](void* space, const std::nothrow_t&) noexcept { std::free(space); }
void operator delete(void* space) noexcept { std::free(space); }
void operator delete[](void* space) noexcept { std::free(space); }
void operator delete(void* space, std::size_t) noexcept { std::free(space); }
void operator delete[](void* space, std::size_t) noexcept { std::free(space); }

extern "C" {
int open(const char* path, int flags, ...) {
  mode_t mode = 0;
  if ((flags & O_CREAT) != 0) {
    va_list rest;
    va_start(rest, flags);
    mode = va_arg(rest, mode_t);
    va_end(rest);
  }
  return fails(EMFILE) ? -1 : static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}
ssize_t write(int descriptor, const void* bytes, size_t size) {
  return fails(ENOSPC) ? -1 : ::syscall(SYS_write, descriptor, bytes, size);
}
int fsync(int descriptor) { return fails(EIO) ? -1 : static_cast<int>(::syscall(SYS_fsync, descriptor)); }
int rename(const char* from, const char* to) noexcept {
  return fails(EACCES) ? -1 : static_cast<int>(::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}
}

namespace {
using namespace plan;

constexpr int kNoMemory = 70;

/// As in main.cpp: a destructor that allocates while memory stays out ends the process.
void terminated() {
  try {
    if (const std::exception_ptr thrown = std::current_exception()) std::rethrow_exception(thrown);
  } catch (const std::bad_alloc&) { ::_exit(kNoMemory); } catch (...) {
  }
  std::abort();
}

/// Exit status of a process that runs the words with a fault; -1 where a signal ended it. `calls`: how many there were.
int run(const std::vector<std::string>& words, Fault& fault, long at, bool lasting, long* calls = nullptr) {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    std::set_terminate(terminated);
    fault.calls = 0, fault.lasting = lasting, fault.left = at;
    int status = kNoMemory;
    try {
      Streams streams;
      status = run_command_line(words, streams);
    } catch (const std::bad_alloc&) {}
    fault.left = -1;
    const long made = fault.calls;
    ::syscall(SYS_write, ends[1], &made, sizeof made);
    ::_exit(status);
  }
  ::close(ends[1]);
  long made = 0;
  if (::read(ends[0], &made, sizeof made) == sizeof made && calls != nullptr) *calls = made;
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

const char* scale() {
  const char* text = std::getenv("PLAN_TEST_SCALE");
  return text != nullptr ? text : "1";
}

}  // namespace

TEST_CASE("a command whose n-th allocation fails ends by itself, for every n that is tried") {
  const TemporaryFolder folder;
  const std::string budget = folder.write(
      "b.yaml", "budget: 1\nmodel: 8b\ngpus: 64\nlayout: tp2,pp2\nlimits:\n  memory.peak: at most 72 GiB\n");
  const std::string script = std::string(PLAN_SOURCE_DIR) + "/tests/published/launch/llama31-405b.sbatch";
  const std::vector<std::vector<std::string>> commands = {
      {"estimate", "--model", "8b", "--gpus", "64", "--layout", "tp2,pp2", "--json"},
      {"estimate", "--from", script},
      {"check", "--budget", budget},
      {"--model", "8b", "--gpus", "16", "--threads", "1"},
      {"show", "formula", "mfu"}};
  const long points = std::max(4L, static_cast<long>(60 * std::atof(scale())));
  for (const std::vector<std::string>& words : commands) {
    CAPTURE(words[0]);
    long all = 0;
    const int sound = run(words, memory, -1, false, &all);
    REQUIRE((sound == 0 || sound == 1));
    REQUIRE(all > 10);
    for (const bool lasting : {false, true})
      for (long point = 0; point < points; ++point) {
        const long at = point < points / 2 ? point : point * all / points;  // the first ones, then some of all
        CAPTURE(at);
        const int status = run(words, memory, at, lasting);
        const bool ended = status == kNoMemory || (status >= 0 && status <= 2);
        CHECK_MESSAGE(ended, "status " << status);
      }
  }
}

TEST_CASE("a file is whole or as it was, whichever call fails on the way") {
  const TemporaryFolder folder;
  const std::string report = folder.write("out/report.json", "{\"schema\": \"plan/1\", \"old\": true}");
  const std::string before = contents_of(report);
  const std::vector<std::string> words = {"estimate", "--model", "8b",     "--gpus", "8",
                                          "--layout", "tp2",     "--json", "-o",     report};
  long all = 0;
  REQUIRE(run(words, files, -1, false, &all) <= 1);
  const std::string after = contents_of(report);
  REQUIRE(after != before);
  REQUIRE(all >= 4);  // open, write, fsync, rename
  for (const bool lasting : {false, true})
    for (long at = 0; at < all; ++at) {
      CAPTURE(at);
      folder.write("out/report.json", before);
      const int status = run(words, files, at, lasting);
      CHECK((status >= 0 && status <= 2));
      const std::string now = contents_of(report);
      CHECK((now == before || now == after));
      CHECK((status == 2) == (now == before));
      CHECK(std::distance(std::filesystem::directory_iterator(folder.path() / "out"),
                          std::filesystem::directory_iterator()) == 1);
    }
}
