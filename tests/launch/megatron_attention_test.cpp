// Gated DeltaNet, gates and sparse attention in Megatron-LM's flags: layers and weights counted by hand from what its
// code builds, presets spelled out as flags, and what a checkpoint that a job names says of layers and vocabulary.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <random>
#include <string>

#include "cli/launch/launch.hpp"
#include "formulas/parameters.hpp"
#include "presets/store.hpp"
#include "small_files.hpp"

namespace plan {

using namespace launching;

namespace {

std::string attention_script(const std::string& model, const std::string& more = "") {
  return fmt::format(
      "export CUDA_DEVICE_MAX_CONNECTIONS=1\ntorchrun --nnodes 1 --nproc-per-node 8 pretrain_gpt.py {} "
      "--disable-bias-linear --normalization RMSNorm --position-embedding-type rope --swiglu "
      "--untie-embeddings-and-output-weights --attention-dropout 0 --hidden-dropout 0 --seq-length 4096 "
      "--max-position-embeddings 4096 --micro-batch-size 1 --global-batch-size 256 --bf16 --train-iters 10 "
      "--eval-interval 10 {}\n",
      model, more);
}

const Layer& layer_at(const Model& model, std::size_t at) {
  return model.kinds[static_cast<std::size_t>(model.layers[at])];
}

template <class T>
T one_of(std::mt19937& random, std::initializer_list<T> values) {
  return values.begin()[random() % values.size()];
}

}  // namespace

TEST_CASE("a window is the tokens behind a query and the query, however its pair is written") {
  const std::string model =
      "--num-layers 4 --hidden-size 512 --num-attention-heads 8 --vocab-size 32000 --tokenizer-type "
      "NullTokenizer";
  for (const char* pair : {"127,0", "'(127,0)'", "'(127, 0)'", "\"[127, 0]\""}) {
    CAPTURE(std::string(pair));
    const LaunchJob job = job_of("run.sh", attention_script(model, fmt::format("--window-size {}", pair)));
    REQUIRE(job.model);
    for (std::size_t at = 0; at < 4; ++at) CHECK(layer_at(*job.model, at).attention.window == 128);
  }
}

TEST_CASE("layers that scan stand where the period leaves them, with the weights that Megatron-LM builds") {
  std::mt19937 random(11);
  for (int draw = 0; draw < 200; ++draw) {
    const int depth = one_of(random, {4, 12, 24}), period = one_of(random, {1, 2, 3, 4, 5});
    const bool gate = random() % 2 == 0, defaults = random() % 4 == 0;
    const std::int64_t h = one_of<std::int64_t>(random, {1024, 2048}), heads = 16,
                       groups = one_of<std::int64_t>(random, {2, 16}), width = one_of<std::int64_t>(random, {64, 128}),
                       f = 4096, vocab = 32000;
    const std::int64_t keys = defaults ? 16 : one_of<std::int64_t>(random, {4, 8}),
                       values = defaults ? 32 : keys * one_of<std::int64_t>(random, {1, 2, 3}),
                       dk = defaults ? 128 : 64, dv = defaults ? 128 : one_of<std::int64_t>(random, {64, 96}),
                       conv = defaults ? 4 : 3;
    std::string list;
    for (int i = 0; i < depth; ++i) list += fmt::format("{}{}", i > 0 ? "," : "[", (i + 1) % period == 0 ? 0 : 1);
    const std::string where = random() % 2 == 0 ? std::to_string(period) : "'" + list + "]'";
    const std::string text = attention_script(fmt::format(
        "--num-layers {} --hidden-size {} --ffn-hidden-size {} --num-attention-heads {} --group-query-attention "
        "--num-query-groups {} --kv-channels {} --vocab-size {} {} --experimental-attention-variant {} "
        "--linear-attention-freq {} {}",
        depth, h, f, heads, groups, width, vocab, gate ? "--attention-output-gate" : "",
        random() % 2 == 0 ? "gated_delta_net" : "gdn", where,
        defaults ? ""
                 : fmt::format("--linear-num-key-heads {} --linear-num-value-heads {} --linear-key-head-dim {} "
                               "--linear-value-head-dim {} --linear-conv-kernel-dim {}",
                               keys, values, dk, dv, conv)));
    CAPTURE(text);
    const LaunchJob job = job_of("d.sh", text);
    REQUIRE(job.model);
    CHECK(job.unused.empty());
    std::int64_t sum = 2 * vocab * h + h;
    for (int i = 1; i <= depth; ++i) {
      const bool scans = i % period != 0;
      CHECK((layer_at(*job.model, static_cast<std::size_t>(i - 1)).mixer == Mixer::DeltaNet) == scans);
      sum += 2 * h + 3 * h * f;  // two norms, gate, up and down
      if (scans)                 // in_proj: q, k, v, z, beta, alpha; conv1d; A_log and dt_bias; out_norm; out_proj
        sum += h * (2 * keys * dk + 2 * values * dv + 2 * values) + (2 * keys * dk + values * dv) * conv + 2 * values +
               dv + values * dv * h;
      else
        sum += h * width * (heads * (gate ? 2 : 1) + 2 * groups) + heads * width * h;
    }
    CHECK(model_parameters(*job.model).total == sum);
  }
}

TEST_CASE("published models are known by their flags") {
  const LaunchJob next = job_of(
      "n.sh",
      attention_script(
          "--num-layers 48 --hidden-size 2048 --ffn-hidden-size 5120 --num-attention-heads 16 --group-query-attention "
          "--num-query-groups 2 --kv-channels 256 --qk-layernorm --attention-output-gate --vocab-size 151936 "
          "--experimental-attention-variant gated_delta_net --linear-attention-freq 4 --num-experts 512 "
          "--moe-router-topk 10 --moe-ffn-hidden-size 512 --moe-shared-expert-intermediate-size 512 "
          "--moe-shared-expert-gate --mtp-num-layers 1"));
  REQUIRE(next.model);
  CHECK(next.model->name == "qwen3-next-80b-a3b");
  const Model preset = load_model("qwen3-next-80b-a3b", {.files = false})->value;
  CHECK(model_parameters(*next.model).total == model_parameters(preset).total);
  const std::string latent =
      "--num-layers 61 --hidden-size 7168 --ffn-hidden-size 18432 --num-attention-heads 128 --multi-latent-attention "
      "--q-lora-rank 1536 --kv-lora-rank 512 --qk-head-dim 128 --qk-pos-emb-head-dim 64 --v-head-dim 128 "
      "--qk-layernorm --vocab-size 129280 --num-experts 256 --moe-router-topk 8 --moe-ffn-hidden-size 2048 "
      "--moe-shared-expert-intermediate-size 2048 --moe-layer-freq '([0]*3+[1]*58)' --moe-router-enable-expert-bias "
      "--moe-router-score-function sigmoid --mtp-num-layers 1 ";
  const std::string indexer =
      "--experimental-attention-variant dsa --dsa-indexer-n-heads 64 --dsa-indexer-head-dim 128 --dsa-indexer-topk "
      "2048 ";
  const LaunchJob sparse = job_of("s.sh", attention_script(latent + indexer));
  REQUIRE(sparse.model);
  CHECK(sparse.model->name == "deepseek-v3.2");
  const Model v32 = load_model("deepseek-v3.2", {.files = false})->value;
  CHECK(model_parameters(*sparse.model).total == model_parameters(v32).total);
  // The scores that no fused kernel spares are said to be missing.
  CHECK(std::any_of(sparse.unused.begin(), sparse.unused.end(),
                    [](const Note& note) { return note.text.find("dsa-kernel-backend") != std::string::npos; }));
  CHECK(job_of("s.sh", attention_script(latent + indexer + "--dsa-kernel-backend tilelang")).unused.empty());
  CHECK(job_of("v.sh", attention_script(latent)).model->name == "deepseek-v3");
}

TEST_CASE("layers that share chosen keys have no indexer, and those at the period do") {
  std::mt19937 random(20261126);
  for (int i = 0; i < 50; ++i) {
    const int depth = 4 + static_cast<int>(random() % 20), period = 2 + static_cast<int>(random() % 4);
    const int offset = 1 + static_cast<int>(random() % 4);
    const LaunchJob job =
        job_of("d.sh", attention_script(fmt::format(
                           "--num-layers {} --hidden-size 1024 --ffn-hidden-size 4096 --num-attention-heads 16 "
                           "--vocab-size 32000 --multi-latent-attention --experimental-attention-variant dsa "
                           "--dsa-indexer-n-heads 8 --dsa-indexer-head-dim 64 --dsa-indexer-topk 256 "
                           "--dsa-indexer-topk-freq {} --dsa-indexer-skip-topk-offset {} --mtp-num-layers 1",
                           depth, period, offset)));
    REQUIRE(job.model);
    int since = 0;  // layers since one chose: the first `offset` do, and every period-th behind them
    for (int layer = 1; layer <= depth; ++layer) {
      const bool chooses = layer <= offset || ++since == period;
      if (chooses) since = 0;
      const Layer& kind =
          job.model->kinds[static_cast<std::size_t>(job.model->layers[static_cast<std::size_t>(layer - 1)])];
      CHECK(kind.latent.index_heads == (chooses ? 8 : 0));
      CHECK(kind.latent.index_top_k == 256);
    }
    CHECK(job.model->kinds[static_cast<std::size_t>(job.model->mtp.kinds.front())].latent.index_heads == 8);
  }
}

TEST_CASE("what Megatron-LM could not build is refused by what is missing") {
  const std::string base =
      "--num-layers 8 --hidden-size 1024 --ffn-hidden-size 4096 --num-attention-heads 16 --vocab-size 32000 ";
  for (const auto& [more, word] : {std::pair{"--experimental-attention-variant gdn", "needs `--linear-attention-freq`"},
                                   {"--experimental-attention-variant gdn --linear-attention-freq [1,0]", "8 layers"},
                                   {"--experimental-attention-variant gdn --linear-attention-freq 0", "8 layers"},
                                   {"--experimental-attention-variant gdn --linear-attention-freq 4 "
                                    "--linear-num-key-heads 6 --linear-num-value-heads 8",
                                    "6 key heads and 8 value heads"},
                                   {"--experimental-attention-variant dsa", "`--multi-latent-attention` is missing"},
                                   {"--experimental-attention-variant dsa --multi-latent-attention "
                                    "--dsa-indexer-n-heads 64 --dsa-indexer-head-dim 128",
                                    "positive `--dsa-indexer-topk`"},
                                   {"--experimental-attention-variant dsa --multi-latent-attention "
                                    "--dsa-indexer-n-heads 64 --dsa-indexer-head-dim 128 --dsa-indexer-topk 64 "
                                    "--dsa-indexer-topk-freq 0",
                                    "is no period"},
                                   {"--experimental-attention-variant dsa --multi-latent-attention "
                                    "--dsa-indexer-n-heads 64 --dsa-indexer-head-dim 128 --dsa-indexer-topk 64 "
                                    "--dsa-indexer-topk-freq 4",
                                    "`--dsa-indexer-skip-topk-offset` of 1 or more"}}) {
    const std::string flags = more;
    CAPTURE(flags);
    const Files files;
    const Result<LaunchJob> job = files.read("w.sh", attention_script(base + flags));
    REQUIRE_FALSE(job);
    CHECK(job.error().front().message.find(word) != std::string::npos);
  }
}

TEST_CASE("a specification of one's own has the layers of the checkpoint that the job names, if all flags agree") {
  const std::string flags =
      "--actor-num-nodes 1 --actor-num-gpus-per-node 8 --num-layers 64 --hidden-size 5120 --ffn-hidden-size 17408 "
      "--num-attention-heads 24 --group-query-attention --num-query-groups 4 --kv-channels 256 --qk-layernorm "
      "--use-gated-attention --attention-output-gate --vocab-size 248320 --spec my.plugin get_spec ";
  const Model preset = load_model("qwen3.5-27b", {.files = false})->value;
  for (const char* path : {"Qwen/Qwen3.5-27B", "/data/Qwen3.5-27B", "$BASE/Qwen3.5-27B/"}) {
    const LaunchJob job = job_of("p.sh", attention_script(flags + "--hf-checkpoint " + path));
    REQUIRE(job.model);
    CHECK(job.model->layers == preset.layers);
    CHECK(job.model->kinds == preset.kinds);
    CHECK(job.unused.empty());
  }
  const auto told = [](const LaunchJob& job) {
    return std::any_of(job.unused.begin(), job.unused.end(),
                       [](const Note& note) { return note.text.find("`--spec my.plugin`") != std::string::npos; });
  };
  for (const std::string& other : {flags + "--hf-checkpoint Qwen/Qwen3-32B", flags + "--hf-checkpoint /data/mine",
                                   flags, flags + "--hf-checkpoint Qwen/Qwen3.5-27B --num-experts 8"}) {
    const LaunchJob job = job_of("p.sh", attention_script(other));
    REQUIRE(job.model);
    CHECK(told(job));
    CHECK(job.model->kinds.front().mixer == Mixer::Attention);
  }
}

TEST_CASE("Pai's patch takes the tokenizer that lies beside the weights") {
  const std::string flags =
      "--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 --group-query-attention "
      "--num-query-groups 8 ";
  const std::string load = "--load /mnt/ckpts/Meta-Llama-3.1-8B/mcore-tp4-pp2 ";
  CHECK(job_of("p.sh", attention_script(flags + load + "--patch-tokenizer-type LLama3Tokenizer")).model->name ==
        "llama3-8b");
  const std::string thirteen =
      "--num-layers 40 --hidden-size 5120 --ffn-hidden-size 13824 --num-attention-heads 40 --patch-tokenizer-type T ";
  for (const char* name : {"Llama-2-13b-hf", "llama1-13b"})  // of one shape and vocabulary
    CHECK(job_of("p.sh", attention_script(thirteen + "--load ckpts/" + name)).model->name ==
          (name[0] == 'L' ? "llama2-13b" : "llama1-13b"));
  // Megatron-LM's own checkpoints say nothing of a tokenizer.
  CHECK(error_of("p.sh", attention_script(flags + load)) == "vocabulary_not_stated");
}

}  // namespace plan
