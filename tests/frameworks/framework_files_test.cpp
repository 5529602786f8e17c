// The files of every framework that its own file is named after: what is written is what is read.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <random>

#include "cli/launch/formats.hpp"
#include "cli/launch/scripts/launcher_commands.hpp"
#include "formulas/names.hpp"
#include "planner/problem/axes.hpp"
#include "planner/problem/spelled_out.hpp"
#include "planner/rules/complete_layout.hpp"
#include "planner/rules/frameworks.hpp"
#include "presets/store.hpp"
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
  const std::int64_t steps = micro_batches(plan.problem.training.global_batch, l.dp, l.micro_batch);
  Problem problem = plan.problem;
  problem.fixed = job.fixed;
  const Layout written = spelled_out(l, steps), read = spelled_out(complete_layout(problem), steps);
  each_axis([&](const auto& axis) {
    CAPTURE(axis.key);
    if (axis.key != "layers" || job.fixed.chunk_layers) CHECK(read.*axis.value == written.*axis.value);
  });
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

/// Whether rules of the framework allow some layout of 8 GPUs that was changed so.
template <class Change>
bool accepts_any(FrameworkMask framework, const Change& change) {
  Problem problem;
  problem.model = load_model("llama3-8b", StoreOptions::from_environment())->value;
  problem.cluster = load_cluster("dgx-h100", StoreOptions::from_environment())->value;
  problem.gpus = 8, problem.training.seq = 4096, problem.training.global_batch = 64;
  for (const ScheduleRow& row : kScheduleRows)
    for (int zero = 0; zero <= 3; ++zero)
      for (const RecomputeKind kind : {RecomputeKind::None, RecomputeKind::Full}) {
        Layout layout{.zero = zero, .schedule = row.schedule, .recompute = {.kind = kind}};
        change(layout);
        if (layout.pp > 1 && row.chunks != Chunks::One) layout.vp = 2;
        if (layout.pp == 1) layout.schedule = Schedule::OneFOneB;
        if (accepting(problem, layout, framework) != 0) return true;
      }
  return false;
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
  // Of what its rules leave to choose, there is some of everything.
  const FrameworkMask own = framework_bit(format.framework);
  if (accepts_any(own, [](Layout& layout) { layout.pp = 2, layout.dp = 4; })) CHECK(staged >= plans / 10);
  if (accepts_any(own, [](Layout& layout) { layout.dp = 8, layout.shard = 2; })) CHECK(sharded >= plans / 40);
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
