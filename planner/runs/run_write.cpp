// From a job that was measured to a row of plan-runs(5). Tested by tests/planner/run_write_test.cpp.
#include "planner/runs/run_write.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "formulas/names.hpp"
#include "planner/rules/frameworks.hpp"

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

/// What of a layout a row says in a column of its own; the rest follows from its framework.
std::string differs(const Layout& a, const Layout& b) {
  const std::pair<const char*, bool> same[] = {{"tp", a.tp == b.tp},
                                               {"cp", a.cp == b.cp},
                                               {"pp", a.pp == b.pp},
                                               {"vp", a.vp == b.vp},
                                               {"dp", a.dp == b.dp},
                                               {"ep", a.ep == b.ep},
                                               {"etp", a.etp == b.etp},
                                               {"zero", a.zero == b.zero},
                                               {"shard", a.shard == b.shard},
                                               {"micro_batch", a.micro_batch == b.micro_batch},
                                               {"schedule", a.schedule == b.schedule || a.pp == 1},
                                               {"sequence_parallel", a.sequence_parallel == b.sequence_parallel},
                                               {"order", a.order == b.order || a.pp == 1},
                                               {"recompute", a.recompute == b.recompute}};
  for (const auto& [what, equal] : same)
    if (!equal) return what;
  return {};
}

Error cannot_say(const std::string& what) {
  return {"run_not_sayable", fmt::format("a row of runs cannot say this job's {}", what), {}, {}};
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
  run.framework = std::string(framework_row(problem.framework).run_word);
  if (measured.step_time_s > 0) run.step_time_s = measured.step_time_s, run.time_from = "step";
  if (measured.peak_memory_gib > 0)
    run.peak_memory_gib = measured.peak_memory_gib, run.memory_kind = measured.memory_kind;
  for (const auto& [part, seconds] : measured.parts) {
    const std::string key = part + "_s", value = fmt::format("{:.6g}", seconds);
    run.notes += fmt::format("{}{}={}", run.notes.empty() ? "{" : " ", key, value);
    run.facts[key] = value;
  }
  if (!run.notes.empty()) run.notes += "}";
  const Result<RunProblem> again = problem_of(run, catalogue);
  if (!again) return tl::unexpected(again.error());
  const Model& model = again->problem.model;
  if (model.depth() != problem.model.depth() || model.hidden != problem.model.hidden)
    return fail(cannot_say(fmt::format("model `{}`", problem.model.name)));
  Layout own = layout, read = again->layout;
  for (Layout* one : {&own, &read})
    if (one->shard == one->dense_group()) one->shard = 0;
  if (const std::string what = differs(own, read); !what.empty()) return fail(cannot_say(what));
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
    names.push_back(head.substr(at, end - at));
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
