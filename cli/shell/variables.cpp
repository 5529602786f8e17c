// What commands do to variables beside assignments: unset, read, let; and what the scheduler's stand for. Tested by
// tests/launch/left_out_test.cpp.
#include <fmt/core.h>

#include <cctype>
#include <optional>

#include "cli/shell/follower.hpp"

namespace plan::shell {

void Follower::lose(const std::string& name, int line, std::string_view what) {
  scope.variables.erase(name);
  script_.exported.erase(name);
  note(line, fmt::format("what {} is not followed", what));
}

void Follower::assign(Assignment one, int line) {
  if (!one.known) return lose(one.name, line, fmt::format("`{}` is set to here", one.name));
  set(one.name, std::move(one.value));
}

Truth Follower::declare(const std::vector<Token>& words) {
  bool exports = words.front().raw.chars == "export", by_key = false, refers = false;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const Token& word = words[i];
    const std::string& raw = word.raw.chars;
    if (raw.starts_with('-') || raw.starts_with('+')) {
      by_key |= raw.starts_with('-') && raw.find('A') != std::string::npos;
      refers |= raw.starts_with('-') && raw.find('n') != std::string::npos && words.front().raw.chars != "export";
      exports |= raw.starts_with('-') && raw.find('x') != std::string::npos;
      continue;
    }
    const std::string name = raw.substr(0, raw.find_first_of("=+["));
    if (by_key && !scope.variables.contains(name)) scope.variables[name] = {{}, true, false, true, {}};
    if (std::optional<Assignment> one = assignment(word, scope)) {
      const std::string other = one->value.items.empty() ? "" : one->value.items.front().chars;
      if (refers) lose(other, word.line, fmt::format("is done to `{}` as `{}`", other, name));
      one->value.exported = exports && !refers;
      assign(std::move(*one), word.line);
      if (refers) scope.variables.erase(name);
    } else {
      declare_expanded(word, exports);
    }
  }
  return Truth::Yes;
}

/// `export A`, `export "$NAME=$VALUE"` and `export $SETTINGS`: words that say what is set once they are expanded.
void Follower::declare_expanded(const Token& word, bool exports) {
  for (const Text& text : expand(word.raw, scope)) {
    if (std::optional<Assignment> one = assignment_of(text)) {
      one->value.exported = exports;
      set(one->name, std::move(one->value));
    } else if (const auto held = scope.variables.find(text.chars); held != scope.variables.end()) {
      if (exports) held->second.exported = true, publish(text.chars, held->second);
    } else if (text.chars.find_first_of("$`") != std::string::npos) {
      note(word.line, fmt::format("what `{}` sets is not followed", text.chars));
    }
  }
}

void Follower::take_environment(std::vector<Text>& words, std::map<std::string, std::string>& environment) {
  std::size_t at = 1;
  for (; at < words.size(); ++at) {
    const std::optional<Assignment> one = assignment_of(words[at]);
    if (!one) break;
    environment[one->name] = one->value.items.front().chars;
  }
  if (at < words.size() && words[at].chars.starts_with('-')) return;  // whose options are read nowhere
  words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(at));
}

void Follower::forget(const std::vector<Text>& words, std::size_t from) {
  const bool unset = words.front().chars == "unset";
  for (std::size_t i = from; i < words.size(); ++i) {
    const std::string name = words[i].chars.substr(0, words[i].chars.find('['));
    if (scope.variables.contains(name) && name.size() < words[i].chars.size()) {
      lose(name, words[i].line(), fmt::format("`{}` leaves of `{}`", words.front().chars, name));
      continue;
    }
    if (scope.variables.erase(name) == 0) continue;
    script_.exported.erase(name);
    if (!unset)
      note(words[i].line(), fmt::format("what `{}` puts into `{}` is not followed", words.front().chars, name));
  }
}

Truth Follower::calculate(std::string_view text, int line) {
  const auto blank = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  const bool first = text.starts_with("++") || text.starts_with("--");
  std::string step(first ? text.substr(0, 2) : "");
  if (first) text.remove_prefix(2);
  std::size_t end = 0;
  while (end < text.size() && (std::isalnum(static_cast<unsigned char>(text[end])) != 0 || text[end] == '_')) ++end;
  const std::string name(text.substr(0, end));
  std::string_view rest = text.substr(end);
  while (!rest.empty() && blank(rest.front())) rest.remove_prefix(1);
  if (rest == "++" || rest == "--") step = rest, rest = {};
  std::string right;
  if (!step.empty() && rest.empty())
    right = fmt::format("{} {} 1", name, step.front());
  else if (rest.size() > 1 && std::string_view("+-*/%").find(rest[0]) != std::string_view::npos && rest[1] == '=')
    right = fmt::format("{} {} ({})", name, rest[0], rest.substr(2));
  else if (rest.starts_with('=') && !rest.starts_with("=="))
    right = rest.substr(1);
  const bool sets = !right.empty() && !name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) == 0;
  const std::optional<long long> value = arithmetic(sets ? std::string_view(right) : text, scope);
  if (sets && value) {
    Text shown;
    shown.add(std::to_string(*value), line);
    set(name, {{std::move(shown)}, false, false});
  } else if (sets && scope.variables.erase(name) > 0) {
    note(line, fmt::format("what `{}` is counted to is not followed", name));
  }
  const long long after = !step.empty() && !first ? (step == "++" ? -1 : 1) : 0;  // `N++` is what N was before
  return value ? truth(*value + after != 0) : Truth::Unknown;
}

std::optional<Text> counted_by_machine(const Text& command, const Scope& scope) {
  std::string_view text = command.chars;
  while (text.starts_with(' ')) text.remove_prefix(1);
  const auto has = [&](std::string_view part) { return text.find(part) != std::string_view::npos; };
  const bool lines = has("wc -l") && !has("grep") && !has("| head") && !has("|head") && !has("awk");
  const bool lists = has(" -L") || has("--list-gpus") || (has("--query-gpu") && has("noheader"));
  const bool gpus = (text.starts_with("nvidia-smi") && lines && lists && !has(" -i") && !has("--id")) ||
                    (text.starts_with("python") && has("print(torch.cuda.device_count())"));
  const bool nodes = text.starts_with("scontrol show hostname") && lines && has("NODELIST");
  if (!gpus && !nodes) return std::nullopt;
  const auto known = scope.variables.find(gpus ? "SLURM_GPUS_ON_NODE" : "SLURM_NNODES");
  if (known == scope.variables.end() || known->second.items.empty()) return std::nullopt;
  const Text& count = known->second.items.front();
  if (count.chars.empty() || count.chars.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
  return count;
}

}  // namespace plan::shell
