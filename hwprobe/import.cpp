// Other tools' results into a profile. Tested by tests/hwprobe/import_test.cpp.
#include "hwprobe/import.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "formulas/efficiency.hpp"
#include "formulas/names.hpp"
#include "hwprobe/fit.hpp"
#include "hwprobe/quality.hpp"

namespace plan {
namespace {

/// A GPU's name from a text that may be damaged: what stands in no product's name becomes `?`.
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
constexpr ProgramRow kPrograms[] = {
    {"allreduce", Collective::AllReduce, true},         {"allgather", Collective::AllGather, false},
    {"reducescatter", Collective::ReduceScatter, true}, {"alltoall", Collective::AllToAll, false},
    {"sendrecv", Collective::SendRecv, false},          {"broadcast", Collective::Broadcast, false}};

std::string folded(std::string_view text) {
  std::string out;
  for (const char c : text)
    if (std::isalpha(static_cast<unsigned char>(c)) != 0)
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

std::optional<Collective> op_named(std::string_view text) {
  const std::string name = folded(text);
  for (const ProgramRow& row : kPrograms)
    if (name.find(row.part) != std::string::npos) return row.op;
  return std::nullopt;
}

/// By name where one is known, else by the ratio of bus to algorithm bandwidth of a reduction.
std::optional<Collective> op_of(const NcclRun& run, const std::string& file) {
  if (const auto op = op_named(run.program)) return op;
  if (const auto op = op_named(file.substr(file.find_last_of('/') + 1))) return op;
  const auto n = static_cast<double>(run.hosts.size());
  if (!run.reduces || n < 3) return std::nullopt;
  for (const Collective op : {Collective::AllReduce, Collective::ReduceScatter})
    if (std::abs(run.wire_ratio / wire_factor(op, n) - 1) < 0.02) return op;
  return std::nullopt;
}

GroupShape shape_of(const std::vector<std::string>& hosts) {
  std::map<std::string, int> per_host;
  for (const std::string& host : hosts) ++per_host[host];
  GroupShape shape{.n = static_cast<int>(hosts.size()), .ranks_per_node = static_cast<int>(hosts.size())};
  shape.nodes = std::max(1, static_cast<int>(per_host.size()));
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
  source.source = file.substr(file.find_last_of('/') + 1);
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

Result<void> add_nccl_run(const NcclRun& run, const std::string& file, HardwareProfile& profile) {
  const std::optional<Collective> op = op_of(run, file);
  if (!op)
    return fail(Error{"unknown_collective",
                      fmt::format("`{}` does not say which collective it measured", file),
                      {},
                      {"name it after its program, such as all_gather_perf.txt"}});
  if (run.wrong > 0)
    return fail(
        Error{"wrong_results", fmt::format("`{}` reports {} wrong results; its times mean nothing", file, run.wrong)});
  if (run.hosts.size() < 2)
    return fail(Error{"one_rank",
                      fmt::format("`{}` lists {} rank, and a collective needs two", file, run.hosts.size()),
                      {},
                      {"run it with `-g 8`, or one process a GPU under mpirun in a build with MPI=1"}});
  ProfileCurve curve{.op = *op, .dtype = dtype_word(run.dtype), .layout = shape_of(run.hosts)};
  // The planner's all-reduces work in place; the others have an input and an output.
  const bool in_place = *op == Collective::AllReduce && !run.in_place.empty();
  curve.table = in_place || run.out_of_place.empty() ? run.in_place : run.out_of_place;
  std::erase_if(curve.table, [](const CurvePoint& p) { return !(p.bytes > 0 && p.us > 0); });
  if (curve.table.size() < 2)
    return fail(Error{"too_few_sizes",
                      fmt::format("`{}` has {} usable sizes; a curve needs two", file, curve.table.size()),
                      {},
                      {"sweep sizes: -b 512 -e 1G -f 2"}});
  curve.prov = add_import_source(profile, "nccl-tests", file);
  profile.provenance.back().nccl = run.nccl;
  profile.provenance.back().gpu_count = curve.layout.n;
  profile.provenance.back().host_count = curve.layout.nodes;
  fit_curve(curve);
  if (profile.gpu.model.empty()) profile.gpu.model = plain_name(run.device);
  profile.gpus_per_node = std::max(profile.gpus_per_node, curve.layout.ranks_per_node);
  profile.nodes = std::max(profile.nodes, curve.layout.nodes);
  profile.collectives.push_back(std::move(curve));
  return {};
}

Result<void> import_measurements(std::string_view text, const std::string& file, HardwareProfile& profile) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  const bool json = begin != std::string_view::npos && text[begin] == '{';
  if (json && text.find("\"nvbandwidth\"") != std::string_view::npos) return import_nvbandwidth(text, file, profile);
  if (json &&
      (text.find("\"BW_average\"") != std::string_view::npos || text.find("\"t_typical\"") != std::string_view::npos))
    return fail(Error{"unit_missing",
                      fmt::format("`{}` is perftest's JSON, which does not say the unit of its bandwidths", file),
                      {},
                      {"take what the program prints instead: `ib_write_bw --report_gbits > FILE`"}});
  if (text.find("Legend:") != std::string_view::npos && text.find("GPU0") != std::string_view::npos &&
      text.find("traversing") != std::string_view::npos)
    return fail(
        Error{"no_measurement",
              fmt::format("`{}` is a topology of nvidia-smi: it says how GPUs are connected, not how fast", file),
              {},
              {"`plan probe` looks at it by itself; import what was measured"}});
  if (!json && text.find("bandwidth (GB/s)") != std::string_view::npos &&
      text.find("Running ") != std::string_view::npos)
    return import_nvbandwidth_text(text, file, profile);
  if (json && text.find("\"results\"") != std::string_view::npos) return import_nccl_json(text, file, profile);
  if (text.find("#bytes") != std::string_view::npos && text.find("#iterations") != std::string_view::npos)
    return import_perftest(text, file, profile);
  if (text.find("algbw") != std::string_view::npos && text.find("busbw") != std::string_view::npos)
    return import_nccl_table(text, file, profile);
  return fail(Error{"unknown_results",
                    fmt::format("`{}` holds no results that are known", file),
                    {"known are nccl-tests (its table, or -J), nvbandwidth (its text, or -j) and perftest "
                     "(ib_write_bw, ib_send_lat)"},
                    {}});
}

}  // namespace plan
