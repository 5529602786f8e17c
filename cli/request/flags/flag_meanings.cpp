// What flags of other tools mean here. Tested by tests/cli/flag_words_test.cpp.
#include "cli/request/flags/flag_meanings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "cli/request/words/said_flags.hpp"
#include "cli/terminal/numbers.hpp"
#include "cli/terminal/words.hpp"
#include "planner/problem/axes.hpp"
#include "presets/store.hpp"

namespace plan {
namespace {

using Words = std::vector<std::string>;

constexpr std::string_view kLayout = "--layout";

/// Letters that launchers and people have for flags, and the name of the flag.
constexpr std::pair<std::string_view, std::string_view> kLetters[] = {
    {"-N", "nodes"}, {"-n", "num-gpus"}, {"-g", "num-gpus"}, {"-m", "model-name"}};

/// The value of a flag, or none, with its unit where that stands behind it.
std::string value_of(const Words& words, std::string_view name) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (flag_name(words[i]) != name) continue;
    const std::size_t equals = words[i].find('=');
    const std::size_t next = equals == std::string::npos ? i + 2 : i + 1;
    if (equals == std::string::npos && (i + 1 == words.size() || is_flag(words[i + 1]))) return {};
    std::string value = equals == std::string::npos ? words[i + 1] : words[i].substr(equals + 1);
    if (next < words.size() && is_unit_of_batch(words[next])) value += " " + words[next];
    return value;
  }
  return {};
}

/// As it is typed; `4M` alone counts tokens, which people alone give in millions. `2k` counts sequences.
std::string typed(const MeantFlag& meant) {
  const bool millions = meant.flag == "--global-batch" && !meant.value.empty() &&
                        std::string_view("mMgG").find(meant.value.back()) != std::string_view::npos;
  const std::string value = millions ? meant.value + " tokens" : meant.value;
  const bool one_word = value.find(' ') == std::string::npos || value.find(" --") != std::string::npos;
  return one_word ? value : "'" + value + "'";
}

/// A flag's name without dashes, and the value behind `=` or the next word; empty: it has none.
std::pair<std::string, std::string> split_flag(const std::string& flag, const Words& words) {
  const std::string bare = flag_name(flag), value = value_of(words, bare);
  for (const auto& [letter, name] : kLetters)
    if (bare == letter && (name != "model-name" || !read_count("", value, 1, kMostRanks)))
      return {std::string(name), value};
  return {bare.substr(std::min(bare.find_first_not_of('-'), bare.size())), value};
}

/// What to write for another tool's switch that is turned off. Most are off here, too, unless they are asked for; of
/// the others the word that `plan` has for that, or what replaces them. Nothing for what is no such switch.
Words said_of_off(const std::string& name, std::string_view value) {
  std::optional<MeantFlag> on;
  if (turns_off(value)) on = meant_flag(name, "true");
  if (turns_off(value) && !on) on = meant_flag(name, "");
  if (!on || on->flag == "--optimizer" || on->flag == "--framework") return {};
  if (folded(name).starts_with("no-")) return {fmt::format("leave `--{}` out", name)};
  if (on->flag == "--precision" && on->value == "bf16") return {"write what is used in its place: `--precision fp16`"};
  if (on->flag == "--precision")
    return {fmt::format("leave `--{}` out: without `--precision` it is bf16, or fp16 on GPUs that have none", name)};
  if (on->flag == "--overlap" && on->value == "grads") return {"write `--overlap none`"};
  if (on->flag == "--overlap" && on->value == "grads+params") return {"write `--overlap grads+p2p`"};
  if (on->flag == "--dispatcher") return {"write `--dispatcher alltoall`"};
  if (on->flag == kLayout && on->value == "zero1") return {"write `--layout zero0`"};
  if (on->flag == kLayout && on->value == "zero3")
    return {"what replicas share is said by `--layout zero0`, `zero1` or `zero2`"};
  return {fmt::format("leave `--{}` out: it is off unless it is asked for", name)};
}

/// The GPUs of a node of the kind that a command line names; empty if it names none.
std::string node_of_gpu(const Words& words) {
  const std::string kind = value_of(words, "--gpu");
  const Result<Found<Gpu>> gpu = kind.empty() ? fail(Error{}) : load_gpu(kind, StoreOptions::from_environment());
  return gpu && gpu->value.gpus_per_node > 0 ? std::to_string(gpu->value.gpus_per_node) : std::string();
}

}  // namespace

bool is_unit_of_batch(std::string_view word) { return among_words("tokens token sequences sequence samples", word); }

FlagMeanings::FlagMeanings(const Words& flags, const Words& words, std::string layout) : layout_(std::move(layout)) {
  std::string nodes, of_node, machine;
  for (const std::string& flag : flags) {
    const auto [name, value] = split_flag(flag, words);
    if (counts_nodes(name)) nodes = value;
    if (counts_gpus_of_node(name)) of_node = value;
    if (names_machine(name)) machine = value;
  }
  if (const std::string own = nodes.empty() ? "" : node_of_gpu(words); !own.empty()) usual_node_ = own;
  const bool counted =
      std::any_of(words.begin(), words.end(), [](const std::string& word) { return flag_name(word) == "--gpus"; });
  for (const std::string& flag : flags) {
    const auto [name, value] = split_flag(flag, words);
    const bool counts = counts_nodes(name) || counts_gpus_of_node(name);
    std::optional<MeantFlag> meant =
        counts ? meant_gpus(nodes, of_node.empty() ? usual_node_ : of_node) : meant_flag_or_axis(name, value);
    if (auto rented = counts || names_machine(name) ? meant_machines(machine, nodes, counted) : std::nullopt)
      meant = std::move(rented), of_node = machine;  // whose size is known
    if (!meant) {
      Words said = counts_gpus_of_node(name)
                       ? Words{"GPUs of a node are their cluster's: `--cluster dgx-h100`, or `gpus_per_node` in a file "
                               "as `plan show cluster dgx-h100` prints it"}
                       : said_of_off(name, value);
      if (said.empty()) said = meant_in_words(name, value);
      if (std::string megatron = said_of_megatron(folded(name)); said.empty() && !megatron.empty())
        said.push_back(std::move(megatron));
      in_words_.emplace(flag_name(flag), std::move(said));
      continue;
    }
    meant->value = typed(*meant);
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
  if (name == guessed_) help.push_back(fmt::format("for nodes of {} GPUs", usual_node_));
  return help;
}

}  // namespace plan
