// Words of other tools for the choices of a flag: those that mean one of them, and those that mean none, with what a
// person who writes them looks for. Tested by tests/cli/choice_words_test.cpp.
#include "cli/request/choice_words.hpp"

#include <algorithm>
#include <string>

#include "cli/request/flag_words.hpp"

namespace plan {
namespace {

/// What others call the same thing, in small letters with hyphens.
struct Alias {
  std::string_view flag, word, meant;
};
constexpr Alias kAliases[] = {
    {"--task", "sft", "finetune"},
    {"--task", "full", "finetune"},
    {"--task", "full-finetune", "finetune"},
    {"--task", "full-finetuning", "finetune"},
    {"--task", "finetuning", "finetune"},
    {"--task", "fine-tune", "finetune"},
    {"--task", "fine-tuning", "finetune"},
    {"--task", "pretraining", "pretrain"},
    {"--task", "pre-train", "pretrain"},
    {"--task", "cpt", "pretrain"},
    {"--task", "pt", "pretrain"},  // LLaMA-Factory's and ms-swift's
    {"--task", "continual-pretraining", "pretrain"},
    {"--task", "continued-pretrain", "pretrain"},
    {"--task", "train", "pretrain"},
    {"--task", "from-scratch", "pretrain"},
    {"--task", "full-parameter", "finetune"},
    {"--precision", "half", "fp16"},
    {"--precision", "16-mixed", "fp16"},
    {"--precision", "fp8-current", "fp8"},
    {"--precision", "fp8-tensorwise", "fp8"},
    {"--precision", "fp8-cs", "fp8"},  // NeMo's words: current, delayed, sub-channel and microscaling
    {"--precision", "fp8-ds", "fp8-delayed"},
    {"--precision", "fp8-sc", "fp8-blockwise"},
    {"--precision", "fp8-mx", "mxfp8"},
    {"--precision", "fp8-delayed-scaling", "fp8-delayed"},  // Megatron-Bridge's recipes, without `bf16-with`
    {"--precision", "fp8-current-scaling", "fp8"},
    {"--precision", "fp8-subchannel-scaling", "fp8-blockwise"},
    {"--precision", "fp8-block", "fp8-blockwise"},
    {"--precision", "fp8-block-scaling", "fp8-blockwise"},
    {"--precision", "single", "fp32"},
    {"--precision", "32-true", "fp32"},  // Lightning's words
    {"--precision", "32", "fp32"},
    {"--optimizer", "adamw", "adam"},
    {"--optimizer", "adamw8bit", "adam8bit"},
    {"--optimizer", "adamw-8bit", "adam8bit"},
    {"--optimizer", "adam-8bit", "adam8bit"},
    {"--optimizer", "adamw-bnb-8bit", "adam8bit"},  // the Hugging Face trainer's words
    {"--optimizer", "adamw-torch", "adam"},
    {"--optimizer", "adamw-torch-fused", "adam"},
    {"--optimizer", "fused-adam", "adam"},
    {"--optimizer", "fusedadam", "adam"},
    {"--optimizer", "distributedfusedadam", "adam"},
    {"--optimizer", "distributed-fused-adam", "adam"},
    {"--optimizer", "adamw-hf", "adam"},
    {"--optimizer", "adamw-apex-fused", "adam"},
    {"--optimizer", "adamw-anyprecision", "adam"},
    {"--optimizer", "adamw-fused", "adam"},
    {"--optimizer", "fused-adamw", "adam"},
    {"--optimizer", "torch-adam", "adam"},
    {"--optimizer", "adam-pax", "adam"},  // MaxText's
    {"--optimizer", "adamw-torch-8bit", "adam8bit"},
    {"--optimizer", "momentum", "sgd-momentum"},
    {"--optimizer", "dist-muon", "muon"},
    {"--optimizer", "sgdm", "sgd-momentum"},
    {"--task", "continued-pretraining", "pretrain"},
    {"--task", "instruction-tuning", "finetune"},
    {"--dispatcher", "all-to-all", "alltoall"},
    {"--format", "md", "markdown"},
    {"--objective", "throughput", "time"},  // the same layout is first by each
    {"--objective", "speed", "time"},
    {"--objective", "step-time", "time"},
    {"--objective", "price", "cost"},
};

/// Words that name no choice, and what a person who writes them looks for.
struct Hint {
  std::string_view flag, word, help;
};
constexpr std::string_view kFsdp =
    "PyTorch's FSDP is run by `torchtitan` and `accelerate`, the sharding is `--layout zero3`";
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
    {"--precision", "bf16-true", kPure16},
    {"--precision", "16-true", kPure16},
    {"--precision", "fp16-true", kPure16},
    {"--precision", "pure-bf16", kPure16},
    {"--precision", "16", "16 bits are `bf16` or `fp16`: Lightning's `16` is `fp16`"},
    {"--precision", "no", "Accelerate's `no` multiplies in 32 bits: write `--precision fp32`"},
    {"--precision", "fp8-hybrid", kFp8},
    {"--precision", "float8-e4m3fn", kFp8},
    {"--precision", "transformer-engine", kFp8},
    {"--precision", "te", kFp8},
    {"--precision", "8", kFp8},
    {"--precision", "8bit", kFp8},
    {"--precision", "bf8", kFp8},
    {"--precision", "int4", kFrozen},
    {"--precision", "nf4", kFrozen},
    {"--precision", "4bit", kFrozen},
    {"--precision", "4", kFrozen},
    {"--precision", "bnb", kFrozen},
    {"--precision", "auto", "leave it out: bf16, or fp16 on GPUs that have none"},
    {"--optimizer", "paged-adamw-32bit", kPaged},
    {"--optimizer", "paged-adamw", kPaged},
    {"--optimizer", "lion-8bit", "`adam8bit` has two such moments, one more"},
    {"--optimizer", "lion-32bit", kOneMoment},
    {"--optimizer", "signsgd", "`sgd` has the same states: none"},
    {"--optimizer", "rmsprop", kOneMoment},
    {"--optimizer", "adagrad", kOneMoment},
    {"--optimizer", "lamb", kTwoMoments},
    {"--optimizer", "sophia", kTwoMoments},
    {"--optimizer", "radam", kTwoMoments},
    {"--optimizer", "nadam", kTwoMoments},
    {"--optimizer", "adan", "`adam` has one moment less, of three"},
    {"--optimizer", "ademamix", "`adam` has one moment less, of three"},
    {"--optimizer", "cpuadam", kOnTheHost},
    {"--optimizer", "cpu-adam", kOnTheHost},
    {"--optimizer", "deepspeedcpuadam", kOnTheHost},
    {"--optimizer", "hybrid-adam", kOnTheHost},
    {"--optimizer", "1bit-adam", "`adam` has the same states; what it sends is not compressed"},
    {"--optimizer", "onebitadam", "`adam` has the same states; what it sends is not compressed"},
    {"--optimizer", "lars", kOneMoment},
    {"--optimizer", "shampoo", "its matrices are not priced: `muon` is the one that works on whole matrices"},
    {"--optimizer", "soap", "its matrices are not priced: `muon` is the one that works on whole matrices"},
    {"--optimizer", "galore", "states of low rank are not priced: `adam` is what they are made smaller from"},
    {"--optimizer", "apollo", "states of low rank are not priced: `adam` is what they are made smaller from"},
    {"--task", "peft", kPeft},
    {"--task", "adapter", kPeft},
    {"--task", "adapters", kPeft},
    {"--task", "dora", "`lora` is next: the magnitudes that DoRA adds are a vector a matrix, and are not counted"},
    {"--task", "rslora", "write `--task lora`: it scales the same matrices"},
    {"--task", "loraplus", "write `--task lora`: it trains the same matrices"},
    {"--task", "freeze", "layers that stand still are not priced: `finetune` trains all, `lora` adapters"},
    {"--task", "orpo", "`finetune` or `lora` price the model that is trained, each of a pair as a sequence"},
    {"--task", "simpo", "`finetune` or `lora` price the model that is trained, each of a pair as a sequence"},
    {"--task", "kto", "`finetune` or `lora` price the model that is trained; the reference model is not counted"},
    {"--task", "reward", "a reward model trains as its base does: write `--task finetune`"},
    {"--task", "rm", "a reward model trains as its base does: write `--task finetune`"},
    {"--task", "distillation", "`finetune` prices the student; the teacher is not counted"},
    {"--task", "distill", "`finetune` prices the student; the teacher is not counted"},
    {"--task", "inference", "training alone is priced"},
    {"--framework", "lightning", kLightning},
    {"--framework", "pytorch-lightning", kLightning},
    {"--framework", "fabric", kLightning},
    {"--framework", "torchrun", kStarts},
    {"--framework", "slurm", kStarts},
    {"--framework", "mpi", kStarts},
    {"--framework", "ray", kStarts},
    {"--framework", "colossalai", kReadAlone},
    {"--framework", "nanotron", kReadAlone},
    {"--framework", "neox", "`megatron` or `deepspeed`: what shards the optimizer"},
    {"--framework", "gpt-neox", "`megatron` or `deepspeed`: what shards the optimizer"},
    {"--framework", "slime", kAroundMegatron},
    {"--framework", "roll", kAroundMegatron},
    {"--framework", "openrlhf", "write `--framework deepspeed`, which trains for it"},
    {"--framework", "skyrl", "it trains with `megatron` or PyTorch's FSDP, which is `accelerate`"},
    {"--framework", "litgpt", kLightning},
    {"--framework", "torchtune", "PyTorch's FSDP is run by `torchtitan` and `accelerate`; `plan emit` has its files"},
    {"--framework", "tensorflow", "write `--framework none` for what no framework limits"},
    {"--framework", "sglang", "it generates; training alone is priced"},
    {"--framework", "verl", kAroundMegatron},
    {"--framework", "nemo-rl", kAroundMegatron},
    {"--framework", "primus", "it trains with `megatron` or `torchtitan`"},
    {"--optimizer", "paged-adamw-8bit", "`adam8bit` has its states; what is paged to the host is not counted"},
    {"--framework", "jax", "write `--framework maxtext`"},
    {"--framework", "unsloth", kHuggingFace},
    {"--framework", "vllm", "it generates; training alone is priced"},
    {"--framework", "megatron-deepspeed", "`megatron` or `deepspeed`: what shards the optimizer"},
    {"--precision", "e4m3", kFp8},
    {"--precision", "fp8e4m3", kFp8},
    {"--precision", "hybrid", kFp8},
    {"--precision", "amp", "bf16 weights beside an fp32 copy: `bf16`, which is the default"},
    {"--dispatcher", "deepep", "write `--dispatcher flex`"},
    {"--dispatcher", "hybridep", "write `--dispatcher flex`"},
    {"--dispatcher", "allgather",
     "Megatron's experts with every token on every rank are not priced: `alltoall` is next"},
    {"--objective", "mfu", "the highest MFU is the shortest step: `--objective time`"},
    {"--format", "github-actions", "write `--format github`"},
    {"--framework", "fsdp", kFsdp},
    {"--framework", "fsdp2", kFsdp},
    {"--framework", "pytorch", kFsdp},
    {"--framework", "torch", kFsdp},
    {"--framework", "hf", kHuggingFace},
    {"--framework", "huggingface", kHuggingFace},
    {"--framework", "transformers", kHuggingFace},
    {"--framework", "trl", kHuggingFace},
    {"--framework", "trainer", kHuggingFace},
    {"--framework", "axolotl", kHuggingFace},
    {"--framework", "llama-factory", kHuggingFace},
    {"--optimizer", "lion", kOneMoment},
    {"--precision", "tf32", "`fp32` is priced on the vector units; matrix units start at 16 bits here"},
    {"--precision", "fp4", "write `nvfp4`"},
    {"--precision", "mxfp4", "4 bits are trained in as `nvfp4`"},
    {"--precision", "int8", "`fp8` is the format of 8 bits that is trained in"},
    {"--precision", "mixed", "bf16 weights beside an fp32 copy: `bf16`, which is the default"},
    {"--task", "dpo", "`finetune` or `lora` price the model that is trained; the reference model is not counted"},
    {"--task", "rl", kRlhf},
    {"--task", "rlhf", kRlhf},
    {"--task", "gspo", kRlhf},
    {"--task", "dapo", kRlhf},
    {"--task", "grpo", kRlhf},
    {"--task", "ppo", kRlhf},
};

template <class Row, std::size_t N>
const Row* row_of(const Row (&table)[N], std::string_view flag, std::string_view word) {
  const auto* row =
      std::find_if(std::begin(table), std::end(table), [&](const Row& r) { return r.flag == flag && r.word == word; });
  return row == std::end(table) ? nullptr : row;
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
  const Hint* hint = row_of(kHints, flag, folded(word));
  return hint != nullptr ? std::string(hint->help) : std::string();
}

std::string usual_choice(std::string_view flag, std::string_view word) {
  const std::string known = folded(word);
  if (const Alias* alias = row_of(kAliases, flag, known)) return std::string(alias->meant);
  if (flag != "--precision") return known;
  const std::string bare = bare_format(known);
  const Alias* alias = row_of(kAliases, flag, bare);
  return alias != nullptr ? std::string(alias->meant) : bare;
}

}  // namespace plan
