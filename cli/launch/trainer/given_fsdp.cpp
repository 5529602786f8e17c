// The Trainer's own `fsdp: full_shard auto_wrap` with its `fsdp_config`, a JSON file or a section: the Trainer hands
// both to accelerate, so they become keys of accelerate's file, whose names start with `fsdp_`. transformers,
// training_args.py (`fsdp`, `fsdp_config`). Tested by tests/launch/trainer_fsdp_test.cpp.
#include <fmt/core.h>

#include "cli/launch/trainer/hugging_face.hpp"
#include "cli/launch/trainer/sources.hpp"
#include "formulas/keep_errors.hpp"
#include "presets/suggest.hpp"

namespace plan::hugging_face {
namespace {

constexpr std::string_view kFsdp = "args.fsdp", kConfig = "args.fsdp_config", kSection = "args.fsdp_config.";

/// Words of `fsdp` that say what is sharded, and accelerate's for the same.
constexpr Renamed kStrategies[] = {{"full_shard", "FULL_SHARD"},
                                   {"shard_grad_op", "SHARD_GRAD_OP"},
                                   {"hybrid_shard", "HYBRID_SHARD"},
                                   {"hybrid_shard_zero2", "HYBRID_SHARD_ZERO2"},
                                   {"no_shard", "NO_SHARD"}};

/// `full_shard auto_wrap`, `[full_shard, offload]` or `true` in words.
std::vector<std::string> lowered_words(const Setting& setting) {
  std::vector<std::string> words;
  std::string text = setting.list ? "" : setting.value;
  for (const std::string& item : setting.items) text += " " + item;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t start = text.find_first_not_of(" ,", at);
    if (start == std::string::npos) break;
    at = std::min(text.find_first_of(" ,", start), text.size());
    words.push_back(lowered(text.substr(start, at - start)));
  }
  return words;
}

/// The file that `fsdp_config` names, or the object that is written in place of one.
std::optional<LaunchSource> config_of(std::span<const LaunchSource> files, const Setting& named) {
  if (named.value.starts_with('{')) {
    LaunchSource written{};
    written.path = named.place.file;
    written.text = named.value;
    return written;
  }
  for (const LaunchSource& file : files)
    if (std::optional<LaunchSource> found = beside(file, named.value)) return found;
  return std::nullopt;
}

void take_config(std::span<const LaunchSource> files, Settings& all) {
  const Setting* stated = all.get(kConfig);
  if (stated == nullptr || stated->value.empty()) return;
  const Setting named = *stated;
  const std::optional<LaunchSource> file = config_of(files, named);
  if (!file) return set(all, "acc.missing_file", named);
  const Result<Settings> keys = settings_of_json(*file);
  if (!keep_errors(all.errors(), keys)) return;
  if (file->path != named.place.file) all.remember(*file);
  for (const Setting& setting : keys->all()) set_fsdp(all, setting.key, setting);
}

}  // namespace

void take_fsdp(std::span<const LaunchSource> files, Settings& all) {
  const Setting* stated = all.get(kFsdp);
  if (stated == nullptr || all.states("acc.distributed_type")) return;
  const Setting fsdp = *stated;
  const std::vector<std::string> words = lowered_words(fsdp);
  if (words.empty() || words.front() == "false") return;
  set(all, "acc.distributed_type", "FSDP", fsdp);
  for (const std::string& word : words) {
    for (const Renamed& row : kStrategies)
      if (row.from == word) set(all, "acc.fsdp_config.fsdp_sharding_strategy", std::string(row.to), fsdp);
    if (word == "offload") set(all, "acc.fsdp_config.fsdp_offload_params", "true", fsdp);
    if (word == "fsdp2") set(all, "acc.fsdp_config.fsdp_version", "2", fsdp);
  }
  take_config(files, all);
  const std::vector<Setting> section(all.all().begin(), all.all().end());
  for (const Setting& setting : section)
    if (const std::string_view key = setting.key; key.starts_with(kSection)) {
      (void)all.get(key);
      set_fsdp(all, key.substr(kSection.size()), setting);
    }
}

}  // namespace plan::hugging_face
