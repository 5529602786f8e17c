// What keeps a row of measured runs from being taken at its word: a word that its column does not have, or two columns
// of which one must be mistaken. Such a row is left out with the reason; its prediction would be of another run.
// Tested by tests/acceptance/run_mistakes_test.cpp.
#include "planner/runs/run_mistakes.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include <fmt/core.h>

#include "formulas/parameters.hpp"
#include "formulas/text.hpp"
#include "planner/rules/run_software.hpp"

namespace plan {
namespace {

bool one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// Is a convention of FLOPs what the step has to be counted by?
bool counts_by_convention(const Run& run) { return !run.step_time_s && !run.tokens_per_s_per_gpu; }

/// A column or fact whose words are known one by one: another would count as one of them.
std::string word_mistake(const Run& run) {
  struct Column {
    std::string_view name, word, words;
    bool known;
  };
  const auto listed = [](std::string_view name, std::string_view word, std::string_view words) {
    return Column{name, word, words, word.empty() || has_word(words, word)};
  };
  const Column all[] = {
      listed("quality", run.quality, "A, B, C"),
      listed("mlp", run.mlp, "swiglu, geglu, reglu, gelu, relu, relu2"),
      listed("time_from", run.time_from, "step, tokens"),
      listed("norm", run.fact("norm"), "fused, eager"),
      listed("softmax", run.fact("softmax"), "fused, eager"),
      listed("routing", run.fact("routing"), "natural, forced"),
      {"shard", run.shard, "fsdp, hsdp, hsdp:N", shard_group_of(run).has_value()},
      {"optimizer", run.optimizer, "adam, adam8bit, adafactor, muon, sgd, sgd-momentum", optimizer_of(run).has_value()},
      {"flops_convention", run.flops_convention, "model_full, model_causal, model, hardware, 6n, palm, megatron, ...",
       run.flops_convention.empty() || !counts_by_convention(run) || convention_of(run)},
  };
  for (const Column& column : all)
    if (!column.known) return fmt::format("{} `{}` is none of {}", column.name, column.word, column.words);
  return {};
}

/// What the layers of a model have of one column, in any of them.
struct ShapeColumn {
  std::string_view name;
  std::optional<std::int64_t> Run::*stated;
  bool (*holds)(const Layer& layer, std::int64_t value);
};
bool attends(const Layer& layer) { return layer.mixer == Mixer::Attention; }
bool latent(const Layer& layer) { return layer.mixer == Mixer::Latent; }
bool routed(const Layer& layer) { return layer.ffn == Ffn::Moe; }
bool dense(const Layer& layer) { return layer.ffn == Ffn::Dense; }
constexpr ShapeColumn kShape[] = {
    {"heads", &Run::heads,
     [](const Layer& l, std::int64_t value) {
       return (attends(l) && l.attention.heads == value) || (latent(l) && l.latent.heads == value);
     }},
    {"kv_heads", &Run::kv_heads,  // of latent attention one for all heads, or as many as its up-projections make
     [](const Layer& l, std::int64_t value) {
       return (attends(l) && l.attention.kv_heads == value) || (latent(l) && (value == 1 || l.latent.heads == value));
     }},
    {"head_dim", &Run::head_dim,
     [](const Layer& l, std::int64_t value) {
       return (attends(l) && l.attention.head_dim == value) ||
              (latent(l) && (l.latent.qk_dim() == value || l.latent.nope_dim == value || l.latent.value_dim == value));
     }},
    {"ffn", &Run::ffn, [](const Layer& l, std::int64_t value) { return dense(l) && l.dense.width == value; }},
    {"experts", &Run::experts,
     [](const Layer& l, std::int64_t value) { return value <= 1 || (routed(l) && l.moe.experts == value); }},
    {"top_k", &Run::top_k,
     [](const Layer& l, std::int64_t value) { return value <= 0 || (routed(l) && l.moe.top_k == value); }},
    {"expert_ffn", &Run::expert_ffn,
     [](const Layer& l, std::int64_t value) { return value <= 0 || (routed(l) && l.moe.expert_width == value); }},
    {"shared_ffn", &Run::shared_ffn,
     [](const Layer& l, std::int64_t value) { return value <= 0 || (routed(l) && l.moe.shared_width == value); }},
};

/// Names round a size, leave embeddings out, or count what the source alone knows of.
constexpr double kSameSize = 1.5;

std::string size_contradiction(const Run& run, const Model& model) {
  if (run.whole_model() != run.model) return {};  // whose size is the whole model's or that of the layers left
  const ModelParameters counted = model_parameters(model);
  const double stated = run.params_b.value_or(0) * 1e9;
  const auto is_of = [&](std::int64_t all) {
    const double ratio = stated / static_cast<double>(all);
    return ratio <= kSameSize && ratio >= 1 / kSameSize;
  };
  if (stated <= 0 || is_of(counted.total) || is_of(counted.active)) return {};
  return fmt::format("`params_b` {} is not the size of {}, {:.3g} B", *run.params_b, model.name,
                     static_cast<double>(counted.total) / 1e9);
}

std::string shape_contradiction(const Run& run, const Model& model) {
  for (const ShapeColumn& column : kShape) {
    const std::optional<std::int64_t>& stated = run.*column.stated;
    // Configurations of expert models keep a width for dense layers that they do not have.
    const bool unused = column.stated == &Run::ffn && std::none_of(model.kinds.begin(), model.kinds.end(), dense);
    if (!stated || unused) continue;
    const auto holds = [&](const Layer& layer) { return column.holds(layer, *stated); };
    if (std::none_of(model.kinds.begin(), model.kinds.end(), holds))
      return fmt::format("`{}` {} is not what layers of {} have", column.name, *stated, model.name);
  }
  const auto gated = [&](const Layer& layer) {
    return (dense(layer) && layer.dense.gated) || (routed(layer) && layer.moe.gated);
  };
  const bool any = std::any_of(model.kinds.begin(), model.kinds.end(), gated);
  // `gelu` may be the activation of a gate.
  if (run.mlp.ends_with("glu") ? !any : any && run.mlp.starts_with("relu"))
    return fmt::format("mlp `{}` on {}, whose feed-forwards are {}gated", run.mlp, model.name, any ? "" : "not ");
  return size_contradiction(run, model);
}

std::string degrees_contradiction(const Run& run, const Model& model) {
  const auto degree = [](const std::optional<std::int64_t>& value) {
    return static_cast<double>(std::max<std::int64_t>(value.value_or(1), 1));
  };
  const double ranks = degree(run.tp) * degree(run.cp) * degree(run.pp) * degree(run.dp);
  if (run.gpus && run.dp && ranks != static_cast<double>(*run.gpus))
    return fmt::format("tp * cp * pp * dp = {:.0f} is not the number of GPUs, {}", ranks, *run.gpus);
  if (degree(run.ep) > 1 && !model.moe())
    return fmt::format("`ep` {} on {}, which has no experts", *run.ep, model.name);
  if (degree(run.etp) > 1 && !model.moe())
    return fmt::format("`etp` {} on {}, which has no experts", *run.etp, model.name);
  if (degree(run.vp) > 1 && run.pp == 1) return fmt::format("`vp` {} without a pipeline", *run.vp);
  if (run.pp == 1 && !one_of(run.schedule, {"", "1f1b", "gpipe"}))
    return fmt::format("schedule `{}` without a pipeline", run.schedule);
  if (run.shard == "fsdp" && run.zero == 1) return "shard `fsdp` beside `zero` 1, which leaves weights whole";
  if (!run.shard.empty() && run.zero == 0) return fmt::format("shard `{}` beside `zero` 0", run.shard);
  return {};
}

}  // namespace

std::optional<Optimizer> optimizer_of(const Run& run) {
  const std::string words = lowered(run.optimizer.substr(0, run.optimizer.find('(')));  // without a remark
  const auto says = [&](std::string_view word) { return words.find(word) != std::string::npos; };
  if (says("muon")) return Optimizer::Muon;
  if (says("adafactor")) return Optimizer::Adafactor;
  if (says("mini")) return std::nullopt;  // Adam-mini keeps less
  if (says("adam")) return says("8bit") || says("8-bit") || says("8 bit") ? Optimizer::Adam8bit : Optimizer::Adam;
  if (says("sgd")) return says("momentum") ? Optimizer::SgdMomentum : Optimizer::Sgd;
  if (one_of(trim(words), {"", "-", "unknown", "unstated", "n/a"}) || says("zero") || says("distributed optimizer"))
    return Optimizer::Adam;
  return std::nullopt;
}

std::optional<int> shard_group_of(const Run& run) {
  const std::string_view word = run.shard;
  if (one_of(word, {"", "fsdp", "hsdp"})) return 0;
  const std::optional<int> group = word.starts_with("hsdp:") ? as_number<int>(word.substr(5)) : std::nullopt;
  return group && *group > 0 ? group : std::nullopt;
}

std::optional<FlopsConvention> convention_of(const Run& run) {
  if (run.flops_convention == "model" || run.flops_convention == "hardware") return FlopsConvention::ModelFull;
  for (const FlopsNote& known : kFlopsConventions)
    if (known.name == run.flops_convention) return known.convention;
  return std::nullopt;
}

std::string mistake_of(const Run& run, const Model& model) {
  if (std::string word = word_mistake(run); !word.empty()) return word;
  if (std::string shape = shape_contradiction(run, model); !shape.empty()) return shape;
  return degrees_contradiction(run, model);
}

}  // namespace plan
