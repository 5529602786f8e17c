#pragma once

#include <cstdint>
#include <string_view>

namespace plan {

/// How a model's router chooses experts, and what keeps it in balance.
struct RouterFacts {
  int groups = 0;              ///< of experts, a token goes to the best few of them; 0: any expert
  int group_top_k = 0;         ///< groups that a token goes to
  std::string_view scaling{};  ///< of the chosen experts' weights; empty: none
  bool pre_softmax = false;    ///< scores are normalised over all experts, not over the chosen
  std::string_view loss = "aux_loss";
  std::string_view coefficient = "1e-3";
  bool sigmoid = false;  ///< scores are of each expert by itself, though no bias moves them
};

/// What a launch file needs about a model and a plan does not: it moves no byte and no FLOP.
struct LaunchModelFacts {
  int rotary_base = 0;                ///< 0: not known
  std::string_view rotary_percent{};  ///< share of a head's width that turns with the position; empty: all of it
  int rope_scaling = 0;               ///< factor for sequences of this length; 0: none
  std::string_view release{};         ///< part of the published name that sequences of this length need; empty: any
  bool squared_relu = false;
  RouterFacts router{};
};

/// `seq` is the length of the sequences that are trained.
[[nodiscard]] LaunchModelFacts launch_model_facts(std::string_view model, std::int64_t seq);

/// Stem of the functions that are Megatron-Bridge's recipes of a model; empty: it has none.
[[nodiscard]] std::string_view bridge_recipe(std::string_view model);

}  // namespace plan
