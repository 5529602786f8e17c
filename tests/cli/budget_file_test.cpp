#include "cli/check/budget_file.hpp"

#include <doctest/doctest.h>

#include "check_files.hpp"
#include "cli/check/budget_keys.hpp"

using namespace plan;

namespace {

std::vector<std::string> mistakes(const checks::Folder& folder, const std::string& text) {
  folder.write("budgets/b.yaml", text);
  const Result<BudgetFile> file = read_budget_file("budgets/b.yaml");
  std::vector<std::string> out;
  if (file) return out;
  for (const Error& error : file.error()) {
    out.push_back(std::to_string(error.place.line) + ": " + error.message);
    CHECK(error.place.file == "budgets/b.yaml");
  }
  return out;
}

}  // namespace

TEST_CASE("one job at the top of the file, files named from its folder") {
  const checks::Folder folder;
  folder.write("configs/a.sh", "");
  folder.write("configs/b.json", "");
  folder.write(
      "budgets/b.yaml",
      "budget: 1\nmodel: 8b\ngpus: 8 x h100-sxm\nfrom: [../configs/a.sh, ../configs/*.json]\nbaseline: main.json\n"
      "tokens: 15T\nprice: 2.5 USD/h\nrisk: at-risk\nlimits:\n  memory.peak: at most 60 GiB\n  cost: at most 9 USD\n");
  const Result<BudgetFile> file = read_budget_file("budgets/b.yaml");
  REQUIRE(file);
  REQUIRE(file->jobs.size() == 1);
  const BudgetJob& job = file->jobs[0];
  CHECK(job.words.at("model").text == "8b");
  CHECK(job.words.at("gpus").place.line == 3);
  CHECK(job.words.at("baseline").text == "budgets/main.json");
  REQUIRE(job.from.size() == 2);
  CHECK(job.from[0].text == "configs/a.sh");
  CHECK(job.from[1].text == "configs/b.json");
  CHECK(job.budget.run.tokens == 15e12);
  CHECK(job.budget.run.price == 2.5);
  CHECK(job.budget.risk == Risk::AtRisk);
  REQUIRE(job.budget.limits.size() == 3);
  CHECK(job.budget.limits[0].metric == Metric::MemoryFit);
  CHECK(job.budget.limits[1].place.line == 10);
}

TEST_CASE("many jobs share what is above them; a pattern makes a job of each file") {
  const checks::Folder folder;
  for (const char* name : {"c.sh", "a.sh", "b.sh"}) folder.write(std::string("runs/") + name, "");
  folder.write("b.yaml",
               "budget: 1\ngpus: 8\nlimits: {memory.peak: at most 60 GiB, step_time: at most 1 s}\njobs:\n"
               "  - {name: one, model: 8b, limits: {memory.peak: at most 50 GiB}}\n"
               "  - {name: many, each: runs/*.sh, gpus: 16}\n");
  const Result<BudgetFile> file = read_budget_file("b.yaml");
  REQUIRE(file);
  REQUIRE(file->jobs.size() == 4);
  CHECK(file->jobs[0].name == "one");
  CHECK(file->jobs[0].words.at("gpus").text == "8");
  CHECK(file->jobs[0].budget.limits.size() == 3);
  CHECK(file->jobs[0].budget.limits.back().fail->text == "at most 50 GiB");
  CHECK(file->jobs[1].name == "many runs/a.sh");
  CHECK(file->jobs[3].from[0].text == "runs/c.sh");
  CHECK(file->jobs[3].words.at("gpus").text == "16");
  CHECK(file->jobs[3].budget.limits.size() == 3);
}

TEST_CASE("every mistake at once, in the order of lines") {
  const checks::Folder folder;
  using List = std::vector<std::string>;
  CHECK(mistakes(folder,
                 "budget: 1\nmodle: 8b\ngpus: 8\nlimits:\n  memroy.peak: at most 60 GiB\n  step_time: at most 6.5\n"
                 "since_baseline:\n  mfu: at least -1\nfrom: nothing.sh\nrisk: maybe\n") ==
        List{"2: unknown key `modle`", "5: unknown limit `memroy.peak`", "6: `limits.step_time` needs a unit",
             "8: `since_baseline.mfu` needs a unit", "9: no file `budgets/nothing.sh`", "10: unknown `risk` `maybe`"});
  CHECK(mistakes(folder, "budget: 2\n") == List{"1: `budget` is the version of the format, 1"});
  CHECK(mistakes(folder, "model: 8b\n") == List{"1: `budget` is missing"});
  CHECK(mistakes(folder, "schema: plan-budget/1\nmodel: 8b\n") ==
        List{"1: `schema` begins a report, and a budget begins with `budget: 1`"});
  CHECK(mistakes(folder, "budget: 1\nlimits: {cost: at most 3 USD}\n") ==
        List{"2: `cost` needs the tokens of the whole run"});
  CHECK(mistakes(folder, "budget: 1\njobs:\n  - name: a\n  - name: a\n") == List{"4: two jobs are named `a`"});
  CHECK(mistakes(folder, "budget: 1\njobs: []\n") == List{"2: `jobs` is empty"});
  CHECK(mistakes(folder, "budget: 1\njobs:\n  a: {model: 8b}\n") == List{"3: `jobs` is not a list"});
  CHECK(mistakes(folder, "budget: 1\njobs:\n  - model: 8b\n") == List{"3: `jobs[0].name` is missing"});
  CHECK(mistakes(folder, "budget: 1\nlimits: {memory.peak: [1]}\n") == List{"2: `limits.memory.peak` is no limit"});
  CHECK(mistakes(folder, "budget: 1\nlimits: {memory.fit: at most 1 GiB}\n").size() == 1);
  CHECK(mistakes(folder, "budget: 1\neach: '*.sh'\nfrom: b.yaml\n").size() == 2);
  CHECK(mistakes(folder, "budget: 1\nprice: x\nlimits: {a: 1}\nlimits: {}\n") ==
        List{"4: key `limits` is given twice"});
}

TEST_CASE("a file that is no budget is one mistake") {
  const checks::Folder folder;
  for (const char* text : {"preset: cluster/1\nname: c\ngpu: h100\n", "id,gpus\na,8\n", "- a\n- b\n", "words\n"})
    CHECK(mistakes(folder, text).size() == 1);
}

TEST_CASE("a slip in the name of a section is answered with the section") {
  const checks::Folder folder;
  for (const std::string section : {"limits", "since_baseline", "jobs", "each"})
    for (std::size_t at = 1; at < section.size(); ++at) {
      std::string slip = section;
      slip.erase(at, 1);
      folder.write("budgets/b.yaml", "budget: 1\nmodel: 8b\n" + slip + ": x\n");
      const Result<BudgetFile> file = read_budget_file("budgets/b.yaml");
      REQUIRE_FALSE(file);
      CAPTURE(slip);
      REQUIRE(file.error().size() == 1);
      CHECK(file.error().front().help.front().find("`" + section + "`") != std::string::npos);
    }
}

TEST_CASE("a number where the kind of GPU belongs is one mistake") {
  for (const char* flag : {"--gpu", "--cluster"}) {
    const checks::Ran ran = checks::run({"--model", "8b", flag, "8"});
    CHECK(ran.status == 2);
    CHECK(ran.err.find("write `--gpus 8`") != std::string::npos);
    CHECK(ran.err.find("2 errors") == std::string::npos);
  }
}

TEST_CASE("the caret is under the value that lacks its unit") {
  const checks::Folder folder;
  for (const char* line :
       {"  step_time: at most 6.5", "  step_time:   'at most 6.5'", "  step_time: \"at most 6.5\""}) {
    folder.write("b.yaml", std::string("budget: 1\nlimits:\n") + line + "\n");
    const Result<BudgetFile> file = read_budget_file("b.yaml");
    REQUIRE(!file);
    const Place& place = file.error().front().place;
    CHECK(place.text.substr(static_cast<std::size_t>(place.column) - 1, static_cast<std::size_t>(place.length)) ==
          "6.5");
  }
}

TEST_CASE("keys of other tools are told as the keys of a budget, which reads them when they are pasted") {
  const checks::Folder folder;
  const struct {
    const char *keys, *meant;
  } kOthers[] = {{"tp: 8", "layout: tp8"},
                 {"tensor_parallel_size: 2, pipeline_parallel: 4", "layout: tp2,pp4"},
                 {"micro_batch: 2", "layout: micro-batch2"},
                 {"layout: tp2, dp: 4", "layout: tp2,dp4"},
                 {"zero_stage: 3", "layout: zero3"},
                 {"nnodes: 8, gpus_per_node: 4", "gpus: 32"},
                 {"seq_length: 8192", "seq: 8192"},
                 {"batch_size: 64", "global_batch: 64"},
                 {"lora_r: 8", "lora_rank: 8"},
                 {"bf16: true", "precision: bf16"}};
  for (const auto& other : kOthers) {
    const std::string keys = other.keys, meant = other.meant;
    CAPTURE(keys);
    folder.write("b.yaml", "budget: 1\njobs:\n  - {name: a, model: 8b, " + keys + "}\n");
    const Result<BudgetFile> file = read_budget_file("b.yaml");
    REQUIRE(!file);
    for (const Error& error : file.error()) {
      CHECK(error.code == "unknown_key");
      REQUIRE(!error.help.empty());
      CHECK(error.help.front() == "write `" + meant + "`");
    }
    CHECK_MESSAGE(mistakes(folder, "budget: 1\nmodel: 8b\n" + meant + "\n").empty(), meant);
  }
  CHECK(mistakes(folder, "budget: 1\nmodel: 8b\ngpus: 8\ncolour: red\n") ==
        std::vector<std::string>{"4: unknown key `colour`"});
}

TEST_CASE("sentences about flags say keys, but for command lines and for what another tool calls so") {
  CHECK(spelt_as_keys("write `--gpus 64 --seq 8192`, not `--gpus`") == "write `gpus: 64 seq: 8192`, not `gpus`");
  CHECK(spelt_as_keys("`plan sweep --gpus 8,16`, or --host-memory 2TiB") ==
        "`plan sweep --gpus 8,16`, or host_memory: 2TiB");
  CHECK(spelt_as_keys("`--nnodes 4` of `--global-batch`") == "`--nnodes 4` of `global_batch`");
  CHECK(spelt_as_keys("`--seq-length 8`, `--gpus 8`, `--precision bf16`", true) ==
        "`--seq-length 8`, `gpus: 8`, `--precision bf16`");
  CHECK(spelt_as_keys("") == "");
  CHECK(spelt_as_keys("--") == "--");
}

TEST_CASE("a budget given as a preset is one mistake, which says what it is") {
  const checks::Folder folder;
  folder.write("b.yaml", "budget: 1\nmodel: 8b\ngpus: 8 x h100-sxm\nlimits:\n  memory.peak: at most 60 GiB\n");
  for (const char* flag : {"--model", "--gpu", "--cluster"}) {
    CAPTURE(std::string(flag));
    std::vector<std::string> words = {"--gpus", "8", flag, "./b.yaml"};
    if (std::string(flag) != "--model") words.insert(words.end(), {"--model", "8b"});
    const checks::Ran ran = checks::run(words);
    CHECK(ran.status == 2);
    CHECK_MESSAGE(ran.err.find("that is a budget: `plan check --budget FILE`") != std::string::npos, ran.err);
    CHECK(ran.err.find("is missing") == std::string::npos);
  }
}
