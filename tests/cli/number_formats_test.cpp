// Number formats that a GPU or a framework lacks are refused with those that they have.
#include <doctest/doctest.h>

#include <set>

#include "check_files.hpp"
#include "cli/request/flags/options.hpp"
#include "cli/request/resolve.hpp"
#include "cli/terminal/words.hpp"
#include "formulas/names.hpp"
#include "planner/rules/frameworks.hpp"
#include "planner/rules/words.hpp"
#include "presets/store.hpp"

using namespace plan;
using checks::Ran;

TEST_CASE("a format that a GPU lacks is refused with those that it has, on every GPU") {
  StoreOptions presets{.path = {}, .data_home = {}, .installed = {}, .files = false};
  for (const PresetEntry& entry : list_presets(PresetKind::Gpu, presets)) {
    const Gpu gpu = load_gpu(entry.name, presets).value().value;
    CAPTURE(gpu.name);
    CHECK_FALSE(gpu.vendor.empty());
    for (const Named<Precision>& row : kPrecisionNames) {
      CAPTURE(row.name);
      const Ran ran = checks::run({"estimate", "--model", "gpt2", "--gpus", "16", "--gpu", gpu.name, "--precision",
                                   std::string(row.name), "--layout", "tp1"});
      CHECK((ran.status == 2) == !multiplies(gpu, row.value));
      if (ran.status == 2) CHECK(ran.err.find(gpu.name) != std::string::npos);
    }
    for (const FrameworkRow& row : frameworks())
      if (!runs_on(row, gpu.vendor)) {
        const Ran ran =
            checks::run({"--model", "8b", "--gpus", "16", "--gpu", gpu.name, "--framework", std::string(row.name)});
        CHECK(ran.status == 2);
        CHECK(ran.err.find("does not run on") != std::string::npos);
      }
  }
}

TEST_CASE("a format that a framework lacks on a GPU is refused with those that both have, which are all that pass") {
  StoreOptions presets{.path = {}, .data_home = {}, .installed = {}, .files = false};
  int refused = 0;
  for (const PresetEntry& entry : list_presets(PresetKind::Gpu, presets))
    for (const FrameworkRow& row : frameworks()) {
      Problem problem = resolve_problem(parse_arguments({"--model", "gpt2", "--gpus", "8"}).value()).value();
      problem.cluster.gpu = load_gpu(entry.name, presets).value().value;
      problem.framework = row.framework;
      if (!named(row.framework) || !runs_on(row, problem.cluster.gpu.vendor)) continue;
      std::set<std::string> passing, told;
      for (const Named<Precision>& format : kPrecisionNames) {
        problem.training.precision = format.value;
        bool passes = true;
        for (const Error& error : unsupported_hardware(problem)) {
          if (error.code != "unsupported_precision") continue;
          passes = false;
          REQUIRE(error.help.size() == 1);
          const std::size_t at = error.help[0].find(" trains in "), end = error.help[0].rfind(" on ");
          if (at == std::string::npos) continue;  // the GPU has no matrix units for it
          const std::string list = error.help[0].substr(at + 11, end - at - 11);
          for (const std::string_view one : split(list, ", ")) told.insert(std::string(one));
        }
        if (passes) passing.insert(std::string(format.name));
      }
      CAPTURE(entry.name);
      CAPTURE(row.name);
      if (!told.empty()) CHECK(told == passing);
      refused += !told.empty();
    }
  CHECK(refused > 10);
}

TEST_CASE("a GPU without bf16 trains in fp16, and the inputs say that nobody asked for it") {
  const checks::Json json =
      checks::run_json({"estimate", "--model", "8b", "--gpus", "64", "--gpu", "v100", "--layout", "tp8,zero3"});
  CHECK(json["inputs"]["precision"]["value"] == "fp16");
  CHECK(json["inputs"]["precision"]["origin"] == "default");
}
