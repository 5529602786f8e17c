// Numbers of GPUs in the words of people and launchers, on random numbers: what multiplies is multiplied, what does not
// say how many there are of all nodes is none, and what is no number of GPUs is left to the other readers.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <random>
#include <string>

#include "cli/request/gpu_words.hpp"

using namespace plan;

TEST_CASE("a number of GPUs in words, or of nodes, is proposed as the number of all") {
  const StoreOptions store = StoreOptions::from_environment();
  std::mt19937 random(9);
  const auto count = [&](std::string_view word) { return worded_count(word, "", store); };
  for (int round = 0; round < 200; ++round) {
    const int nodes = 1 + static_cast<int>(random() % 64), each = 1 + static_cast<int>(random() % 16);
    for (const char* noun : {"GPUs", "gpu", "chips", "cards", "devices", "ranks", "Processes"})
      CHECK(count(fmt::format("{} {}", nodes, noun))->gpus == nodes);
    for (const std::string& typed :
         {fmt::format("{}x{}", nodes, each), fmt::format("{}*{}", nodes, each), fmt::format("{} x {}", nodes, each),
          fmt::format("{} nodes x {}", nodes, each), fmt::format("{} nodes of {} GPUs", nodes, each),
          fmt::format("{} hosts with {} chips each", nodes, each), fmt::format("{}\u00d7{}", nodes, each)}) {
      CAPTURE(typed);
      CHECK(count(typed)->gpus == nodes * each);
      CHECK(count(typed)->of_node == 0);
    }
    CHECK(count(fmt::format("{} nodes", nodes))->gpus == nodes * 8);
    CHECK(worded_count(fmt::format("{} nodes", nodes), "gb200", store)->gpus == nodes * 4);
    std::string devices = "0";
    for (int i = 1; i <= each; ++i) devices += fmt::format(",{}", i);
    CHECK(count(devices)->gpus == each + 1);
    for (const std::string& typed : {fmt::format("{} GPUs per node", each), fmt::format("{} GPUs each", each)})
      CHECK(count(typed)->gpus == 0);
    for (const std::string& other :
         {fmt::format("{}", nodes), fmt::format("{}xh100", nodes), fmt::format("8,{}", nodes),
          fmt::format("{} {:03}", nodes, each), fmt::format("{} apples", nodes)})
      CHECK_FALSE(count(other).has_value());
  }
}
