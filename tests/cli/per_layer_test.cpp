// `--per-layer`: what its note names is what `plan estimate` prices and what Galvatron's file holds.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "check_files.hpp"

using namespace plan;
using namespace plan::checks;
using nlohmann::json;

namespace {

std::vector<std::string> with(std::vector<std::string> words, const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::string note_of(const json& report) {
  for (const json& note : report["notes"])
    if (note["code"] == "per_layer") return note["text"];
  return "";
}

}  // namespace

TEST_CASE("per layer: the layout of the note is priced and written as it is there") {
  const Folder folder;
  const std::vector<std::string> job = {"--model", "gpt3-13b", "--gpus",         "16", "--gpu", "a100-sxm-40gb",
                                        "--seq",   "4096",     "--global-batch", "64"};
  const Ran found = run(with({"--json", "--per-layer"}, job));
  REQUIRE_MESSAGE(found.status == 0, found.err);
  const json report = json::parse(found.out);
  const std::string text = note_of(report), mark = "--layout ";
  REQUIRE(text.find(mark) != std::string::npos);
  const std::size_t start = text.find(mark) + mark.size();
  const std::string layout = text.substr(start, text.find_first_of("` ", start) - start);
  const Ran priced = run(with({"estimate", "--json", "--layout", layout}, job));
  REQUIRE_MESSAGE(priced.status == 0, priced.err);
  CHECK(json::parse(priced.out)["best"]["step_time_s"].get<double>() < report["fastest"]["step_time_s"].get<double>());
  const json best = json::parse(priced.out)["best"];
  CHECK(report["per_layer"]["best"]["layout"] == best["layout"]);
  CHECK(report["per_layer"]["best"]["step_time_s"] == best["step_time_s"]);
  CHECK(report["per_layer"]["best"]["layout"]["runs"].size() > 1);
  const Ran written = run(with({"emit", "galvatron", "-o", "a", "--layout", layout}, job));
  CHECK_MESSAGE(written.status == 0, written.err);
  // Without the word nothing else changes.
  json plain = json::parse(run(with({"--json"}, job)).out), added = report;
  for (json* one : {&plain, &added}) one->erase("notes"), one->erase("per_layer");
  CHECK(plain == added);
}

TEST_CASE("per layer: where no such layers run, the word is refused") {
  const std::vector<std::string> job = {"--model", "llama2-7b", "--gpus", "8", "--per-layer"};
  CHECK(run(with(job, {"--framework", "megatron-lm"})).err.find("Galvatron alone") != std::string::npos);
  CHECK(run(with(job, {"--objective", "memory"})).err.find("--per-layer") != std::string::npos);
}

TEST_CASE("per layer: a dozen stages with near choices end, and what was left is said") {
  // Of 12 stages of 4 layers whose choices are nearly as fast, no bound cuts off enough: followed one by one they took
  // more than an hour before their number was limited.
  const Ran ran = run({"--model", "korthikanti-22b", "--gpus", "512", "--per-layer", "--json"});
  REQUIRE_MESSAGE(ran.status == 0, ran.err);
  CHECK(json::parse(ran.out)["per_layer"]["exact"] == false);
}
