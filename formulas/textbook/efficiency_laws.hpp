#pragma once

#include <span>

#include "formulas/efficiency.hpp"
#include "formulas/textbook/catalog_entry.hpp"

/// The laws behind the planner's times as formulas on plain numbers; the functions call those of efficiency.hpp.
namespace plan::law {

struct GemmInput {
  double m = 0, n = 0, k = 0;
  double bytes = 0;      ///< B
  double floor = 0;      ///< t_0
  double rate = 1;       ///< F
  double bandwidth = 1;  ///< W
};
[[nodiscard]] Seconds gemm(const GemmInput& in);

struct GroupedGemmInput {
  double experts = 1, rows = 0, n = 0, k = 0;
  double bytes = 0;       ///< B
  double per_expert = 0;  ///< t_e
  double rate = 1;        ///< F
  double bandwidth = 1;   ///< W
};
[[nodiscard]] Seconds grouped_gemm(const GroupedGemmInput& in);

struct AttentionInput {
  double batch = 1, heads = 1, seq = 1, context = 1, dim = 128;
  double floor = 0;  ///< t_0
  double rate = 1;   ///< F
  double s0 = 0, b0 = 0, d0 = 0;
};
[[nodiscard]] Seconds attention(const AttentionInput& in);

struct MemoryInput {
  double bytes = 0, kernels = 1;
  double floor = 0;       ///< t_0
  double efficiency = 1;  ///< e
  double bandwidth = 1;   ///< W
};
[[nodiscard]] Seconds memory_bound(const MemoryInput& in);

struct CollectiveInput {
  double wire = 0;  ///< S_w
  double alpha = 0;
  double busbw = 1;  ///< W
  double p = 1;
};
[[nodiscard]] Seconds collective(const CollectiveInput& in);

[[nodiscard]] std::span<const CatalogEntry> efficiency_formulas();

}  // namespace plan::law
