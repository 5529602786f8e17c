#pragma once

#include <random>

#include "planner/problem/problem.hpp"

namespace plan::oracle {

/// How many random cases to try where `usual` are: PLAN_TEST_SCALE times as many, 1 by default.
[[nodiscard]] int rounds(int usual);
/// How many of so many cases must be worth trying: a generator must not drift into trivial ones. None of a few.
[[nodiscard]] int at_least(int usual);

/// A small problem that can be searched exhaustively: at most `most_gpus` GPUs, a few layers, dense or
/// mixture of experts, sometimes with axes fixed, memory sometimes too small.
[[nodiscard]] Problem random_problem(std::mt19937& random, int most_gpus);

/// The same problem with what random_problem leaves alone: layers of several kinds, prediction modules, precisions,
/// optimizers and adapters, numbers of GPUs and layers that divide badly, any axis fixed.
[[nodiscard]] Problem widened(Problem problem, std::mt19937& random);

/// A data-sheet GPU in nodes of 8, three tiers.
[[nodiscard]] Cluster plain_cluster(double memory_gib = 79.6);

/// Llama-shaped dense model.
[[nodiscard]] Model dense_model(int layers, std::int64_t hidden, std::int64_t heads, std::int64_t kv_heads,
                                std::int64_t ffn, std::int64_t vocab);

}  // namespace plan::oracle
