// What Megatron-LM's parser, validate_args() and TransformerConfig refuse of a script, one pair of flags at a
// time: the sound script is read, the broken one refused by its code, and the mended one read again. Which these
// are was asked of core 0.20 itself.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <string>
#include <vector>

#include "cli/launch/megatron/flags.hpp"
#include "small_files.hpp"

namespace plan {

using namespace launching;

namespace {

const std::string kDense =
    "--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 --group-query-attention "
    "--num-query-groups 8 --seq-length 4096 --max-position-embeddings 4096 --position-embedding-type rope --swiglu "
    "--normalization RMSNorm --disable-bias-linear --untie-embeddings-and-output-weights --micro-batch-size 1 "
    "--global-batch-size 128 --bf16 --eval-interval 1000 --eval-iters 10 --mock-data --tokenizer-type NullTokenizer "
    "--vocab-size 128256 ";
const std::string kRoutedWords =
    "--num-experts 8 --moe-router-topk 2 --moe-ffn-hidden-size 1024 --moe-grouped-gemm --moe-token-dispatcher-type "
    "alltoall ";

std::string script_with(const std::string& flags) {
  return fmt::format(
      "#!/bin/bash\nexport CUDA_DEVICE_MAX_CONNECTIONS=1\ntorchrun --nnodes 8 --nproc-per-node 8 pretrain_gpt.py {}\n",
      flags);
}

/// The codes of what is refused; none: it is read.
std::vector<std::string> refused(const std::string& flags) {
  const Files files;
  const Result<LaunchJob> job = files.read("run.sh", script_with(flags));
  std::vector<std::string> codes;
  if (!job)
    for (const Error& error : job.error()) codes.push_back(error.code);
  return codes;
}

struct Pair {
  const char* code;
  std::string broken;
  std::string mended;
};

const std::vector<Pair>& pairs() {
  static const std::vector<Pair> all = {
      {"two_lengths", "--train-samples 1000 --train-iters 10", "--train-samples 1000"},
      {"two_lengths", "--train-iters 10 --lr-decay-samples 5", "--train-iters 10 --lr-decay-iters 5"},
      {"two_activations", "--squared-relu", ""},
      {"two_activations", "--quick-geglu", ""},
      {"expert_bias_scores", kRoutedWords + "--moe-router-enable-expert-bias",
       kRoutedWords + "--moe-router-enable-expert-bias --moe-router-score-function sigmoid"},
      {"padded_capacity", kRoutedWords + "--moe-pad-expert-input-to-capacity",
       kRoutedWords + "--moe-pad-expert-input-to-capacity --moe-expert-capacity-factor 1.0"},
      {"router_groups", kRoutedWords + "--moe-router-group-topk 1",
       kRoutedWords + "--moe-router-group-topk 1 --moe-router-num-groups 4"},
      {"one_expert_softmax", kRoutedWords + "--moe-router-topk 1",
       kRoutedWords + "--moe-router-topk 1 --moe-router-pre-softmax"},
      {"one_expert_softmax", "--moe-router-topk 1", "--moe-router-topk 1 --moe-router-score-function sigmoid"},
      {"expert_width", "--moe-ffn-hidden-size 1024", kRoutedWords},
      {"delayed_weights", kRoutedWords + "--expert-model-parallel-size 8 --delay-wgrad-compute",
       kRoutedWords + "--expert-model-parallel-size 8 --delay-wgrad-compute --overlap-moe-expert-parallel-comm"},
      {"deferred_embedding", "--defer-embedding-wgrad-compute",
       "--defer-embedding-wgrad-compute --pipeline-model-parallel-size 4"},
      {"warmup_overlap", "--pipeline-model-parallel-size 4 --overlap-p2p-communication-warmup-flush",
       "--pipeline-model-parallel-size 4 --num-virtual-stages-per-pipeline-rank 2 "
       "--overlap-p2p-communication-warmup-flush"},
      {"gather_checkpoint",
       "--pipeline-model-parallel-size 4 --num-virtual-stages-per-pipeline-rank 2 --use-distributed-optimizer "
       "--overlap-grad-reduce --overlap-param-gather --overlap-param-gather-with-optimizer-step",
       "--pipeline-model-parallel-size 4 --num-virtual-stages-per-pipeline-rank 2 --use-distributed-optimizer "
       "--overlap-grad-reduce --overlap-param-gather --overlap-param-gather-with-optimizer-step --ckpt-format torch"},
      {"fsdp_format", "--ckpt-format fsdp_dtensor", "--ckpt-format torch_dist"},
      {"graphs_recompute",
       "--cuda-graph-impl local --recompute-granularity full --recompute-method uniform --recompute-num-layers 1",
       "--cuda-graph-impl none --recompute-granularity full --recompute-method uniform --recompute-num-layers 1"},
      {"graphs_nan", "--cuda-graph-impl full_iteration",
       "--cuda-graph-impl full_iteration --no-check-for-nan-in-loss-and-grad"},
      {"local_attention", "--attention-backend local", "--attention-backend local --spec local"},
      {"predicted_positions", "--mtp-num-layers 1 --position-embedding-type learned_absolute",
       "--mtp-num-layers 1 --position-embedding-type none"},
      {"predicted_positions", "--mtp-num-layers 1 --position-embedding-type yarn", "--position-embedding-type yarn"},
      {"hierarchy_missing", "--cp-comm-type a2a+p2p", "--cp-comm-type a2a"},
      {"recompute_method", "--recompute-activations --recompute-num-layers 2", "--recompute-activations"},
      {"recompute_layers", "--recompute-granularity full --recompute-method uniform --recompute-num-layers 0",
       "--recompute-granularity full --recompute-method block --recompute-num-layers 0"},
      {"recompute_layers", "--recompute-granularity full --recompute-method block",
       "--recompute-granularity full --recompute-method block --recompute-num-layers 1000"},
      {"recompute_module", "--recompute-granularity selective --recompute-modules foo", "--recompute-modules foo"},
      {"recompute_latent", "--recompute-granularity selective --recompute-modules mla_up_proj",
       "--recompute-modules mla_up_proj"},
      {"dispatcher", kRoutedWords + "--moe-enable-deepep", kRoutedWords + "--moe-flex-dispatcher-backend deepep"},
      {"virtual_needs_pipeline", "--num-virtual-stages-per-pipeline-rank 2",
       "--num-virtual-stages-per-pipeline-rank 1"},
  };
  return all;
}

}  // namespace

TEST_CASE("pairs of flags that Megatron-LM refuses are refused, and read when they are mended") {
  CHECK(refused(kDense).empty());
  CHECK(refused(kDense + kRoutedWords).empty());
  for (const Pair& pair : pairs()) {
    CAPTURE(pair.broken);
    CAPTURE(pair.mended);
    const std::vector<std::string> codes = refused(kDense + pair.broken);
    CHECK(std::count(codes.begin(), codes.end(), pair.code) == 1);
    CHECK(refused(kDense + pair.mended) == std::vector<std::string>{});
  }
  const Files files;
  const std::string expandable = "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n",
                    recorded = script_with(kDense + "--cuda-graph-impl transformer_engine --te-rng-tracker");
  CHECK(files.read("a.sh", recorded).has_value());
  const Result<LaunchJob> registered = files.read("b.sh", expandable + recorded);
  REQUIRE_FALSE(registered);
  CHECK(registered.error().front().code == "graphs_register");
  CHECK(files.read("c.sh", "export NCCL_GRAPH_REGISTER=0\n" + expandable + recorded).has_value());
  std::string squared = kDense;
  squared.replace(squared.find("--swiglu"), 8, "--squared-relu");
  CHECK(refused(squared).empty());
  squared.erase(squared.find("--disable-bias-linear "), 22);
  CHECK(refused(squared) == std::vector<std::string>{"fused_activation"});
  CHECK(refused(squared + "--no-bias-gelu-fusion").empty());
  std::string biased = kDense;
  biased.erase(biased.find("--disable-bias-linear "), 22);
  biased += kRoutedWords + "--tensor-model-parallel-size 2 --sequence-parallel ";
  CHECK(refused(biased) == std::vector<std::string>{"expert_biases"});
  CHECK(refused(biased + "--expert-tensor-parallel-size 1").empty());
}

TEST_CASE("a flag takes the words that its parser takes, where that parser reads it") {
  int judged = 0;
  for (const MegatronFlag& flag : megatron_flags()) {
    const std::string words(megatron_choices(flag.name));
    // Of old releases one is read under another name, one by nobody.
    if (words.empty() || flag.name == "batch-size" || flag.name == "model-parallel-size" || flag.name == "local-rank")
      continue;
    CAPTURE(std::string(flag.name));
    const auto unknown = [&](const std::string& word, const std::string& more = "") {
      const std::vector<std::string> codes = refused(kDense + fmt::format("--{} {} {}", flag.name, word, more));
      return std::count(codes.begin(), codes.end(), "unknown_word") == 1;
    };
    // Of some the model or the job is wrong already, which is said first.
    const auto wrong = [&](const std::string& word) {
      return !refused(kDense + fmt::format("--{} {}", flag.name, word)).empty();
    };
    CHECK(wrong("foo"));
    if (words == " <int> " || words == " <float> ") {
      const bool whole = words == " <int> ";
      for (const char* word : {"0", "-3", "+4", "1_000", "128"}) CHECK_FALSE(unknown(word));
      for (const char* word : {"0.5", "1e-4", ".5", "2.", "inf"})
        if (whole)
          CHECK(wrong(word));
        else
          CHECK_FALSE(unknown(word));
      for (const char* word : {"1,0", "0x10", "4k", "1e"}) CHECK(wrong(word));
      ++judged;
      continue;
    }
    CHECK_FALSE(unknown("foo", "--a-flag-of-ones-own 1"));
    CHECK_FALSE(unknown("\"$UNSTATED_WORD\""));
    for (std::size_t at = 1; at < words.size();) {
      const std::size_t end = words.find(' ', at);
      CHECK_FALSE(unknown(words.substr(at, end - at)));
      at = end + 1;
      ++judged;
    }
  }
  CHECK(judged > 200);
}

TEST_CASE("one wrong number is one mistake") {
  for (const std::string flag : {"--num-layers 32", "--hidden-size 4096", "--num-attention-heads 32",
                                 "--seq-length 4096", "--micro-batch-size 1", "--global-batch-size 128",
                                 "--vocab-size 128256", "--ffn-hidden-size 14336", "--max-position-embeddings 4096"})
    for (const char* word : {"two", "1.5", "8x", "1e3"}) {
      const std::string wrong = flag.substr(0, flag.find(' ') + 1) + word;
      CAPTURE(wrong);
      const std::vector<std::string> codes = refused(replaced(kDense, flag, wrong));
      CHECK(codes.size() == 1);
    }
  for (const char* degree : {"tensor-model-parallel-size", "pipeline-model-parallel-size", "context-parallel-size"})
    CHECK(refused(kDense + fmt::format("--{} two", degree)).size() == 1);
}

TEST_CASE("numbers are those of Python, and early releases look for no variable") {
  const Files files;
  const std::string apart =
      replaced(replaced(script_with(kDense), "128256", "128_256"), "--seq-length 4096", "--seq-length=4_096");
  const Result<LaunchJob> read = files.read("run.sh", apart);
  REQUIRE(read);
  CHECK(read->training->seq == 4096);
  REQUIRE(read->model);
  CHECK(read->model->vocab == 128256);
  for (const char* wrong : {"4__096", "_4096", "4096_", "4_o96"})
    CHECK_FALSE(
        files.read("run.sh", replaced(script_with(kDense), "--seq-length 4096", std::string("--seq-length ") + wrong)));
  const std::string bare =
      replaced(script_with(kDense + "--tensor-model-parallel-size 2 "), "export CUDA_DEVICE_MAX_CONNECTIONS=1\n", "");
  const auto reads = [&](const std::string& text) {
    return files.read("run.sh", "#SBATCH --gres=gpu:a100:8\n" + text).has_value();
  };
  CHECK_FALSE(reads(bare));
  CHECK(reads(replaced(bare, "--bf16", "--bf16 --checkpoint-activations --distributed-backend nccl")));
}

TEST_CASE("userbuffers are refused the formats that they have no buffer for") {
  const std::string split = kDense + "--tensor-model-parallel-size 2 --sequence-parallel --tp-comm-overlap ";
  const auto carried = [&](const std::string& format) {
    const std::vector<std::string> codes = refused(split + format);
    CAPTURE(format);
    for (const std::string& code : codes) CHECK(code == "tp_overlap");
    return codes.empty();
  };
  CHECK(carried(""));
  CHECK(carried("--fp8-format hybrid --fp8-recipe tensorwise"));
  CHECK(carried("--fp8-format e4m3 --fp8-recipe mxfp8"));
  CHECK_FALSE(carried("--fp8-format e4m3 --fp8-recipe blockwise"));
  CHECK_FALSE(carried("--fp4-format e2m1"));
}

}  // namespace plan
