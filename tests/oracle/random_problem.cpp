#include "oracle/random_problem.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "draw.hpp"
#include "formulas/bf16_layers.hpp"
#include "formulas/layer_rows.hpp"
#include "oracle/traffic_holding.hpp"

namespace plan::oracle {
namespace {

/// PLAN_TEST_SCALE, 1 by default.
double test_scale() {
  const char* scale = std::getenv("PLAN_TEST_SCALE");
  return scale != nullptr ? std::atof(scale) : 1;
}

void add_experts(Model& model, std::mt19937& random) {
  Layer moe = model.kinds.front();
  moe.ffn = Ffn::Moe;
  moe.moe = {.experts = pick<std::int64_t>(random, {4, 8, 6}),
             .top_k = 2,
             .expert_width = 512,
             .shared_width = pick<std::int64_t>(random, {0, 512})};
  model.kinds.push_back(moe);
  const std::size_t dense = random() % 2;  // a dense first layer, as DeepSeek has
  for (std::size_t i = dense; i < model.layers.size(); ++i) model.layers[i] = 1;
}

/// A mixer that scans, any of them.
Mixer pick_scan(std::mt19937& random) {
  for (;;)
    if (const MixerRow& row = *kMixerRows[random() % std::size(kMixerRows)]; row.core == MixerCore::Scan)
      return row.mixer;
}

/// Every third layer sees a window, or all have latent attention; every second scans; one prediction module.
void vary_layers(Model& model, std::mt19937& random) {
  if (chance(random, 30)) {
    Layer windowed = model.kinds[static_cast<std::size_t>(model.layers.back())];
    windowed.attention.window = 512;
    model.kinds.push_back(windowed);
    const int kind = static_cast<int>(model.kinds.size()) - 1;
    for (std::size_t i = 0; i < model.layers.size(); i += 3)
      if (model.layers[i] == model.layers.back()) model.layers[i] = kind;
  } else if (chance(random, 30)) {
    for (Layer& layer : model.kinds) {
      layer.mixer = Mixer::Latent;
      layer.latent = {.heads = layer.attention.heads,
                      .q_rank = 384,
                      .kv_rank = 128,
                      .nope_dim = 64,
                      .rope_dim = 32,
                      .value_dim = 64};
    }
  }
  if (chance(random, 20)) {  // every second layer scans
    Layer scan = model.kinds[static_cast<std::size_t>(model.layers.back())];
    scan.attention = {}, scan.latent = {};
    scan.mixer = pick_scan(random);
    mixer_count(scan.mixer).vary(random, scan);
    model.kinds.push_back(scan);
    for (std::size_t i = 1; i < model.layers.size(); i += 2) model.layers[i] = static_cast<int>(model.kinds.size()) - 1;
  }
  model.tied = chance(random, 30);
  if (chance(random, 15))
    model.mtp = {.depth = 1, .passes = chance(random, 30) ? 2 : 1, .kinds = {model.layers.back()}};
}

void fix_some(Problem& problem, std::mt19937& random) {
  // The whole space of one small problem has 10^5 layouts: fix what keeps brute force quick.
  Fixed& fixed = problem.fixed;
  if (chance(random, 70)) fixed.micro_batch = pick(random, {1, 2});
  if (chance(random, 60)) fixed.zero = pick(random, {0, 1, 2, 3});
  if (chance(random, 60))
    fixed.recompute = pick(random, {Recompute{}, Recompute{.kind = RecomputeKind::Full},
                                    Recompute{.kind = RecomputeKind::Full, .layers = 1},
                                    Recompute{.kind = RecomputeKind::Selective, .modules = kRecomputeNorm}});
  if (chance(random, 25)) fixed.cp_kind = pick(random, {CpKind::Ring, CpKind::AllGather, CpKind::Ulysses});
  if (chance(random, 20)) fixed.schedule = static_cast<Schedule>(random() % kSchedules);
  if (chance(random, 10)) fixed.tp = pick(random, {1, 2});
  if (chance(random, 50)) fixed.shard = 0;
}

/// Every layer on one of a few chunks, some of them empty; sometimes one layer too many.
void fix_layers(Problem& problem, std::mt19937& random) {
  std::vector<int> layers(pick<std::size_t>(random, {1, 2, 3, 4, 6}), 0);
  for (int i = 0; i < problem.model.depth() + (chance(random, 15) ? 1 : 0); ++i) ++layers[random() % layers.size()];
  problem.fixed.chunk_layers = layers;
}

}  // namespace

int rounds(int usual) { return std::max(1, static_cast<int>(std::lround(usual * test_scale()))); }

int at_least(int usual) { return test_scale() < 1 ? 0 : rounds(usual); }

Cluster plain_cluster(double memory_gib) {
  Cluster cluster;
  cluster.name = "plain";
  Gpu& gpu = cluster.gpu;
  gpu.name = "plain";
  gpu.vendor = "nvidia", gpu.architecture = Architecture::Blackwell, gpu.library = CollectiveLibrary::Nccl;
  gpu.nvlink_sharp = true;
  gpu.memory = round_bytes(memory_gib * kGiB);
  for (FlopsPerSecond& peak : gpu.peak) peak = FlopsPerSecond(989.4e12);
  gpu.memory_bandwidth = BytesPerSecond(3.35e12);
  gpu.sm_count = 132;
  gpu.scale_up = BytesPerSecond(450e9);
  gpu.nic = BytesPerSecond(50e9);
  cluster.tiers = {
      {.name = "nvlink", .size = 8, .bandwidth = gpu.scale_up, .latency = Seconds(1e-6)},
      {.name = "rail", .size = 256, .bandwidth = gpu.nic, .latency = Seconds(5e-6)},
      {.name = "spine", .size = 1 << 20, .bandwidth = gpu.nic, .latency = Seconds(9e-6), .oversubscription = 2}};
  return cluster;
}

Model dense_model(int layers, std::int64_t hidden, std::int64_t heads, std::int64_t kv_heads, std::int64_t ffn,
                  std::int64_t vocab) {
  Model model;
  model.name = "random";
  model.hidden = hidden, model.vocab = vocab;
  Layer layer;
  layer.attention = {.heads = heads, .kv_heads = kv_heads, .head_dim = hidden / heads};
  layer.dense = {.width = ffn};
  model.kinds = {layer};
  model.layers.assign(static_cast<std::size_t>(layers), 0);
  return model;
}

Problem random_problem(std::mt19937& random, int most_gpus) {
  Problem problem;
  const std::int64_t heads = pick<std::int64_t>(random, {8, 16, 12});
  problem.model =
      dense_model(static_cast<int>(2 + random() % 9), heads * 128, heads, pick<std::int64_t>(random, {2, 4, heads}),
                  heads * pick<std::int64_t>(random, {384, 512}), pick<std::int64_t>(random, {32000, 128256}));
  if (problem.model.kinds.front().attention.heads % problem.model.kinds.front().attention.kv_heads != 0)
    problem.model.kinds.front().attention.kv_heads = heads;
  if (chance(random, 40)) add_experts(problem.model, random);
  problem.cluster = plain_cluster(pick(random, {2.0, 6.0, 16.0, 79.6}));
  problem.gpus = pick(random, {1, 2, 4, 6, 8, 12, 16, 24, 32, 64});
  while (problem.gpus > most_gpus) problem.gpus /= 2;
  problem.training.seq = pick<std::int64_t>(random, {1024, 2048, 4096});
  problem.training.global_batch = pick<std::int64_t>(random, {8, 16, 24, 64});
  problem.training.stack.ep_overlap = chance(random, 30);
  problem.training.stack.overlap_grad_reduce = chance(random, 70);
  problem.framework = chance(random, 30) ? Framework::Megatron : Framework::Any;
  problem.objective = chance(random, 20)   ? Objective::Memory
                      : chance(random, 10) ? Objective::Cost
                                           : Objective::StepTime;
  problem.top = 3;
  problem.threads = 1;
  fix_some(problem, random);
  return problem;
}

Problem widened(Problem problem, std::mt19937& random) {
  vary_layers(problem.model, random);
  Training& training = problem.training;
  training.precision = pick(random, {Precision::Bf16, Precision::Fp16, Precision::Fp8Delayed, Precision::Mxfp8});
  if (training.precision == Precision::Mxfp8 && chance(random, 40)) {  // delayed scaling leaves none in bf16
    training.bf16_layers = {.first = pick(random, {0, 1, 2}), .last = pick(random, {0, 1, 3})};
    problem.model = with_bf16_layers(std::move(problem.model), training.bf16_layers);
  }
  training.optimizer = pick(random, {Optimizer::Adam, Optimizer::Sgd, Optimizer::Muon});
  if (chance(random, 15)) training.task = pick(random, {Task::Lora, Task::Qlora, Task::FullFinetune});
  if (chance(random, 30)) training.packed_length = 700;
  training.stack.flash_attention = chance(random, 80);
  training.global_batch = pick<std::int64_t>(random, {1, 6, 15, 20, 48, 120});
  if (chance(random, 20)) training.seq = pick<std::int64_t>(random, {1500, 1536, 1541});
  const int gpus = pick(random, {1, 2, 3, 4, 5, 6, 8, 9, 10, 12, 15, 16});
  problem.gpus = std::min(gpus, problem.gpus < 8 ? 8 : 16);
  Fixed& fixed = problem.fixed;
  if (chance(random, 15)) fixed.pp = pick(random, {1, 2, 3, 4});
  if (chance(random, 8)) fixed.cp = pick(random, {1, 2, 4});
  if (chance(random, 8)) fixed.dp = pick(random, {1, 2, 3, 4});
  if (chance(random, 10)) fixed.vp = pick(random, {1, 2, 3});
  if (chance(random, 10) && problem.model.moe()) fixed.ep = pick(random, {1, 2, 4});
  if (chance(random, 10) && problem.model.moe()) fixed.etp = pick(random, {1, 2});
  if (chance(random, 10)) fixed.cp_ulysses = 2;
  if (chance(random, 10)) fixed.sequence_parallel = false;
  if (chance(random, 6)) fixed.group = pick(random, {2, 3, 4, 6});
  if (chance(random, 15)) fix_layers(problem, random);
  if (chance(random, 10)) fixed.order = pick(random, {AxisOrder::PipelineOutermost, AxisOrder::DataOutermost});
  return problem;
}

}  // namespace plan::oracle
