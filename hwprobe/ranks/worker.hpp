#pragma once

#include <unistd.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

namespace plan {

/// Work that this process does itself, in a thread of its own, so that it keeps talking to the others meanwhile.
struct OwnWork {
  std::function<std::string(const std::string& task)> run;
  std::function<void()> abort;  ///< from another thread: `run` returns soon
};

/// A thread that runs one task after the other; a task that never returns is left behind.
class Worker {
 public:
  explicit Worker(OwnWork work);
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  int descriptor() const { return shared_->done; }  ///< readable when the task has ended
  void start(const std::string& task);
  bool finished() const { return shared_->finished; }
  std::string take();
  /// Asks the task to return and waits a little.
  void abort(double seconds);

 private:
  struct Shared {
    OwnWork work;
    std::mutex mutex;
    std::string result;
    std::atomic<bool> finished{true};
    int done = -1;
    ~Shared() {
      if (done >= 0) close(done);
    }
  };
  std::shared_ptr<Shared> shared_;
};

}  // namespace plan
