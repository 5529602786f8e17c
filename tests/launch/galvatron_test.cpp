// Galvatron's strategies: what its lists say, what is refused, and every file read back as it was written.
#include <doctest/doctest.h>

#include <random>

#include "cli/request/resolve.hpp"
#include "planner/planner.hpp"
#include "planner/problem/axes.hpp"
#include "planner/rules/complete_layout.hpp"
#include "small_files.hpp"

namespace plan {

using namespace launching;

namespace {

const char* const kName = "galvatron_config_llama-8b_1nodes_8gpus_per_node_36GB_bf16.json";

/// Eight layers on two stages, each list as given.
std::string strategy(const std::string& tp, const std::string& sharded, const std::string& checkpoint,
                     const std::string& more = "") {
  return "{\"pp_deg\": 2, \"tp_sizes_enc\": \"" + tp + "\", \"tp_consecutive_flags\": \"1,1,1,1,1,1,1,1\", " +
         "\"dp_types_enc\": \"" + sharded + "\", \"checkpoint\": \"" + checkpoint +
         "\", \"global_bsz\": 64, \"chunks\": 8, \"pp_division\": \"3,5\", \"pipeline_type\": \"pipedream_flush\", " +
         "\"default_dp_type\": \"zero2\"" + more + "}";
}

/// A block that covers its layers is all of them. Are there neighbouring runs that differ in recomputation alone, which
/// are one with a block when read?
bool whole_blocks(Layout& layout, int depth) {
  bool joined = false;
  for (std::size_t i = 0; i < layout.stages.size(); ++i) {
    int left = layout.pp == 1 ? depth : layout.chunk_layers[i];
    const StageStrategy* before = nullptr;
    const auto settle = [&](StageStrategy& run) {
      const int layers = run.layers > 0 ? run.layers : left;
      left -= layers;
      if (run.recompute.layers >= layers) run.recompute.layers = 0;
      joined =
          joined || (before != nullptr && before->tp == run.tp && before->cp == run.cp && before->zero == run.zero);
      before = &run;
    };
    settle(layout.stages[i]);
    for (StageStrategy& run : layout.stages[i].behind) settle(run);
  }
  if (layout.pp == 1) layout.chunk_layers.clear();
  return joined;
}

/// What a stage does: degrees of its own for its first layers where `own_front`, for those behind in any stage. Under
/// Ulysses layers have tensor ranks or context ranks.
StageStrategy random_stage(std::mt19937& random, const Layout& layout, bool own_front, bool ulysses) {
  const auto pick = [&](std::initializer_list<int> from) { return *(from.begin() + random() % from.size()); };
  const auto own_width = [&](StageStrategy& run) {
    run.tp = pick({1, 2, 4}), run.cp = pick({1, 2});
    if (ulysses) (random() % 2 == 0 ? run.tp : run.cp) = 1;
  };
  StageStrategy own;
  if (random() % 2 == 0) own.recompute = {.kind = RecomputeKind::Full, .modules = 0, .layers = pick({0, 2})};
  if (own_front && random() % 3 == 0) own_width(own);
  if (own_front && layout.zero < 3 && random() % 3 == 0) own.zero = 3;
  if (random() % 3 == 0) {
    own.layers = pick({2, 3});
    StageStrategy behind;
    if (random() % 2 == 0) behind.recompute = {.kind = RecomputeKind::Full, .modules = 0, .layers = pick({0, 1})};
    if (random() % 2 == 0) own_width(behind);
    if (layout.zero < 3 && random() % 2 == 0) behind.zero = 3;
    own.behind.push_back(behind);
  }
  return own;
}

const std::string kOnes = "1,1,1,1,1,1,1,1", kNone = "0,0,0,0,0,0,0,0";

}  // namespace

TEST_CASE("Galvatron's lists: degrees, batch and what each stage does") {
  const LaunchJob job = job_of(kName, strategy("2,2,2,1,1,1,1,1", "1,1,1,0,0,0,0,0", "1,1,1,0,1,1,0,0"));
  CHECK(job.format == "galvatron");
  CHECK(job.gpus == 8);
  CHECK(job.fixed.pp == 2);
  CHECK(job.fixed.tp == 2);
  CHECK(job.fixed.dp == 2);
  CHECK(job.fixed.zero == 3);
  CHECK(job.fixed.micro_batch == 4);  // 64 sequences in 8 micro-batches on 2 replicas
  CHECK(job.fixed.chunk_layers == std::vector<int>{3, 5});
  CHECK(job.fixed.schedule == Schedule::OneFOneB);
  REQUIRE(job.fixed.stages);
  CHECK(stages_text(*job.fixed.stages) == "full:full-2@tp1@zero2");
  CHECK_FALSE(job.fixed.recompute);
  CHECK(job.training->precision == Precision::Bf16);

  const LaunchJob alike = job_of(kName, strategy(kOnes, kNone, kOnes));
  CHECK(alike.fixed.recompute == Recompute{.kind = RecomputeKind::Full});
  CHECK(alike.fixed.zero == 2);
  CHECK_FALSE(alike.fixed.stages);

  const LaunchJob ulysses = job_of(kName, strategy("2,2,2,2,2,2,2,2", kNone, kNone, ", \"use_sp\": \"" + kOnes + "\""));
  CHECK(ulysses.fixed.tp == 1);
  CHECK(ulysses.fixed.cp == 2);
  CHECK(ulysses.fixed.cp_kind == CpKind::Ulysses);
}

TEST_CASE("Galvatron's lists: layers of one stage that differ are runs of it") {
  const LaunchJob job = job_of(kName, strategy("2,2,1,1,1,1,1,2", "1,0,0,0,0,1,1,1", "1,1,1,0,1,1,0,0"));
  REQUIRE(job.fixed.stages);
  CHECK(job.fixed.tp == 2);
  CHECK(job.fixed.zero == 3);
  CHECK(stages_text(*job.fixed.stages) ==
        "full@layers1~full@layers1@zero2~full@tp1@zero2:full-1@layers2@tp1@zero2~full-1@layers2@tp1~none");
}

TEST_CASE("Galvatron's lists: layers of unequal context parallelism, by a ring or by Ulysses") {
  const LaunchJob ring =
      job_of(kName, strategy("2,2,2,1,1,1,1,1", kNone, kNone, ", \"cp_sizes_enc\": \"1,1,2,2,2,1,1,1\""));
  REQUIRE(ring.fixed.stages);
  CHECK(ring.fixed.tp == 2);
  CHECK(ring.fixed.cp == 1);
  CHECK(ring.fixed.cp_kind == CpKind::Ring);
  CHECK(stages_text(*ring.fixed.stages) == "none@layers2~none@cp2:none@layers2@tp1@cp2~none@tp1");

  const LaunchJob ulysses =
      job_of(kName, strategy("4,4,2,2,2,1,1,1", kNone, kNone, ", \"use_sp\": \"1,1,0,1,1,0,0,0\""));
  REQUIRE(ulysses.fixed.stages);
  CHECK(ulysses.fixed.tp == 1);
  CHECK(ulysses.fixed.cp == 4);
  CHECK(ulysses.fixed.cp_kind == CpKind::Ulysses);
  CHECK(stages_text(*ulysses.fixed.stages) == "none@layers2~none@tp2@cp1:none@layers2@cp2~none@cp1");
}

TEST_CASE("Galvatron's lists: what is wrong or cannot be said is an error") {
  const std::string both = ", \"cp_sizes_enc\": \"1,1,2,1,1,1,1,1\", \"use_sp\": \"0,0,0,0,1,0,0,0\"";
  CHECK(error_of(kName, strategy("1,1,1,1,2,1,1,1", kNone, kNone, both)) == "not_expressible");  // a ring and Ulysses
  CHECK(error_of(kName, strategy("1,1,1", kNone, kNone)) != "");
  CHECK(error_of(kName, strategy(kOnes, "0,0,0,2,0,0,0,0", kNone)) != "");
  CHECK(error_of(kName, strategy("x,1,1,1,1,1,1,1", kNone, kNone)) != "");
  CHECK(error_of("strategy.json", strategy(kOnes, kNone, kNone)) == "missing_flag");  // on how many GPUs?
  CHECK(error_of(kName, strategy(kOnes, kNone, kNone, ", \"ep_sizes_enc\": \"2,2,2,2,2,2,2,2\"")) == "not_expressible");
  const LaunchJob strided = job_of(kName, strategy(kOnes, kNone, kNone, ", \"vtp\": 4, \"unheard_of\": 1"));
  CHECK(names(strided.unused, "vtp"));
  CHECK(names(strided.notes, "unheard_of"));
}

TEST_CASE("Galvatron's file is read back as it was written") {
  std::mt19937 random(23);
  const auto pick = [&](std::initializer_list<int> from) { return *(from.begin() + random() % from.size()); };
  int written = 0, contexts = 0;
  for (int round = 0; round < 240; ++round) {
    Args args;
    args.model = "llama3-8b", args.gpus = "32", args.cluster = "dgx-h100", args.global_batch = "128";
    args.framework = "any";
    const Result<Problem> problem = resolve_problem(args);
    REQUIRE(problem);
    Problem job = *problem;
    Layout layout;
    layout.pp = pick({1, 2, 4}), layout.tp = pick({1, 2, 4}), layout.dp = 32 / layout.pp / layout.tp;
    layout.zero = pick({0, 2, 3}), layout.micro_batch = pick({1, 2, 4});
    // Under Ulysses layers have tensor ranks or context ranks.
    const bool ulysses = random() % 2 == 0;
    if (random() % 3 == 0) {
      layout.cp = ulysses ? layout.tp : pick({1, 2}), layout.dp = std::max(1, layout.dp / layout.cp);
      if (ulysses) layout.dp = 32 / layout.pp / layout.cp, layout.tp = 1;
    }
    layout.sequence_parallel = layout.tp > 1;
    if (random() % 2 == 0)
      layout.recompute = {.kind = RecomputeKind::Full, .modules = 0, .layers = pick({0, 1, 3})};
    else
      for (int stage = 0; stage < layout.pp; ++stage) {
        layout.stages.push_back(random_stage(random, layout, stage > 0, ulysses));
      }
    layout.chunk_layers.assign(static_cast<std::size_t>(layout.pp), problem->model.depth() / layout.pp);
    settle_stages(job, layout);
    if (ulysses && layout.any_context()) layout.cp_kind = CpKind::Ulysses;
    job.fixed.stages = layout.stages;
    Result<Plan> plan = plan_layout(job, layout);
    if (!plan) continue;
    const Result<std::vector<LaunchFile>> files = write_launch("galvatron", *plan, {});
    REQUIRE_MESSAGE(files, (files ? "" : files.error().front().message));
    ++written, contexts += have_context(layout.stages) ? 1 : 0;
    LaunchContext context;
    context.gpus = 32, context.gpus_per_node = 8;
    const LaunchJob read = job_of(files->front().name, files->front().text, context);
    Problem again = job;
    again.fixed = read.fixed;
    Layout back = complete_layout(again), was = plan->best.layout;
    CHECK(estimate(again, back).step_time.value == doctest::Approx(plan->best.step_time.value).epsilon(1e-9));
    CHECK(estimate(again, back).peak == plan->best.peak);
    bool joined = false;
    for (Layout* one : {&back, &was}) joined = whole_blocks(*one, job.model.depth()) || joined;
    if (!joined) CHECK(back == was);
    CHECK(read.training->global_batch == 128);
  }
  CHECK(written > 60);
  CHECK(contexts > 15);
}

TEST_CASE("what splits embedding and head, and keys that Galvatron cannot do without, are told") {
  const std::string twos = "2,2,2,2,2,2,2,2";
  const auto read = [&](const std::string& more) { return job_of(kName, strategy(twos, kNone, kNone, more)); };
  CHECK(names(read("").unused, "vtp"));  // 1 where no key says otherwise
  CHECK(read(", \"vtp\": 2").unused.empty());
  CHECK(read(", \"vtp\": 2, \"vsp\": 0, \"vcp\": 1, \"vocab_sdp\": 0").unused.empty());
  for (const std::string key : {"vcp", "vocab_sdp", "embed_sdp", "vsp"}) {
    CAPTURE(key);
    const std::string value = key == "vcp" ? "2" : "1";
    CHECK(read(", \"vtp\": 2, \"" + key + "\": " + value).unused.size() == 1);
  }
  CHECK(error_of(kName, strategy(twos, kNone, kNone, ", \"vtp\": 2, \"cp_sizes_enc\": \"" + kNone + "\"")) ==
        "wrong_value");
  const std::string whole = strategy(twos, kNone, kNone, ", \"vtp\": 2");
  for (const std::string part : {"\"tp_consecutive_flags\": \"1,1,1,1,1,1,1,1\", ", "\"chunks\": 8, "}) {
    CAPTURE(part);
    CHECK(names(job_of(kName, replaced(whole, part, "")).unused, "without which Galvatron stops"));
  }
  const LaunchJob open = job_of(kName, replaced(whole, "\"pipeline_type\": \"pipedream_flush\", ", ""));
  CHECK(open.fixed.schedule == Schedule::GPipe);
  CHECK(guesses(open, "schedule"));
}

}  // namespace plan
