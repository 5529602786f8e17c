// Logs written here in the words of each framework, with figures known beforehand; and logs cut, coloured, prefixed and
// made of random bytes.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <zlib.h>

#include <fstream>
#include <functional>
#include <random>
#include <sstream>

#include "cli/logs/log_read.hpp"
#include "must_read.hpp"
#include "tests/temporary_folder.hpp"

using namespace plan;

namespace {

/// What a dialect prints of one step.
struct Dialect {
  const char* name;
  std::function<std::string(int step, double seconds, double gib)> line;
  LogFigure speed;
  double work;  ///< speed * seconds; 0: the time itself is printed
  bool memory;
  LogFigure kind = LogFigure::Reserved;
};

const Dialect kDialects[] = {
    {"Megatron-LM",
     [](int i, double s, double g) {
       return fmt::format(
           " [2026-03-01 10:00:00.123456] iteration {:8}/  500000 | consumed samples: {:12} | elapsed time per "
           "iteration "
           "(ms): {:.1f} | throughput per GPU (TFLOP/s/GPU): 401.5 | learning rate: 1.500000E-04 | global batch size:  "
           " "
           "256 | lm loss: 2.345678E+00 | loss scale: 1.0 | grad norm: 1.234 | number of skipped iterations:   0 | "
           "number of nan iterations:   0 |\n[Rank 0] (after {} iterations) memory (MB) | allocated: 100.5 | max "
           "allocated: {:.4f} | reserved: 9.0 | max reserved: 5.0",
           i, i * 256, s * 1e3, i, g * 1024);
     },
     LogFigure::StepTime, 0, true, LogFigure::Allocated},
    {"Megatron-DeepSpeed",
     [](int i, double s, double) {
       return fmt::format(
           " iteration {:8}/  115311 | consumed samples: {:12} | consumed tokens: {:14} | elapsed time per iteration "
           "(s): "
           "{:.2f} | elapsed time per iteration (ms): {:.1f} | learning rate: 6E-05 | global batch size:  2048 | lm "
           "loss: "
           "2.1 | loss scale: 1.0 | samples per second: 19.4 | TFLOPs: 149.77 |",
           i, i, i, s, s * 1e3);
     },
     LogFigure::StepTime, 0, false},
    {"Megatron-Bridge",
     [](int, double s, double) {
       return fmt::format("Step Time : {:.4f}s GPU utilization: 812.3MODEL_TFLOP/s/GPU", s);
     },
     LogFigure::StepTime, 0, false},
    {"torchtitan",
     [](int i, double s, double g) {
       return fmt::format(
           "\x1b[32m[titan] 2026-02-01 12:00:00,123 - root - INFO - \x1b[31mstep: {:2}  \x1b[32mloss:  8.1234  "
           "\x1b[38;2;180;60;0mgrad_norm:  1.2000  \x1b[38;2;54;234;195mmemory: {:.4f}GiB(61.05%)  \x1b[34mtps: "
           "{},{:03}  \x1b[36mtflops: 400.12  \x1b[35mmfu: 40.46%\x1b[39m",
           i, g, static_cast<int>(16384 / s) / 1000, static_cast<int>(16384 / s) % 1000);
     },
     LogFigure::TokensPerSecondGpu, 16384, true},
    {"DeepSpeed",
     [](int i, double s, double g) {
       return fmt::format(
           "[2026-02-01 12:00:00,123] [INFO] [timer.py:264:stop] epoch=0/micro_step={}/global_step={}, "
           "RunningAvgSamplesPerSec=9.1, CurrSamplesPerSec={:.6f}, MemAllocated=10.2GB, MaxMemAllocated={:.4f}GB",
           i * 4, i, 64 / s, g);
     },
     LogFigure::SamplesPerSecond, 64, true, LogFigure::Allocated},
    {"MaxText",
     [](int i, double s, double) {
       return fmt::format(
           "completed step: {}, seconds: {:.3f}, TFLOP/s/device: 201.312, Tokens/s/device: {:.3f}, "
           "total_weights: 65536, loss: 9.123",
           i, s, 8192 / s);
     },
     LogFigure::StepTime, 0, false},
    {"NeMo",
     [](int i, double s, double) {
       return fmt::format(
           "Training epoch 0, iteration {}/99 | lr: 0.0003 | global_batch_size: 128 | global_step: {} | "
           "reduced_train_loss: 10.5 | train_step_timing in s: {:.3f} | consumed_samples: 1280",
           i, i, s);
     },
     LogFigure::StepTime, 0, false},
    {"verl",
     [](int i, double s, double g) {
       return fmt::format(
           "(TaskRunner pid=1) step:{} - actor/pg_loss:0.1 - timing_s/gen:45.1 - timing_s/update_actor:{:.3f} "
           "- timing_s/step:99.1 - perf/max_memory_allocated_gb:10.0 - perf/max_memory_reserved_gb:{:.4f} - "
           "perf/throughput:1234.5",
           i, s, g);
     },
     LogFigure::StepTime, 0, true},
    {"nanotron",
     [](int i, double s, double) {
       return fmt::format(
           "02/01/2026 12:00:00 [INFO|DP=0|PP=0|TP=0|node]: iteration: {} / 100 | consumed_tokens: 1.31M | "
           "elapsed_time_per_iteration_ms: {:.4f}K | tokens_per_sec: 109K | tokens_per_sec_per_gpu: 13.6K | "
           "global_batch_size: 64 | lm_loss: 10.2 | lr: 1e-4 | model_tflops_per_gpu: 120",
           i, s);
     },
     LogFigure::StepTime, 0, false},
    // Primus prints each figure beside its mean, and what is taken of an AMD device.
    {"Megatron-LM",
     [](int i, double s, double) {
       return fmt::format(
           " iteration {:8d}/{:8d} | consumed samples: {:12d} | elapsed time per iteration (ms): {:.1f}/{:.1f} | hip "
           "mem usage/free/total/usage_ratio: {:.2f}GB/{:.2f}GB/{:.2f}GB/{:.2f}% | throughput per GPU (TFLOP/s/GPU): "
           "{:.1f}/{:.1f} | tokens per GPU (tokens/s/GPU): {:.1f}/{:.1f} | global batch size: {:5d} |",
           i, 100, i * 256, s * 1e3, 1e3, 150.25, 41.75, 192.0, 78.0, 500.0, 480.0, 9000.0, 8900.0, 256);
     },
     LogFigure::StepTime, 0, false},
    {"Megatron-Bridge",
     [](int i, double s, double g) {
       return fmt::format(
           "Step Time : {:.2f}s GPU utilization: {:.1f}MODEL_TFLOP/s/GPU\np4/0 [Rank 1] (after {} iterations) memory "
           "(GB) | mem-allocated-gigabytes: 1.5 | mem-max-allocated-gigabytes: 9.9 | mem-max-reserved-gigabytes: "
           "{:.5g} | mem-alloc-retires: 0",
           s, 412.3, i, g * 1.073741824);
     },
     LogFigure::StepTime, 0, true},
    // Validation prints the same words of a step that is none, and ramp-up steps are of smaller batches.
    {"torchtitan",
     [](int i, double s, double g) {
       return fmt::format(
           "step: {:2}  loss: {:7.4f}  grad_norm: {:7.4f}  memory: {:.5g}GiB({:.2f}%)  tps: {:d}  tflops: {:.2f}  mfu: "
           "{:.2f}%\nvalidate step: {:2}  loss: {:7.4f}  memory: {:5.2f}GiB({:.2f}%)  tps: {:d}",
           i, 5.0, 1.0, g, 70.0, static_cast<int>(16384 / s), 400.0, 40.0, i, 5.0, 1.0, 2.0, 99999);
     },
     LogFigure::TokensPerSecondGpu, 16384, true},
    {"MaxText",
     [](int i, double s, double) {
       return fmt::format(
           "[Rampup Batch Size Phase], completed step: {}, seconds: {:.3f}, total_weights: 1, loss: 9.1\ncompleted "
           "step: "
           "{}, seconds: {:.3f}, TFLOP/s/device: {:.3f}, Tokens/s/device: {:.3f}, total_weights: 65536, loss: 9.123",
           i, 0.5, i, s, 201.3, 8192 / s);
     },
     LogFigure::StepTime, 0, false},
    {"torchtune",
     [](int i, double s, double g) {
       return fmt::format(
           "Step {} | loss:{} lr:{} tokens_per_second_per_gpu:{} peak_memory_active:{} peak_memory_alloc:1.0 "
           "peak_memory_reserved:{}",
           i, 2.5, 2e-5, 4096 / s, 30.0, g);
     },
     LogFigure::TokensPerSecondGpu, 4096, true},
    // Every rank prints the step, and only the fullest one its memory.
    {"torchtitan",
     [](int i, double s, double g) {
       std::string ranks;
       for (int rank = 0; rank < 8; ++rank)
         ranks += fmt::format(
             "[rank{}]:[titan] 2026-02-24 19:46:17,508 - root - INFO - step: {:2}  loss:  7.6  memory: {:.5g}GiB(40%)  "
             "tps: {:d}  tflops: 314.7  mfu: 13.99%\n",
             rank, i, rank == 5 ? g : g / 2, static_cast<int>(16384 / s * (rank == 0 ? 1 : 3)));
       return ranks;
     },
     LogFigure::TokensPerSecondGpu, 16384, true},
    {"OLMo",
     [](int i, double s, double g) {
       return fmt::format(
           "2026-02-01 12:00:00.123\tnode:0\tolmo.train:950\tINFO\t[step={}/556000,epoch=0]\n    "
           "train/CrossEntropyLoss="
           "2.345\n    throughput/total_tokens=4,194,304\n    throughput/device/tokens_per_second={:.1f}\n    "
           "System/Peak GPU Memory (MB)={:.1f}",
           i, 16384 / s, g * 1073.741824);
     },
     LogFigure::TokensPerSecondGpu, 16384, true, LogFigure::Allocated},
    {"OLMo-core",
     [](int i, double s, double g) {
       return fmt::format(
           "node:0 INFO [step={}/100000,epoch=1]\n    gpu_memory/GPU reserved mem (%)=79.17\n    gpu_memory/GPU "
           "reserved "
           "mem (GiB)={:.4f}\n    throughput/device/BPS=3.9\n    throughput/device/TPS={},{:03}\n    "
           "throughput/device/TPS (actual avg)=95,922",
           i, g, static_cast<int>(1638400 / s) / 1000, static_cast<int>(1638400 / s) % 1000);
     },
     LogFigure::TokensPerSecondGpu, 1638400, true},
    {"Composer",
     [](int i, double s, double g) {
       return fmt::format(
           "[batch={}/4800]:\n\t Train time/batch: {}\n\t Train memory/peak_reserved_mem: {:.4f}\n\t Train "
           "throughput/samples_per_sec: {:.4f}\n\t Train throughput/device/samples_per_sec: 1.0\n\t Train "
           "throughput/device/tokens_per_sec: {:.4f}\n\t Train throughput/device/mfu: 0.45",
           i, i - 1, g * 1.073741824, 256 / s, 16384 / s);
     },
     LogFigure::TokensPerSecondGpu, 16384, true},
    {"Composer",  // of a model whose data loader does not count tokens
     [](int, double s, double) { return fmt::format("\t Train throughput/samples_per_sec: {:.4f}", 256 / s); },
     LogFigure::SamplesPerSecond, 256, false},
    {"InternEvo",
     [](int i, double s, double) {
       return fmt::format(
           "INFO train.py:210 in record_current_batch_training_metrics -- tflops=188.8 step={} loss=10.87 tgs "
           "(tokens/gpu/second)={:.2f} tgs/last_tgs_1=1.0 tgs/tgs_all=2.0 lr=8e-07 fwd_bwd_time=3.9",
           i, 16384 / s);
     },
     LogFigure::TokensPerSecondGpu, 16384, false},
    {"Trainer",  // with what is loaded before and evaluated between
     [](int i, double s, double) {
       return fmt::format(
           "Loading checkpoint shards: 100%|##########| 4/4 [00:40<00:00, 10.00s/it]\rMap: 100%|##########| 500/500 "
           "[00:01<00:00, 500.00 examples/s]\r {:3}%|#         | {}/100 [00:50<07:30,  {:.2f}s/it]\r 50%|#####     | "
           "4/8 [00:00<00:01,  3.10it/s]",
           i, i, s);
     },
     LogFigure::StepTime, 0, false},
    {"Trainer",
     [](int i, double s, double) {
       return fmt::format("\r {:3}%|#         | {}/100 [00:50<07:30,  {:.2f}s/it]", i, i, s);
     },
     LogFigure::StepTime, 0, false},
};

}  // namespace

TEST_CASE("every dialect's figures are read as they were written") {
  std::mt19937 random(1);
  for (const Dialect& dialect : kDialects) {
    CAPTURE(dialect.name);
    const double seconds = std::uniform_real_distribution<double>(2, 30)(random), gib = 55.25;
    std::string text = "a line of something else, with seconds: of no one\n";
    for (int i = 1; i <= 40; ++i) text += dialect.line(i, i <= 3 ? 4 * seconds : seconds, gib) + "\n";
    for (const char* prefix : {"", "12: ", "[default0]:"}) {
      std::string prefixed;
      std::istringstream lines(text);
      for (std::string line; std::getline(lines, line);) prefixed += prefix + line + "\n";
      const MeasuredLog log = must_read(prefixed);
      CHECK(log.dialect == dialect.name);
      const Series* speed = log.find(dialect.speed);
      REQUIRE(speed != nullptr);
      const Steady found = steady(*speed);
      CHECK(found.left_out == 3);
      CHECK(found.used == 37);
      const double time = dialect.work > 0 ? dialect.work / found.median : found.median;
      CHECK(time == doctest::Approx(seconds).epsilon(0.005));
      if (dialect.memory) {
        REQUIRE(log.find(dialect.kind) != nullptr);
        CHECK(log.find(dialect.kind)->largest() == doctest::Approx(gib * 1073741824.0).epsilon(1e-5));
      }
    }
  }
}

TEST_CASE("skipped steps are counted as each framework counts them, and memory in its own unit") {
  const auto megatron = [](int skipped) {
    return fmt::format(
        " iteration {:8d}/{:8d} | elapsed time per iteration (ms): {:.1f} | loss scale: {:.1f} | number of skipped "
        "iterations: {:3d} | number of nan iterations: {:3d} |\n",
        1, 2, 5e3, 1.0, skipped, 0);
  };
  CHECK(must_read(megatron(1) + megatron(0) + megatron(2) + megatron(0)).skipped() == 3);  // since the line before
  const auto deepspeed = [](int step, int skipped) {
    return fmt::format(
        "[2026-02-01 12:00:00,123] [INFO] [logging.py:96:log_dist] [Rank 0] step={}, skipped={}, lr=[1e-4], "
        "mom=[(0.9, 0.95)]\n[INFO] [timer.py:260:stop] epoch=0/micro_step=1/global_step=1, "
        "RunningAvgSamplesPerSec=9.1, CurrSamplesPerSec=9.2, MemAllocated=1.0GB, MaxMemAllocated=2.0GB\n",
        step, skipped);
  };
  CHECK(must_read(deepspeed(10, 1) + deepspeed(20, 3)).skipped() == 3);  // since the start
  CHECK(!must_read("completed step: 1, seconds: 5.0, TFLOP/s/device: 2\n").skipped().has_value());

  const MeasuredLog log =
      must_read(megatron(0) +
                "[INFO] [utils.py:782:see_memory_usage] MA 20.5 GB         Max_MA 40.5 GB         CA 50.0 GB         "
                "Max_CA 51 GB "
                "\n Memory usage: 100.00MiB. Peak allocated 41984.00MiB. Peak reserved: 1024.00MiB\n"
                " Memory usage: 100.00MiB. Peak allocated: 43008.00MiB. Peak reserved: 1024.00MiB\n");
  CHECK(log.find(LogFigure::Allocated)->largest() == 42.0 * 1073741824.0);
  CHECK(log.find(LogFigure::Reserved)->largest() == 51.0 * 1073741824.0);
}

TEST_CASE("the Trainer and LLaMA-Factory: bars faster than a second, means, totals at the end") {
  std::string bars;
  for (int i = 1; i <= 20; ++i) bars += fmt::format("\r{:3}%|##  | {}/20 [00:01<00:02, {:5.2f}it/s]", 5 * i, i, 4.0);
  const MeasuredLog trained = must_read(
      bars +
      "\n{'train_runtime': 5.0, 'train_samples_per_second': 12.5, 'train_steps_per_second': 4.0, 'epoch': 1.0}\n");
  CHECK(trained.dialect == "Trainer");
  CHECK(steady(*trained.find(LogFigure::StepTime)).median == doctest::Approx(0.25));
  CHECK(trained.find(LogFigure::SamplesPerSecond)->last() == 12.5);
  CHECK(trained.ended);
  const MeasuredLog factory = must_read(
      "[INFO|2026-01-01 00:00:00] {'loss': 0.9, 'learning_rate': 1.0e-05, 'epoch': 0.1, 'throughput': 5000.5}\n");
  CHECK(factory.dialect == "LLaMA-Factory");
  CHECK(factory.find(LogFigure::TokensPerSecondSoFar)->last() == 5000.5);
  const MeasuredLog file = must_read(
      "{\"current_steps\": 10, \"total_steps\": 100, \"loss\": 0.9, \"percentage\": 10.0, \"throughput\": 5123.4, "
      "\"total_tokens\": 81920, \"vram_allocated\": 40.5, \"vram_reserved\": 44.25}\n");
  CHECK(file.dialect == "LLaMA-Factory");
  CHECK(file.find(LogFigure::TokensPerSecondSoFar)->last() == 5123.4);
  CHECK(file.find(LogFigure::Reserved)->largest() == 44.25 * 1073741824.0);
}

TEST_CASE("lines of Megatron-LM that a terminal wrapped, at whatever width, are whole again") {
  std::string text;
  for (int i = 1; i <= 12; ++i) text += kDialects[0].line(i, 18.2, 40) + "\n";
  const MeasuredLog whole = must_read(text);
  for (const std::size_t width : {60, 80, 97, 100, 120, 132, 151, 200, 300}) {
    std::string wrapped;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      const bool step = line.find("consumed samples:") != std::string::npos;
      for (std::size_t at = 0; at < line.size(); at += step ? width : line.size())
        wrapped += line.substr(at, step ? width : line.size()) + "\n";
    }
    CAPTURE(width);
    const MeasuredLog read = must_read(wrapped);
    for (const LogFigure figure : {LogFigure::StepTime, LogFigure::GlobalBatch, LogFigure::Allocated}) {
      REQUIRE(read.find(figure) != nullptr);
      CHECK(read.find(figure)->values() == whole.find(figure)->values());
    }
  }
}

TEST_CASE("a log may be cut anywhere") {
  for (const Dialect& dialect : kDialects) {
    const std::string text = dialect.line(1, 5, 10) + "\n" + dialect.line(2, 5, 10);
    for (std::size_t cut = 0; cut < text.size(); ++cut) {
      std::istringstream in(text.substr(0, cut));
      const Result<MeasuredLog> log = read_log(in, "out.log");
      if (!log) CHECK(log.error().front().code == "no_steps");
    }
  }
}

TEST_CASE("a log means the same compressed, in UTF-16 of either order, with a mark of UTF-8, and with zeros in it") {
  const TemporaryFolder folder;
  for (const Dialect& dialect : kDialects) {
    CAPTURE(std::string(dialect.name));
    std::string text;
    for (int i = 1; i <= 30; ++i) text += dialect.line(i, 2.5, 20) + "\n";
    const auto wide = [&](bool little) {
      std::string out = little ? "\xff\xfe" : "\xfe\xff";
      for (const char c : text) out += little ? std::string{c, '\0'} : std::string{'\0', c};
      return out;
    };
    const Result<MeasuredLog> plain = read_log(folder.write("plain.log", text));
    REQUIRE(plain.has_value());
    const gzFile zipped = gzopen(folder.at("zipped.log").c_str(), "wb");
    gzwrite(zipped, text.data(), static_cast<unsigned>(text.size()));
    gzclose(zipped);
    for (const std::string& path :
         {folder.write("little.log", wide(true)), folder.write("big.log", wide(false)), folder.at("zipped.log"),
          folder.write("mark.log", "\xef\xbb\xbf" + text), folder.write("zeros.log", std::string(4096, '\0') + text)}) {
      CAPTURE(path);
      const Result<MeasuredLog> same = read_log(path);
      REQUIRE(same.has_value());
      CHECK(same->dialect == plain->dialect);
      const Series *read = same->find(dialect.speed), *wanted = plain->find(dialect.speed);
      REQUIRE(read != nullptr);
      CHECK(steady(*read).median == doctest::Approx(steady(*wanted).median));
      CHECK(steady(*read).used == steady(*wanted).used);
    }
  }
  CHECK(read_log(folder.path().string()).error().front().code == "cannot_read");
}

TEST_CASE("random bytes and endless lines are no steps") {
  std::mt19937 random(2);
  for (int round = 0; round < 50; ++round) {
    std::string bytes(4096, ' ');
    for (char& c : bytes) c = static_cast<char>(random());
    std::istringstream in(bytes);
    const Result<MeasuredLog> log = read_log(in, "noise");
    CHECK(!log.has_value());
  }
  std::istringstream endless("tps: 1,000" + std::string(8'000'000, 'x'));
  CHECK(read_log(endless, "endless").has_value());
}

TEST_CASE("a long run keeps a bounded number of values, and the right median") {
  Series series;
  for (int i = 0; i < 1'000'000; ++i) series.add(i % 2 == 0 ? 2.0 : 2.1);
  CHECK(series.count() == 1'000'000);
  CHECK(series.values().size() <= 65536);
  CHECK(steady(series).median == doctest::Approx(2.05).epsilon(0.03));
  // Numbers count every step of the run and not only the kept ones.
  Series run;
  constexpr int kSteps = 3'000'000, kSlow = 20'000;
  for (int i = 0; i < kSteps; ++i) run.add(i < kSlow ? 5 : i % 1000 < 100 ? 2 : 1);
  const Steady rest = steady(run);
  CHECK(rest.left_out + rest.used == kSteps);
  CHECK(static_cast<double>(rest.left_out) == doctest::Approx(kSlow).epsilon(0.02));
  CHECK(static_cast<double>(rest.spikes) == doctest::Approx(0.1 * (kSteps - kSlow)).epsilon(0.1));
}
