// What a layer keeps for its backward pass, tensor by tensor, each in the sizes that it consists of (plan-formulas(7)
// D). Tested by tests/cli/explain_test.cpp against formulas/activation.cpp for every shipped model.
#include <fmt/core.h>

#include <cmath>

#include "cli/explain/parts.hpp"
#include "cli/explain/terms.hpp"
#include "cli/terminal/format.hpp"
#include "formulas/activation.hpp"

namespace plan {
namespace {

/// Sizes that lines of the ledger share, as symbols.
class Ledger {
 public:
  Ledger(const Plan& plan, const Layer& layer)
      : problem_(plan.problem),
        layout_(plan.best.layout),
        layer_(layer),
        ledger_(layer_ledger(plan.problem.model, layer, plan.problem.training, plan.best.layout)) {}

  Explanation whole(std::string name) {
    input();
    mixer();
    ffn();
    line("st", ledger_.statistics, "statistics of norms", "", {});
    line("dr", ledger_.masks, "dropout masks: one byte an element", "", {});
    Explanation out = explained("bytes that one layer keeps of a micro-batch", sum_.equation, ledger_.total(), "bytes",
                                std::move(sum_.symbols),
                                "Korthikanti et al. 2022, arXiv:2205.05198, and the tensors "
                                "that TransformerEngine saves",
                                std::move(sum_.parts));
    out.name = std::move(name);
    return out;
  }

 private:
  using Symbols = std::vector<ExplainedSymbol>;

  double tokens() const { return rank_tokens(problem_.training, layout_); }
  ExplainedSymbol n() const {
    return {"N", tokens(), "tokens of a micro-batch on the rank", "seq, micro_batch and cp"};
  }
  ExplainedSymbol e() const {
    return {"e", problem_.training.precision == Precision::Fp32 ? 4.0 : 2.0, "bytes of an activation", "precision"};
  }
  ExplainedSymbol i() const {
    return {"i", gemm_input_bytes(problem_.training.precision), "bytes of a tensor kept as a GEMM's input",
            "precision"};
  }
  ExplainedSymbol h() const { return {"h", static_cast<double>(problem_.model.hidden), "hidden width", "model"}; }
  ExplainedSymbol t() const { return {"t", static_cast<double>(layout_.tp), "tensor-parallel ranks", "layout"}; }
  /// What divides tensors that tensor parallelism alone leaves whole.
  ExplainedSymbol r() const {
    return {"r", layout_.sequence_parallel ? static_cast<double>(layout_.tp) : 1.0,
            "ranks that share the sequence between tensor-parallel parts", "layout"};
  }

  /// One line; where the equation leaves bytes over, they are named.
  void line(const char* name, double bytes, const char* what, std::string equation, Symbols symbols, double value = 0,
            const char* rest = "what the stack keeps beside it") {
    if (bytes == 0) return;
    const double over = bytes - value;
    if (equation.empty()) {
      equation = "N*b";
      symbols = {n(), {"b", bytes / tokens(), fmt::format("bytes of a token: {}", what), "model and layout"}};
    } else if (std::fabs(over) > 0.5) {
      equation += " + N*x";
      symbols.push_back({"x", over / tokens(), fmt::format("bytes of a token: {}", rest), "stack"});
    }
    Explanation part = explained(what, std::move(equation), bytes, "bytes", std::move(symbols));
    part.name = name;
    sum_.add("", what, std::move(part));
  }

  void input() {
    const double value = tokens() * e().value * h().value / r().value;
    line("mi", ledger_.mixer_input, "input of the mixer's norm", "N*e*h/r", {n(), e(), h(), r()}, value,
         "norms behind and normalised copies");
    const double normed = tokens() * i().value * h().value / r().value;
    line("mn", ledger_.mixer_norm, "input of the mixer's first GEMM", "N*i*h/r", {n(), i(), h(), r()}, normed,
         "gathered over the sequence");
  }

  void mixer() {
    if (layer_.mixer == Mixer::Attention) {
      const AttentionShape& shape = layer_.attention;
      const double q = static_cast<double>(shape.q()) / layout_.tp;
      const double kv =
          static_cast<double>(std::max<std::int64_t>(shape.kv_heads, layout_.tp) * shape.head_dim) / layout_.tp;
      line("mx", ledger_.mixer, "queries, keys, values and the attention's output", "N*e*(2*q + 2*v)",
           {n(),
            e(),
            {"q", q, "width of the queries on the rank", "model and layout"},
            {"v", kv, "width of keys, and of values, on the rank", "model and layout"}},
           tokens() * e().value * (2 * q + 2 * kv), "query and key norms, gates, quantised or reordered copies");
    } else if (layer_.mixer == Mixer::Latent) {
      const LatentShape& shape = layer_.latent;
      const double ranks = static_cast<double>(shape.q_rank + shape.kv_rank);
      const double values = static_cast<double>(shape.heads * shape.value_dim) / layout_.tp;
      line("mx", ledger_.mixer, "compressed queries and keys, the attention's output", "N*((e + i)*c/r + e*v)",
           {n(),
            e(),
            i(),
            {"c", ranks, "ranks of queries and keys", "model"},
            r(),
            {"v", values, "width of the values on the rank", "model and layout"}},
           tokens() * ((e().value + i().value) * ranks / r().value + e().value * values), "indexer, quantised copies");
    } else {
      line("mx", ledger_.mixer, "projected inputs and states of the mixer", "", {});
    }
    line("lu", ledger_.latent_up, "queries, keys and values behind the up-projections", "", {});
    const bool flash = problem_.training.stack.flash_attention;
    const double heads =
        static_cast<double>(layer_.mixer == Mixer::Latent ? layer_.latent.heads : layer_.attention.heads);
    line("co", ledger_.core, flash ? "row sums of the softmax: fp32" : "scores of every head", flash ? "4*N*a/t" : "",
         flash ? Symbols{n(), {"a", heads, "attention heads", "model"}, t()} : Symbols{},
         4 * tokens() * heads / layout_.tp);
  }

  void ffn() {
    line("fi", ledger_.ffn_input, "input of the FFN's norm", "N*e*h/r", {n(), e(), h(), r()},
         tokens() * e().value * h().value / r().value, "norms behind and normalised copies");
    line("fn", ledger_.ffn_norm, "input of the FFN's first GEMM", "N*i*h/r", {n(), i(), h(), r()},
         tokens() * i().value * h().value / r().value, "gathered over the sequence");
    const double gates = layer_.dense.gated ? 2 : 1, width = static_cast<double>(layer_.dense.width);
    const bool gated = layer_.dense.gated;
    line("ml", ledger_.mlp, "activation's input of the dense FFN", "N*e*g*f/t",
         {n(), e(), {"g", gates, "gate and up projections", "model"}, {"f", width, "width of the FFN", "model"}, t()},
         tokens() * e().value * gates * width / layout_.tp, "less what is kept in fp8");
    line("ma", ledger_.mlp_activation, "activation's output of the dense FFN", "N*i*f/t",
         {n(), i(), {"f", width, "width of the FFN", "model"}, t()}, tokens() * i().value * width / layout_.tp,
         gated ? "SiLU's output, which an unfused gate multiplies" : "inputs of frozen weights are not kept");
    line("ro", ledger_.router, "router's logits and probabilities: 8 bytes an expert", "", {});
    experts();
  }

  void experts() {
    if (layer_.ffn != Ffn::Moe) return;
    const MoeShape& shape = layer_.moe;
    const double copies = static_cast<double>(shape.top_k) * problem_.training.stack.routing_imbalance;
    const double expert_hidden = static_cast<double>(shape.latent > 0 ? shape.latent : problem_.model.hidden);
    const double gates = shape.gated ? 2 : 1, width = static_cast<double>(shape.expert_width);
    const ExplainedSymbol k{"k", copies, "experts of a token", "model and stack"};
    const ExplainedSymbol f{"f", width, "width of an expert", "model"};
    line("ex", ledger_.routed, "routed experts: their input, the activation's input, probabilities",
         "N*k/r*(i*d*x_t + e*g*f + 4)",
         {n(),
          k,
          r(),
          i(),
          {"d", expert_hidden, "width that experts see", "model"},
          {"x_t", static_cast<double>(layout_.etp), "ranks that share an expert", "layout"},
          e(),
          {"g", gates, "gate and up projections", "model"},
          f},
         tokens() * copies / r().value * (i().value * expert_hidden * layout_.etp + e().value * gates * width + 4),
         "unweighted outputs");
    line("ea", ledger_.routed_activation, "routed experts: the activation's output", "N*k/r*i*f", {n(), k, r(), i(), f},
         tokens() * copies / r().value * i().value * width, "SiLU's output, which an unfused gate multiplies");
    line("eo", ledger_.routed_output, "outputs of the routed experts", "N*k/r*e*d",
         {n(), k, r(), e(), {"d", expert_hidden, "width that experts see", "model"}},
         tokens() * copies / r().value * e().value * expert_hidden);
    const double shared = static_cast<double>(shape.shared_width);
    line("sh", ledger_.shared, "shared experts: the activation's input and output", "N*(e*g + i)*s/t",
         {n(),
          e(),
          {"g", gates, "gate and up projections", "model"},
          i(),
          {"s", shared, "width of shared experts", "model"},
          t()},
         tokens() * (e().value * gates + i().value) * shared / layout_.tp);
  }

  const Problem& problem_;
  const Layout& layout_;
  const Layer& layer_;
  LayerLedger ledger_;
  ExplainedSum sum_{};
};

}  // namespace

Explanation explain_ledger(const Plan& plan, std::string name, int kind) {
  return Ledger(plan, plan.problem.model.kinds[static_cast<std::size_t>(kind)]).whole(std::move(name));
}

}  // namespace plan
