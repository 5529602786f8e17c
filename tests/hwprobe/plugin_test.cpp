// What a measuring plugin gives is taken within its bounds, and one of another version or none at all is refused with
// its words.
#include "hwprobe/session/plugin.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <string>
#include <string_view>

using namespace plan;

namespace {

/// The stand-in with a fault of rank 0 while this lives.
struct Fault {
  explicit Fault(const char* what) { setenv("PLUGIN_DOUBLE", (std::string(what) + ":0").c_str(), 1); }
  ~Fault() { unsetenv("PLUGIN_DOUBLE"); }
  Fault(const Fault&) = delete;
  Fault& operator=(const Fault&) = delete;
};

plan_probe_point a_copy() {
  plan_probe_point point{};
  point.kind = PLAN_PROBE_COPY, point.number[0] = 1 << 20;
  return point;
}

/// Whether a text of a plugin is all that fits into its room before the character that ends it.
template <std::size_t N>
bool full(const char (&text)[N]) {
  return std::string_view(text, N - 1) == std::string(N - 1, 'x') && text[N - 1] == 0;
}

std::string why(const Result<int>& result) { return result ? "" : result.error()[0].message; }

}  // namespace

TEST_CASE("texts that fill their room end with it, and samples beyond theirs are not counted") {
  const Fault fault("full");
  const auto device = Device::open(PLAN_PLUGIN_DOUBLE, {});
  REQUIRE(device.has_value());
  const plan_probe_device& facts = (*device)->facts();
  CHECK(full(facts.name));
  CHECK(full(facts.uuid));
  CHECK(full(facts.pci_bus));
  CHECK(full(facts.capability));
  CHECK(full(facts.runtime));
  CHECK(full(facts.nccl));
  CHECK(full(facts.cudnn));
  CHECK(full(facts.cublas));
  const RankResult result = (*device)->measure(a_copy());
  CHECK(full(result.data.text));
  CHECK(result.data.count == PLAN_PROBE_SAMPLES);
}

TEST_CASE("less than no samples are none") {
  const Fault fault("none");
  const auto device = Device::open(PLAN_PLUGIN_DOUBLE, {});
  REQUIRE(device.has_value());
  CHECK((*device)->measure(a_copy()).data.count == 0);
}

TEST_CASE("a plugin's own numbers pass as they are") {
  const auto device = Device::open(PLAN_PLUGIN_DOUBLE, {});
  REQUIRE(device.has_value());
  const RankResult result = (*device)->measure(a_copy());
  CHECK(result.status == PLAN_PROBE_OK);
  CHECK(result.error.empty());
  CHECK(result.data.count == 9);
  CHECK(result.data.bytes == 2 << 20);
  const Result<std::string> id = (*device)->unique_id();
  REQUIRE(id.has_value());
  CHECK(*id == std::string(PLAN_PROBE_ID_BYTES, 7));
  for (const std::size_t length : {std::size_t{0}, std::size_t{5}}) {  // what is missing of an id is zeros
    const RankResult joined = (*device)->join(id->substr(0, length));
    CHECK(joined.status == PLAN_PROBE_FAILED);
    CHECK(joined.error == "another id");
  }
  CHECK((*device)->join(*id + "more than there is room for").status == PLAN_PROBE_OK);
}

TEST_CASE("a device that does not open and a world that is not made say why") {
  {
    const Fault fault("shut");
    const auto device = Device::open(PLAN_PLUGIN_DOUBLE, {.device = 3});
    REQUIRE_FALSE(device.has_value());
    CHECK(device.error()[0].code == "no_device");
    CHECK(device.error()[0].message == "GPU 3 cannot be opened: it is on fire");
  }
  const Fault fault("alone");
  const auto device = Device::open(PLAN_PLUGIN_DOUBLE, {});
  REQUIRE(device.has_value());
  const Result<std::string> id = (*device)->unique_id();
  REQUIRE_FALSE(id.has_value());
  CHECK(id.error()[0].message == "libnccl.so.2 is missing");
}

TEST_CASE("a library that is no plugin of this version says so") {
  const Result<int> good = plugin_toolkit(PLAN_PLUGIN_DOUBLE);
  REQUIRE(good.has_value());
  CHECK(*good == 13000);
  for (const char* other : {"abi", "size"}) {
    const Fault fault(other);
    CHECK(why(plugin_toolkit(PLAN_PLUGIN_DOUBLE)).find("is no measuring plugin of this version of plan") !=
          std::string::npos);
  }
  CHECK(why(plugin_toolkit(PLAN_NVML_DOUBLE)).find("is no measuring plugin of this version of plan") !=
        std::string::npos);
  CHECK(why(plugin_toolkit("/nonexistent/plugin.so")).find("/nonexistent/plugin.so") != std::string::npos);
  for (const Maker maker : {Maker::Nvidia, Maker::Amd}) {
    CHECK(plugin_name(maker) == (maker == Maker::Amd ? "libplan_probe_hip.so" : "libplan_probe_cuda.so"));
    CHECK(how_to_build(maker).find(maker == Maker::Amd ? "PLAN_HIP=ON" : "PLAN_CUDA=ON") != std::string::npos);
  }
}
