// Rows of published runs with one cell edited: the prediction moves, or the row is left out with the reason.
#include "planner/runs/run_mistakes.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "acceptance/published_runs.hpp"
#include "planner/runs/validate.hpp"

using namespace plan;
using namespace plan::acceptance;

namespace {

/// Rows that are scored, every so-manieth of them, so that each suite is met.
std::vector<Run> some_rows(std::size_t every) {
  std::vector<Run> rows;
  std::size_t at = 0;
  for (Run& run : published_runs())
    if (run.status == "ok" && run.quality != "C" && at++ % every == 0) rows.push_back(std::move(run));
  return rows;
}

ScoredRun scored(const Run& run, const Catalogue& catalogue) {
  return validate(std::span(&run, 1), catalogue, {.rough = true}).runs.front();
}

}  // namespace

TEST_CASE("a word that no column of a run has leaves the row out and is named") {
  const Catalogue catalogue = presets();
  std::string Run::*const columns[] = {
      &Run::quality,   &Run::mlp,       &Run::shard,     &Run::schedule, &Run::recompute,        &Run::precision,
      &Run::attention, &Run::optimizer, &Run::framework, &Run::gpu,      &Run::flops_convention, &Run::status};
  const char* const facts[] = {"norm", "softmax", "routing", "cp_kind", "order"};
  for (const Run& run : some_rows(60)) {
    if (!problem_of(run, catalogue)) continue;
    CAPTURE(run.id);
    for (std::string Run::*const column : columns) {
      Run edited = run;
      edited.*column = "hocus";
      if (column == &Run::flops_convention) edited.step_time_s.reset(), edited.tokens_per_s_per_gpu.reset();
      const ScoredRun out = scored(edited, catalogue);
      CHECK_FALSE(out.step_time);
      CHECK((column == &Run::status || out.reason.find("`hocus`") != std::string::npos));
    }
    Run unknown = run;  // what its figure of memory is of is no matter of its step
    unknown.memory_kind = "hocus";
    CHECK_FALSE(scored(unknown, catalogue).memory);
    for (const char* const fact : facts) {
      Run edited = run;
      edited.facts[fact] = "hocus";
      const ScoredRun out = scored(edited, catalogue);
      CHECK_FALSE(out.step_time);
      CHECK(out.reason.find("hocus") != std::string::npos);
    }
  }
}

TEST_CASE("a number that contradicts its row leaves it out, any other moves the prediction") {
  const Catalogue catalogue = presets();
  std::optional<std::int64_t> Run::*const shape[] = {
      &Run::layers,     &Run::hidden, &Run::ffn, &Run::heads, &Run::experts, &Run::top_k, &Run::expert_ffn,
      &Run::shared_ffn, &Run::tp,     &Run::cp,  &Run::pp,    &Run::dp,      &Run::seq,   &Run::global_batch};
  int moved = 0, left_out = 0;
  for (const Run& run : some_rows(60)) {
    const ScoredRun before = scored(run, catalogue);
    if (!before.step_time) continue;
    CAPTURE(run.id);
    for (std::size_t i = 0; i < std::size(shape); ++i) {
      if ((run.*shape[i]).value_or(0) <= 0) continue;
      // Configurations of expert models keep a width of dense layers that they do not have.
      if (shape[i] == &Run::ffn && run.experts.value_or(0) > 1) continue;
      CAPTURE(i);
      Run edited = run;
      edited.*shape[i] = 2 * *(run.*shape[i]);
      const ScoredRun after = scored(edited, catalogue);
      CHECK((!after.step_time || after.step_time->predicted != before.step_time->predicted));
      (after.step_time ? moved : left_out) += 1;
    }
    if (!run.tokens_per_s_per_gpu || !run.step_time_s) continue;
    Run faster = run;
    faster.tokens_per_s_per_gpu = 1.3 * *run.tokens_per_s_per_gpu;
    CHECK_FALSE(scored(faster, catalogue).step_time);
  }
  CHECK(moved > 40);
  CHECK(left_out > 50);
}

TEST_CASE("a figure that is not of its row's step is named, and one of no GPU leaves the row out") {
  const Catalogue catalogue = presets();
  std::optional<double> Run::*const rates[] = {&Run::tflops_per_gpu, &Run::mfu, &Run::tokens_per_s_per_gpu};
  int compared = 0;
  for (const Run& run : some_rows(25)) {
    const ScoredRun before = scored(run, catalogue);
    if (!before.step_time) continue;
    CAPTURE(run.id);
    Run timed = run;  // whose step no other figure gives
    timed.step_time_s = before.step_time->measured;
    for (const double factor : {0.1, 3e3}) {
      for (std::optional<double> Run::*const rate : rates) {
        if (!(run.*rate) || run.task.find("lora") != std::string::npos) continue;
        ++compared;
        Run edited = timed;
        edited.*rate = factor * *(run.*rate);
        CAPTURE(factor);
        const ScoredRun after = scored(edited, catalogue);
        const bool said = std::any_of(after.remarks.begin(), after.remarks.end(), [](const std::string& remark) {
          return remark.find("is a step of") != std::string::npos ||
                 remark.find("than the peak of") != std::string::npos;
        });
        CHECK((!after.step_time || said));
        if (after.step_time) CHECK(after.step_time->measured == *timed.step_time_s);
        if (rate == &Run::tokens_per_s_per_gpu) CHECK_FALSE(after.step_time);
      }
      Run fast = timed;
      fast.tokens_per_s_per_gpu.reset(), fast.tflops_per_gpu.reset(), fast.mfu.reset();
      fast.step_time_s = *timed.step_time_s / 3e3;
      const ScoredRun out = scored(fast, catalogue);
      CHECK(out.reason.find("at their peak") != std::string::npos);
    }
    Run full = run;
    full.peak_memory_gib = 1000, full.memory_kind = "reserved";
    CHECK(scored(full, catalogue).reason.find("`peak_memory_gib` 1000") != std::string::npos);
  }
  CHECK(compared > 50);
}

TEST_CASE("a shape that a named model does not have leaves the row out or is said") {
  const Catalogue catalogue = presets();
  Run run;
  run.id = "a", run.quality = "A", run.status = "ok", run.gpu = "h100-sxm", run.gpus = 64, run.seq = 4096;
  run.global_batch = 64, run.micro_batch = 1, run.tp = 8, run.framework = "Megatron-Core", run.step_time_s = 5;
  for (const char* model : {"llama3-8b", "llama3-70b", "qwen3-32b", "deepseek-v3", "mixtral-8x7b"}) {
    run.model = model;
    CAPTURE(model);
    const ScoredRun before = scored(run, catalogue);
    if (std::string_view(model) == "llama3-8b") REQUIRE(before.step_time);
    const auto edited = [&](auto member, auto value) {
      Run other = run;
      other.*member = value;
      const ScoredRun out = scored(other, catalogue);
      return !out.reason.empty() || !out.remarks.empty();
    };
    for (const std::int64_t value : {1, 33, 100'000}) {
      CAPTURE(value);
      CHECK(edited(&Run::heads, value));
      CHECK(edited(&Run::head_dim, value));
      CHECK((value == 1 || edited(&Run::kv_heads, value)));
      CHECK(edited(&Run::vocab, value));
      CHECK((std::string_view(model) == "mixtral-8x7b" || edited(&Run::ffn, value)));
    }
    CHECK(edited(&Run::mlp, std::string("relu2")));
    CHECK(edited(&Run::schedule, std::string("zb-h1")) == false);  // of a pipeline that nobody states
    CHECK(edited(&Run::precision, std::string("nvfp4")));
    CHECK(edited(&Run::framework, std::string("NVIDIA Megatron Core (TE)")));
    Run memory = run;
    memory.peak_memory_gib = 40;
    for (const char* kind : {"", "hocus"}) {
      memory.memory_kind = kind;
      const ScoredRun out = scored(memory, catalogue);
      CHECK((!out.reason.empty() || out.remarks.size() == 1));
    }
  }
}

TEST_CASE("an optimizer of a row is the one that its words name, and holds what that holds") {
  const Catalogue catalogue = presets();
  Run run;
  run.id = "a", run.quality = "A", run.status = "ok", run.model = "llama3-8b", run.gpu = "h100-sxm", run.gpus = 8;
  run.seq = 8192, run.global_batch = 32, run.micro_batch = 1, run.tp = 8, run.framework = "Megatron-Core";
  const auto states = [&](const char* word) {
    run.optimizer = word;
    const Result<RunProblem> built = problem_of(run, catalogue);
    REQUIRE(built);
    return estimate(built->problem, built->layout).stages.front().optimizer;
  };
  const Bytes adam = states("");
  for (const char* same : {"adam", "AdamW", "Adam (hybrid ZeRO)", "fused AdamW", "distributed optimizer"})
    CHECK(states(same) == adam);
  for (const char* same : {"unknown", "-", "AdamW (not Muon)"}) CHECK(states(same) == adam);
  for (const char* none : {"Shampoo (no Adam grafting)", "Adam-mini", "lion"}) {
    run.optimizer = none;
    CHECK_FALSE(problem_of(run, catalogue));
  }
  for (const char* less : {"SGD", "adafactor", "AdamW 8bit", "Muon", "sgd-momentum"}) {
    CAPTURE(less);
    CHECK(states(less) < adam);
  }
}

TEST_CASE("shares of a narrower peak, attention that is counted in full and thousands of MiB are sound") {
  const Catalogue catalogue = presets();
  CHECK(read_runs("id,mfu\na,1.18\nb,1.01\nc,7.9\n", "r.csv"));
  for (const char* percent : {"8.1", "38", "101"})
    CHECK_FALSE(read_runs(std::string("id,mfu\na,") + percent + "\n", "r.csv"));
  Run run;
  run.id = "a", run.quality = "A", run.status = "ok", run.model = "llama3-70b", run.gpus = 64, run.seq = 8192;
  run.global_batch = 128, run.micro_batch = 1, run.tp = 4, run.framework = "Megatron-Core";
  run.flops_convention = "model_causal", run.gpu = "h100-sxm", run.precision = "fp8", run.mfu = 1.01;
  CHECK(scored(run, catalogue).step_time);
  run.gpu = "gb200", run.precision = "nvfp4", run.mfu = 1.18;
  CHECK(scored(run, catalogue).step_time);
  run.gpu = "h100-sxm", run.precision = "bf16";  // a share of no peak: this row alone is left out
  CHECK(scored(run, catalogue).reason.find("at their peak") != std::string::npos);

  Run sequence = run;
  sequence.model = "llama3-8b", sequence.framework = "torchtitan", sequence.flops_convention = "torchtitan";
  sequence.mfu.reset(), sequence.seq = 131072, sequence.global_batch = 8, sequence.tp = 8, sequence.cp = 8;
  sequence.step_time_s = 4.1, sequence.tflops_per_gpu = 1010;
  const auto remarked = [&](double rate) {
    sequence.tflops_per_gpu = rate;
    const ScoredRun out = scored(sequence, catalogue);
    CHECK(out.step_time);
    return std::any_of(out.remarks.begin(), out.remarks.end(),
                       [](const std::string& remark) { return remark.find("tflops_per_gpu") != std::string::npos; });
  };
  CHECK_FALSE(remarked(1010));
  CHECK(remarked(5000));

  Run memory = run;
  memory.model = "llama3-8b", memory.mfu.reset(), memory.step_time_s = 60, memory.memory_kind = "device";
  for (const auto& [gpu, gib] : {std::pair("a100-sxm-80gb", 81.9), std::pair("a100-sxm-40gb", 40.5)}) {
    memory.gpu = gpu, memory.peak_memory_gib = gib;
    CHECK(scored(memory, catalogue).reason.find("peak_memory_gib") == std::string::npos);
    memory.peak_memory_gib = 1.03 * gib;
    CHECK(scored(memory, catalogue).reason.find("peak_memory_gib") != std::string::npos);
  }
}
