// Every word is honoured or refused: whatever is typed after --layout, on every framework and by every command, the
// answer's layout says it, or an error names it. The words are generated.
#include <doctest/doctest.h>

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "check_files.hpp"
#include "cli/launch/launch.hpp"
#include "cli/request/flags/sweep_axes.hpp"
#include "cli/request/sources/plan_json_read.hpp"
#include "cli/request/words/layout_flag.hpp"
#include "formulas/names.hpp"
#include "oracle/random_problem.hpp"
#include "planner/problem/axes.hpp"
#include "planner/problem/pipeline.hpp"
#include "planner/rules/complete_layout.hpp"
#include "planner/rules/frameworks.hpp"
#include "planner/rules/words.hpp"
#include "presets/store.hpp"

using namespace plan;
using checks::Ran;

namespace {

/// Each axis with values that can be meant and values that cannot.
std::vector<std::string> all_words() {
  std::vector<std::string> words;
  each_axis([&](const auto& axis) {
    using Value = typename std::decay_t<decltype(axis.fixed)>;
    if constexpr (std::is_same_v<Value, std::optional<int> Fixed::*>) {
      for (const int value : {0, 1, 2, 3, 4, 8, 16, 4096})
        if (value >= axis.least && value <= axis.most) words.push_back(worded(axis, value));
    }
  });
  for (const auto& row : kCpKindNames) words.push_back(fmt::format("cp-kind={}", row.name));
  for (const auto& row : kScheduleNames) words.push_back(fmt::format("schedule={}", row.name));
  for (const auto& row : kRecomputeModuleNames) words.push_back(fmt::format("recompute={}", row.name));
  for (const char* word : {"none", "full", "full-1", "full-3", "full-99", "uniform-2", "uniform-99", "layernorm+mlp"})
    words.push_back(fmt::format("recompute={}", word));
  for (const char* word :
       {"sp", "sp=off", "layers=32", "layers=16+16", "layers=7+2x8+9", "layers=0+16+16+0", "layers=8x4",
        "layers=16+0+16", "layers=1+1", "layers=40", "stages=full:none", "stages=2xfull", "stages=full:full-2:none:mlp",
        "stages=none@offload2:none", "stages=none:none@tp2", "stages=2xnone:full@zero0", "stages=full-99:none",
        "stages=full@layers1~none:none", "stages=none@tp2@layers3~full@layers2@zero0~none"})
    words.emplace_back(word);
  return words;
}

/// What the answer's layout says differently from the words.
std::vector<std::string> lost(const std::string& words, const Estimate& answer) {
  Fixed asked = read_layout(words).value();
  Layout layout = answer.layout;
  if (asked.chunk_layers && layout.vp == 1 && layout.schedule != Schedule::DualPipe)
    layout.chunk_layers = answer.stage_layers;
  else
    asked.chunk_layers.reset();  // a report has the layers of stages, not of their chunks
  if (asked.stages) {            // stages that do the same are a uniform layout
    Layout settled = layout;
    settled.stages = *asked.stages;
    settle_stages({}, settled);
    if (settled.stages.empty())
      asked.recompute = settled.recompute, asked.stages.reset();
    else
      asked.stages = settled.stages;
  }
  if (asked.shard == layout.dense_group()) layout.shard = layout.dense_group();
  if (asked.group == pipeline_of(layout, answer.micro_batches).group) layout.group = asked.group.value_or(0);
  std::vector<std::string> all = words_lost(asked, layout);
  // A word is not kept that says nothing of this layout.
  if (asked.cp_kind.value_or(CpKind::Ring) != CpKind::Ring && layout.cp == 1) all.emplace_back("cp-kind at cp 1");
  if (asked.cp_ulysses.value_or(1) > 1 && layout.cp == 1) all.emplace_back("cp-ulysses at cp 1");
  if (asked.sequence_parallel.value_or(false) && layout.tp == 1) all.emplace_back("sp at tp 1");
  if (asked.vp.value_or(1) > 1 && layout.pp == 1) all.emplace_back("vp at pp 1");
  if (asked.schedule.value_or(Schedule::OneFOneB) != Schedule::OneFOneB && layout.pp == 1)
    all.emplace_back("schedule at pp 1");
  return all;
}

/// One of the words, or the part of it in front of its value, is in the text.
bool names_one(const std::string& words, std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  for (const std::string_view part : {std::string_view(words)})
    for (std::size_t start = 0; start < part.size();) {
      const std::size_t end = std::min(part.find(',', start), part.size());
      const std::string_view word = part.substr(start, end - start);
      const std::string_view name = word.substr(0, word.find_first_of("=0123456789"));
      if (text.find(std::string(name)) != std::string::npos) return true;
      start = end + 1;
    }
  return false;
}

void check_answer(const std::string& words, const Ran& ran) {
  CAPTURE(ran.err);
  REQUIRE((ran.status == 0 || ran.status == 1 || ran.status == 2));
  if (ran.out.empty()) {
    CHECK(ran.status != 0);
    CHECK(ran.err.find("internal") == std::string::npos);
    if (ran.status == 2) CHECK(names_one(words, ran.err));
    return;
  }
  CHECK(ran.status != 2);
  const Result<EarlierPlan> plan = read_plan_json(ran.out, "answer.json");
  REQUIRE(plan);
  CHECK(lost(words, plan->best) == std::vector<std::string>{});
}

void check_emitted(const std::string& words, const Ran& ran) {
  CAPTURE(ran.err);
  if (ran.out.empty()) {
    CHECK(ran.status != 0);
    return;
  }
  const std::string written = checks::Json::parse(ran.out)["layout"];
  const Fixed fixed = read_layout(written).value();
  Layout layout;
  each_axis([&](const auto& axis) {
    if (const auto& value = fixed.*axis.fixed) layout.*axis.value = *value;
  });
  Fixed asked = read_layout(words).value();
  if (asked.shard == layout.dense_group() && layout.shard == 0) asked.shard = 0;
  if (asked.group == layout.pp && layout.group == 0) asked.group = 0;  // as it is where nothing is said
  CHECK(words_lost(asked, layout) == std::vector<std::string>{});
}

/// The first kind of files that a framework has; none if it is no framework's name.
std::string format_of(Framework framework) {
  for (const std::string& format : emit_words())
    if (named(framework) && framework_of_format(format) == framework) return format;
  return "";
}

}  // namespace

TEST_CASE("separators of thousands are refused with the number to write, in every flag and file that counts") {
  const checks::Folder folder;
  folder.write("model.yaml", "preset: model/1\nname: x\nhidden: 4,096\n");
  folder.write(
      "budget.yaml",
      "budget: 1\nmodel: 8b\ngpus: 1,024\nlimits:\n  memory.peak: at most 81,559 MiB\n  cost: at most 400,000 USD\n");
  const auto helped = [](std::vector<std::string> words, const std::string& help) {
    CAPTURE(fmt::format("{}", fmt::join(words, " ")));
    const Ran ran = checks::run(words);
    CHECK(ran.status == 2);
    CHECK_MESSAGE(ran.err.find(help) != std::string::npos, ran.err);
  };
  const std::vector<std::string> job = {"--model", "8b", "--gpus", "64"};
  const auto with = [&](std::vector<std::string> words) {
    words.insert(words.begin(), job.begin(), job.end());
    return words;
  };
  helped({"--model", "8b", "--gpus", "2,048"}, "`--gpus 2048`");
  helped({"--model", "8b", "--gpus", "2_048"}, "`--gpus 2048`");
  helped({"--model", "8b", "--gpus", "2 048"}, "`--gpus 2048`");
  helped({"--model", "8b", "--gpus", "2", "048"}, "`2048`");
  helped({"--model", "8b", "--gpus", "1,024xh100-sxm"}, "`--gpus 1024xh100-sxm`");
  helped({"sweep", "--model", "8b", "--gpus", "1,024"}, "`--gpus 1024`");
  helped({"--model", "8b", "--gpu", "1,000"}, "`--gpus 1000`");
  helped(with({"--layout", "mb1.000"}), "`mb1000`");
  helped(with({"--seq", "131.072k"}), "`--seq 131072`");
  helped(with({"--seq", "8,192"}), "`--seq 8192`");
  helped(with({"--global-batch", "1,024"}), "`--global-batch 1024`");
  helped(with({"--global-batch", "4,194,304 tokens"}), "`--global-batch '4194304 tokens'`");
  helped(with({"--tokens", "15,000B"}), "`--tokens 15000B`");
  helped(with({"--spares", "1,024"}), "`--spares 1024`");
  helped(with({"--headroom", "4,096MiB"}), "`--headroom 4096MiB`");
  helped(with({"--tokens", "1T", "--gpu-mtbf", "50,700h"}), "`--gpu-mtbf 50700h`");
  helped(with({"--task", "lora", "--lora-rank", "1,024"}), "`--lora-rank 1024`");
  helped({"estimate", "--model", "model.yaml", "--gpus", "64", "--layout", "tp1"}, "`4096`");
  const Ran budget = checks::run({"check", "--budget", "budget.yaml"});
  CAPTURE(budget.err);
  CHECK(budget.status == 2);
  CHECK(budget.err.find("`at most 81559 MiB`") != std::string::npos);
  CHECK(budget.err.find("`at most 400000 USD`") != std::string::npos);
  folder.write("gpus.yaml", "budget: 1\nmodel: 8b\ngpus: 1,024\nlimits:\n  memory.peak: at most 79 GiB\n");
  helped({"check", "--budget", "gpus.yaml"}, "`gpus: 1024`");
}

TEST_CASE("a wrong word in the values of a sweep is answered with all of them, which are taken then") {
  for (const auto& row : {std::pair{"1,000,2,000", "1000,2000"},
                          {"256,1,024", "256,1024"},
                          {"1,024..4,096", "1024..4096"},
                          {"1,024", "1024"},
                          {"32k,131k", "32k,128k"},
                          {"8192,131k,262k", "8192,128k,256k"},
                          {"32k..131k", "32k..128k"},
                          {"8192,131.072k", "8192,131072"}}) {
    const char *typed = row.first, *meant = row.second;
    CAPTURE(typed);
    const auto none = read_sweep_values("--seq", typed, false);
    REQUIRE_FALSE(none.has_value());
    const std::vector<std::string>& help = none.error().front().help;
    REQUIRE_FALSE(help.empty());
    CHECK(help.front() == fmt::format("write `--seq {}`", meant));
    CHECK(read_sweep_values("--seq", meant, false).has_value());
  }
}

TEST_CASE("a word of --layout is honoured or refused by its name") {
  const std::vector<std::string> words = all_words();
  std::mt19937 random(17);
  const checks::Folder folder;
  for (int i = 0; i < oracle::rounds(250); ++i) {
    const auto& rows = frameworks();
    const FrameworkRow& framework = rows[random() % rows.size()];
    const std::string model = random() % 4 == 0 ? "mixtral-8x7b" : "8b", gpus = model == "8b" ? "8" : "32";
    std::string layout = words[random() % words.size()];
    if (random() % 2 == 0)
      if (const std::string& more = words[random() % words.size()];
          more.substr(0, 3) != layout.substr(0, 3))  // the same axis twice is another mistake
        layout += "," + more;
    CAPTURE(layout);
    CAPTURE(framework.name);
    CAPTURE(model);
    std::vector<std::string> line = {"--model", model, "--gpus", gpus, "--layout", layout, "--threads", "1"};
    const std::string format = format_of(framework.framework);
    if (i % 3 == 2 && !format.empty()) {
      line.insert(line.begin(), {"emit", format});
      line.insert(line.end(), {"-o", "out", "--json"});
      check_emitted(layout, checks::run(line));
      continue;
    }
    if (i % 3 == 1) line.insert(line.begin(), "estimate");
    line.insert(line.end(), {"--framework", std::string(framework.name), "--json"});
    check_answer(layout, checks::run(line));
  }
}

TEST_CASE("a word without a meaning is a mistake, whoever reads it") {
  const checks::Folder folder;
  for (const auto& row : {std::pair{"ep8", "no experts"},
                          {"etp4", "no experts"},
                          {"recompute=moe", "no moe"},
                          {"recompute=mla_up_proj", "no mla_up_proj"},
                          {"recompute=full-33", "32 layers"},
                          {"cp1,cp-kind=ulysses", "nothing is exchanged"},
                          {"cp4,cp-kind=ring,cp-ulysses=2", "hybrid"},
                          {"pp1,vp2", "no pipeline"},
                          {"pp1,schedule=zb-v", "no pipeline"},
                          {"vp4,schedule=1f1b", "one chunk"},
                          {"tp1,sp", "no ranks"},
                          {"zero0,shard8", "shards nothing"},
                          {"pp4,vp1,layers=16+16", "it has 2"},
                          {"stages=full:none,recompute=full", "what each stage recomputes"},
                          {"pp4,stages=full:none", "it has 2"},
                          {"stages=moe:none", "no moe"},
                          {"stages=full-33:none", "32 layers"},
                          {"layers=1+1", "places 2 layers"}}) {
    const std::string layout = row.first, why = row.second;
    CAPTURE(layout);
    folder.write("budget.yaml", fmt::format("budget: 1\nmodel: 8b\ngpus: 64\nlayout: \"{}\"\n", layout));
    for (const std::vector<std::string>& line :
         {std::vector<std::string>{"--model", "8b", "--gpus", "64", "--layout", layout},
          {"estimate", "--model", "8b", "--gpus", "64", "--layout", layout},
          {"emit", "megatron-lm", "--model", "8b", "--gpus", "64", "-o", "out", "--layout", layout},
          {"check", "--budget", "budget.yaml"}}) {
      const Ran ran = checks::run(line);
      CAPTURE(ran.err);
      CHECK(ran.status == 2);
      CHECK(ran.out.empty());
      std::string text = ran.err;
      text.erase(std::unique(text.begin(), text.end(),
                             [](char a, char b) { return (a == ' ' || a == '\n') && (b == ' ' || b == '\n'); }),
                 text.end());
      std::replace(text.begin(), text.end(), '\n', ' ');
      CHECK(text.find(why) != std::string::npos);
      CHECK(ran.err.find("help:") != std::string::npos);
    }
  }
}

TEST_CASE("a word that the framework lacks is a mistake, and no other word takes its place") {
  for (const auto& row : {std::pair{"megatron", "schedule=dualpipev"},
                          {"megatron", "recompute=op"},
                          {"deepspeed", "pp2"},
                          {"deepspeed", "cp-kind=all-gather"},
                          {"accelerate", "ep2"},
                          {"maxtext", "schedule=1f1b,pp2"},
                          {"torchtitan", "zero1"}}) {
    const std::string framework = row.first, layout = row.second;
    const std::string model = layout == "ep2" ? "mixtral-8x7b" : "8b";
    const Ran ran = checks::run({"--model", model, "--gpus", "8", "--framework", framework, "--layout", layout});
    CAPTURE(layout);
    CAPTURE(ran.err);
    CHECK(ran.status == (layout.find(',') == std::string::npos ? 2 : 1));
    CHECK(ran.out.empty());
  }
}

TEST_CASE("what is fixed beyond the GPUs says so") {
  const Ran ran = checks::run({"--model", "8b", "--gpus", "8", "--layout", "tp16"});
  CHECK(ran.status == 1);
  CHECK(ran.err.find("`tp16`") != std::string::npos);
  CHECK(ran.err.find("16 * 1 * 1 * 1 is 16") != std::string::npos);
}

TEST_CASE("at risk is not yes, and the first line says it") {
  for (const std::vector<std::string>& line :
       {std::vector<std::string>{"--model", "70b", "--gpus", "16", "--task", "finetune"},
        {"emit", "megatron-lm", "-o", "out", "--model", "70b", "--gpus", "16", "--task", "finetune"}}) {
    const checks::Folder folder;
    const Ran ran = checks::run(line);
    if (ran.out.empty()) {  // whatever the prediction of the day: it fits for certain, may fit, or does not
      CHECK(ran.status == 1);
      continue;
    }
    CHECK((ran.status == 1) == ran.out.starts_with("AT RISK"));
  }
}

TEST_CASE("what is asked of the whole run is among the inputs, whether or not it can be counted") {
  for (const std::string gpu : {"h100-sxm", "b200-sxm"}) {  // only one of them says how often it fails
    std::vector<std::string> words = {"estimate", "--model", "8b", "--gpus", "8", "--gpu", gpu, "--layout", "tp2"};
    const std::vector<std::pair<std::string, std::string>> typed = {
        {"tokens", "1T"}, {"price", "2"}, {"storage", "2TB/s"}, {"restart", "5min"}};
    for (const auto& flag : typed) words.insert(words.end(), {"--" + flag.first, flag.second});
    const checks::Json answer = checks::run_json(words);
    for (const auto& flag : typed) {
      const std::string key = flag.first == "price" ? "price_per_hour" : flag.first;
      CAPTURE(key);
      REQUIRE(answer["inputs"].contains(key));
      CHECK(answer["inputs"][key]["origin"] == "flag");
    }
    CHECK(answer.contains("failures") != answer["about"].contains("failures"));
  }
}

TEST_CASE("what has nothing to apply to is refused with the words that are left") {
  const auto help = [](std::vector<std::string> words) {
    words.insert(words.begin(), {"estimate", "--model", "8b", "--gpus", "8", "--layout", "tp2"});
    const checks::Ran ran = checks::run(words);
    CHECK(ran.status == 2);
    return ran.err;
  };
  const auto says = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  CHECK(says(help({"--dispatcher", "alltoall"}), "leave `--dispatcher` out"));
  CHECK(says(help({"--imbalance", "1.3"}), "leave `--imbalance` out"));
  CHECK(says(help({"--cuda-graphs", "mamba"}), "leave `--cuda-graphs` out"));
  CHECK(says(help({"--cuda-graphs", "mamba+attn+moe_router"}), "write `--cuda-graphs attn`"));
  CHECK(says(help({"--cuda-graphs", "attn+moe_preprocess"}), "write `--cuda-graphs attn+moe_router+moe_preprocess`"));
  CHECK(says(help({"--overlap", "grads+experts"}), "write `--overlap grads`"));
  CHECK(says(help({"--task", "lora", "--lora-rank", "4097"}), "write `--lora-rank 4096` or less"));
  CHECK(says(help({"--offload", "layers=33"}), "write `--offload layers=31` or less"));
  const auto spared = [&](const char* gpu) { return help({"--bf16-layers", "1,1", "--gpu", gpu}); };
  CHECK(says(spared("h100-sxm"), "write `--precision fp8`, or leave"));
  CHECK(says(spared("b200-sxm"), "write `--precision mxfp8`, or leave"));
  CHECK(says(spared("a100-sxm-80gb"), "help: leave `--bf16-layers` out"));
  CHECK(says(help({"--price", "x"}), "such as `2.5`"));
}

TEST_CASE("what nobody says of a layout is what its framework does, and no rule of its own refuses that") {
  int named_ones = 0;
  for (const FrameworkRow& row : frameworks()) {
    if (!named(row.framework)) continue;
    ++named_ones;
    CAPTURE(std::string(row.name));
    for (const char* degrees : {"tp4", "dp16"}) {
      bool any = false;
      std::string said;
      for (const int zero : {0, 1, 2, 3}) {
        const Ran ran = checks::run({"estimate", "--model", "8b", "--gpus", "16", "--framework", std::string(row.name),
                                     "--layout", fmt::format("{},zero{}", degrees, zero)});
        any = any || ran.status != 2, said += ran.err;
      }
      CAPTURE(said);
      CHECK(any);
    }
  }
  CHECK(named_ones == 5);
}
