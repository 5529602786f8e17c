// A model of layers with one mixer or one feed-forward each, in Megatron-LM's letters (megatron_hybrid.cpp reads them).
// Tested by tests/launch/megatron_hybrid_test.cpp and round_trip_test.cpp.
#include <algorithm>

#include "cli/launch/megatron_hybrid.hpp"
#include "cli/launch/megatron_put.hpp"
#include "formulas/layer_rows.hpp"

namespace plan::megatron {
namespace {

/// The letter of a layer; 0: it has none.
char letter_of(const Layer& layer) {
  if (layer.norms != 1 || (layer.mixer == Mixer::None) == (layer.ffn == Ffn::None)) return 0;
  if (layer.ffn != Ffn::None) return layer.ffn == Ffn::Moe ? 'E' : '-';
  switch (layer.mixer) {
    case Mixer::Attention: return layer.attention.window == 0 ? '*' : '\0';
    case Mixer::Mamba2: return layer.mamba.conv == kMambaTaps ? 'M' : '\0';
    case Mixer::DeltaNet: return 'G';
    case Mixer::Latent:
    case Mixer::None: return 0;
  }
  return 0;
}

char letter_at(const Model& model, int kind) { return letter_of(model.kinds[static_cast<std::size_t>(kind)]); }

}  // namespace

bool is_hybrid(const Model& model) {
  return std::any_of(model.kinds.begin(), model.kinds.end(), [](const Layer& kind) {
    return kind.mixer == Mixer::None || kind.ffn == Ffn::None || kind.mixer == Mixer::Mamba2;
  });
}

bool has_letters(const Model& model) {
  std::string found;
  for (const Layer& kind : model.kinds) found += letter_of(kind);
  std::sort(found.begin(), found.end());  // flags state one shape of each letter
  return found.find('\0') == std::string::npos && found.find('*') != std::string::npos &&
         std::adjacent_find(found.begin(), found.end()) == found.end();
}

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

void put_hybrid_shapes(Settings& out, const Model& model) {
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
