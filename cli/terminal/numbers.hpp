#pragma once

#include <cstdint>
#include <string_view>

#include "formulas/result.hpp"
#include "formulas/slice.hpp"
#include "planner/problem/problem.hpp"

namespace plan {

/// A whole number from `least` to `most`; `8k` and `8Ki` are 8192. `flag` names it in messages.
[[nodiscard]] Result<std::int64_t> read_count(std::string_view flag, std::string_view text, std::int64_t least,
                                              std::int64_t most);

/// Tokens of a run and dollars for a GPU-hour that nobody means more than.
inline constexpr double kMostTrainedTokens = 1e18, kMostPrice = 1e6;

/// A positive number of at most `most` with a decimal letter: `15.6T`, `300B`, `2M`, `5k`.
[[nodiscard]] Result<double> read_amount(std::string_view flag, std::string_view text, double most = kMostTrainedTokens,
                                         std::string_view example = "15.6T");

/// Memory to leave free: `5%`, `4GiB` or `0`; a share or bytes.
[[nodiscard]] Result<Headroom> read_headroom(std::string_view text);

/// Memory of one node: `2TiB`, `960 GB`; a bare number counts GiB. As little and as much as a cluster's file may state.
[[nodiscard]] Result<Bytes> read_host_memory(std::string_view text);

/// A slice of TPUs' torus: `4x8`, `4x4x8`.
[[nodiscard]] Result<SliceShape> read_slice_word(std::string_view text);

/// Sequences of a step from `2048` or `16M tokens`, at `seq` tokens a sequence. A number of tokens that is a power of
/// two takes K, M, G as powers of two (16M = 16 777 216), as the field does, else as powers of ten. Tokens that make no
/// whole number of sequences are an error that names the nearest.
[[nodiscard]] Result<std::int64_t> read_global_batch(std::string_view text, std::int64_t seq);

}  // namespace plan
