// From a published run to a problem and a layout. Tested by tests/planner/runs_test.cpp.
#include "planner/runs/run_problem.hpp"

#include <algorithm>
#include <charconv>

#include <fmt/core.h>

#include "formulas/absurdity.hpp"
#include "formulas/efficiency.hpp"
#include "formulas/flops.hpp"
#include "formulas/names.hpp"
#include "formulas/schedule.hpp"
#include "formulas/text.hpp"
#include "formulas/torus.hpp"
#include "planner/answer/estimate.hpp"
#include "planner/estimate/stages.hpp"
#include "planner/rules/rules.hpp"
#include "planner/rules/words.hpp"
#include "planner/runs/run_axes.hpp"
#include "planner/runs/run_guesses.hpp"
#include "planner/runs/run_mistakes.hpp"
#include "planner/runs/run_model.hpp"
#include "planner/runs/run_rates.hpp"
#include "planner/runs/run_stack.hpp"

namespace plan {
namespace {

tl::unexpected<Errors> skip(std::string code, std::string reason) {
  return fail(Error{.code = std::move(code), .message = std::move(reason)});
}

constexpr std::int64_t kMostSeq = std::int64_t{1} << 32, kMostBatch = 100'000'000;
/// Tokens of the busiest rank over the mean where routers choose freely and drop nothing: Megatron-MoE-ModelZoo's
/// pairs of equal runs take 9 to 24 % longer than with forced balance, in whose steps experts have a third to a half.
constexpr double kNaturalRouting = 1.3;

/// A degree; one above kMostRanks counts as that, which divides no job.
int count(const std::optional<std::int64_t>& value, int otherwise = 1) {
  return value ? static_cast<int>(std::min<std::int64_t>(*value, kMostRanks)) : otherwise;
}

Result<Precision> precision_of(const Run& run) {
  if (run.precision.empty()) return run.gpu.starts_with("v100") ? Precision::Fp16 : Precision::Bf16;
  if (const auto known = parse(kPrecisionNames, run.precision)) return *known;
  if (run.precision == "fp8-row") return Precision::Fp8Tensorwise;
  if (run.precision == "fp8-block") return Precision::Fp8Blockwise;
  return skip("unknown_precision", fmt::format("precision `{}` is not modelled", run.precision));
}

/// MaxText's `remat_policy` (src/maxtext/layers/decoders.py): what is not saved is rebuilt, and nothing else. Products
/// of activations with weights are saved under the minimal ones, queries, keys and values under the last two; what
/// lies in host memory was saved too.
std::optional<Recompute> maxtext_policy(std::string_view text) {
  struct Policy {
    std::string_view word;
    unsigned modules;
  };
  constexpr Policy kPolicies[] = {
      {"custom:minimal", kRecomputeCoreAttention | kRecomputeNorm | kRecomputeMlpActivation},
      {"custom:minimal_flash", kRecomputeNorm | kRecomputeMlpActivation},
      {"custom:minimal_with_context", kRecomputeNorm | kRecomputeMlpActivation},
      {"custom:minimal_offloaded", kRecomputeCoreAttention | kRecomputeNorm | kRecomputeMlpActivation},
      {"custom:save_dot_except_mlp", kRecomputeCoreAttention | kRecomputeNorm | kRecomputeMlp},
      {"custom:save_dot_with_context_except_mlp", kRecomputeNorm | kRecomputeMlp},
      {"custom:save_qkv_proj", kRecomputeCoreAttention | kRecomputeNorm | kRecomputeMlp},
      {"custom:qkv_proj_offloaded", kRecomputeCoreAttention | kRecomputeNorm | kRecomputeMlp}};
  for (const Policy& policy : kPolicies)
    if (policy.word == text)
      return Recompute{.kind = RecomputeKind::Selective, .modules = static_cast<std::uint16_t>(policy.modules)};
  return std::nullopt;
}

Result<Recompute> recompute_of(const Run& run, int stage_layers) {
  const std::string& text = run.recompute;
  if (text.empty() || text == "none") return Recompute{};
  if (text == "full" || text == "full-uniform:1") return Recompute{.kind = RecomputeKind::Full};
  if (text == "selective") return Recompute{.kind = RecomputeKind::Selective, .modules = kRecomputeCoreAttention};
  // torchtitan: keep every second matrix product, rebuild the rest; or every second layer whole.
  if (text == "selective:op") return Recompute{.kind = RecomputeKind::Selective, .modules = kRecomputeOps};
  if (text == "selective:layer") return Recompute{.kind = RecomputeKind::Full, .layers = std::max(1, stage_layers / 2)};
  if (text.starts_with("full-block:")) {
    int layers = 0;
    std::from_chars(text.data() + 11, text.data() + text.size(), layers);
    return Recompute{.kind = RecomputeKind::Full, .layers = layers};
  }
  if (const std::optional<Recompute> policy = maxtext_policy(text)) return *policy;
  if (!text.starts_with("selective:"))
    return skip("unknown_recompute", fmt::format("recompute `{}` is not modelled", text));
  Recompute recompute{.kind = RecomputeKind::Selective};
  for (std::size_t at = 10; at <= text.size();) {
    const std::size_t end = std::min(text.find('+', at), text.size());
    const std::string_view word = std::string_view(text).substr(at, end - at);
    const auto module = parse(kRecomputeModuleNames, word == "norm" ? "layernorm" : word);
    if (!module) return skip("unknown_recompute", fmt::format("recompute `{}` is not modelled", text));
    recompute.modules = static_cast<std::uint16_t>(recompute.modules | *module);
    at = end + 1;
  }
  return recompute;
}

Result<Schedule> schedule_of(const Run& run, int vp) {
  if (run.schedule.empty()) return vp > 1 ? Schedule::Interleaved : Schedule::OneFOneB;
  if (const auto known = parse(kScheduleNames, run.schedule))
    return *known == Schedule::Interleaved && vp == 1 ? Schedule::OneFOneB : *known;
  return skip("unknown_schedule", fmt::format("schedule `{}` is not modelled", run.schedule));
}

/// The kernel that a row names; false for a word that is none. `flash` is any fused one: the stack's own.
bool take_attention(std::string_view word, Stack& stack) {
  if (word.empty()) return true;
  stack.flash_attention = word != "unfused";
  if (word == "flash1") stack.attention_kernel = AttentionKernel::Flash1;
  if (word == "flash2") stack.attention_kernel = AttentionKernel::Flash2;
  return word == "flash" || word == "ring" || word == "flash1" || word == "flash2" || word == "unfused";
}

/// A vocabulary spread over all stages: how often the stages meet for one loss (arXiv:2411.05288, algorithms 1 and 2).
int vocab_barriers_of(const Run& run) {
  if (run.notes.find("method=vocab-1") != std::string::npos) return 2;
  return run.notes.find("method=vocab-2") != std::string::npos ? 1 : 0;
}

/// Chunks of a rank where a run interleaves them without saying how many: as many as its layers allow, embedding and
/// loss counted as one each where that divides; two if only the schedule's name is given.
int unstated_chunks(const Problem& problem, const Layout& layout, bool deepest) {
  const int depth = problem.model.depth();
  const std::int64_t micro = micro_batches(problem.training.global_batch, layout.dp, layout.micro_batch);
  if (layout.pp == 1 || micro % layout.pp != 0) return 1;
  int chunks = 1;
  for (int vp = 2; vp <= (deepest ? depth : 2); ++vp)
    if (depth % (layout.pp * vp) == 0 || (depth + 2) % (layout.pp * vp) == 0) chunks = vp;
  return chunks;
}

Result<Layout> layout_of(const Run& run, const Problem& problem, const RunJob& defaults) {
  Layout layout;
  layout.tp = count(run.tp), layout.cp = count(run.cp), layout.pp = count(run.pp), layout.vp = count(run.vp);
  const double ranks = static_cast<double>(layout.tp) * layout.cp * layout.pp;
  if (!(ranks >= 1) || ranks > problem.gpus || problem.gpus % static_cast<int>(ranks) != 0)
    return skip("gpus_divide", fmt::format("tp * cp * pp = {:.0f} does not divide {} GPUs", ranks, problem.gpus));
  const int inner = static_cast<int>(ranks);
  if (static_cast<std::int64_t>(layout.pp) * layout.vp > problem.model.depth() + 2)
    return skip("layers_fill_stages", fmt::format("{} stages of {} chunks are more than {} layers", layout.pp,
                                                  layout.vp, problem.model.depth()));
  layout.dp = problem.gpus / inner;
  layout.ep = problem.model.moe() ? count(run.ep) : 1;
  layout.etp =
      problem.model.moe()
          ? count(run.etp,
                  defaults.experts_split_by_tp && layout.ep <= problem.gpus / layout.pp / layout.tp ? layout.tp : 1)
          : 1;
  layout.zero = run.shard.empty() ? count(run.zero, defaults.zero) : count(run.zero, 3);
  layout.shard = shard_group_of(run).value_or(0);
  layout.micro_batch = count(run.micro_batch);  // `micro_batch=forced`: one sequence a rank
  if (!run.micro_batch && !defaults.accumulates && layout.pp == 1)
    layout.micro_batch = static_cast<int>(std::max<std::int64_t>(1, problem.training.global_batch / layout.dp));
  layout.sequence_parallel =
      layout.tp > 1 && (run.sequence_parallel ? *run.sequence_parallel != 0 : defaults.sequence_parallel);
  layout.cp_kind = defaults.cp_kind;
  layout.order = defaults.data_outermost ? AxisOrder::DataOutermost : AxisOrder::PipelineOutermost;
  const bool named = run.schedule == "interleaved", stated_in_full = run.task.starts_with("functional-test");
  if (!run.vp && (named || (run.schedule.empty() && defaults.interleaves && !stated_in_full)))
    layout.vp = unstated_chunks(problem, layout, defaults.interleaves);
  const Result<Schedule> schedule = schedule_of(run, layout.vp);
  if (!schedule) return fail(schedule.error());
  layout.schedule = layout.pp > 1 ? *schedule : Schedule::OneFOneB;
  if (v_shaped(layout.schedule)) layout.vp = 2;
  if (layout.pp == 1) layout.vp = 1;
  const Result<Recompute> recompute = recompute_of(run, problem.model.depth() / layout.pp);
  if (!recompute) return fail(recompute.error());
  layout.recompute = *recompute;
  if (run.recompute.empty() && defaults.recomputes != 0)
    layout.recompute = {.kind = RecomputeKind::Selective, .modules = defaults.recomputes};
  if (run.recompute.empty() && defaults.recomputes_fully) layout.recompute = {.kind = RecomputeKind::Full};
  return with_axis_facts(run, layout);
}

/// Whether a run that went well leaves degrees open, which are then what its authors would have found.
bool guess_degrees(const Run& run, const RunJob& defaults, const Problem& problem, Layout& layout) {
  if (run.status != "ok") return false;
  const bool open_experts = !run.ep && problem.model.moe();
  const bool open_batch = !run.micro_batch && run.fact("micro_batch") != "forced" && defaults.accumulates;
  if (open_experts) layout.ep = fastest_expert_parallelism(problem, layout);
  if (open_batch) layout.micro_batch = fastest_micro_batch(problem, layout);
  return open_experts || open_batch;
}

/// The slice of each part of a job on a torus: "2 slices of 4x4x8", "2 slice(s) of v5p-256", else the one of all chips.
std::optional<SliceShape> slice_of_run(const Run& run, const SliceRules& rules, int gpus) {
  const std::string& text = run.interconnect;
  const std::size_t at = text.find("slice");
  int slices = 0;
  std::from_chars(text.data(), text.data() + text.size(), slices);
  if (at == std::string::npos || slices < 1 || gpus % slices != 0) return slices_of(rules, gpus);
  const std::size_t of = text.find(" of ", at);
  const std::string word =
      of == std::string::npos ? "" : text.substr(of + 4, text.find_first_of(" ,;", of + 4) - of - 4);
  const std::optional<SliceShape> shape = read_slice(word);
  if (shape && chips_of(*shape) == gpus / slices) return shape;
  return slice_of(rules, gpus / slices);
}

bool trains_adapters(std::string_view task) { return task == "lora" || task == "qlora" || task.starts_with("adapter"); }

/// Is stated what nothing else can be concluded from?
Result<bool> states_enough(const Run& run) {
  if (!run.gpus || *run.gpus <= 0 || *run.gpus > kMostRanks)
    return skip("gpus_not_stated", "the number of GPUs is not stated");
  if (!run.seq || *run.seq <= 0 || *run.seq > kMostSeq)
    return skip("sequence_not_stated", "the sequence length is not stated");
  if (!run.global_batch || *run.global_batch <= 0 || *run.global_batch > kMostBatch)
    return skip("batch_not_stated", "the global batch is not stated");
  if (run.notes.find("method=interlaced") != std::string::npos)
    return skip("vocabulary_over_stages", "a vocabulary interlaced over all pipeline stages is not modelled");
  return true;
}

Result<bool> take_cluster(const Run& run, const Catalogue& catalogue, Problem& problem) {
  const std::optional<Cluster> cluster = catalogue.cluster(run.gpu, count(run.gpus_per_node, 8), problem.gpus);
  if (!cluster) return skip("unknown_gpu", fmt::format("no preset is called `{}`", run.gpu));
  problem.cluster = *cluster;
  problem.cluster.host_memory = Bytes();  // a preset's, and these hosts were others
  if (!problem.cluster.tiers.empty() && problem.cluster.tiers.front().torus.any()) {
    const std::optional<SliceShape> shape = slice_of_run(run, problem.cluster.gpu.slices, problem.gpus);
    if (!shape)
      return skip("no_such_slice", fmt::format("{} chips of {} are no slice", problem.gpus, problem.cluster.gpu.name));
    put_on_slices(problem.cluster, *shape);
  }
  if (run.inter_gb_s)
    for (std::size_t tier = 1; tier < problem.cluster.tiers.size(); ++tier)
      problem.cluster.tiers[tier].bandwidth = BytesPerSecond(*run.inter_gb_s * 1e9);
  return true;
}

/// What the run states of its kernels, batch and task, over what its software does.
Result<bool> take_training(const Run& run, const Catalogue& catalogue, Training& training) {
  if (const std::string_view release = run.fact("release"); catalogue.released && !release.empty())
    training.stack = catalogue.released(release, training.stack);
  if (!take_attention(run.attention, training.stack))
    return skip("unknown_attention", fmt::format("attention `{}` is not modelled", run.attention));
  training.stack.vocab_barriers = vocab_barriers_of(run);
  if (lowered(run.notes).find("async") != std::string::npos) training.stack.tp_overlap = true;
  training.seq = *run.seq, training.global_batch = *run.global_batch;
  training.stack.fp8_rowwise = run.precision == "fp8-row";
  if (run.fact("routing") == "natural") training.stack.routing_imbalance = kNaturalRouting;
  training.optimizer = optimizer_of(run).value_or(Optimizer::Adam);
  if (run.optimizer.find("bf16 moments") != std::string::npos) training.moment1_bytes = training.moment2_bytes = 2;
  if (run.task == "lora" || trains_adapters(lowered(run.task)))
    training.task = run.task == "qlora" ? Task::Qlora : Task::Lora;
  return true;
}

}  // namespace

Result<RunProblem> problem_of(const Run& run, const Catalogue& catalogue) {
  RunProblem built;
  Problem& problem = built.problem;
  if (Result<bool> stated = states_enough(run); !stated) return fail(stated.error());
  problem.gpus = static_cast<int>(*run.gpus);
  Result<Model> model = model_of_run(run, catalogue, built.remarks);
  if (!model) return fail(model.error());
  problem.model = *std::move(model);
  if (const std::string why = mistake_of(run, problem.model); !why.empty()) return skip("mistaken_row", why);
  if (const std::string why = absurdity(problem.model); !why.empty()) return skip("absurd_model", why);
  if (Result<bool> found = take_cluster(run, catalogue, problem); !found) return fail(found.error());

  const Result<Precision> precision = precision_of(run);
  if (!precision) return fail(precision.error());
  if (!run.precision.empty() && !multiplies(problem.cluster.gpu, *precision))
    return skip("mistaken_row", fmt::format("precision `{}` on {}, which has no such products", run.precision,
                                            problem.cluster.gpu.name));
  const Result<RunDefaults> defaults = defaults_of(run, problem.model, *precision);
  if (!defaults) return fail(defaults.error());
  problem.training.precision = *precision;
  apply_defaults(*defaults, run, problem);
  if (Result<bool> taken = take_training(run, catalogue, problem.training); !taken) return fail(taken.error());

  Result<Layout> layout = layout_of(run, problem, defaults->job);
  if (!layout) return fail(layout.error());
  built.layout = *std::move(layout);
  apply_statements(run, defaults->job, problem, built.layout);
  if (const int rule = broken_rule(problem, built.layout); rule >= 0)
    return skip(std::string(rules()[static_cast<std::size_t>(rule)].code),
                fmt::format("the row breaks a rule: {}", rules()[static_cast<std::size_t>(rule)].text));
  if (const std::string why = figure_mistake_of(run, built); !why.empty()) return skip("mistaken_row", why);
  if (std::string rate = rate_remark_of(run, built); !rate.empty()) built.remarks.push_back(std::move(rate));
  if (defaults->loosely)
    built.remarks.push_back(fmt::format("framework `{}` is taken for {} of presets/stacks", run.framework,
                                        named_software(run.framework).software->key));
  built.guessed = guess_degrees(run, defaults->job, problem, built.layout) || defaults->loosely;
  take_what_fits(run, defaults->job, problem, built.layout);
  return built;
}

}  // namespace plan
