#include "hwprobe/nccl_log.hpp"

#include <doctest/doctest.h>

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
}
