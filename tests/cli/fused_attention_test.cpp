// Where software has no fused attention for a GPU, a layer keeps the softmax of all pairs of tokens: two bytes a head
// and pair, far more than all else that it keeps of a long sequence.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "check_files.hpp"
#include "presets/store.hpp"

using namespace plan;
using namespace plan::checks;

namespace {

constexpr double kHeads = 32, kLayers = 32, kSeq = 8192, kPairs = 2 * kHeads * kLayers * kSeq * kSeq;  // of 8b

/// Do the activations of llama3-8b hold them?
bool keeps_pairs(const std::vector<std::string>& words, int ranks) {
  const Json report = run_json(words);
  REQUIRE(report.contains("best"));
  const double kept = report["best"]["memory"]["stages"][0]["activations_bytes"];
  return kept > kPairs / ranks;
}

bool has_note(const Json& report, const std::string& code) {
  for (const Json& note : report["notes"])
    if (note["code"] == code) return true;
  return false;
}

}  // namespace

TEST_CASE(
    "TransformerEngine has no fused attention for Volta and Turing, and one for all that is newer; PyTorch has one for "
    "all") {
  struct Case {
    std::string framework, layout;
    int ranks;
  };
  const Case cases[] = {{"megatron", "tp8", 8}, {"accelerate", "tp4,zero3,sp=off", 4}, {"any", "tp8", 8}};
  int unfused = 0, fused = 0;
  for (const PresetEntry& gpu : list_presets(PresetKind::Gpu, {}))
    for (const Case& of : cases) {
      const std::vector<std::string> words = {"estimate", "--model", "8b",          "--gpus",     "8",
                                              "--gpu",    gpu.name,  "--framework", of.framework, "--layout",
                                              of.layout,  "--seq",   "8192"};
      if (run(words).status == 2) continue;  // does not run there
      CAPTURE(gpu.name);
      CAPTURE(of.framework);
      const bool older = gpu.name.starts_with("v100") || gpu.name == "t4";
      const bool lacks = older && of.framework != "accelerate";
      CHECK(keeps_pairs(words, of.ranks) == lacks);
      CHECK(has_note(run_json(words), "attention_not_fused") == lacks);
      (lacks ? unfused : fused) += 1;
    }
  CHECK(unfused == 6);
  CHECK(fused > 50);
}

TEST_CASE("what a launch file asks of attention changes nothing where there is no such kernel") {
  const Folder folder;
  folder.write("train.sh",
               "torchrun --nnodes 1 --nproc-per-node 8 pretrain_gpt.py --num-layers 32 --hidden-size 4096 "
               "--ffn-hidden-size 14336 --num-attention-heads 32 --group-query-attention --num-query-groups 8 "
               "--swiglu --normalization RMSNorm --disable-bias-linear --untie-embeddings-and-output-weights "
               "--position-embedding-type rope --seq-length 8192 --max-position-embeddings 8192 --vocab-size 128256 "
               "--tokenizer-type NullTokenizer --micro-batch-size 1 --global-batch-size 8 --train-iters 9 "
               "--eval-interval 9 --fp16 "
               "--tensor-model-parallel-size 8 --sequence-parallel --attention-backend flash --lr 1e-4 "
               "--attention-dropout 0 --hidden-dropout 0 --mock-data\n");
  CHECK(keeps_pairs({"estimate", "--from", "train.sh", "--gpu", "v100"}, 8));
  CHECK_FALSE(keeps_pairs({"estimate", "--from", "train.sh", "--gpu", "a100"}, 8));
}

TEST_CASE("context parallelism needs a fused kernel") {
  const auto ran = [](const char* gpu, const char* framework) {
    return run({"--model", "gpt2", "--gpus", "8", "--gpu", gpu, "--framework", framework, "--layout", "cp2"});
  };
  CHECK(ran("v100", "megatron").status == 2);
  CHECK(ran("v100", "megatron").err.find("attention that is not fused takes no context parallelism") !=
        std::string::npos);
  CHECK(ran("a100", "megatron").status == 0);
}
