#pragma once

#include <span>

#include "formulas/textbook/catalog_entry.hpp"
#include "formulas/textbook/sources.hpp"

/// Money and energy of a run (plan-formulas(7) F7).
namespace plan {

struct GpuHoursInput {
  double gpus = 1;     ///< n
  double seconds = 0;  ///< T
};
inline constexpr Formula kGpuHours{"gpu-hours", "GPU-hours of a run", "n*T/3600", "GPU-hours", source::kDerived};
[[nodiscard]] constexpr GpuHours gpu_hours(const GpuHoursInput& in) { return GpuHours(in.gpus * in.seconds / 3600); }

struct CostInput {
  double gpu_hours = 0;  ///< H
  double price = 0;      ///< c
  double goodput = 1;    ///< G
};
inline constexpr Formula kCost{"cost",           "Price of a run",
                               "H*c/G",          "USD",
                               source::kDerived, "H: useful GPU-hours; the time lost to failures is paid as well."};
[[nodiscard]] constexpr Dollars run_cost(const CostInput& in) { return Dollars(in.gpu_hours * in.price / in.goodput); }

struct EnergyInput {
  double gpu_hours = 0;    ///< H
  double gpu_power = 0;    ///< P_gpu
  double utilisation = 1;  ///< u
  double host_power = 0;   ///< P_host
  double pue = 1;          ///< PUE
};
inline constexpr Formula kEnergy{
    "energy", "Electricity of a run", "H*(P_gpu*u + P_host)*PUE/1e6",
    "MWh",    source::kDerived,       "With the rated power alone 30.84 M hours of H100 take 21,588 MWh."};
[[nodiscard]] constexpr MegawattHours run_energy(const EnergyInput& in) {
  return MegawattHours(in.gpu_hours * (in.gpu_power * in.utilisation + in.host_power) * in.pue / 1e6);
}

[[nodiscard]] std::span<const CatalogEntry> cost_formulas();

}  // namespace plan
