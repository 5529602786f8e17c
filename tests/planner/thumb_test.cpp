// Every rule of thumb has a layout that breaks it and one that does not; the numbers are worked out here.
#include "planner/choice/thumb.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <string>

#include "formulas/textbook/rules_of_thumb.hpp"
#include "oracle/random_problem.hpp"
#include "planner/rules/rules.hpp"

using namespace plan;

namespace {

constexpr double kPeak = 989.4e12, kRail = 50e9;  // of the plain cluster

struct Job {
  Problem problem{};
  Layout layout{};
};

Job job(int gpus, Layout layout) {
  Job out;
  out.problem.model = oracle::dense_model(32, 4096, 32, 8, 14336, 128256);
  out.problem.cluster = oracle::plain_cluster(1000);
  out.problem.framework = Framework::None;
  out.problem.training.seq = 8192, out.problem.training.global_batch = 512;
  out.problem.gpus = gpus;
  out.layout = std::move(layout);
  return out;
}

Job with(Job from, const std::function<void(Problem&)>& change) {
  change(from.problem);
  return from;
}

Job experts(int gpus, Layout layout) {
  Job out = job(gpus, std::move(layout));
  Layer& layer = out.problem.model.kinds[0];
  layer.ffn = Ffn::Moe;
  layer.moe = {.experts = 64, .top_k = 4, .expert_width = 1408};
  return out;
}

std::vector<BrokenThumb> broken(const Job& one, std::optional<double> tokens = std::nullopt) {
  const int rule = broken_rule(one.problem, one.layout);
  INFO((rule < 0 ? std::string() : broken_text(one.problem, one.layout, rule)));
  REQUIRE(rule < 0);
  return broken_rules_of_thumb(one.problem, estimate(one.problem, one.layout), tokens);
}

const BrokenThumb* find(const std::vector<BrokenThumb>& all, std::string_view rule) {
  const auto at = std::find_if(all.begin(), all.end(), [&](const BrokenThumb& b) { return b.rule == rule; });
  return at == all.end() ? nullptr : &*at;
}

/// A job that breaks a rule, with the numbers that it has to print, and one that keeps it.
struct Pair {
  const char* rule;
  Job bad, good;
  double value, limit;
};

double share_of_step(const Job& one, Seconds Terms::*term) {
  const Estimate e = estimate(one.problem, one.layout);
  return (e.terms.*term).value / e.step_time.value;
}

std::vector<Pair> pairs() {
  const Layout dp64{.dp = 64, .zero = 1};
  std::vector<Pair> all;
  const auto add = [&](const char* rule, const Job& bad, const Job& good, double value, double limit) {
    all.push_back({rule, bad, good, value, limit});
  };
  add("tp-domain", with(job(64, {.tp = 16, .dp = 4, .sequence_parallel = true}), [](Problem& p) { p.fixed.tp = 16; }),
      job(64, {.tp = 8, .dp = 8, .sequence_parallel = true}), 16, 8);
  // 10 s b h (1 - 1/t)
  add("sp-with-tp", job(64, {.tp = 8, .dp = 8}), job(64, {.tp = 8, .dp = 8, .sequence_parallel = true}),
      10.0 * 8192 * 4096 * 7 / 8, 0);
  const auto batch = [](std::int64_t sequences) {
    return [sequences](Problem& p) { p.training.global_batch = sequences; };
  };
  const Layout pp8{.pp = 8, .dp = 8, .zero = 1};
  add("bubble", with(job(64, pp8), batch(128)), job(64, pp8), 16, 32);
  const Job idle = with(job(64, pp8), batch(32));
  add("bubble-share", idle, job(64, pp8), share_of_step(idle, &Terms::bubble), 0.2);
  add("filled-stages", idle, job(64, pp8), 4, 8);
  // gemm at 0.6 of the peak against the rail; fp32 gradients take half as long again
  const double hiding = 0.6 * kPeak / kRail * 1.5;
  const auto short_ones = [](Problem& p) { p.training.seq = 2048; };
  add("fsdp-tokens", with(job(64, {.dp = 64, .zero = 3}), short_ones), job(64, {.dp = 64, .zero = 3, .micro_batch = 4}),
      2048, hiding);
  add("hsdp-node", job(512, {.dp = 512, .zero = 3}), job(512, {.dp = 512, .zero = 3, .shard = 8}), 512, 8);
  const auto wide = [](Problem& p) { p.training.global_batch = 2048; };
  add("fsdp-thousand", with(job(2048, {.dp = 2048, .zero = 3}), wide),
      with(job(2048, {.dp = 2048, .zero = 3, .shard = 64}), wide), 2048, 1024);
  const auto seq = [](std::int64_t tokens) { return [tokens](Problem& p) { p.training.seq = tokens; }; };
  add("cp-long", with(job(64, {.cp = 2, .dp = 32}), seq(4096)), job(64, {.cp = 2, .dp = 32}), 4096, 8192);
  add("cp-long", with(job(64, dp64), seq(32768)), job(64, dp64), 32768, 16384);
  // a ring over the rail, 8 of 32 heads are keys and values, causal
  add("ring-hidden", job(64, {.cp = 16, .dp = 4}), with(job(64, {.cp = 16, .dp = 4}), seq(262144)), 8192.0 / 16,
      2 * 8.0 / 32 * 0.6 * kPeak / kRail);
  add("expert-rows", with(experts(64, {.dp = 64, .ep = 1}), seq(4096)), experts(64, {.dp = 64, .ep = 8}),
      4096.0 * 4 / 64, 512);
  add("ep-domain", experts(64, {.dp = 64, .ep = 32}), experts(64, {.dp = 64, .ep = 8}), 32, 8);
  const Job whole = job(64, {.dp = 64, .zero = 0});
  const Estimate states = estimate(whole.problem, whole.layout);
  add("zero1-always", whole, job(64, dp64), static_cast<double>(states.stages[0].optimizer.value) * 63 / 64, 0);
  Layout again = dp64;
  again.recompute = {.kind = RecomputeKind::Full};
  add("recompute", job(64, again), job(64, dp64), share_of_step(job(64, again), &Terms::recompute), 0.05);
  add("gemm-rows", with(job(64, dp64), seq(2048)), job(64, dp64), 2048, 4096);
  // without end: 1.69 + 406.4 / N^0.34 is the loss, 2e8 / loss^(1/0.21) the tokens
  const double parameters =
      2 * 128256.0 * 4096 + 4096 + 32 * (2.0 * 4096 * 4096 + 2.0 * 4096 * 1024 + 3.0 * 4096 * 14336 + 2.0 * 4096);
  const double loss = 1.69 + 406.4 / std::pow(parameters, 0.34);
  add("critical-batch", with(job(64, dp64), batch(4096)), job(64, dp64), 4096.0 * 8192, 2e8 / std::pow(loss, 1 / 0.21));
  const auto slowest = [](Problem& p) { p.training.global_batch = 8, p.training.seq = 512; };
  const Job hungry = with(job(64, {.tp = 8, .dp = 8, .sequence_parallel = true}), slowest);
  add("starved", hungry, job(64, dp64), estimate(hungry.problem, hungry.layout).mfu.model_causal, 0.1);
  return all;
}

}  // namespace

TEST_CASE("every rule has a layout that breaks it, with its numbers, and one that does not") {
  std::set<std::string> seen;
  for (const Pair& pair : pairs()) {
    CAPTURE(std::string(pair.rule));
    const std::vector<BrokenThumb> bad = broken(pair.bad);
    const BrokenThumb* found = find(bad, pair.rule);
    REQUIRE(found != nullptr);
    CHECK(found->value == doctest::Approx(pair.value).epsilon(1e-6));
    CHECK(found->limit == doctest::Approx(pair.limit).epsilon(1e-6));
    CHECK(found->text.find(find_rule(pair.rule)->rule) == 0);
    CHECK(found->why == find_rule(pair.rule)->why);
    CHECK(find(broken(pair.good), pair.rule) == nullptr);
    seen.insert(pair.rule);
  }
  for (const RuleOfThumb& rule : rules_of_thumb()) {
    CAPTURE(std::string(rule.name));
    CHECK(seen.count(std::string(rule.name)) == 1);
  }
}

TEST_CASE("the furthest from its limit comes first") {
  const std::vector<BrokenThumb> all = broken(with(
      job(64, {.pp = 8, .dp = 8, .zero = 1}), [](Problem& p) { p.training.global_batch = 32, p.training.seq = 1024; }));
  REQUIRE(all.size() >= 3);
  double last = 1e9;
  for (const BrokenThumb& each : all) {
    if (!(each.limit > 0)) continue;
    const double excess = std::fabs(std::log(each.value / each.limit));
    CHECK(excess <= last);
    last = excess;
  }
}

TEST_CASE("a batch is judged by the tokens of the run") {
  const Job large = with(job(64, {.dp = 64, .zero = 1}), [](Problem& p) { p.training.global_batch = 1024; });
  CHECK(find(broken(large), "critical-batch") == nullptr);
  CHECK(find(broken(large, 1e9), "critical-batch") != nullptr);
  const Job tuned = with(large, [](Problem& p) { p.training.task = Task::FullFinetune; });
  CHECK(find(broken(tuned, 1e9), "critical-batch") == nullptr);
}

TEST_CASE("a rule does not ask for what does not fit, nor complain of gathers that nothing waits for") {
  const auto has = [](const Job& one, std::string_view rule) { return find(broken(one), rule) != nullptr; };
  // A second sequence, or layers that are kept, need memory that the GPU has or has not.
  Layout again{.dp = 64, .zero = 1};
  again.recompute = {.kind = RecomputeKind::Full};
  const Job small = with(job(64, {.dp = 64, .zero = 1}), [](Problem& p) { p.training.seq = 2048; });
  for (const auto& broken_one : {std::pair{small, "gemm-rows"}, std::pair{job(64, again), "recompute"}}) {
    Job one = broken_one.first;
    const std::string rule = broken_one.second;
    CAPTURE(rule);
    CHECK(has(one, rule));
    const Estimate whole = estimate(one.problem, one.layout);
    one.problem.cluster.gpu.memory = Bytes(whole.peak_high.value / 50 * 51);  // this layout and nothing larger
    CHECK(estimate(one.problem, one.layout).fits == Fits::Yes);
    CHECK_FALSE(has(one, rule));
  }
  // The same tokens, and messages that take no time to speak of.
  const Job gathers = with(job(64, {.dp = 64, .zero = 3}), [](Problem& p) { p.training.seq = 2048; });
  CHECK(has(gathers, "fsdp-tokens"));
  const Estimate slow = estimate(gathers.problem, gathers.layout);
  Estimate hidden = slow;
  for (Communication& row : hidden.communication)
    row.exposed = gathers.problem.cluster.calibration.overlap_tax * row.time;
  const std::vector<BrokenThumb> none = broken_rules_of_thumb(gathers.problem, hidden, std::nullopt);
  CHECK(find(none, "fsdp-tokens") == nullptr);
}
