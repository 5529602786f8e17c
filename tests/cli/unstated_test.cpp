// What nobody stated: named with where it came from, and refused where it is a guess and the answer must not hang on
// it.
#include <doctest/doctest.h>

#include <algorithm>

#include "cli/request/resolve.hpp"
#include "cli/request/unstated.hpp"
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
  CHECK(resolve_problem(args));
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

}  // namespace plan
