#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "formulas/training.hpp"
#include "planner/problem/problem.hpp"
#include "planner/rules/rules.hpp"

namespace plan {

/// A framework that plans can be made for: what it does, with its documented defaults.
struct FrameworkRow {
  Framework framework;
  std::string_view name;
  std::string_view title;  ///< how sentences spell it
  std::string_view help;
  Stack stack{};                      ///< of presets/stacks, whose file says where each fact is known from
  std::string_view vendors{};         ///< of the GPUs that it runs on, as presets name them; empty: whoever's
  std::string_view aliases{};         ///< what others call it, in small letters
  std::string_view run_word{};        ///< what tables of runs call its newest software
  std::span<const Rule> rules{};      ///< what it accepts
  std::span<const Rule> earlier{};    ///< what its earlier releases reject beside
  CpKind cp_kind = CpKind::Ring;      ///< of context parallelism, if nothing is said
  bool splits_sequence = true;        ///< tensor parallelism splits the sequence between its regions, too
  bool rebuilds_all = false;          ///< a launch that says nothing of it recomputes whole layers
  bool both_orders = false;           ///< pipeline or data parallelism can be outermost
  bool empty_chunks = false;          ///< its word for stages can leave a chunk between the ends without a layer
  bool ends_outside = false;          ///< embedding and head are outside its pipeline, whose stages are equal
  bool narrow_states = false;         ///< states of the optimizer may be narrower than fp32
  bool spares_layers = false;         ///< some layers stay in bf16 beside others in fp8 or fp4
  bool graphs_of_parts = false;       ///< CUDA graphs of the step, or of parts of it, have words
  std::uint8_t overlaps = 0;          ///< OverlapBit bits: messages that a word lets run beside compute or not
  bool dispatches = false;            ///< how tokens reach their experts has words
  bool offloads_optimizer = false;    ///< states of the optimizer can wait in host memory without the weights
  bool offloads_weights = false;      ///< the optimizer, sharded weights and gradients can together
  bool offloads_activations = false;  ///< activations can wait in host memory
  bool mesh_per_pool = false;         ///< each kind of GPU can be a process mesh of its own
  std::string_view image{};           ///< of its containers, whose releases presets/stacks lists by the last word
  /// What of the model it cannot build, for a sentence ("layers with one norm"); empty: nothing. Null: it builds any.
  std::string_view (*lacks)(const Model& model) = nullptr;
  std::uint16_t recomputes = 0;          ///< RecomputeModule bits that it rebuilds together, and nobody else does
  std::optional<StateLayout> sharded{};  ///< of the states from zero 2 on, where it is not the stack's
};

/// Does the framework run on GPUs of that vendor? On one that is not stated, who knows.
[[nodiscard]] bool runs_on(const FrameworkRow& row, std::string_view vendor);

/// What of the problem's model the framework cannot build; empty: nothing, or the job's own files say that it does.
[[nodiscard]] std::string_view lacks(const FrameworkRow& row, const Problem& problem);

/// All frameworks, `any` first, `none` last.
[[nodiscard]] std::span<const FrameworkRow> frameworks();
[[nodiscard]] inline const FrameworkRow& framework_row(Framework framework) {
  return frameworks()[static_cast<std::size_t>(framework)];
}
/// A framework's software on these GPUs. What sends a token once to each node (DeepEP, HybridEP) runs on NVIDIA's
/// Hopper and Blackwell alone (Megatron core, transformer/moe/README.md).
[[nodiscard]] Stack stack_on(const FrameworkRow& row, const Gpu& gpu);
/// The same under what the problem states: its routing, and the words for graphs, messages and dispatch that the
/// framework has, too.
[[nodiscard]] Stack stack_under(const Problem& problem, const FrameworkRow& row, const Gpu& gpu);
/// Has the software a fused attention there? TransformerEngine's kernels, flash-attention's and cuDNN's, start at
/// compute capability 8.0 (attention/dot_product_attention/utils.py, get_attention_backend); PyTorch's has one below.
[[nodiscard]] bool fuses_attention(const Stack& stack, const Gpu& gpu);
/// Can these GPUs run it?
[[nodiscard]] bool sends_once_a_node(const Gpu& gpu);

/// Does the user ask for what the software of this framework would drop?
[[nodiscard]] bool drops_stated(const Problem& problem, const FrameworkRow& row);

/// The framework of that name, as `--framework` takes it; nothing if there is none.
[[nodiscard]] std::optional<Framework> find_framework(std::string_view name);

/// The framework that is asked for, or the first of all where that is left open, if its row has the property: a member
/// of the row, or a test of it. nullptr if not.
template <class Property>
[[nodiscard]] const FrameworkRow* framework_with(Framework asked, const Property& property) {
  for (const FrameworkRow& row : frameworks())
    if (named(row.framework) && (asked == Framework::Any || asked == row.framework) && std::invoke(property, row))
      return &row;
  return nullptr;
}

/// The titles of all frameworks with the property, for sentences: "A", "A and B".
template <class Property>
[[nodiscard]] std::string framework_titles(const Property& property) {
  std::string titles;
  for (const FrameworkRow& row : frameworks())
    if (named(row.framework) && std::invoke(property, row))
      titles.append(titles.empty() ? "" : " and ").append(row.title);
  return titles;
}

/// The words that ask for the framework.
[[nodiscard]] std::string framework_flag(const FrameworkRow& row);
[[nodiscard]] inline bool has_image(const FrameworkRow& row) { return !row.image.empty(); }
[[nodiscard]] inline bool has_earlier_releases(const FrameworkRow& row) { return !row.earlier.empty(); }
/// The framework that others call so; nothing for its own name.
[[nodiscard]] std::optional<Framework> framework_called(std::string_view alias);

}  // namespace plan
