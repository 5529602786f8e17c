// What a symbol that is left out stands for: a factor of one, an addend of nought, or one of the facts written down
// here. Those are the course's and the vendors' numbers: H100 SXM's data sheet (989.5 TFLOP/s of dense 16-bit
// products, 3.35 TB/s, 132 multiprocessors of 128 cores, 80 GB), the 8 GPUs of its servers, DeepSeek-V3's config.json,
// and the bytes of formats.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "formulas/textbook/catalog.hpp"

namespace plan {
namespace {

/// A symbol of one meaning wherever it stands; `formula` tells apart two that share a name.
struct Fact {
  std::string_view symbol;
  double value;
  std::string_view formula = "";
};

constexpr double kFp32 = 4, kBf16 = 2, kNode = 8, kLaunch = 3e-6;

constexpr Fact kFacts[] = {
    {"peak", 989.5e12},
    {"C", 989.5e12, "gemm-roofline"},
    {"W", 3.35e12, "gemm-roofline"},
    {"M", 80, "cluster-memory"},
    {"SM", 132},
    {"c", 128, "cluster-cores"},
    {"r_q", 1536},
    {"r_kv", 512},
    {"d_n", 128},
    {"d_r", 64},
    {"d_v", 128},
    {"d_qk", 128},
    {"d", 128, "flops-palm"},
    {"d", 128, "attention-time"},
    {"M_n", 4},
    {"K", kNode},
    {"n_in", kNode},
    {"g", kNode, "tree-all-reduce-time"},
    {"g", kNode, "hierarchical-all-reduce-time"},
    {"g", kNode, "hierarchical-bound"},
    {"g", kNode, "flat-ring-all-reduce-time"},
    {"g", kFp32, "precision-aware"},
    {"w", kFp32, "precision-aware"},
    {"e_m", kFp32},
    {"e_v", kFp32},
    {"e_opt", 3 * kFp32},  // master weights and Adam's two moments
    {"g", kFp32, "ddp-traffic"},
    {"g", kFp32, "zero1-traffic"},
    {"g", kFp32, "zero2-traffic"},
    {"g", kFp32, "zero3-traffic"},
    {"g", kFp32, "fsdp-traffic-no-reshard"},
    {"g", kBf16, "megatron-fsdp-hybrid"},
    {"w", kBf16, "megatron-fsdp-hybrid"},
    {"g", kBf16, "hsdp-intra-traffic"},
    {"g", kBf16, "hsdp-inter-traffic"},
    {"g", kBf16, "fsdp-min-tokens"},
    {"e", kBf16, "gemm-roofline"},
    {"e", kBf16, "kv-cache"},
    {"e", kBf16, "ep-traffic"},
    {"e", kBf16, "ep-allgather-traffic"},
    {"e", kBf16, "ep-internode-traffic"},
    {"t_0", kLaunch},
    {"t_e", 3.6e-6},                  // what a grouped product adds for an expert
    {"n", 1, "memory-bound-time"},    // kernels
    {"e", 0.8, "memory-bound-time"},  // of the bandwidth is reached
    {"p", 0.62, "collective-time"},
    {"mfu", 0.4},
    {"f", 0.1, "micro-batches-for-bubble"},
    {"phi", 1},  // the whole optimizer is offloaded
    {"u", 1},    // all of the rated power is drawn
    {"x", 1, "recompute-overhead"},
};

/// What changes nothing: one rank, one sequence, one of everything; no time, no bytes, no share of what is lost.
double neutral(Domain domain) { return domain == Domain::Amount || domain == Domain::Share ? 0 : 1; }

TEST_CASE("a symbol that is left out changes nothing, or is a fact with a source") {
  std::size_t stated = 0;
  for (const CatalogEntry& entry : catalog())
    for (const Symbol& symbol : entry.symbols) {
      if (symbol.required()) continue;
      const auto names = [&](const Fact& fact) {
        return fact.symbol == symbol.name && (fact.formula.empty() || fact.formula == entry.formula.name);
      };
      const auto fact = std::find_if(std::begin(kFacts), std::end(kFacts), names);
      stated += fact != std::end(kFacts);
      CAPTURE(std::string(entry.formula.name));
      CAPTURE(std::string(symbol.name));
      CHECK(symbol.typical == (fact != std::end(kFacts) ? fact->value : neutral(symbol.domain)));
    }
  CHECK(stated >= std::size(kFacts));
}

}  // namespace
}  // namespace plan
