// plan: parse, run, write, exit status.
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/commands/commands.hpp"
#include "cli/terminal/output.hpp"

namespace {

void interrupted(int) { _exit(plan::kInterrupted); }

constexpr std::string_view kNoMemory =
    "error: no memory left; raise what this process may use (ulimit -v, the container's limit)\n";

/// Where memory stays out, a destructor that allocates (nlohmann-json's does) ends here instead of in main.
void terminated() {
  try {
    if (const std::exception_ptr thrown = std::current_exception()) std::rethrow_exception(thrown);
  } catch (const std::bad_alloc&) {
    static_cast<void>(plan::write_all(STDERR_FILENO, kNoMemory));
    _exit(plan::kError);
  } catch (...) {}
  std::abort();
}

int run(const std::vector<std::string>& words) {
  plan::Streams streams;
  streams.write_now = [](std::string_view text) {
    static_cast<void>(plan::write_all(STDOUT_FILENO, plan::as_utf8(std::string(text))));
  };
  const int status = plan::run_command_line(words, streams);
  const bool ok = plan::write_all(STDOUT_FILENO, plan::as_utf8(std::move(streams.out)));
  if (!ok) streams.err += "error: cannot write to the standard output\n";
  if (!plan::write_all(STDERR_FILENO, plan::as_utf8(std::move(streams.err))) || !ok) return plan::kError;
  if (streams.leave_at_once) _exit(status);
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  std::set_terminate(terminated);
  std::signal(SIGINT, interrupted);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // a file at its limit is an error of write()
  try {
    return run({argv + (argc > 0 ? 1 : 0), argv + argc});
  } catch (const std::bad_alloc&) {
    static_cast<void>(plan::write_all(STDERR_FILENO, kNoMemory));
    return plan::kError;
  } catch (const std::exception& bug) {
    static_cast<void>(plan::write_all(STDERR_FILENO, std::string("error: internal: ") + bug.what() + "\n"));
    return plan::kError;
  }
}
