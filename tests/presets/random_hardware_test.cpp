// GPUs, clusters and lists of layers made of random numbers: what is written is read as it was, field by field.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "formulas/torus.hpp"
#include "presets/default_cluster.hpp"
#include "presets/hardware.hpp"
#include "presets/model_parts.hpp"
#include "presets/reader.hpp"
#include "presets/store.hpp"

using namespace plan;

namespace {

struct Dice {
  std::mt19937 engine;
  int up_to(int most) { return static_cast<int>(engine() % static_cast<unsigned long>(most + 1)); }
  bool coin() { return up_to(1) == 0; }
  double between(double low, double high) { return low * std::pow(high / low, up_to(1000) / 1000.0); }
  template <class T>
  T one_of(std::initializer_list<T> all) {
    return all.begin()[up_to(static_cast<int>(all.size()) - 1)];
  }
};

Gpu random_gpu(Dice& dice) {
  Gpu gpu;
  gpu.name = "g" + std::to_string(dice.up_to(99)) + dice.one_of<std::string>({"", "-x", ".Y", "_Z9"});
  if (dice.coin()) {
    gpu.architecture =
        dice.one_of({Architecture::Volta, Architecture::Hopper, Architecture::Cdna3, Architecture::TpuV4});
    gpu.vendor = vendor_of(gpu.architecture);
  } else if (dice.coin()) {
    gpu.vendor = "nvidia";
  }
  gpu.nvlink_sharp = gpu.vendor == "nvidia" && dice.coin();
  gpu.library = dice.one_of({CollectiveLibrary::Unknown, CollectiveLibrary::Nccl, CollectiveLibrary::Xla});
  gpu.memory = Bytes(1000000000LL * (1 + dice.up_to(300)));
  for (FlopsPerSecond& peak : gpu.peak)
    if (dice.coin()) peak = FlopsPerSecond(dice.between(1e12, 1e16));
  gpu.peak[2] = FlopsPerSecond(dice.between(1e12, 1e16));
  gpu.memory_bandwidth = BytesPerSecond(dice.between(1e11, 1e13));
  gpu.sm_count = dice.one_of({0, 1, 2, 132});
  gpu.scale_up = BytesPerSecond(dice.between(1e10, 1e12));
  gpu.scale_up_size = dice.one_of({1, 2, 8, 72});
  gpu.gpus_per_node = dice.one_of({1, 2, 8});
  if (dice.coin()) gpu.nic = BytesPerSecond(dice.between(1e9, 1e11));
  if (dice.coin()) gpu.host_link = BytesPerSecond(dice.between(1e9, 1e12));
  gpu.power_w = dice.one_of({0., 1., 700.});
  gpu.price_per_hour = dice.one_of({0., 0.5, 3.25});
  gpu.context = Bytes(dice.one_of({0LL, 1LL, 500000000LL}));
  gpu.memory_efficiency = dice.one_of({0.8, 0.01, 1., 0.77});
  gpu.kernel_floor = Seconds(dice.one_of({3e-6, 1e-9, 1.0, 5e-6}));
  if (dice.coin()) gpu.efficiency = "h100-sxm";
  return gpu;
}

void put_on_a_torus(Gpu& gpu, Dice& dice) {
  SliceRules& rules = gpu.slices;
  rules.link = BytesPerSecond(dice.between(1e9, 1e11));
  if (dice.coin()) rules.cube = dice.one_of({1, 2, 4});
  if (dice.coin()) rules.ring = dice.one_of({1, 4, 16});
  rules.largest = dice.one_of<SliceShape>({{1, 4, 8}, {4, 4, 8}, {1, 1, 16}});
  if (dice.coin()) rules.listed = {{1, 2, 2}, {2, 2, 4}};
  const Torus largest = torus_of(rules, rules.largest);
  gpu.scale_up = rules.link * std::max(1, largest.links());
  gpu.scale_up_size = largest.chips();
}

void same_chip(const Gpu& a, const Gpu& b) {
  CHECK(a.name == b.name);
  CHECK(a.vendor == b.vendor);
  CHECK(a.architecture == b.architecture);
  CHECK(a.library == b.library);
  CHECK(a.nvlink_sharp == b.nvlink_sharp);
  CHECK(a.memory == b.memory);
  CHECK(a.peak == b.peak);
  CHECK(a.memory_bandwidth == b.memory_bandwidth);
  CHECK(a.sm_count == b.sm_count);
  CHECK(a.slices == b.slices);
  CHECK(a.host_link == b.host_link);
  CHECK(a.power_w == b.power_w);
  CHECK(a.price_per_hour == b.price_per_hour);
  CHECK(a.context == b.context);
  CHECK(a.memory_efficiency == b.memory_efficiency);
  CHECK(a.kernel_floor == b.kernel_floor);
  CHECK(a.efficiency == b.efficiency);
}

Result<Gpu> nothing_known(std::string_view) { return fail(Error{"unknown", "no GPU is known by name"}); }

}  // namespace

TEST_CASE("a GPU of random numbers reads back as it was written, with and without comments") {
  for (unsigned seed = 0; seed < 150; ++seed) {
    Dice dice{std::mt19937(seed)};
    Gpu gpu = random_gpu(dice);
    if (seed % 3 == 0) put_on_a_torus(gpu, dice);
    const std::string text = write_gpu(gpu, seed % 2 == 0 ? "a source" : "");
    CAPTURE(text);
    const Result<Gpu> again = read_gpu(text, "g.yaml");
    for (const Error& e : again ? Errors{} : again.error()) MESSAGE(e.message);
    REQUIRE(again.has_value());
    same_chip(*again, gpu);
    CHECK(again->scale_up.value == doctest::Approx(gpu.scale_up.value).epsilon(1e-12));
    CHECK(again->scale_up_size == gpu.scale_up_size);
    CHECK(again->gpus_per_node == gpu.gpus_per_node);
    CHECK(again->nic == gpu.nic);
  }
}

TEST_CASE("a cluster of random numbers reads back as it was written") {
  for (unsigned seed = 0; seed < 150; ++seed) {
    Dice dice{std::mt19937(1000 + seed)};
    Cluster cluster;
    cluster.name = "c";
    cluster.gpu = random_gpu(dice);
    cluster.gpus_per_node = dice.one_of({1, 2, 8});
    const int node = cluster.gpus_per_node;
    cluster.nics_per_node = dice.one_of({1, node});
    for (int i = 0, size = dice.one_of({1, node}); i <= dice.up_to(2);
         ++i, size = std::max(size, node) * (1 + dice.up_to(5)))
      cluster.tiers.push_back({"t" + std::to_string(i), i == 2 && dice.coin() ? kAnyGpus : size,
                               BytesPerSecond(dice.between(1e9, 1e12)),
                               Seconds(dice.coin() ? 0 : dice.between(1e-7, 1e-4)), dice.one_of({1., 2., 7.}),
                               dice.one_of({Provenance::Measured, Provenance::Imported, Provenance::Fitted,
                                            Provenance::Datasheet, Provenance::Inherited, Provenance::Assumed})});
    cluster.host_memory = Bytes(dice.one_of({0, 960, 2048}) * (std::int64_t{1} << 30));
    cluster.host_power_w = dice.one_of({0., 1., 420.});
    cluster.pue = dice.one_of({1.2, 1., 1.5, 10.});
    cluster.gpu_mtbf_hours = dice.one_of({0., 1., 50000.});
    if (dice.coin()) cluster.calibration.gemm = 0.875, cluster.calibration.jitter = 0.0125;
    if (dice.coin())
      cluster.learnt = {
          dice.one_of({1, 9}), 0.5, 1.25, {{"gpus", 0, 64}, {"seq", 4096, 4096}}, {"model \"a\\b\"", "x: y"}};
    cluster.measured = dice.coin();
    const std::string text = write_cluster(cluster, seed % 2 == 0 ? "a source" : "");
    CAPTURE(text);
    const Result<Cluster> again = read_cluster(text, "c.yaml", nothing_known);
    for (const Error& e : again ? Errors{} : again.error()) MESSAGE(e.message);
    REQUIRE(again.has_value());
    same_chip(again->gpu, cluster.gpu);
    CHECK(again->gpus_per_node == cluster.gpus_per_node);
    CHECK(again->nics_per_node == cluster.nics_per_node);
    REQUIRE(again->tiers.size() == cluster.tiers.size());
    for (std::size_t i = 0; i < cluster.tiers.size(); ++i) {
      const Tier &a = again->tiers[i], &b = cluster.tiers[i];
      CHECK(a.name == b.name);
      CHECK(a.size == b.size);
      CHECK(a.bandwidth == b.bandwidth);
      CHECK(a.latency == b.latency);
      CHECK(a.oversubscription == b.oversubscription);
      CHECK(a.provenance == b.provenance);
    }
    CHECK(again->gpu.scale_up == cluster.tiers[0].bandwidth);  // a cluster's links are its GPU's
    CHECK(again->gpu.scale_up_size == cluster.tiers[0].size);
    if (cluster.tiers.size() > 1) CHECK(again->gpu.nic == cluster.tiers[1].bandwidth);
    CHECK(again->host_memory == cluster.host_memory);
    CHECK(again->host_power_w == cluster.host_power_w);
    CHECK(again->pue == cluster.pue);
    CHECK(again->gpu_mtbf_hours == doctest::Approx(cluster.gpu_mtbf_hours).epsilon(1e-14));
    CHECK(again->calibration == cluster.calibration);
    CHECK(again->learnt == cluster.learnt);
    CHECK(again->measured == cluster.measured);
    CHECK(again->probed.host_link == (cluster.measured && cluster.gpu.host_link.value > 0));
    CHECK(again->probed.memory == cluster.measured);
    CHECK(again->probed.bandwidth == cluster.measured);
  }
}

TEST_CASE("a GPU comes in the cluster that its data sheet describes") {
  for (unsigned seed = 0; seed < 60; ++seed) {
    Dice dice{std::mt19937(2000 + seed)};
    Gpu gpu = random_gpu(dice);
    if (dice.coin()) gpu.scale_up = {};
    const Cluster cluster = default_cluster(gpu);
    const bool wired = gpu.nic.value > 0;
    CHECK(cluster.name == gpu.name);
    CHECK(cluster.gpus_per_node == gpu.gpus_per_node);
    CHECK(cluster.nics_per_node == (wired ? gpu.gpus_per_node : 0));
    REQUIRE(cluster.tiers.size() == 2);
    CHECK(cluster.tiers[0].size == gpu.scale_up_size);
    CHECK(cluster.tiers[0].bandwidth == (gpu.scale_up.value > 0 ? gpu.scale_up : gpu.host_link));
    CHECK(cluster.tiers[0].provenance == Provenance::Datasheet);
    CHECK(cluster.tiers[1].size == kAnyGpus);
    CHECK(cluster.tiers[1].bandwidth == (wired ? gpu.nic : cluster.tiers[0].bandwidth));
    CHECK(cluster.tiers[1].provenance == (wired ? Provenance::Datasheet : Provenance::Assumed));
    for (const Tier& tier : cluster.tiers) CHECK(tier.oversubscription == 1);
  }
}

TEST_CASE("devices by the names that their drivers print, whether their memory is known or not") {
  // NVML's and rocm-smi's names in their own spelling; the memory that the driver reports, in GiB.
  const struct {
    const char *name, *preset;
    double gib;
  } kDevices[] = {{"NVIDIA GB300", "gb300", 279},
                  {"NVIDIA GB200", "gb200", 184},
                  {"NVIDIA GH200 480GB", "gh200", 95},
                  {"NVIDIA B300 SXM6 AC", "b300-sxm", 275},
                  {"NVIDIA B200", "b200-sxm", 179},
                  {"NVIDIA H200", "h200-sxm", 140},
                  {"NVIDIA H100 PCIe", "h100-pcie", 79.6},
                  {"NVIDIA H100 NVL", "h100-nvl", 93.6},
                  {"NVIDIA H100 80GB HBM3", "h100-sxm", 79.6},
                  {"NVIDIA H800", "h800-sxm", 79.6},
                  {"NVIDIA H20", "h20-sxm", 95.6},
                  {"NVIDIA A100 80GB PCIe", "a100-pcie-80gb", 79.3},
                  {"NVIDIA A100-SXM4-80GB", "a100-sxm-80gb", 79.3},
                  {"NVIDIA A100-SXM4-40GB", "a100-sxm-40gb", 39.4},
                  {"NVIDIA A800-SXM4-80GB", "a800-sxm-80gb", 79.3},
                  {"Tesla V100-SXM2-32GB", "v100-sxm2-32gb", 31.7},
                  {"Tesla V100-SXM2-16GB", "v100-sxm2-16gb", 15.8},
                  {"NVIDIA L40S", "l40s", 45},
                  {"NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtx-pro-6000", 95},
                  {"NVIDIA GeForce RTX 5090", "rtx-5090", 31.8},
                  {"NVIDIA GeForce RTX 4090", "rtx-4090", 24},
                  {"NVIDIA RTX A6000", "rtx-a6000", 47.5},
                  {"NVIDIA RTX A5000", "rtx-a5000", 24},
                  {"NVIDIA RTX 6000 Ada Generation", "rtx-6000-ada", 48},
                  {"NVIDIA GeForce RTX 3090", "rtx-3090", 24},
                  {"NVIDIA H200 NVL", "h200-nvl", 140.4},
                  {"NVIDIA A100-PCIE-40GB", "a100-pcie-40gb", 39.4},
                  {"NVIDIA A40", "a40", 45},
                  {"NVIDIA A30", "a30", 23.7},
                  {"NVIDIA A10", "a10", 22.5},
                  {"NVIDIA A10G", "a10g", 22.5},
                  {"NVIDIA L40", "l40", 45},
                  {"NVIDIA L4", "l4", 22.5},
                  {"Tesla T4", "t4", 15},
                  {"AMD Instinct MI355X", "mi355x", 288},
                  {"AMD Instinct MI350X", "mi350x", 288},
                  {"AMD Instinct MI210", "mi210", 64},
                  {"AMD Instinct MI325X", "mi325x", 256},
                  {"AMD Instinct MI300X", "mi300x", 192},
                  {"AMD Instinct MI250X", "mi250x-gcd", 64}};
  for (const auto& device : kDevices) {
    CAPTURE(std::string(device.name));
    CHECK(preset_of_device(device.name, device.gib) == device.preset);
    CHECK(preset_of_device(device.name, 0) == device.preset);
    const auto gpu = load_gpu(device.preset, StoreOptions{});
    REQUIRE(gpu.has_value());
    CHECK(static_cast<double>(gpu->value.memory.value) / kGiB == doctest::Approx(device.gib).epsilon(0.06));
  }
  for (const char* name :
       {"NVIDIA H800 PCIe", "NVIDIA GeForce RTX 3090 Ti", "NVIDIA GeForce RTX 4090 D", "NVIDIA L40G", "NVIDIA A1000",
        "NVIDIA RTX A500", "NVIDIA A40-48Q", "GRID A100-40C", "NVIDIA T400", "NVIDIA A800 80GB PCIe",
        "NVIDIA A800-PCIE-40GB", "Tesla V100-PCIE-32GB", "Tesla V100-SXM3-32GB", "NVIDIA B200 MIG 1g.23gb"})
    for (const double gib : {0., 31.7, 79.}) CHECK(preset_of_device(name, gib).empty());
  for (const double gib : {94., 95.6}) CHECK(preset_of_device("NVIDIA H100", gib) == "h100-sxm-96gb-500w");
}

namespace {

/// A list of layers as text, and what it stands for.
std::pair<std::string, std::vector<std::string>> random_layers(Dice& dice, int depth) {
  std::string text;
  std::vector<std::string> all;
  for (int i = 0; i <= dice.up_to(3); ++i) {
    const std::string blank = dice.one_of<std::string>({"", " ", "\t", " \n "});
    const int times = 1 + dice.up_to(3);
    text += (i > 0 ? "," : "") + blank;
    if (times > 1 || dice.coin()) text += std::to_string(times) + " x " + blank;
    std::vector<std::string> once;
    if (depth < 3 && dice.up_to(2) == 0) {
      const auto [inside, layers] = random_layers(dice, depth + 1);
      text += "(" + inside + blank + ")";
      once = layers;
    } else {
      once = {dice.one_of<std::string>({"a", "Z", "a0", "l-9", "q_z", "mid+z", "a+b-1"})};
      text += once[0];
    }
    for (int k = 0; k < times; ++k) all.insert(all.end(), once.begin(), once.end());
  }
  return {text, all};
}

}  // namespace

TEST_CASE("a random list of layers, three brackets deep, stands for what its counts say, and is written short") {
  for (unsigned seed = 0; seed < 400; ++seed) {
    Dice dice{std::mt19937(3000 + seed)};
    const auto [text, wanted] = random_layers(dice, 0);
    const LayerList read = parse_layers(text);
    CHECK(read.problem == "");
    CHECK(read.layers == wanted);
    const std::string brief = format_layers(wanted);
    CHECK(parse_layers(brief).layers == wanted);
    for (const char* end : {")", " b", ", ", " 3", " $"}) CHECK_FALSE(parse_layers(text + end).problem.empty());
  }
  CHECK(parse_layers("(((a)))").problem.empty());
  CHECK_FALSE(parse_layers("((((a))))").problem.empty());
}
