#include <doctest/doctest.h>

#include <random>
#include <string>
#include <type_traits>

#include "oracle/random_problem.hpp"
#include "planner/answer/estimate.hpp"
#include "planner/problem/axes.hpp"
#include "planner/runs/run_axes.hpp"
#include "planner/runs/run_problem.hpp"
#include "planner/runs/runs.hpp"
#include "planner/runs/validate.hpp"

using namespace plan;

TEST_CASE("runs are read by column name, blanks stay blank") {
  const auto runs = read_runs(
      "id,model,gpus,step_time_s,shared_ffn\r\na1,\"Llama, \"\"big\"\"\",64,1.5,intermediate 2048\r\na2,x,,,\n",
      "r.csv");
  REQUIRE(runs.has_value());
  REQUIRE(runs->size() == 2);
  CHECK((*runs)[0].model == "Llama, \"big\"");
  CHECK((*runs)[0].gpus == 64);
  CHECK((*runs)[0].step_time_s == 1.5);
  CHECK((*runs)[0].shared_ffn == 2048);
  CHECK((*runs)[0].line == 2);
  CHECK_FALSE((*runs)[1].gpus.has_value());
  CHECK_FALSE((*runs)[1].step_time_s.has_value());
  const auto marked = read_runs("\xEF\xBB\xBFid,gpus\na1,64\n", "r.csv");  // as spreadsheets save it
  REQUIRE(marked.has_value());
  CHECK(marked->front().id == "a1");
}

TEST_CASE("every mistake of a runs file is reported with its place") {
  struct Case {
    const char* text;
    const char* code;
    int line, column;
  };
  const Case cases[] = {
      {"", "empty_file", 1, 1},
      {"id,gpsu\nx,1\n", "unknown_column", 1, 4},
      {"id,gpus,gpus\nx,1,2\n", "repeated_column", 1, 9},
      {"id,gpus\nx,sixty\n", "bad_cell", 2, 3},
      {"id,gpus\nx,-4\n", "bad_cell", 2, 3},
      {"id,zero\nx,4\n", "bad_cell", 2, 3},
      {"id,mfu\nx,nan\n", "bad_cell", 2, 3},
      {"id,gpus\nx,1e30\n", "bad_cell", 2, 3},
      {"id,mfu\nx,38\n", "bad_cell", 2, 3},
      {"id,micro_batch\nx,0\n", "bad_cell", 2, 3},
      {"id,vp\nx, 0\n", "bad_cell", 2, 4},
      {"id;gpus;mfu\nx;64;0,4\n", "other_separator", 1, 3},
      {"id\tgpus\nx\t64\n", "other_separator", 1, 3},
      {"id,gpus\nx\n", "row_width", 2, 1},
      {"id,notes\nx,\"open\n", "unclosed_quote", 2, 3},
      {"id,gpus\nx,\"6\"4\n", "text_after_quote", 2, 6},
      {"id,notes\n\"x\"  \"y\",\n", "text_after_quote", 2, 6},
  };
  for (const Case& c : cases) {
    CAPTURE(std::string(c.text));
    const auto runs = read_runs(c.text, "r.csv");
    REQUIRE_FALSE(runs.has_value());
    const Error& error = runs.error().front();
    CHECK(error.code == c.code);
    CHECK(error.place.line == c.line);
    CHECK(error.place.column == c.column);
    CHECK_FALSE(error.help.empty());
  }
  CHECK(read_runs("id,gpus,mfu\na,x,y\nb,z,1\n", "r.csv").error().size() == 3);
  CHECK(read_runs("id;gpus;mfu\nx;64;0,4\n", "r.csv").error().size() == 1);
  const auto loose = read_runs(" ID, GPUs ,Model\n a , 64, llama3-8b \n", "r.csv");  // blanks are there for the eye
  REQUIRE(loose.has_value());
  CHECK(loose->front().id == "a");
  CHECK(loose->front().gpus == 64);
  CHECK(loose->front().model == "llama3-8b");
}

TEST_CASE("cells of any text are read back, with blanks behind the quote, whatever ends a line and the file") {
  std::mt19937 random(12);
  for (int round = 0; round < oracle::rounds(300); ++round) {
    const std::string end = random() % 2 == 0 ? "\n" : "\r\n";
    std::vector<std::string> texts(1 + random() % 4);
    std::string file = "id,notes,source" + end;
    for (std::string& text : texts) {
      for (std::size_t left = random() % 6; left > 0; --left) text += std::string_view("a \",\n;")[random() % 6];
      std::string quoted = "\"";
      for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
      file += "r," + quoted + "\"" + std::string(random() % 3, ' ') + ",s" + (&text == &texts.back() ? "" : end);
    }
    if (random() % 2 == 0) file += end;
    CAPTURE(file);
    const auto runs = read_runs(file, "r.csv");
    REQUIRE(runs.has_value());
    REQUIRE(runs->size() == texts.size());
    for (std::size_t i = 0; i < texts.size(); ++i) {
      CHECK((*runs)[i].notes == texts[i]);
      CHECK((*runs)[i].source == "s");
    }
  }
}

TEST_CASE("facts stand in front of a run's notes, and notes of another form hold none") {
  const auto runs = read_runs(
      "id,notes\na,{release=26.04 norm=eager} text release=1\nb,text {release=2}\nc,{open release=3\nd,{} x\n"
      "e,{word unstated=tp+pp }\n",
      "r.csv");
  REQUIRE(runs.has_value());
  CHECK((*runs)[0].fact("release") == "26.04");
  CHECK((*runs)[0].fact("norm") == "eager");
  CHECK((*runs)[0].facts.size() == 2);
  for (const int i : {1, 2, 3}) CHECK((*runs)[static_cast<std::size_t>(i)].facts.empty());
  CHECK((*runs)[4].fact("unstated") == "tp+pp");
  CHECK((*runs)[4].facts.size() == 1);
}

TEST_CASE("quantiles interpolate") {
  CHECK(quantile({}, 0.5) == 0);
  CHECK(quantile({3}, 0.9) == 3);
  CHECK(quantile({4, 1, 3, 2}, 0.5) == 2.5);
  CHECK(quantile({0, 10}, 0.9) == doctest::Approx(9));
}

namespace {

RunProblem built(const Run& run) {
  Catalogue catalogue;
  catalogue.model = [](std::string_view) { return std::optional<Model>(); };
  catalogue.cluster = [](std::string_view, int, int) { return std::optional(oracle::plain_cluster()); };
  const Result<RunProblem> result = problem_of(run, catalogue);
  REQUIRE(result.has_value());
  return *result;
}

Run megatron_run(std::int64_t layers) {
  Run run;
  run.status = "ok", run.framework = "Megatron-LM", run.mlp = "swiglu", run.precision = "bf16", run.gpu = "plain";
  run.layers = layers, run.hidden = 8192, run.heads = 64, run.kv_heads = 8, run.ffn = 28672;
  run.gpus = 8, run.tp = 8, run.seq = 8192, run.global_batch = 8, run.micro_batch = 2;
  return run;
}

}  // namespace

TEST_CASE("a remark behind a model's name hides no preset, and the first layers of one are still its layers") {
  Catalogue catalogue;
  catalogue.cluster = [](std::string_view, int, int) { return std::optional(oracle::plain_cluster()); };
  catalogue.model = [](std::string_view name) {
    Model model = oracle::dense_model(24, 4096, 32, 8, 14336, 32000);
    model.name = "Known 8B";
    return name == model.name ? std::optional(model) : std::nullopt;
  };
  Run run = megatron_run(24);
  run.layers = run.hidden = run.ffn = run.heads = {}, run.tp = run.micro_batch = 1;
  const auto depth = [&](const char* name) {
    run.model = name;
    const Result<RunProblem> result = problem_of(run, catalogue);
    return result ? result->problem.model.depth() : 0;
  };
  CHECK(depth("Known 8B") == 24);
  CHECK(depth("Known 8B (hybrid Mamba)") == 24);
  CHECK(depth("Known 8B(v2)") == 0);
  CHECK(depth("Unknown 8B (Known 8B)") == 0);
  run.layers = 6;
  CHECK(depth("Known 8B (proxy 6 layers)") == 6);
  CHECK(depth("Known 8B (v2) truncated to 6 layers") == 6);
}

TEST_CASE("Megatron-LM recomputes what memory demands where a run does not say, and no layer more") {
  CHECK(built(megatron_run(4)).layout.recompute.kind == RecomputeKind::None);

  const RunProblem deep = built(megatron_run(24));
  REQUIRE(deep.layout.recompute.kind == RecomputeKind::Full);
  const auto fits = [&](int layers) {
    Layout layout = deep.layout;
    layout.recompute.layers = layers;
    const Estimate e = estimate(deep.problem, layout);
    return e.peak <= e.capacity;
  };
  CHECK(deep.layout.recompute.layers > 1);
  CHECK(fits(deep.layout.recompute.layers));
  CHECK_FALSE(fits(deep.layout.recompute.layers - 1));

  Run stated = megatron_run(24);
  stated.recompute = "none";
  CHECK(built(stated).layout.recompute.kind == RecomputeKind::None);
  CHECK(built(megatron_run(80)).layout.recompute.kind == RecomputeKind::None);  // nothing makes it fit
}

TEST_CASE("a run's own words choose its kernels, and a word that is none is a reason not to score it") {
  Run run = megatron_run(2);
  const auto stack = [&] { return built(run).problem.training.stack; };
  const Stack usual = stack();
  const std::pair<const char*, AttentionKernel> kernels[] = {{"flash", usual.attention_kernel},
                                                             {"ring", usual.attention_kernel},
                                                             {"flash1", AttentionKernel::Flash1},
                                                             {"flash2", AttentionKernel::Flash2}};
  for (const auto& [word, kernel] : kernels) {
    run.attention = word;
    CHECK(stack().flash_attention);
    CHECK(stack().attention_kernel == kernel);
  }
  run.attention = "unfused";
  CHECK_FALSE(stack().flash_attention);
  for (const bool fused : {false, true}) {
    run.facts = {{"norm", fused ? "fused" : "eager"}, {"softmax", fused ? "fused" : "eager"}};
    CHECK(stack().fused_norms == fused);
    CHECK(stack().fused_softmax == fused);
  }
  run.attention = "flash9";
  Catalogue catalogue;
  catalogue.model = [](std::string_view) { return std::optional<Model>(); };
  catalogue.cluster = [](std::string_view, int, int) { return std::optional(oracle::plain_cluster()); };
  CHECK(problem_of(run, catalogue).error().front().code == "unknown_attention");
}

TEST_CASE("a row whose layout is open is scored on request alone, a repeated one never") {
  Run run = megatron_run(2);
  run.status = "ok", run.suite = "s", run.step_time_s = 1, run.quality = "C";
  run.facts = {{"unstated", "tp+vp"}};
  Catalogue catalogue;
  catalogue.model = [](std::string_view) { return std::optional<Model>(); };
  catalogue.cluster = [](std::string_view, int, int) { return std::optional(oracle::plain_cluster()); };
  const auto reason = [&](bool rough) { return validate(std::span(&run, 1), catalogue, {rough}).runs[0].reason; };
  CHECK(reason(false).find("tp vp") != std::string::npos);
  CHECK(reason(true).empty());
  run.status = "duplicate";
  CHECK(reason(true) == "the same measurement as another row");
}

TEST_CASE("layouts are ranked within one job, one release and one kernel, where there is a choice") {
  Catalogue catalogue;
  catalogue.model = [](std::string_view) { return std::optional<Model>(); };
  catalogue.cluster = [](std::string_view, int, int) { return std::optional(oracle::plain_cluster()); };
  Run run = megatron_run(2);
  run.status = "ok", run.suite = "s", run.quality = "A", run.step_time_s = 1;
  Run other = run;
  other.tp = 4, other.step_time_s = 1.5;
  const auto ranking = [&](const std::vector<Run>& runs) {
    const Validation all = validate(runs, catalogue);
    for (const ScoredRun& one : all.runs) REQUIRE(one.step_time);
    return all.suites.at("s").ranking;
  };
  const double first = validate(std::vector<Run>{run}, catalogue).runs[0].step_time->predicted;
  const double second = validate(std::vector<Run>{other}, catalogue).runs[0].step_time->predicted;
  REQUIRE(first != second);
  const RankingScore both = ranking({run, other});
  CHECK(both.groups == 1);
  CHECK(both.median_regret == doctest::Approx(first < second ? 0 : 0.5));
  CHECK(both.kendall_tau == (first < second ? 1 : -1));
  CHECK(ranking({run, run}).groups == 0);
  other.facts = {{"release", "26.04"}};
  CHECK(ranking({run, other}).groups == 0);
  other.facts.clear(), other.attention = "unfused";
  CHECK(ranking({run, other}).groups == 0);
}

TEST_CASE("suites weigh the same in the whole, whether one run or several tell of them, and a small peak is compared") {
  Catalogue catalogue;
  catalogue.model = [](std::string_view) { return std::optional<Model>(); };
  catalogue.cluster = [](std::string_view, int, int) { return std::optional(oracle::plain_cluster()); };
  Run run = megatron_run(2);
  run.status = "ok", run.quality = "A", run.memory_kind = "allocated";
  std::vector<Run> runs;
  const std::pair<const char*, double> rows[] = {{"a", 0.25}, {"b", 0.5}, {"b", 40}, {"b", 0.75}, {"c", 60}};
  for (const auto& [suite, gib] : rows) {
    run.suite = suite, run.peak_memory_gib = gib, run.step_time_s = gib;
    runs.push_back(run);
  }
  const Validation all = validate(runs, catalogue);
  for (const ScoredRun& one : all.runs) CHECK(one.memory.has_value());
  double time = 0, memory = 0;
  for (const auto& [name, suite] : all.suites) {
    REQUIRE(suite.step_time.n == (name == "b" ? 3 : 1));
    time += suite.step_time.median_ape / 3;
    memory += suite.memory.at("allocated").median_ape / 3;
  }
  CHECK(all.overall.step_time.n == 5);
  CHECK(all.overall.step_time.median_ape == doctest::Approx(time));
  CHECK(all.overall.memory.at("allocated").n == 5);
  CHECK(all.overall.memory.at("allocated").median_ape == doctest::Approx(memory));
}

TEST_CASE("expert parallelism that a run does not state is the fastest that fits, and such a run fits no constant") {
  Run run = megatron_run(2);
  run.status = "ok";
  run.tp = 1, run.global_batch = 64, run.hidden = 4096, run.heads = 32, run.experts = 8, run.top_k = 2,
  run.expert_ffn = 14336;
  const RunProblem open = built(run);
  CHECK(open.guessed);
  const auto tried = [&](int ep) {
    Layout layout = open.layout;
    layout.ep = ep;
    return estimate(open.problem, layout);
  };
  const Estimate best = tried(open.layout.ep);
  CHECK(best.peak <= best.capacity);
  int fitting = 0;
  for (const int ep : {1, 2, 4, 8}) {
    const Estimate other = tried(ep);
    if (other.peak > other.capacity) continue;
    ++fitting;
    CHECK(other.step_time >= best.step_time);
  }
  CHECK(fitting > 1);

  run.ep = 2;
  CHECK(built(run).layout.ep == 2);
  CHECK_FALSE(built(run).guessed);
  run.micro_batch.reset();
  CHECK(built(run).guessed);
}

TEST_CASE("activations between stages are scattered where a framework's code does so") {
  const auto scatters = [](const char* framework) {
    Run run = megatron_run(8);
    run.framework = framework;
    return built(run).problem.training.stack.scatters_hand_overs;
  };
  CHECK(scatters("Megatron-LM"));
  CHECK(scatters("Megatron-DeepSpeed"));
  CHECK_FALSE(scatters("Megatron-Core"));
  CHECK_FALSE(scatters("Aleph Alpha scaling (Megatron-style)"));
}

TEST_CASE("a fact of a run takes every degree that its axis has, from the least to the most, and no other") {
  int tried = 0;
  each_axis([&](const auto& axis) {
    if constexpr (std::is_same_v<std::decay_t<decltype(Layout{}.*axis.value)>, int>) {
      if (axis.is(kRunColumn)) return;
      ++tried;
      const auto taken = [&](std::int64_t value) {
        Run run;
        run.facts[std::string(axis.key)] = std::to_string(value);
        const Result<Layout> layout = with_axis_facts(run, Layout{});
        return layout && (*layout).*axis.value == value;
      };
      CAPTURE(std::string(axis.key));
      CHECK(taken(axis.least));
      CHECK(taken(axis.least + 1));
      CHECK(taken(axis.most));
      CHECK_FALSE(taken(axis.least - 1));
      CHECK_FALSE(taken(std::int64_t{axis.most} + 1));
    }
  });
  CHECK(tried >= 2);
}

TEST_CASE("a run's recompute is what its words say") {
  Run run = megatron_run(24);
  const auto read = [&](const std::string& words) {
    run.recompute = words;
    return built(run).layout.recompute;
  };
  CHECK(read("none") == Recompute{});
  for (const char* whole : {"full", "full-uniform:1"}) CHECK(read(whole) == Recompute{.kind = RecomputeKind::Full});
  for (const int layers : {1, 2, 7, 12})
    CHECK(read("full-block:" + std::to_string(layers)) == Recompute{.kind = RecomputeKind::Full, .layers = layers});
  CHECK(read("selective") == Recompute{.kind = RecomputeKind::Selective, .modules = kRecomputeCoreAttention});
  CHECK(read("selective:op") == Recompute{.kind = RecomputeKind::Selective, .modules = kRecomputeOps});
  for (const auto& [module, word] : kRecomputeModuleNames) {
    if (module == kRecomputeOps) continue;
    const std::string one = "selective:" + std::string(word);
    CHECK(read(one) == Recompute{.kind = RecomputeKind::Selective, .modules = module});
    const auto both = static_cast<std::uint16_t>(module | kRecomputeMlp);
    CHECK(read(one + "+mlp") == Recompute{.kind = RecomputeKind::Selective, .modules = both});
  }
}
