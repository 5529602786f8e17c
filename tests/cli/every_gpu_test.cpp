// Every GPU with every kind of layer: an answer, or a refusal that is no fault of the program's own.
#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "check_files.hpp"
#include "presets/store.hpp"

using namespace plan;
using namespace plan::checks;

TEST_CASE("every GPU runs every kind of layer in finite time, whatever formats it multiplies in") {
  int answered = 0;
  for (const PresetEntry& gpu : list_presets(PresetKind::Gpu, {}))
    for (const char* model : {"llama3-8b", "deepseek-v2-lite", "nemotron-h-8b", "qwen3-next-80b-a3b"}) {
      CAPTURE(gpu.name);
      CAPTURE(std::string(model));
      const Ran ran = run({"estimate", "--model", model, "--gpu", gpu.name, "--gpus", "16", "--framework", "none",
                           "--layout", "tp4,pp2,mb1,zero1", "--json"});
      CAPTURE(ran.err);
      CHECK(ran.err.find("internal") == std::string::npos);
      if (ran.status > 1) continue;
      const double step = Json::parse(ran.out)["best"]["step_time_s"];
      CHECK(std::isfinite(step));
      CHECK(step > 0);
      ++answered;
    }
  CHECK(answered > 80);
}
