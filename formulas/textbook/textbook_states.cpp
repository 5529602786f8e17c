// The catalog's table of model-state formulas. Tested by tests/formulas/equations_test.cpp and
// textbook_memory_test.cpp.
#include "formulas/textbook/textbook_states.hpp"

namespace plan::textbook {
namespace {

constexpr Symbol kP{"P", "parameters on the rank, after tensor and pipeline parallelism", "parameters"};
constexpr Symbol kD{"d", "ranks that share the states: dp * cp, for experts the expert data-parallel ranks", "", 1,
                    Domain::Count};

constexpr Symbol kUnsharded[] = {kP};
constexpr Symbol kSharded[] = {kP, kD};
constexpr Symbol kRanks[] = {kD};
constexpr Symbol kHsdp[] = {kP, {"K", "ranks that share one copy of the states", "", 8, Domain::Count}};
constexpr Symbol kAware[] = {kP,
                             kD,
                             {"g", "bytes of a gradient", "bytes", 4},
                             {"w", "bytes of a master weight", "bytes", 4, Domain::Amount},
                             {"e_m", "bytes of a first moment", "bytes", 4, Domain::Amount},
                             {"e_v", "bytes of a second moment", "bytes", 4, Domain::Amount}};
constexpr Symbol kInstances[] = {kP, kD, {"n_i", "instances of the optimizer", "", 1, Domain::Count}};
constexpr Symbol kDeepSpeed3[] = {kP, kD, {"P_max", "parameters of the largest layer", "parameters"}};
constexpr Symbol kHybrid[] = {kP,
                              {"n_in", "inner ranks", "", 8, Domain::Count},
                              {"n_out", "outer ranks", "", 1, Domain::Count},
                              {"e_opt", "bytes of optimizer states a parameter", "bytes", 12},
                              {"g", "bytes of a gradient", "bytes", 2},
                              {"w", "bytes of a weight", "bytes", 2}};
constexpr Symbol kBlock[] = {{"P_b", "parameters of one wrapped block", "parameters"}};
constexpr Symbol kMatrix[] = {{"r", "rows", "", kNoTypical, Domain::Count},
                              {"c", "columns", "", kNoTypical, Domain::Count}};
constexpr Symbol kOffload[] = {{"phi", "offloaded share of the optimizer", "", 1, Domain::Share},
                               kP,
                               kD,
                               {"W_host", "host link, per direction", "bytes/s"}};
constexpr Symbol kHost[] = {{"phi", "offloaded share of the optimizer", "", 1, Domain::Share},
                            kP,
                            kD,
                            {"g", "ranks of one host", "", 1, Domain::Count}};
constexpr Symbol kCluster[] = {{"n", "GPUs", "", kNoTypical, Domain::Count}, {"M", "memory of one GPU", "GB", 80}};

constexpr CatalogEntry kEntries[] = {
    entry<weights_16>(kWeights16, kUnsharded),
    entry<states_16>(kStates16, kUnsharded),
    entry<states_12>(kStates12, kUnsharded),
    entry<zero1_states>(kZero1States, kSharded),
    entry<zero2_states>(kZero2States, kSharded),
    entry<zero3_states>(kZero3States, kSharded),
    entry<ddp_elements>(kDdpElements, kUnsharded),
    entry<zero1_elements>(kZero1Elements, kSharded),
    entry<zero2_elements>(kZero2Elements, kSharded),
    entry<zero3_elements>(kZero3Elements, kSharded),
    entry<zero1_saving>(kZero1Saving, kRanks,
                        erratum<zero1_saving_course>("CS336 lecture 7 notes, p. 26", "0.75",
                                                     "The limit for many ranks; 16-byte accounting only.")),
    entry<zero1_factor>(kZero1Factor, kRanks,
                        erratum<zero1_factor_course>(source::kCourseLab0, "4", "The limit for many ranks.")),
    entry<zero2_factor>(kZero2Factor, kRanks,
                        erratum<zero2_factor_course>(source::kCourseLab0, "8", "The limit for many ranks.")),
    entry<megatron_saving>(
        kMegatronSaving, kRanks,
        erratum<zero1_saving_course>("CS336 lecture 7 notes, p. 26", "0.75",
                                     "With fp32 gradients 6 of 18 bytes stay on every rank: two thirds at most.")),
    entry<megatron_states>(kMegatronStates, kUnsharded),
    entry<megatron_distributed>(kMegatronDistributed, kSharded),
    entry<megatron_fp16>(kMegatronFp16, kUnsharded),
    entry<megatron_fp16_distributed>(kMegatronFp16Distributed, kSharded),
    entry<megatron_fp32>(kMegatronFp32, kUnsharded),
    entry<megatron_fp32_distributed>(kMegatronFp32Distributed, kSharded),
    entry<megatron_bf16_grads>(kMegatronBf16Grads, kSharded),
    entry<megatron_bf16_grads_step>(kMegatronBf16GradsStep, kSharded),
    entry<precision_aware_states>(kPrecisionAware, kAware),
    entry<megatron_instances>(kMegatronInstances, kInstances),
    entry<deepspeed_zero2>(kDeepSpeedZero2, kSharded),
    entry<deepspeed_zero3>(kDeepSpeedZero3, kDeepSpeed3),
    entry<fsdp2_states>(kFsdp2States, kSharded),
    entry<hsdp_states>(kHsdpStates, kHsdp),
    entry<hybrid_fsdp>(kHybridFsdp, kHybrid),
    entry<fsdp2_forward>(kFsdp2Forward, kBlock),
    entry<fsdp2_backward>(kFsdp2Backward, kBlock),
    entry<checkpoint_size>(kCheckpointSize, kUnsharded),
    entry<adam_8bit>(kAdam8bit, kUnsharded),
    entry<adafactor>(kAdafactor, kMatrix),
    entry<fp8_weight_cache>(kFp8Weights, kUnsharded),
    entry<offload_time>(kOffloadTime, kOffload),
    entry<host_step_time>(kHostStep, kHost),
    entry<cluster_memory>(kClusterMemory, kCluster,
                          erratum<cluster_memory_course>(source::kCourseLecture9, "n*M/1024^2",
                                                         "Decimal GB divided by 1024^2 is neither PB nor PiB: 24,576 "
                                                         "GPUs of 80 GB hold 1.966 PB, not 1.875.")),
};

}  // namespace

std::span<const CatalogEntry> state_formulas() { return kEntries; }

}  // namespace plan::textbook
