// The files of every framework that its own file is named after: what is written is what is read.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <random>

#include "cli/launch/format.hpp"
#include "formulas/names.hpp"
#include "planner/rules/frameworks.hpp"
#include "random_plan.hpp"

using namespace plan;

namespace {

const LaunchFormat& format_of(std::string_view name) {
  for (const LaunchFormat& format : launch_formats())
    if (format.name == name) return format;
  FAIL("no such format");
  return launch_formats().front();
}

/// All files as sources, and those that the format recognises.
struct Sources {
  std::vector<LaunchSource> all{};
  std::vector<LaunchSource> own{};
};

Sources sources_of(const LaunchFormat& format, const std::vector<LaunchFile>& files) {
  Sources sources;
  for (const LaunchFile& file : files) {
    sources.all.push_back({file.name, file.text});
    if (!file.executable && format.recognise(sources.all.back())) sources.own.push_back(sources.all.back());
  }
  return sources;
}

void check_same(const LaunchJob& job, const Plan& plan, std::string_view format) {
  const Layout& l = plan.best.layout;
  CHECK(job.framework == plan.problem.framework);
  CHECK(job.gpus == plan.problem.gpus);
  CHECK(job.fixed.tp == l.tp);
  CHECK(job.fixed.cp == l.cp);
  CHECK(job.fixed.pp == l.pp);
  CHECK(job.fixed.vp == l.vp);
  CHECK(job.fixed.dp == l.dp);
  CHECK(job.fixed.ep == l.ep);
  CHECK(job.fixed.etp == l.etp);
  CHECK(job.fixed.zero == l.zero);
  CHECK(job.fixed.shard == l.shard);
  CHECK(job.fixed.micro_batch == l.micro_batch);
  CHECK(job.fixed.sequence_parallel == l.sequence_parallel);
  CHECK(job.fixed.recompute == l.recompute);
  if (l.cp > 1) CHECK(job.fixed.cp_kind == l.cp_kind);
  if (l.pp > 1) CHECK(job.fixed.schedule == l.schedule);
  if (l.pp > 1 && format != "maxtext") CHECK(job.fixed.chunk_layers == l.chunk_layers);
  REQUIRE(job.training);
  CHECK(job.training->seq == plan.problem.training.seq);
  CHECK(job.training->global_batch == plan.problem.training.global_batch);
  CHECK(job.training->precision == plan.problem.training.precision);
  CHECK(job.training->offload == plan.problem.training.offload);
  REQUIRE(job.model);
  CHECK(job.model->layers.size() == plan.problem.model.layers.size());
  CHECK(job.model->hidden == plan.problem.model.hidden);
}

/// What the format has no word for, although the framework's rules allow it.
bool beyond_main(const Plan& plan) {
  const Layout& l = plan.best.layout;
  const bool too_long = plan.problem.model.name.rfind("deepseek", 0) == 0 && plan.problem.training.seq > 16384;
  return (l.cp > 1 && l.cp_kind != CpKind::AllGather) || (l.ep > 1 && l.etp > 1) || too_long;
}

void round_trip(std::string_view name, int plans) {
  const LaunchFormat& format = format_of(name);
  std::mt19937 random(4711);
  int written = 0, sharded = 0, staged = 0;
  while (written < plans) {
    const Plan plan = oracle::random_plan(random, format.framework);
    if (name == "torchtitan-main" && beyond_main(plan)) {
      CHECK(!format.write(plan, {}));
      continue;
    }
    CAPTURE(name);
    CAPTURE(written);
    const Result<std::vector<LaunchFile>> files = format.write(plan, {});
    if (!files) {
      // The rules know little of offload: the only thing left for a writer to refuse.
      CAPTURE(files.error().front().message);
      REQUIRE(plan.problem.training.offload.any());
      continue;
    }
    const Sources sources = sources_of(format, *files);
    REQUIRE(!sources.own.empty());
    CAPTURE(sources.own.front().text);
    const Result<LaunchJob> job = format.read(sources.own, launcher_facts(sources.all));
    if (!job) FAIL(job.error().front().message);
    check_same(*job, plan, name);
    for (const Note& note : job->notes) CHECK(note.text == "");  // nothing of our own is unknown
    ++written;
    sharded += plan.best.layout.shard > 0;
    staged += plan.best.layout.pp > 1;
  }
  if (name.substr(0, 10) == "torchtitan" || name == "maxtext") CHECK(staged >= plans / 10);
  if (name != "deepspeed") CHECK(sharded >= plans / 40);
}

}  // namespace

TEST_CASE("a framework's own file reads back as written") {
  int tried = 0;
  for (const LaunchFormat& format : launch_formats())
    if (format.write != nullptr && find_framework(format.name)) ++tried, round_trip(format.name, 250);
  CHECK(tried >= 4);
}
TEST_CASE("torchtitan's recipe reads back as written") { round_trip("torchtitan-main", 250); }

TEST_CASE("a framework's writer names the axis that is in the way") {
  std::mt19937 random(1);
  Plan plan = oracle::random_plan(random, Framework::Accelerate);
  plan.problem.gpus = 2, plan.problem.training.precision = Precision::Bf16;
  plan.best.layout = Layout{.pp = 2, .dp = 1, .zero = 3};
  const auto message = [&](std::string_view name) {
    const Result<std::vector<LaunchFile>> files = format_of(name).write(plan, {});
    REQUIRE(!files);
    return files.error().front().message;
  };
  CHECK(message("deepspeed").find("pp 1") != std::string::npos);
  CHECK(message("accelerate").find("pp 1") != std::string::npos);
}
