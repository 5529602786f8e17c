// The 77 verdicts of Megatron-LM's own code (tests/published/launch/megatron_verdicts.txt): each mutation is written
// as a script and read back; what Megatron passes must be legal, what it rejects a mistake or a broken rule.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <fstream>
#include <map>
#include <regex>
#include <sstream>

#include "cli/request/resolve.hpp"
#include "launch/temporary.hpp"
#include "planner/rules/complete_layout.hpp"
#include "planner/rules/rules.hpp"

namespace plan {
namespace {

/// A change to the base script: flags behind it (the last one counts), flags taken out, nodes, GPU, environment.
struct Mutation {
  std::string add{};
  std::string drop{};
  int nodes = 8;
  std::string gpu = "h100";
  bool connections = true;
};

const std::string kMoe =
    "--num-experts 64 --moe-router-topk 2 --moe-ffn-hidden-size 1024 --moe-grouped-gemm "
    "--moe-token-dispatcher-type alltoall --disable-bias-linear ";
const std::string kFlat = "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 1 ";
const std::string kFsdp =
    "--tensor-model-parallel-size 1 --pipeline-model-parallel-size 1 --use-megatron-fsdp --use-distributed-optimizer ";

const std::map<std::string, Mutation>& mutations() {
  static const std::map<std::string, Mutation> table = {
      {"base tp2 pp4 dp8", {}},
      {"world not divisible by tp*pp*cp",
       {.add = "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 3 --num-layers 30"}},
      {"heads % tp", {.add = "--tensor-model-parallel-size 64 --pipeline-model-parallel-size 1"}},
      {"kv groups vs tp (8 vs 3)",
       {.add = "--tensor-model-parallel-size 3 --num-attention-heads 36 --kv-channels 128 --ffn-hidden-size 12288",
        .nodes = 6}},
      {"tp > kv groups but divisor ok (tp16, kv8)",
       {.add = "--tensor-model-parallel-size 16 --pipeline-model-parallel-size 1"}},
      {"layers % pp", {.add = "--num-layers 30"}},
      {"vpp layers-per-stage not dividing", {.add = "--num-layers-per-virtual-pipeline-stage 3"}},
      {"vpp ok", {.add = "--num-layers-per-virtual-pipeline-stage 2"}},
      {"vpp number ok", {.add = "--num-virtual-stages-per-pipeline-rank 4"}},
      {"vpp number not dividing layers/pp (3)", {.add = "--num-virtual-stages-per-pipeline-rank 3"}},
      {"both vpp flags", {.add = "--num-virtual-stages-per-pipeline-rank 4 --num-layers-per-virtual-pipeline-stage 2"}},
      {"vpp with pp=1", {.add = kFlat + "--num-virtual-stages-per-pipeline-rank 4"}},
      {"vpp, pp=2, no overlap p2p",
       {.add = "--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 4 "
               "--no-overlap-p2p-communication"}},
      {"vpp, m < pp", {.add = "--num-virtual-stages-per-pipeline-rank 4 --global-batch-size 16"}},
      {"vpp, m % pp != 0", {.add = "--num-virtual-stages-per-pipeline-rank 4 --global-batch-size 48"}},
      {"no vpp, m < pp (allowed)", {.add = "--global-batch-size 16"}},
      {"gbs % (mbs*dp)", {.add = "--global-batch-size 100"}},
      {"gbs bad but decrease flag", {.add = "--global-batch-size 100 --decrease-batch-size-if-needed"}},
      {"seq % 2cp", {.add = "--context-parallel-size 2 --seq-length 4098 --max-position-embeddings 8192"}},
      {"seq > max pos", {.add = "--seq-length 8192"}},
      {"CUDA_DEVICE_MAX_CONNECTIONS unset, tp>1, H100", {.connections = false}},
      {"CUDA_DEVICE_MAX_CONNECTIONS unset, tp>1, B200", {.add = kFlat, .gpu = "b200", .connections = false}},
      {"sp with tp=1 (silently off)",
       {.add = "--tensor-model-parallel-size 1 --pipeline-model-parallel-size 1 --sequence-parallel"}},
      {"tp-comm-overlap without sp", {.add = "--tp-comm-overlap", .drop = "--sequence-parallel"}},
      {"overlap-param-gather without distopt", {.add = "--overlap-param-gather --overlap-grad-reduce"}},
      {"overlap-param-gather without overlap-grad-reduce",
       {.add = "--use-distributed-optimizer --overlap-param-gather"}},
      {"a2a+p2p without hierarchical sizes", {.add = "--context-parallel-size 2 --cp-comm-type a2a+p2p"}},
      {"a2a+p2p with sizes",
       {.add = "--pipeline-model-parallel-size 2 --context-parallel-size 4 --cp-comm-type a2a+p2p "
               "--hierarchical-context-parallel-sizes 2 2"}},
      {"hierarchical product wrong",
       {.add = "--context-parallel-size 4 --cp-comm-type a2a+p2p --hierarchical-context-parallel-sizes 2 4"}},
      {"cp-comm-type typo 'alltoall'", {.add = "--context-parallel-size 2 --cp-comm-type alltoall"}},
      {"selective + method", {.add = "--recompute-granularity selective --recompute-method uniform"}},
      {"full without method", {.add = "--recompute-granularity full --recompute-num-layers 1"}},
      {"full uniform without num layers", {.add = kFlat + "--recompute-granularity full --recompute-method uniform"}},
      {"full uniform 1",
       {.add = kFlat + "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1"}},
      {"selective modules bad", {.add = "--recompute-granularity selective --recompute-modules attn"}},
      {"selective moe_act w/o grouped gemm",
       {.add = kMoe + "--recompute-granularity selective --recompute-modules moe_act", .drop = "--moe-grouped-gemm"}},
      {"distribute-saved-activations + sp",
       {.add = "--distribute-saved-activations --recompute-granularity full --recompute-method uniform "
               "--recompute-num-layers 1"}},
      {"first/last uneven ok 30=...",
       {.add = "--num-layers 30 --decoder-first-pipeline-num-layers 7 --decoder-last-pipeline-num-layers 7"}},
      {"first/last uneven bad middle",
       {.add = "--decoder-first-pipeline-num-layers 6 --decoder-last-pipeline-num-layers 7"}},
      {"account emb+loss 32+2 % 4",
       {.add = "--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split"}},
      {"account + first",
       {.add = "--num-layers 30 --account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split "
               "--decoder-first-pipeline-num-layers 6"}},
      {"layout ok", {.add = "--pipeline-model-parallel-layout 'Et*8|t*8|t*8|t*8L'"}},
      {"layout wrong count", {.add = "--pipeline-model-parallel-layout 'Et*8|t*8|t*8|t*7L'"}},
      {"layout vpp2", {.add = "--pipeline-model-parallel-layout 'Et*3|(t*4|)*6t*5L'"}},
      {"layout stages not mult of pp", {.add = "--pipeline-model-parallel-layout 'Et*10|t*11|t*11L'"}},
      {"MoE base ep8", {.add = kMoe + "--tensor-model-parallel-size 1 --expert-model-parallel-size 8"}},
      {"MoE ep not dividing experts",
       {.add = kMoe + "--tensor-model-parallel-size 1 --expert-model-parallel-size 6", .nodes = 6}},
      {"MoE world % etp*ep*pp", {.add = kMoe + "--expert-model-parallel-size 16"}},
      {"MoE etp1 ok", {.add = kMoe + "--expert-model-parallel-size 8 --expert-tensor-parallel-size 1"}},
      {"ep>1 dense model", {.add = "--expert-model-parallel-size 8"}},
      {"MoE tp>1 no sp",
       {.add = kMoe + "--expert-model-parallel-size 8 --expert-tensor-parallel-size 1", .drop = "--sequence-parallel"}},
      {"MoE a2a overlap without vpp pp>1",
       {.add =
            kMoe + "--tensor-model-parallel-size 1 --expert-model-parallel-size 8 --overlap-moe-expert-parallel-comm"}},
      {"MoE a2a overlap + full recompute",
       {.add = kMoe + "--tensor-model-parallel-size 1 --expert-model-parallel-size 8 "
                      "--overlap-moe-expert-parallel-comm --num-virtual-stages-per-pipeline-rank 2 "
                      "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1"}},
      {"fp8 hybrid delayed", {.add = kFlat + "--fp8-format hybrid"}},
      {"fp8 param gather w/o fp8", {.add = "--fp8-param-gather --use-distributed-optimizer"}},
      {"fp8+fp4", {.add = "--fp8-format hybrid --fp4-format e2m1"}},
      {"exp-avg fp8 without precision-aware", {.add = "--exp-avg-dtype fp8 --use-distributed-optimizer"}},
      {"optimizer cpu offload without precision-aware", {.add = "--optimizer-cpu-offload --use-distributed-optimizer"}},
      {"main-grads bf16 without precision-aware", {.add = "--main-grads-dtype bf16 --use-distributed-optimizer"}},
      {"megatron-fsdp with CDMC=1", {.add = kFsdp + "--ckpt-format fsdp_dtensor"}},
      {"megatron-fsdp CDMC unset", {.add = kFsdp + "--ckpt-format fsdp_dtensor", .connections = false}},
      {"megatron-fsdp without fsdp_dtensor", {.add = kFsdp, .connections = false}},
      {"distopt instances not dividing dp*cp",
       {.add = "--use-distributed-optimizer --num-distributed-optimizer-instances 3"}},
      {"distopt instances 2", {.add = "--use-distributed-optimizer --num-distributed-optimizer-instances 2"}},
      {"tp-pp-dp mapping with moe, edp!=dp",
       {.add = kMoe + "--tensor-model-parallel-size 1 --expert-model-parallel-size 8 --use-tp-pp-dp-mapping"}},
      {"unknown flag (typo)", {.add = "--tensor-paralel 2"}},
      {"abbrev flag", {.add = "--tensor-model-parallel 2"}},
      {"legacy rampup flag", {.add = "--rampup-batch-size 16 16 1000"}},
      {"use-mcore-models legacy (ignored)", {.add = "--use-mcore-models"}},
      {"distributed-backend nccl", {.add = "--distributed-backend nccl"}},
      {"MLA + GQA", {.add = "--multi-latent-attention --kv-lora-rank 512"}},
      {"cross-entropy te fusion", {.add = "--cross-entropy-loss-fusion --cross-entropy-fusion-impl te"}},
      {"no --eval-interval", {.drop = "--eval-interval 1000"}},
      {"cp a2a heads ok", {.add = "--pipeline-model-parallel-size 1 --context-parallel-size 4 --cp-comm-type a2a"}},
      {"cp a2a kv heads not divisible",
       {.add = "--pipeline-model-parallel-size 1 --context-parallel-size 8 --cp-comm-type a2a"}},
      {"untie missing is allowed", {.drop = "--untie-embeddings-and-output-weights"}},
      {"both bf16 fp16", {.add = "--fp16"}},
  };
  return table;
}

std::string script_of(const Mutation& mutation) {
  std::string flags =
      "--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 --group-query-attention "
      "--num-query-groups 8 --seq-length 4096 --max-position-embeddings 4096 --position-embedding-type rope --swiglu "
      "--normalization RMSNorm --disable-bias-linear --untie-embeddings-and-output-weights "
      "--tensor-model-parallel-size 2 --sequence-parallel --pipeline-model-parallel-size 4 --micro-batch-size 1 "
      "--global-batch-size 128 --bf16 --train-iters 100 --eval-interval 1000 --eval-iters 10 --mock-data "
      "--tokenizer-type NullTokenizer --vocab-size 128256 " +
      mutation.add;
  if (!mutation.drop.empty()) {
    const std::size_t at = flags.find(mutation.drop);
    REQUIRE(at != std::string::npos);
    flags.erase(at, mutation.drop.size());
  }
  return fmt::format(
      "#!/bin/bash\n#SBATCH --nodes={}\n#SBATCH --gpus-per-node={}:8\n{}srun torchrun --nnodes {} --nproc-per-node 8 "
      "pretrain_gpt.py {}\n",
      mutation.nodes, mutation.gpu, mutation.connections ? "export CUDA_DEVICE_MAX_CONNECTIONS=1\n" : "",
      mutation.nodes, flags);
}

/// Empty if plan finds the script legal, else why not.
std::string refusal(const std::string& script, Layout* layout, std::int64_t* batch) {
  const Temporary file("run.sbatch", script);
  Args args;
  args.from = {file.path()};
  const Result<Problem> problem = resolve_problem(args);
  if (!problem) return problem.error().front().message;
  *layout = complete_layout(*problem);
  *batch = problem->training.global_batch;
  const int rule = broken_rule(*problem, *layout);
  return rule < 0 ? "" : std::string(rules()[static_cast<std::size_t>(rule)].code);
}

std::string field(const std::string& line, const char* pattern) {
  std::smatch found;
  return std::regex_search(line, found, std::regex(pattern)) ? found[1].str() : "";
}

}  // namespace

TEST_CASE("every verdict of Megatron's own code is ours") {
  std::ifstream in(PLAN_SOURCE_DIR "/tests/published/launch/megatron_verdicts.txt");
  REQUIRE(in);
  int passed = 0, rejected = 0;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with('#') || line.size() < 5) continue;
    const bool passes = line.starts_with("PASS");
    const std::string name = line.substr(5, line.find(" -> ") - 5);
    CAPTURE(name);
    const std::string key = name.substr(0, name.find_last_not_of(' ') + 1);
    REQUIRE(mutations().contains(key));
    Layout layout;
    std::int64_t batch = 0;
    const std::string why = refusal(script_of(mutations().at(key)), &layout, &batch);
    CAPTURE(why);
    CHECK(why.empty() == passes);
    if (passes && why.empty()) {
      CHECK(field(line, "dp=(\\d+)") == std::to_string(layout.dp));
      CHECK(field(line, " m=(\\d+)") == std::to_string(micro_batches(batch, layout.dp, layout.micro_batch)));
      const std::string vpp = field(line, "vpp=(\\w+)");
      CHECK(vpp == (layout.vp == 1 ? "None" : std::to_string(layout.vp)));
    }
    ++(passes ? passed : rejected);
  }
  CHECK(passed == 22);
  CHECK(rejected == 55);
}

}  // namespace plan
