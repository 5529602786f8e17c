// Launch files checked as they are: what a pull request changes in one fails at the line that it changed, and what is
// suggested, written into the files, passes with the figures that were promised.
#include <doctest/doctest.h>

#include <functional>
#include <regex>

#include "check_files.hpp"
#include "contents.hpp"

using namespace plan;
using namespace plan::checks;

namespace {

/// Line of a file that holds `word`, from 1; 0 if none does.
int line_with(const std::string& path, const std::string& word) {
  std::istringstream in(contents_of(path));
  int number = 1;
  for (std::string line; std::getline(in, line); ++number)
    if (line.find(word) != std::string::npos) return number;
  return 0;
}

/// A place in a launch file where a choice is written, and how.
struct Written {
  const char *key, *file, *pattern;  ///< the pattern's first group stays, what follows is the value
  std::string (*word)(const std::string&) = nullptr;
};

std::string yes_or_no(const std::string& recompute) { return recompute == "full" ? "true" : "false"; }
std::string quoted(const std::string& word) { return '"' + word + '"'; }
std::string reshard(const std::string& zero) { return zero == "3" ? "true" : "false"; }
std::string reshard_word(const std::string& zero) { return zero == "3" ? "\"always\"" : "\"never\""; }

struct Edit {
  const char* file;
  std::string from, to;
};
struct KeyEdit {
  const char* key;  ///< the cause that is to be named
  std::vector<Edit> edits;
  const char* file;
  std::string mark;  ///< where it is to be found
};

/// Another value behind `name`, and what must change with it elsewhere.
KeyEdit value(const char* key, const char* file, const std::string& name, const std::string& from,
              const std::string& to, std::vector<Edit> more = {}) {
  more.insert(more.begin(), {file, name + from, name + to});
  return {key, std::move(more), file, name + to};
}

/// Steps of accumulation in the Trainer's file, 8 as emitted.
Edit steps(const char* file, const std::string& to) {
  const std::string name = "\"gradient_accumulation_steps\": ";
  return {file, name + "8", name + to};
}
struct Job {
  const char *framework, *gpus, *layout, *from;
  std::vector<Written> written;
  std::vector<KeyEdit> changes;
};

const char *const kMegatron = "cfg/plan-llama3-8b.sh", *const kTitan = "cfg/torchtitan.toml",
                  *const kDeepspeed = "cfg/ds_config.json", *const kTrainer = "cfg/run_clm.json",
                  *const kAccelerate = "cfg/accelerate.yaml";

const std::vector<Written>& trainer() {
  static const std::vector<Written> kRows = {{"micro_batch", kTrainer, "(\"per_device_train_batch_size\": )\\d+"},
                                             {"micro_batches", kTrainer, "(\"gradient_accumulation_steps\": )\\d+"},
                                             {"seq", kTrainer, "(\"block_size\": )\\d+"}};
  return kRows;
}

std::vector<Written> with_trainer(std::vector<Written> rows) {
  rows.insert(rows.end(), trainer().begin(), trainer().end());
  return rows;
}

std::vector<Job> jobs() {
  return {{"megatron-lm",
           "64",
           "mb1,tp2,cp1,pp2,vp1,zero1,recompute=full",
           "cfg/*.sh",
           {{"micro_batch", kMegatron, "(--micro-batch-size )\\d+"},
            {"seq", kMegatron, "(--seq-length )\\d+"},
            {"tp", kMegatron, "(--tensor-model-parallel-size )\\d+"},
            {"pp", kMegatron, "(--pipeline-model-parallel-size )\\d+"},
            {"cp", kMegatron, "(--context-parallel-size )\\d+"}},
           {value("micro_batch", kMegatron, "--micro-batch-size ", "1", "8"),
            {"recompute",
             {{kMegatron, "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1", ""}},
             kMegatron,
             "exec torchrun"},
            {"sequence_parallel", {{kMegatron, "--sequence-parallel", ""}}, kMegatron, "exec torchrun"},
            {"seq",
             {{kMegatron, "--seq-length 8192 --max-position-embeddings 8192",
               "--seq-length 65536 --max-position-embeddings 65536"}},
             kMegatron,
             "--seq-length 65536"},
            value("tp", kMegatron, "--tensor-model-parallel-size ", "2", "1")}},
          {"torchtitan",
           "64",
           "mb1,tp2,cp1,pp1,recompute=full",
           "cfg/*",
           {{"micro_batch", kTitan, "(\nlocal_batch_size = )\\d+"},
            {"seq", kTitan, "(\nseq_len = )\\d+"},
            {"tp", kTitan, "(\ntensor_parallel_degree = )\\d+"},
            {"cp", kTitan, "(\ncontext_parallel_degree = )\\d+"},
            {"dp", kTitan, "(\ndata_parallel_shard_degree = )\\d+"},
            {"recompute", kTitan, "(\nmode = )\"\\w+\"", quoted},
            {"zero", kTitan, "(\nfsdp_reshard_after_forward = )\"\\w+\"", reshard_word}},
           {value("micro_batch", kTitan, "local_batch_size = ", "1", "8"),
            value("recompute", kTitan, "mode = ", "\"full\"", "\"none\""),
            {"recompute", {{kTitan, "[activation_checkpoint]\nmode = \"full\"\n", ""}}, kTitan, "description = "},
            {"recompute", {{kTitan, "mode = \"full\"\n", ""}}, kTitan, "[activation_checkpoint]"},
            value("seq", kTitan, "seq_len = ", "8192", "65536"),
            value("tp", kTitan, "tensor_parallel_degree = ", "2", "1",
                  {{kTitan, "data_parallel_shard_degree = 32", "data_parallel_shard_degree = 64"}})}},
          {"deepspeed",
           "64",
           "mb1,tp2,cp1,pp1,recompute=full",
           "cfg/*",
           with_trainer({{"micro_batch", kDeepspeed, "(\"train_micro_batch_size_per_gpu\": )\\d+"},
                         {"micro_batches", kDeepspeed, "(\"gradient_accumulation_steps\": )\\d+"},
                         {"tp", kDeepspeed, "(\"autotp_size\": )\\d+"},
                         {"zero", kDeepspeed, "(\"stage\": )\\d"},
                         {"recompute", kTrainer, "(\"gradient_checkpointing\": )\\w+", yes_or_no}}),
           {value("micro_batch", kDeepspeed, "\"train_micro_batch_size_per_gpu\": ", "1", "8",
                  {steps(kDeepspeed, "1"),
                   steps(kTrainer, "1"),
                   {kTrainer, "\"per_device_train_batch_size\": 1", "\"per_device_train_batch_size\": 8"}}),
            value("recompute", kTrainer, "\"gradient_checkpointing\": ", "true", "false"),
            {"recompute", {{kTrainer, "  \"gradient_checkpointing\": true,\n", ""}}, kTrainer, "\"config_name\""},
            value("seq", kTrainer, "\"block_size\": ", "8192", "65536"),
            value("tp", kDeepspeed, "\"autotp_size\": ", "2", "1", {steps(kDeepspeed, "4"), steps(kTrainer, "4")})}},
          {"accelerate",
           "64",
           "mb1,tp2,cp1,pp1,recompute=full",
           "[cfg/accelerate.yaml, cfg/run_clm.json]",
           with_trainer({{"tp", kAccelerate, "(parallelism_config_tp_size: )\\d+"},
                         {"dp", kAccelerate, "(parallelism_config_dp_shard_size: )\\d+"},
                         {"cp", kAccelerate, "(parallelism_config_cp_size: )\\d+"},
                         {"zero", kAccelerate, "(fsdp_reshard_after_forward: )\\w+", reshard},
                         {"recompute", kAccelerate, "(fsdp_activation_checkpointing: )\\w+", yes_or_no}}),
           {value("micro_batch", kTrainer, "\"per_device_train_batch_size\": ", "1", "8", {steps(kTrainer, "1")}),
            value("recompute", kAccelerate, "fsdp_activation_checkpointing: ", "true", "false"),
            {"recompute", {{kAccelerate, "  fsdp_activation_checkpointing: true\n", ""}}, kAccelerate, "fsdp_version"},
            value("seq", kTrainer, "\"block_size\": ", "8192", "65536"),
            value("zero", kAccelerate, "fsdp_reshard_after_forward: ", "true", "false")}}};
}

void edit(const Folder& folder, const Edit& edit) {
  std::string text = contents_of(edit.file);
  const std::size_t at = text.find(edit.from);
  REQUIRE_MESSAGE(at != std::string::npos, edit.from);
  folder.write(edit.file, text.replace(at, edit.from.size(), edit.to));
}

/// Writes every change of a suggestion into the files. False if one has no line there to change.
bool apply(const Folder& folder, const Job& job, const Json& suggestion) {
  for (const Json& change : suggestion["changes"]) {
    bool found = false;
    for (const Written& row : job.written) {
      if (change["key"] != row.key) continue;
      const std::string text = contents_of(row.file), after = change["after"];
      const std::string changed =
          std::regex_replace(text, std::regex(row.pattern), "$01" + (row.word != nullptr ? row.word(after) : after));
      found = found || changed != text;
      folder.write(row.file, changed);
    }
    if (!found) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("a changed launch file fails at its line, and each suggestion, written into the files, passes") {
  for (const Job& job : jobs()) {
    CAPTURE(std::string(job.framework));
    const Folder folder;
    REQUIRE(run({"emit", job.framework, "-o", "cfg", "--launcher", "torchrun", "--model", "8b", "--gpus", job.gpus,
                 "--global-batch", "256", "--layout", job.layout})
                .status == 0);
    folder.write("b.yaml",
                 std::string("budget: 1\nmodel: 8b\ngpus: 64 x h100-sxm\nfrom: ") + job.from +
                     "\nlimits: {memory.peak: at most 78 GiB}\nsince_baseline: {memory.peak: at most +2 %}\n");
    const std::vector<std::string> check = {"check", "--budget", "b.yaml", "--baseline", "main.json", "--json"};
    const Ran main = run({"check", "--budget", "b.yaml", "--baseline", "none", "--json"});
    CAPTURE(main.err);
    REQUIRE(main.status == 0);
    folder.write("main.json", main.out);
    std::map<std::string, std::string> before;
    for (const char* file : {kMegatron, kTitan, kDeepspeed, kTrainer, kAccelerate})
      if (std::filesystem::exists(file)) before[file] = contents_of(file);
    int applied = 0;
    for (const KeyEdit& change : job.changes) {
      CAPTURE(std::string(change.key));
      CAPTURE(change.edits.front().to);
      const auto changed = [&] {
        for (const auto& [file, text] : before) folder.write(file, text);
        for (const Edit& one : change.edits) edit(folder, one);
      };
      changed();
      const Ran failed = run(check);
      CAPTURE(failed.err);
      REQUIRE(failed.status == 1);
      const Json report = Json::parse(failed.out);
      Json causes = limit_of(report, "memory.peak.since_baseline")["causes"];
      REQUIRE(!causes.empty());
      CHECK(causes[0]["key"] == change.key);
      CHECK(causes[0]["file"] == change.file);
      CHECK(causes[0]["line"] == line_with(change.file, change.mark));
      const Ran github = run({"check", "--budget", "b.yaml", "--baseline", "main.json", "--format", "github"});
      CHECK(github.out.find("::error file=" + std::string(change.file) +
                            ",line=" + std::to_string(causes[0]["line"].get<int>()) + ",") != std::string::npos);
      const Json suggestions = report["jobs"][0]["suggestions"];
      REQUIRE(!suggestions.empty());
      CHECK(suggestions[0]["restores_baseline"] == true);
      for (const Json& suggestion : suggestions) {
        CAPTURE(suggestion.dump());
        changed();
        if (!apply(folder, job, suggestion)) continue;
        if (keeps_its_word(run(check), suggestion)) ++applied;
      }
    }
    CHECK(applied >= 3);
  }
}

TEST_CASE("numbers of DeepSpeed and of the Trainer that differ are told with both lines") {
  const Folder folder;
  REQUIRE(run({"emit", "deepspeed", "-o", "cfg", "--model", "8b", "--gpus", "64", "--global-batch", "256", "--layout",
               "mb1,tp1"})
              .status == 0);
  edit(folder, {kTrainer, "\"per_device_train_batch_size\": 1", "\"per_device_train_batch_size\": 2"});
  const Ran ran = run({"estimate", "--from", kDeepspeed, "--from", kTrainer, "--model", "8b", "--gpus", "64"});
  CHECK(ran.status == 2);
  CAPTURE(ran.err);
  for (const char* part :
       {"cfg/ds_config.json:2: `train_micro_batch_size_per_gpu` is 1",
        "cfg/run_clm.json:10: `per_device_train_batch_size` is 2", "transformers refuses to start when they differ"})
    CHECK(ran.err.find(part) != std::string::npos);
  edit(folder, {kDeepspeed, "\"train_micro_batch_size_per_gpu\": 1", "\"train_micro_batch_size_per_gpu\": \"auto\""});
  CHECK(run({"estimate", "--from", kDeepspeed, "--from", kTrainer, "--model", "8b", "--gpus", "64"}).status <= 1);
}

TEST_CASE("a launch script beside the best layout, and estimated: the same job") {
  const Folder folder;
  REQUIRE(
      run({"emit", "megatron-lm", "-o", "cfg", "--model", "70b", "--gpus", "256", "--gpu", "h200-sxm", "--seq", "4096",
           "--global-batch", "512", "--precision", "fp8", "--layout", "tp8,cp1,pp4,vp5,mb1,zero1,recompute=full-2"})
          .status == 0);
  const std::string script = "cfg/plan-llama3-70b.sbatch";
  const Ran ran = run({"compare", script, "best", "--gpu", "h200-sxm", "--json"});
  CAPTURE(ran.err);
  REQUIRE(ran.status == 0);
  const Json report = Json::parse(ran.out);
  const Json author = run_json({"estimate", "--from", script, "--gpu", "h200-sxm"});
  CHECK(report["a"]["best"] == author["best"]);
  CHECK(author["best"]["layout"]["tp"] == 8);
  const Json best = run_json({"--model", "70b", "--gpus", "256", "--gpu", "h200-sxm", "--seq", "4096", "--global-batch",
                              "512", "--precision", "fp8", "--framework", "megatron"});
  CHECK(report["b"]["best"]["layout"] == best["best"]["layout"]);
  CHECK(report["b"]["best"]["step_time_s"].get<double>() < author["best"]["step_time_s"].get<double>());
  const Json fixed = run_json({"compare", script, "best", "--gpu", "h200-sxm", "--layout", "tp8"});
  CHECK(fixed["b"]["best"]["layout"]["tp"] == 8);
  const Json other = run_json({"compare", "tp4,pp4", script, "--gpu", "h200-sxm"});
  CHECK(other["a"]["best"]["layout"]["tp"] == 4);
  CHECK(other["b"]["best"] == author["best"]);
}

TEST_CASE("a file that is not there is no layout to compare") {
  const Folder folder;
  for (const char* side : {"mine.json", "runs/mine", "./mine.sbatch"}) {
    const Ran ran = run({"compare", side, "best", "--model", "8b", "--gpus", "8"});
    CHECK(ran.status == 2);
    CHECK(ran.err.starts_with(std::string("error: no file `") + side + "`"));
  }
  CHECK(run({"compare", "tpp2", "best", "--model", "8b", "--gpus", "8"}).err.starts_with("error: unknown axis"));
}
