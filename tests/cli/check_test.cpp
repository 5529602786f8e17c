// `plan check` as a whole: figures are those of `plan estimate`, causes add up, and a suggestion that is applied
// passes.
#include <doctest/doctest.h>

#include "check_files.hpp"

using namespace plan;
using namespace plan::checks;

namespace {

std::string budget(const std::string& layout, const std::string& limits, const std::string& more = "") {
  return "budget: 1\nmodel: llama3-8b\ngpus: 64 x h100-sxm\nseq: 8192\nglobal_batch: 256\nlayout: " + layout + "\n" +
         more + "limits:\n" + limits;
}

/// The budget with one change of a suggestion: `--layout` words, or a key of its own.
std::string applied(std::string text, const Json& change) {
  const std::string key = change["key"], after = change["after"];
  if (key == "seq" || key == "global_batch" || key == "precision" || key == "optimizer" || key == "offload" ||
      key == "state_formats") {
    const std::size_t at = text.find("\n" + key + ": ");
    if (at == std::string::npos) return text + key + ": " + after + "\n";
    return text.replace(at, text.find('\n', at + 1) - at, "\n" + key + ": " + after);
  }
  if (key == "gpus") return text.replace(text.find("gpus: 64"), 8, "gpus: " + after);
  const std::size_t end = text.find('\n', text.find("layout: "));
  return text.insert(end, ",_" + key + "=" + after);
}

/// The layout words with the later of two words for one axis alone.
std::string settled(const std::string& text) {
  const std::size_t begin = text.find("layout: ") + 8, end = text.find('\n', begin);
  std::vector<std::pair<std::string, std::string>> axes;
  std::istringstream words(text.substr(begin, end - begin));
  for (std::string word; std::getline(words, word, ',');) {
    if (word[0] == '_') word = word.substr(1);
    std::size_t split = word.find('=');
    std::string key = word.substr(0, split == std::string::npos ? word.find_first_of("0123456789") : split);
    const std::string value = split == std::string::npos ? word.substr(key.size()) : word.substr(split + 1);
    if (key == "micro_batch") key = "mb";
    if (key == "sequence_parallel") key = "sp";
    if (key == "cp_kind") key = "cp-kind";
    if (key == "shard" && value == "all") continue;
    std::erase_if(axes, [&](const auto& axis) { return axis.first == key; });
    axes.emplace_back(key, value);
  }
  std::string layout;
  for (const auto& [key, value] : axes) layout += (layout.empty() ? "" : ",") + key + "=" + value;
  return text.substr(0, begin) + layout + text.substr(end);
}

}  // namespace

TEST_CASE("figures are those of plan estimate") {
  const Folder folder;
  folder.write("b.yaml",
               budget("tp2,pp2,mb2",
                      "  memory.peak: at most 79 GiB\n  step_time: at most 100 s\n  memory.weights: at most 70 GiB\n"
                      "  communication.tp.bytes: at most 900 TB\n  mfu: at least 1 %\n"));
  const Json report = run_json({"check", "--budget", "b.yaml"});
  const Json estimate = run_json({"estimate", "--model", "llama3-8b", "--gpus", "64", "--gpu", "h100-sxm", "--seq",
                                  "8192", "--global-batch", "256", "--layout", "tp2,pp2,mb2"});
  CHECK(limit_of(report, "memory.peak")["now"] == estimate["best"]["memory"]["peak_bytes"].get<double>());
  CHECK(limit_of(report, "memory.peak")["counted"] == estimate["best"]["memory"]["peak_high_bytes"].get<double>());
  CHECK(limit_of(report, "step_time")["now"] == estimate["best"]["step_time_s"]);
  CHECK(limit_of(report, "mfu")["now"] == estimate["best"]["mfu_ratio"]["model_causal"]);
  double tp = 0, weights = 0;
  for (const Json& row : estimate["best"]["communication"])
    if (row["axis"] == "tp") tp += row["bytes_per_step"].get<double>();
  for (const Json& stage : estimate["best"]["memory"]["stages"])
    weights = std::max(weights, stage["weights_bytes"].get<double>());
  CHECK(limit_of(report, "communication.tp.bytes")["now"] == tp);
  CHECK(limit_of(report, "memory.weights")["now"] == weights);
  CHECK(report["jobs"][0]["plan"]["best"] == estimate["best"]);
  CHECK(report["summary"]["failed"] == 0);
}

TEST_CASE("idle GPUs cost a budget what they cost the plan, and a job that has not changed keeps its baseline") {
  const Folder folder;
  for (const int gpus : {8, 24, 40, 56}) {
    const std::string number = std::to_string(gpus);
    const std::vector<std::string> job = {"--model",     "gpt2",     "--gpus",   number, "--global-batch", "64",
                                          "--framework", "megatron", "--tokens", "1T",   "--price",        "2"};
    std::vector<std::string> words = job;
    words.emplace_back("--json");
    const Ran planned = run(words);
    REQUIRE(planned.status == 0);
    const Json plan = Json::parse(planned.out);
    folder.write("plan.json", planned.out);
    folder.write("b.yaml", "budget: 1\nmodel: gpt2\ngpus: " + number +
                               "\nglobal_batch: 64\nframework: megatron\ntokens: 1T\nprice: 2 USD/h\n"
                               "limits:\n  gpu_hours: at most 1T GPU-hours\n  cost: at most 1T USD\n  gpus: at most " +
                               number +
                               "\nsince_baseline:\n  gpu_hours: at most +0 %\n  cost: at most +0 %\n"
                               "  gpus: at most +0\n  step_time: at most +0 %\n");
    const Ran checked = run({"check", "--budget", "b.yaml", "--baseline", "plan.json", "--json"});
    CAPTURE(gpus);
    CAPTURE(checked.err);
    CHECK(checked.status == 0);
    const Json report = Json::parse(checked.out);
    CHECK(limit_of(report, "gpu_hours")["now"].get<double>() ==
          doctest::Approx(plan["run"]["gpu_hours"].get<double>()).epsilon(1e-12));
    CHECK(limit_of(report, "cost")["now"].get<double>() ==
          doctest::Approx(plan["run"]["cost_usd"].get<double>()).epsilon(1e-12));
    CHECK(limit_of(report, "gpus")["now"] == gpus);
  }
}

TEST_CASE("each kind of change fails with its line and cause, and each suggestion, applied, passes") {
  const Folder folder;
  const std::string limits = "  memory.peak: at most 40 GiB\nsince_baseline:\n  memory.peak: at most +2 %\n";
  const std::string before = "tp4,pp2,mb1,zero1,sp=on,recompute=none";
  folder.write("b.yaml", budget(before, limits));
  const Ran main = run({"check", "--budget", "b.yaml", "--baseline", "none", "--json"});
  REQUIRE(main.status == 0);
  folder.write("main.json", main.out);
  struct Case {
    const char *key, *layout, *seq;
    int line;
  };
  const Case cases[] = {{"micro_batch", "tp4,pp2,mb4,zero1,sp=on,recompute=none", "8192", 6},
                        {"seq", "tp4,pp2,mb1,zero1,sp=on,recompute=none", "65536", 4},
                        {"tp", "tp1,pp2,mb1,zero1,sp=off,recompute=none", "8192", 6}};
  for (const Case& one : cases) {
    CAPTURE(one.key);
    std::string text = budget(one.layout, limits);
    text.replace(text.find("8192"), 4, one.seq);
    folder.write("b.yaml", text);
    const Ran failed = run({"check", "--budget", "b.yaml", "--baseline", "main.json", "--json"});
    CHECK(failed.status == 1);
    const Json report = Json::parse(failed.out);
    const Json limit = limit_of(report, "memory.peak");
    CHECK(limit["state"] == "fail");
    REQUIRE(!limit["causes"].empty());
    const Json& cause = limit["causes"][0];
    CHECK(cause["key"] == one.key);
    CHECK(cause["file"] == "b.yaml");
    CHECK(cause["line"] == one.line);
    CHECK(cause["effect"].get<double>() == doctest::Approx(limit["now"].get<double>() - limit["before"].get<double>()));
    double sum = 0;
    for (const auto& [category, bytes] : cause["memory_bytes"].items()) sum += bytes.get<double>();
    CHECK(sum == doctest::Approx(cause["effect"].get<double>()));
    const Json suggestions = report["jobs"][0]["suggestions"];
    REQUIRE(!suggestions.empty());
    CHECK(suggestions[0]["restores_baseline"] == true);
    for (const Json& suggestion : suggestions) {
      CAPTURE(suggestion.dump());
      std::string mended = text;
      for (const Json& change : suggestion["changes"]) mended = applied(mended, change);
      folder.write("mended.yaml", settled(mended));
      keeps_its_word(run({"check", "--budget", "mended.yaml", "--baseline", "main.json", "--json"}), suggestion);
    }
  }
}

TEST_CASE("recompute that was dropped") {
  const Folder folder;
  const std::string limits = "  memory.peak: at most 50 GiB\n";
  folder.write("b.yaml", budget("tp1,pp2,mb2,zero1,recompute=full", limits));
  const Ran main = run({"check", "--budget", "b.yaml", "--json"});
  REQUIRE(main.status == 0);
  folder.write("main.json", main.out);
  folder.write("b.yaml", budget("tp1,pp2,mb2,zero1", limits));
  const Ran failed = run({"check", "--budget", "b.yaml", "--baseline", "main.json"});
  CHECK(failed.status == 1);
  CHECK(failed.out.find("cause: recompute full -> none (b.yaml:6): activations +") != std::string::npos);
}

TEST_CASE("a preset that is another than the baseline's is a cause, and one that is the same is none") {
  const Folder folder;
  const std::string limits = "  memory.peak: at most 50 GiB\n";
  folder.write("b.yaml", budget("tp1,pp2,mb2,zero1,recompute=full", limits));
  const std::string main = run({"check", "--budget", "b.yaml", "--json"}).out, digest = "\"digest\": \"sha256:";
  REQUIRE(main.find(digest) != std::string::npos);
  std::string earlier = main;
  char& first = earlier[main.find(digest) + digest.size()];
  first = first == '0' ? '1' : '0';
  folder.write("b.yaml", budget("tp1,pp2,mb2,zero1", limits));
  for (const bool same : {true, false}) {
    folder.write("main.json", same ? main : earlier);
    const Ran failed = run({"check", "--budget", "b.yaml", "--baseline", "main.json"});
    CHECK(failed.status == 1);
    CHECK((failed.out.find("its earlier preset -> its preset now") == std::string::npos) == same);
  }
}

TEST_CASE("a launch file that states too little") {
  const Folder folder;
  folder.write("train.sh", "torchrun pretrain_gpt.py --micro-batch-size 1 --tensor-model-parallel-size 2\n");
  folder.write("b.yaml", "budget: 1\ngpus: 8 x h100-sxm\nfrom: train.sh\n");
  const Ran ran = run({"check", "--budget", "b.yaml"});
  CHECK(ran.status == 2);
  CHECK(ran.out.empty());
  CAPTURE(ran.err);
  CHECK(ran.err.find("train.sh") != std::string::npos);
}

TEST_CASE("baselines: a plan, an estimate or a check; a new job is told") {
  const Folder folder;
  folder.write("b.yaml",
               budget("tp4,pp2", "  memory.peak: at most 79 GiB\nsince_baseline:\n  memory.peak: at most +0 %\n"));
  folder.write("plan.json", run({"estimate", "--model", "llama3-8b", "--gpus", "64", "--gpu", "h100-sxm", "--seq",
                                 "8192", "--global-batch", "256", "--layout", "tp4,pp2", "--json"})
                                .out);
  CHECK(run({"check", "--budget", "b.yaml", "--baseline", "plan.json"}).status == 0);
  const Ran missing = run({"check", "--budget", "b.yaml"});
  CHECK(missing.status == 2);
  CHECK(missing.out.empty());
  CHECK(missing.err.find("`since_baseline` needs a baseline") != std::string::npos);
  folder.write("many.yaml",
               "budget: 1\nmodel: 8b\ngpus: 8\nlayout: tp8\nsince_baseline: {memory.peak: at most +0 %}\njobs: [{name: "
               "a}, {name: b}]\n");
  folder.write("one.yaml", "budget: 1\nmodel: 8b\ngpus: 8\nlayout: tp8\njobs: [{name: a}]\n");
  folder.write("one.json", run({"check", "--budget", "one.yaml", "--json"}).out);
  const Json report = run_json({"check", "--budget", "many.yaml", "--baseline", "one.json"});
  CHECK(report["jobs"][0]["limits"].size() == 2);
  CHECK(report["jobs"][1]["limits"].size() == 1);
  const Json& notes = report["jobs"][1]["notes"];
  CHECK(std::any_of(notes.begin(), notes.end(), [](const Json& note) { return note["code"] == "new_job"; }));
}

TEST_CASE("a job whose name slipped keeps its limits since the baseline, and a new one has none yet") {
  const Folder folder;
  const std::string start =
      "budget: 1\nmodel: 8b\ngpus: 8\nlayout: tp8\nsince_baseline: {memory.peak: at most +0 %}\njobs: [{name: dense}, ";
  folder.write("before.yaml", start + "{name: llama-small}]\n");
  folder.write("main.json", run({"check", "--budget", "before.yaml", "--baseline", "none", "--json"}).out);
  const auto with = [&](const std::string& jobs) {
    folder.write("now.yaml", start + jobs + "]\n");
    return run({"check", "--budget", "now.yaml", "--baseline", "main.json"});
  };
  CHECK(with("{name: llama-small}").status == 0);
  const Ran slipped = with("{name: lama-small}");
  CHECK(slipped.status == 2);
  CHECK(slipped.out.empty());
  CHECK(slipped.err.find("main.json has no job `lama-small`") != std::string::npos);
  CHECK(slipped.err.find("name the job `llama-small` again") != std::string::npos);
  CHECK(slipped.err.find("now.yaml:5") != std::string::npos);
  CHECK(with("{name: llama-small}, {name: lama-small}").status == 0);  // the old one is still there
  CHECK(with("{name: mixtral}").status == 0);
}

TEST_CASE("risk, warnings, profiles, layouts that cannot run") {
  const Folder folder;
  const std::string layout = "tp4,pp2";
  folder.write("b.yaml", budget(layout, "  memory.peak: at most 79 GiB\n"));
  const Json report = run_json({"check", "--budget", "b.yaml"});
  const Json now = limit_of(report, "memory.peak");
  const double between = (now["now"].get<double>() + now["now_high"].get<double>()) / 2;
  folder.write("b.yaml",
               budget(layout, "  memory.peak: at most " + std::to_string(static_cast<long>(between)) + " B\n"));
  CHECK(run({"check", "--budget", "b.yaml"}).status == 1);
  CHECK(run({"check", "--budget", "b.yaml", "--warn-only"}).status == 0);
  const Json lenient = run_json({"check", "--budget", "b.yaml", "--risk", "at-risk"});
  CHECK(limit_of(lenient, "memory.peak")["state"] == "warn");
  CHECK(lenient["summary"]["failed"] == 0);
  const Json unmeasured = run_json({"check", "--budget", "b.yaml", "--risk", "at-risk", "--require-profile"});
  CHECK(limit_of(unmeasured, "profile")["state"] == "fail");
  folder.write("b.yaml", budget("tp4,pp2,dp7", "  memory.peak: at most 79 GiB\n"));
  const Ran impossible = run({"check", "--budget", "b.yaml", "--json"});
  CHECK(impossible.status == 1);
  const Json layout_limit = limit_of(Json::parse(impossible.out), "layout");
  CHECK(layout_limit["state"] == "fail");
  CHECK(layout_limit["line"] == 6);
  folder.write("b.yaml", budget("tp4,pp2", "  mfu: at least 1 %\n").replace(10, 0, ""));
  CHECK(run({"check", "--budget", "b.yaml", "--quiet"}).out.empty());
}

TEST_CASE("where no change passes every limit, that is said") {
  const Folder folder;
  folder.write("b.yaml",
               "budget: 1\nmodel: llama3-8b\ngpus: 8 x h100-sxm\nlayout: tp1,dp8,mb32\nglobal_batch: 1024\n"
               "limits:\n  step_time: at most 1 ms\n  memory.peak: at most 60 GiB\n");
  const Ran ran = run({"check", "--budget", "b.yaml"});
  CHECK(ran.status == 1);
  CHECK(ran.out.find("help: no change that was tried passes every limit\n") != std::string::npos);
}

TEST_CASE("mistakes in words of a job are told in the budget's terms, at its lines") {
  const Folder folder;
  folder.write("b.yaml", "budget: 1\nmodel: llama3-8\ngpus: many x h100-sxm\nlayout: tq4\nprecision: bf17\n");
  const Ran ran = run({"check", "--budget", "b.yaml"});
  CHECK(ran.status == 2);
  for (const char* part : {"unknown model `llama3-8`\n  --> b.yaml:2:8", "`gpus`", "--> b.yaml:3:7",
                           "unknown axis `tq4`", "--> b.yaml:4:9", "errors in b.yaml; nothing was checked"}) {
    CAPTURE(ran.err);
    CHECK(ran.err.find(part) != std::string::npos);
  }
  CHECK(ran.err.find("--gpus") == std::string::npos);
  folder.write("b.yaml", "budget: 1\ngpus: 8\n");
  const Ran missing = run({"check", "--budget", "b.yaml"});
  CHECK(missing.err.find("error: `model` is missing\n  --> b.yaml:1:1") == 0);
}

TEST_CASE("a mistake above the jobs is told once, however many jobs take it") {
  const Folder folder;
  for (const char* wrong :
       {"model: xyzzy\ngpus: 16", "model: 8b\ngpus: 16xB100", "model: 8b\ngpus: 0", "model: 8b\ngpus: p6e",
        "model: 8b\ngpus: 16\nseq: -1", "model: 8b\ngpus: 16\ngpu: h100x", "model: 8b\ngpus: 16\nglobal_batch: many"})
    for (const int jobs : {1, 2, 5}) {
      std::string text = std::string("budget: 1\n") + wrong + "\nlimits:\n  mfu: at least 1 %\njobs:\n";
      for (int job = 0; job < jobs; ++job) text += "  - name: j" + std::to_string(job) + "\n    layout: mb1\n";
      folder.write("budget.yaml", text);
      const Ran ran = run({"check", "--budget", "budget.yaml"});
      CAPTURE(ran.err);
      CHECK(ran.status == 2);
      CHECK(ran.err.find("error:") == ran.err.rfind("error:"));
      CHECK(ran.err.find("errors") == std::string::npos);
    }
}

TEST_CASE("mistakes in a launch file keep the file's own words, whatever a budget calls its keys") {
  const Folder folder;
  const std::string job =
      "torchrun --nproc-per-node 8 pretrain_gpt.py --num-layers 32 --hidden-size 4096 --num-attention-heads 32 "
      "--seq-length 4096 --max-position-embeddings 4096 --micro-batch-size 1 --global-batch-size 64 "
      "--vocab-size 32000 --eval-interval 1000 ";
  folder.write("b.yaml", "budget: 1\ngpus: 8 x h100-sxm\nfrom: train.sh\n");
  for (const char* words : {"--optimizer foo", "--optimizer sgdd", "--lora-rank x", "--task nothing"}) {
    folder.write("train.sh", job + words + "\n");
    const Ran estimated = run({"estimate", "--from", "train.sh", "--gpus", "8", "--gpu", "h100-sxm"});
    const Ran checked = run({"check", "--budget", "b.yaml"});
    CAPTURE(std::string(words));
    if (estimated.status != 2) continue;  // no flag of Megatron's, or one that weighs nothing
    std::istringstream lines(estimated.err);
    for (std::string line; std::getline(lines, line);)
      if (line.starts_with("error: ")) CHECK_MESSAGE(checked.err.find(line + "\n") != std::string::npos, checked.err);
  }
  folder.write("train.sh", job + "--optimizer foo\n");
  CHECK(run({"check", "--budget", "b.yaml"}).err.find("`--optimizer`") != std::string::npos);
}

TEST_CASE("the same bytes every time, in every format") {
  const Folder folder;
  folder.write("b.yaml", budget("tp2,pp2,mb8", "  memory.peak: at most 40 GiB\n  mfu: at least 99 %\n"));
  for (const char* format : {"human", "json", "github", "markdown", "junit", "sarif"}) {
    const Ran one = run({"check", "--budget", "b.yaml", "--format", format});
    CHECK(one.status == 1);
    CHECK(one.out.size() > 100);
    CHECK(run({"check", "--budget", "b.yaml", "--format", format, "--threads", "1"}).out == one.out);
  }
}
