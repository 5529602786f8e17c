// Surroundings that fail: full disks, closed pipes, readers that go away, users who interrupt, files that change while
// they are read.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "hostile.hpp"
#include "presets/yaml.hpp"

namespace fs = std::filesystem;
using namespace plan::hostile;
using plan::TemporaryFolder;

namespace {

std::ptrdiff_t files_in(const fs::path& folder) {
  return std::distance(fs::directory_iterator(folder), fs::directory_iterator());
}

}  // namespace

TEST_CASE("a pipe is a file like any other, up to the limit") {
  const TemporaryFolder folder;
  const std::string pipe = folder.at("pipe.yaml"),
                    model = contents_of(PLAN_SOURCE_DIR "/presets/models/llama3-8b.yaml");
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  for (const bool endless : {false, true}) {
    const Child child(folder, {"--gpus", "16", "--model", pipe});
    std::signal(SIGPIPE, SIG_IGN);
    std::thread writer([&] {
      const int descriptor = ::open(pipe.c_str(), O_WRONLY);
      const std::string text = endless ? std::string(1 << 16, 'x') : model;
      while (::write(descriptor, text.data(), text.size()) > 0 && endless) {}
      ::close(descriptor);
    });
    const Outcome outcome = child.wait();
    writer.join();
    CAPTURE(outcome.err);
    CHECK(outcome.status == (endless ? 2 : 0));
    CHECK((outcome.err.find("larger than 16 MiB") != std::string::npos) == endless);
  }
}

TEST_CASE("a result is written whole or not at all") {
  const std::string kBefore = "{\"schema\": \"plan/1\"}";  // of another kind, it would be refused before the disk is
  const TemporaryFolder folder;
  const std::string report = folder.write("report.json", kBefore);
  const std::vector<std::string> words = {"estimate", "--model", "8b",     "--gpus", "8",
                                          "--layout", "tp2",     "--json", "-o",     report};
  const TemporaryFolder streams;
  Outcome outcome =
      Child(streams, words, [] { Child::limit(RLIMIT_FSIZE, 300); }).wait();  // the disk is full after 300 bytes
  CHECK(outcome.status == 2);
  CHECK(outcome.err.find("cannot write") != std::string::npos);
  CHECK(contents_of(report) == kBefore);
  CHECK(files_in(folder.path()) == 1);
  outcome = run({"emit", "megatron-lm", "--model", "8b", "--gpus", "8", "-o", "/dev/full/x"});
  CHECK(outcome.status == 2);
  outcome = run({"estimate", "--model", "8b", "--gpus", "8", "--layout", "tp2", "-o", "/dev/full"});
  CHECK(outcome.status == 2);
  outcome = run({"list", "models"}, [] { ::close(STDOUT_FILENO); });
  CHECK(outcome.status == 2);
  outcome = run({"list", "models"}, [] { ::close(STDERR_FILENO), ::close(STDIN_FILENO); });
  CHECK(outcome.status == 0);
}

TEST_CASE("a folder of presets that is not there is refused by its name, and never passed over") {
  const TemporaryFolder folder;
  const std::string file = folder.write("f.yaml", "");
  const std::string there = folder.path().string();
  for (const auto& row : {std::pair<std::string, std::string>{there, ""},
                          {"", ""},
                          {there + ":" + there, ""},
                          {folder.at("nowhere"), folder.at("nowhere")},
                          {there + ":" + folder.at("none"), folder.at("none")},
                          {file, file}}) {
    const std::string &path = row.first, &missing = row.second;
    const auto with_path = [&] { ::setenv("PLAN_PRESET_PATH", path.c_str(), 1); };
    for (const char* free : {"--help", "-h", "--version"}) CHECK(run({free}, with_path).status == 0);
    const Outcome outcome = run({"list", "gpus"}, with_path);
    CAPTURE(outcome.err);
    CHECK(outcome.status == (missing.empty() ? 0 : 2));
    CHECK((missing.empty() || outcome.err.find("`" + missing + "`") != std::string::npos));
  }
}

TEST_CASE("a reader that goes away and a user who interrupts end the program") {
  const TemporaryFolder folder;
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  ::close(ends[0]);
  const Outcome unread = run({"list", "models"}, [&] { ::dup2(ends[1], STDOUT_FILENO); });
  ::close(ends[1]);
  CHECK(unread.status == 0);

  const std::string report = folder.at("sweep.json");
  for (const int signal : {SIGINT, SIGTERM}) {
    const TemporaryFolder streams;
    const Child child(streams, {"sweep", "--model", "deepseek-v3", "--gpus", "64..65536", "--json", "-o", report});
    const std::string file = "/proc/" + std::to_string(child.pid()) + "/status";
    const auto catches = [&] {  // it is the program, and has a handler of its own
      const std::string text = contents_of(file);
      const std::size_t at = text.find("SigCgt:");
      return text.starts_with("Name:\tplan\n") && at != std::string::npos &&
             (std::stoull(text.substr(at + 7, 20), nullptr, 16) & 2U) != 0;
    };
    while (!catches() && contents_of(file).find("zombie") == std::string::npos) std::this_thread::yield();
    ::kill(child.pid(), signal);
    const Outcome interrupted = child.wait();
    CHECK(interrupted.status == (signal == SIGINT ? 130 : -1));
    CHECK(interrupted.out.empty());
    CHECK(files_in(folder.path()) == 0);
  }
}

TEST_CASE("a machine that grants few threads gives the same answer") {  // each wants half of the address space here
  const auto with = [](const char* threads) {
    return run({"--model", "70b", "--gpus", "64", "--json", "--threads", threads},
               [] { Child::limit(RLIMIT_STACK, rlim_t{1} << 29); });
  };
  const Outcome one = with("1"), many = with("8");
  CHECK(one.status == 0);
  CHECK(many.status == 0);
  CHECK(many.out == one.out);
  CHECK(many.err == one.err);
}

TEST_CASE("a machine without memory ends the program with an error, wherever it happens") {
  if (kSanitized) return;  // they want terabytes of address space
  const auto with = [](const std::vector<std::string>& words, rlim_t most) {
    return run(words, [&] { Child::limit(RLIMIT_AS, most); });
  };
  rlim_t least = rlim_t{4} << 20;  // that the program and its libraries take
  while (with({"--version"}, least).status != 0) least += rlim_t{1} << 20;
  const std::vector<std::vector<std::string>> commands = {
      {"--model", "deepseek-v3", "--gpus", "64"}, {"list", "models"}, {"show", "model", "405b"}};
  int refused = 0;
  for (const std::vector<std::string>& words : commands)
    for (rlim_t more = 1'000'000; more < 24'000'000; more += 1'237'000) {
      CAPTURE(words.front());
      CAPTURE(more);
      const Outcome outcome = with(words, least + more);
      if (outcome.status == 0) continue;
      ++refused;
      check_refused(outcome);
      CHECK(outcome.err.find("no memory left") != std::string::npos);
    }
  CHECK(refused > 0);
}

TEST_CASE("launch files are written all or none") {
  const TemporaryFolder folder;
  const std::string out = folder.at("job");
  for (const char* framework : {"megatron-lm", "torchtitan", "deepspeed", "maxtext", "accelerate"}) {
    CAPTURE(framework);
    const std::vector<std::string> words = {"emit", framework, "--model", "8b", "--gpus", "16", "-o", out};
    REQUIRE(run(words).status == 0);
    std::uintmax_t largest = 0;
    std::vector<std::pair<std::string, std::string>> files;
    for (const fs::directory_entry& entry : fs::directory_iterator(out)) {
      files.emplace_back(entry.path().string(), contents_of(entry.path().string()));
      largest = std::max(largest, entry.file_size());
    }
    const auto full_disk = [&] { Child::limit(RLIMIT_FSIZE, largest - 1); };
    for (const auto& [path, text] : files) {
      ::chmod(path.c_str(), 0644);
      fs::resize_file(path, 3);
    }
    CHECK(run(words, full_disk).status == 2);
    for (const auto& [path, text] : files) CHECK(contents_of(path) == text.substr(0, 3));
    CHECK(files_in(out) == static_cast<std::ptrdiff_t>(files.size()));
    fs::remove_all(out);
    CHECK(run(words, full_disk).status == 2);
    CHECK_FALSE(fs::exists(out));
  }
}

TEST_CASE("a file that changes, shrinks or vanishes while it is read is read or refused") {
  const TemporaryFolder folder;
  const std::string model = contents_of(PLAN_SOURCE_DIR "/presets/models/llama3-8b.yaml"),
                    path = folder.at("model.yaml");
  std::atomic<bool> done = false;
  std::thread other([&] {
    for (int i = 0; !done; ++i) {
      folder.write("model.yaml", i % 2 == 0 ? model : model + model);
      std::error_code ignored;
      if (i % 3 == 0) fs::resize_file(path, 100, ignored);
      fs::remove(path, ignored);
      if (i % 5 == 0) fs::create_directory(path, ignored), fs::remove(path, ignored);
    }
  });
  int read = 0;
  for (int i = 0; i < 2000 || read < 100; ++i) {
    const plan::Result<std::string> text = plan::yaml::read_text(path);
    if (!text) {
      CHECK(text.error().front().code == "unreadable_file");
      continue;
    }
    ++read;
    CHECK((model + model).starts_with(*text));
  }
  done = true;
  other.join();
}

TEST_CASE("a file that is written over in place is read whole, begun or refused, never mixed") {
  const TemporaryFolder folder;
  const std::string path = folder.at("text"), shorter(700'000, 'a'), longer(1'500'000, 'b');
  folder.write("text", shorter);
  std::atomic<bool> done = false;
  std::thread other([&] {
    for (int i = 0; !done; ++i) folder.write("text", i % 2 == 0 ? longer : shorter);
  });
  for (int i = 0; i < 3000; ++i) {
    const plan::Result<std::string> text = plan::yaml::read_text(path);
    if (text)
      CHECK((text->find_first_not_of('a') == std::string::npos || text->find_first_not_of('b') == std::string::npos));
    else
      CHECK(text.error().front().code == "unreadable_file");
  }
  done = true;
  other.join();
}

TEST_CASE("a working directory that is gone is an error where a file is wanted, and none elsewhere") {
  const auto go_away = [] {
    char name[] = "/tmp/plan-gone-XXXXXX";
    if (::mkdtemp(name) == nullptr || ::chdir(name) != 0 || ::rmdir(name) != 0) ::_exit(9);
  };
  CHECK(run({"--model", "8b", "--gpus", "8"}, go_away).status == 0);
  for (const char* name : {"here.yaml", "./here.sh", "../here.yaml"})
    for (const std::vector<std::string>& words : readers(name)) check_refused(run(words, go_away));
  check_refused(run({"check"}, go_away));
  check_refused(run({"emit", "megatron-lm", "--model", "8b", "--gpus", "8", "-o", "out"}, go_away));
  check_refused(run({"--model", "8b", "--gpus", "8", "-o", "out.json"}, go_away));
}
