// What a script does with its arguments, and the scripts that it calls with arguments of their own. Tested by
// tests/launch/shell_test.cpp and wrappers_test.cpp.
#include <algorithm>
#include <cctype>
#include <charconv>
#include <utility>

#include "cli/shell/follower.hpp"
#include "cli/shell/launch_source.hpp"
#include "cli/shell/statements.hpp"
#include "formulas/text.hpp"
#include "formulas/words.hpp"

namespace plan::shell {
Truth Follower::shift(const std::vector<Text>& words) {
  std::size_t by = 1;
  if (words.size() > 1) {
    const std::optional<std::size_t> stated = as_number<std::size_t>(words[1].chars);
    if (!stated) return scope.knows_positional = false, Truth::Unknown;
    by = *stated;
  }
  if (!scope.knows_positional) return Truth::Unknown;
  if (by >= std::max<std::size_t>(1, scope.positional.size())) return truth(by == 0);
  const auto first = scope.positional.begin() + 1;
  scope.positional.erase(first, first + static_cast<std::ptrdiff_t>(by));
  return Truth::Yes;
}

/// `set -- a b` gives the script other arguments; `set -e` and its like change nothing here.
Truth Follower::set_arguments(const std::vector<Text>& words) {
  if (words.size() < 2 || words[1].chars != "--") return Truth::Yes;
  // `eval set -- "$(getopt -o n: -- "$@")"`: getopt only puts options before the rest.
  const auto sorts = [](const Text& word) { return word.chars.find("getopt") != std::string::npos; };
  if (std::any_of(words.begin() + 2, words.end(), sorts)) return Truth::Yes;
  scope.knows_positional =
      std::none_of(words.begin() + 2, words.end(), [](const Text& word) { return is_open(word.chars); });
  Text name;
  if (!scope.positional.empty()) name = scope.positional.front();
  scope.positional.assign(words.begin() + 1, words.end());
  scope.positional.front() = std::move(name);
  return Truth::Yes;
}

Truth Follower::next_option(const std::vector<Text>& words) {
  if (words.size() < 3 || !scope.knows_positional) return Truth::Unknown;
  const int line = words.front().line();
  const auto give = [&](const std::string& name, std::string_view text) {
    Text value;
    value.add(text, line);
    set(name, {{std::move(value)}, false, false});
  };
  const auto next = [&] { ++option_, letter_ = 0; };
  if (option_ >= scope.positional.size()) return Truth::No;
  const std::string word = scope.positional[option_].chars;
  if (letter_ == 0) {
    if (word.size() < 2 || word.front() != '-') return Truth::No;
    if (word == "--") return next(), give("OPTIND", std::to_string(option_)), Truth::No;
    letter_ = 1;
  }
  const char letter = word[letter_++];
  const std::string& known = words[1].chars;
  const std::size_t at = letter == ':' ? std::string::npos : known.find(letter);
  const bool last = letter_ >= word.size();
  give(words[2].chars, at == std::string::npos ? "?" : std::string(1, letter));
  if (at != std::string::npos && known.substr(at + 1).starts_with(':')) {
    const std::size_t value = option_ + 1;
    if (!last)
      give("OPTARG", word.substr(letter_));
    else if (value < scope.positional.size())
      set("OPTARG", {{scope.positional[value]}, false, false}), ++option_;
    else
      give(words[2].chars, "?");
    next();
  } else if (last) {
    next();
  }
  give("OPTIND", std::to_string(option_));
  return Truth::Yes;
}

namespace {

bool names_script(std::string_view word) {
  constexpr std::string_view kEnds[] = {".sh", ".bash", ".slurm", ".sbatch"};
  return !word.starts_with('-') &&
         std::any_of(std::begin(kEnds), std::end(kEnds), [&](std::string_view end) { return word.ends_with(end); });
}

/// The word that names the script which a command starts; 0 is its first word, and `words.size()` none.
std::size_t called_script(const std::vector<Text>& words) {
  if (names_script(words.front().chars)) return 0;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string_view name = base_name(words[i].chars);
    const bool shell = name == "bash" || name == "sh";
    if (!shell && name != "sbatch" && name != "srun") continue;
    for (std::size_t k = i + 1; k < words.size(); ++k) {
      if (names_script(words[k].chars)) return k;
      if (shell && !words[k].chars.starts_with('-')) return words.size();
      if (shell && words[k].chars.find('c') != std::string::npos) return words.size();      // its words are the script
      if (base_name(words[k].chars) == "bash" || base_name(words[k].chars) == "sh") break;  // the outer loop's next
    }
  }
  return words.size();
}

}  // namespace

bool Follower::follow_called(const std::vector<Text>& words, const std::map<std::string, std::string>& environment) {
  const std::size_t at = source == nullptr ? words.size() : called_script(words);
  if (at == words.size()) return false;
  const std::optional<LaunchSource> file = beside(*source, words[at].chars);
  const int line = words.front().line();
  if (!file || file->path == source->path || !is_shell(*file)) return false;
  if (!affords(file->text.size(), line)) return true;
  script_.called[file->path] = file->text;
  record(words, environment);  // the launcher says on how many GPUs
  std::map<std::string, Value> outer = scope.variables;
  std::erase_if(scope.variables,
                [](const auto& one) { return !one.second.exported && !one.first.starts_with("SLURM_"); });
  for (const auto& [name, text] : environment) {
    Text value;
    value.add(text, line);
    set(name, {{std::move(value)}, false, true});
  }
  if (base_name(words.front().chars) == "sbatch") {
    std::string flags = "#SBATCH";
    for (std::size_t i = 1; i < at; ++i) flags += " " + words[i].chars;
    for (const std::string& text : {file->text, flags})
      for (ShellDirective& directive : sbatch_directives(text)) {
        directive.line = line;
        script_.sbatch.push_back(std::move(directive));
      }
    set_slurm_variables(script_.sbatch, scope);
  }
  auto functions = std::exchange(functions_, {});
  const auto option = std::exchange(option_, 1), letter = std::exchange(letter_, 0);
  const LaunchSource* above = std::exchange(source, &*file);
  Text text;
  text.add(file->text, line);  // its words are placed where it is called
  inner(text, words, at);
  exited_ = false;  // the shell within, and not the script
  option_ = option, letter_ = letter, source = above;
  functions_ = std::move(functions);
  scope.variables = std::move(outer);
  return true;
}

}  // namespace plan::shell
