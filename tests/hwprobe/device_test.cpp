// The whole probe, with the plugin's own code, on a device that answers: its operations take the times of
// device/truth.hpp, so that every figure of the profile is known beforehand; and its faults are chosen. Built twice:
// for the plugin that measures NVIDIA's GPUs, and with ANSWERING_AMD for the one that measures AMD's.
#include <doctest/doctest.h>
#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "device/truth.hpp"
#include "formulas/names.hpp"
#include "hwprobe/sweep.hpp"
#include "presets/hardware.hpp"

using namespace plan;
namespace fs = std::filesystem;

namespace {

std::string read(const fs::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Without line breaks, which depend on the width of names.
std::string one_line(const std::string& text) {
  std::istringstream words(text);
  std::string all;
  for (std::string word; words >> word;) all += (all.empty() ? "" : " ") + word;
  return all;
}

#ifdef ANSWERING_AMD
constexpr const char *kManagement = "libamd_smi.so", *kChosen = "HIP_VISIBLE_DEVICES", *kOne = "GPU-0000000000000005",
                     *kPreset = "mi300x", *kLink = "448", *kHalfLink = "224", *kBlas = "hipBLASLt", *kNccl = "RCCL";
constexpr double kForwardFp8 = 1.6;  // its matrix cores know one way to sum
#else
constexpr const char *kManagement = "libnvidia-ml.so.1", *kChosen = "CUDA_VISIBLE_DEVICES", *kOne = "GPU-00000005",
                     *kPreset = "h100-sxm", *kLink = "450", *kHalfLink = "225", *kBlas = "cuBLASLt", *kNccl = "NCCL";
constexpr double kForwardFp8 = 1.9;
#endif

struct Outcome {
  int status = -1;
  std::string err, ledger;
  double seconds = 0;
  std::optional<HardwareProfile> profile{};
};

struct Bench {
  fs::path folder = fs::temp_directory_path() / ("plan-device-" + std::to_string(getpid()));
  Bench() {
    fs::remove_all(folder);
    fs::create_directories(folder);
    fs::create_symlink(ANSWERING_MANAGEMENT, folder / kManagement);
  }
  ~Bench() { fs::remove_all(folder); }

  /// The program's words up to its flags, as this bench runs it.
  static std::string probe() {
    std::string all = std::string(PLAN_BINARY) + " probe --nccl-lib " ANSWERING_NCCL " --cublas-lib " ANSWERING_CUBLAS;
#ifdef ANSWERING_CUDNN
    all += " --cudnn-lib " ANSWERING_CUDNN;
#endif
    return all + " -o out.yaml ";
  }

  /// The same for what a profile of one GPU lacks: kernels, links, collectives. All of it, however slow this machine
  /// is.
  std::string rest() const {
    if (!fs::exists(folder / "one.yaml")) {
      static_cast<void>(run("", probe() + "--dtypes bf16 --budget 300s --quiet", std::string(kChosen) + "=0"));
      fs::rename(folder / "out.yaml", folder / "one.yaml");
    }
    return probe() + "--resume one.yaml --dtypes bf16 --budget 300s ";
  }

  /// A shell command with the device in its environment; `answers` chooses faults.
  Outcome run(const std::string& answers, const std::string& command, const std::string& variables = "") const {
    const std::string environment = fmt::format(
        "cd {0} && LD_LIBRARY_PATH={0} TMPDIR={0} DEVICE_LEDGER={0}/ledger PLAN_PROBE_PLUGIN={1} "
        "NVML_DOUBLE=hgx DEVICE_ANSWERS='{2}' {3} timeout 300 sh -c '{4}' > out.txt 2> err.txt",
        folder.string(), ANSWERING_PLUGIN, answers, variables, command);
    const auto begin = std::chrono::steady_clock::now();
    const int status = std::system(environment.c_str());
    Outcome out{WIFEXITED(status) ? WEXITSTATUS(status) : -1, one_line(read(folder / "err.txt")),
                read(folder / "ledger")};
    out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (fs::exists(folder / "out.yaml"))
      if (auto profile = read_hardware(read(folder / "out.yaml"), "out.yaml")) out.profile = *std::move(profile);
    return out;
  }
};

std::string gpus(int count) {
  std::string list = std::string(kChosen) + "=0";
  for (int i = 1; i < count; ++i) list += fmt::format(",{}", i);
  return list;
}

constexpr double kRight = 0.03;
#define CHECK_WITHIN(measured, truth) CHECK((measured) == doctest::Approx(truth).epsilon(kRight))

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
    fs::remove(bench.folder / "out.yaml");
  }
}

/// Ranks of several hosts on this one: the host of rank r is hosts[r].
static std::string several_hosts(const std::vector<std::string>& hosts, const std::string& probe) {
  std::map<std::string, int> local;
  std::string command;
  for (std::size_t r = 0; r < hosts.size(); ++r) {
    const int place = local[hosts[r]]++;
    const auto beside = std::count(hosts.begin(), hosts.end(), hosts[r]);
    command += fmt::format(
        "NCCL_HOSTID={} PLAN_RANK={} PLAN_WORLD={} PLAN_LOCAL_RANK={} PLAN_LOCAL_WORLD={} PLAN_JOB=j {} "
        "--rendezvous file:. {} ",
        hosts[r], r, hosts.size(), place, beside, probe, r == 0 ? "& zero=$!;" : "> /dev/null 2>&1 &");
  }
  return command + "wait $zero";
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
    fs::remove(bench.folder / "out.yaml");
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

TEST_CASE("what one rank or one operation cannot do is skipped with its words, and the rest is measured") {
  const Bench bench;
  const struct {
    const char *answers, *what;
    std::string words;
  } cases[] = {
      {"small=1:2.6e9", "all_to_all", "GPU 1): memory of the GPU: out of memory"},
      {"fail_kernel=9grad_norm", "kernel grad_norm", "no kernel image is available"},
      {"wrong=1:all_gather", "all_gather", "GPU 1): a small call of it gave"},
      {"wrong=0:all_to_all", "all_to_all", "GPU 0): a small call of it gave"},
      {"fail_gemm=1:2048", "gemm ", "GPU 1): "},
#ifdef ANSWERING_CUDNN
      {"fail_attention=1:1", "attention", "GPU 1): "},
#endif
      {"wrong_gemm=1:1", "gemm ", "GPU 1): results differ from a sum in fp32"},
      {"no_blas=1", "gemm ", std::string(kBlas) + " does not start"},
  };
  for (const auto& c : cases) {
    CAPTURE(c.answers);
    const bool compute = std::string_view(c.what) == "gemm " || std::string_view(c.what) == "attention";
    const Outcome done = bench.run(
        c.answers, compute ? Bench::probe() + "--dtypes bf16 --budget 20s --quiet" : bench.rest() + "--quiet", gpus(2));
    CAPTURE(done.err);
    REQUIRE(done.profile.has_value());
    CHECK(done.status == 0);
    bool said = false;
    for (const ProfileSkip& skip : done.profile->skipped)
      said = said || (skip.what.starts_with(c.what) && one_line(skip.reason).find(c.words) != std::string::npos);
    CHECK(said);
    CHECK_FALSE(done.profile->partial);
    CHECK((compute || done.profile->collectives.size() >= 3));
    fs::remove(bench.folder / "out.yaml");
  }
}

TEST_CASE("a slow rank is named, and its times are those of all") {
  const Bench bench;
  const Outcome done = bench.run("slow=1:1.2", Bench::probe() + "--dtypes bf16 --budget 20s --quiet", gpus(2));
  CAPTURE(done.err);
  REQUIRE(done.status == 0);
  REQUIRE(done.profile.has_value());
  bool named = false;
  for (const ProfileWarning& w : done.profile->warnings)
    named = named || (w.code == "SLOW_GPU" && w.where.find("GPU 1") != std::string::npos);
  CHECK(named);
  REQUIRE_FALSE(done.profile->gemm.empty());
  for (const ProfileGemm& gemm : done.profile->gemm)
    for (const GemmPoint& p : gemm.grid) {
      const double out = gemm.orientation == Orientation::WeightGrad ? 4 : 2;
      const double bytes = 2 * (p.m * p.k + p.n * p.k) + out * p.m * p.n;
      CHECK_WITHIN(p.us * 1e-6, 1.2 * truth::gemm_seconds(p.m, p.n, p.k, bytes, 1));
    }
}

#ifdef ANSWERING_AMD
TEST_CASE("attention is left out by its reason, since there is no library to measure it through") {
  const Bench bench;
  const Outcome done = bench.run("", Bench::probe() + "--dtypes bf16 --budget 20s --quiet", gpus(2));
  REQUIRE(done.profile.has_value());
  CHECK(done.status == 0);
  CHECK(done.profile->attention.empty());
  bool said = false;
  for (const ProfileSkip& skip : done.profile->skipped)
    said = said || (skip.what.starts_with("attention") &&
                    skip.reason == "attention is measured through cuDNN, which AMD's GPUs do not have");
  CHECK(said);
}
#endif

TEST_CASE("a lost GPU, a rank that ends while another's abort hangs, an interrupt: the rest is written, soon") {
  const Bench bench;
  const Outcome lost = bench.run("break_kernel=1:9grad_norm", bench.rest(), gpus(2));
  CAPTURE(lost.err);
  CHECK(lost.status == 3);
  CHECK(lost.err.find("GPU 1): launch: an illegal memory access") != std::string::npos);
  REQUIRE(lost.profile.has_value());
  CHECK(lost.profile->partial);
  fs::remove(bench.folder / "out.yaml");
  const Outcome hangs = bench.run("die=1:all_gather abort_hangs=1", bench.rest() + "--timeout 3s", gpus(2));
  CAPTURE(hangs.err);
  CHECK(hangs.status == 3);
  CHECK(hangs.err.find("rank 1 (") != std::string::npos);
  CHECK(hangs.err.find("ended during `all_gather") != std::string::npos);
  REQUIRE(hangs.profile.has_value());
  CHECK(hangs.profile->partial);
  CHECK(hangs.ledger.find("an abort hangs") != std::string::npos);
  CHECK(hangs.seconds < 200);
  // One rank is told, as a scheduler does, or all of them at once, as a terminal does.
  for (const auto& way :
       {std::pair{"", "kill -INT $probe"}, std::pair{"setsid ", "bash -c \"kill -INT -- -$probe\""}}) {
    const std::string start = way.first, stop = way.second;
    fs::remove(bench.folder / "out.yaml");
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
    CHECK(told.seconds < 200);
  }
}

TEST_CASE("GPUs by UUID, others that are busy, and GPUs of two kinds") {
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
  CHECK(std::any_of(both.profile->warnings.begin(), both.profile->warnings.end(),
                    [](const ProfileWarning& w) { return w.code == "DIFFERENT"; }));
}
