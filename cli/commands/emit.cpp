// `plan emit`: the best layout that a framework accepts, as its launch files. Tested by tests/cli/golden_test.cpp.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "cli/commands/commands.hpp"
#include "cli/commands/plan_report.hpp"
#include "cli/commands/write_output.hpp"
#include "cli/launch/launch.hpp"
#include "cli/launch/megatron/megatron.hpp"
#include "cli/launch/start/upkeep.hpp"
#include "cli/report/plan/json.hpp"
#include "cli/request/resolve.hpp"
#include "cli/request/run_cost.hpp"
#include "cli/request/sources/releases.hpp"
#include "cli/request/words/choice_words.hpp"
#include "cli/request/words/pool_words.hpp"
#include "cli/terminal/diagnostic.hpp"
#include "cli/terminal/progress.hpp"
#include "cli/terminal/terminal.hpp"
#include "formulas/keep_errors.hpp"
#include "formulas/parameters.hpp"
#include "planner/answer/layout_text.hpp"
#include "planner/planner.hpp"
#include "planner/pools/pools.hpp"
#include "planner/rules/frameworks.hpp"
#include "planner/rules/megatron_models.hpp"
#include "planner/rules/words.hpp"
#include "presets/suggest.hpp"

namespace plan {
namespace {

/// What the flags and the site file say; a flag goes before the file.
Result<EmitOptions> emit_options(const Args& args, const Problem& problem) {
  EmitOptions options;
  options.launcher = args.launcher.value_or("");
  options.data_path = args.data_path.value_or("");
  options.tokenizer = args.tokenizer.value_or("");
  options.checkpoint_dir = args.checkpoint_dir.value_or("");
  Errors errors;
  if (args.site) {
    Result<Site> site = read_site(*args.site);
    if (site)
      options.site = *std::move(site);
    else
      errors = site.error();
  }
  const Result<RunOptions> run = resolve_run(args);
  keep_errors(errors, run);
  if (!errors.empty()) return fail(std::move(errors));
  if (options.site) options.failures = options.site->failures;
  const FailureFacts& typed = run->failures;
  if (typed.gpu_mtbf_hours) options.failures.gpu_mtbf_hours = typed.gpu_mtbf_hours;
  if (typed.storage_bytes_per_s) options.failures.storage_bytes_per_s = typed.storage_bytes_per_s;
  // A TrainJob has an image in any case; elsewhere one is written where it was asked for.
  if (args.image)
    options.image = *args.image;
  else if (options.site && !options.site->image.empty())
    options.image = options.site->image;
  else if (args.launcher == "k8s")
    options.image = container_of(problem);
  return options;
}

/// The launch files that start what a word means as a framework.
std::vector<std::string> formats_of(const std::string& word) {
  std::vector<std::string> kinds;
  if (const Result<std::string> framework = read_choice("--framework", word))
    for (const std::string& format : emit_words())
      if (framework_of_format(format) == find_framework(*framework)) kinds.push_back(format);
  return kinds;
}

/// The word after `emit`, and the folder: what is wrong with them.
Errors judge(const Args& args) {
  Errors errors;
  const std::string known = fmt::format("`plan emit` takes {}", fmt::join(emit_words(), ", "));
  if (args.words.empty()) {
    errors.push_back({"missing_word", "`plan emit` needs to know for which framework", {}, {known}});
    const std::vector<std::string> kinds = formats_of(args.framework.value_or(""));
    if (!kinds.empty())
      errors.back().help = {fmt::format("write `plan emit {}`", fmt::join(kinds, "` or `plan emit "))};
  } else if (!framework_of_format(args.words[0])) {
    Error error{"unknown_format", fmt::format("no launch files of the kind `{}`", args.words[0]), {}, {}};
    const std::vector<std::string> kinds = formats_of(args.words[0]);
    if (read_choice("--launcher", args.words[0])) {
      error.help.push_back(fmt::format("it starts a job: `plan emit megatron-lm --launcher {}`", args.words[0]));
      error.help.push_back(known);
    } else if (kinds.empty()) {
      if (args.words[0] == "help" || args.words[0] == "man")
        error.help.emplace_back("write `plan emit --help`");
      else if (std::string hint = hint_for("--framework", args.words[0]); !hint.empty())
        error.help.push_back(std::move(hint));
      else
        suggest(error, args.words[0], emit_words());
      error.help.push_back(known);
    } else {
      error.help.push_back(fmt::format("of that framework are {}", fmt::join(kinds, ", ")));
    }
    errors.push_back(std::move(error));
  }
  if (args.megatron_version && !args.words.empty() && args.words[0] != "megatron-lm")
    errors.push_back({"conflicting_flags", "`--megatron-version` goes with `plan emit megatron-lm` alone", {}, {}});
  if (!args.output)
    errors.push_back({"missing_flag", "`--output` is missing", {}, {"write `-o FOLDER`: the files go there"}});
  return errors;
}

/// All files or none, and no folder for none.
Result<bool> write_files(const Args& args, const std::vector<LaunchFile>& files) {
  const std::string& folder = *args.output;
  std::error_code reason;
  const bool made = std::filesystem::create_directories(folder, reason);
  if (reason) return fail({"cannot_write", fmt::format("cannot make the folder `{}`: {}", folder, reason.message())});
  std::vector<OutputFile> outputs;
  for (const LaunchFile& file : files)
    outputs.push_back({(std::filesystem::path(folder) / file.name).string(), file.text, file.executable});
  Result<bool> written = write_outputs(args, outputs);
  if (!written && made) std::filesystem::remove(folder, reason);
  return written;
}

/// A problem for the framework of the files, whatever --framework said.
Result<Problem> problem_for(const Args& args, std::string_view format) {
  const Framework framework = *framework_of_format(format);
  if (args.framework && find_framework(*args.framework) != framework)
    return fail({"conflicting_flags",
                 fmt::format("`--framework {}` does not go with `plan emit {}`", *args.framework, format),
                 {},
                 {"leave `--framework` out"}});
  Args with = args;
  if (args.from.empty())
    with.framework = std::string(framework_row(framework).name);
  else
    with.megatron_version.reset();  // files may be another framework's
  Result<Problem> problem = resolve_problem(with);
  if (problem) settle(format, *problem);
  if (!problem || args.from.empty()) return problem;
  if (problem->framework != framework) {
    problem->training.stack = stack_under(*problem, framework_row(framework), problem->cluster.gpu);
    problem->framework = framework, problem->built = false;
  }
  if (Errors errors = unsupported_hardware(*problem); !errors.empty()) return fail(std::move(errors));
  if (!args.megatron_version) return problem;
  const Result<int> release = read_megatron_release(*args.megatron_version);
  if (!release) return fail(release.error());
  problem->release = *release;
  return problem;
}

/// The kinds of GPU as `--gpus` takes them, in the order of the layouts in layout_words().
std::string gpus_words(const Estimate& estimate) {
  std::string out;
  for (const PoolRun& run : estimate.runs) add_pool(out, run.gpus, run.gpu);
  return out;
}

/// The layout as `--layout` takes it; of each kind of GPU, where there are several.
std::string layout_words(const Estimate& estimate) {
  std::string out;
  for (const PoolRun& run : estimate.runs) out += (out.empty() ? "" : "/") + layout_flag(run.layout);
  return estimate.runs.empty() ? layout_flag(estimate.layout) : out;
}

std::string answer(const Args& args, const Plan& plan, const std::vector<LaunchFile>& files, const Terminal& terminal) {
  if (wants_json(args)) {
    Json json = {{"schema", "plan-emit/1"}, {"framework", args.words[0]}, {"layout", layout_words(plan.best)}};
    if (!plan.best.switches.empty()) json["switches"] = plan.best.switches;
    if (!plan.best.runs.empty()) json["gpus"] = gpus_words(plan.best);
    json["files"] = Json::array();
    for (const LaunchFile& file : files) json["files"].push_back(file.name);
    json["unstated"] = unstated_json(plan.problem.inputs);
    json["unused"] = notes_json(plan.problem.unused);
    return dump(json);
  }
  std::string out = job_lines(plan, terminal) + axes_text(plan.best, plan.problem.model.moe()) + "\n";
  for (const LaunchFile& file : files)
    out += fmt::format("wrote {}\n", (std::filesystem::path(*args.output) / file.name).string());
  return out;
}

/// Strategies of single stages, and layers of every pool, leave nothing to search.
Result<Plan> plan_to_write(const Problem& problem, Streams& streams) {
  if (problem.fixed.stages) return plan_layout(problem);
  const bool placed = std::any_of(problem.pool_fixed.begin(), problem.pool_fixed.end(),
                                  [](const Fixed& fixed) { return fixed.chunk_layers.has_value(); });
  return placed ? plan_pooled(problem) : search_with_progress(problem, streams);
}

/// Where the search turned on what the dialect has no words for: the plan with the switches that the job states, if it
/// fits so, and a note.
void leave_unwritten_switches(const Args& args, const Problem& problem, const EmitOptions& options, Plan& plan,
                              Streams& streams) {
  if (plan.best.switches.empty()) return;
  const Result<std::vector<LaunchFile>> files = write_launch(args.words[0], plan, options);
  if (files) return;
  Problem stated = problem;
  stated.free_switches = 0;
  Result<Plan> without = plan_to_write(stated, streams);
  if (!without || without->best.fits != Fits::Yes) return;
  without->notes = plan.notes;
  std::erase_if(without->notes, [](const Note& note) { return note.code == "switched_on"; });
  without->notes.push_back(
      {"switch_not_written", fmt::format("{} takes no plan with `{}`, which is {:.1f} % faster", args.words[0],
                                         fmt::join(plan.best.switches, "` and `"),
                                         100 * (without->best.step_time / plan.best.step_time - 1))});
  plan = *std::move(without);
}

/// The job with the axes that few dialects have words for left as every framework has them, unless they are fixed:
/// hundreds of the best layouts may agree in one of those.
Problem with_common_words(const Problem& problem) {
  Problem common = problem;
  if (!common.fixed.shard) common.fixed.shard = 0;
  if (!common.fixed.order) common.fixed.order = Layout{}.order;
  if (!common.fixed.cp_kind) common.fixed.cp_kind = Layout{}.cp_kind;
  return common;
}

/// The files of the best layout; where the dialect has no words for it, of the next best one that it has words for.
/// `plan` holds the layout that is written, and a note says what was passed over.
Result<std::vector<LaunchFile>> write_best(const Args& args, const EmitOptions& options, Plan& plan, Streams& streams) {
  constexpr int kMostTried = 400;
  const auto written = [&](const Plan& candidate) { return write_launch(args.words[0], candidate, options); };
  Result<std::vector<LaunchFile>> files = written(plan);
  if (files || files.error().front().code != "not_expressible") return files;
  for (Problem wide : {plan.problem, with_common_words(plan.problem)}) {
    wide.top = kMostTried;
    const Result<Plan> more = search_with_progress(wide, streams);
    if (!more) continue;
    std::vector<const Estimate*> all = {&more->best};
    for (const RunnerUp& next : more->runners_up) all.push_back(&next.estimate);
    for (const Estimate* next : all) {
      Plan candidate = plan;
      candidate.best = *next;
      Result<std::vector<LaunchFile>> other = written(candidate);
      if (!other) continue;
      const double longer = next->step_time.value / plan.best.step_time.value - 1;
      candidate.notes.push_back(
          {"next_best",
           fmt::format("{}: `{}` is the best that it has words for; `{}` is passed over, whose step takes "
                       "{:.1f} % {}",
                       files.error().front().message, layout_flag(next->layout), layout_flag(plan.best.layout),
                       100 * std::abs(longer), longer < 0 ? "longer" : "less")});
      plan = std::move(candidate);
      return other;
    }
  }
  return files;
}

/// What a long run rests on that nobody stated.
void add_production_notes(const EmitOptions& options, Plan& plan) {
  if (!options.site) return;
  if (options.data_path.empty())
    plan.notes.push_back({"mock_data", "no `--data-path`: the job trains on the framework's mock data"});
  const Upkeep upkeep = upkeep_of(plan, options);
  if (upkeep.assumed)
    plan.notes.push_back(
        {"gpu_mtbf", fmt::format("nobody states how often a GPU fails: every {:.0f} h, as Llama 3's did; "
                                 "write `failures.gpu_mtbf` into the site file",
                                 upkeep.gpu_mtbf_hours)});
}

/// Weights that the written flags build and the planned model has not, or the other way round.
void add_model_note(std::string_view format, Plan& plan) {
  if (format != "megatron-lm" && format != "flagscale") return;  // the others name a published model
  const Model& model = plan.problem.model;
  const std::int64_t more = model_parameters(as_megatron_builds(model)).with_mtp - model_parameters(model).with_mtp;
  if (more == 0) return;
  plan.notes.push_back(
      {"other_weights", fmt::format("the biases and norms that Megatron-LM's flags can ask for make {} "
                                    "parameters {} than {} has",
                                    std::abs(more), more > 0 ? "more" : "fewer", model.name)});
}

/// Axes that nobody fixed are those that the format alone asks for: to leave them free makes no file of it.
Errors without_own_words(const Args& args, Errors errors) {
  if (args.layout || !args.from.empty()) return errors;
  for (Error& error : errors)
    std::erase_if(error.help, [](const std::string& help) { return help.starts_with("leave "); });
  return errors;
}

}  // namespace

int run_emit(const Args& args, Streams& streams) {
  if (const Errors errors = judge(args); !errors.empty()) return report_errors(errors, streams);
  const Result<Problem> problem = problem_for(args, args.words[0]);
  if (!problem) return report_errors(problem.error(), streams);
  const Result<EmitOptions> options = emit_options(args, *problem);
  if (!options) return report_errors(options.error(), streams);
  Result<Plan> plan = plan_to_write(*problem, streams);
  if (!plan) return report_errors(without_own_words(args, plan.error()), streams);
  // The files hold no estimate, so only what --from left open or misspelt is of interest, and where ranks must run.
  std::erase_if(plan->notes, [](const Note& note) { return note.code != "pool_order"; });
  leave_unwritten_switches(args, *problem, *options, *plan, streams);
  add_launch_notes(*plan);
  const Result<std::vector<LaunchFile>> files = write_best(args, *options, *plan, streams);
  if (!files) return report_errors(files.error(), streams);
  add_production_notes(*options, *plan);
  add_model_note(args.words[0], *plan);
  const Result<bool> written = write_files(args, *files);
  if (!written) return report_errors(written.error(), streams);
  streams.out = answer(args, *plan, *files, streams.out_terminal);
  for (const Note& note : plan->notes)
    streams.err += fmt::format("note: {}\n", wrap(note.text, streams.err_terminal.width, 6));
  return plan->best.fits == Fits::Yes ? kYes : kNo;
}

}  // namespace plan
