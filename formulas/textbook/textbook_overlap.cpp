// The catalog's table of exposed communication. Tested by tests/formulas/equations_test.cpp.
#include "formulas/textbook/textbook_overlap.hpp"

namespace plan::textbook {
namespace {

constexpr Symbol kReduce{"T_RS", "reduce-scatter of the gradients", "seconds", 0, Domain::Amount};
constexpr Symbol kGradientOverlap[] = {kReduce,
                                       {"T_B", "backward of the last micro-batch", "seconds"},
                                       {"x", "share of the SMs that communication takes", "", 0, Domain::Share},
                                       {"T_last", "reduction of the last bucket", "seconds", 0, Domain::Amount}};
constexpr Symbol kBlockOverlap[] = {
    {"T_AG", "all-gather of a block's weights", "seconds"}, kReduce, {"T_B", "compute of the block", "seconds"}};
constexpr Symbol kGatherOverlap[] = {{"T_AG", "all-gather of the weights", "seconds"},
                                     {"T_F", "forward of the first micro-batch", "seconds"},
                                     {"T_first", "gather of the first bucket", "seconds", 0, Domain::Amount}};
constexpr Symbol kPair[] = {{"F", "forward compute", "seconds"},
                            {"B", "backward compute", "seconds"},
                            {"C_F", "forward all-to-alls", "seconds"},
                            {"C_B", "backward all-to-alls", "seconds"}};

constexpr CatalogEntry kEntries[] = {
    entry<exposed_gather>(kExposedGather, kGatherOverlap),
    entry<exposed_reduce>(kExposedReduce, kGradientOverlap),
    entry<exposed_block>(kExposedBlock, kBlockOverlap),
    entry<pair_time>(kPairTime, kPair),
};

}  // namespace

std::span<const CatalogEntry> overlap_formulas() { return kEntries; }

}  // namespace plan::textbook
