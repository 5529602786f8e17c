#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/shell/shell.hpp"
#include "cli/shell/statements.hpp"
#include "cli/shell/text.hpp"
#include "cli/shell/words.hpp"

namespace plan::shell {

enum class Truth { No, Yes, Unknown };

inline Truth truth(bool value) { return value ? Truth::Yes : Truth::No; }
inline Truth negated(Truth value) {
  return value == Truth::Unknown ? value : value == Truth::Yes ? Truth::No : Truth::Yes;
}

/// One open `if`, `case`, loop or group of braces.
struct Block {
  enum class Kind { If, Case, Loop, Group } kind = Kind::If;
  bool outer = true;           ///< whether what surrounds it runs
  bool active = true;          ///< whether the current branch runs
  bool taken = false;          ///< a branch has run or may have
  std::string name{};          ///< for: variable
  std::vector<Text> values{};  ///< for: those still to come, last first
  std::size_t body = 0;        ///< for: token where the body starts; while: where the loop itself does
  bool asks = false;           ///< a `while` or an `until`, whose condition decides before every turn
  bool until = false;
  bool condition = false;  ///< if, while: what is followed is its condition
  bool denied = false;     ///< `!` stands before it
  bool continues = false;  ///< `continue` has left out the rest of the turn
  std::string asked{};     ///< while: what the condition was made of in this turn
};

/// Commands with `|` between them: what the last one comes to is what they come to.
struct Pipeline {
  bool open = false;    ///< another command follows
  bool skips = false;   ///< `&&` or `||` before it leaves it out
  bool denied = false;  ///< `!` before it
};
/// Whether `!` stands before the first command of the words, behind keywords; one before a block is the block's.
[[nodiscard]] bool denies(const std::vector<Token>& words);

/// Shared, since a body may redefine its own function while it runs.
using Function = std::shared_ptr<const std::vector<Token>>;

/// Follows statements in order: which run (shell_blocks.cpp), what they do
/// (shell_commands.cpp) and what they write and start (shell_written.cpp).
class Follower {
 public:
  Follower(const std::string& file, Script& script) : file_(file), script_(script) {}

  void run(std::string_view text, int first_line);
  Scope scope{};
  const LaunchSource* source = nullptr;  ///< opens what the script sources; null: nothing can be opened

 private:
  void note(int line, std::string text);

  /// Whether the script may go on; one whose loops never seem to end is left where it is.
  bool affords(std::size_t work, int line);
  void stop(int line);

  bool active() const { return blocks_.empty() || blocks_.back().active; }

  /// What the last statement came to.
  Truth follow(const std::vector<Token>& tokens);

  /// `name() {` ... `}` and `function name {`: remembers the body. True if there was one.
  bool function_starts(const std::vector<Token>& words, const std::string& op, const std::vector<Token>& tokens,
                       std::size_t& at);

  /// One command between separators, or keywords with one behind them.
  Truth statement(std::vector<Token>& words, const std::vector<Token>& tokens, std::size_t& at, bool skip);

  /// Follows a command behind `then`, `do`, `else`, `{` and `!`.
  Truth plain_statement(std::vector<Token>& words, const std::vector<Token>& tokens, std::size_t& at, bool skip);

  bool in(Block::Kind kind) const { return !blocks_.empty() && blocks_.back().kind == kind; }

  Truth close_block();

  /// Whether the word closes the innermost block.
  [[nodiscard]] bool ends_block(std::string_view first) const;
  /// Whether a block that ends comes to what its last statement came to.
  [[nodiscard]] static bool keeps_last(const Block& block);

  /// A block with `!` before it has ended, with a pipeline behind it or none.
  static void deny(Pipeline& pipeline, Truth& last);

  /// The words behind `if` and `elif`, which may open a group.
  Truth condition(std::vector<Token>& words, const std::vector<Token>& tokens, std::size_t& at);

  /// The condition of an `if` is known: its branch, which begins at `at`, runs, or the next one is tried.
  void decide(Truth value, const std::vector<Token>& tokens, std::size_t at);

  /// What is not followed and may reach a program's words is reported (shell_left_out.cpp): a branch, what follows
  /// `&&` and `||`, where `before` names a program taken to succeed, and the branches of a `case`.
  LeftOut left_out(const std::vector<Token>& tokens, std::size_t from, Extent extent, int depth = 0) const;
  void tell_condition(Truth value, const std::vector<Token>& tokens, std::size_t at);
  void tell_joined(Truth last, const std::vector<Token>& tokens, const std::string& before);
  /// The script has ended before token `at`.
  void tell_end(const std::vector<Token>& tokens, std::size_t at);
  void tell_case(const Token& asked, std::string_view value, const std::vector<Token>& tokens, std::size_t at);

  Truth start_for(std::vector<Token>& words, const std::vector<Token>&, std::size_t at, bool skip);

  bool counted(const Token& token, Block& block);

  /// `while [ $# -gt 0 ]`: follows the condition; the turn runs if it holds.
  Truth start_while(std::vector<Token>& words, const std::vector<Token>& tokens, bool skip);

  Truth end_loop(std::size_t& at);

  /// `break` and `continue`: the rest of the turn is left out.
  void leave_turn(bool ends);

  /// `case WORD in`: what follows are patterns.
  Truth start_case(const std::vector<Token>& words, const std::vector<Token>& tokens, std::size_t at, bool skip);

  /// Reads `a|b)` from token `at`; returns the token behind it.
  std::size_t case_pattern(const std::vector<Token>& tokens, std::size_t at);
  void end_case_branch();

  void set(const std::string& name, Value value);
  void publish(const std::string& name, const Value& value);

  /// A simple command or a test.
  Truth test(std::vector<Token> words);

  Truth plain_test(const std::vector<Token>& words);

  Truth simple(std::vector<Token> words);

  /// `export A=1 B`, `local C=2`, `declare -A D=([key]=3)`.
  Truth declare(const std::vector<Token>& words);
  void declare_expanded(const Token& word, bool exports);
  void assign(Assignment one, int line);
  /// The variable holds what is not known from here on.
  void lose(const std::string& name, int line, std::string_view what);

  /// `env A=1 program`: takes its variables from the words of the program.
  static void take_environment(std::vector<Text>& words, std::map<std::string, std::string>& environment);

  Truth command(const std::vector<Token>& raw, std::map<std::string, std::string> environment);

  /// What `echo` prints, for the command behind `|`.
  void keep_printed(const std::vector<Text>& words);
  /// Whether grep finds something in what is printed into it; not known where it is no grep, or reads something else.
  [[nodiscard]] Truth searched(const std::vector<Text>& words) const;

  std::optional<Text> printed(const std::vector<Text>& words, std::size_t at);
  Truth print_into(const std::vector<Text>& words);

  /// `N = A * B`, `N += 2`, `N++`, as `let` and `(( ))` have it.
  Truth calculate(std::string_view text, int line);

  /// `unset A`, `read A B`, `mapfile -t A`: what the names held, they hold no longer.
  void forget(const std::vector<Text>& words, std::size_t from);

  /// `shift 2`, `set -- a b` and `getopts n: name`: what a script does with its arguments (shell_arguments.cpp).
  Truth shift(const std::vector<Text>& words);
  Truth set_arguments(const std::vector<Text>& words);
  Truth next_option(const std::vector<Text>& words);

  /// `source conf.sh`: follows the file where it can be opened.
  Truth sourced(const std::vector<Text>& words, int line);

  Truth call(const Function& body, const std::vector<Text>& words);

  static Text joined_words(const std::vector<Text>& words, std::size_t from);

  /// Follows `text` as a script of its own, with the words from `from` on as `$0 $1 ...`.
  Truth inner(const Text& text, const std::vector<Text>& words, std::size_t from);

  /// `srun ... bash -c 'torchrun ... "$@"' name arguments`
  Truth follow_dash_c(const std::vector<Text>& words);

  /// `bash worker.sh 8b`, where the script has written that file itself: followed as a shell of its own.
  bool follow_written(const std::vector<Text>& words);

  /// `sbatch -N 4 <<END`, `bash -s <<END`: the document is the script.
  bool follow_input(const std::vector<Text>& words, const std::vector<Token>& redirections);

  /// Follows a script as a shell of its own: it sees what is exported, and leaves nothing behind.
  void child(const Text& text, const std::vector<Text>& words, std::size_t from);

  /// `bash train.sh 8b`, `sbatch -N 4 train.sh`: the script beside this one, as a shell of its own that sees what is
  /// exported and nothing else.
  bool follow_called(const std::vector<Text>& words, const std::map<std::string, std::string>& environment);

  Truth read_document(const std::vector<Text>& words, const std::vector<Token>& redirections);

  /// What a command reads between `<<END` and `END`; nothing where it reads none.
  std::optional<Text> document(const std::vector<Token>& redirections);

  /// `cp job.sh mine.sh`: a file that the script has written, or that is beside it. False where it is neither.
  bool copy(const std::vector<Text>& words);
  /// `cat <<END > file`, `tee file <<END`, `echo "$TEXT" > file` and `printf`'s: what the file then holds. False where
  /// the command puts more into it than is known here.
  bool write(const std::vector<Text>& words, const std::vector<Token>& redirections);

  /// `sed -i s/a/b/ file`, `envsubst < file > other`: a file of the script's own holds something else from here on.
  void lose(const std::string& file, std::string_view program);
  void lose_written(const std::vector<Text>& words, const std::vector<Token>& redirections);

  void record(const std::vector<Text>& words, std::map<std::string, std::string> environment);

  Truth comparison(const std::vector<Token>& raw);

  const std::string& file_;
  Script& script_;
  std::vector<Block> blocks_{};
  std::map<std::string, Function> functions_{};
  std::map<std::string, Text> written_{};         ///< files that the script writes itself
  std::map<std::string, std::string> changed_{};  ///< of those, what a program that is not followed has changed
  std::vector<Token> redirections_{};             ///< of the statement that is followed
  std::string joined_{};
  std::optional<std::string> printed_{}, input_{};  ///< what the last statement printed, and what this one reads
  std::string assumed_{};                           ///< the program of the last statement, which was taken to succeed
  bool guards_ = false;                             ///< the last test asked whether something was given
  int condition_line_ = 0;
  bool stopped_ = false, exited_ = false, returned_ = false;
  int depth_ = 0;
  int in_function_ = 0;
  int commands_ = 0;
  std::size_t statement_at_ = 0;         ///< token where the statement starts that is followed
  std::optional<std::string> again_{};   ///< what a loop's condition was made of in the turn that just ended
  bool denied_again_ = false;            ///< `!` before that loop: its next turn begins behind it
  std::size_t option_ = 1, letter_ = 0;  ///< of getopts: the argument and the letter within it that come next
};

}  // namespace plan::shell
