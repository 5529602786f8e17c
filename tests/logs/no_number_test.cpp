// A run that lost its loss computes as fast as before: its log alone says so, in each framework's words.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <sstream>
#include <string>
#include <vector>

#include "cli/logs/log_read.hpp"

using namespace plan;

namespace {

/// Lines of steps as frameworks print them, `{}` where the loss or the norm of the gradients is.
const std::vector<std::string> kLines = {
    " iteration       12/     500 | elapsed time per iteration (ms): 600.0 | global batch size:  1024 | lm loss: {} | "
    "loss scale: 1.0 | grad norm: 1.0 |",
    " iteration       12/     500 | elapsed time per iteration (ms): 600.0 | global batch size:  1024 | lm loss: "
    "2.1E+00 | loss scale: 1.0 | grad norm: {} | number of skipped iterations:   0 | number of nan iterations:   0 |",
    "\x1b[31mstep: 12  \x1b[32mloss:  {}  \x1b[38;2;180;60;0mgrad_norm:  1.2000  \x1b[38;2;54;234;195mmemory: "
    "60.10GiB(61.05%)  \x1b[34mtps: 8,192",
    "completed step: 12, seconds: 2.500, TFLOP/s/device: 201.312, Tokens/s/device: 3276.8, total_weights: 65536, loss: "
    "{}",
    "Training epoch 0, iteration 12/99 | lr: 0.0003 | global_batch_size: 128 | reduced_train_loss: {} | "
    "train_step_timing in s: 2.500",
    "(TaskRunner pid=1) step:12 - actor/pg_loss:{} - timing_s/gen:45.1 - timing_s/update_actor:2.5",
    "iteration: 12 / 100 | elapsed_time_per_iteration_ms: 2.5K | tokens_per_sec_per_gpu: 13.6K | lm_loss: {} | lr: "
    "1e-4",
    "Step 12 | loss:{} lr:2e-05 tokens_per_second_per_gpu:1638.4 peak_memory_reserved:60",
    "{'loss': {}, 'grad_norm': 1.0, 'learning_rate': 1e-05, 'epoch': 0.1}",
    "{'loss': 0.0, 'grad_norm': {}, 'learning_rate': 1e-05, 'epoch': 0.1}",
    "Epoch 0:  12%|#1        | 12/100 [00:30<03:40,  2.50s/it, v_num=0, reduced_train_loss={}]"};

std::string with(const std::string& line, const std::string& value) {
  std::string out = line;
  const std::size_t at = out.rfind("{}") != std::string::npos ? out.rfind("{}") : 0;
  return out.replace(at, 2, value);
}

double counted(const std::string& line) {
  LogReader reader("out.log");
  for (const char* step : {"12", "13", "14"}) {
    std::string next = line;
    if (const std::size_t at = next.find("12"); at != std::string::npos) next.replace(at, 2, step);
    reader.take(next);
  }
  const MeasuredLog log = std::move(reader).finish();
  const Series* none = log.find(LogFigure::NotNumber);
  return none == nullptr ? 0 : none->sum();
}

}  // namespace

TEST_CASE("each line whose loss or gradient is no number is counted once, and no other") {
  for (const std::string& line : kLines) {
    CAPTURE(line);
    for (const char* none : {"nan", "NaN", "NAN", "inf", "-inf", "Infinity"}) CHECK(counted(with(line, none)) == 3);
    for (const char* number : {"2.5", "1.0E-04", "0", "-0.1", "11"}) CHECK(counted(with(line, number)) == 0);
  }
  for (const char* line : {"loss: information follows", "loss_scale: nan", "loss function: nanotron's", "INFO loss",
                           "number of nan iterations:   0 | elapsed time per iteration (ms): 5.0 |"})
    CHECK(counted(line) == 0);
}

TEST_CASE("limits and records of a loss or a gradient are no step's, and no other word is a loss") {
  for (const char* limit : {"max", "min", "clip", "best", "check", "Max", "best_val", "best val", "clip max"})
    for (const char* name : {"loss", "grad_norm", "grad norm"})
      for (const char* between : {"_", " ", "-"})
        for (const char* shape : {"{}: {}", "{} {}", "{}={}", "{{'{}': {}}}", "12: INFO | {}: {} -> 2.1"})
          for (const char* none : {"nan", "inf"}) {
            const std::string line =
                fmt::format(fmt::runtime(shape), fmt::format("{}{}{}", limit, between, name), none);
            CHECK_MESSAGE(counted(line) == 0, line);
          }
  for (const char* line : {"gloss: inf", "floss nan"}) CHECK_MESSAGE(counted(line) == 0, line);
  for (const char* line :
       {"step 3 of max 9: loss nan", "{'max_grad_norm': inf, 'loss': nan}", "best_loss: 2 loss: nan"})
    CHECK_MESSAGE(counted(line) == 3, line);
}

TEST_CASE("a value that is no number is found in what Python and JSON print around it") {
  for (const char* value : {"tensor({}, device='cuda:0')", "tensor(-{})", "\"{}\"", "'{}'", "np.float32({})",
                            "Array({}, dtype=float32)", "[{}]", "{}"})
    for (const char* shape : {"loss: {}", "\"loss\": {}", "{{'train_loss': {}}}", "trainLoss={}", "val_loss {}"}) {
      const std::string line = fmt::format(fmt::runtime(shape), value);
      CAPTURE(line);
      CHECK(counted(with(line, "nan")) == 3);
      CHECK(counted(with(line, "2.5")) == 0);
    }
}
