// Names as people and machines write them, and what of a preset its digest is of.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <string>
#include <vector>

#include "formulas/text.hpp"
#include "presets/gpu_names.hpp"
#include "presets/hardware.hpp"
#include "presets/header.hpp"
#include "presets/model_names.hpp"
#include "presets/store.hpp"
#include "presets/unknown_name.hpp"
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
        const auto is = [&](const std::string& other) {
          return other.size() == typed.size() && same_but_for_case(other, typed);
        };
        CHECK(model->exact == std::any_of(entry.aliases.begin(), entry.aliases.end(), is));
      }
    }
}

TEST_CASE("a GPU without a preset is neither taken for another nor answered with one") {
  const auto advice = [](const std::string& name) {
    const auto gpu = load_gpu(name, StoreOptions{});
    REQUIRE_FALSE(gpu.has_value());
    REQUIRE(gpu.error().size() == 1);
    std::string all;
    for (const std::string& help : gpu.error().front().help) all += help + "\n";
    return all;
  };
  for (const char* name : {"Quadro RTX 6000",
                           "Quadro RTX 8000",
                           "Quadro RTX 5000",
                           "RTX A4000",
                           "RTX A4500",
                           "RTX A5500",
                           "RTX 4000 Ada",
                           "RTX 5000 Ada",
                           "RTX 5880 Ada",
                           "RTX PRO 4500 Blackwell",
                           "RTX PRO 5000",
                           "RTX PRO 6000 Max-Q",
                           "B100",
                           "b100-sxm",
                           "L2",
                           "L40G",
                           "A16",
                           "A2",
                           "A30X",
                           "A100X",
                           "A10M",
                           "H20-3e",
                           "GB10",
                           "DGX Spark",
                           "GB200-NVL36",
                           "GB200 NVL4",
                           "VR200",
                           "R100",
                           "T4G",
                           "P100",
                           "P40",
                           "P4",
                           "K80",
                           "M60",
                           "B40",
                           "V100S",
                           "Titan V",
                           "Titan RTX",
                           "RTX 2080 Ti",
                           "RTX 3060",
                           "RTX 3080",
                           "RTX 3090 Ti",
                           "RTX 4070",
                           "RTX 4080 SUPER",
                           "RTX 4090 D",
                           "RTX 4090D",
                           "RTX 4090 Laptop GPU",
                           "RTX 5080",
                           "RTX 5090 D",
                           "RTX 5090 Laptop GPU",
                           "GTX 1080 Ti",
                           "MI50",
                           "MI60",
                           "MI100",
                           "MI300A",
                           "MI308X",
                           "MI350P",
                           "MI400",
                           "MI450",
                           "MI455X",
                           "Gaudi",
                           "Gaudi1",
                           "gaudi3-pcie",
                           "TPU v2",
                           "tpu-v8",
                           "Trainium",
                           "Trainium1",
                           "trainium3",
                           "trn3",
                           "Inferentia2",
                           "Ascend 910B",
                           "MLU370",
                           "Max 1550",
                           "Arc A770",
                           "Apple M4",
                           "Jetson Thor",
                           "WSE-3",
                           "A100-custom",
                           "rtx6000",
                           "ada6000"}) {
    CAPTURE(std::string(name));
    const std::string said = advice(name);
    for (const char* taken : {"similar name", "that is `", "of that name, in another form"})
      CHECK_MESSAGE(said.find(taken) == std::string::npos, said);
    CHECK(said.find("plan show gpu h100-sxm") != std::string::npos);  // how to write its file
  }
  CHECK(advice("RTX 6000").find("in its name: rtx-6000-ada, rtx-pro-6000") != std::string::npos);
  CHECK(advice("h100-smx").find("similar name exists: `h100-sxm`") != std::string::npos);
  CHECK(advice("trainum2").find("similar name exists: `trainium2`") != std::string::npos);
  CHECK(advice("a800-40gb").find("in another form or with other memory: `a800-sxm-80gb`") != std::string::npos);
  CHECK(advice("V100-SXM3-32GB").find("other memory: `v100-sxm2-16gb`, `v100-sxm2-32gb`") != std::string::npos);
  for (const auto& [typed, preset] : {std::pair{"HGX H100", "h100-sxm"},
                                      {"lambda h100", "h100-sxm"},
                                      {"H100 PCIe 80GB", "h100-pcie"},
                                      {"v100-sxm-32gb", "v100-sxm2-32gb"},
                                      {"NVIDIA H100 80GB HBM3", "h100-sxm"}}) {
    const std::string name = typed;
    CAPTURE(name);
    CHECK(advice(name).starts_with(fmt::format("that is `{}`\n", preset)));
  }
}

TEST_CASE("another edition of a GPU is its series, and a GPU beside a CPU is of that make") {
  const std::vector<PresetEntry> entries = list_presets(PresetKind::Gpu, StoreOptions{});
  const auto numbered = [](const std::string& name) {  // by two digits one behind the other
    return std::adjacent_find(name.begin(), name.end(), [](unsigned char a, unsigned char b) {
             return std::isdigit(a) != 0 && std::isdigit(b) != 0;
           }) != name.end();
  };
  int asked = 0;
  for (const PresetEntry& entry : entries)
    for (const std::string edition : {"D", " Ti", "-3e"}) {
      const std::string typed = entry.name + edition;
      CAPTURE(typed);
      const std::vector<std::string> series = gpus_of_series(typed, entries);
      CHECK((std::find(series.begin(), series.end(), entry.name) != series.end()) == numbered(entry.name));
      ++asked;
    }
  CHECK(asked >= 100);
  CHECK(gpus_of_series("A1000", entries).empty());  // no A100
  CHECK(gpus_of_make("Grace Hopper", entries) == std::vector<std::string>{"gh200"});
  for (const std::string& name : gpus_of_make("grace blackwell", entries)) CHECK(name.starts_with("gb"));
}

TEST_CASE("a list of names that is cut says how many more there are") {
  const std::vector<PresetEntry> entries = list_presets(PresetKind::Model, StoreOptions{});
  const auto holding = [&](std::string_view part) {
    return std::count_if(entries.begin(), entries.end(), [&](const PresetEntry& entry) {
      return ("-" + entry.name + "-").find(fmt::format("-{}-", part)) != std::string::npos;
    });
  };
  const auto said = [](std::string_view word) {
    std::string all;
    for (const std::string& help : unknown_name(PresetKind::Model, word, StoreOptions{}).help) all += help + "\n";
    return all;
  };
  REQUIRE(holding("7b") > 12);
  CHECK(said("7b").find(" more") != std::string::npos);
  CHECK(said("405").find("with `405b` in its name: llama3-405b\n") != std::string::npos);
}

TEST_CASE("a key of a preset with a letter less is one mistake, at its line") {
  const auto told = [](const std::string& text, const std::string& kind) {
    const TemporaryFolder folder;
    const std::string file = folder.write("own.yaml", text);
    const auto errors = [](const auto& read) { return read ? Errors{} : read.error(); };
    return kind == "gpu"       ? errors(load_gpu(file, StoreOptions{}))
           : kind == "cluster" ? errors(load_cluster(file, StoreOptions{}))
                               : errors(load_model(file, StoreOptions{}));
  };
  int edited = 0;
  for (const auto& [kind, presets] :
       {std::pair<std::string, std::vector<PresetEntry>>{"gpu", list_presets(PresetKind::Gpu, {})},
        {"cluster", list_presets(PresetKind::Cluster, {})},
        {"model", list_presets(PresetKind::Model, {})}})
    for (std::size_t i = 0; i < presets.size(); i += kind == "model" ? 17 : 5)
      for (std::size_t at = 0; at < presets[i].text.size();) {
        const std::string& text = presets[i].text;
        const std::size_t end = std::min(text.find('\n', at), text.size()), colon = text.find(':', at);
        const std::size_t key = text.find_first_not_of(" -", at);
        const bool section = colon < end && text.find_first_not_of(' ', colon + 1) >= end;
        // A section of a model is named by its layers, too, which is told beside.
        if (colon < end && colon > key + 3 && text[key] != '#' && !(section && kind == "model")) {
          std::string slipped = text;
          slipped.erase(colon - 1, 1);
          const Errors errors = told(slipped, kind);
          CAPTURE(slipped.substr(at, end - at));
          REQUIRE(errors.size() == 1);
          CHECK(errors.front().place.line > 0);
          ++edited;
        }
        at = end + 1;
      }
  CHECK(edited > 200);
}

TEST_CASE("another number or another letter beside it is another GPU, whichever preset it is near") {
  for (const PresetEntry& entry : list_presets(PresetKind::Gpu, StoreOptions{}))
    for (std::size_t at = 0; at < entry.name.size(); ++at)
      for (const char c : {'0', '1', '5', '9', 'x', 's', 'b'}) {
        const bool digit = std::isdigit(static_cast<unsigned char>(entry.name[at])) != 0;
        const bool beside =
            (at > 0 && std::isdigit(static_cast<unsigned char>(entry.name[at - 1])) != 0) ||
            (at + 1 < entry.name.size() && std::isdigit(static_cast<unsigned char>(entry.name[at + 1])));
        if (entry.name[at] == '-' || entry.name[at] == c || (!digit && !beside)) continue;
        std::string typed = entry.name;
        typed[at] = c;
        const auto gpu = load_gpu(typed, StoreOptions{});
        if (gpu) continue;  // another preset
        CAPTURE(typed);
        for (const std::string& help : gpu.error().front().help) {
          const std::size_t near = help.find("similar name exists: `");
          if (near == std::string::npos) continue;
          const std::string name = help.substr(near + 22, help.find('`', near + 22) - near - 22);
          const auto numbers = [](const std::string& text) {
            std::string all;
            for (const char one : text) all += std::isdigit(static_cast<unsigned char>(one)) != 0 ? one : ' ';
            all.erase(std::unique(all.begin(), all.end(), [](char a, char b) { return a == ' ' && b == ' '; }),
                      all.end());
            return std::string(trim(all));
          };
          CHECK_MESSAGE(numbers(name) == numbers(typed), name);
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
