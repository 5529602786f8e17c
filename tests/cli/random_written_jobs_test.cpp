// Random jobs under every framework that states all of a job in its files: what is written of the best plan reads back
// as a job of the same memory and time, and says nothing that its reader has no use for.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <map>
#include <random>

#include "../oracle/random_problem.hpp"
#include "check_files.hpp"
#include "cli/launch/launch.hpp"
#include "planner/rules/frameworks.hpp"

using namespace plan;
using namespace plan::checks;
namespace fs = std::filesystem;

namespace {

using Words = std::vector<std::string>;

void add(Words& to, const Words& more) { to.insert(to.end(), more.begin(), more.end()); }

/// Model, GPUs, and now and then a word of training or of a switch; some of them no framework takes together.
Words random_job(std::mt19937& random) {
  const auto one_of = [&](const Words& all) { return all[random() % all.size()]; };
  const auto now_and_then = [&](const char* flag, const Words& values) {
    return random() % 5 == 0 ? Words{flag, one_of(values)} : Words{};
  };
  Words job = {"--model",
               one_of({"llama3-8b", "llama3-70b", "qwen3-8b", "qwen3-30b-a3b", "mixtral-8x7b", "gpt-oss-20b",
                       "gpt3-175b", "llama2-13b", "gemma2-9b", "nemotron-h-8b", "glm-4.5-air"}),
               "--gpus",
               one_of({"8", "16", "32", "64", "128", "256"}),
               "--gpu",
               one_of({"h100-sxm", "a100-sxm-80gb", "h200-sxm", "b200-sxm", "gb200", "mi300x"})};
  add(job, now_and_then("--precision", {"fp8", "mxfp8", "fp16", "fp16", "fp8-blockwise"}));
  add(job, now_and_then("--global-batch", {"64", "256", "768", "2048"}));
  add(job, now_and_then("--seq", {"2048", "16384", "32768"}));
  add(job, now_and_then("--optimizer", {"muon", "sgd", "sgd-momentum"}));
  add(job, now_and_then("--offload", {"optimizer", "none"}));
  add(job, now_and_then("--cuda-graphs", {"attn", "full", "none"}));
  add(job, now_and_then("--overlap", {"none", "grads", "grads+params+tp"}));
  add(job, now_and_then("--dispatcher", {"alltoall", "flex"}));
  return job;
}

/// Writes the job's best plan. False if the framework refuses the job, or nothing fits.
bool reads_back(const std::string& format, const Words& job) {
  const Folder folder;
  Words emit = {"emit", format, "-o", "run", "--json"};
  add(emit, job);
  const Ran ran = run(emit);
  if (ran.status != 0) return false;
  const Json answer = Json::parse(ran.out);
  const std::string framework(framework_row(framework_of_format(format).value()).name);
  Words planned = {"estimate", "--framework", framework, "--layout", answer["layout"]};
  add(planned, job);
  for (const std::string one : answer.value("switches", Json::array())) {
    const std::size_t blank = one.find(' ');
    add(planned, {one.substr(0, blank), one.substr(blank + 1)});
  }
  Words from = {"estimate", "--gpu", job[5]};
  if (format == "megatron-bridge") add(from, {job.begin(), job.begin() + 4});  // overrides of a recipe for any model
  for (const auto& entry : fs::directory_iterator("run")) add(from, {"--from", entry.path().string()});
  const Json own = run_json(planned), read = run_json(from);
  REQUIRE_MESSAGE(own.contains("best"), run(planned).err);
  REQUIRE_MESSAGE(read.contains("best"), run(from).err);
  const double time = own["best"]["step_time_s"], read_time = read["best"]["step_time_s"];
  CHECK(read_time / time == doctest::Approx(1).epsilon(0.001));
  const double peak = own["best"]["memory"]["peak_bytes"], read_peak = read["best"]["memory"]["peak_bytes"];
  CHECK(read_peak / peak == doctest::Approx(1).epsilon(0.002));
  CHECK_MESSAGE(read.value("unused", Json::array()).empty(), read["unused"].dump());
  return true;
}

}  // namespace

TEST_CASE("the best plan of random jobs is written and read back at the same memory and time") {
  const Words formats = {"megatron-lm",     "megatron-lm", "flagscale",  "megatron-bridge", "torchtitan",
                         "torchtitan-main", "deepspeed",   "accelerate", "maxtext"};
  std::mt19937 random(20261127);
  std::map<std::string, int> written;
  int all = 0;
  for (int round = 0; round < oracle::rounds(220); ++round) {
    const std::string& format = formats[random() % formats.size()];
    const Words job = random_job(random);
    CAPTURE(format);
    CAPTURE(fmt::format("{}", fmt::join(job, " ")));
    if (!reads_back(format, job)) continue;
    ++written[format], ++all;
  }
  for (const auto& row : written) MESSAGE(row.first << ": " << row.second);
  CHECK(all > oracle::at_least(40));
}
