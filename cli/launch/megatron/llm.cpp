// Commands of epfLLM's Megatron-LLM (its megatron/arguments.py). Tested by tests/launch/megatron_llm_test.cpp.
#include "cli/launch/megatron/llm.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>

#include "cli/launch/job/keys.hpp"
#include "formulas/words.hpp"

namespace plan::megatron_llm {
namespace {

constexpr std::string_view kProgram = "finetune.py", kMicroBatch = "--micro_batch_size",
                           kTensor = "--tensor_model_parallel_size";

std::string_view flag_of(const ShellWord& word) {
  const std::string_view text = word.text;
  return text.starts_with("--") ? text.substr(0, text.find('=')) : std::string_view{};
}

bool gives(const std::vector<ShellWord>& words, std::string_view flag) {
  return std::any_of(words.begin(), words.end(), [flag](const ShellWord& word) { return flag_of(word) == flag; });
}

/// What its parser would stop at, or train nothing for.
std::optional<Error> refusal(const ShellWord& word, const std::string& file) {
  const std::string flag{flag_of(word)};
  if (flag == "--eval_only")
    return Error{"not_a_training",
                 fmt::format("{}:{}: with `{}` the program evaluates and trains nothing", file, word.line, flag),
                 {},
                 {fmt::format("remove `{}`", flag)}};
  if (flag.size() < 3 || flag.find('-', 2) == std::string::npos) return std::nullopt;
  std::string theirs = flag.substr(2);
  std::replace(theirs.begin(), theirs.end(), '-', '_');
  return Error{"unknown_flag",
               fmt::format("{}:{}: `{}` takes no `{}`", file, word.line, kProgram, flag),
               {"the flags beside it are Megatron-LLM's, whose parser takes underscores and no hyphens"},
               {fmt::format("write `--{}`", theirs)}};
}

}  // namespace

bool is_script(const LaunchSource& source) {
  return is_shell(source) && mentions(source, kProgram) && mentions(source, kMicroBatch) && mentions(source, kTensor);
}

std::optional<Command> command_of(const std::vector<ShellWord>& words, const std::string& file) {
  const auto program =
      std::find_if(words.begin(), words.end(), [](const ShellWord& word) { return base_name(word.text) == kProgram; });
  if (program == words.end() || !gives(words, kMicroBatch) || !gives(words, kTensor)) return std::nullopt;
  Command out{.words = words, .program = static_cast<std::size_t>(program - words.begin())};
  for (std::size_t i = out.program + 1; i < out.words.size(); ++i) {
    std::string& text = out.words[i].text;
    if (!out.refused) out.refused = refusal(out.words[i], file);
    const auto end = static_cast<std::ptrdiff_t>(flag_of(out.words[i]).size());
    std::replace(text.begin(), text.begin() + end, '_', '-');
  }
  // Its linears have biases only where they are asked for.
  if (!gives(words, "--use_bias")) out.words.push_back({"--disable-bias-linear", program->line});
  return out;
}

}  // namespace plan::megatron_llm
