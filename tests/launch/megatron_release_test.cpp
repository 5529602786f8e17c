// Files for each release of Megatron core: only flags and values that it has, under the names that it has for them.
#include <doctest/doctest.h>

#include <set>
#include <sstream>

#include "cli/launch/launch.hpp"
#include "cli/launch/megatron/flags.hpp"
#include "cli/launch/megatron/megatron.hpp"
#include "cli/request/resolve.hpp"
#include "launch/random_plans.hpp"
#include "launch/temporary.hpp"
#include "planner/answer/layout_text.hpp"
#include "planner/planner.hpp"
#include "planner/rules/complete_layout.hpp"

namespace plan {
namespace {

Result<std::vector<LaunchFile>> write_for(Plan plan, const std::string& release) {
  plan.problem.release = *read_megatron_release(release);
  return write_launch("megatron-lm", plan, {});
}

Plan plan_of(const char* model, int gpus, const std::string& layout, const char* gpu = "h100-sxm") {
  Args args;
  args.model = model, args.gpus = std::to_string(gpus), args.gpu = gpu, args.layout = layout,
  args.framework = "megatron";
  const Result<Problem> problem = resolve_problem(args);
  REQUIRE(problem);
  const Result<Plan> plan = plan_layout(*problem, complete_layout(*problem));
  REQUIRE(plan);
  return *plan;
}

bool has(const LaunchFile& file, const std::string& text) { return file.text.find(text) != std::string::npos; }

/// Flags that a file passes to Megatron-LM.
std::set<std::string> flags_in(const LaunchFile& file) {
  std::set<std::string> flags;
  std::istringstream lines(file.text);
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.find("_ARGS=(") != std::string::npos) inside = true;
    std::istringstream words(inside ? line : "");
    for (std::string word; words >> word;)
      if (word.starts_with("--")) flags.insert(word.substr(2));
    if (line == ")") inside = false;
  }
  return flags;
}

}  // namespace

TEST_CASE("releases of flags are those of the parsers") {
  struct Row {
    const char* flag;
    int since, until;
  };
  for (const Row& row :
       {Row{"pipeline-model-parallel-layout", 13, 20}, Row{"use-megatron-fsdp", 14, 20},
        Row{"overlap-moe-expert-parallel-comm", 14, 20}, Row{"padded-vocab-size", 14, 20}, Row{"fp4-format", 15, 20},
        Row{"cuda-graph-impl", 15, 20}, Row{"fine-grained-activation-offloading", 16, 20},
        Row{"moe-flex-dispatcher-backend", 16, 20}, Row{"fake-process-group", 16, 20},
        Row{"hybrid-layer-pattern", 17, 20}, Row{"step-batch-size-schedule", 18, 20}, Row{"use-custom-fsdp", 12, 13},
        Row{"tensor-model-parallel-size", 12, 20}}) {
    CAPTURE(row.flag);
    const MegatronFlag* flag = find_megatron_flag(row.flag);
    REQUIRE(flag != nullptr);
    CHECK(flag->since == row.since);
    CHECK(flag->until == row.until);
  }
}

TEST_CASE("a release is named in several ways, and one that is not known is refused") {
  CHECK(read_megatron_release("0.16") == 16);
  CHECK(read_megatron_release("0.16.1") == 16);
  CHECK(read_megatron_release("core_v0.13.0") == 13);
  CHECK(read_megatron_release("core_r0.14.0") == 14);
  CHECK_FALSE(read_megatron_release("r0.14.0").has_value());
  CHECK(read_megatron_release("v0.12") == 12);
  CHECK(read_megatron_release("") == kNewestMegatron);
  for (const char* wrong : {"0.11", "0.99", "1.0", "latest", "0.", "16", "0.16x", "0.1 6"}) {
    CAPTURE(wrong);
    const Result<int> read = read_megatron_release(wrong);
    REQUIRE(!read);
    CHECK(read.error().front().code == "unknown_release");
  }
}

TEST_CASE("stages that only a layout string can say need 0.13") {
  const Plan plan = plan_of("llama3-70b", 512, "tp8,cp1,pp16,vp3,mb1,zero1,recompute=none");
  const Result<std::vector<LaunchFile>> written = write_for(plan, "");
  REQUIRE(written);
  REQUIRE(has(written->front(), "--pipeline-model-parallel-layout"));
  CHECK(has(written->front(), "needs Megatron core 0.13 or newer."));
  CHECK(write_for(plan, "0.13.1")->front().text == written->front().text);
  const Result<std::vector<LaunchFile>> old = write_for(plan, "0.12");
  REQUIRE(!old);
  CHECK(old.error().front().code == "not_expressible");
  CHECK(old.error().front().message.find("before core 0.13") != std::string::npos);
  CHECK(old.error().front().help.front() == "plan with `--framework megatron --megatron-version 0.12`");
}

TEST_CASE("FSDP and DeepEP have other names in earlier releases") {
  const Plan sharded = plan_of("llama3-8b", 64, "tp1,cp1,pp1,mb1,zero3");
  const LaunchFile now = write_for(sharded, "")->front(), before = write_for(sharded, "0.13")->front();
  CHECK(has(now, "--use-megatron-fsdp"));
  CHECK(has(now, "--ckpt-format fsdp_dtensor"));
  CHECK(has(now, "needs Megatron core 0.14 or newer."));
  CHECK(has(before, "--use-custom-fsdp"));
  CHECK(has(before, "--ckpt-format torch_dist"));
  CHECK(!has(before, "megatron-fsdp"));
  CHECK(has(before, "needs Megatron core 0.12 to 0.13."));
  Plan experts = plan_of("mixtral-8x7b", 64, "tp1,cp1,pp1,ep8,mb1,zero1");
  experts.problem.training.stack.dedup_dispatch = true;
  CHECK(has(write_for(experts, "0.16")->front(), "--moe-flex-dispatcher-backend deepep"));
  const LaunchFile old = write_for(experts, "0.15")->front();
  CHECK(has(old, "--moe-enable-deepep"));
  CHECK(!has(old, "flex-dispatcher-backend"));
  CHECK(has(old, "needs Megatron core 0.12 or newer."));
}

TEST_CASE("fp8 by blocks and fp4 need the release that brought them") {
  Plan plan = plan_of("llama3-8b", 64, "tp1,cp1,pp1,mb1,zero1");
  plan.problem.training.precision = Precision::Fp8Blockwise;
  CHECK(!write_for(plan, "0.12"));
  CHECK(has(write_for(plan, "0.13")->front(), "needs Megatron core 0.13 or newer."));
  plan.problem.training.precision = Precision::Nvfp4;
  CHECK(!write_for(plan, "0.14"));
  CHECK(has(write_for(plan, "0.15")->front(), "needs Megatron core 0.15 or newer."));
}

TEST_CASE("what is written for a release holds no flag that it lacks, and comes back") {
  std::mt19937 random(20261122);
  int written = 0;
  for (int draw = 0; draw < 400; ++draw) {
    const bool moe = draw % 2 == 1;
    Problem problem = problem_of(moe ? "deepseek-v3" : "llama3-70b", 512, Precision::Bf16, Framework::Megatron,
                                 draw % 3 == 0 ? "dgx-b200" : "dgx-h100");
    problem.release = kOldestMegatron + draw % (kNewestMegatron - kOldestMegatron + 1);
    const std::optional<Layout> layout = random_layout(problem, random);
    if (!layout) continue;
    const Result<Plan> plan = plan_layout(problem, *layout);
    REQUIRE(plan);
    const int release = problem.release;
    CAPTURE(release);
    CAPTURE(layout_flag(*layout));
    const Result<std::vector<LaunchFile>> files = write_for(*plan, "0." + std::to_string(release));
    REQUIRE(files);  // the rules of the release leave nothing to refuse
    ++written;
    const std::set<std::string> flags = flags_in(files->front());
    CHECK(flags.size() > 40);
    for (const std::string& name : flags) {
      const MegatronFlag* flag = find_megatron_flag(name);
      REQUIRE_MESSAGE(flag != nullptr, name);
      CHECK_MESSAGE(flag->since <= release, name);
      CHECK_MESSAGE(flag->until >= release, name);
    }
    const Temporary file(files->front().name, files->front().text);
    const Result<LaunchJob> read = read_launch_files({file.path()});
    REQUIRE(read);
    CHECK(read->fixed.zero == layout->zero);
    CHECK(read->fixed.pp == layout->pp);
  }
  CHECK(written > 150);
}

TEST_CASE("a release is a minor number, a patch and a candidate at most") {
  for (const char* word : {"0.12", "0.12.0", "0.12.1", "v0.12.0", "core_v0.12.0", "0.12.0rc3"})
    CHECK_MESSAGE(read_megatron_release(word).has_value(), word);
  for (const char* word : {"0.12.0.0.0", "0.12.", "0.12.x", "0.12.0-", "0.12.0rc", "0.12..0", "1.12", "0.99", "0"})
    CHECK_MESSAGE(!read_megatron_release(word).has_value(), word);
}

}  // namespace plan
