// Work over an index range on several threads.
// Tested by tests/planner/in_parallel_test.cpp.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace plan {

/// Runs `work(i, thread)` once for each i in [0, count), with thread in [0, threads); 0 threads are one. Where the
/// machine refuses a thread (a container's limit of processes, `ulimit`), fewer do the work. What work throws first is
/// thrown here, and no further i is begun then.
template <class Work>
void in_parallel(std::size_t count, unsigned threads, const Work& work) {
  std::atomic<std::size_t> next{0};
  std::mutex failing;
  std::exception_ptr failure;
  const auto loop = [&](unsigned thread) noexcept {
    try {
      for (std::size_t i = next++; i < count; i = next++) work(i, thread);
    } catch (...) {
      next = count;
      const std::lock_guard lock(failing);
      if (!failure) failure = std::current_exception();
    }
  };
  const auto others = std::min<std::size_t>(std::max(threads, 1u), std::max<std::size_t>(count, 1)) - 1;
  std::vector<std::thread> pool;
  pool.reserve(others);
  try {
    while (pool.size() < others) pool.emplace_back(loop, static_cast<unsigned>(pool.size() + 1));
  } catch (const std::exception&) {  // no thread, or no memory for one: those that did start, and this one, suffice
  }
  loop(0);
  for (std::thread& thread : pool) thread.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace plan
