#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/launch/job/site.hpp"
#include "formulas/model.hpp"
#include "formulas/result.hpp"
#include "formulas/training.hpp"
#include "planner/answer/plan.hpp"
#include "planner/problem/problem.hpp"

/// What launch files state, and what they are written with: the terms in which every reader and writer speaks.
namespace plan {

/// The batch of a file that states what one rank trains a step: the whole follows from the ranks that there are.
struct RankBatch {
  std::int64_t steps = 0;  ///< micro-batches of a data-parallel rank; 0: `sequences` of a GPU count
  double sequences = 0;    ///< of a GPU, in files that count so (MaxText)
  std::string where{};     ///< "run.toml:12"
};

/// What is known beside launch files when they are read: what flags or a budget state.
struct LaunchContext {
  std::optional<Model> model{};          ///< the one that was asked for; it counts where a file describes another
  int gpus = 0;                          ///< 0: only the files can tell
  int gpus_per_node = 0;                 ///< of the cluster that was asked for; 0: not known
  std::vector<std::string> arguments{};  ///< `$1 $2 ...` of scripts
  int megatron = 0;                      ///< minor number of the release of Megatron core that is asked for; 0: none
};

/// The whole batch on `gpus` GPUs under `fixed` axes; 0 where they do not multiply out.
[[nodiscard]] std::int64_t batch_of_ranks(const RankBatch& rule, const Fixed& fixed, int gpus);
/// Neighbouring stages on GPUs of their own, in files that say of each what it runs (FlagScale's process meshes).
struct LaunchMesh {
  std::string device{};  ///< as the file names it
  int gpus = 0;
  Fixed fixed{};  ///< axes of these stages alone
};

/// What launch files state, in plan's own terms. A field that no file states is empty, or its framework's default
/// and then listed in `inputs` with Origin::Default.
struct LaunchJob {
  std::string format{};  ///< "megatron-lm", "torchtitan", "deepspeed", ...
  Framework framework = Framework::Any;
  std::optional<Model> model{};
  std::string model_name{};            ///< as a file names it ("405B", "meta-llama/Llama-3.1-405B"), if one does
  std::optional<Training> training{};  ///< seq, global_batch, precision, optimizer, stack switches
  bool config_dropout = false;         ///< of transformers' modules, which drop out as the model's configuration says
  bool states_seq = false;
  bool states_global_batch = false;
  std::optional<RankBatch> rank_batch{};  ///< where the global batch follows from the ranks
  int gpus = 0;                           ///< 0: not stated
  int gpus_per_node = 0;                  ///< that the files start ranks on; 0: not stated
  int slice_gpus = 0;                     ///< chips of a slice of TPUs; 0: not stated
  std::string gpu{};                      ///< preset name, if a launcher names one
  std::string hardware{};                 ///< what the files are for, where no preset has it: it must be named
  Fixed fixed{};                          ///< every axis that the files state or their framework defaults
  std::vector<LaunchMesh> meshes{};       ///< front to back; none: all stages run what `fixed` says
  std::string meshes_where{};             ///< "train.yaml:12"
  std::vector<Input> inputs{};
  std::vector<Note> notes{};   ///< unknown flags, defaults taken: nothing is passed over in silence
  std::vector<Note> unused{};  ///< stated, would change model, layout, memory or time, and has no meaning here
  /// Where a value that no file states would be written ("run.sh:12"): the command, or the section of its key.
  std::map<std::string, std::string, std::less<>> homes{};
};

/// One file of a set to be written together.
struct LaunchFile {
  std::string name{};
  std::string text{};
  bool executable = false;
  bool operator==(const LaunchFile&) const = default;
};

/// What a plan does not decide but a launch file needs. Empty: a default that runs without an edit.
struct EmitOptions {
  std::string name{};            ///< of the job; empty: after the model
  std::string launcher{};        ///< a word of launcher_words(); empty: slurm
  std::string data_path{};       ///< empty: mock data
  std::string tokenizer{};       ///< empty: a null tokenizer with the model's vocabulary
  std::string checkpoint_dir{};  ///< empty: nothing is saved
  std::string image{};           ///< container image, for Slurm, Kubernetes and SkyPilot
  std::optional<Site> site{};    ///< where the job is to run for days; nothing: the files are to be tried
  FailureFacts failures{};       ///< what decides how often to save
};

}  // namespace plan
