// Launch files for several kinds of GPU: what is written reads back with the same time and memory, or is refused.
#include <yaml-cpp/yaml.h>

#include <filesystem>
#include <string_view>

#include "check_files.hpp"
#include "cli/request/resolve.hpp"
#include "planner/answer/layout_text.hpp"
#include "planner/pools/pools.hpp"

using namespace plan;
using namespace plan::checks;

namespace {

struct Mixed {
  const char *gpus, *model, *batch;
};

const Mixed kJobs[] = {{"16xa100-sxm-80gb,16xh100-sxm,link=12.5GB/s", "llama3-8b", "64"},
                       {"8xh100-sxm,16xa100-sxm-80gb,link=25GB/s", "llama3-8b", "48"},
                       {"16xa100-sxm-40gb,8xh200-sxm,link=10GB/s", "llama3.2-3b", "64"},
                       {"16xa100-sxm-80gb,16xh100-sxm,8xb200-sxm,link=25GB/s", "llama3-8b", "120"},
                       {"32xa100-sxm-80gb,32xh100-sxm,link=50GB/s", "mixtral-8x7b", "128"}};

std::vector<std::string> with(std::vector<std::string> words, const Mixed& job, const std::vector<std::string>& more) {
  words.insert(words.end(), {"--model", job.model, "--seq", "4096", "--global-batch", job.batch, "--gpus", job.gpus});
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::string written_file() {
  for (const auto& entry : std::filesystem::directory_iterator("run")) return entry.path().string();
  return "";
}

/// FlagScale reads its meshes from `system.hetero` alone; a job of one kind of GPU has none.
void check_sections(bool pooled) {
  const YAML::Node train = YAML::LoadFile(written_file())["train"];
  CHECK(train["system"]["hetero"].IsDefined() == pooled);
  for (const char* section : {"system", "model", "data"}) {
    CAPTURE(section);
    REQUIRE(train[section].IsMap());
    CHECK(train[section].size() > 0);
    if (section != std::string_view("system")) CHECK_FALSE(train[section]["hetero"].IsDefined());
  }
}

/// The job of the words, with the strategy of each pool that FlagScale runs.
Plan planned(const Mixed& job, const std::string& gpus, const std::string& layout) {
  Asked asked;
  asked.takes_pools = true;
  for (const auto& [key, text] : std::initializer_list<std::pair<const char*, std::string>>{{"model", job.model},
                                                                                            {"seq", "4096"},
                                                                                            {"global_batch", job.batch},
                                                                                            {"gpus", gpus},
                                                                                            {"framework", "megatron"},
                                                                                            {"layout", layout}})
    asked.words[key] = {text, {}};
  Result<Problem> problem = resolve_problem(asked);
  REQUIRE(problem);
  problem->mesh_per_pool = true;
  Result<Plan> plan = plan_pooled(*problem);
  if (!plan) FAIL(plan.error().front().message);
  return *std::move(plan);
}

void check_same(const Json& read, const Plan& plan) {
  CHECK(read["best"]["step_time_s"].get<double>() == doctest::Approx(plan.best.step_time.value).epsilon(1e-9));
  REQUIRE(read["best"]["pools"].size() == plan.best.runs.size());
  for (std::size_t i = 0; i < plan.best.runs.size(); ++i) {
    const Json& pool = read["best"]["pools"][i];
    CHECK(pool["gpu"] == plan.best.runs[i].gpu);
    CHECK(pool["peak_bytes"] == plan.best.runs[i].peak.value);
    CHECK(pool["layout"]["stage_layers"] == plan.best.runs[i].layout.chunk_layers);
  }
}

}  // namespace

TEST_CASE("FlagScale's meshes read back with the time and the memory that were planned") {
  for (const Mixed& job : kJobs) {
    const Folder folder;
    CAPTURE(std::string(job.gpus));
    const Ran ran = run(with({"emit", "flagscale", "-o", "run", "--json"}, job, {}));
    CAPTURE(ran.err);
    REQUIRE(ran.status == 0);
    const Json written = Json::parse(ran.out);
    const std::string layout = written["layout"], order = written["gpus"], words = job.gpus;
    CAPTURE(layout);
    check_sections(true);
    const Plan plan = planned(job, order + words.substr(words.find(",link")), layout);
    CHECK(plan.runs_on.size() == 1);
    const Json read = run_json({"estimate", "--from", written_file(), "--gpus", job.gpus});
    check_same(read, plan);
    // The files name the kinds; only the link between them is nowhere in them.
    const Json alone = run_json({"estimate", "--from", written_file()});
    CHECK(alone["inputs"]["gpus"]["value"] == read["inputs"]["gpus"]["value"]);
    CHECK(alone["best"]["memory"] == read["best"]["memory"]);
    bool said = false;
    for (const Json& fact : alone["unstated"]) said = said || fact["field"] == "link";
    CHECK(said);
  }
}

TEST_CASE("a job of one kind of GPU has no meshes") {
  const Folder folder;
  const Ran ran = run({"emit", "flagscale", "-o", "run", "--model", "llama3-8b", "--gpus", "16", "--gpu", "h100-sxm",
                       "--seq", "4096", "--global-batch", "64"});
  CAPTURE(ran.err);
  REQUIRE(ran.status == 0);
  check_sections(false);
}

TEST_CASE("meshes that were asked for are written and read back") {
  const Mixed& job = kJobs[0];
  for (const std::string layout :
       {"tp8,pp2,dp1,mb4,layers=6+6/tp4,pp1,dp4,mb1,layers=20", "tp2,pp2,dp4,mb1,layers=7+7/tp8,pp1,dp2,mb2,layers=18",
        "tp1,pp1,dp16,mb1,zero0,layers=10/tp4,pp2,dp2,mb8,zero0,layers=11+11"}) {
    const Folder folder;
    CAPTURE(layout);
    const Ran ran = run(with({"emit", "flagscale", "-o", "run", "--layout", layout}, job, {}));
    CAPTURE(ran.err);
    REQUIRE(ran.status <= 1);
    check_same(run_json({"estimate", "--from", written_file(), "--gpus", job.gpus}), planned(job, job.gpus, layout));
  }
}

TEST_CASE("what FlagScale cannot run on pools is refused with the reason") {
  const Mixed& job = kJobs[0];
  for (const std::string layout :
       {"tp4,cp2,pp1,layers=14/tp4,pp2,layers=9+9", "tp4,pp2,recompute=full,layers=7+7/tp4,pp2,layers=9+9",
        "tp4,pp2,zero3,layers=7+7/tp4,pp2,zero3,layers=9+9"}) {
    const Folder folder;
    CAPTURE(layout);
    const Ran ran = run(with({"emit", "flagscale", "-o", "run", "--layout", layout}, job, {}));
    CHECK(ran.status == 1);
    CHECK(ran.err.find("the layout is not possible: process meshes differ in") != std::string::npos);
    CHECK_FALSE(std::filesystem::exists("run"));
  }
}

TEST_CASE("frameworks that know nothing of kinds get the layers of each stage, where all else is the same") {
  const Mixed& job = kJobs[0];
  const std::string alike = "tp4,pp2,dp2,layers=7+7/tp4,pp2,dp2,layers=9+9";
  {
    const Folder folder;
    const Ran ran = run(with({"emit", "megatron-lm", "-o", "run", "--layout", alike}, job, {}));
    CAPTURE(ran.err);
    REQUIRE(ran.status == 0);
    std::string note;
    std::istringstream words(ran.err);  // the note is broken into lines
    for (std::string word; words >> word;) note += word + " ";
    CHECK(note.find("start ranks 0-15 on a100-sxm-80gb, 16-31 on h100-sxm") != std::string::npos);
    const Json read = run_json({"estimate", "--from", written_file(), "--gpus", job.gpus});
    REQUIRE(read.contains("best"));
    const Json own = run_json(with({"estimate", "--framework", "megatron", "--layout", alike}, job, {}));
    CHECK(read["best"]["step_time_s"].get<double>() ==
          doctest::Approx(own["best"]["step_time_s"].get<double>()).epsilon(1e-3));
    CHECK(read["best"]["layout"]["stage_layers"] == Json{7, 7, 9, 9});
    CHECK(read["best"]["pools"].size() == 2);
  }
  for (const char* format : {"megatron-lm", "torchtitan", "deepspeed", "accelerate", "maxtext", "galvatron"}) {
    const Folder folder;
    CAPTURE(format);
    const Ran ran =
        run(with({"emit", format, "-o", "run", "--layout", "tp8,pp2,layers=7+7/tp4,pp2,layers=9+9"}, job, {}));
    CHECK(ran.status >= 1);
    CHECK(ran.err.find("differ in more than") != std::string::npos);
    CHECK_FALSE(std::filesystem::exists("run"));
  }
}

TEST_CASE("words beside a file with meshes are honoured or refused") {
  const Folder folder;
  const Mixed& job = kJobs[0];
  REQUIRE(run(with({"emit", "flagscale", "-o", "run", "--layout", "tp8,pp2,layers=6+6/tp4,pp1,mb1,layers=20"}, job, {}))
              .status <= 1);
  const std::string file = written_file();
  const auto refused = [&](const std::vector<std::string>& more, const char* part) {
    std::vector<std::string> words = {"estimate", "--from", file};
    words.insert(words.end(), more.begin(), more.end());
    const Ran ran = run(words);
    CAPTURE(ran.err);
    CHECK(ran.status == 2);
    CHECK(ran.err.find(part) != std::string::npos);
  };
  refused({"--gpus", "64"}, "64");
  refused({"--gpu", "h100-sxm"}, "one kind");
  refused({"--gpus", "8xa100-sxm-80gb,16xh100-sxm"}, "24");
  refused({"--layout", "tp2"}, "tp");
  refused({"--layout", "tp2/tp4"}, "--layout");
  const Json order = run_json({"estimate", "--from", file, "--gpus", "16xh100-sxm,16xa100-sxm-80gb,link=12.5GB/s"});
  const Json same = run_json({"estimate", "--from", file, "--gpus", job.gpus});
  CHECK(order["best"] == same["best"]);
}
