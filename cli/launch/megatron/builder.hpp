#pragma once

#include <fmt/core.h>

#include <map>
#include <optional>
#include <string>

#include "cli/launch/megatron/megatron.hpp"
#include "cli/shell/shell.hpp"

/// A job under construction from Megatron-LM's arguments, shared by the files that read its parts.
namespace plan::megatron {

/// The job so far, with the mistakes found.
struct Builder {
  const MegatronArgs& args;
  LaunchJob job{};
  Errors errors{};
  std::map<int, int> dealt{};  ///< chunks that hold layers without work, and how many fewer they have

  /// A positive integer flag with Megatron's default.
  int count(const char* flag, const char* key, int otherwise, int least = 1) {
    if (!args.has(flag)) {
      assume(job, key, fmt::format("{}", otherwise), "Megatron-LM");
      return otherwise;
    }
    const std::optional<std::int64_t> value = args.integer(flag);
    if (!value || *value < least || *value > kMostRanks) {
      wrong(flag, fmt::format("takes a number of at least {}, not `{}`", least, args.text(flag)));
      return otherwise;
    }
    state(job, key, fmt::format("{}", *value), args.where(flag));
    return static_cast<int>(*value);
  }

  void wrong(const char* flag, std::string why) {
    Error error{"bad_value", fmt::format("{}: `--{}` {}", args.where(flag), flag, why), {}, {}};
    if (args.text(flag).find('$') != std::string::npos) error.help.emplace_back(kOpenValueHelp);
    errors.push_back(std::move(error));
  }
  /// A switch: stated where present, Megatron's `off` otherwise.
  bool on(const char* flag) const { return args.has(flag); }
};

/// Precision, and the layers that it spares.
void formats(Builder& builder, Training& training);

/// The pipeline: stages, chunks and the layers that they hold.
void stages(Builder& builder);

/// What is recomputed. Wants the model and the pipeline: more layers than a chunk has are all of them.
void recompute(Builder& builder);

}  // namespace plan::megatron
