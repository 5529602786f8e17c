// Words of other tools for the choices of a flag: what libraries write around a number format leaves the format as it
// is, a word that means a choice is taken as it, and one that means none is refused with a choice that is there.
#include "cli/request/words/choice_words.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cli/request/flags/options.hpp"

using namespace plan;

TEST_CASE("a number format is the same one whatever a library writes around it") {
  const std::pair<const char*, std::vector<std::string>> formats[] = {
      {"bf16", {"bf16", "bfloat16", "BF16", "BFloat16"}},
      {"fp16", {"fp16", "float16", "FP16"}},
      {"fp32", {"fp32", "float32", "FP32"}},
      {"fp8", {"fp8", "float8", "fp8_cs", "fp8_current_scaling"}},
      {"fp8-delayed", {"fp8_delayed", "fp8-ds", "fp8_delayed_scaling"}},
      {"fp8-blockwise", {"fp8_blockwise", "fp8_subchannel_scaling"}},
      {"mxfp8", {"mxfp8", "MXFP8", "fp8_mx"}},
      {"nvfp4", {"nvfp4"}}};
  for (const auto& row : formats)
    for (const std::string& word : row.second)
      for (const char* front : {"", "torch.", "jnp.", "jax.numpy.", "bf16_with_", "bf16-with-"})
        for (const char* behind : {"", "-mixed", "_mixed", "_amp"}) {
          const std::string typed = front + word + behind;
          CAPTURE(typed);
          CHECK(read_choice("--precision", typed).value_or("") == row.first);
        }
}

TEST_CASE("an optimizer is the same one by its class in whatever package") {
  for (const auto& known : {std::pair{"torch.optim.AdamW", "adam"},
                            {"deepspeed.ops.adam.FusedAdam", "adam"},
                            {"bnb.optim.AdamW8bit", "adam8bit"},
                            {"torch.optim.SGD", "sgd"},
                            {"transformers.optimization.Adafactor", "adafactor"}}) {
    const std::string word = known.first;
    CAPTURE(word);
    CHECK(read_choice("--optimizer", word).value_or("") == known.second);
  }
}

TEST_CASE("a format without states of 32 bits is not the one that has them") {
  for (const char* word : {"bf16-true", "bf16_true", "16-true", "fp16-true", "pure_bf16"}) {
    const Result<std::string> read = read_choice("--precision", word);
    REQUIRE_FALSE(read.has_value());
    CHECK(read.error().front().help.front().find("`--from`") != std::string::npos);
  }
}

TEST_CASE("a word that means no choice is refused with what to write, as a value and as a flag") {
  const std::vector<std::pair<std::string, std::vector<std::string>>> unknown = {
      {"--precision", {"16", "no", "e4m3", "fp8_hybrid", "int8", "int4", "nf4", "4bit", "amp", "tf32", "te"}},
      {"--optimizer",
       {"lion", "lamb", "sophia", "cpu_adam", "DeepSpeedCPUAdam", "galore", "shampoo", "paged_adamw_32bit", "adam-mini",
        "AdamMini", "distributed_shampoo", "MuonClip", "torch.optim.RMSprop", "deepspeed.ops.lion.Lion"}},
      {"--task", {"peft", "dora", "orpo", "kto", "dpo", "grpo", "reward", "distillation", "inference"}},
      {"--framework",
       {"lightning", "torchrun", "nanotron", "slime", "neox", "hf", "pytorch", "openrlhf", "llamafactory", "ms-swift",
        "colossal-ai", "ColossalAI", "megatron-fsdp", "ddp", "zero3", "levanter", "olmo_core"}}};
  for (const auto& row : unknown)
    for (const std::string& word : row.second) {
      CAPTURE(word);
      const Result<std::string> read = read_choice(row.first, word);
      REQUIRE_FALSE(read.has_value());
      const std::string hint = hint_for(row.first, word);
      CHECK_FALSE(hint.empty());
      CHECK(read.error().front().help.front() == hint);
      if (std::isdigit(static_cast<unsigned char>(word[0])) != 0 || word == "no") continue;
      const Result<Args> flag = parse_arguments({"--model", "8b", "--gpus", "8", "--" + word});
      REQUIRE_FALSE(flag.has_value());
      CHECK(flag.error().front().help.size() > 1);  // beside the list of all
    }
}
