// What logs and nvidia-smi say of faults, written here in their own words: memory that ran out, slow links, low clocks.
#include <doctest/doctest.h>

#include <fstream>
#include <iterator>

#include "cli/logs/log_keys.hpp"
#include "cli/logs/smi_read.hpp"
#include "cli/request/table/option_table.hpp"
#include "must_read.hpp"
#include "tests/temporary_folder.hpp"

using namespace plan;

TEST_CASE("PyTorch's words when memory is out") {
  const MeasuredLog log = must_read(
      "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 3 has a total capacity of "
      "79.11 GiB of which 1.25 GiB is free. Including non-PyTorch memory, this process has 77.80 GiB memory in use. Of "
      "the "
      "allocated memory 70.50 GiB is allocated by PyTorch, and 5.25 GiB is reserved by PyTorch but unallocated.\n");
  REQUIRE(log.out_of_memory.has_value());
  constexpr double kGiB = 1073741824.0;
  CHECK(log.out_of_memory->where == "out.log:1");
  CHECK(log.out_of_memory->asked == RealBytes(2.5 * kGiB));
  CHECK(log.out_of_memory->capacity == RealBytes(79.11 * kGiB));
  CHECK(log.out_of_memory->free == RealBytes(1.25 * kGiB));
  CHECK(log.out_of_memory->allocated == RealBytes(70.5 * kGiB));
  CHECK(log.out_of_memory->reserved_unused == RealBytes(5.25 * kGiB));
}

TEST_CASE("NCCL's channels speak for and against faults") {
  const std::string step = "completed step: 1, seconds: 5.0, TFLOP/s/device: 2, Tokens/s/device: 3\n";
  const auto evidence = [&](const std::string& lines) { return must_read(step + lines).evidence; };
  CHECK(evidence("").empty());
  const auto sockets = evidence("n0:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/Socket/0\n");
  REQUIRE(sockets.size() == 1);
  CHECK(sockets[0].fault == "network_slow");
  const auto shared = evidence("n0:1:2 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct/direct\n");
  REQUIRE(shared.size() == 1);
  CHECK((shared[0].fault == "links_slow" && shared[0].speaks_for));
  const auto direct = evidence("n0:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\n");
  REQUIRE(direct.size() == 1);
  CHECK((direct[0].fault == "links_slow" && !direct[0].speaks_for));
  CHECK(evidence("n0:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA\n").empty());
  CHECK(evidence("n0:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0\n").size() == 1);
  CHECK(
      evidence("n0:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 9[1] [send] via NET/IB/0(1)/GDRDMA(PCI)/Shared\n").empty());
  const auto off = evidence("n0:1:2 [0] NCCL INFO NCCL_P2P_DISABLE set by environment to 1.\n");
  REQUIRE(off.size() == 1);
  CHECK(off[0].fault == "links_slow");
  const MeasuredLog log = must_read(step +
                                    "n0:1:2 [0] NCCL INFO NCCL version 2.21.5+cuda12.4\nn0:1:2 [0] NCCL INFO 16 coll "
                                    "channels, 16 collnet channels, 0 "
                                    "nvls channels, 32 p2p channels, 2 p2p channels per peer\nn0:1:2 [0] NCCL INFO 24 "
                                    "coll channels, 32 p2p channels, 2 "
                                    "p2p channels per peer\nNCCL INFO  coll channels\n coll channels NCCL\n");
  CHECK(log.nccl_channels == 24);
  CHECK(log.nccl_versions == std::vector<std::string>{"2.21.5+cuda12.4"});
}

TEST_CASE("nvidia-smi's lines: throttling and one slow GPU") {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "smi.csv";
  std::ofstream out(path);
  out << "timestamp, index, utilization.gpu [%], clocks.current.sm [MHz], clocks_event_reasons.sw_power_cap\n";
  for (int moment = 0; moment < 10; ++moment)
    for (int gpu = 0; gpu < 8; ++gpu)
      out << "2026/01/01, " << gpu << ", 99 %, " << (gpu == 5 ? 1200 : 1755) << " MHz, "
          << (gpu < 4 ? "Active" : "Not Active") << "\n";
  out.close();
  const auto summary = read_smi(path);
  REQUIRE(summary.has_value());
  CHECK(summary->memory_used == RealBytes(0));
  const std::vector<Evidence>* evidence = &summary->evidence;
  REQUIRE(evidence->size() == 2);
  CHECK((*evidence)[0].fault == "clocks_low");
  CHECK((*evidence)[1].fault == "slow_rank");
  CHECK((*evidence)[1].text == "nvidia-smi: GPU 5 runs at 1200 MHz, the others at 1755");
  std::ofstream(path) << "index, memory.used [MiB]\n0, 70000 MiB\n1, 71680 MiB\n0, 100 MiB\n";
  CHECK(read_smi(path)->memory_used == RealBytes(70 * 1073741824.0));
  std::ofstream(path) << "a,b\n1,2\n";
  CHECK(!read_smi(path).has_value());
}

TEST_CASE("the manual and the help name every framework whose lines are read") {
  std::ifstream in(PLAN_SOURCE_DIR "/man/plan-diagnose.1");
  const std::string page{std::istreambuf_iterator<char>(in), {}};
  const Option* flag = find_option("--log");
  REQUIRE(flag != nullptr);
  for (const LogLine& kind : log_lines()) {
    CAPTURE(kind.dialect);
    if (kind.dialect == "Megatron-DeepSpeed") continue;  // one of "Megatron-LM and its forks"
    CHECK(page.find(kind.dialect) != std::string::npos);
    CHECK(flag->more.find(kind.dialect) != std::string_view::npos);
  }
}
