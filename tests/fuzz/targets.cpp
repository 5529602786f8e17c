// Each target hands its bytes to a public reader and checks what every reader promises: a value, or errors that have a
// message; and what was read can be written, read again and used.
#include "tests/fuzz/targets.hpp"

#include <fmt/core.h>

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "cli/check/budget_file.hpp"
#include "cli/check/limit_text.hpp"
#include "cli/launch/job/format.hpp"
#include "cli/launch/launch.hpp"
#include "cli/logs/log_read.hpp"
#include "cli/logs/smi_read.hpp"
#include "cli/logs/snapshot_read.hpp"
#include "cli/logs/trace.hpp"
#include "cli/request/flags/options.hpp"
#include "cli/request/run_files.hpp"
#include "cli/request/sources/plan_json_read.hpp"
#include "cli/request/words/layout_flag.hpp"
#include "cli/request/words/layout_values.hpp"
#include "cli/terminal/numbers.hpp"
#include "hwprobe/import/import.hpp"
#include "hwprobe/ranks/wire.hpp"
#include "hwprobe/session/rank_work.hpp"
#include "hwprobe/start/nodelist.hpp"
#include "planner/answer/estimate.hpp"
#include "planner/rules/rules.hpp"
#include "planner/runs/validate.hpp"
#include "presets/config_json.hpp"
#include "presets/efficiency_reader.hpp"
#include "presets/hardware.hpp"
#include "presets/reader.hpp"
#include "presets/store.hpp"

namespace plan::fuzz {
namespace {

namespace fs = std::filesystem;

void must(bool kept, std::string what) {
  if (!kept) throw Broken{std::move(what)};
}

/// A failure says what is wrong, in one line, on a place that can be.
void check(const Errors& errors) {
  must(!errors.empty(), "a failure without an error");
  for (const Error& error : errors) {
    must(!error.message.empty() && !error.code.empty(), "an error without a message or a code");
    must(error.place.line >= 0 && error.place.column >= 0 && error.place.length >= 0, "a place before the file");
  }
}

template <class T>
bool good(const Result<T>& result) {
  if (!result) check(result.error());
  return result.has_value();
}

const StoreOptions& presets() {
  static const StoreOptions kPresets{.path = {}, .data_home = {}, .installed = {}, .files = false};
  return kPresets;
}

const Model& small_model() {
  static const Model kModel = load_model("8b", presets())->value;
  return kModel;
}

const Cluster& usual_cluster() {
  static const Cluster kCluster = load_cluster("dgx-h100", presets())->value;
  return kCluster;
}

/// Figures of one layout are finite, and categories and terms add up.
void use(const Problem& problem, const Layout& layout) {
  if (broken_rule(problem, layout) >= 0) return;
  const Estimate e = estimate(problem, layout);
  for (const double value : {e.step_time.value, e.step_time_low.value, e.step_time_high.value, e.tokens_per_s,
                             e.tokens_per_s_per_gpu, e.mfu.model_causal, e.mfu.model_full, e.mfu.hardware})
    must(std::isfinite(value) && value >= 0, "a figure that is no number");
  for (const StageMemory& stage : e.stages)
    for (const Bytes bytes : {stage.weights, stage.grads, stage.optimizer, stage.activations, stage.transient,
                              stage.communication, stage.context})
      must(bytes.value >= 0, "a negative amount of memory");
  must(e.peak.value >= 0 && e.peak_high.value >= e.peak_low.value, "a negative amount of memory");
}

/// One GPU and eight, whatever the model and the hardware.
void use(const Model& model, const Cluster& cluster) {
  Problem problem;
  problem.model = model, problem.cluster = cluster;
  problem.training.seq = std::max<std::int64_t>(1, model.default_seq);
  problem.training.global_batch = 64;
  problem.gpus = 1;
  use(problem, Layout{});
  problem.gpus = 8;
  use(problem, Layout{.tp = 2, .pp = 2, .dp = 2, .sequence_parallel = true});
  use(problem, Layout{.dp = 8, .zero = 3});
}

void model_yaml(std::string_view bytes) {
  const Result<Model> model = read_model(std::string(bytes), "model.yaml");
  if (!good(model)) return;
  const Result<Model> again = read_model(write_model(*model), "again.yaml");
  must(again.has_value() && *again == *model, "a model that does not read back");
  use(*model, usual_cluster());
}

void config_json(std::string_view bytes) {
  const Result<Model> model = read_config_json(std::string(bytes), "folder/config.json");
  if (good(model)) use(*model, usual_cluster());
}

void gpu_yaml(std::string_view bytes) {
  const Result<Gpu> gpu = read_gpu(std::string(bytes), "gpu.yaml");
  if (!good(gpu)) return;
  must(read_gpu(write_gpu(*gpu), "again.yaml").has_value(), "a GPU that does not read back");
}

void cluster_yaml(std::string_view bytes) {
  const auto named = [](std::string_view name) -> Result<Gpu> {
    Result<Found<Gpu>> found = load_gpu(name, presets());
    if (!found) return fail(found.error());
    return std::move(found->value);
  };
  const Result<Cluster> cluster = read_cluster(std::string(bytes), "cluster.yaml", named);
  if (good(cluster)) use(small_model(), *cluster);
}

void efficiency_yaml(std::string_view bytes) {
  Cluster cluster = usual_cluster();
  if (good(read_efficiency(std::string(bytes), "efficiency.yaml", cluster.gpu))) use(small_model(), cluster);
}

void profile_yaml(std::string_view bytes) {
  const Result<HardwareProfile> profile = read_hardware(std::string(bytes), "profile.yaml");
  if (!good(profile)) return;
  const std::string text = write_hardware(*profile);
  const Result<HardwareProfile> again = read_hardware(text, "again.yaml");
  must(again.has_value() && write_hardware(*again) == text, "a profile that does not read back");
  const Result<Cluster> cluster = cluster_of_profile(*profile, usual_cluster().gpu);
  if (good(cluster)) use(small_model(), *cluster);
}

void budget_yaml(std::string_view bytes) {
  // Names of launch files are patterns, and one such as `/*/*/*` would look through this machine.
  if (bytes.find("/*") == std::string_view::npos && bytes.find("..") == std::string_view::npos)
    (void)good(read_budget_text(std::string(bytes), "/nonexistent/budget.yaml"));
}

void runs_csv(std::string_view bytes) {
  static const Catalogue kCatalogue = preset_catalogue(presets());
  const Result<std::vector<Run>> runs = read_runs(bytes, "runs.csv");
  if (!good(runs)) return;
  const Validation validation = validate(*runs, kCatalogue);
  must(validation.runs.size() == runs->size(), "a run that was lost");
  for (const ScoredRun& run : validation.runs)
    if (run.step_time) must(std::isfinite(run.step_time->predicted), "a step time that is no number");
}

void plan_json(std::string_view bytes) { (void)good(read_plan_json(std::string(bytes), "plan.json")); }

void launch_file(std::string_view bytes, const char* name) {
  const std::vector<LaunchSource> files = {{name, std::string(bytes)}};
  (void)good(read_launch_sources(files));
  const Result<LaunchJob> job = read_launch_sources(files, {.model = small_model()});
  if (!good(job)) return;
  must(job->gpus >= 0 && job->gpus <= kMostGpus, "a number of GPUs out of range");
  if (job->model) use(*job->model, usual_cluster());
}

void shell_script(std::string_view bytes) { launch_file(bytes, "train.sh"); }
void torchtitan_toml(std::string_view bytes) { launch_file(bytes, "train.toml"); }
void torchtitan_python(std::string_view bytes) { launch_file(bytes, "config.py"); }
void deepspeed_json(std::string_view bytes) { launch_file(bytes, "ds_config.json"); }
void launch_yaml(std::string_view bytes) { launch_file(bytes, "train.yaml"); }

void measurements(std::string_view bytes) {
  for (const char* file : {"all_gather_perf.txt", "results.json"}) {
    HardwareProfile profile;
    if (!good(import_measurements(bytes, file, profile))) continue;
    const std::string text = write_hardware(profile);
    const Result<HardwareProfile> again = read_hardware(text, "again.yaml");
    if (good(again)) must(write_hardware(*again) == text, "a profile that does not read back");
  }
}

void wire_frames(std::string_view bytes) {
  FrameReader whole, pieces;
  whole.feed(bytes);
  std::vector<Frame> frames, again;
  while (const std::optional<Frame> frame = whole.next()) frames.push_back(*frame);
  for (const char byte : bytes) {
    pieces.feed(std::string_view(&byte, 1));
    while (const std::optional<Frame> frame = pieces.next()) again.push_back(*frame);
  }
  must(frames == again && whole.broken() == pieces.broken(), "frames that depend on how they arrive");
  frames.push_back({MessageType::Hello, std::string(bytes)});
  for (const Frame& frame : frames) {
    (void)good(unpack_hello(frame.payload));
    (void)good(unpack_result(frame.payload));
    (void)good(unpack_device(frame.payload));
    (void)unpack_numbers(frame.payload);
  }
}

void node_list(std::string_view bytes) {
  const Result<std::vector<std::string>> names = expand_nodelist(bytes);
  if (!good(names)) return;
  must(names->size() <= 65'536, "more names than a job has");
  for (const std::string& name : *names) must(!name.empty(), "a host without a name");
}

void typed_words(std::string_view bytes) {
  (void)good(read_layout(bytes));
  (void)good(read_recompute(bytes));
  (void)good(read_amount("--tokens", bytes));
  for (const std::int64_t most : {std::int64_t{1} << 24, std::int64_t{1} << 32})
    if (const Result<std::int64_t> count = read_count("--gpus", bytes, 1, most); good(count))
      must(*count >= 1 && *count <= most, "a count out of range");
  if (const Result<std::int64_t> batch = read_global_batch(bytes, 8192); good(batch)) must(*batch >= 1, "no batch");
  for (const MetricRow& row : metrics())
    for (const bool since_baseline : {false, true}) (void)read_limit(bytes, row.metric, since_baseline);
  for (int i = 0; i <= static_cast<int>(Dimension::Sequences); ++i)
    if (const ParsedQuantity value = parse_quantity(bytes, static_cast<Dimension>(i)))
      must(std::isfinite(value.value), "a quantity that is no number");
}

void training_log(std::string_view bytes) {
  std::istringstream in{std::string(bytes)};
  const Result<MeasuredLog> log = read_log(in, "out.log");
  if (!good(log)) return;
  for (const auto& [figure, series] : log->figures) {
    must(!series.empty() && std::isfinite(series.last()) && series.largest() >= 0, "a figure that is no number");
    must(std::isfinite(steady(series).median), "a median that is no number");
  }
  must(log->evidence.size() <= 8, "more evidence than there are faults");
}

/// Readers that take a name: the bytes lie in a file for as long as that takes.
template <class Read>
void as_file(std::string_view bytes, const Read& read) {
  std::string path = (fs::temp_directory_path() / "plan-fuzz-XXXXXX").string();
  const int file = ::mkstemp(path.data());
  must(file >= 0 && ::write(file, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()), "no scratch file");
  ::close(file);
  read(path);
  ::unlink(path.c_str());
}

void kineto_trace(std::string_view bytes) {
  as_file(bytes, [](const std::string& path) {
    const Result<Trace> trace = read_kineto(path);
    if (!good(trace)) return;
    const TraceTimes times = trace_times(*trace, std::vector<Observable>(trace->groups.size(), Observable::Dp), 1);
    double sum = 0;
    for (std::size_t i = 1; i < times.parts.size(); ++i) sum += times.parts[i];
    must(std::fabs(sum - times.parts[0]) <= 1e-6 * (1 + times.parts[0]), "parts that do not add up to the step");
  });
}

void memory_snapshot(std::string_view bytes) {
  as_file(bytes, [](const std::string& path) { (void)good(read_snapshot(path)); });
}

void smi_csv(std::string_view bytes) {
  as_file(bytes, [](const std::string& path) { (void)good(read_smi(path)); });
}

/// Words of a command, one a line.
void command_line(std::string_view bytes) {
  std::vector<std::string> words;
  for (std::size_t from = 0, to = 0; from <= bytes.size(); from = to + 1) {
    to = std::min(bytes.find('\n', from), bytes.size());
    words.emplace_back(bytes.substr(from, to - from));
  }
  (void)good(parse_arguments(words));
}

const Target kTargets[] = {
    {"model_yaml", model_yaml, {"presets/models"}},
    {"config_json", config_json, {"tests/presets/configs"}},
    {"gpu_yaml", gpu_yaml, {"presets/gpus"}},
    {"cluster_yaml", cluster_yaml, {"presets/clusters"}},
    {"efficiency_yaml", efficiency_yaml, {"presets/efficiency"}},
    {"profile_yaml", profile_yaml, {"tests/golden/probe-diff/usual.yaml"}},
    {"budget_yaml", budget_yaml, {"tests/examples/budgets", "tests/golden/check-many-jobs/many.yaml"}},
    {"runs_csv", runs_csv, {"tests/golden/validate-skipped/runs.csv", "tests/published/runs/selene.csv"}},
    {"plan_json", plan_json, {"tests/golden/check-fails/main.json"}},
    {"shell_script", shell_script, {"tests/published/launch/llama31-405b.sbatch"}},
    {"torchtitan_toml", torchtitan_toml, {"tests/published/launch/torchtitan_v022_405b_512.toml"}},
    {"torchtitan_python", torchtitan_python, {"tests/published/launch/plan_llama31_405b_512.py"}},
    {"deepspeed_json", deepspeed_json, {"tests/published/launch/deepspeed_z3_tp4_64gpu.json"}},
    {"launch_yaml", launch_yaml, {"tests/published/launch"}},
    {"measurements", measurements, {"tests/golden/probe-import"}},
    {"training_log", training_log, {}},
    {"kineto_trace", kineto_trace, {"tests/logs/traces"}},
    {"memory_snapshot", memory_snapshot, {}},
    {"smi_csv", smi_csv, {}},
    {"wire_frames", wire_frames, {}},
    {"node_list", node_list, {}},
    {"typed_words", typed_words, {}},
    {"command_line", command_line, {}},
    {"whole_command", whole_command, {}},
};

}  // namespace

std::span<const Target> targets() { return kTargets; }

const Target* find_target(std::string_view name) {
  const auto found =
      std::find_if(std::begin(kTargets), std::end(kTargets), [&](const Target& t) { return t.name == name; });
  return found == std::end(kTargets) ? nullptr : &*found;
}

std::vector<std::string> inputs_of(const Target& target, const std::string& source_folder) {
  std::vector<std::string> files;
  std::vector<std::string> from = {fmt::format("{}/tests/fuzz/corpus/{}", source_folder, target.name)};
  for (const std::string_view seed : target.seeds) from.push_back(fmt::format("{}/{}", source_folder, seed));
  for (const std::string& path : from) {
    if (fs::is_regular_file(path)) files.push_back(path);
    if (!fs::is_directory(path)) continue;
    for (const fs::directory_entry& entry : fs::directory_iterator(path))
      if (entry.is_regular_file()) files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace plan::fuzz
