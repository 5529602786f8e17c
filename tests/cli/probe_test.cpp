#include "cli/report/probe.hpp"

#include <doctest/doctest.h>

#include "cli/commands/commands.hpp"
#include "cli/request/probe_options.hpp"
#include "hwprobe/discover.hpp"

using namespace plan;

TEST_CASE("durations") {
  CHECK(read_duration("--budget", "120s").value() == 120);
  CHECK(read_duration("--budget", "90").value() == 90);
  CHECK(read_duration("--budget", "5min").value() == 300);
  CHECK(read_duration("--budget", "1.5 h").value() == 5400);
  for (const char* bad : {"", "s", "-3", "0", "1e99", "3 parsecs", "inf", "25h"}) {
    CAPTURE(bad);
    CHECK_FALSE(read_duration("--budget", bad).has_value());
  }
}

TEST_CASE("without a GPU one message says what is missing and what works, with status 3") {
  if (!discover().gpus.empty()) {
    MESSAGE("skipped: this machine has a GPU");
    return;
  }
  Streams streams;
  CHECK(run_command_line({"probe"}, streams) == kNotMeasured);
  CHECK(streams.out.empty());
  CHECK(streams.err.find("error: nothing to measure here") == 0);
  CHECK(streams.err.find("error:", 5) == std::string::npos);
  CHECK(streams.err.find("--import") != std::string::npos);
  CHECK(streams.err.find("--dry-run") != std::string::npos);
}

TEST_CASE("verdicts in words") {
  CHECK(verdict(0.2) == "faster");
  CHECK(verdict(0.0) == "as expected");
  CHECK(verdict(-0.1) == "below");
  CHECK(verdict(-0.3) == "slow");
}

TEST_CASE("rows of a report fit 80 columns") {
  HardwareProfile p;
  p.gpu.model = "NVIDIA H100 80GB HBM3";
  p.hbm.copy = {2990, 0.123};
  p.gemm = {
      {.format = "mxfp8", .grid = {{16384, 16384, 16384, 12345, 0.1}}, .sustained_tflops = 1500, .burst_tflops = 1600}};
  p.collectives = {{.op = Collective::ReduceScatter,
                    .dtype = "bf16",
                    .layout = {64, 8, 8, true},
                    .table = {{512, 90, 0.2}, {536870912, 23000, 0.02}}}};
  const Cluster expected = load_cluster("dgx-h100", StoreOptions{}).value().value;
  const std::string text = probe_text(p, expected, Terminal{});
  std::size_t begin = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos; begin = end + 1, end = text.find('\n', begin)) {
    CAPTURE(text.substr(begin, end - begin));
    CHECK(display_width(text.substr(begin, end - begin)) <= 81);
  }
}
