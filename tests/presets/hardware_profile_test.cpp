#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <random>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "formulas/efficiency.hpp"
#include "presets/hardware.hpp"
#include "presets/header.hpp"
#include "presets/sample_profile.hpp"
#include "presets/store.hpp"
#include "temporary_folder.hpp"

using namespace plan;

namespace {

std::string messages(const Errors& errors) {
  std::string all;
  for (const Error& e : errors) all += e.message + "\n";
  return all;
}

HardwareProfile read_back(const std::string& text) {
  const auto profile = read_hardware(text, "node.yaml");
  if (!profile) MESSAGE(messages(profile.error()));
  REQUIRE(profile.has_value());
  return *profile;
}

}  // namespace

TEST_CASE("a profile reads back as it was written") {
  const HardwareProfile p = sample();
  const std::string text = write_hardware(p);
  CHECK(is_hardware_profile(text));
  std::istringstream lines(text);
  std::size_t before = 0;
  for (std::string line; std::getline(lines, line);) {  // each level is two columns further in than the one around it
    CAPTURE(line);
    const std::size_t indent = line.find_first_not_of(' ');
    CHECK(indent % 2 == 0);
    CHECK(indent <= before + 2);
    before = line.find_first_not_of(" -");
  }
  CHECK(write_hardware(read_back(text)) == text);
  CHECK(read_back(text).collectives[0] == p.collectives[0]);
  CHECK(read_back(text).provenance == p.provenance);
  CHECK(read_back(text).gemm[0].quality == p.gemm[0].quality);
}

TEST_CASE("mistakes in a profile are named with their place") {
  const auto problem = [](const std::string& from, const std::string& to) {
    std::string text = write_hardware(sample());
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
    const auto read = read_hardware(text, "node.yaml");
    REQUIRE_FALSE(read.has_value());
    return messages(read.error());
  };
  CHECK(problem("usable_gib", "usabel_gib").find("usabel_gib") != std::string::npos);
  CHECK(problem("prov: m1", "prov: m7").find("`m7`") != std::string::npos);
  CHECK(problem("n: 8, ranks_per_node: 8", "n: 8, ranks_per_node: 3").find("n 8 with 3 ranks") != std::string::npos);
  CHECK(problem("plan.hardware/1", "plan.hardware/9").find("plan.hardware/9") != std::string::npos);
  CHECK(problem("[512, 16, 0.05]", "[512]").find("a row of") != std::string::npos);
  CHECK(problem("p: 0.62", "p: 0").find("0.1 to 10 make sense") != std::string::npos);
}

TEST_CASE(
    "no key of a profile may be another word, and no figure may name a source that is not listed, wherever it is") {
  const std::string text = write_hardware(sample());
  const std::regex key("([a-z_0-9]+): "), prov("(prov: )[a-z0-9_-]+");
  const auto codes = [](const std::string& changed, int line) {
    std::string all;
    const Result<HardwareProfile> read = read_hardware(changed, "p.yaml");
    for (const Error& error : read ? Errors{} : read.error())
      if (line < 0 || error.place.line == line) all += error.code + " ";
    return all;
  };
  int keys = 0, sources = 0;
  for (auto found = std::sregex_iterator(text.begin(), text.end(), key); found != std::sregex_iterator(); ++found) {
    const auto at = static_cast<std::size_t>(found->position(1));
    const std::string before = text.substr(0, at);
    if (before.substr(before.rfind('\n') + 1).find_first_of("#\"") != std::string::npos) continue;  // no key: words
    if (before.rfind("provenance:") != std::string::npos && before.substr(before.rfind('\n') + 1) == "  ") continue;
    CAPTURE(before.substr(before.rfind('\n') + 1) + found->str());
    CHECK(codes(text.substr(0, at) + "x" + text.substr(at), -1).find("unknown_key") != std::string::npos);
    ++keys;
  }
  for (auto found = std::sregex_iterator(text.begin(), text.end(), prov); found != std::sregex_iterator(); ++found) {
    const auto at = static_cast<std::size_t>(found->position());
    const auto line = static_cast<int>(std::count(text.begin(), text.begin() + found->position(), '\n')) + 1;
    CAPTURE(line);
    CHECK(codes(text.substr(0, at) + "prov: nobody" + text.substr(at + static_cast<std::size_t>(found->length())),
                line) == "unknown_provenance ");
    ++sources;
  }
  CHECK(keys > 80);
  CHECK(sources >= 10);
}

TEST_CASE("a profile written by hand needs a GPU and nothing else") {
  const HardwareProfile p = read_back(
      "schema: plan.hardware/1\ngpu: {preset: h100-sxm}\ntiers:\n  - {id: spine, size: 1024, oversubscription: 2}\n");
  CHECK(p.tiers[0].oversubscription == 2);
  CHECK_FALSE(read_hardware("schema: plan.hardware/1\nname: x\n", "x.yaml").has_value());
}

TEST_CASE("the planner gets the table where it was measured and the fit outside it") {
  const HardwareProfile p = sample();
  const Gpu sheet = load_gpu("h100-sxm", StoreOptions{}).value().value;
  const Cluster cluster = cluster_of_profile(p, sheet).value();
  Gpu burst = cluster.gpu;
  burst.sustained.fill(1);
  for (const GemmPoint& g : p.gemm[0].grid)
    CHECK(gemm_time(burst, {g.m, g.n, g.k}, DType::Bf16, Orientation::Forward).value * 1e6 ==
          doctest::Approx(g.us).epsilon(1e-4));
  CHECK(cluster.gpu.sustained[static_cast<std::size_t>(DType::Bf16)] == doctest::Approx(640.0 / 720));
  for (const CurvePoint& c : p.collectives[0].table)
    CHECK(collective_time(cluster, Collective::AllReduce, RealBytes(c.bytes), {8, 1}).value * 1e6 ==
          doctest::Approx(c.us).epsilon(1e-3));
  for (const CurvePoint& c : p.collectives[1].table)
    CHECK(collective_time(cluster, Collective::AllGather, RealBytes(c.bytes), {2, 8}).value * 1e6 ==
          doctest::Approx(c.us).epsilon(1e-3));
  CHECK(cluster.gpu.memory.value == doctest::Approx(79.1 * kGiB));
  CHECK(cluster.gpu.context.value == doctest::Approx(0.52 * kGiB));
  CHECK(cluster.tiers[1].provenance == Provenance::Measured);
  CHECK(cluster.tiers[1].oversubscription == 2);
  CHECK(cluster.measured);
  CHECK(cluster.measured_parts.size() == 9);
  HardwareProfile channels = p;
  channels.nccl_channels = {16, 24, 32, "m1"};
  const NcclMemory nccl = cluster_of_profile(channels, sheet).value().nccl;
  CHECK(nccl.channels == channels.nccl_channels.collective);
  CHECK(nccl.p2p_channels == channels.nccl_channels.p2p);
  CHECK(nccl.all_to_all.value == doctest::Approx(2.63 * kGiB));
  for (const int ranks : {2, 4, 8}) {  // how many ranks a group had says up to where its memory is known
    for (ProfileNcclMemory& m : channels.nccl_memory) m.ranks = ranks;
    CHECK(cluster_of_profile(channels, sheet).value().nccl.ranks == ranks);
  }
  // fp8 was not measured: the program's own tables stand in.
  CHECK_FALSE(cluster.gpu.gemm[static_cast<std::size_t>(DType::Fp8)][0].grid.empty());
}

TEST_CASE("a fit to small messages that leads above the link is bounded by it, and one to large ones is not") {
  const Gpu sheet = load_gpu("h100-sxm", StoreOptions{}).value().value;
  const auto all_reduce = [&](double busbw, double largest) {
    HardwareProfile p = sample();
    ProfileCurve& curve = p.collectives[0];
    curve.busbw_gb_s = busbw;
    curve.table.clear();
    for (double bytes = 1 << 20; bytes <= largest; bytes *= 4)
      curve.table.push_back({bytes, 20 + bytes * wire_factor(curve.op, curve.layout.n) / (0.95 * busbw * 1e3)});
    const Cluster cluster = cluster_of_profile(p, sheet).value();
    return std::pair(scale_up_fit(cluster.gpu, curve.op, curve.layout.n).busbw.value / 1e9,
                     cluster.unmeasured_parts.size());
  };
  const std::size_t usual = all_reduce(400, 1 << 30).second;
  CHECK(all_reduce(400, 1 << 24).first == doctest::Approx(400));
  CHECK(all_reduce(480, 1 << 30).first == doctest::Approx(480));
  CHECK(all_reduce(740, 1 << 24).first == doctest::Approx(450).epsilon(0.2));
  CHECK(all_reduce(740, 1 << 24).second == usual + 1);
}

TEST_CASE("attention that was measured one way is that way's, and the other keeps what it was beside it") {
  const Gpu sheet = load_gpu("h100-sxm", StoreOptions{}).value().value;
  const auto rates = [&](bool forward, bool backward) {
    HardwareProfile p = sample();
    ProfileAttention of = p.attention.front();
    p.attention.clear();
    if (forward) of.fmax_tflops = 500, of.backward = false, p.attention.push_back(of);
    if (backward) of.fmax_tflops = 300, of.backward = true, p.attention.push_back(of);
    const Gpu gpu = cluster_of_profile(p, sheet).value().gpu;
    return std::pair(gpu.attention[0].rate.value / 1e12, gpu.attention[1].rate.value / 1e12);
  };
  const double known = sheet.attention[0].rate.value / 1e12, back = sheet.attention[1].rate.value / 1e12;
  REQUIRE(known > 0);
  REQUIRE(back > 0);
  CHECK(rates(true, true) == std::pair(500.0, 300.0));
  CHECK(rates(true, false).first == 500);
  CHECK(rates(true, false).second == doctest::Approx(back * 500 / known));
  CHECK(rates(false, true).first == doctest::Approx(known));
  CHECK(rates(false, true).second == 300);
}

TEST_CASE("what cannot be trusted is not planned with") {
  HardwareProfile p = sample();
  const Gpu sheet = load_gpu("h100-sxm", StoreOptions{}).value().value;
  p.collectives[0].quality.median_err = 0.4;
  const Cluster cluster = cluster_of_profile(p, sheet).value();
  CHECK(collective_time(cluster, Collective::AllReduce, RealBytes(131072), {8, 1}).value * 1e6 !=
        doctest::Approx(22).epsilon(0.01));
  CHECK(cluster.unmeasured_parts.back() == "all_reduce n=8 (no fit)");
  p.synthetic = true;
  CHECK_FALSE(cluster_of_profile(p, sheet).has_value());
}

TEST_CASE("what a profile does not know of a tier stays as it is known") {
  const Gpu sheet = load_gpu("h100-sxm", StoreOptions{}).value().value;
  const Cluster usual = cluster_of_profile({.gpu = {.preset = "h100-sxm"}}, sheet).value();
  HardwareProfile network{.gpu = {.preset = "h100-sxm"}};
  network.tiers = {{.id = "network", .kind = "scale_out", .measured_gb_s = 45.4}};
  const Cluster measured = cluster_of_profile(network, sheet).value();
  REQUIRE(measured.tiers.size() == 2);
  CHECK(measured.tiers[0].size == usual.tiers[0].size);
  CHECK(measured.tiers[0].bandwidth.value == usual.tiers[0].bandwidth.value);
  CHECK(measured.tiers[0].latency.value == usual.tiers[0].latency.value);
  CHECK(measured.tiers[1].bandwidth.value == doctest::Approx(45.4e9));
  CHECK(measured.tiers[1].latency.value == usual.tiers.back().latency.value);
  for (const double us : {0.3, 1.0, 2.5, 40.0}) {
    network.tiers[0] = {.id = "network", .kind = "scale_out", .latency_us = us};
    CHECK(cluster_of_profile(network, sheet)->tiers[1].latency.value == doctest::Approx(us * 1e-6));
  }
  CHECK(cluster_of_profile(network, sheet)->tiers[1].bandwidth.value == usual.tiers.back().bandwidth.value);
}

TEST_CASE("copies between GPUs and overlap that were measured are planned with") {
  const Gpu sheet = load_gpu("h100-sxm", StoreOptions{}).value().value;
  HardwareProfile p{.gpu = {.preset = "h100-sxm"}};
  const Cluster usual = cluster_of_profile(p, sheet).value();
  constexpr double kBytes = 256e6;
  p.pairs = {{.from = 0, .to = 1, .gb_s = 396}, {.from = 0, .to = 2, .gb_s = 100}};
  const Cluster slow = cluster_of_profile(p, sheet).value();
  CHECK(send_time(slow, RealBytes(kBytes), 1).value ==
        doctest::Approx(kBytes / 100e9).epsilon(0.05));  // the slowest hop
  CHECK(send_time(slow, RealBytes(kBytes), 1) > send_time(usual, RealBytes(kBytes), 1));
  CHECK(collective_time(slow, Collective::AllReduce, RealBytes(kBytes), {8, 1}) ==
        collective_time(usual, Collective::AllReduce, RealBytes(kBytes), {8, 1}));
  // NCCL's own send counts before a copy.
  p.collectives = {{.op = Collective::SendRecv,
                    .dtype = "bf16",
                    .layout = {2, 2, 1, true},
                    .table = {{512, 9, 0}, {268435456, 700, 0}},
                    .alpha_us = 9,
                    .busbw_gb_s = 390}};
  CHECK(send_time(cluster_of_profile(p, sheet).value(), RealBytes(268435456), 1).value ==
        doctest::Approx(700e-6).epsilon(0.01));
  // A product that takes 1.25 times as long beside messages that take 1.2 times as long loses 0.2 of each of their 1.2.
  p.overlap = {{"gemm", "all_gather", 1.25, 1.2, ""}};
  CHECK(cluster_of_profile(p, sheet)->calibration.overlap_tax == doctest::Approx(0.24));
  p.overlap = {{"gemm", "all_gather", 1, 1.3, ""}};
  CHECK(cluster_of_profile(p, sheet)->calibration.overlap_tax == 0);
  CHECK(usual.calibration.overlap_tax > 0);
}

TEST_CASE("a probe of some of a host's GPUs does not make the host smaller") {
  const Gpu sheet = load_gpu("h100-sxm", StoreOptions{}).value().value;
  HardwareProfile p{.gpu = {.preset = "h100-sxm"}, .gpus_per_node = 2};
  CHECK(cluster_of_profile(p, sheet)->gpus_per_node == 2);  // written by hand: the user's word
  p.provenance = {{.id = "i1", .kind = Provenance::Imported}};
  CHECK(cluster_of_profile(p, sheet)->gpus_per_node == 8);
  p.host_gpus = 4;
  CHECK(cluster_of_profile(p, sheet)->gpus_per_node == 4);
  p.gpus_per_node = 16, p.host_gpus = 0;
  CHECK(cluster_of_profile(p, sheet)->gpus_per_node == 16);
  CHECK(cluster_of_profile(p, sheet)->host_memory.value == 0);
  p.host_memory_gib = 512;
  CHECK(cluster_of_profile(p, sheet)->host_memory.value == std::int64_t{512} << 30);
}

TEST_CASE("no profile takes away what is known of a tier") {
  const Gpu sheet = load_gpu("h100-sxm", StoreOptions{}).value().value;
  const Cluster usual = cluster_of_profile({.gpu = {.preset = "h100-sxm"}}, sheet).value();
  std::mt19937 random(4);
  const auto maybe = [&](double value) { return random() % 2 == 0 ? 0 : value; };
  for (int i = 0; i < 500; ++i) {
    HardwareProfile p{.gpu = {.preset = "h100-sxm"}};
    for (std::size_t t = random() % 4; t > 0; --t)
      p.tiers.push_back({.id = "t",
                         .kind = random() % 3 == 0   ? "scale_up"
                                 : random() % 2 == 0 ? "node"
                                                     : "scale_out",
                         .size = static_cast<int>(maybe(8)),
                         .per_gpu_gb_s = maybe(100),
                         .measured_gb_s = maybe(40),
                         .latency_us = maybe(3)});
    const Result<Cluster> cluster = cluster_of_profile(p, sheet);
    REQUIRE(cluster);
    REQUIRE(cluster->tiers.size() >= 2);
    for (const Tier& tier : cluster->tiers) {
      CHECK(tier.size > 1);
      CHECK(tier.bandwidth.value > 0);
    }
    CHECK(cluster->gpus_per_node == usual.gpus_per_node);
  }
}

TEST_CASE("devices are found by the names their drivers give") {
  CHECK(preset_of_device("NVIDIA H100 80GB HBM3", 79.6) == "h100-sxm");
  CHECK(preset_of_device("NVIDIA H100 PCIe", 79.6) == "h100-pcie");
  CHECK(preset_of_device("NVIDIA A100-SXM4-40GB", 39.4) == "a100-sxm-40gb");
  CHECK(preset_of_device("NVIDIA A100-SXM4-80GB", 0) == "a100-sxm-80gb");
  CHECK(preset_of_device("Tesla V100-SXM2-16GB", 15.8) == "v100-sxm2-16gb");
  CHECK(preset_of_device("NVIDIA H200", 140.4) == "h200-sxm");
  CHECK(preset_of_device("NVIDIA GB200", 184) == "gb200");
  // Parts of a GPU, and sisters without a data sheet here: no other's is taken for theirs.
  for (const char* name : {"Some Other GPU", "NVIDIA H100 80GB HBM3 MIG 1g.10gb", "NVIDIA A100-SXM4-80GB MIG 3g.40gb",
                           "NVIDIA H800 PCIe", "NVIDIA A800 80GB PCIe", "Tesla V100-PCIE-32GB", "Tesla V100-SXM3-32GB"})
    CHECK(preset_of_device(name, 31.7).empty());
  for (const char* name : {"NVIDIA B200", "NVIDIA L40S", "NVIDIA GeForce RTX 4090", "NVIDIA A100-SXM4-80GB"})
    CHECK(load_gpu(preset_of_device(name, 79), StoreOptions{}).has_value());
}

TEST_CASE("a letter or digit more in a device's name makes it another device") {
  // Drivers' names of devices that no preset is of, each with the name of one that is inside.
  for (const char* name : {"NVIDIA RTX A1000", "NVIDIA A100X", "Tesla V100S-PCIE-32GB", "NVIDIA L40SX", "NVIDIA XH200",
                           "NVIDIA GeForce RTX 4090 D", "NVIDIA GeForce RTX 4090 Laptop GPU",
                           "NVIDIA GeForce RTX 5090 D", "NVIDIA GeForce RTX 5090 Laptop GPU"}) {
    CAPTURE(std::string(name));
    CHECK(preset_of_device(name, 31.7).empty());
  }
  int words = 0;
  for (const PresetEntry& entry : list_presets(PresetKind::Gpu, StoreOptions{})) {
    const Result<Gpu> gpu = parse_gpu(entry);
    REQUIRE(gpu);
    const double gib = static_cast<double>(gpu->memory.value) / (1024.0 * 1024 * 1024);
    const std::vector<std::string> own = scan_list(entry.text, "devices");
    for (const std::string& word : own) {
      CAPTURE(word);
      const auto holds = [&](const std::string& other) { return other != word && word.find(other) != word.npos; };
      if (std::any_of(own.begin(), own.end(), holds)) continue;  // the shorter one is found still
      CHECK(preset_of_device("Maker " + word, gib) == entry.name);
      for (const char* more : {"0", "7", "X", "s"}) CHECK(preset_of_device("Maker " + word + more, gib) != entry.name);
      for (const char* before : {"1", "Q"}) CHECK(preset_of_device("Maker " + (before + word), gib) != entry.name);
      ++words;
    }
  }
  CHECK(words > 25);
}

TEST_CASE("a preset of one's own says which devices it is of") {
  const TemporaryFolder folder;
  std::string text;
  for (const PresetEntry& entry : list_presets(PresetKind::Gpu, StoreOptions{}))
    if (entry.name == "l40s") text = entry.text;
  text.replace(text.find("name: l40s"), 10, "name: acme-9");
  text.replace(text.find("devices: [L40S]"), 15, "devices: [ Acme 9 ,\n \"ACME IX\"]\nother_devices: [Acme 9 Lite]");
  folder.write("gpus/acme-9.yaml", text);
  const StoreOptions own{.path = {folder.path().string()}};
  CHECK(preset_of_device("ACME 9 Tensor", 45, own) == "acme-9");
  CHECK(preset_of_device("acme ix", 0, own) == "acme-9");
  CHECK(preset_of_device("Acme 9 lite", 45, own).empty());
  CHECK(preset_of_device("Acme 8", 45, own).empty());
  CHECK(preset_of_device("ACME 9 Tensor", 45).empty());
  CHECK(preset_of_device("NVIDIA L40S", 45, own) == "l40s");
}

TEST_CASE("scattered shapes fill a grid that passes through each of them") {
  const GemmFit fit{.t0 = Seconds(3e-6), .rate = FlopsPerSecond(7e14), .bandwidth = BytesPerSecond(2e12)};
  const std::vector<GemmPoint> points{
      {8192, 6656, 16384, 2900, 0}, {8192, 16384, 6656, 2700, 0}, {512, 1024, 1024, 6, 0}};
  Gpu gpu;
  gpu.gemm[static_cast<std::size_t>(DType::Bf16)][0] = {fit,
                                                        grid_of_points(points, fit, DType::Bf16, Orientation::Forward)};
  gpu.peak[static_cast<std::size_t>(DType::Bf16)] = fit.rate;
  for (const GemmPoint& p : points)
    CHECK(gemm_time(gpu, {p.m, p.n, p.k}, DType::Bf16, Orientation::Forward).value * 1e6 ==
          doctest::Approx(p.us).epsilon(1e-4));
}

TEST_CASE("--profile takes a measured profile") {
  const std::string path = "hardware_profile_test.yaml";
  std::ofstream(path) << write_hardware(sample());
  const auto loaded = load_cluster(path, StoreOptions{.files = true});
  REQUIRE(loaded.has_value());
  CHECK(loaded->value.name == "node");
  CHECK(loaded->value.gpu.name == "h100-sxm");
  std::remove(path.c_str());
}
