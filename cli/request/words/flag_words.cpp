// Flags of launchers and frameworks under the names that people know them by, and what `plan` calls the same thing.
// They are not taken: a flag that is nearly right must not be read as one that is. Tested by
// tests/cli/flag_words_test.cpp.
#include "cli/request/words/flag_words.hpp"

#include <fmt/format.h>

#include <utility>

#include "cli/request/words/choice_words.hpp"
#include "cli/request/words/gpu_words.hpp"
#include "cli/request/words/layout_items.hpp"
#include "cli/request/words/layout_spacing.hpp"
#include "cli/request/words/said_flags.hpp"
#include "cli/terminal/numbers.hpp"
#include "cli/terminal/words.hpp"
#include "formulas/words.hpp"
#include "planner/problem/axes.hpp"
#include "presets/suggest.hpp"

namespace plan {
namespace {

/// Words for a flag, without dashes in front, and the flag with, where they are switches, its value.
struct Row {
  std::string_view words, flag, value{};
};
constexpr Row kRows[] = {
    {"global-batch-size global-bs gbs batch batch-size train-batch-size", "--global-batch"},
    {"seq-length seq-len seqlen sequence-length max-seq-length max-seq-len max-length model-max-length "
     "context context-length ctx cutoff-len block-size max-position-embeddings ctx-len context-len n-ctx "
     "max-target-length sequence-len max-len",
     "--seq"},
    {"num-gpus n-gpus ngpus gpu-count devices num-processes world-size ntasks gpu-num num-gpu chips "
     "num-chips num-devices",
     "--gpus"},
    {"gpu-type gpu-kind accelerator accelerator-type device hardware", "--gpu"},
    {"dtype torch-dtype mixed-precision", "--precision"},
    {"bf16", "--precision", "bf16"},
    {"fp16", "--precision", "fp16"},
    {"fp8", "--precision", "fp8"},
    {"optim", "--optimizer"},
    {"model-name model-name-or-path model-path model-size hf-model hf-config model-config "
     "pretrained-model-name-or-path",
     "--model"},
    {"lora use-lora use-peft", "--task", "lora"},
    {"qlora load-in-4bit use-qlora bnb-4bit", "--task", "qlora"},
    {"sft finetune full-finetune", "--task", "finetune"},
    {"peft", "--task"},
    {"lora-r rank lora-dim", "--lora-rank"},
    {"offload", "--offload"},
    {"cpu-offload optimizer-cpu-offload optimizer-offload offload-optimizer offload", "--offload", "optimizer"},
    {"offload-param offload-params offload-parameters fsdp-offload-params param-offload", "--offload", "parameters"},
    {"use-megatron-fsdp", "--layout", "zero3"},
    {"recompute-activations", "--layout", "recompute=selective"},
    {"gradient-checkpointing activation-checkpointing checkpoint-activations", "--layout", "recompute=full"},
    {"no-recompute no-gradient-checkpointing no-activation-checkpointing", "--layout", "recompute=none"},
    {"no-sequence-parallel", "--layout", "sp=off"},
    {"use-distributed-optimizer distributed-optimizer", "--layout", "zero1"},
    {"backend", "--framework"},
    {"train-tokens max-tokens token-budget num-tokens total-tokens dataset-size", "--tokens"},
    {"config config-file cfg yaml script deepspeed deepspeed-config deepspeed-config-file ds-config "
     "fsdp-config accelerate-config",
     "--from"},
    {"gpu-price price-per-hour", "--price"},
    {"markdown", "--format", "markdown"},
    {"html", "--format", "html"},
    {"csv", "--format", "csv"},
    {"overlap-grad-reduce", "--overlap", "grads"},
    {"overlap-param-gather", "--overlap", "grads+params"},
    {"tp-comm-overlap", "--overlap", "grads+params+tp+p2p"},
    {"no-overlap", "--overlap", "none"},
    {"deepep hybridep use-deepep moe-enable-deepep", "--dispatcher", "flex"},
    {"moe-token-dispatcher-type token-dispatcher", "--dispatcher"},
    {"ram host-ram host-mem cpu-memory cpu-mem cpu-ram node-memory system-memory", "--host-memory"},
};

/// How Lightning, PyTorch and Accelerate call what is sharded, and the items that state it.
constexpr std::string_view kStrategy = "strategy";
constexpr std::pair<std::string_view, std::string_view> kStrategies[] = {
    {"fsdp fsdp2 full-shard deepspeed-stage-3 deepspeed-3", "zero3"},
    {"shard-grad-op deepspeed deepspeed-stage-2 deepspeed-2", "zero2"},  // Lightning's `deepspeed` is its second stage
    {"deepspeed-stage-1 deepspeed-1", "zero1"},
    {"no-shard ddp", "zero0"},
    {"hybrid-shard hsdp", "zero3,shard8"},
    {"hybrid-shard-zero2", "zero2,shard8"},
};

/// What stands for an axis in longer names.
struct AxisWords {
  std::string_view words, axis;
};
constexpr AxisWords kAxes[] = {
    {"remat remat-policy recompute-granularity activation-checkpoint-mode", "recompute"},
    {"sharding-strategy fsdp-sharding-strategy strategy", kStrategy},
    {"expert-tensor", "etp"},
    {"virtual-pipeline interleave virtual-stages", "vp"},
    {"sequence", "sp"},
    {"sharded-data", "zero"},
    {"tensor model", "tp"},
    {"context", "cp"},
    {"pipeline pipe", "pp"},
    {"expert", "ep"},
    {"data", "dp"},
    {"ulysses ulysses-sequence", "ulysses"},
    {"micro-batch per-device-train-batch per-device-batch local-batch train-micro-batch-size-per-gpu", "micro-batch"},
    {"pipeline-schedule pp-schedule", "schedule"},
};
/// What follows it there: `--tensor-model-parallel-size`, `--pipeline-parallel-degree`, `--tp-size`, `--zero-stage`.
constexpr auto kEndings = word_list([] {
  return "-model-parallel-size -model-parallel -parallel-size -parallel-degree -parallelism -parallel -size "
         "-degree -stage";
});
constexpr std::string_view kNodes = "nodes nnodes num-nodes n-nodes node-count";
constexpr std::string_view kOfNode =
    "nproc-per-node gpus-per-node num-gpus-per-node n-gpus-per-node ntasks-per-node nproc "
    "num-proc-per-node";
constexpr std::string_view kMachine = "instance instance-type node-type machine machine-type vm-size";
constexpr std::string_view kUsualNode = "8";  // GPUs

bool cut(std::string_view& word, std::string_view ending) {
  if (word.size() <= ending.size() || !word.ends_with(ending)) return false;
  word.remove_suffix(ending.size());
  return true;
}

/// `tensor-model-parallel-size` as `tp`; a name that has no such parts as it is.
std::string_view axis_of(std::string_view word) {
  for (const std::string_view ending : kEndings)
    if (cut(word, ending)) break;
  for (const AxisWords& row : kAxes)
    if (among_words(row.words, word)) return row.axis;
  return word;
}

/// Whether a word is an item is all that is asked of it.
Error no_axis(std::string_view, const std::string&, const std::string&) { return {}; }

/// An item of --layout that its reader takes; nothing if there is none of that axis and value. Lists of layers and of
/// stages are never meant by a number: `--layers 80` is the model's depth.
std::optional<std::string> layout_item(std::string_view axis, std::string_view value) {
  if (axis == "layers" || axis == "stages") return std::nullopt;
  if (axis == kStrategy) {  // by name alone: of the numbers that PyTorch gives them 1 shards all
    for (const auto& [names, item] : kStrategies)
      if (among_words(names, folded(value))) return std::string(item);
    return std::nullopt;
  }
  if (axis == "ulysses" && read_count("", value, 1, kMostRanks)) return ulysses_item(value);
  const bool number = value.find_first_not_of("0123456789") == std::string_view::npos;
  std::string item = fmt::format("{}{}{}", axis, number ? "" : "=", value);
  return read_items(without_blanks(item), no_axis) ? std::optional(std::move(item)) : std::nullopt;
}

}  // namespace

std::optional<MeantFlag> meant_flag(std::string_view name, std::string_view value) {
  const std::string word = folded(name);
  const bool off = turns_off(value);
  for (const Row& row : kRows) {
    if (!among_words(row.words, word) || (row.value.empty() && value.empty())) continue;
    if (row.value.empty()) return MeantFlag{row.flag, std::string(value)};
    if (row.value == "recompute=full" && off) return MeantFlag{row.flag, "recompute=none"};
    if (off) return std::nullopt;
    std::string meant(row.value);
    if (const std::string_view rank = value.substr(value.rfind('=') + 1);
        row.value.ends_with("lora") && read_count("", rank, 2, kMostRanks))
      meant += fmt::format(" --lora-rank {}", rank);
    return MeantFlag{row.flag, std::move(meant)};
  }
  if (!value.empty()) return std::nullopt;
  for (const std::string_view flag : {"--precision", "--optimizer", "--task", "--framework", "--format"})
    if (const Result<std::string> choice = read_choice(flag, word)) return MeantFlag{flag, *choice};
  return std::nullopt;
}

bool turns_off(std::string_view value) { return among_words("false no off 0 none disabled", value); }

bool counts_nodes(std::string_view name) { return among_words(kNodes, folded(name)); }

bool counts_gpus_of_node(std::string_view name) { return among_words(kOfNode, folded(name)); }

bool names_machine(std::string_view name) { return among_words(kMachine, folded(name)); }

std::optional<MeantFlag> meant_machines(std::string_view machine, std::string_view nodes, bool counted) {
  const StoreOptions store = StoreOptions::from_environment();
  const std::string word = nodes.empty() ? std::string(machine) : fmt::format("{}x{}", nodes, machine);
  const std::optional<CountedGpus> gpus = counted_gpus(word, store);
  if (!gpus || gpus->machine.empty()) return std::nullopt;
  return counted ? MeantFlag{"--gpu", gpus->kind} : MeantFlag{"--gpus", fmt::format("{}x{}", gpus->gpus, gpus->kind)};
}

std::optional<MeantFlag> meant_gpus(std::string_view nodes, std::string_view of_node) {
  const Result<std::int64_t> each = read_count("--gpus", of_node.empty() ? kUsualNode : of_node, 1, kMostRanks);
  const Result<std::int64_t> count = each ? read_count("--gpus", nodes, 1, kMostRanks / *each) : each;
  if (!count) return std::nullopt;
  return MeantFlag{"--gpus", std::to_string(*count * *each)};
}

std::vector<std::string> meant_in_words(std::string_view name, std::string_view value) {
  constexpr std::string_view kSharded =
      "fsdp fsdp1 fsdp2 fully-sharded full-shard dp-shard fsdp-shard data-sharding data-parallel-shard";
  const std::string folded_name = folded(name);
  std::string_view word = folded_name;
  for (const std::string_view ending : {"-size", "-degree"})
    if (cut(word, ending)) break;
  if (among_words("batch-tokens tokens-per-batch tokens-per-step global-batch-tokens", folded_name) && !value.empty())
    return {fmt::format("write `--global-batch '{} tokens'`", value)};
  if (value.find(',') != std::string_view::npos && layout_item(axis_of(word), value.substr(0, value.find(','))))
    return {
        fmt::format("a sweep finds the best layout of every point; layouts are compared two by two: `plan compare "
                    "{0}{1} {0}{2}`",
                    axis_of(word), value.substr(0, value.find(',')), value.substr(value.rfind(',') + 1))};
  const bool money = !value.empty() && value.find_first_of("$0123456789") == 0;
  if (word == "budget" && money) return {said_of_flag("cost")};
  const bool number = read_count("", value, 2, kMostRanks).has_value();
  if (word == "hsdp" || word == "hybrid-shard")
    return {fmt::format("sharded inside a node of 8 and copied between nodes is `--layout zero3,shard{}`",
                        number ? value : kUsualNode)};
  if (word == "ddp")
    return {
        fmt::format("copies that share no state are `--layout zero0{}{}`", number ? ",dp" : "", number ? value : "")};
  if (word == "dp-replicate" || word == "data-parallel-replicate")
    return {"copies of shards follow from `dp`, which counts all, and from the ranks of one: `--layout zero3,shard8`"};
  if (axis_of(folded_name) == "sp" && number)  // DeepSpeed's and verl's; Megatron's is a switch
    return {
        fmt::format("ranks that share a sequence by Ulysses are `--layout {}`; Megatron's sequence parallelism is "
                    "on by itself",
                    ulysses_item(value))};
  if (folded_name.starts_with("ici-") || folded_name.starts_with("dcn-"))
    return {
        "an axis counts its ranks inside slices times those between them: `--layout tp8`; FSDP's are "
        "`--layout zero3,shard16`"};
  if (!among_words(kSharded, word)) {
    std::string said = said_of_flag(folded_name);
    return said.empty() ? std::vector<std::string>{} : std::vector{std::move(said)};
  }
  std::vector<std::string> help{"shared by all replicas, as PyTorch's FSDP2 does, too: `--layout zero3`"};
  if (number) help.push_back(fmt::format("shared by {0} ranks each: `--layout zero3,shard{0}`", value));
  return help;
}

std::string ulysses_item(std::string_view ranks) { return fmt::format("cp{},cp-kind=ulysses", ranks); }

std::optional<std::string> meant_axis(std::string_view name, std::string_view value) {
  const std::string word = folded(name);
  const std::string_view axis = axis_of(word);
  return axis == word ? std::nullopt : layout_item(axis, value);
}

std::optional<MeantFlag> meant_flag_or_axis(std::string_view name, std::string_view value) {
  if (std::optional<MeantFlag> flag = meant_flag(name, value)) return flag;
  const std::string word = folded(name);
  if (std::optional<std::string> item = layout_item(axis_of(word), value)) return MeantFlag{"--layout", *item};
  return std::nullopt;
}

}  // namespace plan
