// A rank's own work beside its conversation. Tested by tests/hwprobe/worker_test.cpp.
#include "hwprobe/ranks/worker.hpp"

#include <sys/eventfd.h>

#include <chrono>
#include <cstdint>
#include <thread>
#include <utility>

#include "hwprobe/ranks/peer.hpp"

namespace plan {

Worker::Worker(OwnWork work) : shared_(std::make_shared<Shared>()) {
  shared_->work = std::move(work);
  shared_->done = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

void Worker::start(const std::string& task) {
  shared_->finished = false;
  std::thread([shared = shared_, task] {
    std::string result = shared->work.run(task);
    const std::lock_guard lock(shared->mutex);
    shared->result = std::move(result);
    shared->finished = true;
    const std::uint64_t one = 1;
    static_cast<void>(!write(shared->done, &one, sizeof one));
  }).detach();
}

std::string Worker::take() {
  const std::lock_guard lock(shared_->mutex);
  std::uint64_t count = 0;
  static_cast<void>(!read(shared_->done, &count, sizeof count));
  return std::move(shared_->result);
}

void Worker::abort(double seconds) {
  // On a thread of its own: ending a communicator waits for NCCL's threads, which may never come to an end.
  std::thread([shared = shared_] {
    if (shared->work.abort) shared->work.abort();
  }).detach();
  const auto begin = SteadyClock::now();
  while (!finished() && since(begin) < seconds) std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

}  // namespace plan
