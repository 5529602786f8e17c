// What goes wrong on a device that answers: each fault ends in bounded time, in the words and with the exit status that
// it should, and what was measured until then is a profile to plan with.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include "device_bench.hpp"

using namespace plan;
using namespace device_bench;

namespace {

enum class By { Products, Rest };  ///< by which of the bench's probes

/// A fault of one of two ranks that costs a point or a kind of them, and nothing else.
struct Skipped {
  const char* answers;
  By by;
  const char* what;  ///< that is left out
  std::string words;
};

/// A fault that ends the probe.
struct Ended {
  const char* answers;
  std::string words;   ///< of the error, and of the profile's own reason
  std::string ledger;  ///< what the device must have seen, too
};

}  // namespace

TEST_CASE("what one rank or one operation cannot do is skipped with its words, and the rest is measured") {
  const Bench bench;
  const Skipped cases[] = {
      {"small=1:2.6e9", By::Rest, "all_to_all", "GPU 1): memory of the GPU: out of memory"},
      {"fail_kernel=9grad_norm", By::Rest, "kernel grad_norm", "no kernel image is available"},
      {"fail_kernel=1:5triad", By::Rest, "triad", "GPU 1): triad: no kernel image is available"},
      {"wrong=1:all_gather", By::Rest, "all_gather", "GPU 1): a small call of it gave"},
      {"wrong=0:all_to_all", By::Rest, "all_to_all", "GPU 0): a small call of it gave"},
      {"wrong=1:reduce_scatter", By::Rest, "reduce_scatter", "GPU 1): a small call of it gave"},
      {"wrong=0:send_recv", By::Rest, "send_recv", "GPU 0): a small call of it gave"},
      {"wrong=1:all_reduce", By::Rest, "collectives", "GPU 1): an all-reduce of the ranks does not give"},
      {"fail_gemm=1:2048", By::Products, "gemm ", "GPU 1): "},
#ifdef ANSWERING_CUDNN
      {"fail_attention=1:1", By::Products, "attention", "GPU 1): "},
#endif
      {"wrong_gemm=1:1", By::Products, "gemm ", "GPU 1): results differ from a sum in fp32"},
      {"no_blas=1", By::Products, "gemm ", std::string(kBlas) + " does not start"},
  };
  for (const Skipped& c : cases) {
    CAPTURE(std::string(c.answers));
    const bool products = c.by == By::Products;
    const Outcome done = bench.run(c.answers, products ? Bench::some() : bench.rest() + "--quiet", gpus(2));
    CAPTURE(done.err);
    REQUIRE(done.profile.has_value());
    CHECK(done.status == 0);
    CAPTURE(reasons(*done.profile));
    CHECK(skipped_for(*done.profile, c.what, c.words));
    CHECK_FALSE(done.profile->partial);
    const bool none = std::string_view(c.what) == "collectives";
    CHECK((products || (none ? done.profile->collectives.empty() : done.profile->collectives.size() >= 3)));
    CHECK(done.profile->hbm.copy.known());
    CHECK(bench.planned_with());
  }
}

TEST_CASE("what makes the rest impossible ends the probe, names its rank, and leaves what was measured") {
  const Bench bench;
  const Ended cases[] = {
      {"break_kernel=1:9grad_norm", "GPU 1): launch: an illegal memory access", ""},
      {"hang_kernel=1:9grad_norm", "GPU 1): the GPU did not finish in time", ""},
      {"hang=1:all_gather", "the GPU did not finish in time", ""},
      {"die=1:all_gather", "ended during `all_gather", ""},
      {"die=1:split", "rank 1 (", ""},
      {"die=1:all_gather abort_hangs=1", "ended during `all_gather", "an abort hangs"},
  };
  for (const Ended& c : cases) {
    CAPTURE(std::string(c.answers));
    const Outcome done = bench.run(c.answers, bench.rest() + "--timeout 3s", gpus(2));
    CAPTURE(done.err);
    CHECK(done.status == 3);
    CHECK(done.err.find(c.words) != std::string::npos);
    CHECK(done.err.find("--resume out.yaml -o out.yaml") != std::string::npos);
    REQUIRE(done.profile.has_value());
    CHECK(done.profile->partial);
    CHECK_FALSE(done.profile->stopped.empty());
    CHECK(done.profile->hbm.copy.known());
    CHECK(done.ledger.find(c.ledger) != std::string::npos);
    for (const char* never :
         {"under a thread that is in a call", "that is no more"}) {  // nothing is used that has ended
      CAPTURE(done.ledger);
      CHECK(done.ledger.find(never) == std::string::npos);
    }
    CHECK(bench.planned_with());
  }
}

TEST_CASE("an interrupt ends in 130, with what was measured") {
  const Bench bench;
  // One rank gets the signal, as from a scheduler, or all of them at once, as a terminal does.
  for (const auto& way :
       {std::pair{"", "kill -INT $probe"}, std::pair{"setsid ", "bash -c \"kill -INT -- -$probe\""}}) {
    const std::string start = way.first, stop = way.second;
    const Outcome told = bench.run("",
                                   start + Bench::probe() +
                                       "--dtypes bf16 --budget 200s --standard & probe=$!; "
                                       "until grep -q \"from point\" err.txt; do sleep 0.1; done; " +
                                       stop + "; wait $probe",
                                   gpus(2));
    CAPTURE(stop);
    CAPTURE(told.err);
    CHECK(told.status == 130);
    REQUIRE(told.profile.has_value());
    CHECK(told.profile->partial);
    CHECK(told.profile->stopped == "interrupted");
    CHECK(bench.planned_with());
  }
}

TEST_CASE("a slow rank is named, and its times are those of all") {
  const Bench bench;
  const Outcome done = bench.run("slow=1:1.2", Bench::some(), gpus(2));
  CAPTURE(done.err);
  REQUIRE(done.status == 0);
  REQUIRE(done.profile.has_value());
  CHECK(warned_of(*done.profile, "SLOW_GPU", "GPU 1"));
  REQUIRE_FALSE(done.profile->gemm.empty());
  for (const ProfileGemm& gemm : done.profile->gemm)
    for (const GemmPoint& p : gemm.grid) {
      const double out = gemm.orientation == Orientation::WeightGrad ? 4 : 2;
      const double bytes = 2 * (p.m * p.k + p.n * p.k) + out * p.m * p.n;
      CHECK_WITHIN(p.us * 1e-6, 1.2 * truth::gemm_seconds(p.m, p.n, p.k, bytes, 1));
    }
  CHECK(bench.planned_with());
}

TEST_CASE("GPUs by UUID, and GPUs of two kinds") {
  const Bench bench;
  const Outcome one =
      bench.run("", Bench::probe() + "--dtypes bf16 --budget 2s --quiet", fmt::format("{}={}", kChosen, kOne));
  CAPTURE(one.err);
  CHECK(one.status == 0);
  const Outcome mixed = bench.run("mixed=1", Bench::probe() + "--budget 2s", gpus(2) + " NVML_DOUBLE=mixed");
  CHECK(mixed.status == 3);
  CHECK(mixed.err.find("differ in the GPU") != std::string::npos);
  CHECK(mixed.err.find("--allow-different") != std::string::npos);
  const Outcome both = bench.run("mixed=1", Bench::probe() + "--dtypes bf16 --budget 2s --allow-different --quiet",
                                 gpus(2) + " NVML_DOUBLE=mixed");
  CAPTURE(both.err);
  CHECK(both.status == 0);
  REQUIRE(both.profile.has_value());
  CHECK(warned_of(*both.profile, "DIFFERENT"));
  CHECK(bench.planned_with());
}

#ifndef ANSWERING_AMD
TEST_CASE("a part of a GPU is measured by itself, and of several the first, as CUDA sees no other") {
  const Bench bench;
  for (const char* parts : {"MIG-5f3a", "MIG-5f3a,MIG-77c0"}) {
    CAPTURE(std::string(parts));
    const Outcome part = bench.run("", Bench::some(), fmt::format("{}={} NVML_DOUBLE=one", kChosen, parts));
    CAPTURE(part.err);
    CHECK(part.status == 0);
    REQUIRE(part.profile.has_value());
    CHECK(warned_of(*part.profile, "MIG"));
    CHECK(part.profile->collectives.empty());
    CHECK_FALSE(part.profile->gemm.empty());
  }
  // The whole GPU, which others use, is not measured unless asked for.
  const Outcome busy = bench.run("", Bench::some(), "NVML_DOUBLE=one");
  CHECK(busy.status == 3);
  CHECK(busy.err.find("is in use: 2 other processes") != std::string::npos);
  CHECK_FALSE(busy.profile.has_value());
}
#endif

TEST_CASE("a GPU for which the plugin has no code is not measured, and says so") {
  const Bench bench;
  const Outcome none = bench.run("fail_kernel=4gate", Bench::some(), gpus(1));
  CAPTURE(none.err);
  CHECK(none.status == 3);
  CHECK(none.err.find("no kernel image is available") != std::string::npos);
}

TEST_CASE("a host whose sleeps last long measures as any other") {
  const Bench bench;
  const Outcome done = bench.run("coarse=0.05", bench.rest() + "--quiet", gpus(2));
  CAPTURE(done.err);
  CHECK(done.status == 0);
  REQUIRE(done.profile.has_value());
  CHECK(done.profile->collectives.size() >= 5);
  CHECK_FALSE(skipped_for(*done.profile, "", "needed"));
  CHECK(done.ledger.empty());  // no gate gave up
}

TEST_CASE("what another process of the same number left of NCCL's log is neither read nor touched") {
  const Bench bench;
  const std::string line = "h:1:2 [0] NCCL INFO AllReduce: 33554432 Bytes -> Algo STALE proto OLD\n";
  std::ofstream(bench.folder / "beside.sh")
      << "echo \"" << line.substr(0, line.size() - 1) << "\" > $TMPDIR/plan-nccl-$$.log\nexec \"$@\"\n";
  const Outcome done = bench.run("", "sh beside.sh " + bench.rest() + "--quiet", gpus(2));
  CAPTURE(done.err);
  REQUIRE(done.profile.has_value());
  for (const ProfileCurve& curve : done.profile->collectives) CHECK(curve.algo.find("STALE") == std::string::npos);
  int left = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(bench.folder))
    if (entry.path().filename().string().starts_with("plan-nccl-") && entry.path().extension() == ".log") {
      ++left;
      CHECK(read(entry.path()) == line);
    }
  CHECK(left == 1);
}

TEST_CASE("what a probe would meet is said before it measures") {
  const Bench bench;
  const Outcome done = bench.run("", Bench::probe() + "--check", gpus(2));
  CAPTURE(done.err);
  CHECK(done.status == 0);
  const std::string screen = read(bench.folder / "out.txt");
  for (const std::string& seen : {fmt::format("{:<10}", kBlas), fmt::format("{:<10}2.", kNccl),
                                  std::string("GPU-0000000"), std::string("0,1"), std::string("a probe would work")}) {
    CAPTURE(seen);
    CHECK(screen.find(seen) != std::string::npos);
  }
  CHECK_FALSE(fs::exists(bench.folder / "out.yaml"));
  CHECK(done.ledger.empty());
}
