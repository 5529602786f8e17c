// What published runs leave open, against the first of all choices that fits.
#include "planner/runs/run_guesses.hpp"

#include <doctest/doctest.h>

#include "planner/answer/estimate.hpp"
#include "planner/small_job.hpp"

using namespace plan;
using namespace plan::small;

TEST_CASE("as few layers wait in host memory as suffice, and none where that helps not or is not needed") {
  Problem problem = small_job();
  problem.training.stack.states = StateLayout::MegatronFsdp;
  const Layout layout = data_parallel(3);
  const auto peak = [&](int layers) {
    Problem offloaded = problem;
    offloaded.training.offload.layers = layers;
    return estimate(offloaded, layout).peak;
  };
  const int depth = problem.model.depth();
  const Bytes most = peak(0), least = peak(depth);
  REQUIRE(least < most);
  int seen = 0;
  for (int part = -1; part <= 12; ++part) {  // from less than all of them need to more than none needs
    const Bytes memory(least.value + (most.value - least.value) * part / 11);
    problem.cluster.gpu.memory = memory;
    int first = 0;
    while (first <= depth && peak(first) > memory) ++first;
    CHECK(least_offload(problem, layout) == (first > depth ? 0 : first));
    seen += first > 0 && first < depth;
  }
  CHECK(seen > 3);
}
