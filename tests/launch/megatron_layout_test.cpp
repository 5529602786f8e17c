// Megatron's layout string (plan-launch(7) 3.1.2, rule 23): what is written comes back, what Megatron refuses is
// refused.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <random>
#include <string>

#include "cli/launch/launch.hpp"
#include "cli/launch/megatron/megatron.hpp"
#include "formulas/parameters.hpp"
#include "launch/temporary.hpp"

namespace plan {

TEST_CASE("a layout string comes back with its chunks and its MTP layers") {
  std::mt19937 random(7);
  for (int draw = 0; draw < 500; ++draw) {
    std::vector<int> chunks(2 + random() % 40);
    int layers = 0;
    for (int& chunk : chunks) layers += chunk = static_cast<int>(random() % 4);
    const int mtp = static_cast<int>(random() % 3);
    const std::string text = pipeline_layout_text(chunks, mtp);
    CAPTURE(text);
    const Result<PipelineLayout> read = read_pipeline_layout(text, layers, mtp);
    REQUIRE(read);
    CHECK(read->chunks == chunks);
    CHECK(read->mtp == (mtp > 0 ? static_cast<int>(chunks.size()) - 1 : -1));
  }
}

TEST_CASE("a layout string with another embedding or loss, or without, is refused") {
  std::mt19937 random(8);
  for (int draw = 0; draw < 300; ++draw) {
    std::vector<int> chunks(2 + random() % 6);
    int layers = 0;
    for (int& chunk : chunks) layers += chunk = static_cast<int>(random() % 3);
    const std::string text = pipeline_layout_text(chunks, 0), end = draw % 2 == 0 ? "E" : "L";
    CAPTURE(text);
    CHECK(read_pipeline_layout(text, layers, 0));
    std::string without = text, twice = text;
    without.erase(without.find(end), 1);
    CHECK_FALSE(read_pipeline_layout(without, layers, 0));
    // Between any two characters but those of a count, or at either end.
    const std::size_t at = random() % (text.size() + 1);
    if (at > 0 && at < text.size() && (text[at - 1] == '*' || std::isdigit(text[at - 1]) != 0)) continue;
    twice.insert(at, end);
    CAPTURE(twice);
    CHECK_FALSE(read_pipeline_layout(twice, layers, 0));
  }
}

TEST_CASE("MTP layers stand together in the last chunk of a rank that is not the first") {
  const auto read = [](const char* text, int mtp, int pp) { return read_pipeline_layout(text, 6, mtp, pp); };
  CHECK(read("Ett|tt|tt|mL", 1, 4)->mtp == 3);
  CHECK(read("Ett|tt|ttm|L", 1, 4)->mtp == 2);
  CHECK(read("Ett|tt|ttm|L", 1, 4)->chunks == std::vector<int>{2, 2, 2, 0});
  CHECK(read("Et|t|t|t|tt|mL", 1, 2)->mtp == 5);
  CHECK(!read("Et|t|t|tttm|L|", 1, 3));    // the loss comes last
  CHECK(!read("Ett|tt|ttm|mL", 2, 4));     // apart
  CHECK(!read("Ett|tt|mtt|L", 1, 4));      // before a decoder layer
  CHECK(!read("Ett|tt|tt|L", 1, 4));       // none
  CHECK(!read("Ett|tt|ttm|L", 0, 4));      // the model has none
  CHECK(!read("Et|t|t|tttm|||L", 1, 4));   // not the last chunk of its rank
  CHECK(!read("Et|t|t|t|ttm|||L", 1, 4));  // the first rank
  CHECK(!read("Ett|tt|ttL", 0, 2));        // stages that the ranks do not share evenly
}

// Each MTP layer has the same weights; what plan cannot build as stated it refuses or names.
TEST_CASE("a model has as many MTP layers as the script states") {
  const auto read = [](const std::string& more) {
    const Temporary file("run.sh",
                         "torchrun --nproc-per-node 8 pretrain_gpt.py --num-layers 4 --hidden-size 512 "
                         "--num-attention-heads 8 --seq-length 512 --max-position-embeddings 512 "
                         "--micro-batch-size 1 --eval-interval 10 --vocab-size 32000 --bf16 "
                         "--position-embedding-type rope " +
                             more + "\n");
    return read_launch_files({file.path()});
  };
  const auto weights = [&](int mtp) {
    const Result<LaunchJob> job = read(mtp < 0 ? "" : fmt::format("--mtp-num-layers {}", mtp));
    REQUIRE(job);
    REQUIRE(job->model);
    return model_parameters(*job->model).with_mtp;
  };
  const std::int64_t none = weights(-1), one = weights(1) - none;
  CHECK(one > 0);
  CHECK(weights(0) == none);
  for (const int mtp : {2, 3, 50, 99}) CHECK(weights(mtp) == none + mtp * one);
  for (const int mtp : {100, 101, 1000}) {
    CAPTURE(mtp);
    const Result<LaunchJob> job = read(fmt::format("--mtp-num-layers {}", mtp));
    CHECK((!job || !job->unused.empty() || model_parameters(*job->model).with_mtp == none + mtp * one));
  }
}

// Megatron's transformer_config: what the ends leave is shared evenly by the stages between them, if there are any.
TEST_CASE("layers of the first and the last stage leave equal shares for those between") {
  for (int pp = 2; pp <= 6; ++pp)
    for (int first = 0; first <= 5; ++first)
      for (int last = 0; last <= 5; ++last)
        for (const int depth : {8, 12, 13}) {
          if (first + last == 0) continue;
          const int middle = pp - (first > 0 ? 1 : 0) - (last > 0 ? 1 : 0), left = depth - first - last;
          const bool sound = left >= 0 && (middle > 0 ? left % middle == 0 : left == 0);
          std::string line = fmt::format(
              "torchrun --nproc-per-node {} --nnodes 1 pretrain_gpt.py --num-layers {} --hidden-size 4096 "
              "--num-attention-heads 32 --seq-length 4096 --max-position-embeddings 4096 --micro-batch-size 1 "
              "--global-batch-size 60 --train-iters 10 --eval-interval 10 --vocab-size 32000 --bf16 "
              "--pipeline-model-parallel-size {}",
              pp, depth, pp);
          std::vector<int> layers(static_cast<std::size_t>(pp), left / std::max(1, middle));
          if (first > 0) layers.front() = first;
          if (last > 0) layers.back() = last;
          if (first > 0) line += fmt::format(" --decoder-first-pipeline-num-layers {}", first);
          if (last > 0) line += fmt::format(" --decoder-last-pipeline-num-layers {}", last);
          CAPTURE(line);
          const Temporary file("run.sh", line + "\n");
          const Result<LaunchJob> job = read_launch_files({file.path()});
          CHECK(job.has_value() == sound);
          if (!job || !sound) continue;
          CHECK(job->fixed.chunk_layers.value_or(std::vector<int>(layers.size(), depth / pp)) == layers);
        }
}

// MindSpeed's list of layers by stage.
TEST_CASE("stages hold the layers of --num-layer-list, or it is refused") {
  std::mt19937 random(5);
  for (int draw = 0; draw < 60; ++draw) {
    const int pp = 2 + static_cast<int>(random() % 5);
    std::vector<int> layers(static_cast<std::size_t>(pp));
    std::string list;
    int depth = 0;
    for (int& each : layers) {
      depth += each = 2 + static_cast<int>(random() % 6);
      list += fmt::format("{}{}", list.empty() ? "" : ",", each);
    }
    enum { Sound, Sum, Count, Virtual } kind = static_cast<decltype(kind)>(random() % 4);
    std::string more;
    if (kind == Sum) ++depth;
    if (kind == Count) list += fmt::format(",{}", 1), ++depth;
    if (kind == Virtual) more = " --num-layers-per-virtual-pipeline-stage 1";
    const std::string line = fmt::format(
        "torchrun --nproc-per-node {} --nnodes 1 pretrain_gpt.py --num-layers {} --hidden-size 4096 "
        "--num-attention-heads 32 --seq-length 4096 --max-position-embeddings 4096 --micro-batch-size 1 "
        "--global-batch-size 60 --train-iters 10 --eval-interval 10 --vocab-size 32000 --bf16 "
        "--pipeline-model-parallel-size {} --num-layer-list {}{}",
        pp, depth, pp, list, more);
    CAPTURE(line);
    const Temporary file("run.sh", line + "\n");
    const Result<LaunchJob> job = read_launch_files({file.path()});
    REQUIRE(job.has_value() == (kind == Sound));
    if (!job) continue;
    CHECK(job->fixed.chunk_layers.value_or(std::vector<int>(layers.size(), depth / pp)) == layers);
  }
}

TEST_CASE("what a script says that the estimate cannot follow is noted") {
  const std::string base =
      "torchrun --nproc-per-node 8 --nnodes 8 pretrain_gpt.py --num-layers 6 --hidden-size 4096 --num-attention-heads "
      "32 "
      "--seq-length 4096 --max-position-embeddings 4096 --micro-batch-size 1 --global-batch-size 64 --eval-interval 10 "
      "--train-iters 10 --vocab-size 32000 --bf16 --position-embedding-type rope ";
  const auto notes = [&](const std::string& more) {
    const Temporary file("run.sh", base + more + "\n");
    const Result<LaunchJob> job = read_launch_files({file.path()});
    REQUIRE(job);
    std::string codes;
    for (const std::vector<Note>* told : {&job->notes, &job->unused})
      for (const Note& note : *told) codes += note.code + " ";
    return codes;
  };
  CHECK(notes("").empty());
  CHECK(notes("--fine-grained-activation-offloading --offload-modules core_attn").empty());
  CHECK(notes("--fine-grained-activation-offloading --offload-modules core_attn fused_group_mlp") ==
        "offload_not_modelled ");
  CHECK(notes("--cpu-offloading-num-layers 2").empty());
  CHECK(notes("--cpu-offloading --cpu-offloading-num-layers 2").empty());
  CHECK(notes("--cpu-offloading") == "not_used ");
  CHECK(notes("--use-custom-fsdp --ckpt-format fsdp_dtensor").find("flag_gone") == 0);
  CHECK(notes("--mtp-num-layers 1 --pipeline-model-parallel-size 4 --pipeline-model-parallel-layout 'Ett|tt|ttm|L'") ==
        "mtp_stage ");
}

TEST_CASE("each word of a list counts, or is named") {
  const auto read = [](const std::string& more) {
    const Temporary file(
        "run.sh",
        "torchrun --nproc-per-node 8 pretrain_gpt.py --num-layers 4 --hidden-size 4096 "
        "--num-attention-heads 32 --seq-length 4096 --max-position-embeddings 4096 --micro-batch-size 1 "
        "--eval-interval 10 --vocab-size 32000 --bf16 " +
            more + "\n");
    return read_launch_files({file.path()});
  };
  // One word for all layers, or one for each.
  const std::string cp = "--context-parallel-size 2 --cp-comm-type ";
  for (const char* words : {"a2a", "a2a a2a a2a a2a"}) {
    const Result<LaunchJob> job = read(cp + words);
    REQUIRE(job);
    CHECK(job->fixed.cp_kind == CpKind::Ulysses);
    CHECK(job->unused.empty());
  }
  const Result<LaunchJob> mixed = read(cp + "p2p p2p a2a a2a");
  REQUIRE(mixed);
  CHECK(mixed->fixed.cp_kind == CpKind::Ring);
  REQUIRE(mixed->unused.size() == 1);
  CHECK(mixed->unused.front().text.find("--cp-comm-type") != std::string::npos);
  CHECK_FALSE(read(cp + "p2p p2p ring p2p"));

  const std::string graphs = "--cuda-graph-impl transformer_engine --cuda-graph-scope ";
  CHECK(read(graphs + "attn moe_router")->training->stack.graph_scopes == (kGraphAttention | kGraphRouter));
  CHECK(read(graphs + "attn moe_router")->unused.empty());
  CHECK(read(graphs + "full")->unused.empty());
  CHECK(read(graphs + "full_iteration_inference")->training->stack.graph_scopes == 0);
  const Result<LaunchJob> slip = read(graphs + "attn moe_ruter");
  REQUIRE(slip);
  CHECK(slip->training->stack.graph_scopes == kGraphAttention);
  REQUIRE(slip->unused.size() == 1);
  CHECK(slip->unused.front().text.find("moe_ruter") != std::string::npos);
}

}  // namespace plan
