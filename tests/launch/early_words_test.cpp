// Vocabularies and heads of keys that early Megatron-LM and its forks have words of their own for.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <string>

#include "small_files.hpp"

namespace plan {

using namespace launching;

namespace {

const std::string kEarlyMegatron =
    "#!/bin/bash\ntorchrun --nnodes 1 --nproc-per-node 8 pretrain_gpt.py --num-layers 32 --hidden-size 4096 "
    "--num-attention-heads 32 --seq-length 2048 --max-position-embeddings 2048 --micro-batch-size 2 "
    "--eval-interval 100 --bf16 ";

}  // namespace

TEST_CASE("words of GPT-2's tokenizer are told where they come from a file that may hold others") {
  const std::string start = kEarlyMegatron + "--tokenizer-type GPT2BPETokenizer --merge-file m.txt --vocab-file ";
  for (const char* other : {"/data/nordic_131072/vocab.json", "$VOCAB", "tokenizer/vocab.json", "v.json"}) {
    CAPTURE(std::string(other));
    const LaunchJob job = job_of("a.sh", start + other + "\n");
    CHECK(job.model->vocab == 50257);
    CHECK(std::any_of(job.inputs.begin(), job.inputs.end(),
                      [&](const Input& input) { return input.key == "vocab" && input.origin == Origin::Default; }));
    const LaunchJob stated = job_of("a.sh", start + other + " --vocab-size 131072\n");
    CHECK(stated.model->vocab == 131072);
    CHECK(std::none_of(stated.inputs.begin(), stated.inputs.end(), [](const Input& i) { return i.key == "vocab"; }));
  }
  for (const char* own : {"/data/gpt2-vocab.json", "GPT2/vocab.json", "/x/gpt2/encoder.json"}) {
    const LaunchJob job = job_of("a.sh", start + own + "\n");
    CHECK(std::none_of(job.inputs.begin(), job.inputs.end(), [](const Input& i) { return i.key == "vocab"; }));
  }
}

TEST_CASE("heads of BigCode's attention are one for all where the file says so") {
  const std::string start = kEarlyMegatron + "--vocab-size 32000 --attention-head-type ";
  CHECK(job_of("a.sh", start + "multiquery\n").model->kinds.front().attention.kv_heads == 1);
  CHECK(job_of("a.sh", start + "multihead\n").model->kinds.front().attention.kv_heads > 1);
  CHECK(names(job_of("a.sh", start + "other\n").unused, "attention-head-type"));
  // Falcon-40B's, of a fork that states how many there are.
  for (const char* flag : {"--n-head-kv", "--num-attention-heads-kv", "--num-query-groups"})
    for (const int heads : {1, 2, 8})
      CHECK(job_of("a.sh", fmt::format("{}multiquery {} {}\n", start, flag, heads))
                .model->kinds.front()
                .attention.kv_heads == heads);
}

}  // namespace plan
