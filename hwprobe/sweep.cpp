// Which points a probe measures, in which order, within which time. Grids and sizes: hwprobe.md 1.2 to 1.7.
// Tested by tests/hwprobe/sweep_test.cpp.
#include "hwprobe/sweep.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

#include "formulas/efficiency.hpp"
#include "formulas/names.hpp"
#include "formulas/transient.hpp"

namespace plan {
namespace {

constexpr double kPerPoint = 0.012;  // buffers, heuristics, checks
constexpr double kRepetitions = 36;  // warm-up and samples of one point
constexpr double kCollectiveSetup = 0.05;
constexpr double kCommunicator = 1.5;  // making one, once for each kind of group
constexpr double kSustainedSeconds = 3;
constexpr double kMostBytes = 4e9;  // of one buffer

constexpr std::string_view kSectionNames[] = {"memory",    "bandwidth", "gemm",        "attention", "kernels",
                                              "host_link", "pairs",     "collectives", "overlap"};
constexpr std::string_view kFormatNames[] = {"fp32", "fp16", "bf16", "fp8", "mxfp8", "nvfp4"};
constexpr std::string_view kKernelNames[] = {"rmsnorm", "rmsnorm_bwd",   "softmax", "swiglu", "residual",
                                             "rope",    "cross_entropy", "cast",    "adam",   "grad_norm"};
// Bytes an element: what each kernel reads and writes (bf16 activations, fp32 states).
constexpr double kKernelBytes[] = {4, 6, 4, 6, 6, 4, 4, 6, 30, 4};

/// Collects points of one request.
struct Builder {
  const SweepRequest& request;
  Sweep sweep{};

  bool done(const std::string& id) const {
    return std::find(request.done.begin(), request.done.end(), id) != request.done.end();
  }

  void add(Section section, int priority, std::string id, plan_probe_point point, double operation_s, double bytes,
           double setup = kPerPoint) {
    if (done(id)) return;
    point.least_samples = 9;
    point.most_samples = request.depth == Depth::Thorough ? 100 : 40;
    point.max_seconds = std::max(0.05, 60 * operation_s);
    const double repeated = kRepetitions * operation_s;
    sweep.points.push_back({section, std::move(id), point, operation_s, setup + repeated, priority});
    sweep.memory_bytes = std::max(sweep.memory_bytes, bytes);
  }

  bool at_least(Depth depth) const { return request.depth >= depth; }
};

plan_probe_point make(plan_probe_kind kind, std::initializer_list<double> numbers, int format = PLAN_PROBE_BF16,
                      int orientation = 0) {
  plan_probe_point point{};
  point.kind = kind;
  point.format = format;
  point.orientation = orientation;
  std::size_t i = 0;
  for (const double number : numbers) point.number[i++] = static_cast<std::int64_t>(number);
  return point;
}

double memory_rate(const Builder& b) {
  const double rate = b.request.expected.gpu.memory_bandwidth.value;
  return rate > 0 ? 0.9 * rate : 5e11;
}

void add_memory(Builder& b) { b.add(Section::Memory, 0, "memory ladder", make(PLAN_PROBE_MEMORY, {}), 0.02, 0, 0.5); }

void add_bandwidth(Builder& b) {
  const double largest =
      std::min(kMostBytes, 0.2 * std::max(1e9, static_cast<double>(b.request.expected.gpu.memory.value)));
  const auto one = [&](double bytes, int priority) {
    b.add(Section::Bandwidth, priority, fmt::format("copy {:.0f}", bytes), make(PLAN_PROBE_COPY, {bytes}),
          2 * bytes / memory_rate(b), 2 * bytes);
  };
  const double rounded = std::exp2(std::floor(std::log2(largest)));
  one(rounded, 0);
  b.add(Section::Bandwidth, 0, fmt::format("triad {:.0f}", rounded / 2), make(PLAN_PROBE_TRIAD, {rounded / 2}),
        1.5 * rounded / memory_rate(b), 1.5 * rounded);
  for (double bytes = 1 << 20; bytes < rounded; bytes *= 8) one(bytes, 4);
}

constexpr std::string_view kOrientations3[] = {"tn", "nn", "nt"};

void add_gemm(Builder& b, std::string_view format, double m, double n, double k, int orientation, int priority) {
  const int code = format_of(format);
  const DType dtype = code >= PLAN_PROBE_NVFP4  ? DType::Fp4
                      : code >= PLAN_PROBE_FP8  ? DType::Fp8
                      : code == PLAN_PROBE_FP16 ? DType::Fp16
                      : code == PLAN_PROBE_FP32 ? DType::Fp32
                                                : DType::Bf16;
  const double seconds =
      gemm_time(b.request.expected.gpu, {m, n, k}, dtype, static_cast<Orientation>(orientation)).value;
  const std::string id = fmt::format("gemm {} {} {:.0f}x{:.0f}x{:.0f}", format,
                                     kOrientations3[static_cast<std::size_t>(orientation)], m, n, k);
  for (const SweepPoint& point : b.sweep.points)
    if (point.id == id) return;
  b.add(Section::Gemm, priority, id, make(PLAN_PROBE_GEMM, {m, n, k}, code, orientation), seconds,
        4 * (m * k + n * k + m * n));
}

/// Tokens x widths; the weight gradient has the tokens inside. 27 points where time is short, else 180.
void add_gemm_grid(Builder& b, std::string_view format, int orientation, int priority) {
  constexpr std::array<double, 5> kTokens{512, 1024, 2048, 4096, 8192};
  constexpr std::array<double, 6> kWidths{512, 1024, 2048, 4096, 8192, 16384};
  const bool full = b.at_least(Depth::Standard);
  for (std::size_t t = 0; t < kTokens.size(); ++t)
    for (std::size_t i = 0; i < kWidths.size(); ++i)
      for (std::size_t j = 0; j < kWidths.size(); ++j) {
        const bool coarse = t % 2 == 0 && i % 2 == 1 && j % 2 == 1;
        if (!coarse && !full) continue;
        const double m = orientation == 2 ? kWidths[i] : kTokens[t];
        const double k = orientation == 2 ? kTokens[t] : kWidths[j];
        const double n = orientation == 2 ? kWidths[j] : kWidths[i];
        add_gemm(b, format, m, n, k, orientation, priority + (coarse ? 0 : 3));
      }
}

void add_gemms(Builder& b) {
  for (const std::string& format : b.request.formats) {
    const int code = format_of(format);
    // Tensor cores take fp8 and narrower operands in one arrangement alone; training transposes them.
    const int orientations = code >= PLAN_PROBE_FP8 ? 1 : 3;
    for (const int tp : b.request.tp)
      for (const TrainingGemm& g : training_gemms(b.request.model, tp, b.request.tokens))
        if (static_cast<int>(g.orientation) < orientations)
          add_gemm(b, format, g.m, g.n, g.k, static_cast<int>(g.orientation), 1);
    for (int o = 0; o < orientations; ++o) add_gemm_grid(b, format, o, o == 0 ? 1 : 2);
    plan_probe_point hold = make(PLAN_PROBE_SUSTAINED, {8192, 8192, 8192}, code);
    const std::string id = fmt::format("sustained {} 8192x8192x8192", format);
    if (b.done(id)) continue;
    b.add(Section::Gemm, 2, id, hold, 0.002, 6e8, kSustainedSeconds + 0.1);
    b.sweep.points.back().point.max_seconds = kSustainedSeconds;
    b.sweep.points.back().cost_s = kSustainedSeconds + 0.2;
  }
}

void add_attention(Builder& b) {
  if (!b.request.attention) return;
  const auto one = [&](double heads, double kv, double seq, double dim, int pass, int priority) {
    const AttentionWork work{1, seq, seq / 2, heads, dim, dim};
    const Gpu& gpu = b.request.expected.gpu;
    const double seconds =
        pass == 0 ? attention_forward_time(gpu, work).value : attention_backward_time(gpu, work).value;
    const std::string id =
        fmt::format("attention {} d{:.0f} b1 h{:.0f}/{:.0f} s{:.0f}", pass == 0 ? "fwd" : "bwd", dim, heads, kv, seq);
    for (const SweepPoint& point : b.sweep.points)
      if (point.id == id) return;
    b.add(Section::Attention, priority, id, make(PLAN_PROBE_ATTENTION, {1, heads, kv, seq, dim}, PLAN_PROBE_BF16, pass),
          seconds, 8 * 2 * heads * seq * dim, 0.25);
  };
  for (const int pass : {0, 1}) {
    for (const Layer& layer : b.request.model.kinds)
      for (const int tp : b.request.tp)
        if (layer.mixer == Mixer::Attention && (layer.attention.head_dim == 64 || layer.attention.head_dim == 128))
          one(static_cast<double>(layer.attention.heads / tp),
              static_cast<double>(std::max<std::int64_t>(1, layer.attention.kv_heads / tp)),
              static_cast<double>(b.request.tokens > 0 ? b.request.tokens : b.request.model.default_seq),
              static_cast<double>(layer.attention.head_dim), pass, 1);
    for (const double seq : {1024.0, 4096.0, 16384.0})
      for (const double heads : {4.0, 16.0, 64.0}) one(heads, heads, seq, 128, pass, 2);
    if (!b.at_least(Depth::Standard)) continue;
    for (const double seq : {2048.0, 8192.0, 32768.0})
      for (const double heads : {8.0, 32.0}) {
        one(heads, heads, seq, 128, pass, 3);
        one(heads, heads / 8, seq, 128, pass, 4);
        one(heads, heads, seq, 64, pass, 4);
      }
  }
}

void add_kernels(Builder& b) {
  for (int kernel = 0; kernel < PLAN_PROBE_KERNELS; ++kernel)
    for (const double elements : {1e6, 8e6, 64e6, 256e6}) {
      const bool ends = elements == 1e6 || elements == 64e6;
      if (!ends && !b.at_least(Depth::Standard)) continue;
      const double bytes = kernel_bytes(kernel, elements);
      b.add(Section::Kernels, ends ? 2 : 4, fmt::format("kernel {} {:.0f}", kernel_name(kernel), elements),
            make(PLAN_PROBE_KERNEL, {static_cast<double>(kernel), elements}), 3e-6 + bytes / memory_rate(b), bytes);
    }
}

void add_host_link(Builder& b) {
  constexpr std::string_view kWays[] = {"h2d", "d2h", "bidir"};
  const double rate = b.request.expected.gpu.host_link.value > 0 ? b.request.expected.gpu.host_link.value : 1e10;
  for (int way = 0; way < 3; ++way)
    for (const double bytes : {65536.0, 8388608.0, 268435456.0}) {
      const bool large = bytes == 268435456.0;
      if (!large && !b.at_least(Depth::Standard)) continue;
      b.add(Section::HostLink, large ? 1 : 4, fmt::format("host {} {:.0f}", kWays[way], bytes),
            make(PLAN_PROBE_HOST_LINK, {static_cast<double>(way), bytes}), 1e-5 + bytes / rate, 2 * bytes);
    }
}

/// Neighbours first; every ordered pair where there is time.
void add_pairs(Builder& b) {
  const int gpus = b.request.ranks_per_node;
  const double rate = b.request.expected.gpu.scale_up.value > 0 ? b.request.expected.gpu.scale_up.value : 1e10;
  constexpr double kBytes = 268435456;
  for (int distance = 1; distance < gpus; ++distance) {
    plan_probe_point point = make(PLAN_PROBE_PAIR, {static_cast<double>(distance), kBytes});
    point.group_size = gpus;
    b.add(Section::Pairs, distance == 1 ? 1 : 4, fmt::format("pair +{}", distance), point, kBytes / (0.8 * rate),
          2 * kBytes);
  }
}

std::vector<double> message_sizes(Depth depth) {
  if (depth == Depth::Quick) return {512, 131072, 2097152, 33554432, 536870912};
  std::vector<double> sizes;
  for (double bytes = 512; bytes <= 1073741824; bytes *= 2) sizes.push_back(bytes);
  return sizes;
}

Group group_of(const GroupShape& shape, int ranks_per_node) {
  const int stride = shape.nodes > 1 && shape.ranks_per_node == 1 ? ranks_per_node : 1;
  return {shape.n, stride};
}

void add_collective(Builder& b, Collective op, int format, const GroupShape& shape, int priority) {
  const Group group = group_of(shape, b.request.ranks_per_node);
  bool first = true;
  for (const double bytes : message_sizes(b.request.depth)) {
    plan_probe_point point = make(PLAN_PROBE_COLLECTIVE, {bytes}, format);
    point.op = static_cast<int>(op);
    point.group_size = shape.n;
    point.group_stride = group.stride;
    point.all_groups = shape.all ? 1 : 0;
    const double seconds = collective_time(b.request.expected, op, bytes, group).value;
    b.add(Section::Collectives, priority,
          fmt::format("{} {} n{} r{} {} {:.0f}", name(op), format_name(format), shape.n, shape.ranks_per_node,
                      shape.all ? "all" : "one", bytes),
          point, seconds, 2 * bytes, kCollectiveSetup + (first ? kCommunicator : 0));
    first = false;
  }
}

void add_collectives(Builder& b) {
  for (const GroupShape& shape : group_shapes(b.request.ranks, b.request.ranks_per_node)) {
    const bool whole = shape.n == b.request.ranks || shape.n == b.request.ranks_per_node || shape.ranks_per_node == 1;
    const int priority = whole ? 1 : 2;
    for (const Collective op : {Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter})
      add_collective(b, op, PLAN_PROBE_BF16, shape, priority);
    add_collective(b, Collective::AllToAll, PLAN_PROBE_BF16, shape, priority + 1);
    if (shape.n == 2) add_collective(b, Collective::SendRecv, PLAN_PROBE_BF16, shape, 1);
    if (!b.at_least(Depth::Standard)) continue;
    add_collective(b, Collective::AllReduce, PLAN_PROBE_FP32, shape, 4);
    GroupShape alone = shape;
    alone.all = false;
    if (shape.n < b.request.ranks) add_collective(b, Collective::AllGather, PLAN_PROBE_BF16, alone, 4);
  }
  if (b.request.ranks < 2) return;
  for (const int op : {-1, static_cast<int>(Collective::AllReduce), static_cast<int>(Collective::AllToAll)}) {
    plan_probe_point point = make(PLAN_PROBE_NCCL_MEMORY, {});
    point.op = op;
    point.group_size = b.request.ranks_per_node > 1 ? b.request.ranks_per_node : b.request.ranks;
    point.group_stride = 1;
    point.all_groups = 1;
    const std::string what = op < 0 ? "init" : std::string(name(static_cast<Collective>(op)));
    b.add(Section::Collectives, 1, fmt::format("nccl memory {}", what), point, 0.01, 0, kCommunicator);
  }
}

void add_overlap(Builder& b) {
  const int n = b.request.ranks_per_node > 1 ? b.request.ranks_per_node : b.request.ranks;
  for (const Collective op : {Collective::AllReduce, Collective::AllGather}) {
    if (n < 2) return;
    plan_probe_point point = make(PLAN_PROBE_OVERLAP, {67108864});
    point.op = static_cast<int>(op);
    point.group_size = n;
    point.group_stride = 1;
    point.all_groups = 1;
    b.add(Section::Overlap, 2, fmt::format("overlap gemm {}", name(op)), point, 0.005, 1e9, 1.0);
  }
}

/// Drops the points of least information until the rest fits.
void keep_budget(Sweep& sweep, double budget_s) {
  const auto total = [&] {
    double sum = 0;
    for (const SweepPoint& p : sweep.points) sum += p.cost_s;
    return sum;
  };
  sweep.seconds = sweep.wanted_s = total();
  while (sweep.seconds > budget_s && !sweep.points.empty()) {
    const auto worst = std::max_element(sweep.points.begin(), sweep.points.end(), [](const auto& a, const auto& b) {
      return std::pair(a.priority, a.cost_s) < std::pair(b.priority, b.cost_s);
    });
    if (worst->priority == 0) break;
    sweep.skipped.push_back({worst->id, "budget"});
    sweep.seconds -= worst->cost_s;
    sweep.points.erase(worst);
  }
}

}  // namespace

std::string_view name(Section section) { return kSectionNames[static_cast<std::size_t>(section)]; }

std::string_view format_name(int format) {
  return format >= 0 && format < 6 ? kFormatNames[format] : std::string_view("unknown");
}

int format_of(std::string_view name) {
  for (int i = 0; i < 6; ++i)
    if (kFormatNames[i] == name) return i;
  return -1;
}

std::string size_text(double bytes) {
  constexpr std::string_view kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  for (; bytes >= 1024 && unit < 4; ++unit) bytes /= 1024;
  return fmt::format("{:.3g} {}", bytes, kUnits[unit]);
}

std::string_view kernel_name(int kernel) {
  return kernel >= 0 && kernel < PLAN_PROBE_KERNELS ? kKernelNames[kernel] : std::string_view("unknown");
}

double kernel_bytes(int kernel, double elements) {
  return kernel >= 0 && kernel < PLAN_PROBE_KERNELS ? kKernelBytes[kernel] * elements : 0;
}

double default_budget(Depth depth, int ranks, int nodes) {
  if (depth == Depth::Standard) return 600;
  if (depth == Depth::Thorough) return 1800;
  return nodes > 1 ? 360 : ranks > 1 ? 180 : 45;
}

std::vector<TrainingGemm> training_gemms(const Model& model, int tp, std::int64_t tokens) {
  std::vector<TrainingGemm> all;
  const auto t = static_cast<double>(tokens > 0 ? tokens : model.default_seq);
  const auto add = [&](const std::string& label, double out, double in) {
    all.push_back({label, t, out, in, Orientation::Forward});
    all.push_back({label, t, in, out, Orientation::DataGrad});
    all.push_back({label, out, in, t, Orientation::WeightGrad});
  };
  for (std::size_t kind = 0; kind < model.kinds.size(); ++kind) {
    Layout layout;
    layout.tp = tp;
    const LinearShapes shapes = linear_shapes(model, model.kinds[kind], layout);
    for (int i = 0; i < shapes.size; ++i) {
      const LinearShape& s = shapes.shapes[static_cast<std::size_t>(i)];
      if (s.count > 1) continue;  // grouped GEMMs of experts follow their own law
      const auto whole = [](double x) { return x == std::floor(x); };
      if (whole(s.rows) && whole(s.columns))
        add(fmt::format("{} tp{} linear {}", model.name, tp, i), s.rows, s.columns);
    }
  }
  if (model.vocab > 0 && model.vocab % tp == 0)
    add(fmt::format("{} tp{} head", model.name, tp), static_cast<double>(model.vocab / tp),
        static_cast<double>(model.hidden));
  return all;
}

std::vector<GroupShape> group_shapes(int ranks, int ranks_per_node) {
  std::vector<GroupShape> shapes;
  const int per_node = std::max(1, std::min(ranks, ranks_per_node));
  const int nodes = ranks / per_node;
  for (int n = 2; n <= per_node; n *= 2) shapes.push_back({n, n, 1, true});
  if (per_node > 2 && (per_node & (per_node - 1)) != 0) shapes.push_back({per_node, per_node, 1, true});
  for (int k = 2; k <= nodes; k *= 2) {
    shapes.push_back({k, 1, k, true});
    if (per_node > 1) shapes.push_back({k * per_node, per_node, k, true});
  }
  const bool odd = nodes > 2 && (nodes & (nodes - 1)) != 0;
  if (odd) shapes.push_back({nodes, 1, nodes, true});
  if (odd && per_node > 1) shapes.push_back({nodes * per_node, per_node, nodes, true});
  return shapes;
}

Sweep plan_sweep(const SweepRequest& request) {
  Builder b{request};
  add_memory(b);
  add_bandwidth(b);
  add_gemms(b);
  add_attention(b);
  add_kernels(b);
  add_host_link(b);
  if (request.ranks_per_node > 1) add_pairs(b);
  add_collectives(b);
  add_overlap(b);
  keep_budget(b.sweep, request.budget_s);
  std::mt19937 shuffle(20261121);  // the same order on every machine
  for (auto begin = b.sweep.points.begin(); begin != b.sweep.points.end();) {
    const auto end =
        std::find_if(begin, b.sweep.points.end(), [&](const auto& p) { return p.section != begin->section; });
    if (begin->section != Section::Collectives)  // those run by communicator, sizes upwards
      for (auto i = end - begin - 1; i > 0; --i)
        std::swap(begin[i], begin[static_cast<long>(shuffle() % static_cast<unsigned long>(i + 1))]);
    begin = end;
  }
  return std::move(b.sweep);
}

}  // namespace plan
