// Whatever a refusal suggests can be typed, and works; what is left over is divided by the nearest change.
#include <doctest/doctest.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <random>
#include <regex>

#include "check_files.hpp"

using namespace plan;
using checks::Ran;

namespace {

using Words = std::vector<std::string>;

/// The flags of each change that is in a refusal, a line each, as words.
std::vector<Words> suggested(const std::string& text) {
  static const std::regex line(R"((?:^|\n) {8}(--\S+ \S+(?:(?: |\n {12})--\S+ \S+)*)(?=[ \n]))"), word(R"(\S+)");
  std::vector<Words> found;
  for (std::sregex_iterator at(text.begin(), text.end(), line), end; at != end; ++at) {
    const std::string flags = (*at)[1];
    found.emplace_back();
    for (std::sregex_iterator part(flags.begin(), flags.end(), word); part != end; ++part)
      found.back().push_back(part->str());
  }
  return found;
}

/// The command with each flag of a change in place of its own, or behind the others.
Words changed(Words command, const Words& flags) {
  for (std::size_t i = 0; i + 1 < flags.size(); i += 2) {
    const auto at = std::find(command.begin(), command.end(), flags[i]);
    if (at == command.end())
      command.insert(command.end(), {flags[i], flags[i + 1]});
    else
      *(at + 1) = flags[i + 1];
  }
  return command;
}

/// Follows every change that the refusal of a command suggests, and counts them.
std::size_t followed(const Words& command) {
  CAPTURE(fmt::format("{}", fmt::join(command, " ")));
  const std::vector<Words> changes = suggested(checks::run(command).err);
  for (const Words& flags : changes) {
    CAPTURE(fmt::format("{}", fmt::join(flags, " ")));
    const Ran ran = checks::run(changed(command, flags));
    CHECK_MESSAGE(ran.err.find("error:") == std::string::npos, ran.err);
  }
  return changes.size();
}

/// The ways of a refusal to make one flag different.
bool suggests(const Words& command, const std::string& flag, const std::string& value) {
  const std::vector<Words> changes = suggested(checks::run(command).err);
  return std::find(changes.begin(), changes.end(), Words{flag, value}) != changes.end();
}

}  // namespace

TEST_CASE("a change that a refusal suggests can be typed, and works") {
  std::size_t count = 0;
  for (const std::string asked :
       {"tp3", "tp16", "pp3,tp2", "tp2,pp2,cp3", "tp2,pp2,dp3", "tp2,pp2,mb3", "tp2,pp4,vp3", "tp2,cp2,pp2,mb1000",
        "tp2,pp2,stages=full@tp3:none", "tp2,pp2,stages=2xfull@tp16", "tp2,pp2,dp3,stages=full:none",
        "tp2,pp3,layers=10+11+11", "tp2,cp2,pp2,order=tp-cp-ep-pp-dp"})
    count += followed({"estimate", "--model", "8b", "--gpus", "16", "--framework", "megatron", "--layout", asked});
  CHECK(count > 10);
}

TEST_CASE("where a change fits for certain, no change is suggested that only may fit") {
  const Words command = {"estimate", "--model",   "70b",        "--gpus", "64",      "--layout",
                         "zero1",    "--offload", "parameters", "--task", "pretrain"};
  const std::vector<Words> changes = suggested(checks::run(command).err);
  CHECK(!changes.empty());
  for (const Words& flags : changes) {
    CAPTURE(fmt::format("{}", fmt::join(flags, " ")));
    CHECK(checks::run(changed(command, flags)).status == 0);
  }
}

TEST_CASE("so can a change of a job that is in a file") {
  const checks::Folder folder;
  std::size_t count = 0;
  for (const std::string flags : {"", "--use-tp-pp-dp-mapping", "--decoder-first-pipeline-num-layers 2",
                                  "--num-layers-per-virtual-pipeline-stage 4",
                                  "--recompute-granularity full --recompute-method block --recompute-num-layers 3"}) {
    folder.write("train.sh",
                 "torchrun --nnodes 4 --nproc-per-node 8 pretrain_gpt.py --num-layers 32 --hidden-size 4096 "
                 "--num-attention-heads 32 --seq-length 2048 --max-position-embeddings 2048 --bf16 --vocab-size 50257 "
                 "--global-batch-size 96 --micro-batch-size 1 --tensor-model-parallel-size 2 --sequence-parallel "
                 "--pipeline-model-parallel-size 4 --eval-interval 100 --train-iters 100 " +
                     flags + "\n");
    for (const auto& [flag, value] : {std::pair{"--global-batch", "50"},
                                      {"--gpus", "40"},
                                      {"--gpus", "33"},
                                      {"--layout", "mb5"},
                                      {"--layout", "pp3"},
                                      {"--layout", "cp3"}})
      count += followed({"estimate", "--from", "train.sh", flag, value});
  }
  CHECK(count > 20);
}

TEST_CASE("a batch that leaves sequences over is refused with the nearest one that does not, and with fewer GPUs") {
  std::mt19937 random(7);
  const auto any = [&](int least, int most) { return std::uniform_int_distribution<int>(least, most)(random); };
  for (int round = 0; round < 20; ++round) {
    const int dp = any(3, 60), micro_batch = any(1, 2), whole = dp * micro_batch;
    const int batch = whole * any(1, 20) + any(1, whole - 1);
    const Words command{"estimate",
                        "--model",
                        "1b",
                        "--seq",
                        "1024",
                        "--gpus",
                        std::to_string(2 * dp),
                        "--layout",
                        "tp2,mb" + std::to_string(micro_batch),
                        "--global-batch",
                        std::to_string(batch)};
    CAPTURE(fmt::format("{}", fmt::join(command, " ")));
    const int below = batch / whole * whole, above = below + whole;
    CHECK((suggests(command, "--global-batch", std::to_string(below)) ||
           suggests(command, "--global-batch", std::to_string(above))));
    CHECK(followed(command) > 0);
  }
}
