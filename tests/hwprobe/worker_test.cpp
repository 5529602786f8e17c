// A rank's own work on a thread of its own: what it gives is handed over when it is done, and work that hangs is left
// behind.
#include "hwprobe/ranks/worker.hpp"

#include <doctest/doctest.h>
#include <poll.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "hwprobe/ranks/peer.hpp"

using namespace plan;

namespace {

bool readable(const Worker& worker, int milliseconds) {
  pollfd wait{worker.descriptor(), POLLIN, 0};
  return poll(&wait, 1, milliseconds) == 1;
}

/// Work that lasts until it is let go.
struct Gate {
  std::atomic<bool> open{false};
  std::atomic<int> aborted{0};
};

OwnWork gated(const std::shared_ptr<Gate>& gate, bool heeds) {
  return {.run =
              [gate](const std::string& task) {
                while (!gate->open) std::this_thread::sleep_for(std::chrono::milliseconds(1));
                return task + " done";
              },
          .abort =
              [gate, heeds] {
                ++gate->aborted;
                if (heeds) gate->open = true;
              }};
}

}  // namespace

TEST_CASE("a worker is busy until its task has ended, says so once, and then takes the next one") {
  const auto gate = std::make_shared<Gate>();
  Worker worker(gated(gate, false));
  CHECK(worker.finished());
  CHECK_FALSE(readable(worker, 0));
  for (const std::string task : {"first", "second"}) {
    gate->open = false;
    worker.start(task);
    CHECK_FALSE(worker.finished());
    CHECK_FALSE(readable(worker, 20));
    gate->open = true;
    REQUIRE(readable(worker, 20000));
    CHECK(worker.finished());
    CHECK(worker.take() == task + " done");
    CHECK_FALSE(readable(worker, 0));
  }
}

TEST_CASE("a task that is asked to end is waited for, and one that does not heed it no longer than was said") {
  const auto heeding = std::make_shared<Gate>(), deaf = std::make_shared<Gate>();
  Worker polite(gated(heeding, true)), hung(gated(deaf, false));
  polite.start("a task");
  polite.abort(20);
  CHECK(polite.finished());
  CHECK(heeding->aborted == 1);
  hung.start("a task");
  const SteadyClock::time_point begin = SteadyClock::now();
  hung.abort(0.1);
  CHECK(since(begin) >= 0.1);
  CHECK(since(begin) < 10);
  CHECK_FALSE(hung.finished());
  deaf->open = true;  // its thread ends with what it holds
}
