// What a command or a test of a script does. Tested by tests/launch/shell_test.cpp.
#include "cli/shell/follower.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <utility>

#include "cli/shell/launch_source.hpp"
#include "cli/shell/mason.hpp"
#include "cli/shell/statements.hpp"
#include "formulas/text.hpp"
#include "formulas/words.hpp"

namespace plan::shell {
namespace {

constexpr int kMostCommands = 5000;  // of one script, loops followed

/// `$(which swift)` where a command starts a program is that program, wherever it lies; any other word as it is.
std::string looked_up(const std::string& word) {
  constexpr std::pair<std::string_view, std::string_view> kBrackets[] = {{"$(", ")"}, {"`", "`"}};
  for (const auto& [open, close] : kBrackets) {
    if (word.size() <= open.size() + close.size() || !word.starts_with(open) || !word.ends_with(close)) continue;
    const std::string_view inner = std::string_view(word).substr(open.size(), word.size() - open.size() - close.size());
    for (const std::string_view asks : {"which ", "command -v ", "type -P "})
      if (const std::string_view name = trim(inner, " "); name.starts_with(asks)) {
        const std::string_view program = trim(name.substr(asks.size()), " \"'");
        if (program.find_first_of(" $`|;&") == std::string_view::npos) return std::string(program);
      }
  }
  return word;
}

}  // namespace

void Follower::set(const std::string& name, Value value) {
  Value& slot = scope.variables[name];
  value.exported = value.exported || slot.exported;
  slot = std::move(value);
  if (slot.exported) publish(name, slot);
}

void Follower::publish(const std::string& name, const Value& value) {
  const Text text = value.items.empty() ? Text{} : value.items.front();
  script_.exported[name] = {text.chars, text.line()};
}

Truth Follower::test(std::vector<Token> words) {
  condition_line_ = words.front().line;
  const auto start = std::find_if(words.begin(), words.end(), [](const Token& t) { return t.raw.chars != "!"; });
  const bool negate = (start - words.begin()) % 2 != 0;
  words.erase(words.begin(), start);
  const Truth value = words.empty() ? Truth::Unknown : plain_test(words);
  return negate ? negated(value) : value;
}

namespace {

/// `-z "$X"`, `-f FILE`, `$# -lt 2`: does the test ask whether something was given or is there?
bool asks_for_presence(const std::vector<Token>& words) {
  constexpr std::string_view kAsking[] = {"-z", "-n", "-f", "-d", "-e", "-s", "-x", "-r", "-v"};
  return std::any_of(words.begin(), words.end(), [&](const Token& word) {
    return word.raw.chars.find("$#") != std::string::npos ||
           std::find(std::begin(kAsking), std::end(kAsking), word.raw.chars) != std::end(kAsking);
  });
}

}  // namespace

Truth Follower::plain_test(const std::vector<Token>& words) {
  const std::string& first = words.front().raw.chars;
  if (first == "[" || first == "[[" || first == "test") {
    guards_ = asks_for_presence(words);
    return comparison(words);
  }
  if (first.starts_with("((")) {
    return calculate(std::string_view(first).substr(2, first.size() - 4), words.front().line);
  }
  return simple(words);
}

Truth Follower::simple(std::vector<Token> words) {
  const int line = words.empty() ? 0 : words.front().line;
  std::vector<Assignment> assigned;
  std::map<std::string, std::string> before;
  while (!words.empty()) {
    const std::string& word = words.front().raw.chars;
    if (word == "export" || word == "declare" || word == "local" || word == "readonly" || word == "typeset")
      return declare(words);
    std::optional<Assignment> set_to = assignment(words.front(), scope);
    if (!set_to) break;
    words.erase(words.begin());
    assigned.push_back(std::move(*set_to));
  }
  if (words.empty()) {
    for (Assignment& one : assigned) assign(std::move(one), line);
    return Truth::Yes;
  }
  for (const Assignment& one : assigned)
    before[one.name] = one.value.items.empty() ? std::string() : one.value.items.front().chars;
  return command(words, std::move(before));
}

Truth Follower::command(const std::vector<Token>& raw, std::map<std::string, std::string> environment) {
  if (++commands_ > kMostCommands) {
    stop(raw.empty() ? 0 : raw.front().line);
    return Truth::Unknown;
  }
  const std::vector<Token> redirections = std::exchange(redirections_, {});
  std::vector<Text> words;
  for (const Token& token : raw)
    for (Text& text : expand(token.raw, scope)) words.push_back(std::move(text));
  if (words.empty()) return Truth::Yes;
  if (words.front().chars == "env") take_environment(words, environment);
  if (words.empty()) return Truth::Yes;
  const std::string& name = words.front().chars;
  // `if [ -z "$DATA" ]; then exit 1; fi`, `[ -f "$IMAGE" ] || { echo none; exit 1; }`: whoever starts the job has it.
  if (name == "exit" && guards_ && (words.size() == 1 || (words.size() == 2 && words[1].chars != "0")) &&
      (in(Block::Kind::If) || in(Block::Kind::Group) || !joined_.empty() || in_function_ > 0)) {
    note(raw.front().line, "what the script stops without is taken to be there");
    return Truth::No;
  }
  if (name == "exit" || name == "return") {
    (name == "exit" ? exited_ : returned_) = true;
    if (words.size() > 1 && words[1].chars.find('$') != std::string::npos) return Truth::Unknown;
    return truth(words.size() == 1 || words[1].chars == "0");
  }
  if (name == "true" || name == ":") return Truth::Yes;
  if (name == "false") return Truth::No;
  if (name == "printf" && words.size() > 3 && words[1].chars == "-v") return print_into(words);
  const bool writes = name == "cat" || name == "echo" || name == "printf" || name == "tee" || name == "cp";
  if (!writes || !write(words, redirections)) lose_written(words, redirections);
  if (name == "read") return read_document(words, redirections);
  if (name == "unset" || name == "mapfile" || name == "readarray") return forget(words, 1), Truth::Yes;
  if (name == "let") {
    Truth last = Truth::Unknown;
    for (std::size_t i = 1; i < words.size(); ++i) last = calculate(words[i].chars, words[i].line());
    return last;
  }
  if (name == "shift") return shift(words);
  if (name == "set") return set_arguments(words);
  if (name == "getopts") return next_option(words);
  if (name == "echo" && redirections.empty()) keep_printed(words);
  if (name == "shopt" || name == "echo" || name == "printf") return Truth::Yes;
  if (const Truth found = searched(words); found != Truth::Unknown) return found;
  if (name == "source" || name == ".") return sourced(words, raw.front().line);
  if (const auto found = functions_.find(name); found != functions_.end()) return call(Function(found->second), words);
  if (name == "eval") return inner(joined_words(words, 1), words, words.size());
  if (follow_written(words) || follow_called(words, environment) || follow_input(words, redirections))
    return Truth::Yes;
  record(words, std::move(environment));
  assumed_ = name;
  return follow_dash_c(words);
}

/// `read -r -d '' COMMAND <<END`
Truth Follower::read_document(const std::vector<Text>& words, const std::vector<Token>& redirections) {
  std::optional<Text> text = words.size() < 2 ? std::nullopt : document(redirections);
  if (text) {
    while (text->chars.ends_with('\n')) text->chars.pop_back(), text->lines.pop_back();
    set(words.back().chars, {{std::move(*text)}, false, false});
    return Truth::No;  // it ends before the empty delimiter, which bash calls a failure
  }
  forget(words, 1);
  return Truth::Yes;
}

namespace {

/// A number as `%d` prints it again: bash reads one that begins with a nought in base 8.
bool is_plain_integer(std::string_view word) {
  if (word.starts_with('-')) word.remove_prefix(1);
  if (word.empty() || word.size() > 18 || (word.front() == '0' && word.size() > 1)) return false;
  return std::all_of(word.begin(), word.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

}  // namespace

/// What `printf FORMAT WORDS` prints, the format being word `at`; nothing where that is not followed.
std::optional<Text> Follower::printed(const std::vector<Text>& words, std::size_t at) {
  constexpr std::pair<char, char> kEscapes[] = {{'n', '\n'}, {'t', '\t'}, {'\\', '\\'}, {'"', '"'}, {'\'', '\''}};
  const Text& format = words[at];
  Text out;
  std::size_t next = at + 1, before = 0;
  do {
    before = next;
    for (std::size_t i = 0; i < format.chars.size(); ++i) {
      const char c = format.chars[i];
      const char after = (c == '%' || c == '\\') && i + 1 < format.chars.size() ? format.chars[++i] : '\0';
      const bool given = next < words.size();
      const auto* const escape =
          std::find_if(std::begin(kEscapes), std::end(kEscapes), [&](const auto& row) { return row.first == after; });
      if ((c == '\\' && escape == std::end(kEscapes)) || (c == '%' && after != 's' && after != 'd' && after != '%') ||
          (c == '%' && after == 'd' && given && !is_plain_integer(words[next].chars)))
        return std::nullopt;
      if (c == '\\')
        out.add(escape->second, format.line());
      else if (c != '%' || after == '%')
        out.add(c, format.line());
      else if (given)
        out.add(words[next++]);
      else if (after == 'd')
        out.add('0', format.line());
    }
  } while (next > before && next < words.size());
  return out;
}

/// `printf -v NAME FORMAT WORDS`
Truth Follower::print_into(const std::vector<Text>& words) {
  std::optional<Text> out = printed(words, 3);
  if (!out) {
    note(words.front().line(), fmt::format("what `printf` puts into `{}` is not followed", words[2].chars));
    scope.variables.erase(words[2].chars);  // its old value is not its value any more
    return Truth::Unknown;
  }
  set(words[2].chars, {{std::move(*out)}, false, false});
  return Truth::Yes;
}

Truth Follower::sourced(const std::vector<Text>& words, int line) {
  const std::string name = words.size() > 1 ? words[1].chars : "";
  const std::optional<LaunchSource> file = source != nullptr && !name.empty() ? beside(*source, name) : std::nullopt;
  if (!file) {
    note(line, fmt::format("`{}` is not followed: there is no such file beside the script", name));
    return Truth::Unknown;
  }
  if (name.starts_with('/') && file->path != name)
    note(line,
         fmt::format("`{}` is not there: `{}`, which ends the same way, is followed in its place", name, file->path));
  if (!affords(file->text.size(), line)) return Truth::Unknown;
  Text text;
  text.add(file->text, line);  // its words are placed where it is sourced
  return inner(text, words, words.size());
}

Truth Follower::call(const Function& body, const std::vector<Text>& words) {
  std::vector<Text> outer = std::exchange(scope.positional, words);
  const bool knew = std::exchange(scope.knows_positional, true);
  ++in_function_;
  const Truth last = follow(*body);
  --in_function_;
  scope.positional = std::move(outer);
  scope.knows_positional = knew;
  return last;
}

Text Follower::joined_words(const std::vector<Text>& words, std::size_t from) {
  Text out;
  for (std::size_t i = from; i < words.size(); ++i) {
    if (i > from) out.add(' ', words[i].line());
    out.add(words[i]);
  }
  return out;
}

Truth Follower::inner(const Text& text, const std::vector<Text>& words, std::size_t from) {
  std::vector<Text> outer = scope.positional;
  const bool knew = scope.knows_positional;
  if (from < words.size()) {
    scope.positional.assign(words.begin() + static_cast<std::ptrdiff_t>(from), words.end());
    scope.knows_positional = true;
  }
  const Truth last = follow(tokens(text));
  scope.positional = std::move(outer);
  scope.knows_positional = knew;
  return last;
}

Truth Follower::follow_dash_c(const std::vector<Text>& words) {
  for (std::size_t i = 0; i + 2 < words.size(); ++i) {
    const std::string_view name = words[i].chars;
    const bool is_shell = name == "bash" || name == "sh" || name.ends_with("/bash") || name.ends_with("/sh");
    if (is_shell && words[i + 1].chars.starts_with('-') && words[i + 1].chars.ends_with('c')) {
      const Truth last = inner(words[i + 2], words, i + 3);
      exited_ = false;  // the shell within, and not the script
      return last;
    }
  }
  return Truth::Yes;
}

void Follower::record(const std::vector<Text>& words, std::map<std::string, std::string> environment) {
  ShellCommand command;
  command.environment = std::move(environment);
  for (const auto& [name, word] : script_.exported)
    if (scope.spend(name.size() + word.text.size())) command.environment.try_emplace(name, word.text);
  int line = 0;
  for (const Text& word : words) {
    line = word.line(line);
    command.words.push_back({looked_up(word.chars), line});
  }
  start_on_every_node(command);
  script_.commands.push_back(std::move(command));
}

namespace {

/// `$1`, `${2}`: an argument of the script, and nothing else.
bool is_positional(std::string_view word) {
  const bool braces = word.starts_with("${") && word.ends_with('}');
  if (!braces && !word.starts_with('$')) return false;
  word = braces ? word.substr(2, word.size() - 3) : word.substr(1);
  return !word.empty() && word.size() < 3 && std::isdigit(static_cast<unsigned char>(word.front())) != 0 &&
         std::isdigit(static_cast<unsigned char>(word.back())) != 0;
}

}  // namespace

Truth Follower::comparison(const std::vector<Token>& raw) {
  std::vector<std::string> words;
  bool known = true;
  for (std::size_t i = 1; i < raw.size(); ++i) {
    if (raw[i].raw.chars == "]" || raw[i].raw.chars == "]]") break;
    const Text text = expand_one(raw[i].raw, scope);
    if (!scope.knows_positional && is_positional(text.chars) && raw.size() > 4) {
      note(raw.front().line, fmt::format("`{}` is taken as not given; `--args` gives it", text.chars));
      words.emplace_back();
      continue;
    }
    words.push_back(text.chars);
    // What is quoted in a pattern of `=~` stands for itself, and its quotes are gone here.
    known &= raw[i - 1].raw.chars != "=~" || raw[i].raw.chars.find_first_of("'\"\\") == std::string::npos ||
             text.chars.find_first_of(".[]*^$+?{}|()\\") == std::string::npos;
    known &= text.chars.find('$') == std::string::npos && text.chars.find('`') == std::string::npos;
  }
  if (!known && words.size() == 2 && (words[0] == "-z" || words[0] == "-n") && words[1].starts_with('$') &&
      words[1].find('(') == std::string::npos) {
    note(raw.front().line, fmt::format("`{}` is taken as not set", words[1]));
    return truth(words[0] == "-z");
  }
  // An unset name is empty to bash, but whether it is set where the script runs is not known here.
  if (!known) return Truth::Unknown;
  return shell::compare(words) ? truth(*shell::compare(words)) : Truth::Unknown;
}

}  // namespace plan::shell
