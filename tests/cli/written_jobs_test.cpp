// Jobs of every kind under every framework that plan writes for: what is written reads back at the same memory and
// time, and what is not written is refused for a reason that names what is in the way.
#include <cmath>
#include <map>

#include "check_files.hpp"
#include "cli/launch/launch.hpp"
#include "planner/rules/frameworks.hpp"

using namespace plan;
using namespace plan::checks;
namespace fs = std::filesystem;

namespace {

struct Problem12 {
  const char* name;
  std::vector<std::string> words;    ///< model, GPUs, training
  std::vector<std::string> layouts;  ///< in the words of frameworks with pipelines, and of those without
};

const std::vector<Problem12>& problems() {
  static const std::vector<Problem12> kProblems = {
      {"one node", {"--model", "llama3-8b", "--gpus", "8"}, {"tp2,pp1,mb1", "tp1,pp1,mb1,zero3"}},
      {"tensor", {"--model", "llama3-70b", "--gpus", "64"}, {"tp8,cp1,pp1,mb1,recompute=full"}},
      {"pipeline",
       {"--model", "llama3-70b", "--gpus", "64"},
       {"tp4,cp1,pp4,vp1,mb1,zero1", "tp4,cp1,pp4,vp5,mb1,zero1"}},
      {"context",
       {"--model", "llama3-8b", "--gpus", "64", "--seq", "32768", "--global-batch", "64"},
       {"tp2,cp4,pp1,mb1,recompute=full", "tp1,cp4,pp1,mb1,zero3,recompute=full"}},
      {"interleaved", {"--model", "llama3-405b", "--gpus", "1024"}, {"tp8,cp1,pp8,mb1,zero1,recompute=full"}},
      {"fully sharded",
       {"--model", "llama3-70b", "--gpus", "128", "--global-batch", "512"},
       {"tp1,cp1,pp1,mb1,zero3,recompute=full", "tp1,cp1,pp1,mb1,zero2,recompute=full"}},
      {"experts", {"--model", "mixtral-8x7b", "--gpus", "64"}, {"tp2,cp1,pp1,ep8,etp1,mb1", "tp1,cp1,pp1,ep8,mb1"}},
      {"fine experts",
       {"--model", "qwen3-30b-a3b", "--gpus", "64"},
       {"tp1,cp1,pp2,ep8,etp1,mb1", "tp1,cp1,pp1,ep8,etp1,mb1,recompute=full"}},
      {"prediction layers",
       {"--model", "deepseek-v3", "--gpus", "1024", "--global-batch", "4096"},
       {"tp1,cp1,pp16,ep64,etp1,mb1,zero1,recompute=full", "tp2,cp1,pp16,ep32,etp1,mb1,zero1,recompute=full"}},
      {"fp8", {"--model", "llama3-70b", "--gpus", "128", "--precision", "fp8"}, {"tp4,cp1,pp2,mb1", "tp4,cp1,pp1,mb1"}},
      {"adapters",
       {"--model", "llama3-8b", "--gpus", "16", "--task", "lora", "--lora-rank", "32", "--global-batch", "64"},
       {"tp2,cp1,pp1,mb1", "tp1,cp1,pp1,mb1,zero3"}},
      {"offload",
       {"--model", "llama3-70b", "--gpus", "32", "--offload", "optimizer"},
       {"tp8,cp1,pp1,mb1,zero1,recompute=full", "tp1,cp1,pp1,mb1,zero3,recompute=full"}},
  };
  return kProblems;
}

/// Files that are overrides of a recipe leave model and GPUs to whoever reads them.
bool leaves_model_open(const std::string& format) {
  for (const char* one : {"megatron-bridge", "verl", "nemo-rl", "ms-swift", "llama-factory"})
    if (format == one) return true;
  return false;
}

std::string framework_of(const std::string& format) {
  return std::string(framework_row(framework_of_format(format).value()).name);
}

/// Writes, reads, and estimates the written layout for itself. False if the framework refuses it.
bool same_job(const std::string& format, const Problem12& problem, const std::string& layout) {
  const Folder folder;
  std::vector<std::string> words = {"emit", format, "-o", "run", "--layout", layout};
  words.insert(words.end(), problem.words.begin(), problem.words.end());
  const Ran ran = run(words);
  if (ran.status > 1 || !fs::exists("run")) {
    CHECK_MESSAGE((!ran.err.empty() || ran.status == 1), ran.out);
    return false;
  }
  words.insert(words.end(), {"--force", "--json"});
  const Json answer = Json::parse(run(words).out);
  const std::string written = answer["layout"];
  std::vector<std::string> from = {"estimate"},
                           own = {"estimate", "--layout", written, "--framework", framework_of(format)};
  for (const auto& entry : fs::directory_iterator("run")) from.insert(from.end(), {"--from", entry.path().string()});
  // A strategy file holds the layout alone.
  const std::size_t open = format == "galvatron" ? problem.words.size() : leaves_model_open(format) ? 4 : 0;
  from.insert(from.end(), problem.words.begin(), problem.words.begin() + static_cast<std::ptrdiff_t>(open));
  own.insert(own.end(), problem.words.begin(), problem.words.end());
  for (const std::string one : answer.value("switches", Json::array())) {
    const std::size_t blank = one.find(' ');
    own.insert(own.end(), {one.substr(0, blank), one.substr(blank + 1)});
  }
  const Json read = run_json(from), planned = run_json(own);
  REQUIRE_MESSAGE(read.contains("best"), run(from).err);
  REQUIRE_MESSAGE(planned.contains("best"), run(own).err);
  const double time = planned["best"]["step_time_s"], read_time = read["best"]["step_time_s"];
  CHECK(std::abs(read_time / time - 1) < 0.001);
  const double peak = planned["best"]["memory"]["peak_bytes"], got = read["best"]["memory"]["peak_bytes"];
  CHECK(std::abs(peak - got) < 0.1 * 1024 * 1024 * 1024);
  CHECK(read["inputs"]["precision"]["value"] == planned["inputs"]["precision"]["value"]);
  // NeMo-RL's file lies over one of its own, which is not written.
  CHECK_MESSAGE((format == "nemo-rl" || read.value("unused", Json::array()).empty()), read.dump());
  return true;
}

}  // namespace

TEST_CASE("twelve jobs and every framework: read back at the same memory and time, or refused") {
  std::map<std::string, int> written;
  for (const std::string& format : emit_words()) {
    if (format == "torchtune") continue;  // states in bf16 alone: tests/cli/adapters_test.cpp
    CAPTURE(format);
    for (const Problem12& problem : problems()) {
      CAPTURE(std::string(problem.name));
      bool done = false;
      for (const std::string& layout : problem.layouts) {
        CAPTURE(layout);
        done = done || same_job(format, problem, layout);
      }
      written[format] += done ? 1 : 0;
    }
    MESSAGE(format << ": " << written[format] << " of 12");
  }
  for (const auto& row : written)
    CHECK_MESSAGE(row.second >= (framework_of(row.first) == "megatron" ? 8
                                 : row.first == "galvatron"            ? 3
                                                                       : 4),
                  row.first);
  CHECK(written["megatron-lm"] >= 11);  // adapters are another tool's
}

TEST_CASE("a plan, the same asked of Megatron, and the files written of it are one job at one time") {
  for (const std::vector<std::string>& job : std::vector<std::vector<std::string>>{
           {"--model", "deepseek-v3", "--gpus", "2048", "--cluster", "h800"},
           {"--model", "deepseek-v3", "--gpus", "2048", "--precision", "fp8"},
           {"--model", "qwen3-235b-a22b", "--gpus", "256"},
           {"--model", "qwen3-30b-a3b", "--gpus", "16"},
           {"--model", "gpt-oss-120b", "--gpus", "64", "--gpu", "gb200"},
           {"--model", "mixtral-8x22b", "--gpus", "64", "--gpu", "a100-sxm-80gb"},  // no DeepEP there
           {"--model", "llama3-70b", "--gpus", "64"}}) {
    std::string words;
    for (const std::string& word : job) words += word + " ";
    CAPTURE(words);
    const Json any = run_json(job);
    REQUIRE(any["runs_on"][0] == "megatron");
    std::vector<std::string> named = job;
    named.insert(named.end(), {"--framework", "megatron"});
    const Json megatron = run_json(named);
    CHECK(megatron["best"]["step_time_s"] == any["best"]["step_time_s"]);
    CHECK(megatron["best"]["layout"] == any["best"]["layout"]);
    const Folder folder;
    std::vector<std::string> emit = {"emit", "megatron-lm", "-o", "run"};
    emit.insert(emit.end(), job.begin(), job.end());
    REQUIRE(run(emit).status == 0);
    std::vector<std::string> from = {"estimate"};
    for (const auto& entry : fs::directory_iterator("run")) from.insert(from.end(), {"--from", entry.path().string()});
    for (std::size_t i = 0; i + 1 < job.size(); ++i)
      if (job[i] == "--cluster" || job[i] == "--gpu") from.insert(from.end(), {job[i], job[i + 1]});
    if (job.size() == 4) from.insert(from.end(), {"--cluster", "dgx-h100"});
    const Json read = run_json(from);
    REQUIRE(read.contains("best"));
    const double time = any["best"]["step_time_s"], written = read["best"]["step_time_s"];
    CHECK(std::abs(written / time - 1) < 0.001);
    const double peak = any["best"]["memory"]["peak_bytes"], got = read["best"]["memory"]["peak_bytes"];
    CHECK(std::abs(got / peak - 1) < 0.002);
  }
}
