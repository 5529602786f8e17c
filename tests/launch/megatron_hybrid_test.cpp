// Layers of several kinds in Megatron-LM's letters: the models of presets spelled out as flags, cut at random into the
// chunks of a pipeline, come back as they are.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>

#include "cli/launch/launch.hpp"
#include "formulas/parameters.hpp"
#include "planner/planner.hpp"
#include "presets/store.hpp"
#include "random_plans.hpp"
#include "small_files.hpp"

namespace plan {

using namespace launching;

namespace {

Model preset(const std::string& name) {
  const auto found = load_model(name, StoreOptions::from_environment());
  REQUIRE(found);
  return found->value;
}

const Layer& layer_at(const Model& model, std::size_t at) {
  return model.kinds[static_cast<std::size_t>(model.layers[at])];
}

char letter_of(const Layer& layer) {
  if (layer.mixer == Mixer::Mamba2) return 'M';
  if (layer.mixer == Mixer::Attention) return '*';
  return layer.ffn == Ffn::Moe ? 'E' : '-';
}

/// The shapes of a layer as the flags that state them.
std::string flags_of(const Layer& layer) {
  const AttentionShape& a = layer.attention;
  const Mamba2Shape& m = layer.mamba;
  const MoeShape& e = layer.moe;
  switch (letter_of(layer)) {
    case 'M':
      return fmt::format("--mamba-num-heads {} --mamba-head-dim {} --mamba-num-groups {} --mamba-state-dim {} ",
                         m.heads, m.head_dim, m.groups, m.state);
    case '*':
      return fmt::format("--num-attention-heads {} --group-query-attention --num-query-groups {} --kv-channels {} ",
                         a.heads, a.kv_heads, a.head_dim);
    case '-': return fmt::format("--ffn-hidden-size {} ", layer.dense.width);
    default:
      return fmt::format(
          "--num-experts {} --moe-router-topk {} --moe-ffn-hidden-size {} --moe-shared-expert-intermediate-size {} "
          "--moe-router-enable-expert-bias {}",
          e.experts, e.top_k, e.expert_width, e.shared_width,
          e.latent > 0 ? fmt::format("--moe-latent-size {} ", e.latent) : "");
  }
}

std::string script(const Model& model, const std::string& pattern, int pp, const std::string& more = "") {
  std::string flags;
  for (const char letter : std::string("M*-E"))
    for (const Layer& kind : model.kinds)
      if (letter_of(kind) == letter) flags += flags_of(kind);
  return fmt::format(
      "export CUDA_DEVICE_MAX_CONNECTIONS=1\ntorchrun --nnodes {} --nproc-per-node 8 pretrain_mamba.py --hidden-size "
      "{} --hybrid-layer-pattern '{}' {} {} --squared-relu --disable-bias-linear --normalization RMSNorm "
      "--position-embedding-type none --moe-router-score-function sigmoid --untie-embeddings-and-output-weights "
      "--attention-dropout 0 --hidden-dropout 0 "
      "--seq-length 4096 --max-position-embeddings 4096 --micro-batch-size 1 --global-batch-size 256 --bf16 "
      "--train-iters 10 --eval-interval 10 --vocab-size {} --pipeline-model-parallel-size {} --spec "
      "megatron.core.models.mamba.mamba_layer_specs mamba_stack_spec\n",
      pp, model.hidden, pattern, flags, more, model.vocab, pp);
}

}  // namespace

TEST_CASE("a model's layers as letters are the model, and what is between bars is a chunk of the pipeline") {
  std::mt19937 random(3);
  for (const char* name :
       {"nemotron-3-nano", "nemotron-3-super", "nemotron3-ultra-550b-a55b", "nemotron-h-8b", "nemotron-nano-9b-v2"}) {
    const Model model = preset(name);
    const std::size_t depth = model.layers.size();
    std::string letters;
    for (std::size_t i = 0; i < depth; ++i) letters += letter_of(layer_at(model, i));
    for (int round = 0; round < 12; ++round) {
      const int pp = 2 + static_cast<int>(random() % 35),
                vp = depth / static_cast<std::size_t>(pp) > 4 ? 1 + static_cast<int>(random() % 2) : 1;
      std::vector<int> chunks(static_cast<std::size_t>(pp * vp), 1);
      for (std::size_t left = depth - std::min(depth, chunks.size()); left > 0; --left)
        ++chunks[random() % chunks.size()];
      if (chunks.size() > depth) continue;
      std::string pattern, predicted;
      for (std::size_t chunk = 0, at = 0; chunk < chunks.size(); at += static_cast<std::size_t>(chunks[chunk++]))
        pattern += (chunk > 0 ? "|" : "") + letters.substr(at, static_cast<std::size_t>(chunks[chunk]));
      for (const int kind : model.mtp.kinds) predicted += letter_of(model.kinds[static_cast<std::size_t>(kind)]);
      for (int i = 0; i < model.mtp.runs(); ++i) pattern += "/" + predicted;
      CAPTURE(pattern);
      const LaunchJob job =
          job_of("n.sh", script(model, pattern, pp, model.mtp.passes > 1 ? "--mtp-use-repeated-layer" : ""));
      REQUIRE(job.model);
      CHECK(job.model->name == model.name);
      CHECK(job.unused.empty());
      REQUIRE(job.model->layers.size() == depth);
      for (std::size_t i = 0; i < depth; ++i) {
        CAPTURE(i);
        CHECK((layer_at(*job.model, i) == layer_at(model, i)));
      }
      CHECK(job.model->mtp.depth == model.mtp.depth);
      CHECK(job.model->mtp.passes == model.mtp.passes);
      CHECK(model_parameters(*job.model).total == model_parameters(model).total);
      CHECK(job.fixed.pp == pp);
      CHECK(job.fixed.vp == vp);
      CHECK((job.fixed.chunk_layers == std::optional(chunks)));
    }
  }
}

TEST_CASE("patterns that are no model are refused by what is wrong with them, or left to the model that is named") {
  const Model nano = preset("nemotron-3-nano");
  const auto error = [&](const std::string& pattern, int pp) {
    const Files files;
    const Result<LaunchJob> job = files.read("n.sh", script(nano, pattern, pp));
    REQUIRE_FALSE(job);
    return job.error().front().message;
  };
  CHECK(error("MED*", 1).find("`D`") != std::string::npos);
  CHECK(error("ME|M*|E", 2).find("3 segments") != std::string::npos);
  CHECK(error("|", 2).find("names no layers") != std::string::npos);
  CHECK(error("M-M*", 1).find("has no layer of experts") != std::string::npos);  // a fork's letters mean others
  const std::string cut = "ME|M*";
  LaunchContext context = on(16);
  context.model = nano;
  const Files files;
  const Result<LaunchJob> other = files.read("n.sh", script(nano, cut, 2), context);
  REQUIRE_FALSE(other);
  CHECK(other.error().front().message.find("cuts 4 layers, and the model has 52") != std::string::npos);
}

TEST_CASE("a program for such layers has Mamba layers, and shares of others are spread evenly among them") {
  std::mt19937 random(5);
  const auto letters = [](const std::string& program, int depth, const std::string& more) {
    const LaunchJob job =
        job_of("n.sh",
               fmt::format("torchrun --nproc-per-node 8 {} --num-layers {} --hidden-size 1024 --num-attention-heads 16 "
                           "--seq-length 2048 --max-position-embeddings 2048 --micro-batch-size 1 "
                           "--global-batch-size 16 --bf16 --train-iters 10 --eval-interval 10 --vocab-size 32000 {}\n",
                           program, depth, more));
    REQUIRE(job.model);
    CHECK(job.unused.empty());
    std::string out;
    for (std::size_t i = 0; i < job.model->layers.size(); ++i) out += letter_of(layer_at(*job.model, i));
    return out;
  };
  CHECK(letters("pretrain_mamba.py", 12, "") == std::string(12, 'M'));
  for (int round = 0; round < 40; ++round) {
    const int depth = 8 + static_cast<int>(random() % 90);
    const double attention = static_cast<double>(random() % 30) / 100, ffn = static_cast<double>(random() % 60) / 100;
    const std::string program = round % 2 == 0 ? "pretrain_mamba.py" : "pretrain_gpt.py";
    if (attention + ffn == 0) continue;
    const std::string found =
        letters(program, depth, fmt::format("--hybrid-attention-ratio {} --hybrid-mlp-ratio {}", attention, ffn));
    CAPTURE(found);
    REQUIRE(found.size() == static_cast<std::size_t>(depth));
    CHECK(std::count(found.begin(), found.end(), '*') == std::lround(std::nearbyint(depth * attention)));
    CHECK(std::count(found.begin(), found.end(), '-') == std::lround(std::nearbyint(depth * ffn)));
    CHECK(found.front() != '*');
    // Runs of Mamba layers and feed-forwards between two attentions differ in length by one at most.
    std::vector<int> runs(1, 0);
    for (const char letter : found)
      if (letter == '*')
        runs.push_back(0);
      else
        ++runs.back();
    const auto [least, most] = std::minmax_element(runs.begin(), runs.end());
    CHECK(*most - *least <= 1);
  }
}

TEST_CASE("prediction layers of a hybrid stand behind a slash of its pattern, or are not built") {
  const Model model = preset("nemotron-h-8b");
  std::string letters;
  for (std::size_t i = 0; i < model.layers.size(); ++i) letters += letter_of(layer_at(model, i));
  for (const bool predicted : {false, true}) {
    const LaunchJob job = job_of("n.sh", script(model, letters + (predicted ? "/M*/M*" : ""), 1, "--mtp-num-layers 2"));
    REQUIRE(job.model);
    CHECK(job.model->mtp.depth == (predicted ? 2 : 0));
    CHECK(job.unused.empty() == predicted);
  }
}

TEST_CASE("layers that have no letter are not written, nor letters by who builds none of them") {
  const auto refused = [](const char* format, const char* model) {
    Problem problem = problem_of(model, 8, Precision::Bf16, Framework::Megatron, "dgx-h100");
    problem.built = true;
    const Result<Plan> plan = plan_layout(problem, {.dp = 8, .zero = 1});
    REQUIRE(plan);
    const Result<std::vector<LaunchFile>> files = write_launch(format, *plan, {});
    REQUIRE_FALSE(files);
    std::string all;
    for (const Error& error : files.error()) all += error.message + "\n";
    return all;
  };
  // Both a mixer and a feed-forward in each layer.
  CHECK(refused("megatron-lm", "granite4-h-small").find("no `--hybrid-layer-pattern` spells") != std::string::npos);
  CHECK(refused("flagscale", "nemotron-h-8b").find("does not build") != std::string::npos);
  // Whose keys cut no pattern into the chunks of a pipeline.
  for (const char* format : {"megatron-bridge", "verl", "nemo-rl", "ms-swift", "llama-factory"})
    CHECK(refused(format, "nemotron-h-8b").find("--hybrid-layer-pattern") != std::string::npos);
}

}  // namespace plan
