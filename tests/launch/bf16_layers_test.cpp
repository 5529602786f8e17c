// Layers that stay in bf16: every dialect that has a word for them is read and written with it, and what none can say
// is told. Oracles: the rule by which Megatron core and torchtitan choose the layers, written anew here.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "cli/launch/dialect/bridge_precision.hpp"
#include "cli/launch/torchtitan/filters.hpp"
#include "tests/launch/small_files.hpp"

using namespace plan;
using namespace plan::launching;

namespace {

const std::string kMegatron =
    "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 32 --hidden-size 4096 --num-attention-heads 32 "
    "--seq-length 4096 --micro-batch-size 1 --global-batch-size 64 --bf16 --vocab-size 32000 "
    "--max-position-embeddings 4096 --eval-interval 100 --eval-iters 1 --lr 1e-4 --train-iters 10 --fp8-format hybrid "
    "--fp8-recipe tensorwise ";

Bf16Layers megatron(const std::string& more) { return job_of("run.sh", kMegatron + more + "\n").training->bf16_layers; }

std::string toml(const std::string& filters) {
  return "[model]\nname = \"llama3\"\nflavor = \"8B\"\nconverters = [\"quantize.linear.float8\"]\n[training]\n"
         "local_batch_size = 2\nseq_len = 4096\n[parallelism]\ndata_parallel_shard_degree = 8\n"
         "[quantize.linear.float8]\nfilter_fqns = " +
         filters + "\n";
}

}  // namespace

TEST_CASE("Megatron-LM leaves one layer at each end where nobody counts them") {
  CHECK(megatron("") == Bf16Layers{});
  CHECK(megatron("--num-layers-at-start-in-bf16 2") == Bf16Layers{});
  CHECK(megatron("--first-last-layers-bf16") == Bf16Layers{1, 1});
  CHECK(megatron("--first-last-layers-bf16 --num-layers-at-start-in-bf16 2") == Bf16Layers{2, 1});
  CHECK(megatron("--first-last-layers-bf16 --num-layers-at-start-in-bf16 0 --num-layers-at-end-in-bf16 4") ==
        Bf16Layers{0, 4});
  for (const char* value : {"-1", "some", "1.5"})
    CHECK(error_of("run.sh", kMegatron + "--first-last-layers-bf16 --num-layers-at-end-in-bf16 " + value + "\n") ==
          "bad_value");
}

TEST_CASE("Megatron-Bridge's recipes say which layers stay in bf16, and its keys change that") {
  const auto bridge = [](const std::string& precision, const std::string& more = "") {
    return job_of("overrides.yaml",
                  "model:\n  tensor_model_parallel_size: 1\n  num_layers: 32\n  hidden_size: 4096\n"
                  "  num_attention_heads: 32\n  ffn_hidden_size: 14336\n  seq_length: 8192\n  vocab_size: 128256\n"
                  "train:\n  micro_batch_size: 1\n  global_batch_size: 64\nmixed_precision" +
                      precision + "\n" + more,
                  on(8))
        .training.value();
  };
  for (const BridgePrecision& row : bridge_precisions()) {
    CAPTURE(row.name);
    const Training read = bridge(fmt::format(": {}", row.name));
    CHECK(read.bf16_layers == row.bf16_layers);
    if (is_narrow(row.precision)) CHECK(read.precision == row.precision);
    CHECK(bridge_precision(row.precision, row.bf16_layers) != nullptr);
  }
  CHECK(bridge(": bf16_with_fp8_current_scaling_mixed").bf16_layers == Bf16Layers{1, 1});
  // What is fp16 beside the narrow format leaves the same layers out of it as what is bf16.
  for (const BridgePrecision& row : bridge_precisions()) {
    const std::string name(row.name);
    const BridgePrecision* twin = name.starts_with("fp16_with_") ? bridge_precision("bf16" + name.substr(4)) : nullptr;
    if (!name.starts_with("fp16_with_")) continue;
    CAPTURE(name);
    REQUIRE(twin != nullptr);
    CHECK(twin->precision == row.precision);
    CHECK(twin->bf16_layers == row.bf16_layers);
  }
  CHECK(bridge_precision(Precision::Mxfp8, Bf16Layers{1, 1}) == nullptr);
}

TEST_CASE("the performance scripts of Megatron-Bridge leave none in bf16, but for two models in NVFP4") {
  const auto script = [](const std::string& model, const std::string& format) {
    return job_of("run.sh",
                  "python scripts/performance/setup_experiment.py --account a --partition p --model_family_name x "
                  "--model_recipe_name " +
                      model +
                      " --gpu gb200 --num_gpus 64 -tp 2 -pp 1 -cp 1 -ep 1 -mb 1 -gb 512 -sl 8192 --compute_dtype " +
                      format + "\n")
        .training.value();
  };
  CHECK(script("llama3_70b", "fp8_cs").bf16_layers == Bf16Layers{});
  CHECK(script("llama3_70b", "fp8_cs").precision == Precision::Fp8Tensorwise);
  CHECK(script("llama3_70b", "nvfp4").bf16_layers == Bf16Layers{});
  CHECK(script("nemotron_3_super", "nvfp4").bf16_layers == Bf16Layers{0, 14});
  CHECK(script("nemotron_3_super", "fp8_mx").bf16_layers == Bf16Layers{});
  CHECK(script("gpt_oss_20b", "nvfp4").bf16_layers == Bf16Layers{0, 4});
}

TEST_CASE("torchtitan leaves a linear alone whose name contains a filter") {
  std::mt19937 random(3);
  constexpr int kDepth = 32;
  for (int round = 0; round < 300; ++round) {
    std::vector<std::string> names;
    for (int n = static_cast<int>(random() % 4); n >= 0; --n)
      names.push_back(fmt::format("layers.{}{}", random() % kDepth, random() % 2 ? "." : ""));
    // By its name a linear of each layer, as torchtitan looks at it.
    std::vector<bool> alone;
    for (int layer = 0; layer < kDepth; ++layer) {
      const std::string linear = fmt::format("layers.{}.attention.wq", layer);
      alone.push_back(std::any_of(names.begin(), names.end(),
                                  [&](const std::string& n) { return linear.find(n) != std::string::npos; }));
    }
    const torchtitan::FilteredLayers read = torchtitan::filtered_layers(names, kDepth);
    if (read.others.empty())
      for (int layer = 0; layer < kDepth; ++layer)
        CHECK(alone[static_cast<std::size_t>(layer)] ==
              (layer < read.layers.first || layer >= kDepth - read.layers.last));
    else
      CHECK(read.layers == Bf16Layers{});
  }
  for (const Bf16Layers ends : {Bf16Layers{1, 1}, {0, 5}, {3, 0}, {11, 12}}) {
    const torchtitan::FilteredLayers back =
        torchtitan::filtered_layers(torchtitan::layer_names(ends, kDepth, true), kDepth);
    CHECK(back.layers == ends);
    CHECK(back.others.empty());
  }
}

TEST_CASE("filters of torchtitan's files are read as layers, and told where they are none") {
  const auto read = [](const std::string& filters) { return job_of("run.toml", toml(filters)); };
  CHECK(read("[\"output\"]").training->bf16_layers == Bf16Layers{});
  CHECK(read("[\"output\", \"layers.0.\", \"layers.30\", \"layers.31\"]").training->bf16_layers == Bf16Layers{1, 2});
  for (const char* parts : {"[\"output\", \"attention\"]", "[\"layers.7.\"]", "[\"auto_filter_small_kn\"]"}) {
    const LaunchJob job = read(parts);
    CHECK(job.training->bf16_layers == Bf16Layers{});
    CHECK(names(job.unused, "stay in bf16"));
  }
}
