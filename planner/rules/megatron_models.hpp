#pragma once

#include <string_view>

#include "formulas/model.hpp"

namespace plan {

/// Whether some layer has no mixer or no feed-forward, or scans as Mamba-2 does: pretrain_gpt.py builds none such.
[[nodiscard]] bool is_hybrid(const Model& model);

/// The letter of a layer of a hybrid in Megatron's `--hybrid-layer-pattern`; 0: it has none.
[[nodiscard]] char hybrid_letter(const Layer& layer);

/// Of latent attention whose layers share what an indexer chose (`--dsa-indexer-topk-freq` and
/// `--dsa-indexer-skip-topk-offset`): the period, and the layer of the first one. Period 1: every layer chooses; 0: no
/// two numbers say which do.
struct SharedIndex {
  int period = 1;
  int offset = 0;
};
[[nodiscard]] SharedIndex shared_index(const Model& model);

/// What the model has that no flag of Megatron-LM builds, for a sentence ("layers with one norm"); empty: nothing.
[[nodiscard]] std::string_view megatron_flags_lack(const Model& model);

/// The model that Megatron-LM's flags build of one that they do not lack words for. One switch gives every linear layer
/// a bias, routers among them, and norms have all the weights of their kind.
[[nodiscard]] Model as_megatron_builds(Model model);

/// The same of all that trains on Megatron core. Megatron-Bridge builds some models with layers of its own.
[[nodiscard]] std::string_view megatron_lacks(const Model& model);

}  // namespace plan
