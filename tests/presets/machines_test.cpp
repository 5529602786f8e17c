// Machines of clouds: each name finds its GPUs, however it is written.
#include "presets/machines.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <random>
#include <set>

#include "presets/embedded.hpp"
#include "presets/store.hpp"

using namespace plan;

namespace {

/// The name in letters of any case, with other signs between its parts.
std::string respelt(const std::string& name, std::mt19937& random) {
  std::string out;
  for (const char c : name) {
    const bool sign = c == '-' || c == '_' || c == '.';
    if (sign)
      out += std::string("-_ .")[random() % 4];
    else
      out += static_cast<char>(random() % 2 == 0 ? std::toupper(static_cast<unsigned char>(c)) : c);
  }
  return out;
}

}  // namespace

TEST_CASE("every file of machines is read, and names GPUs by their presets") {
  std::size_t count = 0;
  for (const EmbeddedFile& file : embedded_files()) {
    if (file.folder != "machines") continue;
    const std::string name(file.name);
    CAPTURE(name);
    const auto read = read_machines(file.text, name);
    REQUIRE(read);
    count += read->size();
    for (const CloudMachine& machine : *read) {
      CAPTURE(machine.name);
      const Result<Found<Gpu>> gpu = load_gpu(machine.gpu, StoreOptions{});
      REQUIRE(gpu.has_value() == machine.described);
      if (gpu) CHECK(gpu->name == machine.gpu);
    }
  }
  CHECK(count == machines().size());
  CHECK(count > 100);
}

TEST_CASE("a machine is found by its name in any spelling, and never taken for another or for a GPU") {
  std::mt19937 random(5);
  for (const CloudMachine& machine : machines()) {
    const std::string name = respelt(machine.name, random);
    CAPTURE(name);
    const std::vector<CloudMachine> found = machines_called(name);
    REQUIRE(found.size() == 1);
    CHECK(found.front().name == machine.name);
    CHECK(machine_called(name).gpus == (machine.described ? machine.gpus : 0));
    CHECK_FALSE(load_gpu(machine.name, StoreOptions{}));
    CHECK(about_machines(name).empty() == machine.described);
  }
  CHECK(machines_called("nd96isr_h100_v5").size() == 1);
}

TEST_CASE("a family is its largest machine, where all have one kind of GPU") {
  CHECK(machine_called("p5").name == "p5.48xlarge");
  CHECK(machine_called("g5").gpus == 8);
  CHECK(machine_called("a2-ultragpu").gpu == "a100-sxm-80gb");
  CHECK(machine_called("a3").name.empty());
  CHECK(machine_called("Standard_NC24ads_A100_v4").gpus == 1);
  CHECK(machine_called("NC96ads_A100_v4").gpus == 4);
  const std::string about = about_machines("a3");
  CHECK(about.find("8 h100-sxm") != std::string::npos);
  CHECK(about.find("8 h200-sxm") != std::string::npos);
  CHECK(about_machines("trn1").find("which no preset describes") != std::string::npos);
  for (const char* none :
       {"", "p", "p55", "standard", "a3-highgpu-3g", "48xlarge", "-", "NCads_A100_v4", "NCads_H100_v5"}) {
    CAPTURE(std::string(none));
    CHECK(machines_called(none).empty());
  }
}

TEST_CASE("a file of machines with a row in other words is refused at its place") {
  for (const char* row : {"8", "8x h100", "h100 x 8", "0 x h100", "-1 x h100", "8 x ", "99999999999 x h100", "[8]"}) {
    const std::string text = std::string("preset: machines/1\nname: a\nmachines:\n  m.large: ") + row + "\n";
    CAPTURE(text);
    const auto read = read_machines(text, "a.yaml");
    REQUIRE_FALSE(read.has_value());
    CHECK(read.error().front().place.line == 4);
  }
  // No rack has more GPUs than a thousand and a few; a number beyond is a slip.
  for (const int gpus : {1, 2, 72, 1024, 1025}) {
    const auto read = read_machines(
        "preset: machines/1\nname: a\nmachines:\n  m.large: " + std::to_string(gpus) + " x h100-sxm\n", "a.yaml");
    REQUIRE(read.has_value() == (gpus <= 1024));
    if (read) CHECK(read->front().gpus == gpus);
  }
}
