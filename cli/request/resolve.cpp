// From typed words to a problem. Tested by tests/cli/resolve_test.cpp.
#include "cli/request/resolve.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "cli/launch/launch.hpp"
#include "cli/request/layout_flag.hpp"
#include "cli/request/releases.hpp"
#include "cli/request/switches.hpp"
#include "cli/request/unstated.hpp"
#include "cli/terminal/format.hpp"
#include "cli/terminal/numbers.hpp"
#include "cli/terminal/offload_flag.hpp"
#include "cli/terminal/words.hpp"
#include "planner/rules/frameworks.hpp"
#include "planner/rules/words.hpp"
#include "presets/store.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

constexpr const char* kDefaultCluster = "dgx-h100";
constexpr std::int64_t kMostGpus = 1 << 24, kMostSeq = std::int64_t{1} << 27, kMostTop = 1000, kMostThreads = 4096;

/// A problem under construction with the mistakes found so far.
struct Draft {
  const Args& args;
  StoreOptions store = StoreOptions::from_environment();
  Problem problem{};
  Errors errors{};
  std::optional<LaunchJob> job{};  ///< what --from files state
  Fixed typed{};                   ///< axes of --layout

  /// The value of a Result, or its errors noted and nothing.
  template <class T>
  std::optional<T> take(Result<T> result) {
    if (result) return std::move(*result);
    errors.insert(errors.end(), result.error().begin(), result.error().end());
    return std::nullopt;
  }
  void note(std::string key, std::string value, Origin origin, std::string where = {}, std::string digest = {}) {
    problem.inputs.push_back({std::move(key), std::move(value), origin, std::move(where), std::move(digest)});
  }
  /// Where a launch file states `key`, as an input of its own.
  void note_file(std::string key, std::string value) {
    for (const Input& input : job->inputs)
      if (input.key == key) {
        note(std::move(key), std::move(value), input.origin, input.where);
        problem.inputs.back().guessed = input.guessed;
        return;
      }
    note(std::move(key), std::move(value), Origin::Default, fmt::format("default of {}", job->format));
  }
  /// A word that the option table has already checked, or its default.
  template <class E, std::size_t N>
  void word(const char* key, const Args::Text& typed, const Named<E> (&table)[N], E& out) {
    if (typed) out = parse(table, *typed).value_or(out);
    std::string value(detail::name_in(table, out));
    if (job && !typed) return note_file(key, std::move(value));
    note(key, std::move(value), typed ? Origin::Flag : Origin::Default);
    problem.inputs.back().guessed = !typed;
  }
};

void missing(Draft& draft, const char* flag, const char* example) {
  draft.errors.push_back({"missing_flag",
                          fmt::format("`{}` is missing", flag),
                          {},
                          {fmt::format("write `{} {}`; see `plan --help`", flag, example)}});
}

Result<Found<Cluster>> find_cluster(const Args& args, const StoreOptions& store, const std::optional<LaunchJob>& job) {
  if (args.profile) return load_cluster(*args.profile, store);
  if (args.cluster) return load_cluster(*args.cluster, store);
  if (args.gpu) return load_cluster_of_gpu(*args.gpu, store);
  if (job && !job->gpu.empty()) return load_cluster_of_gpu(job->gpu, store);
  return load_cluster(kDefaultCluster, store);
}

/// What flags say and launch files build upon: batches that count ranks, stages that count layers.
LaunchContext context_of(const Args& args, const StoreOptions& store) {
  LaunchContext context;
  context.arguments = script_arguments(args.arguments.value_or(""));
  if (args.model)
    if (Result<Found<Model>> found = load_model(*args.model, store)) context.model = std::move(found->value);
  if (args.gpus)
    if (const auto gpus = read_count("--gpus", *args.gpus, 1, kMostGpus)) context.gpus = static_cast<int>(*gpus);
  if (args.profile || args.cluster || args.gpu)
    if (const Result<Found<Cluster>> found = find_cluster(args, store, std::nullopt))
      context.gpus_per_node = found->value.gpus_per_node;
  return context;
}

void resolve_files(Draft& draft) {
  if (draft.args.from.empty()) return;
  draft.job = draft.take(read_launch_files(draft.args.from, context_of(draft.args, draft.store)));
  if (!draft.job) return;
  draft.problem.fixed = draft.job->fixed;
  draft.problem.notes = launch_notes(*draft.job);
  draft.problem.unused = draft.job->unused;
  draft.problem.homes = draft.job->homes;
}

void resolve_model(Draft& draft) {
  if (!draft.args.model && draft.job && draft.job->model) {
    draft.problem.model = *draft.job->model;
    return draft.note_file("model", draft.problem.model.name);
  }
  if (!draft.args.model && draft.job && !draft.job->model_name.empty())
    return draft.errors.push_back(
        {"missing_flag",
         fmt::format("the file's model `{}` is none that plan knows by name", yaml::printable(draft.job->model_name)),
         {},
         {"give its config.json with a `--from` of its own, or name one of the same layers with `--model`"}});
  if (!draft.args.model) return missing(draft, "--model", "405b");
  std::optional<Found<Model>> found = draft.take(load_model(*draft.args.model, draft.store));
  if (!found) return;
  draft.problem.model = std::move(found->value);
  draft.note("model", draft.problem.model.name, Origin::Flag, found->origin, found->digest);
}

void resolve_gpus(Draft& draft) {
  if (!draft.args.gpus && draft.job && draft.job->gpus > 0) {
    draft.problem.gpus = draft.job->gpus;
    return draft.note_file("gpus", fmt::format("{}", draft.job->gpus));
  }
  if (!draft.args.gpus) return missing(draft, "--gpus", "16384");
  const auto gpus = draft.take(read_count("--gpus", *draft.args.gpus, 1, kMostGpus));
  if (!gpus) return;
  draft.problem.gpus = static_cast<int>(*gpus);
  draft.note("gpus", fmt::format("{}", *gpus), Origin::Flag);
}

void resolve_cluster(Draft& draft) {
  const Args& args = draft.args;
  if (int(args.profile.has_value()) + int(args.cluster.has_value()) + int(args.gpu.has_value()) > 1) {
    draft.errors.push_back({"conflicting_flags",
                            "`--gpu`, `--cluster` and `--profile` name the same thing",
                            {},
                            {"a cluster file says which GPU it has; give one of the three"}});
    return;
  }
  if (draft.job && !draft.job->hardware.empty() && !args.profile && !args.cluster && !args.gpu)
    return draft.errors.push_back({"missing_flag",
                                   fmt::format("the files are for {}, which no preset describes", draft.job->hardware),
                                   {},
                                   {"name what to price the job on with `--gpu`, or a file of your own"}});
  std::optional<Found<Cluster>> found = draft.take(find_cluster(args, draft.store, draft.job));
  if (!found) return;
  draft.problem.cluster = std::move(found->value);
  const Origin chosen = args.profile ? Origin::Profile : args.cluster ? Origin::Flag : Origin::Default;
  draft.note("cluster", draft.problem.cluster.name, chosen, found->origin, found->digest);
  draft.problem.inputs.back().guessed =
      chosen == Origin::Default && !args.gpu && (!draft.job || draft.job->gpu.empty());
  const Origin gpu = args.gpu ? Origin::Flag : args.profile ? Origin::Profile : Origin::Preset;
  draft.note("gpu", draft.problem.cluster.gpu.name, gpu, found->origin);
}

void resolve_seq(Draft& draft) {
  Training& training = draft.problem.training;
  training.seq = draft.problem.model.default_seq;
  const bool stated = draft.job && draft.job->training && draft.job->states_seq;
  if (stated) training.seq = draft.job->training->seq;
  if (draft.args.seq) {
    if (const auto seq = draft.take(read_count("--seq", *draft.args.seq, 1, kMostSeq))) training.seq = *seq;
    return draft.note("seq", fmt::format("{}", training.seq), Origin::Flag);
  }
  if (stated) return draft.note_file("seq", fmt::format("{}", training.seq));
  draft.note("seq", fmt::format("{}", training.seq), Origin::Preset, draft.problem.model.name);
  draft.problem.inputs.back().guessed = true;
}

/// The global batch as it was typed, as a file states it, as it follows from the file's batch a rank, or the preset's.
/// Sequences per step of adapters where nobody says: what a model was pre-trained with is a hundred times too many.
constexpr std::int64_t kAdapterBatch = 128;
constexpr const char* kAdapterBatchSource = "NeMo's finetuning recipes";  // recipes/finetune_default.py

bool trains_adapters(const Draft& draft) {
  if (draft.args.task) return *draft.args.task == name(Task::Lora) || *draft.args.task == name(Task::Qlora);
  return draft.job && draft.job->training && draft.job->training->adapters();
}

void resolve_batch(Draft& draft) {
  Training& training = draft.problem.training;
  const bool no_model = draft.problem.model.layers.empty();
  training.global_batch = draft.problem.model.default_global_batch;
  const auto note = [&](Origin origin, std::string where = {}) {
    draft.note("global_batch", fmt::format("{}", training.global_batch), origin, std::move(where));
  };
  if (draft.args.global_batch) {
    if (!(no_model && !draft.args.seq))
      if (const auto batch = draft.take(read_global_batch(*draft.args.global_batch, training.seq)))
        training.global_batch = *batch;
    return note(Origin::Flag);
  }
  if (draft.job && draft.job->rank_batch && draft.problem.gpus > 0)
    if (const std::int64_t batch = batch_of_ranks(*draft.job->rank_batch, draft.problem.fixed, draft.problem.gpus);
        batch > 0) {
      training.global_batch = batch;
      return note(Origin::File, draft.job->rank_batch->where);
    }
  if (draft.job && draft.job->training && draft.job->states_global_batch) {
    training.global_batch = draft.job->training->global_batch;
    return draft.note_file("global_batch", fmt::format("{}", training.global_batch));
  }
  if (trains_adapters(draft)) {
    training.global_batch = kAdapterBatch;
    note(Origin::Default, kAdapterBatchSource);
  } else {
    note(Origin::Preset, draft.problem.model.name);
  }
  draft.problem.inputs.back().guessed = true;
}

/// bf16 where nobody says; on GPUs that have none, fp16, and the answer says so.
void resolve_precision(Draft& draft) {
  Training& training = draft.problem.training;
  const Gpu& gpu = draft.problem.cluster.gpu;
  const bool stated = draft.args.precision || (draft.job && draft.job->training);
  const bool lacks = !stated && !gpu.name.empty() && !multiplies(gpu, training.precision);
  if (lacks && multiplies(gpu, Precision::Fp16)) {
    training.precision = Precision::Fp16;
    return draft.note("precision", "fp16", Origin::Default, fmt::format("{} has no bf16", gpu.name));
  }
  draft.word("precision", draft.args.precision, kPrecisionNames, training.precision);
}

void resolve_training(Draft& draft) {
  const Args& args = draft.args;
  Problem& problem = draft.problem;
  if (draft.job && draft.job->training) {  // all that files state but seq and batch, which are settled
    const std::int64_t seq = problem.training.seq, batch = problem.training.global_batch;
    problem.training = *draft.job->training;
    problem.training.seq = seq, problem.training.global_batch = batch;
  }
  resolve_precision(draft);
  draft.word("optimizer", args.optimizer, kOptimizerNames, problem.training.optimizer);
  draft.word("task", args.task, kTaskNames, problem.training.task);
  if (!draft.job) problem.training.dropout = problem.model.dropout;
  if (draft.job) problem.framework = draft.job->framework;
  if (args.framework) problem.framework = find_framework(*args.framework).value_or(Framework::Any);
  const FrameworkRow& row = framework_row(problem.framework);
  if (!draft.job || !draft.job->training || args.framework) problem.training.stack = row.stack;
  draft.note("framework", std::string(row.name),
             args.framework ? Origin::Flag
             : draft.job    ? Origin::File
                            : Origin::Default);
}

void resolve_releases(Draft& draft) {
  for (Error& error : take_releases(draft.args, draft.job ? &*draft.job : nullptr, draft.problem))
    draft.errors.push_back(std::move(error));
}

void resolve_offload(Draft& draft) {
  Offload& offload = draft.problem.training.offload;
  if (draft.args.offload)
    if (const auto read = draft.take(read_offload(*draft.args.offload))) offload = *read;
  if (draft.args.offload)
    draft.note("offload", *draft.args.offload, Origin::Flag);
  else if (offload.any())
    draft.note_file("offload", offload_text(offload));
  if (offload.activations() && draft.problem.framework != Framework::Megatron)
    draft.errors.push_back({"conflicting_flags",
                            "of the frameworks Megatron alone offloads activations",
                            {},
                            {"add `--framework megatron`"}});
}

/// Switches of the software that have words of their own.
void resolve_switches(Draft& draft) {
  const auto resolve = [&](const char* key, const Args::Text& typed, Errors (*take)(std::string_view, Problem&)) {
    if (!typed) return;
    Errors errors = take(*typed, draft.problem);
    if (errors.empty()) draft.note(key, *typed, Origin::Flag);
    draft.errors.insert(draft.errors.end(), errors.begin(), errors.end());
  };
  resolve("state_formats", draft.args.state_formats, take_state_formats);
  resolve("cuda_graphs", draft.args.cuda_graphs, take_cuda_graphs);
}

void resolve_lora(Draft& draft) {
  const Args& args = draft.args;
  Training& training = draft.problem.training;
  if (args.lora_rank && !training.adapters())
    draft.errors.push_back(
        {"conflicting_flags", "`--lora-rank` needs adapters to apply to", {}, {"add `--task lora`"}});
  if (!training.adapters()) return;
  if (args.lora_rank)
    if (const auto rank = draft.take(read_count("--lora-rank", *args.lora_rank, 1, 1 << 20)))
      training.lora.rank = *rank;
  if (draft.job && !args.lora_rank) return draft.note_file("lora_rank", fmt::format("{}", training.lora.rank));
  draft.note("lora_rank", fmt::format("{}", training.lora.rank), args.lora_rank ? Origin::Flag : Origin::Default);
}

/// Axes that launch files state, with their lines.
void note_axes(Draft& draft) {
  if (!draft.job) return;
  for (const Input& input : draft.job->inputs)
    if (input.key != "model" && input.key != "gpus" && input.key != "seq" && input.key != "global_batch" &&
        input.key != "precision" && input.key != "optimizer" && input.key != "task" && input.key != "lora_rank" &&
        input.key != "offload" && input.key != "release")
      draft.problem.inputs.push_back(input);
}

/// Typed axes, over those of files: what counts ranks builds on them.
void resolve_layout(Draft& draft) {
  if (!draft.args.layout) return;
  const Result<Fixed> fixed = read_layout(*draft.args.layout);
  if (!fixed) return;  // told in its turn
  Fixed& files = draft.problem.fixed;
  const auto moved = [&](auto member) {
    return (*fixed).*member && files.*member && (*fixed).*member != files.*member;
  };
  if ((moved(&Fixed::tp) || moved(&Fixed::cp) || moved(&Fixed::pp)) && !fixed->dp) files.dp.reset();
  draft.typed = *fixed;
  draft.problem.fixed = typed_over_files(draft.problem, draft.problem.fixed, draft.typed);
}

void resolve_search(Draft& draft) {
  const Args& args = draft.args;
  Problem& problem = draft.problem;
  draft.word("objective", args.objective, kObjectiveNames, problem.objective);
  if (args.headroom)
    if (const auto headroom = draft.take(read_headroom(*args.headroom))) {
      problem.headroom = *headroom;
      draft.note("headroom", *args.headroom, Origin::Flag);
    }
  problem.headroom.accept_risk = args.accept_risk;
  if (args.accept_risk) draft.note("accept_risk", "yes", Origin::Flag);
  note_axes(draft);
  if (args.layout && draft.take(read_layout(*args.layout))) draft.note("layout", *args.layout, Origin::Flag);
  if (args.top)
    if (const auto top = draft.take(read_count("--top", *args.top, 1, kMostTop))) problem.top = static_cast<int>(*top);
  if (args.threads)
    if (const auto threads = draft.take(read_count("--threads", *args.threads, 1, kMostThreads)))
      problem.threads = static_cast<int>(*threads);
  problem.pareto = args.pareto;
}

/// Words that cannot be meant, once all that they stand beside is known.
void judge_words(Draft& draft) {
  Problem& problem = draft.problem;
  problem.fixed = typed_over_files(problem, problem.fixed, draft.typed);
  if (!draft.errors.empty()) return;
  for (Error& error : meaningless_words(problem, draft.typed)) draft.errors.push_back(std::move(error));
  for (Error& error : unsupported_hardware(problem)) draft.errors.push_back(std::move(error));
}

/// Fixed axes whose product no job has would overflow before the rule that they make up all GPUs refuses them.
void check_ranks(Draft& draft) {
  const Fixed& fixed = draft.problem.fixed;
  for (const std::optional<int>& last : {fixed.dp, fixed.ep}) {
    double ranks = last.value_or(1);
    for (const std::optional<int>& axis : {fixed.tp, fixed.cp, fixed.pp}) ranks *= axis.value_or(1);
    if (ranks <= static_cast<double>(kMostGpus)) continue;
    draft.errors.push_back(
        {"out_of_range",
         fmt::format("the axes of the layout multiply to {:.3g} GPUs, and a job has at most {}", ranks, kMostGpus)});
    return;
  }
}

}  // namespace

Result<Problem> resolve_problem(const Args& args) {
  Draft draft{args};
  resolve_files(draft);
  if (!args.from.empty() && !draft.job) return fail(std::move(draft.errors));
  resolve_model(draft);
  resolve_gpus(draft);
  resolve_cluster(draft);
  resolve_layout(draft);
  resolve_seq(draft);
  resolve_batch(draft);
  resolve_training(draft);
  resolve_releases(draft);
  resolve_offload(draft);
  resolve_switches(draft);
  resolve_lora(draft);
  resolve_search(draft);
  judge_words(draft);
  check_ranks(draft);
  if (!draft.errors.empty()) return fail(std::move(draft.errors));
  if (args.strict)
    if (Errors errors = unsettled(draft.problem); !errors.empty()) return fail(std::move(errors));
  return std::move(draft.problem);
}

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
