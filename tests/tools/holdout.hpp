#pragma once

#include <string>
#include <vector>

#include "tests/tools/efficiency_tables.hpp"

namespace plan::derive {

/// One line of the report: what was predicted, from what, and how far off.
struct Score {
  std::string section, subject, from;
  FitQuality quality{};
};

/// GEMM grids: every other column and row of weights held out and interpolated.
std::vector<Score> gemm_scores(const std::vector<Row>& all);
/// Linears of fp8 and fp4 that quantise their input: every other row held out.
std::vector<Score> quantised_scores(const std::vector<Row>& all);
/// Linears of SimuMax's tables, predicted from NVIDIA's.
std::vector<Score> training_gemm_scores(const std::vector<Row>& all);
std::vector<Score> grouped_scores(const std::vector<Row>& all);
/// Every other kernel held out.
std::vector<Score> attention_scores(const std::vector<Row>& all);
/// Five sizes given or every other size given, the rest predicted.
std::vector<Score> collective_scores(const std::vector<Row>& all);
/// Published all-reduces on four nodes, predicted from the link rate alone.
std::vector<Score> network_scores(const std::vector<Row>& all);

/// presets/efficiency/README.md.
std::string report(const std::vector<Row>& all);

}  // namespace plan::derive
