#include "hwprobe/start/nodelist.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <random>

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

TEST_CASE("a list made of random parts stands for their product, in the order of an odometer") {
  std::mt19937 random(5);
  const auto up_to = [&](int most) { return static_cast<int>(random() % static_cast<unsigned long>(most)); };
  for (int round = 0; round < 200; ++round) {
    std::string list;
    std::vector<std::string> wanted;
    for (int element = 0; element <= up_to(3); ++element) {
      std::vector<std::string> names{""};
      list += list.empty() ? "" : ",";
      for (int part = 0; part < 1 + up_to(4); ++part) {
        std::vector<std::string> texts;
        if (part % 2 == 0) {
          texts = {std::string(1, static_cast<char>('a' + up_to(26))) + (up_to(3) == 0 ? "-x.y_z" : "")};
          list += texts[0];
        } else {
          list += "[";
          for (int range = 0; range <= up_to(3); ++range) {
            const int first = up_to(120), last = first + up_to(4), width = up_to(4);
            list += fmt::format("{}{:0{}}", texts.empty() ? "" : ",", first, width);
            const std::size_t digits = fmt::format("{:0{}}", first, width).size();
            if (last > first || up_to(2) == 0) list += fmt::format("-{:0{}}", last, width);
            for (int i = first; i <= last; ++i) texts.push_back(fmt::format("{:0{}}", i, digits));
          }
          list += "]";
        }
        std::vector<std::string> longer;
        for (const std::string& name : names)
          for (const std::string& text : texts) longer.push_back(name + text);
        names = std::move(longer);
      }
      wanted.insert(wanted.end(), names.begin(), names.end());
    }
    CAPTURE(list);
    const auto got = expand_nodelist(list);
    REQUIRE(got.has_value());
    CHECK(*got == wanted);
  }
}

TEST_CASE("a list is expanded up to 65,536 names of up to 255 characters, and not beyond") {
  for (const auto& [list, count] : {std::pair{"n[0-65535]", 65536},
                                    {"n[0-255][0-255]", 65536},
                                    {"n[1-65535],m", 65536},
                                    {"n[0-32767,40000-72767]", 65536}}) {
    const auto names = expand_nodelist(list);
    REQUIRE(names.has_value());
    CHECK(names->size() == static_cast<std::size_t>(count));
  }
  for (const char* list : {"n[0-65536]", "n[0-255][0-256]", "n[1-65536],m", "n[0-32767,40000-72768]"}) {
    CAPTURE(list);
    CHECK(hosts(list).find("65536 names") != std::string::npos);
  }
  for (const std::size_t length : {1, 200, 255, 256, 300}) {
    CHECK(expand_nodelist(std::string(length, 'n')).has_value() == (length <= 255));
    CHECK(expand_nodelist(std::string(length - 1, 'n') + "[7]").has_value() == (length <= 255));
  }
  CHECK(hosts("n[000000000000000007]") == "n000000000000000007");
  CHECK(hosts("n[0000000000000000007]").starts_with("error: "));
}
