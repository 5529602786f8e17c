// Files of Megatron-Bridge, verl, NeMo-RL, ms-swift and LLaMA-Factory. Tested by tests/launch/round_trip_test.cpp and,
// against the tools themselves, by tests/validators/dialects.sh.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "cli/launch/dialect/dialect.hpp"
#include "cli/launch/dialect/extra_config.hpp"
#include "cli/launch/dialect/recipes.hpp"
#include "cli/launch/job/weighty_names.hpp"
#include "cli/launch/post_training/fsdp_dialects.hpp"
#include "cli/launch/post_training/nemo_rl.hpp"
#include "cli/launch/post_training/verl_commands.hpp"
#include "cli/launch/start/launcher.hpp"
#include "cli/settings/settings.hpp"
#include "formulas/keep_errors.hpp"
#include "planner/answer/layout_text.hpp"
#include "presets/suggest.hpp"

namespace plan {

std::string dialect_header(const Plan& plan, const std::vector<std::string>& more) {
  std::string out = fmt::format("# {} on {} GPUs ({})\n# {}\n", plan.problem.model.name, plan.problem.gpus,
                                plan.problem.cluster.gpu.name, axes_text(plan.best, plan.problem.model.moe()));
  for (const std::string& line : more) out += fmt::format("# {}\n", line);
  return out;
}

std::vector<std::string> override_words(const std::vector<DialectSetting>& settings) {
  std::vector<std::string> out;
  for (const DialectSetting& setting : settings) {
    std::string value = setting.value;
    if (value.starts_with('[')) std::erase(value, ' ');
    out.push_back(shell_quoted(setting.key + "=" + value));
  }
  return out;
}

namespace {

struct NodeText {
  int nodes;
  int gpus;
};
NodeText nodes_of(const Plan& plan) {
  const int gpus = std::clamp(plan.problem.cluster.gpus_per_node, 1, std::max(1, plan.problem.gpus));
  return {std::max(1, plan.problem.gpus / gpus), gpus};
}

/// Variables that ms-swift and LLaMA-Factory hand to torchrun.
std::string node_variables(const Plan& plan) {
  const NodeText nodes = nodes_of(plan);
  return fmt::format(
      "export NNODES={} NPROC_PER_NODE={}\nexport NODE_RANK=\"${{NODE_RANK:-0}}\" "
      "MASTER_ADDR=\"${{MASTER_ADDR:-127.0.0.1}}\" MASTER_PORT=\"${{MASTER_PORT:-29500}}\"\n",
      nodes.nodes, nodes.gpus);
}

std::string environment(const Plan& plan) {
  std::string out;
  for (const auto& [name, value] : megatron_environment(plan))
    out += fmt::format("export {}={}\n", name, shell_quoted(value));
  return out;
}

std::string command(const std::string& start, const std::vector<std::string>& words) {
  std::string out = start;
  for (const std::string& word : words) out += " \\\n    " + word;
  return out + "\n";
}

/// A sequence is a prompt and its response; an optimizer step is a mini-batch of prompts with as many responses each.
void add_verl_batches(const Plan& plan, std::vector<DialectSetting>& settings) {
  constexpr std::int64_t kResponses = 8;  // of one prompt, where the batch divides into groups of them
  const Training& training = plan.problem.training;
  const std::int64_t responses = std::gcd(training.global_batch, kResponses);
  const std::string actor = "actor_rollout_ref.actor.", micro = fmt::format("{}", plan.best.layout.micro_batch);
  const std::string prompts = fmt::format("{}", training.global_batch / responses);
  for (DialectSetting& more :
       std::vector<DialectSetting>{{"algorithm.adv_estimator", "grpo"},  // no critic beside the actor
                                   {"data.max_prompt_length", fmt::format("{}", training.seq / 2)},
                                   {"data.max_response_length", fmt::format("{}", training.seq - training.seq / 2)},
                                   {"data.train_batch_size", prompts},
                                   {actor + "ppo_mini_batch_size", prompts},
                                   {"actor_rollout_ref.rollout.n", fmt::format("{}", responses)},
                                   {"actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu", micro},
                                   {"actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu", micro}})
    settings.push_back(std::move(more));
  if (plan.problem.model.mtp.depth > 0)  // off unless asked for
    for (const char* key : {"actor_rollout_ref.model.mtp.enable", "actor_rollout_ref.model.mtp.enable_train"})
      settings.push_back({key, "true"});
}

/// The file of `megatron sft x.yaml`: the flags of ms-swift as keys.
bool is_swift_yaml(const LaunchSource& source) {
  const auto key = [&](const std::string& name) {
    return source.text.starts_with(name + ":") || mentions(source, "\n" + name + ":");
  };
  return !is_shell(source) && !source.path.ends_with(".json") && key("model") && key("micro_batch_size") &&
         key("global_batch_size") && !key("model_class") && !key("dist_config") &&
         (key("dataset") || key("cached_dataset") || key("tuner_type") || key("train_type"));
}

/// Keys of every file of the dialect together.
template <class Read>
Result<LaunchJob> read_all(const Dialect& dialect, std::span<const LaunchSource> files, const LaunchFacts& facts,
                           Read read) {
  StatedKeys keys;
  Errors errors;
  for (const bool script : {true, false})  // words of a command lie over the files that it names
    for (const LaunchSource& source : files) {
      if (is_shell(source) != script) continue;
      Result<StatedKeys> own = read(source);
      if (keep_errors(errors, own)) keys.insert(own->begin(), own->end());
    }
  if (!errors.empty()) return fail(std::move(errors));
  return dialect_job(dialect, keys, facts);
}

/// Weights of Megatron's own are named by the model that they were made of, `X-mcore`, and need no other file.
void take_model_of_weights(StatedKeys& keys) {
  for (const char* key : {"mcore_model", "load"})
    if (!keys.contains("model") && model_named(word_of(keys, key))) keys["model"] = keys[key];
}

/// Whether the value of one of ms-swift's keys bears on the job: it is read, or its name sounds as if it should be.
bool bears_on_swift(std::string_view key) {
  constexpr std::string_view kNoCost[] = {"lr", "min-lr", "weight-decay", "clip-grad", "save"};
  for (const DialectKey& row : swift_dialect().keys)
    if (row.key == key &&
        (sounds_harmless(row.flag) || std::find(std::begin(kNoCost), std::end(kNoCost), row.flag) != std::end(kNoCost)))
      return false;
  const std::vector<std::string_view> asked = asked_keys(swift_dialect());
  return std::find(asked.begin(), asked.end(), key) != asked.end() || key == "mcore_model" || key == "load" ||
         key.starts_with(kSwiftExtra) || sounds_weighty(key);
}

}  // namespace

bool is_bridge(const LaunchSource& source) {
  if (mentions(source, "run_recipe.py")) return true;
  return !is_shell(source) && !source.path.ends_with(".json") && !is_swift_yaml(source) && mentions(source, "model:") &&
         mentions(source, "tensor_model_parallel_size:") && !mentions(source, "megatron_cfg:") &&
         !mentions(source, "actor_rollout_ref") && !mentions(source, "\ntrainer:") &&  // Lightning's, of NeMo 1 and 2
         (mentions(source, "\ntrain:") || mentions(source, "\nddp:") || mentions(source, "\ndataset:"));
}

Result<std::vector<LaunchFile>> write_verl(const Plan& plan, const EmitOptions& options) {
  if (Errors errors = beyond_itself(verl_dialect().format, options); !errors.empty()) return fail(std::move(errors));
  Result<std::vector<DialectSetting>> settings = dialect_settings(verl_dialect(), plan, options);
  if (!settings) return fail(settings.error());
  add_verl_batches(plan, *settings);
  for (DialectSetting& setting : *settings)
    if (setting.key.find(".override_") != std::string::npos) setting.key = "++" + setting.key;  // open dictionaries
  std::string text =
      "#!/bin/bash\n" +
      dialect_header(plan,
                     {"Written by plan for verl 0.7 or newer (Megatron actor); run it on the head of a Ray cluster.",
                      "The layout is the actor's. Behind the script's name, as KEY=VALUE: your rewards, your rollout,",
                      "data.train_files and data.val_files."});
  text += "set -euo pipefail\n\n" + environment(plan);
  std::vector<std::string> words = override_words(*settings);
  words.emplace_back("\"$@\"");
  text +=
      command("python3 -m verl.trainer.main_ppo --config-path=config --config-name=ppo_megatron_trainer.yaml", words);
  return std::vector<LaunchFile>{{job_name(plan, options) + ".sh", text, true}};
}
bool is_verl(const LaunchSource& source) {
  if (is_shell(source)) return verl::engine_of(source) == verl::Engine::Megatron;
  if (mentions(source, "strategy: fsdp") && !mentions(source, "strategy: megatron")) return false;
  return mentions(source, "actor_rollout_ref") && mentions(source, "megatron") &&
         (mentions(source, "\ndata:") || mentions(source, "\n  data:") || mentions(source, "data."));
}
Result<LaunchJob> read_verl(std::span<const LaunchSource> files, const LaunchFacts& facts) {
  StatedKeys missing;
  const auto read = [&missing](const LaunchSource& source) -> Result<StatedKeys> {
    const bool script = is_shell(source);
    Result<StatedKeys> keys = script ? verl::keys_of_command(source, verl::kActor) : keys_of_yaml(source);
    if (const auto base = keys ? keys->find(kMissingBase) : missing.end(); keys && script && base != keys->end())
      missing.insert(keys->extract(base));
    if (keys && !script) verl::unwrap(*keys);
    if (keys) verl::take_lengths_of_rollout(*keys);
    return keys;
  };
  Result<LaunchJob> job = read_all(verl_dialect(), files, facts, read);
  if (job) verl::tell_programs(files, *job), tell_missing_base(missing, *job);
  return job;
}

Result<std::vector<LaunchFile>> write_nemo_rl(const Plan& plan, const EmitOptions& options) {
  if (Errors errors = beyond_itself(nemo_rl_dialect().format, options); !errors.empty()) return fail(std::move(errors));
  const Layout& layout = plan.best.layout;
  const Recompute& recompute = layout.recompute;
  if (recompute.kind == RecomputeKind::Full && (recompute.layers > 0 || recompute.uniform > 1))
    return fail({"not_expressible",
                 "nemo-rl has no key for blocks of recomputed layers: every layer by itself, or modules",
                 {},
                 {"fix `recompute=full` or `recompute=none` with `--layout`"}});
  Result<std::vector<DialectSetting>> settings = dialect_settings(nemo_rl_dialect(), plan, options);
  if (!settings) return fail(settings.error());
  for (const DialectSetting& more : std::initializer_list<DialectSetting>{
           {"policy.megatron_cfg.enabled", "true"},
           {"policy.megatron_cfg.activation_checkpointing", recompute.kind == RecomputeKind::None ? "false" : "true"},
           {"policy.dtensor_cfg.enabled", "false"},
           {"policy.make_sequence_length_divisible_by",
            fmt::format("{}", layout.tp * (layout.cp > 1 ? 2 * layout.cp : 1))}})
    settings->push_back(more);
  const std::string stem = job_name(plan, options);
  const std::string text =
      dialect_header(plan, {"Written by plan for NeMo-RL 0.7. Beside the example that it extends, from NeMo-RL's root:",
                            fmt::format("uv run examples/run_sft.py --config examples/configs/{}.yaml", stem)}) +
      "defaults: sft.yaml\n" + yaml_of(*settings);
  return std::vector<LaunchFile>{{stem + ".yaml", text, false}};
}
bool is_nemo_rl(const LaunchSource& source) {
  if (is_shell(source))
    return (mentions(source, "examples/run_") || mentions(source, "-m examples.run_")) && mentions(source, "policy.") &&
           mentions(source, "cluster.");
  if (source.path.ends_with(".json")) return false;
  const bool policy = mentions(source, "\npolicy:") || source.text.starts_with("policy:");
  const bool lies_over = mentions(source, "\ndefaults:") || source.text.starts_with("defaults:");
  if (lies_over)
    for (const char* section : {"\ncluster:", "\ngrpo:", "\nsft:", "\ndpo:", "\ncheckpointing:", "\nlogger:"})
      if (mentions(source, section)) return true;
  return policy && (mentions(source, "megatron_cfg:") || mentions(source, "dtensor_cfg:") || lies_over);
}
Result<LaunchJob> read_nemo_rl(std::span<const LaunchSource> files, const LaunchFacts& facts) {
  StatedKeys keys;
  for (const LaunchSource& source : files) {
    const Result<StatedKeys> own = keys_of_nemo_rl(source);
    if (!own) return fail(own.error());
    keys.insert(own->begin(), own->end());
  }
  nemo_rl::take_second_dtensor(keys);
  nemo_rl::Roles roles = nemo_rl::take_roles(keys);
  if (!roles.errors.empty()) return fail(std::move(roles.errors));
  const auto megatron = keys.find("policy.megatron_cfg.enabled"), dtensor = keys.find("policy.dtensor_cfg.enabled");
  const bool off =
      megatron != keys.end() ? !is_true(megatron->second) : dtensor != keys.end() && is_true(dtensor->second);
  Result<LaunchJob> job = off ? read_nemo_rl_dtensor(keys, facts) : dialect_job(nemo_rl_dialect(), keys, facts);
  if (job) tell_missing_base(keys, *job);
  if (job) {
    job->notes.insert(job->notes.end(), roles.notes.begin(), roles.notes.end());
    job->unused.insert(job->unused.end(), roles.unused.begin(), roles.unused.end());
  }
  return job;
}

Result<std::vector<LaunchFile>> write_swift(const Plan& plan, const EmitOptions& options) {
  if (Errors errors = beyond_itself(swift_dialect().format, options, "torchrun"); !errors.empty())
    return fail(std::move(errors));
  Result<std::vector<DialectSetting>> settings = dialect_settings(swift_dialect(), plan, options);
  if (!settings) return fail(settings.error());
  if (const std::string extra = folded_json(*settings, kSwiftExtra); !extra.empty())
    settings->push_back({std::string(kSwiftExtra), extra});
  std::vector<std::string> words;
  for (const DialectSetting& setting : *settings) {
    const std::string value = string_unquoted(setting.value);
    if (value.starts_with('[')) {
      words.push_back(fmt::format("--{} {}", setting.key, fmt::join(listed(value), " ")));
    } else {
      words.push_back("--" + setting.key + " " + shell_quoted(value));
    }
  }
  words.emplace_back("--use_hf true");
  words.emplace_back("--packing true");  // sequences as long as planned
  words.emplace_back("\"$@\"");
  std::vector<std::string> lines = {
      "Written by plan for ms-swift 4.6 or newer; run it on every node with NODE_RANK and MASTER_ADDR set."};
  if (options.data_path.empty()) lines.emplace_back("Name your data behind the script's name: --dataset PATH.");
  std::string text = "#!/bin/bash\n" + dialect_header(plan, lines);
  text += "set -euo pipefail\n\n" + environment(plan);
  if (plan.best.layout.zero >= 2) text += "export CUDA_DEVICE_MAX_CONNECTIONS=32\n";  // unset, ms-swift makes it 1
  text += node_variables(plan) + command(plan.problem.training.adapters() ? "megatron sft" : "megatron pt", words);
  return std::vector<LaunchFile>{{job_name(plan, options) + ".sh", text, true}};
}
bool is_swift(const LaunchSource& source) {
  if (is_swift_yaml(source)) return true;
  return is_shell(source) &&
         (mentions(source, "megatron sft") || mentions(source, "megatron pt") || mentions(source, "megatron rlhf"));
}
Result<LaunchJob> read_swift(std::span<const LaunchSource> files, const LaunchFacts& facts) {
  LaunchFacts stated = facts;  // looked at when all files are read, which may state more
  return read_all(swift_dialect(), files, stated, [&stated](const LaunchSource& source) -> Result<StatedKeys> {
    const bool script = is_shell(source);
    Result<StatedKeys> keys = script ? keys_of_flags(source, "megatron", bears_on_swift) : keys_of_yaml(source);
    if (keys && !script) take_gpus_of_role(*keys, stated), keys = keys_of_role(std::move(keys));
    if (keys) take_model_of_weights(*keys), take_extra_of_swift(*keys);
    return keys;
  });
}

Result<std::vector<LaunchFile>> write_llama_factory(const Plan& plan, const EmitOptions& options) {
  if (Errors errors = beyond_itself(llama_factory_dialect().format, options, "torchrun"); !errors.empty())
    return fail(std::move(errors));
  const Layout& layout = plan.best.layout;
  if (plan.problem.gpus % (layout.tp * layout.pp * layout.cp * layout.ep) != 0)
    return fail({"not_expressible",
                 fmt::format("llama-factory wants GPUs in multiples of tp, cp, pp and ep together, here {}",
                             layout.tp * layout.pp * layout.cp * layout.ep),
                 {},
                 {"fix a smaller `ep` with `--layout`"}});
  Result<std::vector<DialectSetting>> settings = dialect_settings(llama_factory_dialect(), plan, options);
  if (!settings) return fail(settings.error());
  // It divides the batch by the experts' ranks as well, which Megatron counts among the data-parallel ones.
  settings->push_back({"gradient_accumulation_steps", fmt::format("{}", plan.best.micro_batches * layout.ep)});
  settings->push_back({plan.problem.training.precision == Precision::Fp16 ? "fp16" : "bf16", "true"});
  if (const std::string extra = folded_json(*settings, "extra_config"); !extra.empty())
    settings->push_back({"extra_config", "'" + extra + "'"});
  settings->insert(settings->begin() + 1,
                   {{"stage", plan.problem.training.adapters() ? "sft" : "pt"},
                    {"do_train", "true"},
                    {"finetuning_type", plan.problem.training.adapters() ? "lora" : "full"},
                    {"dataset", options.data_path.empty() ? "c4_demo" : string_quoted(options.data_path)},
                    {"output_dir", options.checkpoint_dir.empty() ? "output" : string_quoted(options.checkpoint_dir)}});
  const std::string stem = job_name(plan, options);
  std::string script =
      "#!/bin/bash\n" +
      dialect_header(
          plan, {"Written by plan for LLaMA-Factory newer than 0.9.5, with Megatron-Bridge; run it on every node."});
  script +=
      "set -euo pipefail\n\nexport USE_MEGATRON_BRIDGE=1 FORCE_TORCHRUN=1\n" + environment(plan) + node_variables(plan);
  script += fmt::format("llamafactory-cli train \"$(dirname \"$0\")/{}.yaml\"\n", stem);
  return std::vector<LaunchFile>{
      {stem + ".yaml",
       dialect_header(plan, {"Started by " + stem + ".sh with USE_MEGATRON_BRIDGE=1."}) + yaml_of(*settings), false},
      {stem + ".sh", script, true}};
}
bool is_llama_factory(const LaunchSource& source) {
  return !is_shell(source) && mentions(source, "model_name_or_path:") && mentions(source, "finetuning_type:") &&
         mentions(source, "model_parallel_size:");
}
Result<LaunchJob> read_llama_factory(std::span<const LaunchSource> files, const LaunchFacts& facts) {
  const bool mca = std::any_of(files.begin(), files.end(), is_mca);
  return read_all(mca ? mca_dialect() : llama_factory_dialect(), files, facts,
                  [mca](const LaunchSource& source) { return keys_of_llama_factory(source, mca); });
}

}  // namespace plan
