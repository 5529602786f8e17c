#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/shell/shell.hpp"
#include "cli/shell/text.hpp"
#include "cli/shell/words.hpp"

namespace plan::shell {

struct Assignment {
  std::string name{};
  Value value{};
  bool known = true;  ///< false: which element it sets is not known
};
/// `NAME=value`, `NAME+=value`, `NAME=(a b)`, `NAME+=(a b)`, `NAME[8]=value`, `NAME=([key]=value)`; nothing if the word
/// is none of these.
[[nodiscard]] std::optional<Assignment> assignment(const Token& token, Scope& scope);
/// The same of a word that is made of variables: `"$NAME=$VALUE"`.
[[nodiscard]] std::optional<Assignment> assignment_of(const Text& text);

struct FunctionText {
  std::string name{};
  std::vector<Token> body{};
  std::size_t end = 0;  ///< token behind it
};
/// `name() {` ... `}` and `function name {`: `words` and `op` are what comes before token `at` and at it.
[[nodiscard]] std::optional<FunctionText> function_at(const std::vector<Token>& words, std::string_view op,
                                                      const std::vector<Token>& tokens, std::size_t at);

/// What statements that are left out would have done to a program's words.
struct LeftOut {
  std::vector<std::string> names{};  ///< variables that they set
  bool acts = false;                 ///< they start programs, source files or change the script's arguments
  [[nodiscard]] bool matters() const { return acts || !names.empty(); }
  /// `, which sets A, B,`, with that verb; empty where they set nothing.
  [[nodiscard]] std::string text(std::string_view verb) const;
};
/// How far statements go: to the next separator, to the end of the branch, to the end of the whole block, or of all.
enum class Extent { Statement, Branch, Block, Rest };

/// Whether the word depends on more than the text.
[[nodiscard]] bool is_open(std::string_view word);

/// `#SBATCH --nodes=8`, `#SBATCH -N 8`.
[[nodiscard]] std::vector<ShellDirective> sbatch_directives(std::string_view text);
/// SLURM_NNODES and its like, as sbatch would set them.
/// More nodes, tasks or GPUs than a launcher counts.
inline constexpr int kMostCounted = 1 << 20;
/// A count of them; 0 where there is none.
[[nodiscard]] int count_of(std::string_view text);
/// The count of `8`, `h100:8` and `gpu:h100:8`.
[[nodiscard]] std::string_view behind_kind(std::string_view text);
/// What `--gres=gpu:h100:8(S:0-1),lscratch:1T` says of GPUs, `gpu:h100:8`; empty: nothing.
[[nodiscard]] std::string_view gpus_of_gres(std::string_view value);

void set_slurm_variables(const std::vector<ShellDirective>& directives, Scope& scope);
/// The same for a job of so many nodes, whatever the header asks for: as the flags of sbatch go before its lines.
void set_slurm_variables(int nodes, int gpus_per_node, Scope& scope);

}  // namespace plan::shell
