// What a recipe for torchtitan's main branch says of the layout. Defaults: main b5bcd76c config/configs.py.
// Tested by tests/frameworks/framework_files_test.cpp.
#include <fmt/core.h>

#include <algorithm>

#include "cli/launch/torchtitan/keys.hpp"
#include "cli/launch/torchtitan/torchtitan.hpp"
#include "formulas/names.hpp"
#include "presets/shell_quoted.hpp"
#include "presets/suggest.hpp"

namespace plan {
namespace {

void read_tokens(JobBuilder& builder, const torchtitan::Degrees& d) {
  Settings& settings = builder.settings;
  constexpr std::string_view kSeq = "training.max_context_length",
                             kMicro = "training.num_tokens_per_microbatch_per_dp_rank",
                             kStep = "training.num_tokens_per_train_step";
  const std::int64_t seq = settings.integer(kSeq).value_or(2048), micro = settings.integer(kMicro).value_or(16384);
  if (seq < 1 || micro < 1) return builder.errors.push_back({"wrong_value", "a batch of no tokens"});
  builder.sequence(seq, kSeq);
  if (micro % seq == 0 && micro / seq <= kMostRanks)
    builder.fix(&Fixed::micro_batch, static_cast<int>(micro / seq), kMicro);
  else
    builder.unmodelled("partial_sequences", fmt::format("{}: {} tokens are no whole number of sequences of {}",
                                                        settings.where(kMicro), micro, seq));
  const int passes = d.pp > 1 ? builder.degree("parallelism.num_pp_microbatches", 1) : 1;
  const std::optional<std::int64_t> step = settings.integer(kStep);
  if (step && *step < 1 && *step != -1) return settings.refuse(*settings.get(kStep), "-1, or tokens of a step");
  if (step && *step > 0)
    builder.global_batch(*step / seq, kStep);
  else if (micro % seq == 0)
    builder.rank_batch(static_cast<int>(micro / seq), passes, kMicro);
  else if (d.dp)
    builder.global_batch(builder.product({micro, passes, *d.dp}) / seq, kMicro);
}

/// Sections of a configuration that say nothing of memory or time.
constexpr std::string_view kSections[] = {"recipe",    "model",        "hf_assets_path", "dump_folder", "profiler",
                                          "profiling", "metrics",      "tokenizer",      "dataloader",  "lr_scheduler",
                                          "comm",      "checkpointer", "validator",      "validation",  "checkpoint"};

/// A function of a module, by its lines.
struct Function {
  std::string name{};
  std::size_t start = 0, end = 0;
  bool recipe = false;  ///< returns a configuration
};

/// Does a function return a configuration, as its head says, or its body where the head says nothing?
bool is_recipe(std::string_view function) {
  const std::size_t end = function.find(":\n"), arrow = function.find("->");
  if (arrow < end) return function.substr(arrow, end - arrow).find("Config") != std::string_view::npos;
  return function.find("Trainer.Config(") != std::string_view::npos ||
         function.find("return config") != std::string_view::npos;
}

std::vector<Function> functions_of(const std::string& text) {
  std::vector<Function> out;
  for (std::size_t at = text.starts_with("def ") ? 0 : text.find("\ndef "); at != std::string::npos;
       at = text.find("\ndef ", at + 1)) {
    const std::size_t start = text[at] == '\n' ? at + 1 : at, open = text.find('(', start);
    const std::size_t line = std::min(text.find('\n', start), text.size());
    if (open == std::string::npos || open > line) continue;
    if (!out.empty()) out.back().end = start;
    out.push_back({text.substr(start + 4, open - start - 4), start, text.size(), false});
  }
  for (Function& one : out) one.recipe = is_recipe(std::string_view(text).substr(one.start, one.end - one.start));
  return out;
}

/// The module with all functions but one left out, at the same lines.
LaunchSource only(const LaunchSource& source, const std::vector<Function>& functions, const std::string& name) {
  LaunchSource out = source;
  for (const Function& function : functions)
    if (function.name != name)
      for (std::size_t i = function.start; i < function.end; ++i)
        if (out.text[i] != '\n') out.text[i] = ' ';
  return out;
}

/// The recipe that was asked for and those of the module that it starts from, the first one first.
std::vector<std::string> chain_of(const LaunchSource& source, const std::vector<Function>& functions,
                                  std::string name) {
  std::vector<std::string> chain;
  while (std::find(chain.begin(), chain.end(), name) == chain.end()) {
    const auto found =
        std::find_if(functions.begin(), functions.end(), [&](const Function& f) { return f.name == name; });
    if (found == functions.end()) break;
    chain.push_back(name);
    const std::string_view body = std::string_view(source.text).substr(found->start, found->end - found->start);
    for (const Function& other : functions)
      for (const char* before : {"= ", "return "})
        if (other.recipe && body.find(before + other.name + "()") != std::string_view::npos) name = other.name;
  }
  std::reverse(chain.begin(), chain.end());
  return chain;
}

/// The file that a module's recipe is imported from: `from torchtitan.models.llama3.config_registry import llama3_8b`.
std::optional<LaunchSource> imported_from(const LaunchSource& source, const std::string& recipe) {
  for (std::size_t at = source.text.find("from "); at != std::string::npos; at = source.text.find("from ", at + 1)) {
    if (at > 0 && source.text[at - 1] != '\n') continue;
    const std::size_t import = source.text.find(" import ", at);
    const std::size_t end = source.text.find_first_of('\n', import == std::string::npos ? at : import);
    if (import == std::string::npos || import > source.text.find('\n', at)) continue;
    const bool open = source.text.compare(import + 8, 1, "(") == 0;
    const std::size_t stop = open ? source.text.find(')', import) : end;
    if (source.text.substr(import, stop - import).find(recipe) == std::string::npos) continue;
    std::string module = source.text.substr(at + 5, import - at - 5);
    std::replace(module.begin(), module.end(), '.', '/');
    return beside(source, module + ".py");
  }
  return std::nullopt;
}

Error pick_one(const LaunchSource& source, const std::vector<Function>& functions) {
  std::string names;
  std::string first;
  for (const Function& function : functions)
    if (function.recipe) names += (names.empty() ? "" : ", ") + function.name, first = function.name;
  const std::string problem =
      source.selector.empty() ? "holds several recipes" : fmt::format("holds no recipe `{}`", source.selector);
  return {"several_recipes",
          fmt::format("{} {}", source.path, problem),
          {fmt::format("they are {}", names)},
          {fmt::format("name one: `--from {}`", shell_quoted(source.path + ":" + first))}};
}

Result<Settings> recipe_settings(const LaunchSource& source) {
  const std::vector<Function> functions = functions_of(source.text);
  const auto recipes = std::count_if(functions.begin(), functions.end(), [](const Function& f) { return f.recipe; });
  if (source.selector.empty() && (functions.size() <= 1 || recipes == 0)) return settings_of_python(source);
  std::string name = source.selector;
  if (name.empty() && recipes == 1)
    name = std::find_if(functions.begin(), functions.end(), [](const Function& f) { return f.recipe; })->name;
  const std::vector<std::string> chain = chain_of(source, functions, name);
  if (chain.empty()) return fail(pick_one(source, functions));
  Settings all;
  for (const std::string& name : chain) {
    Result<Settings> one = settings_of_python(only(source, functions, name));
    if (!one) return one;
    all.append(*one);
  }
  return all;
}

/// Reads a recipe over what a recipe of another module sets, where it starts from one.
Result<Settings> with_base(const LaunchSource& source) {
  Result<Settings> own = recipe_settings(source);
  if (!own) return own;
  const std::optional<std::string> recipe = own->text("recipe");
  if (!recipe || source.text.find("def " + *recipe + "(") != std::string::npos) return own;
  std::optional<LaunchSource> file = imported_from(source, *recipe);
  if (!file) return own;
  file->selector = *recipe;
  Result<Settings> base = recipe_settings(*file);
  if (!base) return base;
  base->append(*own);
  return base;
}

/// A recipe that starts from one that cannot be read says only what it sets itself.
void judge_base(JobBuilder& builder, bool followed) {
  Settings& settings = builder.settings;
  const std::optional<std::string> recipe = settings.text("recipe");
  if (!settings.has_section("training.") && !settings.has_section("parallelism.") && !recipe)
    return builder.errors.push_back({"training_not_understood",
                                     "the recipe sets neither `training` nor `parallelism` in a way that is followed",
                                     {},
                                     {"state the job with `--model`, `--gpus` and `--layout`"}});
  if (!recipe || followed) return;
  for (const char* key : {"training.max_context_length", "training.num_tokens_per_microbatch_per_dp_rank",
                          "parallelism.tensor_parallel_degree", "parallelism.pipeline_parallel_degree",
                          "parallelism.context_parallel_degree", "activation_checkpoint"})
    if (!settings.states(key))
      return builder.unused(
          "recipe", fmt::format("what `{}` sets is in another file: read inside a checkout of torchtitan", *recipe));
}

}  // namespace

Result<LaunchJob> read_torchtitan_main(std::span<const LaunchSource> files, const LaunchFacts& facts) {
  Settings settings;
  for (const LaunchSource& file : files) {
    Result<Settings> one = with_base(file);
    if (!one) return tl::unexpected(one.error());
    settings.append(*one);
  }
  JobBuilder builder(settings, "torchtitan-main", Framework::Torchtitan);
  const std::string recipe = settings.text("recipe").value_or("");
  const bool followed = recipe.empty() || imported_from(files.front(), recipe) ||
                        files.front().text.find("def " + recipe + "(") != std::string::npos;
  judge_base(builder, followed);
  const char* registered = settings.states("model_spec.flavor") ? "model_spec.flavor" : "model_spec.0";
  const std::string flavor = settings.text(registered).value_or("");
  if (flavor.empty())
    builder.note("unknown_model", "the recipe registers no model: name it with `--model`");
  else
    torchtitan::read_model(builder, settings.text("model.name").value_or(""), flavor, registered);
  const torchtitan::Degrees degrees = torchtitan::read_degrees(builder, facts);
  const bool split = degrees.tp > 1 && settings.boolean("parallelism.enable_sequence_parallel").value_or(true);
  builder.fix(&Fixed::sequence_parallel, split, split ? "on" : "off", "parallelism.enable_sequence_parallel");
  if (degrees.cp > 1) builder.fix(&Fixed::cp_kind, CpKind::AllGather, "all-gather", "");
  torchtitan::read_experts(builder, degrees);
  torchtitan::read_pipeline(builder, degrees);
  read_tokens(builder, degrees);
  torchtitan::read_main_switches(builder, degrees);
  for (const Setting& setting : settings.all())
    if (std::find(std::begin(kSections), std::end(kSections),
                  std::string_view(setting.key).substr(0, setting.key.find('.'))) != std::end(kSections))
      settings.get(setting.key);  // data, logging: not the layout's
  torchtitan::tell_main_rest(builder);
  builder.unknown(torchtitan::kMainKeys, "is unknown to torchtitan main, which stops there");
  return builder.finish();
}

bool is_torchtitan_main(const LaunchSource& source) {
  return source.text.find("import") != std::string::npos && source.text.find("torchtitan") != std::string::npos &&
         source.text.find("def ") != std::string::npos &&
         (source.text.find("Config") != std::string::npos || source.text.find("config.") != std::string::npos) &&
         (source.text.find("parallelism") != std::string::npos ||
          source.text.find("Trainer.Config") != std::string::npos);
}

}  // namespace plan
