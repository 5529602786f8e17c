// Every number that a maker's library tells of a GPU arrives as the fact that it is, in the unit of that fact; what the
// library cannot tell, or has no function for, stays empty and leaves every other fact as it was.
#include <doctest/doctest.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "formulas/units.hpp"
#include "hwprobe/node/amd_smi.hpp"
#include "hwprobe/node/nvml.hpp"

using namespace plan;

namespace {

/// What is known of one GPU, and one look at it.
struct Seen {
  GpuFacts gpu{};
  GpuPulse pulse{};
};

/// A number of a library, what it can be, and the fact that it becomes.
struct Number {
  const char* name;
  std::uint64_t least, most;
  std::function<double(const Seen&)> fact;
  double unit = 1;  ///< of the number in those of the fact
};

using Numbers = std::map<std::string, std::uint64_t>;

double real(std::uint64_t number) { return static_cast<double>(number); }

std::uint64_t any(std::mt19937_64& random, const Number& number) {
  return number.least + random() % (number.most - number.least + 1);
}

std::string words_of(const Numbers& all, const std::string& untold = "") {
  std::string words;
  for (const auto& entry : all)
    words += entry.first + "=" + (entry.first == untold ? "no" : std::to_string(entry.second)) + " ";
  return words;
}

const std::vector<Number>& of_nvml() {
  static const std::vector<Number> all{
      {"gen", 1, 7, [](const Seen& s) { return real(s.gpu.pcie_gen); }},
      {"gen_max", 1, 7, [](const Seen& s) { return real(s.gpu.pcie_gen_max); }},
      {"width", 1, 32, [](const Seen& s) { return real(s.gpu.pcie_width); }},
      {"width_max", 1, 32, [](const Seen& s) { return real(s.gpu.pcie_width_max); }},
      {"links", 1, 18, [](const Seen& s) { return real(s.gpu.nvlinks); }},
      {"busy", 1, 100, [](const Seen& s) { return real(s.gpu.utilisation); }},
      {"processes", 1, 50, [](const Seen& s) { return real(s.gpu.processes); }},
      {"mig", 1, 1, [](const Seen& s) { return s.gpu.mig ? 1.0 : 0.0; }},
      {"total", 1ull << 36, 1ull << 38, [](const Seen& s) { return s.gpu.total_gib; }, 1 / kGiB},
      {"sm", 1, 3000, [](const Seen& s) { return s.pulse.sm_mhz; }},
      {"memory_clock", 1, 9000, [](const Seen& s) { return s.pulse.memory_mhz; }},
      {"milliwatts", 1, 1500000, [](const Seen& s) { return s.pulse.watts; }, 1e-3},
      {"celsius", 1, 110, [](const Seen& s) { return s.pulse.celsius; }},
      {"reasons", 1, 0x1ff, [](const Seen& s) { return real(s.pulse.reasons); }},
  };
  return all;
}

const std::vector<Number>& of_amd_smi() {
  static const std::vector<Number> all{
      {"busy", 1, 100, [](const Seen& s) { return real(s.gpu.utilisation); }},
      {"processes", 1, 50, [](const Seen& s) { return real(s.gpu.processes); }},
      {"total", 1ull << 37, 1ull << 39, [](const Seen& s) { return s.gpu.total_gib; }, 1 / kGiB},
      {"sm", 1, 3000, [](const Seen& s) { return s.pulse.sm_mhz; }},
      {"memory_clock", 1, 9000, [](const Seen& s) { return s.pulse.memory_mhz; }},
      {"watts", 1, 1500, [](const Seen& s) { return s.pulse.watts; }},
      {"temperature", 1, 110, [](const Seen& s) { return s.pulse.celsius; }},
  };
  return all;
}

template <class Library>
Seen seen(const Result<std::unique_ptr<Library>>& loaded) {
  REQUIRE(loaded.has_value());
  const std::vector<GpuFacts> gpus = (*loaded)->gpus();
  REQUIRE(gpus.size() == 1);
  return {gpus[0], (*loaded)->pulse(0)};
}

Seen by_nvml(const std::string& says, const char* library = PLAN_NVML_DOUBLE) {
  setenv("NVML_DOUBLE", "one", 1), setenv("NVML_DOUBLE_SAYS", says.c_str(), 1);
  const Seen all = seen(Nvml::load(library));
  unsetenv("NVML_DOUBLE_SAYS");
  return all;
}

Seen by_amd_smi(const std::string& says, const char* library = PLAN_AMD_SMI_DOUBLE) {
  setenv("AMD_SMI_DOUBLE", "one", 1), setenv("AMD_SMI_DOUBLE_SAYS", says.c_str(), 1);
  const Seen all = seen(AmdSmi::load(library, "/nonexistent"));
  unsetenv("AMD_SMI_DOUBLE_SAYS");
  return all;
}

/// Random numbers, told whole and with one of them untold each.
template <class Look>
void arrive(const std::vector<Number>& numbers, const Look& look) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 20; ++round) {
    Numbers told;
    for (const Number& number : numbers) told[number.name] = any(random, number);
    const Seen all = look(words_of(told));
    for (const Number& number : numbers) {
      CAPTURE(number.name);
      CHECK(number.fact(all) == doctest::Approx(real(told[number.name]) * number.unit).epsilon(1e-9));
      const Seen rest = look(words_of(told, number.name));
      CHECK(number.fact(rest) == 0);
      for (const Number& other : numbers) {
        CAPTURE(other.name);
        if (&other != &number) CHECK(other.fact(rest) == other.fact(all));
      }
    }
  }
}

}  // namespace

TEST_CASE("every number that NVIDIA's driver tells is the fact that it is, and one that it cannot tell is none") {
  arrive(of_nvml(), [](const std::string& says) { return by_nvml(says); });
}

TEST_CASE("every number that AMD's library tells is the fact that it is, and one that it cannot tell is none") {
  arrive(of_amd_smi(), [](const std::string& says) { return by_amd_smi(says); });
}

TEST_CASE("what NVIDIA's driver tells in two numbers or in words is known whole or not at all") {
  std::mt19937_64 random(12);
  for (int round = 0; round < 50; ++round) {
    const auto major = std::to_string(random() % 15), minor = std::to_string(random() % 10);
    CHECK(by_nvml("major=" + major + " minor=" + minor).gpu.compute_capability == major + "." + minor);
    const std::uint64_t total = 1 + random() % (1ull << 38), unused = random() % total;
    const Seen memory = by_nvml("total=" + std::to_string(total) + " free=" + std::to_string(unused));
    CHECK(memory.gpu.total_gib == doctest::Approx(real(total) / kGiB));
    CHECK(memory.gpu.free_gib == doctest::Approx(real(unused) / kGiB));
  }
  for (const char* untold : {"major=no", "minor=no"}) CHECK(by_nvml(untold).gpu.compute_capability.empty());
  for (const char* untold : {"total=no", "free=no"}) {
    CHECK(by_nvml(untold).gpu.total_gib == 0);
    CHECK(by_nvml(untold).gpu.free_gib == 0);
  }
  CHECK(by_nvml("id=" + std::to_string(0x00a510deu)).gpu.pci_device_id == "00a5");  // in four digits
  CHECK(by_nvml("id=no").gpu.pci_device_id.empty());
  CHECK(by_nvml("id=no").gpu.pci_bus.empty());
  CHECK(by_nvml("name=no").gpu.name.empty());
  CHECK(by_nvml("uuid=no").gpu.uuid.empty());
  // A mode that begins with the next start is none yet.
  CHECK_FALSE(by_nvml("mig=0 mig_next=1").gpu.mig);
  CHECK(by_nvml("mig=1 mig_next=0").gpu.mig);
  CHECK(by_nvml("links=18").gpu.nvlinks == 18);
}

TEST_CASE("what AMD's library tells in a form of its own is known in ours") {
  CHECK(by_amd_smi("bus=no").gpu.pci_bus == "0000:00:00.0");
  CHECK(by_amd_smi("name=no").gpu.name.empty());
  CHECK(by_amd_smi("name=1").gpu.name == "AMD Instinct MI300X");
  CHECK(by_amd_smi("uuid=no").gpu.uuid.empty());
  std::mt19937_64 random(13);
  for (int round = 0; round < 50; ++round) {
    const std::uint64_t total = 1 + random() % (1ull << 38), used = random() % (total + total / 4);
    const Seen memory = by_amd_smi("total=" + std::to_string(total) + " used=" + std::to_string(used));
    CHECK(memory.gpu.free_gib == doctest::Approx(used < total ? real(total - used) / kGiB : 0));
  }
  CHECK(by_amd_smi("used=no").gpu.free_gib == 0);
  for (const int percent : {0, 1, 99, 100})
    CHECK(by_amd_smi("busy=" + std::to_string(percent)).gpu.utilisation == percent);
  for (const char* none : {"busy=101", "busy=65535", "busy=4294967295"}) CHECK(by_amd_smi(none).gpu.utilisation == 0);
  // Of power the present number, else the average; all ones, in 16 or 32 bits, and a present zero are no number.
  CHECK(by_amd_smi("watts=700 average=650").pulse.watts == 700);
  for (const char* none : {"0", "65535", "4294967295"}) {
    CHECK(by_amd_smi("watts=" + std::string(none) + " average=650").pulse.watts == 650);
    CHECK(by_amd_smi("average=65535 watts=" + std::string(none)).pulse.watts == 0);
  }
  for (const int celsius : {1, 35, 110}) {
    CHECK(by_amd_smi("temperature=" + std::to_string(celsius)).pulse.celsius == celsius);
    if (celsius > 1) CHECK(by_amd_smi("temperature=" + std::to_string(1000 * celsius)).pulse.celsius == celsius);
  }
}

TEST_CASE("a driver that has functions for its GPUs alone lists them, and knows nothing else of them") {
  const auto bare = [](const Seen& all, const std::vector<Number>& numbers) {
    for (const Number& number : numbers) {
      CAPTURE(number.name);
      CHECK(number.fact(all) == 0);
    }
    CHECK(all.gpu.index == 0);
    CHECK(all.gpu.name.empty());
    CHECK(all.gpu.uuid.empty());
    CHECK(all.gpu.free_gib == 0);
    CHECK(all.gpu.compute_capability.empty());
    CHECK(all.gpu.clique.empty());
  };
  bare(by_nvml("", PLAN_NVML_OLD_DOUBLE), of_nvml());
  bare(by_amd_smi("", PLAN_AMD_SMI_OLD_DOUBLE), of_amd_smi());
  setenv("NVML_DOUBLE", "hgx", 1);
  const auto old = Nvml::load(PLAN_NVML_OLD_DOUBLE);
  REQUIRE(old.has_value());
  CHECK((*old)->driver().empty());
  CHECK((*old)->cuda() == 0);
  CHECK((*old)->path(0, 1).empty());
}

TEST_CASE("the way between two GPUs has a word where the driver tells one that is known") {
  setenv("NVML_DOUBLE", "hgx", 1);
  const auto loaded = Nvml::load(PLAN_NVML_DOUBLE);
  REQUIRE(loaded.has_value());
  const auto between = [&](const char* says) {
    setenv("NVML_DOUBLE_SAYS", says, 1);
    const std::string word = (*loaded)->path(2, 3);
    unsetenv("NVML_DOUBLE_SAYS");
    return word;
  };
  CHECK(between("path=10") == "PIX");
  CHECK(between("path=50") == "SYS");
  CHECK(between("path=77").empty());
  CHECK(between("path=no").empty());
}
