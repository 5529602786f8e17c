// Shared by the readers and writers of torchtitan, DeepSpeed, accelerate and MaxText files.
#include "cli/launch/job/job_builder.hpp"
#include "cli/launch/job/model_facts.hpp"
#include "cli/launch/job/unread.hpp"
#include "cli/launch/job/weighty_names.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "formulas/layer_kinds.hpp"
#include "formulas/names.hpp"
#include "planner/choice/nearest.hpp"
#include "planner/rules/frameworks.hpp"
#include "planner/rules/megatron_models.hpp"
#include "planner/rules/rules.hpp"
#include "presets/store.hpp"
#include "presets/suggest.hpp"
#include "presets/yaml.hpp"

namespace plan {
JobBuilder::JobBuilder(Settings& from, std::string_view format, Framework framework) : settings(from) {
  job.format = std::string(format);
  job.framework = framework;
  training.stack = framework_row(framework).stack;
}

int JobBuilder::degree(std::string_view key, int otherwise, int least) {
  const std::optional<std::int64_t> value = settings.integer(key);
  if (!value) return otherwise;
  if (*value >= least && *value <= kMostRanks) return static_cast<int>(*value);
  settings.refuse(*settings.get(key), fmt::format("at least {} and at most {}", least, kMostRanks));
  return otherwise;
}

bool JobBuilder::plausible(std::initializer_list<std::int64_t> factors) {
  double all = 1;
  for (const std::int64_t factor : factors) all *= static_cast<double>(factor);
  if (all <= kMostRanks) return true;
  errors.push_back({"wrong_value", fmt::format("the degrees multiply to {:.3g} GPUs", all)});
  return false;
}

std::int64_t JobBuilder::product(std::initializer_list<std::int64_t> factors) {
  double all = 1;
  std::int64_t exact = 1;
  for (const std::int64_t factor : factors) {
    all *= static_cast<double>(factor);
    if (all <= 1e15) exact *= factor;
  }
  if (all <= 1e15) return exact;
  errors.push_back({"wrong_value", fmt::format("the batch is {:.3g} sequences", all)});
  return 0;
}

void JobBuilder::origin(std::string_view name, std::string_view value, std::string_view key) {
  if (!key.empty() && settings.states(key))
    return state(job, std::string(name), std::string(value), settings.where(key));
  assume(job, std::string(name), std::string(value), fmt::format("default of {}", job.format));
  job.homes[std::string(name)] = settings.home(key);
}

void JobBuilder::fix(std::optional<int> Fixed::*axis, int value, std::string_view key) {
  job.fixed.*axis = value;
  origin(axis_key(axis), fmt::format("{}", value), key);
}

void JobBuilder::sequence(std::int64_t tokens, std::string_view key) {
  training.seq = tokens;
  job.states_seq = true;
  origin("seq", fmt::format("{}", tokens), key);
}

void JobBuilder::global_batch(std::int64_t sequences, std::string_view key) {
  training.global_batch = sequences;
  job.states_global_batch = true;
  origin("global_batch", fmt::format("{}", sequences), key);
}

void JobBuilder::rank_batch(int micro_batch, std::int64_t steps, std::string_view key) {
  job.rank_batch = RankBatch{.steps = steps, .sequences = 0, .where = settings.where(key)};
  const Fixed& fixed = job.fixed;
  const std::int64_t inner = std::int64_t{fixed.tp.value_or(1)} * fixed.cp.value_or(1) * fixed.pp.value_or(1);
  if (job.gpus <= 0 || job.gpus % inner != 0) return;
  training.global_batch = product({micro_batch, steps, job.gpus / inner});
  job.states_global_batch = true;
  state(job, "global_batch", fmt::format("{}", training.global_batch), settings.where(key));
}

void JobBuilder::guess(const char* name, std::string_view value, std::string why) {
  assume(job, name, std::string(value), std::move(why));
  job.inputs.back().guessed = true;
}

void JobBuilder::unused(std::string_view key, std::string text) {
  const std::string_view shown = shown_key(key);
  const bool named = text.find(shown.substr(shown.rfind('.') == std::string_view::npos ? 0 : shown.rfind('.') + 1)) !=
                     std::string::npos;
  plan::unused(job, "not_used",
               named || !settings.states(key)
                   ? fmt::format("{}: {}", settings.where(key), text)
                   : fmt::format("{}: `{}`: {}", settings.where(key), yaml::printable(shown), text));
}

void JobBuilder::precision(Precision value, std::string_view key) {
  training.precision = value;
  origin("precision", name(value), key);
}

void JobBuilder::model(std::string_view preset, std::string_view word, std::string_view key) {
  job.model_name = std::string(word);
  std::optional<NamedModel> found = model_named(preset);
  if (!found)
    return note("unknown_model", fmt::format("{}: no preset is called `{}`: name it with `--model`",
                                             settings.where(key), yaml::printable(word)));
  job.model = std::move(found->model);
  if (!found->exact)
    note("model_variant", fmt::format("{}: `{}` is taken to have the layers of {}", settings.where(key),
                                      yaml::printable(word), job.model->name));
  origin("model", job.model->name, key);
}

void JobBuilder::offload_switch(std::string_view key) {
  if (!settings.boolean(key).value_or(false)) return;
  training.offload = {.optimizer = 1, .parameters = true};
  origin("offload", "optimizer,parameters", key);
}

void JobBuilder::launcher(const LaunchFacts& facts) {
  if (facts.model && !job.model) {
    job.model = facts.model;
    state(job, "model", facts.model->name, facts.model_where);
  }
  state_gpus(job, facts);
}

void JobBuilder::gpus(std::int64_t count, std::string_view key) {
  job.gpus = static_cast<int>(count);
  std::erase_if(job.inputs, [](const Input& input) { return input.key == "gpus"; });
  origin("gpus", fmt::format("{}", count), key);
}

void JobBuilder::unknown(std::span<const std::string_view> known, std::string_view verdict) {
  for (const Setting& setting : settings.all())
    if (!settings.asked(setting))
      unknown_key(setting, std::string_view(setting.key).substr(0, setting.key.find('[')), known, verdict);
}

bool JobBuilder::refuses_degree(const Setting& setting, std::string_view key) {
  if (!states_degree(key, setting.value)) return false;
  errors.push_back(degree_not_read(setting.where(), key, setting.value));
  return true;
}

void JobBuilder::unknown_key(const Setting& setting, std::string_view word, std::span<const std::string_view> known,
                             std::string_view verdict) {
  if (std::find(known.begin(), known.end(), word) != known.end() || ++unknown_ > kMostNoted) return;
  const std::string near = nearest_name(word, known);
  std::string text = fmt::format("{}: `{}` {}{}", setting.where(), yaml::printable(word), verdict,
                                 near.empty() ? "" : fmt::format("; the nearest name is `{}`", near));
  const bool slip = is_slip(word, known), silent = verdict.ends_with("silence"),
             stops = verdict.ends_with("stops there");
  if (!silent && !stops && refuses_degree(setting, word)) return;
  const bool off = setting.items.empty() && switched_off(setting.value);
  if (stops || slip || (sounds_weighty(word) && !off && !silent))
    unmodelled("unknown_key", std::move(text));
  else
    note("unknown_key", std::move(text));
}

Result<LaunchJob> JobBuilder::finish() {
  const auto read = [&](const Setting& setting) { return settings.asked(setting); };
  if (!settings.all().empty() && std::none_of(settings.all().begin(), settings.all().end(), read))
    errors.push_back(
        {"training_not_understood",
         fmt::format("{}: no key of {} that states a job was found", settings.all().front().where(), job.format),
         {"they may stand under a section of another tool's"},
         {"state the job with `--model`, `--gpus` and `--layout`"}});
  Errors all = settings.errors();
  all.insert(all.end(), errors.begin(), errors.end());
  if (!all.empty()) return fail(std::move(all));
  if (unknown_ > kMostNoted)
    note("unknown_key", fmt::format("{} more keys are unknown to {}", unknown_ - kMostNoted, job.format));
  job.training = training;
  return std::move(job);
}

Result<bool> expressible(const Plan& plan, Framework framework, std::string_view format) {
  Problem problem = plan.problem;
  problem.framework = framework;
  const int broken = broken_rule(problem, plan.best.layout);
  if (broken < 0) return true;
  return fail({"not_expressible",
               fmt::format("{} cannot run this layout: {}", format, rules()[static_cast<std::size_t>(broken)].text),
               {degrees_text(plan.best.layout)},
               {fmt::format("search for one that it can: add `--framework {}`", framework_row(framework).name)}});
}

tl::unexpected<Errors> cannot(std::string_view format, std::string message, std::string help) {
  Error error{"not_expressible", fmt::format("{} {}", format, message)};
  if (!help.empty()) error.help.push_back(std::move(help));
  return fail(std::move(error));
}

std::string plan_line(const Plan& plan) {
  const Layout& l = plan.best.layout;
  std::string line = fmt::format("{} on {} {}: tp {}, cp {}, pp {}", plan.problem.model.name, plan.problem.gpus,
                                 plan.problem.cluster.gpu.name, l.tp, l.cp, l.pp);
  if (l.vp > 1) line += fmt::format(" (vp {})", l.vp);
  line += fmt::format(", dp {}", l.dp);
  if (l.ep > 1) line += fmt::format(", ep {}", l.ep);
  return line + fmt::format(", zero {}, {} micro-batches of {}", l.zero,
                            micro_batches(plan.problem.training.global_batch, l.dp, l.micro_batch), l.micro_batch);
}

bool same_layers(const Model& a, const Model& b) {
  return a.vocab == b.vocab && a.tied == b.tied &&
         layer_by_layer(a, b, [](const Layer& one, const Layer& other) { return same_shape(one, other); });
}

bool has_layers_of(std::string_view preset, const Model& model) {
  const Result<Found<Model>> found = load_model(preset, StoreOptions::from_environment());
  return found && same_layers(found->value, model);
}

namespace {

/// The folder of the config.json that the model was read from; empty: it was read from nothing of the kind.
std::string checkpoint_read(const Problem& problem) {
  for (const Input& input : problem.inputs) {
    if (input.key != "model" || input.where.empty()) continue;
    const std::filesystem::path path(input.where);
    std::error_code unknown;
    if (std::filesystem::is_directory(path, unknown)) return input.where;
    if (path.extension() == ".json") return path.has_parent_path() ? path.parent_path().string() : ".";
  }
  return {};
}

bool is_preset(std::string_view name) {
  const std::vector<PresetEntry> all = list_presets(PresetKind::Model, StoreOptions::from_environment());
  return std::any_of(all.begin(), all.end(), [&](const PresetEntry& entry) { return entry.name == name; });
}

}  // namespace

std::optional<Error> no_checkpoint(const Plan& plan, std::string_view format) {
  const Model& model = plan.problem.model;
  if (!checkpoint_read(plan.problem).empty() || has_layers_of(model.name, model)) return std::nullopt;
  Error error{"not_expressible",
              fmt::format("{}'s files name a checkpoint, and {}", format,
                          is_preset(model.name) ? fmt::format("this {} is not as published", model.name)
                                                : fmt::format("none is known of {}", model.name)),
              {},
              {"give its config.json: `--model path/to/checkpoint`"}};
  if (megatron_flags_lack(model).empty())
    error.help.emplace_back("or write `plan emit megatron-lm`, whose flags describe every layer");
  return error;
}

std::string hub_name(const Plan& plan) {
  if (std::string folder = checkpoint_read(plan.problem); !folder.empty()) return folder;
  const Model& model = plan.problem.model;
  const std::string_view release = launch_model_facts(model.name, plan.problem.training.seq).release;
  for (const PresetEntry& entry : list_presets(PresetKind::Model, StoreOptions::from_environment()))
    if (entry.name == model.name)
      for (const std::string& alias : entry.aliases)
        if (alias.find('/') != std::string::npos && alias.find(release) != std::string::npos) return alias;
  return model.name;
}

}  // namespace plan
