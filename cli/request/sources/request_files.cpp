// What launch files state, as a request. Tested by tests/cli/resolve_test.cpp and tests/launch.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cli/request/sources/request.hpp"
#include "cli/request/words/pool_words.hpp"
#include "cli/terminal/bf16_layers.hpp"
#include "cli/terminal/offload_flag.hpp"
#include "planner/pools/pools.hpp"
#include "planner/problem/axes.hpp"
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
  const Input* stated = find_input(job.inputs, key);
  if (stated == nullptr)
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
  if (training.bf16_layers.any())
    state_field(job, "bf16_layers", request.bf16_layers, training.bf16_layers, bf16_layers_text(training.bf16_layers));
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

/// The pool that a mesh's device type names; nothing if none does or several do.
std::optional<std::size_t> pool_of(const std::string& device, const std::vector<Pool>& pools) {
  std::string gpu = device;
  if (const Result<Found<Gpu>> found = load_gpu(device, StoreOptions::from_environment())) gpu = found->value.name;
  std::optional<std::size_t> match;
  for (std::size_t i = 0; i < pools.size(); ++i) {
    const Cluster& cluster = pools[i].cluster;
    if (cluster.name != device && cluster.gpu.name != gpu) continue;
    if (match) return std::nullopt;
    match = i;
  }
  return match;
}

/// The pools that were named, as the meshes lie on them: by their kind of GPU, or one after the other.
Result<PooledCluster> meshes_on(const LaunchJob& job, const PooledCluster& named) {
  std::vector<std::size_t> of;
  std::vector<int> taken(named.pools.size());
  for (const LaunchMesh& mesh : job.meshes)
    if (const std::optional<std::size_t> pool = pool_of(mesh.device, named.pools)) of.push_back(*pool);
  if (of.empty() && job.meshes.size() == named.pools.size())
    for (std::size_t i = 0; i < named.pools.size(); ++i) of.push_back(i);
  PooledCluster out{.name = named.name, .link = named.link};
  for (std::size_t i = 0; i < of.size() && of.size() == job.meshes.size(); ++i) {
    out.pools.push_back({named.pools[of[i]].cluster, job.meshes[i].gpus});
    taken[of[i]] += job.meshes[i].gpus;
    for (std::size_t before = 0; before < i; ++before)
      for (const PoolLink& link : named.links)
        if (link.one == static_cast<int>(std::min(of[before], of[i])) &&
            link.other == static_cast<int>(std::max(of[before], of[i])))
          out.links.push_back({static_cast<int>(before), static_cast<int>(i), link.tier});
  }
  std::string wanted;
  for (const LaunchMesh& mesh : job.meshes) add_pool(wanted, mesh.gpus, mesh.device);
  bool all = !out.pools.empty();
  for (std::size_t pool = 0; pool < taken.size(); ++pool) all = all && taken[pool] == named.pools[pool].gpus;
  if (all) return out;
  return fail({"conflicting_flags",
               fmt::format("{}: the process meshes take {}, and other GPUs are named", job.meshes_where, wanted),
               {},
               {"name as many of the kinds that stand for them with `--gpus`"}});
}

/// The kinds of GPU that the meshes of a file run on: those that were named, or those that its device types name.
Result<PooledCluster> pools_of(const LaunchJob& job, const Request& words) {
  if (words.pools) return meshes_on(job, words.pools->value);
  PooledCluster out;
  for (const LaunchMesh& mesh : job.meshes) {
    if (words.cluster && mesh.device != job.meshes.front().device)
      return fail({"conflicting_flags",
                   fmt::format("{}: the process meshes stand on {} and {}, and one kind of GPU is named",
                               job.meshes_where, job.meshes.front().device, mesh.device),
                   {},
                   {"name both: `--gpus 64xa100-sxm-80gb,64xh100-sxm`"}});
    const Result<Found<Cluster>> found = load_cluster_of_gpu(mesh.device, StoreOptions::from_environment());
    if (!words.cluster && !found)
      return fail(
          {"missing_flag",
           fmt::format("{}: no preset describes the device type `{}`", job.meshes_where, mesh.device),
           {},
           {"name what to price each kind on, in the order of the meshes: `--gpus 64xa100-sxm-80gb,64xh100-sxm`"}});
    out.pools.push_back({words.cluster ? words.cluster->value : found->value, mesh.gpus});
  }
  return out;
}

/// Files whose stages say by themselves what they run on.
Result<bool> take_meshes(const LaunchJob& job, const Request& words, Request& request) {
  if (words.pool_layouts)
    return fail(
        {"conflicting_flags",
         fmt::format("{}: the file states the axes of each process mesh, and so does `--layout`", job.meshes_where),
         {},
         {"leave one of the two out"}});
  Result<PooledCluster> pools = pools_of(job, words);
  if (!pools) return fail(pools.error());
  const Input where{"pools", pools_text(*pools), Origin::File, job.meshes_where};
  Cluster cluster = joined(pools->pools, pools->link);
  request.gpu = {"gpu", cluster.gpu.name, Origin::File, job.meshes_where};
  Input named{"cluster", cluster.name, Origin::Default};
  request.cluster = {std::move(cluster), std::move(named)};
  std::vector<Fixed> layouts;
  std::string text;
  for (const LaunchMesh& mesh : job.meshes) {
    layouts.push_back(mesh.fixed);
    text += fmt::format("{}{}", text.empty() ? "" : "/", fmt::join(fixed_words(mesh.fixed), ","));
  }
  request.pool_layouts = {std::move(layouts), {"layout", std::move(text), Origin::File, job.meshes_where}};
  request.pools = {*std::move(pools), where};
  return true;
}

}  // namespace

Result<Request> read_files(const Asked& asked, const Request& words) {
  Result<LaunchJob> job = read_launch_files(asked.from, context_of(asked, words));
  if (!job) return fail(job.error());
  Request request;
  if (job->model) state_field(*job, "model", request.model, *job->model, job->model->name);
  if (job->gpus > 0) state_field(*job, "gpus", request.gpus, job->gpus, fmt::format("{}", job->gpus));
  if (!job->meshes.empty()) {
    if (const Result<bool> taken = take_meshes(*job, words, request); !taken) return fail(taken.error());
  } else if (!words.cluster && !job->gpu.empty()) {
    Result<Found<Cluster>> found = load_cluster_of_gpu(job->gpu, StoreOptions::from_environment());
    if (!found) return fail(found.error());
    request.gpu = {"gpu", found->value.gpu.name, Origin::Preset, found->origin};
    Input input{"cluster", found->value.name, Origin::Default, found->origin, found->digest};
    request.cluster = {std::move(found->value), std::move(input)};
  }
  if (job->training) add_training(*job, request);
  add_batch(*job, request);
  request.framework = {job->framework, {"framework", std::string(framework_row(job->framework).name), Origin::File}};
  if (const Input* stated = find_input(job->inputs, "release"))
    if (const std::optional<StackRelease> release = read_stack_release(stated->value))
      request.release = {*release, *stated};
  request.files = std::move(*job);
  return request;
}

}  // namespace plan
