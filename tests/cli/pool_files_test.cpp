// Several kinds of GPU in a cluster's file: the same as in words, every number counted, budgets, lists.
#include <functional>
#include <regex>

#include "check_files.hpp"
#include "pool_job.hpp"

using namespace plan;
using namespace plan::checks;

namespace {

const std::string kPools =
    "preset: cluster/1\nname: mixed\npools:\n"
    "  - gpu: a100-sxm-80gb\n    gpus: 16\n"
    "  - gpu: h100-sxm\n    gpus: 16\n";
const std::string kLink = "link:\n  bandwidth: 12.5 GB/s\n";
const char* const kWords = "16xa100-sxm-80gb,16xh100-sxm,link=12.5GB/s";

/// All that follows from a job: what names its file or says who stated what is left out.
std::string answer(Json json) {
  for (const char* key : {"inputs", "unstated", "about"}) json.erase(key);
  return json.dump(1);
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

/// Spelt out: three kinds, of which every number can be edited.
const std::string kSpelt =
    "preset: cluster/1\nname: mixed\npools:\n"
    "  - name: slow\n    gpus: 8\n    gpu: a100-sxm-80gb\n    gpus_per_node: 8\n    tiers:\n"
    "      - {name: nvlink, size: 8, bandwidth: 300 GB/s}\n      - {name: net, size: all, bandwidth: 25 GB/s}\n"
    "  - name: fast\n    gpus: 8\n    gpu: h100-sxm\n    gpus_per_node: 8\n    tiers:\n"
    "      - {name: nvlink, size: 4, bandwidth: 450 GB/s}\n      - {name: net, size: all, bandwidth: 50 GB/s}\n"
    "link: {bandwidth: 10 GB/s, latency: 5 us, oversubscription: 2}\n";

}  // namespace

TEST_CASE("a file with two pools is the same words on the command line, byte for byte") {
  const Folder folder;
  folder.write("mixed.yaml", kPools + kLink);
  const std::vector<std::vector<std::string>> layouts = {{"--layout", "tp4,pp2/tp4,pp2"},
                                                         {"--layout", "tp8,pp2/tp4,pp2"},
                                                         {"--layout", "tp4,pp2,layers=7+7/tp4,pp2,layers=9+9"}};
  for (const std::vector<std::string>& layout : layouts) {
    std::vector<std::string> file = {"--cluster", "./mixed.yaml"}, typed = {"--gpus", kWords};
    file.insert(file.end(), layout.begin(), layout.end()), typed.insert(typed.end(), layout.begin(), layout.end());
    const Json from_file = run_json(pool_job({"estimate"}, file)), from_words = run_json(pool_job({"estimate"}, typed));
    CHECK(answer(from_file) == answer(from_words));
    CHECK(from_file["inputs"]["pools"]["value"] == kWords);
    CHECK(from_file["inputs"]["gpus"]["value"] == from_words["inputs"]["gpus"]["value"]);
    CHECK(from_file["inputs"]["cluster"]["value"] == "mixed");
  }
  CHECK(answer(run_json(pool_job({}, {"--cluster", "./mixed.yaml"}))) ==
        answer(run_json(pool_job({}, {"--gpus", kWords}))));
}

TEST_CASE("a pools' file without a link says so among what nobody stated") {
  const Folder folder;
  folder.write("mixed.yaml", kPools);
  const Json json = run_json(pool_job({"estimate"}, {"--cluster", "./mixed.yaml", "--layout", "tp4,pp2/tp4,pp2"}));
  bool said = false;
  for (const Json& fact : json["unstated"]) said = said || (fact["field"] == "link" && fact["guessed"] == true);
  CHECK(said);
}

TEST_CASE("a number that is edited in a pools' file changes the step in its direction") {
  const Folder folder;
  const auto step = [&](const std::string& text) {
    folder.write("mixed.yaml", text);
    const Json json = run_json(pool_job(
        {"estimate"}, {"--cluster", "./mixed.yaml", "--layout", "tp8,pp1,layers=12/tp4,pp2,dp1,layers=10+10"}));
    return json["best"]["step_time_s"].get<double>();
  };
  const double usual = step(kSpelt);
  CHECK(step(replaced(kSpelt, "bandwidth: 10 GB/s", "bandwidth: 1 GB/s")) > usual);
  CHECK(step(replaced(kSpelt, "latency: 5 us", "latency: 5 ms")) > usual);
  CHECK(step(replaced(kSpelt, "oversubscription: 2", "oversubscription: 20")) > usual);
  CHECK(step(replaced(kSpelt, "bandwidth: 300 GB/s", "bandwidth: 30 GB/s")) > usual);
  CHECK(step(replaced(kSpelt, "bandwidth: 450 GB/s", "bandwidth: 45 GB/s")) > usual);
  CHECK(step(replaced(kSpelt, "bandwidth: 50 GB/s", "bandwidth: 1 GB/s")) > usual);  // between the fast pool's stages
  CHECK(step(replaced(kSpelt, "gpu: h100-sxm", "gpu: a100-sxm-40gb")) > usual);
  CHECK(step(replaced(kSpelt, "gpu: a100-sxm-80gb", "gpu: b200-sxm")) < usual);
}

TEST_CASE("of three pools each pair has its own link") {
  const Folder folder;
  const std::string pools = kPools + "  - gpu: b200-sxm\n    gpus: 16\n";
  const auto step = [&](const std::string& links) {
    folder.write("three.yaml", pools + links);
    const Json json =
        run_json(pool_job({"estimate"}, {"--cluster", "./three.yaml", "--layout", "tp8,pp2/tp8,pp2/tp8,pp2"}));
    return json["best"]["step_time_s"].get<double>();
  };
  const std::string fast = "{bandwidth: 50 GB/s}\n", slow = "bandwidth: 0.2 GB/s}\n";
  const double alike = step("link: " + fast);
  const double first = step("link: " + fast + "links:\n  - {between: [a100-sxm-80gb, h100-sxm], " + slow);
  const double second = step("link: " + fast + "links:\n  - {between: [b200-sxm, h100-sxm], " + slow);
  const double unused = step("link: " + fast + "links:\n  - {between: [b200-sxm, a100-sxm-80gb], " + slow);
  const double both = step("link: {" + slow);
  CHECK(first > alike);
  CHECK(second > alike);
  CHECK(unused == alike);  // ends of the pipeline, whose tables this model does not share
  CHECK(both > std::max(first, second));
  const std::string all =
      "links:\n  - {between: [a100-sxm-80gb, h100-sxm], bandwidth: 50 GB/s}\n"
      "  - {between: [b200-sxm, h100-sxm], bandwidth: 50 GB/s}\n  - {between: [a100-sxm-80gb, b200-sxm], bandwidth: 50 "
      "GB/s}\n";
  CHECK(step(all) == alike);
}

TEST_CASE("pools' files are shown, listed, and refused where one kind is asked for") {
  const Folder folder;
  folder.write("mixed.yaml", kPools + kLink);
  const Json shown = run_json({"show", "cluster", "./mixed.yaml"});
  CHECK(shown["name"] == "mixed");
  folder.write("again.yaml", shown["preset"].get<std::string>());
  const auto estimate = [&](const char* file) {
    return answer(run_json(pool_job({"estimate"}, {"--cluster", file, "--layout", "tp8,pp2/tp4,pp2"})));
  };
  CHECK(estimate("./again.yaml") == estimate("./mixed.yaml"));
  const auto refused = [](const std::vector<std::string>& asked, const char* part) {
    const Ran ran = run(asked);
    CAPTURE(ran.err);
    CHECK(ran.status == 2);
    CHECK(ran.out.empty());
    CHECK(ran.err.find(part) != std::string::npos);
  };
  refused(pool_job({}, {"--cluster", "./mixed.yaml", "--gpus", "16"}), "32");
  refused(pool_job({}, {"--cluster", "./mixed.yaml", "--pareto"}), "--pareto");
  refused(pool_job({"sweep"}, {"--cluster", "./mixed.yaml"}), "--gpus");
  refused(pool_job({"explain", "activations"}, {"--cluster", "./mixed.yaml", "--layout", "tp4"}), "--cluster");
  refused(pool_job({}, {"--profile", "./mixed.yaml", "--gpus", "32"}), "several kinds");
  refused(pool_job({}, {"--gpus", "8x./mixed.yaml,8xh100-sxm"}), "");
  folder.write("bad.yaml", kPools + "link:\n  bandwith: 3 GB/s\n");
  refused(pool_job({}, {"--cluster", "./bad.yaml"}), "bandwith");
  CHECK(run(pool_job({"estimate"}, {"--cluster", "./mixed.yaml", "--gpus", "32", "--layout", "tp4,pp2/tp4,pp2"}))
            .status != 2);
}

TEST_CASE("a budget holds a job on several kinds of GPU to its limits") {
  const Folder folder;
  folder.write("mixed.yaml", kPools + kLink);
  const std::string job =
      "budget: 1\nmodel: 8b\nseq: 4096\nglobal_batch: 64\ncluster: ./mixed.yaml\nlayout: tp4,pp2/tp4,pp2\nlimits:\n";
  const Json estimate = run_json(pool_job({"estimate"}, {"--cluster", "./mixed.yaml", "--layout", "tp4,pp2/tp4,pp2"}));
  folder.write("budget.yaml", job + "  step_time: at most 1000 s\n");
  const Ran good = run({"check", "--budget", "budget.yaml", "--json"});
  CAPTURE(good.err);
  REQUIRE(good.status == 0);
  const Json report = Json::parse(good.out);
  CHECK(report["jobs"][0]["plan"]["best"] == estimate["best"]);
  folder.write("tight.yaml", job + "  step_time: at most 1 ms\n");
  CHECK(run({"check", "--budget", "tight.yaml", "--json"}).status == 1);
}
