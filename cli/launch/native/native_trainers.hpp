#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "cli/launch/job/counted_as.hpp"
#include "cli/launch/job/format.hpp"
#include "cli/launch/job/job_builder.hpp"

/// Trainers with a configuration of their own that describes the whole job: nanotron, litgpt, OLMo, OLMo-core,
/// llm-foundry, AWS's FSDP example.
namespace plan {

namespace native_trainers {

/// The settings of all files, each YAML or JSON.
[[nodiscard]] Result<Settings> settings_of(std::span<const LaunchSource> files);

/// Whether a file may be such a configuration: neither a script nor JSON.
[[nodiscard]] bool may_be_yaml(const LaunchSource& source);

/// Does a line of the file start with each of the words?
[[nodiscard]] bool has_lines(const LaunchSource& source, std::initializer_list<std::string_view> starts);

/// The model that keys of a file describe, as the Hugging Face family `type` has them; or its mistakes.
/// @param from,keys where the description starts, and its fields as JSON (`"vocab_size": 32000`)
void describe_model(JobBuilder& builder, std::string_view type, std::string_view from,
                    std::initializer_list<std::pair<std::string_view, std::int64_t>> numbers,
                    std::initializer_list<std::pair<std::string_view, bool>> switches = {});

/// Lets `read` take the model from the file itself, where nobody asked for one by name.
void read_own_model(JobBuilder& builder, const LaunchFacts& facts, void (*read)(JobBuilder&));

/// One of PyTorch's words for how FSDP shards: the stage of ZeRO that it is, and whether over groups of ranks alone.
struct FsdpStrategy {
  int zero = 3;
  bool groups = false;
};
/// `FULL_SHARD` where the file states none; others than PyTorch's are refused, and what is `wanted` named.
[[nodiscard]] FsdpStrategy read_strategy(Settings& settings, std::string_view key, std::string_view wanted);

/// The format of products by Composer's words and their like; one that is none of them is refused, and all are named.
struct FormatWord {
  std::string_view word;
  Precision precision;
};
void read_format(JobBuilder& builder, std::string_view key, std::span<const FormatWord> words);

/// Data parallelism alone: every degree but dp is 1, and no sequence is split.
void fix_unsplit(JobBuilder& builder);

/// Weights, gradients and states all in bf16, without master weights.
void pure_bf16(Training& training);

/// Dropout of residual connections, as a share; `otherwise` where the file states none.
void read_dropout(JobBuilder& builder, std::string_view key, double otherwise);

/// Whether torch.compile fuses the pointwise kernels, as a trainer on PyTorch's own operations states it.
void read_compile(JobBuilder& builder, bool compiled, std::string_view key);

/// Names each key in the first lines whose value is counted as another one.
void tell_counted(JobBuilder& builder, std::span<const CountedAs> rows);

/// Every key that nobody asked for, but for those under the sections that say nothing of memory or time.
void tell_the_rest(JobBuilder& builder, std::span<const std::string_view> irrelevant, std::string_view tool);

}  // namespace native_trainers
}  // namespace plan
