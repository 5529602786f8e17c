#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/launch/job/launch_job.hpp"
#include "cli/shell/launch_source.hpp"

namespace plan {

/// A preset by the name that a file has for a model: on the hub, a folder's, or with the suffix of a variant.
struct NamedModel {
  Model model{};
  bool exact = true;  ///< false: found without a suffix such as `-Instruct`
};
[[nodiscard]] std::optional<NamedModel> model_named(std::string_view word);

/// What the files around a framework's own say: launchers and the model's config.json.
struct LaunchFacts {
  int nodes = 0;            ///< 0: not stated
  int gpus_per_node = 0;    ///< 0: not stated
  int ranks = 0;            ///< on all nodes together, by a launcher that does not say on how many; 0: not stated
  std::string gpu{};        ///< preset name
  std::string other_gpu{};  ///< the word for a GPU that no preset has
  std::string other_gpu_where{};
  std::string gpus_where{};
  std::string one_node{};  ///< the launcher whose default is one node, where nobody states nodes; empty: none
  std::optional<Model> model{};
  std::string model_where{};
  bool asked = false;     ///< the model was asked for by name: it counts where a file describes another
  int total = 0;          ///< GPUs that flags or a budget state; 0: what the files say counts
  std::string release{};  ///< of the container that they start: 26.04
  std::string release_where{};
  int megatron = 0;  ///< minor number of the release of Megatron core that flags or a budget state; 0: not stated
  std::int64_t gpus() const {
    if (total > 0) return total;
    return gpus_per_node > 0 ? std::int64_t{nodes} * gpus_per_node : ranks;
  }
};

/// More GPUs than any job has.
inline constexpr std::int64_t kMostGpus = kMostRanks;

/// How many of the names that a framework does not know are listed one by one.
inline constexpr std::size_t kMostNoted = 100;

/// Whether the file is one of a format, from its content.
using Recognises = bool(const LaunchSource&);
/// Reads all files of a format at once. Facts come first, files override them.
using Reads = Result<LaunchJob>(std::span<const LaunchSource>, const LaunchFacts&);
using Writes = Result<std::vector<LaunchFile>>(const Plan&, const EmitOptions&);

/// One kind of launch file. A row without `write` can only be read, one without `read` only written.
struct LaunchFormat {
  std::string_view name;
  std::string_view help;
  Framework framework;
  Writes* write;
  Recognises* recognise;
  Reads* read;
  /// What the tool does otherwise than its framework's row says, of the training and of the layouts that it has words
  /// for: set where nobody fixed it. Null: nothing.
  void (*settle)(Problem&) = nullptr;
  bool meshes = false;      ///< several kinds of GPU are a process mesh each
  bool checkpoint = false;  ///< its files name the model's checkpoint and do not describe its layers
};

/// Whether a word is anywhere in a file.
[[nodiscard]] inline bool mentions(const LaunchSource& source, std::string_view word) {
  return source.text.find(word) != std::string::npos;
}

/// What is wrong with facts that state more GPUs than kMostGpus.
[[nodiscard]] std::optional<Error> too_many_gpus(const LaunchFacts& facts);

/// Notes one stated value for reports: "tp", "8", "run.sh:12".
void state_gpus(LaunchJob& job, const LaunchFacts& facts);
void state(LaunchJob& job, std::string key, std::string value, std::string where);
/// Notes what a file states, what would change with it, and that nothing here comes of it.
void unused(LaunchJob& job, std::string code, std::string text);
/// Notes a framework's default that no file states.
void assume(LaunchJob& job, std::string key, std::string value, std::string why);

}  // namespace plan
