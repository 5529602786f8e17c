#pragma once

#include <map>
#include <string>
#include <vector>

#include "formulas/cluster.hpp"
#include "tests/tools/derive.hpp"

namespace plan::derive {

/// A GPU of the published tables: its words there, its preset, and the data sheet that shares refer to.
struct Subject {
  std::string csv;
  std::string preset;
  double bf16 = 0, fp8 = 0, fp4 = 0;  ///< FLOP/s, dense
  double memory = 0, scale_up = 0;    ///< B/s
  double power_w = 0;
  double bandwidth_share = 0.58;  ///< of HBM in the roofline
  double floor = 2.8e-6;          ///< s
  double attention_factor = 1;    ///< training kernels over NVIDIA's inference kernels
  double softmax_dim = 33;        ///< d0
};
const std::vector<Subject>& subjects();
/// By its words in the published tables.
const Subject& subject_of(const std::string& csv);

/// A GPU whose efficiencies were derived, and where each table came from.
struct Derived {
  Subject subject;
  Gpu gpu;
  std::map<std::string, std::string> sources;                   ///< by section: gemm.bf16, attention, collectives, ...
  std::map<std::string, std::vector<CollectiveSample>> curves;  ///< by "op ranks"
};

/// The share of NVIDIA's short-burst GEMM rates that sustained measurements of the same GPU keep, and its source.
struct Sustained {
  double share = 1;
  std::string source;
};
Sustained sustained(const std::vector<Row>& all, const Subject& subject);

Derived derive_gpu(const std::vector<Row>& all, const Subject& subject);

/// The three GEMMs of one linear as executed.
GemmShape shape_of(const Linear& linear, int orientation);

/// How far the gradients' GEMMs of `measured` stay below the forward ones, each against the table at its own shape.
std::array<double, kOrientations> orientation_ratio(const std::vector<Row>& all, const std::string& measured,
                                                    const std::string& table);

}  // namespace plan::derive
