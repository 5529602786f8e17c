// The switch of the changes that mutate.py writes into files. PLAN_MUTANT is the number of the one that is on. With
// PLAN_MUTANT_LOG, none is, and that file gets a line for every change that a test comes by: the name of the test, a
// tabulator, the number. Programs that a test starts inherit its name.
#include "tests/tools/mutants.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <string>

namespace {

constexpr int kMost = 65536;
std::array<std::atomic<bool>, kMost> met{};

int number_on() {
  const char* word = std::getenv("PLAN_MUTANT");
  return word == nullptr ? -1 : std::atoi(word);
}

/// A line a change and process, at once and in one piece: a process may end in any way.
void note(int id) {
  static const char* const log = std::getenv("PLAN_MUTANT_LOG");
  if (log == nullptr) return;
  const char* test = std::getenv("PLAN_MUTANT_TEST");
  const std::string line = std::string(test == nullptr ? "" : test) + "\t" + std::to_string(id) + "\n";
  const int file = ::open(log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (file < 0) return;
  if (::write(file, line.data(), line.size()) < 0) std::abort();
  ::close(file);
}

}  // namespace

extern "C" bool plan_mutant(int id) noexcept {
  static const int on = number_on();
  if (on < 0 && id >= 0 && !met[id].load(std::memory_order_relaxed) && !met[id].exchange(true)) note(id);
  return id >= 0 && id == on;
}

/// A test begins: what it comes by is new again.
extern "C" void plan_mutants_of(const char* test) {
  if (std::getenv("PLAN_MUTANT_LOG") == nullptr) return;
  ::setenv("PLAN_MUTANT_TEST", test, 1);
  for (std::atomic<bool>& one : met) one = false;
}
