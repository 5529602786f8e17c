// Facts of published models that stand in Megatron-LM's arguments: against the papers' and configurations' numbers, and
// for every preset with experts one word each for the router.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "cli/launch/dialect/dialect.hpp"
#include "cli/launch/job/job_builder.hpp"
#include "cli/launch/megatron/megatron.hpp"
#include "planner/planner.hpp"
#include "random_plans.hpp"

using namespace plan;

namespace {

/// The plainest plan of a model that Megatron-LM is asked to write.
std::optional<Plan> plan_for(const std::string& model, int gpus, std::int64_t seq) {
  Plan plan;
  plan.problem = problem_of(model.c_str(), gpus, Precision::Bf16, Framework::Megatron, "dgx-h100");
  plan.problem.training.seq = seq > 0 ? seq : plan.problem.training.seq;
  plan.problem.training.global_batch = gpus;
  std::mt19937 random(3);
  for (int draw = 0; draw < 40; ++draw)
    if (const std::optional<Layout> layout = random_layout(plan.problem, random)) {
      const Result<Plan> found = plan_layout(plan.problem, *layout);
      if (found && megatron_settings(*found, {})) return *found;
    }
  return std::nullopt;
}

std::map<std::string, std::string> flags_of(const Plan& plan) {
  std::map<std::string, std::string> out;
  const auto groups = megatron_settings(plan, {});
  REQUIRE(groups);
  for (const MegatronGroup& group : *groups)
    for (const MegatronSetting& setting : group.settings) {
      CHECK_MESSAGE(out.count(setting.flag) == 0, setting.flag);
      out[setting.flag] = setting.values.empty() ? "" : setting.values.front();
    }
  return out;
}

}  // namespace

TEST_CASE("DeepSeek-V3's router is the published one") {
  const std::optional<Plan> plan = plan_for("deepseek-v3", 256, 0);
  REQUIRE(plan);
  const auto flags = flags_of(*plan);
  CHECK(flags.at("moe-router-num-groups") == "8");
  CHECK(flags.at("moe-router-group-topk") == "4");
  CHECK(flags.at("moe-router-topk-scaling-factor") == "2.5");
  CHECK(flags.at("moe-router-score-function") == "sigmoid");
  CHECK(flags.at("moe-router-load-balancing-type") == "seq_aux_loss");
  CHECK(flags.at("moe-aux-loss-coeff") == "1e-4");
  CHECK(flags.at("mtp-num-layers") == "1");
  CHECK(flags.count("moe-router-pre-softmax") == 0);
}

TEST_CASE("Llama 3's positions are stretched beyond the first phase's, and its published name has them") {
  for (const char* model : {"llama3-8b", "llama3-70b"}) {
    const std::optional<Plan> near = plan_for(model, 64, 8192), far = plan_for(model, 64, 32768);
    REQUIRE((near && far));
    CHECK(flags_of(*near).count("use-rope-scaling") == 0);
    CHECK(flags_of(*far).at("rope-scaling-factor") == "8");
    CHECK(hub_name(*far).find("Llama-3.1") != std::string::npos);
  }
  // These were never published without it, so that every length has it.
  for (const auto& [model, factor] : {std::pair{"llama3.2-1b", "32"}, {"llama3.2-3b", "32"}, {"llama3-405b", "8"}})
    for (const std::int64_t seq : {2048, 8192, 16384}) {
      const std::optional<Plan> plan = plan_for(model, 512, seq);
      REQUIRE(plan);
      CHECK(flags_of(*plan).count("use-rope-scaling") == 1);
      CHECK(flags_of(*plan).at("rope-scaling-factor") == factor);
      CHECK(hub_name(*plan).find("Llama-3.") != std::string::npos);
    }
}

TEST_CASE("every model with experts states its router once, and groups divide its experts") {
  int checked = 0;
  for (const PresetEntry& entry : list_presets(PresetKind::Model, StoreOptions{})) {
    const Model model = load_model(entry.name, StoreOptions{})->value;
    if (!model.moe()) continue;
    const std::optional<Plan> plan = plan_for(entry.name, 64, 0);
    if (!plan) continue;
    CAPTURE(entry.name);
    const auto flags = flags_of(*plan);
    const int experts = std::stoi(flags.at("num-experts")), top_k = std::stoi(flags.at("moe-router-topk"));
    CHECK(flags.count("moe-router-num-groups") == flags.count("moe-router-group-topk"));
    if (flags.count("moe-router-num-groups") > 0) {
      const int groups = std::stoi(flags.at("moe-router-num-groups")),
                best = std::stoi(flags.at("moe-router-group-topk"));
      CHECK(experts % groups == 0);
      CHECK(best < groups);
      CHECK(best * (experts / groups) >= top_k);
    }
    CHECK_FALSE((flags.count("moe-router-pre-softmax") > 0 && flags.count("moe-router-score-function") > 0));
    ++checked;
  }
  CHECK(checked > 15);
}

TEST_CASE("every tool around Megatron-LM has a place for what a model's flags say, and no pattern for a parser") {
  int written = 0;
  for (const PresetEntry& entry : list_presets(PresetKind::Model, StoreOptions{})) {
    const std::optional<Plan> plan = plan_for(entry.name, 64, 0);
    if (!plan) continue;
    CAPTURE(entry.name);
    const auto groups = megatron_settings(*plan, {});
    REQUIRE(groups);
    for (const Dialect* dialect :
         {&bridge_dialect(), &verl_dialect(), &nemo_rl_dialect(), &swift_dialect(), &llama_factory_dialect()}) {
      CAPTURE(dialect->format);
      for (const MegatronGroup& group : *groups) {
        if (group.name != "MODEL_ARGS" && group.name != "MOE_ARGS") continue;
        for (const MegatronSetting& setting : group.settings) {
          CAPTURE(setting.flag);
          const auto key = std::find_if(dialect->keys.begin(), dialect->keys.end(),
                                        [&](const DialectKey& row) { return row.flag == setting.flag; });
          CHECK(key != dialect->keys.end());
          // Patterns are Python for argparse: behind a key of a configuration nobody evaluates them.
          const bool pattern = !setting.values.empty() && setting.values.front().starts_with("(");
          if (pattern && key != dialect->keys.end()) CHECK(key->kind == KeyKind::Layers);
          ++written;
        }
      }
    }
  }
  CHECK(written > 1000);
}
