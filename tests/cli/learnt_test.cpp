// The interval that a cluster's own runs taught goes into the profile, is read back, and narrows the steps of jobs that
// lie between those runs and of no other. The runs are made up here, with an error of their own.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <random>
#include <sstream>

#include "check_files.hpp"
#include "contents.hpp"

using namespace plan;
using namespace plan::checks;

namespace {

struct Ran20 {
  int gpus, seq, batch, tp, pp;
};

std::vector<std::string> job_words(const char* model, const Ran20& job) {
  return {"--model",        model,
          "--gpu",          "h100-sxm",
          "--gpus",         std::to_string(job.gpus),
          "--seq",          std::to_string(job.seq),
          "--global-batch", std::to_string(job.batch),
          "--framework",    "megatron",
          "--layout",       fmt::format("tp{},pp{},mb1,zero1", job.tp, job.pp)};
}

Json estimated(std::vector<std::string> words, const std::string& profile = {}) {
  words.insert(words.begin(), "estimate");
  if (!profile.empty()) {  // which says what the GPU is
    const auto gpu = std::find(words.begin(), words.end(), "--gpu");
    words.erase(gpu, gpu + 2);
    words.insert(words.end(), {"--profile", profile});
  }
  return run_json(words);
}

/// A table of twenty jobs whose steps take 8 % longer than predicted, and err by 2 % each.
std::string measured_runs() {
  std::mt19937 random(5);
  std::normal_distribution<double> normal;
  std::string text =
      "id,suite,source,status,model,gpu,gpus,gpus_per_node,seq,global_batch,micro_batch,tp,cp,pp,dp,zero,"
      "sequence_parallel,schedule,recompute,precision,optimizer,framework,task,step_time_s,notes\n";
  int id = 0;
  for (const int gpus : {64, 128})
    for (const int seq : {4096, 8192})
      for (const auto& [tp, pp] : {std::pair{2, 1}, {4, 1}, {2, 2}, {4, 2}, {8, 2}}) {
        const Ran20 job{gpus, seq, 2 * gpus, tp, pp};
        const double step = estimated(job_words("llama3-8b", job))["best"]["step_time_s"];
        text += fmt::format(
            "r{},own,own,ok,llama3-8b,h100-sxm,{},8,{},{},1,{},1,{},{},1,1,1f1b,none,bf16,adam,megatron,pretrain,"
            "{:.5f},{{release=26.04}}\n",
            id++, gpus, seq, job.batch, tp, pp, gpus / tp / pp, step * 1.08 * std::exp(0.02 * normal(random)));
      }
  return text;
}

bool noted(const Json& answer, const std::string& code, const std::string& words = {}) {
  for (const Json& note : answer["notes"])
    if (note["code"] == code && note["text"].get<std::string>().find(words) != std::string::npos) return true;
  return false;
}

bool speaks_of_interval(const Json& answer) {
  return noted(answer, "interval_learnt") || noted(answer, "interval_not_learnt");
}

double low_of(const Json& answer) {
  return answer["best"]["step_time_low_s"].get<double>() / answer["best"]["step_time_s"].get<double>();
}
double high_of(const Json& answer) {
  return answer["best"]["step_time_high_s"].get<double>() / answer["best"]["step_time_s"].get<double>();
}

}  // namespace

TEST_CASE("the interval that runs taught is in the profile, for what ran and for nothing else") {
  const Folder folder;
  folder.write("own.csv", measured_runs());
  const Json fitted = run_json({"calibrate", "own.csv", "-o", "own.yaml"});
  const double low = fitted["unseen_step_time"]["low_ratio"], high = fitted["unseen_step_time"]["high_ratio"];
  CHECK(low < 1);
  CHECK(high > 1);
  CHECK(high < 1.10);  // 2 % of noise, and not what published runs of all clusters differ by

  const Ran20 between{64, 6144, 128, 4, 1};
  const Json inside = estimated(job_words("llama3-8b", between), "own.yaml");
  CHECK(low_of(inside) == doctest::Approx(low).epsilon(1e-4));
  CHECK(high_of(inside) == doctest::Approx(high).epsilon(1e-4));
  CHECK(noted(inside, "interval_learnt"));
  const Json searched = run_json({"--model", "llama3-8b", "--gpus", "64", "--seq", "8192", "--global-batch", "128",
                                  "--framework", "megatron", "--layout", "tp4,pp1", "--profile", "own.yaml"});
  CHECK(speaks_of_interval(searched));

  // Every number and every trait of the job, moved out of what ran.
  const std::pair<const char*, std::vector<std::string>> elsewhere[] = {
      {"gpus is 256", job_words("llama3-8b", {256, 8192, 512, 4, 2})},
      {"seq is 16384", job_words("llama3-8b", {64, 16384, 128, 4, 2})},
      {"micro_batches is", job_words("llama3-8b", {64, 8192, 1024, 4, 2})},
      {"pp is 4", job_words("llama3-8b", {64, 8192, 128, 4, 4})},
      {"tp is 1", job_words("llama3-8b", {64, 8192, 128, 1, 2})},
      {"model llama2-7b", job_words("llama2-7b", {64, 4096, 128, 4, 2})},
      {"precision fp8",
       [] {
         std::vector<std::string> words = job_words("llama3-8b", {64, 8192, 128, 4, 2});
         words.insert(words.end(), {"--precision", "fp8"});
         return words;
       }()},
      {"recompute full",
       [] {
         std::vector<std::string> words = job_words("llama3-8b", {64, 8192, 128, 4, 2});
         words.back() += ",recompute=full";
         return words;
       }()},
  };
  std::string text = contents_of("own.yaml");
  const std::size_t at = text.find("\nlearnt:");
  REQUIRE(at != std::string::npos);
  folder.write("without.yaml", text.substr(0, at + 1));
  for (const auto& job : elsewhere) {
    const std::string why = job.first;
    const std::vector<std::string>& words = job.second;
    CAPTURE(why);
    const Json outside = estimated(words, "own.yaml"), general = estimated(words, "without.yaml");
    CHECK(noted(outside, "interval_not_learnt", why));
    CHECK(outside["best"]["step_time_low_s"] == general["best"]["step_time_low_s"]);
    CHECK(outside["best"]["step_time_high_s"] == general["best"]["step_time_high_s"]);
    CHECK_FALSE(speaks_of_interval(general));
  }
  // The same constants predict the same step, whatever is known of its error.
  CHECK(inside["best"]["step_time_s"] ==
        estimated(job_words("llama3-8b", between), "without.yaml")["best"]["step_time_s"]);
}

TEST_CASE("what was learnt is read strictly") {
  const Folder folder;
  folder.write("own.csv", measured_runs());
  REQUIRE(run({"calibrate", "own.csv", "-o", "own.yaml"}).status == 0);
  const std::string text = contents_of("own.yaml");
  const std::pair<const char*, const char*> edits[] = {
      {"\n  low: ", "\n  low: 1.5 # "}, {"\n  low: ", "\n  lowest: "}, {"\n  runs: ", "\n  runs: none # "},
      {"{least: 2", "{least: 9"},       {"  traits:", "  trait:"},
  };
  for (const auto& edit : edits) {
    const std::string from = edit.first, to = edit.second;
    CAPTURE(from);
    CAPTURE(to);
    std::string edited = text;
    const std::size_t at = edited.find(from, edited.find("learnt:"));
    REQUIRE(at != std::string::npos);
    edited.replace(at, std::string(from).size(), to);
    folder.write("edited.yaml", edited);
    const Ran ran = run({"estimate", "--model", "8b", "--gpus", "64", "--layout", "tp4", "--profile", "edited.yaml"});
    CHECK(ran.status == 2);
    CHECK(ran.err.find("edited.yaml") != std::string::npos);
  }
  // Four runs say too little.
  std::istringstream lines(measured_runs());
  std::string four, line;
  for (int i = 0; i < 5 && std::getline(lines, line); ++i) four += line + "\n";
  folder.write("four.csv", four);
  REQUIRE(run({"calibrate", "four.csv", "-o", "four.yaml"}).status == 0);
  CHECK(contents_of("four.yaml").find("learnt:") == std::string::npos);
}
