#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/request/table/args.hpp"
#include "formulas/result.hpp"
#include "planner/problem/problem.hpp"

namespace plan {

/// One value of one swept flag.
struct SweepValue {
  std::string text{};  ///< as a flag takes it: "4096", "b200-sxm", "2x"
  double number = 0;   ///< for charts; 0 for names
};

/// A flag that takes more than one value.
struct SweepAxis {
  std::string key{};  ///< "gpus", "inter_bandwidth", ...
  std::vector<SweepValue> values{};
  bool numeric = true;
};

/// One combination of values: what `plan` would be asked there.
struct SweepQuestion {
  std::vector<std::size_t> at{};  ///< index into each axis' values
  Args args{};                    ///< single values again
};

/// Whether a sweep takes a list of words for the flag.
[[nodiscard]] bool sweeps_words(std::string_view flag);

/// Values of one flag: a list `256,512`, a range `256..65536` that doubles, factors `0.5x..4x`.
[[nodiscard]] Result<std::vector<SweepValue>> read_sweep_values(const std::string& flag, const std::string& text,
                                                                bool factors);

/// What to type where a command takes one value of a flag and several stand there; empty if they are none that sweep.
[[nodiscard]] std::string swept_instead(std::string_view flag, const std::string& text);

/// The mistakes of a flag's value, where it may be several values: that they are swept. What may be one number as well,
/// `64,128`, gets both changes proposed.
[[nodiscard]] Errors swept_errors(std::string_view flag, const std::string& text, Errors found);

/// The axes that were typed with more than one value; an error without any, or with more than 256 points.
[[nodiscard]] Result<std::vector<SweepAxis>> sweep_axes(const Args& args);

/// Every combination, the last axis fastest.
[[nodiscard]] std::vector<SweepQuestion> sweep_points(const Args& args, const std::vector<SweepAxis>& axes);

/// Whether --host-memory says how many times the cluster's own the nodes have, and not how much.
[[nodiscard]] bool times_of_hosts(const Args& args);

/// Hardware as the factors of --inter-bandwidth, --intra-bandwidth, --memory and --host-memory say. No factor changes
/// nothing.
struct HardwareFactors {
  double inter = 1, intra = 1, memory = 1, host = 1;
};
[[nodiscard]] Result<HardwareFactors> hardware_factors(const Args& args);
void scale_hardware(Cluster& cluster, const HardwareFactors& factors);

}  // namespace plan
