// Which points a sweep has, counted from what plan-measuring(7) says of each section.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "hwprobe/sweep/sweep.hpp"
#include "hwprobe/sweep/sweep_shapes.hpp"

using namespace plan;

namespace {

Cluster cluster(double speed) {
  Cluster c;
  c.gpu.memory = round_bytes(80 * kGiB);
  c.gpu.peak.fill(FlopsPerSecond(speed * 9.9e14));
  c.gpu.memory_bandwidth = BytesPerSecond(speed * 3.35e12);
  c.gpu.scale_up = BytesPerSecond(speed * 4.5e11);
  c.gpu.nic = BytesPerSecond(speed * 5e10);
  c.gpu.host_link = BytesPerSecond(speed * 6e10);
  c.tiers = {{.name = "nvlink", .size = 8, .bandwidth = c.gpu.scale_up},
             {.name = "net", .size = 1 << 20, .bandwidth = c.gpu.nic}};
  return c;
}

SweepRequest request(int ranks, int per_node, Depth depth) {
  return {.expected = cluster(1), .ranks = ranks, .ranks_per_node = per_node, .depth = depth, .budget_s = 1e9};
}

std::vector<SweepPoint> of(const Sweep& sweep, plan_probe_kind kind) {
  std::vector<SweepPoint> points;
  for (const SweepPoint& p : sweep.points)
    if (p.point.kind == kind) points.push_back(p);
  return points;
}

/// The i-th numbers of some points.
std::set<std::int64_t> numbers(const std::vector<SweepPoint>& points, std::size_t i) {
  std::set<std::int64_t> all;
  for (const SweepPoint& p : points) all.insert(p.point.number[i]);
  return all;
}

constexpr Depth kDepths[] = {Depth::Quick, Depth::Standard, Depth::Thorough};

}  // namespace

TEST_CASE("grids have the sizes that the manual states") {
  for (const Depth depth : kDepths) {
    const bool quick = depth == Depth::Quick;
    SweepRequest r = request(16, 8, depth);
    r.formats = {"bf16", "fp8"};
    const Sweep sweep = plan_sweep(r);
    CHECK(of(sweep, PLAN_PROBE_GEMM).size() == 2 * 3 * (quick ? 27 : 180));  // formats, orientations, shapes
    CHECK(of(sweep, PLAN_PROBE_SUSTAINED).size() == 2);
    const std::vector<SweepPoint> kernels = of(sweep, PLAN_PROBE_KERNEL), host = of(sweep, PLAN_PROBE_HOST_LINK);
    CHECK(numbers(kernels, 0).size() == PLAN_PROBE_KERNELS);
    CHECK(kernels.size() == PLAN_PROBE_KERNELS * (quick ? 2 : 4));
    CHECK(numbers(host, 0) == std::set<std::int64_t>{0, 1, 2});
    CHECK(host.size() == 3 * (quick ? 1 : 3));
    CHECK(numbers(of(sweep, PLAN_PROBE_PAIR), 0) == std::set<std::int64_t>{1, 2, 3, 4, 5, 6, 7});
    std::set<std::int64_t> sizes;  // of messages: powers of two, or the five of them that a quick probe keeps
    for (int power = 9; power <= 30; ++power)
      if (!quick || power == 9 || power == 17 || power == 21 || power == 25 || power == 29)
        sizes.insert(std::int64_t{1} << power);
    CHECK(numbers(of(sweep, PLAN_PROBE_COLLECTIVE), 0) == sizes);
    const std::vector<SweepPoint> attention = of(sweep, PLAN_PROBE_ATTENTION);
    CHECK(numbers(attention, 4) == (quick ? std::set<std::int64_t>{128} : std::set<std::int64_t>{64, 128}));
    for (const int pass : {0, 1})
      CHECK(std::count_if(attention.begin(), attention.end(),
                          [&](const SweepPoint& p) { return p.point.orientation == pass; }) == (quick ? 9 : 27));
    for (const SweepPoint& p : attention) {
      CHECK(p.point.number[1] % p.point.number[2] == 0);  // query heads share key-value heads evenly
      CHECK((p.point.number[1] == p.point.number[2] || p.point.number[1] == 8 * p.point.number[2]));
    }
  }
}

TEST_CASE("the weight gradient has the tokens inside, and every shape is asked in each orientation") {
  for (const Depth depth : kDepths) {
    std::array<std::set<std::array<std::int64_t, 3>>, 3> shapes;  // tokens, inputs, outputs
    for (const SweepPoint& p : of(plan_sweep(request(1, 1, depth)), PLAN_PROBE_GEMM)) {
      const auto& n = p.point.number;
      const auto o = static_cast<std::size_t>(p.point.orientation);
      shapes.at(o).insert(o == 2 ? std::array{n[2], n[1], n[0]} : std::array{n[0], n[2], n[1]});
    }
    CHECK(shapes[0] == shapes[1]);
    CHECK(shapes[0] == shapes[2]);
    std::array<std::int64_t, 3> most{}, least{1 << 30, 1 << 30, 1 << 30};
    for (const auto& shape : shapes[0])
      for (std::size_t i = 0; i < 3; ++i)
        most[i] = std::max(most[i], shape[i]), least[i] = std::min(least[i], shape[i]);
    CHECK(most == std::array<std::int64_t, 3>{8192, 16384, 16384});
    CHECK(least[0] == 512);
    CHECK(least[1] == (depth == Depth::Quick ? 1024 : 512));
    CHECK(least[2] == least[1]);
  }
}

TEST_CASE("copies reach from a mebibyte to the largest power of two that memory has room for") {
  for (const double gib : {8., 24., 80., 192.}) {
    SweepRequest r = request(1, 1, Depth::Quick);
    r.expected.gpu.memory = round_bytes(gib * kGiB);
    const Sweep sweep = plan_sweep(r);
    const std::set<std::int64_t> sizes = numbers(of(sweep, PLAN_PROBE_COPY), 0);
    CHECK(*sizes.begin() == 1 << 20);
    const double largest = static_cast<double>(*sizes.rbegin());
    CHECK(largest <= std::min(4e9, gib * kGiB / 5));
    CHECK(2 * largest > std::min(4e9, gib * kGiB / 5));
    double before = 0;
    for (const std::int64_t size : sizes) {  // a power of two each, at most eight times the one before
      CHECK((size & (size - 1)) == 0);
      CHECK((before == 0 || static_cast<double>(size) <= 8 * before));
      before = static_cast<double>(size);
    }
    CHECK(sizes.size() == static_cast<std::size_t>(std::ceil(std::log2(largest / (1 << 20)) / 3)) + 1);
    CHECK(sweep.memory_bytes >= 2 * largest);  // from one buffer to another
    CHECK(sweep.memory_bytes < static_cast<double>(r.expected.gpu.memory.value));
  }
}

TEST_CASE("the working memory that a sweep states holds the operands and the result of each product, at four bytes") {
  for (const double gib : {0.5, 2., 8., 80.})
    for (const Depth depth : {Depth::Quick, Depth::Standard}) {
      SweepRequest r = request(1, 1, depth);
      r.expected.gpu.memory = round_bytes(gib * kGiB);
      r.attention = false;  // whose tensors may be larger
      const Sweep sweep = plan_sweep(r);
      for (const SweepPoint& p : of(sweep, PLAN_PROBE_GEMM)) {
        const auto side = [&](int i) { return static_cast<double>(p.point.number[i]); };
        CHECK(sweep.memory_bytes >= 4 * (side(0) * side(2) + side(1) * side(2) + side(0) * side(1)));
      }
    }
}

TEST_CASE("groups are all that plans use, and no others") {
  const auto power = [](int n) { return (n & (n - 1)) == 0; };
  for (const int per_node : {1, 2, 3, 4, 6, 8, 12, 16})
    for (const int nodes : {1, 2, 3, 4, 5, 6, 8, 12}) {
      std::set<std::pair<int, int>> wanted, got;  // ranks of a node, nodes
      for (int inside = 1; inside <= per_node; ++inside)
        for (int across = 1; across <= nodes; ++across) {
          const bool whole = inside == per_node, one = inside == 1;
          const bool some = power(inside) && per_node % inside == 0 && !one && !whole;
          const bool in_node = across == 1 && inside > 1 && (power(inside) || whole);
          const bool of_nodes = across > 1 && (power(across) || across == nodes) && (one || whole);
          const bool strided = across > 1 && some && (across == nodes || across == 2);
          if (in_node || of_nodes || strided) wanted.emplace(inside, across);
        }
      for (const GroupShape& s : group_shapes(per_node * nodes, per_node)) got.emplace(s.ranks_per_node, s.nodes);
      CAPTURE(per_node);
      CAPTURE(nodes);
      CHECK(got == wanted);
    }
}

TEST_CASE("each group runs the operations that training runs on it") {
  for (const Depth depth : kDepths)
    for (const auto& [ranks, per_node] : {std::pair{8, 8}, {16, 8}, {12, 4}, {4, 1}}) {
      std::map<std::array<int, 3>, std::set<std::pair<int, int>>> seen;  // size, stride, all at once -> op, format
      for (const SweepPoint& p : of(plan_sweep(request(ranks, per_node, depth)), PLAN_PROBE_COLLECTIVE))
        seen[{p.point.group_size, p.point.group_stride, p.point.all_groups}].emplace(p.point.op, p.point.format);
      const bool quick = depth == Depth::Quick;
      std::size_t together = 0;
      for (const auto& [group, operations] : seen) {
        const auto& [size, stride, all] = group;
        const auto runs = [&, &operations = operations](Collective op, int format = PLAN_PROBE_BF16) {
          return operations.count({static_cast<int>(op), format}) > 0;
        };
        CHECK((stride == 1 || (size > 1 && per_node % stride == 0 && size * stride <= ranks)));
        CHECK(runs(Collective::AllGather));
        if (all == 0) {  // alone: to tell what sharing costs; the whole job has nobody to share with
          CHECK(!quick);
          CHECK(operations.size() == 1);
          CHECK(size < ranks);
          continue;
        }
        ++together;
        for (const Collective op : {Collective::AllReduce, Collective::ReduceScatter, Collective::AllToAll})
          CHECK(runs(op));
        CHECK(runs(Collective::SendRecv) == (size == 2));
        CHECK(runs(Collective::AllReduce, PLAN_PROBE_FP32) == !quick);
        CHECK(seen.count({size, stride, 0}) == (!quick && size < ranks ? 1 : 0));
      }
      CHECK(together == group_shapes(ranks, per_node).size());
    }
}

TEST_CASE("memory of communicators and overlap are asked where there is somebody to talk to") {
  for (const auto& [ranks, per_node] : {std::pair{1, 1}, {2, 2}, {8, 8}, {16, 8}, {4, 1}}) {
    SweepRequest r = request(ranks, per_node, Depth::Quick);
    const Sweep sweep = plan_sweep(r);
    CHECK(of(sweep, PLAN_PROBE_NCCL_MEMORY).size() == (ranks > 1 ? 3 : 1));
    CHECK(of(sweep, PLAN_PROBE_OVERLAP).size() == (ranks > 1 ? 2 : 0));
    for (const plan_probe_kind kind : {PLAN_PROBE_NCCL_MEMORY, PLAN_PROBE_OVERLAP})
      for (const SweepPoint& p : of(sweep, kind)) {
        CHECK(p.point.group_size == (per_node > 1 ? per_node : ranks));
        CHECK(p.point.group_stride == 1);
        CHECK(p.point.all_groups == 1);
      }
    CHECK(of(sweep, PLAN_PROBE_PAIR).size() == static_cast<std::size_t>(per_node - 1));
    r.nccl = r.attention = false;
    CHECK(of(plan_sweep(r), PLAN_PROBE_NCCL_MEMORY).empty());
    CHECK(of(plan_sweep(r), PLAN_PROBE_ATTENTION).empty());
  }
}

TEST_CASE("sections stand in their order, and messages of one communicator grow") {
  const Sweep sweep = plan_sweep(request(16, 8, Depth::Standard));
  for (std::size_t i = 1; i < sweep.points.size(); ++i) {
    const SweepPoint &before = sweep.points[i - 1], &p = sweep.points[i];
    CHECK(before.section <= p.section);
    const std::string group = p.id.substr(0, p.id.rfind(' '));
    if (p.point.kind == PLAN_PROBE_COLLECTIVE && before.id.starts_with(group + " "))
      CHECK(before.point.number[0] < p.point.number[0]);
  }
  const std::vector<SweepPoint> gemms = of(sweep, PLAN_PROBE_GEMM);  // shuffled, so that drift is no slope
  CHECK_FALSE(std::is_sorted(gemms.begin(), gemms.end(),
                             [](const SweepPoint& a, const SweepPoint& b) { return a.operation_s < b.operation_s; }));
}

TEST_CASE("a machine twice as fast is expected to take between half the time and all of it") {
  SweepRequest slow = request(16, 8, Depth::Standard), fast = slow;
  slow.formats = fast.formats = {"bf16", "fp16", "fp32", "fp8", "nvfp4"};
  fast.expected = cluster(2);
  const Sweep before = plan_sweep(slow), after = plan_sweep(fast);
  REQUIRE(before.points.size() == after.points.size());
  std::map<std::string, double> seconds;
  for (const SweepPoint& p : before.points) seconds[p.id] = p.operation_s;
  std::map<Section, double> best;
  for (const SweepPoint& p : after.points) {
    CAPTURE(p.id);
    CHECK(p.operation_s > 0);
    CHECK(p.operation_s <= seconds[p.id] * 1.0001);
    CHECK(p.operation_s >= seconds[p.id] * 0.4999);
    CHECK(p.cost_s > p.operation_s);
    double& share = best.try_emplace(p.section, 1).first->second;
    share = std::min(share, p.operation_s / seconds[p.id]);
  }
  for (const Section s :
       {Section::Bandwidth, Section::Gemm, Section::Kernels, Section::HostLink, Section::Collectives, Section::Pairs})
    CHECK(best[s] < 0.55);  // its largest operations are bound by what became twice as fast
}

TEST_CASE("formats are priced at their own peaks") {
  for (const auto& [word, dtype] : {std::pair{"fp32", DType::Fp32},
                                    {"fp16", DType::Fp16},
                                    {"bf16", DType::Bf16},
                                    {"fp8", DType::Fp8},
                                    {"mxfp8", DType::Fp8},
                                    {"nvfp4", DType::Fp4}}) {
    SweepRequest r = request(1, 1, Depth::Quick);
    r.formats = {word};
    r.attention = false;
    const double before = plan_sweep(r).wanted_s;
    for (std::size_t i = 0; i < kDTypes; ++i) {
      SweepRequest other = r;
      other.expected.gpu.peak[i] = FlopsPerSecond(1e15 * 20);
      CHECK((plan_sweep(other).wanted_s < before) == (i == static_cast<std::size_t>(dtype)));
    }
  }
}

TEST_CASE("what is left out is the least wanted, and no more of it than time asks for") {
  const Sweep all = plan_sweep(request(16, 8, Depth::Standard));
  CHECK(all.seconds == doctest::Approx(all.wanted_s));
  for (const double share : {0.9, 0.5, 0.2, 0.05, 0.0}) {
    SweepRequest r = request(16, 8, Depth::Standard);
    r.budget_s = share * all.wanted_s;
    const Sweep some = plan_sweep(r);
    CHECK(some.wanted_s == doctest::Approx(all.wanted_s));
    std::map<std::string, const SweepPoint*> points;
    for (const SweepPoint& p : all.points) points[p.id] = &p;
    int kept = 0;
    for (const SweepPoint& p : some.points) kept = std::max(kept, p.priority);
    for (const ProfileSkip& skip : some.skipped) {
      CHECK(points.at(skip.what)->priority >= kept);
      CHECK(points.at(skip.what)->priority > 0);
      CHECK(skip.reason == "budget");
    }
    REQUIRE(!some.skipped.empty());
    CHECK(some.seconds + points.at(some.skipped.back().what)->cost_s > r.budget_s);
    if (share == 0) CHECK(kept == 0);
  }
}

TEST_CASE("a budget of exactly what all points take leaves none out") {
  SweepRequest r = request(8, 8, Depth::Standard);
  r.budget_s = plan_sweep(r).wanted_s;
  CHECK(plan_sweep(r).skipped.empty());
}

TEST_CASE("kernels move the bytes of their operands") {
  // Operands of two bytes each (bf16), or of four (fp32): what is read, then what is written.
  const std::map<std::string, double> bytes{{"rmsnorm", 2 + 2},          {"rmsnorm_bwd", 2 * 2 + 2},
                                            {"softmax", 2 + 2},          {"swiglu", 2 * 2 + 2},
                                            {"residual", 2 * 2 + 2},     {"rope", 2 + 2},
                                            {"cross_entropy", 2 + 2},    {"cast", 4 + 2},
                                            {"adam", 4 * 4 + 3 * 4 + 2}, {"grad_norm", 4}};
  CHECK(bytes.size() == PLAN_PROBE_KERNELS);
  for (int kernel = 0; kernel < PLAN_PROBE_KERNELS; ++kernel)
    CHECK(kernel_bytes(kernel, 1000) == 1000 * bytes.at(std::string(kernel_name(kernel))));
  for (const int none : {-1, int{PLAN_PROBE_KERNELS}}) {
    CHECK(kernel_bytes(none, 1000) == 0);
    CHECK(kernel_name(none) == "unknown");
  }
}

TEST_CASE("names of formats, sections and sizes lead back to what they name") {
  std::set<std::string_view> names;
  for (int format = PLAN_PROBE_FP32; format <= PLAN_PROBE_NVFP4; ++format) {
    CHECK(names.insert(format_name(format)).second);
    CHECK(format_of(format_name(format)) == format);
  }
  CHECK(format_name(-1) == "unknown");
  CHECK(format_name(PLAN_PROBE_NVFP4 + 1) == "unknown");
  CHECK(format_of("fp5") < 0);
  for (int section = 0; section < kSections; ++section) CHECK(names.insert(name(static_cast<Section>(section))).second);
  double bytes = 1;
  for (const std::string unit : {"B", "KiB", "MiB", "GiB", "TiB"}) {
    for (const int number : {1, 5, 512, 768}) CHECK(size_text(number * bytes) == std::to_string(number) + " " + unit);
    bytes *= 1024;
  }
}

TEST_CASE("the time a probe takes by itself is the manual's") {
  for (const Depth depth : kDepths)
    for (const int nodes : {1, 2, 9})
      for (const int ranks : {1, 2, 3, 8, 64}) {
        const double minutes = depth == Depth::Standard   ? 10
                               : depth == Depth::Thorough ? 30
                               : nodes > 1                ? 6
                               : ranks > 1                ? 3
                                                          : 0.75;
        CHECK(default_budget(depth, ranks, nodes) == 60 * minutes);
      }
}

TEST_CASE("attention and products of a model are those of one rank, at the tokens that were asked or the model's own") {
  Model model;
  model.hidden = 4096;
  model.vocab = 32001;  // no degree but one divides it: then its head is left out
  model.default_seq = 6144;
  Layer layer;
  layer.attention = {.heads = 32, .kv_heads = 4, .head_dim = 128};
  layer.dense = {.width = 14336};
  model.kinds = {layer};
  model.layers = {0};
  for (const int tp : {1, 2, 8})
    for (const std::int64_t tokens : {std::int64_t{0}, std::int64_t{1}, std::int64_t{3072}}) {
      model.kinds[0].attention.head_dim = tokens == 1 ? 64 : 128;  // both that kernels are made for
      SweepRequest r = request(1, 1, Depth::Quick);
      r.model = model;
      r.tp = {tp};
      r.tokens = tokens;
      const std::int64_t wanted = tokens == 0 ? 6144 : tokens;
      int found = 0;
      for (const SweepPoint& p : of(plan_sweep(r), PLAN_PROBE_ATTENTION))
        if (p.point.number[1] == 32 / tp && p.point.number[2] == std::max(1, 4 / tp) && p.point.number[3] == wanted &&
            p.point.number[4] == model.kinds[0].attention.head_dim)
          ++found;
      CHECK(found == 2);  // forward and backward
      for (const TrainingGemm& g : training_gemms(model, tp, tokens))
        CHECK((g.orientation == Orientation::WeightGrad ? g.k : g.m) == static_cast<double>(wanted));
      CHECK(training_gemms(model, tp, tokens).size() == 3 * (tp == 1 ? 5 : 4));
    }
}
