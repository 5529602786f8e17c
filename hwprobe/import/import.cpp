// Other tools' results into a profile. Tested by tests/hwprobe/import_test.cpp.
#include "hwprobe/import/import.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "formulas/collective_law.hpp"
#include "formulas/efficiency.hpp"
#include "formulas/names.hpp"
#include "formulas/text.hpp"
#include "formulas/words.hpp"
#include "hwprobe/fits/fit.hpp"
#include "hwprobe/fits/quality.hpp"

namespace plan {
namespace {

/// A GPU's name from a text that may be damaged: what appears in no product's name becomes `?`.
std::string plain_name(std::string name) {
  constexpr std::size_t kLongest = 64;
  if (name.size() > kLongest) name.resize(kLongest);
  for (char& c : name)
    if (c < ' ' || c > '~') c = '?';
  return name;
}

struct ProgramRow {
  std::string_view part;  ///< of a program's or file's name, folded
  Collective op;
  bool reduces;
};
/// Operations that no training step of the planner sends, by their programs.
constexpr std::string_view kUnused[] = {"reduceperf", "scatterperf", "gatherperf", "hypercubeperf"};

constexpr ProgramRow kPrograms[] = {
    {"allreduce", Collective::AllReduce, true},         {"allgather", Collective::AllGather, false},
    {"reducescatter", Collective::ReduceScatter, true}, {"alltoall", Collective::AllToAll, false},
    {"sendrecv", Collective::SendRecv, false},          {"broadcast", Collective::Broadcast, false}};

std::string folded(std::string_view text) {
  std::string out;
  for (const char c : text)
    if (std::isalpha(static_cast<unsigned char>(c)) != 0) out += lower_case(c);
  return out;
}

std::optional<Collective> op_named(std::string_view text) {
  const std::string name = folded(text);
  for (const ProgramRow& row : kPrograms)
    if (name.find(row.part) != std::string::npos) return row.op;
  return std::nullopt;
}

/// Times that the data pass the wire, by the row whose bandwidth has most digits: its bandwidth on the bus times its
/// time over its size; and how far off the rounding leaves it. 0 where no row shows it.
std::pair<double, double> wire_ratio(const NcclRun& run) {
  constexpr double kShown = 0.5;  // GB/s, with two decimals
  const auto best = std::max_element(run.rows.begin(), run.rows.end(),
                                     [](const NcclRow& a, const NcclRow& b) { return a.busbw < b.busbw; });
  if (best == run.rows.end() || best->busbw < kShown || best->bytes <= 0 || best->out_us <= 0) return {0, 0};
  return {best->busbw * best->out_us * 1e3 / best->bytes, 2e-3 + 0.006 / best->busbw + 0.006 / best->out_us};
}

/// By name where one is known, else as the user says, else by how often a reduction passes the wire.
std::optional<Collective> op_of(const NcclRun& run, const std::string& file, const ImportHints& hints) {
  if (const auto op = op_named(run.program)) return op;
  if (hints.op) return hints.op;
  if (const auto op = op_named(base_name(file))) return op;
  const auto n = static_cast<double>(run.hosts.size());
  if (n < 3 || run.rows.empty() || run.rows.front().op.empty() || run.rows.front().op == "none") return std::nullopt;
  for (const Collective op : {Collective::AllReduce, Collective::ReduceScatter})
    if (std::abs(wire_ratio(run).first / wire_factor(op, n) - 1) < 0.02) return op;
  return std::nullopt;
}

/// One size is a bandwidth: the law's latency, and the rate with which it passes through the point.
Result<void> curve_through_one(ProfileCurve& curve, const std::string& file) {
  const CurvePoint& point = curve.table.front();
  Cluster cluster;
  cluster.tiers = {{"node", curve.layout.ranks_per_node, BytesPerSecond(1e12), {}, 1, {}},
                   {"network", curve.layout.n, BytesPerSecond(1e12), {}, 1, {}}};
  const CollectiveLaw law = collective_law(cluster, curve.op, RealBytes(point.bytes), {curve.layout.n, 1});
  const double seconds = point.us * 1e-6;
  const double left = std::pow(seconds, law.p) - std::pow(law.alpha.value, law.p);
  if (seconds < 2 * law.alpha.value || left <= 0)
    return fail(Error{"latency_only",
                      fmt::format("`{}` has one size, {:.0f} bytes in {} us: that is latency, and tells no bandwidth",
                                  file, point.bytes, point.us),
                      {},
                      {"take one size of 64 MB or more, or sweep: -b 512 -e 1G -f 2"}});
  curve.p = law.p;
  curve.alpha_us = law.alpha.value * 1e6;
  curve.busbw_gb_s = point.bytes * wire_factor(curve.op, curve.layout.n) / std::pow(left, 1 / law.p) / 1e9;
  curve.quality.points = 1;
  curve.quality.flags.emplace_back("one_size");
  return {};
}

/// What the user says of the ranks, where the file does not; two that contradict are an error.
Result<void> take_hints(NcclRun& run, const std::string& file, const ImportHints& hints) {
  if (const auto op = op_named(run.program); hints.op && op && *op != *hints.op)
    return fail(Error{"contradiction",
                      fmt::format("`{}` measured {}, and `--op` says {}", file, name(*op), name(*hints.op)),
                      {},
                      {"leave out `--op`"}});
  if (hints.ranks == 0) return {};
  if (!run.hosts.empty() && static_cast<int>(run.hosts.size()) != hints.ranks)
    return fail(Error{"contradiction",
                      fmt::format("`{}` lists {} ranks, and `--ranks` says {}", file, run.hosts.size(), hints.ranks),
                      {},
                      {"leave out `--ranks`"}});
  for (int r = 0; run.hosts.empty() || static_cast<int>(run.hosts.size()) < hints.ranks; ++r)
    run.hosts.push_back(fmt::format("node{}", r * hints.nodes / hints.ranks));
  return {};
}

/// nccl-tests works out the bus's bandwidth from the operation and the number of ranks: so each row tells both again,
/// as far as its digits go.
Result<void> agrees(const NcclRun& run, Collective op, const std::string& file) {
  // So does the column `redop`. Releases differ in what they print there for alltoall and sendrecv.
  const bool reduces = std::any_of(std::begin(kPrograms), std::end(kPrograms),
                                   [&](const ProgramRow& row) { return row.op == op && row.reduces; });
  for (const NcclRow& row : run.rows)
    if ((reduces && row.op == "none") || (op == Collective::AllGather && !row.op.empty() && row.op != "none"))
      return fail(Error{"contradiction",
                        fmt::format("`{}`: {} {}, and the row of {:.0f} bytes says `{}` of its reduction", file,
                                    name(op), reduces ? "reduces" : "reduces nothing", row.bytes, row.op),
                        {},
                        {"the program above the table is not that of its rows, or `--op` says something else"}});
  const double right = wire_factor(op, static_cast<double>(run.hosts.size()));
  const NcclRow* worst = nullptr;  // the one with most digits
  for (const NcclRow& row : run.rows) {
    if (row.bytes <= 0 || row.out_us <= 0 || row.busbw <= 0) continue;
    const double busbw = row.bytes * right / row.out_us / 1e3;
    const bool near = std::abs(row.busbw - busbw) <= 0.0051 + (0.002 + 0.006 / row.out_us) * busbw;
    if (!near && (worst == nullptr || row.busbw > worst->busbw)) worst = &row;
  }
  if (worst == nullptr) return {};
  return fail(
      Error{"contradiction",
            fmt::format("`{}`: by the busbw of {:.0f} bytes they pass the wire {:.4g} times, and {} among {} ranks "
                        "sends them {:.4g} times",
                        file, worst->bytes, worst->busbw * worst->out_us * 1e3 / worst->bytes, name(op),
                        run.hosts.size(), right),
            {},
            {"the lines `# Rank` are not those of this table, or `--op` or `--ranks` says something else"}});
}

/// One point a size: the median where a size was timed more than once.
std::vector<CurvePoint> points_of(const std::vector<NcclRow>& rows, double NcclRow::*us) {
  std::map<double, std::vector<double>> times;
  for (const NcclRow& row : rows)
    if (row.bytes > 0 && row.*us > 0) times[row.bytes].push_back(row.*us);
  std::vector<CurvePoint> points;
  for (const auto& [bytes, all] : times) points.push_back({bytes, median(all), 0});
  return points;
}

/// Of at least two ranks.
Result<GroupShape> shape_of(const std::vector<std::string>& hosts, const std::string& file) {
  std::map<std::string, int> per_host;
  for (const std::string& host : hosts) ++per_host[host];
  for (const auto& [host, ranks] : per_host)
    if (ranks != per_host.begin()->second)
      return fail(Error{"unequal_nodes",
                        fmt::format("`{}` lists {} ranks on {} and {} on {}", file, per_host.begin()->second,
                                    per_host.begin()->first, ranks, host),
                        {},
                        {"run it with as many ranks on every node"}});
  GroupShape shape{.n = static_cast<int>(hosts.size()), .ranks_per_node = static_cast<int>(hosts.size())};
  shape.nodes = static_cast<int>(per_host.size());
  shape.ranks_per_node = shape.n / shape.nodes;
  return shape;
}

std::string dtype_word(std::string_view type) {
  if (type == "half") return "fp16";
  if (type == "bfloat16") return "bf16";
  if (type == "float") return "fp32";
  return std::string(type);
}

}  // namespace

std::string add_import_source(HardwareProfile& profile, std::string tool, const std::string& file) {
  ProfileSource source{.id = fmt::format("i{}", profile.provenance.size() + 1), .kind = Provenance::Imported};
  source.tool = std::move(tool);
  source.source = std::string(base_name(file));
  profile.provenance.push_back(source);
  return profile.provenance.back().id;
}

void fit_curve(ProfileCurve& curve) {
  std::sort(curve.table.begin(), curve.table.end(),
            [](const CurvePoint& a, const CurvePoint& b) { return a.bytes < b.bytes; });
  std::vector<CollectiveSample> samples;
  for (const CurvePoint& point : curve.table) samples.push_back({point.bytes, point.us * 1e-6});
  if (samples.size() < 2) return;
  const CollectiveFit fit = fit_collective(curve.op, curve.layout.n, samples);
  curve.alpha_us = fit.alpha.value * 1e6;
  curve.busbw_gb_s = fit.busbw.value / 1e9;
  curve.p = fit.p;
  std::vector<std::string> flags = std::move(curve.quality.flags);
  curve.quality = collective_quality(curve.op, curve.layout.n, samples, fit);
  curve.quality.flags.insert(curve.quality.flags.end(), flags.begin(), flags.end());
}

Result<std::string> add_nccl_run(NcclRun run, const std::string& file, HardwareProfile& profile,
                                 const ImportHints& hints) {
  for (const std::string& program : {run.program, std::string(base_name(file))})
    for (const std::string_view unused : kUnused)
      if (folded(program).starts_with(unused))
        return fail(Error{
            "unused_collective",
            fmt::format("`{}` measured {}, which no step of training sends", file, unused.substr(0, unused.size() - 4)),
            {},
            {"run all_reduce_perf, all_gather_perf, reduce_scatter_perf, alltoall_perf, sendrecv_perf"}});
  if (const Result<void> taken = take_hints(run, file, hints); !taken) return tl::unexpected(taken.error());
  const std::optional<Collective> op = op_of(run, file, hints);
  if (!op)
    return fail(Error{"unknown_collective",
                      fmt::format("`{}` does not say which collective it measured", file),
                      {},
                      {"say so: `--op all_gather`, or name it after its program, such as all_gather_perf.txt"}});
  double wrong = 0;
  for (const NcclRow& row : run.rows) wrong += row.wrong;
  if (wrong > 0)
    return fail(
        Error{"wrong_results", fmt::format("`{}` reports {} wrong results; its times mean nothing", file, wrong)});
  if (run.hosts.size() < 2)
    return fail(
        Error{"one_rank",
              fmt::format("`{}` lists {} rank, and a collective needs two", file, run.hosts.size()),
              {},
              {run.hosts.empty() ? "say how many took part: `--ranks 8`, or `--ranks 2x8` for two nodes of 8"
                                 : "run it with `-g 8`, or one process a GPU under mpirun in a build with MPI=1"}});
  if (const Result<void> right = agrees(run, *op, file); !right) return tl::unexpected(right.error());
  const Result<GroupShape> shape = shape_of(run.hosts, file);
  if (!shape) return tl::unexpected(shape.error());
  ProfileCurve curve{.op = *op, .layout = *shape};
  if (!run.rows.empty()) curve.dtype = dtype_word(run.rows.front().type);
  // The planner's all-reduces work in place; the others have an input and an output.
  const std::vector<CurvePoint> in = points_of(run.rows, &NcclRow::in_us), out = points_of(run.rows, &NcclRow::out_us);
  curve.table = (*op == Collective::AllReduce && !in.empty()) || out.empty() ? in : out;
  if (curve.table.empty())
    return fail(Error{"too_few_sizes", fmt::format("`{}` has no usable size", file), {}, {"sweep: -b 512 -e 1G -f 2"}});
  if (curve.table.size() > 1)
    fit_curve(curve);
  else if (const Result<void> passed = curve_through_one(curve, file); !passed)
    return tl::unexpected(passed.error());
  const std::string tool = run.rccl ? "rccl-tests" : "nccl-tests";
  curve.prov = add_import_source(profile, tool, file);
  profile.provenance.back().nccl = run.nccl;
  profile.provenance.back().gpu_count = curve.layout.n;
  profile.provenance.back().host_count = curve.layout.nodes;
  if (profile.gpu.model.empty()) profile.gpu.model = plain_name(run.device);
  profile.gpus_per_node = std::max(profile.gpus_per_node, curve.layout.ranks_per_node);
  profile.nodes = std::max(profile.nodes, curve.layout.nodes);
  const std::string sizes = curve.table.size() == 1
                                ? fmt::format("one size, {:.4g} GB/s on the bus", curve.busbw_gb_s)
                                : fmt::format("{} sizes, {:.4g} GB/s on the bus, grade {}", curve.table.size(),
                                              curve.busbw_gb_s, grade(curve.quality));
  std::string taken = fmt::format("{}: {} on {} GPUs of {} node{}, {}", tool, name(*op), curve.layout.n,
                                  curve.layout.nodes, curve.layout.nodes == 1 ? "" : "s", sizes);
  profile.collectives.push_back(std::move(curve));
  return taken;
}

Result<std::string> import_measurements(std::string_view text, const std::string& file, HardwareProfile& profile,
                                        const ImportHints& hints) {
  const auto has = [&](std::string_view word) { return text.find(word) != std::string_view::npos; };
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  const bool json = begin != std::string_view::npos && text[begin] == '{';
  if (json && has("\"nvbandwidth\"")) return import_nvbandwidth(text, file, profile);
  if (json && (has("\"BW_average\"") || has("\"t_typical\"") || has("\"t_avg\"")))
    return import_perftest_json(text, file, profile);
  if (json && has("\"results\"")) return import_nccl_json(text, file, profile, hints);
  if (has("GPU0") && (has("CPU Affinity") || has("Legend:"))) return import_topology(text, file, profile);
  if (has("bandwidth (GB/s)") && has("Running ")) return import_nvbandwidth_text(text, file, profile);
  if (has("#bytes") && has("#iterations")) return import_perftest(text, file, profile);
  if (has("algbw") && has("busbw")) return import_nccl_table(text, file, profile, hints);
  return fail(
      Error{"unknown_results",
            fmt::format("`{}` holds no results that are known", file),
            {"known are nccl-tests and rccl-tests (their table, or -J), nvbandwidth (its text, or -j), perftest "
             "(ib_write_bw, ib_send_lat; text or --out_json) and `nvidia-smi topo -m`"},
            {}});
}

}  // namespace plan
