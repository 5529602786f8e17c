// Offload: read from launch files, written into them, and what it takes off the GPU.
#include <doctest/doctest.h>

#include <deque>

#include "cli/launch/launch.hpp"
#include "cli/request/resolve.hpp"
#include "cli/terminal/offload_flag.hpp"
#include "formulas/textbook/textbook_states.hpp"
#include "launch/temporary.hpp"
#include "planner/planner.hpp"
#include "planner/rules/complete_layout.hpp"

namespace plan {
namespace {

Plan plan_with(const std::string& offload, const char* model = "llama3-70b",
               const char* layout = "tp4,cp1,pp1,mb1,zero1,recompute=none", const char* framework = "megatron") {
  Args args;
  args.model = model, args.gpus = "64", args.framework = framework, args.layout = layout;
  if (!offload.empty()) args.offload = offload;
  const Result<Problem> problem = resolve_problem(args);
  REQUIRE_MESSAGE(problem, (problem ? "" : problem.error().front().message));
  const Result<Plan> plan = plan_layout(*problem, complete_layout(*problem));
  REQUIRE_MESSAGE(plan, (plan ? "" : plan.error().front().message));
  return *plan;
}

/// What a framework's files say after a plan was written into them.
Offload read_back(const Plan& plan, const char* format) {
  const Result<std::vector<LaunchFile>> files = write_launch(format, plan, {});
  REQUIRE(files);
  std::deque<Temporary> kept;
  std::vector<std::string> paths;
  for (const LaunchFile& file : *files) paths.push_back(kept.emplace_back(file.name, file.text).path());
  const Result<LaunchJob> job = read_launch_files(paths, {.model = plan.problem.model});
  REQUIRE(job);
  REQUIRE(job->training);
  return job->training->offload;
}

const StageMemory& stage(const Plan& plan) { return plan.best.stages.front(); }

}  // namespace

TEST_CASE("every framework that can offload says so in its files, and they come back") {
  struct Row {
    const char* format;
    const char* framework;
    const char* layout;
    const char* offload;
  };
  for (const Row& row : {Row{"megatron-lm", "megatron", "tp4,cp1,pp1,zero1", "optimizer=0.5,core_attn+attn_proj"},
                         Row{"megatron-lm", "megatron", "tp4,cp1,pp1,zero1,recompute=none", "optimizer,layers=4"},
                         Row{"megatron-bridge", "megatron", "tp4,cp1,pp1,zero1", "optimizer,attn_norm+mlp_norm"},
                         Row{"ms-swift", "megatron", "tp4,cp1,pp1,zero1", "optimizer=0.5,core_attn+attn_proj"},
                         Row{"torchtitan", "torchtitan", "tp4,cp1,pp1,zero3", "optimizer,parameters"},
                         Row{"torchtitan-main", "torchtitan", "tp4,cp1,pp1,zero3", "optimizer,parameters"},
                         Row{"deepspeed", "deepspeed", "tp1,zero3", "optimizer=0.5,parameters"},
                         Row{"accelerate", "accelerate", "tp1,zero3", "optimizer,parameters"},
                         Row{"maxtext", "maxtext", "tp4,cp1,pp1,zero3,recompute=full", "optimizer,parameters"}}) {
    CAPTURE(std::string(row.format));
    CAPTURE(std::string(row.offload));
    const Plan plan = plan_with(row.offload, "llama3-70b", row.layout, row.framework);
    CHECK(offload_text(read_back(plan, row.format)) == row.offload);
  }
}

TEST_CASE("an offloaded optimizer leaves the GPU and pays for the host link and the host's own step") {
  const Plan here = plan_with(""), half = plan_with("optimizer=0.5"), away = plan_with("optimizer");
  CHECK(stage(away).optimizer.value == 0);
  CHECK(static_cast<double>(stage(half).optimizer.value) ==
        doctest::Approx(static_cast<double>(stage(here).optimizer.value) / 2));
  CHECK(stage(away).grads == stage(here).grads);
  // 70.55 G parameters over tp 4, states over the 16 ranks of dp: 12 bytes each leave, 6 cross the link at 63 GB/s. The
  // 8 ranks of a host step theirs one after the other.
  const double owned = static_cast<double>(stage(here).optimizer.value) / 12;
  const double link = textbook::offload_time({1, owned, 1, 63e9}).value;
  const double host = 8 * owned * 2.57 / 10e9;
  const double saved = (here.best.terms.optimizer - away.best.terms.optimizer).value;
  const Gpu& gpu = here.problem.cluster.gpu;
  const double reach = gpu.memory_efficiency * here.problem.cluster.calibration.memory_bound;
  const double stepped = 34 * owned / (gpu.memory_bandwidth.value * reach);
  CHECK(-saved == doctest::Approx(link + host - stepped).epsilon(1e-3));
}

TEST_CASE("offloaded activations take their modules' bytes, and time where the link is slower than the work") {
  const Plan here = plan_with("", "llama3-70b", "tp8,cp1,pp1,mb1,zero1,recompute=none");
  const Plan attention = plan_with("core_attn+attn_proj", "llama3-70b", "tp8,cp1,pp1,mb1,zero1,recompute=none");
  // q, k, v and the output of 80 layers: 2 bytes of (2 * 8192 + 2 * 1024) / 8 elements for each of 8192 tokens.
  const double moved = 80 * 2.0 * 8192 * (2 * 8192 + 2 * 1024) / 8;
  const double freed = static_cast<double>((stage(here).activations - stage(attention).activations).value);
  CHECK(freed == doctest::Approx(moved).epsilon(1e-6));
  CHECK(attention.best.step_time.value >= here.best.step_time.value);
  Problem slow = attention.problem;
  slow.cluster.gpu.host_link = BytesPerSecond(1e9);
  const Plan stalled = *plan_layout(slow, attention.best.layout);
  // Both ways, per micro-batch, less the work beside them.
  const double work = (here.best.terms.compute + here.best.terms.tp).value;
  const double copies = 2 * moved / 1e9 * static_cast<double>(micro_batches(slow.training.global_batch, 8, 1));
  CHECK((stalled.best.terms.compute - here.best.terms.compute).value == doctest::Approx(copies - work).epsilon(0.02));
}

TEST_CASE("what ms-swift lays over Megatron's configuration counts before its own arguments") {
  const auto job_with = [](const std::string& extra) {
    const Temporary file("swift.sh",
                         "NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --micro_batch_size 1 "
                         "--global_batch_size 16 --max_length 4096 --recompute_granularity selective " +
                             extra + "\n");
    Result<LaunchJob> job = read_launch_files({file.path()}, {});
    REQUIRE_MESSAGE(job, (job ? "" : job.error().front().message));
    return *std::move(job);
  };
  const LaunchJob plain = job_with(""), laid = job_with(
                                            "--megatron_extra_kwargs '{\"recompute_granularity\": \"full\", "
                                            "\"recompute_method\": \"uniform\", "
                                            "\"recompute_num_layers\": 1}'");
  CHECK(plain.fixed.recompute->kind == RecomputeKind::Selective);
  CHECK(laid.fixed.recompute->kind == RecomputeKind::Full);
  const LaunchJob away = job_with(
      "--megatron_extra_kwargs '{\"fine_grained_activation_offloading\": true, "
      "\"offload_modules\": [\"core_attn\"], \"fp8\": \"hybrid\"}'");
  CHECK(away.training->offload.modules == kOffloadCoreAttention);
  REQUIRE(away.unused.size() == 1);
  CHECK(away.unused.front().text.find("megatron_extra_kwargs.fp8") != std::string::npos);
  const LaunchJob file = job_with("--megatron_extra_kwargs extra.json");
  CHECK(file.notes.back().text.find("megatron_extra_kwargs") != std::string::npos);
}

}  // namespace plan
