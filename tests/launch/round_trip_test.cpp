// What is written is read back as the same plan, with its time and memory, and written again as the same files: random
// legal plans of dense, MoE and latent-attention models, FSDP, prediction layers, fp8, uneven stages.
#include <doctest/doctest.h>

#include <cmath>

#include "cli/launch/job/job_builder.hpp"
#include "cli/launch/launch.hpp"
#include "cli/request/resolve.hpp"
#include "formulas/parameters.hpp"
#include "launch/random_plans.hpp"
#include "launch/temporary.hpp"
#include "planner/answer/layout_text.hpp"
#include "planner/planner.hpp"
#include "planner/problem/pipeline.hpp"
#include "planner/rules/complete_layout.hpp"
#include "planner/rules/frameworks.hpp"
#include "planner/rules/megatron_models.hpp"

namespace plan {
namespace {

struct Case {
  const char* model;
  int gpus;
  Precision precision;
  const char* cluster;
};
constexpr Case kCases[] = {
    {"llama3-405b", 16384, Precision::Bf16, "dgx-h100"},
    {"llama3-8b", 64, Precision::Fp8Tensorwise, "dgx-h100"},
    {"llama3-70b", 512, Precision::Fp8Delayed, "dgx-h100"},
    {"gpt3-175b", 1024, Precision::Bf16, "dgx-a100"},
    {"qwen3-32b", 256, Precision::Mxfp8, "dgx-b200"},
    {"deepseek-v3", 2048, Precision::Fp8Blockwise, "dgx-h100"},
    {"qwen3-235b-a22b", 512, Precision::Bf16, "dgx-h100"},
    {"mixtral-8x7b", 64, Precision::Bf16, "dgx-h100"},
    {"qwen3-next-80b-a3b", 128, Precision::Bf16, "dgx-h100"},
    {"nemotron-h-8b", 64, Precision::Bf16, "dgx-h100"},
    {"nemotron3-nano-30b-a3b", 128, Precision::Bf16, "dgx-h100"},
    {"nemotron3-super-120b-a12b", 256, Precision::Bf16, "dgx-h100"},
    {"qwen3.5-27b", 128, Precision::Bf16, "dgx-h100"},
    {"kimi-k2", 1024, Precision::Bf16, "dgx-b200"},
    {"qwen3-30b-a3b", 128, Precision::Mxfp8, "gb200-nvl72-cluster"},
};

/// The layout with what has only one meaning written one way.
Layout normal(const Problem& problem, Layout layout) {
  layout.group = pipeline_of(problem, layout).group;
  if (layout.pp == 1) layout.chunk_layers.clear();
  if (layout.cp == 1) layout.cp_kind = CpKind::Ring;
  if (layout.cp_kind != CpKind::Hybrid) layout.cp_ulysses = 1;
  if (layout.shard == layout.dense_group()) layout.shard = 0;
  return layout;
}

struct Tried {
  int written = 0;
  int refused = 0;
};

/// Writes a plan, reads it, writes what was read. True if the format can express it.
bool round_trip(const char* format, const Plan& plan, const EmitOptions& options, bool whole_model) {
  const Result<std::vector<LaunchFile>> files = write_launch(format, plan, options);
  if (!files) {
    for (const Error& error : files.error()) CHECK(error.code == "not_expressible");
    return false;
  }
  std::vector<std::unique_ptr<Temporary>> on_disk;
  Args args;
  for (const LaunchFile& file : *files) {
    on_disk.push_back(std::make_unique<Temporary>(file.name, file.text));
    args.from.push_back(on_disk.back()->path());
  }
  args.cluster = plan.problem.cluster.name;
  if (!whole_model) {
    args.model = plan.problem.model.name;
    args.gpus = std::to_string(plan.problem.gpus);
  }
  Result<Problem> problem = resolve_problem(args);
  if (!problem) FAIL_CHECK(problem.error().front().message << "\n" << files->back().text);
  if (!problem) return true;
  CHECK(problem->gpus == plan.problem.gpus);
  CHECK(problem->training.seq == plan.problem.training.seq);
  CHECK(problem->training.global_batch == plan.problem.training.global_batch);
  CHECK(problem->training.precision == plan.problem.training.precision);
  CHECK(problem->training.grad_bytes == plan.problem.training.grad_bytes);
  // Megatron-Bridge has the blocks of some models that Megatron's own flags cannot describe.
  const bool by_flags = whole_model && lacks(framework_row(Framework::Megatron), plan.problem).empty();
  Model expected = by_flags ? as_megatron_builds(plan.problem.model) : plan.problem.model;
  CHECK(same_layers(problem->model, expected));
  CHECK(model_parameters(problem->model).with_mtp == model_parameters(expected).with_mtp);
  CHECK(layout_flag(normal(*problem, complete_layout(*problem))) == layout_flag(normal(*problem, plan.best.layout)));
  const Result<Plan> again = plan_layout(*problem, complete_layout(*problem));
  REQUIRE(again);
  constexpr double kTime = 0.001, kMemory = 0.1 * 1024 * 1024 * 1024;
  CHECK(std::abs(again->best.step_time.value / plan.best.step_time.value - 1) < kTime);
  REQUIRE(again->best.stages.size() == plan.best.stages.size());
  for (std::size_t i = 0; i < plan.best.stages.size(); ++i)
    CHECK(std::abs(static_cast<double>(again->best.stages[i].total().value - plan.best.stages[i].total().value)) <
          kMemory);
  const Result<std::vector<LaunchFile>> twice = write_launch(format, *again, options);
  REQUIRE(twice);
  REQUIRE(twice->size() == files->size());
  // Of models with the same layers one name is as good as another: it is in comments, with facts of its own.
  if (problem->model.name == plan.problem.model.name)
    for (std::size_t i = 0; i < files->size(); ++i) CHECK((*twice)[i].text == (*files)[i].text);
  return true;
}

Tried try_format(const char* format, int wanted, bool whole_model) {
  std::mt19937 random(20261121);
  Tried tried;
  for (int draw = 0; tried.written < wanted && draw < wanted * 40; ++draw) {
    const Case& one = kCases[static_cast<std::size_t>(draw) % std::size(kCases)];
    Problem problem = problem_of(one.model, one.gpus, one.precision, Framework::Megatron, one.cluster);
    if (draw % 3 == 1) problem.training.grad_bytes = 2;
    const std::optional<Layout> layout = random_layout(problem, random);
    if (!layout) continue;
    const Result<Plan> plan = plan_layout(problem, *layout);
    REQUIRE(plan);
    CAPTURE(one.model);
    CAPTURE(layout_flag(plan->best.layout));
    ++(round_trip(format, *plan, {}, whole_model) ? tried.written : tried.refused);
  }
  return tried;
}

}  // namespace

TEST_CASE("Megatron-LM scripts come back as the plan that they were written from") {
  const Tried tried = try_format("megatron-lm", 200, true);
  CHECK(tried.written == 200);
  CHECK(tried.refused == 0);  // what the framework's rules allow, its writer can say
}

TEST_CASE("every published model that Megatron trains is written, and comes back with its own layers") {
  std::mt19937 random(20261126);
  int flags = 0, bridge = 0, checkpoint = 0, nobody = 0;
  for (const PresetEntry& entry : list_presets(PresetKind::Model, StoreOptions{})) {
    CAPTURE(entry.name);
    Problem problem = problem_of(entry.name.c_str(), 64, Precision::Bf16, Framework::Megatron, "dgx-h100");
    problem.training.global_batch = 128;
    // Megatron-Bridge learns as many positions as a sequence has tokens.
    if (problem.model.positions > 0) problem.training.seq = problem.model.positions;
    const bool built = lacks(framework_row(Framework::Megatron), problem).empty();
    std::optional<Layout> layout;
    problem.built = true;  // a layout that only the model may hinder
    for (int draw = 0; draw < 100 && !layout; ++draw) layout = random_layout(problem, random);
    REQUIRE(layout);
    const Result<Plan> plan = plan_layout(problem, *layout);
    REQUIRE(plan);
    problem.built = false;
    const int rule = broken_rule(problem, *layout);
    CHECK((rule < 0 ? "" : rules()[static_cast<std::size_t>(rule)].code) == (built ? "" : "megatron_model"));
    const bool by_flags = round_trip("megatron-lm", *plan, {}, true);
    const bool by_keys = round_trip("megatron-bridge", *plan, {}, true);
    // What takes the model from its checkpoint has few words for layouts.
    bool by_name = false;
    for (int draw = 0; draw < 100 && built && !by_flags && !by_keys && !by_name; ++draw)
      if (const std::optional<Layout> other = random_layout(problem, random))
        by_name = write_launch("nemo-rl", plan_layout(problem, *other).value(), {}).has_value();
    CHECK((by_flags || by_keys || by_name) == built);
    ++(by_flags ? flags : by_keys ? bridge : by_name ? checkpoint : nobody);
  }
  CHECK(flags > 200);
  CHECK(bridge >= 5);
  CHECK(checkpoint >= 4);
  CHECK(nobody >= 20);
}

TEST_CASE("so do the dialects' files, for every plan that the dialect has keys for") {
  for (const char* format : {"megatron-bridge", "verl", "nemo-rl", "ms-swift", "llama-factory"}) {
    CAPTURE(format);
    CHECK(try_format(format, 120, false).written == 120);
  }
}

}  // namespace plan
