// Names of checkpoints for the models whose layers they have. Tested by tests/presets/store_test.cpp.
#include "presets/model_names.hpp"

#include "presets/suggest.hpp"

namespace plan {
namespace {

/// What the names of variants add to the name of the model whose layers they have.
constexpr std::string_view kVariants[] = {"-instruct",
                                          "-base",
                                          "-chat",
                                          "-hf",
                                          "-it",
                                          "-pt",
                                          "-thinking",
                                          "-unsloth",
                                          "-bnb-4bit",
                                          "-4bit",
                                          "-fp8",
                                          "-bf16",
                                          "-2507",
                                          "-instruct-v0.1",
                                          "-instruct-v0.2",
                                          "-instruct-v0.3",
                                          "-v0.1",
                                          "-v0.2",
                                          "-v0.3",
                                          "-instruct-2507",
                                          "-mcore",
                                          "-thinking-2507",
                                          "-sft",
                                          "-gptq-int4",
                                          "-awq",
                                          "-deduped"};

}  // namespace

std::vector<OtherName> other_names(std::string_view checkpoint) {
  std::vector<OtherName> names;
  std::string word = lowered(std::string(checkpoint));
  const std::string owner = word.substr(0, word.rfind('/') + 1);
  for (std::size_t slash = word.find('/'); slash != std::string::npos; slash = word.find('/'))
    names.push_back({word = word.substr(slash + 1), true});
  for (bool again = true; again;) {
    again = false;
    for (const std::string_view variant : kVariants) {
      if (word.size() <= variant.size() || !word.ends_with(variant)) continue;
      word.resize(word.size() - variant.size());
      if (!owner.empty()) names.push_back({owner + word, false});
      names.push_back({word, false});
      again = true;
      break;
    }
  }
  return names;
}

}  // namespace plan
