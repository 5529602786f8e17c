// What published runs say about their code's memory, read from their columns and quoted flags.
#include "planner/runs/run_stack.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "oracle/random_problem.hpp"
#include "planner/runs/run_dates.hpp"
#include "planner/runs/run_flags.hpp"
#include "planner/runs/run_problem.hpp"
#include "tests/formulas/models.hpp"

namespace {

using namespace plan;

struct Applied {
  Problem problem;
  Layout layout;
};

/// What of a run problem_of() takes from its software and its statements.
void lay_over(const Run& run, Applied& to) {
  const auto defaults = defaults_of(run, to.problem.model, to.problem.training.precision);
  REQUIRE(defaults.has_value());
  apply_defaults(*defaults, run, to.problem);
  to.layout.cp_kind = defaults->job.cp_kind;
  if (run.recompute.empty() && defaults->job.recomputes_fully) to.layout.recompute.kind = RecomputeKind::Full;
  apply_statements(run, defaults->job, to.problem, to.layout);
}

Applied apply(const Run& run, Model model, Layout layout = {}) {
  Applied result;
  result.layout = std::move(layout);
  result.problem.model = std::move(model);
  result.problem.training.seq = 1024;
  lay_over(run, result);
  return result;
}

Run run_of(std::string framework, std::string source = {}, std::string stack = {}) {
  Run run;
  run.framework = std::move(framework);
  run.source = std::move(source);
  if (!stack.empty()) run.facts["stack"] = std::move(stack);
  return run;
}

TEST_CASE("a date is a number of its own: a release, a day or an arXiv paper") {
  CHECK(month_in("25.02") == 2025 * 12 + 1);
  CHECK(month_in("NeMo 24.12 of 2023-01-05") == 2024 * 12 + 11);
  CHECK(month_in("2019-07-01") == 2019 * 12 + 6);
  CHECK(month_in("arXiv 2104.04473") == 2021 * 12 + 3);
  for (const char* none :
       {"", "25.0", "v24.05", "x2104.04473", "a2024-05", "2.13.0", "25.13", "25.00", "1999-05", "0.12.1"})
    CHECK_MESSAGE(!month_in(none), none);
}

TEST_CASE("stacks by framework and source") {
  const Model model = fixture::llama3_8b();
  const Applied simumax = apply(run_of("Megatron-LM", "MooreThreads/SimuMax:docs", "simumax"), model);
  CHECK(simumax.layout.cp_kind == CpKind::Ulysses);
  CHECK(simumax.problem.model.vocab == 128257);
  const auto titan = [&](const char* source) {
    return apply(run_of("torchtitan", source), model).problem.training.stack;
  };
  CHECK(titan("arXiv 2410.06511").cross_entropy == CrossEntropy::Eager);
  CHECK(titan("arXiv 2410.06511").expands_kv);
  CHECK(titan("benchmarks; 2024-12 (torch 1963fc8)").cross_entropy == CrossEntropy::Eager);
  CHECK(titan("benchmarks; 2025-06").cross_entropy == CrossEntropy::Compiled);
  CHECK(titan("").cross_entropy == CrossEntropy::Chunked);
  CHECK_FALSE(titan("").expands_kv);
  CHECK(titan("").expandable_segments);
  const Stack aleph = apply(run_of("Aleph Alpha scaling (Megatron-style)"), model).problem.training.stack;
  CHECK_FALSE(aleph.vocab_parallel_loss);
  CHECK_FALSE(aleph.fused_activation);
  CHECK(aleph.reduces_per_linear);
  const Training fork = apply(run_of("Megatron-LM fork"), model).problem.training;
  CHECK(fork.precision == Precision::Fp16);
  CHECK(fork.grad_bytes == 2);
  CHECK(apply(run_of("Megatron-DeepSpeed"), model).problem.training.stack.states == StateLayout::DeepSpeed);
  CHECK(apply(run_of("Megatron-LM"), model).problem.training.stack.reduces_once);
  CHECK_FALSE(apply(run_of("Megatron-DeepSpeed"), model).problem.training.stack.reduces_once);
  // --tp-comm-overlap is off by default, and on in NVIDIA's recipes.
  CHECK_FALSE(apply(run_of("Megatron-Core 0.6.0"), model).problem.training.stack.tp_overlap);
  CHECK(apply(run_of("NeMo/Megatron-Core"), model).problem.training.stack.tp_overlap);
}

TEST_CASE("what published code did before its successors, and what its configurations say") {
  const Model model = fixture::llama3_8b();
  const auto reduces_early = [&](const char* framework, const char* source, const char* stack = "") {
    return apply(run_of(framework, source, stack), model).problem.training.stack.tp_async_reduce;
  };
  CHECK_FALSE(reduces_early("Megatron-LM", "Narayanan et al. 2021 (SC21)", "megatron-lm-2021"));
  CHECK(reduces_early("Megatron-LM", "Korthikanti et al. 2022"));
  CHECK_FALSE(reduces_early("Megatron-DeepSpeed", "docs/_posts/2022-07-26-deepspeed-azure.md"));
  CHECK(reduces_early("Megatron-DeepSpeed", "commit f8dda84 (2024-09-26)"));
  CHECK_FALSE(reduces_early("Megatron-DeepSpeed", "experiments/tr3m-1B3.md; 2024-07-29", "bigscience"));

  const Run pythia = run_of("GPT-NeoX", "", "pythia");
  const Applied checkpointed = apply(pythia, model);
  CHECK(checkpointed.problem.training.stack.attention_kernel == AttentionKernel::Flash1);
  CHECK(checkpointed.layout.recompute.kind == RecomputeKind::Full);
}

TEST_CASE("published fine-tuning packs and adapts as its recipes do, other jobs as they say") {
  Run tuning = run_of("NeMo/Megatron-Core", "NVIDIA/dgxc-benchmarking:llama3/finetuning", "nvidia-finetuning");
  tuning.task = "lora";
  const auto adapted = [&] {
    Applied result;
    result.problem.model = fixture::llama3_8b(), result.problem.training.task = Task::Lora;
    lay_over(tuning, result);
    return result.problem.training;
  };
  CHECK(adapted().packed_length > 0);
  CHECK(adapted().lora.rank == 8);
  CHECK(adapted().lora.attention);
  CHECK_FALSE(adapted().lora.ffn);
  tuning.facts.clear();
  CHECK(adapted().packed_length == 0);  // packing is the recipe's, not the framework's
  CHECK(adapted().lora.ffn);
  tuning.notes = "packed sequences, LoRA rank 64";
  CHECK(adapted().packed_length > 0);
  CHECK(adapted().lora.rank == 64);
  tuning.notes = "unpacked";
  CHECK(adapted().packed_length == 0);
  tuning.task = "pretrain", tuning.notes = "packed";
  CHECK(apply(tuning, fixture::llama3_8b()).problem.training.packed_length == 0);
}

TEST_CASE("what earlier software allocated otherwise") {
  const Model model = fixture::llama3_8b();
  const auto in_place = [&](const char* framework, const char* source) {
    return apply(run_of(framework, source), model).problem.training.stack.loss_in_place;
  };
  CHECK(in_place("Megatron-LM", "arXiv 2104.04473"));
  CHECK_FALSE(in_place("Megatron-LM fork", "arXiv 2401.10241"));
  CHECK_FALSE(in_place("Megatron-Core 0.6.0", "a page of 2025-11"));
  CHECK(in_place("Megatron-Core 0.8.0", "a page of 2025-11"));
  CHECK(in_place("Megatron-Bridge", "a page of 2025-01"));
  const auto context = [&](const char* source) {
    return apply(run_of("Megatron-LM", source), model).problem.cluster.gpu.context.value;
  };
  CHECK(context("arXiv 2104.04473") == 1113LL << 20);  // all kernels loaded at once, before PyTorch 1.13
  CHECK(context("arXiv 2401.10241") < 1113LL << 20);
  CHECK_FALSE(apply(run_of("Megatron-LM (Kwai fork, Jan 2024)"), model).problem.training.stack.fused_activation);

  Run bloom = run_of("Megatron-DeepSpeed", "", "bigscience+bigscience-prequel");
  CHECK(apply(bloom, model).problem.training.grad_bytes == 2);
  bloom.facts["stack"] = "bigscience";
  CHECK(apply(bloom, model).problem.training.grad_bytes == 4);
  CHECK(apply(bloom, model).problem.cluster.gpu.context.value == 1113LL << 20);
  bloom.notes = "bf16 gradient accumulation";
  CHECK(apply(bloom, model).problem.training.grad_bytes == 2);
  CHECK(apply(bloom, model).problem.training.dropout == 0.1);
}

TEST_CASE("performance recipes of experts in MXFP8 run as releases quote them where a row quotes none") {
  const auto stack = [](const char* over, const char* release, Precision precision, bool routed) {
    Run run = run_of("Megatron-Bridge/Megatron-Core", "card.yaml", over);
    run.facts["release"] = release;
    Applied result;
    result.problem.model = fixture::llama3_8b();
    if (routed) result.problem.model.kinds[0].ffn = Ffn::Moe;
    result.problem.training.precision = precision;
    lay_over(run, result);
    return result.problem.training.stack;
  };
  const char* card = "megatron-bridge-performance";
  CHECK(stack(card, "main-2026-08", Precision::Mxfp8, true).cuda_graphs);
  CHECK(stack(card, "main-2026-08", Precision::Mxfp8, true).ep_overlap);
  CHECK_FALSE(stack(card, "26.04", Precision::Mxfp8, true).cuda_graphs);
  CHECK_FALSE(stack(card, "main-2026-08", Precision::Bf16, true).ep_overlap);
  CHECK_FALSE(stack(card, "main-2026-08", Precision::Mxfp8, false).cuda_graphs);
  CHECK_FALSE(stack("", "main-2026-08", Precision::Mxfp8, true).cuda_graphs);
  CHECK(stack(card, "main-2026-08", Precision::Bf16, true).graph_scopes == (kGraphRouter | kGraphPreprocess));
  CHECK(stack("", "main-2026-08", Precision::Bf16, true).graph_scopes == 0);
}

TEST_CASE("Megatron core's recipes of experts dispatch and route in fused kernels unless they say otherwise") {
  const auto stack = [](const char* release, const char* notes, bool routed) {
    Run run = run_of("Megatron-Core dev");
    run.facts["release"] = release;
    run.notes = notes;
    Model model = fixture::llama3_8b();
    if (routed) model.kinds[0].ffn = Ffn::Moe;
    return apply(run, std::move(model)).problem.training.stack;
  };
  for (bool Stack::*fused : {&Stack::dedup_dispatch, &Stack::fused_router}) {
    CHECK(stack("main-2026-08", "", true).*fused);
    CHECK_FALSE(stack("main-2026-08", "", false).*fused);
    CHECK_FALSE(stack("main-2026-08", "dispatcher A2A", true).*fused);
    CHECK_FALSE(stack("main-2026-05", "", true).*fused);
    CHECK(stack("main-2026-05", "DeepEP", true).*fused);
  }
}

TEST_CASE("quoted flags turn Megatron's defaults around") {
  Run run = run_of("Megatron-Core");
  run.task = "functional-test run";
  run.model = "gpt/gpt3_mcore_te";
  run.notes = "Memory is exact. Flags: sequence-parallel=true, deterministic-mode=true, attention-backend=unfused";
  const Applied plain = apply(run, fixture::gpt(12, 512, 8, 0));
  CHECK(plain.problem.model.vocab == 50257);
  CHECK(plain.problem.model.tied);
  CHECK(plain.problem.model.positions == 1024);
  CHECK(plain.problem.model.kinds[0].dense.bias);
  CHECK(plain.problem.training.dropout == 0.1);
  CHECK(plain.problem.training.stack.deterministic);
  CHECK_FALSE(plain.problem.training.stack.flash_attention);
  CHECK(plain.problem.training.stack.gradient_fusion);

  run.framework = "torchtitan";  // of which the same words are no flags
  CHECK(apply(run, fixture::gpt(12, 512, 8, 50304)).problem.model.vocab == 50304);
  run.framework = "Megatron-Core";

  run.notes =
      "Flags: untie-embeddings-and-output-weights=true, disable-bias-linear=true, swiglu=true, normalization=RMSNorm, "
      "multi-latent-attention=true, no-gradient-accumulation-fusion=true, kv-lora-rank=64, q-lora-rank=192";
  const Applied modern = apply(run, fixture::gpt(12, 512, 8, 0));
  CHECK_FALSE(modern.problem.model.tied);
  CHECK(modern.problem.model.positions == 0);
  CHECK(modern.problem.training.dropout == 0);
  const Layer& layer = modern.problem.model.kinds[0];
  CHECK(layer.dense.gated);
  CHECK(layer.dense.width == 1344);  // two thirds of 4h, down to a multiple of 64
  CHECK(layer.mixer == Mixer::Latent);
  CHECK(layer.latent.kv_rank == 64);
  CHECK(layer.latent.q_rank == 192);
  CHECK_FALSE(modern.problem.training.stack.gradient_fusion);
}

TEST_CASE("published runs cut layers evenly, or count embedding and loss") {
  const auto split = [](int layers, const Layout& layout) {
    return apply(Run(), fixture::gpt(layers, 512, 8, 50257), layout).layout.chunk_layers;
  };
  CHECK(split(32, {.pp = 4}) == std::vector<int>{8, 8, 8, 8});
  CHECK(split(30, {.pp = 4}) == std::vector<int>{7, 8, 8, 7});
  CHECK(split(14, {.pp = 2, .vp = 4}) == std::vector<int>{1, 2, 2, 2, 2, 2, 2, 1});
  CHECK(split(33, {.pp = 4}).empty());
  Run balanced;
  balanced.notes = "method=redis: layers redistributed";
  // Layers of 24 h^2 + 4 s h FLOPs a token, heads of 2 h V: 6.1 of the narrow model's, one of the wide one's.
  CHECK(apply(balanced, fixture::gpt(32, 512, 8, 50257), {.pp = 4}).layout.chunk_layers ==
        std::vector<int>{9, 10, 10, 3});
  CHECK(apply(balanced, fixture::gpt(32, 4096, 32, 50257), {.pp = 4}).layout.chunk_layers ==
        std::vector<int>{8, 8, 8, 8});
  CHECK(split(33, {}).empty());
}

TEST_CASE("a run's own release chooses its stack, and MaxText's policies what it rebuilds") {
  Run run;
  run.framework = "NeMo", run.mlp = "swiglu", run.gpu = "plain", run.precision = "bf16";
  run.layers = 4, run.hidden = 2048, run.heads = 16, run.ffn = 8192;
  run.gpus = 8, run.seq = 2048, run.global_batch = 64, run.micro_batch = 1;
  Catalogue catalogue;
  catalogue.model = [](std::string_view) { return std::optional<Model>(); };
  catalogue.cluster = [](std::string_view, int, int) { return std::optional(oracle::plain_cluster()); };
  catalogue.released = [](std::string_view release, Stack stack) {
    stack.fused_sinks = release == "26.08";
    return stack;
  };
  const auto fused = [&] { return problem_of(run, catalogue)->problem.training.stack.fused_sinks; };
  CHECK(fused());  // nobody says: the newest
  run.facts = {{"release", "26.08"}};
  CHECK(fused());
  run.facts = {{"release", "26.04"}};
  CHECK_FALSE(fused());

  run.recompute = "custom:minimal";
  CHECK(problem_of(run, catalogue)->layout.recompute.modules ==
        (kRecomputeCoreAttention | kRecomputeNorm | kRecomputeMlpActivation));
  run.recompute = "custom:no_such_policy";
  CHECK(problem_of(run, catalogue).error().front().code == "unknown_recompute");
}

TEST_CASE("each flag that a run of Megatron's own tests quotes sets what it names, and no other does") {
  const std::vector<std::string> words{"ckpt-format=fsdp_dtensor",
                                       "no-gradient-accumulation-fusion=true",
                                       "deterministic-mode=true",
                                       "moe-grouped-gemm=true",
                                       "transformer-impl=local",
                                       "attention-backend=unfused",
                                       "disable-bias-linear=true",
                                       "untie-embeddings-and-output-weights=true",
                                       "normalization=RMSNorm",
                                       "qk-layernorm=true",
                                       "swiglu=true"};
  // Words that are near them and say nothing.
  const std::vector<std::string> others{"ckpt-format=torch_dist",
                                        "deterministic-mode=false",
                                        "no-swiglu=true",
                                        "attention-backend=fused",
                                        "transformer-impl=transformer_engine",
                                        "swiglu-limit=true",
                                        "normalization=LayerNorm"};
  std::mt19937 random(41);
  for (int round = 0; round < oracle::rounds(300); ++round) {
    std::map<std::string, bool> said;
    std::vector<std::string> flags;
    for (const std::string& word : words)
      if (const bool here = random() % 3 == 0; said[word.substr(0, word.find('='))] = here, here) flags.push_back(word);
    for (const std::string& word : others)
      if (random() % 3 == 0 && !said[word.substr(0, word.find('='))]) flags.push_back(word);
    std::shuffle(flags.begin(), flags.end(), random);
    Run run;
    run.task = "functional-test", run.notes = "{release=26.04} Flags: ";
    for (const std::string& flag : flags) run.notes += (&flag == flags.data() ? "" : ", ") + flag;
    CAPTURE(run.notes);
    Problem problem;
    problem.model = oracle::dense_model(2, 512, 8, 8, 2048, 32000);
    problem.training.seq = 1024;
    const Stack before = problem.training.stack;
    apply_flags(run, problem);
    const Stack& stack = problem.training.stack;
    const Layer& layer = problem.model.kinds.front();
    const bool rms = said["normalization"], bias = !said["disable-bias-linear"];
    CHECK(quotes_flags(run) == !flags.empty());
    CHECK(stack.states == (said["ckpt-format"] ? StateLayout::MegatronFsdp : before.states));
    CHECK(stack.gradient_fusion == !said["no-gradient-accumulation-fusion"]);
    CHECK(stack.deterministic == said["deterministic-mode"]);
    CHECK(stack.grouped_gemm == said["moe-grouped-gemm"]);
    CHECK(stack.transformer_engine == !said["transformer-impl"]);
    CHECK(stack.flash_attention == (!said["transformer-impl"] && !said["attention-backend"]));
    CHECK(problem.model.tied == !said["untie-embeddings-and-output-weights"]);
    CHECK(problem.model.norm == (rms ? Norm::Rms : Norm::Layer));
    CHECK(problem.model.positions == (rms ? 0 : 1024));
    CHECK(problem.training.dropout == (rms ? 0 : 0.1));
    CHECK(layer.attention.qkv_bias == bias);
    CHECK(layer.attention.out_bias == bias);
    CHECK(layer.dense.bias == bias);
    CHECK(layer.attention.qk_norm == (said["qk-layernorm"] ? QkNorm::PerHead : QkNorm::None));
    if (said["swiglu"]) CHECK(layer.dense.gated);
  }
}

}  // namespace
