// Megatron-Bridge's performance scripts: `python scripts/performance/run_script.py --model_recipe_name llama3_70b
// --gpu gb200 --num_gpus 64 --compute_dtype fp8_mx --tensor_model_parallel_size 2`. The flags lie over a recipe, a
// Python function: what none of them states is the recipe's, and each such value is named as a guess.
// Flags: Megatron-Bridge scripts/performance/argument_parser.py and utils/overrides.py.
// Tested by tests/launch/wrappers_test.cpp.
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "cli/launch/dialect/recipes.hpp"
#include "cli/launch/job/unread.hpp"
#include "cli/launch/job/weighty_names.hpp"
#include "cli/settings/settings.hpp"
#include "cli/shell/shell.hpp"
#include "formulas/words.hpp"
#include "presets/store.hpp"
#include "presets/suggest.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

struct PerformanceFlag {
  std::string_view name;   ///< without dashes
  std::string_view brief;  ///< its short form, without the dash; empty: none
  std::string_view key;    ///< of Megatron-Bridge's configuration; empty: read by name below
};

constexpr PerformanceFlag kFlags[] = {
    {"model_recipe_name", "mr", ""},
    {"model_family_name", "m", ""},
    {"num_gpus", "ng", ""},
    {"gpus_per_node", "gn", ""},
    {"gpu", "g", ""},
    {"compute_dtype", "c", ""},
    {"task", "", ""},
    {"config_variant", "cv", ""},
    {"recompute_num_layers", "rl", "model.recompute_num_layers"},
    {"recompute_modules", "", "model.recompute_modules"},
    {"tensor_model_parallel_size", "tp", "model.tensor_model_parallel_size"},
    {"pipeline_model_parallel_size", "pp", "model.pipeline_model_parallel_size"},
    {"virtual_pipeline_model_parallel_size", "vp", "model.virtual_pipeline_model_parallel_size"},
    {"context_parallel_size", "cp", "model.context_parallel_size"},
    {"expert_model_parallel_size", "ep", "model.expert_model_parallel_size"},
    {"expert_tensor_parallel_size", "et", "model.expert_tensor_parallel_size"},
    {"expert_tensor_parallel_size", "etp", "model.expert_tensor_parallel_size"},
    {"deterministic", "", "model.deterministic_mode"},
    {"pipeline_model_parallel_layout", "", "model.pipeline_model_parallel_layout"},
    {"moe_flex_dispatcher_backend", "", "model.moe_flex_dispatcher_backend"},
    {"num_layers", "", "model.num_layers"},
    {"hidden_size", "", "model.hidden_size"},
    {"num_moe_experts", "", "model.num_moe_experts"},
    {"seq_length", "sl", "dataset.seq_length"},
    {"micro_batch_size", "mb", "train.micro_batch_size"},
    {"global_batch_size", "gb", "train.global_batch_size"},
    {"max_steps", "ms", "train.train_iters"},
    {"use_megatron_fsdp", "", "ddp.use_megatron_fsdp"},
    {"moe_a2a_overlap", "", "comm_overlap.overlap_moe_expert_parallel_comm"},
};

/// Flags of the launcher around the training, of its logs and of its data: starts of names.
constexpr auto kAround = word_list([] {
  return "account partition time_limit container custom_ log_dir nemo_home hf_token offline packager gres "
         "detach dryrun max_ additional enable_ wandb profiling list_ tokenizer dataset_ data save_ load_dir "
         "index_ domain nccl_ experiment kubeflow csp env peak_ lock_gpu most_ head_ preempt use_recipes job_ "
         "maybe skip_ lr min_lr warmup pretrained_checkpoint recipe mode step_func dump_env";
});

bool is_program(std::string_view word) {
  return word.ends_with("setup_experiment.py") || word.ends_with("run_script.py");
}

const PerformanceFlag* flag_named(std::string_view word) {
  const bool whole = word.starts_with("--");
  std::string name(word.substr(std::min<std::size_t>(word.size(), whole ? 2 : 1)));
  std::replace(name.begin(), name.end(), '-', '_');
  const auto* found = std::find_if(std::begin(kFlags), std::end(kFlags), [&](const PerformanceFlag& flag) {
    return whole ? flag.name == name : !flag.brief.empty() && flag.brief == name;
  });
  return found == std::end(kFlags) ? nullptr : found;
}

struct Performance {
  StatedKeys keys{};       ///< by the names of kFlags
  StatedKeys overrides{};  ///< `model.seq_length=4096`: they lie over all flags
  Unread open{};           ///< flags that may weigh
};

/// `model.seq_length=4096`, `+train.x=1`; no flag and no flag's value.
bool is_override(std::string_view word) {
  const std::size_t equals = word.find('=');
  return !word.starts_with('-') && equals != std::string_view::npos && word.find('.') < equals;
}

void take_override(const ShellWord& word, const std::string& file, StatedKeys& overrides) {
  const std::size_t equals = word.text.find('='), start = word.text.find_first_not_of('+');
  overrides[word.text.substr(start, equals - start)] = {listed(word.text.substr(equals + 1)),
                                                        fmt::format("{}:{}", file, word.line)};
}

/// Flags and overrides behind a program's name.
Performance flags_of(const std::vector<ShellWord>& words, const std::string& file, bool (*program)(std::string_view)) {
  Performance out;
  auto word = std::find_if(words.begin(), words.end(), [&](const ShellWord& w) { return program(w.text); });
  for (; word != words.end(); ++word) {
    if (is_override(word->text)) take_override(*word, file, out.overrides);
    if (!word->text.starts_with('-')) continue;
    const std::size_t equals = word->text.find('=');
    const std::string name = word->text.substr(0, equals);
    StatedValue value{{}, fmt::format("{}:{}", file, word->line)};
    if (equals != std::string::npos) value.values.push_back(word->text.substr(equals + 1));
    for (auto next = word + 1;
         equals == std::string::npos && next != words.end() && !next->text.starts_with('-') && !is_override(next->text);
         ++next)
      value.values.push_back(next->text);
    if (value.values.empty()) value.values.emplace_back("true");
    if (const PerformanceFlag* flag = flag_named(name)) {
      out.keys[std::string(flag->name)] = std::move(value);
      continue;
    }
    std::string bare = name.substr(name.find_first_not_of('-') == std::string::npos ? 0 : name.find_first_not_of('-'));
    std::replace(bare.begin(), bare.end(), '-', '_');
    const bool around = bare.size() < 3 || sounds_harmless(bare) ||
                        std::any_of(std::begin(kAround), std::end(kAround),
                                    [&](std::string_view start) { return bare.starts_with(start); });
    if (around) continue;
    out.open.add(name, value.where);
  }
  return out;
}

/// The flags that set one key each, as those keys.
StatedKeys plain_keys(const StatedKeys& flags) {
  StatedKeys keys;
  for (const PerformanceFlag& flag : kFlags) {
    const auto found = flags.find(flag.name);
    if (flag.key.empty() || found == flags.end() || found->second.values.front() == "None") continue;
    keys[std::string(flag.key)] = found->second;
  }
  return keys;
}

/// Megatron-Bridge's word for a number format of these scripts; empty: they have no such word.
std::string_view mixed_precision(std::string_view word) {
  if (word == "bf16") return "bf16_mixed";
  if (word == "fp8_cs") return "bf16_with_fp8_current_scaling_mixed";
  if (word == "fp8_sc") return "bf16_with_fp8_subchannel_scaling_mixed";
  if (word == "fp8_ds") return "bf16_with_fp8_delayed_scaling_mixed";
  if (word == "fp8_mx") return "bf16_with_mxfp8_mixed";
  return word == "nvfp4" ? "bf16_with_nvfp4_mixed" : "";
}

/// Its performance recipes leave no layer in bf16 but in NVFP4: Nemotron 3 Super's last 14, GPT-OSS 20B's last 4
/// (perf_recipes/_common.py, nemotronh/common.py, gpt_oss/common.py).
void put_precision(const std::string& word, const std::string& recipe, const std::string& where, StatedKeys& keys) {
  const auto set = [&](const char* key, const char* value) { keys[key] = {{value}, where}; };
  keys["mixed_precision"] = {{std::string(mixed_precision(word))}, where};
  set("mixed_precision.first_last_layers_bf16", "false");
  if (word != "nvfp4") return;
  const bool nemotron = recipe.find("nemotron_3_super") != std::string::npos;
  if (!nemotron && recipe.find("gpt_oss_20b") == std::string::npos) return;
  set("mixed_precision.first_last_layers_bf16", "true");
  set("mixed_precision.num_layers_at_end_in_bf16", nemotron ? "14" : "4");
}

/// How tokens reach their experts: scripts/performance/utils/overrides.py and training/flex_dispatcher_backend.py,
/// which passes over DeepEP where a node is a part of an NVLink domain. What is wrong with a word that they do not
/// know.
std::optional<Error> put_dispatcher(const StatedKeys& flags, StatedKeys& keys) {
  const auto found = flags.find("moe_flex_dispatcher_backend");
  const std::string backend = found == flags.end() ? "" : lowered(found->second.values.front());
  if (backend.empty() || backend == "none") return std::nullopt;
  if (backend != "hybridep" && backend != "deepep") {
    Error error{"wrong_value", fmt::format("{}: `--moe_flex_dispatcher_backend {}` is none of deepep, hybridep, None",
                                           found->second.where, yaml::printable(backend))};
    if (backend.find('$') != std::string::npos) error.help.emplace_back(kOpenValueHelp);
    return error;
  }
  const bool applies =
      backend == "hybridep" || (backend == "deepep" && !lowered(word_of(flags, "gpu")).starts_with("gb"));
  keys["model.moe_token_dispatcher_type"] = {{applies ? "flex" : "alltoall"}, found->second.where};
  return std::nullopt;
}

/// The flags as the keys of Megatron-Bridge that the scripts set from them.
Result<StatedKeys> bridge_keys(const StatedKeys& flags) {
  StatedKeys keys = plain_keys(flags);
  const auto tp = flags.find("tensor_model_parallel_size");
  if (tp != flags.end())  // utils/overrides.py: on wherever the flag states more than one rank
    keys["model.sequence_parallel"] = {{number_of(flags, "tensor_model_parallel_size") > 1 ? "true" : "false"},
                                       tp->second.where};
  if (const auto layers = flags.find("recompute_num_layers"); layers != flags.end()) {
    keys["model.recompute_granularity"] = {{"full"}, layers->second.where};
    keys["model.recompute_method"] = {{"block"}, layers->second.where};
  }
  if (const auto modules = flags.find("recompute_modules"); modules != flags.end())
    keys["model.recompute_granularity"] = {{"selective"}, modules->second.where};
  const auto format = flags.find("compute_dtype");
  const std::string word = format == flags.end() ? "bf16" : lowered(format->second.values.front());
  const std::string where = format == flags.end() ? "" : format->second.where;
  if (mixed_precision(word).empty())
    return fail({"unknown_precision",
                 fmt::format("{}: `--compute_dtype {}` is none of bf16, fp8_cs, fp8_mx, fp8_sc, nvfp4", where, word),
                 {},
                 {}});
  put_precision(word, lowered(word_of(flags, "model_recipe_name")), where, keys);
  if (std::optional<Error> error = put_dispatcher(flags, keys)) return fail(std::move(*error));
  if (const auto task = flags.find("task"); task != flags.end() && task->second.values.front() != "pretrain")
    if (task->second.values.front() != "sft") keys["peft"] = {{"lora"}, task->second.where};
  return keys;
}

}  // namespace

namespace recipes {

StatedKeys keys_of_flags_of_recipe(const LaunchSource& source, std::vector<Note>& notes) {
  const auto starts = [](std::string_view word) { return word.ends_with("run_recipe.py"); };
  StatedKeys keys;
  for (const ShellCommand& command : follow_script(source).commands) {
    const Performance one = flags_of(command.words, source.path, starts);
    for (const auto& [key, value] : plain_keys(one.keys)) keys[key] = value;
    one.open.tell(notes, "these flags");
  }
  return keys;
}

}  // namespace recipes

bool is_bridge_performance(const LaunchSource& source) {
  return is_shell(source) && (mentions(source, "setup_experiment.py") || mentions(source, "run_script.py")) &&
         (mentions(source, "model_recipe_name") || mentions(source, " -mr "));
}

Result<LaunchJob> read_bridge_performance(std::span<const LaunchSource> files, const LaunchFacts& given) {
  const LaunchSource& source = files.front();
  std::optional<Performance> found;
  for (const ShellCommand& command : follow_script(source).commands) {
    Performance performance = flags_of(command.words, source.path, is_program);
    if (performance.keys.find("model_recipe_name") == performance.keys.end()) continue;
    const auto values = [](const Performance& p) {
      std::string out;
      for (const StatedKeys* some : {&p.keys, &p.overrides})
        for (const auto& [key, value] : *some)
          out += fmt::format("{}={} ", key, value.values.empty() ? "" : value.values.front());
      return out;
    };
    if (found && values(*found) != values(performance))
      return fail(several_trainings(source.path, fmt::format("{}:{}", source.path, command.words.front().line)));
    found = std::move(performance);
  }
  if (!found)
    return fail({"no_launch",
                 fmt::format("{}: no command with a `--model_recipe_name` was found", source.path),
                 {},
                 {"state the job with `--model`, `--gpus` and `--layout`"}});
  const StatedKeys& flags = found->keys;
  for (const char* key : {"num_gpus", "gpus_per_node"})
    if (std::optional<Error> error = no_number(flags, key, true)) return fail(std::move(*error));
  LaunchFacts facts = given;
  if (const int gpus = number_of(flags, "num_gpus"); gpus > 0 && facts.total == 0) {
    constexpr int kUsualNode = 8;
    const int each = number_of(flags, "gpus_per_node") > 0 ? number_of(flags, "gpus_per_node") : kUsualNode;
    facts.gpus_per_node = std::min(gpus, each);
    facts.nodes = gpus / facts.gpus_per_node;
    facts.gpus_where = flags.find("num_gpus")->second.where;
  }
  StoreOptions store = StoreOptions::from_environment();
  store.files = false;
  if (const auto gpu = flags.find("gpu"); gpu != flags.end() && facts.gpu.empty())
    if (const Result<Found<Gpu>> known = load_gpu(lowered(gpu->second.values.front()), store)) facts.gpu = known->name;
  Result<StatedKeys> keys = bridge_keys(flags);
  if (!keys) return fail(keys.error());
  for (const auto& [key, value] : found->overrides) (*keys)[key] = value;
  const auto recipe = flags.find("model_recipe_name");
  Result<LaunchJob> job =
      recipes::job_of(bridge_dialect(), *keys, {recipe->second.values.front(), recipe->second.where}, facts);
  if (job) found->open.tell(job->unused, "these flags");
  return job;
}

}  // namespace plan
