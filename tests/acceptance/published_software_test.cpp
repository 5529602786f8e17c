// Which software published runs ran: the files of presets/stacks, read here once more and by other means than the
// tables that the build makes of them.
#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "formulas/names.hpp"
#include "planner/rules/frameworks.hpp"
#include "planner/rules/run_software.hpp"
#include "planner/runs/run_stack.hpp"
#include "presets/stack.hpp"
#include "tests/acceptance/published_runs.hpp"

using namespace plan;
using namespace plan::acceptance;

namespace {

std::string lowered(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

StackPreset preset_of(const std::string& name) {
  const auto preset = load_stack_preset(name);
  REQUIRE(preset.has_value());
  REQUIRE(preset->has_value());
  return **preset;
}

/// Files that have the name, by the name in small letters.
std::map<std::string, std::vector<std::string>> files_by_name() {
  std::map<std::string, std::vector<std::string>> files;
  for (const std::string& file : stack_names())
    for (const std::string& name : preset_of(file).names) files[lowered(name)].push_back(file);
  return files;
}

std::string without_version(const std::string& cell) {
  const std::size_t space = cell.rfind(' ');
  if (space == std::string::npos || cell.find_first_not_of("0123456789.", space + 1) != std::string::npos) return cell;
  return cell.substr(0, space);
}

/// Facts by their keys, as numbers; texts by their letters.
using Facts = std::map<std::string, double>;

double number_of(std::string_view text) {
  double number = 0;
  for (const char c : text) number = number * 256 + static_cast<unsigned char>(c);
  return number;
}

bool holds(const RunWhen& when, const RunSigns& run) {
  const auto words = [&](const std::string& word) {
    const std::string text = " " + run.words + " ";
    return text.find(" " + word + " ") != std::string::npos;
  };
  if (when.since && run.month < *when.since) return false;
  if (when.below && run.version >= *when.below) return false;
  if (!when.precision.empty() && std::count(when.precision.begin(), when.precision.end(), run.precision) == 0)
    return false;
  if (when.recomputes.value_or(run.recomputes) != run.recomputes) return false;
  if (when.pipelined.value_or(run.pipelined) != run.pipelined) return false;
  if (when.shards.value_or(run.shards) != run.shards) return false;
  if (when.experts.value_or(run.experts) != run.experts || when.latent.value_or(run.latent) != run.latent) return false;
  if (!when.model.empty() && std::count(when.model.begin(), when.model.end(), run.model) == 0) return false;
  if (!when.task.empty() && std::count(when.task.begin(), when.task.end(), run.task) == 0) return false;
  if (std::any_of(when.silent.begin(), when.silent.end(), words)) return false;
  return when.says.empty() || std::any_of(when.says.begin(), when.says.end(), words);
}

void interpret(const std::string& file, const RunSigns& run, Facts& facts) {
  const StackPreset preset = preset_of(file);
  if (!preset.like.empty()) interpret(preset.like, run, facts);
  for (const StackFact& fact : preset.facts) facts[std::string(fact.row->name)] = fact.value;
  for (const RunEntry& entry : preset.runs) {
    if (!holds(entry.when, run)) continue;
    for (const StackFact& fact : entry.stack) facts[std::string(fact.row->name)] = fact.value;
    for (const RunFact& fact : entry.job)
      facts[std::string(fact.row->name)] = fact.row->kind == RunFactKind::Text ? number_of(fact.text) : fact.number;
  }
}

Facts facts_of(const RunDefaults& defaults) {
  Facts facts;
  for (const StackFactRow& row : stack_fact_rows()) facts[std::string(row.name)] = fact_of(row, defaults.stack);
  const RunJob& job = defaults.job;
  const std::pair<const char*, double> rows[] = {{"zero", job.zero},
                                                 {"grad_bytes", job.grad_bytes},
                                                 {"sequence_parallel", job.sequence_parallel},
                                                 {"experts_split_by_tp", job.experts_split_by_tp},
                                                 {"cp_kind", static_cast<int>(job.cp_kind)},
                                                 {"data_outermost", job.data_outermost},
                                                 {"interleaves", job.interleaves},
                                                 {"accumulates", job.accumulates},
                                                 {"recomputes", job.recomputes},
                                                 {"recomputes_fully", job.recomputes_fully},
                                                 {"recomputes_to_fit", job.recomputes_to_fit},
                                                 {"offloads_to_fit", job.offloads_to_fit},
                                                 {"precision", job.precision ? static_cast<int>(*job.precision) : -1},
                                                 {"delayed_scaling", job.delayed_scaling},
                                                 {"bf16_tail", job.bf16_tail},
                                                 {"precision_aware", job.precision_aware},
                                                 {"moment_bytes", job.moment_bytes},
                                                 {"dropout", job.dropout},
                                                 {"untied", job.untied},
                                                 {"extra_vocab", job.extra_vocab},
                                                 {"packed_length", job.packed_length},
                                                 {"lora_rank", job.lora_rank},
                                                 {"lora_ffn", job.lora_ffn},
                                                 {"graph_scopes", job.graph_scopes},
                                                 {"context", static_cast<double>(job.context.value)},
                                                 {"megatron_flags", job.megatron_flags},
                                                 {"offloaded_layers", number_of(job.offloaded_layers)},
                                                 {"offloaded_share", number_of(job.offloaded_share)}};
  for (const auto& [name, value] : rows) facts[name] = value;
  return facts;
}

RunSigns random_signs(std::mt19937& random) {
  const auto flip = [&] { return random() % 2 == 0; };
  RunSigns signs;
  if (random() % 8 != 0) signs.month = 2020 * 12 + static_cast<int>(random() % 96);
  if (flip()) signs.version = static_cast<int>(random() % 2000);
  signs.precision = kPrecisionNames[random() % std::size(kPrecisionNames)].value;
  signs.recomputes = flip(), signs.pipelined = flip(), signs.shards = flip();
  signs.experts = flip(), signs.latent = flip();
  const char* models[] = {"llama3-8b", "gpt-oss-20b", "nemotron3-super-120b-a12b", ""};
  signs.model = models[random() % 4];
  const char* tasks[] = {"pretrain", "sft", "lora", ""};
  const char* words[] = {"kernels TE and more", "packed to 4096", "SQuAD", "unpacked TEA", ""};
  signs.task = tasks[random() % 4];
  signs.words = signs.task + " " + words[random() % 5];
  return signs;
}

}  // namespace

TEST_CASE("every framework of published runs is one file, and what stands over it is a file that may") {
  const auto files = files_by_name();
  for (const auto& entry : files) {
    CAPTURE(entry.first);
    CHECK(entry.second.size() == 1);
  }
  std::set<std::string> seen;
  for (const Run& run : published_runs()) {
    const std::string& cell = run.framework;
    CAPTURE(cell);
    const NamedSoftware named = named_software(cell);
    REQUIRE(named.software != nullptr);
    auto found = files.find(lowered(cell));
    if (found == files.end()) found = files.find(lowered(without_version(cell)));
    REQUIRE(found != files.end());
    CHECK(named.software->key == found->second.front());
    seen.insert(cell);
    if (!run.fact("stack").empty()) CHECK(defaults_of(run, Model{}, Precision::Bf16).has_value());
  }
  CHECK(seen.size() > 50);
}

TEST_CASE("plan's own words for frameworks are names of software, in any case") {
  const std::pair<const char*, const char*> rows[] = {{"megatron", "megatron-core"},
                                                      {"Megatron-lm", "megatron-lm"},
                                                      {"megatron-bridge", "megatron-bridge"},
                                                      {"nemo", "megatron-bridge"},
                                                      {"deepspeed", "deepspeed-zero"},
                                                      {"accelerate", "fsdp2"},
                                                      {"MAXTEXT", "maxtext"},
                                                      {"torchtitan", "torchtitan"},
                                                      {"Megatron-LM fork", "megatron-lm-fork"},
                                                      {"Megatron-Core", "megatron-core"},
                                                      {"Megatron-Core 0.6.0", "megatron-core"}};
  for (const auto& row : rows) {
    CAPTURE(std::string(row.first));
    const NamedSoftware named = named_software(row.first);
    REQUIRE(named.software != nullptr);
    CHECK(named.software->key == row.second);
  }
  CHECK(named_software("Megatron-Core 0.6.0").version == 6);
  CHECK(named_software("torchtitan v1.25").version == 1025);
  for (const FrameworkRow& row : frameworks()) {
    CHECK(named_software(row.run_word).software != nullptr);
    if (named(row.framework)) CHECK(named_software(row.name).software != nullptr);
  }
}

TEST_CASE(
    "software is known by its name beside a maker, a release, an engine or a remark, and counts as a guess then") {
  std::mt19937 random(3);
  const char* const before[] = {"", "NVIDIA ", "HF ", "PyTorch ", "plan's own + ", "Slurm / "};
  const char* const behind[] = {"",          " (bf16)",       " v1.25", " + something", " with kernels",
                                ", patched", " ZeRO-3 (own)", " main",  " v2"};
  const std::string signs = "()/+,;|[]";
  for (const std::string& file : stack_names())
    for (const std::string& name : preset_of(file).names) {
      const auto has = [&](const char* word) { return name.find(word) != std::string::npos; };
      if (name.find_first_of(signs) != std::string::npos || has(" via ") || has(" in ") || name.empty()) continue;
      for (const char* const front : before)
        for (const char* const back : behind) {
          std::string spaced = name;
          if (random() % 2 == 0) std::replace(spaced.begin(), spaced.end(), '-', ' ');
          const std::string cell = front + spaced + back;
          const NamedSoftware named = named_software(cell);
          CAPTURE(cell);
          REQUIRE(named.software != nullptr);
          if (!named.loosely) continue;  // the whole of it is a name, too: PyTorch FSDP
          CHECK(named.software->key == file);
          Run run;
          run.framework = cell;
          CHECK(defaults_of(run, Model{}, Precision::Bf16)->loosely);
        }
    }
  const std::pair<const char*, const char*> rows[] = {{"PyTorch (FSDP)", "fsdp"},
                                                      {"transformers + FSDP2", "fsdp2"},
                                                      {"TRL (DeepSpeed ZeRO-3)", "deepspeed-zero"},
                                                      {"Primus (TorchTitan)", "torchtitan"},
                                                      {"JAX + Megatron", "megatron-core"},
                                                      {"Megatron Core r0.13", "megatron-core"}};
  for (const auto& row : rows) {
    const std::string cell = row.first;
    CAPTURE(cell);
    REQUIRE(named_software(cell).software != nullptr);
    CHECK(named_software(cell).software->key == row.second);
  }
  for (const char* none : {"-", "custom (-)", "in-house, compared with DeepSpeed", "not Megatron-LM"})
    CHECK(named_software(none).software == nullptr);
  CHECK_FALSE(named_software("Megatron-Core 0.6.0").loosely);
  CHECK(named_software("Megatron Core v0.12 (TE 2.1)").version == 12);
}

TEST_CASE("software that nobody knows is told, with what resembles it") {
  std::mt19937 random(17);
  for (const Run& run : published_runs()) {
    if (run.framework.empty() || random() % 8 != 0) continue;
    Run other = run;
    // A letter of every word, since one part of a cell is enough to know it by.
    for (std::size_t i = 0; i < other.framework.size(); ++i)
      if (i == 0 || std::isalnum(static_cast<unsigned char>(other.framework[i - 1])) == 0) other.framework[i] = '#';
    CAPTURE(other.framework);
    const auto defaults = defaults_of(other, Model{}, Precision::Bf16);
    REQUIRE_FALSE(defaults.has_value());
    CHECK(defaults.error().front().code == "unknown_framework");
  }
  for (const char* none : {"MyMegatron-LM", "Megatron-Core kernels", "v2", "main", "any", " ", "()", "+"})
    CHECK(named_software(none).software == nullptr);
  CHECK(names_like("Megatron-Bridgehead").find("`Megatron-Bridge`") != std::string::npos);
  CHECK(names_like("zzz").empty());
  Run run;
  for (const char* over : {"no-such", "torchtitan", "fsdp", "pythia+no-such", "simumax++pythia"}) {
    CAPTURE(over);
    run.facts["stack"] = over;
    const auto defaults = defaults_of(run, Model{}, Precision::Bf16);
    REQUIRE_FALSE(defaults.has_value());
    CHECK(defaults.error().front().code == "unknown_stack");
  }
}

TEST_CASE("what software did in a run is what the files say, entry by entry") {
  std::mt19937 random(18);
  for (const RunSoftware& software : run_software()) {
    const std::string key(software.key);
    CAPTURE(key);
    for (int i = 0; i < 40; ++i) {
      const RunSigns signs = random_signs(random);
      Facts wanted = facts_of({Stack{}, RunJob{}});
      interpret(key, signs, wanted);
      const Facts found = facts_of(run_defaults(software, signs));
      for (const auto& fact : wanted) {
        CAPTURE(fact.first);
        CHECK(found.at(fact.first) == fact.second);
      }
    }
    CHECK(run_defaults(software).stack.framework == load_default_stack(key)->framework);
  }
}
