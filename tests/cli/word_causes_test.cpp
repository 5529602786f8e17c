// A word that a budget gained, lost or changed since its baseline is named as the cause of what it did, with all of the
// change where nothing else moved.
#include <doctest/doctest.h>

#include "check_files.hpp"
#include "cli/request/sources/request.hpp"

using namespace plan;
using namespace plan::checks;

namespace {

/// A word as two versions of a budget have it; empty: not at all.
struct Moved {
  std::string key, one, other;
};

const Moved kMoved[] = {
    {"overlap", "", "none"},
    {"overlap", "grads+params+p2p", "grads+p2p"},
    {"dispatcher", "", "alltoall"},
    {"imbalance", "", "1.5"},
    {"imbalance", "1.2", "1.4"},
    {"cuda_graphs", "", "attn"},
    {"offload", "", "optimizer"},
    {"state_formats", "", "grads=bf16"},
    {"release", "25.09", "26.04"},
    {"framework", "megatron", "none"},
    {"cluster", "dgx-h100", "dgx-h200"},
    {"model", "mixtral-8x7b", "qwen3-30b-a3b"},
    {"task", "pretrain", "lora"},
};

std::string budget(const Moved& moved, const std::string& value) {
  std::string text = "budget: 1\ngpus: 64\nseq: 4096\nglobal_batch: 512\nlayout: tp2,pp4,vp2,ep8,mb1,zero1\n";
  std::map<std::string, std::string> words = {
      {"model", "mixtral-8x7b"}, {"cluster", "dgx-h100"}, {"framework", "megatron"}, {moved.key, value}};
  for (const auto& [key, word] : words)
    if (!word.empty()) text += key + ": " + word + "\n";
  return text + "since_baseline:\n  step_time: at most -90 %\n  memory.peak: at most -90 %\n";
}

}  // namespace

TEST_CASE("a word that came, went or changed is the cause of all that moved") {
  int told = 0;
  for (const Moved& moved : kMoved)
    for (const bool forth : {true, false}) {
      const std::string &before = forth ? moved.one : moved.other, &after = forth ? moved.other : moved.one;
      CAPTURE(moved.key);
      CAPTURE(before);
      CAPTURE(after);
      const Folder folder;
      folder.write("b.yaml", budget(moved, before));
      folder.write("main.json", run({"check", "--budget", "b.yaml", "--baseline", "none", "--json"}).out);
      folder.write("b.yaml", budget(moved, after));
      const Ran ran = run({"check", "--budget", "b.yaml", "--baseline", "main.json", "--json"});
      CAPTURE(ran.err);
      REQUIRE(ran.status == 1);
      const Json report = Json::parse(ran.out);
      for (const std::string rule : {"step_time.since_baseline", "memory.peak.since_baseline"}) {
        CAPTURE(rule);
        const Json limit = limit_of(report, rule);
        const double rise = limit["now"].get<double>() - limit["before"].get<double>();
        const bool worse = rise > 0;
        bool named = false;
        for (const Json& cause : limit["causes"]) {
          if (cause["key"] != moved.key) continue;
          named = true;
          CHECK(cause["before"] == (before.empty() ? "not stated" : before));
          CHECK(cause["after"] == (after.empty() ? "not stated" : after));
          if (cause.contains("effect") && cause["effect"].is_number())
            CHECK(cause["effect"].get<double>() == doctest::Approx(rise));
        }
        CHECK((named || !worse));
        told += named && worse ? 1 : 0;
      }
    }
  CHECK(told >= static_cast<int>(std::size(kMoved)));
}

TEST_CASE("a word is the cause of what it did on the GPUs that the plan uses, where others stay idle") {
  const Folder folder;
  const auto text = [&](const char* overlap) {
    return std::string("budget: 1\nmodel: 8b\ncluster: dgx-h100\nframework: megatron\nseq: 4096\nglobal_batch: 96\n") +
           "gpus: 26\noverlap: " + overlap + "\nsince_baseline:\n  step_time: at most -90 %\n";
  };
  folder.write("b.yaml", text("grads+p2p"));
  folder.write("main.json", run({"check", "--budget", "b.yaml", "--baseline", "none", "--json"}).out);
  folder.write("b.yaml", text("none"));
  const Json report = Json::parse(run({"check", "--budget", "b.yaml", "--baseline", "main.json", "--json"}).out);
  const Json limit = limit_of(report, "step_time.since_baseline");
  CHECK(limit["now"].get<double>() > limit["before"].get<double>());
  bool named = false;
  for (const Json& cause : limit["causes"]) {
    if (cause["key"] != "overlap") continue;
    named = true;
    REQUIRE(cause["effect"].is_number());
    CHECK(cause["effect"].get<double>() > 0);
  }
  CHECK(named);
}

TEST_CASE("setting a word back is suggested where that keeps every limit") {
  const Folder folder;
  const Moved moved{"imbalance", "", "1.5"};
  const std::string limits = "since_baseline:\n  step_time: at most +2 %\n";
  const auto text = [&](const std::string& value) {
    const std::string whole = budget(moved, value);
    return whole.substr(0, whole.find("since_baseline")) + limits;
  };
  folder.write("b.yaml", text(""));
  const Ran before = run({"check", "--budget", "b.yaml", "--baseline", "none", "--json"});
  folder.write("main.json", before.out);
  folder.write("b.yaml", text("1.5"));
  const Ran after = run({"check", "--budget", "b.yaml", "--baseline", "main.json", "--json"});
  REQUIRE(after.status == 1);
  const Json report = Json::parse(after.out);
  const Json& suggestions = report["jobs"][0]["suggestions"];
  REQUIRE(!suggestions.empty());
  CHECK(suggestions[0]["restores_baseline"] == true);
  REQUIRE(suggestions[0]["changes"].size() == 1);
  CHECK(suggestions[0]["changes"][0]["key"] == "imbalance");
  CHECK(suggestions[0]["changes"][0]["before"] == "1.5");
  CHECK(suggestions[0]["changes"][0]["after"] == "not stated");
  CHECK(suggestions[0]["step_time_s"] == Json::parse(before.out)["jobs"][0]["plan"]["best"]["step_time_s"]);
}
