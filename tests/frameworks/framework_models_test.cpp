// Which models a framework builds: by its own list, and by what published models have.
#include <doctest/doctest.h>

#include <set>
#include <string>

#include "planner/planner.hpp"
#include "planner/rules/frameworks.hpp"
#include "planner/rules/megatron_models.hpp"
#include "planner/rules/words.hpp"
#include "presets/store.hpp"

using namespace plan;

namespace {

Problem problem_of(const std::string& model, Framework framework) {
  Problem problem;
  problem.model = load_model(model, StoreOptions{})->value;
  problem.cluster = load_cluster("dgx-h100", StoreOptions{})->value;
  problem.framework = framework;
  problem.training.stack = framework_row(framework).stack;
  problem.training.seq = 2048, problem.training.global_batch = 64;
  problem.gpus = 64;
  return problem;
}

bool builds(const std::string& model, Framework framework) {
  return lacks(framework_row(framework), problem_of(model, framework)).empty();
}

}  // namespace

TEST_CASE("published models are trained by whose documents say so") {
  for (const char* model :
       {"llama3-8b", "gpt3-175b", "mixtral-8x7b", "deepseek-v3", "deepseek-v3.2", "glm-5", "glm-5.2", "gemma2-9b",
        "gemma3-27b", "olmoe-7b-a1b", "minimax-m2", "qwen3-next-80b-a3b", "nemotron-h-8b", "gpt-oss-120b"}) {
    CAPTURE(model);
    CHECK(builds(model, Framework::Megatron));
  }
  for (const char* model : {"falcon-7b", "phi-2", "gpt-j-6b", "palm-540b", "command-r-35b", "bloom-7b1", "olmo2-7b",
                            "glm-4-9b-0414", "grok-1", "granite4-h-micro", "switch-c"}) {
    CAPTURE(model);
    CHECK_FALSE(builds(model, Framework::Megatron));
    CHECK(builds(model, Framework::DeepSpeed));
  }
  for (const char* model : {"llama3-70b", "deepseek-v3", "qwen3-32b", "qwen3-235b-a22b", "gpt-oss-20b", "llama4-scout"})
    CHECK(builds(model, Framework::Torchtitan));
  for (const char* model :
       {"gemma3-27b", "gpt3-175b", "qwen3-next-80b-a3b", "nemotron-h-8b", "olmo2-7b", "deepseek-v3.2"})
    CHECK_FALSE(builds(model, Framework::Torchtitan));
  for (const char* model : {"llama3-70b", "gemma2-9b", "gemma3-4b", "gpt3-175b", "qwen3-next-80b-a3b", "olmo3-7b"})
    CHECK(builds(model, Framework::Maxtext));
  for (const char* model : {"falcon-7b", "bloom-7b1", "nemotron-h-8b", "olmo2-7b"})
    CHECK_FALSE(builds(model, Framework::Maxtext));
}

TEST_CASE("a framework that cannot build the model runs no layout of it, and saying so names who can") {
  for (const PresetEntry& entry : list_presets(PresetKind::Model, StoreOptions{}))
    for (const FrameworkRow& row : frameworks()) {
      if (!named(row.framework)) continue;
      CAPTURE(entry.name);
      CAPTURE(row.name);
      Problem problem = problem_of(entry.name, row.framework);
      const bool lacking = !lacks(row, problem).empty();
      const Errors errors = unsupported_hardware(problem);
      CHECK(errors.empty() != lacking);
      Layout layout{.dp = 64};
      const int rule = broken_rule(problem, layout, Level::Grid);
      const std::string_view code = rule < 0 ? "" : rules()[static_cast<std::size_t>(rule)].code;
      if (lacking) CHECK(code == std::string(row.name) + "_model");
      if (!lacking) CHECK_FALSE(code.ends_with("_model"));
      problem.built = true;
      CHECK(lacks(row, problem).empty());
      problem.built = false, problem.framework = Framework::Any;
      const FrameworkMask accepted = accepting(problem, layout, Level::Grid, framework_bit(row.framework));
      if (lacking) CHECK(accepted == 0);
      if (!lacking) continue;
      REQUIRE(errors.size() == 1);
      CHECK(errors.front().code == "unsupported_model");
      for (const FrameworkRow& other : frameworks())
        if (named(other.framework) && errors.front().help.front().find(std::string(other.name)) != std::string::npos)
          CHECK(lacks(other, problem).empty());
    }
}

TEST_CASE("the default answer is of a framework that builds the model") {
  for (const char* model : {"falcon-7b", "olmo2-7b", "bloom-7b1", "gemma2-2b"}) {
    CAPTURE(model);
    Problem problem = problem_of(model, Framework::Any);
    problem.gpus = 8;
    const Result<Plan> plan = search(problem);
    REQUIRE(plan);
    CHECK_FALSE(plan->runs_on.empty());
    for (const RunsOn& run : plan->runs_on) CHECK(lacks(framework_row(run.framework), plan->problem).empty());
  }
}

TEST_CASE("which layers share what an indexer chose is read off the layers") {
  Model model;
  Layer full{.mixer = Mixer::Latent};
  full.latent = {.heads = 8, .index_heads = 4, .index_dim = 16, .index_top_k = 64};
  Layer shared = full;
  shared.latent.index_heads = shared.latent.index_dim = 0;
  model.kinds = {full, shared};
  const auto of = [&](std::vector<int> layers) {
    model.layers = std::move(layers);
    const SharedIndex index = shared_index(model);
    return std::pair(index.period, index.offset);
  };
  CHECK(of({0, 0, 0}) == std::pair(1, 0));
  CHECK(of({0, 0, 1, 1, 0, 1, 1}) == std::pair(3, 2));
  CHECK(of({0, 1, 0, 1, 0}) == std::pair(2, 1));
  CHECK(of({0, 0, 1, 1, 0, 1, 0}) == std::pair(0, 0));
  CHECK(of({1, 0, 1, 0}) == std::pair(0, 0));
}
