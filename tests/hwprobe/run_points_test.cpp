// The order of a probe's points: canaries, a second pass, and what of them the profile says.
#include "hwprobe/session/run_points.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <set>

#include "hwprobe/session/rank_work.hpp"
#include "hwprobe/sweep/sweep.hpp"

using namespace plan;

namespace {

Sweep sweep_of_one_gpu() {
  SweepRequest request{.budget_s = 1000};
  Gpu& gpu = request.expected.gpu;
  gpu.memory = round_bytes(80 * kGiB);
  gpu.peak.fill(FlopsPerSecond(9.9e14));
  gpu.memory_bandwidth = BytesPerSecond(3.35e12);
  return plan_sweep(request);
}

/// A GPU whose GEMMs take `growth` longer with every call.
struct FakeGpu {
  double growth = 0;
  int calls = 0, status = PLAN_PROBE_OK, fail_at = 0;
  std::map<std::string, int> seen{};

  Result<std::vector<std::string>> operator()(const SweepPoint& point) {
    ++seen[point.id], ++calls;
    RankResult result;
    if (calls == fail_at) result.status = status, result.error = "an illegal memory access was encountered";
    result.data.took_part = 1, result.data.count = 9;
    const double slower = point.section == Section::Gemm ? 1 + growth * calls : 1;
    for (int i = 0; i < 9; ++i) result.data.seconds[i] = 1e-3 * slower * (1 + 1e-4 * i);
    result.pulses = {{.sm_mhz = 1700, .watts = 690, .celsius = 60, .reasons = 4}, {.sm_mhz = 1800, .celsius = 64}};
    return std::vector<std::string>{pack_result(result)};
  }
};

SessionOutcome run(FakeGpu& gpu, const Sweep& sweep, double budget_s) {
  return run_points(sweep, budget_s, {[&](const SweepPoint& p) { return gpu(p); }, {"rank 0 (here)"}});
}

const ProfileConditions& of(const SessionOutcome& outcome, std::string_view section) {
  for (const ProfileConditions& c : outcome.conditions)
    if (c.section == section) return c;
  FAIL("no such section");
  return outcome.conditions.front();
}

}  // namespace

TEST_CASE("points of one GPU are measured twice where there is time, beside canaries") {
  const Sweep sweep = sweep_of_one_gpu();
  FakeGpu gpu;
  const SessionOutcome outcome = run(gpu, sweep, 1000);
  CHECK(outcome.failure.empty());
  CHECK(outcome.observations.size() == sweep.points.size());
  for (const SweepPoint& point : sweep.points) {
    CAPTURE(point.id);
    const bool once = point.section == Section::Memory || point.section > Section::HostLink ||
                      point.point.kind == PLAN_PROBE_SUSTAINED;
    CHECK(gpu.seen[point.id] == (once ? 1 : 2));
  }
  CHECK(gpu.seen["canary gemm"] >= 4);  // GEMMs, attention, kernels, host link
  CHECK(of(outcome, "kernels").passes == 2);
  CHECK(of(outcome, "kernels").drift_pct < 0.1);
  CHECK(of(outcome, "gemm").sm_clock_mhz_p50 == 1750);
  CHECK(of(outcome, "gemm").temperature_c_max == 64);
  CHECK(of(outcome, "gemm").throttle == std::vector<std::string>{"sw_power_cap"});
}

TEST_CASE("the first point of a sweep is measured a second time as every other is") {
  Sweep sweep = sweep_of_one_gpu();
  const auto kept = [](const SweepPoint& point) { return point.section == Section::Gemm; };
  std::erase_if(sweep.points, [&](const SweepPoint& point) { return !kept(point); });
  FakeGpu gpu;
  run(gpu, sweep, 1000);
  REQUIRE_FALSE(sweep.points.empty());
  CHECK(gpu.seen[sweep.points.front().id] == (sweep.points.front().point.kind == PLAN_PROBE_SUSTAINED ? 1 : 2));
}

TEST_CASE("a GPU that slows down shows as drift of its section") {
  const Sweep sweep = sweep_of_one_gpu();
  FakeGpu gpu{.growth = 1e-3};
  const SessionOutcome outcome = run(gpu, sweep, 1000);
  CHECK(of(outcome, "gemm").drift_pct > 3);
  CHECK(of(outcome, "kernels").drift_pct < 0.1);
}

TEST_CASE("a point that fails is skipped with its words, whatever went wrong, and the rest is measured") {
  const Sweep sweep = sweep_of_one_gpu();
  for (const int status : {PLAN_PROBE_FAILED, PLAN_PROBE_NO_MEMORY, PLAN_PROBE_WRONG_RESULT, PLAN_PROBE_UNSUPPORTED}) {
    CAPTURE(status);
    FakeGpu gpu{.status = status, .fail_at = 7};
    const SessionOutcome outcome = run(gpu, sweep, 1000);
    CHECK(outcome.failure.empty());
    CHECK(outcome.observations.size() == sweep.points.size() - 1);
    REQUIRE(outcome.skipped.size() == 1);
    CHECK(outcome.skipped[0].reason.find("an illegal memory access") != std::string::npos);
    CHECK(outcome.warnings.size() == (status == PLAN_PROBE_WRONG_RESULT ? 1 : 0));
  }
}

TEST_CASE("of several ranks the one that has a reason of its own is named") {
  const Sweep sweep = sweep_of_one_gpu();
  const auto ask = [](const SweepPoint&) -> Result<std::vector<std::string>> {
    RankResult good, waits{.status = PLAN_PROBE_PEER, .error = "another rank of its group could not"},
        small{.status = PLAN_PROBE_NO_MEMORY, .error = "out of memory"};
    return std::vector<std::string>{pack_result(good), pack_result(waits), pack_result(small)};
  };
  const SessionOutcome outcome = run_points(sweep, 1000, {ask, {"rank 0 (a)", "rank 1 (b)", "rank 2 (c)"}});
  REQUIRE(outcome.skipped.size() == sweep.points.size());
  CHECK(outcome.skipped[0].reason == "rank 2 (c): out of memory");
}

TEST_CASE("without time left there is one pass, and a lost GPU ends the probe") {
  const Sweep sweep = sweep_of_one_gpu();
  FakeGpu once;
  CHECK(of(run(once, sweep, 1e-9), "memory").passes == 1);
  FakeGpu broken{.status = PLAN_PROBE_LOST, .fail_at = 7};
  const SessionOutcome outcome = run(broken, sweep, 1000);
  REQUIRE(outcome.failure.size() == 1);
  CHECK(outcome.failure[0].message.find("failed on rank 0 (here): an illegal memory access") != std::string::npos);
  CHECK(outcome.observations.size() < 7);
}

TEST_CASE("canaries are what plan-measuring(7) says: a product of 4096 x 4096 x 4096 in bf16, and a copy of 64 MiB") {
  FakeGpu gpu;
  int products = 0, copies = 0;
  const auto ask = [&](const SweepPoint& p) {
    const plan_probe_point& point = p.point;
    if (p.id.starts_with("canary")) {  // as short as a median allows
      CHECK(point.least_samples == 5);
      CHECK(point.most_samples == 9);
      CHECK(point.max_seconds == 0.05);
    }
    if (p.id == "canary gemm") {
      CHECK(point.kind == PLAN_PROBE_GEMM);
      CHECK(point.format == PLAN_PROBE_BF16);
      for (int i = 0; i < 3; ++i) CHECK(point.number[i] == 4096);
      ++products;
    } else if (p.id == "canary copy") {
      CHECK(point.kind == PLAN_PROBE_COPY);
      CHECK(point.number[0] == 64 << 20);
      ++copies;
    }
    return gpu(p);
  };
  static_cast<void>(run_points(sweep_of_one_gpu(), 1000, {ask, {"rank 0 (here)"}}));
  CHECK(products > 0);
  CHECK(copies > 0);
  // Every five seconds, and where a section begins: this GPU is through in far less.
  std::set<Section> sections;
  for (const SweepPoint& p : sweep_of_one_gpu().points) sections.insert(p.section);
  CHECK(products <= static_cast<int>(2 * sections.size()));  // two passes
  CHECK(copies <= static_cast<int>(2 * sections.size()));
}

TEST_CASE("canaries that the GPU cannot run are left out, and nothing else is") {
  const Sweep sweep = sweep_of_one_gpu();
  FakeGpu gpu;
  const auto ask = [&](const SweepPoint& p) -> Result<std::vector<std::string>> {
    if (p.id != "canary gemm") return gpu(p);
    ++gpu.seen[p.id];
    return std::vector<std::string>{pack_result({.status = PLAN_PROBE_UNSUPPORTED, .error = "no bf16 here"})};
  };
  const SessionOutcome outcome = run_points(sweep, 1000, {ask, {"rank 0 (here)"}});
  CHECK(gpu.seen["canary gemm"] == 1);
  CHECK(outcome.observations.size() == sweep.points.size());
}

TEST_CASE("what a sweep leaves out stays left out, with its reason") {
  Sweep sweep = sweep_of_one_gpu();
  sweep.skipped = {{"another point", "budget"}};
  FakeGpu gpu;
  CHECK(run(gpu, sweep, 1000).skipped == sweep.skipped);
}
