// Work on several threads: each index once, whatever the machine grants, and errors come through.
#include "planner/search/in_parallel.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <vector>

namespace plan {
namespace {

TEST_CASE("each index is worked once, by a thread of the range") {
  for (const std::size_t count : {0u, 1u, 2u, 7u, 1000u})
    for (const unsigned threads : {0u, 1u, 2u, 8u, 64u}) {
      std::vector<std::atomic<int>> times(count);
      std::atomic<bool> in_range{true};
      in_parallel(count, threads, [&](std::size_t i, unsigned thread) {
        ++times[i];
        if (thread >= std::max(threads, 1u)) in_range = false;
      });
      CHECK(std::all_of(times.begin(), times.end(), [](const auto& n) { return n == 1; }));
      CHECK(in_range);
    }
}

TEST_CASE("what the work throws arrives, on one thread or on many") {
  for (const unsigned threads : {1u, 2u, 8u})
    for (const std::size_t bad : {0u, 1u, 499u, 999u}) {
      CAPTURE(threads);
      CAPTURE(bad);
      const auto work = [&](std::size_t i, unsigned) {
        if (i == bad) throw std::runtime_error("stop");
      };
      CHECK_THROWS_WITH(in_parallel(1000, threads, work), "stop");
    }
}

}  // namespace
}  // namespace plan
