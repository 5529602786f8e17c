// One process a GPU without a launcher: rank 0 starts the others. Tested by tests/hwprobe/self_launch_test.cpp and
// tests/hwprobe/probe_ranks_test.cpp.
#include "hwprobe/start/self_launch.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string_view>
#include <thread>
#include <utility>

extern char** environ;

namespace plan {
namespace {

/// The arguments of this process, as they were given.
std::vector<std::string> own_arguments() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string all((std::istreambuf_iterator<char>(file)), {});
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin < all.size();) {
    const std::size_t end = std::min(all.find('\0', begin), all.size());
    words.push_back(all.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> all;
  for (std::string& word : words) all.push_back(word.data());
  all.push_back(nullptr);
  return all;
}

std::vector<std::string> child_environment(int rank, int world, const std::string& address, const std::string& token,
                                           const std::string& job) {
  const std::string place = std::to_string(rank), size = std::to_string(world);
  const std::vector<std::pair<std::string_view, std::string>> own{
      {"PLAN_RANK", place},         {"PLAN_WORLD", size},        {"PLAN_LOCAL_RANK", place}, {"PLAN_LOCAL_WORLD", size},
      {"PLAN_RENDEZVOUS", address}, {"PLAN_PROBE_TOKEN", token}, {"PLAN_JOB", job}};
  std::vector<std::string> all;
  // Of two variables of one name the first counts: what was there before would be taken for ours.
  for (char** e = environ; *e != nullptr; ++e) {
    const std::string_view name = std::string_view(*e).substr(0, std::string_view(*e).find('='));
    if (std::none_of(own.begin(), own.end(), [&](const auto& one) { return one.first == name; })) all.emplace_back(*e);
  }
  for (const auto& [name, value] : own) all.push_back(fmt::format("{}={}", name, value));
  return all;
}

bool ended(pid_t process) { return waitpid(process, nullptr, WNOHANG) != 0; }

}  // namespace

Result<Children> Children::start(int world, const std::string& address, const std::string& token,
                                 const std::string& job) {
  Children children;
  std::vector<std::string> arguments = own_arguments();
  const std::vector<char*> argv = pointers(arguments);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  int problem = 0;
  for (int rank = 1; rank < world && problem == 0; ++rank) {
    std::vector<std::string> environment = child_environment(rank, world, address, token, job);
    const std::vector<char*> envp = pointers(environment);
    pid_t process = 0;
    problem = posix_spawn(&process, "/proc/self/exe", &actions, nullptr, argv.data(), envp.data());
    if (problem == 0) children.processes_.push_back(process);
  }
  posix_spawn_file_actions_destroy(&actions);
  if (problem != 0)
    return fail(Error{"no_processes", fmt::format("cannot start {} processes: {}", world, std::strerror(problem))});
  return children;
}

Children::Children(Children&& other) noexcept : processes_(std::move(other.processes_)) { other.processes_.clear(); }

Children& Children::operator=(Children&& other) noexcept {
  processes_.swap(other.processes_);
  return *this;
}

Children::~Children() {
  const auto begin = std::chrono::steady_clock::now();
  bool asked = false;
  while (!processes_.empty()) {
    std::erase_if(processes_, ended);
    const double waited = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (waited > 0.3 && !asked) {
      asked = true;
      for (const pid_t process : processes_) kill(process, SIGTERM);
    }
    if (waited > 1)
      for (const pid_t process : processes_) kill(process, SIGKILL);
    if (!processes_.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

}  // namespace plan
