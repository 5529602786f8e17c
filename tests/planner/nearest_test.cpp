#include <doctest/doctest.h>

#include <random>
#include <string>

#include "oracle/random_problem.hpp"
#include "planner/choice/nearest.hpp"
#include "planner/planner.hpp"

using namespace plan;

namespace {

Problem llama_70b(int gpus) {
  Problem problem;
  problem.model = oracle::dense_model(80, 8192, 64, 8, 28672, 128256);
  problem.model.name = "llama3-70b";
  problem.cluster = oracle::plain_cluster();
  problem.gpus = gpus;
  problem.training.seq = 8192, problem.training.global_batch = 1024;
  problem.top = 1;
  return problem;
}

/// Value after `flag` in a help line, 0 if the line is about something else.
int suggested(const std::string& line, const std::string& flag) {
  const std::size_t at = line.find(flag + " ");
  return at == std::string::npos ? 0 : std::stoi(line.substr(at + flag.size() + 1));
}

}  // namespace

TEST_CASE("too few GPUs: the suggested count works") {
  const Problem problem = llama_70b(4);
  const auto plan = search(problem);
  REQUIRE_FALSE(plan.has_value());
  const Error& error = plan.error().front();
  CHECK(error.code == "no_layout");
  CHECK(error.message.find("llama3-70b needs") != std::string::npos);
  REQUIRE_FALSE(error.changes.empty());
  const int gpus = suggested(error.changes.front().flags, "--gpus");
  REQUIRE(gpus > 4);
  CHECK(search(llama_70b(gpus)).has_value());
  const auto half = search(llama_70b(gpus / 2));
  CHECK((!half.has_value() || half->best.fits != Fits::Yes));
}

TEST_CASE("too big for its GPUs is said of every maker's") {
  for (const std::string vendor : {"", "nvidia", "amd", "google", "intel", "amazon"}) {
    Problem problem = llama_70b(2);
    problem.framework = Framework::Any;
    problem.cluster.gpu.vendor = vendor;
    const auto plan = search(problem);
    REQUIRE_FALSE(plan.has_value());
    CAPTURE(vendor);
    CAPTURE(plan.error().front().message);
    CHECK(plan.error().front().message.starts_with("no layout fits: llama3-70b needs at least"));
  }
}

TEST_CASE("a prime number of GPUs: neighbours and batches that divide") {
  const Problem problem = llama_70b(1009);
  const auto plan = search(problem);
  REQUIRE(plan.has_value());  // with a GPU or more left idle
  CHECK(plan->idle_gpus > 0);
  const Error error = explain_no_layout(problem, find_layouts(problem));
  CHECK(error.message == "no layout uses all 1009 GPUs");
  CHECK(error.facts.front().find("1009 is prime") == 0);
  REQUIRE(error.changes.size() >= 2);
  for (const Change& change : error.changes)
    if (const int gpus = suggested(change.flags, "--gpus"); gpus > 0) CHECK(search(llama_70b(gpus)).has_value());
}

TEST_CASE("a length that context ranks do not divide: neighbours that they do") {
  Problem problem = llama_70b(64);
  problem.framework = Framework::None;
  problem.training.seq = 8191, problem.fixed.cp = 4;
  const Error error = explain_no_layout(problem, find_layouts(problem));
  int lengths = 0;
  for (const Change& change : error.changes)
    if (const int seq = suggested(change.flags, "--seq"); seq > 0) {
      Problem changed = problem;
      changed.training.seq = seq;
      CHECK(seq % 8 == 0);
      CHECK(search(changed).has_value());
      ++lengths;
    }
  CHECK(lengths >= 1);
}

TEST_CASE("two GPUs that share nothing of a job: one of them is offered") {
  Problem problem;
  problem.model = oracle::dense_model(2, 1024, 1, 1, 2048, 1000);
  problem.cluster = oracle::plain_cluster();
  problem.cluster.gpus_per_node = 1;
  problem.gpus = 2, problem.framework = Framework::None;
  problem.training.seq = 1021, problem.training.global_batch = 1;  // a prime length, one sequence and one head
  problem.fixed.pp = 1;
  const Error error = explain_no_layout(problem, find_layouts(problem));
  bool one = false;
  for (const Change& change : error.changes) one = one || suggested(change.flags, "--gpus") == 1;
  CHECK(one);
  problem.gpus = 1;
  CHECK(search(problem).has_value());
}

TEST_CASE("a fixed axis is in the way: set it free") {
  Problem problem = llama_70b(64);
  problem.fixed.tp = 3;
  const auto plan = search(problem);
  REQUIRE_FALSE(plan.has_value());
  REQUIRE_FALSE(plan.error().front().changes.empty());
  CHECK(plan.error().front().changes.front().flags.find("leave tp free") == 0);
}

TEST_CASE("a suggestion says what to type, the layout, and the GiB of it and of the GPU") {
  std::mt19937 random(5);
  for (int round = 0; round < 100; ++round) {
    Layout layout{.tp = 1 << (random() % 4), .pp = 1 << (random() % 4), .dp = 1 << (random() % 8)};
    const std::string flags = "--gpus " + std::to_string(random() % 100'000);
    const double gib = static_cast<double>(random() % 100'000) / 100, has = static_cast<double>(random() % 1000);
    const Change change = suggested_change(flags, layout, gib * RealBytes(1 << 30), has * RealBytes(1 << 30));
    CHECK(change.flags == flags);
    CHECK(change.layout == degrees_text(layout));
    CHECK(std::stod(change.memory) == doctest::Approx(gib).epsilon(1e-9).scale(0.051 / 1e-9));
    CHECK(std::stod(change.memory.substr(change.memory.find(" of ") + 4)) ==
          doctest::Approx(has).epsilon(1e-9).scale(0.051 / 1e-9));
  }
}
