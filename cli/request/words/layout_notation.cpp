// Layouts in notations that are not this program's. They are not taken: a notation that is nearly right must not be
// read as one that is. Tested by tests/cli/layout_flag_test.cpp.
#include "cli/request/words/layout_notation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>
#include <vector>

#include "cli/terminal/words.hpp"
#include "formulas/text.hpp"
#include "formulas/words.hpp"
#include "planner/problem/axes.hpp"

namespace plan {
namespace {

/// What stands for an axis, letters alone. Replicas times shards are what `dp` counts.
constexpr std::pair<std::string_view, std::string_view> kAxisWords[] = {
    {"tp", "t tp mp tensor model tensormp"},
    {"pp", "p pp pipe pipeline"},
    {"cp", "c cp context"},
    {"ep", "e ep expert"},
    {"etp", "etp experttensor"},
    {"vp", "v vp vpp virtual interleave virtualpipeline"},
    {"dp", "d dp data replica replicas replicate dpreplicate"},
    {"fsdp", "fsdp shards dpshard"},
    {"zero", "z zero"},
    {"mb", "mb mbs microbatch"}};
constexpr auto kEndings = word_list([] {
  return "modelparallelsize modelparalleldegree parallelsize paralleldegree parallelism parallel size degree stage";
});
constexpr std::string_view kFillers = "way ways";

/// The axis that a word stands for; empty if none.
std::string_view axis_called(const std::string& word) {
  const auto called = [](std::string_view name) -> std::string_view {
    for (const auto& [axis, words] : kAxisWords)
      if (among_words(words, name)) return axis;
    return {};
  };
  if (const std::string_view axis = called(word); !axis.empty()) return axis;
  for (const std::string_view ending : kEndings)
    if (word.size() > ending.size() && word.ends_with(ending))
      return called(word.substr(0, word.size() - ending.size()));
  return {};
}

/// Words, of which neighbours are joined, and numbers, by turns; empty where a number has a sign or a fraction.
std::vector<std::string> tokens_in(std::string_view text) {
  std::vector<std::string> tokens;
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto letter = [](char c) { return c >= 'a' && c <= 'z'; };
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t from = at;
    while (at < text.size() && (digit(text[from]) ? digit(text[at]) : letter(text[at]))) ++at;
    if (at == from) {
      const bool number = at + 1 < text.size() && digit(text[at + 1]), after = at > 0 && digit(text[at - 1]);
      // Between a name and its number a hyphen joins them, but before a lone 1: -1 leaves an axis to the tool.
      const bool one = number && text[at + 1] == '1' && (at + 2 == text.size() || !digit(text[at + 2]));
      const bool joins = after || (at > 0 && letter(text[at - 1]) && !one);
      if (number && ((text[at] == '.' && after) || (text[at] == '-' && !joins))) return {};
      ++at;
      continue;
    }
    std::string token(text.substr(from, at - from));
    const bool times = token.front() == 'x' && !tokens.empty() && digit(tokens.back().front());
    if (times && axis_called(token).empty()) token.erase(0, 1);  // 8xpp4
    if (token.empty() || among_words(kFillers, token)) continue;
    if (!tokens.empty() && digit(token.front()) == digit(tokens.back().front())) {
      if (digit(token.front())) return {};
      tokens.back() += token;
    } else {
      tokens.push_back(std::move(token));
    }
  }
  return tokens;
}

}  // namespace

std::optional<std::string> layout_in_words(std::string_view text) {
  const std::vector<std::string> tokens = tokens_in(lowered(std::string(text)));
  if (tokens.empty() || tokens.size() % 2 != 0) return std::nullopt;
  const std::size_t name = std::isdigit(static_cast<unsigned char>(tokens.front().front())) != 0 ? 1 : 0;
  std::string out;
  std::int64_t replicas = 1, shards = 0;
  std::vector<std::string_view> data;  // words for replicas, which multiply: `replica=2,data=4`
  for (std::size_t i = 0; i < tokens.size(); i += 2) {
    const std::string& word = tokens[i + name];
    const std::string_view axis = axis_called(word);
    const std::string& number = tokens[i + 1 - name];
    const bool again = std::find(data.begin(), data.end(), word) != data.end();
    if (axis.empty() || number.size() > 7 || again || (word.size() == 1 && tokens.size() == 2 && word != "z"))
      return std::nullopt;
    if (axis == "dp")
      replicas *= std::stoll(number), data.push_back(word);
    else if (axis == "fsdp")
      shards = std::stoll(number), data.push_back(word);
    else
      out += fmt::format("{}{}{}", out.empty() ? "" : ",", axis, number);
    if (replicas < 1 || replicas > kMostRanks || shards > kMostRanks) return std::nullopt;
  }
  // Shards or copies of them alone may be all replicas or a part of them: their own help says both.
  if (data.size() == 1 && (shards > 0 || data.front().find("replic") != std::string_view::npos)) return std::nullopt;
  if (!data.empty()) out += fmt::format("{}dp{}", out.empty() ? "" : ",", replicas * std::max<std::int64_t>(shards, 1));
  if (shards > 0 && out.find("zero") == std::string::npos) out += ",zero3";
  if (shards > 0 && replicas > 1) out += fmt::format(",shard{}", shards);
  return out;
}

}  // namespace plan
