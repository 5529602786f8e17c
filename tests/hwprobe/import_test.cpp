#include "hwprobe/import/import.hpp"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <cmath>

#include "formulas/efficiency.hpp"
#include "hwprobe/text.hpp"

using namespace plan;

namespace {

struct Timed {
  double bytes, us;
};
// 8 x H100, all-reduce in half, NCCL 2.29.2: tests/published/hardware.csv.
constexpr Timed kAllReduce[] = {
    {512, 15.59}, {131072, 19.00}, {2097152, 38.18}, {33554432, 199.8}, {536870912, 2111.06}};

std::string rank_lines(int ranks, int per_node) {
  std::string text = "# Using devices\n";
  for (int r = 0; r < ranks; ++r)
    text += fmt::format("#  Rank {:2} Group  0 Pid {:6} on {:>10} device {:2} [0000:{:02x}:00] NVIDIA H100 80GB HBM3\n",
                        r, 4000 + r, fmt::format("node{}", r / per_node), r % per_node, 16 * (r + 1));
  return text;
}

/// The table as nccl-tests prints it.
std::string table(std::string_view program, std::string_view redop, double factor, double wrong = 0) {
  std::string text =
      fmt::format("# Collective test starting: {}\n# nThread 1 nGpus 8 minBytes 512 maxBytes 536870912\n#\n", program);
  text += rank_lines(8, 8);
  text +=
      "#\n#                                                              out-of-place                       in-place\n";
  text +=
      "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw "
      "#wrong\n";
  text +=
      "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)\n";
  for (const Timed& t : kAllReduce) {
    const double rate = t.bytes / t.us / 1e3;
    text += fmt::format(
        "{:12}  {:12}  {:>8}  {:>6}  {:>6}  {:7.2f}  {:6.2f}  {:6.2f}  {:6}  {:7.2f}  {:6.2f}  {:6.2f}  {:6}\n",
        t.bytes, t.bytes / 2, "half", redop, -1, t.us * 1.1, rate / 1.1, rate / 1.1 * factor, wrong, t.us, rate,
        rate * factor, wrong);
  }
  return text + "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 201.9\n#\n";
}

std::string problem(std::string_view text, const std::string& file) {
  HardwareProfile profile;
  const auto done = import_measurements(text, file, profile);
  return done ? std::string() : done.error()[0].message;
}

}  // namespace

TEST_CASE("a table of nccl-tests becomes a curve of its times") {
  HardwareProfile profile;
  REQUIRE(import_measurements(table("all_reduce_perf", "sum", 1.75), "x/out.txt", profile).has_value());
  REQUIRE(profile.collectives.size() == 1);
  const ProfileCurve& curve = profile.collectives[0];
  CHECK(curve.op == Collective::AllReduce);
  CHECK(curve.dtype == "fp16");
  CHECK(curve.layout == GroupShape{8, 8, 1, true});
  REQUIRE(curve.table.size() == 5);
  for (std::size_t i = 0; i < 5; ++i)
    CHECK(curve.table[i].us == doctest::Approx(kAllReduce[i].us).epsilon(0.001));  // in place
  CHECK(curve.busbw_gb_s == doctest::Approx(462).epsilon(0.05));                   // plan-measuring(7) 5.4
  CHECK(grade(curve.quality) != "unfit");
  CHECK(profile.gpu.model == "NVIDIA H100 80GB HBM3");
  CHECK(profile.provenance[0].kind == Provenance::Imported);
  CHECK(profile.provenance[0].source == "out.txt");
  CHECK(profile.provenance[0].gpu_count == 8);
  CHECK(profile.provenance[0].host_count == 1);
}

TEST_CASE("a damaged name of a GPU is made plain") {
  std::string text = table("all_reduce_perf", "sum", 1.75);
  const std::size_t at = text.find("H100 80GB");
  REQUIRE(at != std::string::npos);
  for (std::size_t i = text.find("H100 80GB"); i != std::string::npos; i = text.find("H100 80GB"))
    text.replace(i, 4, "H\xff\x01" + std::string(100, 'x'));
  HardwareProfile profile;
  REQUIRE(import_measurements(text, "x/out.txt", profile).has_value());
  CHECK(profile.gpu.model.starts_with("NVIDIA H??xxx"));
  CHECK(profile.gpu.model.size() == 64);
}

TEST_CASE("an operation is known by its program, its file, or its bandwidths") {
  const auto op = [](const std::string& text, const std::string& file) {
    HardwareProfile profile;
    return import_measurements(text, file, profile) ? profile.collectives.at(0).op : Collective::Broadcast;
  };
  const std::string nameless_sum = table("", "sum", 1.75), nameless_scatter = table("", "sum", 0.875),
                    nameless_none = table("", "none", 0.875);
  CHECK(op(nameless_sum, "x.txt") == Collective::AllReduce);
  CHECK(op(nameless_scatter, "x.txt") == Collective::ReduceScatter);
  CHECK(op(nameless_none, "all_gather_perf.log") == Collective::AllGather);
  CHECK(op(nameless_none, "h100-alltoall.txt") == Collective::AllToAll);
  CHECK(problem(nameless_none, "x.txt") == "`x.txt` does not say which collective it measured");
  // Gather and scatter have an input and an output: the out-of-place column counts.
  HardwareProfile profile;
  REQUIRE(import_measurements(nameless_none, "all_gather.log", profile).has_value());
  CHECK(profile.collectives[0].table[0].us == doctest::Approx(1.1 * 15.59).epsilon(0.001));
}

TEST_CASE("the JSON of nccl-tests says the same as its table") {
  std::string json =
      R"({"version":2,"args":["/opt/all_gather_perf","-b","512"],"nccl_version":22902,"config":{"ngpus":1,"nthreads":1,"devices":[)";
  for (int r = 0; r < 4; ++r)
    json += fmt::format(R"({}{{"rank":{},"hostname":"node{}","device":{},"device_info":"NVIDIA H100 80GB HBM3"}})",
                        r ? "," : "", r, r / 2, r % 2);
  json += "]},\"results\":[";
  for (std::size_t i = 0; i < 5; ++i)
    json += fmt::format(
        R"({}{{"size":{},"count":1,"type":"bfloat16","redop":"none","root":"-1","out_of_place":{{"time":{},"alg_bw":{:.4f},"bus_bw":{:.4f},"nwrong":0}},"in_place":{{"time":1.0,"alg_bw":1,"bus_bw":1,"nwrong":null}}}})",
        i ? "," : "", kAllReduce[i].bytes, kAllReduce[i].us, kAllReduce[i].bytes / kAllReduce[i].us / 1e3,
        0.75 * kAllReduce[i].bytes / kAllReduce[i].us / 1e3);
  json += "]}";
  HardwareProfile profile;
  REQUIRE(import_measurements(json, "a.json", profile).has_value());
  CHECK(profile.collectives[0].op == Collective::AllGather);
  CHECK(profile.collectives[0].layout == GroupShape{4, 2, 2, true});
  CHECK(profile.collectives[0].table[4].us == 2111.06);
  CHECK(profile.provenance[0].nccl == "2.29.2");
}

TEST_CASE("results of perftest in both units") {
  HardwareProfile gigabits, mebibytes, latency;
  const std::string head =
      "                    RDMA_Write BW Test\n Dual-port       : OFF\t\tDevice         : mlx5_0\n";
  REQUIRE(
      import_measurements(
          head + " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n 65536      5000   "
                 "          394.12             393.80   \t\t   0.751114\n 8388608    5000   395.0  394.0   0.005871\n",
          "w.txt", gigabits)
          .has_value());
  CHECK(gigabits.tiers.back().measured_gb_s == doctest::Approx(49.25));
  CHECK(gigabits.provenance[0].tool == "perftest, RDMA_Write BW Test");
  // linux-rdma/perftest issue 65: 1024 B at 5.677340 million messages a second. That is no bandwidth alone.
  const std::string small =
      "#bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n1024       1000             "
      "0.00               5544.28\t\t   5.677340\n";
  CHECK(problem(small, "s.txt").find("the rate of messages of 1024 bytes") != std::string::npos);
  REQUIRE(import_measurements(small + "65536      1000             0.00               5540.00\t\t   0.088640\n",
                              "s.txt", mebibytes)
              .has_value());
  CHECK(mebibytes.tiers.back().measured_gb_s == doctest::Approx(5.677340e6 * 1024 / 1e9).epsilon(1e-4));
  REQUIRE(import_measurements(
              " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    "
              "t_stdev[usec]\n 2       1000          1.52           4.47         1.57     \t       1.58     0.03\n",
              "l.txt", latency)
              .has_value());
  CHECK(latency.tiers.back().latency_us == 1.57);
}

TEST_CASE("the JSON of nvbandwidth") {
  // NVIDIA/nvbandwidth issues 15 (two sockets as rows) and 50.
  const std::string json = R"({"nvbandwidth":{"CUDA Runtime Version":13000,"Driver Version":"580.95.05","testcases":[
    {"name":"host_to_device_memcpy_ce","status":"Passed","bandwidth_matrix":[["25.50","24.26"],["23.90","26.30"]]},
    {"name":"device_to_host_memcpy_ce","status":"Passed","bandwidth_matrix":[[26.77,26.47]]},
    {"name":"host_to_device_bidirectional_memcpy_ce","status":"Passed","bandwidth_matrix":[["11.24","14.42"]]},
    {"name":"device_to_device_memcpy_read_ce","status":"Passed","bandwidth_matrix":[["N/A","26.34"],["26.35","N/A"]]},
    {"name":"multinode_bisect_write_device_to_device_ce","status":"Waived"}]}})";
  HardwareProfile profile;
  REQUIRE(import_measurements(json, "nv.json", profile).has_value());
  CHECK(profile.host_link.h2d.value == doctest::Approx((25.50 + 26.30) / 2));
  CHECK(profile.host_link.d2h.value == doctest::Approx((26.77 + 26.47) / 2));
  CHECK(profile.host_link.bidir.value == doctest::Approx(11.24 + 14.42));
  REQUIRE(profile.pairs.size() == 2);
  CHECK(profile.pairs[0].gb_s == 26.34);
  CHECK(profile.provenance[0].driver == "580.95.05");
}

TEST_CASE("what is no result says so and adds nothing") {
  CHECK(problem("hello", "x").find("holds no results") != std::string::npos);
  CHECK(problem(table("all_reduce_perf", "sum", 1.75, 3), "x").find("wrong results") != std::string::npos);
  std::string one = table("all_reduce_perf", "sum", 1.75);  // a single result, the last of all rows
  const std::size_t last = one.find_last_of('0', one.find("# Out of bounds"));
  REQUIRE(last != std::string::npos);
  one[last] = '1';
  CHECK(problem(one, "x").find("1 wrong results") != std::string::npos);
  CHECK(problem("{\"results\": 3}", "x.json").find("no JSON report") != std::string::npos);
  CHECK(problem("{\"nvbandwidth\": 3}", "x.json").find("no JSON report") != std::string::npos);
  for (const char* cases : {"", "\"testcases\": 3", "\"testcases\": []", "\"testcases\": {}"})
    CHECK(problem(fmt::format("{{\"nvbandwidth\": {{{}}}}}", cases), "x.json").find("lists no `testcases`") !=
          std::string::npos);
  CHECK(problem("# algbw busbw\n  8  2  float  sum  -1  3.0  0.0  0.0  0\n", "all_reduce").find("lists 0 rank") !=
        std::string::npos);
  std::string text = table("all_reduce_perf", "sum", 1.75);
  for (std::size_t cut = 0; cut < text.size(); cut += 37) static_cast<void>(problem(text.substr(0, cut), "x"));
}

TEST_CASE("tables of nccl-tests before 2.9 have no root, and times from 10000 us on no point") {
  std::string text =
      rank_lines(8, 8) +
      "#       size         count      type   redop     time   algbw   busbw  error     time   algbw   busbw  error\n"
      "#        (B)    (elements)                       (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)\n"
      "        1024           256     float     sum    21.50    0.05    0.08  2e-07    21.00    0.05    0.09  2e-07\n"
      "  4294967296    1073741824     float     sum    33102  129.75  227.06  4e-07    33090  129.80  227.14  4e-07\n"
      "  8589934592    2147483648     float     sum   112214   76.55  133.96  4e-07   112200   76.56  133.98  4e-07\n";
  HardwareProfile profile;
  REQUIRE(import_measurements(text, "all_reduce.txt", profile).has_value());
  REQUIRE(profile.collectives[0].table.size() == 3);
  CHECK(profile.collectives[0].table[2].us == 112200);
  CHECK(profile.collectives[0].table[1].us == 33090);
}

TEST_CASE("labels of ranks and colours do not hide a table") {
  std::string labelled;
  for (std::size_t begin = 0, line = 0; begin < table("all_reduce_perf", "sum", 1.75).size(); ++line) {
    const std::string text = table("all_reduce_perf", "sum", 1.75);
    const std::size_t end = text.find('\n', begin);
    constexpr std::string_view kLabels[] = {
        "[0] ", "[1,0]<stdout>:", "0: ", "\x1b[1;32m", "x1000c0s0b0n0 0: ", "[prterun-node01-7@1,0]<stdout>:"};
    labelled += std::string(kLabels[line % 6]) + text.substr(begin, end - begin + 1);
    begin = end + 1;
  }
  HardwareProfile profile;
  REQUIRE(import_measurements(labelled, "x.txt", profile).has_value());
  CHECK(profile.collectives[0].table.size() == 5);
  CHECK(profile.collectives[0].layout.n == 8);
}

TEST_CASE("both ways at once count half, and the average is found by its name") {
  HardwareProfile both, quality;
  REQUIRE(
      import_measurements("   RDMA_Write Bidirectional BW Test\n #bytes     #iterations    BW peak[Gb/sec]    BW "
                          "average[Gb/sec]   MsgRate[Mpps]\n 65536      5000             392.70             392.00   "
                          "          0.75\n",
                          "b.txt", both)
          .has_value());
  CHECK(both.tiers.back().measured_gb_s == doctest::Approx(24.5));
  REQUIRE(
      import_measurements("   Send BW Test\n #bytes    #sl      #iterations    BW peak[Gb/sec]    BW "
                          "average[Gb/sec]   MsgRate[Mpps]\n 65536     3         5000             199.00             "
                          "196.00             0.37\n",
                          "q.txt", quality)
          .has_value());
  CHECK(quality.tiers.back().measured_gb_s == doctest::Approx(24.5));
  REQUIRE(quality.tiers.size() == 1);  // a network says nothing of the node's links
  CHECK(quality.tiers[0].kind == "scale_out");
}

TEST_CASE("the text of nvbandwidth says the same as its JSON, and a local copy reads and writes") {
  const std::string text =
      "nvbandwidth Version: v0.8\n\nRunning host_to_device_memcpy_ce.\nmemcpy CE CPU(row) -> GPU(column) bandwidth "
      "(GB/s)\n"
      "           0         1\n 0     55.63     55.60\n\nSUM host_to_device_memcpy_ce 111.23\n\n"
      "Running device_to_device_memcpy_read_ce.\nmemcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)\n"
      "           0         1\n 0       N/A    396.07\n 1    396.31       N/A\n\nSUM device_to_device_memcpy_read_ce "
      "792.38\n\n"
      "Running device_local_copy.\nmemcpy local GPU(column) bandwidth (GB/s)\n           0         1\n 0   1390.00   "
      "1392.00\n\nSUM device_local_copy 2782.00\n";
  HardwareProfile profile;
  REQUIRE(import_measurements(text, "nv.txt", profile).has_value());
  CHECK(profile.host_link.h2d.value == doctest::Approx(55.615));
  REQUIRE(profile.pairs.size() == 2);
  CHECK(profile.pairs[0].gb_s == 396.07);
  CHECK(profile.hbm.copy.value == doctest::Approx(2782));
}

namespace {

/// A table without the lines that say who took part, as people paste them.
std::string pasted(const std::string& whole, std::size_t sizes) {
  std::string text;
  std::size_t rows = 0;
  for (const std::string_view line : lines_of(whole)) {
    const bool row = !line.empty() && line[0] == ' ';
    if (line.find("Rank") != std::string_view::npos || line.find("starting") != std::string_view::npos) continue;
    if (row && ++rows > sizes) continue;
    text += std::string(line) + "\n";
  }
  return text;
}

std::string said(std::string_view text, const std::string& file, const ImportHints& hints = {}) {
  HardwareProfile profile;
  const auto done = import_measurements(text, file, profile, hints);
  return done ? *done : "error: " + done.error()[0].message;
}

std::string topology(const std::vector<std::string>& rows) {
  std::string text = "\x1b[4m\tGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tCPU Affinity\tNUMA Affinity\x1b[0m\n";
  for (std::size_t i = 0; i < rows.size(); ++i) text += "GPU" + std::to_string(i) + "\t" + rows[i] + "\tPIX\t0-23\t0\n";
  return text + "NIC0\tPIX\tPIX\tSYS\tSYS\t X \n\nLegend:\n  NV#  = Connection traversing a bonded set of # NVLinks\n";
}

}  // namespace

TEST_CASE("each file says what was taken of it") {
  const std::string whole = table("all_reduce_perf", "sum", 1.75);
  CHECK(said(whole, "x.txt").find("nccl-tests: all_reduce on 8 GPUs of 1 node, 5 sizes, ") == 0);
  CHECK(said(R"({"test_info": {"test": "RDMA_Write BW Test"}, "results": {"MsgSize": 65536, "n_iterations": 5000,
    "BW_peak": 197.2, "BW_average": 196.0, "MsgRate": 0.373840}})",
             "p.json") == "perftest, RDMA_Write BW Test: 24.5 GB/s of the network");
  CHECK(said(R"({"results": {"MsgSize": 65536, "BW_average": 23365.0, "MsgRate": 0.373840}})", "p.json") ==
        "perftest: 24.5 GB/s of the network");
  CHECK(said(R"({"results": {"MsgSize": 2, "t_min": 1.7, "t_typical": 1.82, "t_avg": 1.9}})", "p.json") ==
        "perftest: latency of the network 1.82 us at 2 bytes");
}

TEST_CASE("results that do not say who took part, or in what, are taken with the words of the user") {
  const std::string cut = pasted(table("all_gather_perf", "none", 0.875), 99);
  CHECK(said(cut, "out.txt").find("does not say which collective") != std::string::npos);
  CHECK(said(cut, "out.txt", {.op = Collective::AllGather}).find("lists 0 rank") != std::string::npos);
  CHECK(said(cut, "out.txt", {.op = Collective::AllGather, .ranks = 8}).find("all_gather on 8 GPUs of 1 node") !=
        std::string::npos);
  const std::string sixteen = pasted(table("all_gather_perf", "none", 0.9375), 99);
  CHECK(said(sixteen, "out.txt", {.op = Collective::AllGather, .ranks = 16, .nodes = 2})
            .find("all_gather on 16 GPUs of 2 nodes") != std::string::npos);
  CHECK(said(sixteen, "out.txt", {.op = Collective::AllGather, .ranks = 8}).find("pass the wire 0.9375 times") !=
        std::string::npos);  // the table knows better
  const std::string whole = table("all_reduce_perf", "sum", 1.75);
  CHECK(said(whole, "x.txt", {.op = Collective::AllGather}).find("`--op` says all_gather") != std::string::npos);
  CHECK(said(whole, "x.txt", {.ranks = 4}).find("lists 8 ranks, and `--ranks` says 4") != std::string::npos);
}

TEST_CASE("one size is a bandwidth, if it is not latency alone") {
  const std::string header =
      "#  size  count  type  redop  root  time  algbw  busbw #wrong  time  algbw  busbw #wrong\n";
  const auto one = [&](double bytes, double us) {
    const double rate = bytes / us / 1e3;
    return header + fmt::format("  {:.0f} {:.0f} float sum -1 {:.2f} {:.2f} {:.2f} 0 {:.2f} {:.2f} {:.2f} 0\n", bytes,
                                bytes / 4, us, rate, 1.75 * rate, us, rate, 1.75 * rate);
  };
  HardwareProfile profile;
  const ImportHints hints{.op = Collective::AllReduce, .ranks = 8};
  const auto done = import_measurements(one(8589934592, 33000), "one.txt", profile, hints);
  REQUIRE(done.has_value());
  const ProfileCurve& curve = profile.collectives.at(0);
  CHECK(curve.busbw_gb_s == doctest::Approx(8589934592 * 1.75 / 33000e-6 / 1e9).epsilon(0.03));
  CHECK(curve.alpha_us > 1);
  CHECK(curve.quality.points == 1);
  CHECK(curve.quality.flags == std::vector<std::string>{"one_size"});
  // The curve passes through its point.
  const double transfer = 8589934592 * 1.75 / (curve.busbw_gb_s * 1e9);
  CHECK(std::pow(std::pow(curve.alpha_us * 1e-6, curve.p) + std::pow(transfer, curve.p), 1 / curve.p) ==
        doctest::Approx(33000e-6));
  CHECK(said(one(1024, 20), "one.txt", hints).find("that is latency") != std::string::npos);
}

TEST_CASE("AMD's twin of nccl-tests, and operations that training does not send") {
  std::string text = table("all_reduce_perf", "sum", 1.75);
  for (std::size_t at = 0; (at = text.find("NVIDIA H100 80GB HBM3", at)) != std::string::npos;)
    text.replace(at, 21, "AMD Instinct MI300X");
  CHECK(said(text, "x.txt").find("rccl-tests: all_reduce on 8 GPUs") == 0);
  CHECK(said(table("reduce_perf", "sum", 1), "x.txt").find("measured reduce, which no step of training sends") !=
        std::string::npos);
}

TEST_CASE("a topology says how many GPUs a host has and how NVLink joins them") {
  HardwareProfile profile;
  const std::vector<std::string> all{"X\tNV18\tNV18\tNV18", "NV18\tX\tNV18\tNV18", "NV18\tNV18\tX\tNV18",
                                     "NV18\tNV18\tNV18\tX"};
  CHECK(said(topology(all), "t") ==
        "nvidia-smi topo -m: 4 GPUs on a host, all joined by NVLink (NV18); no speed of anything");
  const std::vector<std::string> pairs{"X\tNV4\tSYS\tSYS", "NV4\tX\tSYS\tSYS", "SYS\tSYS\tX\tNV4", "SYS\tSYS\tNV4\tX"};
  CHECK(said(topology(pairs), "t").find("NVLink joins them by 2") != std::string::npos);
  const std::vector<std::string> none{"X\tPIX\tSYS\tSYS", "PIX\tX\tSYS\tSYS", "SYS\tSYS\tX\tPIX", "SYS\tSYS\tPIX\tX"};
  CHECK(said(topology(none), "t").find("no NVLink between them") != std::string::npos);
  REQUIRE(import_measurements(topology(none), "t", profile).has_value());
  CHECK(profile.host_gpus == 4);
  CHECK(profile.tiers.empty());
  CHECK(profile.warnings.size() == 1);
  CHECK(said("\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV18\n", "t").find("no whole matrix") != std::string::npos);
  CHECK(said(topology(none) + topology(none), "t").find("more than one matrix") != std::string::npos);
  CHECK(said("\tGPU0\tGPU1\tCPU Affinity\nGPU0\tNV1\tX\nGPU1\tX\tNV1\n", "t").find("marked `X`") != std::string::npos);
}

TEST_CASE("files that hold nothing to take are refused for that reason") {
  CHECK(problem(R"({"test_info": {}, "results": {"MsgSize": 65536, "BW_average": 196.0}})", "p.json").find("unit") !=
        std::string::npos);
  CHECK(problem(R"({"nvbandwidth": {"testcases": [{"name": "device_to_device_latency_sm",
    "bandwidth_matrix": [["700", "N/A"]]}]}})",
                "nv.json")
            .find("no test that a profile has a place for") != std::string::npos);
}
