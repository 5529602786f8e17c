// Rules of thumb, each held against one layout of one job. A rule's statement and reason are formulas/rules_of_thumb;
// here is what it compares. Rates are what the rules take: GEMMs at six tenths of the peak, links at their nominal
// bandwidth. Tested by tests/planner/thumb_test.cpp.
#include "planner/choice/thumb.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "formulas/parameters.hpp"
#include "formulas/textbook/batch.hpp"
#include "formulas/textbook/loss.hpp"
#include "formulas/textbook/rules_of_thumb.hpp"
#include "planner/choice/starved.hpp"
#include "planner/estimate/evaluate.hpp"
#include "planner/rules/rules.hpp"
#include "planner/search/axis_values.hpp"

namespace plan {
namespace {

constexpr double kReached = 0.6;  // of the peak, by the GEMMs of a step (CS336, lecture 7)
constexpr int kShortSequence = 8192, kLongSequence = 16384;
constexpr int kOneGroup = 256, kThousand = 1024;  // GPUs from which FSDP goes hybrid, and from which it is not alone
constexpr double kMostBubble = 0.2, kMostRecompute = 0.05;

/// A layout and what its rules compare.
struct Case {
  const Problem& problem;
  const Estimate& estimate;
  std::optional<double> tokens;
  const Layout& layout() const { return estimate.layout; }
  /// Tokens of one micro-batch on one context-parallel rank: the rows of a layer's GEMMs.
  double rows() const { return static_cast<double>(problem.training.seq) * layout().micro_batch / layout().cp; }
  double rate() const {
    return kReached * problem.cluster.gpu.peak[static_cast<std::size_t>(gemm_dtype(problem.training.precision))].value;
  }
  /// Bandwidth of the tier that an axis' messages cross; 0 if it sends none.
  double bandwidth(Axis axis) const {
    for (const Communication& row : estimate.communication)
      if (row.axis == axis)
        for (const Tier& tier : problem.cluster.tiers)
          if (tier.name == row.tier) return tier.bandwidth.value;
    return 0;
  }
};

/// What a rule compares, in words with the number and its limit; `holds` where it has nothing to say.
struct Finding {
  RuleVerdict verdict{};
  std::string text{};
};
const Finding kNothing{};

Finding most(double value, double limit, std::string text) { return {at_most(value, limit), std::move(text)}; }
Finding least(double value, double limit, std::string text) { return {at_least(value, limit), std::move(text)}; }

Finding tp_domain(const Case& c) {
  const int size = c.problem.cluster.scale_up_size();
  return {tp_inside_domain({c.layout().tp, size}), fmt::format("tp {} on domains of {} GPUs", c.layout().tp, size)};
}

Finding sp_with_tp(const Case& c) {
  const Layout& l = c.layout();
  if (l.tp == 1 || l.sequence_parallel) return kNothing;
  const RealBytes saved =
      sp_saving({static_cast<double>(c.problem.training.seq) / l.cp, static_cast<double>(l.micro_batch),
                 static_cast<double>(c.problem.model.hidden), static_cast<double>(l.tp)});
  return most(saved.value, 0,
              fmt::format("it would save {:.2f} GiB a layer and micro-batch at tp {}", saved.value / kGiB, l.tp));
}

/// Schedules that fill the bubble with weight gradients keep other rules.
bool has_plain_bubble(const Layout& l) { return l.pp > 1 && !splits_backward(l.schedule); }

Finding bubble(const Case& c) {
  const Layout& l = c.layout();
  if (!has_plain_bubble(l)) return kNothing;
  return {enough_micro_batches({static_cast<double>(c.estimate.micro_batches), l.pp, l.vp}),
          fmt::format("{} micro-batches of {} chunk{}, {} stages", c.estimate.micro_batches, l.vp, l.vp == 1 ? "" : "s",
                      l.pp)};
}

Finding bubble_share(const Case& c) {
  const double step = c.estimate.step_time.value;
  if (!(step > 0)) return kNothing;
  const double share = c.estimate.terms.bubble.value / step;
  return most(share, kMostBubble, fmt::format("{:.0f} % of it is bubble", 100 * share));
}

Finding filled_stages(const Case& c) {
  const Layout& l = c.layout();
  return least(static_cast<double>(c.estimate.micro_batches), l.pp,
               fmt::format("{} micro-batches for {} stages", c.estimate.micro_batches, l.pp));
}

/// Whether the estimate has messages of an axis waited for, by more than hidden ones cost of themselves.
bool waits_for(const Case& c, Axis axis) {
  Seconds all, exposed;
  for (const Communication& row : c.estimate.communication)
    if (row.axis == axis) all += row.time, exposed += row.exposed;
  return exposed > 1.01 * c.problem.cluster.calibration.overlap_tax * all;
}

/// The rule's limit knows one tier and no schedule: where the estimate, which does, has all gathers hidden, it is
/// wrong.
Finding fsdp_tokens(const Case& c) {
  const double bandwidth = c.bandwidth(Axis::Dp);
  if (c.layout().zero < 3 || bandwidth <= 0 || c.rate() <= 0 || !waits_for(c, Axis::Dp)) return kNothing;
  const double tokens = c.rows() / c.layout().tp;
  const FsdpLimitInput limit{bandwidth, c.rate(), static_cast<double>(c.problem.training.grad_bytes)};
  return {fsdp_hidden({tokens, limit}),
          fmt::format("{:.0f} tokens a rank and micro-batch, {:.0f} hide its gathers", tokens, fsdp_min_tokens(limit))};
}

Finding hsdp_node(const Case& c) {
  const Layout& l = c.layout();
  const int size = c.problem.cluster.scale_up_size();
  if (l.zero < 3 || l.dense_group() <= kOneGroup) return kNothing;
  return {shard_inside_domain({l.shard_group() * l.tp, size}),
          fmt::format("a copy over {} GPUs, domains of {}", l.shard_group() * l.tp, size)};
}

Finding fsdp_thousand(const Case& c) {
  const Layout& l = c.layout();
  if (l.zero < 3 || l.tp * l.cp * l.pp * l.ep > 1) return kNothing;
  return most(l.shard_group(), kThousand, fmt::format("one copy over {} GPUs", l.shard_group()));
}

Finding cp_long(const Case& c) {
  const auto seq = static_cast<double>(c.problem.training.seq);
  if (c.layout().cp > 1) return least(seq, kShortSequence, fmt::format("cp {} at {} tokens", c.layout().cp, seq));
  return c.problem.gpus > 1 ? most(seq, kLongSequence, fmt::format("none at {} tokens", seq)) : kNothing;
}

Finding ring_hides(const Case& c) {
  const Layout& l = c.layout();
  const double bandwidth = c.bandwidth(Axis::Cp);
  if (l.cp == 1 || l.cp_kind == CpKind::Ulysses || bandwidth <= 0 || c.rate() <= 0) return kNothing;
  double kv = 0, q = 0;
  for (const Layer& kind : c.problem.model.kinds)
    if (kind.mixer == Mixer::Attention && kind.attention.heads > 0)
      q = static_cast<double>(kind.attention.heads), kv = static_cast<double>(kind.attention.kv_heads);
  if (q <= 0) return kNothing;
  const RingLimitInput limit{q, kv, bandwidth, c.rate()};
  return {ring_hidden({c.rows(), limit}),
          fmt::format("{:.0f} tokens a rank, {:.0f} hide the ring", c.rows(), ring_min_tokens(limit))};
}

const Layer* expert_layer(const Model& model) {
  for (const Layer& kind : model.kinds)
    if (kind.ffn == Ffn::Moe && kind.moe.experts > 0) return &kind;
  return nullptr;
}

Finding expert_rows(const Case& c) {
  const Layer* layer = expert_layer(c.problem.model);
  if (layer == nullptr) return kNothing;
  const Layout& l = c.layout();
  const double tokens = c.rows() / l.tp * l.etp;
  const RowsInput rows{tokens, static_cast<double>(layer->moe.top_k), static_cast<double>(layer->moe.experts),
                       static_cast<double>(l.ep)};
  return {enough_expert_rows(rows), fmt::format("{:.0f} rows an expert with ep {} and etp {}, {:.0f} keep it busy",
                                                rows_per_expert(rows), l.ep, l.etp, kExpertRows)};
}

Finding ep_domain(const Case& c) {
  const int size = c.problem.cluster.scale_up_size(), ranks = c.layout().ep * c.layout().etp;
  return most(ranks, size, fmt::format("experts over {} GPUs, domains of {}", ranks, size));
}

Finding zero1_always(const Case& c) {
  const Layout& l = c.layout();
  if (l.zero > 0 || l.dense_group() == 1 || c.estimate.stages.empty()) return kNothing;
  const auto states =
      static_cast<double>(c.estimate.stages[static_cast<std::size_t>(c.estimate.peak_stage)].optimizer.value);
  const double freed = states * (1 - 1.0 / l.dense_group());
  return most(freed, 0,
              fmt::format("zero 0 keeps {:.1f} GiB that {} ranks could share", freed / kGiB, l.dense_group()));
}

/// Whether the layout with something changed runs and fits for certain: a rule that asks for what does not is no
/// advice.
bool has_room_for(const Case& c, const Layout& changed) {
  return broken_rule(c.problem, changed) < 0 && estimate(c.problem, changed).fits == Fits::Yes;
}

bool may_keep_more(const Case& c) {
  const Layout& l = c.layout();
  for (const Recompute& less : possible_recomputes(c.problem, c.problem.model.depth() / std::max(1, l.pp))) {
    Layout lighter = l;
    lighter.recompute = less;
    if (less.kind != RecomputeKind::Full && has_room_for(c, lighter)) return true;
  }
  return false;
}

Finding whole_layers(const Case& c) {
  const double step = c.estimate.step_time.value;
  if (c.layout().recompute.kind != RecomputeKind::Full || !(step > 0)) return kNothing;
  const double share = c.estimate.terms.recompute.value / step;
  if (share > kMostRecompute && !may_keep_more(c)) return kNothing;
  return most(share, kMostRecompute, fmt::format("whole layers take {:.0f} % of the step again", 100 * share));
}

Finding gemm_rows(const Case& c) {
  if (c.estimate.micro_batches <= 1) return kNothing;  // no larger one is left
  Layout larger = c.layout();
  larger.micro_batch *= 2;
  if (!enough_gemm_rows({c.rows()}).holds && !has_room_for(c, larger)) return kNothing;
  return {enough_gemm_rows({c.rows()}), fmt::format("{:.0f} rows, {:.0f} fill a GEMM", c.rows(), kGemmRows)};
}

Finding past_critical(const Case& c) {
  if (c.problem.training.task != Task::Pretrain) return kNothing;
  const auto parameters = static_cast<double>(model_parameters(c.problem.model).active);
  const double loss = expected_loss({parameters, c.tokens.value_or(std::numeric_limits<double>::infinity())});
  const auto batch = static_cast<double>(c.problem.training.tokens_per_step());
  return {batch_below_critical({batch, loss}),
          fmt::format("{:.3g} M tokens a step, critical at a loss of {:.2f} are {:.3g} M", batch / 1e6, loss,
                      critical_batch({loss}) / 1e6)};
}

Finding fed(const Case& c) {
  const double mfu = c.estimate.mfu.model_causal;
  return least(mfu, kStarvedMfu, fmt::format("{:.1f} % MFU", 100 * mfu));
}

struct Check {
  std::string_view rule;
  Finding (*find)(const Case&);
};
constexpr Check kChecks[] = {{"tp-domain", tp_domain},
                             {"sp-with-tp", sp_with_tp},
                             {"bubble", bubble},
                             {"bubble-share", bubble_share},
                             {"filled-stages", filled_stages},
                             {"fsdp-tokens", fsdp_tokens},
                             {"hsdp-node", hsdp_node},
                             {"fsdp-thousand", fsdp_thousand},
                             {"cp-long", cp_long},
                             {"ring-hidden", ring_hides},
                             {"expert-rows", expert_rows},
                             {"ep-domain", ep_domain},
                             {"zero1-always", zero1_always},
                             {"recompute", whole_layers},
                             {"gemm-rows", gemm_rows},
                             {"critical-batch", past_critical},
                             {"starved", fed}};

/// How far a figure lies from its rule's limit: the logarithm of their ratio, or 1 if one of the two is not positive.
double excess(const BrokenThumb& broken) {
  if (!(broken.limit > 0) || !(broken.value > 0)) return 1;
  return std::fabs(std::log(broken.value / broken.limit));
}

}  // namespace

std::vector<BrokenThumb> broken_rules_of_thumb(const Problem& problem, const Estimate& estimate,
                                               std::optional<double> tokens) {
  std::vector<BrokenThumb> broken;
  const Case one{problem, estimate, tokens};
  for (const Check& check : kChecks) {
    const Finding finding = check.find(one);
    const RuleOfThumb* rule = find_rule(check.rule);
    if (finding.verdict.holds || rule == nullptr) continue;
    broken.push_back({check.rule, finding.verdict.value, finding.verdict.limit,
                      fmt::format("{}: {}", rule->rule, finding.text), std::string(rule->why)});
  }
  std::stable_sort(broken.begin(), broken.end(),
                   [](const BrokenThumb& a, const BrokenThumb& b) { return excess(a) > excess(b); });
  return broken;
}

}  // namespace plan
