// Traces of known kernels. The oracle paints every microsecond of a step with what runs then; the reader sweeps over
// intervals. They share nothing.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <random>

#include "cli/logs/trace.hpp"
#include "tests/temporary_folder.hpp"

using namespace plan;

namespace {

struct Kernel {
  int start, duration;
  int kind;  ///< 0 GEMM, 1 attention, 2 optimizer, 3 all-reduce of tp, 4 all-gather of dp, 5 copy
};
constexpr const char* kNames[] = {"sm90_xmma_gemm_bf16",
                                  "flash_fwd_kernel<cutlass>",
                                  "multi_tensor_apply_kernel",
                                  "ncclDevKernel_AllReduce_Sum_bf16_RING_LL",
                                  "ncclDevKernel_AllGather_RING_LL",
                                  "Memcpy DtoD"};
constexpr int kStep = 5000, kSteps = 3;

std::vector<Kernel> random_kernels(std::mt19937& random) {
  std::vector<Kernel> kernels;
  for (int i = 0; i < 60; ++i)
    kernels.push_back({static_cast<int>(random() % (kStep * kSteps)), static_cast<int>(1 + random() % 200),
                       static_cast<int>(random() % std::size(kNames))});
  return kernels;
}

/// `begin`: microseconds of the clock when the first step starts.
std::string kineto(const std::vector<Kernel>& kernels, std::int64_t begin = 1000000) {
  std::string out =
      "{\"schemaVersion\": 1, \"deviceProperties\": [{\"id\": 0, \"name\": \"NVIDIA H100\"}],\n\"traceEvents\": [";
  for (int i = 0; i < kSteps; ++i)
    out += fmt::format(
        R"({{"ph":"X","cat":"user_annotation","name":"ProfilerStep#{}","pid":1,"tid":1,"ts":{},"dur":{}}},)", i,
        begin + i * kStep, kStep);
  out +=
      R"({"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":5,"dur":1e6,"args":{"Input Dims":[[1,2],[]]}})";
  for (const Kernel& k : kernels) {
    const char* group = k.kind == 3 ? "TENSOR_MODEL_PARALLEL_GROUP" : "DATA_PARALLEL_GROUP";
    out += fmt::format(R"(,{{"ph":"X","cat":"{}","name":"{}","pid":0,"tid":7,"ts":{}.0,"dur":{},"args":{{"stream":7)",
                       k.kind == 5 ? "gpu_memcpy" : "kernel", kNames[k.kind], begin + k.start, k.duration);
    if (k.kind == 3 || k.kind == 4)
      out += fmt::format(R"(,"Process Group Description":"{}","Group size":8,"Collective name":"x","grid":[1,2,3])",
                         group);
    out += "}}";
  }
  return out + "], \"traceName\": \"t\"}";
}

/// Seconds of each part in the steps counted, microsecond by microsecond. Where compute and messages run, it is
/// compute; among messages the first that started counts.
StepParts painted(const std::vector<Kernel>& kernels, int first_step) {
  StepParts parts{};
  for (int t = first_step * kStep; t < kSteps * kStep; ++t) {
    bool compute = false, optimizer = false;
    int message = -1, since = 1 << 30;
    for (const Kernel& k : kernels) {
      if (t < k.start || t >= k.start + k.duration) continue;
      compute = compute || k.kind <= 1 || k.kind == 5;
      optimizer = optimizer || k.kind == 2;
      if ((k.kind == 3 || k.kind == 4) && k.start < since) message = k.kind, since = k.start;
    }
    const Observable part = compute        ? Observable::Compute
                            : optimizer    ? Observable::Optimizer
                            : message == 3 ? Observable::Tp
                            : message == 4 ? Observable::Dp
                                           : Observable::Idle;
    for (const Observable counted : {part, Observable::Step})
      parts[static_cast<std::size_t>(counted)] += 1e-6 / (kSteps - first_step);
  }
  return parts;
}

/// Seconds a step in which nothing runs for `longest` microseconds on end at most: what launching the next kernel
/// takes.
double launch_gaps(const std::vector<Kernel>& kernels, int first_step, int longest) {
  int all = 0;
  for (int step = first_step; step < kSteps; ++step)
    for (int t = step * kStep, idle = 0; t <= (step + 1) * kStep; ++t) {
      const bool end = t == (step + 1) * kStep;
      const bool busy = std::any_of(kernels.begin(), kernels.end(),
                                    [&](const Kernel& k) { return k.start <= t && t < k.start + k.duration; });
      if (!end && !busy) ++idle;
      if (end || busy) all += idle <= longest ? idle : 0, idle = 0;
    }
  return all * 1e-6 / (kSteps - first_step);
}

Observable part_of(const TraceGroup& group) {
  return group.description.starts_with("TENSOR") || group.op == "AllReduce" ? Observable::Tp : Observable::Dp;
}

void check(const StepParts& found, const StepParts& expected) {
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(kObservableNames[i]);
    CHECK(found[i] == doctest::Approx(expected[i]).epsilon(1e-6).scale(1e-3));
  }
}

Result<Trace> first_of(Result<std::vector<Trace>> traces) {
  if (!traces) return tl::unexpected(std::move(traces).error());
  REQUIRE(traces->size() == 1);
  return std::move(traces->front());
}

std::vector<Observable> parts_of(const Trace& trace) {
  std::vector<Observable> parts;
  for (const TraceGroup& group : trace.groups) parts.push_back(part_of(group));
  return parts;
}

}  // namespace

TEST_CASE("parts of a step are what a painter of microseconds sees") {
  std::mt19937 random(4);
  const TemporaryFolder folder;
  for (int round = 0; round < 40; ++round) {
    const std::vector<Kernel> kernels = random_kernels(random);
    const std::string text = kineto(kernels), plain = folder.path() / "t.json", packed = folder.path() / "t.json.gz";
    std::ofstream(plain) << text;
    gzFile gz = gzopen(packed.c_str(), "wb");
    REQUIRE(gzwrite(gz, text.data(), static_cast<unsigned>(text.size())) == static_cast<int>(text.size()));
    gzclose(gz);
    for (const std::string& path : {plain, packed}) {
      const Result<Trace> trace = first_of(read_traces(path));
      REQUIRE(trace.has_value());
      CHECK(trace->steps.size() == kSteps);
      const TraceTimes times = trace_times(*trace, parts_of(*trace), 0);
      CHECK(times.steps == kSteps - 1);
      check(times.parts, painted(kernels, 1));
      CHECK(times.gaps >= launch_gaps(kernels, 1, 199) - 1e-9);
      CHECK(times.gaps <= launch_gaps(kernels, 1, 200) + 1e-9);
    }
  }
}

TEST_CASE("the course of a step is its parts, one after another") {
  std::vector<Kernel> kernels;  // a step and a half that do not count, then compute, gradients, nothing, the update
  for (const int step : {0, 1, 2}) {
    const int at = step * kStep;
    kernels.insert(kernels.end(), {{at, 2000, 0}, {at + 2000, 1000, 4}, {at + 4000, 1000, 2}});
  }
  const TemporaryFolder folder;
  const Result<Trace> trace = first_of(read_traces(folder.write("t.json", kineto(kernels))));
  REQUIRE(trace.has_value());
  const std::vector<Observable> course = trace_times(*trace, parts_of(*trace), 0).course;
  REQUIRE(course.size() == kMoments);
  for (std::size_t i = 0; i < course.size(); ++i) {
    const double moment = (static_cast<double>(i) + 0.5) / kMoments * kStep;
    CHECK(course[i] == (moment < 2000   ? Observable::Compute
                        : moment < 3000 ? Observable::Dp
                        : moment < 4000 ? Observable::Idle
                                        : Observable::Optimizer));
  }
}

TEST_CASE("a clock that counts from 1970 blurs no kernel, and old profilers' words are known") {
  std::mt19937 random(9);
  const TemporaryFolder folder;
  for (int i = 0; i < 5; ++i) {
    std::vector<Kernel> kernels = random_kernels(random);
    for (Kernel& kernel : kernels) kernel.duration = 1 + kernel.duration % 3;
    std::string text = kineto(kernels, 1712170361123456);
    if (i > 2) {
      for (const auto& [now, before] :
           {std::pair<std::string, std::string>{"\"kernel\"", "\"Kernel\""}, {"\"gpu_memcpy\"", "\"Memcpy\""}})
        for (std::size_t at = text.find(now); at != std::string::npos; at = text.find(now, at + 1))
          text.replace(at, now.size(), before);
    }
    const Result<Trace> trace = first_of(read_traces(folder.write("t.json", text)));
    REQUIRE(trace.has_value());
    const StepParts found = trace_times(*trace, parts_of(*trace), 0).parts, expected = painted(kernels, 1);
    for (std::size_t part = 0; part < found.size(); ++part) CHECK(std::abs(found[part] - expected[part]) < 1e-9);
  }
}

TEST_CASE("an export of Nsight Systems tells the same as a trace of PyTorch") {
  std::mt19937 random(6);
  const TemporaryFolder folder;
  const std::string path = folder.path() / "report.sqlite";
  const std::vector<Kernel> kernels = random_kernels(random);
  sqlite3* database = nullptr;
  REQUIRE(sqlite3_open(path.c_str(), &database) == SQLITE_OK);
  std::string sql =
      "CREATE TABLE StringIds(id INTEGER, value TEXT); CREATE TABLE NVTX_EVENTS(start INTEGER, end INTEGER, text TEXT);"
      "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start INTEGER, end INTEGER, shortName INTEGER);";
  for (std::size_t i = 0; i < std::size(kNames); ++i)
    sql += fmt::format("INSERT INTO StringIds VALUES({},'{}');", i, kNames[i]);
  for (int i = 0; i < kSteps; ++i)
    sql += fmt::format("INSERT INTO NVTX_EVENTS VALUES({},{},'iteration {}');", i * kStep * 1000,
                       (i + 1) * kStep * 1000, i);
  for (const Kernel& k : kernels)
    sql += fmt::format("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES({},{},{});", k.start * 1000,
                       (k.start + k.duration) * 1000, k.kind);
  REQUIRE(sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK);
  sqlite3_close(database);
  const Result<Trace> trace = first_of(read_traces(path));
  REQUIRE(trace.has_value());
  check(trace_times(*trace, parts_of(*trace), 0).parts, painted(kernels, 1));
}

TEST_CASE("a trace may be cut anywhere or be none") {
  std::mt19937 random(8);
  const TemporaryFolder folder;
  const std::string path = folder.path() / "t.json", text = kineto(random_kernels(random));
  for (std::size_t cut = 0; cut < text.size(); cut += 97) {
    std::ofstream(path) << text.substr(0, cut);
    const Result<Trace> trace = first_of(read_traces(path));
    if (!trace) CHECK(!trace.error().front().message.empty());
    if (trace) CHECK(!trace->cut.empty());  // never taken for a whole one
  }
  std::ofstream(path) << "SQLite format 3 and then nothing of the kind";
  CHECK(!read_traces(path).has_value());
  std::ofstream(path) << std::string(100000, '[');
  CHECK(!read_traces(path).has_value());
  CHECK(!read_traces(folder.path() / "absent").has_value());
}

TEST_CASE("kernels of every library find their family") {
  CHECK(family_of("void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm>") == KernelFamily::Gemm);
  CHECK(family_of("nvjet_hsh_128x256_64x4_2x1_v_bz_TNT") == KernelFamily::Gemm);
  CHECK(family_of("Cijk_Ailk_Bljk_BBS_BH_MT256x256x32") == KernelFamily::Gemm);
  CHECK(family_of("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma") == KernelFamily::Attention);
  CHECK(family_of("fmha_cutlassF_bf16_aligned") == KernelFamily::Attention);
  CHECK(family_of("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)") == KernelFamily::Communication);
  CHECK(family_of("triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_0") == KernelFamily::Pointwise);
  CHECK(family_of("void at::native::multi_tensor_apply_kernel<FusedAdamMathFunctor>") == KernelFamily::Optimizer);
  CHECK(family_of("something_new") == KernelFamily::Other);
}
