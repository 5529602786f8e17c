// Each mixer by hand: a shape, the tensors that a checkpoint lists, what attention sends and what its core computes.
// tests/planner/traffic_test.cpp holds them against the mixers' own rows.
#include <algorithm>
#include <set>

#include "draw.hpp"
#include "oracle/traffic_holding.hpp"

namespace plan::oracle {
namespace {

std::int64_t one_of(std::mt19937& random, std::initializer_list<std::int64_t> values) {
  return values.begin()[random() % values.size()];
}
double attention_tensors(const Layer& layer, double h, int tp) {
  const AttentionShape& a = layer.attention;
  const double q = ints(a.heads) * ints(a.head_dim) / tp;
  // A rank has whole KV heads, at least one.
  const double kv = std::max(1.0, ints(a.kv_heads) / tp) * ints(a.head_dim);
  double sum = q * h + (a.output_gate ? q * h : 0) + kv * h + kv * h + h * q;
  if (a.qkv_bias) sum += q + kv + kv;
  if (a.out_bias) sum += h;
  if (a.sinks) sum += ints(a.heads) / tp;
  if (a.qk_norm == QkNorm::PerHead) sum += ints(a.head_dim) + ints(a.head_dim);
  if (a.qk_norm == QkNorm::Full) sum += ints(a.heads + a.kv_heads) * ints(a.head_dim);
  return sum;
}

double latent_tensors(const Layer& layer, double h, int tp) {
  const LatentShape& a = layer.latent;
  const double heads = ints(a.heads) / tp, nope = ints(a.nope_dim), rope = ints(a.rope_dim), v = ints(a.value_dim);
  const double q_rank = ints(a.q_rank), kv_rank = ints(a.kv_rank);
  const double queries =
      a.q_rank > 0 ? q_rank * h + q_rank + heads * (nope + rope) * q_rank : heads * (nope + rope) * h;
  return queries + (kv_rank + rope) * h + kv_rank + heads * nope * kv_rank + heads * v * kv_rank + h * heads * v;
}

double mamba_tensors(const Layer& layer, double h, int tp) {
  const Mamba2Shape& a = layer.mamba;
  const double inner = ints(a.heads * a.head_dim) / tp, state = ints(a.groups * a.state) / tp,
               heads = ints(a.heads) / tp;
  return (inner + inner + state + state + heads) * h +             // z, x, B, C, dt
         (inner + 2 * state) * ints(a.conv) + inner + 2 * state +  // convolution and its bias
         heads + heads + heads + inner + h * inner;                // A, D, dt bias, norm, output
}

double delta_tensors(const Layer& layer, double h, int tp) {
  const DeltaNetShape& a = layer.delta;
  const double key = ints(a.key_heads * a.key_dim) / tp, value = ints(a.value_heads * a.value_dim) / tp,
               heads = ints(a.value_heads) / tp;
  return (key + key + value + value + heads + heads) * h +  // q, k, v, gate, beta, decay
         (key + key + value) * ints(a.conv) + heads + heads + ints(a.value_dim) + h * value;
}

double whole_width(const Layer&, double h) { return h; }

constexpr MixerCount kCounts[] = {
    {.mixer = Mixer::None,
     .vary = [](std::mt19937&, Layer&) {},
     .tensors = [](const Layer&, double, int) { return 0.0; },
     .core = [](const Layer&, double) { return 0.0; }},
    {.mixer = Mixer::Attention,
     .vary =
         [](std::mt19937& random, Layer& layer) {
           layer.attention = {.heads = 16, .kv_heads = one_of(random, {2, 4, 16}), .head_dim = 128};
           layer.attention.qkv_bias = chance(random, 30), layer.attention.out_bias = chance(random, 20);
           layer.attention.sinks = chance(random, 20), layer.attention.output_gate = chance(random, 20);
           layer.attention.qk_norm = static_cast<QkNorm>(one_of(random, {0, 1, 2}));
         },
     .tensors = attention_tensors,
     .core = [](const Layer& l, double seq) { return 2 * ints(l.attention.heads) * ints(l.attention.head_dim) * seq; },
     .read = whole_width,
     .context =
         [](const Layer& layer, int tp) {
           const AttentionShape& a = layer.attention;
           const double q = ints(a.heads) / tp * ints(a.head_dim);
           const double kv = std::max(1.0, ints(a.kv_heads) / tp) * ints(a.head_dim);
           return ContextTensors{q, kv, kv, q};
         }},
    {.mixer = Mixer::Latent,
     .vary =
         [](std::mt19937& random, Layer& layer) {
           layer.latent = {.heads = 16,
                           .q_rank = one_of(random, {0, 384}),
                           .kv_rank = 128,
                           .nope_dim = 64,
                           .rope_dim = 32,
                           .value_dim = 64};
         },
     .tensors = latent_tensors,
     .core =
         [](const Layer& l, double seq) {
           return ints(l.latent.heads) * ints(l.latent.nope_dim + l.latent.rope_dim + l.latent.value_dim) * seq;
         },
     .read = [](const Layer& l, double) { return ints(l.latent.q_rank + l.latent.kv_rank + l.latent.rope_dim); },
     .context =
         [](const Layer& layer, int tp) {
           const LatentShape& a = layer.latent;
           const double heads = ints(a.heads) / tp, qk = ints(a.nope_dim + a.rope_dim), v = ints(a.value_dim);
           return ContextTensors{heads * qk, heads * qk, heads * v, heads * v};
         }},
    {.mixer = Mixer::Mamba2,
     .vary = [](std::mt19937&,
                Layer& layer) { layer.mamba = {.heads = 32, .head_dim = 64, .groups = 8, .state = 128, .conv = 4}; },
     .tensors = mamba_tensors,
     .core = [](const Layer& l, double) { return 7.0 * ints(l.mamba.heads * l.mamba.head_dim) * ints(l.mamba.state); },
     .read = whole_width,
     .scan =
         [](const Layer& layer, int tp, int cp) {
           const Mamba2Shape& a = layer.mamba;
           double sent = 0, back = 0;
           for (std::int64_t head = 0; head < a.heads / tp; ++head) {  // z, x and dt of every head
             sent += ints(2 * a.head_dim + 1);
             back += ints(a.head_dim);
           }
           // B and C: once for every context rank that holds heads of a group.
           const auto each = static_cast<std::int64_t>(a.heads / tp / cp), group = a.heads / a.groups;
           std::set<std::pair<std::int64_t, std::int64_t>> copies;
           for (std::int64_t head = 0; head < a.heads / tp; ++head) copies.insert({head / group, head / each});
           sent += ints(2 * a.state) * static_cast<double>(copies.size());
           return std::pair{sent, back};
         }},
    {.mixer = Mixer::DeltaNet,
     .vary =
         [](std::mt19937&, Layer& layer) {
           layer.delta = {.key_heads = 16, .value_heads = 32, .key_dim = 128, .value_dim = 128, .conv = 4};
         },
     .tensors = delta_tensors,
     .core =
         [](const Layer& layer, double) {
           const DeltaNetShape& a = layer.delta;
           const double keys = ints(a.key_heads * a.key_dim), values = ints(a.value_heads * a.value_dim);
           return 2 * ints(a.conv) * (keys + keys + values) + 8 * values * ints(a.value_dim);
         },
     .read = whole_width,
     .scan =
         [](const Layer& layer, int tp, int) {
           const DeltaNetShape& a = layer.delta;
           const double keys = ints(a.key_heads * a.key_dim) / tp, values = ints(a.value_heads * a.value_dim) / tp;
           const double gates = ints(a.value_heads) / tp;  // write and decay
           return std::pair{keys + keys + values + values + gates + gates, values};
         }},
};

static_assert(std::size(kCounts) == std::size(kMixerRows));
static_assert([] {
  for (std::size_t i = 0; i < std::size(kCounts); ++i)
    if (static_cast<std::size_t>(kCounts[i].mixer) != i) return false;
  return true;
}());

}  // namespace

const MixerCount& mixer_count(Mixer mixer) { return kCounts[static_cast<std::size_t>(mixer)]; }

}  // namespace plan::oracle
