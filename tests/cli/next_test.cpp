// `plan next` as a user calls it: the runs that it proposes, made up here under a known truth and appended as
// `plan diagnose` appends them, leave an interval about as narrow as it said, around that truth.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>

#include "check_files.hpp"

using namespace plan;
using namespace plan::checks;

namespace {

const std::vector<std::string> kJob{"--model", "8b",   "--gpus",         "256", "--gpu",       "h100-sxm",
                                    "--seq",   "8192", "--global-batch", "512", "--framework", "megatron"};

std::vector<std::string> with_job(std::vector<std::string> words) {
  words.insert(words.end(), kJob.begin(), kJob.end());
  return words;
}

}  // namespace

TEST_CASE("plan next: runs that are made narrow the interval as was said, around what they showed") {
  const Folder folder;
  const Json plan = run_json(with_job({"next"}));
  REQUIRE(plan["schema"] == "plan-next/1");
  REQUIRE(!plan["runs"].empty());
  constexpr double kSlower = 1.08;  // everything takes longer than predicted
  for (const Json& proposed : plan["runs"]) {
    const std::vector<std::string> job{"--model",        "8b",
                                       "--gpu",          "h100-sxm",
                                       "--seq",          "8192",
                                       "--framework",    "megatron",
                                       "--gpus",         std::to_string(proposed["gpus"].get<int>()),
                                       "--global-batch", std::to_string(proposed["global_batch"].get<int>()),
                                       "--layout",       proposed["layout"].get<std::string>()};
    std::vector<std::string> words{"estimate"};
    words.insert(words.end(), job.begin(), job.end());
    const double predicted = run_json(words)["best"]["step_time_s"];
    CHECK(predicted == doctest::Approx(proposed["step_time_s"].get<double>()));
    std::string log;
    for (int step = 1; step <= 20; ++step)
      log += fmt::format(" iteration {}/ 20 | elapsed time per iteration (ms): {:.3f} |\n", step,
                         kSlower * predicted * 1e3);
    folder.write("out.log", log);
    words = {"diagnose", "--log", "out.log", "--append", "own.csv"};
    words.insert(words.end(), job.begin(), job.end());
    const Ran appended = run(words);
    CAPTURE(appended.err);
    REQUIRE(appended.status == 0);
  }
  const Json after = run_json(with_job({"next", "own.csv"}));
  CHECK(after["taken"].size() == plan["runs"].size());
  CHECK(after["notes"].empty());
  const double said = plan["runs"].back()["then"]["half_width_ratio"];
  CHECK(said < plan["now"]["half_width_ratio"].get<double>());
  CHECK(after["now"]["half_width_ratio"].get<double>() == doctest::Approx(said).epsilon(0.1));
  const Json step = run_json(with_job({"estimate", "--layout", plan["layout"].get<std::string>()}))["best"];
  const double truth = kSlower * step["step_time_s"].get<double>();
  CHECK(after["now"]["step_time_low_s"].get<double>() < truth);
  CHECK(after["now"]["step_time_high_s"].get<double>() > truth);
  CHECK(after["now"]["step_time_s"].get<double>() == doctest::Approx(truth).epsilon(0.05));
}

TEST_CASE("plan next: every format names the runs; runs of other jobs are left out by name") {
  const Folder folder;
  for (const char* format : {"human", "markdown"}) {
    const Ran ran = run(with_job({"next", "--format", format}));
    CHECK(ran.status == 0);
    CHECK(ran.out.find("GPU-hours") != std::string::npos);
    CHECK(ran.out.find("--layout") != std::string::npos);
    CHECK(ran.out.find("not stated") < ran.out.find("GPU-hours"));
  }
  folder.write("other.csv",
               "id,suite,source,status,model,gpu,gpus,gpus_per_node,seq,global_batch,micro_batch,tp,cp,pp,dp,precision,"
               "framework,step_time_s\n70b,own,own,ok,llama3-70b,h100-sxm,64,8,8192,64,1,8,1,4,2,bf16,megatron,10\n");
  const Json other = run_json(with_job({"next", "other.csv"}));
  CHECK(other["taken"].empty());
  REQUIRE(other["notes"].size() == 1);
  CHECK(other["notes"][0]["text"].get<std::string>().find("70b was left out") != std::string::npos);
  CHECK(run(with_job({"next", "absent.csv"})).status == 2);
  CHECK(run({"next"}).status == 2);
}
