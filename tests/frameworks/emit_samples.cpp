// Writes launch files of plans drawn by chance, each with the plan beside it, for the frameworks' own parsers:
//     emit_samples FORMAT COUNT SEED FOLDER [LAUNCHER [MEGATRON-RELEASE]]
// makes FOLDER/0000/, FOLDER/0001/, ... with the files and expect.json. Run by tests/validators/run.sh.
#include <fmt/core.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>

#include "cli/launch/formats.hpp"
#include "cli/launch/megatron/megatron.hpp"
#include "cli/terminal/offload_flag.hpp"
#include "cli/terminal/output.hpp"
#include "formulas/names.hpp"
#include "random_plan.hpp"

namespace {

std::string expectation(const plan::Plan& plan, std::string_view format) {
  const plan::Layout& l = plan.best.layout;
  const plan::Training& training = plan.problem.training;
  nlohmann::ordered_json out;
  out["format"] = format;
  out["model"] = plan.problem.model.name;
  out["gpus"] = plan.problem.gpus;
  out["depth"] = plan.problem.model.depth();
  out["tp"] = l.tp, out["cp"] = l.cp, out["pp"] = l.pp, out["vp"] = l.vp, out["dp"] = l.dp;
  out["ep"] = l.ep, out["etp"] = l.etp, out["zero"] = l.zero, out["shard"] = l.shard;
  out["cp_kind"] = name(l.cp_kind);
  out["schedule"] = name(l.schedule);
  out["sp"] = l.sequence_parallel;
  out["micro_batch"] = l.micro_batch;
  out["micro_batches"] = plan::micro_batches(training.global_batch, l.dp, l.micro_batch);
  out["recompute"] = l.recompute.kind == plan::RecomputeKind::Full   ? "full"
                     : l.recompute.kind == plan::RecomputeKind::None ? "none"
                                                                     : "selective";
  out["chunk_layers"] = l.chunk_layers;
  out["seq"] = training.seq;
  out["global_batch"] = training.global_batch;
  out["precision"] = name(training.precision);
  out["offload"] = plan::offload_text(training.offload);
  return out.dump(1) + "\n";
}

bool write_sample(const std::string& folder, const plan::Plan& plan, const plan::LaunchFormat& format,
                  const plan::EmitOptions& options) {
  const auto files = format.write(plan, options);
  if (!files) return false;
  std::filesystem::create_directories(folder);
  for (const plan::LaunchFile& file : *files)
    if (!plan::write_whole(folder + "/" + file.name, file.text)) return false;
  return plan::write_whole(folder + "/expect.json", expectation(plan, format.name)).has_value();
}

}  // namespace

int main(int count, char** words) {
  if (count < 5 || count > 7) {
    std::fputs("usage: emit_samples FORMAT COUNT SEED FOLDER [LAUNCHER [MEGATRON-RELEASE]]\n", stderr);
    return 2;
  }
  plan::EmitOptions options;
  if (count > 5) options.launcher = words[5];
  const plan::Result<int> release = plan::read_megatron_release(count > 6 ? words[6] : "");
  if (!release) return 2;
  for (const plan::LaunchFormat& format : plan::launch_formats()) {
    if (format.name != words[1]) continue;
    std::mt19937 random(static_cast<unsigned>(std::atoi(words[3])));
    for (int written = 0, tries = 0; written < std::atoi(words[2]) && tries < 100000; ++tries)
      written += write_sample(fmt::format("{}/{:04}", words[4], written),
                              plan::oracle::random_plan(random, format.framework, *release), format, options);
    return 0;
  }
  std::fprintf(stderr, "no format %s\n", words[1]);
  return 2;
}
