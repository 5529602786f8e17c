// What the search turns on by itself: said in every format, typed by hand it gives the same numbers, and the files that
// are written hold it.
#include <doctest/doctest.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>

#include "check_files.hpp"
#include "cli/request/flags/options.hpp"
#include "cli/request/resolve.hpp"
#include "planner/answer/layout_text.hpp"
#include "planner/planner.hpp"

using namespace plan;

namespace {

using Words = std::vector<std::string>;

Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Words words_of(const std::vector<std::string>& switches) {
  Words words;
  for (const std::string& one : switches) {
    const std::size_t blank = one.find(' ');
    words = words + Words{one.substr(0, blank), one.substr(blank + 1)};
  }
  return words;
}

bool says(const std::string& text, const std::string& words) { return text.find(words) != std::string::npos; }

/// Long words of a report without the ends of its lines.
std::string unwrapped(const std::string& text) { return std::regex_replace(text, std::regex("\n +"), " "); }

/// All files of a folder.
std::string text_of(const char* folder) {
  std::string text;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream file(entry.path());
    text.append(std::istreambuf_iterator<char>(file), {});
  }
  return text;
}

/// The files that Megatron is started with.
std::string written(const Words& job) {
  const checks::Folder folder;
  const checks::Ran ran = checks::run(Words{"emit", "megatron-lm", "-o", "a"} + job);
  CHECK_MESSAGE(ran.status == 0, ran.err);
  return text_of("a");
}

}  // namespace

TEST_CASE("switches that the search turned on give the same layout the same numbers when they are typed") {
  const std::vector<Words> jobs = {
      {"--model", "qwen3-30b-a3b", "--gpus", "4096"},
      {"--model", "mixtral-8x7b", "--gpus", "4096", "--framework", "megatron"},
      {"--model", "llama3-70b", "--gpus", "8", "--framework", "megatron"},
      {"--model", "llama3-70b", "--gpus", "4", "--gpu", "b200", "--framework", "megatron"}};
  int graphs = 0, offloaded = 0;
  for (const Words& job : jobs) {
    CAPTURE(fmt::format("{}", fmt::join(job, " ")));
    const Result<Plan> plan = search(resolve_problem(parse_arguments(job).value()).value());
    if (!plan) continue;
    std::vector<const Estimate*> all = {&plan->best, &*plan->fastest};
    for (const RunnerUp& runner : plan->runners_up) all.push_back(&runner.estimate);
    for (const Estimate* one : all) {
      Words typed = {"estimate"};
      typed = typed + job;
      for (std::size_t i = 0; i + 1 < typed.size(); ++i)
        if (typed[i] == "--gpus") typed[i + 1] = std::to_string(plan->problem.gpus);
      if (plan->problem.framework != Framework::Any && !says(fmt::format("{}", fmt::join(job, " ")), "--framework"))
        continue;  // of another framework's software
      const checks::Json again =
          checks::run_json(typed + words_of(one->switches) + Words{"--layout", layout_flag(one->layout)});
      CHECK(again["best"]["step_time_s"] == one->step_time.value);
      CHECK(again["best"]["memory"]["peak_bytes"] == one->peak.value);
    }
    const std::string human = unwrapped(checks::run(job).out), json = checks::run(job + Words{"--json"}).out;
    for (const std::string& one : plan->best.switches) {
      std::string input = one.substr(2, one.find(' ') - 2);  // among what is taken by default, by the input's name
      std::replace(input.begin(), input.end(), '-', '_');
      CHECK(says(human, input + one.substr(one.find(' '))));
      CHECK(says(human, "(the search)"));
      CHECK(says(json, one));
      graphs += says(one, "graphs"), offloaded += says(one, "offload");
      if (plan->problem.framework != Framework::Megatron) continue;  // the writer's own software may need none
      const std::string script = written(job);
      for (const auto& [word, flag] :
           std::vector<std::pair<std::string, std::string>>{{"graphs", "--cuda-graph-impl"},
                                                            {"optimizer", "--optimizer-cpu-offload"},
                                                            {"core_attn", "--fine-grained-activation-offloading"}})
        if (says(one, word)) CHECK(says(script, flag));
    }
    const std::string fixed = checks::run(job + Words{"--cuda-graphs", "none", "--offload", "none"}).out;
    CHECK_FALSE(says(fixed, "switched_on"));
    CHECK_FALSE(says(fixed, "turned on"));
  }
  CHECK(graphs >= 1);
  CHECK(offloaded >= 1);
}

TEST_CASE("files without a key for a switch of the search are written without it") {
  const Words job = {"--model", "qwen3-30b-a3b", "--gpus", "4096", "--gpu", "h100-sxm"};
  const std::string asked = unwrapped(checks::run(job + Words{"--framework", "megatron"}).out);
  REQUIRE(says(asked, "by default: cuda_graphs"));
  REQUIRE(says(asked, "(the search)"));
  const checks::Folder folder;
  const checks::Ran ran = checks::run(Words{"emit", "ms-swift", "-o", "a"} + job);
  CHECK(ran.status == 0);
  CHECK(says(unwrapped(ran.err), "ms-swift takes no plan with `--cuda-graphs"));
  CHECK_FALSE(says(ran.err, "turned on"));
  CHECK_FALSE(says(text_of("a"), "graph"));
}

TEST_CASE("where the hosts hold what GPUs alone could, the step without them is named, and is what it takes") {
  const Words job = {"--model", "qwen3-8b", "--gpus", "4",    "--gpu",          "a100-sxm-40gb",
                     "--task",  "finetune", "--seq",  "4096", "--global-batch", "64"};
  const auto note = [](const checks::Json& plan) {
    for (const checks::Json& one : plan["notes"])
      if (one["code"] == "without_hosts") return one["text"].get<std::string>();
    return std::string();
  };
  const checks::Json plan = checks::run_json(job), without = checks::run_json(job + Words{"--offload", "none"});
  REQUIRE(plan["best"]["layout"].is_object());
  const std::string said = note(plan);
  REQUIRE(said.starts_with("`--offload none` leaves nothing to the hosts: "));
  const double seconds = without["fastest"]["step_time_s"].get<double>();
  CHECK(std::stod(said.substr(said.find(": ") + 2)) == doctest::Approx(seconds).epsilon(1e-3));
  CHECK(seconds > 1.1 * plan["fastest"]["step_time_s"].get<double>());
  CHECK(note(without).empty());
}

TEST_CASE("GPUs stay idle for what the hosts hold only where all of them are slower with the hosts, too") {
  int offloaded = 0;
  for (const Words& job : {Words{"--model", "405b", "--gpus", "192", "--gpu", "h100"},
                           {"--model", "405b", "--gpus", "272", "--gpu", "h100"},
                           {"--model", "405b", "--gpus", "72", "--gpu", "gb200"},
                           {"--model", "llama2-70b", "--gpus", "36", "--gpu", "a100-sxm-40gb"},
                           {"--model", "gpt3-175b", "--gpus", "56", "--gpu", "h100"}}) {
    CAPTURE(fmt::format("{}", fmt::join(job, " ")));
    const Result<Plan> plan = search(resolve_problem(parse_arguments(job).value()).value());
    REQUIRE(plan);
    Words hosts;
    for (const std::string& one : plan->fastest->switches)
      if (says(one, "--offload ")) hosts = words_of({one});
    offloaded += !hosts.empty();
    if (hosts.empty() || plan->problem.gpus == std::stoi(job[3])) continue;
    const Result<Plan> all = search(resolve_problem(parse_arguments(job + hosts).value()).value());
    if (all && all->best.fits == Fits::Yes && all->problem.gpus == std::stoi(job[3]))
      CHECK(1.03 * plan->fastest->step_time <= all->fastest->step_time);
  }
  CHECK(offloaded >= 3);
}
