// `plan calibrate FILE... -o profile.yaml`: a cluster's constants from its own runs. Tested by
// tests/cli/calibration_test.cpp and tests/golden/calibrate*.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "cli/commands/commands.hpp"
#include "cli/commands/write_output.hpp"
#include "cli/report/runs/calibration.hpp"
#include "cli/request/resolve.hpp"
#include "cli/request/run_files.hpp"
#include "cli/request/words/gpu_words.hpp"
#include "cli/terminal/diagnostic.hpp"
#include "presets/reader.hpp"

namespace plan {
namespace {

/// The cluster named by a flag, else the one that the GPU of the runs usually comes in.
Result<Cluster> base_cluster(const Args& args, const std::vector<Run>& runs, const StoreOptions& store) {
  if (args.profile || args.cluster) {
    Result<Found<Cluster>> found = load_cluster(args.profile ? *args.profile : *args.cluster, store);
    if (!found) return fail(found.error());
    return std::move(found->value);
  }
  if (args.gpu) {
    Result<Found<Cluster>> found = load_cluster_of_gpu(*args.gpu, store);
    const std::optional<CountedGpus> counted = found ? std::nullopt : counted_gpus(*args.gpu, store);
    if (counted) return fail(refused_count("gpu", *args.gpu, *counted, true, false));
    if (!found) return fail(found.error());
    return std::move(found->value);
  }
  const Catalogue catalogue = preset_catalogue(store);
  std::optional<Cluster> first;
  std::set<std::string> gpus;
  for (const Run& run : runs) {
    const std::optional<Cluster> cluster =
        catalogue.cluster(run.gpu, static_cast<int>(std::clamp<std::int64_t>(run.gpus_per_node.value_or(8), 0, 1024)),
                          static_cast<int>(run.gpus.value_or(8)));
    if (!cluster) continue;
    gpus.insert(cluster->gpu.name);
    if (!first) first = cluster;
  }
  if (gpus.size() == 1) return *std::move(first);
  if (gpus.empty()) return fail(Error{"unknown_gpu", "no run names a GPU that is known", {}, {"`plan list gpus`"}});
  return fail(Error{"several_gpus",
                    fmt::format("the runs are on {} kinds of GPU, and a profile describes one: {}", gpus.size(),
                                fmt::join(gpus, ", ")),
                    {},
                    {fmt::format("choose one with `--gpu {}`", *gpus.begin())}});
}

std::string profile_text(Cluster cluster, const CalibrationResult& result) {
  cluster.calibration = result.calibration;
  cluster.learnt = result.learnt;
  if (!cluster.name.ends_with("-calibrated")) cluster.name += "-calibrated";
  return fmt::format("# fitted to {} runs by plan calibrate\n", result.runs) + write_cluster(cluster);
}

}  // namespace

int run_calibrate(const Args& args, Streams& streams) {
  if (args.words.empty())
    return report_errors({{"missing_word",
                           "`plan calibrate` needs a file of measured runs",
                           {},
                           {"write `plan calibrate runs.csv -o profile.yaml`; columns are listed in plan-runs(5)"}}},
                         streams);
  const StoreOptions store = StoreOptions::from_environment();
  Result<std::vector<Run>> runs = read_run_files(args.words);
  if (!runs) return report_errors(runs.error(), streams);
  const Result<Cluster> base = base_cluster(args, *runs, store);
  if (!base) return report_errors(base.error(), streams);

  // Runs on other GPUs say nothing about this cluster.
  const Catalogue all = preset_catalogue(store, *base);
  Catalogue own = all;
  own.cluster = [&](std::string_view gpu, int per_node, int gpus) {
    std::optional<Cluster> cluster = all.cluster(gpu, per_node, gpus);
    return cluster && cluster->gpu.name == base->gpu.name ? cluster : std::nullopt;
  };
  std::erase_if(*runs, [&](const Run& run) { return !own.cluster(run.gpu, 8, 8); });
  const Result<CalibrationResult> result = calibrate(*runs, own, {.rough = args.rough});
  if (!result) return report_errors(result.error(), streams);
  if (args.output)
    if (const Result<bool> written = write_outputs(args, {{*args.output, profile_text(*base, *result)}}); !written)
      return report_errors(written.error(), streams);
  streams.out = wants_json(args) ? calibration_json(*result, base->gpu.name)
                                 : calibration_text(*result, base->gpu.name, streams.out_terminal);
  if (args.output && !wants_json(args))
    streams.out += fmt::format("\nwrote {0}\nuse it: plan --model NAME --gpus N --profile {0}\n", *args.output);
  return kYes;
}

}  // namespace plan
