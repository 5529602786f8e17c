// libFuzzer's entry: one program for all targets, PLAN_FUZZ_TARGET says which. Without a known one it lists the targets
// with the inputs to start from, a line each.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "tests/fuzz/targets.hpp"

namespace {

const plan::fuzz::Target* chosen() {
  const char* name = std::getenv("PLAN_FUZZ_TARGET");
  return name == nullptr ? nullptr : plan::fuzz::find_target(name);
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  if (chosen() != nullptr) return 0;
  for (const plan::fuzz::Target& target : plan::fuzz::targets())
    for (const std::string& path : plan::fuzz::inputs_of(target, PLAN_SOURCE_DIR))
      std::printf("%s\t%s\n", std::string(target.name).c_str(), path.c_str());
  std::exit(2);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const plan::fuzz::Target* const target = chosen();
  try {
    target->run({reinterpret_cast<const char*>(data), size});
  } catch (const plan::fuzz::Broken& promise) {
    std::fprintf(stderr, "%s\n", promise.what.c_str());
    std::abort();
  }
  return 0;
}
