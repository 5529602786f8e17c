// Samples that do not fill the sequences which are counted. Tested by tests/launch/packing_test.cpp.
#include <fmt/core.h>

#include <algorithm>

#include "cli/launch/trainer/hugging_face.hpp"
#include "cli/settings/settings.hpp"

namespace plan::hugging_face {
namespace {

/// Switches that put samples together until a sequence is full: TRL's, LLaMA-Factory's two, axolotl's and torchtune's.
constexpr std::string_view kPacks[] = {"args.packing", "args.neat_packing", "args.sample_packing",
                                       "args.dataset.packed"};

/// axolotl 0.13 pads every sequence to the full length where this says so.
constexpr std::string_view kPads = "args.pad_to_sequence_len";

/// Tools whose supervised trainings pack nothing unless a file says so: TRL, LLaMA-Factory 0.9.5, axolotl 0.13,
/// ms-swift 4, torchtune 0.6.
constexpr std::string_view kUnpacked[] = {"llama-factory", "axolotl", "ms-swift", "torchtune"};

}  // namespace

void tell_packing(JobBuilder& builder) {
  Settings& settings = builder.settings;
  std::string_view off;
  bool full = false;
  for (const std::string_view key : kPacks)
    if (settings.states(key)) {
      const std::optional<bool> packs = switch_of(settings, key);
      full |= packs.value_or(false);
      if (packs && !*packs && off.empty()) off = key;
    }
  if (full || switch_of(settings, kPads).value_or(false)) return;
  if (!off.empty())
    return builder.unused(off, fmt::format("`{}` is off: every sample is counted as a sequence of full length, which "
                                           "shorter ones, padded to the longest of their batch, take less time than",
                                           shown_key(off)));
  const std::string tool = tool_of(settings).key.empty() && settings.states("trl") ? "TRL" : "";
  const bool pretrain = builder.training.task == Task::Pretrain;  // texts are cut into full sequences there
  const std::string_view key = tool_of(settings).key;
  if (pretrain || (tool.empty() && std::find(std::begin(kUnpacked), std::end(kUnpacked), key) == std::end(kUnpacked)))
    return;
  builder.note("not_packed", fmt::format("{} does not pack samples unless a file says so: every sample is counted as a "
                                         "sequence of full length",
                                         tool.empty() ? tool_of(settings).name : tool));
}

}  // namespace plan::hugging_face
