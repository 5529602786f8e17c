// The catalog's table of cost and energy. Tested by tests/formulas/reliability_test.cpp.
#include "formulas/textbook/cost.hpp"

namespace plan {
namespace {

constexpr Symbol kGpuHoursSymbols[] = {{"n", "GPUs", "", kNoTypical, Domain::Count}, {"T", "time", "seconds"}};
constexpr Symbol kCostSymbols[] = {{"H", "useful GPU-hours", "GPU-hours"},
                                   {"c", "price of one GPU-hour", "USD"},
                                   {"G", "goodput", "", 1, Domain::Real}};
constexpr Symbol kEnergySymbols[] = {{"H", "GPU-hours", "GPU-hours"},
                                     {"P_gpu", "rated power of one GPU", "W"},
                                     {"u", "share of it drawn", "", 1, Domain::Share},
                                     {"P_host", "power of CPUs, NICs and fans for one GPU", "W", 0, Domain::Amount},
                                     {"PUE", "power usage effectiveness of the building", "", 1}};

constexpr CatalogEntry kEntries[] = {
    entry<gpu_hours>(kGpuHours, kGpuHoursSymbols),
    entry<run_cost>(kCost, kCostSymbols),
    entry<run_energy>(kEnergy, kEnergySymbols),
};

}  // namespace

std::span<const CatalogEntry> cost_formulas() { return kEntries; }

}  // namespace plan
