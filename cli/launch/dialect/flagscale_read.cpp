// FlagScale's files: Megatron-LM's arguments by subject (`train/*.yaml`, or an experiment that holds them), and its
// heterogeneous mode, in which each kind of GPU is a process mesh (FlagScale, flagscale/train/arguments.py and
// train/hetero/parallel_context.py). Tested by tests/launch/flagscale_test.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>

#include "cli/launch/dialect/dialect.hpp"
#include "formulas/text.hpp"
#include "planner/problem/axes.hpp"
#include "presets/store.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

constexpr int kMostMeshes = 64, kMostDegree = 1 << 20;

/// The last part of every key of FlagScale's three subjects.
StatedKeys flat(const StatedKeys& keys) {
  StatedKeys out;
  for (const auto& [key, value] : keys)
    for (const std::string_view subject :
         {"system.", "model.", "data.", "train.system.", "train.model.", "train.data."})
      if (key.starts_with(subject)) out.emplace(key.substr(key.rfind('.') + 1), value);
  return out;
}

/// tp, cp, ep, dp and pp of neighbouring stages on one kind of GPU.
struct Mesh {
  int tp = 1, cp = 1, ep = 1, dp = 1, pp = 1, etp = 0;
  std::string device{};
  [[nodiscard]] std::int64_t gpus() const { return std::int64_t{tp} * cp * dp * pp; }
  bool operator==(const Mesh&) const = default;
};

/// The keys of the heterogeneous mode, read one after the other; the first mistake stays.
class Hetero {
 public:
  Hetero(const StatedKeys& keys, std::string path) : keys_(keys), path_(std::move(path)) {}

  [[nodiscard]] std::vector<int> numbers(std::string_view key, int least) {
    std::vector<int> out;
    const auto found = keys_.find(key);
    if (found == keys_.end()) return out;
    for (const std::string& text : found->second.values) {
      const std::optional<int> value = as_number<int>(text);
      if (!value || *value < least || *value > kMostDegree) {
        refuse(key, fmt::format("`{}` is no number of at least {}", yaml::printable(text), least));
        return {};
      }
      out.push_back(*value);
    }
    return out;
  }
  [[nodiscard]] int number(std::string_view key, int otherwise) {
    const std::vector<int> all = numbers(key, 1);
    return all.size() == 1 ? all.front() : otherwise;
  }
  [[nodiscard]] std::string where(std::string_view key) const {
    const auto found = keys_.find(key);
    return found == keys_.end() ? path_ : found->second.where;
  }
  void refuse(std::string_view key, const std::string& why, std::string help = {}) {
    if (mistake) return;
    mistake = Error{"bad_meshes", fmt::format("{}: `{}`: {}", where(key), key, why), {}, {}};
    if (!help.empty()) mistake->help.push_back(std::move(help));
  }
  std::optional<Error> mistake{};

 private:
  const StatedKeys& keys_;
  std::string path_;
};

constexpr std::string_view kMeshes = "hetero_process_meshes", kDevices = "hetero_device_types",
                           kSplit = "hetero_pipeline_layer_split",
                           kExpertTp = "expert_tensor_parallel_size_per_process_mesh";

/// Five degrees a mesh: tp, cp, ep, dp, pp; four, without ep, before FlagScale knew experts there.
std::vector<Mesh> read_meshes(Hetero& hetero, const StatedKeys& keys) {
  const std::vector<int> all = hetero.numbers(kMeshes, 1), experts = hetero.numbers(kExpertTp, 1);
  const auto types = keys.find(kDevices);
  const std::size_t count = types == keys.end() ? 0 : types->second.values.size();
  const std::size_t each = count > 0 && all.size() % count == 0 ? all.size() / count : 0;
  if (count > kMostMeshes || (each != 4 && each != 5)) {
    hetero.refuse(kMeshes, fmt::format("{} numbers for {} device types, and each mesh has five: tp, cp, ep, dp, pp",
                                       all.size(), count));
    return {};
  }
  if (!experts.empty() && experts.size() != count)
    hetero.refuse(kExpertTp, fmt::format("{} numbers for {} meshes", experts.size(), count));
  std::vector<Mesh> meshes;
  for (std::size_t i = 0; i < count && !hetero.mistake; ++i) {
    const int* at = &all[i * each];
    Mesh mesh{at[0], at[1], each == 5 ? at[2] : 1, at[each - 2], at[each - 1], 0, types->second.values[i]};
    if (!experts.empty()) mesh.etp = experts[i];
    if (mesh.gpus() > kMostGpus) hetero.refuse(kMeshes, "more GPUs than any job has");
    meshes.push_back(std::move(mesh));
  }
  return meshes;
}

/// What FlagScale itself checks before it starts.
void judge(Hetero& hetero, const std::vector<Mesh>& meshes, const StatedKeys& keys, int micro_batch) {
  const Mesh& front = meshes.front();
  int stages = 0;
  for (const Mesh& mesh : meshes) {
    stages += mesh.pp;
    if (mesh.cp != front.cp || mesh.ep != front.ep) hetero.refuse(kMeshes, "cp and ep are the same in all meshes");
    if (std::int64_t{front.dp} * micro_batch % mesh.dp != 0)
      hetero.refuse(kMeshes, fmt::format("the first mesh takes {} sequences at once, which dp {} does not divide",
                                         std::int64_t{front.dp} * micro_batch, mesh.dp));
  }
  if (const int stated = hetero.number("pipeline_model_parallel_size", stages); stated != stages)
    hetero.refuse("pipeline_model_parallel_size", fmt::format("{}, and the meshes have {} stages", stated, stages));
  for (const char* key : {"num_layers_per_virtual_pipeline_stage", "num_virtual_stages_per_pipeline_rank"})
    if (hetero.number(key, 1) > 1) hetero.refuse(key, "stages of several chunks do not go with meshes");
  if (const auto alone = keys.find("standalone_embedding_stage"); alone != keys.end() && is_true(alone->second))
    hetero.refuse("standalone_embedding_stage", "a stage of its own for the embedding does not go with meshes");
}

/// Layers of every stage: listed, or equal.
std::vector<int> layers_of(Hetero& hetero, int stages, int depth) {
  std::vector<int> layers = hetero.numbers(kSplit, 1);
  if (layers.empty() && !hetero.mistake) {
    if (depth % stages != 0)
      hetero.refuse(kMeshes, fmt::format("{} layers do not divide into {} stages", depth, stages),
                    "list them: `hetero_pipeline_layer_split`");
    layers.assign(static_cast<std::size_t>(stages), depth / stages);
  }
  if (const int sum = std::accumulate(layers.begin(), layers.end(), 0); sum != depth)
    hetero.refuse(kSplit, fmt::format("places {} layers, and the model has {}", sum, depth));
  if (static_cast<int>(layers.size()) != stages)
    hetero.refuse(kSplit, fmt::format("{} numbers for {} stages", layers.size(), stages));
  return layers;
}

/// What one mesh would be without the others: the arguments around it say how it trains.
StatedKeys keys_of_front(StatedKeys keys, const Mesh& front) {
  std::erase_if(keys, [](const auto& entry) {
    return entry.first.starts_with("hetero_") || entry.first == "enable_hetero" || entry.first == kExpertTp ||
           entry.first == "standalone_embedding_stage" || entry.first == "use_partial_reduce_for_shared_embedding" ||
           entry.first.starts_with("decoder_") || entry.first == "pipeline_model_parallel_layout";
  });
  const auto set = [&](const char* key, int value) {
    StatedValue& entry = keys[key];
    entry.values = {fmt::format("{}", value)};
  };
  set("tensor_model_parallel_size", front.tp), set("context_parallel_size", front.cp);
  set("pipeline_model_parallel_size", 1);
  if (keys.contains("num_experts") || front.ep > 1) set("expert_model_parallel_size", front.ep);
  return keys;
}

std::string preset_of(const std::string& device) {
  const Result<Found<Gpu>> found = load_gpu(device, StoreOptions::from_environment());
  return found ? found->value.name : std::string();
}

/// One kind of GPU and one strategy: a pipeline like any other.
void place_one_strategy(LaunchJob& job, const std::vector<Mesh>& meshes, const std::vector<int>& layers) {
  const Mesh& front = meshes.front();
  Fixed& fixed = job.fixed;
  fixed.dp = front.dp, fixed.pp = static_cast<int>(layers.size());
  if (layers.size() > 1) fixed.chunk_layers = layers;
  if (front.etp > 0) fixed.etp = front.etp;
  if (job.gpu = preset_of(front.device); job.gpu.empty()) job.hardware = front.device;
}

/// Each mesh by itself; what all have in common stays with the job. Experts are split as the rest where nothing else is
/// stated, and a mesh of tp 1 splits no sequence.
void place_apart(LaunchJob& job, const std::vector<Mesh>& meshes, const std::vector<int>& layers,
                 const StatedKeys& keys) {
  Fixed& all = job.fixed;
  const int sequences = meshes.front().dp * all.micro_batch.value_or(1);
  const auto sp = keys.find("sequence_parallel");
  const bool sums = sp != keys.end() && is_true(sp->second);
  const bool own_experts = job.model && job.model->moe() && !keys.contains("expert_tensor_parallel_size");
  std::size_t stage = 0;
  for (const Mesh& mesh : meshes) {
    LaunchMesh own{mesh.device, static_cast<int>(mesh.gpus()), {}};
    own.fixed.tp = mesh.tp, own.fixed.cp = mesh.cp, own.fixed.pp = mesh.pp, own.fixed.dp = mesh.dp;
    own.fixed.ep = mesh.ep, own.fixed.etp = mesh.etp > 0 ? mesh.etp : own_experts ? mesh.tp : all.etp.value_or(1);
    own.fixed.micro_batch = sequences / mesh.dp;
    own.fixed.sequence_parallel = sums && mesh.tp > 1;
    own.fixed.chunk_layers.emplace(layers.begin() + static_cast<std::ptrdiff_t>(stage),
                                   layers.begin() + static_cast<std::ptrdiff_t>(stage) + mesh.pp);
    stage += static_cast<std::size_t>(mesh.pp);
    job.meshes.push_back(std::move(own));
  }
  all.tp.reset(), all.cp.reset(), all.pp.reset(), all.dp.reset(), all.ep.reset(), all.etp.reset();
  all.micro_batch.reset(), all.sequence_parallel.reset(), all.chunk_layers.reset();
}

Result<LaunchJob> read_hetero(const StatedKeys& keys, const std::string& path, LaunchFacts facts) {
  Hetero hetero(keys, path);
  const std::vector<Mesh> meshes = read_meshes(hetero, keys);
  const int micro_batch = hetero.number("micro_batch_size", 1);
  if (!hetero.mistake) judge(hetero, meshes, keys, micro_batch);
  if (hetero.mistake) return fail(*std::move(hetero.mistake));
  int stages = 0;
  std::int64_t gpus = 0;
  for (const Mesh& mesh : meshes) stages += mesh.pp, gpus += mesh.gpus();
  if (gpus > kMostGpus) hetero.refuse(kMeshes, "more GPUs than any job has");
  if (facts.total > 0 && facts.total != gpus)
    hetero.refuse(kMeshes, fmt::format("the meshes have {} GPUs together, and {} are asked for", gpus, facts.total));
  // One stage of the first mesh: the whole batch and the memory's formats are read with it.
  const Mesh& front = meshes.front();
  facts.nodes = 1, facts.gpus_per_node = facts.total = front.tp * front.cp * front.dp;
  Result<LaunchJob> job = yaml_arguments_job(keys_of_front(keys, front), path, facts);
  if (!job) return job;
  if (!job->model) hetero.refuse(kMeshes, "which model the stages hold is not in the file", "name it with `--model`");
  const std::vector<int> layers = job->model ? layers_of(hetero, stages, job->model->depth()) : std::vector<int>{};
  if (hetero.mistake) return fail(*std::move(hetero.mistake));
  constexpr std::string_view kOwn[] = {
      "tp", "cp", "ep", "etp", "pp", "dp", "micro_batch", "layers", "sequence_parallel", "gpus"};
  std::erase_if(job->inputs, [&](const Input& input) {
    return std::find(std::begin(kOwn), std::end(kOwn), input.key) != std::end(kOwn);
  });
  job->gpus = static_cast<int>(gpus);
  state(*job, "gpus", fmt::format("{}", gpus), hetero.where(kMeshes));
  job->fixed.schedule = Schedule::OneFOneB, job->fixed.vp = 1;
  const bool same_strategy = std::all_of(meshes.begin(), meshes.end(), [&](Mesh mesh) {
    mesh.pp = front.pp;
    return mesh == front;
  });
  if (same_strategy)
    place_one_strategy(*job, meshes, layers);
  else
    place_apart(*job, meshes, layers, keys);
  job->meshes_where = hetero.where(kMeshes);
  return job;
}

}  // namespace

/// Its keys are known by their sections: `train:` may lie around them.
bool is_flagscale(const LaunchSource& source) {
  const bool part =
      (source.text.starts_with("system:") || mentions(source, "\nsystem:")) && mentions(source, "\nmodel:");
  const bool whole = mentions(source, "experiment:") && mentions(source, "\ntrain:") &&
                     mentions(source, "\n  system:") && mentions(source, "\n  model:");
  return (part || whole) && mentions(source, "  num_layers:") && mentions(source, "  hidden_size:") &&
         (mentions(source, "_model_parallel_size:") || mentions(source, "micro_batch_size:"));
}

Result<LaunchJob> read_flagscale(std::span<const LaunchSource> files, const LaunchFacts& facts) {
  const LaunchSource& source = files.front();
  const Result<StatedKeys> keys = keys_of_yaml(source);
  if (!keys) return fail(keys.error());
  LaunchFacts own = facts;
  if (facts.gpus() == 0) {
    for (const char* key : {"experiment.runner.nnodes", "experiment.runner.nproc_per_node"})
      if (std::optional<Error> error = no_number(*keys, key, true)) return fail(std::move(*error));
    own.nodes = number_of(*keys, "experiment.runner.nnodes");
    own.gpus_per_node = number_of(*keys, "experiment.runner.nproc_per_node");
    if (const auto line = keys->find("experiment.runner.nnodes"); line != keys->end())
      own.gpus_where = line->second.where;
    if (std::optional<Error> error = too_many_gpus(own)) return fail(std::move(*error));
  }
  const StatedKeys subjects = flat(*keys);
  const auto mode = subjects.find("enable_hetero");
  Result<LaunchJob> job = mode != subjects.end() && is_true(mode->second)
                              ? read_hetero(subjects, source.path, own)
                              : yaml_arguments_job(subjects, source.path, own);
  if (!job) return job;
  for (const char* key : {"recompute_granularity_per_stage", "recompute_granularity_per_stage_micro_batch"})
    if (const auto found = subjects.find(key); found != subjects.end())
      unused(*job, "not_used",
             fmt::format("{}: `{}`: every stage is counted with the recomputation that holds for all",
                         found->second.where, key));
  return job;
}

}  // namespace plan
