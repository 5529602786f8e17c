// What commands lay over the configuration files that they name. Ways of each program: torchtitan 0.2 config/manager.py
// (tyro), LLaMA-Factory 0.9 hparams/parser.py (OmegaConf), torchtune 0.6 config/_parse.py, Composer's launcher.
// Tested by tests/launch/overlays_test.cpp.
#include "cli/launch/overlays.hpp"

#include <algorithm>
#include <cctype>

#include "cli/launch/megatron_flags.hpp"
#include "formulas/words.hpp"
#include "presets/suggest.hpp"

namespace plan {
namespace {

enum class Way { None, Flags, Pairs };

/// How the program of a command takes them.
Way way_of(const ShellCommand& command) {
  for (const ShellWord& word : command.words) {
    const std::string base(base_name(word.text));
    if (word.text.starts_with("--job.config")) return Way::Flags;
    if (base == "llamafactory-cli" || base == "lmf" || base == "tune" || base == "composer") return Way::Pairs;
  }
  return Way::None;
}

bool is_key(std::string_view text) {
  return !text.empty() && (std::isalpha(static_cast<unsigned char>(text[0])) != 0 || text[0] == '_') &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '-';
         });
}

/// A value that nobody knows before the script runs is none.
bool is_open(std::string_view value) { return value.find('$') != std::string_view::npos; }

/// `--compile.no-enable` switches off what `--compile.enable` switches on.
Overlay switched(std::string key, Place place) {
  const std::size_t last = key.rfind('.') + 1;
  const bool off = key.compare(last, 3, "no_") == 0;
  if (off) key.erase(last, 3);
  return {std::move(key), off ? "false" : "true", std::move(place)};
}

/// LLaMA-Factory asks the environment which back end reads its file: extras/misc.py, is_env_enabled.
bool asks_for_mca(const ShellCommand& command) {
  const auto found = command.environment.find("USE_MCA");
  if (found == command.environment.end()) return false;
  const std::string word = lowered(found->second);
  return word == "1" || word == "true" || word == "y";
}

}  // namespace

std::set<std::size_t> lay_over(const ShellCommand& command, const std::string& script, LaunchSource& file) {
  std::set<std::size_t> taken;
  const Way way = way_of(command);
  const std::vector<ShellWord>& words = command.words;
  if (way == Way::Pairs && asks_for_mca(command))
    file.overlays.push_back({"use_mca", "true", {script, words.front().line, 1, 1, {}}});
  for (std::size_t i = 0; i < words.size() && way != Way::None; ++i) {
    std::string_view text = words[i].text;
    const Place place{.file = script, .line = words[i].line, .column = 1, .length = 1, .text = {}};
    if ((way == Way::Flags) != text.starts_with("--")) continue;
    text.remove_prefix(way == Way::Flags ? 2 : 0);
    const std::size_t equals = text.find('=');
    const std::string key = with_underscores(text.substr(0, equals));
    const bool dotted = key.find('.') != std::string::npos && !key.starts_with("job.config");
    if (!is_key(key) || (way == Way::Flags && !dotted)) continue;
    if (equals != std::string_view::npos) {
      if (is_open(text.substr(equals))) continue;
      file.overlays.push_back({key, std::string(text.substr(equals + 1)), place});
    } else if (way == Way::Flags) {
      const bool valued = i + 1 < words.size() && !words[i + 1].text.starts_with("--");
      if (valued && is_open(words[i + 1].text)) continue;
      file.overlays.push_back(valued ? Overlay{key, words[i + 1].text, place} : switched(key, place));
      if (valued) taken.insert(i + 1);
    } else {
      continue;
    }
    taken.insert(i);
  }
  return taken;
}

}  // namespace plan
