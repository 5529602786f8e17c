// A plan of another framework is written for Megatron-LM where Megatron's own rules pass its layout, and refused by the
// first of them that does not.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include "cli/launch/megatron/megatron.hpp"
#include "planner/planner.hpp"
#include "random_plans.hpp"

namespace plan {

TEST_CASE("whichever framework a plan is of, Megatron-LM's rules judge its layout") {
  std::mt19937 random(5);
  int passed = 0, refused = 0;
  for (const Framework framework : {Framework::Torchtitan, Framework::DeepSpeed, Framework::Megatron})
    for (int round = 0; round < 60; ++round) {
      Problem problem = problem_of("8b", 16, Precision::Bf16, framework, "dgx-h100");
      const std::optional<Layout> layout = random_layout(problem, random);
      if (!layout) continue;
      const Result<Plan> plan = plan_layout(problem, *layout);
      if (!plan) continue;
      Problem theirs = plan->problem;
      theirs.framework = Framework::Megatron;
      const int rule = broken_rule(theirs, plan->best.layout);
      std::string said;
      for (const Error& error : megatron_cannot(*plan))
        if (error.message.find("(rule ") != std::string::npos) said = error.message;
      CAPTURE(said);
      CHECK(said.empty() == (rule < 0));
      if (rule >= 0)
        CHECK(said.find(fmt::format("(rule {})", rules()[static_cast<std::size_t>(rule)].code)) != std::string::npos);
      (rule < 0 ? passed : refused)++;
    }
  CHECK(passed >= 60);
  CHECK(refused >= 5);
}

}  // namespace plan
