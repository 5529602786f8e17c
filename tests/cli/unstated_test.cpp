// What nobody stated: named with where it came from, and refused where it is a guess and the answer must not hang on
// it.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "check_files.hpp"
#include "cli/request/resolve.hpp"
#include "cli/request/sources/plan_json_read.hpp"
#include "cli/request/table/command_table.hpp"
#include "cli/request/unstated.hpp"
#include "planner/memory/host_memory.hpp"
#include "temporary_folder.hpp"

namespace plan {
namespace {

Args asked() {
  Args args;
  args.model = "8b", args.gpus = "64";
  return args;
}

bool guesses(const Problem& problem, const std::string& field) {
  const std::vector<Unstated> facts = unstated(problem);
  return std::any_of(facts.begin(), facts.end(),
                     [&](const Unstated& fact) { return fact.field == field && fact.guessed; });
}

}  // namespace

TEST_CASE("a preset's batch and the usual cluster are guesses, and --strict refuses them") {
  Args args = asked();
  const Result<Problem> open = resolve_problem(args);
  REQUIRE(open);
  for (const char* field : {"seq", "global_batch", "cluster", "precision", "optimizer", "task"}) {
    CAPTURE(field);
    CHECK(guesses(*open, field));
  }
  CHECK(unstated_lines(*open).front().find("preset llama3-8b") != std::string::npos);
  args.strict = true;
  const Result<Problem> refused = resolve_problem(args);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().front().code == "not_stated");
  args.seq = "8192", args.global_batch = "1024", args.precision = "bf16", args.optimizer = "adam";
  args.task = "pretrain", args.gpu = "h100-sxm";
  const Result<Problem> settled = resolve_problem(args);
  REQUIRE(settled);
  CHECK((settled->free_switches & kHostSwitches) == 0);  // nobody states what memory the nodes have
  args.offload = "optimizer";
  const Result<Problem> hosts = resolve_problem(args);
  REQUIRE_FALSE(hosts);
  CHECK(hosts.error().front().message.find("host_memory") != std::string::npos);
  args.host_memory = "2TiB";
  CHECK(resolve_problem(args));
}

TEST_CASE("a batch or sequence is a preset's only where its file states one") {
  for (const auto& entry : std::filesystem::directory_iterator(std::string(PLAN_SOURCE_DIR) + "/presets/models")) {
    std::ifstream file(entry.path());
    std::stringstream text;
    text << '\n' << file.rdbuf();
    Args args = asked();
    args.model = entry.path().stem().string();
    const Result<Problem> problem = resolve_problem(args);
    REQUIRE_MESSAGE(problem, *args.model);
    for (const std::string key : {"seq", "global_batch"}) {
      const Input* input = find_input(problem->inputs, key);
      REQUIRE(input != nullptr);
      const bool states = text.str().find("\n" + key + ":") != std::string::npos;
      CHECK_MESSAGE((input->origin == Origin::Preset) == states, *args.model);
    }
  }
}

TEST_CASE("a framework's default is listed and accepted, a flag without meaning is refused") {
  const TemporaryFolder folder;
  const std::string start =
      "#!/bin/bash\ntorchrun --nnodes 1 --nproc-per-node 8 pretrain_gpt.py --num-layers 32 --hidden-size 4096 "
      "--num-attention-heads 32 --seq-length 2048 --max-position-embeddings 2048 --micro-batch-size 2 "
      "--eval-interval 100 --bf16 --vocab-size 32000 --global-batch-size 64 ";
  Args args;
  args.gpu = "h100-sxm", args.strict = true;
  args.from = {folder.write("plain.sh", start + "\n")};
  const Result<Problem> plain = resolve_problem(args);
  REQUIRE_MESSAGE(plain, (plain ? "" : plain.error().front().message));
  CHECK_FALSE(unstated(*plain).empty());
  args.from = {folder.write("fork.sh", start + "--swap-attention\n")};
  const Result<Problem> fork = resolve_problem(args);
  REQUIRE_FALSE(fork);
  CHECK(fork.error().front().code == "not_used");
}

namespace {

/// A command whose answer rests on a problem, in words that leave sequence, batch and cluster open.
const std::map<std::string_view, std::vector<std::string>>& asking() {
  static const std::map<std::string_view, std::vector<std::string>> kAsking = {
      {"", {"--model", "8b", "--gpus", "8"}},
      {"estimate", {"estimate", "--model", "8b", "--gpus", "8", "--layout", "zero3"}},
      {"explain", {"explain", "memory", "--model", "8b", "--gpus", "8", "--layout", "zero3"}},
      {"compare", {"compare", "zero3", "tp2", "--model", "8b", "--gpus", "8"}},
      {"sweep", {"sweep", "--gpus", "8..16", "--model", "8b"}},
      {"emit", {"emit", "torchtitan", "--model", "8b", "--gpus", "8", "-o", "files", "--force"}},
      {"check", {"check", "--budget", "budget.yaml"}},
      {"next", {"next", "--model", "8b", "--gpus", "8"}},
  };
  return kAsking;
}

/// What rests on no problem of a user's, or is said elsewhere: look-ups, runs that state themselves, measurements.
bool rests_on_nothing(std::string_view verb) {
  constexpr std::string_view kOthers[] = {"formula",   "list",  "show",     "validate",
                                          "calibrate", "probe", "diagnose", "capture"};
  return std::find(std::begin(kOthers), std::end(kOthers), verb) != std::end(kOthers);
}

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> out;
  std::istringstream in{std::string(text)};
  for (std::string word; in >> word;) out.push_back(word);
  return out;
}

}  // namespace

TEST_CASE("who states no GPUs is told how to, with as many as a node of the files has where there are files") {
  const auto help = [](const std::vector<std::string>& words) {
    Streams streams;
    CHECK(run_command_line(words, streams) == 2);
    CHECK(streams.err.find("`--gpus` is missing") != std::string::npos);
    return streams.err.substr(streams.err.find("help: "));
  };
  CHECK(help({"estimate", "--model", "8b", "--layout", "tp2"}) == "help: write `--gpus 16384`\n");
  const TemporaryFolder folder;
  const std::string file = folder.write(
      "run.sh",
      "#!/bin/bash\ntorchrun --nproc-per-node 4 --nnodes $NODES pretrain_gpt.py --num-layers 8 --hidden-size 1024 "
      "--num-attention-heads 8 --seq-length 2048 --max-position-embeddings 2048 --micro-batch-size 1 "
      "--global-batch-size 64 --train-iters 5 --vocab-size 32000 --bf16 --eval-interval 5\n");
  CHECK(help({"estimate", "--from", file}).find("`--gpus 4`") != std::string::npos);
}

TEST_CASE("every command says in every format what nobody stated") {
  const checks::Folder folder;
  folder.write("budget.yaml", "budget: 1\nmodel: 8b\ngpus: 8\nlayout: zero3\nlimits:\n  memory.peak: at most 79 GiB\n");
  for (const Command& command : kCommands) {
    CAPTURE(std::string(command.name));
    const auto found = asking().find(command.name);
    if (found == asking().end()) {
      CHECK_MESSAGE(rests_on_nothing(command.name), "a new command: say what it rests on");
      continue;
    }
    for (const std::string& format : words_of(command.formats)) {
      if (format == "csv" || format == "trace") continue;  // numbers for programs: columns and events alone
      CAPTURE(format);
      std::vector<std::string> words = found->second;
      words.insert(words.end(), {"--format", format});
      checks::Ran ran = checks::run(words);
      std::erase(ran.out, '\\');  // Markdown's escapes
      CAPTURE(ran.err);
      CHECK(ran.status <= 1);
      for (const char* field : {"global_batch", "seq", "precision", "cluster"}) {
        CAPTURE(field);
        const std::size_t at = ran.out.find(format == "json" ? "\"field\": \"" + std::string(field) : field);
        CHECK(at != std::string::npos);
      }
      CHECK(ran.out.find("preset llama3-8b") != std::string::npos);
    }
  }
}

TEST_CASE("what an earlier plan left open is still open where it is compared") {
  const checks::Folder folder;
  folder.write("a.json", checks::run({"--model", "8b", "--gpus", "8", "--json"}).out);
  const std::string text = checks::run({"compare", "a.json", "best"}).out;
  CHECK(text.find("not stated:") != std::string::npos);
  CHECK(text.find("preset llama3-8b") != std::string::npos);
  CHECK(text.find("llama3-8b on 8 x h100-sxm, sequence 8192, global batch 1024") != std::string::npos);
}

}  // namespace plan
