// Exports of Nsight Systems of several processes, with groups that only their streams tell apart, written here as the
// tool's own schema has them; and what counts of kernels say of a fault.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <random>

#include "cli/logs/trace_groups.hpp"
#include "cli/logs/trace_signs.hpp"
#include "tests/temporary_folder.hpp"

using namespace plan;

namespace {

struct Row {
  const char* name;
  int milliseconds;
  int stream;
};
/// One step of a rank: tensor messages in every layer, one of gradients, one of the optimizer's states.
std::vector<Row> step_of_a_rank(int slower) {
  std::vector<Row> rows;
  for (int layer = 0; layer < 4; ++layer) {
    rows.push_back({"nvjet_tst_128x256", 10 + slower, 7});
    rows.push_back({"ncclDevKernel_AllGather_RING_LL", 2, 20});
    rows.push_back({"flash_fwd_kernel", 3, 7});
    rows.push_back({"ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL", 2, 20});
  }
  rows.push_back({"ncclDevKernel_ReduceScatter_Sum_f32_RING_LL", 9, 36});
  rows.push_back({"multi_tensor_apply_kernel", 4, 7});
  rows.push_back({"ncclDevKernel_AllGather_RING_LL", 5, 36});
  return rows;
}

void write(const std::string& path, int ranks) {
  sqlite3* database = nullptr;
  REQUIRE(sqlite3_open(path.c_str(), &database) == SQLITE_OK);
  std::string sql =
      "CREATE TABLE StringIds(id INTEGER, value TEXT); CREATE TABLE NVTX_EVENTS(start INTEGER, end INTEGER, text TEXT, "
      "textId INTEGER, globalTid INTEGER); CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start INTEGER, end INTEGER, "
      "shortName INTEGER, demangledName INTEGER, deviceId INTEGER, streamId INTEGER, globalPid INTEGER); CREATE TABLE "
      "CUPTI_ACTIVITY_KIND_MEMCPY(start INTEGER, end INTEGER, globalPid INTEGER, deviceId INTEGER);"
      "INSERT INTO StringIds VALUES(9, 'step 1');";
  int names = 10;
  for (int rank = 0; rank < ranks; ++rank) {
    const long process = static_cast<long>(100 + rank) << 24;
    long at = 0;
    for (const Row& row : step_of_a_rank(rank == 1 ? 5 : 0)) {
      sql += fmt::format(
          "INSERT INTO StringIds VALUES({0},'{1}'); INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES({2},{3},"
          "{0},{0},{4},{5},{6});",
          names++, row.name, at * 1'000'000, (at + row.milliseconds) * 1'000'000, rank, row.stream, process);
      at += row.milliseconds;
    }
    sql += fmt::format("INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES({},{},{},{});", at * 1'000'000,
                       (at + 1) * 1'000'000, process, rank);
    sql += fmt::format("INSERT INTO NVTX_EVENTS VALUES(0,{},NULL,9,{});", (at + 1) * 1'000'000, process + 4321);
  }
  REQUIRE(sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK);
  sqlite3_close(database);
}

double part(const TraceTimes& times, Observable of) { return times.parts[static_cast<std::size_t>(of)]; }

Trace kernels(std::initializer_list<std::pair<const char*, int>> named) {
  Trace trace;
  double at = 0;
  for (const auto& [name, count] : named)
    for (int i = 0; i < count; ++i, at += 1)
      trace.kernels.push_back({at, at + 1, family_of(name), sign_of(name, family_of(name)), -1});
  return trace;
}

std::vector<std::string> spoken(const Trace& trace, const Problem& problem, const Estimate& estimate) {
  std::vector<std::string> said;
  for (const Evidence& one : signs_of(trace, {}, trace_times(trace, {}, 0), problem, estimate))
    said.push_back((one.speaks_for ? "+" : "-") + one.fault);
  std::sort(said.begin(), said.end());
  return said;
}

}  // namespace

TEST_CASE("an export holds a trace of every process, and streams tell its groups apart") {
  const TemporaryFolder folder;
  write(folder.at("r.sqlite"), 3);
  const Result<std::vector<Trace>> ranks = read_traces(folder.at("r.sqlite"));
  REQUIRE(ranks.has_value());
  REQUIRE(ranks->size() == 3);
  Layout layout;
  layout.tp = 8, layout.dp = 8;
  std::vector<TraceTimes> times;
  for (std::size_t i = 0; i < 3; ++i) {
    const Trace& trace = (*ranks)[i];
    REQUIRE(trace.steps.size() == 1);
    times.push_back(trace_times(trace, parts_of_groups(trace, layout), 0));
    CHECK(part(times.back(), Observable::Compute) == doctest::Approx(0.053 + (i == 1 ? 0.020 : 0)));
    CHECK(part(times.back(), Observable::Tp) == doctest::Approx(0.016));
    CHECK(part(times.back(), Observable::Dp) == doctest::Approx(0.014));
    CHECK(part(times.back(), Observable::Optimizer) == doctest::Approx(0.004));
  }
  const std::vector<Evidence> between = signs_between(*ranks, times);
  REQUIRE(between.size() == 1);
  CHECK(between[0].fault == "slow_rank");
  CHECK(between[0].text.find("rank 1") != std::string::npos);
  layout.dp = 1;  // nobody else reduces: every stream is of tensor ranks or of nothing that is known
  CHECK(parts_of_groups(ranks->front(), layout).front() == Observable::Tp);
}

// Names of ranges: Megatron-LM's timers and get_batch, PyTorch's profiler around a DataLoader; the last of them is no
// data.
TEST_CASE("the next batch is what any framework names so, and nothing else is") {
  const TemporaryFolder folder;
  write(folder.at("r.sqlite"), 1);
  sqlite3* database = nullptr;
  REQUIRE(sqlite3_open(folder.at("r.sqlite").c_str(), &database) == SQLITE_OK);
  std::string sql;
  int at = 0;
  for (const char* name : {"batch-generator", "get_batch", "dataloader: next",
                           "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", "forward-compute"})
    sql += fmt::format("INSERT INTO NVTX_EVENTS VALUES({},{},'{}',NULL,{});", at, at + 1, name, (100L << 24) + 4321),
        ++at;
  REQUIRE(sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK);
  sqlite3_close(database);
  const Result<std::vector<Trace>> ranks = read_traces(folder.at("r.sqlite"));
  REQUIRE(ranks.has_value());
  REQUIRE(ranks->size() == 1);
  const std::vector<HostCall>& calls = ranks->front().calls;
  CHECK(std::count_if(calls.begin(), calls.end(), [](const HostCall& c) { return c.work == HostWork::Data; }) == 4);
  CHECK(ranks->front().steps.size() == 1);
}

TEST_CASE("an export may be cut or broken anywhere") {
  const TemporaryFolder folder;
  write(folder.at("r.sqlite"), 2);
  std::ifstream in(folder.at("r.sqlite"), std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  std::mt19937 random(4);
  for (int i = 0; i < 200; ++i) {
    std::string broken = whole;
    if (i % 4 == 0) broken.resize(random() % broken.size());
    for (std::size_t flips = random() % 20; flips > 0 && !broken.empty(); --flips)
      broken[random() % broken.size()] = static_cast<char>(random());
    const Result<std::vector<Trace>> ranks = read_traces(folder.write("b.sqlite", broken));
    if (!ranks) CHECK(!ranks.error().front().message.empty());
  }
}

TEST_CASE("counts of kernels speak for a fault, or against it") {
  Problem problem;
  Estimate estimate;
  using Said = std::vector<std::string>;
  const char* const forward = "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16";
  const char* const backward = "cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16";
  CHECK(spoken(kernels({{forward, 16}, {backward, 8}}), problem, estimate) == Said{"+recompute_on", "-no_flash"});
  CHECK(spoken(kernels({{forward, 8}, {backward, 8}}), problem, estimate) == Said{"-no_flash", "-recompute_on"});
  // FlashAttention's backward pass takes three kernels.
  CHECK(spoken(kernels({{"flash_bwd_dot_do_o_kernel", 8},
                        {"flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel", 8},
                        {"flash_bwd_convert_dq_kernel", 8},
                        {"flash_fwd_kernel", 8}}),
               problem, estimate) == Said{"-no_flash", "-recompute_on"});
  CHECK(spoken(kernels({{"softmax_warp_forward", 8}}), problem, estimate) == Said{"+no_flash"});
  CHECK(spoken(kernels({{"void at::native::vectorized_elementwise_kernel<4>", 30}, {"triton_poi_fused_add_0", 2}}),
               problem, estimate) == Said{"+eager_kernels"});
  problem.training.precision = Precision::Fp8Tensorwise;
  CHECK(spoken(kernels({{"nvjet_tst_128x256", 8}}), problem, estimate) == Said{"+wide_gemms"});
  CHECK(spoken(kernels({{"nvjet_qqtst_128x256", 8}}), problem, estimate) == Said{"-wide_gemms"});
  estimate.layout.recompute.kind = RecomputeKind::Full;  // as planned: nothing to say
  CHECK(spoken(kernels({{forward, 16}, {backward, 8}}), problem, estimate) == Said{"-no_flash"});
}

TEST_CASE("ranks of a group that lie as planned, and such that do not") {
  Problem problem;
  Estimate estimate;
  estimate.layout.tp = 4, estimate.layout.dp = 16;
  for (const int stride : {1, 16}) {
    Trace trace = kernels({{"nvjet_tst", 4}});
    const int group = group_index(trace, "ncclDevKernel_AllReduce", {{}, "TENSOR_MODEL_PARALLEL_GROUP", 4, stride, -1});
    trace.kernels.push_back({9, 10, KernelFamily::Communication, KernelSign::None, group});
    const std::vector<Observable> parts = parts_of_groups(trace, estimate.layout);
    CHECK(parts.front() == Observable::Tp);
    bool found = false;
    for (const Evidence& one : signs_of(trace, parts, trace_times(trace, parts, 0), problem, estimate))
      if (one.fault == "spread_groups") {
        found = true;
        CHECK(one.speaks_for == (stride == 16));
      }
    CHECK(found);
  }
}

TEST_CASE("process groups are known by the words of every framework") {
  const Layout layout;
  const auto named = [&](const char* description) {
    Trace trace;
    REQUIRE(group_index(trace, "ncclDevKernel_AllGather", {{}, description, 8, 0, -1}) == 0);
    return parts_of_groups(trace, layout).front();
  };
  CHECK(named("TENSOR_MODEL_PARALLEL_GROUP") == Observable::Tp);
  CHECK(named("DATA_PARALLEL_GROUP_WITH_CP") == Observable::Dp);
  CHECK(named("CONTEXT_PARALLEL_GROUP") == Observable::Cp);
  CHECK(named("PIPELINE_MODEL_PARALLEL_GROUP") == Observable::Pipeline);
  CHECK(named("EXPERT_MODEL_PARALLEL_GROUP") == Observable::Ep);
  CHECK(named("EXPERT_DATA_PARALLEL_GROUP") == Observable::Dp);
  CHECK(named("mesh_dp_shard_cp") == Observable::Dp);
  CHECK(named("mesh_tp") == Observable::Tp);
  CHECK(named("mesh_ep") == Observable::Ep);
  CHECK(named("mesh_pp") == Observable::Pipeline);
}

TEST_CASE("groups without a name are known by how many they are, or by which stream is the busiest") {
  struct Group {
    const char* op;
    int ranks, stream, sends;
  };
  const auto parts = [](const Layout& layout, const std::vector<Group>& groups) {
    Trace trace;
    for (const Group& group : groups) {
      const int index = group_index(trace, group.op, {{}, {}, group.ranks, 0, group.stream});
      for (int i = 0; i < group.sends; ++i)
        trace.kernels.push_back({0, 1, KernelFamily::Communication, KernelSign::None, index});
    }
    return parts_of_groups(trace, layout);
  };
  using Parts = std::vector<Observable>;
  const Observable tp = Observable::Tp, cp = Observable::Cp, ep = Observable::Ep, pp = Observable::Pipeline,
                   dp = Observable::Dp;
  constexpr const char *kReduce = "ncclDevKernel_AllReduce", *kGather = "ncclDevKernel_AllGather",
                       *kScatter = "ncclDevKernel_ReduceScatter", *kSend = "ncclDevKernel_SendRecv",
                       *kAll = "ncclDevKernel_AllToAll";
  for (const int many : {2, 4, 8}) {  // streams alone tell: tensor ranks send most, data-parallel ones least
    const std::vector<Group> one = {{kGather, 0, 20, 9}}, two = {{kScatter, 0, 36, 1}, {kGather, 0, 20, 9}},
                             three = {{kGather, 0, 20, 4}, {kReduce, 0, 36, 1}, {kScatter, 0, 9, 9}};
    CHECK(parts({.tp = many, .dp = 2}, two) == Parts{dp, tp});
    CHECK(parts({.tp = many, .dp = 8}, one) == Parts{dp});
    CHECK(parts({.tp = many}, one) == Parts{tp});
    CHECK(parts({.pp = many, .dp = 2}, two) == Parts{dp, dp});
    CHECK(parts({.dp = many}, two) == Parts{dp, dp});
    Layout context{.tp = many, .cp = 2, .dp = 2};
    context.cp_kind = CpKind::AllGather;
    CHECK(parts(context, three) == Parts{cp, dp, tp});
    CHECK(parts(context, two) == Parts{dp, tp});
    context.tp = 1;
    CHECK(parts(context, two) == Parts{dp, cp});
    CHECK(parts(context, one) == Parts{dp});
    context.cp_kind = CpKind::Ring;
    CHECK(parts(context, two) == Parts{dp, dp});
  }
  for (const int many : {3, 5}) {  // where sizes differ, they tell
    const auto sized = [&](const Layout& layout) {
      return parts(layout, {{kReduce, many, 20, 9}, {kGather, 2 * many, 30, 99}, {kScatter, 0, 40, 1}});
    };
    CHECK(sized({.tp = many, .dp = 2 * many}) == Parts{tp, dp, dp});
    Layout context{.cp = many, .dp = 2 * many};
    context.cp_kind = CpKind::AllGather;
    CHECK(sized(context) == Parts{cp, dp, dp});
    context.cp = 2 * many, context.dp = many;
    CHECK(sized(context) == Parts{dp, cp, dp});
    CHECK(parts({.tp = many, .dp = many}, {{kReduce, many, 20, 1}, {kGather, many, 30, 9}}) == Parts{dp, tp});
  }
  const std::vector<Group> sends = {{kSend, 0, 20, 2}, {kSend, 0, 30, 9}};
  Layout experts{.pp = 2, .dp = 8, .ep = 4}, ring{.cp = 2, .pp = 2, .dp = 4}, stages{.pp = 2, .dp = 8};
  ring.cp_kind = CpKind::Ring;
  CHECK(parts(experts, sends) == Parts{pp, ep});
  CHECK(parts(ring, sends) == Parts{pp, cp});
  CHECK(parts(stages, sends) == Parts{pp, pp});
  CHECK(parts(experts, {{kSend, 4, 20, 2}, {kSend, 2, 30, 9}}) == Parts{ep, pp});
  CHECK(parts(experts, {{kAll, 0, 20, 2}}) == Parts{ep});
  CHECK(parts(ring, {{kAll, 0, 20, 2}}) == Parts{cp});
  experts.pp = 1, ring.pp = 1;
  CHECK(parts(experts, sends) == Parts{ep, ep});
  CHECK(parts(ring, sends) == Parts{cp, cp});
}
