// Arguments of Megatron-LM's own scripts that its parser, validate_args() or TransformerConfig refuses, found by giving
// random changes of sound scripts to both (core 0.20, and `since` by the texts of each release). Tools around
// Megatron-LM set the other half of such pairs themselves: of their files nothing is asked here.
// Tested by tests/launch/parser_mistakes_test.cpp.
#include <fmt/core.h>

#include <algorithm>
#include <regex>

#include "cli/launch/megatron/flags.hpp"
#include "cli/launch/megatron/mistakes.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

using Job = LaunchJob;

/// A script whose every word is known, for Megatron-LM's own parser: what it does not say is not there.
bool script(const MegatronArgs& a) {
  const auto open = [](const auto& given) {
    const auto unknown = [](const std::string& word) { return word.find('$') != std::string::npos; };
    return std::any_of(given.second.values.begin(), given.second.values.end(), unknown);
  };
  const auto stray = [](const Note& note) { return note.code == "unknown_arguments"; };
  return a.states_environment && !a.fork && !a.foreign && std::none_of(a.given.begin(), a.given.end(), open) &&
         std::none_of(a.unused.begin(), a.unused.end(), stray);
}
bool is(const MegatronArgs& a, const char* flag, std::string_view word) { return a.text(flag) == word; }
int tp(const Job& j) { return j.fixed.tp.value_or(1); }

/// A variable that the script exports; empty: it does not.
std::string variable(const MegatronArgs& a, std::string_view name) {
  const auto found = a.environment.find(name);
  return found == a.environment.end() || found->second.values.empty() ? std::string() : found->second.values.front();
}

/// CUDA graphs of the whole step, under its names in several releases.
bool graphs_step(const MegatronArgs& a) {
  return is(a, "cuda-graph-impl", "full_iteration") || is(a, "cuda-graph-scope", "full_iteration");
}
bool graphs_parts(const MegatronArgs& a) {
  const bool implemented = is(a, "cuda-graph-impl", "local") || is(a, "cuda-graph-impl", "transformer_engine");
  return !graphs_step(a) && (implemented || a.has("enable-cuda-graph") || a.has("external-cuda-graph"));
}

constexpr MegatronMistake kMistakes[] = {
    {"two_lengths", "train-samples",
     [](const MegatronArgs& a, const Job&) { return a.has("train-samples") && a.has("train-iters"); },
     "`--train-samples` and `--train-iters` exclude each other", "leave one out"},
    {"two_lengths", "train-iters",
     [](const MegatronArgs& a, const Job&) {
       return a.has("train-iters") && (a.has("lr-decay-samples") || a.has("lr-warmup-samples"));
     },
     "a length in iterations takes a decay and warm-up in iterations", "write `--lr-decay-iters`, `--lr-warmup-iters`"},
    {"two_activations", "swiglu",
     [](const MegatronArgs& a, const Job&) {
       return a.has("swiglu") && (a.has("squared-relu") || a.has("quick-geglu"));
     },
     "a feed-forward has one activation: `--swiglu`, `--squared-relu` or `--quick-geglu`", "leave all but one out"},
    {"fused_activation", "squared-relu",
     [](const MegatronArgs& a, const Job&) {
       return a.has("squared-relu") && !a.has("disable-bias-linear") && !a.has("no-bias-gelu-fusion");
     },
     "no kernel adds the bias in front of a squared ReLU", "add `--disable-bias-linear` or `--no-bias-gelu-fusion`"},
    {"expert_bias_scores", "moe-router-enable-expert-bias",
     [](const MegatronArgs& a, const Job&) {
       return a.has("moe-router-enable-expert-bias") && !is(a, "moe-router-score-function", "sigmoid") &&
              !is(a, "moe-router-score-function", "sqrtsoftplus");
     },
     "the bias of `--moe-router-enable-expert-bias` moves sigmoid scores", "add `--moe-router-score-function sigmoid`"},
    {"padded_capacity", "moe-pad-expert-input-to-capacity",
     [](const MegatronArgs& a, const Job&) {
       return a.has("moe-pad-expert-input-to-capacity") && !a.has("moe-expert-capacity-factor");
     },
     "there is no capacity to pad to", "add `--moe-expert-capacity-factor`"},
    {"router_groups", "moe-router-group-topk",
     [](const MegatronArgs& a, const Job&) {
       return a.has("moe-router-group-topk") && !a.has("moe-router-num-groups");
     },
     "`--moe-router-group-topk` needs `--moe-router-num-groups`", ""},
    {"expert_width", "moe-ffn-hidden-size",
     [](const MegatronArgs& a, const Job&) { return a.has("moe-ffn-hidden-size") && !a.has("num-experts"); },
     "`--moe-ffn-hidden-size` needs `--num-experts`", "", 18},
    {"expert_biases", "num-experts",
     [](const MegatronArgs& a, const Job& j) {
       return a.has("num-experts") && !a.has("disable-bias-linear") && j.fixed.etp.value_or(tp(j)) > 1;
     },
     "experts with biases are not split among tensor ranks",
     "add `--disable-bias-linear` or `--expert-tensor-parallel-size 1`", 15},
    {"delayed_weights", "delay-wgrad-compute",
     [](const MegatronArgs& a, const Job&) {
       return a.has("delay-wgrad-compute") && !a.has("overlap-moe-expert-parallel-comm");
     },
     "`--delay-wgrad-compute` needs `--overlap-moe-expert-parallel-comm`", "", 14},
    {"deferred_embedding", "defer-embedding-wgrad-compute",
     [](const MegatronArgs& a, const Job& j) {
       return a.has("defer-embedding-wgrad-compute") && j.fixed.pp.value_or(1) == 1;
     },
     "the embedding's gradient is deferred on pipelines alone", ""},
    {"warmup_overlap", "overlap-p2p-communication-warmup-flush",
     [](const MegatronArgs& a, const Job& j) {
       return a.has("overlap-p2p-communication-warmup-flush") &&
              (j.fixed.vp.value_or(1) == 1 || a.has("no-overlap-p2p-communication"));
     },
     "`--overlap-p2p-communication-warmup-flush` needs interleaved stages whose messages overlap", ""},
    {"gather_checkpoint", "overlap-param-gather-with-optimizer-step",
     [](const MegatronArgs& a, const Job&) {
       return a.has("overlap-param-gather-with-optimizer-step") && !is(a, "ckpt-format", "torch");
     },
     "gathering parameters beside the optimizer step does not go with distributed checkpoints",
     "add `--ckpt-format torch`"},
    {"fsdp_format", "ckpt-format",
     [](const MegatronArgs& a, const Job&) { return is(a, "ckpt-format", "fsdp_dtensor") && !is_megatron_fsdp(a); },
     "`--ckpt-format fsdp_dtensor` needs `--use-megatron-fsdp`", "", 14},
    {"graphs_recompute", "recompute-granularity",
     [](const MegatronArgs& a, const Job&) { return graphs_parts(a) && is(a, "recompute-granularity", "full"); },
     "CUDA graphs of parts exclude full recompute", "", 16},
    {"graphs_register", "cuda-graph-impl",
     [](const MegatronArgs& a, const Job&) {
       const bool recorded = is(a, "cuda-graph-impl", "transformer_engine") || a.has("external-cuda-graph");
       return recorded && variable(a, "NCCL_GRAPH_REGISTER") != "0" &&
              variable(a, "PYTORCH_CUDA_ALLOC_CONF").find("expandable_segments:True") != std::string::npos;
     },
     "CUDA graphs and expandable segments together lose the buffers that NCCL registers",
     "add `export NCCL_GRAPH_REGISTER=0`", 16},
    {"graphs_nan", "cuda-graph-impl",
     [](const MegatronArgs& a, const Job&) { return graphs_step(a) && !a.has("no-check-for-nan-in-loss-and-grad"); },
     "a CUDA graph of the whole step cannot look for NaN", "add `--no-check-for-nan-in-loss-and-grad`", 14},
    {"local_attention", "attention-backend",
     [](const MegatronArgs& a, const Job&) { return is(a, "attention-backend", "local") && !is(a, "spec", "local"); },
     "`--attention-backend local` needs `--spec local`", ""},
    {"hierarchy_missing", "cp-comm-type",
     [](const MegatronArgs& a, const Job& j) {
       const auto words = a.given.find("cp-comm-type");
       return words != a.given.end() && j.fixed.cp.value_or(1) == 1 &&
              std::count(words->second.values.begin(), words->second.values.end(), "a2a+p2p") > 0 &&
              !a.has("hierarchical-context-parallel-sizes");
     },
     "`--cp-comm-type a2a+p2p` needs `--hierarchical-context-parallel-sizes`", "leave it out"},
    {"predicted_positions", "mtp-num-layers",
     [](const MegatronArgs& a, const Job&) {
       const std::string positions = a.text("position-embedding-type");
       return a.integer("mtp-num-layers", 0) > 0 && positions != "rope" && positions != "none";
     },
     "prediction layers need rotary positions, or none", "add `--position-embedding-type rope`"},
    {"hybrid_split", "hybrid-layer-pattern",
     [](const MegatronArgs& a, const Job&) {
       constexpr const char* kOther[] = {"num-layers-per-virtual-pipeline-stage",
                                         "num-virtual-stages-per-pipeline-rank", "pipeline-model-parallel-layout",
                                         "account-for-embedding-in-pipeline-split",
                                         "account-for-loss-in-pipeline-split"};
       return a.has("hybrid-layer-pattern") &&
              std::any_of(std::begin(kOther), std::end(kOther), [&](const char* flag) { return a.has(flag); });
     },
     "`|` in `--hybrid-layer-pattern` says where the pipeline is cut, and no other flag may", "", 17},
};

constexpr std::string_view kWhole = " <int> ", kNumber = " <float> ";

/// Does Python's int() or float() take the word, or is it among the choices?
bool takes(std::string_view words, const std::string& word) {
  if (words != kWhole && words != kNumber) return words.find(" " + word + " ") != std::string_view::npos;
  static const std::regex whole("[+-]?[0-9]+(_[0-9]+)*");
  static const std::regex number("[+-]?([0-9]+(_[0-9]+)*\\.?[0-9_]*|\\.[0-9]+)(e[+-]?[0-9]+)?|[+-]?(inf|infinity|nan)",
                                 std::regex::icase);
  return std::regex_match(word, words == kWhole ? whole : number);
}

}  // namespace

std::span<const MegatronMistake> parser_mistakes(const MegatronArgs& args) {
  return script(args) ? std::span<const MegatronMistake>(kMistakes) : std::span<const MegatronMistake>();
}

void judge_choices(const MegatronArgs& args, Errors& errors) {
  if (!script(args)) return;
  for (const auto& [flag, value] : args.given) {
    const std::string_view words = megatron_choices(flag);
    if (words.empty()) continue;
    for (const std::string& word : value.values) {
      if (takes(words, word)) continue;
      errors.push_back({"unknown_word",
                        fmt::format("{}: `--{}` does not take `{}`", value.where, flag, yaml::printable(word)),
                        {},
                        {words == kWhole    ? "it takes a whole number"
                         : words == kNumber ? "it takes a number"
                                            : fmt::format("it takes one of{}", words.substr(0, words.size() - 1))}});
    }
  }
}

}  // namespace plan
