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
#include "planner/choice/hardware_notes.hpp"
#include "planner/estimate/claims.hpp"
#include "planner/memory/host_memory.hpp"
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

TEST_CASE("each note of hardware is there for one fact, names what it is about, and is gone without the fact") {
  using Edit = void (*)(Problem&);
  struct Case {
    const char* code;
    const char* says;
    Edit edit;
  };
  Problem measured = job(8, 64);
  Gpu& gpu = measured.cluster.gpu;
  gpu.name = "G1", gpu.efficiency = "h100", measured.cluster.name = "mine";
  measured.cluster.measured = true, measured.cluster.probed.bandwidth = true;
  REQUIRE(hardware_notes(measured, false).empty());
  const Case cases[] = {
      {"hardware_not_measured", "mine is a preset", [](Problem& p) { p.cluster.measured = false; }},
      {"hardware_not_measured", "from a preset", [](Problem& p) { p.cluster.probed.bandwidth = false; }},
      {"profile_coverage", "mine: measured gemm, nccl",
       [](Problem& p) {
         p.cluster.measured_parts = {"gemm", "nccl"};
       }},
      {"profile_coverage", "; not measured attention",
       [](Problem& p) { p.cluster.measured_parts = {"gemm"}, p.cluster.unmeasured_parts = {"attention"}; }},
      {"efficiency_inherited", "kernels scaled from G0", [](Problem& p) { p.cluster.gpu.measured_as = "G0"; }},
      {"hardware_edited", "G1: memory, peak; rates measured under `efficiency: h100`",
       [](Problem& p) {
         p.cluster.gpu.edited = {"memory", "peak"};
       }},
      {"hardware_unlikely", "G1: nic", [](Problem& p) { p.cluster.gpu.nic = BytesPerSecond(50e12); }},
      {"efficiency_unknown", "G1 names no measured rates", [](Problem& p) { p.cluster.gpu.efficiency.clear(); }},
      {"architecture_unknown", "G1 states no", [](Problem& p) { p.cluster.gpu.architecture = Architecture::Unknown; }},
      {"communication_memory_unknown", "G1: buffers of",
       [](Problem& p) { p.cluster.gpu.library = CollectiveLibrary::Hccl; }},
      {"host_link_unknown", "G1: its link",
       [](Problem& p) { p.training.offload.parameters = true, p.cluster.gpu.host_link = BytesPerSecond(0); }},
      {"host_optimizer", "a host steps", [](Problem& p) { p.training.offload.optimizer = 0.5; }}};
  for (const Case& one : cases) {
    CAPTURE(one.code);
    Problem problem = measured;
    one.edit(problem);
    const std::vector<Note> notes = hardware_notes(problem, false);
    REQUIRE(notes.size() == 1);
    CHECK(notes.front().code == one.code);
    CHECK(notes.front().text.find(one.says) != std::string::npos);
    const std::vector<Note> risky = hardware_notes(problem, true);
    REQUIRE(risky.size() == 2);
    CHECK(risky.back().code == "memory_at_risk");
  }
  Problem other = measured;  // one GPU has no buffers, and a GPU whose own products were fitted needs no shares
  other.cluster.gpu.library = CollectiveLibrary::Hccl;
  for (const int gpus : {1, 2, 8}) {
    other.gpus = gpus;
    CHECK(hardware_notes(other, false).empty() == (gpus == 1));
  }
  for (auto& fits : gpu.gemm) fits[0].fit.rate = FlopsPerSecond(1e14);
  gpu.efficiency.clear();
  CHECK(hardware_notes(measured, false).empty());
}

TEST_CASE(
    "what the hosts' memory would bring is noted where nobody stated it and GPUs are short, with what it brings") {
  int said = 0, stated = 0;
  for (const Framework framework : {Framework::DeepSpeed, Framework::Megatron})
    for (const int gpus : {16, 32})
      for (const double host : {0.0, 2e12}) {
        Problem problem = job(gpus, 64, framework);
        problem.cluster = oracle::plain_cluster(44.5);
        Gpu& gpu = problem.cluster.gpu;
        for (FlopsPerSecond& peak : gpu.peak) peak = FlopsPerSecond(362e12);
        gpu.memory_bandwidth = BytesPerSecond(864e9), gpu.host_link = BytesPerSecond(32e9);
        gpu.scale_up = BytesPerSecond(26e9), gpu.nic = BytesPerSecond(25e9);
        for (Tier& tier : problem.cluster.tiers) tier.bandwidth = BytesPerSecond(25e9);
        problem.free_switches = kHostSwitches;
        problem.cluster.host_memory = Bytes(static_cast<std::int64_t>(host));
        const Result<Plan> plan = search(problem);
        if (!plan) continue;
        const std::string note = note_of(*plan, "other_memory");
        CAPTURE(gpus);
        CAPTURE(note);
        stated += host > 0;
        if (host > 0) CHECK(note.empty());  // the search has used it where it is of use
        if (note.empty()) continue;
        ++said;
        int found = 0;
        for (const ChangedJob& change : offloads(problem)) {
          if (note.find("`" + change.flag + "`") == std::string::npos) continue;
          const RunnableSearch other = find_runnable(change.problem);
          REQUIRE_FALSE(other.result.ranking.best().empty());
          const double rate =
              static_cast<double>(other.problem.training.tokens_per_step()) / fastest(other.result).value;
          const double percent = numbers_of(note.substr(note.find("would train "))).front();
          CHECK(std::abs(percent - 100 * (rate / plan->fastest->tokens_per_s - 1)) <= 0.51);
          CHECK(percent >= 9.5);
          ++found;
        }
        CHECK(found == 1);
      }
  CHECK(said >= 1);
  CHECK(stated >= 1);
}

TEST_CASE("a framework drops what was stated of graphs exactly where it has none of parts") {
  for (const FrameworkRow& row : frameworks()) {
    if (!named(row.framework)) continue;
    Problem problem = job(8, 64, row.framework);
    problem.training.stack.cuda_graphs = false, problem.training.stack.graph_scopes = 0;
    CHECK_FALSE(drops_stated(problem, row));
    problem.training.stack.graph_scopes = 1;
    CHECK(drops_stated(problem, row) == !row.graphs_of_parts);
    problem.training.stack.graph_scopes = 0, problem.training.stack.cuda_graphs = true;
    CHECK(drops_stated(problem, row) == !row.graphs_of_parts);
  }
}
