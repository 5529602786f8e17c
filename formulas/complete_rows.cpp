// Every enumeration that has rows or words has one for each of its values.
#include "formulas/enum_rows.hpp"
#include "formulas/model.hpp"
#include "formulas/names.hpp"

namespace plan {
namespace {

constexpr std::size_t kUnknown = 1;  // the value without a word, the first

static_assert(kRowForEach<Mixer, std::size(kMixerRows)>);
static_assert(kRowForEach<Ffn, std::size(kFfnRows)>);
static_assert(kRowForEach<Schedule, std::size(kScheduleRows)>);
static_assert(kRowForEach<AxisOrder, std::size(kAxisOrderNames)>);
static_assert(kRowForEach<CpKind, std::size(kCpKindNames)>);
static_assert(kRowForEach<Precision, std::size(kPrecisionNames)>);
static_assert(kRowForEach<DType, std::size(kDTypeNames)>);
static_assert(kRowForEach<Optimizer, std::size(kOptimizerNames)>);
static_assert(kRowForEach<Task, std::size(kTaskNames)>);
static_assert(kRowForEach<Collective, std::size(kCollectiveNames)>);
static_assert(kRowForEach<Architecture, kUnknown + std::size(kArchitectureNames)>);
static_assert(kRowForEach<CollectiveLibrary, kUnknown + std::size(kCollectiveLibraryNames)>);
static_assert(kRowForEachBit<RecomputeModule, std::size(kRecomputeModuleNames)>);
static_assert(kRowForEachBit<GraphScope, std::size(kGraphScopeNames)>);
static_assert(kRowForEachBit<OffloadModule, std::size(kOffloadModuleNames)>);

}  // namespace
}  // namespace plan
