// Names as people and machines write them, and what of a preset its digest is of.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "formulas/text.hpp"
#include "presets/gpu_names.hpp"
#include "presets/hardware.hpp"
#include "presets/header.hpp"
#include "presets/model_names.hpp"
#include "presets/store.hpp"
#include "temporary_folder.hpp"

namespace plan {
namespace {

double gib_of(const std::string& preset) {
  const auto gpu = load_gpu(preset, StoreOptions{});
  REQUIRE(gpu.has_value());
  return static_cast<double>(gpu->value.memory.value) / (1024.0 * 1024 * 1024);
}

TEST_CASE("a device with its memory in its name is the preset with that memory, or none") {
  int found = 0;
  for (const PresetEntry& entry : list_presets(PresetKind::Gpu, StoreOptions{}))
    for (const std::string& device : scan_list(entry.text, "devices"))
      for (const int gb : {16, 24, 32, 40, 48, 64, 80, 94, 96, 141, 192, 288})
        for (const std::string& typed : {fmt::format("Maker {} {}GB", device, gb), fmt::format("{}-{}G", device, gb),
                                         fmt::format("{}_{}gb_rev", device, gb)}) {
          if (device.find("GB") != std::string::npos && device.find_first_of("0123456789") != 2) continue;  // its own
          CAPTURE(typed);
          const std::string preset = preset_of_device(typed, 0);
          if (preset.empty()) continue;
          const double gib = gib_of(preset);  // makers count in GB or in GiB, before or behind what a driver keeps
          CHECK(gb >= gib * 0.98);
          CHECK(gb <= gib * 1.09);
          ++found;
        }
  CHECK(found > 20);
  for (const auto& [typed, preset] : {std::pair{"NVIDIA Corporation GA100 [A100 SXM4 80GB] (rev a1)", "a100-sxm-80gb"},
                                      {"gpu_8x_a100_80gb_sxm4", "a100-sxm-80gb"},
                                      {"A100-80", "a100-sxm-80gb"},
                                      {"A100-40", "a100-sxm-40gb"},
                                      {"NVIDIA GH200 480GB", "gh200"},
                                      {"Tesla V100-SXM2-16GB", "v100-sxm2-16gb"},
                                      {"NVIDIA A100", "a100-sxm-80gb"}}) {
    const std::string name = typed;
    CAPTURE(name);
    CHECK(preset_of_device(name, 0) == preset);
  }
  for (const char* other : {"A100-SXM-64GB", "H100 64GB", "NVIDIA H20-3e", "H20-141GB", "NVIDIA GH200 144G HBM3e",
                            "RTX 4090 48GB", "A100-80G-PCIe", "h100-mig-3g.40gb", "8xh100 + 8xa100"})
    CHECK_MESSAGE(preset_of_device(other, 0).empty(), other);
  CHECK(gpu_of_parts("A100-80G-PCIe", list_presets(PresetKind::Gpu, StoreOptions{})) == "a100-pcie-80gb");
  CHECK(gpu_of_parts("Tesla V100-SXM3-32GB", list_presets(PresetKind::Gpu, StoreOptions{})).empty());
}

TEST_CASE("a checkpoint in a format to serve it has the layers of the one that was trained") {
  const std::vector<const char*> formats = {"-GPTQ",  "-AWQ",     "-GGUF", "-FP8-dynamic", "-quantized.w4a16",
                                            "-NVFP4", "-bnb-4bit"};
  std::size_t n = 0;
  for (const PresetEntry& entry : list_presets(PresetKind::Model, StoreOptions{}))
    for (const std::string& alias : entry.aliases) {
      if (alias.find('/') == std::string::npos) continue;
      for (const char* format : {formats[n++ % formats.size()]}) {
        const std::string typed = alias + format;
        CAPTURE(typed);
        const auto model = load_model(typed, StoreOptions{});
        REQUIRE(model.has_value());
        CHECK(model->name == entry.name);
        const auto is = [&](const std::string& other) { return other.size() == typed.size() && alike(other, typed); };
        CHECK(model->exact == std::any_of(entry.aliases.begin(), entry.aliases.end(), is));
      }
    }
}

TEST_CASE("a model of another kind is suggested for none") {
  const auto advice = [](const std::string& name) {
    const auto model = load_model(name, StoreOptions{});
    REQUIRE_FALSE(model.has_value());
    std::string all;
    for (const std::string& help : model.error().front().help) all += help + "\n";
    return all;
  };
  for (const char* name : {"Qwen/Qwen3-Omni-30B-A3B-Instruct", "qwen3-omni", "qwen3-max", "Qwen/Qwen2.5-Omni-7B",
                           "Qwen/Qwen2-Audio-7B", "CohereLabs/aya-vision-32b", "tiiuae/Falcon3-Mamba-7B-Base"}) {
    CAPTURE(std::string(name));
    CHECK(advice(name).find("similar") == std::string::npos);
    CHECK(advice(name).find("tuned from") == std::string::npos);
  }
  CHECK(advice("VAGOsolutions/SauerkrautLM-Mixtral-8x7B").find("`mixtral-8x7b`") != std::string::npos);
  CHECK(advice("lightblue/suzume-llama-3-8B-japanese").find("`llama3-8b`") != std::string::npos);
  CHECK(advice("nvidia/Llama-3.1-Minitron-4B-Width-Base").find("`minitron-4b`") == std::string::npos);
  CHECK(advice("cerebras/GLM-4.5-Air-REAP-82B-A12B").find("tuned from") == std::string::npos);
}

TEST_CASE("a digest is of what is priced: names and comments are no part of it, each value is") {
  const TemporaryFolder folder;
  const auto digest = [&](const std::string& text) {
    folder.write("mine.yaml", text);
    const auto model = load_model(folder.at("mine.yaml"), StoreOptions{});
    REQUIRE(model.has_value());
    return model->digest;
  };
  for (const char* name : {"llama3-8b", "qwen3-30b-a3b", "gpt2", "deepseek-v3"})
    for (const PresetEntry& entry : list_presets(PresetKind::Model, StoreOptions{})) {
      if (entry.name != name) continue;
      const std::string before = digest(entry.text);
      std::string more = entry.text;
      const std::size_t list = more.find("aliases: [");
      REQUIRE(list != std::string::npos);
      more.insert(list + 10, "another-name,\n          and-one-more, ");
      CHECK(digest(more + "# a comment\n") == before);
      std::string other = entry.text;
      const std::size_t at = other.find("hidden: ") + 8;
      other.insert(at, "2");
      CHECK(priced_text(other) != priced_text(entry.text));
      CHECK(load_model(name, StoreOptions{})->digest == before);
    }
}

}  // namespace
TEST_CASE("each number of each preset is part of what is priced, and no comment is") {
  for (const PresetKind kind : {PresetKind::Model, PresetKind::Gpu, PresetKind::Cluster})
    for (const PresetEntry& entry : list_presets(kind, StoreOptions{})) {
      CAPTURE(entry.name);
      const std::string before = priced_text(entry.text);
      CHECK(before.find(" #") == std::string::npos);
      for (std::size_t at = entry.text.find(": "); at != std::string::npos; at = entry.text.find(": ", at + 1)) {
        const std::size_t begin = entry.text.rfind('\n', at) + 1, digit = at + 2;
        const std::string line = entry.text.substr(begin, at - begin);
        if (line.find('#') != std::string::npos || line == "devices" || line == "other_devices") continue;
        if (entry.text[digit] < '0' || entry.text[digit] > '9') continue;
        std::string other = entry.text;
        other.insert(digit, "1");
        CHECK_MESSAGE(priced_text(other) != before, line);
        if (entry.text.substr(begin, entry.text.find('\n', begin) - begin).find('#') != std::string::npos) continue;
        other = entry.text;
        other.insert(std::min(other.find('\n', digit), other.size()), "  # it's \"a\" comment, [");
        CHECK_MESSAGE(priced_text(other) == before, line);
      }
    }
}

}  // namespace plan
