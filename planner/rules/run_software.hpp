#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "formulas/layout.hpp"
#include "formulas/training.hpp"
#include "formulas/units.hpp"

namespace plan {

/// What a published run did where it does not say: the defaults of its software, beside those of its Stack. Files of
/// presets/stacks state them under `runs` by the names of these members, each with its source.
struct RunJob {
  int zero = 0;
  int grad_bytes = 4;              ///< of precisions other than fp16
  bool sequence_parallel = false;  ///< whenever tp > 1
  bool experts_split_by_tp = true;
  CpKind cp_kind = CpKind::Ring;
  bool data_outermost = false;     ///< data parallelism is outside the pipeline
  bool interleaves = false;        ///< pipelines take one layer at a time
  bool accumulates = true;         ///< micro-batches of one sequence; false: the whole batch in one
  std::uint16_t recomputes = 0;    ///< RecomputeModule bits
  bool recomputes_fully = false;   ///< all layers
  bool recomputes_to_fit = false;  ///< as many layers as memory demands
  bool offloads_to_fit = false;    ///< activations of as many layers wait in host memory as memory demands
  std::optional<Precision> precision{};
  bool delayed_scaling = false;  ///< fp8 that a run names without its scaling keeps scales of earlier steps
  double bf16_tail = 0;          ///< share of the layers, rounded up, that stay in bf16 at the model's end
  bool precision_aware = false;  ///< the optimizer reads its gradients in place
  int moment_bytes = 0;          ///< of each of the optimizer's moments; 0: fp32
  double dropout = 0;
  bool untied = false;                  ///< the head has weights of its own whatever the model's family
  int extra_vocab = 0;                  ///< entries that the tokenizer adds
  int packed_length = 0;                ///< tokens of the documents that are packed into sequences; 0: one document
  int lora_rank = 0;                    ///< of adapters; 0: the usual one
  bool lora_ffn = true;                 ///< feed-forwards have adapters, too
  std::uint16_t graph_scopes = 0;       ///< GraphScope bits
  Bytes context{};                      ///< the least that the GPU's context takes
  bool megatron_flags = false;          ///< flags that a row quotes are those of Megatron-LM
  std::string_view offloaded_layers{};  ///< the word in a row's notes before a number of layers in host memory
  std::string_view offloaded_share{};   ///< the same before a share of a stage's layers
};

/// What of a run its software's defaults depend on.
struct RunSigns {
  int month = std::numeric_limits<int>::max();    ///< of the software, since the year 0; later than all if unknown
  int version = std::numeric_limits<int>::max();  ///< 1000 * major + minor, likewise
  Precision precision = Precision::Bf16;
  bool recomputes = false, pipelined = false, shards = false, experts = false, latent = false;
  std::string model{};  ///< its name
  std::string task{};
  std::string words{};  ///< the task and the notes

  /// Do the task and the notes have the word by itself?
  [[nodiscard]] bool says(std::string_view word) const;
};

struct RunDefaults {
  Stack stack{};
  RunJob job{};
  bool loosely = false;  ///< of software that a row names loosely
};

/// Software that published runs ran: a file of presets/stacks.
struct RunSoftware {
  std::string_view key;                       ///< the file's name
  std::span<const std::string_view> names;    ///< as the column `framework` writes it; none: of no cell
  std::span<const std::string_view> general;  ///< of these, libraries and front ends, which run on other software, too
  std::span<const std::string_view> makers;   ///< whose names are written in front of it
  bool over;                                  ///< it is what some runs of any software did, which say so themselves
  Stack (*stack)();
  void (*runs)(const RunSigns&, RunDefaults&);  ///< what the file says of such a run, laid over what is there
};

/// All files of presets/stacks.
[[nodiscard]] std::span<const RunSoftware> run_software();
[[nodiscard]] const RunSoftware* software_of_key(std::string_view key);

/// A cell `framework` of a run, resolved: the software and 1000 * major + minor of its version.
struct NamedSoftware {
  const RunSoftware* software = nullptr;  ///< nullptr: nobody knows the name
  int version = std::numeric_limits<int>::max();
  bool loosely = false;  ///< by a part of the cell, or by its letters alone
};

/// Names are compared as a whole, in any case; one that is followed by a version, "Megatron-Core 0.6.0", is that
/// software of that version. Where no name is the whole cell, the first part of it that is one counts, whatever is
/// between its words: "DeepSpeed ZeRO-3 (HF transformers)", "NVIDIA NeMo", "Megatron Core + TE".
[[nodiscard]] NamedSoftware named_software(std::string_view cell);
/// The names that resemble a cell most, for who misspelt one.
[[nodiscard]] std::string names_like(std::string_view cell);

/// What jobs of the software did where their rows do not say: of its entries under `runs` those whose signs fit.
[[nodiscard]] RunDefaults run_defaults(const RunSoftware& software, const RunSigns& signs = {});

/// Whether the text has the word by itself: "bridge recipe" has "recipe", "NeMo-Framework" no "Frame".
[[nodiscard]] bool has_word(std::string_view text, std::string_view word);

}  // namespace plan
