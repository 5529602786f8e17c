// Memory that lives only while one layer, the head or the loss runs, counted by hand from the tables of
// plan-formulas(7) D6 on random layers and layouts.
#include "formulas/transient.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "tests/formulas/models.hpp"

namespace {

using namespace plan;
using doctest::Approx;

/// A random layout with the sizes of one rank, all in plain numbers.
struct Draw {
  Model model = fixture::llama3_8b();
  Training training;
  Layout layout;
  double h = 0, t = 1, c = 1, b = 1, seq = 0, tokens = 0, split = 1;

  explicit Draw(std::mt19937& random) {
    const auto pick = [&](std::initializer_list<int> of) { return *(of.begin() + random() % of.size()); };
    training.seq = pick({1000, 4096, 8192});
    layout.tp = pick({1, 2, 4, 16});
    layout.cp = pick({1, 2, 4});
    layout.micro_batch = pick({1, 3});
    layout.sequence_parallel = layout.tp > 1 && random() % 2 == 0;
    if (random() % 2 == 0) training.stack.flash_attention = false;
    h = static_cast<double>(model.hidden), t = layout.tp, c = layout.cp, b = layout.micro_batch;
    seq = static_cast<double>(training.seq);
    tokens = b * seq / c;
    split = layout.sequence_parallel ? t : 1;
  }
  Layer& layer() { return model.kinds[0]; }
  LayerTransient transient() { return layer_transient(model, layer(), training, layout); }
};

/// Widths of the queries, keys and values of one rank.
struct Widths {
  double heads, q, k, v;
};

double attention_by_hand(const Draw& d, const Widths& w, bool grouped) {
  // Gradients of what comes in and of output, queries, keys and values, in 16 bits.
  const double gradients = 2 * d.tokens * d.h / d.split + 2 * d.tokens * (w.q + w.q + w.k + w.v);
  if (!d.training.stack.flash_attention) {
    const int kept = d.training.stack.fused_pointwise ? 2 : 3;
    const double softmax = d.training.stack.fused_softmax || d.training.stack.fused_pointwise ? 0 : 8;
    return gradients + (kept * 2 + softmax) * w.heads * d.tokens * d.seq;
  }
  const double rows = d.b * 128 * std::ceil(d.seq / d.c / 128);
  return gradients + 4 * rows * w.q + 4 * w.heads * d.tokens + (grouped ? 2 * 2 * d.tokens * w.q : 0);
}

}  // namespace

TEST_CASE("attention's backward pass: gradients, the fp32 accumulator of queries, sums of rows, keys a query head") {
  std::mt19937 random(1);
  for (int trial = 0; trial < 400; ++trial) {
    Draw d(random);
    d.training.stack.fused_pointwise = random() % 2 == 0;
    d.training.stack.fused_softmax = random() % 2 == 0;
    CAPTURE(trial);
    d.layer().attention.kv_heads = random() % 2 == 0 ? 8 : 32;
    const double kv = std::max<double>(static_cast<double>(d.layer().attention.kv_heads), d.t) * 128 / d.t;
    CHECK(d.transient().attention_backward.value ==
          Approx(attention_by_hand(d, {32 / d.t, 4096 / d.t, kv, kv}, d.layer().attention.kv_heads < 32)));
    d.model = fixture::deepseek_v3();
    d.h = 7168;
    const double a = 128 / d.t;
    CHECK(d.transient().attention_backward.value ==
          Approx(attention_by_hand(d, {a, a * 192, a * 192, a * 128}, false)));
  }
}

TEST_CASE("buffers of context parallelism: every block of keys and values, or what is sent beside what comes") {
  std::mt19937 random(2);
  for (int trial = 0; trial < 200; ++trial) {
    Draw d(random);
    CAPTURE(trial);
    const double q = 4096 / d.t, kv = std::max(8.0, d.t) * 128 / d.t;
    const double blocks = 2 * d.tokens * 2 * kv, exchange = 2 * d.tokens * 2 * q;
    const auto forward = [&](CpKind kind) {
      d.layout.cp_kind = kind;
      return d.transient().forward.value;
    };
    if (d.layout.cp == 1) {
      for (const CpKind kind : {CpKind::Ring, CpKind::AllGather, CpKind::Ulysses, CpKind::Hybrid})
        CHECK(forward(kind) == 0);
      continue;
    }
    CHECK(forward(CpKind::Ring) == Approx(blocks * d.c));
    CHECK(forward(CpKind::AllGather) == Approx(blocks * d.c));
    CHECK(forward(CpKind::Ulysses) == Approx(exchange));
    d.layout.cp_ulysses = 2;
    CHECK(forward(CpKind::Hybrid) == Approx(blocks * d.c / 2 + exchange));
  }
}

TEST_CASE("feed-forwards: the incoming gradient and the activation's; experts' copies on their way") {
  std::mt19937 random(3);
  for (int trial = 0; trial < 200; ++trial) {
    Draw d(random);
    CAPTURE(trial);
    const double incoming = 2 * d.tokens * d.h / d.split;
    CHECK(d.transient().ffn_backward.value == Approx(incoming + 4 * d.tokens * 14336 / d.t));
    d.layer().dense.gated = false;
    CHECK(d.transient().ffn_backward.value == Approx(incoming + 2 * d.tokens * 14336 / d.t));
    d.layer().ffn = Ffn::Moe;
    d.layer().moe = {.experts = 64, .top_k = 6, .expert_width = 1408};
    d.layout.etp = d.layout.tp > 1 && random() % 2 == 0 ? 2 : 1;
    d.training.stack.routing_imbalance = random() % 2 == 0 ? 1 : 1.25;
    const double copies = d.tokens * 6 * d.training.stack.routing_imbalance / d.split * d.layout.etp;
    CHECK(d.transient().ffn_backward.value == Approx(incoming + 2 * copies * (d.h + 2 * 1408.0 / d.layout.etp)));
    const double experts = 2 * 4 * copies * d.h + 3 * incoming;
    d.layout.cp_kind = CpKind::Ring;
    const double blocks = d.layout.cp > 1 ? 4 * d.tokens * std::max(8.0, d.t) * 128 / d.t * d.c : 0;
    CHECK(d.transient().forward.value == Approx(std::max(experts, blocks)));  // not at once: one after the other
  }
}

TEST_CASE("the embedding keeps its token ids, and of any dropout a mask of one byte an element") {
  std::mt19937 random(6);
  for (int trial = 0; trial < 200; ++trial) {
    Draw d(random);
    CAPTURE(trial);
    CHECK(embedding_saved(d.model, d.training, d.layout).value == Approx(8 * d.tokens));
    for (const double rate : {1e-6, 0.1, 1.0}) {
      d.training.dropout = rate;
      CHECK(embedding_saved(d.model, d.training, d.layout).value == Approx(8 * d.tokens + d.tokens * d.h / d.split));
    }
  }
}

TEST_CASE("the head: logits in the copies that each kind of loss makes of them") {
  std::mt19937 random(4);
  for (int trial = 0; trial < 200; ++trial) {
    Draw d(random);
    CAPTURE(trial);
    d.training.stack.states = StateLayout::Fsdp2;  // which pads no vocabulary
    d.training.stack.vocab_parallel_loss = true;
    const double logits = d.tokens * 128256 / d.t, gathered = 2 * d.tokens * d.h, own = gathered / d.split;
    const auto head = [&](CrossEntropy kind) {
      d.training.stack.cross_entropy = kind;
      return head_memory(d.model, d.training, d.layout);
    };
    const auto check = [&](const HeadMemory& m, double saved, double peak, double gradient) {
      CHECK(m.logits.value == Approx(saved * logits));
      CHECK(m.loss.value == Approx(peak * logits));
      CHECK(m.backward.value == Approx(gradient * logits + gathered + (d.layout.sequence_parallel ? own : 0)));
      CHECK(m.resident.value == Approx(d.layout.sequence_parallel ? gathered : 0));
      CHECK(m.saved.value == Approx(2 * own + 4 * d.tokens / d.split));
    };
    check(head(CrossEntropy::FusedInPlace), 2, 2, 2);
    d.training.stack.loss_in_place = true;
    check(head(CrossEntropy::Unfused), 4, 6, 2);
    d.training.stack.loss_in_place = false;
    check(head(CrossEntropy::Unfused), 4, 10, 2);
    check(head(CrossEntropy::Compiled), 2, 4, 2);
    check(head(CrossEntropy::FusedFp32), 4, 6, 4);
  }
}

TEST_CASE(
    "a head whose logits are gathered: the slice beside the whole, its pieces and the flat buffer they came from") {
  std::mt19937 random(5);
  for (int trial = 0; trial < 200; ++trial) {
    Draw d(random);
    CAPTURE(trial);
    d.training.stack.states = StateLayout::Fsdp2;
    d.training.stack.vocab_parallel_loss = false;
    d.training.stack.cross_entropy = CrossEntropy::Eager;
    const double logits = d.tokens * 128256;  // of the whole vocabulary, in 16 bits and three times in fp32
    const HeadMemory m = head_memory(d.model, d.training, d.layout);
    CHECK(m.logits.value == Approx((2 + 4) * logits));
    // One rank copies all of them to shift labels; several hold their own slice, and what the gather left.
    CHECK(m.loss.value == Approx((2 + 12) * logits + 2 * logits / d.t));
    CHECK(m.hole.value == Approx(d.t > 1 ? 2 * logits + 2 * logits * (1 - 1 / d.t) : 0));
  }
}
