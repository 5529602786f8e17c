// Oracles: what json_report writes reads back as the same value; a file with any one key taken away or made a value of
// another kind is refused with a message that names the key.
#include "cli/request/sources/plan_json_read.hpp"

#include <doctest/doctest.h>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "cli/report/plan/json.hpp"
#include "cli/report/plan/report.hpp"
#include "planner/planner.hpp"
#include "presets/store.hpp"
#include "sample_plan.hpp"

using namespace plan;

namespace {

/// Every pointer below `json` but for names of inputs that a plan may leave out.
void pointers(const Json& json, const Json::json_pointer& at, std::vector<Json::json_pointer>& out) {
  if (!json.is_structured()) return;
  std::size_t index = 0;
  for (const auto& [key, value] : json.items()) {
    const Json::json_pointer next = json.is_array() ? at / index++ : at / key;
    out.push_back(next);
    pointers(value, next, out);
  }
}

bool any_names(const Errors& errors, const std::string& word) {
  for (const Error& error : errors)
    if (error.message.find(word) != std::string::npos) return true;
  return false;
}

Plan hybrid() {
  Plan plan = sample::plan();
  plan.best.layout.cp = 4, plan.best.layout.cp_kind = CpKind::Hybrid, plan.best.layout.cp_ulysses = 2;
  plan.best.layout.recompute = {.kind = RecomputeKind::Selective, .modules = kRecomputeMlp | kRecomputeNorm};
  plan.best.layout.shard = 16;
  plan.problem.inputs.push_back({"price_per_hour", "2.5", Origin::File, "", std::string(64, 'a')});
  return plan;
}

}  // namespace

TEST_CASE("what was written reads back") {
  const Plan plan = hybrid();
  const Result<EarlierPlan> read = read_plan_json(json_report(plan, {}), "main.json");
  REQUIRE(read);
  CHECK(read->file == "main.json");
  CHECK(read->model == "tiny-8b");
  CHECK(estimate_json(read->best).dump() == estimate_json(plan.best).dump());
  CHECK(inputs_json(read->inputs).dump() == inputs_json(plan.problem.inputs).dump());
  CHECK(read->best.layout == plan.best.layout);
  CHECK(find_input(read->inputs, "gpus")->value == "1024");
  CHECK(find_input(read->inputs, "nothing") == nullptr);
}

TEST_CASE("plans of real models read back, whatever their layout") {
  const StoreOptions store{.files = false};
  for (const auto& job : {std::pair{"llama3-8b", 64}, std::pair{"deepseek-v3", 1024}, std::pair{"gpt3-175b", 512}}) {
    const auto model = job.first;
    const int gpus = job.second;
    CAPTURE(model);
    Problem problem;
    problem.model = load_model(model, store)->value;
    problem.cluster = load_cluster("dgx-h100", store)->value;
    problem.gpus = gpus;
    problem.training.seq = 4096, problem.training.global_batch = 1024;
    problem.top = 6, problem.threads = 2;
    const Result<Plan> plan = search(problem);
    REQUIRE(plan);
    const Result<EarlierPlan> read = read_plan_json(json_report(*plan, {}), "a.json");
    REQUIRE(read);
    CHECK(estimate_json(read->best).dump() == estimate_json(plan->best).dump());
  }
}

namespace {

/// The same with one number of one run changed: another plan, or none.
std::string with_another_number(Json plan, std::mt19937& random) {
  constexpr const char* kKeys[] = {"layers", "tp", "cp", "dp", "micro_batch", "zero", "stages"};
  Json& runs = plan["best"]["layout"]["runs"];
  Json& number = runs[random() % runs.size()][kKeys[random() % std::size(kKeys)]];
  number = number == 3 ? 2 : number.get<int>() + 1;
  return plan.dump(1);
}

}  // namespace

TEST_CASE("runs of layers read back from their numbers, with the words beside them or without") {
  std::mt19937 random(41);
  const auto pick = [&](std::initializer_list<int> from) { return *(from.begin() + random() % from.size()); };
  int several = 0;
  for (int round = 0; round < 300; ++round) {
    Plan plan = sample::plan();
    Layout& layout = plan.best.layout;
    layout = {.tp = pick({1, 2, 4}), .cp = pick({1, 2}), .pp = pick({1, 2, 3, 5}), .dp = 4, .micro_batch = 8};
    layout.zero = pick({0, 1, 3});
    plan.best.stage_layers.clear();
    const auto any = [&] {
      StageStrategy run{.recompute = {RecomputeKind::Full, 0, pick({0, 2})}, .offload = pick({0, 0, 3})};
      if (random() % 2 == 0) run.recompute = {};
      if (random() % 2 == 0) run.tp = layout.tp == 1 ? 2 : 1;
      if (random() % 2 == 0) run.cp = layout.cp == 1 ? 2 : 1;
      if (random() % 2 == 0) run.zero = 2;
      return run;
    };
    for (int stage = 0; stage < layout.pp; ++stage) {
      if (stage > 0 && random() % 2 == 0) {  // as the one before
        layout.stages.push_back(layout.stages.back());
        plan.best.stage_layers.push_back(plan.best.stage_layers.back());
        continue;
      }
      StageStrategy own = any();
      int layers = pick({1, 4});
      for (int behind = pick({0, 0, 1, 2}); behind > 0; --behind) {
        StageStrategy& last = own.behind.empty() ? own : own.behind.back();
        last.layers = pick({1, 2, 7}), layers += last.layers;
        own.behind.push_back(any()), ++several;
      }
      layout.stages.push_back(own), plan.best.stage_layers.push_back(layers);
    }
    plan.best.peak_stage = 0;
    const std::string text = json_report(plan, {});
    Json alone = Json::parse(text);
    int rows = 0, held = 0;
    for (const Json& run : alone["best"]["layout"]["runs"]) {
      ++rows, held += run["stages"].get<int>() * run["layers"].get<int>();
      CHECK(run["tp"].get<int>() * run["cp"].get<int>() * run["dp"].get<int>() == layout.tp * layout.cp * layout.dp);
      CHECK(run["dp"].get<int>() * run["micro_batch"].get<int>() == layout.dp * layout.micro_batch);
    }
    CHECK(rows > 0);
    CHECK(held == std::accumulate(plan.best.stage_layers.begin(), plan.best.stage_layers.end(), 0));
    alone["best"]["layout"].erase("stage_strategies");
    for (const std::string& one : {text, alone.dump(1)}) {
      const Result<EarlierPlan> read = read_plan_json(one, "a.json");
      REQUIRE_MESSAGE(read, (read ? "" : read.error().front().message));
      CHECK(read->best.layout == layout);
      CHECK(estimate_json(read->best).dump() == estimate_json(plan.best).dump());
    }
    CHECK_FALSE(read_plan_json(with_another_number(Json::parse(text), random), "a.json"));
  }
  CHECK(several > 100);
  CHECK_FALSE(Json::parse(json_report(sample::plan(), {}))["best"]["layout"].contains("runs"));
}

TEST_CASE("a key less or a value of another kind is a mistake that names the key") {
  const Json whole = Json::parse(json_report(hybrid(), {}));
  Json asked = whole;
  for (const char* free : {"runners_up", "search", "why", "notes", "unstated", "unused", "runs_on", "about"})
    asked.erase(free);
  std::vector<Json::json_pointer> all;
  pointers(asked, Json::json_pointer(), all);
  CHECK(all.size() > 150);
  for (const Json::json_pointer& pointer : all) {
    const std::string key = pointer.back();
    CAPTURE(pointer.to_string());
    const bool free =
        key == "digest" || pointer.to_string() == "/tool/name" || pointer.parent_pointer().to_string() == "/inputs";
    const bool listed = key.find_first_not_of("0123456789") == std::string::npos;
    const bool optional = key == "order" || key == "group";  // plans of earlier versions have none, and mean one
    if (!free && !listed && !optional) {
      Json less = whole;
      less.at(pointer.parent_pointer()).erase(key);
      const Result<EarlierPlan> read = read_plan_json(less.dump(1), "a.json");
      CHECK(!read);
      if (!read) CHECK(any_names(read.error(), key));
    }
    if (pointer.to_string() == "/tool/name") continue;
    Json wrong = whole;
    wrong.at(pointer) = Json::array({Json::array()});
    CHECK(!read_plan_json(wrong.dump(1), "a.json"));
  }
}

TEST_CASE("figures that a plan states twice agree") {
  const Json whole = Json::parse(json_report(hybrid(), {}));
  const auto refused = [&](const char* pointer, double factor, const char* key) {
    Json edited = whole;
    Json& value = edited.at(Json::json_pointer(pointer));
    if (value.is_number_integer())
      value = static_cast<std::int64_t>(factor * value.get<double>());
    else
      value = factor * value.get<double>();
    const Result<EarlierPlan> read = read_plan_json(edited.dump(1), "a.json");
    CAPTURE(pointer);
    CHECK_FALSE(read.has_value());
    if (!read) CHECK(any_names(read.error(), key));
  };
  for (const double factor : {0.5, 1.01, 2.0, 1e300}) refused("/best/step_time_s", factor, "step_time_s");
  refused("/best/terms_s/compute", 1.5, "step_time_s");
  refused("/best/step_time_low_s", 100, "step_time_s");
  refused("/best/memory/peak_bytes", 0.5, "memory");
}

TEST_CASE("a layout and a speed are those of the job beside them, and one object that lacks keys is one mistake") {
  Problem problem;
  problem.model = load_model("llama3-8b", {.files = false})->value;
  problem.cluster = load_cluster("dgx-h100", {.files = false})->value;
  problem.gpus = 64, problem.threads = 2;
  problem.training.seq = 4096, problem.training.global_batch = 1024;
  problem.inputs = {{"gpus", "64", Origin::Flag, "", ""},
                    {"seq", "4096", Origin::Flag, "", ""},
                    {"global_batch", "1024", Origin::Flag, "", ""}};
  const Result<Plan> plan = search(problem);
  REQUIRE(plan);
  const Json whole = Json::parse(json_report(*plan, {}));
  REQUIRE(read_plan_json(whole.dump(1), "a.json"));
  for (const char* pointer : {"/best/layout/dp", "/best/layout/micro_batch", "/best/layout/micro_batches",
                              "/best/tokens_per_s", "/best/tokens_per_s_per_gpu"}) {
    Json edited = whole;
    Json& value = edited.at(Json::json_pointer(pointer));
    if (value.is_number_integer())
      value = 2 * value.get<std::int64_t>();
    else
      value = 2 * value.get<double>();
    CAPTURE(pointer);
    const Result<EarlierPlan> read = read_plan_json(edited.dump(1), "a.json");
    CHECK_FALSE(read.has_value());
    if (!read) CHECK(read.error().size() == 1);
  }
  for (const char* pointer : {"/best/memory", "/best/terms_s", "/best/layout", "/best/mfu_ratio", "/tool", "/model"}) {
    Json edited = whole;
    edited.at(Json::json_pointer(pointer)) = Json::object();
    CAPTURE(pointer);
    const Result<EarlierPlan> read = read_plan_json(edited.dump(1), "a.json");
    REQUIRE_FALSE(read.has_value());
    CHECK(read.error().size() == 1);
    CHECK(read.error().front().message.find("missing") != std::string::npos);
  }
}

TEST_CASE("mistakes have places, all at once") {
  std::string text = json_report(sample::plan(), {});
  const auto replace = [&](const std::string& from, const std::string& to) {
    REQUIRE(text.find(from) != std::string::npos);
    text.replace(text.find(from), from.size(), to);
  };
  replace("\"tp\": 8", "\"tp\": -8");
  replace("\"schedule\": \"interleaved\"", "\"schedule\": \"interleavd\"");
  const Result<EarlierPlan> read = read_plan_json(text, "a.json");
  REQUIRE(!read);
  REQUIRE(read.error().size() == 2);
  const Place& place = read.error()[0].place;
  CHECK(read.error()[0].message.find("`best.layout.tp` is out of range") == 0);
  CHECK(place.text.substr(static_cast<std::size_t>(place.column) - 1, 2) == "-8");
  CHECK(read.error()[1].help == std::vector<std::string>{"a word with a similar name exists: `interleaved`"});
}

TEST_CASE("a value of another kind is one mistake, whatever else it is compared with") {
  const nlohmann::json whole = nlohmann::json::parse(json_report(hybrid(), {}));
  int told = 0;
  const nlohmann::json flat = whole.flatten();
  for (const auto& item : flat.items()) {
    if (!item.key().starts_with("/best/")) continue;
    for (const nlohmann::json& value :
         {nlohmann::json("xyzzy"), nlohmann::json::array({"x"}), nlohmann::json(nullptr)}) {
      nlohmann::json edited = whole;
      edited[nlohmann::json::json_pointer(item.key())] = value;
      const auto read = read_plan_json(edited.dump(), "plan.json");
      if (read) continue;
      CAPTURE(item.key());
      CHECK(read.error().size() == 1);
      ++told;
    }
  }
  CHECK(told > 50);
}

TEST_CASE("another schema, another file") {
  const auto code = [](const std::string& text) {
    const Result<EarlierPlan> read = read_plan_json(text, "a.json");
    REQUIRE(!read);
    return read.error().front();
  };
  CHECK(code(R"({"schema": "plan/2"})").message == "the schema is `plan/2`, not `plan/1`");
  CHECK(code(R"({"schema": "plan/2"})").help.front() == "write the file again with this version of plan");
  CHECK(code(R"({"schema": "plan-validate/1"})").help.front().find("`plan estimate --json`") != std::string::npos);
  CHECK(code(R"({"a": 1})").code == "wrong_schema");
  CHECK(code("[1]").code == "bad_value");
  CHECK(code("").message == "the file is empty");
  CHECK(code("{\"a\": 1,\n \"b\": }").place.line == 2);
  CHECK(code(R"({"schema": "plan/1", "schema": "plan/1"})").code == "duplicate_key");
  CHECK(code("{\"a\":" + std::string(1000, '[') + std::string(1000, ']') + "}").code == "json_refused");
  CHECK(code(R"({"schema": "plan/1", "best": 1e999})").code == "json_syntax");
}
