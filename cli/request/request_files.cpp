// What launch files state, as a request. Tested by tests/cli/resolve_test.cpp and tests/launch.
#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "cli/request/request.hpp"
#include "cli/terminal/offload_flag.hpp"
#include "planner/rules/frameworks.hpp"
#include "presets/store.hpp"

namespace plan {
namespace {

LaunchContext context_of(const Asked& asked, const Request& words) {
  LaunchContext context;
  context.arguments = script_arguments(asked.arguments);
  if (words.model) context.model = words.model->value;
  if (words.gpus) context.gpus = words.gpus->value;
  if (words.megatron_version) context.megatron = words.megatron_version->value;
  if (words.cluster) context.gpus_per_node = words.cluster->value.gpus_per_node;
  return context;
}

/// Where a file states `key`; else it is what the format takes where nobody says.
Input input_of(const LaunchJob& job, std::string_view key, std::string text) {
  const auto stated =
      std::find_if(job.inputs.begin(), job.inputs.end(), [&](const Input& input) { return input.key == key; });
  if (stated == job.inputs.end())
    return {std::string(key), std::move(text), Origin::Default, fmt::format("default of {}", job.format)};
  Input input = *stated;
  input.value = std::move(text);
  input.digest.clear();
  return input;
}

template <class T, class... Text>
void state_field(const LaunchJob& job, std::string_view key, std::optional<Stated<T>>& field, T value,
                 std::string text) {
  field = Stated<T>{std::move(value), input_of(job, key, std::move(text))};
}

/// What one file says of how the model is trained.
void add_training(const LaunchJob& job, Request& request) {
  const Training& training = *job.training;
  if (job.states_seq) state_field(job, "seq", request.seq, training.seq, fmt::format("{}", training.seq));
  state_field(job, "precision", request.precision, training.precision, std::string(name(training.precision)));
  state_field(job, "optimizer", request.optimizer, training.optimizer, std::string(name(training.optimizer)));
  state_field(job, "task", request.task, training.task, std::string(name(training.task)));
  if (training.offload.any())
    state_field(job, "offload", request.offload, training.offload, offload_text(training.offload));
  if (training.adapters())
    state_field(job, "lora_rank", request.lora_rank, training.lora.rank, fmt::format("{}", training.lora.rank));
}

void add_batch(const LaunchJob& job, Request& request) {
  GlobalBatch batch;
  batch.ranks = job.rank_batch;
  if (job.training && job.states_global_batch) batch.sequences = job.training->global_batch;
  if (!batch.ranks && batch.sequences == 0) return;
  request.global_batch = {batch, input_of(job, "global_batch", fmt::format("{}", batch.sequences))};
}

}  // namespace

Result<Request> read_files(const Asked& asked, const Request& words) {
  Result<LaunchJob> job = read_launch_files(asked.from, context_of(asked, words));
  if (!job) return fail(job.error());
  Request request;
  if (job->model) state_field(*job, "model", request.model, *job->model, job->model->name);
  if (job->gpus > 0) state_field(*job, "gpus", request.gpus, job->gpus, fmt::format("{}", job->gpus));
  if (!words.cluster && !job->gpu.empty()) {
    Result<Found<Cluster>> found = load_cluster_of_gpu(job->gpu, StoreOptions::from_environment());
    if (!found) return fail(found.error());
    request.gpu = {"gpu", found->value.gpu.name, Origin::Preset, found->origin};
    Input input{"cluster", found->value.name, Origin::Default, found->origin, found->digest};
    request.cluster = {std::move(found->value), std::move(input)};
  }
  if (job->training) add_training(*job, request);
  add_batch(*job, request);
  request.framework = {job->framework, {"framework", std::string(framework_row(job->framework).name), Origin::File}};
  for (const Input& input : job->inputs)
    if (input.key == "release")
      if (const std::optional<StackRelease> release = read_stack_release(input.value))
        request.release = {*release, input};
  request.files = std::move(*job);
  return request;
}

}  // namespace plan
