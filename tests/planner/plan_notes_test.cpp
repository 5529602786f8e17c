// What a plan notes beside its figures, read back: each number of a note is that of a search made here.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "free_problem.hpp"
#include "oracle/random_problem.hpp"
#include "planner/choice/advice.hpp"
#include "planner/choice/choice.hpp"
#include "planner/estimate/claims.hpp"
#include "planner/planner.hpp"
#include "planner/rules/frameworks.hpp"
#include "planner/runs/diagnosis.hpp"
#include "planner/search/switches.hpp"

using namespace plan;

namespace {

Problem job(int gpus, std::int64_t batch, Framework framework = Framework::Megatron) {
  Problem problem;
  problem.model = oracle::dense_model(32, 4096, 32, 8, 14336, 128256);
  problem.cluster = oracle::plain_cluster();
  problem.cluster.gpu.host_link = BytesPerSecond(63e9);
  problem.gpus = gpus;
  problem.training.seq = 4096, problem.training.global_batch = batch;
  problem.framework = framework;
  problem.training.stack = framework_row(framework).stack;
  return problem;
}

std::string note_of(const Plan& plan, const std::string& code) {
  for (const Note& note : plan.notes)
    if (note.code == code) return note.text;
  return {};
}

std::vector<double> numbers_of(const std::string& text) {
  std::vector<double> out;
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] < '0' || text[i] > '9') {
      ++i;
      continue;
    }
    std::size_t end = 0;
    out.push_back(std::stod(text.substr(i), &end));
    i += end;
  }
  return out;
}

}  // namespace

TEST_CASE("idle GPUs are counted, with what all of them would take") {
  int idle = 0, timed = 0;
  for (const int gpus : {7, 11, 13, 22, 25, 26, 38, 57}) {
    CAPTURE(gpus);
    const Problem problem = job(gpus, 64);
    const Result<Plan> plan = search(problem);
    if (!plan) continue;
    const std::string note = note_of(*plan, "gpus_idle");
    CHECK(plan->idle_gpus == gpus - plan->problem.gpus);
    CHECK(note.empty() == (plan->idle_gpus == 0));
    if (note.empty()) continue;
    ++idle;
    CAPTURE(note);
    const std::vector<double> shown = numbers_of(note);
    REQUIRE(shown.size() >= 3);
    CHECK(shown[0] == plan->idle_gpus);
    CHECK(shown[1] == gpus);
    const SearchResult all = find_layouts(problem);
    CHECK((note.find("no layout that fits and uses all of them") != std::string::npos) == all.ranking.best().empty());
    CHECK(shown.back() == plan->problem.gpus);
    if (all.ranking.best().empty()) continue;
    const double seconds = fastest(all).value, fewer = plan->fastest->step_time.value;
    CHECK(shown[2] == doctest::Approx(seconds).epsilon(0.006));
    CHECK(std::abs(shown[3] - 100 * (seconds / fewer - 1)) <= 0.51);
    ++timed;
  }
  CHECK(idle >= 3);
  CHECK(timed >= 1);
}

TEST_CASE("another batch is noted with what it brings") {
  int said = 0;
  for (const int gpus : {24, 48, 96, 40})
    for (const std::int64_t batch : {64, 128, 256}) {
      const Problem problem = job(gpus, batch);
      const Result<Plan> plan = search(problem);
      if (!plan) continue;
      const std::string note = note_of(*plan, "other_batch");
      if (note.empty()) continue;
      CAPTURE(note);
      ++said;
      const std::vector<double> shown = numbers_of(note);
      REQUIRE(shown.size() == 4);
      Problem other = near_batches(problem).front().problem;
      CHECK(shown[0] == static_cast<double>(other.training.global_batch));
      CHECK(shown[1] == static_cast<double>(batch));
      CHECK(shown[3] == gpus);
      const double rate = static_cast<double>(other.training.tokens_per_step()) /
                          fastest(find_layouts(with_switches(other, plan->problem.switched))).value;
      CHECK(std::abs(shown[2] - 100 * (rate / plan->fastest->tokens_per_s - 1)) <= 0.51);
    }
  CHECK(said >= 1);
}

TEST_CASE("two GPUs send, and one does not") {
  for (const int gpus : {1, 2, 4}) {
    Problem problem = job(gpus, 64);
    problem.cluster.probed.memory = true;
    Layout layout{.dp = gpus};
    const auto missing = [&] {
      return unmeasured_behind(Metric::MemoryFit, problem, estimate(problem, layout)).size();
    };
    CHECK(missing() == (gpus > 1 ? 1 : 0));
    problem.cluster.nccl.all_reduce = Bytes(1);
    CHECK(missing() == 0);
  }
}

TEST_CASE("what a fault does grows with it, is nothing at first, and is only where it can be") {
  for (const int gpus : {1, 2, 8, 16}) {
    Problem problem = job(gpus, 64);
    Layout layout{.tp = std::min(gpus, 2)};
    layout.dp = gpus / layout.tp, layout.sequence_parallel = layout.tp > 1;
    const Estimate healthy = estimate(problem, layout);
    const StepParts before = parts_of(problem, healthy);
    const auto step = static_cast<std::size_t>(Observable::Step);
    for (const Fault& fault : faults()) {
      const std::string code(fault.code);
      CAPTURE(code);
      CAPTURE(gpus);
      const bool possible = fault.possible(problem, healthy);
      if (code == "network_slow") CHECK(possible == (gpus > 8));
      if (code == "links_slow" || code == "slow_rank") CHECK(possible == (gpus > 1));
      if (code == "imbalance" || code == "wide_gemms") CHECK_FALSE(possible);
      if (code == "clocks_low" || code == "data_loading" || code == "fragmentation") CHECK(possible);
      if (!possible) continue;
      if (fault.least == fault.most) {  // a switch
        CHECK(fault.parts(problem, healthy, 1)[step] >= before[step] * (1 - 1e-9));
        continue;
      }
      double last = before[step];
      CHECK(fault.parts(problem, healthy, 1)[step] == doctest::Approx(last));
      for (const double factor : {fault.least, 1.5, 2.0, 4.0}) {
        if (factor < fault.least || factor > fault.most) continue;
        const StepParts slow = fault.parts(problem, healthy, factor);
        CHECK(slow[step] >= last * (1 - 1e-9));
        last = slow[step];
        double sum = 0;
        for (std::size_t part = 1; part < slow.size(); ++part) sum += slow[part];
        CHECK(sum == doctest::Approx(slow[step]).epsilon(1e-6));
        const double own = (factor - 1) * (healthy.terms.compute + healthy.terms.recompute).value;
        if (code == "slow_rank") CHECK(slow[step] - before[step] == doctest::Approx(own));
        if (code == "data_loading")
          CHECK(slow[step] - before[step] == doctest::Approx((factor - 1) * healthy.step_time.value));
      }
      CHECK(last > before[step]);
    }
  }
}
