// What a mixer tells to be timed is the work that its FLOPs count: every product, every key that a query reaches, every
// scan, of every layer of every model preset.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "formulas/flops.hpp"
#include "formulas/layer_operators.hpp"
#include "formulas/layer_rows.hpp"
#include "formulas/layer_weights.hpp"
#include "formulas/parameters.hpp"
#include "formulas/transient.hpp"
#include "presets/reader.hpp"
#include "presets/yaml.hpp"

using namespace plan;

namespace {

/// Multiplies and adds by hand, of queries that see all keys.
class Counter final : public LayerOperators {
 public:
  Counter(double tokens, double seq) : tokens_(tokens), seq_(seq) {}
  LinearTime product(double tokens, double out, double in, std::uint16_t) override {
    linear += 2 * tokens * out * in;
    return {};
  }
  LinearTime products(double tokens, std::initializer_list<double> widths, double in, bool) override {
    for (const double out : widths) linear += 2 * tokens * out * in;
    return {};
  }
  void pointwise(const Pointwise& work) override {
    constexpr double kPass = 2 + 2;  // 16 bits read and 16 written
    const std::string what = work.what;
    CAPTURE(what);
    if (what.find("norm") != std::string::npos) {
      CHECK(work.forward == kPass);
      CHECK(work.backward == kPass + 2);  // the input is read once more, beside the gradient
    } else {                              // to turn and to join are linear: their gradients move as much as they do
      CHECK(work.forward == (what.find(" and ") == std::string::npos ? 1 : 2) * kPass);
      CHECK(work.backward == work.forward);
    }
  }
  void attention(const AttentionCore& core) override {
    double keys = seq_;
    if (core.window > 0) keys = std::min(keys, static_cast<double>(core.window));
    if (core.top_k > 0) keys = std::min(keys, static_cast<double>(core.top_k));
    this->core += 2 * tokens_ * core.heads * (core.qk_dim + core.v_dim) * keys;
  }
  void scan(const ScanCore& scan) override { core += scan.flops.value, scanned += scan.width; }
  void messages(double, double, const LinearTime&) override {}

  double linear = 0, core = 0, scanned = 0;

 private:
  double tokens_, seq_;
};

/// Taps of the convolution in front of a scan, as a model file states them.
double taps_of(Layer layer) {
  for (const ShapeField& field : mixer_row(layer.mixer).part.fields)
    if (field.key == "conv") return static_cast<double>(std::get<std::int64_t& (*)(Layer&)>(field.of)(layer));
  return 1;
}
}  // namespace

TEST_CASE("operators are timed for the FLOPs that are counted, in every layer of every preset") {
  constexpr double kTokens = 4096;
  int layers = 0;
  for (const auto& file : std::filesystem::directory_iterator(PLAN_SOURCE_DIR "/presets/models")) {
    const std::string name = file.path().stem().string();
    const Result<std::string> text = yaml::read_text(file.path().string());
    REQUIRE(text);
    const Result<Model> model = read_model(*text, name);
    REQUIRE(model);
    for (const Layer& layer : model->kinds)
      for (const double seq : {1024.0, 8192.0, 131072.0}) {
        CAPTURE(name);
        CAPTURE(seq);
        Counter counter(kTokens, seq);
        const Training training;
        const LayerOnRank on{*model, training, layer, static_cast<double>(model->hidden), 1, 1, kTokens, kTokens};
        mixer_row(layer.mixer).compute(counter, on);
        const LayerFlops flops = layer_flops(*model, layer, seq, Mask::Full);
        CHECK(counter.linear == doctest::Approx(kTokens * flops.mixer.value).epsilon(0.01));
        // What is scanned has passed the convolution, whose weights are `conv` a channel, of Mamba-2 with a bias.
        double channels = 0;
        for (const Weight& w : layer_weights(*model, layer))
          if (w.what == std::string_view("convolution"))
            channels += static_cast<double>(w.out) / (taps_of(layer) + (layer.mixer == Mixer::Mamba2 ? 1 : 0));
        CHECK(counter.scanned == channels);
        // The convolution is priced by its bytes; of a delta rule, its multiplies and adds are counted all the same.
        const double taps = layer.mixer == Mixer::DeltaNet ? 2 * taps_of(layer) * channels : 0;
        CHECK(counter.core + kTokens * taps == doctest::Approx(kTokens * flops.core.value).epsilon(1e-9));
        ++layers;
      }
  }
  CHECK(layers > 300);
}

TEST_CASE("linears of a layer hold all of its matrices") {
  int layers = 0;
  for (const auto& file : std::filesystem::directory_iterator(PLAN_SOURCE_DIR "/presets/models")) {
    const std::string name = file.path().stem().string();
    const Result<Model> model = read_model(*yaml::read_text(file.path().string()), name);
    REQUIRE(model);
    for (const Layer& layer : model->kinds) {
      CAPTURE(name);
      const LayerParameters all = layer_parameters(*model, layer);
      const double whole = static_cast<double>(all.total());
      const double linears = linear_shapes(*model, layer, Layout{}).numel();
      // Norms, biases, convolutions and a router are vectors, or small.
      CHECK(linears >= 0.97 * whole);
      std::int64_t matrices = 0;  // products that run as one are one shape, of both their rows
      for (const Weight& w : layer_weights(*model, layer))
        if (w.matrix() && w.linear) matrices += (w.out + w.kv_out) * w.in * (w.expert() ? layer.moe.experts : 1);
      CHECK(linears == static_cast<double>(matrices));
      CHECK(linears <= whole);
      ++layers;
    }
  }
  CHECK(layers > 100);
}
