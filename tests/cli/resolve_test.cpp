#include "cli/request/resolve.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "check_files.hpp"
#include "cli/request/flags/options.hpp"
#include "cli/request/run_cost.hpp"
#include "formulas/overlap.hpp"
#include "formulas/parameters.hpp"
#include "planner/rules/frameworks.hpp"
#include "presets/store.hpp"

using namespace plan;

namespace {
Result<Problem> resolve(const std::vector<std::string>& words) {
  return resolve_problem(parse_arguments(words).value());
}
const Input* input(const Problem& problem, std::string_view key) {
  for (const Input& row : problem.inputs)
    if (row.key == key) return &row;
  return nullptr;
}
}  // namespace

TEST_CASE("defaults come from the model, and every input says where it came from") {
  const Problem problem = resolve({"--model", "405b", "--gpus", "16k"}).value();
  CHECK(problem.gpus == 16384);
  CHECK(problem.training.seq == 8192);
  CHECK(problem.training.global_batch == 2048);
  CHECK(problem.cluster.name == "dgx-h100");
  CHECK(input(problem, "model")->value == "llama3-405b");
  CHECK(input(problem, "model")->origin == Origin::Flag);
  CHECK(input(problem, "model")->digest.size() == 64);
  CHECK(input(problem, "seq")->origin == Origin::Preset);
  CHECK(input(problem, "precision")->value == "bf16");
  CHECK(input(problem, "precision")->origin == Origin::Default);
  CHECK(input(problem, "lora_rank") == nullptr);
}

TEST_CASE("flags win over presets") {
  const Problem problem =
      resolve({"--model",        "8b",        "--gpus",      "64",       "--gpu",       "h200-sxm", "--seq",    "16k",
               "--global-batch", "4M tokens", "--precision", "fp8",      "--optimizer", "muon",     "--task",   "lora",
               "--lora-rank",    "8",         "--framework", "megatron", "--objective", "memory",   "--layout", "tp2",
               "--top",          "7",         "--threads",   "1",        "--pareto"})
          .value();
  CHECK(problem.cluster.gpu.name == "h200-sxm");
  CHECK(problem.training.seq == 16384);
  CHECK(problem.training.global_batch == 256);
  CHECK(problem.training.precision == Precision::Fp8Tensorwise);
  CHECK(problem.training.optimizer == Optimizer::Muon);
  CHECK(problem.training.task == Task::Lora);
  CHECK(problem.training.lora.rank == 8);
  CHECK(problem.framework == Framework::Megatron);
  CHECK(problem.training.stack.framework == "megatron");
  CHECK(problem.objective == Objective::Memory);
  CHECK(problem.fixed.tp == 2);
  CHECK(problem.top == 7);
  CHECK(problem.threads == 1);
  CHECK(problem.pareto);
}

TEST_CASE("all mistakes at once") {
  const Errors errors =
      resolve({"--model", "llama3-504b", "--gpus", "-5", "--gpu", "h101-sxm", "--seq", "0", "--layout", "tq8"}).error();
  REQUIRE(errors.size() == 5);
  CHECK(errors[0].message == "unknown model `llama3-504b`");
  CHECK(errors[1].message == "`--gpus` must be at least 1, got `-5`");
  CHECK(errors[2].code == "unknown_gpu");
  CHECK(errors[3].message == "`--seq` must be at least 1, got `0`");
  CHECK(errors[4].code == "unknown_axis");
}

TEST_CASE("GPUs as people and drivers write them are told what to write") {
  const auto help = [](const std::vector<std::string>& words) { return resolve(words).error().front().help.front(); };
  CHECK(help({"--model", "8b", "--gpus", "2x8xH100"}) == "write `--gpus 16xh100-sxm`");
  CHECK(help({"--model", "8b", "--gpus", "8", "--gpu", "NVIDIA H100 80GB HBM3"}) == "that is `h100-sxm`");
  CHECK(help({"--model", "8b", "--gpus", "8", "--gpu", "AMD Instinct MI300X OAM"}) == "that is `mi300x`");
}

TEST_CASE("what may be one number or two is told as both, what can only be one as one") {
  const auto help = [](const std::vector<std::string>& words) {
    const Result<Problem> problem = resolve(words);
    REQUIRE_FALSE(problem);
    CHECK(problem.error().size() == 1);
    REQUIRE_FALSE(problem.error().front().help.empty());
    return problem.error().front().help;
  };
  using Help = std::vector<std::string>;
  for (const char* flag : {"--gpus", "--global-batch", "--seq"}) {
    const std::string name = flag;
    const auto asked = [&](const char* text) {
      std::vector<std::string> words{"--model", "8b", flag, text};
      if (name != "--gpus") words.insert(words.end(), {"--gpus", "8"});
      return help(words);
    };
    CHECK(asked("64,128") ==
          Help{"write `" + name + " 64128`", "several values are swept: `plan sweep " + name + " 64,128`"});
    CHECK(asked("1,024") == Help{"write `" + name + " 1024`"});
    CHECK(asked("8,16").front() == "several values are swept: `plan sweep " + name + " 8,16`");
  }
}

TEST_CASE("missing and conflicting flags") {
  CHECK(resolve({}).error().size() == 2);
  CHECK(resolve({"--model", "8b", "--gpus", "8", "--gpu", "h100", "--cluster", "dgx-h100"}).error()[0].code ==
        "conflicting_flags");
  CHECK(resolve({"--model", "8b", "--gpus", "8", "--lora-rank", "8"}).error()[0].code == "conflicting_flags");
}

TEST_CASE("larger hardware is suggested least first") {
  const Problem problem = resolve({"--model", "8b", "--gpus", "8"}).value();
  const std::vector<Cluster> larger = larger_clusters(problem.cluster);
  REQUIRE_FALSE(larger.empty());
  for (std::size_t i = 0; i < larger.size(); ++i) {
    CHECK(larger[i].gpu.memory > problem.cluster.gpu.memory);
    if (i > 0) CHECK(larger[i - 1].gpu.memory <= larger[i].gpu.memory);
  }
}

TEST_CASE("uneven routing slows what experts do, and is refused where there are none") {
  const std::vector<std::string> routed = {"--model", "qwen3-235b-a22b", "--gpus", "64"};
  const auto with = [](std::vector<std::string> words, const std::string& factor) {
    words.insert(words.end(), {"--imbalance", factor});
    return resolve(words);
  };
  const Problem uneven = with(routed, "1.5").value();
  CHECK(uneven.training.stack.routing_imbalance == 1.5);
  CHECK(input(uneven, "imbalance")->value == "1.5");
  for (const char* bad : {"0.9", "0", "-1", "2000", "even"}) CHECK_FALSE(with(routed, bad).has_value());
  for (const auto& [share, factor] : {std::pair{"30%", "1.3"}, {"5 %", "1.05"}})
    CHECK(with(routed, share).error().front().help.front().find(std::string("--imbalance ") + factor + "`") !=
          std::string::npos);
  const std::vector<std::string> dense = {"--model", "8b", "--gpus", "64"};
  CHECK(with(dense, "1").has_value());
  CHECK(with(dense, "1.2").error().front().code == "conflicting_flags");
  for (const auto& [model, most] : {std::pair{"mixtral-8x7b", "4"}, {"deepseek-v3", "32"}}) {  // every token to one
    const std::vector<std::string> words = {"--model", model, "--gpus", "64"};
    CHECK(with(words, most).has_value());
    const auto beyond = with(words, std::string(most) + ".5");
    REQUIRE_FALSE(beyond.has_value());
    CHECK(beyond.error().front().help.front().find(std::string("--imbalance ") + most + "`") != std::string::npos);
  }
}

TEST_CASE("switches of Megatron's software reach the problem, and are refused where nothing has them") {
  const std::vector<std::string> megatron = {"--model", "8b", "--gpus", "64", "--framework", "megatron"};
  const auto with = [&](std::vector<std::string> words, const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
    return resolve(words);
  };
  const Training narrow =
      with(megatron, {"--state-formats", "grads=bf16,master=fp16,moment1=fp8,moment2=bf16"}).value().training;
  CHECK(narrow.grad_bytes == 2);
  CHECK(narrow.master_bytes == 2);
  CHECK(narrow.moment1_bytes == 1);
  CHECK(narrow.moment2_bytes == 2);
  CHECK(narrow.precision_aware);
  const Problem graphs = with(megatron, {"--cuda-graphs", "attn+mlp"}).value();
  CHECK(graphs.training.stack.graph_scopes == (kGraphAttention | kGraphMlp));
  CHECK(input(graphs, "cuda_graphs")->value == "attn+mlp");
  CHECK(with(megatron, {"--cuda-graphs", "full"}).value().training.stack.cuda_graphs);
  const std::vector<std::string> any = {"--model", "8b", "--gpus", "64"};
  CHECK(with(any, {"--state-formats", "moments=bf16"}).error().front().code == "conflicting_flags");
  CHECK(with(any, {"--cuda-graphs", "attn"}).value().training.stack.graph_scopes == kGraphAttention);
  CHECK(with({"--model", "8b", "--gpus", "64", "--framework", "torchtitan"}, {"--cuda-graphs", "attn"})
            .error()
            .front()
            .code == "conflicting_flags");
  CHECK(with(any, {"--cuda-graphs", "none"}).has_value());
  CHECK_FALSE(with(megatron, {"--cuda-graphs", "moe_router"}).has_value());  // 8b has no experts
  CHECK_FALSE(with({"--model", "deepseek-v3", "--gpus", "256", "--framework", "megatron"}, {"--cuda-graphs", "full"}));
}

TEST_CASE("overlap and dispatcher reach the software, and are refused where nothing has them") {
  const auto with = [](std::vector<std::string> words, const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
    return resolve(words);
  };
  const auto code = [](const Result<Problem>& result) {
    return result ? std::string() : std::string(result.error().front().code);
  };
  const std::vector<std::string> dense = {"--model", "8b", "--gpus", "64"};
  const std::vector<std::string> routed = {"--model", "mixtral-8x7b", "--gpus", "64"};
  for (unsigned parts = 0; parts <= kOverlapAll; ++parts) {
    const std::string words = overlap_words(parts);
    CAPTURE(words);
    const Result<Problem> problem = with(routed, {"--overlap", words});
    const bool alone = (parts & kOverlapParams) != 0 && (parts & kOverlapGrads) == 0;
    REQUIRE(problem.has_value() == !alone);
    if (alone) continue;
    CHECK(overlapping(problem->training.stack) == parts);
    CHECK(input(*problem, "overlap")->value == words);
  }
  CHECK(code(with(dense, {"--overlap", "grads+experts"})) == "conflicting_flags");
  CHECK(code(with(dense, {"--overlap", "grads", "--framework", "torchtitan"})) == "conflicting_flags");
  CHECK(code(with(dense, {"--overlap", "grads+tp", "--framework", "deepspeed"})) == "conflicting_flags");
  const Problem deepspeed = with(dense, {"--overlap", "none", "--framework", "deepspeed"}).value();
  const Stack usual = framework_row(Framework::DeepSpeed).stack;
  CHECK(overlapping(deepspeed.training.stack) == (overlapping(usual) & ~unsigned{kOverlapGrads}));

  CHECK(with(routed, {}).value().training.stack.dedup_dispatch);  // on H100
  CHECK_FALSE(with(routed, {"--dispatcher", "alltoall"}).value().training.stack.dedup_dispatch);
  CHECK(with(routed, {"--dispatcher", "flex"}).value().training.stack.dedup_dispatch);
  CHECK(code(with(routed, {"--dispatcher", "flex", "--gpu", "a100-sxm-80gb"})) == "conflicting_flags");
  CHECK(code(with(routed, {"--dispatcher", "flex", "--framework", "torchtitan"})) == "conflicting_flags");
  CHECK(code(with(dense, {"--dispatcher", "alltoall"})) == "conflicting_flags");
}

TEST_CASE("a release chooses what its software does; where it matters and nobody says, the newest is told") {
  std::vector<std::string> words = {"--model", "gpt-oss-120b", "--gpus", "64",          "--gpu",
                                    "gb200",   "--precision",  "mxfp8",  "--framework", "megatron"};
  const auto assumed = [](const Problem& problem) {
    for (const Note& note : problem.notes)
      if (note.code == "release_assumed") return note.text;
    return std::string();
  };
  const Problem newest = resolve(words).value();
  CHECK(newest.training.stack.fused_biased_experts);
  CHECK(assumed(newest).find("26.06 has fused biased experts") != std::string::npos);
  CHECK(input(newest, "release") == nullptr);
  CHECK(assumed(resolve({"--model", "8b", "--gpus", "64", "--framework", "megatron"}).value()).empty());

  words.insert(words.end(), {"--release", "26.04"});
  const Problem earlier = resolve(words).value();
  CHECK_FALSE(earlier.training.stack.fused_biased_experts);
  CHECK(assumed(earlier).empty());
  REQUIRE(input(earlier, "release") != nullptr);
  CHECK(input(earlier, "release")->value == "26.04");

  const Result<Problem> plain = resolve({"--model", "8b", "--gpus", "64", "--release", "26.04"});
  REQUIRE(plain);
  CHECK(std::any_of(plain->notes.begin(), plain->notes.end(),
                    [](const Note& note) { return note.code == "release_without_effect"; }));
  const auto refused = [&](const char* release, const char* framework) {
    return resolve({"--model", "8b", "--gpus", "64", "--framework", framework, "--release", release}).error()[0].code;
  };
  CHECK(refused("soon", "megatron") == "unknown_release");
  CHECK(refused("39.12", "megatron") == "unknown_release");
  CHECK(refused("26.04", "torchtitan") == "conflicting_flags");
}

TEST_CASE("parts of a checkpoint that no figure counts are told where they are worth a word") {
  int told = 0;
  for (const PresetEntry& entry : list_presets(PresetKind::Model, {})) {
    CAPTURE(entry.name);
    const Result<Problem> problem = resolve({"--model", entry.name, "--gpus", "64"});
    REQUIRE(problem);
    const double share = static_cast<double>(problem->model.extra_parameters) /
                         static_cast<double>(model_parameters(problem->model).total);
    const bool tells = std::any_of(problem->notes.begin(), problem->notes.end(),
                                   [](const Note& note) { return note.code == "parts_left_out"; });
    CHECK(tells == (share >= 1e-3));
    told += tells ? 1 : 0;
  }
  CHECK(told > 10);
}

TEST_CASE("a config.json that describes more than a language model is read as one, and told") {
  const checks::Folder folder;
  const std::string plain =
      R"("model_type": "qwen2", "hidden_size": 1024, "num_hidden_layers": 8, "num_attention_heads": 8,
         "num_key_value_heads": 8, "intermediate_size": 4096, "vocab_size": 32000)";
  folder.write("plain.json", "{" + plain + "}");
  folder.write("stored.json", "{" + plain + ", \"quantization_config\": {\"bits\": 4}}");
  folder.write("seeing.json", "{" + plain + ", \"vision_config\": {\"depth\": 32}, \"audio_config\": {\"layers\": 2}}");
  for (const std::string command : {"", "estimate"}) {
    const auto answer = [&](const char* file) {
      std::vector<std::string> words{"--model", file, "--gpus", "8"};
      if (!command.empty()) words.insert(words.begin(), command), words.insert(words.end(), {"--layout", "dp8"});
      const checks::Ran ran = checks::run(words);
      return ran.out + ran.err;
    };
    CHECK(answer("seeing.json").find("vision_config") != std::string::npos);
    CHECK(answer("stored.json").find("quantization_config") != std::string::npos);
    CHECK(answer("plain.json").find("_config") == std::string::npos);
  }
  folder.write("config.json", "{" + plain + ", \"vision_config\": {\"depth\": 32}}");
  folder.write("ds.json", R"({"train_batch_size": 8, "zero_optimization": {"stage": 1}})");
  CHECK(checks::run({"estimate", "--model", "seeing.json", "--from", "ds.json", "--gpus", "8", "--layout", "dp8"})
            .out.find("vision_config") != std::string::npos);
  CHECK(
      checks::run({"estimate", "--from", "config.json", "--gpus", "8", "--layout", "dp8"}).out.find("vision_config") !=
      std::string::npos);
}

TEST_CASE(
    "tokens with a letter are whole where their decimals are, and a true fraction is refused with words that work") {
  const auto read = [](const std::string& text) {
    Args args;
    args.tokens = text;
    return resolve_run(args);
  };
  for (const auto& [letter, size] :
       {std::pair{"K", 10LL}, {"M", 10'000LL}, {"B", 10'000'000LL}, {"T", 10'000'000'000LL}})
    for (long long hundredths = 1; hundredths < 10'000; ++hundredths) {
      const std::string text = fmt::format("{}.{:02}{}", hundredths / 100, hundredths % 100, letter);
      const Result<RunOptions> run = read(text);
      CAPTURE(text);
      REQUIRE(run.has_value());
      CHECK(run->tokens == static_cast<double>(hundredths * size));
    }
  for (const char* text : {"8.2", "0.5", "1.0005k", "8.20001K", "1000000000.5", "0.0001K", "0.0000001M"}) {
    CAPTURE(text);
    const Result<RunOptions> run = read(text);
    REQUIRE_FALSE(run.has_value());
    REQUIRE(run.error().size() == 1);
    REQUIRE_FALSE(run.error().front().help.empty());
    for (const std::string& help : run.error().front().help) {
      CAPTURE(help);
      const std::size_t value = help.rfind(' ') + 1;
      CHECK(read(help.substr(value, help.size() - value - 1)).has_value());
    }
  }
}

TEST_CASE("a number for a kind of GPU is told as one, and `--gpus` is proposed only where it is not given") {
  for (const std::string flag : {"--gpu", "--cluster"})
    for (const char* number : {"1", "8", "512", "1024", "2048", "99999"}) {
      CAPTURE(flag);
      CAPTURE(number);
      for (const bool given : {false, true}) {
        std::vector<std::string> words = {"--model", "8b", flag, number};
        if (given) words.insert(words.end(), {"--gpus", "16"});
        const Result<Problem> problem = resolve(words);
        REQUIRE_FALSE(problem.has_value());
        REQUIRE(problem.error().size() == 1);
        const Error& error = problem.error().front();
        CHECK(error.message == fmt::format("`{}` is a kind, and `{}` a number", flag, number));
        REQUIRE(error.help.size() == 1);
        CHECK((error.help.front() == fmt::format("write `--gpus {}`", number)) == !given);
        CHECK((error.help.front().find("--gpus") == std::string::npos) == given);
      }
    }
  CHECK(resolve({"--model", "8b", "--gpus", "8", "--gpu", "4090"}).has_value());
  CHECK(resolve({"--model", "8b", "--gpus", "8", "--gpu", "6000"}).error().front().code == "unknown_gpu");
  const checks::Ran shown = checks::run({"show", "gpu", "8"});  // which takes no `--gpus`
  CHECK(shown.err.find("unknown GPU `8`") != std::string::npos);
  CHECK(shown.err.find("--gpus") == std::string::npos);
}

TEST_CASE("nodes without adapters do a job inside one, and no other") {
  const checks::Folder folder;
  for (const char* provenance : {"datasheet", "assumed"}) {
    folder.write("c.yaml", fmt::format("preset: cluster/1\nname: c\ngpu: h100-sxm\ngpus_per_node: 8\nnics_per_node: 0\n"
                                       "tiers:\n  - {{name: a, bandwidth: 450 GB/s, size: 8}}\n"
                                       "  - {{name: b, bandwidth: 50 GB/s, size: all, provenance: {}}}\n",
                                       provenance));
    for (const char* gpus : {"1", "8", "16", "64"}) {
      CAPTURE(gpus);
      CAPTURE(provenance);
      const Result<Problem> problem = resolve({"--model", "8b", "--gpus", gpus, "--cluster", "./c.yaml"});
      const bool joined = std::stoi(gpus) > 8 && provenance == std::string("datasheet");
      REQUIRE(problem.has_value() == !joined);
      if (!joined) continue;
      REQUIRE(problem.error().size() == 1);
      CHECK(problem.error().front().code == "conflict");
      CHECK(problem.error().front().message.find("`nics_per_node` of c is 0") == 0);
    }
  }
}
