#include "hwprobe/nodelist.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

using plan::expand_nodelist;

namespace {
std::string hosts(std::string_view text) {
  const auto names = expand_nodelist(text);
  return names ? fmt::format("{}", fmt::join(*names, " ")) : "error: " + names.error()[0].message;
}
}  // namespace

TEST_CASE("every form in which Slurm writes a node list") {
  const struct {
    std::string_view list, hosts;
  } cases[] = {
      {"node1", "node1"},
      {"node1,node7", "node1 node7"},
      {"node[1-3]", "node1 node2 node3"},
      {"node[1,3-4]", "node1 node3 node4"},
      {"node[08-11]", "node08 node09 node10 node11"},
      {"node[001-003,010]", "node001 node002 node003 node010"},
      {"gpu-[1-2]-ib", "gpu-1-ib gpu-2-ib"},
      {"a[1-2],b,c[5]", "a1 a2 b c5"},
      {"rack[0-1]node[2-3]", "rack0node2 rack0node3 rack1node2 rack1node3"},
      {"a[1-2].cluster.example,b[09-10].x", "a1.cluster.example a2.cluster.example b09.x b10.x"},
      {"x[99-101]", "x99 x100 x101"},
  };
  for (const auto& c : cases) {
    CAPTURE(c.list);
    CHECK(hosts(c.list) == c.hosts);
  }
}

TEST_CASE("what is no node list is named and never expanded without end") {
  for (const char* text : {"", ",", "a,,b", "a[", "a[1-", "a]", "a[[1]]", "a[3-1]", "a[1-x]", "a[-1]", "a b", "a[1-2",
                           "$(reboot)", "n[0-99999999]", "n[0-999][0-999]", "n[1-18446744073709551616]"}) {
    CAPTURE(text);
    CHECK(hosts(text).starts_with("error: "));
  }
}
