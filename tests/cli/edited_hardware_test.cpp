// A hardware file's own numbers are what is planned with: every number of every shipped GPU and cluster, edited.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <regex>
#include <set>

#include "cli/request/flags/sweep_axes.hpp"
#include "cli/request/resolve.hpp"
#include "cli/request/table/args.hpp"
#include "planner/estimate/physics.hpp"
#include "planner/memory/memory.hpp"
#include "planner/planner.hpp"
#include "presets/default_cluster.hpp"
#include "presets/embedded.hpp"
#include "presets/hardware.hpp"
#include "presets/header.hpp"
#include "presets/reader.hpp"
#include "presets/store.hpp"

namespace plan {
namespace {

const StoreOptions kEmbeddedOnly{};

/// Loads a cluster from a file with this text, as the command line does.
Result<Cluster> loaded(const std::string& text) {
  const std::string path = "edited_hardware_test.yaml";
  std::ofstream(path) << text;
  Result<Found<Cluster>> found = load_cluster("./" + path, StoreOptions{.files = true});
  std::filesystem::remove(path);
  if (!found) return tl::unexpected(found.error());
  return std::move(found->value);
}

/// A dense model over two scale-up domains, two tensor ranks, in the widest 16-bit type that the GPU has.
Problem job_on(const Cluster& cluster) {
  Problem problem;
  problem.model = load_model("llama3-8b", kEmbeddedOnly)->value;
  problem.cluster = cluster;
  const int domain = std::min(cluster.scale_up_size(), 16);
  problem.gpus = std::max(4, 2 * domain);
  problem.training.seq = 4096;
  problem.training.global_batch = 4 * problem.gpus;
  problem.training.stack.cuda_graphs = true;  // no time of the host's beside the GPU's
  if (cluster.gpu.peak[static_cast<std::size_t>(DType::Bf16)].value <= 0) problem.training.precision = Precision::Fp16;
  return problem;
}

Estimate estimated(const Cluster& cluster, const Cluster& sized_for) {
  Problem problem = job_on(sized_for);
  problem.cluster = cluster;
  Layout layout;
  layout.tp = 2, layout.dp = problem.gpus / 2, layout.zero = 1, layout.sequence_parallel = true;
  return estimate(problem, layout);
}

/// The text with the number behind the `index`-th line `key: NUMBER` multiplied.
struct Edit {
  std::string key, text;
};
std::vector<Edit> edits(const std::string& text, double factor) {
  static const std::regex line("^( *(?:- )?)([a-z_0-9]+): ([0-9.]+)(?= |$)");
  std::vector<Edit> out;
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string one; std::getline(in, one);) lines.push_back(one);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    std::smatch match;
    if (!std::regex_search(lines[i], match, line)) continue;
    const double value = std::stod(match[3]) * factor;
    std::ostringstream number;
    number.precision(12);
    number << value;
    std::string all;
    for (std::size_t k = 0; k < lines.size(); ++k)
      all += (k == i ? match[1].str() + match[2].str() + ": " + number.str() + match.suffix().str() : lines[k]) + "\n";
    out.push_back({match[2], std::move(all)});
  }
  return out;
}

const std::set<std::string> kFaster{
    "fp32", "fp16", "bf16", "fp8", "fp4", "memory_bandwidth", "bandwidth", "host_link", "memory_efficiency"};
const std::set<std::string> kSlower{"kernel_floor", "latency", "oversubscription"};

void check_edit(const Edit& edit, double factor, const Cluster& plain, const Estimate& before) {
  CAPTURE(plain.name);
  CAPTURE(edit.key);
  CAPTURE(factor);
  const Result<Cluster> cluster = loaded(edit.text);
  if (!cluster) {  // refused is fine, dropped is not
    CHECK_FALSE(cluster.error().front().message.empty());
    return;
  }
  const Estimate after = estimated(*cluster, plain);
  const double was = before.step_time.value, is = after.step_time.value;
  const bool better = kFaster.contains(edit.key) == (factor > 1);
  if (kFaster.contains(edit.key) || kSlower.contains(edit.key)) {
    CHECK((better ? is <= was * (1 + 1e-9) : is >= was * (1 - 1e-9)));
  }
  const bool half = job_on(plain).training.precision == Precision::Fp16;
  if (factor < 1 && edit.key == (half ? "fp16" : "bf16"))
    CHECK(is - was >= 0.8 * least_step(job_on(plain), before).value);  // as long again at least as at the full peak
  if (edit.key != "bandwidth" || factor > 1) return;
  for (const Tier& tier : plain.tiers) {
    const auto same = [&](const Tier& other) { return other.name == tier.name; };
    const auto now = std::find_if(cluster->tiers.begin(), cluster->tiers.end(), same);
    if (now == cluster->tiers.end() || now->bandwidth == tier.bandwidth) continue;
    // The GPUs of a domain drive their NICs together: where those carry more than the link inside, that one decides.
    const bool inside = &tier == &plain.tiers.front();
    const int together = std::max(1, std::min(plain.scale_up_size(), 16) / 2);
    if (!inside && tier.bandwidth.value * together > 0.7 * plain.tiers.front().bandwidth.value) continue;
    double exposed = 0;
    for (const Communication& row : before.communication)
      if (row.tier == tier.name) exposed += row.exposed.value;
    CAPTURE(tier.name);
    CHECK(is - was >= 0.5 * exposed);
  }
}

}  // namespace

TEST_CASE("every number of every cluster, halved and doubled, moves the step the right way and far enough") {
  int checked = 0;
  for (const PresetEntry& entry : list_presets(PresetKind::Cluster, kEmbeddedOnly)) {
    const Cluster plain = load_cluster(entry.name, kEmbeddedOnly)->value;
    const std::string text = write_cluster(plain);
    const Estimate before = estimated(plain, plain);
    CAPTURE(entry.name);
    const Result<Cluster> again = loaded(text);
    REQUIRE(again);
    CHECK(estimated(*again, plain).step_time == before.step_time);
    CHECK(again->gpu.edited.empty());
    for (const double factor : {0.5, 2.0})
      for (const Edit& edit : edits(text, factor)) check_edit(edit, factor, plain, before), ++checked;
  }
  CHECK(checked > 300);
}

TEST_CASE("the same for every GPU alone") {
  for (const PresetEntry& entry : list_presets(PresetKind::Gpu, kEmbeddedOnly)) {
    const Cluster plain = default_cluster(load_gpu(entry.name, kEmbeddedOnly)->value);
    const Estimate before = estimated(plain, plain);
    const std::string text = write_cluster(plain);
    for (const double factor : {0.5, 2.0})
      for (const Edit& edit : edits(text, factor)) check_edit(edit, factor, plain, before);
  }
}

TEST_CASE("a name decides nothing, and a note says which numbers are not those that were measured") {
  for (const char* word : {"dgx-h100", "h800", "gb200-nvl72-cluster", "mi300x-8x400g"}) {
    CAPTURE(std::string(word));
    Cluster plain = load_cluster(word, kEmbeddedOnly)->value;
    Cluster renamed = plain;
    renamed.name = "elsewhere", renamed.gpu.name = "my-gpu";
    const Result<Cluster> again = loaded(write_cluster(renamed));
    REQUIRE(again);
    CHECK(again->gpu.name == "my-gpu");
    CHECK(estimated(*again, plain).step_time == estimated(plain, plain).step_time);
    CHECK(estimated(*again, plain).peak == estimated(plain, plain).peak);
    CHECK(again->gpu.edited.empty());
    plain.gpu.memory_bandwidth = plain.gpu.memory_bandwidth * 2;
    const Result<Cluster> edited = loaded(write_cluster(plain));
    REQUIRE(edited);
    REQUIRE(edited->gpu.edited.size() == 1);
    CHECK(edited->gpu.edited.front().find("memory_bandwidth") == 0);
    Problem problem = job_on(*edited);
    Layout layout;
    layout.tp = 2, layout.dp = problem.gpus / 2;
    const Result<Plan> planned = plan_layout(problem, layout);
    REQUIRE(planned);
    CHECK(std::any_of(planned->notes.begin(), planned->notes.end(),
                      [](const Note& note) { return note.code == "hardware_edited"; }));
  }
}

TEST_CASE("a sweep over a number is an edited file") {
  const Cluster plain = load_cluster("dgx-h100", kEmbeddedOnly)->value;
  const auto same = [&](const HardwareFactors& factors, const auto& edit) {
    Cluster swept = plain, typed = plain;
    scale_hardware(swept, factors);
    edit(typed);
    const Result<Cluster> file = loaded(write_cluster(typed));
    REQUIRE(file);
    const Estimate a = estimated(swept, plain), b = estimated(*file, plain);
    CHECK(a.step_time.value == doctest::Approx(b.step_time.value).epsilon(1e-9));
    CHECK(a.capacity == b.capacity);
    CHECK(a.step_time != estimated(plain, plain).step_time);
  };
  same({.inter = 1, .intra = 0.5, .memory = 1}, [](Cluster& c) { c.tiers[0].bandwidth = c.tiers[0].bandwidth * 0.5; });
  same({.inter = 0.5, .intra = 1, .memory = 1}, [](Cluster& c) { c.tiers[1].bandwidth = c.tiers[1].bandwidth * 0.5; });
}

TEST_CASE("the memory of hosts in a word is that of an edited file, on every kind of GPU") {
  for (const PresetEntry& entry : list_presets(PresetKind::Gpu, kEmbeddedOnly))
    for (const int gib : {16, 512, 4096}) {
      CAPTURE(entry.name);
      CAPTURE(gib);
      Cluster edited = load_cluster_of_gpu(entry.name, kEmbeddedOnly)->value;
      edited.host_memory = Bytes(static_cast<std::int64_t>(gib * kGiB));
      const Result<Cluster> file = loaded(write_cluster(edited));
      REQUIRE(file);
      Args args;
      args.verb = "estimate", args.model = "llama3-8b", args.gpu = entry.name, args.framework = "none";
      args.gpus = fmt::format("{}", job_on(*file).gpus), args.host_memory = fmt::format("{}", gib);
      const Result<Problem> word = resolve_problem(args);
      REQUIRE(word);
      CHECK(word->cluster.host_memory == file->host_memory);
      CHECK(std::any_of(word->inputs.begin(), word->inputs.end(),
                        [](const Input& input) { return input.key == "host_memory" && input.origin == Origin::Flag; }));
      const auto offloaded = [&](const Cluster& cluster) {
        Problem problem = job_on(*file);
        problem.cluster = cluster, problem.training.offload.optimizer = 1;
        Layout layout;
        layout.tp = 2, layout.dp = problem.gpus / 2, layout.zero = 1, layout.sequence_parallel = true;
        return estimate(problem, layout);
      };
      const Estimate a = offloaded(word->cluster), b = offloaded(*file);
      CHECK(a.fits == b.fits);
      CHECK(a.host == b.host);
      CHECK(a.host_capacity == b.host_capacity);
      CHECK(a.host_capacity == edited.host_memory);
    }
}

TEST_CASE("a step that the stated peaks do not allow is an error with both numbers") {
  Cluster cluster = load_cluster("dgx-h100", kEmbeddedOnly)->value;
  for (FlopsPerSecond& peak : cluster.gpu.peak) peak = peak * 0.01;  // the tables keep their rates
  const Problem problem = job_on(cluster);
  Layout layout;
  layout.tp = 2, layout.dp = problem.gpus / 2;
  const Result<Plan> planned = plan_layout(problem, layout);
  REQUIRE_FALSE(planned);
  CHECK(planned.error().front().code == "beyond_physics");
}

TEST_CASE("every key of a GPU preset names a table, every stand-in a preset, and drivers' names the rest") {
  std::set<std::string> gpus;
  for (const PresetEntry& entry : list_presets(PresetKind::Gpu, kEmbeddedOnly)) {
    CAPTURE(entry.name);
    const Gpu gpu = load_gpu(entry.name, kEmbeddedOnly)->value;
    gpus.insert(entry.name);
    CHECK_FALSE(gpu.vendor.empty());
    CHECK(gpu.architecture != Architecture::Unknown);
    CHECK(gpu.library != CollectiveLibrary::Unknown);
    CHECK((gpu.efficiency.empty() || gpu.efficiency == entry.name));
    CHECK(gpu.edited.empty());
    // NVML and rocm-smi name the devices of these two; other makers' tools are not asked.
    const std::vector<std::string> devices = scan_list(entry.text, "devices");
    CHECK(devices.empty() == (gpu.vendor != "nvidia" && gpu.vendor != "amd"));
    for (const std::string& device : devices)
      CHECK(preset_of_device(device, static_cast<double>(gpu.memory.value) / kGiB) == entry.name);
  }
  int rows = 0;
  for (const EmbeddedFile& file : embedded_files()) {
    if (file.folder != "efficiency") continue;
    if (file.name != "inherited") {
      CHECK(gpus.contains(std::string(file.name)));
      continue;
    }
    static const std::regex row("(?:^|\n)([a-z0-9-]+): \\{like: ([a-z0-9-]+)");
    const std::string text(file.text);
    for (std::sregex_iterator at(text.begin(), text.end(), row), end; at != end; ++at) {
      CAPTURE((*at)[1].str());
      CHECK(gpus.contains((*at)[1].str()));
      CHECK(gpus.contains((*at)[2].str()));
      ++rows;
    }
  }
  CHECK(rows > 5);
}

TEST_CASE("buffers of NCCL are charged where NCCL runs, and NVLS's where the switches reduce") {
  const auto bytes = [](const char* gpu) {
    const Cluster cluster = default_cluster(load_gpu(gpu, kEmbeddedOnly)->value);
    return nccl_buffers({.tp = 8}, nccl_platform(cluster)).value;
  };
  CHECK(bytes("gaudi2") == 0);
  CHECK(bytes("tpu-v5p") == 0);
  CHECK(bytes("trainium2") == 0);
  CHECK(bytes("mi300x") > 0);
  CHECK(bytes("h100-sxm") > bytes("h100-pcie"));
  Gpu gpu = load_gpu("mi300x", kEmbeddedOnly)->value;
  gpu.peak[static_cast<std::size_t>(DType::Fp4)] = gpu.peak[static_cast<std::size_t>(DType::Fp8)];
  CHECK(nccl_buffers({.tp = 8}, nccl_platform(default_cluster(gpu))).value == bytes("mi300x"));
}

}  // namespace plan
