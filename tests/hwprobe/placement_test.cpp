#include "hwprobe/session/placement.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>

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

TEST_CASE("domains and hosts are counted as they differ, and are one each where no rank is") {
  const RankPlacement none = place_ranks({}).value();
  CHECK(none.order.empty());
  CHECK(none.per_domain == 1);
  CHECK(none.domains == 1);
  CHECK(none.hosts == 1);
  std::mt19937 random(2);
  for (int round = 0; round < 200; ++round) {
    // Domains of as many hosts each, hosts of as many ranks each; without a fabric a host is its own domain.
    const bool fabric = random() % 2 == 0;
    const std::size_t domains = 1 + random() % 4, hosts = fabric ? 1 + random() % 3 : 1, ranks = 1 + random() % 4;
    std::vector<RankHello> all;
    std::map<std::string, std::size_t> domain_of;
    for (std::size_t d = 0; d < domains; ++d)
      for (std::size_t h = 0; h < hosts; ++h) {
        const std::string host = "h" + std::to_string(d) + "." + std::to_string(h);
        domain_of[host] = d;
        for (std::size_t r = 0; r < ranks; ++r)
          all.push_back(at(host, static_cast<int>(r), fabric ? std::to_string(d) : ""));
      }
    std::shuffle(all.begin(), all.end(), random);
    const RankPlacement placed = place_ranks(all).value();
    CHECK(placed.domains == static_cast<int>(domains));
    CHECK(placed.hosts == static_cast<int>(domains * hosts));
    CHECK(placed.per_domain == static_cast<int>(hosts * ranks));
    REQUIRE(placed.order.size() == all.size());
    CHECK(std::set<int>(placed.order.begin(), placed.order.end()).size() == all.size());
    for (std::size_t i = 1; i < placed.order.size(); ++i) {
      const RankHello &before = all[static_cast<std::size_t>(placed.order[i - 1])],
                      &here = all[static_cast<std::size_t>(placed.order[i])];
      CHECK((domain_of[before.host] == domain_of[here.host]) == (i % (hosts * ranks) != 0));
      CHECK((before.host == here.host) == (i % ranks != 0));
      if (before.host == here.host) CHECK(here.local_rank == before.local_rank + 1);
    }
  }
}
