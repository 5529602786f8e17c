// `plan next` as a user calls it: the runs that it proposes, made up here under a known truth and appended as
// `plan diagnose` appends them, leave an interval about as narrow as it said, around that truth.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>

#include "check_files.hpp"
#include "cli/terminal/format.hpp"
#include "page_tags.hpp"

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

TEST_CASE("plan next: screen and Markdown have the figures of the JSON") {
  const Json json = run_json(with_job({"next"}));
  const std::string screen = run(with_job({"next"})).out,
                    markdown = run(with_job({"next", "--format", "markdown"})).out;
  const auto tables = pages::markdown_tables(markdown);
  REQUIRE(tables.size() == 1);
  REQUIRE(tables[0].size() == json["runs"].size() + 1);
  std::string words;
  for (const char c : screen)
    if (c != ' ' && c != '\n') words += c;
  const auto says = [&](std::string text) {
    std::erase(text, ' ');
    CAPTURE(text);
    CHECK(words.find(text) != std::string::npos);
  };
  const auto interval = [](const Json& figure) {
    return fmt::format("{} to {}", seconds_text(Seconds(figure["step_time_low_s"].get<double>())),
                       seconds_text(Seconds(figure["step_time_high_s"].get<double>())));
  };
  const auto half = [](const Json& figure) {
    const double low = figure["step_time_low_s"], high = figure["step_time_high_s"];
    CHECK(figure["half_width_ratio"].get<double>() == doctest::Approx((high - low) / (high + low)));
    CHECK(low < figure["step_time_s"].get<double>());
    CHECK(high > figure["step_time_s"].get<double>());
    return fmt::format("± {:.1f} %", 100 * (high - low) / (high + low));
  };
  int open = 0;
  for (const Json& other : json["against"]) {
    open += other["ratio_low"].get<double>() < 1 ? 1 : 0;
    CHECK(other["ratio_low"].get<double>() < other["ratio"].get<double>());
    CHECK(other["ratio_high"].get<double>() > other["ratio"].get<double>());
  }
  CHECK(json["undecided"] == open);
  const std::string now = fmt::format("takes {}: {}", interval(json["now"]), half(json["now"])),
                    beside = fmt::format("{} of the {} layouts beside it may be faster", open, json["against"].size());
  for (const std::string& sentence : {now, beside}) {
    says(sentence);
    CHECK(markdown.find(sentence) != std::string::npos);
  }
  double before = json["now"]["half_width_ratio"];
  for (std::size_t i = 0; i < json["runs"].size(); ++i) {
    const Json& one = json["runs"][i];
    const int gpus = one["gpus"];
    const double minutes = one["minutes"], hours = one["gpu_hours"], left = one["left_ratio"];
    CHECK(hours == doctest::Approx(minutes / 60 * gpus));
    CHECK(minutes * 60 >= one["steps"].get<int>() * one["step_time_s"].get<double>());
    CHECK(one["then"]["half_width_ratio"].get<double>() <= before);
    before = one["then"]["half_width_ratio"];
    says(fmt::format("{}  {} steps in {:.0f} min on {} GPUs, {:.1f} GPU-hours", i + 1, one["steps"].get<int>(), minutes,
                     gpus, hours));
    says(fmt::format("then {}, and {:.0f} % of the doubt is left", half(one["then"]), 100 * left));
    const std::string flags = fmt::format("--model 8b --gpus {} --gpu h100-sxm --seq 8192 --global-batch {}", gpus,
                                          one["global_batch"].get<int>()),
                      layout = "--layout " + one["layout"].get<std::string>();
    const std::string model = run_json({"show", "model", "8b"})["name"];
    const std::string named = "--model " + model + flags.substr(10);
    says(named), says(layout);
    CHECK(tables[0][i + 1] == std::vector<std::string>{fmt::format("`{} {}`", named, layout), fmt::format("{}", gpus),
                                                       fmt::format("{:.0f}", minutes), fmt::format("{:.1f}", hours),
                                                       half(one["then"]), fmt::format("{:.0f} %", 100 * left)});
  }
  says("Then a step takes " + interval(json["runs"].back()["then"]));
}
