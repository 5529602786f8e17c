// The real commands in this process: what must hold of every screen, whatever the numbers are.
#include <doctest/doctest.h>

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "check_files.hpp"
#include "cli/commands/commands.hpp"
#include "cli/launch/launch.hpp"
#include "temporary_folder.hpp"

using namespace plan;
using Json = nlohmann::ordered_json;

namespace {

checks::Ran run_line(const std::string& line) {
  std::vector<std::string> words;
  std::istringstream in(line);
  for (std::string word; in >> word;) words.push_back(word);
  Streams streams;
  const int status = run_command_line(words, streams);
  return {status, streams.out, streams.err};
}

int widest(const std::string& text) {
  int most = 0;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) most = std::max(most, display_width(line));
  return most;
}

const std::string kAnswers[] = {
    "--model 405b --gpus 512 --layout tp8,pp16,cp1,zero1 --tokens 15.6T",
    "--model 8b --gpus 16 --pareto --threads 2",
    "--model 8b --gpus 7 --framework megatron",
    "--model mixtral-8x7b --gpus 64 --gpu a100-sxm-80gb --layout tp2,pp4",
    "--model deepseek-v3 --gpus 1024 --cluster h800 --layout tp1,cp1,pp16,ep64,mb1 --precision fp8-blockwise",
    "--model gpt3-175b --gpus 1024 --gpu a100-sxm-80gb --layout tp8,mb1",
    "--model 8b --gpus 8 --task lora --precision bf16",
    "estimate --model 405b --gpus 16384 --layout tp8,pp16,vp8",
    "estimate --model 405b --gpus 16384 --seq 128k --global-batch 128 --layout tp8,cp16,pp16",
    "estimate --model 1t --gpus 3072 --gpu a100-sxm-80gb --layout tp8,pp64,recompute=full",
    "explain activations --model 405b --gpus 16384 --layout tp8,pp16,vp8",
    "explain tp --model 405b --gpus 16384 --layout tp8,pp16,vp8",
    "explain mfu --model 8b --gpus 8 --layout tp2",
    "list gpus",
    "list clusters",
    "list formulas",
};

/// Requests that nothing satisfies, and what stops them.
const std::string kRefused[] = {
    "--model 8b --gpus 1 --gpu a100-sxm-40gb --framework megatron", "--model 405b --gpus 1000 --layout tp8,pp5",
    "--model 8b --gpus 64 --global-batch 1023 --layout dp64",       "--model 8b --gpus 8 --seq 8191 --layout cp2",
    "estimate --model 8b --gpus 8 --seq 8191 --layout cp2",         "estimate --model 8b --gpus 8 --layout tp3",
};

}  // namespace

TEST_CASE("answers keep to 80 columns, and reports to 48 lines") {
  for (const std::string& line : kAnswers) {
    CAPTURE(line);
    const checks::Ran ran = run_line(line);
    CHECK(ran.status <= kNo);
    CHECK(ran.err.empty());
    CHECK_FALSE(ran.out.empty());
    CHECK(widest(ran.out) <= 80);
    const bool report = line.find("--model") != std::string::npos;
    const bool long_list = line.find("--pareto") != std::string::npos;
    if (report && !long_list) CHECK(std::count(ran.out.begin(), ran.out.end(), '\n') <= 48);
    CHECK(ran.out.find(" \n") == std::string::npos);
    CHECK(ran.out.find("nan") == std::string::npos);
  }
}

TEST_CASE("no line for people is wider than 80 columns, but for a word that cannot be broken") {
  std::vector<std::string> lines(std::begin(kAnswers), std::end(kAnswers));
  lines.insert(lines.end(), std::begin(kRefused), std::end(kRefused));
  for (const char* what : {"models", "gpus", "clusters", "frameworks", "formulas", "rules", "terms", "limits"})
    lines.push_back(std::string("list ") + what);
  std::istringstream terms(run_line("list terms --names").out), formulas(run_line("list formulas --names").out);
  for (std::string name; std::getline(terms, name);)
    lines.push_back("explain " + name + " --model 8b --gpus 8 --layout tp2");
  for (std::string name; std::getline(formulas, name);) lines.push_back("show formula " + name);
  for (const char* job : {"--model llama3-70b --gpus 64", "--model qwen3-30b-a3b --gpus 64"}) {
    lines.push_back(std::string("next ") + job);

    lines.push_back(std::string("compare best tp8 ") + job);
  }
  lines.emplace_back("sweep --model 8b --gpus 8..64");
  const TemporaryFolder folder;
  for (const std::string& format : emit_words())
    for (const char* job : {"--model llama3-70b --gpus 64", "--model qwen3-30b-a3b --gpus 64 --seq 131072"})
      lines.push_back(fmt::format("emit {} {} -o {} --force", format, job, folder.at(format)));
  for (const std::string& line : lines) {
    CAPTURE(line);
    const checks::Ran ran = run_line(line);
    std::istringstream in(ran.out + "\n" + ran.err);
    for (std::string row; std::getline(in, row);) {
      if (display_width(row) <= 80) continue;
      const std::size_t first = row.find_first_not_of(' ');
      CHECK_MESSAGE(row.find(' ', first) == std::string::npos, row);
    }
  }
}

TEST_CASE("a no says why and what would work, and nothing stands on standard output") {
  for (const std::string& line : kRefused) {
    CAPTURE(line);
    const checks::Ran ran = run_line(line);
    CHECK(ran.status == kNo);
    CHECK(ran.out.empty());
    CHECK(ran.err.find("error: ") == 0);
    CHECK(ran.err.find("help: smallest changes that work") != std::string::npos);
    CHECK(run_line(line + " --json").status == kNo);
  }
}

TEST_CASE("the machine-readable report adds up and does not depend on threads") {
  for (const char* line : {"--model 8b --gpus 16 --json --pareto", "--model mixtral-8x7b --gpus 32 --json --layout tp2",
                           "estimate --model 405b --gpus 16384 --layout tp8,pp16,vp8 --json"}) {
    CAPTURE(line);
    const checks::Ran one = run_line(std::string(line) + " --threads 1");
    CHECK(one.out == run_line(std::string(line) + " --threads 3").out);
    const Json json = Json::parse(one.out);
    std::vector<Json> estimates = {json["best"]};
    for (const Json& runner : json["runners_up"]) estimates.push_back(runner);
    for (const Json& estimate : estimates) {
      double sum = 0;
      for (const auto& [term, value] : estimate["terms_s"].items()) sum += value.get<double>();
      CHECK(sum == doctest::Approx(estimate["step_time_s"].get<double>()).epsilon(1e-9));
      std::int64_t peak = 0;
      for (const Json& stage : estimate["memory"]["stages"]) {
        std::int64_t total = 0;
        for (const auto& [key, value] : stage.items())
          if (key != "stage" && key != "total_bytes") total += value.get<std::int64_t>();
        CHECK(total == stage["total_bytes"].get<std::int64_t>());
        peak = std::max(peak, total);
      }
      CHECK(peak == estimate["memory"]["peak_bytes"].get<std::int64_t>());
      const Json& layout = estimate["layout"];
      CHECK(layout["stage_layers"].size() == layout["pp"].get<std::size_t>());
    }
    std::int64_t rejected = 0;
    for (const Json& row : json["search"]["rejected"])
      if (row["reason"] != "does_not_fit") rejected += row["count"].get<std::int64_t>();
    CHECK(json["search"]["considered"] == json["search"]["legal"].get<std::int64_t>() + rejected);
  }
}

TEST_CASE("the layout that a plan found estimates to the same numbers") {
  const Json found = Json::parse(run_line("--model 8b --gpus 16 --json").out);
  const Json& l = found["best"]["layout"];
  std::string flag = "tp" + l["tp"].dump() + ",cp" + l["cp"].dump() + ",pp" + l["pp"].dump() + ",vp" + l["vp"].dump() +
                     ",dp" + l["dp"].dump() + ",zero" + l["zero"].dump() + ",shard" + l["shard"].dump() + ",mb" +
                     l["micro_batch"].dump();
  flag += ",schedule=" + l["schedule"].get<std::string>() + ",recompute=" + l["recompute"].get<std::string>() +
          ",cp-kind=" + l["cp_kind"].get<std::string>() + ",sp=" + (l["sequence_parallel"].get<bool>() ? "on" : "off");
  const Json again = Json::parse(run_line("estimate --model 8b --gpus 16 --json --layout " + flag).out);
  CHECK(again["best"]["step_time_s"] == found["best"]["step_time_s"]);
  CHECK(again["best"]["memory"] == found["best"]["memory"]);
}
