// Shell scripts that start Megatron-LM. Tested by tests/launch/shell_test.cpp.
#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "cli/launch/job/keys.hpp"
#include "cli/launch/megatron/hybrid.hpp"
#include "cli/launch/megatron/llm.hpp"
#include "cli/launch/megatron/megatron.hpp"
#include "cli/launch/scripts/other_hardware.hpp"
#include "cli/settings/settings.hpp"
#include "cli/shell/shell.hpp"
#include "formulas/keep_errors.hpp"
#include "formulas/words.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

/// The programs of Megatron-LM that train a decoder.
bool is_program(std::string_view word) {
  word = base_name(word);
  return word == "pretrain_gpt.py" || word == "pretrain_mamba.py" || word == "pretrain_hybrid.py" ||
         word == "finetune_gpt.py";
}

/// Words of programs that take the same flags and train no decoder, or train nothing.
bool is_other_program(std::string_view path) {
  std::string word{base_name(path)};
  if (const std::size_t gpt = word.find("gpt"); gpt != std::string::npos) word.erase(gpt, 3);  // `gpt5b` is no T5
  constexpr std::string_view kOthers[] = {"bert",    "esm2",      "evo2",    "geneformer", "t5",         "vlm",
                                          "vision",  "ict",       "retro",   "realm",      "multimodal", "llava",
                                          "convert", "inference", "generat", "evaluat",    "preprocess", "server",
                                          "distill", "export",    "prune",   "quantiz",    "doc_index",  "partition"};
  if (!word.ends_with(".py")) return false;
  if (word == "main.py" && path.find("tasks/") != std::string_view::npos) return true;
  return std::any_of(std::begin(kOthers), std::end(kOthers),
                     [&](std::string_view other) { return word.find(other) != std::string::npos; });
}

/// `python -m examples.inference.gpt`: the file that the module is.
std::string file_of_module(std::string module) {
  std::replace(module.begin(), module.end(), '.', '/');
  return module + ".py";
}

/// Whether a program of another name than Megatron-LM's own has flags that say what to train on, or for how long. Those
/// that convert, merge and evaluate take the same flags of model and layout, and none of these.
bool asks_to_train(std::span<const ShellWord> words) {
  constexpr std::string_view kTrains[] = {
      "--train-",      "--lr",        "--min-lr",    "--max-steps",         "--epochs",
      "--num-epochs",  "--num-train", "--max-train", "--global-batch-size", "--data-path",
      "--total-steps", "--optimizer", "--finetune"};
  return std::any_of(words.begin(), words.end(), [&](const ShellWord& word) {
    return word.text.find('$') != std::string::npos ||  // what stays open may say it
           std::any_of(std::begin(kTrains), std::end(kTrains), [&](auto sign) { return word.text.starts_with(sign); });
  });
}

/// `train_my_model.py`, `finetune.py`.
bool is_named_for_training(std::string_view path) {
  const std::string_view word = base_name(path);
  return word.find("train") != std::string_view::npos || word.find("tune") != std::string_view::npos;
}

/// Flags that a job of Megatron-LM's cannot do without, whatever its program is called.
constexpr auto kSigns = word_list([] {
  return "--num-layers --hidden-size --num-attention-heads --micro-batch-size --global-batch-size --seq-length "
         "--tensor-model-parallel-size --pipeline-model-parallel-size --max-position-embeddings --train-iters";
});
constexpr int kEnoughSigns = 4;
/// Of slime's programs, whose flags of the model another program may print.
constexpr std::string_view kSlime = "--actor-num-nodes";
constexpr int kEnoughOfSlime = 2;

/// The sign that a word is, alone or with its value behind a `=`; their number if it is none.
std::size_t sign_of(std::string_view word) {
  if (!word.starts_with("--")) return kSigns.size();
  const std::string_view flag = word.substr(0, word.find('='));
  return static_cast<std::size_t>(std::find(kSigns.begin(), kSigns.end(), flag) - kSigns.begin());
}

bool has_flag_set(const std::vector<ShellWord>& words) {
  std::array<bool, kSigns.size()> seen{};
  bool slime = false;
  for (const ShellWord& word : words) {
    if (const std::size_t sign = sign_of(word.text); sign < kSigns.size()) seen[sign] = true;
    slime |= word.text == kSlime;
  }
  return std::count(seen.begin(), seen.end(), true) >= (slime ? kEnoughOfSlime : kEnoughSigns);
}

/// Where the program is among words that hold Megatron-LM's flags: its name, or the last script of Python's.
std::optional<std::size_t> program_in(const std::vector<ShellWord>& words) {
  for (std::size_t i = 0; i < words.size(); ++i)
    if (is_program(words[i].text)) return i;
  if (!has_flag_set(words)) return std::nullopt;
  std::optional<std::size_t> script;
  for (std::size_t i = 0; i < words.size(); ++i)
    if (words[i].text.ends_with(".py") && (!script || !words[i - 1].text.starts_with("--"))) script = i;
  return script.value_or(0);
}

struct Launch {
  std::string file{};
  ShellCommand command{};
  std::size_t program = 0;         ///< index of the program among the words
  std::optional<Error> refused{};  ///< what its program would not train for
};

/// The launch that a command is, if it is one.
std::optional<Launch> launch_of(const std::string& file, ShellCommand command) {
  if (std::optional<megatron_llm::Command> own = megatron_llm::command_of(command.words, file)) {
    command.words = std::move(own->words);
    return Launch{file, std::move(command), own->program, std::move(own->refused)};
  }
  const std::optional<std::size_t> at = program_in(command.words);
  return at ? std::optional<Launch>({file, std::move(command), *at, {}}) : std::nullopt;
}

std::vector<Launch> launches_in(const LaunchSource& source, std::vector<Note>& notes) {
  std::vector<Launch> out;
  const Script& script = follow_script(source);
  std::size_t last = script.commands.size();
  for (std::size_t i = 0; i < script.commands.size(); ++i)
    if (std::optional<Launch> launch = launch_of(source.path, script.commands[i])) {
      out.push_back(std::move(*launch));
      last = i;
    }
  const std::vector<Note> own = script.notes_before(last);
  notes.insert(notes.end(), own.begin(), own.end());
  return out;
}

/// What a launch's flags say of its size, as one text: those of two looks at one launch are the same.
std::string job_of(const Launch& launch) {
  std::string out;
  const std::vector<ShellWord>& words = launch.command.words;
  for (std::size_t i = launch.program; i < words.size(); ++i)
    if (const std::size_t sign = sign_of(words[i].text); sign < kSigns.size() && kSigns[sign] != "--train-iters") {
      if (words[i].text.size() > kSigns[sign].size())
        out += words[i].text + " ";
      else if (i + 1 < words.size())
        out += fmt::format("{}={} ", kSigns[sign], words[i + 1].text);
    }
  return out;
}

/// `srun bash -c 'torchrun ... "$@"' pretrain_gpt.py ...` shows one launch twice, and the innermost counts; launches
/// that differ are several jobs.
std::optional<Error> several_jobs(const std::vector<Launch>& launches) {
  for (const Launch& launch : launches)
    if (job_of(launch) != job_of(launches.back()))
      return several_trainings(launch.file,
                               fmt::format("{}:{}", launches.back().file, launches.back().command.words.front().line));
  return std::nullopt;
}

/// Variables that the script sets or exports, with their lines where known.
void take_environment(const Launch& launch, const LaunchSource& source, MegatronArgs& args) {
  for (const auto& [name, value] : launch.command.environment) args.environment[name] = {{value}, source.path};
  for (const auto& [name, word] : follow_script(source).exported)
    args.environment[name] = {{word.text}, fmt::format("{}:{}", source.path, word.line)};
}

}  // namespace

bool is_megatron_script(const LaunchSource& source) {
  for (const std::string_view program :
       {"pretrain_gpt.py", "pretrain_mamba.py", "pretrain_hybrid.py", "finetune_gpt.py"})
    if (mentions(source, program)) return true;
  if (megatron_llm::is_script(source)) return true;
  if (mentions(source, "pretrain_gpt2.py") && mentions(source, "--num-layers")) return true;  // the first releases'
  return is_shell(source) &&
         (mentions(source, "--micro-batch-size") || mentions(source, "--tensor-model-parallel-size") ||
          mentions(source, "--pipeline-model-parallel-size")) &&
         !mentions(source, "--tensor_model_parallel_size") && !mentions(source, "vllm serve");
}

namespace {

/// Hygon's fork hands the number of ranks to each, slime says in its own flags how many GPUs train.
LaunchFacts with_ranks(LaunchFacts facts, const MegatronArgs& args) {
  const std::string ranks = args.text("world-size");
  const bool number = !ranks.empty() && ranks.find_first_not_of("0123456789") == std::string::npos;
  if (facts.gpus() == 0 && number)
    if (const std::int64_t all = args.integer("world-size", 0); all > 0 && all <= kMostGpus)
      facts.ranks = static_cast<int>(all), facts.gpus_where = args.where("world-size");
  const std::int64_t nodes = args.integer("actor-num-nodes", 0), each = args.integer("actor-num-gpus-per-node", 0);
  if (facts.total > 0 || nodes < 1 || each < 1 || nodes > 1 << 16 || each > 1 << 10) return facts;
  facts.nodes = static_cast<int>(nodes), facts.gpus_per_node = static_cast<int>(each);
  facts.gpus_where = args.where("actor-num-nodes");
  return facts;
}

/// DeepSpeed's file states batches of its own, of which the engine stops at some that differ: the flags' are counted.
void tell_other_batches(Settings& keys, MegatronArgs& args) {
  for (const auto& [key, flag] : {std::pair{"train_batch_size", "global-batch-size"},
                                  std::pair{"train_micro_batch_size_per_gpu", "micro-batch-size"}})
    if (const std::optional<std::int64_t> own = keys.integer(key);
        own && args.has(flag) && *own != args.integer(flag, *own))
      args.unused.push_back({"not_used", fmt::format("{}: `{}` is {}, and `--{}` is {}, which counts", keys.where(key),
                                                     key, *own, flag, args.text(flag))});
}

/// `--deepspeed_config FILE` holds ZeRO's stage where no flag does.
void follow_deepspeed(const LaunchSource& source, MegatronArgs& args) {
  const char* flag = args.has("deepspeed_config") ? "deepspeed_config" : "deepspeed-config";
  if (!args.has(flag)) return;
  const bool staged = args.has("zero-stage");
  if (const std::optional<LaunchSource> file = beside(source, args.text(flag)))
    if (Result<Settings> keys = settings_of_json(*file)) {
      const std::optional<std::int64_t> stage = keys->integer("zero_optimization.stage");
      if (!staged)
        args.given["zero-stage"] = {{fmt::format("{}", stage.value_or(0))}, keys->where("zero_optimization.stage")};
      return tell_other_batches(*keys, args);
    }
  if (!staged)
    args.unused.push_back({"not_used", fmt::format("{}: ZeRO's stage may stand in `{}`, which is not beside the script",
                                                   args.where(flag), args.text(flag))});
}

Error not_a_decoder(const LaunchSource& source, const ShellWord& program) {
  return {"not_a_decoder",
          fmt::format("{}:{}: `{}` trains no decoder of the kind that plan models", source.path, program.line,
                      program.text),
          {},
          {}};
}

Error trains_nothing(const LaunchSource& source, const ShellWord& program) {
  return {
      "not_a_training",
      fmt::format("{}:{}: `{}` is given layers, and neither data, batch, steps nor learning rate: it trains nothing",
                  source.path, program.line, program.text),
      {},
      {"give the script that trains, or state the job with `--model`, `--gpus` and `--layout`"}};
}

/// slime and miles train without Megatron-LM, too: the flags of the model are then none of the trained one's.
Error other_backend(const std::string& where, const std::string& backend) {
  return {"other_backend",
          fmt::format("{}: `--train-backend {}` trains without Megatron-LM, in a way that plan does not read", where,
                      yaml::printable(backend)),
          {},
          {"state the job with `--model`, `--gpus`, `--seq`, `--global-batch` and `--layout`: FSDP2 is `zero3`"}};
}

Result<LaunchJob> read_launch(const LaunchSource& source, const Launch& launch, const LaunchFacts& facts,
                              std::vector<Note>& notes) {
  if (launch.refused) return fail(*launch.refused);
  Errors errors;
  const std::vector<ShellWord>& all = launch.command.words;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (is_other_program(i > 0 && all[i - 1].text == "-m" ? file_of_module(all[i].text) : all[i].text))
      return fail(not_a_decoder(source, all[i]));
  const bool plain = is_program(all[launch.program].text);
  const std::span words = std::span(all).subspan(plain || launch.program > 0 ? launch.program + 1 : 0);
  if (!plain && !is_named_for_training(all[launch.program].text) && !asks_to_train(words))
    return fail(trains_nothing(source, all[launch.program]));
  const auto flags =
      std::count_if(words.begin(), words.end(), [](const ShellWord& w) { return w.text.starts_with("--"); });
  if (std::optional<Error> error = too_many("flags", static_cast<std::size_t>(flags), source.path))
    return fail(std::move(*error));
  MegatronArgs args = read_megatron_words(words, source.path, errors, notes, !plain || for_ascend(source));
  // A program of its own for such layers: without flags of them all are Mamba.
  const std::string_view program = base_name(all[launch.program].text);
  if ((program == "pretrain_mamba.py" || program == "pretrain_hybrid.py") && megatron::hybrid_flag(args) == nullptr)
    args.given["is-hybrid-model"] = {{}, fmt::format("{}:{}", source.path, all[launch.program].line)};
  if (args.has("yaml-cfg")) {
    if (const std::optional<LaunchSource> file = beside(source, args.text("yaml-cfg")))
      return read_yaml_arguments(*file, facts);
    return fail({"missing_file", fmt::format("{}: all arguments stand in `{}`, which is not beside the script",
                                             args.where("yaml-cfg"), args.text("yaml-cfg"))});
  }
  if (const std::string backend = args.text("train-backend"); args.has("train-backend") && backend != "megatron")
    return fail(other_backend(args.where("train-backend"), backend));
  take_environment(launch, source, args);
  follow_deepspeed(source, args);
  settle_forks(args);
  Result<LaunchJob> job = megatron_job(args, with_ranks(facts, args));
  keep_errors(errors, job);
  if (!errors.empty()) return fail(std::move(errors));
  return job;
}

}  // namespace

Result<LaunchJob> read_megatron_scripts(std::span<const LaunchSource> files, const LaunchFacts& facts) {
  std::vector<Note> notes;
  for (const LaunchSource& source : files) {
    const std::vector<Launch> launches = launches_in(source, notes);
    if (launches.empty()) continue;
    if (std::optional<Error> error = several_jobs(launches)) return fail(std::move(*error));
    const Launch& launch = launches.back();
    Result<LaunchJob> job = read_launch(source, launch, facts, notes);
    if (!job) return job;
    job->notes.insert(job->notes.begin(), notes.begin(), notes.end());
    const std::string command = fmt::format("{}:{}", source.path, launch.command.words.front().line);
    for (const Input& input : job->inputs)
      if (input.origin == Origin::Default) job->homes[input.key] = command;
    return job;
  }
  return fail({"no_launch",
               fmt::format("{}: no command that starts Megatron-LM was found", files.front().path),
               {},
               {"record what it starts with `plan capture -o job.json -- bash SCRIPT` and read that"}});
}

}  // namespace plan
