// From the name and the columns of a published run to its model. Tested by tests/planner/runs_test.cpp.
#include "planner/runs/run_model.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/core.h>

namespace plan {
namespace {

constexpr std::int64_t kMostLayers = 10'000;

tl::unexpected<Errors> not_stated(std::string reason) {
  return fail(Error{.code = "model_not_stated", .message = std::move(reason)});
}

/// "llama3-70b truncated to 12 layers": the first 12 layers, so that dense ones stay in front.
Model truncate(Model model, std::int64_t layers) {
  const std::size_t dense = static_cast<std::size_t>(
      std::count_if(model.layers.begin(), model.layers.end(), [&](int kind) { return kind == model.layers.front(); }));
  const int front = model.layers.front(), back = model.layers.back();
  // A leading run of another kind shrinks to one layer: truncated benchmarks keep a single dense layer.
  model.layers.assign(static_cast<std::size_t>(layers), back);
  if (front != back && dense < model.layers.size() + dense) model.layers.front() = front;
  model.mtp = {};
  return model;
}

/// Heads as the run had them: presets of one name were trained with few wide heads and with many narrow ones.
void take_heads(AttentionShape& attention, const Run& run) {
  const std::int64_t width = attention.heads * attention.head_dim, heads = run.heads.value_or(0);
  const bool each_its_own = attention.kv_heads == attention.heads;
  if (heads > 0 && width % heads == 0) {
    attention.heads = heads, attention.head_dim = width / heads;
    if (each_its_own) attention.kv_heads = heads;
  }
  if (run.kv_heads) attention.kv_heads = *run.kv_heads;
}

Model model_from_columns(const Run& run) {
  Model model;
  model.name = run.model;
  model.hidden = *run.hidden;
  model.vocab = run.vocab.value_or(51200);
  const bool gelu = run.mlp == "gelu", gated = run.mlp.ends_with("glu");
  Layer layer;
  layer.attention.heads = *run.heads;
  layer.attention.kv_heads = run.kv_heads.value_or(*run.heads);
  layer.attention.head_dim = run.head_dim.value_or(*run.hidden / *run.heads);
  layer.attention.qkv_bias = layer.attention.out_bias = gelu;
  layer.dense = {.width = run.ffn.value_or(gelu ? 4 * *run.hidden : run.expert_ffn.value_or(4 * *run.hidden)),
                 .gated = gated,
                 .bias = gelu};
  if (run.experts.value_or(0) > 1) {
    layer.ffn = Ffn::Moe;
    layer.moe = {.experts = *run.experts,
                 .top_k = run.top_k.value_or(2),
                 .expert_width = run.expert_ffn.value_or(layer.dense.width),
                 .shared_width = run.shared_ffn.value_or(0),
                 .gated = gated};
  }
  if (gelu) {  // the GPT family: LayerNorm, learned positions, tied head
    model.norm = Norm::Layer;
    model.positions = run.seq.value_or(2048);
    model.tied = true;
  }
  model.kinds = {layer};
  model.layers.assign(static_cast<std::size_t>(*run.layers), 0);
  return model;
}

/// A model by the name that a row gives it; a remark in parentheses behind the name is no part of it.
std::optional<Model> named_model(const Catalogue& catalogue, std::string name) {
  if (std::optional<Model> preset = catalogue.model(name)) return preset;
  const std::size_t remark = name.find(" (");
  if (remark == std::string::npos || name.back() != ')') return std::nullopt;
  return catalogue.model(name.substr(0, remark));
}

/// What a row gives a named model otherwise than its preset has it: the row's is taken. Vocabularies are padded.
void remark_shape(const Run& run, const Model& preset, std::vector<std::string>& remarks) {
  constexpr double kPadding = 0.05;
  const auto other = [&](std::string_view column, const std::optional<std::int64_t>& stated, std::int64_t known,
                         double near) {
    if (!stated || known <= 0 || std::abs(static_cast<double>(*stated) / static_cast<double>(known) - 1) <= near)
      return;
    remarks.push_back(fmt::format("`{}` {} is taken, where {} has {}", column, *stated, preset.name, known));
  };
  other("vocab", run.vocab, preset.vocab, kPadding);
  for (const Layer& kind : preset.kinds) {
    if (kind.mixer != Mixer::Attention) continue;
    other("heads", run.heads, kind.attention.heads, 0);
    if (run.heads == run.kv_heads && kind.attention.heads == kind.attention.kv_heads) return;  // one fact
    return other("kv_heads", run.kv_heads, kind.attention.kv_heads, 0);
  }
}

}  // namespace

Result<Model> model_of_run(const Run& run, const Catalogue& catalogue, std::vector<std::string>& remarks) {
  const std::string name(run.whole_model());
  if (std::optional<Model> preset = named_model(catalogue, name)) {
    if (name != run.model && run.layers && *run.layers <= kMostLayers) *preset = truncate(*preset, *run.layers);
    const bool same_depth = !run.layers || preset->depth() == *run.layers;
    if (same_depth && (!run.hidden || preset->hidden == *run.hidden)) {
      remark_shape(run, *preset, remarks);
      if (run.vocab) preset->vocab = *run.vocab;
      for (Layer& kind : preset->kinds)
        if (kind.mixer == Mixer::Attention) take_heads(kind.attention, run);
      return *preset;
    }
    remarks.push_back(fmt::format("the row's columns are the model, `{}` has another depth or width", run.model));
  }
  if (!run.layers || !run.hidden || !run.heads)
    return not_stated(fmt::format("no preset is called `{}` and the row gives no layers, hidden and heads", run.model));
  if (*run.layers == 0 || *run.hidden == 0 || *run.heads == 0 || *run.layers > kMostLayers)
    return not_stated("layers, hidden and heads must be positive");
  return model_from_columns(run);
}

}  // namespace plan
