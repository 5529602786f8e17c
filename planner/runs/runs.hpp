#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formulas/result.hpp"

namespace plan {

/// One measured training run as published: what its source states and nothing else. Blank is nullopt
/// or empty. The columns are those of `man/plan-runs.5`.
struct Run {
  int line = 0;  ///< in the file, the header being 1
  std::string id, suite, source, quality, status, task;
  std::string model;
  std::optional<double> params_b;
  std::optional<std::int64_t> layers, hidden, ffn;
  std::string mlp;
  std::optional<std::int64_t> heads, kv_heads, head_dim, vocab, experts, top_k, expert_ffn, shared_ffn;
  std::string gpu;
  std::optional<std::int64_t> gpus, gpus_per_node;
  std::string interconnect;
  std::optional<double> inter_gb_s;
  std::optional<std::int64_t> seq, global_batch, micro_batch, tp, cp, pp, vp, ep, etp, dp, zero;
  std::string shard;
  std::optional<std::int64_t> sequence_parallel;
  std::string schedule, recompute, precision, attention, optimizer, framework;
  std::optional<double> step_time_s;
  std::string time_from;
  std::optional<double> tokens_per_s_per_gpu, tflops_per_gpu;
  std::string flops_convention;
  std::optional<double> mfu, peak_memory_gib;
  std::string memory_kind, notes;
  /// The model's name without a remark that only its first layers were trained, to measure them: `X truncated to 12
  /// layers`, `X (proxy 21 layers)`.
  std::string_view whole_model() const {
    return std::string_view(model).substr(0, std::min(model.find(" truncated"), model.find(" (proxy ")));
  }
  /// Facts for programs at the front of `notes`: "{release=26.04 norm=eager} ..."; plan-runs(5) lists the keys.
  std::map<std::string, std::string, std::less<>> facts{};
  /// Value of a fact, empty if it is not stated.
  std::string_view fact(std::string_view key) const {
    const auto at = facts.find(key);
    return at == facts.end() ? std::string_view{} : std::string_view(at->second);
  }
};

/// Reads runs from CSV text (RFC 4180 quoting, a header line with known column names in any order).
/// Every mistake is reported with line and column: unknown or repeated columns, a number that is none,
/// a negative or absurd size, an unclosed quote, a row of another width.
[[nodiscard]] Result<std::vector<Run>> read_runs(std::string_view text, std::string_view file);

/// All columns, in the order of the schema.
[[nodiscard]] std::vector<std::string> run_columns();
/// Column and text of every cell of a run, in that order; blank where the run does not say.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> cells_of(const Run& run);

}  // namespace plan
