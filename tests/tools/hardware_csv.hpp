#pragma once

#include <map>
#include <string>
#include <vector>

namespace plan::derive {

/// One row of tests/published/hardware.csv: a published micro-benchmark.
struct Row {
  std::string gpu, what, dtype, shape, ranks, nodes, unit, source, notes;
  double value = 0;
  double seconds = 0;  ///< 0: not stated
};

/// Every row; an empty list if the file cannot be read.
std::vector<Row> read_hardware(const std::string& path);

/// "M128 K5" or "m=128;k=5" or "128x5x7" as numbers by key; the x form has keys 0, 1, 2.
std::map<std::string, double> numbers(const std::string& shape);

}  // namespace plan::derive
