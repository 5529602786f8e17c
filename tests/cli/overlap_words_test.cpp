// The words of --overlap: every set of parts comes back as itself, every mistake is reported.
#include "cli/terminal/overlap_words.hpp"

#include <doctest/doctest.h>

#include <string>
#include <utility>

#include "formulas/overlap.hpp"

using namespace plan;

TEST_CASE("every set of messages is read back from its own words") {
  for (unsigned parts = 0; parts <= kOverlapAll; ++parts) {
    const Overlap overlap{static_cast<std::uint8_t>(parts)};
    const std::string text = overlap_words(parts);
    CAPTURE(text);
    REQUIRE(read_overlap(text));
    CHECK(*read_overlap(text) == overlap);
  }
  CHECK(overlap_words(0) == "none");
  CHECK(read_overlap("p2p+grads") == read_overlap("grads+p2p"));
}

TEST_CASE("every mistake in --overlap is told at once") {
  for (const char* text : {"", "+", "grads+", "none+grads", "grads,params", "all", "GRADS"}) {
    CAPTURE(text);
    REQUIRE_FALSE(read_overlap(text));
    CHECK(read_overlap(text).error().front().code == "unknown_value");
  }
  CHECK(read_overlap("grad+parms").error().size() == 2);
  CHECK(read_overlap("grad").error().front().help.front() == "write `--overlap grads`");
}

TEST_CASE("a part with two letters swapped is answered with the part, among others too") {
  for (const OverlapPart& part : kOverlapParts) {
    std::string slip(part.name);
    if (slip.size() < 4) continue;
    std::swap(slip[1], slip[2]);
    if (slip == part.name) continue;
    for (const std::string& typed : {slip, "tp+" + slip}) {
      CAPTURE(typed);
      const auto read = read_overlap(typed);
      REQUIRE_FALSE(read);
      REQUIRE_FALSE(read.error().front().help.empty());
      CHECK(read.error().front().help.size() == 2);
      CHECK(read.error().front().help.front().find("`" + std::string(part.name) + "`") != std::string::npos);
    }
  }
}

TEST_CASE("each part is one switch of a stack, and a stack says which are on") {
  for (const OverlapPart& part : kOverlapParts) {
    Stack stack;
    for (const OverlapPart& other : kOverlapParts) stack.*other.on = other.bit == part.bit;
    CHECK(overlapping(stack) == part.bit);
  }
}
