// Random command lines, from every flag of the table and words that go with it or do not: each ends with a documented
// status, and no number is outside physics. PLAN_TEST_SCALE=30 runs 10,000.
#include <doctest/doctest.h>

#include <cstdlib>
#include <random>

#include "cli/request/table/option_table.hpp"
#include "tests/fuzz/targets.hpp"

using namespace plan;

namespace {

using Words = std::vector<std::string>;

std::string one_of(const Words& words, std::mt19937& random) { return words[random() % words.size()]; }

const Words kValues = {"0",  "1",       "-1", "2.5", "8k",   "64",       "1e308",          "5.",  "nan",      "",
                       "8b", "mixtral", "x",  "tp2", "70 B", "h100-sxm", "v100-sxm2-16gb", "fp8", "megatron", "60d",
                       "=",  "@"};
const Words kAxes = {"tp2",
                     "tp3",
                     "pp2",
                     "pp4",
                     "vp2",
                     "dp8",
                     "dp3",
                     "cp2",
                     "ep2",
                     "etp1",
                     "zero0",
                     "zero1",
                     "zero3",
                     "shard4",
                     "mb1",
                     "mb7",
                     "sp=off",
                     "cp-kind=ring",
                     "layers=16+16",
                     "layers=1+1",
                     "layers=99",
                     "schedule=zb-h1",
                     "schedule=gpipe",
                     "recompute=full",
                     "recompute=none",
                     "recompute=full-3",
                     "layers=7+8+8+9",
                     "tp0",
                     "pp-2",
                     "ep999999"};

std::string layout(std::mt19937& random) {
  std::string out;
  for (auto left = 1 + random() % 4; left > 0; --left) out += (out.empty() ? "" : ",") + one_of(kAxes, random);
  return out;
}

std::string command(std::mt19937& random) {
  Words words = {one_of({"estimate", "estimate", "explain", "emit", "check", "formula", "show", "list"}, random)};
  if (words[0] == "explain") words.push_back(one_of({"memory", "step_time", "activations", "flops", "x"}, random));
  if (words[0] == "emit") words.push_back(one_of({"megatron-lm", "torchtitan", "deepspeed", "maxtext", "x"}, random));
  if (words[0] == "formula") words.push_back(one_of({"mfu", "states", "x"}, random));
  if (words[0] == "show") words.push_back(one_of({"formula", "model", "gpu"}, random)), words.emplace_back("mfu");
  const bool job = words[0] == "estimate" || words[0] == "explain" || words[0] == "emit";
  if (job) {
    words.insert(words.end(), {"--model", one_of({"8b", "mixtral", "deepseek-v3", "gpt2", "nemotron-h-8b"}, random)});
    words.insert(words.end(), {"--gpus", one_of({"1", "7", "8", "64", "1000", "16777216", "0"}, random)});
    words.insert(words.end(), {"--layout", layout(random)});
  }
  for (auto left = random() % 3; left > 0; --left) {
    const Option& option = options()[random() % options().size()];
    words.emplace_back(option.flag);
    if (option.on == nullptr)
      words.push_back(option.words != nullptr && random() % 3 > 0 ? one_of(option.words(), random)
                                                                  : one_of(kValues, random));
  }
  if (random() % 2 == 0) words.emplace_back("--json");
  std::string text;
  for (const std::string& word : words) text += word + "\n";
  return text + "\nbudget: 1\nmodel: 8b\ngpus: 64\nlayout: " + layout(random) +
         "\nlimits:\n  memory.peak: at most 72 GiB\n";
}

}  // namespace

TEST_CASE("random command lines end as documented, with numbers inside physics") {
  const char* scale = std::getenv("PLAN_TEST_SCALE");
  const int runs = static_cast<int>(330 * (scale != nullptr ? std::atof(scale) : 1));
  std::mt19937 random(20261122);
  for (int run = 0; run < runs; ++run) {
    const std::string text = command(random);
    CAPTURE(text);
    std::string broken;
    try {
      fuzz::whole_command(text);
    } catch (const fuzz::Broken& what) { broken = what.what; }
    CHECK(broken == "");
  }
}
