// `plan diagnose --follow`: a log that a thread goes on writing while the command reads it.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <iterator>
#include <thread>

#include "check_files.hpp"

using namespace plan;
using namespace plan::checks;

namespace {

std::string step_line(int step, double seconds) {
  return fmt::format(" iteration {:8}/ 100 | elapsed time per iteration (ms): {:.1f} | global batch size:   256 |\n",
                     step, seconds * 1e3);
}

const std::vector<std::string> kFollow{"diagnose", "--follow", "--log",          "out.log", "--model", "8b",
                                       "--gpus",   "64",       "--global-batch", "256",     "--seq",   "8192",
                                       "--layout", "tp2,pp2",  "--color",        "never"};

std::vector<std::string> following(const std::vector<std::string>& more) {
  std::vector<std::string> words = kFollow;
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

int lines_with(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE("a growing log is read on, cut lines and all, until it says that training is over") {
  const Folder folder;
  std::ofstream("out.log") << step_line(1, 20);
  std::thread job([] {
    std::ofstream log("out.log", std::ios::app);
    for (int step = 2; step <= 31; ++step) {
      const std::string line = step_line(step, 5);
      log << line.substr(0, 40) << std::flush;  // a reader meets half a line
      std::this_thread::sleep_for(std::chrono::milliseconds(step % 10 == 0 ? 300 : 5));
      log << line.substr(40) << std::flush;
    }
    log << "[after training is done] datetime: 2026-01-01 00:00:00\n" << std::flush;
  });
  const Ran ran = run(following({"--every", "10"}));
  job.join();
  CAPTURE(ran.out);
  CAPTURE(ran.err);
  CHECK(ran.status == 0);
  const int said = lines_with(ran.out, " steps  ");
  CHECK(said >= 1);
  CHECK(said <= 4);                                                             // not one for each look
  CHECK(ran.out.find("30 steps, 1 of warm-up left out") != std::string::npos);  // the report, at the end
  CHECK(ran.out.find("5.00 s") != std::string::npos);
}

TEST_CASE("following ends with its time, before the log is there or after") {
  const Folder folder;
  CHECK(run(following({"--for", "1"})).status == 2);
  std::ofstream("out.log") << step_line(1, 5) << step_line(2, 5);
  const Ran ran = run(following({"--for", "1s", "--json"}));
  REQUIRE(ran.status == 0);
  const Json json = Json::parse(ran.out);
  CHECK(json["schema"] == "plan-diagnose/1");
  CHECK(json["steps"]["used"] == 2);
}

TEST_CASE("an interrupt ends it with what is known by then, and status 130") {
  const Folder folder;
  std::ofstream("out.log") << step_line(1, 5) << step_line(2, 5);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const int out = ::open("out.txt", O_CREAT | O_WRONLY, 0600);
    ::dup2(out, STDOUT_FILENO);
    ::execl(PLAN_BINARY, "plan", "diagnose", "--follow", "--every", "1", "--log", "out.log", "--model", "8b", "--gpus",
            "64", "--global-batch", "256", "--seq", "8192", "--layout", "tp2,pp2", nullptr);
    ::_exit(99);
  }
  const auto written = [] {
    std::ifstream file("out.txt");
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  int status = 0;
  // Until it has read what is there, or ended: one that ended can be sent signals until somebody waits for it.
  pid_t ended = 0;
  while (written().find("2 steps") == std::string::npos && (ended = ::waitpid(child, &status, WNOHANG)) == 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  REQUIRE_MESSAGE(ended == 0, written());
  ::kill(child, SIGINT);
  ::waitpid(child, &status, 0);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 130);
  CHECK(written().find("measured beside predicted") != std::string::npos);
}

TEST_CASE("a log that is begun anew is read from its start; an unlucky flag is refused") {
  const Folder folder;
  std::ofstream("out.log") << step_line(1, 5) << step_line(2, 5) << step_line(3, 5) << step_line(4, 5);
  std::thread job([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(600));
    std::ofstream("out.log") << step_line(5, 5) << "[after training is done]\n";
  });
  const Ran ran = run(following({"--every", "1", "--for", "20"}));
  job.join();
  CHECK(ran.status == 0);
  CHECK(ran.out.find("5 steps") != std::string::npos);
  CHECK(run(following({"--every", "0"})).status == 2);
  CHECK(run(following({"--log", "b.log"})).status == 2);
  CHECK(
      run({"diagnose", "--log", "out.log", "--for", "3", "--model", "8b", "--gpus", "64", "--layout", "tp2"}).status ==
      2);
}
