// Files that name a checkpoint and do not describe its layers: they start what was planned, and no other model than the
// one that was meant.
#include <doctest/doctest.h>

#include <memory>

#include "cli/launch/formats.hpp"
#include "cli/launch/job/job_builder.hpp"
#include "cli/launch/launch.hpp"
#include "cli/request/resolve.hpp"
#include "launch/random_plans.hpp"
#include "launch/temporary.hpp"
#include "planner/planner.hpp"
#include "planner/rules/complete_layout.hpp"
#include "planner/rules/frameworks.hpp"
#include "presets/store.hpp"

namespace plan {
namespace {

/// The job that the files of a plan start, by themselves.
Problem started(const std::vector<LaunchFile>& files, const Plan& plan) {
  std::vector<std::unique_ptr<Temporary>> on_disk;
  Args args;
  for (const LaunchFile& file : files) {
    on_disk.push_back(std::make_unique<Temporary>(file.name, file.text));
    args.from.push_back(on_disk.back()->path());
  }
  args.gpus = std::to_string(plan.problem.gpus);
  args.cluster = plan.problem.cluster.name;
  const Result<Problem> problem = resolve_problem(args);
  INFO(files.back().text);
  REQUIRE(problem);
  return *problem;
}

struct Written {
  Plan plan;
  std::vector<LaunchFile> files{};
};

/// The first of twenty random layouts that the format can say; counts those before it.
std::optional<Written> first_written(const LaunchFormat& format, const Problem& problem, std::mt19937& random,
                                     int& refused) {
  for (int draw = 0; draw < 20; ++draw) {
    const std::optional<Layout> layout = random_layout(problem, random);
    if (!layout) continue;
    Plan plan = plan_layout(problem, *layout).value();
    if (Result<std::vector<LaunchFile>> files = write_launch(format.name, plan, {}))
      return Written{std::move(plan), std::move(*files)};
    ++refused;
  }
  return std::nullopt;
}

}  // namespace

TEST_CASE("an edited model is never written as the published one of its name") {
  std::mt19937 random(20261127);
  int described = 0, refused = 0;
  for (const LaunchFormat& format : launch_formats()) {
    if (format.write == nullptr || format.recognise == nullptr) continue;
    CAPTURE(format.name);
    for (const char* name : {"llama3-8b", "qwen3-30b-a3b", "gemma2-9b", "deepseek-v2-lite"}) {
      CAPTURE(name);
      Problem problem = problem_of(name, 16, Precision::Bf16, format.framework, "dgx-h100");
      problem.training.global_batch = 64;
      problem.model.layers.resize(problem.model.layers.size() - 2);
      if (!lacks(framework_row(format.framework), problem).empty()) continue;
      const std::optional<Written> written = first_written(format, problem, random, refused);
      if (!written) continue;
      ++described;
      CHECK(started(written->files, written->plan).model.depth() == problem.model.depth());
    }
  }
  CHECK(described >= 8);
  CHECK(refused >= 20);
}

TEST_CASE("files that name a checkpoint start what was planned, in its time and memory") {
  std::mt19937 random(20261127);
  for (const LaunchFormat& format : launch_formats()) {
    if (format.write == nullptr || format.recognise == nullptr || !format.checkpoint) continue;
    CAPTURE(format.name);
    int written = 0, refused = 0;
    for (const PresetEntry& entry : list_presets(PresetKind::Model, StoreOptions{})) {
      if (random() % 8 != 0 && entry.name != "opt-1.3b") continue;
      CAPTURE(entry.name);
      Problem problem = problem_of(entry.name.c_str(), 16, Precision::Bf16, format.framework, "dgx-h100");
      problem.training.global_batch = 64;
      if (!lacks(framework_row(format.framework), problem).empty()) continue;
      const std::optional<Written> one = first_written(format, problem, random, refused);
      if (!one) continue;
      ++written;
      const Plan& plan = one->plan;
      const Problem read = started(one->files, plan);
      CHECK(read.training.dropout == plan.problem.training.dropout);
      const Plan again = plan_layout(read, complete_layout(read)).value();
      INFO(one->files.back().text);
      CHECK(again.best.step_time.value == doctest::Approx(plan.best.step_time.value).epsilon(1e-4));
      CHECK(static_cast<double>(again.best.peak.value) ==
            doctest::Approx(static_cast<double>(plan.best.peak.value)).epsilon(1e-4));
    }
    CHECK(written >= 5);
  }
}

TEST_CASE("a model that was read from its config.json is named by the folder") {
  Problem problem = problem_of("llama3-8b", 8, Precision::Bf16, Framework::DeepSpeed, "dgx-h100");
  problem.training.global_batch = 64;
  problem.model.name = "mine", problem.model.layers.resize(8);
  Layout layout;
  layout.dp = 8, layout.zero = 2;
  Plan plan = plan_layout(problem, layout).value();
  CHECK(write_launch("deepspeed", plan, {}).error().front().message.find("none is known of mine") != std::string::npos);
  for (const auto& [where, folder] : {std::pair{"config.json", "."}, {"some/model/config.json", "some/model"}}) {
    plan.problem.inputs = {Input{"model", {}, Origin::Flag, where}};
    CHECK(hub_name(plan) == folder);
    CHECK(write_launch("deepspeed", plan, {}));
  }
  plan.problem.inputs = {Input{"model", {}, Origin::Flag, "some/mine.yaml"}};
  CHECK_FALSE(write_launch("deepspeed", plan, {}));
}

}  // namespace plan
