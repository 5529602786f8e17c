#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cli/request/words/flag_words.hpp"

namespace plan {

/// `-x` and `--model`, not `-`.
[[nodiscard]] inline bool is_flag(std::string_view word) { return word.size() > 1 && word[0] == '-'; }
/// `--model=405b` is `--model`.
[[nodiscard]] inline std::string flag_name(std::string_view word) {
  return std::string(word.substr(0, word.find('=')));
}

/// `4M tokens`: a word that says what the number before it counts.
[[nodiscard]] bool is_unit_of_batch(std::string_view word);

/// What flags of a command line that go with no command, or with another one, mean in other tools' words.
class FlagMeanings {
 public:
  /// `words`: the whole line. `layout`: what --layout was given, which axes that are flags here are added to.
  FlagMeanings(const std::vector<std::string>& flags, const std::vector<std::string>& words, std::string layout);

  /// What to write for a flag, in sentences; none: it is no word of another tool.
  [[nodiscard]] std::vector<std::string> of(std::string_view flag) const;

 private:
  std::string layout_{}, guessed_{}, usual_node_ = "8";  ///< GPUs of a node that nobody states
  std::map<std::string, MeantFlag> meant_{};
  std::map<std::string, std::vector<std::string>> in_words_{};
};

}  // namespace plan
