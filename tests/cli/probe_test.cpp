#include "cli/report/probe/probe.hpp"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "cli/commands/commands.hpp"
#include "cli/request/flags/probe_options.hpp"
#include "hwprobe/full_profile.hpp"
#include "hwprobe/node/discover.hpp"
#include "hwprobe/profile/compare.hpp"
#include "presets/store.hpp"
#include "temporary_folder.hpp"

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
    CHECK(display_width(text.substr(begin, end - begin)) <= 80);
  }
}

namespace {

using PlainJson = nlohmann::json;

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// A figure of a screen, "2.99 TB/s", in the unit of the JSON.
double figure(std::istringstream& words, const std::string& unit) {
  double value = 0;
  std::string own;
  words >> value >> own;
  if (own == "TB/s" && unit == "GB/s") return 1000 * value;
  if (own == "ms" && unit == "us") return 1000 * value;
  CHECK(own == unit);
  return value;
}

/// The line of a screen that begins with a word.
std::string line_of(const std::string& text, const std::string& begin) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(begin + " ")) return line.substr(begin.size());
  return {};
}

HardwareProfile told_profile() {
  HardwareProfile p = full_profile();
  p.name = "node07", p.gpu.model = "NVIDIA H100 80GB HBM3", p.gpus_per_node = 8, p.nodes = 1;
  p.provenance = {{.id = "m1", .driver = "580.95.05", .cuda_runtime = "13.0", .nccl = "2.28.9"}};
  for (std::size_t i = 0; i < p.collectives.size(); ++i)
    p.collectives[i].quality = {.points = 3, .median_err = 0.03 * static_cast<double>(i), .held_out_err = 0.01},
    p.collectives[i].alpha_us = 10 + static_cast<double>(i), p.collectives[i].busbw_gb_s = 300;
  p.gemm[0].quality = {.points = 3, .median_err = 0.01, .p90_err = 0.02, .held_out_err = 0.09};
  p.attention[0].quality = {.points = 1, .median_err = 0.2, .held_out_err = 0};
  p.warnings = {{"DRIFT", "gemm", "it grew warm"}};
  for (int i = 0; i < 5; ++i) p.skipped.push_back({fmt::format("point {}", i), "budget"});
  p.skipped.push_back({"pair 0 1", "no peer access"});
  return p;
}

}  // namespace

TEST_CASE("a probe's screen and its JSON have the same figures, of what was measured and of what was expected") {
  const HardwareProfile p = told_profile();
  const Cluster expected = load_cluster("dgx-h100", StoreOptions{}).value().value;
  const std::string text = probe_text(p, expected, Terminal{});
  const PlainJson json = PlainJson::parse(probe_json(p, expected, {{"a.txt", "3 curves"}}));
  CHECK(json["schema"] == "plan-probe/1");
  CHECK(json["gpu"] == p.gpu.model);
  CHECK(json["gpus_per_node"] == 8);
  CHECK(json["taken"] == PlainJson::parse(R"([{"file": "a.txt", "what": "3 curves"}])"));
  CHECK(text.starts_with("node07: 8 x NVIDIA H100 80GB HBM3, driver 580.95.05, CUDA 13.0, NCCL 2.28.9\n"));
  CHECK(json["figures"].size() > 50);
  std::map<std::string, int> twins;
  for (const PlainJson& row : json["figures"]) ++twins[row["what"]];
  std::set<std::string> verdicts;
  for (const PlainJson& row : json["figures"]) {
    const std::string what = row["what"], unit = row["unit"];
    CAPTURE(what);
    const double now = row["measured"], before = row["expected"], faster = row["faster_ratio"],
                 spread = row["spread_ratio"];
    CHECK(faster == doctest::Approx((unit == "us" ? before / now : now / before) - 1).epsilon(0.001));
    const std::string judged = faster > 0.1     ? "faster"
                               : faster < -0.2  ? "slow"
                               : faster < -0.07 ? "below"
                                                : "as expected";
    CHECK(row["verdict"] == judged);
    verdicts.insert(judged);
    if (twins[what] > 1) continue;  // of groups that differ in nothing that a row names
    const std::string line = line_of(text, what);
    std::istringstream words(line);
    CHECK(figure(words, unit) == doctest::Approx(now).epsilon(0.006));
    CHECK(figure(words, unit) == doctest::Approx(before).epsilon(0.006));
    double share = 0;
    words >> share;
    CHECK(std::abs(share - 100 * (1 + faster)) <= 0.51);
    CHECK(has(line, "±") == (spread > 0));
    if (spread > 0) CHECK(has(line, fmt::format("{:.1f} %", 100 * spread)));
    CHECK(line.ends_with(judged));
  }
  CHECK(verdicts.size() == 4);
}

TEST_CASE("a probe says how good its fits are, what it could not measure and what to beware of") {
  const HardwareProfile p = told_profile();
  const Cluster expected = load_cluster("dgx-h100", StoreOptions{}).value().value;
  const std::string text = probe_text(p, expected, Terminal{});
  const PlainJson json = PlainJson::parse(probe_json(p, expected, {}));
  REQUIRE(json["curves"].size() == p.collectives.size());
  std::map<std::string, int> grades{{"A", 1}, {"C", 1}};  // of the GEMM and of attention
  for (std::size_t i = 0; i < p.collectives.size(); ++i) {
    const PlainJson& curve = json["curves"][i];
    const double error = 0.03 * static_cast<double>(i);
    const char* grade = error < 0.05 ? "A" : error < 0.12 ? "B" : error < 0.25 ? "C" : "unfit";
    CHECK(curve["grade"] == grade);
    ++grades[grade];
    CHECK(curve["ranks"] == p.collectives[i].layout.n);
    CHECK(curve["nodes"] == p.collectives[i].layout.nodes);
    CHECK(curve["alpha_s"].get<double>() == doctest::Approx(1e-6 * (10 + static_cast<double>(i))));
    CHECK(curve["busbw_bytes_per_s"].get<double>() == doctest::Approx(3e11));
    CHECK(curve["points"] == 3);
    CHECK(curve["median_error_ratio"].get<double>() == doctest::Approx(error).epsilon(1e-3));
    CHECK(curve["held_out_error_ratio"].get<double>() == doctest::Approx(0.01));
  }
  std::string counts;
  for (const auto& [grade, count] : grades) counts += fmt::format("{}{} {}", counts.empty() ? "" : ", ", count, grade);
  CHECK(has(text, fmt::format("fit        {} curves: {}; points left out are predicted within 1.0 % (median)\n",
                              p.collectives.size() + 2, counts)));
  CHECK(has(text, "overlap    gemm beside all_reduce: 1.10 times as long; communication 1.20 times\n"));
  CHECK(has(text, "NCCL takes init 0.20 GiB, all_reduce 0.60 GiB\n"));
  CHECK(has(text, "warning: gemm: it grew warm\n"));
  CHECK(has(text, "skipped    budget: point 0; point 1; point 2 and 2 more\n"));
  CHECK(has(text, "skipped    no peer access: pair 0 1\n"));
  CHECK(json["warnings"].size() == 1);
  CHECK(json["skipped"].size() == 6);
  HardwareProfile one = p, none = p;
  one.collectives.clear(), one.attention.clear(), none = one, none.gemm.clear();
  CHECK(has(probe_text(one, expected, Terminal{}),
            "fit        1 curve: 1 A; points left out are predicted within 9.0 %"));
  CHECK_FALSE(has(probe_text(none, expected, Terminal{}), "fit "));
}

TEST_CASE("who was measured is said: nodes, GPUs that took part, or those that are there") {
  const Cluster expected = load_cluster("dgx-h100", StoreOptions{}).value().value;
  const auto first_line = [&](int per_node, int nodes, int there, const std::string& model) {
    HardwareProfile p;
    p.gpus_per_node = per_node, p.nodes = nodes, p.host_gpus = there, p.gpu = {.model = model, .preset = "h100-sxm"};
    const std::string text = probe_text(p, expected, Terminal{});
    return text.substr(0, text.find('\n'));
  };
  CHECK(first_line(8, 4, 8, "H100") == "4 nodes of 8 x H100");
  CHECK(first_line(4, 1, 8, "H100") == "4 x H100");
  CHECK(first_line(0, 0, 8, "H100") == "8 x H100");
  CHECK(first_line(0, 0, 0, "") == "1 x h100-sxm");
}

TEST_CASE("what changed between two probes is counted, and what did not is not listed") {
  const HardwareProfile before = full_profile();
  HardwareProfile now = before;
  now.hbm.copy.value *= 0.8, now.host_link.h2d.value *= 1.3, now.pairs[0].gb_s *= 0.9;
  const std::string text = profile_diff_text(before, now, Terminal{});
  const std::size_t figures = common_figures(before, now).size();
  CHECK(has(text, fmt::format("\n2 of {} figures are slower than before, {} within noise\n", figures, figures - 3)));
  CHECK(line_of(text, "memory copy").ends_with("slower"));
  CHECK(line_of(text, "GPU 0 to 1").ends_with("slower"));
  CHECK(line_of(text, "host to device").ends_with("faster"));
  CHECK(line_of(text, "memory triad").empty());
  CHECK(profile_diff_text(before, HardwareProfile{}, Terminal{}) == "the two profiles measured nothing in common\n");
}

TEST_CASE("columns stay apart, however far a figure is from the one before") {
  const HardwareProfile before = full_profile();
  for (const double times : {0.001, 1.5, 300.0, 30'000.0}) {
    HardwareProfile now = before;
    now.hbm.copy.value *= times;
    const std::string line = line_of(profile_diff_text(before, now, Terminal{}), "memory copy");
    CAPTURE(line);
    CHECK(has(line, fmt::format("B/s {:>4.0f} % ", 100 * times)));
  }
}

TEST_CASE("a machine is named with its GPUs, its adapters that are up by their rate, and its processors") {
  Machine machine{.host = "n1"};
  machine.cores = 1, machine.numa_nodes = 1;
  CHECK(machine_text(machine) == "n1: no GPU, 1 core on 1 NUMA node");
  machine.gpus = {{.name = "H100"}, {.name = "H100"}};
  machine.driver = "580.1", machine.cores = 96, machine.numa_nodes = 2;
  machine.nics = {{.device = "a", .gb_s = 50, .active = true},
                  {.device = "b", .gb_s = 50, .active = true},
                  {.device = "c", .gb_s = 25, .active = true},
                  {.device = "d", .gb_s = 12.5, .active = false}};
  CHECK(machine_text(machine) ==
        "n1: 2 x H100, driver 580.1, 1 adapter of 200 Gb/s, 2 adapters of 400 Gb/s, 96 cores on 2 NUMA nodes");
}

TEST_CASE("imported rates beyond what the GPU gives are questioned, on the screen and in JSON, and others are not") {
  const TemporaryFolder folder;
  for (const double gb_s : {200.0, 450.0, 740.0, 1200.0}) {
    std::string table = "# nThread 1 nGpus 8\n";
    for (int rank = 0; rank < 8; ++rank)
      table += fmt::format("#  Rank  {0} Group  0 Pid   1 on   node device  {0} [0x1b] NVIDIA H100 80GB HBM3\n", rank);
    table += "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n";
    for (double bytes = 1 << 20; bytes < 1e10; bytes *= 2) {
      const double us = 20 + bytes * 1.75 / gb_s / 1e3, algorithm = bytes / us / 1e3;
      table += fmt::format("{0:.0f} {1:.0f} float sum -1 {2:.2f} {3:.2f} {4:.2f} 0 {2:.2f} {3:.2f} {4:.2f} 0\n", bytes,
                           bytes / 4, us, algorithm, algorithm * 1.75);
    }
    const std::string file = folder.write("all_reduce.txt", table);
    CAPTURE(gb_s);
    const bool beyond = gb_s > 700;
    Streams human, json;
    const int status = run_command_line({"probe", "--import", file, "--op", "all_reduce"}, human);
    CAPTURE(human.err);
    REQUIRE(status == kYes);
    CHECK((human.out.find("warning:") != std::string::npos) == beyond);
    std::istringstream lines(human.out);
    for (std::string line; std::getline(lines, line);) CHECK(display_width(line) <= 80);
    REQUIRE(run_command_line({"probe", "--import", file, "--op", "all_reduce", "--json"}, json) == kYes);
    CHECK(nlohmann::json::parse(json.out)["warnings"].empty() != beyond);
  }
}

TEST_CASE("a probe's time is what was asked for, or that of its ranks on as many nodes as they take") {
  for (const Depth depth : {Depth::Quick, Depth::Standard, Depth::Thorough})
    for (const int per_node : {1, 2, 4, 8})
      for (const int nodes : {1, 2, 3}) {
        ProbeOptions options;
        options.depth = depth;
        const Cluster cluster;
        const int ranks = nodes * per_node;
        CHECK(sweep_request(options, cluster, ranks, per_node).budget_s == default_budget(depth, ranks, nodes));
        options.budget_s = 77;
        const SweepRequest asked = sweep_request(options, cluster, ranks, per_node);
        CHECK(asked.budget_s == 77);
        CHECK(asked.ranks == ranks);
        CHECK(asked.ranks_per_node == per_node);
        CHECK(asked.depth == depth);
      }
}
