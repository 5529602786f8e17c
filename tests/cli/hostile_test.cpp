// Files and surroundings that nobody means well with: each ends soon, in little memory, with one clear error on stderr
// and nothing on stdout. Runs the program itself, within limits that the kernel keeps.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "presets/yaml.hpp"

namespace fs = std::filesystem;

namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#elif defined(__has_feature)
constexpr bool kSanitized = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
constexpr bool kSanitized = false;
#endif

constexpr rlim_t kMostMemory = rlim_t{1} << 30;         // of address space; sanitizers need terabytes of it
constexpr rlim_t kMostSeconds = kSanitized ? 600 : 60;  // of processor time, many times what any case takes

/// A folder that goes away with the object.
class Folder {
 public:
  Folder() {
    std::string pattern = (fs::temp_directory_path() / "plan-hostile-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string file(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name, std::ios::binary) << text;
    return at(name);
  }
  std::string at(const std::string& name) const { return (path_ / name).string(); }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(path_), fs::directory_iterator()));
  }

 private:
  fs::path path_{};
};

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Outcome {
  int status = -1;  ///< exit status; -1 where a signal ended it
  std::string out{}, err{};
};

/// A running program; its output goes to files.
class Child {
 public:
  Child(const Folder& folder, const std::vector<std::string>& words, const std::function<void()>& before = {})
      : out_(folder.at("stdout")), err_(folder.at("stderr")) {
    std::vector<std::string> all = words;
    all.insert(all.begin(), PLAN_BINARY);
    std::vector<char*> argv;
    for (std::string& word : all) argv.push_back(word.data());
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

  pid_t pid() const { return pid_; }
  Outcome wait() const {
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {}
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text_of(out_), text_of(err_)};
  }
  static void limit(int what, rlim_t most) {
    const rlimit both{most, most};
    ::setrlimit(static_cast<decltype(RLIMIT_AS)>(what), &both);
  }

 private:
  static void redirect(const std::string& path, int descriptor) {
    const int file = ::open(path.c_str(), descriptor == 0 ? O_RDONLY : O_WRONLY | O_CREAT | O_TRUNC, 0666);
    ::dup2(file, descriptor);
    ::close(file);
  }
  std::string out_, err_;
  pid_t pid_ = -1;
};

Outcome run(const std::vector<std::string>& words, const std::function<void()>& before = {}) {
  const Folder folder;
  return Child(folder, words, before).wait();
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

/// Refused: an exit status of its own, one error, and no wall of text.
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

/// Every way by which a command reads a file.
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

std::string repeated(std::string_view part, std::size_t times) {
  std::string text;
  text.reserve(part.size() * times);
  for (std::size_t i = 0; i < times; ++i) text += part;
  return text;
}

}  // namespace

TEST_CASE("a file larger than any of ours is not read to its end") {
  const Folder folder;
  for (const char* name : {"huge.yaml", "huge.json"}) {
    CAPTURE(name);
    const std::string file = folder.file(name, "");
    fs::resize_file(file, std::uintmax_t{1} << 30);  // one line of zeros that takes no room on the disk
    check_refused_by_all(file);
  }
  check_refused_by_all("/dev/zero");
}

TEST_CASE("a line without an end is read up to the limit, and no further") {
  const Folder folder;
  const std::string line(plan::yaml::kMostBytes - 100, 'x');
  check_refused(run({"--gpus", "8", "--model", folder.file("long.yaml", "preset: " + line)}));
  check_refused(run({"check", "--budget", folder.file("long.yaml", "budget: [" + line)}));
  check_refused(run({"validate", folder.file("long.csv", "a,b," + line)}));
  check_refused(run({"compare", folder.file("long.json", "{\"schema\": \"" + line), "best"}));
}

TEST_CASE("bombs and pits are refused") {
  const Folder folder;
  std::string aliases = "a0: &a0 [x, x]\n";
  for (int i = 1; i < 60; ++i)
    aliases += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [*a" + std::to_string(i - 1) + ", *a" +
               std::to_string(i - 1) + "]\n";
  const std::size_t deep = 100'000;
  for (const std::string& text :
       {aliases, repeated("[", deep), repeated("{", deep), repeated("{\"a\":", deep), repeated("{\"a\":[", deep),
        repeated("- ", deep), repeated("? ", deep), "a: " + repeated("[", deep), "a = " + repeated("[", deep)}) {
    CAPTURE(text.substr(0, 40));
    check_refused_by_all(folder.file("deep.yaml", text));
    check_refused(run({"--gpus", "8", "--model", folder.file("config.json", text)}));
    check_refused(run({"estimate", "--from", folder.file("train.toml", text)}));
  }
}

TEST_CASE("scripts that never end are left where they are") {
  const Folder folder;
  const std::string list = repeated(" a", 1000), big(1 << 20, 'x');
  const std::string head = "#!/bin/bash\n", tail = "\ntorchrun pretrain_gpt.py\n";
  for (const std::string& body : std::vector<std::string>{
           "for a in" + list + "; do for b in" + list + "; do for c in" + list + "; do X=1; done; done; done",
           "A=(x)\n" + repeated("A=(\"${A[@]}\" \"${A[@]}\")\n", 60), "X=" + big + repeated("\nrun $X", 5000),
           "export X=" + big + repeated("\nrun a", 5000), "X=" + big + "\nY=${X//x/$X}",
           "X=" + big + "\nY=${X##*x*x*xy}", repeated("! ", 100'000) + "true",
           "if " + repeated("! ", 100'000) + "[ a ]; then b; fi", "if [ " + repeated("! ", 100'000) + "a ]; then b; fi",
           "if [ a" + repeated(" || a", 100'000) + " ]; then b; fi", repeated("then ", 100'000) + "x",
           repeated("while a; do\n", 100'000), "f() { g; g; g; }; g() { f; f; f; }; f",
           "f() { " + big + "; }\n" + repeated("f() { " + list + "; }\n", 2000), repeated("eval ", 10'000) + "x",
           "X=$((" + repeated("(", 100'000) + "1))"}) {
    CAPTURE(body.substr(0, 60));
    const Outcome outcome = run({"estimate", "--model", "8b", "--from", folder.file("train.sh", head + body + tail)});
    CAPTURE(outcome.err.substr(0, 400));
    CHECK(outcome.status >= 0);
    CHECK(outcome.status <= 2);
    CHECK(outcome.err.find("internal") == std::string::npos);
  }
}

TEST_CASE("a file of 300,000 keys that nobody knows is one error") {
  const Folder folder;
  const auto keys = [](std::string_view before, std::string_view after) {
    std::string text;
    for (int i = 0; i < 300'000; ++i) text.append(before).append(std::to_string(i)).append(after);
    return text;
  };
  const std::string head = "#!/bin/bash\ntorchrun --nnodes 1 --nproc-per-node 8 ";
  const std::pair<std::string, std::string> files[] = {
      {"train.toml", "[parallelism]\ntensor_parallel_degree = 8\n[training]\n" + keys("key_", " = 1\n")},
      {"train.sh", head + "pretrain_gpt.py" + keys(" --key-", " 1") + "\n"},
      {"swift.sh", "#!/bin/bash\nmegatron sft --tensor_model_parallel_size 2" + keys(" --key_", " 1") + "\n"},
      {"config.py", "import torchtitan\ndef llama():\n    config = llama3_8b()\n    p = config.parallelism\n" +
                        keys("    p.key_", " = 1\n")},
      {"ds_config.json", "{\"train_batch_size\": 8" + keys(", \"key_", "\": 1") + "}"},
      {"accelerate.yaml",
       "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nnum_processes: 8\n" + keys("key_", ": 1\n")}};
  for (const auto& file : files) {
    CAPTURE(file.first);
    const std::string path = folder.file(file.first, file.second);
    const Outcome outcome = run({"estimate", "--model", "8b", "--gpus", "8", "--from", path});
    check_refused(outcome);
    CHECK(outcome.err.find("4096") != std::string::npos);  // what one may have
  }
}

TEST_CASE("numbers out of every range are refused by their name") {
  const Folder folder;
  const std::string preset = text_of(PLAN_SOURCE_DIR "/presets/models/llama3-8b.yaml");
  REQUIRE(preset.find("hidden: 4096") != std::string::npos);
  for (const char* number : {"1e400", "-1e400", "nan", ".nan", "inf", ".inf", "99999999999999999999999999", "-0",
                             "1e-400", "0x1000", "4096.5", "", "\xff\xfe", "４０９６"}) {
    CAPTURE(number);
    std::string text = preset;
    text.replace(text.find("hidden: 4096"), 12, std::string("hidden: ") + number);
    check_refused(run({"--gpus", "8", "--model", folder.file("model.yaml", text)}));
  }
  for (const char* number :
       {"nan", "inf", "-inf", "1e999", "1e400T", "-1", "0", "", "1e308T", "\xff", "99999999999999999999"})
    for (const char* flag : {"--gpus", "--seq", "--global-batch", "--tokens", "--price", "--top", "--threads"}) {
      CAPTURE(flag);
      CAPTURE(number);
      const Outcome outcome = run({"--model", "8b", "--gpus", "8", flag, number});
      if (std::string(number) != "99999999999999999999" ||
          (std::string(flag) != "--tokens" && std::string(flag) != "--price"))
        check_refused(outcome);
    }
}

TEST_CASE("no name and no text that is not UTF-8 comes out as it went in") {
  const Folder folder;
  for (const std::string name : {"bad\xff.sh", "\xc3\x28.yaml", "\xed\xa0\x80.json", "esc\x1b[31m.toml"}) {
    const std::string file = folder.file(name, "\xff\xfe\x00\x80 garbage");
    for (const std::vector<std::string>& words : readers(file)) {
      const Outcome outcome = run(words);
      CAPTURE(words.front());
      CHECK(outcome.status == 2);
      CHECK(is_utf8(outcome.err));
      CHECK(outcome.err.find('\x1b') == std::string::npos);
    }
  }
  const std::string script =
      folder.file("run\xff.sh",
                  "#!/bin/bash\ntorchrun --nnodes 1 --nproc-per-node 8 pretrain_gpt.py --tensor-model-parallel-size 2 "
                  "--micro-batch-size 1 --global-batch-size 64 --seq-length 4096 --bf16 --lr 1\xff\xfe --bad\xff x\n");
  for (const char* format : {"human", "json", "markdown", "csv", "html", "trace"}) {
    CAPTURE(format);
    const Outcome outcome = run({"estimate", "--model", "8b", "--from", script, "--format", format});
    CAPTURE(outcome.err);
    CHECK((outcome.status == 0 || outcome.status == 2));
    CHECK(is_utf8(outcome.out));
    CHECK(is_utf8(outcome.err));
    CHECK(outcome.err.find("internal") == std::string::npos);
  }
}

TEST_CASE("what is no file, cannot be read or is gone says so") {
  const Folder folder;
  fs::create_symlink(folder.at("loop-b"), folder.at("loop-a"));
  fs::create_symlink(folder.at("loop-a"), folder.at("loop-b"));
  fs::create_symlink(folder.at("gone"), folder.at("dangling.yaml"));
  fs::create_directory(folder.at("folder.yaml"));
  for (const char* name : {"loop-a", "dangling.yaml", "folder.yaml", "never.yaml", "loop-a/model.yaml"}) {
    CAPTURE(name);
    check_refused_by_all(folder.at(name));
  }
  CHECK(plan::yaml::read_text(folder.at("loop-a")).error().front().message.find("Too many levels") !=
        std::string::npos);

  const std::string secret = folder.file("secret.yaml", "preset: model/1\n");
  fs::permissions(secret, fs::perms::none);
  const pid_t child = ::fork();
  if (child == 0) {  // as somebody else, where we are root, whom no permission stops
    fs::permissions(fs::path(secret).parent_path(), fs::perms::all);
    if (::geteuid() == 0 && ::setuid(65534) != 0) ::_exit(9);
    const auto text = plan::yaml::read_text(secret);
    ::_exit(!text && text.error().front().message.find("cannot be opened") != std::string::npos ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
}

TEST_CASE("a pipe is a file like any other, up to the limit") {
  const Folder folder;
  const std::string pipe = folder.at("pipe.yaml"), model = text_of(PLAN_SOURCE_DIR "/presets/models/llama3-8b.yaml");
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
  const Folder folder;
  const std::string report = folder.file("report.json", "as it was");
  const std::size_t before = folder.files();
  const std::vector<std::string> words = {"estimate", "--model", "8b",     "--gpus", "8",
                                          "--layout", "tp2",     "--json", "-o",     report};
  const Folder streams;
  Outcome outcome =
      Child(streams, words, [] { Child::limit(RLIMIT_FSIZE, 300); }).wait();  // the disk is full after 300 bytes
  CHECK(outcome.status == 2);
  CHECK(outcome.err.find("cannot write") != std::string::npos);
  CHECK(text_of(report) == "as it was");
  CHECK(folder.files() == before);
  outcome = run({"emit", "megatron-lm", "--model", "8b", "--gpus", "8", "-o", "/dev/full/x"});
  CHECK(outcome.status == 2);
  outcome = run({"estimate", "--model", "8b", "--gpus", "8", "--layout", "tp2", "-o", "/dev/full"});
  CHECK(outcome.status == 2);
  outcome = run({"list", "models"}, [] { ::close(STDOUT_FILENO); });
  CHECK(outcome.status == 2);
  outcome = run({"list", "models"}, [] { ::close(STDERR_FILENO), ::close(STDIN_FILENO); });
  CHECK(outcome.status == 0);
}

TEST_CASE("a reader that goes away and a user who interrupts end the program") {
  const Folder folder;
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  ::close(ends[0]);
  const Outcome unread = run({"list", "models"}, [&] { ::dup2(ends[1], STDOUT_FILENO); });
  ::close(ends[1]);
  CHECK(unread.status == 0);

  const std::string report = folder.at("sweep.json");
  const Folder streams;
  const Child child(streams, {"sweep", "--model", "deepseek-v3", "--gpus", "64..65536", "--json", "-o", report});
  const std::string file = "/proc/" + std::to_string(child.pid()) + "/status";
  const auto catches = [&] {  // it is the program, and has a handler of its own
    const std::string text = text_of(file);
    const std::size_t at = text.find("SigCgt:");
    return text.starts_with("Name:\tplan\n") && at != std::string::npos &&
           (std::stoull(text.substr(at + 7, 20), nullptr, 16) & 2U) != 0;
  };
  while (!catches() && text_of(file).find("zombie") == std::string::npos) std::this_thread::yield();
  ::kill(child.pid(), SIGINT);
  const Outcome interrupted = child.wait();
  CHECK(interrupted.status == 130);
  CHECK(interrupted.out.empty());
  CHECK(folder.files() == 0);
}
