// What `plan explain` prints of a layer's activations adds up to the bytes that the planner counts, for every shipped
// model: equations are read back from the JSON and evaluated as text, and every letter in them is a size of the model,
// of the layout or of the training. A letter that stood for what is left over would be none of these.
#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/explain/explain.hpp"
#include "cli/explain/parts.hpp"
#include "cli/request/words/layout_flag.hpp"
#include "oracle/equation_eval.hpp"
#include "planner/rules/complete_layout.hpp"
#include "planner/rules/frameworks.hpp"
#include "presets/store.hpp"

using namespace plan;

namespace {

using Json = nlohmann::ordered_json;

/// Sizes that a letter may stand for, as a reader of the preset would compute them.
std::set<double> sizes_of(const Model& model, const Layer& layer, const Training& training, const Layout& layout) {
  const AttentionShape& a = layer.attention;
  const LatentShape& l = layer.latent;
  const Mamba2Shape& m = layer.mamba;
  const DeltaNetShape& d = layer.delta;
  const MoeShape& e = layer.moe;
  std::set<double> out;
  for (const std::int64_t size : {model.hidden,
                                  a.heads,
                                  a.kv_heads,
                                  a.head_dim,
                                  a.heads * a.head_dim,
                                  l.heads,
                                  l.value_dim,
                                  l.index_dim,
                                  l.index_heads,
                                  l.index_top_k,
                                  l.q_rank + l.kv_rank,
                                  l.nope_dim + l.rope_dim,
                                  m.heads,
                                  m.head_dim,
                                  m.groups,
                                  m.state,
                                  d.value_heads,
                                  d.key_heads,
                                  d.key_dim,
                                  d.value_dim,
                                  e.experts,
                                  e.top_k,
                                  e.expert_width,
                                  e.shared_width,
                                  e.latent,
                                  layer.dense.width,
                                  std::int64_t{layer.norms},
                                  training.seq,
                                  std::int64_t{layout.tp},
                                  std::int64_t{layout.etp},
                                  std::int64_t{layout.cp},
                                  training.seq * layout.micro_batch / layout.cp})
    out.insert(static_cast<double>(size));
  out.insert({1, 2, 4, 64, training.stack.routing_imbalance, 33.0 / 32, 1 + 1.0 / 32, 0.5625});
  return out;
}

double evaluated(const Json& e) {
  return oracle::evaluate_equation(e["equation"].get<std::string>(), [&](std::string_view name) {
    for (const Json& symbol : e["symbols"])
      if (symbol["name"].get<std::string>() == name) return symbol["value"].get<double>();
    throw oracle::EquationError("no symbol " + std::string(name));
  });
}

bool close(double a, double b) { return std::fabs(a - b) <= 1e-9 * std::fabs(b); }

/// The equation gives the value; a symbol with a part has the part's value, and any other is one of `sizes`.
void check_trail(const Json& e, const std::set<double>& sizes) {
  CAPTURE(e["title"].get<std::string>());
  CAPTURE(e["equation"].get<std::string>());
  CHECK(close(evaluated(e), e["value"].get<double>()));
  for (const Json& symbol : e["symbols"]) {
    CAPTURE(symbol.dump());
    const Json* part = nullptr;
    if (e.contains("parts"))
      for (const Json& p : e["parts"])
        if (p["name"] == symbol["name"]) part = &p;
    if (part != nullptr)
      CHECK((*part)["value"] == symbol["value"]);
    else
      CHECK(sizes.count(symbol["value"].get<double>()) == 1);
  }
  if (e.contains("parts"))
    for (const Json& part : e["parts"]) check_trail(part, sizes);
}

Plan bare_plan(const std::string& model) {
  Plan plan;
  plan.problem.model = load_model(model, StoreOptions{}).value().value;
  plan.problem.cluster = load_cluster("dgx-h100", StoreOptions{}).value().value;
  plan.problem.training.seq = 4096;
  plan.problem.training.dropout = plan.problem.model.dropout;
  return plan;
}

/// Ways to split a layer, and what may be asked of it: case i takes every i-th, so that all of them meet.
Layout split(int i) {
  const Layout kSplits[] = {{},
                            {.tp = 2},
                            {.tp = 8, .sequence_parallel = true},
                            {.tp = 4, .cp = 2, .cp_kind = CpKind::AllGather, .ep = 2, .sequence_parallel = true},
                            {.cp = 8, .cp_kind = CpKind::Ring, .ep = 8},
                            {.tp = 2, .cp = 4, .cp_kind = CpKind::Ulysses, .etp = 2, .micro_batch = 2},
                            {.tp = 16, .ep = 4, .etp = 4, .micro_batch = 4, .sequence_parallel = true}};
  return kSplits[static_cast<std::size_t>(i) % std::size(kSplits)];
}

Recompute recomputed(int i) {
  constexpr RecomputeKind kSelective = RecomputeKind::Selective;
  const Recompute kChoices[] = {{},
                                {.kind = RecomputeKind::Full},
                                {.kind = kSelective, .modules = kRecomputeCoreAttention},
                                {.kind = kSelective, .modules = kRecomputeOps},
                                {.kind = kSelective, .modules = kRecomputeMlp | kRecomputeNorm},
                                {.kind = kSelective, .modules = kRecomputeMoe | kRecomputeLatentUp},
                                {.kind = kSelective, .modules = kRecomputeMoeActivation | kRecomputeSharedExperts},
                                {.kind = kSelective, .modules = kRecomputeMlpActivation}};
  return kChoices[static_cast<std::size_t>(i) % std::size(kChoices)];
}

Precision precision(int i) {
  constexpr Precision kFormats[] = {Precision::Bf16,  Precision::Fp32,         Precision::Fp8Delayed,
                                    Precision::Mxfp8, Precision::Fp8Blockwise, Precision::Nvfp4};
  return kFormats[static_cast<std::size_t>(i) % std::size(kFormats)];
}

/// Switches of a stack that keep more or less; none at i = 0.
void set_stack(Training& training, int i) {
  Stack& stack = training.stack;
  switch (i % 9) {
    case 1: stack.flash_attention = false, stack.fused_softmax = false; break;
    case 2: stack.fused_norms = false, stack.fused_activation = false; break;
    case 3: stack.keeps_gathered = true, stack.expands_kv = true; break;
    case 4: stack.weighs_outputs = true, stack.routing_imbalance = 1.25; break;
    case 5: stack.legacy_moe_probs = true, stack.fp8_activation_input = true; break;
    case 6: training.task = Task::Lora, training.lora.ffn = false; break;
    case 7: stack.batch_first_attention = true, training.dropout = 0.1; break;
    case 8:
      training.offload.modules = kOffloadCoreAttention | kOffloadAttentionNorm | kOffloadExpertFc1 |
                                 kOffloadMoeActivation | kOffloadQkvLinear | kOffloadAttentionProjection;
      break;
    default: break;
  }
}

}  // namespace

TEST_CASE("equations of a layer's activations add up to its bytes, for every model, format, split and recomputation") {
  int layers = 0, number = 0;
  for (const PresetEntry& entry : list_presets(PresetKind::Model, StoreOptions{})) {
    CAPTURE(entry.name);
    const Plan whole = bare_plan(entry.name);
    for (int i = 0; i < 9; ++i, ++number) {
      Plan plan = whole;
      plan.best.layout = split(number);
      plan.best.layout.recompute = recomputed(number + number / 56);
      plan.problem.training.precision = precision(number / 2);
      set_stack(plan.problem.training, i);
      const MemoryModel memory(plan.problem, plan.best.layout);
      for (std::size_t kind = 0; kind < plan.problem.model.kinds.size(); ++kind, ++layers) {
        const Explanation told = explain_ledger(plan, memory, "k", static_cast<int>(kind));
        const LayerMemory& bytes = memory.layer(static_cast<int>(kind));
        const bool full = plan.best.layout.recompute.kind == RecomputeKind::Full;
        CHECK(close(told.value, (full ? bytes.checkpoint : bytes.kept).value));
        check_trail(json_explanation(told), sizes_of(plan.problem.model, plan.problem.model.kinds[kind],
                                                     plan.problem.training, plan.best.layout));
      }
    }
  }
  CHECK(layers > 1800);
}

namespace {

/// The equation of every explanation gives its value to the byte, down to the tensors.
void check_bytes(const Explanation& e) {
  CAPTURE(e.name);
  CAPTURE(e.equation);
  const double value = evaluated(json_explanation(e));
  CHECK(std::fabs(value - e.value) <= 1e-9 * std::fabs(e.value) + 1);
  for (const Explanation& part : e.parts) check_bytes(part);
}

}  // namespace

TEST_CASE("what a stage holds at its peak is explained without a rest, for every model and stack") {
  constexpr const char* kLayouts[] = {"tp1,zero1",
                                      "tp2,pp2,recompute=full",
                                      "tp2,pp2,recompute=core_attn",
                                      "pp4,recompute=full-1",
                                      "tp2,pp2,schedule=gpipe",
                                      "pp2,vp2,recompute=full-1",
                                      "zero3",
                                      "tp2,cp2,zero2",
                                      "pp2,recompute=full"};
  int explained = 0, number = 0;
  for (const PresetEntry& entry : list_presets(PresetKind::Model, StoreOptions{})) {
    CAPTURE(entry.name);
    Problem problem = bare_plan(entry.name).problem;
    problem.gpus = 64;
    problem.training.global_batch = 256;
    for (int i = 0; i < 4; ++i, ++number) {
      const std::span<const FrameworkRow> known = frameworks().first(frameworks().size() - 1);  // without `none`
      problem.training.stack = known[static_cast<std::size_t>(number / 2) % known.size()].stack;
      problem.training.precision = precision(number);
      problem.training.stack.fp8_param_gather = number % 5 == 0;
      problem.training.optimizer = number % 7 == 0 ? Optimizer::Muon : Optimizer::Adam;
      problem.training.task = number % 13 == 0 ? Task::Qlora : number % 17 == 0 ? Task::Lora : Task::Pretrain;
      problem.training.offload = {};
      problem.training.offload.layers = number % 11 == 0 ? 2 : 0;
      problem.training.offload.optimizer = number % 19 == 0 ? 0.5 : 0;
      problem.training.offload.parameters = number % 23 == 0;
      problem.fixed = read_layout(kLayouts[static_cast<std::size_t>(number) % std::size(kLayouts)]).value();
      const Layout layout = complete_layout(problem);
      CAPTURE(number);
      Plan plan;
      plan.problem = problem;
      plan.best = estimate(problem, layout);
      for (const int stage : {0, layout.pp - 1}) {
        for (const char* term : {"activations", "weights", "grads", "optimizer", "transient"}) {
          const Result<Explanation> held = explain(plan, term, stage);
          if (!held) {
            CHECK(held.error()[0].code == "nothing_to_explain");
            continue;
          }
          check_bytes(*held);
          ++explained;
        }
      }
    }
  }
  CHECK(explained > 5000);
}
