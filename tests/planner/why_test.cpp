// What one step away would cost, against estimates of that layout made here.
#include "planner/choice/why.hpp"
#include "planner/planner.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <sstream>

#include "oracle/random_problem.hpp"
#include "planner/rules/rules.hpp"

using namespace plan;

TEST_CASE("the terms of a sentence are those in which the two layouts differ, the largest first") {
  std::mt19937 random(19);
  int in_seconds = 0, in_milliseconds = 0;
  for (int round = 0; round < oracle::rounds(400); ++round) {
    Problem problem;
    problem.model = oracle::dense_model(16, 4096, 32, 8, 14336, 128256);
    problem.cluster = oracle::plain_cluster(random() % 2 == 0 ? 79.6 : 500);
    problem.gpus = 16, problem.training.seq = 4096;
    problem.training.global_batch = 16 << (random() % 6);
    problem.framework = Framework::None;
    Layout layout{.tp = 1 << (random() % 4), .pp = 1 << (random() % 2), .micro_batch = 1 << (random() % 3)};
    layout.dp = problem.gpus / (layout.tp * layout.pp);
    layout.sequence_parallel = layout.tp > 1;
    layout.recompute.kind = random() % 2 == 0 ? RecomputeKind::None : RecomputeKind::Full;
    if (broken_rule(problem, layout) >= 0) continue;
    const Estimate best = estimate(problem, layout);
    Layout bigger = best.layout;
    bigger.chunk_layers.clear(), bigger.micro_batch *= 2;
    const Estimate other = estimate(problem, bigger);
    const std::string change = "micro_batch " + std::to_string(bigger.micro_batch) + " instead of";
    for (const std::string& sentence : why(problem, best, 100)) {
      if (!sentence.starts_with(change)) continue;
      const std::size_t colon = sentence.find("% slower:");
      if (colon == std::string::npos) continue;
      CAPTURE(sentence);
      std::istringstream words(sentence.substr(colon + 9));
      double last = 1e300, value = 0;
      for (std::string term, unit; words >> term >> value >> unit; last = std::abs(value)) {
        REQUIRE((unit == "s" || unit == "ms"));
        CHECK((unit == "s") == (best.step_time.value >= 1));
        (unit == "s" ? in_seconds : in_milliseconds)++;
        const double scale = unit == "s" ? 1 : 1000, rounding = unit == "s" ? 0.00501 : 0.501;
        bool known = false;
        for (const auto& [name, part] : kTimeTerms) {
          if (name != term) continue;
          known = true;
          CHECK(std::abs(value - scale * (other.terms.*part - best.terms.*part).value) <= rounding);
        }
        CHECK(known);
        CHECK(std::abs(value) <= last);
      }
    }
  }
  CHECK(in_seconds >= oracle::at_least(11));
  CHECK(in_milliseconds >= oracle::at_least(11));
}

TEST_CASE("a neighbour that may not fit is never called slower alone") {
  std::mt19937 random(23);
  std::uniform_real_distribution<double> share(0.7, 1.15);
  int told[3] = {};
  for (int round = 0; round < oracle::rounds(300); ++round) {
    Problem problem;
    problem.model = oracle::dense_model(16, 4096, 32, 8, 14336, 128256);
    problem.cluster = oracle::plain_cluster(500);
    problem.gpus = 16, problem.training.seq = 16384, problem.training.global_batch = 64;
    problem.framework = Framework::None;
    Layout layout{.tp = 1 << (random() % 4), .pp = 1 << (random() % 2), .micro_batch = 1 << (random() % 2)};
    layout.dp = problem.gpus / (layout.tp * layout.pp);
    layout.sequence_parallel = layout.tp > 1;
    if (broken_rule(problem, layout) >= 0) continue;
    Layout bigger = estimate(problem, layout).layout;
    bigger.chunk_layers.clear(), bigger.micro_batch *= 2;
    if (broken_rule(problem, bigger) >= 0) continue;
    // Memory near what the neighbour needs, most of it activations, so that all answers come up.
    const auto peak = static_cast<double>(estimate(problem, bigger).peak.value);
    problem.cluster = oracle::plain_cluster(share(random) * peak / kGiB);
    const Estimate best = estimate(problem, layout), other = estimate(problem, bigger);
    if (best.fits != Fits::Yes) continue;
    const std::string change = "micro_batch " + std::to_string(bigger.micro_batch) + " instead of";
    for (const std::string& sentence : why(problem, best, 100)) {
      if (!sentence.starts_with(change)) continue;
      CAPTURE(sentence);
      told[static_cast<int>(other.fits)]++;
      CHECK((sentence.find(" needs ") == std::string::npos) == (other.fits == Fits::Yes));
      CHECK((sentence.find("at risk") != std::string::npos) == (other.fits == Fits::AtRisk));
    }
  }
  for (const Fits fits : {Fits::AtRisk, Fits::No}) CHECK(told[static_cast<int>(fits)] >= oracle::at_least(5));
}

TEST_CASE("a plan says what stands one step away from the layout that it recommends") {
  for (const int gpus : {8, 16, 64}) {
    Problem problem;
    problem.model = oracle::dense_model(16, 4096, 32, 8, 14336, 128256);
    problem.cluster = oracle::plain_cluster();
    problem.gpus = gpus, problem.training.seq = 4096, problem.training.global_batch = 64;
    const Result<Plan> plan = search(problem);
    REQUIRE(plan.has_value());
    CHECK_FALSE(plan->why.empty());
    CHECK(plan->why == why(plan->problem, plan->best));
    for (const std::string& sentence : plan->why) CHECK(sentence.find(" instead of ") != std::string::npos);
  }
}

namespace {

/// What stands one step from a layout, as who reads a sentence takes it: of one axis half or twice as much, in trade
/// for replicas; half the chunks; no recomputation; plain ZeRO; half the expert ranks; twice the micro-batch.
std::map<std::string, Layout> one_step_from(const Layout& best) {
  std::map<std::string, Layout> out;
  const auto instead = [](const char* axis, int now, int before) {
    return std::string(axis) + " " + std::to_string(now) + " instead of " + std::to_string(before);
  };
  Layout plain = best;
  plain.chunk_layers.clear();
  const std::pair<const char*, int Layout::*> axes[] = {{"tp", &Layout::tp}, {"pp", &Layout::pp}, {"cp", &Layout::cp}};
  for (const auto& [name, axis] : axes)
    for (const bool more : {false, true}) {
      Layout other = plain;
      other.shard = 0;
      int &from = more ? other.dp : other.*axis, &to = more ? other.*axis : other.dp;
      if (from % 2 != 0) continue;
      from /= 2, to *= 2;
      other.sequence_parallel = other.tp > 1 && (more || best.sequence_parallel);
      out[instead(name, other.*axis, best.*axis)] = other;
    }
  if (best.vp > 1) {
    Layout other = plain;
    other.vp /= 2;
    if (other.vp == 1) other.schedule = Schedule::OneFOneB;
    out[instead("vp", other.vp, best.vp)] = other;
  }
  Layout other = plain;
  other.recompute = {};
  if (best.recompute.kind != RecomputeKind::None) out["without recomputation"] = other;
  other = plain, other.zero = 1;
  if (best.zero != 1) out[instead("zero", 1, best.zero)] = other;
  other = plain, other.ep /= 2;
  if (best.ep > 1) out[instead("ep", other.ep, best.ep)] = other;
  other = plain, other.micro_batch *= 2;
  out[instead("micro_batch", other.micro_batch, best.micro_batch)] = other;
  return out;
}

}  // namespace

TEST_CASE("every layout one step away is told that is slower or may not fit, with its own numbers, and no other") {
  std::mt19937 random(23);
  std::map<std::string, int> told;
  for (int round = 0; round < oracle::rounds(600); ++round) {
    Problem problem;
    problem.model = oracle::dense_model(16, 4096, 32, 8, 14336, 128256);
    if (random() % 3 == 0)
      for (Layer& kind : problem.model.kinds) {
        kind.ffn = Ffn::Moe;
        kind.moe = {.experts = 8, .top_k = 2, .expert_width = 4096};
      }
    problem.cluster = oracle::plain_cluster(random() % 2 == 0 ? 30 : 200);
    problem.gpus = 32, problem.training.seq = 4096, problem.training.global_batch = 32 << (random() % 4);
    problem.framework = Framework::None;
    Layout layout{.tp = 1 << (random() % 4), .cp = 1 << (random() % 2), .pp = 1 << (random() % 3)};
    layout.micro_batch = 1 << (random() % 2), layout.zero = static_cast<int>(random() % 4);
    layout.dp = problem.gpus / (layout.tp * layout.cp * layout.pp);
    if (layout.dp == 0) continue;
    layout.sequence_parallel = layout.tp > 1;
    if (layout.pp > 1 && random() % 2 == 0) layout.vp = 2 << (random() % 2), layout.schedule = Schedule::Interleaved;
    if (problem.model.moe()) layout.ep = std::min(layout.dp, 1 << (random() % 3));
    if (random() % 2 == 0) layout.recompute.kind = RecomputeKind::Full;
    if (broken_rule(problem, layout) >= 0) continue;
    const Estimate best = estimate(problem, layout);
    const std::vector<std::string> sentences = why(problem, best, 100);
    std::size_t wanted = 0;
    bool fit = false;
    for (const auto& step : one_step_from(best.layout)) {
      const std::string& change = step.first;
      if (broken_rule(problem, step.second) >= 0) continue;
      const Estimate other = estimate(problem, step.second);
      const double slower = other.step_time / best.step_time - 1;
      const bool worse = other.fits == Fits::No || other.fits > best.fits;
      if (std::abs(slower - 0.002) < 1e-9) continue;
      const auto found = std::find_if(sentences.begin(), sentences.end(),
                                      [&](const std::string& text) { return text.starts_with(change + " "); });
      CAPTURE(change);
      CHECK((found != sentences.end()) == (worse || slower > 0.002));
      if (found == sentences.end()) continue;
      ++wanted, ++told[change.substr(0, change.find(' '))];
      std::istringstream words(found->substr(change.size()));
      std::string verb, of;
      double first = 0, second = 0;
      words >> verb >> first >> of;
      if (worse) {
        words >> second;
        CHECK(verb == "needs");
        CHECK(std::abs(first - static_cast<double>(other.peak.value) / (1 << 30)) <= 0.0501);
        CHECK(std::abs(second - static_cast<double>(other.capacity.value) / (1 << 30)) <= 0.0501);
      } else {
        CHECK(verb == "is");
        CHECK(std::abs(first - 100 * slower) <= 0.0501);
      }
    }
    CHECK(sentences.size() == wanted);
    for (const std::string& text : sentences) {  // what is slower is behind what does not fit
      const bool slower = text.find("slower:") != std::string::npos;
      CHECK((slower || !fit));
      fit = slower;
    }
    for (const std::size_t most : {std::size_t{1}, std::size_t{3}}) {
      const std::vector<std::string> few = why(problem, best, most);
      CHECK(few.size() == std::min(most, few.size()));
      CHECK(few.size() >= std::min(most, sentences.size()) - (most > 1 && sentences.size() >= most ? 1 : 0) -
                              (most == 1 && !sentences.empty() ? 1 : 0));
      for (const std::string& text : few) CHECK(std::count(sentences.begin(), sentences.end(), text) == 1);
    }
  }
  for (const char* axis : {"tp", "pp", "cp", "vp", "zero", "ep", "micro_batch"}) {
    CAPTURE(axis);
    CHECK(told[axis] >= oracle::at_least(5));
  }
}
