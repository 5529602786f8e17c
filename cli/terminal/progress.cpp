// The only text that is written before the end: a line that says that the search is at work.
#include "cli/terminal/progress.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <chrono>
#include <future>

#include "cli/terminal/output.hpp"
#include "cli/terminal/terminal.hpp"
#include "planner/planner.hpp"

namespace plan {

Result<Plan> search_with_progress(const Problem& problem, const Streams& streams) {
  using namespace std::chrono_literals;
  if (!streams.err_terminal.tty || streams.quiet) return search(problem);
  std::future<Result<Plan>> result = std::async(std::launch::async, [&problem] { return search(problem); });
  if (result.wait_for(500ms) == std::future_status::ready) return result.get();
  const auto start = std::chrono::steady_clock::now() - 500ms;
  do {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - start);
    static_cast<void>(write_all(STDERR_FILENO, progress_line(fmt::format("searching layouts, {} s", seconds.count()))));
  } while (result.wait_for(1s) != std::future_status::ready);
  static_cast<void>(write_all(STDERR_FILENO, progress_line("")));
  return result.get();
}

}  // namespace plan
