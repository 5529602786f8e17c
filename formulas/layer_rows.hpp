#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>
#include <variant>

#include "formulas/layer_operators.hpp"
#include "formulas/layer_weights.hpp"
#include "formulas/layout.hpp"
#include "formulas/mask.hpp"
#include "formulas/model.hpp"
#include "formulas/traced.hpp"

/// All that is known of a mixer or a feed-forward, in one row each. The row and what it points to are in the file of
/// the mixer (mixer_*.cpp) or the feed-forward (ffn_*.cpp); formulas/model.hpp lists the rows. Nothing else in the
/// house asks which mixer a layer has, but for what one framework or one paper does with it.
namespace plan {

template <class V>
class Keeper;  // formulas/layer_trail.hpp
template <class V>
struct LayerSizes;

/// One key of a shape, as a model file states it.
struct ShapeField {
  enum class Need : std::uint8_t {
    Required,
    Optional,  ///< the shape's own default is what nobody states
    AsBefore,  ///< without it as many as of the field before it
  };
  std::string_view key;
  std::variant<std::int64_t& (*)(Layer&), bool& (*)(Layer&), QkNorm& (*)(Layer&)> of;
  double least = 0, most = 0;  ///< of a number
  Need need = Need::Optional;
  bool tokens = false;  ///< a number of tokens, written with its unit
};

inline constexpr double kMostHeads = 1e5, kMostWidth = 1e7, kMostRank = 1e6, kMostWindow = 1e9;

/// What mixers and feed-forwards have in common.
struct LayerPartRow {
  std::string_view name{};  ///< its section in a model file
  std::span<const ShapeField> fields{};
  void (*put)(Layer& to, const Layer& from) = nullptr;  ///< the part, with its shape
  void (*weights)(LayerWeights& out, std::int64_t h, const Layer& layer) = nullptr;
  void (*keep)(Keeper<double>& out, const LayerSizes<double>& n) = nullptr;  ///< beside the norms in front of it
  void (*traced_keep)(Keeper<Traced>& out, const LayerSizes<Traced>& n) = nullptr;

  template <class V>
  void keep_of(Keeper<V>& out, const LayerSizes<V>& n) const {
    if constexpr (std::is_same_v<V, double>)
      keep(out, n);
    else
      traced_keep(out, n);
  }
};

/// What a mixer computes without weights.
enum class MixerCore : std::uint8_t {
  None,
  Attention,  ///< every query against the keys before it, which context parallelism splits
  Scan,       ///< a state that passes from token to token: context ranks exchange their tokens for heads
};

/// Widths of queries, keys and values of one rank's attention; no attention: not `any`.
template <class V>
struct AttentionWidths {
  bool any = false, grouped = false;
  V heads = 0.0;
  V q = 0.0, k = 0.0, v = 0.0;
};

/// The widths of a mixer without attention: nothing.
template <class V>
AttentionWidths<V> no_attention(const Layer&, const V&) {
  return {};
}

/// Elements of a token that the scan of one tensor rank reads and writes, which context ranks exchange for heads.
template <class V>
struct ScanWidths {
  V in = 0.0, out = 0.0;
};

/// The widths of a mixer without a scan: nothing.
template <class V>
ScanWidths<V> no_scan(const Layer&, const V&, const V&) {
  return {};
}

/// A count of a core, which a template writes down once for numbers and for explanations, with its unit.
template <double (*Count)(const Layer&, double, Mask)>
Flops counted(const Layer& layer, double seq, Mask mask) {
  return Flops(Count(layer, seq, mask));
}

struct MixerRow {
  Mixer mixer;
  LayerPartRow part;
  MixerCore core;
  std::uint16_t graph = 0;    ///< GraphScope bit of the CUDA graph that it belongs to
  std::uint16_t stays = 0;    ///< OffloadModule bits of what surrounds it and never leaves the GPU
  std::uint16_t rebuilt = 0;  ///< RecomputeModule bits that have something of it to rebuild
  /// Numbers of heads that tensor ranks share evenly; 0: none.
  std::array<std::int64_t, 2> (*heads)(const Layer&);
  /// Heads of keys and values that groups of query heads share; 0: every head has its own.
  std::int64_t (*kv_heads)(const Layer&) = [](const Layer&) -> std::int64_t { return 0; };
  /// Forward FLOPs of a token in the core.
  Flops (*core_flops)(const Layer&, double seq, Mask);
  Traced (*traced_core_flops)(const Layer&, double seq, Mask);
  AttentionWidths<double> (*widths)(const Layer&, const double& t) = no_attention<double>;
  AttentionWidths<Traced> (*traced_widths)(const Layer&, const Traced& t) = no_attention<Traced>;
  /// What the scan of one of `t` tensor ranks exchanges for heads among `c` context ranks.
  ScanWidths<double> (*scan_widths)(const Layer&, const double& t, const double& c) = no_scan<double>;
  ScanWidths<Traced> (*traced_scan_widths)(const Layer&, const Traced& t, const Traced& c) = no_scan<Traced>;
  /// Whether cp context ranks can each take whole heads of what one of tp tensor ranks scans.
  bool (*spreads_scan)(const Layer&, std::int64_t tp, std::int64_t cp) = [](const Layer&, std::int64_t, std::int64_t) {
    return true;
  };
  void (*compute)(LayerOperators& out, const LayerOnRank& on);
};

struct FfnRow {
  Ffn ffn;
  LayerPartRow part;
};

/// The row of a mixer, of a feed-forward, and what runs in the core of a layer's mixer.
[[nodiscard]] inline const MixerRow& mixer_row(Mixer mixer) { return *kMixerRows[static_cast<std::size_t>(mixer)]; }
[[nodiscard]] inline const FfnRow& ffn_row(Ffn ffn) { return *kFfnRows[static_cast<std::size_t>(ffn)]; }
[[nodiscard]] inline MixerCore core_of(const Layer& layer) { return mixer_row(layer.mixer).core; }

/// All weights of a layer in whole elements, before any rank takes its share; norms around mixer and feed-forward last.
[[nodiscard]] LayerWeights layer_weights(const Model& model, const Layer& layer);

/// Keys that an average query sees, under a window or the top-k of sparse attention (0 = none).
template <class V>
V attended(const char* name, double seq, std::int64_t reach, Mask mask) {
  return symbol<V>(name, attended_tokens(seq, static_cast<double>(reach), mask),
                   "keys that an average query sees: half the sequence under the causal mask", "seq");
}

}  // namespace plan
