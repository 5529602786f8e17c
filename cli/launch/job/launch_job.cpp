// What is noted of a job: where its values come from, and its batch by what a rank trains. Tested by
// tests/launch/files_test.cpp.
#include "cli/launch/job/launch_job.hpp"

#include <fmt/core.h>

#include <cmath>

#include "cli/launch/job/format.hpp"

namespace plan {

void state_gpus(LaunchJob& job, const LaunchFacts& facts) {
  job.gpus = static_cast<int>(facts.gpus());
  job.gpu = facts.gpu;
  if (facts.total == 0) job.gpus_per_node = facts.gpus_per_node;
  if (job.gpus == 0 || facts.total > 0) return;  // whoever states the total says so
  if (facts.one_node.empty()) return state(job, "gpus", fmt::format("{}", job.gpus), facts.gpus_where);
  assume(job, "gpus", fmt::format("{}", job.gpus), fmt::format("one node, default of {}", facts.one_node));
}

void state(LaunchJob& job, std::string key, std::string value, std::string where) {
  job.inputs.push_back({std::move(key), std::move(value), Origin::File, std::move(where), {}});
}
void assume(LaunchJob& job, std::string key, std::string value, std::string why) {
  job.inputs.push_back({std::move(key), std::move(value), Origin::Default, std::move(why), {}});
}

void unused(LaunchJob& job, std::string code, std::string text) {
  job.unused.push_back({std::move(code), std::move(text)});
}

std::int64_t batch_of_ranks(const RankBatch& rule, const Fixed& fixed, int gpus) {
  const double inner = 1.0 * fixed.tp.value_or(1) * fixed.cp.value_or(1) * fixed.pp.value_or(1);
  const double ranks = std::max(1.0, std::floor(gpus / inner));  // too few GPUs for one are refused by their layout
  const double batch = rule.steps > 0 ? ranks * fixed.micro_batch.value_or(1) * static_cast<double>(rule.steps)
                                      : std::round(rule.sequences * gpus);
  return batch >= 1 && batch <= 1e15 ? static_cast<std::int64_t>(batch) : 0;
}

std::optional<Error> too_many_gpus(const LaunchFacts& facts) {
  if (facts.gpus() <= kMostGpus) return std::nullopt;
  return Error{"out_of_range", fmt::format("{}: {} nodes of {} GPUs are more than {} GPUs", facts.gpus_where,
                                           facts.nodes, facts.gpus_per_node, kMostGpus)};
}

}  // namespace plan
