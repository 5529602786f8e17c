#include "hwprobe/fits/quality.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include "formulas/efficiency.hpp"

using namespace plan;

namespace {

struct Row {
  std::string gpu, op, dtype, nccl;
  int ranks;
  double bytes, seconds;
};

/// Rows of the published nccl-tests tables inside one node.
std::vector<Row> published() {
  std::ifstream file(PLAN_SOURCE_DIR "/tests/published/hardware.csv");
  std::vector<Row> rows;
  for (std::string line; std::getline(file, line);) {
    if (line.find('"') != std::string::npos || line.find("/comm/nccl/") == std::string::npos) continue;
    std::vector<std::string> cells;
    std::stringstream text(line);
    for (std::string cell; std::getline(text, cell, ',');) cells.push_back(cell);
    if (cells.size() < 10 || cells[8].empty()) continue;
    rows.push_back(
        {cells[0], cells[1], cells[2], cells[9], std::stoi(cells[4]), std::stod(cells[3]), std::stod(cells[8]) * 1e-6});
  }
  return rows;
}

std::optional<Collective> op_of(const std::string& name) {
  if (name == "allreduce") return Collective::AllReduce;
  if (name == "allgather") return Collective::AllGather;
  if (name == "reducescatter") return Collective::ReduceScatter;
  if (name == "alltoall") return Collective::AllToAll;
  return std::nullopt;
}

}  // namespace

TEST_CASE("five sizes predict the others within 5 % on the published curves") {
  std::map<std::string, std::vector<Row>> curves;
  for (const Row& row : published())
    if (op_of(row.op)) curves[row.gpu + row.op + row.dtype + std::to_string(row.ranks) + row.nccl].push_back(row);
  std::vector<double> errors;
  int counted = 0;
  for (auto& [key, rows] : curves) {
    std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.bytes < b.bytes; });
    if (rows.size() < 9) continue;
    ++counted;
    std::set<std::size_t> given;
    for (int i = 0; i < 5; ++i) given.insert(static_cast<std::size_t>(i) * (rows.size() - 1) / 4);
    std::vector<CollectiveSample> samples;
    for (const std::size_t i : given) samples.push_back({rows[i].bytes, rows[i].seconds});
    const Collective op = *op_of(rows[0].op);
    const CollectiveFit fit = fit_collective(op, rows[0].ranks, samples);
    for (std::size_t i = 0; i < rows.size(); ++i)
      if (given.count(i) == 0)
        errors.push_back(
            std::abs(curve_time(fit, RealBytes(rows[i].bytes), rows[0].ranks).value / rows[i].seconds - 1));
  }
  CHECK(counted >= 40);
  CHECK(errors.size() >= 300);
  MESSAGE(counted, " curves, ", errors.size(), " held-out sizes, median error ", median(errors));
  CHECK(median(errors) <= 0.05);
}

TEST_CASE("quality is that of the points, and held-out errors are no smaller than chance allows") {
  std::vector<CollectiveSample> samples;
  const CollectiveFit law{
      .op = Collective::AllGather, .ranks = 8, .alpha = Seconds(10e-6), .busbw = BytesPerSecond(3e11)};
  for (double bytes = 512; bytes < 2e9; bytes *= 8)
    samples.push_back({bytes, curve_time(law, RealBytes(bytes), 8).value});
  const CurveQuality exact =
      collective_quality(Collective::AllGather, 8, samples, fit_collective(Collective::AllGather, 8, samples));
  CHECK(exact.median_err < 0.001);
  CHECK(exact.held_out_err < 0.005);
  CHECK(grade(exact) == "A");
  for (std::size_t i = 0; i < samples.size(); i += 2) samples[i].seconds *= 2;
  const CurveQuality rough =
      collective_quality(Collective::AllGather, 8, samples, fit_collective(Collective::AllGather, 8, samples));
  CHECK(rough.median_err > 0.12);
  CHECK(rough.held_out_err >= rough.median_err);
  CHECK(grade(rough) != "A");
}

TEST_CASE("a curve that falls with size is flagged") {
  const std::vector<CollectiveSample> samples{{512, 1e-5}, {4096, 2e-5}, {65536, 1e-5}, {1e6, 4e-5}};
  const CurveQuality q =
      collective_quality(Collective::AllReduce, 4, samples, fit_collective(Collective::AllReduce, 4, samples));
  CHECK(q.flags == std::vector<std::string>{"non_monotonic"});
}

TEST_CASE("a roofline's held-out errors are those of what the others predict") {
  const GemmFit law{.t0 = Seconds(2.8e-6), .rate = FlopsPerSecond(765e12), .bandwidth = BytesPerSecond(2.2e12)};
  std::vector<GemmSample> samples;
  for (const double m : {64., 512., 4096.})
    for (const double k : {256., 512., 1024., 8192.}) {
      const double flops = 2 * m * m * k, bytes = 2 * (2 * m * k + m * m);
      samples.push_back({flops, bytes, roofline_time(law, Flops(flops), RealBytes(bytes)).value});
    }
  const CurveQuality exact = gemm_quality(samples, fit_gemm(samples, law));
  CHECK(exact.median_err < 0.001);
  CHECK(exact.held_out_err < 0.005);
  for (std::size_t i = 0; i < samples.size(); i += 2) samples[i].seconds *= 1.5;
  const CurveQuality rough = gemm_quality(samples, fit_gemm(samples, law));
  CHECK(rough.median_err > 0.05);
  CHECK(rough.held_out_err >= rough.median_err);
}
