#include <doctest/doctest.h>

#include <set>
#include <string>

#include "oracle/random_problem.hpp"
#include "planner/rules/rules.hpp"

using namespace plan;

namespace {

std::string broken(const Problem& problem, const Layout& layout) {
  const int rule = broken_rule(problem, layout);
  return rule < 0 ? "" : std::string(rules()[static_cast<std::size_t>(rule)].code);
}

Problem llama() {
  Problem problem;
  problem.model = oracle::dense_model(32, 4096, 32, 8, 14336, 128256);
  problem.cluster = oracle::plain_cluster();
  problem.gpus = 64;
  problem.training.seq = 8192, problem.training.global_batch = 256;
  return problem;
}

}  // namespace

TEST_CASE("each rule rejects what it names") {
  const Problem problem = llama();
  Layout good;
  good.tp = 4, good.pp = 2, good.dp = 8, good.sequence_parallel = true;
  CHECK(broken(problem, good) == "");

  Layout layout = good;
  layout.dp = 4;
  CHECK(broken(problem, layout) == "gpus_divide");
  layout = good, layout.tp = 1, layout.pp = 64, layout.dp = 1;
  CHECK(broken(problem, layout) == "layers_fill_stages");
  layout = good, layout.tp = 16, layout.pp = 1, layout.dp = 4;
  CHECK(broken(problem, layout) == "tp_leaves_scale_up");
  layout = good, layout.micro_batch = 64;
  CHECK(broken(problem, layout) == "micro_batch_divides");
  Problem wide = problem;
  wide.gpus = 8192, layout = good, layout.cp = 32, layout.tp = 8, layout.pp = 32, layout.dp = 1;
  CHECK(broken(wide, layout) == "replica_too_wide");
  wide.fixed.dp = 1;
  CHECK(broken(wide, layout) != "replica_too_wide");
  layout = good, layout.schedule = Schedule::Interleaved;
  CHECK(broken(problem, layout) == "schedule_limits");
  layout = good, layout.schedule = Schedule::Interleaved, layout.vp = 32;
  CHECK(broken(problem, layout) == "chunks_need_layers");
  layout = good, layout.shard = 3;
  CHECK(broken(problem, layout) == "shard_divides");
  layout = good, layout.cp = 4, layout.dp = 2, layout.cp_kind = CpKind::Ulysses;
  CHECK(broken(problem, layout) == "ulysses_heads");

  Problem odd = problem;
  odd.training.global_batch = 100;
  CHECK(broken(odd, good) == "batch_divides");
  odd = problem, odd.training.seq = 8190, layout = good, layout.cp = 4, layout.dp = 2;
  CHECK(broken(odd, layout) == "sequence_divides");
  odd = problem, odd.model.kinds[0].attention.heads = 30;
  CHECK(broken(odd, good) == "heads_divide");
  odd = problem, odd.model.kinds[0].attention.kv_heads = 6;
  CHECK(broken(odd, good) == "kv_heads_divide");
  odd = problem, odd.model.kinds[0].dense.width = 14338;
  CHECK(broken(odd, good) == "ffn_divides");
}

TEST_CASE("Megatron runs fewer schedules than there are") {
  Problem problem = llama();
  Layout layout;
  layout.tp = 4, layout.pp = 2, layout.dp = 8, layout.sequence_parallel = true, layout.vp = 2,
  layout.schedule = Schedule::ZbV;
  CHECK(broken(problem, layout) == "");
  problem.framework = Framework::Megatron;
  CHECK(broken(problem, layout) == "schedule_unknown");
}

TEST_CASE("codes are unique and texts say something") {
  std::set<std::string> codes;
  for (const Rule& rule : rules()) {
    CHECK(codes.insert(std::string(rule.code)).second);
    CHECK(rule.text.size() > 10);
  }
}
