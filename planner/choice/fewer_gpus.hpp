#pragma once

#include <cstddef>
#include <vector>

#include "planner/problem/problem.hpp"

namespace plan {

/// GPUs that a job keeps busy at most, as a real number: all of `gpus`, less what idles because the layers do not
/// divide among the pipeline stages that the number asks for. 0 where no pipeline of the model divides it at all.
[[nodiscard]] double busy_gpus(const Problem& problem, int gpus);

/// Few enough for a search of some number of GPUs to take little time?
[[nodiscard]] bool few_nodes(const Problem& problem);

/// Numbers of GPUs below the problem's, down to half of them, the largest first: whole nodes where a job takes more
/// than four.
[[nodiscard]] std::vector<int> near_below(const Problem& problem);

/// Does a number of GPUs divide into replicas that divide the batch, times a power of two that the other axes share?
[[nodiscard]] bool divides_well(const Problem& problem, int gpus);

/// Numbers of GPUs below the problem's that may train faster: the largest that divides well, if the problem's does not,
/// and at most `most` that keep more than `busy` of them busy, the most busy first; none if it does. Whole nodes where
/// a job takes several, and behind them, unless it takes many, two that cut a node and keep more busy than any of
/// those.
[[nodiscard]] std::vector<int> fewer_but_busier(const Problem& problem, double busy, std::size_t most);

/// Of the numbers just below the problem's, whole nodes in large jobs, those that split into more replicas that divide
/// the batch than it and every number between them do, and where the last cuts a node the first behind it with more
/// than all others: the few with the most, the largest number first. `any`: nothing runs on the problem's own number,
/// which does not count.
[[nodiscard]] std::vector<int> fewer_with_more_replicas(const Problem& problem, bool any = false);

/// Numbers of GPUs below the problem's that divide well, as a factor of the batch and a power of two, each the largest
/// of its factor: the few largest.
[[nodiscard]] std::vector<int> fewer_that_divide(const Problem& problem);

/// Numbers of GPUs below the problem's that a larger power of two divides, the largest power first: states that do not
/// fit an odd number of GPUs may be split among those.
[[nodiscard]] std::vector<int> fewer_with_more_twos(const Problem& problem);

}  // namespace plan
