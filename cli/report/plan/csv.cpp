// Layouts as CSV, one a line: for spreadsheets and notebooks. Numbers are the JSON's, shortest text that reads back the
// same. Tested by tests/cli/walk_test.cpp.
#include "cli/report/plan/csv.hpp"

#include <fmt/format.h>

#include <vector>

#include "cli/report/plan/report.hpp"
#include "cli/terminal/words.hpp"
#include "planner/answer/layout_text.hpp"

namespace plan {
namespace {

constexpr double kTrillion = 1e12;

constexpr std::string_view kHead =
    "gpus,gpu,tp,cp,cp_kind,pp,vp,dp,ep,etp,zero,shard,micro_batch,micro_batches,schedule,recompute,sequence_parallel,"
    "stage_layers,step_time_s,step_time_low_s,step_time_high_s,tokens_per_s,tokens_per_s_per_gpu,mfu_causal_ratio,"
    "mfu_full_ratio,mfu_hardware_ratio,compute_s,recompute_s,tp_s,cp_s,ep_s,pp_s,dp_s,bubble_s,optimizer_s,straggler_s,"
    "fits,capacity_bytes,peak_bytes,peak_low_bytes,peak_high_bytes,peak_stage,gpu_hours_per_T_tokens,"
    "usd_per_T_tokens,layout";

}  // namespace

std::string csv_cell(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

std::string csv_layout_head() { return std::string(kHead); }

std::string csv_layout(const Problem& problem, const Estimate& e, double price, int spares) {
  const Layout& l = e.layout;
  std::vector<std::string> cells;
  const auto add = [&](const auto& value) { cells.push_back(fmt::format("{}", value)); };
  add(problem.gpus), cells.push_back(csv_cell(problem.cluster.gpu.name));
  add(l.tp), add(l.cp), add(name(l.cp_kind)), add(l.pp), add(l.vp), add(l.dp), add(l.ep), add(l.etp), add(l.zero);
  add(l.shard_group()), add(l.micro_batch), add(e.micro_batches), add(name(l.schedule));
  cells.push_back(csv_cell(l.stages.empty() ? recompute_text(l.recompute) : stages_text(l.stages)));
  add(l.sequence_parallel ? 1 : 0), add(stage_layers_text(e.stage_layers));
  add(e.step_time.value), add(e.step_time_low.value), add(e.step_time_high.value);
  add(e.tokens_per_s), add(e.tokens_per_s_per_gpu);
  add(e.mfu.model_causal), add(e.mfu.model_full), add(e.mfu.hardware);
  const Terms& t = e.terms;
  for (const Seconds term : {t.compute, t.recompute, t.tp, t.cp, t.ep, t.pp, t.dp, t.bubble, t.optimizer, t.straggler})
    add(term.value);
  add(name(e.fits)), add(e.capacity.value), add(e.peak.value), add(e.peak_low.value), add(e.peak_high.value);
  add(e.peak_stage);
  const double hours = gpu_hours(e, problem.gpus + spares, kTrillion);
  add(hours);
  cells.push_back(price > 0 ? fmt::format("{}", hours * price) : "");
  cells.push_back(csv_cell(layout_flag(l)));
  return fmt::format("{}", fmt::join(cells, ","));
}

std::string csv_report(const Plan& plan, const RunOptions& options) {
  const double price = options.price_per_hour.value_or(plan.problem.cluster.gpu.price_per_hour);
  std::string out = "role,rank," + csv_layout_head() + "\n";
  int rank = 0;
  const auto line = [&](const char* role, const Estimate& e) {
    out += fmt::format("{},{},{}\n", role, ++rank, csv_layout(plan.problem, e, price, options.spares));
  };
  line("best", plan.best);
  rank = 0;
  if (plan.fastest) line("fastest", *plan.fastest);
  rank = 0;
  if (plan.fastest_on_paper) line("paper", *plan.fastest_on_paper);
  rank = 1;
  for (const RunnerUp& runner : plan.runners_up) line("next", runner.estimate);
  rank = 0;
  for (const Estimate& e : plan.front) line("front", e);
  return out;
}

}  // namespace plan
