#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <regex>
#include <sstream>
#include <string>

#include "embedded_only.hpp"
#include "presets/default_cluster.hpp"
#include "presets/reader.hpp"
#include "presets/store.hpp"

using plan::DType;

namespace {

double peak(const plan::Gpu& gpu, DType dtype) { return gpu.peak[static_cast<std::size_t>(dtype)].value; }

}  // namespace

TEST_CASE("a number of a file without its unit is refused, and with each unit that is proposed it is read") {
  static const std::regex quantity(R"(^(\s*-?\s*[a-z_0-9]+: )([0-9.e+]+) ([A-Za-z/]+)$)"), proposed("`([^`]*)`");
  plan::StoreOptions shipped;
  shipped.files = false;
  const auto lookup = [&](std::string_view name) -> plan::Result<plan::Gpu> {
    auto found = plan::load_gpu(name, shipped);
    if (!found) return plan::fail(found.error());
    return found->value;
  };
  int taken = 0;
  for (const plan::PresetEntry& entry : plan::list_presets(plan::PresetKind::Cluster, shipped)) {
    const auto cluster = plan::load_cluster(entry.name, shipped);
    REQUIRE(cluster.has_value());
    const std::string text = plan::write_cluster(cluster->value);
    std::vector<std::string> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    const auto with = [&](std::size_t at, const std::string& line) {
      std::string out;
      for (std::size_t i = 0; i < lines.size(); ++i) out += (i == at ? line : lines[i]) + "\n";
      return plan::read_cluster(out, "c.yaml", lookup);
    };
    for (std::size_t at = 0; at < lines.size(); ++at) {
      std::smatch found;
      if (!std::regex_match(lines[at], found, quantity)) continue;
      const std::string key = found[1], number = found[2];
      CAPTURE(lines[at]);
      const auto bare = with(at, key + number);
      REQUIRE_FALSE(bare.has_value());
      REQUIRE(bare.error().size() == 1);
      CHECK(bare.error().front().code == "missing_unit");
      for (const std::string& help : bare.error().front().help)
        for (std::sregex_iterator word(help.begin(), help.end(), proposed), end; word != end; ++word) {
          const std::string meant = (*word)[1];
          CAPTURE(meant);
          const auto read = with(at, key + meant);
          for (const plan::Error& error : read ? plan::Errors{} : read.error()) CHECK(error.code != "out_of_range");
          ++taken;
        }
    }
  }
  CHECK(taken > 200);
}

TEST_CASE(
    "tiers hold whole nodes or lie whole in one, and the tiers inside them: one mistake, and sizes that are right") {
  const auto read = [](int node, int inner, const std::string& size) {
    const std::string text = "preset: cluster/1\nname: c\ngpu: h100\ngpus_per_node: " + std::to_string(node) +
                             "\ntiers:\n  - {name: a, bandwidth: 1 GB/s, size: " + std::to_string(inner) +
                             "}\n  - {name: b, bandwidth: 1 GB/s, " + size +
                             "}\n  - {name: c, bandwidth: 1 GB/s, size: all}\n";
    return plan::read_cluster(text, "c", [](std::string_view) { return plan::Gpu{}; });
  };
  int refused = 0;
  for (const int node : {1, 2, 3, 4, 8, 72})
    for (const int inner : {1, 2, 3, 4, 7, 8, 16, 72})
      for (const int size : {1, 2, 3, 4, 6, 7, 8, 12, 16, 60, 72, 100, 144}) {
        CAPTURE(node);
        CAPTURE(inner);
        CAPTURE(size);
        const auto fits = [node](int n) { return n % node == 0 || node % n == 0; };
        const plan::Result<plan::Cluster> cluster = read(node, inner, "size: " + std::to_string(size));
        CHECK(cluster.has_value() == (fits(inner) && fits(size) && size % inner == 0));
        if (cluster || !fits(inner)) continue;
        REQUIRE(cluster.error().size() == 1);
        REQUIRE(cluster.error().front().help.size() == 1);
        const std::string& help = cluster.error().front().help.front();  // write `size: 56` or `size: 64`
        for (std::size_t at = help.find('`'); at != std::string::npos;
             at = help.find('`', help.find('`', at + 1) + 1)) {
          CHECK(read(node, inner, help.substr(at + 1, help.find('`', at + 1) - at - 1)).has_value());
          ++refused;
        }
      }
  CHECK(refused > 100);
}

TEST_CASE("GPUs that published runs name are known") {
  for (const char* slug : {"a100-sxm-40gb", "a100-sxm-80gb", "a800-sxm-80gb", "b200-sxm", "gb200", "gh200", "h100-sxm",
                           "h100-sxm-96gb-500w", "h200-sxm", "h800-sxm", "mi250x-gcd", "mi300x", "mi325x", "rtx-4090",
                           "rtx-a6000", "tpu-v3", "tpu-v4", "v100-sxm2-16gb", "v100-sxm2-32gb"}) {
    CAPTURE(std::string(slug));
    CHECK(plan::load_gpu(slug, plan::kEmbeddedOnly).has_value());
  }
}

TEST_CASE("data sheets: memory GB, HBM GB/s, dense bf16 and fp8 TFLOP/s, scale-up GB/s") {
  struct Row {
    const char* name;
    double memory, bandwidth, bf16, fp8, scale_up;
  };
  constexpr Row kRows[] = {
      {"v100-sxm2-32gb", 32, 900, 0, 0, 150},
      {"a100-sxm-40gb", 40, 1555, 312, 0, 300},
      {"a100-sxm-80gb", 80, 2039, 312, 0, 300},
      {"a100-pcie-80gb", 80, 1935, 312, 0, 31.5},
      {"h100-sxm", 80, 3350, 989, 1979, 450},
      {"h100-pcie", 80, 2000, 756, 1513, 63},
      {"h100-nvl", 94, 3900, 835, 1671, 300},
      {"h200-sxm", 141, 4800, 989, 1979, 450},
      {"h800-sxm", 80, 3350, 989, 1979, 200},
      {"h20-sxm", 96, 4000, 148, 296, 450},
      {"b200-sxm", 180, 8000, 2250, 4500, 900},
      {"b300-sxm", 288, 8000, 2250, 4500, 900},
      {"gb200", 186, 8000, 2500, 5000, 900},
      {"gb300", 288, 8000, 2500, 5000, 900},
      {"l40s", 48, 864, 362, 733, 31.5},
      {"rtx-4090", 24, 1008, 165, 330, 31.5},
      {"rtx-5090", 32, 1792, 209, 419, 63},
      {"rtx-pro-6000", 96, 1792, 468, 936, 63},
      {"mi250x-gcd", 64, 1638, 191.5, 0, 175},
      {"mi300x", 192, 5300, 1307, 2615, 448},
      {"mi325x", 256, 6000, 1307, 2615, 448},
      {"mi355x", 288, 8000, 2500, 5000, 537.6},
      {"tpu-v4", 32, 1200, 275, 0, 270},
      {"tpu-v5e", 16, 819, 197, 0, 180},
      {"tpu-v5p", 95, 2765, 459, 0, 540},
      {"tpu-v6e", 32, 1638, 918, 918, 360},
      {"gaudi2", 96, 2460, 432, 865, 262.5},
      {"gaudi3", 128, 3700, 1677, 1677, 525},
      {"trainium2", 96, 2900, 667, 1299, 512},
      {"a100-pcie-40gb", 40, 1555, 312, 0, 31.5},
      {"h200-nvl", 141, 4800, 835, 1671, 450},
      {"a10", 24, 600, 125, 0, 31.5},
      {"a10g", 24, 600, 70, 0, 31.5},
      {"a30", 24, 933, 165, 0, 31.5},
      {"a40", 48, 696, 149.7, 0, 31.5},
      {"l4", 24, 300, 121, 242.5, 31.5},
      {"l40", 48, 864, 181, 362, 31.5},
      {"rtx-3090", 24, 936, 71, 0, 31.5},
      {"rtx-a5000", 24, 768, 111.1, 0, 31.5},
      {"rtx-6000-ada", 48, 960, 364.2, 728.5, 31.5},
      {"t4", 16, 320, 0, 0, 15.75},
      {"mi210", 64, 1638, 181, 0, 50},
      {"mi350x", 288, 8000, 2300, 4600, 537.6},
      {"tpu-v7", 192, 7380, 2307, 4614, 540},
  };
  for (const Row& row : kRows) {
    CAPTURE(std::string(row.name));
    const auto gpu = plan::load_gpu(row.name, plan::kEmbeddedOnly);
    REQUIRE(gpu.has_value());
    // What the driver reports lies between the sheet's decimal number and the binary one.
    CHECK(static_cast<double>(gpu->value.memory.value) / 1e9 == doctest::Approx(row.memory).epsilon(0.08));
    CHECK(gpu->value.memory_bandwidth.value / 1e9 == doctest::Approx(row.bandwidth).epsilon(1e-6));
    CHECK(peak(gpu->value, DType::Bf16) / 1e12 == doctest::Approx(row.bf16).epsilon(0.001));
    CHECK(peak(gpu->value, DType::Fp8) / 1e12 == doctest::Approx(row.fp8).epsilon(0.001));
    CHECK(gpu->value.scale_up.value / 1e9 == doctest::Approx(row.scale_up).epsilon(1e-6));
  }
  CHECK(peak(plan::load_gpu("v100", plan::kEmbeddedOnly)->value, DType::Fp16) == 125e12);
}

TEST_CASE("clusters: tiers grow, and the pods of 24k GPUs are oversubscribed") {
  for (const plan::PresetEntry& entry : plan::list_presets(plan::PresetKind::Cluster, plan::kEmbeddedOnly)) {
    CAPTURE(entry.name);
    const plan::Cluster cluster = plan::load_cluster(entry.name, plan::kEmbeddedOnly)->value;
    REQUIRE(cluster.tiers.size() >= 2);
    for (std::size_t i = 1; i < cluster.tiers.size(); ++i) {
      CHECK(cluster.tiers[i].size > cluster.tiers[i - 1].size);
      CHECK(cluster.tiers[i].bandwidth.value <= cluster.tiers[i - 1].bandwidth.value);
    }
  }
  const plan::Cluster meta = plan::load_cluster("meta-24k", plan::kEmbeddedOnly)->value;
  CHECK(meta.tiers[1].size == 3072);
  CHECK(meta.tiers[2].size == 24576);
  CHECK(meta.tiers[2].oversubscription == 7);
  const plan::Cluster h800 = plan::load_cluster("h800", plan::kEmbeddedOnly)->value;
  CHECK(h800.tiers[0].bandwidth.value == 200e9);
  CHECK(plan::load_cluster("a100-4x100g", plan::kEmbeddedOnly)->value.tiers[1].bandwidth.value == 6.25e9);
}

// A data sheet says how many GPUs a switch joins, and nothing of networks that are thinned out above it.
TEST_CASE("a GPU alone brings the tiers of its data sheet, at full width") {
  for (const plan::PresetEntry& entry : plan::list_presets(plan::PresetKind::Gpu, plan::kEmbeddedOnly)) {
    CAPTURE(entry.name);
    const auto loaded = plan::load_gpu(entry.name, plan::kEmbeddedOnly);
    REQUIRE(loaded);
    for (const int joined : {loaded->value.scale_up_size, 1, 2, 3, 72}) {
      plan::Gpu gpu = loaded->value;
      gpu.scale_up_size = joined, gpu.slices = {};
      const plan::Cluster cluster = plan::default_cluster(gpu);
      CHECK(plan::write_gpu(cluster.gpu) == plan::write_gpu(gpu));
      REQUIRE(cluster.tiers.size() == 2);
      CHECK(cluster.tiers.front().size == std::max(1, joined));
      CHECK(cluster.tiers.back().size > cluster.tiers.front().size);
      for (const plan::Tier& tier : cluster.tiers) CHECK(tier.oversubscription == 1);
    }
  }
}

TEST_CASE("a name is a word of letters, digits, hyphens, dots and underscores") {
  const auto taken_as = [](const std::string& name) {
    const auto gpu = plan::read_gpu("preset: gpu/1\nname: " + name + "\n", "x.yaml");
    std::string all;
    if (!gpu)
      for (const plan::Error& error : gpu.error()) all += error.message;
    return all.find("`name` is not one word") == std::string::npos;
  };
  for (char c = '!'; c < 127; ++c) {
    const bool taken = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '.' || c == '_';
    const std::string quote = c == '\'' ? "\"" : "'";
    if (c == '\\' || c == '"') continue;  // mean something between quotes
    CAPTURE(c);
    CHECK(taken_as(quote + "a" + c + "9" + quote) == taken);
  }
  CHECK(taken_as(std::string(100, 'a')));
  CHECK_FALSE(taken_as(std::string(101, 'a')));
  CHECK_FALSE(taken_as("''"));
}

TEST_CASE("a written cluster reads back with its GPU inside") {
  for (const plan::PresetEntry& entry : plan::list_presets(plan::PresetKind::Cluster, plan::kEmbeddedOnly)) {
    CAPTURE(entry.name);
    const plan::Cluster cluster = *plan::parse_cluster(entry, plan::kEmbeddedOnly);
    const std::string text = plan::write_cluster(cluster, "source");
    const auto no_lookup = [](std::string_view) -> plan::Result<plan::Gpu> {
      return plan::fail(plan::Error{"x", "x"});
    };
    const auto again = plan::read_cluster(text, "again", no_lookup);
    REQUIRE(again.has_value());
    CHECK(plan::write_cluster(*again, "source") == text);
    CHECK(again->gpu.memory == cluster.gpu.memory);
    CHECK(again->gpu.peak == cluster.gpu.peak);
    CHECK(again->gpu_mtbf_hours == cluster.gpu_mtbf_hours);
    const auto gpu = plan::read_gpu(plan::write_gpu(cluster.gpu), "again");
    REQUIRE(gpu.has_value());
    CHECK(gpu->memory_bandwidth == cluster.gpu.memory_bandwidth);
    CHECK(plan::write_gpu(*gpu) == plan::write_gpu(cluster.gpu));
  }
}

TEST_CASE("a slice's axes close to rings where its file says so or its GPU's rules do, and only there") {
  const auto gpu_without_rules = [](std::string_view) -> plan::Result<plan::Gpu> {
    return plan::load_gpu("h100", plan::kEmbeddedOnly).map([](auto found) { return found.value; });
  };
  for (const auto& [words, closed] : {std::pair{"", false}, {", rings: no", false}, {", rings: yes", true}}) {
    const std::string text = std::string("preset: cluster/1\nname: c\ngpu: h100\ngpus_per_node: 8\ntiers:\n") +
                             "  - {name: a, torus: 4x4x8, bandwidth: 600 GB/s" + words + "}\n";
    CAPTURE(text);
    const auto cluster = plan::read_cluster(text, "c.yaml", gpu_without_rules);
    REQUIRE(cluster.has_value());
    const plan::Torus& torus = cluster->tiers.front().torus;
    CHECK(cluster->tiers.front().size == 128);
    int joined = 0;  // links of one chip, counted at both ends of its axes
    for (const plan::TorusAxis& axis : torus.axes) {
      CHECK(axis.wraps == closed);
      joined += axis.size > 1 ? 2 : 0;
    }
    CHECK(torus.link.value * joined == doctest::Approx(600e9));
  }
}

TEST_CASE("mistakes in hardware files have their place") {
  const auto lookup = [](std::string_view name) {
    return plan::load_gpu(name, plan::kEmbeddedOnly).map([](auto f) { return f.value; });
  };
  const auto code = [&](const std::string& text) {
    const auto cluster = plan::read_cluster(text, "c.yaml", lookup);
    return cluster ? std::string() : cluster.error().front().code;
  };
  const std::string head = "preset: cluster/1\nname: c\ngpu: h100\ngpus_per_node: 8\n";
  CHECK(code(head + "tiers:\n  - {name: a, size: 8, bandwidth: 1 GB/s}\n") == "");
  CHECK(code(head + "tiers:\n  - {name: a, size: 8, bandwidth: 1}\n") == "missing_unit");
  CHECK(code(head + "tiers:\n  - {name: a, size: 0, bandwidth: 1 GB/s}\n") == "out_of_range");
  CHECK(code(head + "tiers:\n  - {name: a, size: 8, bandwidth: 1 GB/s, oversubscription: 0.5}\n") == "out_of_range");
  CHECK(
      code(head + "tiers:\n  - {name: a, size: 8, bandwidth: 1 GB/s}\n  - {name: b, size: 12, bandwidth: 1 GB/s}\n") ==
      "bad_value");
  CHECK(code(head + "tiers: []\n") == "bad_value");
  CHECK(code(head) == "missing_key");
  CHECK(code("preset: gpu/1\nname: c\ngpu: h100\ngpus_per_node: 8\ntiers: []\n") == "wrong_preset");
  CHECK(code("preset: cluster/1\nname: c\ngpu: h1000\ngpus_per_node: 8\ntiers: []\n") == "unknown_gpu");
  CHECK(plan::read_gpu("preset: gpu/1\nname: g\nmemory: 80 GiB\npeak: {}\nmemory_bandwidth: 1 TB/s\n", "g")
            .error()
            .front()
            .code == "missing_key");
}

TEST_CASE("counts in hardware files begin at one, and one is taken") {
  const auto code = [](const std::string& text) {
    const bool gpu = text.starts_with("preset: gpu/1");
    plan::Errors errors;
    if (gpu) {
      const auto read = plan::read_gpu(text, "g.yaml");
      if (!read) errors = read.error();
    } else {
      const auto read = plan::read_cluster(text, "c.yaml", [](std::string_view name) {
        return plan::load_gpu(name, plan::kEmbeddedOnly).map([](auto f) { return f.value; });
      });
      if (!read) errors = read.error();
    }
    return errors.empty() ? std::string() : errors.front().code;
  };
  const std::string gpu = "preset: gpu/1\nname: g\nmemory: 80 GiB\npeak: {bf16: 1 PFLOP/s}\nmemory_bandwidth: 1 TB/s\n";
  const std::string links = "scale_up: 1 GB/s\n", node = "gpus_per_node: 8\n", size = "scale_up_size: 8\n";
  const std::string cluster = "preset: cluster/1\nname: c\ngpu: h100\n",
                    tier = "tiers: [{name: a, bandwidth: 1 GB/s, size: ";
  const auto with = [&](const std::string& key, const std::string& value) {
    if (key == "cube" || key == "ring")
      return gpu + node + "torus: {link: 1 GB/s, largest: 1x4x4, " + key + ": " + value + "}\n";
    if (key == "tier") return cluster + node + tier + value + "}]\n";
    if (key == "nics_per_node") return cluster + node + key + ": " + value + "\n" + tier + "8}]\n";
    if (key == "gpus_per_node (cluster)") return cluster + "gpus_per_node: " + value + "\n" + tier + "8}]\n";
    if (key == "gpus_per_node") return gpu + links + size + key + ": " + value + "\n";
    if (key == "scale_up_size") return gpu + links + node + key + ": " + value + "\n";
    return gpu + links + node + size + key + ": " + value + "\n";
  };
  for (const std::string key : {"sm_count", "scale_up_size", "gpus_per_node", "cube", "ring", "tier",
                                "gpus_per_node (cluster)", "nics_per_node"}) {
    CAPTURE(key);
    CHECK(code(with(key, "1")) == "");
    CHECK(code(with(key, "2")) == "");
    CHECK(code(with(key, "0")) == (key == "nics_per_node" ? "" : "out_of_range"));
    CHECK(code(with(key, "-1")) == "out_of_range");
    CHECK(code(with(key, "1.5")) != "");
    CHECK(code(with(key, "99999999999")) == "out_of_range");
  }
}
