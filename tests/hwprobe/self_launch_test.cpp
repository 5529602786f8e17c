// What becomes of the processes that rank 0 starts on its own node: each gets its place in the job, and none is left
// when rank 0 is done. Who ends by itself is not disturbed, who waits is asked once, who does not listen is made to.
#include "hwprobe/start/self_launch.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <random>
#include <sstream>
#include <thread>

#include "contents.hpp"
#include "temporary_folder.hpp"

using namespace plan;
namespace fs = std::filesystem;

namespace {

constexpr const char* kFolder = "PLAN_TEST_CHILDREN";  ///< where children say what befell them, and what they are
constexpr int kMost = 5;
constexpr std::array kNames{"PLAN_RANK",       "PLAN_LOCAL_RANK",  "PLAN_WORLD", "PLAN_LOCAL_WORLD",
                            "PLAN_RENDEZVOUS", "PLAN_PROBE_TOKEN", "PLAN_JOB"};

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }
void wait_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

volatile sig_atomic_t asked = 0;
double asked_at = 0;  ///< seconds of the clock that all processes of a machine share
void count(int) {
  if (asked == 0) asked_at = now();
  asked = asked + 1;
}

std::string variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? "-" : value;
}

void say(const fs::path& file, const std::string& text) {
  std::ofstream(file.string() + ".part") << text;
  fs::rename(file.string() + ".part", file);
}

/// What a child does, and writes down while it does. "leaves" ends by itself once rank 0 has begun to end, "listens"
/// when it was asked to, "deaf" never.
[[noreturn]] void be_a_child(const fs::path& folder) {
  struct sigaction action {};
  action.sa_handler = count;
  sigaction(SIGTERM, &action, nullptr);
  const std::string rank = variable("PLAN_RANK"), kind = contents_of(folder / ("kind" + rank));
  std::string words;
  for (const char* name : kNames) words += variable(name) + " ";
  for (char** each = environ; *each != nullptr; ++each)
    for (const char* name : kNames) words += std::string_view(*each).starts_with(name + std::string("=")) ? "+" : "";
  say(folder / ("started" + rank), words);
  int told = 0;
  for (const double begin = now(); now() - begin < 30; wait_ms(1)) {
    if (asked != told) {
      told = asked;
      std::ostringstream text;
      text.precision(17);
      text << asked << " " << asked_at;
      say(folder / ("asked" + rank), text.str());
      if (kind == "listens") _exit(0);
    }
    if (kind == "leaves" && fs::exists(folder / "ending")) _exit(0);
  }
  _exit(1);
}

// Before doctest runs a case: the program that rank 0 starts is its own.
const bool kNoChild = [] {
  if (const char* folder = std::getenv(kFolder); folder != nullptr && std::getenv("PLAN_RANK") != nullptr)
    be_a_child(folder);
  return true;
}();

bool all_started(const fs::path& folder, int world) {
  for (const double begin = now(); now() - begin < 20; wait_ms(1)) {
    int started = 0;
    for (int rank = 1; rank < world; ++rank) started += fs::exists(folder / ("started" + std::to_string(rank))) ? 1 : 0;
    if (started == world - 1) return true;
  }
  return false;
}

/// Starts as many children as there are kinds, sees that each knows its place, and gives the seconds that ending them
/// takes.
double ended_after(const std::vector<std::string>& kinds) {
  const TemporaryFolder folder;
  const int world = static_cast<int>(kinds.size()) + 1;
  for (int rank = 1; rank < world; ++rank)
    folder.write("kind" + std::to_string(rank), kinds[static_cast<std::size_t>(rank - 1)]);
  setenv(kFolder, folder.path().c_str(), 1);
  for (const char* name : kNames) setenv(name, "another", 1);  // left by a job around this one
  std::optional<Children> children;
  if (Result<Children> started = Children::start(world, "127.0.0.1:7", "secret", "job:" + std::to_string(world));
      started)
    children.emplace(std::move(*started));
  unsetenv(kFolder);
  for (const char* name : kNames) unsetenv(name);
  REQUIRE(children.has_value());
  const std::vector<pid_t> processes = children->processes();
  REQUIRE(processes.size() == kinds.size());
  REQUIRE(all_started(folder.path(), world));
  for (const pid_t process : processes) CHECK(kill(process, 0) == 0);  // the object that they were moved from is gone
  folder.write("ending", "");
  const double begin = now();
  children.reset();
  const double took = now() - begin;
  const std::string size = std::to_string(world);
  for (int rank = 1; rank < world; ++rank) {
    CAPTURE(rank);
    const std::string number = std::to_string(rank), &kind = kinds[static_cast<std::size_t>(rank - 1)];
    CAPTURE(kind);
    CHECK(kill(processes[static_cast<std::size_t>(rank - 1)], 0) != 0);
    CHECK(contents_of(folder.at("started" + number)) ==
          number + " " + number + " " + size + " " + size + " 127.0.0.1:7 secret job:" + size + " +++++++");
    const bool was_asked = fs::exists(folder.at("asked" + number));
    if (kind == "deaf") REQUIRE(was_asked);
    if (!was_asked) continue;
    std::istringstream text(contents_of(folder.at("asked" + number)));
    int times = 0;
    double when = 0;
    text >> times >> when;
    CHECK(times == 1);
    CHECK(when - begin > 0.2);  // time to end by itself, however busy the machine is
  }
  return took;
}

}  // namespace

TEST_CASE("children know their places, end by themselves, or are asked once, or are made to, and none is left") {
  REQUIRE(kNoChild);
  std::mt19937 random(5);
  std::vector<std::vector<std::string>> rounds{{}, {"leaves"}, {"listens"}, {"deaf"}};
  for (int i = 0; i < 3; ++i) {
    std::vector<std::string>& kinds = rounds.emplace_back();
    for (int left = 1 + static_cast<int>(random() % kMost); left > 0; --left)
      kinds.push_back(std::vector<std::string>{"leaves", "listens", "deaf"}[random() % 3]);
  }
  for (const std::vector<std::string>& kinds : rounds) {
    const auto some = [&](const char* kind) { return std::count(kinds.begin(), kinds.end(), kind) > 0; };
    const double least = some("deaf") ? 0.9 : some("listens") ? 0.2 : 0;
    const double most = some("deaf") ? 1.7 : some("listens") ? 0.9 : 0.25;
    double took = ended_after(kinds);
    // A busy machine is slow at times, but not always.
    for (int again = 0; again < 4 && took > most; ++again) took = ended_after(kinds);
    CHECK(took >= least);
    CHECK(took <= most);
  }
}
