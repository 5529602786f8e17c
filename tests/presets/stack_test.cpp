#include "presets/stack.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "presets/embedded.hpp"

using namespace plan;

TEST_CASE("a release is found in the words that software calls itself by") {
  struct Case {
    const char* word;
    StackRelease release;
  };
  const Case cases[] = {{"26.04", {26, 4, 0}},        {"26.06.01", {26, 6, 1}},    {"dgxc-25.05.05", {25, 5, 5}},
                        {"main-2026-08", {26, 8, 0}}, {"nemo:25.11", {25, 11, 0}}, {"dgxc-24.11.1", {24, 11, 1}},
                        {"20.01", {20, 1, 0}},        {"40.12", {40, 12, 0}}};
  for (const Case& c : cases) {
    CAPTURE(std::string(c.word));
    const auto release = read_stack_release(c.word);
    REQUIRE(release.has_value());
    CHECK(*release == c.release);
    CHECK(read_stack_release(stack_release_text(*release)) == release);
  }
  for (const char* word :
       {"", "core-r0.8.0", "v0.6", "26", "26.13", "26.4", "newest", "99999999999999.01", "1.26.04", "19.12", "41.01"})
    CHECK_FALSE(read_stack_release(word).has_value());
  CHECK(StackRelease{26, 4, 0} < StackRelease{26, 4, 1});
  CHECK(StackRelease{25, 11, 0} < StackRelease{26, 2, 0});
}

namespace {

const std::string kStackHead = "preset: stack/1\nname: x\nnewest: 26.08\nchanges:\n";

std::string first_code(const std::string& text) { return read_stack(text, "x.yaml").error().front().code; }

}  // namespace

TEST_CASE("a switch stands as the last release before left it, and off before the first") {
  const auto preset = read_stack(kStackHead +
                                     "  - {since: 25.02, ep_overlap: yes, source: a}\n"
                                     "  - {since: 26.06, ep_overlap: no, fused_sinks: yes, source: b}\n",
                                 "x.yaml");
  REQUIRE(preset.has_value());
  const StackHistory* history = &preset->history;
  Stack all;
  all.ep_overlap = all.fused_sinks = true;
  const auto at = [&](int year, int month) { return history->at({year, month, 0}, all); };
  CHECK_FALSE(at(24, 12).ep_overlap);
  CHECK_FALSE(at(24, 12).fused_sinks);
  CHECK(at(25, 2).ep_overlap);
  CHECK(at(26, 5).ep_overlap);
  CHECK_FALSE(at(26, 6).ep_overlap);
  CHECK(at(26, 6).fused_sinks);
  Stack other = all;
  other.ep_overlap = other.fused_sinks = false;
  CHECK(history->at({25, 3, 0}, all) == history->at({25, 3, 0}, other));
}

TEST_CASE("mistakes of a history are told by name") {
  CHECK(first_code(kStackHead + "  - {since: 25.02, ep_overlop: yes, source: a}\n") == "unknown_key");
  CHECK(first_code(kStackHead + "  - {since: 25.02, ep_overlap: yes}\n") == "missing_key");
  CHECK(first_code(kStackHead + "  - {since: soon, ep_overlap: yes, source: a}\n") == "bad_value");
  CHECK(first_code(kStackHead + "  - {since: 26.02, ep_overlap: yes, source: a}\n"
                                "  - {since: 25.02, ep_overlap: no, source: a}\n") == "bad_value");
  CHECK(first_code("preset: model/1\nname: x\nnewest: 26.08\nchanges: []\n") == "wrong_preset");
}

TEST_CASE("the program carries NVIDIA's containers, each line with its source") {
  const auto history = load_stack("nemo");
  REQUIRE(history.has_value());
  REQUIRE_FALSE(history->changes.empty());
  for (const StackChange& change : history->changes) {
    CHECK_FALSE(change.fact.source.empty());
    CHECK(change.since <= history->newest);
  }
  CHECK_FALSE(load_stack("no-such-stack").has_value());
}

TEST_CASE("a stack does what the one that it is like does, but for what it states") {
  for (const EmbeddedFile& file : embedded_files()) {
    if (file.folder != "stacks") continue;
    const std::string name(file.name);
    CAPTURE(name);
    const auto stack = load_default_stack(name);
    REQUIRE(stack.has_value());
    const auto preset = read_stack(std::string(file.text), name);
    REQUIRE(preset.has_value());
    CHECK(preset->history.name == name);
    CHECK(stack->framework == (preset->releases.empty() ? name : preset->releases));
    const Stack base = preset->like.empty() ? Stack{} : *load_default_stack(preset->like);
    for (const StackFactRow& row : stack_fact_rows()) {
      CAPTURE(std::string(row.name));
      const auto stated = std::find_if(preset->facts.begin(), preset->facts.end(),
                                       [&](const StackFact& fact) { return fact.row == &row; });
      if (stated == preset->facts.end()) {
        CHECK(fact_of(row, *stack) == fact_of(row, base));
        continue;
      }
      CHECK(fact_of(row, *stack) == stated->value);
      CHECK_MESSAGE(stated->value != fact_of(row, base), "it is so already");
      CHECK_FALSE(stated->source.empty());
    }
    if (!preset->releases.empty()) CHECK(load_stack(preset->releases).has_value());
  }
}

TEST_CASE("libraries and front ends are among the names of their file") {
  const auto names = [](const std::string& general) {
    return read_stack("preset: stack/1\nname: x\nnames: [Alpha, Beta]\nmakers: [Acme]\ngeneral: " + general + "\n",
                      "x.yaml");
  };
  REQUIRE(names("beta").has_value());
  CHECK(names("beta")->general == std::vector<std::string>{"beta"});
  CHECK(names("all")->general == names("all")->names);
  CHECK(names("all")->makers == std::vector<std::string>{"Acme"});
  REQUIRE_FALSE(names("[Beta, Gamma]").has_value());
  CHECK(names("[Beta, Gamma]").error().front().message.find("`Gamma`") != std::string::npos);
}

TEST_CASE("facts have a type, a source, and one place") {
  const std::string head = "preset: stack/1\nname: x\nfacts:\n";
  const auto preset =
      read_stack(head + "  - {states: fsdp2, gathers_per_layer: 3, fused_qkv: no, source: a}\n", "x.yaml");
  REQUIRE(preset.has_value());
  Stack stack;
  for (const StackFact& fact : preset->facts) set_fact(*fact.row, fact.value, stack);
  Stack wanted;
  wanted.states = StateLayout::Fsdp2, wanted.gathers_per_layer = 3, wanted.fused_qkv = false;
  CHECK(stack == wanted);
  CHECK(first_code(head + "  - {fused_qkv: no}\n") == "missing_key");
  CHECK(first_code(head + "  - {fused_qvk: no, source: a}\n") == "unknown_key");
  CHECK(first_code(head + "  - {fused_qkv: 3, source: a}\n") == "bad_value");
  CHECK(first_code(head + "  - {states: fsdp3, source: a}\n") == "unknown_word");
  CHECK(first_code(head + "  - {fused_qkv: no, source: a}\n  - {fused_qkv: no, source: b}\n") == "duplicate_key");
  CHECK(first_code("preset: stack/1\nname: x\nchanges:\n  - {since: 25.02, ep_overlap: yes, source: a}\n") ==
        "missing_key");
  CHECK(first_code(kStackHead + "  - {since: 25.02, states: fsdp2, source: a}\n") == "unknown_key");
  CHECK_FALSE(load_default_stack("no-such-stack").has_value());
}
