// What a word of a script means: quotes, $NAME, ${NAME:-default}, "${ARRAY[@]}", $(( )).
// Tested by tests/launch/shell_test.cpp.
#include <algorithm>
#include <cctype>
#include <utility>

#include "cli/shell/text.hpp"
#include "cli/shell/words.hpp"

namespace plan::shell {
namespace {

constexpr int kDeepestExpansion = 64;             // expansions within expansions
constexpr std::size_t kMostCharacters = 1 << 20;  // of one word

bool name_char(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// What `$...` stands for. `list`: each item is a word of its own ("${A[@]}").
struct Expansion {
  std::vector<Text> items{};
  bool list = false;
  bool known = true;
};

Expansion one(Text text) { return {{std::move(text)}, false, true}; }

Expansion number(long long value, int line) {
  Text out;
  out.add(std::to_string(value), line);
  return one(std::move(out));
}

class Expander {
 public:
  Expander(const Text& raw, Scope& scope, bool split) : raw_(raw), scope_(scope), split_(split) {}

  std::vector<Text> run() {
    if (scope_.depth >= kDeepestExpansion) return {raw_};
    ++scope_.depth;
    const std::string_view text = raw_.chars;
    while (at_ < text.size()) {
      const char c = text[at_];
      if (c == '\'')
        single_quoted();
      else if (c == '"')
        double_quoted();
      else if (c == '\\' && at_ + 1 < text.size())
        escaped();
      else if (c == '$')
        unquoted_dollar();
      else if (c == '`')
        backquoted();
      else
        put(c, raw_.lines[at_++]);
    }
    finish();
    --scope_.depth;
    return std::move(words_);
  }

 private:
  void put(char c, int line) {
    if (word_.chars.size() < kMostCharacters && scope_.spend(1)) word_.add(c, line);
    started_ = true;
  }
  void finish() {
    if (started_) words_.push_back(std::move(word_));
    word_ = {};
    started_ = false;
  }

  void single_quoted() {
    started_ = true;
    for (++at_; at_ < raw_.chars.size() && raw_.chars[at_] != '\''; ++at_) put(raw_.chars[at_], raw_.lines[at_]);
    ++at_;
  }

  void escaped() {
    if (raw_.chars[at_ + 1] != '\n') put(raw_.chars[at_ + 1], raw_.lines[at_ + 1]);
    at_ += 2;
  }

  void double_quoted() {
    started_ = true;
    for (++at_; at_ < raw_.chars.size() && raw_.chars[at_] != '"';) {
      const char c = raw_.chars[at_];
      if (c == '\\' && at_ + 1 < raw_.chars.size()) {
        const char next = raw_.chars[at_ + 1];
        if (next != '\n') {
          if (next != '"' && next != '\\' && next != '$' && next != '`') put('\\', raw_.lines[at_]);
          put(next, raw_.lines[at_ + 1]);
        }
        at_ += 2;
      } else if (c == '$') {
        quoted_dollar();
      } else if (c == '`') {
        backquoted();
      } else {
        put(c, raw_.lines[at_++]);
      }
    }
    ++at_;
  }

  void quoted_dollar() {
    const Expansion value = dollar();
    if (value.list && value.items.empty() && word_.chars.empty()) started_ = false;  // "${EMPTY[@]}" is no word
    for (std::size_t i = 0; i < value.items.size() && scope_.spend_items(1); ++i) {
      if (i > 0 && value.list && split_)
        finish();
      else if (i > 0)
        put(scope_.join, value.items[i].line());
      const std::size_t size = value.items[i].chars.size();
      if (word_.chars.size() + size <= kMostCharacters && scope_.spend(size)) word_.add(value.items[i]);
      started_ = true;
    }
  }

  void unquoted_dollar() {
    const Expansion value = dollar();
    for (std::size_t i = 0; i < value.items.size() && scope_.spend_items(1); ++i) {
      if (i > 0 && split_)
        finish();
      else if (i > 0)
        put(' ', value.items[i].line());
      const Text& text = value.items[i];
      int open = 0;  // brackets of `$(` in a value that is not wholly known: no blank in it ends a word
      for (std::size_t k = 0; k < text.chars.size(); ++k) {
        const char c = text.chars[k];
        if (c == '(' && (open > 0 || (k > 0 && text.chars[k - 1] == '$'))) ++open;
        if (c == ')' && open > 0) --open;
        if (split_ && value.known && open == 0 && std::isspace(static_cast<unsigned char>(c)) != 0)
          finish();
        else
          put(text.chars[k], text.lines[k]);
      }
    }
  }

  /// A command's output is not known: it stays as written.
  void backquoted() {
    const std::size_t end = raw_.chars.find('`', at_ + 1);
    const std::size_t stop = end == std::string::npos ? raw_.chars.size() : end + 1;
    for (; at_ < stop; ++at_) put(raw_.chars[at_], raw_.lines[at_]);
  }

  Expansion as_written(std::size_t from) const { return {{raw_.part(from, at_ - from)}, false, false}; }

  /// The value of `expr 16 / $N`, which needs no command to be known; nothing for any other command.
  std::optional<long long> expression(const Text& command) {
    constexpr std::string_view kExpr = "expr ";
    const std::size_t start = command.chars.find_first_not_of(' ');
    if (start == std::string::npos || command.chars.compare(start, kExpr.size(), kExpr) != 0) return std::nullopt;
    std::string terms = expand_one(command.part(start + kExpr.size()), scope_).chars;
    std::erase(terms, '\\');
    return arithmetic(terms, scope_);
  }

  /// What `cat <<END` prints, without the newlines at its end.
  std::optional<Text> shown_document(const std::vector<Token>& tokens) {
    const Token* document = nullptr;
    for (const Token& token : tokens) {
      const bool here = token.redirection == Redirection::Here || token.redirection == Redirection::Literal;
      if (here && document == nullptr)
        document = &token;
      else if (token.word ? token.raw.chars != "cat" : token.raw.chars.find_first_not_of('\n') != std::string::npos)
        return std::nullopt;
    }
    if (document == nullptr || tokens.front().raw.chars != "cat") return std::nullopt;
    Text out = document->redirection == Redirection::Literal ? document->raw : expand_document(document->raw, scope_);
    while (out.chars.ends_with('\n')) out.chars.pop_back(), out.lines.pop_back();
    return out;
  }

  /// What `echo WORDS` or `IFS=,; echo "${LIST[*]}"` prints, where every word is known; nothing for other commands.
  std::optional<Text> printed(const Text& command) {
    std::vector<Token> all = tokens(command);
    if (std::optional<Text> text = shown_document(all)) return text;
    std::vector<Token> words = without_redirections(std::move(all));
    char join = ' ';
    if (words.size() > 2 && words[0].raw.chars.starts_with("IFS=") && words[1].raw.chars == ";") {
      const Text separators = expand_one(words[0].raw.part(4), scope_);
      if (separators.chars.empty()) return std::nullopt;
      join = separators.chars.front();
      words.erase(words.begin(), words.begin() + 2);
    }
    const bool plain = std::all_of(words.begin(), words.end(), [](const Token& token) { return token.word; });
    if (words.empty() || words[0].raw.chars != "echo" || !plain) return std::nullopt;
    const char before = std::exchange(scope_.join, join);
    Text out;
    for (std::size_t i = 1; i < words.size(); ++i)
      for (const Text& word : expand(words[i].raw, scope_)) {
        if (!out.chars.empty()) out.add(' ', word.line());
        out.add(word);
      }
    scope_.join = before;
    // Options of echo, what is not known, and names of files that a pattern stands for: only the shell could tell.
    if (out.chars.starts_with('-') || out.chars.find_first_of("$`*?") != std::string::npos) return std::nullopt;
    return out;
  }

  /// The expansion at `at_`, which moves behind it.
  Expansion dollar() {
    const std::size_t from = at_;
    const std::string_view text = raw_.chars;
    const int line = raw_.lines[at_++];
    const bool older = text.substr(at_, 1) == "[";  // `$[ ]`, which bash still takes for `$(( ))`
    if (older || text.substr(at_, 2) == "((") {
      const std::size_t end = older ? closing(text, at_, '[', ']') : closing(text, at_, '(', ')');
      at_ = std::min(end, text.size());
      if (end == std::string_view::npos) return as_written(from);
      const std::size_t marks = older ? 1 : 2;  // in front of the terms and behind them, beside the `$`
      Text inner = expand_one(raw_.part(from + 1 + marks, end - from - 1 - 2 * marks), scope_);
      const std::optional<long long> value = arithmetic(inner.chars, scope_);
      return value ? number(*value, line) : as_written(from);
    }
    if (at_ < text.size() && text[at_] == '(') {
      const std::size_t open = at_;
      at_ = std::min(closing(text, at_, '(', ')'), text.size());
      if (const std::optional<long long> value = expression(raw_.part(open + 1, at_ - open - 2)))
        return number(*value, line);
      if (std::optional<Text> text_of = printed(raw_.part(open + 1, at_ - open - 2))) return one(std::move(*text_of));
      if (std::optional<Text> count = counted_by_machine(raw_.part(open + 1, at_ - open - 2), scope_))
        return one(std::move(*count));
      return as_written(from);
    }
    if (at_ < text.size() && text[at_] == '{') {
      const std::size_t open = at_;
      at_ = std::min(closing(text, open, '{', '}'), text.size());
      const Text inner = raw_.part(open + 1, at_ - open - 2);
      return braces(inner, from);
    }
    const std::size_t start = at_;
    if (at_ < text.size() &&
        (std::isdigit(static_cast<unsigned char>(text[at_])) != 0 || text[at_] == '@' || text[at_] == '*' ||
         text[at_] == '#' || text[at_] == '?' || text[at_] == '$' || text[at_] == '!'))
      ++at_;
    else
      while (at_ < text.size() && name_char(text[at_])) ++at_;
    if (start == at_) {
      Text out;
      out.add('$', line);
      return one(std::move(out));
    }
    if (const std::optional<Expansion> value = named(text.substr(start, at_ - start), line)) return *value;
    return as_written(from);
  }

  /// Value of a name, a position or `@`; nothing if it has none.
  std::optional<Expansion> named(std::string_view name, int line) const {
    if (name == "@" || name == "*") {
      if (!scope_.knows_positional) return std::nullopt;
      Expansion all{{}, name == "@", true};
      if (!scope_.positional.empty()) all.items.assign(scope_.positional.begin() + 1, scope_.positional.end());
      return all;
    }
    if (name == "#") {
      if (!scope_.knows_positional) return std::nullopt;
      return number(static_cast<long long>(scope_.positional.empty() ? 0 : scope_.positional.size() - 1), line);
    }
    if (std::isdigit(static_cast<unsigned char>(name[0])) != 0) {
      const std::size_t index = static_cast<std::size_t>(std::atoi(std::string(name).c_str()));
      if (index < scope_.positional.size()) return one(scope_.positional[index]);
      if (scope_.knows_positional) return one({});
      return std::nullopt;
    }
    const auto found = scope_.variables.find(std::string(name));
    if (found == scope_.variables.end() || found->second.by_key) return std::nullopt;
    return one(found->second.items.empty() ? Text{} : found->second.items.front());
  }

  /// `${...}`: `inner` without the braces, which began at `from`.
  Expansion braces(const Text& inner, std::size_t from) {
    const std::string_view text = inner.chars;
    const int line = raw_.lines[from];
    if (text.starts_with('#') && text.size() > 1) return length(text.substr(1), line, from);
    std::size_t end = 0;
    if (!text.empty() && (text[0] == '@' || text[0] == '*'))
      end = 1;
    else
      while (end < text.size() && name_char(text[end])) ++end;
    const std::string name(text.substr(0, end));
    std::string_view index;
    if (end < text.size() && text[end] == '[') {
      const std::size_t close = text.find(']', end);
      if (close == std::string_view::npos) return as_written(from);
      index = text.substr(end + 1, close - end - 1);
      end = close + 1;
    }
    if (name.empty()) return as_written(from);
    std::optional<Expansion> value = indexed(name, index, line);
    if (end == text.size()) return value ? *value : as_written(from);
    if (!index.empty() && text.substr(end).starts_with(":=")) return as_written(from);  // which sets the element
    return operate(name, std::move(value), inner.part(end), from);
  }

  /// The element of a key; empty where there is none.
  std::optional<Expansion> element(const Value& value, std::string_view index, int line) const {
    Text raw;
    raw.add(index, line);
    const std::string key = expand_one(raw, scope_).chars;
    if (key.find_first_of("$`") != std::string::npos) return std::nullopt;
    const auto at = std::find(value.keys.begin(), value.keys.end(), key);
    return at == value.keys.end() ? Expansion{} : one(value.items[static_cast<std::size_t>(at - value.keys.begin())]);
  }

  std::optional<Expansion> indexed(const std::string& name, std::string_view index, int line) const {
    if (index.empty()) return named(name, line);
    const auto found = scope_.variables.find(name);
    if (found == scope_.variables.end()) return std::nullopt;
    if (index == "@" || index == "*") {
      if (found->second.by_key && found->second.items.size() > 1) return std::nullopt;  // in an order of bash's own
      if (!scope_.spend_items(found->second.items.size())) return std::nullopt;
      return Expansion{found->second.items, index == "@", true};
    }
    if (found->second.by_key) return element(found->second, index, line);
    const std::optional<long long> at = arithmetic(index, scope_);
    if (!at || *at < 0) return std::nullopt;
    const std::size_t i = static_cast<std::size_t>(*at);
    return i < found->second.items.size() ? one(found->second.items[i]) : Expansion{};
  }

  Expansion length(std::string_view name, int line, std::size_t from) const {
    const std::size_t bracket = name.find('[');
    const auto found = scope_.variables.find(std::string(name.substr(0, bracket)));
    if (found == scope_.variables.end()) return as_written(from);
    const Value& value = found->second;
    const std::size_t first = value.items.empty() ? 0 : value.items.front().chars.size();
    return number(static_cast<long long>(bracket == std::string_view::npos ? first : value.items.size()), line);
  }

  /// `:-default`, `:=default`, `:+other`, `:?message`, `:offset`, `#prefix`, `%suffix`, `/old/new`, `^^`, `,,`.
  Expansion operate(const std::string& name, std::optional<Expansion> value, const Text& rest, std::size_t from) {
    const std::string_view text = rest.chars;
    const bool colon = text.starts_with(':');
    const char op = colon && text.size() > 1 ? text[1] : text[0];
    const bool empty = !value || value->items.empty() || (value->items.size() == 1 && value->items[0].chars.empty());
    const bool missing =
        colon ? empty : !value || (value->items.empty() && !value->list);  // an element that is not there
    const Text argument = rest.part(colon ? 2 : 1);
    switch (op) {
      case '-':
      case '=': {
        if (!missing) return *value;
        Text fallback = expand_one(argument, scope_);
        if (op == '=') scope_.variables[name] = {{fallback}, false, false};
        return one(std::move(fallback));
      }
      case '+': return missing ? Expansion{} : one(expand_one(argument, scope_));
      case '?': return value && !missing ? *value : as_written(from);
      default: break;
    }
    if (colon) return slice(name, std::move(value), rest.part(1), from);
    if (!value) return as_written(from);
    for (Text& item : value->items)
      if (!edit(item, rest, scope_)) return as_written(from);
    return *value;
  }

  /// `${@:2}` and `${NAME:3:2}`.
  Expansion slice(const std::string& name, std::optional<Expansion> value, const Text& rest, std::size_t from) const {
    const std::size_t colon = rest.chars.find(':');
    const std::optional<long long> start = arithmetic(std::string_view(rest.chars).substr(0, colon), scope_);
    const std::optional<long long> count = colon == std::string::npos
                                               ? std::optional<long long>(1 << 30)
                                               : arithmetic(std::string_view(rest.chars).substr(colon + 1), scope_);
    if (!value || !start || !count || *start < 0 || *count < 0) return as_written(from);
    const std::size_t skip = static_cast<std::size_t>(*start), most = static_cast<std::size_t>(*count);
    if (!value->list) {
      if (value->items.empty()) return *value;
      const Text& whole = value->items.front();
      return one(skip < whole.chars.size() ? whole.part(skip, most) : Text{});
    }
    const std::vector<Text>& all = name == "@" ? scope_.positional : value->items;
    Expansion out{{}, true, true};
    for (std::size_t i = skip; i < all.size() && out.items.size() < most; ++i) out.items.push_back(all[i]);
    return out;
  }

  const Text& raw_;
  Scope& scope_;
  bool split_;
  std::size_t at_ = 0;
  std::vector<Text> words_{};
  Text word_{};
  bool started_ = false;
};

}  // namespace

std::vector<Text> expand(const Text& raw, Scope& scope) { return Expander(raw, scope, true).run(); }

Text expand_one(const Text& raw, Scope& scope) {
  const std::vector<Text> words = Expander(raw, scope, false).run();
  return words.empty() ? Text{} : words.front();
}

}  // namespace plan::shell
