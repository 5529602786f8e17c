#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "planner/problem/problem.hpp"

namespace plan {

/// A word that a script passes to a program, and the line that it was written on.
struct ShellWord {
  std::string text{};
  int line = 0;
};

/// A command as it would run, after expansion. Words whose value a script does not state keep the `$NAME`.
struct ShellCommand {
  std::vector<ShellWord> words{};
  std::map<std::string, std::string> environment{};  ///< exported or set before the command
};

/// What a person can do about a word with such a `$`.
inline constexpr std::string_view kOpenValueHelp =
    "the script does not set it, or a machine would: write its value, a default as ${NAME:-8}, give the script's "
    "arguments with `--args` or the GPUs of a Slurm job with `--gpus`, or record the job with `plan capture`";

/// What a note says of a script that is not followed to its end.
inline constexpr std::string_view kTooMuch = "does too much to be followed further";

/// `#SBATCH --nodes=2048`
struct ShellDirective {
  std::string name{};  ///< "nodes"
  std::string value{};
  int line = 0;
};

struct Script {
  std::vector<ShellCommand> commands{};
  std::vector<ShellDirective> sbatch{};
  std::map<std::string, ShellWord> exported{};   ///< environment at the end, with the lines that set it
  std::map<std::string, std::string> written{};  ///< files that the script writes, by name, as far as they are known
  std::map<std::string, std::string> called{};   ///< texts of the scripts that it calls, by path
  std::vector<Note> notes{};                     ///< what could not be followed, with its line
  std::vector<std::size_t> noted_at{};           ///< how many commands came before each note

  /// The notes that come before a command: what follows it cannot change its words.
  [[nodiscard]] std::vector<Note> notes_before(std::size_t command) const;
};

/// Follows a bash script without running anything: assignments, arrays, quotes, ${V:-d}, $(( )), if, case, for,
/// functions, `bash -c`. What depends on more than the text stays as written and is noted.
[[nodiscard]] Script follow_script(std::string_view text, const std::string& file);
/// The same with the arguments that the script was given and the files that it sources, as far as they can be opened.
struct LaunchSource;
/// It is followed once: the same Script until the source, which keeps it, is another.
[[nodiscard]] const Script& follow_script(const LaunchSource& source);
const Script& follow_script(LaunchSource&&) = delete;

}  // namespace plan
