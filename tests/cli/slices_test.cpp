// TPUs from the command line: which slice a job gets, what is refused, and MaxText's mesh over slices and back.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>

#include "cli/launch/formats.hpp"
#include "cli/launch/launch.hpp"
#include "cli/launch/maxtext/maxtext.hpp"
#include "cli/request/flags/options.hpp"
#include "cli/request/resolve.hpp"
#include "planner/planner.hpp"
#include "planner/rules/complete_layout.hpp"

using namespace plan;

namespace {

Result<Problem> resolve(std::vector<std::string> words) {
  words.insert(words.begin(), {"--model", "8b"});
  return resolve_problem(parse_arguments(words).value());
}

std::string shape(const Problem& problem) { return slice_text(problem.cluster.tiers.front().torus.shape()); }

std::string help_of(const Result<Problem>& problem) {
  REQUIRE_FALSE(problem);
  REQUIRE_FALSE(problem.error().front().help.empty());
  return problem.error().front().help.front();
}

}  // namespace

TEST_CASE("a job gets the slice of as many chips, or equal ones, and the answer says so") {
  const Problem one = resolve({"--gpu", "tpu-v5p", "--gpus", "128"}).value();
  CHECK(shape(one) == "4x4x8");
  CHECK(one.cluster.scale_up_size() == 128);
  const auto slice = [](const Input& input) { return input.key == "slice" && input.origin == Origin::Default; };
  CHECK(std::any_of(one.inputs.begin(), one.inputs.end(), slice));
  CHECK(shape(resolve({"--gpu", "tpu-v4", "--gpus", "6144"}).value()) == "12x16x16");
  CHECK(shape(resolve({"--gpu", "tpu-v5e", "--gpus", "1024"}).value()) == "16x16");
  CHECK(shape(resolve({"--gpu", "tpu-v5p", "--gpus", "512", "--slice", "4x4x8"}).value()) == "4x4x8");
}

TEST_CASE("what no slice has is refused with what there is") {
  CHECK(help_of(resolve({"--gpu", "tpu-v5e", "--gpus", "100"})).find("64 (8x8) or 128 (8x16)") != std::string::npos);
  CHECK(help_of(resolve({"--gpu", "tpu-v5p", "--gpus", "128", "--slice", "4x4x6"})).find("4x4x4") != std::string::npos);
  CHECK(help_of(resolve({"--gpu", "tpu-v5p", "--gpus", "100", "--slice", "4x4x4"})).find("64") != std::string::npos);
  CHECK(help_of(resolve({"--gpu", "h100", "--gpus", "8", "--slice", "2x4"})).find("leave it out") != std::string::npos);
  CHECK_FALSE(resolve({"--gpu", "tpu-v5p", "--gpus", "128", "--slice", "big"}));
}

TEST_CASE("whatever the number of chips, one that is offered instead is taken") {
  for (const char* gpu : {"tpu-v3", "tpu-v4", "tpu-v5e", "tpu-v5p", "tpu-v6e"})
    for (int chips = 1; chips < 140; chips += chips < 12 ? 1 : 9) {
      CAPTURE(std::string(gpu));
      CAPTURE(chips);
      const Result<Problem> problem = resolve({"--gpu", gpu, "--gpus", std::to_string(chips)});
      if (problem) continue;
      const std::string help = help_of(problem);
      REQUIRE(help.starts_with("take "));
      CHECK(resolve({"--gpu", gpu, "--gpus", std::to_string(std::atoi(help.c_str() + 5))}));
    }
}

TEST_CASE("MaxText's file of a job on two slices is read back as that job") {
  for (const char* layout : {"zero3,mb4,tp8,shard8,recompute=full", "zero3,mb2,tp4,shard16,recompute=full"}) {
    const Problem problem = resolve({"--gpu", "tpu-v5p", "--gpus", "128", "--slice", "4x4x4", "--global-batch", "256",
                                     "--layout", layout, "--framework", "maxtext"})
                                .value();
    const Result<Plan> planned = plan_layout(problem, complete_layout(problem));
    REQUIRE(planned);
    const auto files = write_maxtext(*planned, {});
    REQUIRE(files);
    const std::string& text = files->front().text;
    CHECK(text.find("hardware: tpu") != std::string::npos);
    // Half an axis of 4 is none that jax lays an axis of a mesh on by itself.
    CHECK((text.find("allow_split_physical_axes: true") != std::string::npos) ==
          (std::string_view(layout).find("tp8") != std::string_view::npos));
    CHECK(files->back().text.find("2 slices of 64 chips, topology 4x4x4") != std::string::npos);
    const std::vector<LaunchSource> sources{{"maxtext.yml", text}};
    const Result<LaunchJob> job = read_maxtext(sources, {});
    REQUIRE(job);
    CHECK(job->gpus == 128);
    CHECK(job->slice_gpus == 64);
    CHECK(job->fixed.tp == problem.fixed.tp);
    CHECK(job->fixed.shard == problem.fixed.shard);
    CHECK(job->fixed.zero == 3);
  }
}
