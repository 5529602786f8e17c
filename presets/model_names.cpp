// Names of checkpoints for the models whose layers they have. Tested by tests/presets/store_test.cpp.
#include "presets/model_names.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <optional>
#include <utility>

#include "formulas/words.hpp"
#include "presets/suggest.hpp"

namespace plan {
namespace {

/// What the names of variants add to the name of the model whose layers they have: how it was tuned or written, and the
/// fewer bits that its weights are stored in.
constexpr auto kWritten = word_list([] {
  return "-instruct -base -chat -hf -it -pt -thinking -unsloth -bf16 -2507 -instruct-v0.1 -instruct-v0.2 "
         "-instruct-v0.3 -v0.1 -v0.2 -v0.3 -instruct-2507 -mcore -thinking-2507 -sft -deduped -mlx -fp16 -f16 "
         "-unquantized -preview -dpo -qat";
});
constexpr auto kStored = word_list([] {
  return "-bnb-4bit -4bit -fp8 -gptq-int4 -awq -gptq -gguf -int4 -int8 -fp4 -nvfp4 -mxfp4 -nf4 -8bit -6bit -3bit "
         "-w4a16 -w8a8 -w8a16 -quantized.w4a16 -quantized.w8a8 -quantized.w8a16 -fp8-dynamic -fp8-block -gptq-int8 "
         "-awq-int4 -exl2 -dwq -q4_0 -q8_0 -q4_k_m -q5_k_m -q6_k -bnb-8bit -autoround";
});
constexpr auto kVariants = chained(kWritten, kStored);

/// The parameters that a part of a name states, as `7b`, `1.5b` and `560m` do; none otherwise.
std::optional<double> stated_parameters(std::string_view part) {
  double number = 0.0;
  const auto [end, status] = std::from_chars(part.data(), part.data() + part.size(), number, std::chars_format::fixed);
  if (status != std::errc() || end + 1 != part.data() + part.size() || number <= 0.0) return std::nullopt;
  switch (*end) {
    case 'm': return number * 1e6;
    case 'b': return number * 1e9;
    case 't': return number * 1e12;
    default: return std::nullopt;
  }
}

/// What says how a model was tuned, and nothing of its layers.
constexpr auto kTuned = word_list([] { return "-instruct -base -chat -hf -it -pt -thinking -sft"; });

/// Families whose name beside another model's says that it was made of theirs.
constexpr auto kFamilies =
    word_list([] { return "llama qwen mistral mixtral gemma phi nemotron deepseek glm falcon"; });

/// A name in small letters without its owner, hyphens for what parts its words, and without how it was tuned.
std::string untuned(std::string_view name) {
  std::string word = lowered(std::string(base_name(name)));
  std::replace_if(
      word.begin(), word.end(), [](char c) { return c == '_' || c == ' ' || c == ':'; }, '-');
  for (const std::string_view tuned : kTuned)
    if (word.size() > tuned.size() && word.ends_with(tuned)) return word.substr(0, word.size() - tuned.size());
  return word;
}

/// Does a part of a name end as sizes do, `7b` and `8x7b`?
bool has_size(std::string_view name) {
  for (std::size_t at = 1; at + 1 < name.size(); ++at)
    if (std::string_view("bm").find(name[at]) != std::string_view::npos && name[at - 1] >= '0' && name[at - 1] <= '9' &&
        name[at + 1] == '-')
      return true;
  return false;
}

/// Sizes that the parts of a name state, but for those of another.
bool states_other_size(std::string_view name, std::string_view beside) {
  for (std::size_t begin = 0, end = 0; begin < name.size(); begin = end + 1) {
    end = std::min(name.find_first_of("-_: ", begin), name.size());
    std::string_view part = name.substr(begin, end - begin);
    if (part.starts_with('a')) part.remove_prefix(1);  // active ones
    if (stated_parameters(part) &&
        ("-" + std::string(beside) + "-").find("-" + std::string(part) + "-") == std::string::npos)
      return true;
  }
  return false;
}

}  // namespace

std::optional<PresetEntry> twin_of(std::string_view checkpoint, const StoreOptions& options) {
  std::vector<std::string> wanted{untuned(checkpoint)};
  for (const OtherName& other : other_names(checkpoint)) wanted.push_back(untuned(other.text));
  std::erase_if(wanted, [](const std::string& word) { return family_and_size(word).parameters <= 0; });
  if (wanted.empty()) return std::nullopt;  // as most words of a launch file, of which readers ask
  const std::vector<PresetEntry> entries = all_entries(PresetKind::Model, options);
  for (const std::string& word : wanted)
    for (const PresetEntry& entry : entries)
      for (const std::string& alias : entry.aliases)
        if (untuned(alias) == word) return entry;
  return std::nullopt;
}

std::string model_inside(std::string_view checkpoint, const std::vector<PresetEntry>& entries) {
  const std::string word = "-" + untuned(checkpoint) + "-";
  std::string longest, found;
  const auto look = [&](const PresetEntry& entry, std::string_view name) {
    const std::string part = "-" + untuned(name) + "-";
    const bool family = part.find('-', 1) + 1 < part.size();  // `405b` alone is a size
    if (family && part.size() > longest.size() && has_size(part) && word.find(part) != std::string::npos)
      longest = part, found = entry.name;
  };
  for (const PresetEntry& entry : entries) {
    look(entry, entry.name);
    for (const std::string& alias : entry.aliases) look(entry, alias);
  }
  const std::size_t at = word.find(longest);
  if (found.empty() || states_other_size(word, longest)) return {};
  const std::string rest = word.substr(0, at) + word.substr(at + longest.size() - 1);
  const bool other = std::any_of(kFamilies.begin(), kFamilies.end(),
                                 [&](std::string_view family) { return rest.find(family) != std::string::npos; });
  return other ? std::string() : found;
}

std::vector<OtherName> other_names(std::string_view checkpoint) {
  std::vector<OtherName> names;
  std::string word = lowered(std::string(checkpoint));
  // Weights that were laid out for a job: Qwen2.5-7B-hf-to-mcore-te-tp4-pp1, Meta-Llama-3.1-8B/mcore-tp4-pp2.
  for (const std::string_view laid : {"-to-mcore", "-to-megatron", "-to-megablocks", "/mcore-", "/megatron-"})
    if (const std::size_t at = word.find(laid); at != std::string::npos && at > 0)
      names.push_back({word = word.substr(0, at), true});
  const std::string owner = word.substr(0, word.rfind('/') + 1);
  for (std::size_t slash = word.find('/'); slash != std::string::npos; slash = word.find('/'))
    names.push_back({word = word.substr(slash + 1), true});
  for (bool again = true; again;) {
    again = false;
    for (const std::string_view variant : kVariants) {
      if (word.size() <= variant.size() || !word.ends_with(variant)) continue;
      word.resize(word.size() - variant.size());
      if (!owner.empty()) names.push_back({owner + word, false});
      names.push_back({word, false});
      again = true;
      break;
    }
  }
  return names;
}

std::string_view stored_format(std::string_view checkpoint) {
  const std::string word = lowered(std::string(checkpoint));
  if (word.ends_with("-unquantized")) return {};  // behind the format that they were trained for
  std::string_view longest;
  for (const std::string_view stored : kStored)
    if (word.ends_with(stored) && stored.size() > longest.size()) longest = stored;
  if (!longest.empty()) return longest.substr(1);
  for (const OtherName& other : other_names(checkpoint))  // behind other variants: `-awq-instruct`
    for (const std::string_view stored : kStored)
      if (other.text.ends_with(stored)) return stored.substr(1);
  return {};
}

FamilyAndSize family_and_size(std::string_view checkpoint) {
  const std::string word = lowered(std::string(base_name(checkpoint)));
  FamilyAndSize said;
  for (std::size_t begin = 0; begin < word.size();) {
    const std::size_t end = std::min(word.find_first_of("-_:", begin), word.size());
    const std::string_view part = std::string_view(word).substr(begin, end - begin);
    if (const std::optional<double> parameters = stated_parameters(part); parameters && !said.family.empty())
      return {std::move(said.family), *parameters};
    said.family += letters_and_digits(part);
    begin = end + 1;
  }
  return {};
}

std::vector<std::string> nearest_in_family(std::string_view checkpoint, const std::vector<std::string>& names,
                                           std::size_t most) {
  const FamilyAndSize wanted = family_and_size(checkpoint);
  std::vector<std::pair<double, std::string>> found;  // how many times larger or smaller, as a logarithm
  for (const std::string& name : names)
    if (const FamilyAndSize said = family_and_size(name); !said.family.empty() && said.family == wanted.family)
      found.emplace_back(std::abs(std::log(said.parameters / wanted.parameters)), name);
  std::sort(found.begin(), found.end());
  std::vector<std::string> nearest;
  for (const auto& [apart, name] : found)
    if (nearest.size() < most) nearest.push_back(name);
  return nearest;
}

}  // namespace plan
