// Several launch files made into one job, and a plan made into files. Tested by tests/launch/files_test.cpp.
#include "cli/launch/launch.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cli/launch/format.hpp"
#include "formulas/absurdity.hpp"
#include "planner/problem/axes.hpp"
#include "presets/config_json.hpp"
#include "presets/suggest.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

Result<std::vector<LaunchSource>> load(const std::vector<std::string>& paths) {
  std::vector<LaunchSource> files;
  Errors errors;
  for (const std::string& path : paths) {
    Result<std::string> text = yaml::read_text(path);
    if (text)
      files.push_back({path, std::move(*text)});
    else
      errors.insert(errors.end(), text.error().begin(), text.error().end());
  }
  if (!errors.empty()) return fail(std::move(errors));
  return files;
}

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
  into.inputs.insert(into.inputs.end(), from.inputs.begin(), from.inputs.end());
  into.notes.insert(into.notes.end(), from.notes.begin(), from.notes.end());
  return !clash;
}

Error not_recognised(const LaunchSource& source) {
  Error error{"unknown_format", fmt::format("{}: no launch file that plan can read", source.path), {}, {}};
  std::string known;
  for (const LaunchFormat& format : launch_formats())
    if (format.read != nullptr) known += (known.empty() ? "" : ", ") + std::string(format.name);
  error.help.push_back(fmt::format("plan reads {}, sbatch headers, TrainJobs, hostfiles and config.json", known));
  return error;
}

/// Files of each format, in the order of the table; files that only launchers or models understand are left out.
Result<std::vector<std::vector<LaunchSource>>> sorted(const std::vector<LaunchSource>& files) {
  std::vector<std::vector<LaunchSource>> by_format(launch_formats().size());
  Errors errors;
  for (const LaunchSource& source : files) {
    bool known = is_model_config(source);
    for (std::size_t i = 0; i < launch_formats().size() && !known; ++i) {
      const LaunchFormat& format = launch_formats()[i];
      if (format.recognise == nullptr || format.read == nullptr || !format.recognise(source)) continue;
      by_format[i].push_back(source);
      known = true;
    }
    if (!known && !is_launcher(source)) errors.push_back(not_recognised(source));
  }
  if (!errors.empty()) return fail(std::move(errors));
  return by_format;
}

}  // namespace

void state(LaunchJob& job, std::string key, std::string value, std::string where) {
  job.inputs.push_back({std::move(key), std::move(value), Origin::File, std::move(where), {}});
}
void assume(LaunchJob& job, std::string key, std::string value, std::string why) {
  job.inputs.push_back({std::move(key), std::move(value), Origin::Default, std::move(why), {}});
}

Result<LaunchJob> read_launch_files(const std::vector<std::string>& paths, const std::optional<Model>& model) {
  const Result<std::vector<LaunchSource>> files = load(paths);
  if (!files) return fail(files.error());
  return read_launch_sources(*files, model);
}

Result<LaunchJob> read_launch_sources(const std::vector<LaunchSource>& files, const std::optional<Model>& model) {
  LaunchFacts facts = launcher_facts(files);
  if (std::optional<Error> error = too_many_gpus(facts)) return fail(std::move(*error));
  facts.model = model;
  if (model) facts.model_where = "--model";
  for (const LaunchSource& source : files) {
    if (!is_model_config(source)) continue;
    Result<Model> config = read_config_json(source.text, source.path);
    if (!config) return fail(config.error());
    facts.model = std::move(*config);
    facts.model_where = source.path;
  }
  const Result<std::vector<std::vector<LaunchSource>>> by_format = sorted(files);
  if (!by_format) return fail(by_format.error());
  std::optional<LaunchJob> job;
  Errors errors;
  for (std::size_t i = 0; i < by_format->size(); ++i) {
    if ((*by_format)[i].empty()) continue;
    Result<LaunchJob> read = launch_formats()[i].read((*by_format)[i], facts);
    if (!read) {
      errors.insert(errors.end(), read.error().begin(), read.error().end());
    } else if (!job) {
      job = std::move(*read);
    } else if (!merge(*job, *read)) {
      errors.push_back(
          {"files_disagree", fmt::format("{} and {} files state different layouts", job->format, read->format)});
    }
  }
  if (!errors.empty()) return fail(std::move(errors));
  if (!job) {
    job.emplace();
    job->format = "launcher";
    job->gpus = static_cast<int>(facts.gpus());
    job->gpu = facts.gpu;
    if (job->gpus > 0) state(*job, "gpus", fmt::format("{}", job->gpus), facts.gpus_where);
  }
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
    if (format.name == name && format.write != nullptr) return format.write(plan, options);
  Error error{"unknown_format", fmt::format("no launch files of the kind `{}`", name), {}, {}};
  const std::string near = nearest_name(name, emit_words());
  if (!near.empty()) error.help.push_back(fmt::format("the nearest is `{}`", near));
  error.help.push_back(fmt::format("`plan emit` writes {}", fmt::join(emit_words(), ", ")));
  return fail(error);
}

}  // namespace plan
