// Words as the field writes them: refused with a change that, typed in their place, is taken and means what was meant.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <random>
#include <regex>

#include "check_files.hpp"
#include "cli/request/flags/sweep_axes.hpp"
#include "cli/request/words/gpu_words.hpp"
#include "cli/request/words/layout_flag.hpp"
#include "cli/terminal/overlap_words.hpp"
#include "formulas/overlap.hpp"
#include "oracle/random_problem.hpp"
#include "presets/machines.hpp"
#include "presets/store.hpp"

using namespace plan;
using checks::Ran;

namespace {

using Words = std::vector<std::string>;

std::string shown(const Words& words) { return fmt::format("{}", fmt::join(words, " ")); }

/// The flag and the value that the first help of a refusal says to write; nothing if it says something else.
Words proposed(const std::string& err) {
  static const std::regex written(R"(write `(--\S+) ([^`]+)`)"), blanks(R"(\s+)");
  const std::string text = std::regex_replace(err, blanks, " ");
  std::smatch found;
  if (!std::regex_search(text, found, written)) return {};
  std::string value = found[2];
  if (value.front() == '\'') value = value.substr(1, value.size() - 2);
  return {found[1], value};
}

/// The command with what is wrong in it replaced by what is proposed for it.
Words mended(Words command, const std::string& wrong, const Words& change) {
  std::erase(command, change[0] == wrong ? std::string() : change[0] + "?");
  const auto at = std::find(command.begin(), command.end(), wrong);
  *at = change[0], *(at + 1) = change[1];
  return command;
}

/// Types a command with a value that no one takes, then what is proposed, and says what that was.
std::string follow(const Words& command, const std::string& wrong) {
  CAPTURE(shown(command));
  const Ran refused = checks::run(command);
  CHECK(refused.status == 2);
  const Words change = proposed(refused.err);
  REQUIRE_MESSAGE(change.size() == 2, refused.err);
  CHECK_MESSAGE(refused.err.find("1 error") == std::string::npos, refused.err);
  CHECK_MESSAGE(refused.err.find("2 errors") == std::string::npos, refused.err);
  const Ran taken = checks::run(mended(command, wrong, change));
  CHECK_MESSAGE(taken.err.find("error:") == std::string::npos, taken.err);
  return shown(change);
}

}  // namespace

TEST_CASE("a range or a list in other signs is proposed in those that a sweep takes, with the same numbers") {
  std::mt19937 random(3);
  const auto any = [&](int least, int most) { return std::uniform_int_distribution<int>(least, most)(random); };
  const auto texts = [](const std::string& text) {
    Words all;
    const Result<std::vector<SweepValue>> values = read_sweep_values("--gpus", text, false);
    REQUIRE(values);
    for (const SweepValue& value : *values) all.push_back(value.text);
    return all;
  };
  const char* const ranges[] = {"-", ":", "...", " to ", "\u2013", "->", " - ", "~"};
  const char* const lists[] = {";", "/", ", ", " ; ", "|", " and "};
  for (int round = 0; round < oracle::rounds(60); ++round) {
    const int low = any(1, 500), high = low + any(1, 4000), third = high + any(1, 4000);
    const std::string range = fmt::format("{}{}{}", low, ranges[any(0, 7)], high);
    const char* sign = lists[any(0, 5)];
    const std::string list = fmt::format("[{}{}{}{}{}]", low, sign, high, sign, third);
    for (const auto& [typed, meant] : {std::pair{range, fmt::format("{}..{}", low, high)},
                                       {fmt::format("{}..{}", high, low), fmt::format("{}..{}", low, high)},
                                       {list, fmt::format("{},{},{}", low, high, third)}}) {
      const std::string& values = typed;
      CAPTURE(values);
      const Ran refused = checks::run({"sweep", "--model", "1b", "--gpus", typed});
      CHECK(refused.status == 2);
      CHECK(shown(proposed(refused.err)) == "--gpus " + meant);
      CHECK(texts(meant).size() >= 2);
    }
  }
  CHECK(follow({"sweep", "--model", "1b", "--gpus", "8-16", "--seq", "2048"}, "--gpus") == "--gpus 8..16");
  CHECK(follow({"sweep", "--model", "1b", "--gpus", "8 16", "--seq", "2048"}, "--gpus") == "--gpus 8,16");
  CHECK(follow({"sweep", "--model", "1b", "--gpus", "8", "--inter-bandwidth", "0.5-2"}, "--inter-bandwidth") ==
        "--inter-bandwidth 0.5..2");
}

TEST_CASE("several values of a flag, where a command takes one, are said to be swept") {
  for (const auto& [flag, value] : {std::pair{"--gpus", "8..16"},
                                    {"--gpus", "8,16"},
                                    {"--seq", "2048,4096"},
                                    {"--gpu", "h100,a100"},
                                    {"--model", "1b,8b"},
                                    {"--precision", "bf16,fp8"},
                                    {"--optimizer", "adam,muon"}}) {
    Words command{"--model", "1b", "--gpus", "8", flag, value};
    const auto own = std::find(command.begin(), command.end(), flag);
    if (own - command.begin() < 4) command.erase(own, own + 2);
    CAPTURE(shown(command));
    const Ran refused = checks::run(command);
    CHECK(refused.status == 2);
    CHECK(refused.err.find(fmt::format("`plan sweep {} {}`", flag, value)) != std::string::npos);
    command.insert(command.begin(), "sweep");
    const Ran swept = checks::run(command);
    CHECK_MESSAGE(swept.status == 0, swept.err);
  }
}

TEST_CASE("a kind and a number of GPUs in any order are proposed as `--gpus` takes them") {
  std::mt19937 random(8);
  const StoreOptions store = StoreOptions::from_environment();
  for (const PresetEntry& entry : list_presets(PresetKind::Gpu, store)) {
    const int count = 1 << std::uniform_int_distribution<int>(0, 10)(random);
    Words names = entry.aliases;
    names.push_back(entry.name);
    for (const std::string& name : names)
      for (const std::string& typed :
           {fmt::format("{}x{}", count, name), fmt::format("{} {}", count, name), fmt::format("{}*{}", count, name),
            fmt::format("{} x {}", count, name), fmt::format("{}:{}", name, count), fmt::format("{} x{}", name, count),
            fmt::format("{}x{}", name, count), fmt::format("{}-{}", count, name),
            fmt::format("{} {} GPUs", count, name), fmt::format("{}x {}s", count, name)}) {
        CAPTURE(typed);
        if (typed.ends_with("s") && (load_gpu(name + "s", store) || name == "v100"))
          continue;  // no plurals: L40S, V100S
        const std::optional<CountedGpus> read = counted_gpus(typed, store);
        REQUIRE(read);
        CHECK(read->gpus == count);
        CHECK(read->kind == entry.name);
        CHECK_FALSE(read->cores);
      }
    for (const std::string& name : names) CHECK_FALSE(counted_gpus(name, store));
  }
  CHECK(counted_gpus("2x8xh100", store)->gpus == 16);
  for (const char* none : {"", "8", "x", "8x", "x8", "8xh1000000", "8x8", "h100:", "0xh100", "99999999999xh100"})
    CHECK_FALSE(counted_gpus(none, store));
  for (const char* typed : {"8xh100", "h100x8", "8 h100", "h100:8"}) {
    CHECK(follow({"--model", "1b", "--gpu", typed}, "--gpu") == "--gpus 8xh100-sxm");
    CHECK(follow({"--model", "1b", "--gpus", "8", "--gpu", typed}, "--gpu") == "--gpu h100-sxm");
  }
  CHECK(follow({"--model", "1b", "--gpus", "h100x8"}, "--gpus") == "--gpus 8xh100-sxm");
  CHECK(follow({"--model", "1b", "--gpus", "h100:8"}, "--gpus") == "--gpus 8xh100-sxm");
  CHECK(follow({"--model", "1b", "--gpus", "16 GPUs"}, "--gpus") == "--gpus 16");
  CHECK(follow({"--model", "1b", "--gpus", "2*8"}, "--gpus") == "--gpus 16");
  CHECK(follow({"--model", "1b", "--gpus", "2 nodes"}, "--gpus") == "--gpus 16");
  CHECK(follow({"--model", "1b", "--gpus", "8x NVIDIA H100 80GB HBM3"}, "--gpus") == "--gpus 8xh100-sxm");
  CHECK(follow({"--model", "1b", "--gpus", "8 H100s"}, "--gpus") == "--gpus 8xh100-sxm");
}

TEST_CASE("Cloud TPU's types count TensorCores up to v4 and for v5p, and chips of one core else") {
  const StoreOptions store = StoreOptions::from_environment();
  for (const auto& [type, chips, kind] : {std::tuple{"v5p-512", 256, "tpu-v5p"},
                                          {"v4-8", 4, "tpu-v4"},
                                          {"V4-1024", 512, "tpu-v4"},
                                          {"v3-32", 16, "tpu-v3"},
                                          {"v5litepod-256", 256, "tpu-v5e"},
                                          {"v5e-16", 16, "tpu-v5e"},
                                          {"tpu-v6e-64", 64, "tpu-v6e"}}) {
    const std::string name = type;
    CAPTURE(name);
    const std::optional<CountedGpus> read = counted_gpus(type, store);
    REQUIRE(read);
    CHECK(read->gpus == chips);
    CHECK(read->kind == kind);
    const bool cores = checks::run({"--model", "1b", "--gpu", type}).err.find("TensorCores") != std::string::npos;
    CHECK(cores == (std::string(type).find('p') == 2 || std::string(type)[1] < '5'));
  }
  CHECK(follow({"--model", "1b", "--gpu", "v5p-128"}, "--gpu") == "--gpus 64xtpu-v5p");
  CHECK(follow({"--model", "1b", "--gpus", "v5e-64"}, "--gpus") == "--gpus 64xtpu-v5e");
  CHECK_FALSE(counted_gpus("v5p-3", store));
}

TEST_CASE("a machine of a cloud is proposed as the GPUs that it has") {
  const StoreOptions store = StoreOptions::from_environment();
  for (const CloudMachine& machine : machines()) {
    CAPTURE(machine.name);
    for (const auto& [typed, count] : {std::pair{machine.name, 1},
                                       {fmt::format("4x{}", machine.name), 4},
                                       {fmt::format("2 x {}", machine.name), 2},
                                       {fmt::format("{}:3", machine.name), 3},
                                       {fmt::format("{} x 16", machine.name), 16}}) {
      const std::optional<CountedGpus> read = counted_gpus(typed, store);
      REQUIRE(read.has_value() == machine.described);
      if (!read) continue;
      CHECK(read->gpus == count * machine.gpus);
      CHECK(read->kind == machine.gpu);
    }
  }
  for (const char* flag : {"--gpu", "--cluster", "--instance-type", "--machine-type", "--vm-size", "--node-type"}) {
    CHECK(follow({"--model", "1b", flag, "p5e.48xlarge"}, flag) == "--gpus 8xh200-sxm");
    CHECK(follow({"--model", "1b", "--gpus", "16", flag, "p5e.48xlarge"}, flag) == "--gpu h200-sxm");
  }
  CHECK(follow({"--model", "1b", "--gpus", "2xND_H100_v5"}, "--gpus") == "--gpus 16xh100-sxm");
  CHECK(follow({"--model", "1b", "--gpu", "a3-megagpu-8g"}, "--gpu") == "--gpus 8xh100-sxm");
  const Ran nodes = checks::run({"--model", "1b", "--nodes", "4", "--instance-type", "p4de.24xlarge"});
  CHECK(nodes.err.find("write `--gpus 32xa100-sxm-80gb`") != std::string::npos);
  CHECK(nodes.err.find("nodes of 8") == std::string::npos);
  CHECK(checks::run({"--model", "1b", "--gpus", "8", "--gpu", "a3"}).err.find("has 8 h200-sxm") != std::string::npos);
}

TEST_CASE("a time in other words is proposed with a unit that is taken") {
  for (const auto& [typed, meant] : {std::pair{"2 weeks", "14d"},
                                     {"2w", "14d"},
                                     {"1 month", "30d"},
                                     {"0.5y", "182.5d"},
                                     {"36hours", "36h"},
                                     {"3 Days", "3d"}}) {
    CHECK(follow({"sweep", "--model", "1b", "--gpus", "8,16", "--tokens", "1B", "--deadline", typed}, "--deadline") ==
          fmt::format("--deadline {}", meant));
    CHECK(follow({"--model", "1b", "--gpus", "8", "--gpu-mtbf", typed}, "--gpu-mtbf") ==
          fmt::format("--gpu-mtbf {}", meant));
  }
  for (const char* flag : {"--gpu-mtbf", "--restart", "--storage"})
    for (const char* typed : {"0", "-1", "0s", "1e30h", "1e30TB/s", "soon"})
      follow({"--model", "1b", "--gpus", "8", "--tokens", "1B", flag, typed}, flag);  // what is proposed is taken
  for (const char* none : {"tomorrow", "2026-12-01", "-3d", "0d", "1e9d", "5 parsecs"})
    CHECK(
        proposed(checks::run({"sweep", "--model", "1b", "--gpus", "8,16", "--tokens", "1B", "--deadline", none}).err) ==
        Words{"--deadline", "60d"});
}

TEST_CASE("a size, where a sweep takes factors, is told from one and kinds of GPU are named") {
  for (const char* typed : {"80GB", "80GiB,141GiB", "40..80GB", "80", "40..80"}) {
    const Ran refused = checks::run({"sweep", "--model", "1b", "--gpus", "8", "--memory", typed});
    CHECK(refused.status == 2);
    CHECK(refused.err.find("takes factors") != std::string::npos);
    CHECK(refused.err.find("`--gpu h100-sxm,h200-sxm`") != std::string::npos);
  }
  CHECK(follow({"sweep", "--model", "1b", "--gpus", "8", "--memory", "80GB"}, "--memory") == "--memory 0.5x..4x");
}

TEST_CASE("a choice of a flag is proposed where it stands as a flag of its own") {
  for (const auto& [typed, meant] : {std::pair{"--nvfp4", "--precision nvfp4"},
                                     {"--bfloat16", "--precision bf16"},
                                     {"--adamw", "--optimizer adam"},
                                     {"--megatron_lm", "--framework megatron"},
                                     {"--pretrain", "--task pretrain"},
                                     {"--md", "--format markdown"}}) {
    const Ran refused = checks::run({"--model", "1b", "--gpus", "8", typed});
    CHECK(refused.status == 2);
    CHECK(shown(proposed(refused.err)) == meant);
  }
}

TEST_CASE("letters stand for flags of launchers, and nodes are as large as those of the GPU") {
  for (const auto& [flag, value, meant] :
       {std::tuple{"-N", "4", "--gpus 32"}, {"-n", "16", "--gpus 16"}, {"-g", "16", "--gpus 16"}}) {
    CHECK(follow({"--model", "1b", flag, value}, flag) == meant);
  }
  CHECK(follow({"--gpus", "8", "-m", "1b"}, "-m") == "--model 1b");
  const std::string few = checks::run({"--model", "1b", "--gpu", "gb200", "--nodes", "4"}).err;
  CHECK(shown(proposed(few)) == "--gpus 16");
  CHECK(few.find("for nodes of 4 GPUs") != std::string::npos);
  CHECK(follow({"--model", "1b", "--gpus", "8", "--batch-tokens", "4M"}, "--batch-tokens") ==
        "--global-batch 4M tokens");
}

TEST_CASE("what others call a command is told once, whatever is behind it") {
  for (const auto& [typed, said] :
       {std::pair{Words{"search", "8b"}, "leave `search` out"},
        {Words{"ls", "models"}, "`plan list models`"},
        {Words{"logs", "train.log"}, "`plan diagnose --log FILE`"},
        {Words{"diff", "a.json", "b.json"}, "`plan compare"},
        {Words{"memory", "--model", "8b"}, "`plan explain memory`"},
        {Words{"--explain", "--model", "8b"}, "`plan explain --help`"},
        {Words{"help", "emit"}, "`plan emit --help`"},
        {Words{"diagnose", "train.log"}, "`--log train.log`"},
        {Words{"estimate", "train.sh"}, "`--from train.sh`"},
        {Words{"emit", "slurm", "-o", "x"}, "`plan emit megatron-lm --launcher slurm`"},
        {Words{"emit", "--framework", "torchtitan", "-o", "x"}, "`plan emit torchtitan`"}}) {
    const std::string line = shown(typed);
    CAPTURE(line);
    const Ran refused = checks::run(typed);
    CHECK(refused.status == 2);
    std::string err = refused.err;
    err = std::regex_replace(err, std::regex(R"(\s+)"), " ");
    CHECK_MESSAGE(err.find(said) != std::string::npos, err);
    CHECK_MESSAGE(err.find("2 errors") == std::string::npos, err);
  }
}

TEST_CASE("a GPU by its make, or with another memory than any, is answered with those that exist") {
  const auto refusal = [](const char* gpu) { return checks::run({"--model", "1b", "--gpus", "8", "--gpu", gpu}).err; };
  CHECK(refusal("hopper").find("h100-sxm") != std::string::npos);
  CHECK(refusal("AMD").find("mi300x") != std::string::npos);
  CHECK(refusal("A100-80G").find("`a100-sxm-80gb`") != std::string::npos);
  for (const auto& [typed, meant] : {std::pair{"A100_80GB_PCIe", "`a100-pcie-80gb`"},
                                     {"nvidia-tesla-a100", "`a100-sxm-80gb`"},
                                     {"NVIDIA H100 80GB HBM3", "`h100-sxm`"},
                                     {"instinct-mi300x", "`mi300x`"}}) {
    const std::string name = typed;
    CAPTURE(name);
    CHECK(refusal(typed).find(meant) != std::string::npos);
    CHECK(refusal(typed).find("a100-sxm-40gb") == std::string::npos);
  }
  CHECK(refusal("A100-48G").find("similar name") == std::string::npos);
  for (const char* typed : {"tpu-v5", "TPU v5", "v5"})
    CHECK(refusal(typed).find("one of `tpu-v5e`, `tpu-v5p`: write which") != std::string::npos);
}

TEST_CASE("what a run may cost is no budget of checks") {
  for (const char* flag : {"--budget", "--max-cost", "--cost"}) {
    const Ran refused = checks::run({"--model", "1b", "--gpus", "8", flag, "$1M"});
    CHECK(refused.status == 2);
    CHECK(refused.err.find("--tokens 15T --price 2.5") != std::string::npos);
  }
  CHECK(checks::run({"--model", "1b", "--gpus", "8", "--budget", "b.yaml"}).err.find("plan check") !=
        std::string::npos);
}

TEST_CASE("other commands know counted GPUs and machines, too") {
  const std::string runs = std::string(PLAN_SOURCE_DIR) + "/tests/published/runs/bloom.csv";
  for (const char* typed : {"8xh100", "p5.48xlarge", "h100:8"}) {
    const Ran shown_gpu = checks::run({"show", "gpu", typed});
    CHECK(shown_gpu.status == 2);
    CHECK(shown_gpu.err.find("`plan show gpu h100-sxm`") != std::string::npos);
    CHECK(shown(proposed(checks::run({"calibrate", runs, "--gpu", typed}).err)) == "--gpu h100-sxm");
  }
}

TEST_CASE("the shape of a slice between other signs is proposed with an x") {
  for (const char* typed : {"4,4,4", "4*4*4", "4 4 4", "4X4X4", "(4, 4, 4)", "[4,4,4]", "4-4-4"})
    CHECK(follow({"--model", "1b", "--gpu", "tpu-v5p", "--gpus", "64", "--slice", typed}, "--slice") ==
          "--slice 4x4x4");
  for (const char* none : {"cube", "4", "0,4,4", "4x4x4x4", "v5p-128"})
    CHECK(proposed(checks::run({"--model", "1b", "--gpu", "tpu-v5p", "--gpus", "64", "--slice", none}).err).empty());
}

TEST_CASE("what frameworks call overlapping messages is proposed as its part") {
  for (const auto& [word, part] : {std::pair{"dp", "grads"},
                                   {"overlap_grad_reduce", "grads"},
                                   {"overlap-param-gather", "params"},
                                   {"tp_comm_overlap", "tp"},
                                   {"pp", "p2p"},
                                   {"ep", "experts"},
                                   {"A2A", "experts"},
                                   {"fsdp", "grads+params"}}) {
    const Result<Overlap> read = read_overlap(word);
    REQUIRE_FALSE(read.has_value());
    CHECK(read.error().front().help == Words{fmt::format("write `--overlap {}`", part)});
    CHECK(read_overlap(part).has_value());
    const Result<Overlap> beside = read_overlap(fmt::format("p2p+{}", word));
    CHECK(beside.error().front().help == Words{fmt::format("write `{}`", part)});
  }
  CHECK(read_overlap(overlap_words(kOverlapAll)).has_value());
  const Result<Overlap> all = read_overlap("all");
  REQUIRE_FALSE(all.has_value());
  CHECK(all.error().front().help == Words{fmt::format("write `--overlap {}`", overlap_words(kOverlapAll))});
}

TEST_CASE("an axis of a layout by another tool's name is proposed as its item, with the same value") {
  for (const auto& [name, axis] : {std::pair{"tensor", "tp"},
                                   {"tensor_parallel", "tp"},
                                   {"tensor_model_parallel_size", "tp"},
                                   {"pipeline-parallel-size", "pp"},
                                   {"pipe", "pp"},
                                   {"data_parallel", "dp"},
                                   {"context-parallel", "cp"},
                                   {"expert_model_parallel_size", "ep"},
                                   {"virtual_pipeline", "vp"},
                                   {"tp_size", "tp"}})
    for (const int value : {2, 4, 8})
      for (const char* sign : {"=", ":", ""}) {
        const std::string item = fmt::format("{}{}{}", name, sign, value), meant = fmt::format("{}{}", axis, value);
        CAPTURE(item);
        const Result<Fixed> read = read_layout(fmt::format("mb1,{}", item));
        REQUIRE_FALSE(read.has_value());
        CHECK(read.error().front().help.front() == fmt::format("write `{}`", meant));
        CHECK(read_layout(fmt::format("mb1,{}", meant)).has_value());
      }
}

TEST_CASE("a term by another name is said by the one that explains it") {
  static const std::regex written("`plan explain ([a-z_]+)`");
  for (const char* word : {"latency", "tflops", "hfu", "oom", "vram", "gradients", "tokens_per_second", "all-reduce",
                           "adam", "pipeline-bubble", "expert-parallel", "params"}) {
    CAPTURE(std::string(word));
    const Words rest{"--model", "qwen3-30b-a3b", "--gpus", "64", "--layout", "tp2,pp2,ep4,mb1"};
    Words command{"explain", word};
    command.insert(command.end(), rest.begin(), rest.end());
    std::smatch found;
    const Ran asked = checks::run(command);
    if (asked.status == 0) continue;  // a word of its own
    const std::string& err = asked.err;
    REQUIRE_MESSAGE(std::regex_search(err, found, written), err);
    command[1] = found[1];
    CHECK(checks::run(command).status == 0);
  }
  CHECK(checks::run({"explain", "goodput", "--model", "1b", "--gpus", "8"}).err.find("`plan show formula goodput`") !=
        std::string::npos);
}
