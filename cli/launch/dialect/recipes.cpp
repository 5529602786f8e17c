// Recipes of Megatron-Bridge (`run_recipe.py --recipe llama3_8b_pretrain_config train.global_batch_size=64`) and NeMo 2
// (`nemo llm pretrain --factory llama3_8b trainer.num_nodes=2`). A recipe is a Python function: its name says the model
// and the command its overrides; what it states itself is not known here, and each such value is named as a guess.
// Keys: NeMo 2.7 nemo/collections/llm/recipes. Tested by tests/launch/native_test.cpp.
#include "cli/launch/dialect/recipes.hpp"
#include "cli/launch/job/keys.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "cli/launch/megatron/flags.hpp"
#include "cli/shell/shell.hpp"
#include "presets/suggest.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

constexpr DialectRow kNemo2[] = {
    {"model.config.*", "num-layers hidden-size ffn-hidden-size num-attention-heads num-query-groups num-experts"},
    {"model.config.*", "recompute-granularity recompute-method recompute-num-layers", {}, "null"},
    {"model.config.*", "recompute-modules"},
    {"data.*", "seq-length"},
    {"model.config.*", "seq-length"},
    {"data.*", "micro-batch-size global-batch-size"},
    {"trainer.strategy.*", "tensor-model-parallel-size pipeline-model-parallel-size"},
    {"trainer.strategy.*",
     "num-virtual-stages-per-pipeline-rank microbatch-group-size-per-virtual-pipeline-stage",
     {},
     "null"},
    {"trainer.strategy.*",
     "context-parallel-size expert-model-parallel-size expert-tensor-parallel-size sequence-parallel"},
    {"trainer.strategy.ddp.*",
     "use-distributed-optimizer overlap-grad-reduce overlap-param-gather data-parallel-sharding-strategy"},
    {"trainer.strategy.*", "num-distributed-optimizer-instances"},
    {"trainer.strategy.ddp.*", "num-distributed-optimizer-instances"},
    {"trainer.strategy.*", "use-tp-pp-dp-mapping"},
    {"trainer.strategy.*",
     "pipeline-model-parallel-layout decoder-first-pipeline-num-layers decoder-last-pipeline-num-layers",
     {},
     "null"},
    {"trainer.strategy.*", "account-for-embedding-in-pipeline-split account-for-loss-in-pipeline-split"},
    {"model.config.*", "cp-comm-type moe-token-dispatcher-type"},
    {"trainer.plugins.*", "fp8-format", {}, "null"},
    {"trainer.plugins.*", "fp8-recipe"},
    {"optim.config.*", "optimizer use-precision-aware-optimizer"},
    {"optim.config.*", "main-grads-dtype main-params-dtype exp-avg-dtype exp-avg-sq-dtype", {}, "torch.float32"},
    {"optim.config.*", "optimizer-cpu-offload optimizer-offload-fraction"},
    {"trainer.max_steps", "train-iters"},
};
constexpr std::string_view kNemo2Numbers[] = {"peft.dim"};
constexpr std::string_view kNemo2Derived[] = {"peft", "peft.dim", "trainer.plugins.precision", "trainer.strategy.fsdp"};
constexpr CountedAs kNemo2Counted[] = {
    {"optim.config.use_distributed_optimizer", "true", "shards of the optimizer are counted as the strategy says"},
    {"trainer.plugins.grad_reduce_in_fp32", "true", "gradients are counted as reduced in fp32"},
    {"trainer.plugins.fp8_params", "false none", "weights are counted as gathered in the products' wider format"},
    {"trainer.accumulate_grad_batches", "1", "a step is counted as the global batch"},
    {"trainer.strategy.ddp", "megatron", "data parallelism is counted as Megatron core's"},
};

void derive_nemo2(const StatedKeys& keys, const LaunchFacts&, MegatronArgs& args) {
  args.fork = true;
  const auto word = [&](std::string_view key) {
    const auto found = keys.find(key);
    return found == keys.end() || found->second.values.empty() ? std::string() : lowered(found->second.values.front());
  };
  if (const std::string fsdp = word("trainer.strategy.fsdp"); fsdp == "megatron" || fsdp == "pytorch")
    args.given[fsdp == "megatron" ? "use-megatron-fsdp" : "use-torch-fsdp2"] = {
        {}, where_of(keys, "trainer.strategy.fsdp")};
  else if (!fsdp.empty() && fsdp != "none")
    args.unused.push_back({"not_counted", fmt::format("{}: `trainer.strategy.fsdp: {}` is neither megatron nor pytorch",
                                                      where_of(keys, "trainer.strategy.fsdp"), fsdp)});
  for (const char* flag : {"main-grads-dtype", "main-params-dtype", "exp-avg-dtype", "exp-avg-sq-dtype"})
    if (args.has(flag) && !args.has("use-precision-aware-optimizer"))
      args.unused.push_back(
          {"not_counted", fmt::format("{}: `{}` without `use_precision_aware_optimizer` is not counted",
                                      args.where(flag), with_underscores(flag))});
  const std::string scheme = word("peft");
  const bool other = !scheme.empty() && scheme != "none" && scheme.find("lora") == std::string::npos;
  if (other)
    args.unused.push_back(
        {"not_counted", fmt::format("{}: `peft: {}`: adapters are counted as LoRA's", where_of(keys, "peft"), scheme)});
  const bool tunes = word("verb") == "finetune";
  // A recipe for fine-tuning trains adapters unless its command says otherwise.
  if (other || scheme.find("lora") != std::string::npos || (tunes && scheme.empty()) || !word("peft.dim").empty()) {
    args.task = Task::Lora;
    const auto found = keys.find(scheme.empty() ? "verb" : "peft");
    args.task_where = found == keys.end() ? "" : found->second.where;
    args.lora_rank = number_of(keys, "peft.dim");
  }
}

const Dialect& nemo2_dialect() {
  static const Dialect dialect{"nemo2",
                               keys_of_rows(kNemo2),
                               "",
                               "trainer.num_nodes",
                               "trainer.devices",
                               "trainer.plugins.precision",
                               kNemo2Derived,
                               derive_nemo2,
                               kNemo2Counted,
                               false,
                               kNemo2Numbers};
  return dialect;
}

/// `31` of `llama31_8b` as `3.1`: models of NVIDIA's names that have no dot.
std::string with_dots(std::string name) {
  for (const std::string_view family : {"llama", "qwen"}) {
    const std::size_t at = name.find(family);
    if (at == std::string::npos) continue;
    const std::size_t first = at + family.size();
    const auto digit = [&](std::size_t i) { return i < name.size() && name[i] >= '0' && name[i] <= '9'; };
    if (digit(first) && digit(first + 1) && !digit(first + 2)) name.insert(first + 1, ".");
    if (digit(first) && first + 2 < name.size() && name[first + 1] == '-' && digit(first + 2) &&
        (first + 3 == name.size() || name[first + 3] == '-'))
      name[first + 1] = '.';
  }
  return name;
}

bool is_size(std::string_view word) {
  return word.size() > 1 && word.back() == 'b' && word.find_first_not_of("0123456789.") == word.size() - 1;
}

/// Models whose recipes fill all chunks but the last, which has the rest (recipes/deepseek/deepseek_v3.py,
/// recipes/kimi/kimi_k2.py).
bool fills_chunks(const Model& model) {
  return model.name.starts_with("deepseek-v3") || model.name.starts_with("kimi-k2");
}

/// Recipes of models whose layers the stages do not divide count embedding and loss as layers, which no override says:
/// sets those keys where that comes out even. Where it does not, the recipes of some models fill all chunks but the
/// last. Returns what is guessed; empty: nothing.
std::string uneven_split(const Dialect& dialect, const Model& model, StatedKeys& keys, const std::string& where) {
  const std::string_view embedding = key_of(dialect, "account-for-embedding-in-pipeline-split"),
                         loss = key_of(dialect, "account-for-loss-in-pipeline-split");
  if (embedding.empty() || loss.empty()) return "";
  for (const char* flag : {"account-for-embedding-in-pipeline-split", "account-for-loss-in-pipeline-split",
                           "pipeline-model-parallel-layout", "decoder-first-pipeline-num-layers",
                           "decoder-last-pipeline-num-layers", "num-layers"})
    if (keys.find(key_of(dialect, flag)) != keys.end()) return "";
  const int pp = std::max(1, number_of(keys, key_of(dialect, "pipeline-model-parallel-size")));
  const int vp = std::max(1, number_of(keys, key_of(dialect, "num-virtual-stages-per-pipeline-rank")));
  const int chunks = pp <= 1 << 10 && vp <= 1 << 10 ? pp * vp : 1;
  if (model.depth() % chunks == 0) return "";
  if ((model.depth() + 2) % chunks != 0) {
    const std::string_view layout = key_of(dialect, "pipeline-model-parallel-layout");
    const int each = (model.depth() + chunks - 1) / chunks, last = model.depth() - each * (chunks - 1);
    if (layout.empty() || last < 1 || !fills_chunks(model)) return "";
    std::vector<int> layers(static_cast<std::size_t>(chunks), each);
    layers.back() = last;
    keys[std::string(layout)] = {{pipeline_layout_text(layers, model.mtp.depth)}, where};
    return fmt::format("the recipe decides how {} layers are split over {} chunks: counted are {} in each but the last",
                       model.depth(), chunks, each);
  }
  keys[std::string(embedding)] = keys[std::string(loss)] = {{"true"}, where};
  return fmt::format(
      "the recipe decides how {} layers are split over {} chunks: embedding and loss are counted as one "
      "layer each",
      model.depth(), chunks);
}

/// Dimensions of the model that overrides state over those of a recipe whose model has a name: reported, and left out
/// where they do not make a model by themselves. Equal ones say nothing.
std::vector<Note> take_dimensions(const Dialect& dialect, const Model& model, StatedKeys& keys) {
  constexpr std::string_view kShape[] = {"num-layers",          "hidden-size",      "ffn-hidden-size", "num-experts",
                                         "num-attention-heads", "num-query-groups", "kv-channels",     "vocab-size",
                                         "moe-ffn-hidden-size", "moe-router-topk",  "mtp-num-layers"};
  const auto states = [&](std::string_view flag) {
    return std::any_of(dialect.keys.begin(), dialect.keys.end(),
                       [&](const DialectKey& row) { return row.flag == flag && keys.find(row.key) != keys.end(); });
  };
  std::vector<Note> notes;
  if (states("num-layers") && states("hidden-size") && states("num-attention-heads")) return notes;
  for (const DialectKey& row : dialect.keys) {
    const auto found = keys.find(row.key);
    if (found == keys.end() || std::find(std::begin(kShape), std::end(kShape), row.flag) == std::end(kShape)) continue;
    const std::int64_t value = number_of(keys, row.key);
    const bool same = (row.flag == "num-layers" && value == model.depth()) ||
                      (row.flag == "hidden-size" && value == model.hidden) ||
                      (row.flag == "vocab-size" && value == model.vocab);
    if (!same)
      notes.push_back({"not_counted",
                       fmt::format("{}: `{} = {}`: the model is counted as {}, which the recipe names",
                                   found->second.where, row.key, yaml::printable(word_of(keys, row.key)), model.name)});
    keys.erase(found);
  }
  return notes;
}

/// Whether an override says over how many ranks something is split. A job whose layout is all the recipe's would be
/// answered with one rank of each, which no recipe of a large model means.
bool states_layout(const Dialect& dialect, const StatedKeys& keys) {
  constexpr std::string_view kDegrees[] = {"tensor-model-parallel-size", "pipeline-model-parallel-size",
                                           "context-parallel-size", "expert-model-parallel-size"};
  return std::any_of(dialect.keys.begin(), dialect.keys.end(), [&](const DialectKey& row) {
    return !row.key.empty() && keys.find(row.key) != keys.end() &&
           std::find(std::begin(kDegrees), std::end(kDegrees), row.flag) != std::end(kDegrees);
  });
}

}  // namespace

namespace recipes {

std::optional<Named> named_in(const LaunchSource& source, std::string_view program,
                              std::span<const std::string_view> flags) {
  std::optional<Named> out;
  for (const ShellCommand& command : follow_script(source).commands) {
    const std::vector<ShellWord>& words = command.words;
    const bool starts = std::any_of(words.begin(), words.end(), [&](const ShellWord& word) {
      return word.text == program || word.text.ends_with("/" + std::string(program));
    });
    for (std::size_t i = 0; starts && i < words.size(); ++i)
      for (const std::string_view flag : flags) {
        const std::string where = fmt::format("{}:{}", source.path, words[i].line);
        if (words[i].text == flag && i + 1 < words.size()) out = Named{words[i + 1].text, where};
        if (words[i].text.starts_with(flag) && words[i].text.size() > flag.size() + 1 &&
            words[i].text[flag.size()] == '=')
          out = Named{words[i].text.substr(flag.size() + 1), where};
      }
  }
  return out;
}

std::optional<Model> model_of(std::string_view recipe) {
  std::string name = lowered(std::string(recipe));
  std::replace(name.begin(), name.end(), '_', '-');
  std::vector<std::string> parts;
  for (std::size_t at = 0; at < name.size();) {
    const std::size_t end = std::min(name.find('-', at), name.size());
    parts.push_back(name.substr(at, end - at));
    at = end + 1;
  }
  // The longest start that a preset is called: after it come the recipe's purpose, GPU and number format.
  for (std::size_t count = parts.size(); count > 0; --count) {
    std::string start;
    bool sized = false;
    for (std::size_t i = 0; i < count; ++i) start += (i > 0 ? "-" : "") + parts[i], sized |= is_size(parts[i]);
    const bool active = count < parts.size() && parts[count].size() > 2 && parts[count][0] == 'a' &&
                        is_size(std::string_view(parts[count]).substr(1));
    if (active || (!sized && count < parts.size() && is_size(parts[count]))) continue;  // not the whole name
    for (const std::string& word : {start, with_dots(start)})
      if (std::optional<NamedModel> found = model_named(word)) return std::move(found->model);
  }
  return std::nullopt;
}

namespace {

/// Chunks of a rank that are stated beside the layout that lists them all, which Bridge's configuration takes and
/// Megatron-LM's parser does not: taken out of the keys. 0: none are.
int chunks_beside_layout(const Dialect& dialect, StatedKeys& keys) {
  const std::string_view layout = key_of(dialect, "pipeline-model-parallel-layout"),
                         chunks = key_of(dialect, "num-virtual-stages-per-pipeline-rank");
  if (layout.empty() || chunks.empty() || keys.find(layout) == keys.end() || keys.find(chunks) == keys.end()) return 0;
  const int stated = number_of(keys, chunks);
  if (stated > 0) keys.erase(keys.find(chunks));
  return stated;
}

}  // namespace

Result<LaunchJob> job_of(const Dialect& dialect, const StatedKeys& stated, const Named& recipe, LaunchFacts facts) {
  const StatedKeys keys = without_nulls(stated);
  if (!states_layout(dialect, keys))
    return fail({"recipe_decides",
                 fmt::format("{}: the recipe `{}` decides the layout, and no override states a part of it",
                             recipe.where, recipe.name),
                 {"a recipe is a Python function, which plan does not run"},
                 {"state the job with `--model`, `--gpus`, `--seq`, `--global-batch` and `--layout`, or give the log "
                  "in which the job prints its arguments"}});
  if (!facts.model)
    if (std::optional<Model> model = model_of(recipe.name)) {
      facts.model = std::move(model);
      facts.model_where = recipe.where;
    }
  StatedKeys all = keys;
  std::vector<Note> notes;
  if (facts.model) notes = take_dimensions(dialect, *facts.model, all);
  const std::string split = facts.model ? uneven_split(dialect, *facts.model, all, recipe.where) : "";
  // Recipes of experts exchange tokens by all-to-all (recipes/ of Megatron-Bridge and NeMo 2).
  if (const std::string_view exchange = key_of(dialect, "moe-token-dispatcher-type");
      facts.model && facts.model->moe() && !exchange.empty())
    all.try_emplace(std::string(exchange), StatedValue{{"alltoall"}, recipe.where});
  const int chunks = chunks_beside_layout(dialect, all);
  Result<LaunchJob> job = dialect_job(dialect, all, facts);
  if (!job) return job;
  if (chunks > 0 && job->fixed.vp.value_or(1) != chunks)
    return fail({"conflicting_keys",
                 fmt::format("{}: {} chunks a rank are stated beside a layout of {}", recipe.where, chunks,
                             job->fixed.vp.value_or(1)),
                 {},
                 {"make the two agree, or leave one out"}});
  for (const Note& note : notes) unused(*job, note.code, note.text);
  if (!split.empty()) unused(*job, "recipe_decides", fmt::format("{}: {}", recipe.where, split));
  if (!job->model) job->model_name = recipe.name;
  for (Input& input : job->inputs)
    if (input.origin == Origin::Default) {
      input.guessed = true;
      input.where = fmt::format("the recipe `{}` decides it", recipe.name);
    }
  return job;
}

}  // namespace recipes

bool is_nemo2(const LaunchSource& source) {
  if (!is_shell(source))
    return mentions(source, "MODEL_ARGS:") && mentions(source, "trainer.strategy.");  // NeMo's functional tests
  return mentions(source, "nemo llm ") && mentions(source, "--factory");
}

Result<LaunchJob> read_nemo2(std::span<const LaunchSource> files, const LaunchFacts& facts) {
  const LaunchSource& source = files.front();
  if (!is_shell(source)) {
    const Result<StatedKeys> all = keys_of_yaml(source);
    if (!all) return fail(all.error());
    return recipes::job_of(nemo2_dialect(), keys_under(*all, "MODEL_ARGS."), {"MODEL_ARGS", source.path}, facts);
  }
  constexpr std::array<std::string_view, 2> kFlags = {"--factory", "-f"};
  const std::optional<recipes::Named> recipe = recipes::named_in(source, "nemo", kFlags);
  Result<StatedKeys> keys = keys_of_overrides(source, "nemo");
  if (!keys) return fail(keys.error());
  if (!recipe)
    return fail({"training_not_understood",
                 fmt::format("{}: no `nemo llm` command with a `--factory` was found", source.path),
                 {},
                 {"state the job with `--model`, `--gpus` and `--layout`"}});
  for (const ShellCommand& command : follow_script(source).commands)
    for (std::size_t i = 0; i + 1 < command.words.size(); ++i)
      if (command.words[i].text == "llm")
        (*keys)["verb"] = {{command.words[i + 1].text}, fmt::format("{}:{}", source.path, command.words[i].line)};
  return recipes::job_of(nemo2_dialect(), *keys, *recipe, facts);
}

}  // namespace plan
