// Flags by other tools' names: refused, with the words that work, which are then taken.
#include "cli/request/words/flag_words.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "cli/request/flags/options.hpp"
#include "cli/request/words/layout_flag.hpp"
#include "cli/request/words/pool_words.hpp"
#include "oracle/random_layout.hpp"
#include "oracle/random_problem.hpp"
#include "planner/answer/layout_text.hpp"
#include "planner/problem/axes.hpp"

using namespace plan;

namespace {

struct Known {
  std::string flag, value, meant;
};

const std::vector<Known> kWords = {
    {"--tp-size", "8", "--layout tp8"},
    {"--tensor-parallel-size", "8", "--layout tp8"},
    {"--tensor-model-parallel-size", "8", "--layout tp8"},
    {"--tensor-parallelism", "8", "--layout tp8"},
    {"--tensor-parallel-degree", "8", "--layout tp8"},
    {"--pp", "4", "--layout pp4"},
    {"--pipeline-model-parallel-size", "4", "--layout pp4"},
    {"--pipeline-parallel-degree", "4", "--layout pp4"},
    {"--vp", "2", "--layout vp2"},
    {"--cp", "2", "--layout cp2"},
    {"--context-parallel-size", "2", "--layout cp2"},
    {"--ep", "8", "--layout ep8"},
    {"--expert-model-parallel-size", "8", "--layout ep8"},
    {"--expert-tensor-parallel-size", "2", "--layout etp2"},
    {"--dp", "8", "--layout dp8"},
    {"--data-parallel-size", "8", "--layout dp8"},
    {"--zero", "3", "--layout zero3"},
    {"--zero-stage", "1", "--layout zero1"},
    {"--fsdp", "", "--layout fsdp"},
    {"--micro-batch", "2", "--layout micro-batch2"},
    {"--micro-batch-size", "2", "--layout micro-batch2"},
    {"--mbs", "2", "--layout mbs2"},
    {"--sequence-parallel", "", "--layout sp"},
    {"--recompute", "full", "--layout recompute=full"},
    {"--gradient-checkpointing", "", "--layout recompute=full"},
    {"--use-distributed-optimizer", "", "--layout zero1"},
    {"--gbs", "512", "--global-batch 512"},
    {"--global-batch-size", "512", "--global-batch 512"},
    {"--batch-size", "512", "--global-batch 512"},
    {"--seq-length", "8192", "--seq 8192"},
    {"--max-seq-len", "8k", "--seq 8k"},
    {"--context-length", "32k", "--seq 32k"},
    {"--nodes", "8", "--gpus 64"},
    {"--nnodes", "8", "--gpus 64"},
    {"--num-gpus", "64", "--gpus 64"},
    {"--world-size", "64", "--gpus 64"},
    {"--gpu-type", "h200-sxm", "--gpu h200-sxm"},
    {"--dtype", "bf16", "--precision bf16"},
    {"--fp8", "", "--precision fp8"},
    {"--optim", "adamw", "--optimizer adamw"},
    {"--lora", "", "--task lora"},
    {"--lora-r", "32", "--lora-rank 32"},
    {"--model-name", "70b", "--model 70b"},
    {"--cpu-offload", "", "--offload optimizer"},
    {"--num-tokens", "15T", "--tokens 15T"},
    {"--schedule", "1f1b", "--layout schedule=1f1b"},
    {"--cp-kind", "all-gather", "--layout cp-kind=all-gather"},
    {"--peft", "qlora", "--task qlora"},
    {"--sft", "", "--task finetune"},
    {"--rank", "64", "--lora-rank 64"},
    {"--offload-optimizer", "", "--offload optimizer"},
    {"--html", "", "--format html"},
    {"--zero3", "", "--layout zero3"},
    {"--no-recompute", "", "--layout recompute=none"},
    {"--no-sequence-parallel", "", "--layout sp=off"},
    {"--pipeline-schedule", "zb-h1", "--layout schedule=zb-h1"},
    {"--max-position-embeddings", "8192", "--seq 8192"},
    {"--overlap-grad-reduce", "", "--overlap grads"},
    {"--overlap-param-gather", "", "--overlap grads+params"},
    {"--deepep", "", "--dispatcher flex"},
    {"--moe-token-dispatcher-type", "flex", "--dispatcher flex"},
    {"--mxfp8", "", "--precision mxfp8"},
    {"--muon", "", "--optimizer muon"},
    {"--torchtitan", "", "--framework torchtitan"},
    {"--max-target-length", "8192", "--seq 8192"},
    {"--ntasks", "64", "--gpus 64"},
    {"--max-tokens", "2T", "--tokens 2T"},
    {"--deepspeed", "ds.json", "--from ds.json"},
    {"--config-file", "train.yaml", "--from train.yaml"},
    {"--offload-params", "", "--offload parameters"},
    {"--use-megatron-fsdp", "", "--layout zero3"},
    {"--remat", "full", "--layout recompute=full"},
    {"--strategy", "ddp", "--layout zero0"},
    {"--strategy", "deepspeed_stage_2", "--layout zero2"},
    {"--sharding-strategy", "FULL_SHARD", "--layout zero3"},
    {"--fsdp-sharding-strategy", "HYBRID_SHARD", "--layout zero3,shard8"},
};

/// Flags whose meaning takes a sentence, by kind.
const char* const kSaidAlike[][3] = {{"--lr", "--seed", "--lora-alpha"},
                                     {"--epochs", "--max-steps", "--train-iters"},
                                     {"--params", "--num-layers", "--vocab-size"},
                                     {"--bandwidth", "--nics", "--instance"},
                                     {"--vram", "--gpu-memory", "--memory-limit"},
                                     {"--mfu", "--efficiency", "--utilization"},
                                     {"--inference", "--serve", "--decode"},
                                     {"--partition", "--master-addr", "--rdzv-backend"},
                                     {"--dataset", "--train-file", "--num-workers"},
                                     {"--output-dir", "--save-interval", "--report-to"},
                                     {"--bits", "--quantization", "--load-in-8bit"},
                                     {"--mesh", "--mesh-shape", "--device-mesh"},
                                     {"--compile", "--use-liger-kernel", "--triton"},
                                     {"--packing", "--sample-packing", "--group-by-length"},
                                     {"--spot", "--region", "--cloud"},
                                     {"--gres", "--gpus-per-task", "--gpu-ids"},
                                     {"--swiglu", "--transformer-impl", "--rotary-base"}};

/// Items of --layout with something else than commas between them, and words that no single flag says.
const std::vector<std::pair<std::string, std::string>> kSpacing = {
    {"tp8-pp4-dp2", "write `--layout tp8,pp4,dp2`"},
    {"tp8xpp4xdp2", "write `--layout tp8,pp4,dp2`"},
    {"TP8+PP4", "write `--layout tp8,pp4`"},
    {"tp8pp4", "write `--layout tp8,pp4`"},
    {"tp=8;pp=4", "write `--layout tp=8,pp=4`"},
    {"tp8|pp4|recompute=full", "write `--layout tp8,pp4,recompute=full`"},
    {"tp8,pp4,ga16", "`--global-batch` over dp"},
    {"tp8,num_microbatches=16", "`--global-batch` over dp"},
    {"tp8,offload=optimizer", "`--offload optimizer`"}};

/// Everything that the errors of a command line say helps.
std::vector<std::string> helps(const std::vector<std::string>& words, std::size_t errors) {
  const Result<Args> args = parse_arguments(words);
  REQUIRE_FALSE(args.has_value());
  CHECK(args.error().size() == errors);
  std::vector<std::string> all;
  for (const Error& error : args.error()) all.insert(all.end(), error.help.begin(), error.help.end());
  return all;
}

bool says(const std::vector<std::string>& all, const std::string& text) {
  return std::find(all.begin(), all.end(), text) != all.end();
}

std::vector<std::string> split_words(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

}  // namespace

TEST_CASE("another tool's flag is refused once, with words that are taken") {
  for (const Known& known : kWords) {
    CAPTURE(known.flag);
    std::string low = known.flag;
    std::replace(low.begin() + 2, low.end(), '-', '_');
    for (const std::string& flag : {known.flag, low}) {
      std::vector<std::string> apart{"estimate", flag}, joined{flag + (known.value.empty() ? "" : "=" + known.value)};
      if (!known.value.empty()) apart.push_back(known.value);
      CHECK(says(helps(apart, 1), "write `" + known.meant + "`"));
      CHECK(says(helps(joined, 1), "write `" + known.meant + "`"));
    }
    const Result<Args> taken = parse_arguments(split_words("estimate " + known.meant));
    CHECK(taken.has_value());
    if (taken && taken->layout) CHECK(read_layout(*taken->layout).has_value());
  }
}

TEST_CASE("a value keeps its unit and its meaning in what is to be written") {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"estimate", "--global-batch-size", "4M", "tokens"}, "write `--global-batch '4M tokens'`"},
      {{"estimate", "--batch", "4M"}, "write `--global-batch '4M tokens'`"},
      {{"estimate", "--gbs=1024"}, "write `--global-batch 1024`"},
      {{"estimate", "--lora", "16"}, "write `--task lora --lora-rank 16`"},
      {{"estimate", "--lora", "r=8"}, "write `--task lora --lora-rank 8`"},
      {{"estimate", "--lora", "true"}, "write `--task lora`"},
      {{"estimate", "--gradient-checkpointing", "false"}, "write `--layout recompute=none`"},
      {{"estimate", "--batch", "2k"}, "write `--global-batch 2k`"},
      {{"estimate", "--gbs", "1g"}, "write `--global-batch '1g tokens'`"},
      {{"estimate", "--lora", "none"}, "leave `--lora` out: it is off unless it is asked for"},
      {{"estimate", "--offload-optimizer", "false"},
       "leave `--offload-optimizer` out: it is off unless it is asked for"},
      {{"tp8pp4"}, "write `--layout tp8,pp4`"},
      {{"--gpus", "64", "tp8pp4"}, "write `--layout tp8,pp4`"}};
  for (const auto& one : cases) {
    CAPTURE(one.second);
    CHECK(says(helps(one.first, 1), one.second));
  }
}

TEST_CASE("a switch that is turned off is said by the word that turns it off, where it is on by itself") {
  const char* const precision = "without `--precision` it is bf16, or fp16 on GPUs that have none";
  const std::pair<const char*, std::string> cases[] = {
      {"--bf16", "write what is used in its place: `--precision fp16`"},
      {"--fp16", fmt::format("leave `--fp16` out: {}", precision)},
      {"--fp8", fmt::format("leave `--fp8` out: {}", precision)},
      {"--mxfp8", fmt::format("leave `--mxfp8` out: {}", precision)},
      {"--overlap-grad-reduce", "write `--overlap none`"},
      {"--overlap-param-gather", "write `--overlap grads+p2p`"},
      {"--use-distributed-optimizer", "write `--layout zero0`"},
      {"--use-megatron-fsdp", "what replicas share is said by `--layout zero0`, `zero1` or `zero2`"},
      {"--moe-enable-deepep", "write `--dispatcher alltoall`"},
      {"--gradient-checkpointing", "write `--layout recompute=none`"},
      {"--no-recompute", "leave `--no-recompute` out"},
      {"--tp-comm-overlap", "leave `--tp-comm-overlap` out: it is off unless it is asked for"}};
  for (const auto& one : cases)
    for (const char* const off : {"false", "0", "off", "no", "none"}) {
      CAPTURE(std::string(one.first));
      CAPTURE(std::string(off));
      CHECK(says(helps({"estimate", one.first, off}, 1), one.second));
    }
  for (const char* const words : {"--overlap none", "--overlap grads+p2p", "--layout zero0", "--dispatcher alltoall",
                                  "--precision fp16", "--global-batch 2k"})
    CHECK(parse_arguments(split_words(fmt::format("estimate {}", words))));
}

TEST_CASE("axes that are given as flags are one word of --layout") {
  const std::vector<std::string> all =
      helps({"estimate", "--model", "70b", "--gpus", "64", "--tp", "8", "--pp", "4", "--zero-stage", "1"}, 3);
  CHECK(std::count(all.begin(), all.end(), "write `--layout pp4,zero1,tp8`") == 3);
}

TEST_CASE("any axis as a flag is said as the item of --layout that states it") {
  std::mt19937 random(11);
  for (int round = 0; round < oracle::rounds(200); ++round) {
    Layout layout = oracle::any_values(random);
    layout.stages.clear(), layout.chunk_layers.clear();  // a number alone never means these
    const std::string text = layout_flag(layout);
    std::vector<std::string> words{"estimate", "--gpus", "8"};
    std::size_t flags = 0;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find(',', at), text.size());
      const std::string item = text.substr(at, end - at);
      const std::size_t value = std::min(item.find_first_of("=0123456789"), item.size());
      words.push_back("--" + item.substr(0, value));
      words.push_back(item.substr(value + (item[value] == '=' ? 1 : 0)));
      at = end + 1, ++flags;
    }
    CAPTURE(fmt::format("{}", fmt::join(words, " ")));
    const std::vector<std::string> all = helps(words, flags);
    const auto said = std::find_if(all.begin(), all.end(),
                                   [](const std::string& help) { return help.starts_with("write `--layout "); });
    REQUIRE(said != all.end());
    CHECK(std::count(all.begin(), all.end(), *said) == static_cast<std::ptrdiff_t>(flags));
    const Result<Fixed> meant = read_layout(said->substr(16, said->size() - 17));
    REQUIRE(meant);
    CHECK(*meant == read_layout(text).value());
  }
}

TEST_CASE("flags that mean nothing here say what is in their place, those of one kind the same") {
  std::vector<std::string> sentences;
  for (const auto& kind : kSaidAlike) {
    const std::string first = helps({"--model", "8b", "--gpus", "8", kind[0], "1"}, 1).front();
    for (const char* flag : kind) CHECK(helps({"--model", "8b", "--gpus", "8", flag, "1"}, 1).front() == first);
    CHECK_FALSE(first.starts_with("a flag with a similar name"));
    CHECK_FALSE(says(sentences, first));
    sentences.push_back(first);
  }
}

TEST_CASE("a word that was given to a known flag, too, is one mistake behind an unknown one") {
  CHECK(says(helps({"--model", "8b", "--gpus", "8", "--ep", "8"}, 1), "write `--layout ep8`"));
  CHECK(says(helps({"--model", "8b", "--gpus", "64", "tp8"}, 1), "write `--layout tp8`"));
}

TEST_CASE("axes beside a layout are added to it") {
  CHECK(says(helps({"estimate", "--layout", "tp8", "--pp", "4"}, 1), "write `--layout tp8,pp4`"));
  CHECK(says(helps({"estimate", "--layout=tp8", "--pp=4"}, 1), "write `--layout tp8,pp4`"));
  CHECK(says(helps({"estimate", "--tp=8"}, 1), "write `--layout tp8`"));  // a flag of another verb
}

TEST_CASE("words for sharding are said in ZeRO's") {
  CHECK(says(helps({"--model", "8b", "--gpus", "16", "--fsdp", "8"}, 1),
             "shared by 8 ranks each: `--layout zero3,shard8`"));
  CHECK(says(helps({"--model", "8b", "--gpus", "16", "--dp_shard=4"}, 1),
             "shared by 4 ranks each: `--layout zero3,shard4`"));
  CHECK(says(helps({"--model", "8b", "--gpus", "16", "--fsdp2"}, 1),
             "shared by all replicas, as PyTorch's FSDP2 does, too: `--layout zero3`"));
}

TEST_CASE("nodes are counted by what is said of a node, and else a node of 8 is named") {
  const std::vector<std::string> both = helps({"--model", "8b", "--nnodes", "2", "--nproc_per_node=4"}, 2);
  CHECK(std::count(both.begin(), both.end(), "write `--gpus 8`") == 2);
  CHECK_FALSE(says(both, "for nodes of 8 GPUs"));
  CHECK(says(helps({"--model", "8b", "--nnodes", "2"}, 1), "for nodes of 8 GPUs"));
}

TEST_CASE("of numbers alone PyTorch's first sharding shards all and DeepSpeed's little: none is guessed") {
  for (const char* flag : {"--strategy", "--sharding-strategy"})
    for (const std::string& help : helps({"--model", "8b", "--gpus", "8", flag, "1"}, 1))
      CHECK(help.find("zero1") == std::string::npos);
}

TEST_CASE("a flag is not taken for an axis") {
  CHECK(read_layout("tp8,gbs=512").error()[0].help[0] == "it is no axis but a flag: `--global-batch 512`");
  CHECK(read_layout("tp8,seq_length=8192").error()[0].help[0] == "it is no axis but a flag: `--seq 8192`");
}

TEST_CASE("what is no word of the field has a neighbour or nothing, and no meaning") {
  for (const char* flag : {"--modle", "--layers", "--stages", "--foo", "--tp8x", "--hidden-size", "--mfu"}) {
    CAPTURE(std::string(flag));
    for (const std::string& help : helps({flag, "8"}, 1)) CHECK(help.rfind("write `", 0) != 0);
  }
}

TEST_CASE("nodes times GPUs are GPUs") {
  CHECK(read_pools("8x8", {}).error()[0].help[0] == "write `--gpus 64`");
  CHECK(read_pools("2x8xh100-sxm", {}).error()[0].help[0] == "write `--gpus 16xh100-sxm`");
}

TEST_CASE("a number of GPUs may stand apart from their kind, as reports write it") {
  const PooledCluster apart = read_pools(" 64 x a100-sxm-80gb , 16 x h100-sxm", {}).value();
  REQUIRE(apart.pools.size() == 2);
  CHECK(pools_text(apart) == "64xa100-sxm-80gb,16xh100-sxm");
}

TEST_CASE("axes that stand between other signs than commas are written with commas in the help") {
  for (const auto& row : kSpacing) {
    const std::string &typed = row.first, &help = row.second;
    CAPTURE(typed);
    const Result<Fixed> read = read_layout(typed);
    REQUIRE_FALSE(read.has_value());
    CHECK(fmt::format("{}", fmt::join(read.error().front().help, "\n")).find(help) != std::string::npos);
    if (const std::size_t at = help.find("write `--layout "); at == 0)
      CHECK(read_layout(help.substr(16, help.size() - 17)).has_value());
  }
}
