// Several launch files made into one job, and a plan made into files. Tested by tests/launch/files_test.cpp.
#include "cli/launch/launch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "cli/launch/formats.hpp"
#include "cli/launch/job/format.hpp"
#include "cli/launch/job/job_builder.hpp"
#include "cli/launch/job/pooled_write.hpp"
#include "cli/launch/named_files.hpp"
#include "cli/launch/other_tools.hpp"
#include "cli/launch/scripts/launcher_commands.hpp"
#include "cli/launch/scripts/manifests.hpp"
#include "cli/launch/scripts/other_hardware.hpp"
#include "cli/launch/scripts/script_words.hpp"
#include "cli/launch/sources.hpp"
#include "cli/launch/start/launcher.hpp"
#include "cli/shell/shell.hpp"
#include "formulas/absurdity.hpp"
#include "formulas/keep_errors.hpp"
#include "planner/problem/axes.hpp"
#include "presets/config_json.hpp"
#include "presets/suggest.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

bool is_model_config(const LaunchSource& source) {
  return source.path.ends_with(".json") && source.text.find("\"hidden_size\"") != std::string::npos &&
         source.text.find("\"num_hidden_layers\"") != std::string::npos;
}

/// States nodes and GPUs, or leaves them to accelerate's own file.
bool is_launcher(const LaunchSource& source) {
  return launcher_facts(std::span(&source, 1)).gpus() > 0 ||
         (source.text.starts_with("#!") && source.text.find("accelerate launch") != std::string::npos);
}

template <class T>
void merge_axis(std::optional<T>& into, const std::optional<T>& from, bool& clash) {
  if (into && from && *into != *from) clash = true;
  if (!into) into = from;
}

/// Adds what a second format states; the same axis stated differently is a mistake.
bool merge(LaunchJob& into, const LaunchJob& from) {
  bool clash = false;
  Fixed& a = into.fixed;
  const Fixed& b = from.fixed;
  each_axis([&](const auto& axis) { merge_axis(a.*axis.fixed, b.*axis.fixed, clash); });
  if (!into.model) into.model = from.model;
  if (into.model_name.empty()) into.model_name = from.model_name;
  if (!into.training) into.training = from.training;
  if (from.training && from.states_global_batch && !into.states_global_batch) {
    into.training->global_batch = from.training->global_batch;
    into.states_global_batch = true;
  }
  if (from.training && from.states_seq && !into.states_seq) {
    into.training->seq = from.training->seq;
    into.states_seq = true;
  }
  if (into.gpus == 0) into.gpus = from.gpus;
  if (into.meshes.empty()) into.meshes = from.meshes, into.meshes_where = from.meshes_where;
  if (into.slice_gpus == 0) into.slice_gpus = from.slice_gpus;
  if (!into.rank_batch) into.rank_batch = from.rank_batch;
  into.unused.insert(into.unused.end(), from.unused.begin(), from.unused.end());
  into.inputs.insert(into.inputs.end(), from.inputs.begin(), from.inputs.end());
  into.notes.insert(into.notes.end(), from.notes.begin(), from.notes.end());
  return !clash;
}

/// A script that starts something which no reader understands: its job is not the launcher's numbers alone.
std::optional<Error> not_understood(const std::vector<LaunchSource>& files) {
  for (const LaunchSource& source : files) {
    if (!is_shell(source)) continue;
    const Script& script = follow_script(source);
    const ShellCommand* command = training_command(script);
    if (command == nullptr) continue;
    std::string words;
    for (const ShellWord& word : command->words) {
      if (words.size() > 60) {
        words += " ...";
        break;
      }
      words += (words.empty() ? "" : " ") + word.text;
    }
    return Error{"training_not_understood",
                 fmt::format("{}:{}: what this command trains is not understood: `{}`", source.path,
                             command->words.front().line, yaml::printable(words)),
                 {"model, batch and layout stand in its arguments or in files that it reads"},
                 {"give the configuration that it reads with a `--from` of its own; or leave the script out and state "
                  "the job with `--model`, `--gpus` and `--layout`"}};
  }
  return std::nullopt;
}

Error not_recognised(const LaunchSource& source) {
  if (std::optional<Error> error = not_understood({source})) return std::move(*error);
  Error error{"unknown_format", fmt::format("{}: no launch file that plan can read", source.path), {}, {}};
  if (const OtherTool* tool = other_tool(source)) {
    error.message = fmt::format("{}: {}, which plan does not read", source.path, tool->what);
    error.help.emplace_back(tool->help);
    return error;
  }
  std::string known;
  for (const LaunchFormat& format : launch_formats())
    if (format.read != nullptr) known += (known.empty() ? "" : ", ") + std::string(format.name);
  error.help.push_back(fmt::format("plan reads {}, sbatch headers, TrainJobs, hostfiles and config.json", known));
  return error;
}

std::optional<std::size_t> own_format(const LaunchSource& source) {
  if (other_tool(source) != nullptr) return std::nullopt;
  for (std::size_t i = 0; i < launch_formats().size(); ++i) {
    const LaunchFormat& format = launch_formats()[i];
    if (format.recognise != nullptr && format.read != nullptr && format.recognise(source)) return i;
  }
  return std::nullopt;
}

/// The reader that knows a file's format, or that of the scripts which it calls; nothing if none does.
std::optional<std::size_t> format_of(const LaunchSource& source) {
  const std::optional<std::size_t> own = own_format(source);
  if (own || !is_shell(source)) return own;
  LaunchSource whole = source;
  for (const auto& [path, text] : follow_script(source).called) whole.text += "\n" + text;
  return whole.text.size() > source.text.size() ? own_format(whole) : own;
}

/// Files of each format, in the order of the table; files that only launchers or models understand are left out.
Result<std::vector<std::vector<LaunchSource>>> sorted(const std::vector<LaunchSource>& files,
                                                      const std::set<std::string>& naming) {
  std::vector<std::vector<LaunchSource>> by_format(launch_formats().size());
  Errors errors;
  for (const LaunchSource& source : files) {
    if (is_model_config(source)) continue;
    if (const std::optional<std::size_t> format = format_of(source))
      by_format[*format].push_back(source);
    else if (other_tool(source) != nullptr || !(is_launcher(source) || naming.count(source.path) > 0))
      errors.push_back(not_recognised(source));
  }
  if (!errors.empty()) return fail(std::move(errors));
  // DeepSpeed's file, accelerate's and the Trainer's arguments say together what one job is.
  std::vector<LaunchSource>*deepspeed = nullptr, *accelerate = nullptr;
  for (std::size_t i = 0; i < by_format.size(); ++i) {
    if (launch_formats()[i].name == "deepspeed") deepspeed = &by_format[i];
    if (launch_formats()[i].name == "accelerate") accelerate = &by_format[i];
  }
  if (deepspeed != nullptr && accelerate != nullptr && !deepspeed->empty()) {
    deepspeed->insert(deepspeed->end(), accelerate->begin(), accelerate->end());
    accelerate->clear();
  }
  return by_format;
}

/// A word of the user's is honoured or refused: does a file name the image that was asked for?
bool holds_image(const std::vector<LaunchFile>& files, const std::string& image) {
  return image.empty() || std::any_of(files.begin(), files.end(), [&](const LaunchFile& file) {
           return file.text.find(image) != std::string::npos ||
                  file.text.find(shell_quoted(image)) != std::string::npos ||
                  file.text.find(string_quoted(image)) != std::string::npos ||
                  file.text.find(string_quoted("docker:" + image)) != std::string::npos;
         });
}

/// A GPU that launchers ask for and no preset describes: a model has a number in its name, which a label of the
/// cluster's own (`hgx`, `volta`) has not.
void name_other_gpu(const LaunchFacts& facts, LaunchJob& job) {
  if (facts.other_gpu.empty() || !facts.gpu.empty() || !job.gpu.empty() || !job.hardware.empty()) return;
  const std::string word = yaml::printable(facts.other_gpu);
  if (facts.other_gpu.find_first_of("0123456789") != std::string::npos)
    job.hardware = fmt::format("the GPU `{}` ({})", word, facts.other_gpu_where);
  else
    unused(job, "not_used",
           fmt::format("{}: the GPU `{}` is none that plan knows by name", facts.other_gpu_where, word));
}

/// Degrees that no such number of GPUs has.
bool takes_more(const Fixed& fixed, const LaunchFacts& facts) {
  const auto product = [](std::initializer_list<std::optional<int>> degrees) {
    std::int64_t all = 1;
    for (const std::optional<int>& degree : degrees) all *= std::clamp(degree.value_or(1), 1, 1 << 12);
    return all;
  };
  return std::max(product({fixed.tp, fixed.cp, fixed.pp, fixed.dp}), product({fixed.ep, fixed.etp, fixed.pp})) >
         facts.gpus();
}

Result<LaunchJob> read_by_format(const std::vector<LaunchSource>& files,
                                 const std::vector<std::vector<LaunchSource>>& by_format, const LaunchFacts& facts) {
  std::optional<LaunchJob> job;
  Errors errors;
  for (std::size_t i = 0; i < by_format.size(); ++i) {
    if (by_format[i].empty()) continue;
    Result<LaunchJob> read = launch_formats()[i].read(by_format[i], facts);
    if (!read) {
      keep_errors(errors, read);
    } else if (!job) {
      job = std::move(*read);
    } else if (!merge(*job, *read)) {
      errors.push_back(
          {"files_disagree", fmt::format("{} and {} files state different layouts", job->format, read->format)});
    }
  }
  if (!errors.empty()) return fail(std::move(errors));
  if (job) return *std::move(job);
  if (std::optional<Error> error = not_understood(files)) return fail(std::move(*error));
  job.emplace();
  job->format = "launcher";
  state_gpus(*job, facts);
  for (const LaunchSource& source : files) {
    if (!is_shell(source)) continue;
    const Script& script = follow_script(source);
    if (!script.commands.empty() || !script.notes.empty())
      unused(*job, "not_used", fmt::format("{}: only its GPUs are read, as no command followed trains", source.path));
  }
  return *std::move(job);
}

}  // namespace

Result<LaunchJob> read_launch_files(const std::vector<std::string>& paths, const LaunchContext& context) {
  const Result<std::vector<LaunchSource>> files = load_sources(paths, context.arguments);
  if (!files) return fail(files.error());
  return read_launch_sources(*files, context);
}

namespace {

/// The GPUs that the command line states in place of the files', whose nodes are another job's.
void take_total(LaunchFacts& facts, std::vector<LaunchSource>& files, const LaunchContext& context) {
  facts.total = context.gpus;
  if (facts.total <= 0) return;
  facts.one_node.clear();
  facts.gpus_per_node = context.gpus_per_node > 0 ? std::min(context.gpus_per_node, facts.total) : facts.gpus_per_node;
  constexpr int kUsualNode = 8;
  if (facts.gpus_per_node <= 0 || facts.total % facts.gpus_per_node != 0)
    facts.gpus_per_node = facts.total % kUsualNode == 0 ? kUsualNode : facts.total;
  facts.nodes = facts.total / facts.gpus_per_node;
  for (LaunchSource& source : files) source.nodes = facts.nodes, source.gpus_per_node = facts.gpus_per_node;
}

/// GPUs that a tool's own keys state, nanotron's degrees or the processes of accelerate's file, where the launcher
/// beside them starts others.
void tell_of_other_count(const LaunchFacts& facts, LaunchJob& job) {
  const std::int64_t started = facts.gpus();
  if (facts.total > 0 || started == 0 || job.gpus == 0 || job.gpus == started) return;
  // As many nodes as the job takes, where nobody states them.
  if (!facts.one_node.empty() && job.gpus % facts.gpus_per_node == 0) return;
  const Input* stated = find_input(job.inputs, "gpus");
  unused(job, "not_used", started_elsewhere(facts, job.gpus, stated == nullptr ? job.format : stated->where));
}

/// Launchers that start other GPUs than are counted, each difference once: processes beyond the GPUs that a machine
/// shows, commands that differ, and a command beside a file.
void tell_of_other_gpus(const std::vector<LaunchSource>& files, const LaunchFacts& facts, LaunchJob& job) {
  const int each = job.gpus_per_node > 0 ? job.gpus_per_node : facts.nodes <= 1 ? job.gpus : 0;
  const std::size_t before = job.unused.size();
  for (const LaunchSource& source : files)
    if (std::string fewer = with_fewer_visible(source, each); !fewer.empty()) unused(job, "not_used", std::move(fewer));
  if (job.unused.size() == before) tell_of_other_count(facts, job);
  if (job.gpus != facts.gpus()) return;  // what the commands differ from is not what is counted
  for (const LaunchSource& source : files)
    for (std::string other :
         {with_other_gpus(source, facts), with_other_pods(source, facts), standing_alone(source, facts)})
      if (!other.empty()) unused(job, "not_used", std::move(other));
}

/// What the files say that the layout does not show.
void tell_of_files(const std::vector<LaunchSource>& files, const LaunchFacts& facts, LaunchJob& job) {
  for (const LaunchSource& source : files)
    if (const std::string parts = is_model_config(source) ? parts_beside(source.text) : ""; !parts.empty())
      unused(job, "parts_left_out",
             fmt::format("{}: {} is not counted: the language model is, in the job's precision", source.path, parts));
  for (const LaunchSource& source : files)
    for (const std::string& note : source.notes) unused(job, "not_used", fmt::format("{}: {}", source.path, note));
  for (const LaunchSource& source : files)
    for (std::string stops :
         {with_no_count(source), with_misspelt_flag(source), with_misspelt_launcher(source), with_comment_word(source)})
      if (!stops.empty()) unused(job, "not_used", std::move(stops));
  if (facts.total == 0) tell_of_other_gpus(files, facts, job);
  tell_of_scripts(files, job);
  tell_of_environment(files, job);
  if (std::string hardware = other_hardware(files); !hardware.empty() && job.hardware.empty())
    job.hardware = std::move(hardware);
  name_other_gpu(facts, job);
}

}  // namespace

Result<LaunchJob> read_launch_sources(const std::vector<LaunchSource>& given, const LaunchContext& context) {
  std::vector<LaunchSource> files = given;
  constexpr Recognises* kKnown = [](const LaunchSource& file) { return format_of(file).has_value(); };
  for (LaunchSource& source : files) {
    if (other_tool(source) != nullptr) continue;
    Result<std::optional<LaunchSource>> script = script_of_manifest(source, kKnown);
    if (!script) return fail(script.error());
    if (*script) source = std::move(**script);
  }
  for (const LaunchSource& source : files)
    if (std::optional<Error> error = broken_command(source)) return fail(std::move(*error));
  const Result<std::set<std::string>> naming = add_named_files(files, kKnown);
  if (!naming) return fail(naming.error());
  LaunchFacts facts = launcher_facts(files);
  facts.megatron = context.megatron;
  take_total(facts, files, context);
  if (std::optional<Error> error = too_many_gpus(facts)) return fail(std::move(*error));
  facts.model = context.model;
  facts.asked = context.model.has_value();
  if (facts.model) facts.model_where = "--model";
  for (const LaunchSource& source : files) {
    if (!is_model_config(source) || facts.asked) continue;
    Result<Model> config = read_config_json(source.text, source.path);
    if (!config) return fail(config.error());
    facts.model = std::move(*config);
    facts.model_where = source.path;
  }
  const Result<std::vector<std::vector<LaunchSource>>> by_format = sorted(files, *naming);
  if (!by_format) return fail(by_format.error());
  Result<LaunchJob> job = read_by_format(files, *by_format, facts);
  if (!job) {
    Errors errors = job.error();
    add_left_out(files, errors);
    return fail(std::move(errors));
  }
  if (job->gpus == 0 && !facts.one_node.empty()) {  // unless its degrees are those of several nodes
    facts.nodes = 1;
    if (Result<LaunchJob> there = read_by_format(files, *by_format, facts); there && !takes_more(there->fixed, facts))
      job = std::move(there);
  }
  for (const LaunchSource& source : files)
    if (job->gpus == 0 && job->slice_gpus == 0)
      if (std::optional<Error> error = pods_not_counted(source)) return fail(std::move(*error));
  if (job->gpus == 0) job->gpus_per_node = facts.gpus_per_node;  // and on how many nodes is not stated
  if (!facts.release.empty()) state(*job, "release", facts.release, facts.release_where);
  tell_of_files(files, facts, *job);
  if (job->model)
    if (const std::string problem = absurdity(*job->model); !problem.empty())
      return fail({"absurd_model", fmt::format("{}: {}", files.front().path, problem)});
  if (!job->model && facts.model) {
    job->model = facts.model;
    state(*job, "model", facts.model->name, facts.model_where);
  }
  return std::move(*job);
}

Result<std::vector<LaunchFile>> write_launch(std::string_view name, const Plan& plan, const EmitOptions& options) {
  for (const LaunchFormat& format : launch_formats())
    if (format.name == name && format.write != nullptr) {
      if (std::optional<Error> error = format.checkpoint ? no_checkpoint(plan, name) : std::nullopt)
        return fail(*std::move(error));
      const bool by_kind = plan.best.runs.empty() || format.meshes;
      Result<Plan> held = by_kind ? Result<Plan>(plan) : as_one_kind(name, format.framework, plan, options);
      if (!held) return fail(held.error());
      Result<std::vector<LaunchFile>> files = format.write(*held, options);
      if (files && !holds_image(*files, options.image))
        return fail({"not_expressible",
                     fmt::format("{}'s files start processes on the node itself: no place for `--image`", name),
                     {},
                     {"leave `--image` out and start them inside the container"}});
      return files;
    }
  Error error{"unknown_format", fmt::format("no launch files of the kind `{}`", name), {}, {}};
  suggest(error, name, emit_words());
  error.help.push_back(fmt::format("`plan emit` writes {}", fmt::join(emit_words(), ", ")));
  return fail(error);
}

}  // namespace plan
