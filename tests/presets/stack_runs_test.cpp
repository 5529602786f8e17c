#include "presets/stack_runs.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "presets/embedded.hpp"
#include "presets/stack.hpp"

using namespace plan;

namespace {

const std::string kHead = "preset: stack/1\nname: x\nruns:\n";

std::string stack_code(const std::string& text) {
  const auto preset = read_stack(text, "x.yaml");
  return preset ? "" : preset.error().front().code;
}

std::vector<std::string> lines_of(std::string_view text) {
  std::stringstream in{std::string(text)};
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

}  // namespace

TEST_CASE("entries of runs have conditions, facts of both kinds, and a source") {
  const auto preset = read_stack(kHead +
                                     "  - when: {since: 2025-04, below: 1.8, precision: [bf16, fp8], experts: yes, "
                                     "latent: no, task: sft, says: [TE, packed], silent: [compile]}\n"
                                     "    zero: 2\n    fused_qkv: no\n    recomputes: [core_attn, mlp]\n"
                                     "    cp_kind: ulysses\n    context: 3 MiB\n    offloaded_share: alpha\n"
                                     "    source: a\n",
                                 "x.yaml");
  REQUIRE(preset.has_value());
  REQUIRE(preset->runs.size() == 1);
  const RunEntry& entry = preset->runs.front();
  CHECK(entry.source == "a");
  CHECK(entry.when.since == 2025 * 12 + 3);
  CHECK(entry.when.below == 1008);
  CHECK(entry.when.precision == std::vector{Precision::Bf16, Precision::Fp8Tensorwise});
  CHECK(entry.when.experts == true);
  CHECK(entry.when.latent == false);
  CHECK_FALSE(entry.when.pipelined.has_value());
  CHECK(entry.when.task == std::vector<std::string>{"sft"});
  CHECK(entry.when.says == std::vector<std::string>{"TE", "packed"});
  CHECK(entry.when.silent == std::vector<std::string>{"compile"});
  REQUIRE(entry.stack.size() == 1);
  CHECK(entry.stack.front().row->name == "fused_qkv");
  CHECK(entry.stack.front().value == 0);
  const auto fact = [&](std::string_view name) {
    const auto found =
        std::find_if(entry.job.begin(), entry.job.end(), [&](const RunFact& one) { return one.row->name == name; });
    REQUIRE(found != entry.job.end());
    return *found;
  };
  CHECK(entry.job.size() == 5);
  CHECK(fact("zero").number == 2);
  CHECK(fact("recomputes").number == (kRecomputeCoreAttention | kRecomputeMlp));
  CHECK(fact("cp_kind").number == static_cast<int>(CpKind::Ulysses));
  CHECK(fact("context").number == 3 << 20);
  CHECK(fact("offloaded_share").text == "alpha");
  CHECK(preset->stands_over());
}

TEST_CASE("a fact of a run that is yes or no is read as it stands, alone and among others") {
  for (const char* name :
       {"sequence_parallel", "experts_split_by_tp", "data_outermost", "interleaves", "accumulates", "recomputes_fully",
        "offloads_to_fit", "delayed_scaling", "precision_aware", "untied", "megatron_flags"})
    for (const bool truth : {true, false})
      for (const char* other : {"", "    zero: 3\n"}) {
        CAPTURE(truth);
        const std::string line = "    " + std::string(name) + (truth ? ": yes\n" : ": no\n");
        CAPTURE(line);
        const auto preset =
            read_stack(kHead + "  - when: {experts: yes}\n" + other + line + "    source: a\n", "x.yaml");
        REQUIRE(preset.has_value());
        int found = 0;
        for (const RunFact& fact : preset->runs.front().job) {
          if (fact.row->name != name) continue;
          CHECK(fact.number == static_cast<int>(truth));
          ++found;
        }
        CHECK(found == 1);
      }
}

TEST_CASE("mistakes in entries of runs are told by name") {
  const std::pair<const char*, const char*> cases[] = {
      {"  - {zero: 1}\n", "missing_key"},
      {"  - {source: a}\n", "bad_value"},
      {"  - {zreo: 1, source: a}\n", "unknown_key"},
      {"  - {zero: many, source: a}\n", "bad_value"},
      {"  - {zero: 1, zero: 2, source: a}\n", "duplicate_key"},
      {"  - {cp_kind: circle, source: a}\n", "unknown_word"},
      {"  - {precision: fp7, source: a}\n", "unknown_word"},
      {"  - {recomputes: [attention], source: a}\n", "unknown_word"},
      {"  - {graph_scopes: [mlpp], source: a}\n", "unknown_word"},
      {"  - {dropout: 3, source: a}\n", "out_of_range"},
      {"  - {context: 5, source: a}\n", "missing_unit"},
      {"  - {fused_qkv: 3, source: a}\n", "bad_value"},
      {"  - {when: {}, zero: 1, source: a}\n", "bad_value"},
      {"  - {when: {sinse: 2025-04}, zero: 1, source: a}\n", "unknown_key"},
      {"  - {when: {since: 2025-13}, zero: 1, source: a}\n", "bad_value"},
      {"  - {when: {since: spring}, zero: 1, source: a}\n", "bad_value"},
      {"  - {when: {below: 8}, zero: 1, source: a}\n", "bad_value"},
      {"  - {when: {below: 999.999}, zero: 1, source: a}\n", ""},
      {"  - {when: {below: 1000.0}, zero: 1, source: a}\n", "bad_value"},
      {"  - {when: {below: 0.1000}, zero: 1, source: a}\n", "bad_value"},
      {"  - {when: {precision: fp7}, zero: 1, source: a}\n", "unknown_word"},
      {"  - {when: {pipelined: perhaps}, zero: 1, source: a}\n", "bad_value"},
      {"  - {when: {says: [[TE]]}, zero: 1, source: a}\n", "bad_value"},
  };
  for (const auto& row : cases) {
    CAPTURE(std::string(row.first));
    CHECK(stack_code(kHead + row.first) == std::string(row.second));
  }
  for (const int year : {0, 2014, 2015, 2026, 2040, 2041, 99999})
    for (const int month : {0, 1, 6, 12, 13}) {
      std::ostringstream entry;
      entry << "  - {when: {since: " << year << "-" << (month < 10 ? "0" : "") << month << "}, zero: 1, source: a}\n";
      CAPTURE(entry.str());
      const bool good = year >= 2015 && year <= 2040 && month >= 1 && month <= 12;
      CHECK(stack_code(kHead + entry.str()) == (good ? "" : "bad_value"));
    }
  // A misspelt fact, of the software or of the run, is answered with the fact.
  for (const auto& slip :
       {std::pair{"fused_qvk", "fused_qkv"}, {"zreo", "zero"}, {"gradient_fusoin", "gradient_fusion"}}) {
    const auto preset = read_stack(kHead + "  - {" + slip.first + ": 1, source: a}\n", "x.yaml");
    REQUIRE_FALSE(preset);
    std::string help;
    for (const std::string& line : preset.error().front().help) help += line + "\n";
    CAPTURE(help);
    CHECK(help.find(slip.second) != std::string::npos);
  }
  CHECK(stack_code("preset: stack/1\nname: x\nnames: [A, b, a]\n") == "duplicate_key");
  CHECK(stack_code("preset: stack/1\nname: x\nnames: [[A]]\n") == "bad_value");
}

TEST_CASE("no key of the files can be misspelt unseen") {
  std::mt19937 random(5);
  int edits = 0;
  for (const EmbeddedFile& file : embedded_files()) {
    if (file.folder != "stacks") continue;
    const std::vector<std::string> lines = lines_of(file.text);
    for (std::size_t at = 0; at < lines.size(); ++at) {
      const std::size_t begin = lines[at].find_first_not_of(" -"), end = lines[at].find(": ");
      if (begin == std::string::npos || end == std::string::npos || lines[at][begin] == '#' ||
          lines[at].find_first_not_of("abcdefghijklmnopqrstuvwxyz_0123456789", begin) != end)
        continue;
      std::string text;
      for (std::size_t i = 0; i < lines.size(); ++i) {
        std::string line = lines[i];
        if (i == at) {
          char& letter = line[begin + random() % (end - begin)];
          letter = letter == 'q' ? 'x' : 'q';
        }
        text += line + "\n";
      }
      CAPTURE(std::string(file.name));
      CAPTURE(lines[at]);
      CHECK_FALSE(stack_code(text).empty());
      ++edits;
    }
  }
  CHECK(edits > 200);
}

TEST_CASE("every fact that an entry states of a run has a source, and every file that is above others states some") {
  for (const std::string& name : stack_names()) {
    const auto preset = load_stack_preset(name);
    REQUIRE(preset.has_value());
    REQUIRE(preset->has_value());
    CAPTURE(name);
    for (const RunEntry& entry : (*preset)->runs) CHECK(entry.source.size() > 4);
  }
}
