// A model of layers with one mixer or one feed-forward each, in Megatron-LM's letters (megatron_hybrid.cpp reads them).
// Tested by tests/launch/megatron_hybrid_test.cpp and round_trip_test.cpp.
#include <algorithm>

#include "cli/launch/megatron/hybrid.hpp"
#include "cli/launch/megatron/put.hpp"
#include "formulas/layer_rows.hpp"
#include "planner/rules/megatron_models.hpp"

namespace plan::megatron {
namespace {

char letter_at(const Model& model, int kind) { return hybrid_letter(model.kinds[static_cast<std::size_t>(kind)]); }

}  // namespace

std::string hybrid_text(const Model& model, const std::vector<int>& chunks) {
  std::string text;
  std::size_t at = 0;
  for (std::size_t chunk = 0; chunk < std::max<std::size_t>(1, chunks.size()); ++chunk) {
    if (chunk > 0) text += '|';
    const std::size_t end = chunks.empty() ? model.layers.size() : at + static_cast<std::size_t>(chunks[chunk]);
    for (; at < end && at < model.layers.size(); ++at) text += letter_at(model, model.layers[at]);
  }
  for (int run = 0; run < model.mtp.runs(); ++run) {
    text += '/';
    for (const int kind : model.mtp.kinds) text += letter_at(model, kind);
  }
  return text;
}

void put_hybrid_shapes(FlagList& out, const Model& model) {
  out.push_back({"spec", {"megatron.core.models.mamba.mamba_layer_specs", "mamba_stack_spec"}});
  for (const Layer& kind : model.kinds) {
    if (kind.mixer != Mixer::Mamba2) continue;
    put(out, "mamba-num-heads", kind.mamba.heads);
    put(out, "mamba-head-dim", kind.mamba.head_dim);
    put(out, "mamba-num-groups", kind.mamba.groups);
    put(out, "mamba-state-dim", kind.mamba.state);
  }
}

}  // namespace plan::megatron
