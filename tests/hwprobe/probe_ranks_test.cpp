// The program with real ranks on this machine: the built-in launcher, mpirun and srun where they are installed, and
// every way a rank or a rendezvous can fail. Each failure has to end in its message, soon, and never in a hang.
#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

namespace fs = std::filesystem;

namespace {

struct Outcome {
  int status = -1;
  std::string out, err;
  double seconds = 0;
};

/// Without line breaks, which depend on the width of names.
std::string one_line(const std::string& text) {
  std::istringstream words(text);
  std::string all;
  for (std::string word; words >> word;) all += (all.empty() ? "" : " ") + word;
  return all;
}

std::string read(const fs::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// A folder with stand-ins for the vendor's libraries.
struct Bench {
  fs::path folder = fs::temp_directory_path() / ("plan-ranks-" + std::to_string(getpid()));
  Bench() {
    fs::create_directories(folder);
    fs::remove(folder / "libnvidia-ml.so.1");
    fs::create_symlink(PLAN_NVML_DOUBLE, folder / "libnvidia-ml.so.1");
  }
  ~Bench() { fs::remove_all(folder); }
  std::string with_gpus() const {
    return "LD_LIBRARY_PATH=" + folder.string() + " NVML_DOUBLE=hgx PLAN_PROBE_PLUGIN=" PLAN_PLUGIN_DOUBLE " ";
  }
};

/// Runs a shell command; nothing here may take longer than a minute.
Outcome run(const Bench& bench, const std::string& command) {
  static int number = 0;
  const fs::path out = bench.folder / ("out" + std::to_string(++number)),
                 err = bench.folder / ("err" + std::to_string(number));
  const auto begin = std::chrono::steady_clock::now();
  const int status = std::system(("cd " + bench.folder.string() + " && timeout 60 sh -c '" + command + "' > " +
                                  out.string() + " 2> " + err.string())
                                     .c_str());
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read(out), one_line(read(err)), seconds};
}

bool installed(const char* program) {
  return std::system(("command -v " + std::string(program) + " > /dev/null 2>&1").c_str()) == 0;
}

const std::string kPlan = std::string(PLAN_BINARY) + " probe ";

}  // namespace

TEST_CASE("2, 8 and 64 ranks meet under the built-in launcher") {
  const Bench bench;
  for (const std::string ranks : {"2", "8", "64"}) {
    const Outcome done = run(bench, kPlan + "--transport-check --gpus " + ranks + " --timeout 4s");
    CAPTURE(done.err);
    CHECK(done.status == 0);
    CHECK(done.out.find(ranks + " ranks on 1 host met") == 0);
    CHECK(done.out.find("every sum right") != std::string::npos);
  }
}

TEST_CASE("eight ranks say what a probe would meet, and measure nothing") {
  const Bench bench;
  const Outcome done = run(bench, bench.with_gpus() + kPlan + "--check --timeout 4s");
  CAPTURE(done.err);
  CHECK(done.status == 0);
  CHECK(done.out.find("580.95.05, runs CUDA up to 13.0; plugin built with CUDA 13.0") != std::string::npos);
  for (int rank = 0; rank < 8; ++rank) CHECK(done.out.find("GPU-0000000" + std::to_string(rank)) != std::string::npos);
  CHECK(done.out.find("a probe would work") != std::string::npos);
  const Outcome busy =
      run(bench, "LD_LIBRARY_PATH=" + bench.folder.string() +
                     " NVML_DOUBLE=one PLAN_PROBE_PLUGIN=" PLAN_PLUGIN_DOUBLE " " + kPlan + "--check --json");
  CHECK(busy.status == 1);
  CHECK(busy.out.find("\"works\": false") != std::string::npos);
  CHECK(busy.out.find("\"code\": \"BUSY\"") != std::string::npos);
  const Outcome allowed =
      run(bench, "LD_LIBRARY_PATH=" + bench.folder.string() +
                     " NVML_DOUBLE=one PLAN_PROBE_PLUGIN=" PLAN_PLUGIN_DOUBLE " " + kPlan + "--check --allow-busy");
  CHECK(allowed.status == 0);
  const Outcome none = run(bench, "PLAN_PROBE_PLUGIN=" PLAN_PLUGIN_DOUBLE " " + kPlan + "--check");
  CHECK((none.status == 1 || installed("nvidia-smi")));
}

TEST_CASE("eight ranks measure, write a profile, and plan with it") {
  const Bench bench;
  const Outcome done = run(bench, bench.with_gpus() + kPlan + "-o node.yaml --budget 60s --timeout 4s");
  CAPTURE(done.err);
  REQUIRE(done.status == 0);
  CHECK(done.out.find("8 x NVIDIA H100 80GB HBM3, driver 580.95.05, CUDA 13.0, NCCL 2.28.9") != std::string::npos);
  CHECK(done.out.find("wrote node.yaml") != std::string::npos);
  const std::string profile = read(bench.folder / "node.yaml");
  CHECK(profile.find("op: all_reduce") != std::string::npos);
  CHECK(profile.find("reason: \"overlap is not measured here\"") != std::string::npos);
  CHECK(profile.find("partial") == std::string::npos);
  for (const char* seen : {"section: gemm", "sm_clock_mhz_p50: 1755", "sw_power_cap", "passes: 2", "collective: 16",
                           "algo: \"RING/LL, from 2097152 bytes NVLS/SIMPLE\"", "what: all_to_all"}) {
    CAPTURE(seen);
    CHECK(profile.find(seen) != std::string::npos);
  }
  const Outcome planned =
      run(bench, std::string(PLAN_BINARY) + " estimate --model 8b --gpus 64 --layout tp2,zero1 --profile node.yaml");
  CAPTURE(planned.err);
  CHECK(planned.status == 0);
  CHECK(planned.out.find("measured GEMM bf16 fp8") != std::string::npos);
  const Outcome same = run(bench, kPlan + "node.yaml --diff node.yaml");
  CHECK(same.out.find("0 of ") != std::string::npos);
}

TEST_CASE("links that rest while nothing is measured are reported as they work") {
  const Bench bench;
  const std::string library = fs::path(PLAN_PLUGIN_DOUBLE).filename().string();
  const Outcome done = run(
      bench, "NVML_DOUBLE_IDLE=" + library + " " + bench.with_gpus() + kPlan + "-o node.yaml --budget 5s --timeout 4s");
  CAPTURE(done.err);
  REQUIRE(done.status == 0);
  const std::string profile = read(bench.folder / "node.yaml");
  CHECK(profile.find("gen: 5") != std::string::npos);
}

TEST_CASE("a rank that dies, hangs, is stopped or fails is named; what was measured is kept and taken up again") {
  const Bench bench;
  const struct {
    const char *fault, *words;
  } cases[] = {{"die:2", "ended during"},
               {"hang:2", "is not done with"},
               {"stop:2", "has not answered for"},
               {"fail:2", "failed on rank 2 ("}};
  for (const auto& c : cases) {
    CAPTURE(c.fault);
    const Outcome done = run(bench, "PLUGIN_DOUBLE=" + std::string(c.fault) + " " + bench.with_gpus() + kPlan +
                                        "-o part.yaml --timeout 1s --budget 30s");
    CAPTURE(done.err);
    CHECK(done.status == 3);
    CHECK(done.out.empty());
    CHECK(done.err.find(c.words) != std::string::npos);
    CHECK(done.err.find("rank 2 (") != std::string::npos);
    CHECK(done.err.find("`gemm ") != std::string::npos);
    CHECK(done.seconds < 20);
    CHECK(read(bench.folder / "part.yaml").find("partial: yes") != std::string::npos);
    const Outcome rest =
        run(bench, bench.with_gpus() + kPlan + "--resume part.yaml -o whole.yaml --timeout 4s --budget 30s");
    CAPTURE(rest.err);
    CHECK(rest.status == 0);
    CHECK(read(bench.folder / "whole.yaml").find("partial") == std::string::npos);
    fs::remove(bench.folder / "part.yaml");
  }
}

TEST_CASE("a point may take five seconds longer than a rank may be silent, however short it was thought to be") {
  const Bench bench;
  const Outcome done = run(bench, "PLUGIN_DOUBLE=slow:1 CUDA_VISIBLE_DEVICES=0,1 " + bench.with_gpus() + kPlan +
                                      "-o node.yaml --timeout 0.5s --budget 5s");
  CAPTURE(done.err);
  CHECK(done.status == 0);
  CHECK(done.seconds >= 1.5);
}

TEST_CASE("a stopped rank is named by its silence") {
  const Bench bench;
  const std::string rank = "PLAN_WORLD=3 PLAN_JOB=stopped PLAN_LOCAL_WORLD=3 ";
  const std::string flags = "--transport-check --rendezvous file:. --timeout 1s";
  const Outcome done =
      run(bench, rank + "PLAN_RANK=1 PLAN_LOCAL_RANK=1 " + kPlan + flags + " & STOP=$!; kill -STOP $STOP; " + rank +
                     "PLAN_RANK=2 PLAN_LOCAL_RANK=2 " + kPlan + flags + " & " + rank + "PLAN_RANK=0 " + kPlan + flags +
                     "; status=$?; kill -KILL $STOP; exit $status");
  CAPTURE(done.err);
  CHECK(done.status == 3);
  CHECK(done.err.find("2 of 3 ranks joined within 12 s; rank 1 has not") != std::string::npos);
  CHECK(done.seconds < 20);
}

TEST_CASE("a wrong token, a port that is taken, a rank too many") {
  const Bench bench;
  const std::string both = "PLAN_WORLD=2 PLAN_JOB=x ";
  const std::string flags = "--transport-check --timeout 0.3s --rendezvous 127.0.0.1:";
  const Outcome wrong =
      run(bench, "PLAN_PROBE_TOKEN=good PLAN_RANK=0 " + both + kPlan + flags +
                     "28441 & zero=$!; PLAN_PROBE_TOKEN=bad PLAN_RANK=1 " + both + kPlan + flags + "28441; wait $zero");
  CHECK(wrong.status == 3);
  CHECK(wrong.err.find("does not know this job") != std::string::npos);
  CHECK(wrong.err.find("1 of 2 ranks joined") != std::string::npos);
  CHECK(wrong.err.find("good") == std::string::npos);  // a secret is never printed

  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(28442);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  REQUIRE(listen(fd, 8) == 0);
  const Outcome taken = run(bench, "PLAN_RANK=0 " + both + kPlan + flags + "28442");
  CHECK(taken.status == 3);
  CHECK(taken.err.find("finds every port of 127.0.0.1:28442 taken") != std::string::npos);
  const Outcome silent = run(bench, "PLAN_RANK=1 " + both + kPlan + flags + "28442");  // a service that says nothing
  CHECK(silent.status == 3);
  CHECK(silent.err.find("rank 1 did not find rank 0") != std::string::npos);
  close(fd);

  const Outcome twice = run(bench, "for r in 1 1; do PLAN_RANK=$r PLAN_WORLD=3 PLAN_JOB=x " + kPlan + flags +
                                       "28443 & done; PLAN_RANK=0 PLAN_WORLD=3 PLAN_JOB=x " + kPlan + flags + "28443");
  CHECK(twice.status == 3);
  CHECK(twice.err.find("rank 1 has joined already") != std::string::npos);
}

TEST_CASE("ranks that meet at an open port say so in lines that hang together, and those with a token say nothing") {
  const Bench bench;
  const auto met = [&](const std::string& token, const std::string& port) {
    std::string command;
    for (const std::string rank : {"1", "0"})
      command += token + " PLAN_JOB=n PLAN_WORLD=2 PLAN_RANK=" + rank + " " + kPlan +
                 "--transport-check --timeout 4s --rendezvous 127.0.0.1:" + port +
                 (rank == "1" ? " & " : " 2>&1; wait");
    return run(bench, command).out;
  };
  const std::string open = met("", "28451");
  CAPTURE(open);
  CHECK(open.find("note: unauthenticated rendezvous (a job-private network is assumed);\n      --rendezvous") !=
        std::string::npos);
  CHECK(open.find("2 ranks on 1 host met") != std::string::npos);
  CHECK(met("PLAN_PROBE_TOKEN=good", "28461").starts_with("2 ranks on 1 host met"));
}

TEST_CASE("GPUs without a plugin, and a plugin without GPUs, are nothing to measure with, and it is said which") {
  const Bench bench;
  // A copy of the program elsewhere has no plugin beside it.
  const Outcome bare = run(bench, "cp " PLAN_BINARY " here && LD_LIBRARY_PATH=" + bench.folder.string() +
                                      ":$LD_LIBRARY_PATH NVML_DOUBLE=hgx ./here probe -o x.yaml");
  CHECK(bare.status == 3);
  CHECK(bare.err.find("there are GPUs, but not the plugin that measures them: libplan_probe_cuda.so") !=
        std::string::npos);
  const Outcome none =
      run(bench, "LD_LIBRARY_PATH=" + bench.folder.string() +
                     " NVML_DOUBLE=none PLAN_PROBE_PLUGIN=" PLAN_PLUGIN_DOUBLE " " + kPlan + "-o x.yaml");
  CHECK(none.status == 3);
  CHECK(none.err.find("nothing to measure here: the driver lists no GPU") != std::string::npos);
  CHECK(none.err.find("was not built either") == std::string::npos);
}

TEST_CASE("a GPU on which nothing but its memory can be measured is a probe that failed, with the reason") {
  const Bench bench;
  const Outcome done = run(bench, "PLUGIN_DOUBLE=bare:0 CUDA_VISIBLE_DEVICES=0 " + bench.with_gpus() + kPlan +
                                      "-o node.yaml --timeout 4s --budget 20s");
  CAPTURE(done.err);
  CHECK(done.status == 3);
  CHECK(done.err.find("no point could be measured") != std::string::npos);
  CHECK(done.err.find("no kernel image is available") != std::string::npos);
}

TEST_CASE("two jobs at once in one folder do not meet") {
  const Bench bench;
  std::string command;
  for (const std::string job : {"a", "b"})
    for (const std::string rank : {"0", "1", "2"})
      command += "PLAN_JOB=" + job + " PLAN_WORLD=3 PLAN_RANK=" + rank + " " + kPlan +
                 "--transport-check --rendezvous file:. --timeout 2s & ";
  const Outcome done = run(bench, command + "wait");
  CAPTURE(done.err);
  CHECK(done.out.find("3 ranks on 1 host met") != done.out.rfind("3 ranks on 1 host met"));
  CHECK(fs::exists(bench.folder));
  for (const fs::directory_entry& entry : fs::directory_iterator(bench.folder))
    CHECK(entry.path().filename().string().find("rendezvous") == std::string::npos);
}

TEST_CASE("ranks under mpirun") {
  if (!installed("mpirun")) {
    MESSAGE("skipped: no mpirun (openmpi-bin)");
    return;
  }
  const Bench bench;
  const Outcome done =
      run(bench, "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe -n 8 " + kPlan +
                     "--transport-check --timeout 4s");
  CAPTURE(done.err);
  CHECK(done.status == 0);
  CHECK(done.out.find("8 ranks on 1 host met") == 0);
}

TEST_CASE("ranks under srun") {
  if (!installed("srun") || std::system("timeout 5 srun -n 1 true > /dev/null 2>&1") != 0) {
    MESSAGE("skipped: no running Slurm (tests/hwprobe/one_node_slurm.sh starts one)");
    return;
  }
  const Bench bench;
  const Outcome done = run(bench, "srun --overcommit -n 4 " + kPlan + "--transport-check --timeout 4s");
  CAPTURE(done.err);
  CHECK(done.status == 0);
  CHECK(done.out.find("4 ranks on 1 host met") == 0);
}
