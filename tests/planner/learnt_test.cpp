// Which jobs a cluster's runs speak of: each of those runs, whatever lies between them, and nothing beside.
#include "planner/estimate/learnt.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "oracle/random_problem.hpp"

using namespace plan;

namespace {

struct Job {
  Problem problem{};
  Layout layout{};
};

/// Numbers of a job by the names that messages have for them.
struct Number {
  const char* name;
  std::int64_t (*of)(const Job&);
  void (*set)(Job&, int);
};

const Number kNumbers[] = {
    {"gpus", [](const Job& j) -> std::int64_t { return j.problem.gpus; }, [](Job& j, int v) { j.problem.gpus = v; }},
    {"seq", [](const Job& j) { return j.problem.training.seq; }, [](Job& j, int v) { j.problem.training.seq = v; }},
    {"micro_batch", [](const Job& j) -> std::int64_t { return j.layout.micro_batch; },
     [](Job& j, int v) {
       j.problem.training.global_batch = v * (j.problem.training.global_batch / j.layout.micro_batch),
       j.layout.micro_batch = v;
     }},
    {"tp", [](const Job& j) -> std::int64_t { return j.layout.tp; }, [](Job& j, int v) { j.layout.tp = v; }},
    {"cp", [](const Job& j) -> std::int64_t { return j.layout.cp; }, [](Job& j, int v) { j.layout.cp = v; }},
    {"pp", [](const Job& j) -> std::int64_t { return j.layout.pp; }, [](Job& j, int v) { j.layout.pp = v; }},
    {"vp", [](const Job& j) -> std::int64_t { return j.layout.vp; }, [](Job& j, int v) { j.layout.vp = v; }},
    {"dp", [](const Job& j) -> std::int64_t { return j.layout.dp; },
     [](Job& j, int v) {
       j.problem.training.global_batch = v * (j.problem.training.global_batch / j.layout.dp), j.layout.dp = v;
     }},
    {"ep", [](const Job& j) -> std::int64_t { return j.layout.ep; }, [](Job& j, int v) { j.layout.ep = v; }},
    {"zero", [](const Job& j) -> std::int64_t { return j.layout.zero; }, [](Job& j, int v) { j.layout.zero = v; }},
    {"micro_batches",
     [](const Job& j) { return j.problem.training.global_batch / (j.layout.dp * j.layout.micro_batch); },
     [](Job& j, int v) { j.problem.training.global_batch = std::int64_t{v} * j.layout.dp * j.layout.micro_batch; }},
};

/// Every number from 2 to 60; pipelines and context parallelism in every job, so that their kinds are traits.
Job random_job(std::mt19937& random) {
  Job job;
  job.problem.model = oracle::dense_model(8, 1024, 8, 8, 4096, 32000);
  job.problem.training.global_batch = 1;
  job.layout.micro_batch = job.layout.dp = 1;
  for (const Number& number : kNumbers) number.set(job, 2 + static_cast<int>(random() % 59));
  return job;
}

std::optional<std::string> missing(const std::vector<Job>& runs, const Job& job) {
  std::vector<RanJob> ran;
  for (const Job& run : runs) ran.push_back({&run.problem, &run.layout});
  return never_ran(learnt_from(ran, {0.9, 1.1}), job.problem, job.layout);
}

}  // namespace

TEST_CASE("a cluster's runs speak of themselves and of what lies between them, number by number") {
  std::mt19937 random(31);
  for (int round = 0; round < oracle::rounds(100); ++round) {
    std::vector<Job> runs(1 + random() % 4);
    for (Job& run : runs) run = random_job(random);
    for (const Job& run : runs) CHECK(missing(runs, run) == std::nullopt);
    const auto bounds = [&](const Number& number) {
      return std::minmax_element(runs.begin(), runs.end(),
                                 [&](const Job& a, const Job& b) { return number.of(a) < number.of(b); });
    };
    Job between = runs.front();
    for (const Number& number : kNumbers) {
      const auto [least, most] = bounds(number);
      const std::int64_t width = number.of(*most) - number.of(*least) + 1;
      number.set(between, static_cast<int>(number.of(*least) + static_cast<std::int64_t>(random()) % width));
    }
    CHECK(missing(runs, between) == std::nullopt);
    for (const Number& number : kNumbers) {
      CAPTURE(number.name);
      const auto [least, most] = bounds(number);
      const std::int64_t low = number.of(*least), high = number.of(*most);
      for (const std::int64_t value : {low - 1, high + 1}) {
        Job beyond = between;
        number.set(beyond, static_cast<int>(value));
        const std::optional<std::string> said = missing(runs, beyond);
        REQUIRE(said);
        CHECK(said->starts_with(number.name + std::string(" is ") + std::to_string(value) + ","));
        CHECK(said->find(" " + std::to_string(low)) != std::string::npos);
        CHECK(said->find(" " + std::to_string(high)) != std::string::npos);
      }
    }
  }
}

TEST_CASE("a trait that none of the runs had is named, and one that some of them had is not") {
  struct Trait {
    const char* word;
    void (*give)(Job&);
  };
  const Trait traits[] = {
      {"model other", [](Job& j) { j.problem.model.name = "other"; }},
      {"precision mxfp8", [](Job& j) { j.problem.training.precision = Precision::Mxfp8; }},
      {"task lora", [](Job& j) { j.problem.training.task = Task::Lora; }},
      {"recompute full", [](Job& j) { j.layout.recompute.kind = RecomputeKind::Full; }},
      {"recompute selective", [](Job& j) { j.layout.recompute.kind = RecomputeKind::Selective; }},
      {"attention unfused", [](Job& j) { j.problem.training.stack.flash_attention = false; }},
      {"schedule gpipe", [](Job& j) { j.layout.schedule = Schedule::GPipe; }},
      {"cp_kind all-gather", [](Job& j) { j.layout.cp_kind = CpKind::AllGather; }},
  };
  std::mt19937 random(37);
  const Job plain = random_job(random);
  for (const Trait& trait : traits) {
    CAPTURE(trait.word);
    Job other = plain;
    trait.give(other);
    const std::optional<std::string> said = missing({plain, plain}, other);
    REQUIRE(said);
    CHECK(said->find("2 runs") != std::string::npos);
    CHECK(said->ends_with(trait.word));
    CHECK(missing({plain, other}, other) == std::nullopt);
    CHECK(missing({plain, other}, plain) == std::nullopt);
    CHECK(missing({other}, plain).has_value());
  }
}
