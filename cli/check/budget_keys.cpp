// Flags as the keys of a budget, and the keys of other tools. Tested by tests/cli/budget_file_test.cpp.
#include "cli/check/budget_keys.hpp"

#include <algorithm>

#include "cli/check/budget_file.hpp"
#include "cli/request/flags/flag_meanings.hpp"
#include "cli/request/sources/request.hpp"
#include "cli/terminal/words.hpp"

namespace plan {
namespace {

/// The key of a budget that a flag without its dashes is; empty if budgets lack it.
std::string_view key_of_flag(std::string_view flag, bool of_launch_file) {
  constexpr std::string_view kOurs[] = {"gpus", "gpu", "cluster", "layout", "framework"};
  for (const std::string_view key : job_words())
    if (folded(key) == flag &&
        (!of_launch_file || std::find(std::begin(kOurs), std::end(kOurs), key) != std::end(kOurs)))
      return key;
  return {};
}

/// Flags of one piece of a sentence as keys: `--gpus 8` is `gpus: 8`.
std::string with_keys(std::string_view text, bool of_launch_file) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz0123456789-";
  std::string out;
  while (!text.empty()) {
    const std::size_t dashes = std::min(text.find("--"), text.size());
    out += text.substr(0, dashes);
    text.remove_prefix(dashes);
    if (text.empty()) break;
    const std::size_t end = std::min(text.find_first_not_of(kLetters), text.size());
    const std::string_view flag = text.substr(0, end);
    const std::string_view key = key_of_flag(flag.substr(2), of_launch_file);
    out += key.empty() ? flag : key;
    text.remove_prefix(end);
    if (!key.empty() && text.starts_with(' ')) out += ':';  // its value follows
  }
  return out;
}

}  // namespace

std::string spelt_as_keys(std::string_view text, bool of_launch_file) {
  const std::vector<std::string_view> pieces = split(text, "`");  // by turns prose and what to write
  std::string out;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (i > 0) out += '`';
    const bool command = i % 2 == 1 && pieces[i].starts_with("plan ");  // stays as it is typed
    out += command ? std::string(pieces[i]) : with_keys(pieces[i], of_launch_file);
  }
  return out;
}

std::vector<std::string> meant_keys(std::string_view key, const std::vector<yaml::Node>& items, std::string layout) {
  std::vector<std::string> flags, words;  // all that budgets lack together: nodes and the GPUs of each are one number
  for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
    const std::string flag = "--" + folded(items[i].text);
    words.push_back(flag + "=" + items[i + 1].text);
    const std::vector<std::string_view>& known = budget_words();
    if (std::find(known.begin(), known.end(), items[i].text) == known.end()) flags.push_back(flag);
  }
  std::vector<std::string> said = FlagMeanings(flags, words, std::move(layout)).of("--" + folded(key));
  for (std::string& sentence : said) sentence = spelt_as_keys(sentence);
  return said;
}

}  // namespace plan
