// From a job that was measured to a row of plan-runs(5). Tested by tests/planner/run_write_test.cpp.
#include "planner/runs/run_write.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "formulas/names.hpp"
#include "formulas/text.hpp"
#include "planner/estimate/stages.hpp"
#include "planner/problem/axes.hpp"
#include "planner/problem/spelled_out.hpp"
#include "planner/rules/frameworks.hpp"
#include "planner/runs/run_axes.hpp"
#include "planner/runs/run_problem.hpp"

namespace plan {

namespace {

std::string recompute_word(const Recompute& recompute) {
  if (recompute.kind == RecomputeKind::None) return "none";
  if (recompute.kind == RecomputeKind::Full)
    return recompute.layers > 0 ? fmt::format("full-block:{}", recompute.layers) : "full";
  std::string modules;
  for (const Named<RecomputeModule>& row : kRecomputeModuleNames)
    if ((recompute.modules & row.value) != 0) modules += fmt::format("{}{}", modules.empty() ? "" : "+", row.name);
  return "selective:" + modules;
}

std::string cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

Error cannot_say(const std::string& what) {
  return {"run_not_sayable", fmt::format("a row of runs cannot say this job's {}", what), {}, {}};
}

/// The layers of every chunk, whoever placed them.
std::vector<int> chunks_of(const Problem& problem, const Layout& layout) {
  return plan_stages(problem, CostModel(problem, split_of(layout)), layout).chunk_layers;
}

Layout comes_to(const Problem& problem, const Layout& layout) {
  return spelled_out(layout, micro_batches(problem.training.global_batch, layout.dp, layout.micro_batch));
}

/// The first axis in which a job trains otherwise than `read`, both spelled out. Layers that nobody placed may lie
/// anywhere.
std::string differs(const Problem& problem, const Layout& own, const Layout& read) {
  std::string key;
  each_axis([&](const auto& axis) {
    if (!key.empty() || own.*axis.value == read.*axis.value) return;
    const bool same_places = !problem.fixed.chunk_layers || chunks_of(problem, own) == chunks_of(problem, read);
    if (!axis.is(&Layout::chunk_layers) || !same_places) key = axis.key;
  });
  return key;
}

/// Adds facts to what comes before the notes.
void add_facts(Run& run, const std::vector<std::pair<std::string, std::string>>& facts) {
  std::string text;
  for (const auto& [key, value] : facts) {
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", key, value);
    run.facts[key] = value;
  }
  if (text.empty()) return;
  if (!run.notes.empty()) run.notes.pop_back();  // the brace behind earlier ones
  run.notes += fmt::format("{}{}}}", run.notes.empty() ? "{" : " ", text);
}

/// The layout that the run reads back as, spelled out.
Result<Layout> read_back(const Problem& problem, const Run& run, const Catalogue& catalogue) {
  const Result<RunProblem> again = problem_of(run, catalogue);
  if (!again) return tl::unexpected(again.error());
  const Model& model = again->problem.model;
  if (model.depth() != problem.model.depth() || model.hidden != problem.model.hidden)
    return fail(cannot_say(fmt::format("model `{}`", problem.model.name)));
  return comes_to(problem, again->layout);
}

}  // namespace

Result<Run> run_of(const Problem& problem, const Layout& layout, const MeasuredFigures& measured,
                   const Catalogue& catalogue) {
  Run run;
  run.id = measured.id, run.suite = measured.suite, run.source = measured.source;
  run.quality = "A", run.status = "ok", run.task = std::string(name(problem.training.task));
  run.model = problem.model.name;
  run.layers = problem.model.depth(), run.hidden = problem.model.hidden, run.vocab = problem.model.vocab;
  if (problem.training.task == Task::Pretrain) run.task.clear();
  run.gpu = problem.cluster.gpu.name, run.gpus = problem.gpus, run.gpus_per_node = problem.cluster.gpus_per_node;
  if (!problem.cluster.tiers.empty() && problem.cluster.tiers.front().torus.any()) {
    const Torus& torus = problem.cluster.tiers.front().torus;
    const SliceShape shape = torus.shape();
    run.interconnect = fmt::format("{} slice(s) of {}", std::max(1, problem.gpus / torus.chips()), slice_text(shape));
  }
  run.seq = problem.training.seq, run.global_batch = problem.training.global_batch;
  run.micro_batch = layout.micro_batch, run.tp = layout.tp, run.cp = layout.cp, run.pp = layout.pp, run.vp = layout.vp;
  run.dp = layout.dp, run.zero = layout.zero;
  if (problem.model.moe()) run.ep = layout.ep, run.etp = layout.etp;
  if (layout.shard > 0 && layout.shard != layout.dense_group()) run.shard = fmt::format("hsdp:{}", layout.shard);
  run.sequence_parallel = layout.sequence_parallel ? 1 : 0;
  if (layout.pp > 1) run.schedule = std::string(name(layout.schedule));
  run.recompute = recompute_word(layout.recompute);
  run.precision = std::string(name(problem.training.precision));
  run.attention = problem.training.stack.flash_attention ? "flash" : "unfused";
  if (problem.training.optimizer != Optimizer::Adam) run.optimizer = std::string(name(problem.training.optimizer));
  run.framework = std::string(framework_row(problem.framework).run_word);
  if (measured.step_time_s > 0) run.step_time_s = measured.step_time_s, run.time_from = "step";
  if (measured.peak_memory_gib > 0)
    run.peak_memory_gib = measured.peak_memory_gib, run.memory_kind = measured.memory_kind;
  std::vector<std::pair<std::string, std::string>> parts;
  for (const auto& [part, seconds] : measured.parts) parts.emplace_back(part + "_s", fmt::format("{:.6g}", seconds));
  add_facts(run, parts);
  const Layout own = comes_to(problem, layout);
  Result<Layout> read = read_back(problem, run, catalogue);
  if (!read) return tl::unexpected(read.error());
  if (const auto facts = axis_facts(own, *read); !facts.empty()) {
    add_facts(run, facts);
    read = read_back(problem, run, catalogue);
    if (!read) return tl::unexpected(read.error());
  }
  if (const std::string what = differs(problem, own, *read); !what.empty()) return fail(cannot_say(what));
  return run;
}

Result<std::string> with_run(const std::string& text, const std::string& file, const Run& run) {
  std::string out = text;
  if (out.empty()) out = fmt::format("{}\n", fmt::join(run_columns(), ","));
  if (const auto there = read_runs(out, file); !there) return tl::unexpected(there.error());
  if (!out.ends_with('\n')) out += '\n';
  std::vector<std::string> names;
  const std::string head = out.substr(0, out.find_first_of("\r\n"));
  for (std::size_t at = 0; at <= head.size();) {
    const std::size_t end = std::min(head.find(',', at), head.size());
    names.push_back(lowered(std::string(trim(head.substr(at, end - at)))));
    at = end + 1;
  }
  for (const auto& [name, value] : cells_of(run))
    if (!value.empty() && std::find(names.begin(), names.end(), name) == names.end())
      return fail(Error{"missing_column",
                        fmt::format("`{}` has no column `{}`, which the run states", file, name),
                        {},
                        {"append to another file, or add the column to its header"}});
  std::string row;
  const auto cells = cells_of(run);
  for (const std::string& name : names) {
    const auto found = std::find_if(cells.begin(), cells.end(), [&](const auto& c) { return c.first == name; });
    row += fmt::format("{}{}", &name == &names.front() ? "" : ",", found == cells.end() ? "" : cell(found->second));
  }
  return out + row + "\n";
}

}  // namespace plan
