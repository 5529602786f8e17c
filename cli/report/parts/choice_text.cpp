// What a report is about and how its layout was chosen, once for every format. Tested by tests/cli/human_test.cpp.
#include "cli/report/parts/choice_text.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "cli/report/parts/tables.hpp"
#include "cli/terminal/format.hpp"
#include "cli/terminal/offload_flag.hpp"
#include "cli/terminal/words.hpp"
#include "formulas/names.hpp"
#include "formulas/parameters.hpp"
#include "planner/answer/layout_text.hpp"
#include "planner/choice/nearest.hpp"
#include "planner/choice/starved.hpp"
#include "planner/memory/host_memory.hpp"
#include "planner/problem/axes.hpp"
#include "planner/rules/frameworks.hpp"

namespace plan {
namespace {

constexpr double kTera = 1e12, kDay = 86400;
constexpr double kHardlyLess = 0.99;  // goodput that nobody asks about

std::string task_text(const Problem& problem) {
  const Training& training = problem.training;
  if (!training.adapters()) return std::string(name(training.task));
  return fmt::format("{}, rank {}: {} trainable parameters", name(training.task), training.lora.rank,
                     count_text(adapter_parameters(problem.model, training)));
}

/// "adam 4+4+4 bytes": master copy and moments, and what was asked for of the host; what the search left there stands
/// among what is taken by default.
std::string optimizer_text(const Problem& problem) {
  const Training& t = problem.training;
  std::string text = fmt::format("{}", name(t.optimizer));
  if (t.optimizer == Optimizer::Adam)
    text += fmt::format(" (master {:g}, moments {:g} + {:g} bytes)", t.master_bytes, t.moment1_bytes, t.moment2_bytes);
  if (t.offload.any() && (problem.switched & kHostSwitches) == 0)
    text += fmt::format(", offload {}", offload_text(t.offload));
  return text;
}

std::string peak_text(const Problem& problem) {
  const MfuPeak peak = mfu_peak(problem.cluster.gpu);
  std::string text = fmt::format("{}; MFU against {:.0f} TFLOP/s of {}", name(problem.training.precision),
                                 peak.rate.value / kTera, name(peak.dtype));
  const DType own = gemm_dtype(problem.training.precision);
  const FlopsPerSecond rate = problem.cluster.gpu.peak[static_cast<std::size_t>(own)];
  // MFU may pass 100 %, or stay far below it whatever is done.
  if (rate.value > 0 && rate != peak.rate) text += fmt::format(", {} has {:.0f}", name(own), rate.value / kTera);
  return text;
}

std::string headroom_text(const Headroom& headroom) {
  if (headroom.bytes) return fmt::format("{} GiB", gib(round_bytes(*headroom.bytes)));
  if (headroom.share) return fmt::format("{:g} %", 100 * *headroom.share);
  return headroom.accept_risk ? "none: what may fit will do" : "what the peak may be off by";
}

std::string framework_text(const Problem& problem) {
  std::string text(framework_row(problem.framework).name);
  if (problem.release > 0) text += fmt::format(", core 0.{}", problem.release);
  return text;
}

std::string runs_on_text(const Plan& plan) {
  if (plan.runs_on.empty())
    return plan.best.fits == Fits::No ? "no framework of the list: it does not fit" : "no framework of the list";
  std::string text;
  for (const RunsOn& each : plan.runs_on) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", framework_row(each.framework).name);
    std::vector<std::string> otherwise;
    if (std::fabs(each.step_time / plan.best.step_time - 1) >= 0.005)
      otherwise.push_back(step_text(plan, each.step_time));
    if (each.fits != plan.best.fits) otherwise.emplace_back(phrase(each.fits));
    if (!otherwise.empty()) text += fmt::format(" ({} with its defaults)", fmt::join(otherwise, ", "));
  }
  return text;
}

bool same_runs(const Estimate& a, const Estimate& b) {
  return std::equal(a.runs.begin(), a.runs.end(), b.runs.begin(), b.runs.end(),
                    [](const PoolRun& x, const PoolRun& y) { return x.pool == y.pool && x.layout == y.layout; });
}

std::string degrees_of(const Estimate& estimate) {
  if (estimate.runs.empty()) return degrees_text(estimate.layout);
  std::string text;
  for (const PoolRun& run : estimate.runs)
    text += fmt::format("{}{}: {}", text.empty() ? "" : " / ", run.gpu, degrees_text(run.layout));
  return text;
}

/// What a layout of the best one's degrees has instead, at most half a line: "with zero 2, no recompute".
std::string instead_text(const Plan& plan, const Layout& other) {
  constexpr std::size_t kMost = 36;
  std::vector<std::string> choices = other_choices(plan.best.layout, other);
  std::string text = fmt::format("with {}", fmt::join(choices, ", "));
  if (text.size() <= kMost) return text;
  for (std::string& choice : choices)
    if (choice.starts_with("recompute ")) choice = "other recompute";
  return fmt::format("with {}", fmt::join(choices, ", "));
}

/// Schedule and sharding where they are not those of the best: degrees alone do not say what no framework has.
std::string besides_degrees(const Plan& plan, const Estimate& other) {
  if (!other.runs.empty() || !plan.best.runs.empty()) return {};
  const Layout &best = plan.best.layout, &own = other.layout;
  std::string text;
  if (own.pp > 1 && own.schedule != best.schedule) text += fmt::format(", {}", name(own.schedule));
  if (own.zero != best.zero && own.dense_group() > 1) text += fmt::format(", zero {}", own.zero);
  return text;
}

/// "6.24 s (-1.8 %)  tp 8  cp 2  pp 16 (vp 8)  dp 64, 63.9 GiB"; where its degrees are those of the best, what else is
/// not as there.
std::string other_text(const Plan& plan, const Estimate& other, bool on_paper) {
  const std::string degrees = degrees_of(other);
  const bool same = other.runs.empty() && degrees == degrees_of(plan.best) && !(other.layout == plan.best.layout);
  return fmt::format("{} ({})  {}, {} GiB{}", step_text(plan, other.step_time),
                     signed_percent(other.step_time / plan.best.step_time - 1),
                     same ? instead_text(plan, other.layout) : degrees + (on_paper ? besides_degrees(plan, other) : ""),
                     gib(other.peak), other.switches == plan.best.switches ? "" : ", " + switches_text(plan, other));
}

/// Is another layout the best one, as far as words and figures go? What one rank alone holds is not shared out,
/// whatever `zero` says.
bool reads_as_best(const Plan& plan, const Estimate& other) {
  if (other.switches != plan.best.switches || !same_runs(other, plan.best)) return false;
  if (other.layout == plan.best.layout) return true;
  Layout same_zero = other.layout;
  same_zero.zero = plan.best.layout.zero;
  return same_zero == plan.best.layout && same_zero.world() == same_zero.tp * same_zero.pp &&
         !plan.problem.model.moe() && step_text(plan, other.step_time) == step_text(plan, plan.best.step_time);
}

/// What giving each stage layers and recomputation of its own would bring, and who runs that.
std::string per_stage_text(const Plan& plan, const PerStage& found) {
  const char* left = found.exact ? "" : "; not every such pipeline was weighed";
  if (!found.best)
    return fmt::format("no layers and recomputation of single stages are faster than stages that are all the same{}",
                       left);
  const Estimate& best = *found.best;
  std::string text =
      fmt::format("{} ({}; {})  {}, {} GiB, layers {}", step_text(plan, best.step_time),
                  difference_text(found.difference), signed_percent(best.step_time / plan.best.step_time - 1),
                  degrees_text(best.layout), gib(best.peak), stage_layers_text(best.stage_layers));
  if (best.layout.stages.empty())
    text += fmt::format(", recompute {}", recompute_text(best.layout.recompute));
  else
    text += fmt::format(", stages {}", stages_text(best.layout.stages));
  std::vector<std::string_view> names;
  for (const RunsOn& each : found.runs_on) names.push_back(framework_row(each.framework).name);
  text += names.empty() ? "; on paper: no framework of the list takes it"
                        : fmt::format("; runs on {}", fmt::join(names, ", "));
  return text + left;
}

/// Says that the GPUs have too little to do, and which changes would give each of them most.
std::string starved_text(const Plan& plan) {
  constexpr std::size_t kNamed = 3;
  const Estimate& present = plan.fastest ? *plan.fastest : plan.best;
  std::string text = fmt::format("GPUs are starved: {} MFU; ", percent(present.mfu.model_causal));
  if (plan.starved->empty()) return text + "no single change that was tried gives each a quarter more to do";
  text += "tokens/s of each GPU are";
  for (std::size_t i = 0; i < std::min(kNamed, plan.starved->size()); ++i) {
    const Advice& one = (*plan.starved)[i];
    const double times = lift(one, plan);
    const std::string fewer = one.faster < 0 ? fmt::format(", {:.0f} % fewer in all", -100 * one.faster) : "";
    text += fmt::format("{} {:.{}f} times as many with {} ({} MFU{})", i > 0 ? "," : "", times, times < 10 ? 1 : 0,
                        one.change, percent(one.fastest.mfu.model_causal), fewer);
  }
  return text;
}

/// A share of some hundreds of draws. None of them is no proof of never, so it is not written as 0 %.
std::string chance_text(double share) {
  return share < 0.005 ? std::string("under 1 %") : fmt::format("{:.0f} %", 100 * share);
}

}  // namespace

bool is_shown_above(const Note& note) {
  return note.code == "no_framework" || note.code == "host_memory_short" || note.code == "host_memory_at_risk" ||
         note.code == "host_memory_unknown" || note.code == "host_memory_assumed" || note.code == "gpus_idle" ||
         note.code == "pool_alone" || note.code == "pool_order" || note.code == "defaults_taken";
}

std::vector<std::string> warning_lines(const Plan& plan) {
  std::vector<std::string> lines;
  const Estimate& best = plan.best;
  if (best.fits == Fits::AtRisk && fits_gpu(best) == Fits::AtRisk)
    lines.push_back(fmt::format("AT RISK: not certain to fit, the peak is {} to {} of {} GiB", gib(best.peak_low),
                                gib(best.peak_high), gib(best.capacity)));
  if (plan.starved) lines.push_back(starved_text(plan));
  for (const Note& note : plan.notes)
    if (is_shown_above(note) && note.code != "defaults_taken") lines.push_back(note.text);
  for (const Input& input : plan.problem.inputs)
    if (input.key == "precision" && input.origin == Origin::Default && !input.where.empty() &&
        !input.where.starts_with("default of "))  // which the inputs say already
      lines.push_back(fmt::format("precision {}: nobody stated one, and {}", input.value, input.where));
  return lines;
}

std::string quoted_lines(const std::vector<std::string>& lines) {
  return lines.empty() ? "" : fmt::format("> {}\n\n", fmt::join(lines, "  \n> "));
}

std::string dim_lines(const std::vector<std::string>& lines, const Terminal& terminal) {
  std::string out;
  for (const std::string& line : lines) out += paint(terminal, Style::Dim, wrap(line, terminal.width, 2)) + "\n";
  return out;
}

std::string difference_text(const Difference& difference) {
  return fmt::format("{}..{}", signed_number(100 * difference.low, 0), signed_percent(difference.high, 0));
}

std::vector<Fact> subject_facts(const Plan& plan, const RunOptions& options) {
  const Problem& problem = plan.problem;
  std::vector<Fact> facts = {
      {"task", task_text(problem)},
      {"optimizer", optimizer_text(problem)},
      {"precision", peak_text(problem)},
      {"headroom", headroom_text(problem.headroom), problem.headroom == Headroom{}},
      {"framework", framework_text(problem), problem.framework == Framework::Any && problem.release == 0}};
  // Words that somebody wrote and that no other line shows, whether or not a figure follows from them here.
  for (const Input& input : problem.inputs)
    if ((input.key == "cuda_graphs" || input.key == "imbalance" || input.key == "host_memory") &&
        (input.origin == Origin::Flag || input.origin == Origin::File))
      facts.push_back({input.key, input.value});
  const double price = options.price_per_hour.value_or(problem.cluster.gpu.price_per_hour);
  if (price > 0)
    facts.push_back(
        {"cost", fmt::format("{:.3g} USD a GPU-hour, {} USD per T tokens", price,
                             count_text(price * gpu_hours(plan.best, problem.gpus + options.spares, kTera)))});
  return facts;
}

std::vector<Fact> failure_facts(const Plan& plan, const RunOptions& options) {
  const FailureFacts& stated = options.failures;
  const std::optional<Goodput> found = goodput_of(plan.problem, stated);
  const bool asked =
      options.tokens || options.spares > 0 || stated.gpu_mtbf_hours || stated.storage_bytes_per_s || stated.restart;
  if (!found) {
    if (!asked) return {};
    return {{"failures", fmt::format("not counted: {} does not say how often its GPUs fail, `--gpu-mtbf` does",
                                     plan.problem.cluster.name)}};
  }
  std::string text;
  if (const std::optional<RunCost> run = run_cost(plan, options)) {
    text = fmt::format("{:.1f} days, {} GPU-hours", run->expected_time().value / kDay,
                       count_text(run->expected_gpu_hours()));
    if (const auto usd = run->expected_usd()) text += fmt::format(", {} USD", count_text(*usd));
    text += " with them; ";
  }
  std::vector<std::string> guessed;
  if (!stated.storage_bytes_per_s) guessed.emplace_back("storage");
  if (!stated.restart) guessed.emplace_back("restart");
  const std::string rests = guessed.empty() ? "" : fmt::format(" ({} not stated)", fmt::join(guessed, ", "));
  const std::string checkpoint =
      fmt::format("checkpoint {} every {}, restart {}", duration_text(found->checkpoint_time),
                  duration_text(found->interval), duration_text(found->restart));
  text += fmt::format("goodput {}: one in {}", percent(found->ratio), duration_text(found->interruption));
  if (asked) text += ", " + checkpoint;
  text += rests;
  return {{"failures", std::move(text), !asked && found->ratio >= kHardlyLess},
          {"checkpoint",
           fmt::format("{}{} at {}/s", asked ? "" : checkpoint + "; ", traffic_text(found->checkpoint),
                       traffic_text(round_bytes(found->storage))),
           true}};
}

std::vector<Fact> choice_facts(const Plan& plan) {
  std::vector<Fact> facts = {{"runs on", runs_on_text(plan)}};
  const auto other = [&](const char* name, const Estimate& estimate, const std::string& lacks) {
    facts.push_back({name, reads_as_best(plan, estimate)
                               ? "this one"
                               : other_text(plan, estimate, !lacks.empty()) + (lacks.empty() ? "" : ": " + lacks)});
  };
  if (plan.fastest) other("fastest", *plan.fastest, "");
  if (plan.fastest_on_paper && !plan.paper_lacks.empty())
    other("on paper", *plan.fastest_on_paper, "not run, " + plan.paper_lacks);
  if (plan.per_stage) facts.push_back({"per stage", per_stage_text(plan, *plan.per_stage)});
  if (plan.choice)
    facts.push_back({"how sure", fmt::format("{} to be within 2 % of the fastest; its tp cp pp ep win in {}",
                                             chance_text(plan.choice->within_2_percent_share),
                                             chance_text(plan.choice->degrees_share))});
  return facts;
}

}  // namespace plan
