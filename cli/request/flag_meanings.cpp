// What flags of other tools mean here. Tested by tests/cli/flag_words_test.cpp.
#include "cli/request/flag_meanings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace plan {
namespace {

using Words = std::vector<std::string>;

constexpr std::string_view kLayout = "--layout";

/// A flag's name without dashes, and the value behind `=` or the next word; empty: it has none.
std::pair<std::string, std::string> split_flag(const std::string& flag, const Words& words) {
  const std::string bare = flag_name(flag);
  const auto at =
      std::find_if(words.begin(), words.end(), [&](const std::string& word) { return flag_name(word) == bare; });
  const std::string name = bare.substr(std::min(bare.find_first_not_of('-'), bare.size()));
  if (at == words.end()) return {name, ""};
  if (const std::size_t equals = at->find('='); equals != std::string::npos) return {name, at->substr(equals + 1)};
  return {name, at + 1 == words.end() || is_flag(*(at + 1)) ? "" : *(at + 1)};
}

}  // namespace

FlagMeanings::FlagMeanings(const Words& flags, const Words& words, std::string layout) : layout_(std::move(layout)) {
  std::string nodes, of_node;
  for (const std::string& flag : flags) {
    const auto [name, value] = split_flag(flag, words);
    if (counts_nodes(name)) nodes = value;
    if (counts_gpus_of_node(name)) of_node = value;
  }
  for (const std::string& flag : flags) {
    const auto [name, value] = split_flag(flag, words);
    const bool counts = counts_nodes(name) || counts_gpus_of_node(name);
    std::optional<MeantFlag> meant = counts ? meant_gpus(nodes, of_node) : meant_flag_or_axis(name, value);
    if (!meant) {
      in_words_.emplace(flag_name(flag), meant_in_words(name, value));
      continue;
    }
    if (meant->flag == kLayout) layout_ += (layout_.empty() ? "" : ",") + meant->value;
    if (counts && of_node.empty()) guessed_ = flag_name(flag);
    meant_.emplace(flag_name(flag), *std::move(meant));
  }
}

Words FlagMeanings::of(std::string_view flag) const {
  const std::string name = flag_name(flag);
  if (const auto said = in_words_.find(name); said != in_words_.end()) return said->second;
  const auto found = meant_.find(name);
  if (found == meant_.end()) return {};
  const auto& [meant, value] = found->second;
  Words help{fmt::format("write `{} {}`", meant, meant == kLayout ? layout_ : value)};
  if (name == guessed_) help.emplace_back("for nodes of 8 GPUs");
  return help;
}

}  // namespace plan
