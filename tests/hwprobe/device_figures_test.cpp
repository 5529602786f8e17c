// Every figure of a profile against its true one.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <cstdlib>
#include <regex>
#include <string>

#include "device_bench.hpp"
#include "formulas/names.hpp"
#include "hwprobe/sweep/sweep.hpp"

using namespace plan;
using namespace device_bench;

namespace {

void check_collectives(const HardwareProfile& profile, std::size_t least) {
  std::size_t points = 0;
  for (const ProfileCurve& curve : profile.collectives) {
    const std::string op(name(curve.op));
    CAPTURE(op);
    CAPTURE(curve.layout.n);
    CAPTURE(curve.layout.nodes);
    CHECK(grade(curve.quality) != "unfit");
    for (const CurvePoint& point : curve.table) {
      CAPTURE(point.bytes);
      CHECK_WITHIN(point.us * 1e-6, truth::collective_seconds(op, curve.layout.n, curve.layout.nodes, point.bytes));
      ++points;
    }
  }
  CHECK(points >= least);
}

void check_compute(const HardwareProfile& profile) {
  std::size_t points = 0;
  for (const ProfileGemm& gemm : profile.gemm) {
    const bool narrow = gemm.format == "fp8", gradient = gemm.orientation == Orientation::WeightGrad;
    CAPTURE(gemm.format);
    for (const GemmPoint& p : gemm.grid) {
      const double in = narrow ? 1 : 2, out = gradient ? 4 : 2;
      const double faster = !narrow ? 1 : gemm.orientation == Orientation::Forward ? kForwardFp8 : 1.6;
      const double bytes = in * (p.m * p.k + p.n * p.k) + out * p.m * p.n;
      CHECK_WITHIN(p.us * 1e-6, truth::gemm_seconds(p.m, p.n, p.k, bytes, faster));
      ++points;
    }
  }
  CHECK(points > 0);
  for (const ProfileAttention& attention : profile.attention)
    for (const AttentionPoint& p : attention.grid) {
      const double d = attention.head_dim, rows = p.batch * p.heads * p.seq, product = rows * p.seq * d;
      const double cleared = 1e-6 + 4 * rows * d / truth::kMemoryRate;
      CHECK_WITHIN(p.us * 1e-6, attention.backward ? truth::attention_seconds(5 * product) + cleared
                                                   : truth::attention_seconds(2 * product));
    }
  for (const ProfileKernel& kernel : profile.memory_bound) {
    CAPTURE(kernel.op);
    int number = 0;
    while (kernel_name(number) != kernel.op) ++number;
    const double bytes = kernel_bytes(number, 64e6);
    CHECK_WITHIN(kernel.gb_s * 1e9, bytes / truth::memory_seconds(bytes, 3e-6));
  }
  CHECK_WITHIN(profile.hbm.copy.value * 1e9, truth::kMemoryRate);
  if (profile.host_link.h2d.known()) CHECK_WITHIN(profile.host_link.h2d.value * 1e9, truth::kToDevice);
  if (profile.host_link.d2h.known()) CHECK_WITHIN(profile.host_link.d2h.value * 1e9, truth::kToHost);
}

}  // namespace

TEST_CASE("every figure of one GPU is its true one") {
  const Bench bench;
  const Outcome done = bench.run("lazy=1", Bench::probe() + "--budget 300s --quiet", gpus(1));
  CAPTURE(done.err);
  REQUIRE(done.status == 0);
  REQUIRE(done.profile.has_value());
  check_compute(*done.profile);
  CHECK(done.ledger.empty());  // no kernel was loaded behind the gate, no gate gave up
  CHECK(done.profile->gpus_per_node == 1);
}

TEST_CASE("every figure of several GPUs is its true one, although their hosts are late at random") {
  const Bench bench;
  for (const int ranks : {2, 4, 8}) {
    CAPTURE(ranks);
    const Outcome done = bench.run("jitter=1e-3 lazy=1", bench.rest(), gpus(ranks));
    CAPTURE(done.err);
    REQUIRE(done.status == 0);
    REQUIRE(done.profile.has_value());
    CAPTURE(reasons(*done.profile));
    check_compute(*done.profile);
    check_collectives(*done.profile, 15);
    CHECK(done.ledger.empty());
    CHECK(done.err.find("probe: collectives, from point ") != std::string::npos);  // a line a section
    for (const ProfileOverlap& o : done.profile->overlap) {
      CHECK_WITHIN(o.compute_slowdown, truth::kComputeBesideComm);
      CHECK_WITHIN(o.comm_slowdown, truth::kCommBesideCompute);
    }
    for (const ProfilePair& pair : done.profile->pairs)
      CHECK_WITHIN(pair.gb_s * 1e9, 268435456 / truth::pair_seconds(268435456));
    for (const ProfileNcclMemory& m : done.profile->nccl_memory)
      CHECK(m.gib * kGiB ==
            doctest::Approx(m.what == "init" ? truth::communicator_bytes() : truth::first_use_bytes(m.what, ranks)));
    for (const ProfileCurve& curve : done.profile->collectives)
      CHECK(curve.algo.empty() == (curve.op == Collective::AllToAll || curve.op == Collective::SendRecv));
  }
}

TEST_CASE("two nodes, in blocks and dealt out in turn; and two trays of one NVLink domain") {
  const Bench bench;
  const std::vector<std::string> blocks{"a", "a", "b", "b"}, cyclic{"a", "b", "a", "b"};
  const std::vector<std::string> eight{"a", "a", "a", "a", "b", "b", "b", "b"};
  bool strided = false;  // some of each node's ranks in a group, as experts that are split as well have it
  for (const auto& hosts : {blocks, cyclic, eight}) {
    const Outcome done = bench.run("", several_hosts(hosts, bench.rest()));
    CAPTURE(done.err);
    REQUIRE(done.profile.has_value());
    CHECK(done.status == 0);
    check_collectives(*done.profile, 10);
    CHECK(done.profile->nodes == 2);
    bool inside = false, across = false;
    for (const ProfileCurve& curve : done.profile->collectives) {
      inside = inside || (curve.layout.n == 2 && curve.layout.nodes == 1);
      across = across || (curve.layout.n == 2 && curve.layout.nodes == 2);
      strided = strided || (curve.layout == GroupShape{4, 2, 2, true} && hosts == eight);
    }
    CHECK(inside);
    CHECK(across);
  }
  CHECK(strided);
#ifndef ANSWERING_AMD  // NVIDIA's fabric alone reaches over hosts
  const Outcome rack = bench.run("clique=x", several_hosts(blocks, bench.rest()), "NVML_DOUBLE_CLIQUE=3");
  CAPTURE(rack.err);
  REQUIRE(rack.profile.has_value());
  CHECK(rack.profile->nodes == 1);
  CHECK(rack.profile->gpus_per_node == 4);
  for (const ProfileTier& tier : rack.profile->tiers) CHECK(tier.kind != "scale_out");
  check_collectives(*rack.profile, 10);
#endif
}

TEST_CASE("a fabric whose upper switches are narrower has a tier of its own for them") {
  const Bench bench;
  const Outcome done = bench.run("leaf=2", several_hosts({"a", "b", "c", "d"}, bench.rest()));
  CAPTURE(done.err);
  REQUIRE(done.profile.has_value());
  setenv("DEVICE_ANSWERS", "leaf=2", 1);  // for the laws on this side
  check_collectives(*done.profile, 10);
  unsetenv("DEVICE_ANSWERS");
  REQUIRE(done.profile->tiers.size() == 3);
  CHECK(done.profile->tiers[1].size == 2 * 8);  // of each host one GPU was asked, and it has eight
  CHECK_WITHIN(done.profile->tiers[1].measured_gb_s, 48);
  CHECK_WITHIN(done.profile->tiers[2].measured_gb_s, 24);
}

TEST_CASE("half the NVLink bandwidth, measured, changes a plan as a preset edited to half does") {
  const Bench bench;
  const auto step = [&](const std::string& hardware) {
    const Outcome done = bench.run("", std::string(PLAN_BINARY) +
                                           " estimate --model 8b --gpus 8 --seq 8192 --global-batch 16 --layout "
                                           "tp4,dp2,zero1,mb1 --json " +
                                           hardware);
    CAPTURE(done.err);
    REQUIRE(done.status == 0);
    const std::string text = read(bench.folder / "out.txt");
    const std::size_t at = text.find("\"step_time_s\": ");
    REQUIRE(at != std::string::npos);
    return std::atof(text.c_str() + at + 15);
  };
  for (const char* nvlink : {"1", "0.5"}) {
    const Outcome done = bench.run(std::string("nvlink=") + nvlink, bench.rest() + "--quiet", gpus(4));
    CAPTURE(done.err);
    REQUIRE(done.status == 0);
    fs::rename(bench.folder / "out.yaml", bench.folder / (std::string("nvlink") + nvlink + ".yaml"));
  }
  const std::string edit = fmt::format(
      "{} show gpu {} > whole.yaml && sed \"s/scale_up: {} GB/scale_up: {} GB/\" whole.yaml > half.yaml && "
      "! cmp -s whole.yaml half.yaml",
      PLAN_BINARY, kPreset, kLink, kHalfLink);
  REQUIRE(bench.run("", edit).status == 0);
  const double measured = step("--profile nvlink0.5.yaml") / step("--profile nvlink1.yaml");
  const double edited = step("--gpu half.yaml") / step("--gpu whole.yaml");
  CHECK(edited > 1.02);
  CHECK(measured == doctest::Approx(edited).epsilon(0.02));
}

TEST_CASE("a pass over the points takes the device no longer than it was planned to take") {
  const Bench bench;
  for (const int ranks : {1, 4}) {
    CAPTURE(ranks);
    const Outcome done = bench.run("", Bench::probe() + "--dtypes bf16 --budget 45s", gpus(ranks));
    CAPTURE(done.err);
    REQUIRE(done.status == 0);
    // "probe: memory, from point 1 of 208, 17 s left": what the plan of the points comes to, in whole seconds.
    std::smatch first;
    REQUIRE(std::regex_search(done.err, first, std::regex("from point 1 of \\d+, (\\d+) s left")));
    const double planned = std::stod(first[1]);
    CHECK(done.device_seconds <= 2 * (planned + 0.5));  // each point twice, where there is time
    CHECK(done.device_seconds >= 0.1 * planned);        // a budget is not filled with what takes no time
  }
}

#ifdef ANSWERING_AMD
TEST_CASE("attention is left out by its reason, since there is no library to measure it through") {
  const Bench bench;
  const Outcome done = bench.run("", Bench::probe() + "--dtypes bf16 --budget 20s --quiet", gpus(2));
  REQUIRE(done.profile.has_value());
  CHECK(done.status == 0);
  CHECK(done.profile->attention.empty());
  CHECK(skipped_for(*done.profile, "attention", "attention is measured through cuDNN, which AMD's GPUs do not have"));
}

TEST_CASE("each of AMD's architectures is known by its name, has its own eight bits, and its own preset") {
  const Bench bench;
  const struct {
    const char *answers, *management, *preset, *architecture;
  } gpus_of[] = {{"", "board", "mi300x", "gfx942"}, {"gpu=mi355x", "mi355x", "mi355x", "gfx950"}};
  for (const auto& gpu : gpus_of) {
    CAPTURE(std::string(gpu.preset));
    const Outcome done = bench.run(gpu.answers, Bench::probe() + "--dtypes bf16,fp8 --budget 60s --quiet",
                                   gpus(1) + " AMD_SMI_DOUBLE=" + gpu.management);
    CAPTURE(done.err);
    REQUIRE(done.profile.has_value());
    CHECK(done.status == 0);
    CHECK(done.profile->gpu.preset == gpu.preset);
    CHECK(done.profile->gpu.compute_capability == gpu.architecture);
    CHECK(std::any_of(done.profile->gemm.begin(), done.profile->gemm.end(),
                      [](const ProfileGemm& gemm) { return gemm.format == "fp8"; }));
    check_compute(*done.profile);
    CHECK(bench.planned_with());
  }
}
#endif
