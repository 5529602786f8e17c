// Random models are written to a file and read back as they were: every field of every section, variants and modules.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "formulas/layer_rows.hpp"
#include "presets/model_parts.hpp"
#include "presets/reader.hpp"

namespace {
using namespace plan;

class Dice {
 public:
  explicit Dice(unsigned seed) : engine_(seed) {}
  std::int64_t from(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(engine_);
  }
  bool coin() { return from(0, 1) == 1; }
  std::int64_t maybe(std::int64_t least, std::int64_t most) { return coin() ? from(least, most) : 0; }

 private:
  std::mt19937 engine_;
};

AttentionShape attention(Dice& dice) {
  AttentionShape a;
  a.kv_heads = dice.from(1, 4), a.heads = a.kv_heads * dice.from(1, 8), a.head_dim = dice.from(1, 200);
  a.qkv_bias = dice.coin(), a.out_bias = dice.coin(), a.sinks = dice.coin(), a.output_gate = dice.coin();
  a.qk_norm = static_cast<QkNorm>(dice.from(0, 2));
  a.window = dice.maybe(1, 4096);
  return a;
}

LatentShape latent(Dice& dice) {
  LatentShape s{.heads = dice.from(1, 64), .q_rank = dice.maybe(1, 2048), .kv_rank = dice.from(1, 512)};
  s.rope_dim = dice.maybe(1, 64), s.nope_dim = s.rope_dim > 0 ? dice.maybe(1, 128) : dice.from(1, 128),
  s.value_dim = dice.from(1, 128);
  if (dice.coin())
    s.index_heads = dice.from(1, 64), s.index_dim = dice.from(1, 128), s.index_top_k = dice.from(1, 2048);
  return s;
}

/// A value for each key that a model file has for the mixer.
void by_its_keys(Dice& dice, Layer& l) {
  constexpr double kMost = 128;
  for (const ShapeField& field : mixer_row(l.mixer).part.fields) {
    const auto least = static_cast<std::int64_t>(field.least), most = static_cast<std::int64_t>(field.most);
    if (const auto* number = std::get_if<std::int64_t& (*)(Layer&)>(&field.of))
      (*number)(l) = dice.from(least, std::min(most, static_cast<std::int64_t>(kMost)));
    if (const auto* flag = std::get_if<bool& (*)(Layer&)>(&field.of)) (*flag)(l) = dice.coin();
    if (const auto* norm = std::get_if<QkNorm& (*)(Layer&)>(&field.of))
      (*norm)(l) = static_cast<QkNorm>(dice.from(0, std::size(kQkNormNames) - 1));
  }
}

Layer layer(Dice& dice, std::int64_t experts) {
  Layer l;
  l.mixer = static_cast<Mixer>(dice.from(0, std::size(kMixerRows) - 1));
  l.ffn = static_cast<Ffn>(dice.from(l.mixer == Mixer::None ? 1 : 0, std::size(kFfnRows) - 1));
  if (l.mixer == Mixer::Attention)
    l.attention = attention(dice);
  else if (l.mixer == Mixer::Latent)
    l.latent = latent(dice);
  else
    by_its_keys(dice, l);
  if (l.mixer == Mixer::Mamba2) l.mamba.groups = 1;
  if (l.mixer == Mixer::DeltaNet) l.delta.value_heads = 2 * l.delta.key_heads;
  if (l.ffn == Ffn::Dense) l.dense = {.width = dice.from(1, 9999), .gated = dice.coin(), .bias = dice.coin()};
  if (l.ffn == Ffn::Moe) {
    l.moe = {.experts = experts, .top_k = dice.from(1, experts), .expert_width = dice.from(1, 999)};
    l.moe.shared_width = dice.maybe(1, 999), l.moe.latent = dice.maybe(1, 512);
    l.moe.gated = dice.coin(), l.moe.expert_bias = dice.coin(), l.moe.router_bias = dice.coin();
    l.moe.score_bias = dice.coin(), l.moe.shared_gate = dice.coin();
  }
  return l;
}

/// Kinds in the order in which they come first, as a reader meets them.
void renumber(Model& m) {
  std::vector<Layer> met;
  const auto index = [&](int kind) {
    const Layer& l = m.kinds[static_cast<std::size_t>(kind)];
    const auto found = std::find(met.begin(), met.end(), l);
    const auto at = static_cast<int>(found - met.begin());
    if (found == met.end()) met.push_back(l);
    return at;
  };
  for (int& kind : m.layers) kind = index(kind);
  for (int& kind : m.mtp.kinds) kind = index(kind);
  m.kinds = met;
}

Model model(Dice& dice) {
  Model m;
  m.name = "random-1";
  m.hidden = dice.from(1, 8192), m.vocab = dice.from(1, 200000), m.positions = dice.maybe(1, 8192);
  m.tied = dice.coin(), m.norm_bias = dice.coin(), m.norm_weights = dice.coin();
  m.embedding_norm = dice.coin(), m.head_bias = dice.coin();
  m.norm = dice.coin() ? Norm::Layer : Norm::Rms;
  m.dropout = dice.coin() ? 0.125 : 0;
  m.extra_parameters = dice.maybe(1, 1000000);
  m.default_seq = dice.from(1, 100000), m.default_global_batch = dice.from(1, 5000);
  const int norms = static_cast<int>(dice.from(1, 4));
  const std::int64_t experts = dice.from(1, 64), kinds = dice.from(1, 5);
  for (std::int64_t i = 0; i < kinds; ++i) {
    m.kinds.push_back(layer(dice, experts));
    m.kinds.back().norms = m.kinds.back().mixer != Mixer::None && m.kinds.back().ffn != Ffn::None ? norms : 1;
  }
  for (std::int64_t i = dice.from(1, 40); i > 0; --i) m.layers.push_back(static_cast<int>(dice.from(0, kinds - 1)));
  if (dice.coin()) {
    m.mtp.depth = static_cast<int>(dice.from(1, 3)), m.mtp.passes = static_cast<int>(dice.from(1, 3));
    m.mtp.own_embedding = dice.coin();
    for (std::int64_t i = dice.from(1, 3); i > 0; --i) m.mtp.kinds.push_back(static_cast<int>(dice.from(0, kinds - 1)));
  }
  renumber(m);
  return m;
}

}  // namespace

TEST_CASE("a random model is read back as it was written") {
  for (unsigned seed = 0; seed < 500; ++seed) {
    Dice dice(seed);
    const Model wanted = model(dice);
    const std::string text = write_model(wanted, seed % 2 == 0 ? "a source" : "");
    CAPTURE(text);
    const Result<Model> read = read_model(text, "m.yaml");
    if (!read) CAPTURE(read.error()[0].message);
    REQUIRE(read);
    CHECK(*read == wanted);
    // A second block of one sort is `dense-2`, a third `dense-3`; the first has no number.
    CHECK(text.find("-1:\n") == std::string::npos);
    CHECK(text.find("-0:\n") == std::string::npos);
    if (text.find("\ndense-3:\n") != std::string::npos) CHECK(text.find("\ndense-2:\n") != std::string::npos);
    CHECK(write_model(*read, seed % 2 == 0 ? "a source" : "") == text);
  }
}

TEST_CASE("no size that a layer computes with is nothing, in any section of a file") {
  const std::set<std::string> sizes{"heads",     "kv_heads", "head_dim", "key_heads",    "value_heads", "key_dim",
                                    "value_dim", "conv",     "kv_rank",  "state",        "groups",      "experts",
                                    "top_k",     "width",    "hidden",   "expert_width", "vocab",       "seq"};
  std::map<std::string, int> refused;
  for (unsigned seed = 0; seed < 300; ++seed) {
    Dice dice(seed);
    const std::string text = write_model(model(dice));
    for (std::size_t begin = 0, end; begin < text.size(); begin = end) {
      end = text.find('\n', begin) + 1;
      const std::string line = text.substr(begin, end - begin);
      const std::size_t first = line.find_first_not_of(" -"), colon = line.find(": ");
      const std::string key = colon == std::string::npos ? "" : line.substr(first, colon - first);
      if (!sizes.contains(key)) continue;
      CAPTURE(line);
      for (const char* none : {"0", "-1"})
        CHECK_FALSE(
            read_model(text.substr(0, begin) + line.substr(0, colon + 2) + none + "\n" + text.substr(end), "m"));
      ++refused[key];
    }
  }
  for (const std::string& key : sizes) {
    CAPTURE(key);
    CHECK(refused[key] > 0);
  }
}

TEST_CASE("a written model states nothing that its reader would assume") {
  int left_out = 0;
  for (unsigned seed = 0; seed < 100; ++seed) {
    Dice dice(seed);
    const Model wanted = model(dice);
    const std::string text = write_model(wanted);
    for (std::size_t begin = 0, end; begin < text.size(); begin = end) {
      end = text.find('\n', begin) + 1;
      const std::string line = text.substr(begin, end - begin);
      if (line[0] == ' ' || line.ends_with(":\n")) continue;  // a key of the model itself, and no section
      CAPTURE(line);
      const Result<Model> read = read_model(text.substr(0, begin) + text.substr(end), "m.yaml");
      CHECK_FALSE((read && *read == wanted));
      ++left_out;
    }
  }
  CHECK(left_out > 500);
}
