#include "hwprobe/placement.hpp"

#include <doctest/doctest.h>

using namespace plan;

namespace {

RankHello at(const std::string& host, int local, const std::string& clique = "") {
  return {.host = host, .local_rank = local, .clique = clique};
}

}  // namespace

TEST_CASE("ranks stand in blocks by host, however the launcher dealt them out") {
  const RankPlacement cyclic = place_ranks({at("a", 0), at("b", 0), at("a", 1), at("b", 1)}).value();
  CHECK(cyclic.order == std::vector<int>{0, 2, 1, 3});
  CHECK(cyclic.per_domain == 2);
  CHECK(cyclic.domains == 2);
  const RankPlacement blocks = place_ranks({at("a", 0), at("a", 1), at("b", 0), at("b", 1)}).value();
  CHECK(blocks.order == std::vector<int>{0, 1, 2, 3});
  CHECK(place_ranks({at("a", 1), at("a", 0)})->order == std::vector<int>{1, 0});
}

TEST_CASE("an NVLink fabric that reaches over hosts is one domain") {
  const RankPlacement rack = place_ranks({at("a", 0, "7"), at("b", 0, "7"), at("c", 0, "7"), at("d", 0, "7")}).value();
  CHECK(rack.per_domain == 4);
  CHECK(rack.domains == 1);
  CHECK(rack.hosts == 4);
  const RankPlacement two = place_ranks({at("a", 0, "7"), at("b", 0, "8"), at("c", 0, "7"), at("d", 0, "8")}).value();
  CHECK(two.order == std::vector<int>{0, 2, 1, 3});
  CHECK(two.domains == 2);
}

TEST_CASE("nodes with unequal numbers of ranks are refused, and counted") {
  const auto done = place_ranks({at("a", 0), at("a", 1), at("b", 0)});
  REQUIRE_FALSE(done.has_value());
  CHECK(done.error()[0].facts == std::vector<std::string>{"host a: 2", "host b: 1"});
}
