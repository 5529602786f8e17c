// The parts of a bash script that are recognised as a whole: assignments, functions, the directives of sbatch.
// Tested by tests/launch/shell_test.cpp.
#include "cli/shell/statements.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "formulas/text.hpp"

namespace plan::shell {
namespace {

void set_variable(Scope& scope, const char* name, std::string_view text, int line) {
  Text value;
  value.add(text, line);
  scope.variables[name] = {{value}, false, false};
}

}  // namespace

int count_of(std::string_view text) {
  const int number = as_number<int>(text).value_or(0);
  return number > 0 && number <= kMostCounted ? number : 0;
}

std::string_view behind_kind(std::string_view text) { return text.substr(text.rfind(':') + 1); }

std::string_view gpus_of_gres(std::string_view value) {
  while (!value.empty()) {
    std::string_view item = value.substr(0, value.find(','));
    value.remove_prefix(std::min(value.size(), item.size() + 1));
    item = item.substr(0, item.find('('));
    if (item.starts_with("gres:") || item.starts_with("gres/")) item.remove_prefix(5);
    if (lowered(std::string(item.substr(0, item.find(':')))) == "gpu" || count_of(item) > 0) return item;
  }
  return {};
}

namespace {

bool starts_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// Behind the name that the text starts with; 0: it starts with none.
std::size_t behind_name(std::string_view text) {
  std::size_t end = 0;
  while (end < text.size() && (starts_name(text[end]) || (end > 0 && text[end] >= '0' && text[end] <= '9'))) ++end;
  return end;
}

/// `[KEY]=` or `[KEY]+=` at `at`, which moves behind it; nothing where there is none.
struct Element {
  Text key{};
  bool append = false;
};
std::optional<Element> element_at(const Text& raw, std::size_t& at) {
  const std::string_view text = raw.chars;
  if (at >= text.size() || text[at] != '[') return std::nullopt;
  const std::size_t close = closing(text, at, '[', ']');
  if (close == std::string_view::npos || close >= text.size()) return std::nullopt;
  const bool append = text.substr(close).starts_with("+=");
  if (!append && text[close] != '=') return std::nullopt;
  Element out{raw.part(at + 1, close - at - 2), append};
  at = close + (append ? 2 : 1);
  return out;
}

/// Puts one element into an array; false where it is not known which it is, or where it would leave a gap.
bool put(Value& value, const Element& element, const Text& text, Scope& scope) {
  const Text key = expand_one(element.key, scope);
  std::size_t at = 0;
  if (value.by_key) {
    if (key.chars.find_first_of("$`") != std::string::npos) return false;
    at = static_cast<std::size_t>(std::find(value.keys.begin(), value.keys.end(), key.chars) - value.keys.begin());
  } else {
    const std::optional<long long> index = arithmetic(key.chars, scope);
    if (!index || *index < 0 || static_cast<std::size_t>(*index) > value.items.size()) return false;
    at = static_cast<std::size_t>(*index);
  }
  if (at == value.items.size()) {
    value.items.emplace_back();
    if (value.by_key) value.keys.push_back(key.chars);
  }
  if (!element.append) value.items[at] = {};
  value.items[at].add(text);
  return true;
}

/// `(a b)` and `([key]=value ...)` behind what the array already holds.
bool put_all(Value& value, const Text& inner, Scope& scope) {
  for (const Token& item : words_of(inner)) {
    std::size_t at = 0;
    if (const std::optional<Element> element = element_at(item.raw, at)) {
      if (!put(value, *element, expand_one(item.raw.part(at), scope), scope)) return false;
    } else {
      if (value.by_key) return false;  // `(key value key value)`, which bash takes since 5.1
      for (Text& text : expand(item.raw, scope)) value.items.push_back(std::move(text));
    }
  }
  return true;
}

}  // namespace

std::optional<Assignment> assignment(const Token& token, Scope& scope) {
  const std::string_view raw = token.raw.chars;
  std::size_t end = behind_name(raw);
  if (end == 0 || end >= raw.size()) return std::nullopt;
  Assignment out{std::string(raw.substr(0, end)), {}};
  const auto old = scope.variables.find(out.name);
  const auto keep_old = [&] {
    if (old == scope.variables.end() || !scope.spend_items(old->second.items.size())) return;
    out.value = old->second;
    out.value.exported = false;
  };
  if (const std::optional<Element> element = element_at(token.raw, end)) {
    keep_old();
    out.value.array = true;
    out.known = put(out.value, *element, expand_one(token.raw.part(end), scope), scope);
    return out;
  }
  const bool append = raw[end] == '+' && end + 1 < raw.size() && raw[end + 1] == '=';
  if (!append && raw[end] != '=') return std::nullopt;
  const Text right = token.raw.part(end + (append ? 2 : 1));
  const bool extends = append && old != scope.variables.end();
  if (right.chars.starts_with('(')) {
    if (extends) keep_old();
    out.value.array = true;
    out.value.by_key = old != scope.variables.end() && old->second.by_key;
    out.known = put_all(out.value, right.part(1, right.chars.size() - 2), scope);
  } else if (old != scope.variables.end() && old->second.by_key) {
    out.known = false;  // the element `0`
  } else {
    const bool array = old != scope.variables.end() && old->second.array;
    if (array || extends) keep_old();
    Text text = extends && !out.value.items.empty() ? out.value.items.front() : Text{};
    text.add(expand_one(right, scope));
    if (out.value.items.empty()) out.value.items.emplace_back();
    out.value.items.front() = std::move(text);  // the first element, where it is an array
  }
  return out;
}

std::optional<Assignment> assignment_of(const Text& text) {
  const std::size_t end = behind_name(text.chars);
  if (end == 0 || end >= text.chars.size() || text.chars[end] != '=') return std::nullopt;
  return Assignment{text.chars.substr(0, end), {{text.part(end + 1)}, false, false}};
}

std::optional<FunctionText> function_at(const std::vector<Token>& words, std::string_view op,
                                        const std::vector<Token>& tokens, std::size_t at) {
  const bool keyword = words.size() >= 2 && words[0].raw.chars == "function";
  const bool bare = words.size() == 1 && op == "(" && at + 1 < tokens.size() && tokens[at + 1].raw.chars == ")";
  if (!keyword && !bare) return std::nullopt;
  std::size_t open = at;
  if (!keyword || words.back().raw.chars != "{") {
    while (open < tokens.size() && tokens[open].raw.chars != "{") ++open;
    ++open;
  }
  int depth = 1;
  std::size_t close = open;
  for (; close < tokens.size(); ++close) {
    if (tokens[close].raw.chars == "{") ++depth;
    if (tokens[close].raw.chars == "}" && --depth == 0) break;
  }
  FunctionText out{keyword ? words[1].raw.chars : words[0].raw.chars, {}, std::min(close + 1, tokens.size())};
  if (open < tokens.size())
    out.body.assign(tokens.begin() + static_cast<std::ptrdiff_t>(open),
                    tokens.begin() + static_cast<std::ptrdiff_t>(std::min(close, tokens.size())));
  return out;
}

std::vector<ShellDirective> sbatch_directives(std::string_view text) {
  std::vector<ShellDirective> out;
  int number = 0;
  while (!text.empty()) {
    ++number;
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
    if (!line.starts_with("#SBATCH")) continue;
    line.remove_prefix(7);
    std::vector<std::string> words;
    for (const Token& token : words_of(Text{std::string(line), std::vector<int>(line.size(), number)}))
      words.push_back(token.raw.chars);
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (!words[i].starts_with('-')) continue;
      const std::size_t dashes = words[i].starts_with("--") ? 2 : 1, equals = words[i].find('=');
      ShellDirective directive{words[i].substr(dashes, equals == std::string::npos ? equals : equals - dashes), "",
                               number};
      if (equals != std::string::npos)
        directive.value = words[i].substr(equals + 1);
      else if (i + 1 < words.size() && !words[i + 1].starts_with('-'))
        directive.value = words[++i];
      out.push_back(std::move(directive));
    }
  }
  return out;
}

void set_slurm_variables(const std::vector<ShellDirective>& directives, Scope& scope) {
  if (directives.empty()) return;
  const auto set = [&](const char* name, std::string_view text, int line) { set_variable(scope, name, text, line); };
  // The script is sbatch's: looked at as a job's first task, and not as what a login node would do with it.
  const int first = directives.front().line;
  set("SLURM_JOB_ID", "1", first), set("SLURM_JOBID", "1", first);
  for (const char* rank : {"SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID"}) set(rank, "0", first);
  int nodes = 1, of_node = 0;
  for (const ShellDirective& directive : directives) {
    const std::string_view name = directive.name, value = directive.value;
    const std::string_view count = behind_kind(value);
    const int line = directive.line;
    if (name == "nodes" || name == "N") {
      set("SLURM_NNODES", value, line), set("SLURM_JOB_NUM_NODES", value, line);
      nodes = count_of(value);
    }
    if (name == "gpus-per-node") set("SLURM_GPUS_ON_NODE", count, line), set("SLURM_GPUS_PER_NODE", value, line);
    if (const std::string_view gpus = name == "gres" ? gpus_of_gres(value) : ""; gpus.find(':') != gpus.npos)
      set("SLURM_GPUS_ON_NODE", behind_kind(gpus), line);
    if (name == "ntasks-per-node") {
      set("SLURM_NTASKS_PER_NODE", value, line);
      of_node = count_of(value);
    }
    if (name == "ntasks" || name == "n") set("SLURM_NTASKS", value, line), set("SLURM_NPROCS", value, line);
  }
  const std::int64_t all = std::int64_t{nodes} * of_node;
  if (all == 0 || scope.variables.contains("SLURM_NTASKS")) return;
  for (const char* tasks : {"SLURM_NTASKS", "SLURM_NPROCS"}) set(tasks, std::to_string(all), first);
}

void set_slurm_variables(int nodes, int gpus_per_node, Scope& scope) {
  const auto set = [&](const char* name, std::int64_t count) { set_variable(scope, name, std::to_string(count), 1); };
  set("SLURM_NNODES", nodes), set("SLURM_JOB_NUM_NODES", nodes);
  set("SLURM_GPUS_ON_NODE", gpus_per_node), set("SLURM_GPUS_PER_NODE", gpus_per_node);
  set("SLURM_GPUS", std::int64_t{nodes} * gpus_per_node);
  // How many tasks a node has is the header's to say: a task a GPU and a task a node are both usual.
  const auto tasks = scope.variables.find("SLURM_NTASKS_PER_NODE");
  if (tasks == scope.variables.end() || tasks->second.items.empty()) return;
  const int of_node = count_of(tasks->second.items.front().chars);
  for (const char* name : {"SLURM_NTASKS", "SLURM_NPROCS"})
    if (of_node > 0) set(name, std::int64_t{nodes} * of_node);
}

}  // namespace plan::shell
