#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plan::shell {

/// Text in which every character remembers the line that it was written on.
struct Text {
  std::string chars{};
  std::vector<int> lines{};
  void add(char c, int line) {
    chars.push_back(c);
    lines.push_back(line);
  }
  void add(std::string_view text, int line) {
    for (const char c : text) add(c, line);
  }
  void add(const Text& other) {
    chars += other.chars;
    lines.insert(lines.end(), other.lines.begin(), other.lines.end());
  }
  Text part(std::size_t from, std::size_t count = std::string::npos) const;
  int line(int otherwise = 0) const { return lines.empty() ? otherwise : lines.front(); }
};

/// A variable: one text, or the elements of an array.
struct Value {
  std::vector<Text> items{};
  bool array = false;
  bool exported = false;
  bool by_key = false;              ///< `declare -A`
  std::vector<std::string> keys{};  ///< of the items, where they have some
};

/// Variables by name, what `$1 $2 ...` are, and how much work following the script may still take.
struct Scope {
  std::map<std::string, Value> variables{};
  std::vector<Text> positional{};  ///< $0 first
  bool knows_positional = false;
  char join = ' ';               ///< first character of IFS, between the items of "${A[*]}"
  int depth = 0;                 ///< of expansions within expansions
  std::size_t budget = 2 << 20;  ///< characters that may still be read or written

  /// Takes `characters` off the budget; false, and nothing left, where it does not hold as many.
  bool spend(std::size_t characters) {
    const bool enough = characters <= budget;
    budget = enough ? budget - characters : 0;
    return enough;
  }
  /// Limits the elements of an array, which cost more than their characters.
  bool spend_items(std::size_t items) { return spend(32 * items); }
};

/// Value of an arithmetic expression; nothing if a name in it has no number.
[[nodiscard]] std::optional<long long> arithmetic(std::string_view text, const Scope& scope);

/// Expands one raw word: quotes, variables, arithmetic. Unquoted expansions are split at blanks, `"${A[@]}"` gives
/// one word an element. What is not known stays as written.
[[nodiscard]] std::vector<Text> expand(const Text& raw, Scope& scope);
/// Expands a word to one text, as on the right of an assignment.
[[nodiscard]] Text expand_one(const Text& raw, Scope& scope);

/// What `nvidia-smi -L | wc -l` and its like print where the scheduler has told how many GPUs or nodes there are.
[[nodiscard]] std::optional<Text> counted_by_machine(const Text& command, const Scope& scope);

/// A here-document's text: variables are expanded, quotes are characters like any other.
[[nodiscard]] Text expand_document(const Text& raw, Scope& scope);

/// Does to `item` what follows a name in `${...}`: `#prefix`, `%suffix`, `/old/new`, `^`, `,`, each also doubled.
/// False, and `item` as it was, if it cannot be followed.
bool edit(Text& item, const Text& operation, Scope& scope);

/// Whether `text` matches a pattern of `*` and `?`.
[[nodiscard]] bool matches(std::string_view pattern, std::string_view text);

}  // namespace plan::shell
