// A word means the same whoever says it: behind its flag or its key in a budget. What cannot be read is refused there.
#include "cli/request/sources/request.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "check_files.hpp"
#include "cli/check/check.hpp"
#include "cli/request/flags/options.hpp"
#include "cli/request/resolve.hpp"
#include "presets/store.hpp"

using namespace plan;

namespace {

/// A word of each key that goes with every other one here.
const std::map<std::string, std::string, std::less<>> kGood = {{"model", "8b"},
                                                               {"seq", "4k"},
                                                               {"global_batch", "4M tokens"},
                                                               {"precision", "fp8"},
                                                               {"optimizer", "muon"},
                                                               {"task", "lora"},
                                                               {"lora_rank", "8"},
                                                               {"gpus", "64"},
                                                               {"gpu", "h200-sxm"},
                                                               {"cluster", "dgx-h200"},
                                                               {"profile", "dgx-h100"},
                                                               {"host_memory", "1 TiB"},
                                                               {"framework", "megatron-lm"},
                                                               {"megatron_version", "0.16"},
                                                               {"release", "26.04"},
                                                               {"layout", "tp2,pp2"},
                                                               {"offload", "optimizer=0.5"},
                                                               {"state_formats", "grads=bf16"},
                                                               {"cuda_graphs", "attn"},
                                                               {"overlap", "grads+p2p"},
                                                               {"imbalance", "1"},
                                                               {"headroom", "5%"}};

using KeyWords = std::map<std::string, std::string, std::less<>>;

/// A word of each key that goes with few others, and those it needs.
struct Alone {
  std::string word;
  KeyWords beside;
};
const std::map<std::string, Alone, std::less<>> kAlone = {
    {"slice", {"4x4x4", {{"gpu", "tpu-v5p"}, {"framework", "maxtext"}}}},
    {"dispatcher", {"alltoall", {{"model", "mixtral-8x7b"}}}},
    {"bf16_layers", {"1,1", {{"precision", "fp8"}}}},
    {"diloco", {"500,copies=2", {{"framework", "none"}}}}};

bool is_hardware(std::string_view key) { return key == "gpu" || key == "cluster" || key == "profile"; }

/// The words of a job that states `key` and what it needs.
KeyWords words_beside(const KeyWords& base, const std::string& key, const std::string& word) {
  KeyWords words = base;
  if (key == "lora_rank") words["task"] = "lora";
  if (const auto alone = kAlone.find(key); alone != kAlone.end())
    for (const auto& [other, needed] : alone->second.beside) words[other] = needed;
  words[key] = word;
  return words;
}

/// Every key with its good word.
KeyWords all_good() {
  KeyWords words = kGood;
  for (const auto& [key, alone] : kAlone) words[key] = alone.word;
  return words;
}

/// Every good word that goes with all others, one kind of hardware among them.
KeyWords words_with(std::string_view hardware) {
  auto words = kGood;
  for (const char* key : {"gpu", "cluster", "profile"})
    if (key != hardware) words.erase(key);
  return words;
}

std::string flag_of(std::string key) {
  std::replace(key.begin(), key.end(), '_', '-');
  return "--" + key;
}

Result<Problem> by_flags(const KeyWords& words) {
  std::vector<std::string> line;
  for (const auto& [key, word] : words) line.push_back(flag_of(key)), line.push_back(word);
  const Result<Args> args = parse_arguments(line);
  return args ? resolve_problem(*args) : fail(args.error());
}

std::string budget_of(const KeyWords& words) {
  std::string text = "budget: 1\n";
  for (const auto& [key, word] : words) text += key + ": '" + word + "'\n";
  return text;
}

Result<Problem> by_budget(const KeyWords& words) {
  const Result<BudgetFile> file = read_budget_text(budget_of(words), "b.yaml");
  if (!file) return fail(file.error());
  Result<ResolvedJob> job = resolve_job(file->jobs.front(), {});
  return job ? Result<Problem>(job->problem) : fail(job.error());
}

}  // namespace

TEST_CASE("every word of a job has an example here") {
  CHECK(job_words().size() == kGood.size() + kAlone.size());
  for (const std::string_view key : job_words()) CHECK_MESSAGE(all_good().contains(key), key);
}

TEST_CASE("a word means the same behind its flag and in a budget") {
  for (const char* hardware : {"gpu", "cluster", "profile"}) {
    const auto words = words_with(hardware);
    const Result<Problem> flags = by_flags(words), budget = by_budget(words);
    REQUIRE(flags);
    REQUIRE(budget);
    CHECK(flags->gpus == budget->gpus);
    CHECK(flags->cluster.name == budget->cluster.name);
    CHECK(flags->fixed == budget->fixed);
    CHECK(flags->framework == budget->framework);
    CHECK(flags->cluster.host_memory == Bytes(std::int64_t{1} << 40));
    CHECK(budget->cluster.host_memory == flags->cluster.host_memory);
    CHECK(flags->release == budget->release);
    CHECK(flags->headroom == budget->headroom);
    CHECK(flags->training.stack.graph_scopes == budget->training.stack.graph_scopes);
    CHECK(flags->training.stack.routing_imbalance == budget->training.stack.routing_imbalance);
    REQUIRE(flags->inputs.size() == budget->inputs.size());
    for (std::size_t i = 0; i < flags->inputs.size(); ++i) {
      const Input &typed = flags->inputs[i], &written = budget->inputs[i];
      CAPTURE(typed.key);
      CHECK(typed.key == written.key);
      CHECK(typed.value == written.value);
      CHECK(typed.digest == written.digest);
      CHECK(typed.guessed == written.guessed);
      if (typed.origin != Origin::Flag) continue;
      CHECK(written.origin == Origin::File);
      CHECK(written.where.starts_with("b.yaml:"));
    }
  }
}

TEST_CASE("each word alone changes what it says, and nothing else stated") {
  const KeyWords base = {{"model", "8b"}, {"gpus", "64"}, {"framework", "megatron"}};
  for (const auto& good : all_good()) {
    const std::string &key = good.first, &word = good.second;
    CAPTURE(key);
    const KeyWords words = words_beside(base, key, word);
    const Result<Problem> flags = by_flags(words), budget = by_budget(words);
    REQUIRE(flags);
    REQUIRE(budget);
    const std::string_view shown = key == "profile" ? "cluster" : std::string_view(key);
    const Input *typed = find_input(flags->inputs, shown), *written = find_input(budget->inputs, shown);
    REQUIRE(typed != nullptr);
    REQUIRE(written != nullptr);
    CHECK(typed->value == written->value);
    CHECK(typed->origin == (key == "profile" ? Origin::Profile : Origin::Flag));
    CHECK_FALSE(typed->guessed);
  }
}

TEST_CASE("a job is asked for again by what its plan says of it, however it was said") {
  std::vector<KeyWords> jobs;
  const KeyWords base = {{"model", "8b"}, {"gpus", "64"}, {"framework", "megatron"}};
  for (const auto& [key, word] : all_good())
    if (key != "layout" && key != "profile") jobs.push_back(words_beside(base, key, word));
  for (const PresetEntry& gpu : list_presets(PresetKind::Gpu, {}))
    jobs.push_back({{"model", "8b"}, {"gpus", "64"}, {"framework", "none"}, {"gpu", gpu.name}});
  for (const PresetEntry& cluster : list_presets(PresetKind::Cluster, {}))
    jobs.push_back({{"model", "8b"}, {"gpus", "64"}, {"framework", "none"}, {"cluster", cluster.name}});
  jobs.push_back({{"model", "8b"}, {"gpus", "8xa100-sxm-80gb,8xh100-sxm"}});
  for (const KeyWords& words : jobs) {
    CAPTURE(budget_of(words));
    const Result<Problem> first = by_flags(words);
    REQUIRE(first);
    Args none;
    none.verb = "plan";
    const Result<Problem> again = resolve_problem(asked_as(none, first->inputs));
    if (!again) CAPTURE(again.error().front().message);
    REQUIRE(again);
    CHECK(again->gpus == first->gpus);
    CHECK(again->training == first->training);
    for (const Input& input : first->inputs) {
      CAPTURE(input.key);
      const Input* same = find_input(again->inputs, input.key);
      REQUIRE(same != nullptr);
      CHECK(same->value == input.value);
      CHECK(same->digest == input.digest);
    }
  }
}

TEST_CASE("a slice that was figured out of the chips is figured out again, and one that was asked for is kept") {
  for (const Origin origin : {Origin::Flag, Origin::File, Origin::Default}) {
    const Args again = asked_as(
        {}, {{"gpu", "tpu-v5p", Origin::Flag, ""}, {"gpus", "512", Origin::Flag, ""}, {"slice", "4x4x8", origin, ""}});
    CHECK(again.slice == (origin == Origin::Default ? std::nullopt : std::optional<std::string>("4x4x8")));
    CHECK(again.gpus == "512");
  }
}

TEST_CASE("what no reader understands is refused, in a budget at its word") {
  for (const auto& row : all_good()) {
    const std::string& key = row.first;
    for (const std::string& bad : {std::string("nonsense"), row.second + "x", std::string("-1"), std::string("%")}) {
      if (key == "layout" && bad == "-1") continue;
      CAPTURE(key);
      CAPTURE(bad);
      const KeyWords words = kAlone.contains(key)
                                 ? words_beside({{"model", "8b"}, {"gpus", "64"}}, key, bad)
                                 : words_beside(words_with(is_hardware(key) ? std::string_view(key) : "gpu"), key, bad);
      const Result<Problem> flags = by_flags(words), budget = by_budget(words);
      CHECK_FALSE(flags);
      REQUIRE_FALSE(budget);
      int line = 1;
      for (const auto& [other, word] : words) {
        ++line;
        if (other == key) break;
      }
      const Error& error = budget.error().front();
      CHECK(error.place.file == "b.yaml");
      CHECK(error.place.line == line);
      for (const std::string_view word : job_words())
        CHECK(error.message.find("`" + flag_of(std::string(word))) == std::string::npos);
    }
  }
}

TEST_CASE("what is stated lies over what was stated before, field by field") {
  Errors errors;
  Asked asked;
  for (const auto& [key, word] : words_with("gpu")) asked.words[key] = {word, {}};
  for (const auto& [key, alone] : kAlone) asked.words[key] = {alone.word, {}};
  for (const auto& [key, word] : {std::pair{"objective", "memory"}, {"top", "2"}, {"threads", "1"}, {"spares", "1"}})
    asked.words[key] = {word, {}};
  const Request all = read_words(asked, errors);
  REQUIRE(errors.empty());
  each_field([&](const auto& field) {
    CAPTURE(field.key);
    REQUIRE(all.*field.value);  // else the table has a field that no word states
    Request one;
    one.*field.value = all.*field.value;
    (one.*field.value)->input.value = "said last";
    const Request over = overlaid(all, one), under = overlaid(Request{}, one);
    CHECK((over.*field.value)->input.value == "said last");
    each_field([&](const auto& other) {
      if (other.key == field.key) return;
      CHECK((over.*other.value)->input.value == (all.*other.value)->input.value);
      CHECK_FALSE(under.*other.value);
    });
  });
}
