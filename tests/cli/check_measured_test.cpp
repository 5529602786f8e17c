// `plan check --measured`: limits held against a run's own log, in words written here, whose figures are known.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <tuple>

#include "check_files.hpp"
#include "cli/check/measured.hpp"
#include "sample_plan.hpp"

using namespace plan;
using namespace plan::checks;

namespace {

std::string budget(const std::string& limits, const std::string& layout = "layout: tp2,pp2,mb2\n") {
  return "budget: 1\nmodel: llama3-8b\ngpus: 64 x h100-sxm\nseq: 8192\nglobal_batch: 256\n" + layout + "limits:\n" +
         limits;
}

std::string log_of(double seconds, int batch = 256, double allocated_gib = 0, double reserved_gib = 0) {
  std::string out;
  for (int i = 1; i <= 30; ++i)
    out += fmt::format(" iteration {:8}/ 100 | elapsed time per iteration (ms): {:.3f} | global batch size: {:5} |\n",
                       i, (i <= 2 ? 4 : 1) * seconds * 1e3, batch);
  if (allocated_gib > 0)
    out += fmt::format(
        "[Rank 0] (after 1 iterations) memory (MB) | allocated: 1 | max allocated: {:.4f} | reserved: 1 "
        "| max reserved: {:.4f}\n",
        allocated_gib * 1024, reserved_gib * 1024);
  return out;
}

const char* const kLimits =
    "  step_time: at most 4 s\n  mfu: at least 1 %\n  tokens_per_s: at least 1 tokens/s\n"
    "  memory.weights: at most 70 GiB\n";

}  // namespace

TEST_CASE("a limit that the measured run misses fails, in every format, and one that it keeps passes") {
  const Folder folder;
  folder.write("b.yaml", budget(kLimits));
  folder.write("slow.log", log_of(4.1));
  folder.write("fast.log", log_of(3.9));
  const std::vector<std::string> slow{"check", "--budget", "b.yaml", "--measured", "slow.log"};
  CHECK(run({"check", "--budget", "b.yaml", "--measured", "fast.log"}).status == 0);
  const std::pair<const char*, const char*> formats[] = {{"human", "step_time was"},
                                                         {"json", "\"measured\": true"},
                                                         {"github", "title=step_time::step_time was"},
                                                         {"markdown", "**step\\_time**"},
                                                         {"html", "step_time was"},
                                                         {"junit", "<failure type=\"step_time\""},
                                                         {"sarif", "\"ruleId\": \"step_time\""}};
  for (const auto& row : formats) {
    const std::string format = row.first, says = row.second;
    CAPTURE(format);
    std::vector<std::string> words = slow;
    words.insert(words.end(), {"--format", format});
    const Ran ran = run(words);
    CAPTURE(ran.out);
    CHECK(ran.status == 1);
    CHECK(ran.out.find(says) != std::string::npos);
    CHECK(ran.out.find("slow.log") != std::string::npos);
    CHECK(ran.out.find("memory.weights") != std::string::npos);  // what was not measured is named
  }
  std::vector<std::string> lenient = slow;
  lenient.emplace_back("--warn-only");
  CHECK(run(lenient).status == 0);
}

TEST_CASE("a run at two speeds is held to the later one, which is said") {
  const Folder folder;
  folder.write("b.yaml", budget(kLimits));
  const auto lines = [](double seconds) {
    const std::string text = log_of(seconds);
    return text.substr(text.rfind('\n', text.find("  3/ 100")) + 1);
  };
  folder.write("both.log", lines(5.0) + lines(3.9));
  const Ran ran = run({"check", "--budget", "b.yaml", "--measured", "both.log"});
  CAPTURE(ran.out);
  CHECK(ran.status == 0);
  CHECK(ran.out.find("the first 28 steps of both.log take 5 s") != std::string::npos);
}

TEST_CASE("measured figures follow from the log; what it does not show stays predicted") {
  const Folder folder;
  folder.write("b.yaml", budget(std::string(kLimits) + "  cost: at most 1B USD\n  gpu_hours: at most 1T GPU-hours\n") +
                             "tokens: 15T\nprice: 2 USD/h\n");
  folder.write("out.log", log_of(5));
  const Json report = run_json({"check", "--budget", "b.yaml", "--measured", "out.log"});
  const Json predicted = run_json({"check", "--budget", "b.yaml"});
  const double step = limit_of(report, "step_time")["now"], tokens = 256.0 * 8192 / 5;
  CHECK(step == doctest::Approx(5));
  CHECK(limit_of(report, "tokens_per_s")["now"].get<double>() == doctest::Approx(tokens));
  CHECK(limit_of(report, "gpu_hours")["now"].get<double>() == doctest::Approx(15e12 / tokens / 3600 * 64));
  CHECK(limit_of(report, "cost")["now"].get<double>() == doctest::Approx(15e12 / tokens / 3600 * 64 * 2));
  for (const char* inverse : {"mfu", "tokens_per_s"})
    CHECK(limit_of(report, inverse)["now"].get<double>() * step ==
          doctest::Approx(limit_of(predicted, inverse)["now"].get<double>() *
                          limit_of(predicted, "step_time")["now"].get<double>()));
  CHECK(limit_of(report, "step_time")["predicted"] == limit_of(predicted, "step_time")["now"]);
  CHECK(limit_of(report, "memory.weights") == limit_of(predicted, "memory.weights"));
  CHECK(report["jobs"][0]["measured"]["steps"] == 28);
  CHECK(report["jobs"][0]["measured"]["warm_up"] == 2);
  CHECK(report["jobs"][0]["plan"] == predicted["jobs"][0]["plan"]);
  // A run that went on did fit, and nothing says how near it came.
  CHECK(limit_of(report, "memory.fit")["measured"] == true);
  CHECK(!limit_of(report, "memory.fit").contains("now"));
}

TEST_CASE("an estimate takes the place of what was measured alone: a step without a peak, a peak without a step") {
  const Estimate planned = sample::estimate(4, 6.25);
  const auto memory = [](const Estimate& e) { return std::tuple(e.peak, e.peak_low, e.peak_high, e.capacity); };
  const auto time = [](const Estimate& e) {
    return std::tuple(e.step_time, e.step_time_low, e.step_time_high, e.tokens_per_s, e.tokens_per_s_per_gpu,
                      e.mfu.model_causal, e.mfu.model_full, e.mfu.hardware);
  };
  const Estimate same = as_measured(planned, {});
  CHECK(memory(same) == memory(planned));
  CHECK(time(same) == time(planned));
  const Estimate full = as_measured(planned, {.peak = RealBytes(5e9)});
  CHECK(memory(full) == std::tuple(Bytes(5000000000), Bytes(5000000000), Bytes(5000000000), planned.capacity));
  CHECK(time(full) == time(planned));
  MeasuredJob timed;
  timed.step.emplace(), timed.step->median = 2 * planned.step_time.value;
  const Estimate slow = as_measured(planned, timed);
  CHECK(memory(slow) == memory(planned));
  for (const Seconds step : {slow.step_time, slow.step_time_low, slow.step_time_high})
    CHECK(step == 2 * planned.step_time);
  for (const auto& halved : {std::pair{slow.tokens_per_s, planned.tokens_per_s},
                             {slow.tokens_per_s_per_gpu, planned.tokens_per_s_per_gpu},
                             {slow.mfu.model_causal, planned.mfu.model_causal},
                             {slow.mfu.model_full, planned.mfu.model_full},
                             {slow.mfu.hardware, planned.mfu.hardware}})
    CHECK(2 * halved.first == doctest::Approx(halved.second));
  // What ran out did not fit, on the GPU that said so.
  MeasuredJob out;
  out.out_of_memory.emplace(), out.out_of_memory->capacity = RealBytes(6e9);
  const Estimate beyond = as_measured(planned, out);
  CHECK(beyond.capacity == Bytes(6000000000));
  for (const Bytes peak : {beyond.peak, beyond.peak_low, beyond.peak_high}) CHECK(peak > beyond.capacity);
  out.out_of_memory->capacity = RealBytes(0);
  CHECK(as_measured(planned, out).capacity == planned.capacity);
  CHECK(as_measured(planned, out).peak > planned.capacity);
}

TEST_CASE("memory: the device's own figure, else the allocator's with what it does not see, else what ran out") {
  const Folder folder;
  folder.write("b.yaml", budget("  memory.peak: at most 60 GiB\n"));
  folder.write("out.log", log_of(5, 256, 40, 50));
  folder.write("smi.csv", "index, memory.used [MiB]\n0, 56320 MiB\n1, 51200 MiB\n");
  constexpr double kGiB = 1073741824.0;
  const Json predicted = run_json({"estimate", "--model", "llama3-8b", "--gpus", "64", "--gpu", "h100-sxm", "--seq",
                                   "8192", "--global-batch", "256", "--layout", "tp2,pp2,mb2"})["best"]["memory"];
  double outside = 0, peak = 0;
  for (const Json& stage : predicted["stages"])
    if (stage["total_bytes"].get<double>() > peak)
      peak = stage["total_bytes"],
      outside = stage["context_bytes"].get<double>() + stage["communication_bytes"].get<double>();
  const Json allocator = run_json({"check", "--budget", "b.yaml", "--measured", "out.log"});
  CHECK(limit_of(allocator, "memory.peak")["now"].get<double>() == doctest::Approx(50 * kGiB + outside));
  CHECK(allocator["jobs"][0]["measured"]["peak_kind"] == "reserved");
  const Json device = run_json({"check", "--budget", "b.yaml", "--measured", "out.log", "--smi", "smi.csv"});
  CHECK(limit_of(device, "memory.peak")["now"].get<double>() == doctest::Approx(55 * kGiB));
  CHECK(limit_of(device, "memory.peak")["state"] == "pass");

  folder.write("oom.log",
               "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 3 has a total capacity of "
               "79.11 GiB of which 1.25 GiB is free. Of the allocated memory 60.50 GiB is allocated by PyTorch, and "
               "15.25 GiB is reserved by PyTorch but unallocated.\n");
  const Ran out = run({"check", "--budget", "b.yaml", "--measured", "oom.log"});
  CHECK(out.status == 1);
  CHECK(out.out.find("out of memory at oom.log:1") != std::string::npos);
  const Json json = run_json({"check", "--budget", "b.yaml", "--measured", "oom.log"});
  CHECK(limit_of(json, "memory.fit")["state"] == "fail");
  CHECK(limit_of(json, "memory.peak")["now"].get<double>() == doctest::Approx(80.36 * kGiB));
}

TEST_CASE("a run that cannot be of this job is refused, and nothing was checked") {
  const Folder folder;
  folder.write("b.yaml", budget("  step_time: at most 4 s\n"));
  folder.write("open.yaml", budget("  step_time: at most 4 s\n", ""));
  folder.write("two.yaml",
               "budget: 1\nmodel: llama3-8b\ngpus: 64 x h100-sxm\nlimits:\n  step_time: at most 4 s\njobs:\n"
               "  - name: a\n    layout: tp2\n  - name: b\n    layout: tp4\n");
  folder.write("out.log", log_of(5)), folder.write("other.log", log_of(5, 512)), folder.write("none.log", "hello\n");
  const auto refused = [](std::vector<std::string> words, const char* why) {
    words.insert(words.begin(), {"check", "--budget"});
    const Ran ran = run(words);
    CAPTURE(ran.err);
    CHECK(ran.status == 2);
    CHECK(ran.out.empty());
    CHECK(ran.err.find(why) != std::string::npos);
  };
  refused({"b.yaml", "--measured", "other.log"}, "is of steps of 512 sequences");
  refused({"b.yaml", "--measured", "none.log"}, "no line of a training step");
  refused({"b.yaml", "--measured", "absent.log"}, "absent.log");
  refused({"b.yaml", "--smi", "out.log"}, "`--measured out.log`");
  refused({"open.yaml", "--measured", "out.log"}, "which layout ran");
  refused({"two.yaml", "--measured", "out.log"}, "the budget has 2 jobs");
}
