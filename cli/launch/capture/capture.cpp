// Runs a command with stand-ins for launchers and collects what they wrote down. The command runs in a scratch folder
// whose entries lead to the current folder's, so that what it creates goes away with it.
#include "cli/launch/capture/capture.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include "cli/launch/capture/stand_in.hpp"
#include "formulas/words.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

constexpr int kMostCalls = 2000;
constexpr std::size_t kMostFiles = 64, kMostEntries = 4096;
constexpr std::uintmax_t kMostBytes = 1U << 20;  // of a configuration file
volatile std::sig_atomic_t interrupted_by = 0;

void remember_signal(int signal) { interrupted_by = signal; }

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

Words split(const std::string& text, char end) {
  Words out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t stop = std::min(text.find(end, at), text.size());
    out.push_back(text.substr(at, stop - at));
    at = stop + 1;
  }
  return out;
}

/// The scratch folder: stand-ins, what they write, and a tree of links to the folders that the command sees.
class Scratch {
 public:
  Scratch() {
    std::string pattern = (fs::temp_directory_path() / "plan-capture-XXXXXX").string();
    if (::mkdtemp(pattern.data()) != nullptr) root_ = pattern;
  }
  ~Scratch() {
    std::error_code ignored;
    if (!root_.empty()) fs::remove_all(root_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  const fs::path& root() const { return root_; }
  fs::path tree() const { return root_ / "tree"; }

  bool prepare() {
    if (root_.empty()) return false;
    std::error_code failed;
    fs::create_directories(root_ / "bin", failed);
    fs::create_directories(root_ / "calls", failed);
    std::string pattern, text(kStandIn);
    for (const std::string_view name : recorded_programs())
      if (name != "ray") pattern += (pattern.empty() ? "" : " | ") + std::string(name);
    constexpr std::string_view kPlace = "@RECORDED@";
    text.replace(text.find(kPlace), kPlace.size(), pattern);
    std::ofstream(root_ / "stand-in", std::ios::binary) << text;
    fs::permissions(root_ / "stand-in", fs::perms::owner_all, failed);
    std::ofstream(root_ / "resolve.py", std::ios::binary) << kResolve;
    for (const auto* names : {&recorded_programs(), &followed_programs(), &inert_programs()})
      for (const std::string_view name : *names) fs::create_symlink("../stand-in", root_ / "bin" / name, failed);
    failed.clear();
    show(fs::current_path(failed));
    return !failed && fs::exists(tree());
  }

  /// Makes `folder` and those above it real in the tree, with links to what else they hold.
  void show(const fs::path& folder) {
    fs::path real = "/", here = tree();
    std::error_code failed;
    fs::create_directories(here, failed);
    link_entries(real, here);
    for (const fs::path& part : folder.lexically_normal().relative_path()) {
      if (part.empty() || part == ".") continue;
      real /= part, here /= part;
      if (fs::is_symlink(here, failed)) fs::remove(here, failed);
      fs::create_directory(here, failed);
      link_entries(real, here);
    }
  }

  /// Paths of the tree as they are outside.
  std::string outside(std::string text) const {
    for (const std::string& prefix : {tree().string()})
      for (std::size_t at = text.find(prefix); at != std::string::npos; at = text.find(prefix, at))
        text.erase(at, prefix.size());
    return text;
  }

 private:
  void link_entries(const fs::path& real, const fs::path& here) {
    if (!shown_.insert(real.string()).second) return;
    std::error_code failed;
    std::size_t count = 0;
    for (fs::directory_iterator entry(real, fs::directory_options::skip_permission_denied, failed), end;
         !failed && entry != end && count < kMostEntries; entry.increment(failed), ++count) {
      std::error_code exists;  // an entry that is a real folder of the tree stays one
      fs::create_symlink(entry->path(), here / entry->path().filename(), exists);
    }
  }

  fs::path root_{};
  std::set<std::string> shown_{};
};

/// The command as it is run: scripts by their place in the tree, a batch script by way of sbatch.
Words as_run(const Words& command, Scratch& scratch) {
  Words words = command;
  for (std::size_t i = 0; i < words.size(); ++i) {
    std::error_code failed;
    if (words[i].starts_with('-') || !fs::is_regular_file(words[i], failed)) continue;
    const fs::path path = fs::absolute(words[i], failed).lexically_normal();
    scratch.show(path.parent_path());
    if (fs::path(words[i]).is_absolute()) words[i] = (scratch.tree() / path.relative_path()).string();
  }
  const std::string_view first = base_name(words.front());
  const std::size_t script = first == "bash" || first == "sh" ? 1 : 0;
  std::error_code failed;
  if (script < command.size() && fs::is_regular_file(command[script], failed) &&
      ("\n" + read_file(command[script])).find("\n#SBATCH") != std::string::npos) {
    words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(script));
    words.insert(words.begin(), "sbatch");
  }
  return words;
}

/// Never returns: the child of fork() becomes the command.
[[noreturn]] void become(const Words& words, const fs::path& root, const fs::path& folder, bool resolve) {
  ::setpgid(0, 0);
  const char* old = std::getenv("PATH");
  const std::string path = old == nullptr ? "/usr/local/bin:/usr/bin:/bin" : old;
  ::setenv("PLAN_CAPTURE", root.c_str(), 1);
  ::setenv("PLAN_CAPTURE_PATH", path.c_str(), 1);
  ::setenv("PATH", ((root / "bin").string() + ":" + path).c_str(), 1);
  ::setenv("PLAN_CAPTURE_RESOLVE", resolve ? "1" : "", 1);
  ::unsetenv("BASH_ENV"), ::unsetenv("ENV");
  const int in = ::open("/dev/null", O_RDONLY);
  const int log = ::open((root / "log").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  ::dup2(in, 0), ::dup2(log, 1), ::dup2(log, 2);
  if (::chdir(folder.c_str()) == 0) {
    std::vector<char*> argv;
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    ::execvp(argv.front(), argv.data());
  }
  ::_exit(127);
}

enum class Ended : std::uint8_t { Yes, TooLong, Interrupted };

/// Waits for the command; ends it, and all that it started, where it takes too long or plan is interrupted.
Ended wait_for(pid_t child, double seconds, int& status) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  Ended ended = Ended::Yes;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    if (interrupted_by != 0) ended = Ended::Interrupted;
    if (std::chrono::steady_clock::now() > deadline) ended = Ended::TooLong;
    if (ended != Ended::Yes) {
      ::kill(-child, SIGKILL);
      ::waitpid(child, &status, 0);
      return ended;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ::kill(-child, SIGKILL);  // what it left in the background
  return ended;
}

bool is_secret(std::string_view name) {
  for (const std::string_view part : {"TOKEN", "SECRET", "PASSWORD", "PASSWD", "API_KEY", "ACCESS_KEY", "CREDENTIAL"})
    if (name.find(part) != std::string_view::npos) return true;
  return false;
}

/// Does a launcher or framework take the variable, whoever set it?
bool is_of_job(std::string_view name) {
  for (const std::string_view start :
       {"CUDA_", "NCCL_", "NVTE_", "PYTORCH_", "TORCH_", "SLURM_", "NNODES", "NPROC_", "NODE_", "WORLD_SIZE", "MASTER_",
        "GPUS_PER_", "HIP_", "ASCEND_", "USE_MCORE", "PET_"})
    if (name.starts_with(start)) return true;
  return false;
}

/// What the call's environment says about the job: what the command set, and what launchers take.
void take_environment(const std::string& text, const Scratch& scratch, CapturedCall& call) {
  for (const std::string& entry : split(text, '\0')) {
    const std::size_t equals = entry.find('=');
    if (equals == std::string::npos || equals == 0) continue;
    const std::string name = entry.substr(0, equals);
    const bool plain =
        name.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") == std::string::npos;
    if (!plain || is_secret(name) || name.starts_with("PLAN_CAPTURE") || name == "PATH" || name == "PWD" ||
        name == "OLDPWD" || name == "SHLVL" || name == "_")
      continue;
    const char* before = std::getenv(name.c_str());
    if (before != nullptr && entry.compare(equals + 1, std::string::npos, before) == 0 && !is_of_job(name)) continue;
    call.environment.emplace_back(name, scratch.outside(entry.substr(equals + 1)));
  }
  std::sort(call.environment.begin(), call.environment.end());
}

bool is_configuration(std::string_view name) {
  for (const std::string_view end : {".yaml", ".yml", ".json", ".toml"})
    if (name.ends_with(end)) return true;
  return false;
}

/// Words of `text` that look like names of configuration files.
Words named_in(const std::string& text) {
  Words out;
  std::string word;
  for (const char c : text + "\n") {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.' || c == '/') {
      word.push_back(c);
      continue;
    }
    if (is_configuration(word)) out.push_back(word);
    word.clear();
  }
  return out;
}

/// Keeps `name` as seen from `folder`, and what that file names, as seen from its own folder or `folder`.
void keep_file(const fs::path& folder, const std::string& name, int depth, const Scratch& scratch, Capture& capture) {
  constexpr int kMostDepth = 3;
  if (depth > kMostDepth || capture.files.size() >= kMostFiles) return;
  const fs::path path = (folder / name).lexically_normal();
  std::error_code failed;
  if (!fs::is_regular_file(path, failed) || fs::file_size(path, failed) > kMostBytes || failed) return;
  const std::string shown = scratch.outside(path.string());
  for (const CapturedFile& file : capture.files)
    if (file.name == shown) return;
  const std::string text = read_file(path);
  capture.files.push_back({shown, text});
  for (const std::string& next : named_in(text)) {
    keep_file(path.parent_path(), next, depth + 1, scratch, capture);
    keep_file(folder, next, depth + 1, scratch, capture);
  }
}

void keep_files(const CapturedCall& call, const fs::path& folder, const Scratch& scratch, Capture& capture) {
  for (const std::string& word : call.words) {
    const std::size_t equals = word.find('=');
    const std::string name = word.starts_with('/') || equals == std::string::npos ? word : word.substr(equals + 1);
    std::error_code failed;
    if (is_configuration(name))
      keep_file(folder, name, 0, scratch, capture);
    else if (name.find('/') != std::string::npos && fs::is_directory(folder / name, failed))
      keep_file(folder, name + "/config.json", 0, scratch, capture);
  }
}

void collect(const Scratch& scratch, Capture& capture) {
  for (int n = 1; n <= kMostCalls; ++n) {
    const fs::path folder = scratch.root() / "calls" / fmt::format("{}", n);
    if (!fs::exists(folder)) break;
    CapturedCall call;
    for (const std::string& word : split(read_file(folder / "words"), '\0'))
      call.words.push_back(scratch.outside(word));
    const Words where = split(read_file(folder / "folder"), '\n');
    const fs::path run_in = where.empty() ? scratch.tree() : fs::path(where.front());
    call.folder = scratch.outside(run_in.string());
    take_environment(read_file(folder / "environment"), scratch, call);
    for (const std::string& line : split(read_file(folder / "launcher"), '\n'))
      if (!line.empty()) call.launcher.push_back(line);
    if (call.words.empty()) continue;
    call.resolved = scratch.outside(read_file(folder / "resolved"));
    keep_files(call, run_in, scratch, capture);
    capture.calls.push_back(std::move(call));
  }
  for (const std::string& line : split(read_file(scratch.root() / "slurm"), '\n'))
    if (!line.empty()) capture.slurm.push_back(line);
  std::set<std::string> seen;
  for (const std::string& line : split(read_file(scratch.root() / "notes"), '\n'))
    if (seen.insert(line).second) capture.notes.push_back(scratch.outside(line));
}

/// The last lines that the command printed, for a message.
std::vector<std::string> last_lines(const Scratch& scratch) {
  constexpr std::size_t kMost = 4;
  Words lines = split(read_file(scratch.root() / "log"), '\n');
  std::erase_if(lines, [](const std::string& line) { return line.empty(); });
  Words out;
  for (std::size_t i = lines.size() - std::min(kMost, lines.size()); i < lines.size(); ++i)
    out.push_back(fmt::format("it printed: {}", yaml::printable(scratch.outside(lines[i]))));
  return out;
}

}  // namespace

Result<Capture> capture_command(const Words& command, double seconds, bool resolve) {
  Scratch scratch;
  if (command.empty() || !scratch.prepare())
    return fail(
        {"cannot_capture", fmt::format("cannot make a scratch folder in `{}`", fs::temp_directory_path().string())});
  Capture capture;
  capture.command = command;
  const Words words = as_run(command, scratch);
  std::error_code failed;
  const fs::path folder = scratch.tree() / fs::current_path(failed).relative_path();
  interrupted_by = 0;
  const auto old_int = std::signal(SIGINT, remember_signal), old_term = std::signal(SIGTERM, remember_signal);
  const pid_t child = ::fork();
  if (child == 0) become(words, scratch.root(), folder, resolve);
  int status = 0;
  Ended ended = Ended::Yes;
  if (child > 0) {
    ::setpgid(child, child);
    ended = wait_for(child, seconds, status);
  }
  std::signal(SIGINT, old_int), std::signal(SIGTERM, old_term);
  if (child < 0) return fail({"cannot_capture", fmt::format("cannot start a process: {}", std::strerror(errno))});
  if (ended == Ended::Interrupted) return fail(Error{"interrupted", "interrupted: the command was ended"});
  if (ended == Ended::TooLong)
    return fail(Error{"took_too_long",
                      fmt::format("the command did not end within {:g} s and was ended", seconds),
                      last_lines(scratch),
                      {"give it longer with `--timeout`"}});
  capture.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  collect(scratch, capture);
  if (capture.status == 127 && capture.calls.empty() && read_file(scratch.root() / "log").empty())
    return fail({"cannot_start", fmt::format("`{}` cannot be started", command.front())});
  if (!capture.calls.empty()) {
    if (capture.status != 0)
      capture.notes.push_back(fmt::format("the command ended with status {} after what is recorded", capture.status));
    return capture;
  }
  return fail(Error{"nothing_started",
                    fmt::format("the command ended with status {} and started no training", capture.status),
                    last_lines(scratch),
                    {"plan-capture(1) lists the programs that are recorded"}});
}

}  // namespace plan
