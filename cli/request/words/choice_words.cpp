// Words of other tools for the choices of a flag: those that mean one of them, and those that mean none, with what a
// person who writes them looks for. Tested by tests/cli/choice_words_test.cpp.
#include "cli/request/words/choice_words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "cli/request/table/option_table.hpp"
#include "cli/terminal/words.hpp"
#include "planner/rules/frameworks.hpp"
#include "presets/suggest.hpp"

namespace plan {
namespace {

/// What others call the same thing, in small letters with hyphens and blanks between: Lightning's, LLaMA-Factory's and
/// ms-swift's words, MaxText's, those of the Hugging Face trainer and of NeMo's recipes (fp8 by current, delayed,
/// sub-channel and microscaling).
struct Alias {
  std::string_view flag, words, meant;
};
constexpr Alias kAliases[] = {
    {"--task",
     "sft full full-finetune full-finetuning finetuning fine-tune fine-tuning full-parameter "
     "instruction-tuning",
     "finetune"},
    {"--task",
     "pretraining pre-train cpt pt continual-pretraining continued-pretrain train from-scratch "
     "continued-pretraining",
     "pretrain"},
    {"--precision", "half 16-mixed", "fp16"},
    {"--precision", "fp8-current fp8-tensorwise fp8-cs fp8-current-scaling", "fp8"},
    {"--precision", "fp8-ds fp8-delayed-scaling", "fp8-delayed"},
    {"--precision", "fp8-sc fp8-subchannel-scaling fp8-block fp8-block-scaling", "fp8-blockwise"},
    {"--precision", "fp8-mx", "mxfp8"},
    {"--precision", "single 32-true 32", "fp32"},
    {"--optimizer",
     "adamw adamw-torch adamw-torch-fused fused-adam fusedadam distributedfusedadam "
     "distributed-fused-adam adamw-hf adamw-apex-fused adamw-anyprecision adamw-fused fused-adamw "
     "torch-adam adam-pax",
     "adam"},
    {"--optimizer", "adamw8bit adamw-8bit adam-8bit adamw-bnb-8bit adamw-torch-8bit", "adam8bit"},
    {"--optimizer", "momentum sgdm", "sgd-momentum"},
    {"--optimizer", "dist-muon", "muon"},
    {"--dispatcher", "all-to-all", "alltoall"},
    {"--format", "md", "markdown"},
    {"--objective", "throughput speed step-time", "time"},
    {"--objective", "price", "cost"},
};

/// Words that name no choice, and what a person who writes them looks for.
struct Hint {
  std::string_view flag, words, help;
};
constexpr std::string_view kFsdp =
    "PyTorch's FSDP is run by `torchtitan` and `accelerate`, the sharding is `--layout zero3`";
constexpr std::string_view kSharding =
    "how states are sharded is `zero0` (as DDP) to `zero3` in `--layout`; what runs it is another word";
constexpr std::string_view kHuggingFace = "its trainers run on `accelerate` or `deepspeed`";
constexpr std::string_view kRlhf =
    "`finetune` prices the training of one model; what generates and judges is not counted";
constexpr std::string_view kAroundMegatron =
    "write `--framework megatron`, which trains for it; `plan emit` has files of its own";
constexpr std::string_view kFp8 =
    "8 bits come as fp8-delayed, fp8, fp8-blockwise and mxfp8, by how they are scaled: `fp8` by the current maximum";
constexpr std::string_view kPure16 =
    "`bf16` and `fp16` have fp32 states beside weights of 16 bits; jobs without them are read from their own files: "
    "`--from`";
constexpr std::string_view kFrozen = "frozen weights are held in 16 bits by `--task lora`, in 4 by `--task qlora`";
constexpr std::string_view kPaged = "`adam` has its states; what is paged to the host is not counted";
constexpr std::string_view kOneMoment = "`sgd-momentum` has the same states: one moment";
constexpr std::string_view kTwoMoments = "`adam` has the same states: two moments";
constexpr std::string_view kOnTheHost = "Adam whose states lie on the host is `--optimizer adam --offload optimizer`";
constexpr std::string_view kLightning = "what shards there decides: PyTorch's FSDP as `accelerate`, or `deepspeed`";
constexpr std::string_view kStarts = "it starts processes; what they run decides: `megatron`, `torchtitan`, ...";
constexpr std::string_view kPeft = "which one decides what is held: `lora`, or `qlora` with frozen weights of 4 bits";
constexpr std::string_view kReadAlone =
    "its jobs are read by `--from`; what else is planned for it is `--framework any`";
constexpr Hint kHints[] = {
    {"--precision", "bf16-true 16-true fp16-true pure-bf16", kPure16},
    {"--precision", "16", "16 bits are `bf16` or `fp16`: Lightning's `16` is `fp16`"},
    {"--precision", "no", "Accelerate's `no` multiplies in 32 bits: write `--precision fp32`"},
    {"--precision", "fp8-hybrid float8-e4m3fn transformer-engine te 8 8bit bf8 e4m3 fp8e4m3 hybrid", kFp8},
    {"--precision", "int4 nf4 4bit 4 bnb", kFrozen},
    {"--precision", "auto", "leave it out: bf16, or fp16 on GPUs that have none"},
    {"--precision", "amp mixed", "bf16 weights beside an fp32 copy: `bf16`, which is the default"},
    {"--precision", "tf32", "`fp32` is priced on the vector units; matrix units start at 16 bits here"},
    {"--precision", "fp4", "write `nvfp4`"},
    {"--precision", "mxfp4", "4 bits are trained in as `nvfp4`"},
    {"--precision", "int8", "`fp8` is the format of 8 bits that is trained in"},
    {"--optimizer", "paged-adamw-32bit paged-adamw", kPaged},
    {"--optimizer", "lion-8bit", "`adam8bit` has two such moments, one more"},
    {"--optimizer", "lion-32bit rmsprop adagrad lars lion", kOneMoment},
    {"--optimizer", "signsgd", "`sgd` has the same states: none"},
    {"--optimizer", "lamb sophia radam nadam schedulefree adamw-schedulefree schedule-free", kTwoMoments},
    {"--optimizer", "adam-mini", "`sgd-momentum` has nearly its states: one moment, and one number for each block"},
    {"--optimizer", "muonclip moonlight-muon", "write `--optimizer muon`: the clipped scores add no states"},
    {"--optimizer", "came", "`adafactor` is next, with one moment less"},
    {"--optimizer", "prodigy", "`adam` is next, with two states less, of four"},
    {"--optimizer", "adan ademamix", "`adam` has one moment less, of three"},
    {"--optimizer", "cpuadam cpu-adam deepspeedcpuadam hybrid-adam", kOnTheHost},
    {"--optimizer", "1bit-adam onebitadam", "`adam` has the same states; what it sends is not compressed"},
    {"--optimizer", "shampoo soap distributed-shampoo kron psgd",
     "its matrices are not priced: `muon` is the one that works on whole matrices"},
    {"--optimizer", "galore apollo", "states of low rank are not priced: `adam` is what they are made smaller from"},
    {"--optimizer", "paged-adamw-8bit", "`adam8bit` has its states; what is paged to the host is not counted"},
    {"--task", "peft adapter adapters", kPeft},
    {"--task", "dora", "`lora` is next: the magnitudes that DoRA adds are a vector a matrix, and are not counted"},
    {"--task", "rslora", "write `--task lora`: it scales the same matrices"},
    {"--task", "loraplus", "write `--task lora`: it trains the same matrices"},
    {"--task", "freeze", "layers that stand still are not priced: `finetune` trains all, `lora` adapters"},
    {"--task", "orpo simpo", "`finetune` or `lora` price the model that is trained, each of a pair as a sequence"},
    {"--task", "kto dpo", "`finetune` or `lora` price the model that is trained; the reference model is not counted"},
    {"--task", "reward rm", "a reward model trains as its base does: write `--task finetune`"},
    {"--task", "distillation distill", "`finetune` prices the student; the teacher is not counted"},
    {"--task", "inference", "training alone is priced"},
    {"--task", "rl rlhf gspo dapo grpo ppo", kRlhf},
    {"--framework", "lightning pytorch-lightning fabric litgpt", kLightning},
    {"--framework", "torchrun slurm mpi ray", kStarts},
    {"--framework", "colossalai nanotron internevo", kReadAlone},
    {"--framework", "megatron-fsdp", "write `--framework megatron` and `zero3` in `--layout`"},
    {"--framework", "ddp zero zero1 zero2 zero3 fairscale", kSharding},
    {"--framework", "levanter", "write `--framework maxtext`, which shards the same way on JAX"},
    {"--framework", "prime-rl xtuner veomni olmo olmo-core lingua nanochat nanogpt llm-foundry composer torchforge",
     kFsdp},
    {"--framework", "neox gpt-neox megatron-deepspeed", "`megatron` or `deepspeed`: what shards the optimizer"},
    {"--framework", "slime roll verl nemo-rl areal flagscale mindspeed nemo2 miles", kAroundMegatron},
    {"--framework", "openrlhf", "write `--framework deepspeed`, which trains for it"},
    {"--framework", "skyrl", "it trains with `megatron` or PyTorch's FSDP, which is `accelerate`"},
    {"--framework", "torchtune", "PyTorch's FSDP is run by `torchtitan` and `accelerate`; `plan emit` has its files"},
    {"--framework", "tensorflow paddle paddlepaddle mindspore neuronx",
     "write `--framework none` for what no framework limits"},
    {"--framework", "sglang vllm", "it generates; training alone is priced"},
    {"--framework", "primus", "it trains with `megatron` or `torchtitan`"},
    {"--framework", "jax", "write `--framework maxtext`"},
    {"--framework", "unsloth hf huggingface transformers trl trainer axolotl llama-factory ms-swift swift",
     kHuggingFace},
    {"--framework", "fsdp fsdp2 pytorch torch", kFsdp},
    {"--dispatcher", "deepep hybridep", "write `--dispatcher flex`"},
    {"--dispatcher", "allgather",
     "Megatron's experts with every token on every rank are not priced: `alltoall` is next"},
    {"--objective", "tokens token tokens/s tok/s tps tokens-per-second fast fastest latency duration",
     "the most tokens a second are the shortest step: `--objective time`"},
    {"--objective", "mem vram hbm ram", "write `--objective memory`"},
    {"--objective", "money usd dollars dollar cheap cheapest tokens/usd budget", "write `--objective cost`"},
    {"--objective", "mfu", "the highest MFU is the shortest step: `--objective time`"},
    {"--format", "github-actions", "write `--format github`"},
};

/// Hyphens do not count: `llamafactory` is LLaMA-Factory, `adammini` Adam-mini.
std::string without_hyphens(std::string_view word) {
  std::string out(word);
  std::erase(out, '-');
  return out;
}

template <class Row, std::size_t N>
const Row* row_of(const Row (&table)[N], std::string_view flag, std::string_view word) {
  const std::string plain = without_hyphens(word);
  const auto* row = std::find_if(std::begin(table), std::end(table), [&](const Row& r) {
    return r.flag == flag && among_words(without_hyphens(r.words), plain);
  });
  return row == std::end(table) ? nullptr : row;
}

/// A class of an optimizer without its package: `torch.optim.AdamW`, `deepspeed.ops.adam.FusedAdam`.
std::string_view class_of(std::string_view flag, std::string_view word) {
  return flag == "--optimizer" ? word.substr(word.rfind('.') + 1) : word;
}

/// A number format without what libraries write around it: `torch.bfloat16`, `jnp.bfloat16`, `bf16-mixed` and
/// `bf16-with-mxfp8-mixed` are bf16, bf16, bf16 and mxfp8.
std::string bare_format(std::string word) {
  for (const std::string_view library : {"torch.", "jax.numpy.", "jnp.", "np.", "tf.", "dtype."})
    if (word.starts_with(library)) word.erase(0, library.size());
  for (const std::string_view whole : {"bf16-with-", "fp16-with-"})  // the format of the products is what is asked for
    if (word.starts_with(whole)) word.erase(0, whole.size());
  for (const std::string_view ending : {"-mixed", "-amp"})
    if (word.ends_with(ending)) word.erase(word.size() - ending.size());
  if (word.starts_with("bfloat")) word.replace(0, 6, "bf");
  if (word.starts_with("float")) word.replace(0, 5, "fp");
  return word;
}

}  // namespace

std::string hint_for(std::string_view flag, std::string_view word) {
  const Hint* hint = row_of(kHints, flag, class_of(flag, folded(word)));
  return hint != nullptr ? std::string(hint->help) : std::string();
}

std::string usual_choice(std::string_view flag, std::string_view word) {
  std::string known(class_of(flag, folded(word)));
  if (const Alias* alias = row_of(kAliases, flag, known)) return std::string(alias->meant);
  if (flag != "--precision") return known;
  std::string bare = bare_format(known);
  const Alias* alias = row_of(kAliases, flag, bare);
  return alias != nullptr ? std::string(alias->meant) : bare;
}

namespace {

Error unknown_choice(const Option& option, const std::string& word, const std::vector<std::string>& choices) {
  const std::string noun(option.flag.substr(2));
  Error error{"unknown_" + noun, fmt::format("unknown {} `{}`", noun, word), {}, {}};
  if (std::string hint = hint_for(option.flag, word); !hint.empty())
    error.help.push_back(std::move(hint));
  else
    suggest(error, word, choices);
  error.help.push_back(fmt::format("`{}` takes {}", option.flag, fmt::join(choices, ", ")));
  return error;
}

}  // namespace

Result<std::string> read_choice(std::string_view flag, std::string_view word) {
  const Option* option = find_option(flag);
  if (option == nullptr || option->words == nullptr) return std::string(word);
  const std::vector<std::string> choices = option->words();
  if (std::find(choices.begin(), choices.end(), word) != choices.end()) return std::string(word);
  const std::string known = usual_choice(flag, word);
  if (flag == "--framework")
    if (const auto framework = framework_called(known)) return std::string(framework_row(*framework).name);
  if (std::find(choices.begin(), choices.end(), known) == choices.end())
    return fail(unknown_choice(*option, std::string(word), choices));
  return known;
}

}  // namespace plan
