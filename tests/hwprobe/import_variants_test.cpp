// Results of other tools as they reach us: labelled by rank, coloured, cut, joined, with lines lost, doubled or in
// another order. Whatever happened to a file, what is taken of it was in it; else it is refused.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "formulas/efficiency.hpp"
#include "hwprobe/import/import.hpp"

using namespace plan;

namespace {

using Random = std::mt19937;
int below(Random& random, int limit) { return static_cast<int>(random() % static_cast<unsigned>(limit)); }

using Lines = std::vector<std::string>;
std::string joined(const Lines& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

/// One run of nccl-tests and what it says.
struct NcclSample {
  Collective op{};
  int ranks = 0, per_node = 0;
  std::string dtype{};
  std::map<double, std::pair<double, double>> us{};  ///< by bytes: out of place, in place
  Lines lines{};
};

NcclSample nccl_sample(Random& random) {
  static const struct {
    const char *program, *redop;
    Collective op;
  } kinds[] = {{"all_reduce_perf", "sum", Collective::AllReduce},
               {"all_gather_perf", "none", Collective::AllGather},
               {"reduce_scatter_perf", "sum", Collective::ReduceScatter},
               {"alltoall_perf", "none", Collective::AllToAll}};
  const auto& kind = kinds[below(random, 4)];
  const char* const types[][2] = {{"half", "fp16"}, {"bfloat16", "bf16"}, {"float", "fp32"}};
  const auto& type = types[below(random, 3)];
  const bool root = below(random, 3) > 0;  // as releases from 2.9 on
  NcclSample s{kind.op, 2 << below(random, 4), 1, type[1]};
  s.per_node = std::max(1, s.ranks >> below(random, 3));
  s.lines = {fmt::format("# Collective test starting: {}", kind.program),
             "# nThread 1 nGpus 1 minBytes 512 maxBytes 1073741824 step: 2(factor)", "#", "# Using devices"};
  for (int r = 0; r < s.ranks; ++r)
    s.lines.push_back(
        fmt::format("#  Rank {:2} Group  0 Pid {:6} on   node{:02} device {:2} [0000:{:02x}:00] NVIDIA H100 80GB HBM3",
                    r, 4000 + r, r / s.per_node, r % s.per_node, 16 + r));
  const std::string column = root ? "  root" : "", wrong = root ? "#wrong" : " error";
  s.lines.push_back(fmt::format(
      "#       size         count      type   redop  {}     time   algbw   busbw {}     time   algbw   busbw {}",
      column, wrong, wrong));
  s.lines.push_back(
      "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)");
  const double factor = wire_factor(kind.op, s.ranks), rate = 20e3 + below(random, 400000),
               alpha = 8 + below(random, 20);
  const auto shown = [](double us) { return us >= 10000 ? std::round(us) : std::round(us * 100) / 100; };
  for (double bytes = 512; bytes <= 1073741824; bytes *= 8) {
    const double out = shown(alpha + bytes * factor / rate), in = shown(1.07 * out);
    s.us[bytes] = {out, in};
    std::string row = fmt::format("{:12.0f} {:12.0f} {:>9} {:>7}", bytes, bytes / 4, type[0], kind.redop);
    if (root) row += "     -1";
    for (const double us : {out, in})
      row += fmt::format("  {:>7}  {:6.2f}  {:6.2f}  {:>5}",
                         us >= 10000 ? fmt::format("{:.0f}", us) : fmt::format("{:.2f}", us), bytes / us / 1e3,
                         bytes * factor / us / 1e3, root ? "0" : "2e-07");
    s.lines.push_back(row);
  }
  s.lines.push_back("# Out of bounds values : 0 OK");
  s.lines.push_back("# Avg bus bandwidth    : 101.9");
  return s;
}

/// What happens to files. Nothing here changes a number into another one. Each draw is a statement of its own:
/// arguments are worked out in an order that the compiler chooses.
void spoil(Random& random, Lines& lines) {
  const auto any = [&] { return static_cast<std::size_t>(below(random, static_cast<int>(lines.size()))); };
  switch (below(random, 9)) {
    case 0:
      for (std::string& line : lines) line += "\r";
      return;
    case 1: {
      constexpr const char* kLabels[] = {
          "[0] ", "[1,0]<stdout>:", "0: ", "x1000c0s0b0n0 0: ", "[prterun-node01-7@1,0]<stdout>:", " 3: "};
      const char* const label = kLabels[below(random, 6)];
      for (std::string& line : lines) line = label + line;
      return;
    }
    case 2: lines[any()].insert(0, "\x1b[1;32m"); return;
    case 3: lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(any())); return;
    case 4: {
      const std::string copy = lines[any()];
      lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(any()), copy);
      return;
    }
    case 5: {
      const std::size_t one = any(), other = any();
      std::swap(lines[one], lines[other]);
      return;
    }
    case 6:
      for (std::string& line : lines)
        if (line.find('#') == std::string::npos) std::replace(line.begin(), line.end(), '.', ',');
      return;
    case 7: {  // two lines that were written at once
      std::string& line = lines[any()];
      const auto kept = static_cast<std::size_t>(below(random, static_cast<int>(line.size()) + 1));
      const std::string whole = lines[any()];
      line = line.substr(0, kept) + whole;
      return;
    }
    default: return;
  }
}

/// The file that remains: sometimes its end is missing.
std::string left_of(Random& random, const Lines& lines) {
  std::string text = joined(lines);
  if (below(random, 3) == 0) text.resize(random() % text.size());
  return text;
}

}  // namespace

TEST_CASE("of nccl-tests' tables nothing is taken that they do not say, whatever became of them") {
  Random random(11);
  int taken = 0, points = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    std::vector<NcclSample> samples{nccl_sample(random)};
    if (below(random, 3) == 0) samples.push_back(nccl_sample(random));
    Lines lines;
    for (const NcclSample& s : samples) lines.insert(lines.end(), s.lines.begin(), s.lines.end());
    for (int edits = below(random, 3); edits > 0 && !lines.empty(); --edits) spoil(random, lines);
    const std::string text = left_of(random, lines);
    CAPTURE(text);
    HardwareProfile profile;
    const auto done = import_measurements(text, "out.txt", profile);
    if (!done) {
      CHECK(profile.collectives.empty());
      continue;
    }
    ++taken;
    for (const ProfileCurve& curve : profile.collectives) {
      const bool said = std::any_of(samples.begin(), samples.end(), [&](const NcclSample& s) {
        if (curve.op != s.op || curve.dtype != s.dtype || curve.layout.n != s.ranks ||
            curve.layout.ranks_per_node != s.per_node)
          return false;
        return std::all_of(curve.table.begin(), curve.table.end(), [&](const CurvePoint& point) {
          const auto found = s.us.find(point.bytes);
          if (found == s.us.end()) return false;
          const auto near = [&](double us) { return std::abs(point.us / us - 1) < 0.011; };
          return near(found->second.first) || near(found->second.second);
        });
      });
      CHECK(said);
      points += static_cast<int>(curve.table.size());
    }
  }
  CHECK(taken > 1000);  // and files that are whole are read
  CHECK(points > 5 * taken);
}

TEST_CASE("two runs in one file are two curves; two types in one table, too; sizes timed again are one point") {
  Random random(5);
  NcclSample a = nccl_sample(random), b = nccl_sample(random);
  while (b.op == a.op) b = nccl_sample(random);
  HardwareProfile profile;
  REQUIRE(import_measurements(joined(a.lines) + joined(b.lines), "x", profile).has_value());
  REQUIRE(profile.collectives.size() == 2);
  CHECK(profile.collectives[0].op == a.op);
  CHECK(profile.collectives[1].op == b.op);
  CHECK(profile.collectives[1].layout.n == b.ranks);
  std::string both = joined(a.lines);
  const std::string type = a.dtype == "fp32" ? "float" : a.dtype == "fp16" ? "half" : "bfloat16";
  for (std::string line : a.lines)
    if (line[0] == ' ') both += line.replace(line.find(type), type.size(), "double") + "\n" + line + "\n";
  HardwareProfile types;
  REQUIRE(import_measurements(both, "x", types).has_value());
  REQUIRE(types.collectives.size() == 2);
  CHECK(types.collectives[0].dtype == a.dtype);
  CHECK(types.collectives[1].dtype == "double");
  CHECK(types.collectives[1].table.size() == a.us.size());
}

TEST_CASE("ranks that do not form one job are refused by what is strange of them") {
  Random random(5);
  const auto problem = [](const std::string& text) {
    HardwareProfile profile;
    const auto done = import_measurements(text, "x", profile);
    return done ? *done : done.error()[0].message;
  };
  NcclSample s = nccl_sample(random);
  while (s.ranks < 8 || s.per_node < 4) s = nccl_sample(random);
  std::string one, alone, groups, uneven;  // every process for itself; two groups at once; a node with more ranks
  int rank = 0;
  for (const std::string& line : s.lines) {
    const bool its = line.find("# Rank") != std::string::npos || line.find("#  Rank") != std::string::npos;
    if (!its) {
      for (std::string* text : {&one, &alone, &groups, &uneven}) *text += line + "\n";
      continue;
    }
    std::string same = line, group = line, moved = line;
    same.replace(same.find("Rank ") + 5, 2, " 0");
    group.replace(group.find("Group ") + 6, 2, rank % 2 == 0 ? " 0" : " 1");
    if (rank == 0) one += line + "\n";
    if (rank == 0) moved.replace(moved.find("node00"), 6, "node99");
    alone += same + "\n", groups += group + "\n", uneven += moved + "\n";
    ++rank;
  }
  CHECK(problem(one).find("lists 1 rank, and a collective needs two") != std::string::npos);
  CHECK(problem(alone).find("lists rank 0 where rank 1 is due") != std::string::npos);
  CHECK(problem(uneven).find("and 1 on node99") != std::string::npos);
  // These figures are those of all ranks together, and half of them would send less.
  CHECK(problem(groups).find("pass the wire") != std::string::npos);
}

TEST_CASE("rows and programs of two runs in one table are refused by what is strange of them") {
  Random random(5);
  NcclSample s = nccl_sample(random);
  while (s.op != Collective::AllGather) s = nccl_sample(random);
  const auto problem = [](const Lines& lines) {
    HardwareProfile profile;
    const auto done = import_measurements(joined(lines), "x", profile);
    return done ? *done : done.error()[0].message;
  };
  const auto first =
      std::find_if(s.lines.begin(), s.lines.end(), [](const std::string& line) { return line[0] == ' '; });
  const std::ptrdiff_t row = first - s.lines.begin();
  CHECK(problem(s.lines).find("all_gather on") != std::string::npos);
  Lines programs = s.lines, order = s.lines, reduces = s.lines, ranks = s.lines, doubled = s.lines;
  programs.insert(programs.begin() + 2, "# Collective test starting: alltoall_perf");  // passes the wire as often
  CHECK(problem(programs).find("names a second program") != std::string::npos);
  std::swap(order[row + 2], order[row + 5]);
  CHECK(problem(order).find("sizes do not go up") != std::string::npos);
  reduces[0] = "# Collective test starting: reduce_scatter_perf";
  CHECK(problem(reduces).find("reduce_scatter reduces, and the row") != std::string::npos);
  ranks[4] = ranks[4].substr(0, 20) + ranks[5];
  CHECK(problem(ranks).find("lists rank 0 where") != std::string::npos);
  doubled.insert(doubled.begin() + row, doubled[row]);
  CHECK(problem(doubled) == problem(s.lines));
}

namespace {

/// Tables as the two programs print them, and the numbers in them.
struct Printed {
  Lines lines;
  std::vector<double> rates, latencies, h2d, d2h, pairs;
};

double random_rate(Random& random, int most) { return 0.01 * (2000 + below(random, 100 * most)); }

/// One matrix of nvbandwidth; its numbers go to `all`.
void print_matrix(Random& random, Lines& lines, const char* name, const char* title, int size,
                  std::vector<double>& all) {
  lines.insert(lines.end(), {fmt::format("Running {}.", name), title, "           0         1"});
  double sum = 0;
  for (int i = 0; i < size; ++i) {
    std::string row = fmt::format(" {}", i);
    for (int j = 0; j < size; ++j) {
      if (size > 1 && i == j) {
        row += "       N/A";
        continue;
      }
      all.push_back(random_rate(random, 400));
      sum += all.back();
      row += fmt::format("  {:8.2f}", all.back());
    }
    lines.push_back(row);
  }
  lines.insert(lines.end(), {"", fmt::format("SUM {} {:.2f}", name, sum), ""});
}

void print_nvbandwidth(Random& random, Printed& out) {
  out.lines = {"nvbandwidth Version: v0.8", ""};
  print_matrix(random, out.lines, "host_to_device_memcpy_ce", "memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)", 1,
               out.h2d);
  print_matrix(random, out.lines, "device_to_host_memcpy_ce", "memcpy CE CPU(row) <- GPU(column) bandwidth (GB/s)", 1,
               out.d2h);
  print_matrix(random, out.lines, "device_to_device_memcpy_read_ce",
               "memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)", 2, out.pairs);
}

/// One program of perftest: latencies of small reads, or rates of large writes.
void print_perftest(Random& random, bool latency, Printed& out) {
  const std::string rule(87, '-');
  out.lines.insert(out.lines.end(),
                   {latency ? "                    RDMA_Read Latency Test" : "                    RDMA_Write BW Test",
                    " Dual-port       : OFF          Device         : mlx5_0", rule,
                    latency ? " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    "
                              "t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec]"
                            : " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]"});
  for (const double bytes : latency ? std::vector<double>{2} : std::vector<double>{65536, 1048576, 8388608}) {
    if (latency) {
      out.latencies.push_back(0.01 * (100 + below(random, 300)));
      out.lines.push_back(
          fmt::format(" {:.0f}       1000          {:.2f}           14.47        {:.2f}     \t       {:.2f}      "
                      "  \t0.05   \t\t2.62    \t\t3.77",
                      bytes, out.latencies.back() - 0.2, out.latencies.back(), out.latencies.back() + 0.1));
    } else {
      const double average = random_rate(random, 300);
      out.rates.push_back(average / 8);
      out.lines.push_back(fmt::format(" {:.0f}      5000             {:.2f}             {:.2f}   \t\t   {:.6f}", bytes,
                                      average + 1, average, average / 8 * 1e9 / bytes / 1e6));
    }
  }
  out.lines.push_back(rule);
}

bool among(double value, const std::vector<double>& all) {
  return std::any_of(all.begin(), all.end(), [&](double x) { return std::abs(value / x - 1) < 0.03; });
}

void check_taken(const HardwareProfile& profile, const Printed& printed) {
  for (const ProfileTier& tier : profile.tiers) {
    CHECK((tier.measured_gb_s == 0 || among(tier.measured_gb_s, printed.rates)));
    CHECK((tier.latency_us == 0 || among(tier.latency_us, printed.latencies)));
  }
  if (profile.host_link.h2d.known()) CHECK(among(profile.host_link.h2d.value, printed.h2d));
  if (profile.host_link.d2h.known()) CHECK(among(profile.host_link.d2h.value, printed.d2h));
  CHECK((profile.pairs.empty() || profile.gpus_per_node == 2));
  for (const ProfilePair& pair : profile.pairs) CHECK(among(pair.gb_s, printed.pairs));
}

}  // namespace

TEST_CASE("a whole table of perftest is taken, of single bytes and of a network that never varies, too") {
  Random random(4);
  for (int trial = 0; trial < 200; ++trial) {
    const double least = 0.01 * (100 + below(random, 300)), spread = 0.01 * below(random, 3);
    const double typical = least + 0.01 * below(random, 3) * (spread > 0), most = std::max(typical, least + spread);
    const int bytes = 1 << below(random, 12);
    const std::string text = fmt::format(
        "                    RDMA_Read Latency Test\n"
        " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]\n"
        " {}       1000          {:.2f}           {:.2f}        {:.2f}     {:.2f}      0.00\n",
        bytes, least, most, typical, typical);
    CAPTURE(text);
    HardwareProfile profile;
    REQUIRE(import_measurements(text, "x.txt", profile));
    REQUIRE(profile.tiers.size() == 1);
    CHECK(profile.tiers[0].latency_us == doctest::Approx(typical));
  }
}

TEST_CASE("of perftest's and nvbandwidth's tables nothing is taken that they do not say") {
  Random random(3);
  int taken = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    Printed printed;
    if (below(random, 2) == 0) {
      print_nvbandwidth(random, printed);
    } else {
      print_perftest(random, below(random, 2) == 0, printed);
      if (below(random, 3) == 0) print_perftest(random, below(random, 2) == 0, printed);
    }
    for (int edits = below(random, 3); edits > 0 && !printed.lines.empty(); --edits) spoil(random, printed.lines);
    const std::string text = left_of(random, printed.lines);
    CAPTURE(text);
    HardwareProfile profile;
    if (!import_measurements(text, "x.txt", profile)) {
      CHECK(profile.tiers.empty());
      continue;
    }
    ++taken;
    check_taken(profile, printed);
  }
  CHECK(taken > 1000);
}
