#include "hwprobe/nccl_log.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace plan;

TEST_CASE("what NCCL chose is read from its log, of any release") {
  // The first as libnccl 2.28.9 formats it, the second as 2.18 did.
  const auto now = read_nccl_choice(
      "node02:81:97 [0] NCCL INFO AllReduce: 2097152 Bytes -> Algo NVLS proto SIMPLE channel{Lo..Hi}={0..15}");
  REQUIRE(now.has_value());
  CHECK(now->op == "AllReduce");
  CHECK(now->bytes == 2097152);
  CHECK(now->algorithm == "NVLS");
  CHECK(now->protocol == "SIMPLE");
  const auto then = read_nccl_choice("h:1:2 [0] NCCL INFO AllGather: 512 Bytes -> Algo 1 proto 0 time 12.600000");
  REQUIRE(then.has_value());
  CHECK(then->algorithm == "RING");
  CHECK(then->protocol == "LL");
  for (const char* other : {"", "NCCL INFO Connected all rings", "x Bytes -> Algo RING proto LL",
                            "AllReduce: many Bytes -> Algo RING proto LL", "AllReduce: 5 Bytes -> Algo RING"})
    CHECK_FALSE(read_nccl_choice(other).has_value());
}

TEST_CASE("channels of a communicator are read from NCCL's log") {
  const auto channels = read_nccl_channels(
      "h:1:2 [0] NCCL INFO 24 coll channels, 0 collnet channels, 16 nvls channels, 32 p2p channels, 2 p2p channels per "
      "peer");
  REQUIRE(channels.has_value());
  CHECK(channels->collective == 24);
  CHECK(channels->nvls == 16);
  CHECK(channels->p2p == 32);
  CHECK_FALSE(read_nccl_channels("NCCL INFO Channel 00/24 : 0 1 2").has_value());
  for (const int coll : {0, 1, 16})
    for (const int p2p : {0, 1, 32}) {
      const auto some = read_nccl_channels("h:1:2 [0] NCCL INFO " + std::to_string(coll) + " coll channels, " +
                                           std::to_string(p2p) + " p2p channels, 2 p2p channels per peer");
      REQUIRE(some.has_value() == (coll > 0 || p2p > 0));
      if (!some) continue;
      CHECK(some->collective == coll);
      CHECK(some->p2p == p2p);
      CHECK(some->nvls == 0);
    }
}

TEST_CASE("every choice of algorithm, protocol and size is read, and a size that is none is not") {
  const std::vector<std::string> algorithms{"TREE",      "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS",
                                            "NVLS_TREE", "PAT"},
      protocols{"LL", "LL128", "SIMPLE"};  // the order of NCCL_ALGO_* and NCCL_PROTO_* in its headers
  for (std::size_t a = 0; a < algorithms.size(); ++a)
    for (std::size_t p = 0; p < protocols.size(); ++p)
      for (const std::string begin : {"", "h:1:2 [0] NCCL INFO "}) {
        const std::string head = begin + "AllToAll: 4096 Bytes -> Algo ";
        const auto by_number = read_nccl_choice(head + std::to_string(a) + " proto " + std::to_string(p) + " time 1.5");
        const auto by_name = read_nccl_choice(head + " " + algorithms[a] + "  proto " + protocols[p]);
        REQUIRE(by_number.has_value());
        REQUIRE(by_name.has_value());
        CHECK(by_number->op == "AllToAll");
        CHECK(by_number->bytes == 4096);
        CHECK(by_number->algorithm == algorithms[a]);
        CHECK(by_number->protocol == protocols[p]);
        CHECK(by_name->op == "AllToAll");
        CHECK(by_name->algorithm == algorithms[a]);
        CHECK(by_name->protocol == protocols[p]);
      }
  const auto later = read_nccl_choice("AllReduce: 1 Bytes -> Algo 7 proto 3");  // of a release to come
  REQUIRE(later.has_value());
  CHECK(later->algorithm == "7");
  CHECK(later->protocol == "3");
  for (const std::string bytes : {"-5", "5x", "x5", "", "99999999999999999999"})
    CHECK_FALSE(read_nccl_choice("AllReduce: " + bytes + " Bytes -> Algo RING proto LL").has_value());
  CHECK_FALSE(read_nccl_choice("AllReduce: 5 Bytes -> Algo RING protocol LL").has_value());
}

TEST_CASE("channels are counted wherever they stand in a line") {
  for (const int n : {1, 9, 10, 24, 128}) {
    const std::string count = std::to_string(n);
    const auto alone = read_nccl_channels(count + " coll channels");
    REQUIRE(alone.has_value());
    CHECK(alone->collective == n);
    CHECK(alone->p2p == 0);
    const auto pairs = read_nccl_channels("INFO 0 coll channels, " + count + " p2p channels");
    REQUIRE(pairs.has_value());
    CHECK(pairs->collective == 0);
    CHECK(pairs->nvls == 0);
    CHECK(pairs->p2p == n);
  }
  for (const char* none : {" coll channels", "no coll channels", "0 coll channels, 0 p2p channels", "4 nvls channels"})
    CHECK_FALSE(read_nccl_channels(none).has_value());
}
