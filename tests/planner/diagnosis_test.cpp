// Runs with one fault, made by breaking the hardware or the job itself (numbers of the data sheet, not the constants
// that the diagnosis turns) and adding noise: the right part must stand out, and the right fault be among the first.
#include "planner/runs/diagnosis.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "planner/answer/plan.hpp"
#include "planner/rules/rules.hpp"
#include "tests/oracle/random_problem.hpp"

using namespace plan;

namespace {

/// A job as they are: a Llama-shaped model over a few nodes, with a layout that exercises several axes.
struct Job {
  Problem problem{};
  Layout layout{};
  double layers = 0, hidden = 0, ffn = 0, vocabulary = 128256;
};

Job random_job(std::mt19937& random) {
  const auto pick = [&](std::initializer_list<int> of) {
    return *(of.begin() + std::uniform_int_distribution<std::size_t>(0, of.size() - 1)(random));
  };
  Job job;
  const int layers = pick({16, 32, 64}), hidden = pick({4096, 8192}), ffn = pick({14336, 28672});
  job.problem.model = oracle::dense_model(layers, hidden, 32, 8, ffn, 128256);
  job.layers = layers, job.hidden = hidden, job.ffn = ffn;
  job.problem.cluster = oracle::plain_cluster();
  job.problem.gpus = pick({32, 64, 128});
  job.problem.training.seq = pick({4096, 8192});
  job.layout.tp = pick({1, 2, 4, 8});
  job.layout.pp = pick({1, 2, 4});
  job.layout.dp = job.problem.gpus / (job.layout.tp * job.layout.pp);
  job.layout.sequence_parallel = job.layout.tp > 1;
  job.problem.training.global_batch = static_cast<std::int64_t>(job.layout.dp) * pick({4, 8, 16});
  return job;
}

/// Breaks something of a job, or of what is measured of it, and says which fault that is.
struct Break {
  const char* fault;
  Observable part;
  bool (*can)(const Job&);
  void (*apply)(Job&, double);
  void (*lengthen)(const Job&, StepParts&, double);
  double least, most;
};

bool any(const Job&) { return true; }

void slow_every_rate(Gpu& gpu, double factor) {
  for (auto& peak : gpu.peak) peak = peak * (1 / factor);
  for (auto& dtype : gpu.gemm)
    for (GemmTable& table : dtype) table.fit.rate = table.fit.rate * (1 / factor);
  for (AttentionFit& fit : gpu.attention) fit.rate = fit.rate * (1 / factor);
}

void no_change(Job&, double) {}
void no_longer(const Job&, StepParts&, double) {}

/// What recomputing every layer adds, counted without a law of the planner's: one more forward pass of the layers, half
/// of what their backward pass takes. The head is not recomputed; its share of a pass is that of its products. A stage
/// that works longer keeps its neighbours waiting as much longer, and the messages inside a layer are sent once more
/// beside the two times of forward and backward.
void forward_once_more(const Job& job, StepParts& parts, double) {
  const double h = job.hidden, seq = static_cast<double>(job.problem.training.seq);
  const double layer = 2.5 * h * h + 3 * h * job.ffn + seq * h;  // q, o, k and v of 8 of 32 heads; causal scores
  const double share = job.layers * layer / (job.layers * layer + h * job.vocabulary);
  const auto at = [&](Observable part) -> double& { return parts[static_cast<std::size_t>(part)]; };
  at(Observable::Compute) *= 1 + share / 3;
  at(Observable::Tp) *= 1.5;
  at(Observable::Pipeline) *= 1 + share / 3;
}

double& part_of(StepParts& parts, Observable part) { return parts[static_cast<std::size_t>(part)]; }

/// All other ranks reach the reduction of gradients first, and wait there.
void one_rank_late(const Job&, StepParts& parts, double factor) {
  part_of(parts, Observable::Dp) += (factor - 1) * part_of(parts, Observable::Compute);
}

/// No kernel runs until the next batch is there.
void late_batches(const Job&, StepParts& parts, double factor) {
  part_of(parts, Observable::Idle) += (factor - 1) * part_of(parts, Observable::Step);
}

/// All that data-parallel messages take on the wire, one after another.
void in_sequence(const Job& job, StepParts& parts, double) {
  double hidden = 0;
  for (const Communication& row : estimate(job.problem, job.layout).communication)
    if (row.axis == Axis::Dp) hidden += (row.time - row.exposed).value;
  part_of(parts, Observable::Dp) += hidden;
}

bool reduces(const Job& job) { return job.layout.dense_group() > 1; }

void slow_links(Job& job, double factor) {
  Gpu& gpu = job.problem.cluster.gpu;
  gpu.scale_up = gpu.scale_up * (1 / factor);
  for (CollectiveFit& fit : gpu.collectives) fit.busbw = fit.busbw * (1 / factor);
}

const Break kBreaks[] = {
    {"network_slow", Observable::Dp, reduces,
     [](Job& job, double factor) {
       for (std::size_t i = 1; i < job.problem.cluster.tiers.size(); ++i)
         job.problem.cluster.tiers[i].bandwidth = job.problem.cluster.tiers[i].bandwidth * (1 / factor);
     },
     no_longer, 4, 12},
    {"clocks_low", Observable::Compute, any,
     [](Job& job, double factor) { slow_every_rate(job.problem.cluster.gpu, factor); }, no_longer, 1.6, 3},
    {"recompute_on", Observable::Compute, any, no_change, forward_once_more, 1, 1},
    {"links_slow", Observable::Tp, [](const Job& job) { return job.layout.tp > 1; }, slow_links, no_longer, 2, 6},
    {"slow_rank", Observable::Dp, reduces, no_change, one_rank_late, 1.15, 2},
    {"no_overlap", Observable::Dp, reduces, no_change, in_sequence, 1, 1},
    {"data_loading", Observable::Idle, any, no_change, late_batches, 1.12, 2},
};

StepParts true_parts(const Job& job, void (*lengthen)(const Job&, StepParts&, double) = no_longer, double factor = 1) {
  StepParts parts = parts_of(job.problem, estimate(job.problem, job.layout));
  lengthen(job, parts, factor);
  return parts;
}

/// What a trace of the job would show, with 3 % of noise on every part.
MeasuredStep observe(const StepParts& parts, std::mt19937& random) {
  std::normal_distribution<double> noise(1, 0.03);
  MeasuredStep measured;
  double sum = 0;
  for (std::size_t i = 1; i < parts.size(); ++i) sum += *(measured.seconds[i] = parts[i] * noise(random));
  measured.seconds[0] = sum;
  return measured;
}

}  // namespace

TEST_CASE("a healthy run is not blamed") {
  std::mt19937 random(7);
  int runs = 0, blamed = 0;
  while (runs < 200) {
    const Job job = random_job(random);
    if (broken_rule(job.problem, job.layout) >= 0) continue;
    ++runs;
    blamed +=
        diagnose(job.problem, estimate(job.problem, job.layout), observe(true_parts(job), random), {}).worst ? 1 : 0;
  }
  CHECK(blamed <= 6);  // 3 of 100
}

TEST_CASE("a fault is found by its part and by its name") {
  std::mt19937 random(11);
  int runs = 0, right_part = 0, right_fault = 0;
  std::map<std::string, int> missed;
  while (runs < 300) {
    const Job job = random_job(random);
    const Break& kind = kBreaks[random() % std::size(kBreaks)];
    if (broken_rule(job.problem, job.layout) >= 0 || !kind.can(job)) continue;
    Job broken = job;
    const double factor = std::uniform_real_distribution<double>(kind.least, kind.most)(random);
    kind.apply(broken, factor);
    const Estimate planned = estimate(job.problem, job.layout);
    const StepParts lengthened = true_parts(broken, kind.lengthen, factor);
    const MeasuredStep measured = observe(lengthened, random);
    // A fault that lengthens the step by less than a twentieth is nobody's fault.
    const auto part = static_cast<std::size_t>(kind.part);
    if (*measured.seconds[part] - parts_of(job.problem, planned)[part] < 0.1 * planned.step_time.value) continue;
    ++runs;
    const Diagnosis found = diagnose(job.problem, planned, measured, {});
    // A fault may lengthen several parts: each of them is a right one to name.
    const auto longer = [&](Observable named) {
      const auto p = static_cast<std::size_t>(named);
      return named == Observable::Step || lengthened[p] > 1.1 * parts_of(job.problem, planned)[p];
    };
    right_part += found.worst && longer(*found.worst) ? 1 : 0;
    bool named = false;
    for (std::size_t i = 0; i < std::min<std::size_t>(2, found.suspects.size()); ++i)
      named = named || found.suspects[i].fault->code == kind.fault;
    right_fault += named ? 1 : 0;
    if (!named) ++missed[kind.fault];
  }
  std::string told;
  for (const auto& [fault, count] : missed) told += " " + fault + " " + std::to_string(count);
  CAPTURE(told);
  CHECK(right_part >= 285);   // 95 of 100
  CHECK(right_fault >= 255);  // 85 of 100
}

TEST_CASE("evidence decides between faults that look alike") {
  std::mt19937 random(3);
  Job job = random_job(random);
  while (broken_rule(job.problem, job.layout) >= 0) job = random_job(random);
  const Estimate planned = estimate(job.problem, job.layout);
  MeasuredStep measured;
  measured.seconds[0] = 3 * planned.step_time.value;  // the step alone: almost anything could be it
  const Diagnosis without = diagnose(job.problem, planned, measured, {});
  REQUIRE(without.worst == Observable::Step);
  for (const Suspect& suspect : without.suspects) {
    const std::string code(suspect.fault->code);
    if (suspect.misfit > 1) continue;  // explains it alone
    const Diagnosis with = diagnose(job.problem, planned, measured, {{code, true, "seen"}});
    CHECK_MESSAGE(with.suspects.front().fault->code == code, code);
    CHECK(with.suspects.front().evidence.size() == 1);
  }
}

TEST_CASE("parts add up to the step") {
  std::mt19937 random(5);
  for (int i = 0; i < 200; ++i) {
    const Job job = random_job(random);
    if (broken_rule(job.problem, job.layout) >= 0) continue;
    const StepParts parts = parts_of(job.problem, estimate(job.problem, job.layout));
    double sum = 0;
    for (std::size_t k = 1; k < parts.size(); ++k) sum += parts[k];
    CHECK(sum == doctest::Approx(parts[0]).epsilon(1e-9));
  }
}
