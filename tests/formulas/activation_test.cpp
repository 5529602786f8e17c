// Saved activations against the published byte counts of each variant.
#include "formulas/activation.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "formulas/nccl_buffers.hpp"
#include "formulas/transient.hpp"
#include "tests/formulas/models.hpp"

namespace {

using namespace plan;

/// GPT-3 of Korthikanti et al.: dropout, no fused attention.
struct Gpt3 {
  Model model = fixture::gpt(96, 12288, 96, 51200);
  Training training;
  Layout layout;

  Gpt3() {
    model.norm = Norm::Layer;
    training.seq = 2048;
    training.dropout = 0.1;
    training.stack.flash_attention = false;
  }
  LayerLedger ledger() const { return layer_ledger(model, model.kinds[0], training, layout); }
  /// The paper leaves out the norms' two numbers per token.
  double paper() const { return (ledger().total() - ledger()[Fate::Statistics]).value; }
  double paper_selective() const {
    return (kept_selective(ledger(), kRecomputeCoreAttention, true) - ledger()[Fate::Statistics]).value;
  }
};

TEST_CASE("GPT layer: 34 sbh + 5 a s^2 b and its variants, to the byte") {
  Gpt3 gpt;
  CHECK(gpt.paper() == 2'868'903'936.0);
  CHECK(layer_checkpoint(gpt.model, gpt.training, gpt.layout).value == 50'331'648.0);
  gpt.layout.tp = 8;
  CHECK(gpt.paper() == 578'813'952.0);
  CHECK(gpt.paper_selective() == 327'155'712.0);
  gpt.layout.sequence_parallel = true;
  CHECK(gpt.paper() == 358'612'992.0);
  CHECK(gpt.paper_selective() == 106'954'752.0);
  CHECK(layer_checkpoint(gpt.model, gpt.training, gpt.layout).value == 50'331'648.0 / 8);
}

/// Bytes per token of one layer on one rank.
double per_token(const Model& model, const Layer& layer, const Training& training = {}, const Layout& layout = {}) {
  return layer_ledger(model, layer, training, layout).total().value / rank_tokens(training, layout);
}

TEST_CASE("every second product's output is kept beside the layer's input and what attention gave, of experts, too") {
  // torchtitan's selective checkpoint: of the products in their order the first, third, ... The softmax's statistics
  // are the attention kernel's own.
  const auto by_hand = [](const std::vector<double>& widths, double hidden, double attention) {
    double elements = hidden + attention;
    for (std::size_t i = 0; i < widths.size(); i += 2) elements += widths[i];
    return 2 * elements;
  };
  Model model = fixture::llama3_8b();
  const auto kept = [&] {
    const Training training;
    const Layout layout;
    const LayerLedger ledger = layer_ledger(model, model.kinds[0], training, layout);
    return (kept_ops(model, model.kinds[0], ledger, training, layout) - ledger[Fate::Core]).value /
           rank_tokens(training, layout);
  };
  const double h = 4096, q = 4096, kv = 1024, f = 14336;
  CHECK(kept() == by_hand({q, kv, kv, h, f, f, h}, h, q));
  model.kinds[0].ffn = Ffn::Moe;
  model.kinds[0].dense = {};
  model.kinds[0].moe = {.experts = 64, .top_k = 6, .expert_width = 1408};
  const double routed = 6 * 1408;
  CHECK(kept() == by_hand({q, kv, kv, h, routed, routed, h}, h, q));  // experts give back one token's width together
  model.kinds[0].moe.shared_width = 2816;
  CHECK(kept() == by_hand({q, kv, kv, h, routed + 2816, routed + 2816, h}, h, q));
}

TEST_CASE("of what every second product leaves, a tensor rank keeps its share") {
  // Layer's input and its end, and where the sequence is shared what each half scatters; the last product of a dense
  // FFN is whole before it is scattered.
  constexpr int kRanks = 4;
  const double h = 4096, q = 4096, kv = 1024, f = 14336, routed = 6 * 1408, shared = 2816;
  Model model = fixture::llama3_8b();
  const auto kept = [&](bool shares_sequence) {
    const Training training;
    const Layout layout{.tp = kRanks, .sequence_parallel = shares_sequence};
    const LayerLedger ledger = layer_ledger(model, model.kinds[0], training, layout);
    return (kept_ops(model, model.kinds[0], ledger, training, layout) - ledger[Fate::Core]).value /
           rank_tokens(training, layout);
  };
  const double attention = (2 * q + kv) / kRanks;
  CHECK(kept(false) == doctest::Approx(2 * (2 * h + attention + f / kRanks)));
  CHECK(kept(true) == doctest::Approx(2 * (h / kRanks + h + 2 * h / kRanks + attention + f / kRanks)));
  model.kinds[0].ffn = Ffn::Moe;
  model.kinds[0].dense = {};
  model.kinds[0].moe = {.experts = 64, .top_k = 6, .expert_width = 1408, .shared_width = 2816};
  CHECK(kept(false) == doctest::Approx(2 * (2 * h + attention + routed + shared / kRanks)));
  CHECK(kept(true) == doctest::Approx(2 * (4 * h / kRanks + attention + routed / kRanks + shared / kRanks)));
}

TEST_CASE("Llama layers: 8h + 4q + 4kv + 6f + 4a + 8 bytes a token") {
  const auto bytes = [](const Model& model) { return per_token(model, model.kinds[0]); };
  CHECK(bytes(fixture::llama3_8b()) == 139'400);
  CHECK(bytes(fixture::llama3_70b()) == 274'696);
  Model model = fixture::llama3_405b();
  model.kinds[0].attention.kv_heads = 16;
  CHECK(bytes(model) == 524'808);
}

TEST_CASE("tensor parallelism splits what sequence parallelism leaves whole") {
  const Model model = fixture::llama3_70b();
  const Layer& layer = model.kinds[0];
  Layout layout{.tp = 8};
  const double whole = 8 * 8192 + 8, split = 4 * 8192 + 4 * 1024 + 6 * 28672 + 4 * 64;
  CHECK(per_token(model, layer, {}, layout) == doctest::Approx(whole + split / 8));
  layout.sequence_parallel = true;
  CHECK(per_token(model, layer, {}, layout) == doctest::Approx((whole + split) / 8));
  layout.tp = 16;  // eight KV heads: each on two ranks
  CHECK(per_token(model, layer, {}, layout) == doctest::Approx((whole + split) / 16 + 4 * 1024 / 16.0));
}

TEST_CASE("context parallelism shortens sequences; reordering kernels keep their output twice") {
  const Model model = fixture::llama3_70b();
  const Layer& layer = model.kinds[0];
  Layout layout{.cp = 4, .cp_kind = CpKind::Ring};
  CHECK(rank_tokens({}, layout) == 1024);
  CHECK(per_token(model, layer, {}, layout) == 274'696);
  layout.cp_kind = CpKind::Ulysses;
  CHECK(per_token(model, layer, {}, layout) == 274'696 + 2 * 8192);
  Training training;
  training.stack.batch_first_attention = true;
  layout = {.micro_batch = 1};
  CHECK(per_token(model, layer, training, layout) == 274'696);
  layout.micro_batch = 2;
  CHECK(per_token(model, layer, training, layout) == 274'696 + 2 * 8192);
}

TEST_CASE("fp8 keeps GEMM inputs in one byte") {
  const Model model = fixture::llama3_8b();
  const Layer& layer = model.kinds[0];
  const double h = 4096, q = 4096, kv = 1024, f = 14336, a = 32;
  CHECK(per_token(model, layer, {.precision = Precision::Fp8Tensorwise}) == 6 * h + 5 * q + 4 * kv + 5 * f + 4 * a + 8);
  const double gemm_inputs = 2 * h + q + f;
  CHECK(per_token(model, layer, {.precision = Precision::Mxfp8}) ==
        doctest::Approx(6 * h + 5 * q + 4 * kv + 5 * f + 4 * a + 8 + gemm_inputs / 32));
}

TEST_CASE("latent attention and experts, term by term") {
  const Model model = fixture::deepseek_v3();
  const double h = 7168, r_q = 1536, r_kv = 512, a = 128, qk = 192, v = 128, f_e = 2048, f_s = 2048, k = 8, E = 256;
  const double mla = 4 * h + 4 + (4 * r_q + 4) + (4 * r_kv + 4) + 4 * a * qk + 4 * a * v + 4 * a;
  const double moe = 4 * h + 4 + 8 * E + k * (2 * h + 6 * f_e + 4) + 6 * f_s;
  CHECK(per_token(model, model.kinds[1]) == mla + moe);
  CHECK(per_token(model, model.kinds[0]) == mla + 4 * h + 4 + 6 * 18432);
  Training uneven;
  uneven.stack.routing_imbalance = 1.5;
  CHECK(per_token(model, model.kinds[1], uneven) == mla + moe + 0.5 * k * (2 * h + 6 * f_e + 4));
  // Expert tensor parallelism gathers tokens, splits widths.
  Layout layout{.tp = 2, .ep = 2, .etp = 2, .sequence_parallel = true};
  CHECK(per_token(model, model.kinds[1], {}, layout) == doctest::Approx((mla + moe + k * (2 * h)) / 2));
}

TEST_CASE("selective recompute drops what its module makes") {
  const Model model = fixture::deepseek_v3();
  const LayerLedger ledger = layer_ledger(model, model.kinds[1], {}, {});
  const double tokens = 4096, h = 7168, all = ledger.total().value;
  const auto dropped = [&](unsigned modules) { return (all - kept_selective(ledger, modules, false).value) / tokens; };
  CHECK(dropped(0) == 0);
  CHECK(dropped(kRecomputeCoreAttention) == 4 * 128);
  CHECK(dropped(kRecomputeLatentUp) == 4 * 128 * 192 + 2 * 128 * 128);
  CHECK(dropped(kRecomputeMoeActivation) == 8 * 2 * 2048);
  CHECK(dropped(kRecomputeSharedExperts) == 6 * 2048);
  CHECK(dropped(kRecomputeNorm) == 4 * h);
  CHECK(dropped(kRecomputeMoe) == 8 * 256 + 8 * (2 * h + 6 * 2048 + 4) + 6 * 2048);
  // The expert module contains the activation and the shared experts.
  CHECK(dropped(kRecomputeMoe | kRecomputeMoeActivation | kRecomputeSharedExperts) == dropped(kRecomputeMoe));
}

TEST_CASE("recomputing an MLP with a fused norm rebuilds the norm too") {
  const Model model = fixture::llama3_8b();
  const LayerLedger ledger = layer_ledger(model, model.kinds[0], {}, {});
  CHECK((ledger.total() - kept_selective(ledger, kRecomputeMlp, true)).value == 4096 * (6 * 14336.0 + 2 * 4096));
  CHECK((ledger.total() - kept_selective(ledger, kRecomputeMlp, false)).value == 4096 * 6 * 14336.0);
}

TEST_CASE("torchtitan's op recompute keeps input, attention and every second GEMM") {
  const Model model = fixture::llama3_8b();
  const LayerLedger ledger = layer_ledger(model, model.kinds[0], {}, {});
  // input, wq, attention output and statistics, wv, w1, w2
  const double kept = 2.0 * (4096 + 4096 + 4096 + 1024 + 14336 + 4096) + 4 * 32;
  CHECK(kept_ops(model, model.kinds[0], ledger, {}, {}).value == 4096 * kept);
}

TEST_CASE("adapters on attention alone spare the FFN's GEMM inputs") {
  const Model model = fixture::llama3_8b();
  Training training;
  training.task = Task::Lora;
  CHECK(per_token(model, model.kinds[0], training) == 139'400);
  training.lora.ffn = false;
  CHECK(per_token(model, model.kinds[0], training) == 139'400 - 2 * 4096 - 2 * 14336);
}

TEST_CASE("attention-free mixers keep their scans") {
  Model model = fixture::llama3_8b();
  Layer layer = model.kinds[0];
  layer.ffn = Ffn::None;
  layer.norms = 1;
  layer.mixer = Mixer::Mamba2;
  layer.mamba = {.heads = 128, .head_dim = 64, .groups = 8, .state = 128, .conv = 4};
  const double inner = 128 * 64, projected = 2 * inner + 2 * 8 * 128 + 128;
  CHECK(per_token(model, layer) == 4 * 4096 + 4 + 2 * projected + 4 * inner + 4 * 8);
}

TEST_CASE(
    "context ranks keep heads of all tokens for their own tokens of all heads; B and C once for each that has them") {
  Model model = fixture::llama3_8b();
  Layer layer = model.kinds[0];
  layer.ffn = Ffn::None;
  layer.mixer = Mixer::Mamba2;
  layer.mamba = {.heads = 128, .head_dim = 64, .groups = 8, .state = 128, .conv = 4};
  Layer delta = layer;
  delta.mixer = Mixer::DeltaNet;
  delta.delta = {.key_heads = 16, .value_heads = 32, .key_dim = 128, .value_dim = 128, .conv = 4};
  for (const int tp : {1, 4})
    for (const int cp : {2, 4, 8}) {
      CAPTURE(tp);
      CAPTURE(cp);
      const Layout one{.tp = tp}, split{.tp = tp, .cp = cp};
      CHECK(per_token(model, delta, {}, split) == per_token(model, delta, {}, one));
      const double copies = std::max(8 / tp, cp) - 8 / tp;  // of B and C, 16 bits each
      CHECK(per_token(model, layer, {}, split) == per_token(model, layer, {}, one) + 2 * copies * 2 * 128);
      // What is sent and what came stand beside each other for a moment: gate, x, time steps, B and C.
      const double sent = (2 * 128 * 64 + 128) / tp + std::max(8 / tp, cp) * 2 * 128;
      CHECK(layer_transient(model, layer, {}, split).forward.value == rank_tokens({}, split) * 2 * sent);
      CHECK(layer_transient(model, layer, {}, one).forward.value == 0);
    }
}

TEST_CASE("distinct weight shapes of a layer") {
  const Model llama = fixture::llama3_70b();
  const LinearShapes dense = linear_shapes(llama, llama.kinds[0], {.tp = 2});
  CHECK(dense.size == 4);
  CHECK(dense.numel() == (8192.0 * (8192 + 2048) + 8192.0 * 8192 + 3 * 8192.0 * 28672) / 2);
  const Model v3 = fixture::deepseek_v3();
  const LinearShapes moe = linear_shapes(v3, v3.kinds[1], {.ep = 8});
  CHECK(moe.size == 9);
  const double mla = 7168.0 * 1536 + 1536 * 128.0 * 192 + 7168 * 576.0 + 512 * 128.0 * 256 + 128 * 128 * 7168.0;
  CHECK(moe.numel() == mla + (256 / 8 + 1) * 3 * 7168.0 * 2048);
}

TEST_CASE("loss peaks by kind, bytes a logit") {
  const Model model = fixture::llama3_8b();
  Training training;
  const double logits = 4096.0 * 128256;
  const auto peak = [&](CrossEntropy kind, const Layout& layout = {}) {
    training.stack.cross_entropy = kind;
    return head_memory(model, training, layout).loss.value / logits;
  };
  CHECK(peak(CrossEntropy::FusedInPlace) == 2);
  CHECK(peak(CrossEntropy::Unfused) == 6);
  CHECK(peak(CrossEntropy::FusedFp32) == 6);
  CHECK(peak(CrossEntropy::Eager) == 12);  // log-probabilities, gradients of nll and of softmax: logits are let go
  CHECK(peak(CrossEntropy::Compiled) == 4);
  CHECK(peak(CrossEntropy::Chunked) < 1);
  training.stack.states = StateLayout::Fsdp2;  // no padding of the vocabulary
  CHECK(peak(CrossEntropy::Eager, {.tp = 8}) == 16.0 / 8);
  training.stack.vocab_parallel_loss = false;
  CHECK(peak(CrossEntropy::Eager, {.tp = 8}) == 14 + 2.0 / 8);
}

/// Which norms Megatron core 0.19 offloads beside CUDA graphs, in the words of TransformerLayer._set_offload_modules.
struct NormsBesideGraphs {
  bool attention = true, mlp = true;

  NormsBesideGraphs(bool moe_layer, unsigned graphs) {
    const bool attn = graphs & kGraphAttention, dense = graphs & kGraphMlp, router = graphs & kGraphRouter;
    if (attn) attention = false;
    bool unsupported = false;
    if (moe_layer) {
      if (attn || router) unsupported = true;
    } else if ((attn && !dense) || (!attn && dense)) {
      unsupported = true;
    }
    if (unsupported) mlp = false;
  }
};

TEST_CASE("modules leave the GPU but where a CUDA graph begins or ends at their norm, or the mixer wraps none") {
  constexpr unsigned kAll = 127, kNorms = kOffloadAttentionNorm | kOffloadMlpNorm;
  Training training;
  training.offload.modules = kAll;
  for (const Ffn ffn : {Ffn::Dense, Ffn::Moe})
    for (unsigned graphs = 0; graphs < 64; ++graphs) {
      training.stack.graph_scopes = static_cast<std::uint16_t>(graphs);
      Layer layer;
      layer.mixer = Mixer::Attention, layer.ffn = ffn;
      const unsigned leaving = leaving_modules(layer, training);
      const NormsBesideGraphs norms(ffn == Ffn::Moe, graphs);
      CAPTURE(graphs);
      CHECK(((leaving & kOffloadAttentionNorm) != 0) == norms.attention);
      CHECK(((leaving & kOffloadMlpNorm) != 0) == norms.mlp);
      CHECK((leaving | kNorms) == kAll);
    }
  training.stack.graph_scopes = 0;
  Layer layer;
  layer.mixer = Mixer::Mamba2, layer.ffn = Ffn::None;
  CHECK((leaving_modules(layer, training) & (kOffloadAttentionNorm | kOffloadQkvLinear)) == 0);
  layer.mixer = Mixer::DeltaNet, layer.ffn = Ffn::Moe;
  CHECK((leaving_modules(layer, training) & (kNorms | kOffloadQkvLinear)) == kNorms);
  training.offload.modules = 0;
  CHECK(leaving_modules(layer, training) == 0);
}

TEST_CASE("NCCL: twelve MiB a channel and ring, 2,688 MiB for an all-to-all over a node") {
  constexpr double mib = 1 << 20;
  CHECK(nccl_buffers(Layout{}, {}).value == 0);
  const Layout pair{.dp = 2};
  // One ring of reduce-scatter and all-gather, one all-reduce communicator of the world.
  CHECK(nccl_buffers(pair, {}).value == (16 + 2 * 16) * 12 * mib);
  const Layout experts{.dp = 8, .ep = 8};
  // Layers of tp 1 and 2 on one rank: the world's is there once.
  const std::vector<Layout> both{{.dp = 2}, {.tp = 2, .sequence_parallel = true}};
  const double alone = nccl_buffers(both[0], {}).value + nccl_buffers(both[1], {}).value - 2 * 16 * 12 * mib;
  CHECK(nccl_buffers(both, {}, {}).value == alone);
  // Groups that gather between them have a ring each; the same one twice is one, one of a single rank none.
  const std::vector<GatheringGroup> between{{"there", {2, 1}}, {"back", {2, 1}}, {"there", {2, 1}}, {"there", {1, 1}}};
  CHECK(nccl_buffers(both, between, {}).value == alone + 2 * 16 * 12 * mib);
  CHECK(nccl_buffers(experts, {}).value - nccl_buffers({.dp = 8}, {}).value == 2688 * mib);
  // Beyond a node: a pool a direction, of 32 channels * 16 * 128 KiB (plan-measuring(7) 1.1).
  CHECK(nccl_buffers({.dp = 16, .ep = 16}, {}).value - nccl_buffers({.dp = 16}, {}).value == (2688 + 2 * 64) * mib);
}

TEST_CASE("NCCL: what was measured of a node's groups replaces the law, and its channels the usual ones") {
  constexpr double mib = 1 << 20;
  NcclMemory seen{.ranks = 8, .communicator = Bytes(10 << 20), .all_reduce = Bytes(300 << 20)};
  CHECK(nccl_buffers({.tp = 8}, {8, GpuGeneration::Hopper, true, true, seen}).value == 2 * 310 * mib);  // tp and world
  seen.channels = 24;
  const Layout wide{.dp = 64};
  CHECK(nccl_buffers(wide, {8, GpuGeneration::Hopper, true, true, seen}).value == (24 + 2 * 24) * 12 * mib);
  const Layout experts{.dp = 8, .ep = 4};
  const double law = nccl_buffers(experts, {8, GpuGeneration::Hopper, true, true, seen}).value;
  seen.all_to_all = Bytes(700 << 20);
  CHECK(nccl_buffers(experts, {8, GpuGeneration::Hopper, true, true, seen}).value - law ==
        (3 * 100 - 3 * 32 * 12) * mib);
  double sum = 0;
  for (const NcclGroup& group : nccl_groups(experts, {8, GpuGeneration::Hopper, true, true, seen})) sum += group.bytes;
  CHECK(sum == nccl_buffers(experts, {8, GpuGeneration::Hopper, true, true, seen}).value);
}

/// What PyTorch's trackers hold of torchtitan's Llama 3 8B block, bytes a token: AOTAutograd's list of saved tensors.
TEST_CASE("what eager and compiled PyTorch keeps of a layer") {
  const Model model = fixture::llama3_8b();
  Training training;
  training.seq = 8192;
  Stack& stack = training.stack;
  const auto kept = [&](const Layout& layout = {}) {
    return layer_ledger(model, model.kinds[0], training, layout).total().value / (8192 * layout.micro_batch);
  };
  CHECK(kept() == 139400);
  stack.expands_kv = true;  // keys and values of 32 heads in place of 8
  CHECK(kept() == 151688);
  stack.expands_kv = false;
  const double split = kept({.tp = 8, .sequence_parallel = true});
  stack.keeps_gathered = true;  // inputs of qkv and of gate and up: 2 * 2 * h * (1 - 1/8)
  CHECK(kept({.tp = 8, .sequence_parallel = true}) - split == 4 * 4096 * 7.0 / 8);
  CHECK(kept() == 139400);
  stack.fused_activation = false;  // SiLU's output
  CHECK(kept() == 139400 + 2 * 14336);
  stack.fused_activation = true, stack.fused_norms = false;  // fp32 copies and normalised inputs
  CHECK(kept() == 139400 + 2 * 4 * 4096);
}

TEST_CASE("scores that weigh experts' outputs keep them in fp32") {
  const Model model = fixture::deepseek_v3();
  Training training;
  const LayerLedger fused = layer_ledger(model, model.kinds[1], training, {});
  training.stack.weighs_outputs = true;
  const LayerLedger weighed = layer_ledger(model, model.kinds[1], training, {});
  CHECK((weighed.total() - fused.total()).value == 4 * 8.0 * 7168 * 4096);  // k = 8, h = 7168, 4096 tokens
}

TEST_CASE("recomputed activations of a dense FFN free what its second linear reads") {
  const Model model = fixture::llama3_8b();
  const LayerLedger ledger = layer_ledger(model, model.kinds[0], {}, {});
  CHECK((ledger.total() - kept_selective(ledger, kRecomputeMlpActivation, false)).value == 2 * 4096.0 * 14336);
  CHECK((ledger.total() - kept_selective(ledger, kRecomputeMlp, false)).value == 6 * 4096.0 * 14336);
  CHECK(kept_selective(ledger, kRecomputeMlp | kRecomputeMlpActivation, false).value ==
        kept_selective(ledger, kRecomputeMlp, false).value);
}

}  // namespace
