// What Megatron-LM's arguments leave in host memory. Tested by tests/launch/offload_test.cpp.
#include <fmt/core.h>

#include <algorithm>

#include "cli/launch/megatron/megatron.hpp"
#include "cli/terminal/offload_flag.hpp"
#include "formulas/names.hpp"
#include "presets/quantity.hpp"

namespace plan {
namespace {

/// Modules that `--offload-modules` names; those that are not modelled are reported.
std::uint16_t offloaded_modules(const MegatronArgs& args, LaunchJob& job) {
  std::uint16_t modules = 0;
  const auto given = args.given.find("offload-modules");
  if (given == args.given.end()) return modules;
  for (const std::string& word : given->second.values) {
    if (const std::optional<OffloadModule> module = parse(kOffloadModuleNames, word))
      modules = static_cast<std::uint16_t>(modules | *module);
    else
      job.unused.push_back({"offload_not_modelled",
                            fmt::format("{}: what `{}` offloads is counted on the GPU", given->second.where, word)});
  }
  return modules;
}

}  // namespace

Offload megatron_offload(const MegatronArgs& args, LaunchJob& job) {
  Offload offload;
  std::string_view stated;
  if (args.has("fine-grained-activation-offloading"))
    offload.modules = offloaded_modules(args, job), stated = "fine-grained-activation-offloading";
  if (const std::int64_t layers = args.integer("cpu-offloading-num-layers", 0); layers > 0 && layers < 100000)
    offload.layers = static_cast<int>(layers), stated = "cpu-offloading-num-layers";
  else if (args.has("cpu-offloading"))
    job.unused.push_back(
        {"not_used", fmt::format("{}: `--cpu-offloading`: of how many layers is not stated; activations "
                                 "in host memory are counted on the GPU",
                                 args.where("cpu-offloading"))});
  if (args.has("optimizer-cpu-offload")) {
    const std::string share = args.text("optimizer-offload-fraction");
    offload.optimizer = std::clamp(parse_number(share).value_or(1), 0.0, 1.0), stated = "optimizer-cpu-offload";
  }
  if (const std::string share = args.text("activation-offload-fraction");
      !share.empty() && offload.modules != 0 && parse_number(share).value_or(1) < 1)
    job.unused.push_back({"offload_not_modelled", fmt::format("{}: modules are counted as offloaded as a whole",
                                                              args.where("activation-offload-fraction"))});
  if (offload.any()) state(job, "offload", offload_text(offload), args.where(stated));
  return offload;
}

}  // namespace plan
