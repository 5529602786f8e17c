// The words of --offload: every text comes back as itself, every mistake is reported.
#include "cli/terminal/offload_flag.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>

#include "check_files.hpp"
#include "formulas/activation.hpp"
#include "planner/search/switches.hpp"
#include "presets/store.hpp"

namespace plan {

TEST_CASE("what is offloaded comes back in the same words") {
  for (const char* text :
       {"optimizer", "optimizer=0.5", "parameters", "layers=4", "core_attn+attn_proj",
        "optimizer,parameters,attn_norm+qkv_linear+core_attn+attn_proj+mlp_norm+expert_fc1+moe_act"}) {
    const Result<Offload> read = read_offload(text);
    REQUIRE(read);
    CHECK(read->any());
    CHECK(offload_text(*read) == text);
  }
  CHECK(offload_text({}).empty());
  CHECK(read_offload("none") == Offload{});
  CHECK(read_offload("optimizer=1") == read_offload("optimizer"));
}

TEST_CASE("what is advised of offload is a word that --offload takes, and frees memory on any model") {
  for (const PresetEntry& entry : list_presets(PresetKind::Model, StoreOptions{})) {
    Problem problem;
    problem.model = load_model(entry.name, StoreOptions{})->value;
    problem.cluster = load_cluster("dgx-h100", StoreOptions{})->value;
    problem.framework = Framework::Megatron;
    CAPTURE(entry.name);
    const std::vector<ChangedJob> changes = offloads(problem);
    REQUIRE(changes.size() == 2);  // the optimizer, and activations
    for (const ChangedJob& change : changes) {
      const Result<Offload> read = read_offload(std::string_view(change.flag).substr(std::strlen("--offload ")));
      REQUIRE(read);
      CHECK(*read == change.problem.training.offload);
    }
    // What waits on the host is no longer kept on the GPU, layer by layer.
    RealBytes before, after;
    for (const Layer& layer : problem.model.kinds) {
      const Training& away = changes.back().problem.training;
      const LayerLedger whole = layer_ledger(problem.model, layer, away, Layout{});
      before += whole.total(), after += left_on_gpu(whole, layer, problem.model, away, Layout{}).total();
    }
    CHECK(after < before);
  }
}

TEST_CASE("a module that leaves nothing of the model in host memory is refused by its name") {
  int refused = 0, taken = 0;
  for (const PresetEntry& entry : list_presets(PresetKind::Model, StoreOptions{})) {
    const Model model = load_model(entry.name, StoreOptions{})->value;
    const auto some = [&](auto test) { return std::any_of(model.kinds.begin(), model.kinds.end(), test); };
    const bool experts = some([](const Layer& layer) { return layer.ffn == Ffn::Moe; });
    const bool attends =
        some([](const Layer& layer) { return layer.mixer == Mixer::Attention || layer.mixer == Mixer::Latent; });
    for (const auto& [module, has] : std::vector<std::pair<std::string, bool>>{
             {"expert_fc1", experts}, {"moe_act", experts}, {"core_attn", attends}, {"qkv_linear", attends}}) {
      const checks::Ran ran = checks::run({"estimate", "--model", entry.name, "--gpus", "8", "--framework", "megatron",
                                           "--offload", module, "--layout", "tp1"});
      CAPTURE(entry.name);
      const bool named = ran.err.find("`" + module + "` leaves nothing of " + model.name) != std::string::npos;
      CHECK(named != has);
      CHECK((has || ran.status == 2));
      ++(has ? taken : refused);
    }
  }
  CHECK(refused > 100);
  CHECK(taken > 100);
  // A graph begins at the norm, which has to stay where it is.
  const auto graphed = [](const char* module) {
    return checks::run({"estimate", "--model", "llama3-8b", "--gpus", "8", "--framework", "megatron", "--layout", "tp1",
                        "--cuda-graphs", "attn", "--offload", module});
  };
  CHECK(graphed("attn_norm").status == 2);
  CHECK(graphed("core_attn").status != 2);
}

TEST_CASE("every mistake in --offload is told at once") {
  const auto codes = [](const char* text) {
    const Result<Offload> read = read_offload(text);
    std::string all;
    if (!read)
      for (const Error& error : read.error()) all += error.code + " ";
    return all;
  };
  CHECK(codes("optimiser") == "unknown_value ");
  CHECK(codes("optimizer=0,core_atn+mlp_norm,parameters=1") == "bad_number unknown_value unknown_value ");
  CHECK(codes("optimizer=1.5") == "bad_number ");
  CHECK(codes("layers=0") != "");
  CHECK(codes("") == "unknown_value ");
  CHECK(codes("attn_proj") == "conflicting_values ");
  CHECK(codes("layers=2,core_attn") == "conflicting_values ");
  CHECK(read_offload("core_atn").error().front().help.front() == "the nearest is `core_attn`");
  CHECK(read_offload("cpu").error().front().help.front() == "write `--offload optimizer`");
  CHECK(read_offload("weights").error().front().help.front() == "write `--offload parameters`");
}

TEST_CASE("the host helps where all that fits without it starves the GPUs and takes twice as long, and only there") {
  struct Job {
    std::vector<std::string> words;
    bool helps;
  };
  const Job jobs[] = {{{"--model", "gpt-oss-20b", "--gpus", "8", "--framework", "deepspeed"}, true},
                      {{"--model", "llama4-scout", "--task", "finetune", "--gpus", "51", "--gpu", "l40s"}, true},
                      {{"--model", "llama3-70b", "--gpus", "64"}, false},
                      {{"--model", "gpt-oss-20b", "--gpus", "64", "--framework", "megatron"}, false}};
  const auto plan_of = [](std::vector<std::string> words, std::initializer_list<const char*> more) {
    words.insert(words.end(), more.begin(), more.end());
    return checks::run_json(std::move(words));
  };
  for (const Job& job : jobs) {
    CAPTURE(job.words[1]);
    const checks::Json asked = plan_of(job.words, {}), without = plan_of(job.words, {"--offload", "none"});
    const double step = asked["best"]["step_time_s"], kept = without["best"]["step_time_s"];
    const bool helps = std::any_of(asked["notes"].begin(), asked["notes"].end(), [](const checks::Json& note) {
      return note["code"] == "switched_on" && note["text"].get<std::string>().find("--offload") != std::string::npos;
    });
    CHECK(helps == job.helps);
    if (!helps) CHECK(step == kept);
    if (helps) CHECK(2 * step <= kept);
    if (helps) CHECK(without["best"]["mfu_ratio"]["model_causal"].get<double>() < 0.1);
  }
}

}  // namespace plan

TEST_CASE("a share a little above all of it is no percentage") {
  for (const char* share : {"1.5", "1.01", "2.25"})
    CHECK(plan::read_offload(std::string("optimizer=") + share).error()[0].help[0].find("=0.5`") != std::string::npos);
  CHECK(plan::read_offload("optimizer=1.5%").error()[0].help[0] == "write `--offload optimizer=0.015`");
  CHECK(plan::read_offload("optimizer=50").error()[0].help[0] == "write `--offload optimizer=0.5`");
}
