// What frameworks print about a step, as data: the words before each number and the unit they mean. Each row names the
// source file of the framework that prints it. Tested by tests/logs/log_test.cpp.
#include "cli/logs/log_keys.hpp"

#include "formulas/units.hpp"

namespace plan {
namespace {

// megatron/training/training.py: training_log(); Megatron-Bridge prints the same line.
constexpr LogKey kMegatron[] = {{"elapsed time per iteration (ms):", LogFigure::StepTime, 1e-3},
                                {"throughput per GPU (TFLOP/s/GPU):", LogFigure::TflopsPerGpu},
                                {"global batch size:", LogFigure::GlobalBatch},
                                {"loss scale:", LogFigure::LossScale},
                                {"number of skipped iterations:", LogFigure::Skipped},
                                {"number of nan iterations:", LogFigure::NotNumber},
                                {"hip mem usage/free/total/usage_ratio:", LogFigure::Device, kGiB}};  // Primus
// Megatron-DeepSpeed before 2024 prints TFLOPs and samples in its own words.
constexpr LogKey kMegatronDeepSpeed[] = {{"elapsed time per iteration (ms):", LogFigure::StepTime, 1e-3},
                                         {"TFLOPs:", LogFigure::TflopsPerGpu},
                                         {"global batch size:", LogFigure::GlobalBatch},
                                         {"loss scale:", LogFigure::LossScale},
                                         {"number of skipped iterations:", LogFigure::Skipped},
                                         {"number of nan iterations:", LogFigure::NotNumber}};
// megatron/training/utils.py: report_memory(); its MB are 2^20 bytes.
constexpr LogKey kMegatronMemory[] = {{"max allocated:", LogFigure::Allocated, kMiB},
                                      {"max reserved:", LogFigure::Reserved, kMiB}};
// Megatron-Bridge and later Megatron-LM: report_memory() of training/utils; its gigabytes are 10^9 bytes.
constexpr LogKey kMemoryGigabytes[] = {{"mem-max-allocated-gigabytes:", LogFigure::Allocated, 1e9},
                                       {"mem-max-reserved-gigabytes:", LogFigure::Reserved, 1e9},
                                       {"mem-alloc-retires:", LogFigure::AllocatorRetries}};
// Megatron-Bridge's perf line: "Step Time : 5.43s GPU utilization: 412.3MODEL_TFLOP/s/GPU".
constexpr LogKey kBridge[] = {{"Step Time :", LogFigure::StepTime}, {"GPU utilization:", LogFigure::TflopsPerGpu}};
// torchtitan/components/metrics.py: MetricsProcessor.log(); tps is of one device.
constexpr LogKey kTorchtitan[] = {{"memory:", LogFigure::Reserved, kGiB},
                                  {"tps:", LogFigure::TokensPerSecondGpu},
                                  {"wps:", LogFigure::TokensPerSecondGpu},
                                  {"tflops:", LogFigure::TflopsPerGpu},
                                  {"mfu:", LogFigure::Mfu, 0.01}};
// deepspeed/utils/timer.py: ThroughputTimer; GB are 2^30 bytes.
constexpr LogKey kDeepSpeed[] = {{"CurrSamplesPerSec=", LogFigure::SamplesPerSecond},
                                 {"MaxMemAllocated=", LogFigure::Allocated, kGiB}};
// deepspeed/runtime/engine.py: _report_progress(), counted from the start.
constexpr LogKey kDeepSpeedSkipped[] = {{"skipped=", LogFigure::SkippedSoFar}};
// deepspeed/runtime/utils.py: see_memory_usage().
constexpr LogKey kDeepSpeedMemory[] = {{"Max_MA", LogFigure::Allocated, kGiB}, {"Max_CA", LogFigure::Reserved, kGiB}};
// deepspeed/runtime/pipe/engine.py: train_batch().
constexpr LogKey kDeepSpeedPipe[] = {{"iter time (s):", LogFigure::StepTime},
                                     {"samples/sec:", LogFigure::SamplesPerSecond}};
// MaxText/metric_logger.py.
constexpr LogKey kMaxText[] = {{"seconds:", LogFigure::StepTime},
                               {"TFLOP/s/device:", LogFigure::TflopsPerGpu},
                               {"Tokens/s/device:", LogFigure::TokensPerSecondGpu}};
// nemo/lightning and NeMo 1: progress printer.
constexpr LogKey kNemo[] = {{"train_step_timing in s:", LogFigure::StepTime},
                            {"train_step_timing in s=", LogFigure::StepTime},
                            {"global_batch_size:", LogFigure::GlobalBatch},
                            {"TFLOPS_per_GPU:", LogFigure::TflopsPerGpu}};
// verl/trainer: the update of the actor is its training step.
constexpr LogKey kVerlLog[] = {{"timing_s/update_actor:", LogFigure::StepTime},
                               {"perf/max_memory_allocated_gb:", LogFigure::Allocated, kGiB},
                               {"perf/max_memory_reserved_gb:", LogFigure::Reserved, kGiB}};
// nanotron/trainer.py: train_step_logs(); numbers end in K, M or G.
constexpr LogKey kNanotron[] = {{"elapsed_time_per_iteration_ms:", LogFigure::StepTime, 1e-3},
                                {"time_per_iteration_ms:", LogFigure::StepTime, 1e-3},
                                {"tokens_per_sec_per_gpu:", LogFigure::TokensPerSecondGpu},
                                {"global_batch_size:", LogFigure::BatchOfEither},
                                {"model_tflops_per_gpu:", LogFigure::TflopsPerGpu}};
// nanotron/utils.py: log_memory().
constexpr LogKey kNanotronMemory[] = {{"Peak allocated", LogFigure::Allocated, kMiB},
                                      {"Peak allocated:", LogFigure::Allocated, kMiB},  // nanotron/trainer.py
                                      {"Peak reserved:", LogFigure::Reserved, kMiB}};
// transformers/trainer.py: speed_metrics(); one line at the end of a run, and once more in a table.
constexpr LogKey kTrainer[] = {{"'train_samples_per_second':", LogFigure::SamplesPerSecond},
                               {"train_samples_per_second  ", LogFigure::SamplesPerSecond},
                               {"'train_tokens_per_second':", LogFigure::TokensPerSecond}};
// LLaMA-Factory, train/callbacks.py: LogCallback.on_log(); tokens of all ranks over the time since the start.
constexpr LogKey kLlamaFactoryLog[] = {{"'throughput':", LogFigure::TokensPerSecondSoFar}};
// The same callback's trainer_log.jsonl, whose every line says how far the run is.
constexpr LogKey kLlamaFactoryFile[] = {{"\"throughput\":", LogFigure::TokensPerSecondSoFar},
                                        {"\"vram_allocated\":", LogFigure::Allocated, kGiB},
                                        {"\"vram_reserved\":", LogFigure::Reserved, kGiB}};
// torchtune/training/metric_logging.py: its loggers write key:value pairs behind "Step N |".
constexpr LogKey kTorchtune[] = {{"tokens_per_second_per_gpu:", LogFigure::TokensPerSecondGpu},
                                 {"peak_memory_alloc:", LogFigure::Allocated, kGiB},
                                 {"peak_memory_reserved:", LogFigure::Reserved, kGiB}};
// OLMo-core/train/callbacks: speed_monitor.py and gpu_memory_monitor.py, one figure a line under the step's.
constexpr LogKey kOlmoCore[] = {{"throughput/device/TPS=", LogFigure::TokensPerSecondGpu}};
constexpr LogKey kOlmoCoreMemory[] = {{"gpu_memory/GPU reserved mem (GiB)=", LogFigure::Reserved, kGiB}};
// OLMo/olmo/train.py: SpeedMonitor.check() and peak_gpu_memory() of olmo/torch_util.py, whose MB are 10^6 bytes.
constexpr LogKey kOlmo[] = {{"throughput/device/tokens_per_second=", LogFigure::TokensPerSecondGpu}};
constexpr LogKey kOlmoMemory[] = {{"System/Peak GPU Memory (MB)=", LogFigure::Allocated, 1e6}};
// composer/callbacks/speed_monitor.py and memory_monitor.py, which LLM Foundry runs; gigabytes are 10^9 bytes.
constexpr LogKey kComposerTokens[] = {{"throughput/device/tokens_per_sec:", LogFigure::TokensPerSecondGpu}};
constexpr LogKey kComposerSamples[] = {{"Train throughput/samples_per_sec:", LogFigure::SamplesPerSecond}};
constexpr LogKey kComposerAllocated[] = {{"memory/peak_allocated_mem:", LogFigure::Allocated, 1e9}};
constexpr LogKey kComposerReserved[] = {{"memory/peak_reserved_mem:", LogFigure::Reserved, 1e9}};
// internlm/train/pipeline.py: record_current_batch_training_metrics(), of all ranks the one that logs.
constexpr LogKey kInternEvo[] = {{"tgs (tokens/gpu/second)=", LogFigure::TokensPerSecondGpu},
                                 {"tflops=", LogFigure::TflopsPerGpu}};

constexpr LogLine kLines[] = {
    {"Megatron-DeepSpeed", "| TFLOPs:", kMegatronDeepSpeed},
    {"Megatron-LM", "elapsed time per iteration (ms):", kMegatron},
    {"Megatron-LM", "mem-max-allocated-gigabytes:", kMemoryGigabytes, false},
    {"Megatron-LM", "max allocated:", kMegatronMemory, false},
    {"Megatron-Bridge", "Step Time :", kBridge},
    {"torchtitan", "tps:", kTorchtitan, true, "validate", "step:"},
    {"torchtitan", "wps:", kTorchtitan, true, "validate", "step:"},
    {"DeepSpeed", "CurrSamplesPerSec=", kDeepSpeed},
    {"DeepSpeed", "iter time (s):", kDeepSpeedPipe},
    {"DeepSpeed", ", skipped=", kDeepSpeedSkipped, false},
    {"DeepSpeed", "Max_MA", kDeepSpeedMemory, false},
    {"MaxText", "completed step:", kMaxText, true, "Rampup", "completed step:"},
    {"NeMo", "train_step_timing in s", kNemo},
    {"verl", "timing_s/update_actor:", kVerlLog},
    {"nanotron", "time_per_iteration_ms:", kNanotron},
    {"nanotron", "Peak reserved:", kNanotronMemory, false},
    {"torchtune", "tokens_per_second_per_gpu:", kTorchtune},
    {"LLaMA-Factory", "'throughput':", kLlamaFactoryLog},
    {"LLaMA-Factory", "\"current_steps\":", kLlamaFactoryFile},
    {"Trainer", "train_samples_per_second", kTrainer},
    {"OLMo-core", "throughput/device/TPS=", kOlmoCore},
    {"OLMo-core", "gpu_memory/GPU reserved mem (GiB)=", kOlmoCoreMemory, false},
    {"OLMo", "throughput/device/tokens_per_second=", kOlmo},
    {"OLMo", "System/Peak GPU Memory (MB)=", kOlmoMemory, false},
    {"Composer", "throughput/device/tokens_per_sec:", kComposerTokens},
    {"Composer", "Train throughput/samples_per_sec:", kComposerSamples},
    {"Composer", "memory/peak_allocated_mem:", kComposerAllocated, false},
    {"Composer", "memory/peak_reserved_mem:", kComposerReserved, false},
    {"InternEvo", "tgs (tokens/gpu/second)=", kInternEvo},
};

// Megatron-LM: the last lines of pretrain(); Hugging Face's Trainer; torchtitan; Lightning; nanotron and MaxText end
// without a word.
constexpr std::string_view kEnds[] = {"[after training is done]", "Training completed",
                                      "`Trainer.fit` stopped:", "'train_runtime':"};

}  // namespace

std::span<const std::string_view> end_words() { return kEnds; }

std::span<const LogLine> log_lines() { return kLines; }

}  // namespace plan
