// From what was asked for to a problem, once all sources are known. Tested by tests/cli/resolve_test.cpp.
#include "cli/request/resolve.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "cli/launch/launch.hpp"
#include "cli/request/draft.hpp"
#include "cli/request/flags/sweep_axes.hpp"
#include "cli/request/sources/plan_json_read.hpp"
#include "cli/request/sources/releases.hpp"
#include "cli/request/sources/switches.hpp"
#include "cli/request/unstated.hpp"
#include "cli/terminal/format.hpp"
#include "cli/terminal/numbers.hpp"
#include "cli/terminal/words.hpp"
#include "formulas/keep_errors.hpp"
#include "formulas/parameters.hpp"
#include "planner/memory/host_memory.hpp"
#include "planner/problem/axes.hpp"
#include "planner/rules/frameworks.hpp"
#include "planner/rules/words.hpp"
#include "presets/quantity.hpp"
#include "presets/store.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

void resolve_model(Draft& draft) {
  const Request& request = draft.request;
  if (request.model) {
    draft.problem.model = request.model->value;
    draft.problem.inputs.push_back(request.model->input);
    tell_left_out(draft);
  } else if (request.files && !request.files->model_name.empty() && draft.asked.find("model") == nullptr) {
    draft.errors.push_back(
        {"missing_flag",
         fmt::format("the file's model `{}` is none that plan knows by name",
                     yaml::printable(request.files->model_name)),
         {},
         {"give its config.json with a `--from` of its own, or name one of the same layers with `--model`"}});
  } else {
    missing(draft, "model", "405b");
  }
}

/// The recipe's sequence or batch where nobody states one: the model's own as its file publishes it, else a usual one.
void assume_recipe(Draft& draft, const char* key, std::int64_t value) {
  const std::vector<std::string>& open = draft.request.unpublished;
  const bool usual = std::find(open.begin(), open.end(), key) != open.end();
  draft.assume(key, fmt::format("{}", value), usual ? Origin::Default : Origin::Preset,
               usual ? std::string() : draft.problem.model.name);
}

void resolve_seq(Draft& draft) {
  std::int64_t& seq = draft.problem.training.seq;
  seq = draft.problem.model.default_seq;
  if (!draft.request.seq) return assume_recipe(draft, "seq", seq);
  seq = draft.request.seq->value;
  draft.problem.inputs.push_back(draft.request.seq->input);
}

/// Sequences per step of a fine-tuning where nobody says, of all weights or of adapters: what a model was pre-trained
/// with is a hundred times too many.
constexpr std::int64_t kTunedBatch = 128;
constexpr const char* kTunedBatchSource = "NeMo's finetuning recipes";  // recipes/finetune_default.py

bool fine_tunes(const Request& request) {
  if (request.task) return request.task->value != Task::Pretrain;
  return request.files && request.files->training && request.files->training->task != Task::Pretrain;
}

/// The global batch as it was typed, as it follows from a file's batch a rank, as the file states it, or the preset's.
void resolve_batch(Draft& draft) {
  std::int64_t& batch = draft.problem.training.global_batch;
  batch = draft.problem.model.default_global_batch;
  const auto settle = [&](Input input) {
    input.value = fmt::format("{}", batch);
    draft.problem.inputs.push_back(std::move(input));
  };
  if (const auto& stated = draft.request.global_batch) {
    Input input = stated->input;
    if (!stated->value.text.empty()) {
      if (draft.problem.training.seq > 0) {
        if (const Result<std::int64_t> read = read_global_batch(stated->value.text, draft.problem.training.seq))
          batch = *read;
        else if (const Word* word = draft.asked.find("global_batch"); word != nullptr && word->place.file.empty())
          draft.refuse_all(swept_errors("--global-batch", word->text, read.error()), {"global_batch"});
        else
          draft.refuse_all(read.error(), {"global_batch"});
      }
      return settle(std::move(input));
    }
    if (stated->value.ranks && draft.problem.gpus > 0)
      if (const std::int64_t all = batch_of_ranks(*stated->value.ranks, draft.problem.fixed, draft.problem.gpus);
          all > 0) {
        batch = all;
        // A framework's default where the file states none.
        const Input* own = draft.request.files ? find_input(draft.request.files->inputs, "global_batch") : nullptr;
        return settle(own != nullptr && own->origin == Origin::Default
                          ? *own
                          : Input{"global_batch", {}, Origin::File, stated->value.ranks->where});
      }
    if (stated->value.sequences > 0) {
      batch = stated->value.sequences;
      return settle(std::move(input));
    }
  }
  if (!fine_tunes(draft.request)) return assume_recipe(draft, "global_batch", batch);
  batch = kTunedBatch;
  draft.assume("global_batch", fmt::format("{}", batch), Origin::Default, kTunedBatchSource);
}

/// bf16 where nobody says; on GPUs that have none, fp16, and the answer says so.
void resolve_precision(Draft& draft) {
  Precision& precision = draft.problem.training.precision;
  const Gpu& gpu = draft.problem.cluster.gpu;
  const bool lacks = !draft.request.precision && !gpu.name.empty() && !multiplies(gpu, precision);
  if (!lacks || !multiplies(gpu, Precision::Fp16))
    return draft.settle("precision", draft.request.precision, kPrecisionNames, precision);
  precision = Precision::Fp16;
  draft.assume("precision", "fp16", Origin::Default, fmt::format("{} has no bf16", gpu.name), false);
}

void resolve_training(Draft& draft) {
  const Request& request = draft.request;
  Problem& problem = draft.problem;
  const bool software = request.files && request.files->training;
  if (software) {  // all that files state but seq and batch, which are settled
    const std::int64_t seq = problem.training.seq, batch = problem.training.global_batch;
    problem.training = *request.files->training;
    problem.training.seq = seq, problem.training.global_batch = batch;
  }
  resolve_precision(draft);
  draft.settle("optimizer", request.optimizer, kOptimizerNames, problem.training.optimizer);
  draft.settle("task", request.task, kTaskNames, problem.training.task);
  if (!request.files || request.files->config_dropout) problem.training.dropout = problem.model.dropout;
  if (request.framework) problem.framework = request.framework->value;
  problem.built = request.files && request.framework && !request.framework->by_person;
  const FrameworkRow& row = framework_row(problem.framework);
  Stack& stack = problem.training.stack;
  if (!software || request.framework->by_person) stack = stack_on(row, problem.cluster.gpu);
  stack.flash_attention &= fuses_attention(stack, problem.cluster.gpu);  // whatever files ask for
  if (request.framework)
    problem.inputs.push_back(request.framework->input);
  else
    draft.assume("framework", std::string(row.name), Origin::Default, {}, false);
}

void resolve_releases(Draft& draft) {
  draft.refuse_all(take_releases(draft.request, draft.problem), {"release", "megatron_version"});
}

void resolve_offload(Draft& draft) {
  if (const auto& stated = draft.request.offload) {
    draft.problem.training.offload = stated->value;
    draft.problem.inputs.push_back(stated->input);
  }
  draft.refuse_all(offload_without_ground(draft.problem), {"offload"});
}

/// Switches of the software that have words of their own.
void resolve_switches(Draft& draft) {
  const auto resolve = [&](std::string_view key, const auto& stated, const auto& take) {
    if (!stated) return;
    const Errors errors = take(stated->value, draft.problem);
    if (errors.empty()) draft.problem.inputs.push_back(stated->input);
    draft.refuse_all(errors, {key});
  };
  resolve("state_formats", draft.request.state_formats, take_state_formats);
  resolve("cuda_graphs", draft.request.cuda_graphs, take_cuda_graphs);
  resolve("overlap", draft.request.overlap, take_overlap);
  resolve("dispatcher", draft.request.dispatcher, take_dispatcher);
  resolve("diloco", draft.request.diloco, take_diloco);
  resolve("imbalance", draft.request.imbalance, take_imbalance);
}

/// What nobody stated the search may turn on; launch files state all that their software does.
void leave_switches_free(Draft& draft) {
  if (draft.request.files) return;
  const unsigned graphs = draft.request.cuda_graphs ? 0 : kSwitchGraphs;
  const unsigned offload = draft.request.offload ? 0 : kSwitchOptimizer | kSwitchActivations | kSwitchWeights;
  draft.problem.free_switches = static_cast<SwitchMask>(graphs | offload);
}

/// Of launch files as of words: the model's layers carry what the training says.
void resolve_bf16_layers(Draft& draft) {
  Problem& problem = draft.problem;
  const auto& stated = draft.request.bf16_layers;
  const Errors errors = stated ? take_bf16_layers(stated->value, stated->by_person, problem) : Errors{};
  if (stated && errors.empty()) problem.inputs.push_back(stated->input);
  draft.refuse_all(errors, {"bf16_layers"});
}

void resolve_lora(Draft& draft) {
  Training& training = draft.problem.training;
  const auto& rank = draft.request.lora_rank;
  if (!training.adapters()) {
    if (rank && rank->by_person)
      draft.refuse({"conflicting_flags", "`--lora-rank` needs adapters to apply to", {}, {"add `--task lora`"}},
                   {"lora_rank"});
    return;
  }
  if (!rank) return draft.assume("lora_rank", fmt::format("{}", training.lora.rank), Origin::Default, {}, false);
  training.lora.rank = rank->value;
  draft.problem.inputs.push_back(rank->input);
  // A product of two matrices has no higher rank than its narrower side; no layer is wider than hidden on both.
  const std::int64_t hidden = draft.problem.model.hidden;
  if (rank->by_person && hidden > 0 && rank->value > hidden)
    draft.refuse({"bad_value",
                  fmt::format("`--lora-rank {}` is more than the hidden size of {}, {}: no weight has a higher rank",
                              rank->value, draft.problem.model.name, hidden),
                  {},
                  {fmt::format("write `--lora-rank {}` or less", hidden)}},
                 {"lora_rank"});
}

/// Lines of launch files that state what is no field of its own: axes, most of them.
void note_axes(Draft& draft) {
  if (!draft.request.files) return;
  for (const Input& input : draft.request.files->inputs) {
    bool field = false;
    each_field([&](const auto& row) { field = field || row.key == input.key; });
    if (!field) draft.problem.inputs.push_back(input);
  }
}

/// Typed axes, over those of files: what counts ranks builds on them.
void resolve_layout(Draft& draft) {
  if (draft.request.files) {
    draft.problem.fixed = draft.request.files->fixed;
    const std::vector<Note> notes = launch_notes(*draft.request.files);
    draft.problem.notes.insert(draft.problem.notes.end(), notes.begin(), notes.end());
    const std::vector<Note>& unused = draft.request.files->unused;
    draft.problem.unused.insert(draft.problem.unused.end(), unused.begin(), unused.end());
    draft.problem.homes = draft.request.files->homes;
  }
  if (!draft.request.layout) return;
  const Fixed& typed = draft.request.layout->value;
  Fixed& files = draft.problem.fixed;
  const auto moved = [&](auto member) { return typed.*member && files.*member && typed.*member != files.*member; };
  if ((moved(&Fixed::tp) || moved(&Fixed::cp) || moved(&Fixed::pp)) && !typed.dp) files.dp.reset();
  draft.problem.fixed = typed_over_files(draft.problem, files, typed);
}

void resolve_search(Draft& draft) {
  const Request& request = draft.request;
  Problem& problem = draft.problem;
  draft.settle("objective", request.objective, kObjectiveNames, problem.objective);
  if (request.headroom) {
    problem.headroom = request.headroom->value;
    problem.inputs.push_back(request.headroom->input);
  }
  problem.headroom.accept_risk = draft.asked.accept_risk;
  if (draft.asked.accept_risk) problem.inputs.push_back({"accept_risk", "yes", Origin::Flag});
  note_axes(draft);
  if (request.layout) problem.inputs.push_back(request.layout->input);
  if (request.top) problem.top = request.top->value;
  if (request.threads) problem.threads = request.threads->value;
  problem.pareto = draft.asked.pareto, problem.per_stage = draft.asked.per_stage;
  if (problem.per_stage && problem.objective == Objective::Memory)
    draft.refuse({"conflicting_flags",
                  "`--per-stage` finds the fastest, and `--objective memory` asks for the smallest",
                  {},
                  {"leave one of the two out"}},
                 {"objective"});
}

/// Modules that are to leave the GPU and have nothing that can: a person's word is refused, a file's is reported.
void judge_offload(Draft& draft) {
  Problem& problem = draft.problem;
  const std::string stay = modules_that_stay(problem);
  if (stay.empty()) return;
  const bool graphs = problem.training.stack.graph_scopes != 0;
  const std::string what = fmt::format("`{}` leaves nothing of {} in host memory{}", stay, problem.model.name,
                                       graphs ? " beside its CUDA graphs" : "");
  if (draft.request.offload && draft.request.offload->by_person)
    draft.refuse({"conflicting_flags", what, {}, {"leave it out of `--offload`"}}, {"offload"});
  else
    problem.notes.push_back({"offload_stays", what});
}

/// Words that cannot be meant, once all the words beside them are known.
void judge_words(Draft& draft) {
  Problem& problem = draft.problem;
  const Fixed typed = draft.request.layout ? draft.request.layout->value : Fixed{};
  problem.fixed = typed_over_files(problem, problem.fixed, typed);
  if (!draft.errors.empty()) return;
  draft.refuse_all(meaningless_words(problem, typed), {"layout"});
  judge_offload(draft);
  for (Error& error : unsupported_hardware(problem))
    draft.refuse(error, {error.code == "unsupported_precision" ? "precision"
                         : error.code == "unsupported_task"    ? "task"
                                                               : "framework"});
}

/// Fixed axes whose product no job has would overflow before the rule that they make up all GPUs refuses them.
void check_ranks(Draft& draft) {
  const Fixed& fixed = draft.problem.fixed;
  for (const std::optional<int>& last : {fixed.dp, fixed.ep}) {
    double ranks = last.value_or(1);
    for (const std::optional<int>& axis : {fixed.tp, fixed.cp, fixed.pp}) ranks *= axis.value_or(1);
    if (ranks <= static_cast<double>(kMostRanks)) continue;
    return draft.refuse({"out_of_range", fmt::format("the axes of the layout multiply to {:.3g} GPUs, and a job has at "
                                                     "most {}",
                                                     ranks, kMostRanks)},
                        {"layout"});
  }
}

}  // namespace

Result<Problem> resolve_problem(const Asked& asked) {
  Errors mistakes;
  Request request = read_words(asked, mistakes);
  if (!asked.from.empty()) {
    Result<Request> files = read_files(asked, request);
    if (!files)
      for (Error& error : files.error()) error.of_launch_file = error.code != "missing_flag";
    if (!keep_errors(mistakes, files)) return fail(std::move(mistakes));
    request = overlaid(std::move(*files), request);
  }
  Draft draft{asked, request, {}, std::move(mistakes)};
  resolve_model(draft);
  resolve_gpus(draft);
  resolve_cluster(draft);
  resolve_slice(draft);
  resolve_reach(draft);
  resolve_nodes(draft);
  resolve_pools(draft);
  resolve_hosts(draft);
  tell_unpriced(draft);
  resolve_layout(draft);
  resolve_seq(draft);
  learn_positions(draft);
  resolve_batch(draft);
  resolve_training(draft);
  tell_stored_format(draft);
  resolve_releases(draft);
  resolve_offload(draft);
  resolve_switches(draft);
  leave_switches_free(draft);
  resolve_bf16_layers(draft);
  resolve_lora(draft);
  resolve_search(draft);
  judge_words(draft);
  check_ranks(draft);
  if (!draft.errors.empty()) return fail(std::move(draft.errors));
  if (asked.strict) {
    if (Errors errors = unsettled(draft.problem); !errors.empty()) return fail(std::move(errors));
    if (assumed_hosts(draft.problem) != nullptr) draft.problem.free_switches &= ~kHostSwitches;  // a guess, too
  }
  return std::move(draft.problem);
}

Result<Problem> resolve_problem(const Args& args) { return resolve_problem(asked_of(args)); }

std::vector<Note> launch_notes(const LaunchJob& job) {
  std::vector<Note> notes;
  std::string assumed;
  for (const Input& input : job.inputs)
    if (input.origin == Origin::Default)
      assumed += fmt::format("{}{} {}", assumed.empty() ? "" : ", ", input.key, input.value);
  if (!assumed.empty())
    notes.push_back(
        {"defaults_taken", fmt::format("no file states these, so {}'s defaults stand: {}", job.format, assumed)});
  notes.insert(notes.end(), job.notes.begin(), job.notes.end());
  return notes;
}

void add_launch_notes(Plan& plan) {
  plan.notes.insert(plan.notes.end(), plan.problem.notes.begin(), plan.problem.notes.end());
}

std::vector<Cluster> larger_clusters(const Cluster& than) {
  const StoreOptions store = StoreOptions::from_environment();
  std::vector<Cluster> larger;
  for (const PresetEntry& entry : list_presets(PresetKind::Cluster, store)) {
    Result<Found<Cluster>> found = load_cluster(entry.name, store);
    if (found && found->value.gpu.memory > than.gpu.memory) larger.push_back(std::move(found->value));
  }
  std::stable_sort(larger.begin(), larger.end(),
                   [](const Cluster& a, const Cluster& b) { return a.gpu.memory < b.gpu.memory; });
  return larger;
}

bool wants_json(const Args& args) { return args.json || args.format == "json"; }

}  // namespace plan
