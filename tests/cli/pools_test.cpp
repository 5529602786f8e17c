// Several kinds of GPU on the command line: words honoured or refused, the report's figures, its JSON.
#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <sstream>

#include "check_files.hpp"
#include "cli/request/words/pool_words.hpp"
#include "pool_job.hpp"
#include "presets/store.hpp"
#include "temporary_folder.hpp"

using namespace plan;
using namespace plan::checks;

namespace {

const char* const kMixed = "16xa100-sxm-80gb,16xh100-sxm,link=12.5GB/s";

}  // namespace

TEST_CASE("estimate: each kind of GPU has its own stages, memory and share of the layers") {
  const Json json =
      run_json(pool_job({"estimate"}, {"--gpus", kMixed, "--layout", "tp4,pp2,layers=7+7/tp4,pp2,layers=9+9"}));
  CHECK(json["inputs"]["gpus"]["value"] == 32);
  CHECK(json["inputs"]["pools"]["value"] == kMixed);
  const Json& best = json["best"];
  CHECK(best["layout"]["pp"] == 4);
  CHECK(best["layout"]["tp"] == 4);
  CHECK(best["layout"]["stage_layers"] == Json{7, 7, 9, 9});
  REQUIRE(best["pools"].size() == 2);
  CHECK(best["pools"][0]["gpu"] == "a100-sxm-80gb");
  CHECK(best["pools"][1]["first_stage"] == 2);
  CHECK(best["pools"][1]["layout"]["stage_layers"] == Json{9, 9});
  // An H100 is between two and three times as fast: nine layers on it take less time than seven on an A100.
  CHECK(best["pools"][1]["busy_s"] < best["pools"][0]["busy_s"]);
  CHECK(best["pools"][1]["idle_ratio"] > best["pools"][0]["idle_ratio"]);
  CHECK(json["runs_on"] == Json{"megatron"});
}

TEST_CASE("estimate: layers that nobody placed go to the faster kind, and differing degrees are null in the whole") {
  const Json json = run_json(pool_job({"estimate"}, {"--gpus", kMixed, "--layout", "tp8,pp2/tp4,pp2"}));
  const Json& best = json["best"];
  CHECK(best["layout"]["tp"].is_null());
  CHECK(best["layout"]["dp"].is_null());
  CHECK(best["layout"]["zero"] == 1);
  const Json layers = best["layout"]["stage_layers"];
  CHECK(layers[0].get<int>() + layers[1].get<int>() < layers[2].get<int>() + layers[3].get<int>());
  CHECK(json["runs_on"].empty());
  bool said = false;
  for (const Json& note : json["notes"]) said = said || note["code"] == "no_framework";
  CHECK(said);
}

TEST_CASE("a link of ten times less bandwidth makes a step longer, and an unstated one is said") {
  const auto step = [](const char* gpus) {
    return run_json(pool_job({"estimate"}, {"--gpus", gpus, "--layout", "tp4,pp2/tp4,pp2"}))["best"]["step_time_s"]
        .get<double>();
  };
  CHECK(step("16xa100-sxm-80gb,16xh100-sxm,link=0.5GB/s") > step("16xa100-sxm-80gb,16xh100-sxm,link=50GB/s"));
  const Json open =
      run_json(pool_job({"estimate"}, {"--gpus", "16xa100-sxm-80gb,16xh100-sxm", "--layout", "tp4,pp2/tp4,pp2"}));
  bool said = false;
  for (const Json& fact : open["unstated"]) said = said || (fact["field"] == "link" && fact["guessed"] == true);
  CHECK(said);
}

TEST_CASE("plan: what all kinds run together is beside each alone") {
  const Json json = run_json(pool_job({}, {"--gpus", "8xa100-sxm-80gb,8xh100-sxm,link=25GB/s"}));
  REQUIRE(json.contains("alone"));
  REQUIRE(json["alone"].size() == 2);
  CHECK(json["alone"][1]["gpu"] == "h100-sxm");
  CHECK(json["best"]["pools"].size() == 2);
  CHECK_FALSE(json["runs_on"].empty());
  CHECK(json["fastest_on_paper"]["step_time_s"] <= json["best"]["step_time_s"]);
}

TEST_CASE("one kind of GPU in the words of several is the usual job") {
  const Json one = run_json(pool_job({"estimate"}, {"--gpus", "16", "--gpu", "h100-sxm", "--layout", "tp4,pp2"}));
  for (const char* gpus : {"16xh100-sxm", "8xh100-sxm,8xh100-sxm", "16 x h100-sxm", "16 h100-sxm"}) {
    const Json other = run_json(pool_job({"estimate"}, {"--gpus", gpus, "--layout", "tp4,pp2"}));
    CHECK(other["best"] == one["best"]);
  }
}

TEST_CASE("words that several kinds of GPU cannot have are refused") {
  const auto refused = [](const std::vector<std::string>& asked, const char* part) {
    const Ran ran = run(asked);
    CAPTURE(ran.err);
    CHECK(ran.status != 0);
    CHECK(ran.out.empty());
    CHECK(ran.err.find(part) != std::string::npos);
  };
  refused(pool_job({"explain", "activations"}, {"--gpus", kMixed}), "several kinds");
  refused(pool_job({"sweep"}, {"--gpus", kMixed}), "--gpus");
  refused(pool_job({}, {"--gpus", kMixed, "--gpu", "h100-sxm"}), "--gpu");
  refused(pool_job({}, {"--gpus", kMixed, "--pareto"}), "--pareto");
  refused(pool_job({}, {"--gpus", kMixed, "--spares", "8"}), "--spares");
  refused(pool_job({}, {"--gpus", kMixed, "--layout", "vp2"}), "1f1b, gpipe");
  refused(pool_job({}, {"--gpus", kMixed, "--layout", "tp4/tp4/tp4"}), "3 kinds");
  refused(pool_job({}, {"--gpus", "16", "--layout", "tp4/tp4"}), "there is one");
  refused(pool_job({}, {"--gpus", "16xa100-sxm-80gb,16xh1000"}), "h1000");
  refused(pool_job({}, {"--gpus", "16xa100-sxm-80gb,h100-sxm"}), "h100-sxm");
  refused(pool_job({}, {"--gpus", "16xa100-sxm-80gb,16xh100-sxm,link=fast"}), "link");
  refused(pool_job({}, {"--gpus", "0xa100-sxm-80gb,16xh100-sxm"}), "at least 1");
  refused(pool_job({"estimate"}, {"--gpus", kMixed, "--layout", "tp4,pp2/tp4,pp2,layers=9+9"}), "layers=");
  refused(pool_job({"estimate"}, {"--gpus", kMixed, "--layout", "tp4,pp2/tp4,pp2", "--format", "html"}), "--json");
  refused(pool_job({"estimate"}, {"--gpus", kMixed, "--layout", "tp4,pp2,dp1/tp4,pp2"}), "16");
}

TEST_CASE("numbers of GPUs whose thousands are parted are one mistake, on the command line and in a budget") {
  std::mt19937 random(12);
  const auto any = [&](int least, int most) { return std::uniform_int_distribution<int>(least, most)(random); };
  const std::vector<PresetEntry> kinds = list_presets(PresetKind::Gpu, StoreOptions::from_environment());
  const TemporaryFolder folder;
  const auto said = [](const Ran& ran, const std::string& help) {
    CAPTURE(ran.err);
    CHECK(ran.status == 2);
    CHECK(ran.err.find(help) != std::string::npos);
    CHECK(ran.err.find("2 errors") == std::string::npos);
  };
  const auto typed_gpus = [](const std::string& gpus) { return run({"--model", "1b", "--gpus", gpus}); };
  for (int round = 0; round < 150; ++round) {
    const std::string& kind = kinds[static_cast<std::size_t>(any(0, static_cast<int>(kinds.size()) - 1))].name;
    const char* const between[] = {"x", " x ", " ", " X "};
    const int thousands = any(1, 64), rest = any(0, 999);
    const std::string sign(1, ",_'. "[any(0, 4)]);
    const std::string typed = fmt::format("{}{}{:03}{}{}", thousands, sign, rest, between[any(0, 3)], kind);
    CAPTURE(typed);
    const std::string wanted = fmt::format("{}x{}", 1000 * thousands + rest, kind);
    said(typed_gpus(typed), fmt::format("write `--gpus {}`", wanted));
    CHECK(read_pools(wanted, StoreOptions::from_environment()));
    const std::string text =
        fmt::format("budget: 1\nmodel: 1b\njobs:\n  - name: a\n    gpus: \"{}\"\n    layout: tp1\n", typed);
    said(run({"check", "--budget", folder.write("b.yaml", text)}), fmt::format("write `gpus: {}`", wanted));
  }
  for (const auto& [typed, meant] : {std::pair{"1.000", "1000"},
                                     {"1.000", "1"},
                                     {"2.048", "2048"},
                                     {"64, h100", "64xh100-sxm"},
                                     {"h100:8,a100:8", "8xh100-sxm,8xa100-sxm-80gb"},
                                     {"1,024 x a100, 64 x h100", "1024xa100-sxm-80gb,64xh100-sxm"}})
    said(typed_gpus(typed), fmt::format("write `--gpus {}`", meant));
  said(typed_gpus("64xa100,32"), "names `32`");
}

TEST_CASE("a number beside others of a kind has no kind, and is multiplied with none") {
  for (const char* typed :
       {"32,8xb200", "100,28xh100", "16,16 a100", "8xb200,32", "32, h100x8", "2,048,8xb200", "32,8xb200,link=25GB/s"})
    for (const char* flag : {"--gpus", "--gpu", "--cluster"}) {
      CAPTURE(std::string(typed));
      const Ran ran = run({"--model", "8b", flag, typed});
      CHECK(ran.status == 2);
      CHECK_MESSAGE(ran.err.find("` without a kind of GPU: `") != std::string::npos, ran.err);
      CHECK(ran.err.find("write `--gpus ") == std::string::npos);
    }
  CHECK(run({"--model", "8b", "--gpus", "64, h100"}).err.find("write `--gpus 64xh100-sxm`") != std::string::npos);
}

TEST_CASE("a noun where the kind of GPU belongs is answered with the number alone") {
  for (const auto& [word, gpus] :
       {std::pair{"16xgpu", "16"}, {"16xGPUs", "16"}, {"16 x cards", "16"}, {"2x8xgpu", "16"}, {"2xnodes", "16"}}) {
    const std::string typed = word;
    CAPTURE(typed);
    const Ran ran = run({"--model", "8b", "--gpus", typed});
    CHECK(ran.status == 2);
    CHECK(ran.err.find(std::string("write `--gpus ") + gpus + "`") != std::string::npos);
    CHECK(ran.err.find("unknown GPU") == std::string::npos);
  }
}

TEST_CASE("the report on several kinds of GPU fits eighty columns, whether they hold the job or not") {
  for (const char* gpus :
       {"64xh100-sxm,64xa100-sxm-80gb", "8xa100-sxm-80gb,8xh100-sxm", "1024xa100-sxm-80gb,2048xh100-sxm"})
    for (const char* layout : {"tp4,pp2/tp4,pp2", "tp1,pp2/tp2,pp2", "tp8,pp1/tp8,pp1"}) {
      CAPTURE(gpus);
      CAPTURE(layout);
      const Ran ran = run({"estimate", "--model", "8b", "--gpus", gpus, "--layout", layout});
      CHECK_MESSAGE(ran.err.empty(), ran.err);
      std::istringstream lines(ran.out);
      for (std::string line; std::getline(lines, line);) {
        if (line.find(",cp-kind=") != std::string::npos) continue;  // words to be typed are not broken
        const auto columns = std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xC0) != 0x80; });
        CHECK_MESSAGE(columns <= 80, line);
      }
    }
}
