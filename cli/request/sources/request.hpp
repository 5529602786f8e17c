#pragma once

// What was asked for, whoever said it. Flags, budget files and launch files are three readers of the same type; the
// words of a person lie over what launch files state, and only then is the problem resolved (resolve.hpp).

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "cli/launch/launch.hpp"
#include "cli/request/words/pool_words.hpp"
#include "cli/terminal/cuda_graphs.hpp"
#include "cli/terminal/overlap_words.hpp"
#include "cli/terminal/state_formats.hpp"
#include "formulas/result.hpp"
#include "planner/problem/problem.hpp"
#include "presets/stack.hpp"

namespace plan {

struct Args;

/// A word as somebody wrote it: behind a flag, or behind a key of a budget, which then has a place.
struct Word {
  std::string text{};
  Place place{};  ///< no file: typed
};

/// The words of a person, unread, by the key that budgets and reports have: `global_batch` is --global-batch.
struct Asked {
  std::map<std::string, Word, std::less<>> words{};
  std::vector<std::string> from{};  ///< launch files
  std::string arguments{};          ///< of their scripts
  bool accept_risk = false, pareto = false, per_stage = false, strict = false;
  bool takes_pools = false;  ///< may several kinds of GPU be named?

  [[nodiscard]] const Word* find(std::string_view key) const;
};

/// Every key of a word that states something of the job, in the order of plan-budget(5); `--KEY` is its flag.
[[nodiscard]] const std::vector<std::string_view>& job_words();

/// Flags that were not typed, as the inputs of another plan state them: the same job, on the same GPUs, for the same
/// objective. Its layout is its own.
[[nodiscard]] Args asked_as(Args args, const std::vector<Input>& inputs);

/// What a command line asks for.
[[nodiscard]] Asked asked_of(const Args& args);

/// One field: its value, and how reports print it, with who stated it and where.
template <class T>
struct Stated {
  T value{};
  Input input{};
  bool by_person = false;  ///< with a flag or in a budget; else by a launch file
};

/// A step's batch. Tokens become sequences once it is known how long those are; a batch of each rank becomes the whole
/// once it is known how many ranks there are.
struct GlobalBatch {
  std::string text{};                ///< "2048", "16M tokens"; empty: as numbers
  std::int64_t sequences = 0;        ///< 0: only the ranks tell
  std::optional<RankBatch> ranks{};  ///< counts before `sequences`
};

/// Everything that can be asked of a problem. A field that nobody states is empty.
struct Request {
  std::optional<Stated<Model>> model{};
  std::optional<Stated<int>> gpus{};
  std::optional<Stated<Cluster>> cluster{};
  std::optional<Stated<Bytes>> host_memory{};  ///< of one node
  std::optional<Stated<SliceShape>> slice{};
  std::optional<Stated<std::int64_t>> seq{};
  std::optional<Stated<GlobalBatch>> global_batch{};
  std::optional<Stated<Precision>> precision{};
  std::optional<Stated<Bf16Layers>> bf16_layers{};
  std::optional<Stated<Optimizer>> optimizer{};
  std::optional<Stated<Task>> task{};
  std::optional<Stated<Framework>> framework{};
  std::optional<Stated<int>> megatron_version{};  ///< minor number of Megatron core
  std::optional<Stated<StackRelease>> release{};
  std::optional<Stated<Offload>> offload{};
  std::optional<Stated<StateFormats>> state_formats{};
  std::optional<Stated<CudaGraphs>> cuda_graphs{};
  std::optional<Stated<Overlap>> overlap{};
  std::optional<Stated<Dispatcher>> dispatcher{};
  std::optional<Stated<double>> imbalance{};  ///< tokens of the rank with the busiest experts / mean
  std::optional<Stated<LocalUpdates>> diloco{};
  std::optional<Stated<std::int64_t>> lora_rank{};
  std::optional<Stated<Objective>> objective{};
  std::optional<Stated<Headroom>> headroom{};
  std::optional<Stated<Fixed>> layout{};  ///< axes that a person fixed
  std::optional<Stated<int>> top{};
  std::optional<Stated<int>> threads{};
  std::optional<Stated<int>> spares{};  ///< of `gpus`, held back

  /// Several kinds of GPU, which `gpus` counts together, and the axes of each.
  std::optional<Stated<PooledCluster>> pools{};
  std::optional<Stated<std::vector<Fixed>>> pool_layouts{};

  /// Sections of the model's file that describe parts beside it, which no figure counts.
  std::string left_out{};
  /// Of `seq` and `global_batch` those that the model's file or preset does not say.
  std::vector<std::string> unpublished{};
  /// The GPU of the cluster as reports print it.
  Input gpu{};
  /// What only launch files tell: axes and the lines that state them, the software, what they leave open.
  std::optional<LaunchJob> files{};
};

/// A field by its key.
template <class T>
struct RequestField {
  std::string_view key;
  std::optional<Stated<T>> Request::*value;
};

inline constexpr std::tuple kRequestFields{RequestField<Model>{"model", &Request::model},
                                           RequestField<int>{"gpus", &Request::gpus},
                                           RequestField<Cluster>{"cluster", &Request::cluster},
                                           RequestField<Bytes>{"host_memory", &Request::host_memory},
                                           RequestField<SliceShape>{"slice", &Request::slice},
                                           RequestField<std::int64_t>{"seq", &Request::seq},
                                           RequestField<GlobalBatch>{"global_batch", &Request::global_batch},
                                           RequestField<Precision>{"precision", &Request::precision},
                                           RequestField<Bf16Layers>{"bf16_layers", &Request::bf16_layers},
                                           RequestField<Optimizer>{"optimizer", &Request::optimizer},
                                           RequestField<Task>{"task", &Request::task},
                                           RequestField<Framework>{"framework", &Request::framework},
                                           RequestField<int>{"megatron_version", &Request::megatron_version},
                                           RequestField<StackRelease>{"release", &Request::release},
                                           RequestField<Offload>{"offload", &Request::offload},
                                           RequestField<StateFormats>{"state_formats", &Request::state_formats},
                                           RequestField<CudaGraphs>{"cuda_graphs", &Request::cuda_graphs},
                                           RequestField<Overlap>{"overlap", &Request::overlap},
                                           RequestField<Dispatcher>{"dispatcher", &Request::dispatcher},
                                           RequestField<double>{"imbalance", &Request::imbalance},
                                           RequestField<LocalUpdates>{"diloco", &Request::diloco},
                                           RequestField<std::int64_t>{"lora_rank", &Request::lora_rank},
                                           RequestField<Objective>{"objective", &Request::objective},
                                           RequestField<Headroom>{"headroom", &Request::headroom},
                                           RequestField<Fixed>{"layout", &Request::layout},
                                           RequestField<int>{"top", &Request::top},
                                           RequestField<int>{"threads", &Request::threads},
                                           RequestField<int>{"spares", &Request::spares}};

/// Calls `visit` with each field in turn.
template <class Visit>
constexpr void each_field(const Visit& visit) {
  std::apply([&](const auto&... field) { (visit(field), ...); }, kRequestFields);
}

/// The words, read; `errors` gets every mistake, with the place of its word. A word that cannot be read leaves its
/// field empty.
[[nodiscard]] Request read_words(const Asked& asked, Errors& errors);

/// What launch files state, read with what the words say: batches that count ranks, stages that count layers.
[[nodiscard]] Result<Request> read_files(const Asked& asked, const Request& words);

/// `base`, and what `over` states instead of it.
[[nodiscard]] Request overlaid(Request base, const Request& over);

}  // namespace plan
