#pragma once

#include <span>
#include <string_view>

#include "cli/launch/megatron/megatron.hpp"

namespace plan {

/// Arguments that Megatron-LM refuses together.
struct MegatronMistake {
  std::string_view code;
  const char* flag;  ///< whose line is named
  bool (*broken)(const MegatronArgs&, const LaunchJob&);
  std::string_view text;
  std::string_view help;
  int since = 0;  ///< first release of Megatron core that rejects it, where earlier ones do not
};

[[nodiscard]] inline bool is_megatron_fsdp(const MegatronArgs& args) {
  return args.has("use-megatron-fsdp") || args.has("use-custom-fsdp");
}

/// Those that only a script of Megatron-LM's own can make: tools around it set the other half themselves. None where
/// another parser may read the words, or where some word is not known.
[[nodiscard]] std::span<const MegatronMistake> parser_mistakes(const MegatronArgs& args);

/// Words that the parser does not take, where nothing in the script says that another one reads it.
void judge_choices(const MegatronArgs& args, Errors& errors);

}  // namespace plan
