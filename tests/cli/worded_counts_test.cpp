// Numbers of GPUs in the words of people and launchers, on random numbers: what multiplies is multiplied, what does not
// say how many there are of all nodes is none, and what is no number of GPUs is left to the other readers.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cli/request/flags/options.hpp"
#include "cli/request/words/gpu_words.hpp"
#include "cli/request/words/pool_words.hpp"
#include "presets/machines.hpp"

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

TEST_CASE("numbers before and behind a kind multiply, whatever signs and nouns stand between them") {
  const StoreOptions store = StoreOptions::from_environment();
  std::mt19937 random(11);
  for (int round = 0; round < 30; ++round) {
    const int nodes = 1 + static_cast<int>(random() % 64), each = 1 + static_cast<int>(random() % 16);
    for (const std::string& typed :
         {fmt::format("{}x{} h100", nodes, each), fmt::format("{} x {} x H100", nodes, each),
          fmt::format("{}x{}x NVIDIA H100 80GB HBM3", nodes, each), fmt::format("{}xh100x{}", each, nodes)}) {
      CAPTURE(typed);
      const auto read = counted_gpus(typed, store);
      REQUIRE(read.has_value());
      CHECK(read->gpus == nodes * each);
      CHECK(read->kind == "h100-sxm");
    }
    CHECK(counted_gpus(fmt::format("{} h100 nodes", nodes), store)->gpus == nodes * 8);
    CHECK(counted_gpus(fmt::format("{} dgx-h100 servers", nodes), store)->gpus == nodes * 8);
    CHECK(counted_gpus(fmt::format("{}x4090", each), store)->kind == "rtx-4090");
    for (const std::string& typed :
         {fmt::format("{} nodes of {} H100", nodes, each), fmt::format("{} hosts x {} h100s", nodes, each),
          fmt::format("{} x gpu_{}x_h100_sxm5", nodes, each), fmt::format("{}xgpu_{}x_h100_sxm5", nodes, each)}) {
      CAPTURE(typed);
      const auto read = counted_gpus(typed, store);
      REQUIRE(read.has_value());
      CHECK(read->gpus == nodes * each);
      CHECK(read->kind == "h100-sxm");
    }
    CHECK(counted_gpus(fmt::format("{} V100s", each), store)->kind == "v100-sxm2-32gb");
    CHECK(counted_gpus(fmt::format("{} L40s", each), store)->kind == "l40s");
    CHECK_FALSE(counted_gpus(fmt::format("{} V100S", each), store).has_value());
    CHECK_FALSE(counted_gpus(fmt::format("{} nodes of {}", nodes, each), store).has_value());
    CHECK_FALSE(counted_gpus(fmt::format("{} nodes of {} GPUs", nodes, each), store).has_value());
    CHECK(counted_gpus(fmt::format("TPU v5e-{}", each), store)->gpus == each);
    CHECK(counted_gpus(fmt::format("{}h100", nodes), store)->gpus == nodes);
    CHECK_FALSE(worded_count(fmt::format("{}x4090", each), "", store).has_value());
    CHECK(worded_count(fmt::format("{0}x{0}x{0}", each), "", store)->gpus == each * each * each);
    const std::string both = fmt::format("{}xh100-sxm,{}xa100-sxm-80gb", nodes, each);
    for (const char* sign : {"+", " + ", " and ", " & ", "; ", " "}) {
      CAPTURE(std::string(sign));
      const auto kinds = several_kinds(fmt::format("{}xh100{}{}xa100", nodes, sign, each), store);
      REQUIRE(kinds.has_value());
      CHECK(refused_kinds("gpus", "", *kinds, false).help.front() == fmt::format("write `--gpus {}`", both));
    }
  }
}

TEST_CASE("kinds in one word are each told once, and no more of them than a job has") {
  const StoreOptions store = StoreOptions::from_environment();
  const std::vector<std::string> names = {"h100-sxm", "a100-sxm-80gb", "h200-sxm", "b200-sxm", "l4", "t4", "a10"};
  for (std::size_t kinds = 1; kinds <= names.size(); ++kinds)
    for (const int repeats : {1, 2, 50}) {
      std::string word, plain;
      for (int i = 0; i < repeats; ++i)
        for (std::size_t k = 0; k < kinds; ++k) word += fmt::format("{}8x{}", word.empty() ? "" : " + ", names[k]);
      for (std::size_t k = 0; k < kinds; ++k) plain += fmt::format("{}{}x{}", k > 0 ? "," : "", 8 * repeats, names[k]);
      CAPTURE(word);
      const auto found = several_kinds(word, store);
      REQUIRE(found.has_value() == (kinds * static_cast<std::size_t>(repeats) > 1));
      if (!found) continue;
      CHECK(found->size() == kinds);
      const std::string help = refused_kinds("gpus", word, *found, false).help.front();
      CHECK(help == (kinds > 4 ? fmt::format("a job has 1 to 4 kinds of GPU, and these are {}", kinds)
                               : fmt::format("write `--gpus {}`", plain)));
    }
}

TEST_CASE("a machine without a number is proposed as the GPUs that it has") {
  for (const auto& [typed, meant] : {std::pair{"DGX H100", "8xh100-sxm"}, {"GB200 NVL72", "72xgb200"}})
    for (const bool file : {false, true}) {
      const Error error = refused_number(typed, file);
      REQUIRE(error.help.size() == 1);
      CHECK(error.help[0].find(fmt::format("write `{}{}`", file ? "gpus: " : "--gpus ", meant)) != std::string::npos);
    }
  CHECK(refused_number("DGX", false).help.back().find("`plan list gpus`") != std::string::npos);
}

TEST_CASE("digits behind a number and a blank are proposed as a part of it") {
  const Result<Args> read = parse_arguments({"--model", "8b", "--gpus", "16", "384"});
  REQUIRE_FALSE(read.has_value());
  CHECK(read.error().front().message == "`384` follows another number after a blank");
  CHECK(read.error().front().help.front() == "write numbers without spaces: `16384`");
}

TEST_CASE("a number of machines is never read as one of GPUs") {
  const StoreOptions store = StoreOptions::from_environment();
  for (const auto& [machine, gpus] :
       {std::pair{"DGX H100", 8}, {"dgx-a100", 8}, {"HGX-B200", 8}, {"gb200-nvl72", 72}, {"GB300_NVL72", 72}})
    for (const int count : {1, 2, 16})
      for (const char* sign : {"x", " x ", " "}) {
        const std::string typed = fmt::format("{}{}{}", count, sign, machine);
        CAPTURE(typed);
        CHECK_FALSE(read_pools(typed, store));
        const auto error = machines_or_gpus("gpus", typed, store, false);
        REQUIRE(error.has_value());
        REQUIRE(error->help.size() == 2);
        CHECK(error->help[0].find(fmt::format("`--gpus {}x", count * gpus)) != std::string::npos);
        CHECK(error->help[1].find(fmt::format("`--gpus {}x", count)) != std::string::npos);
      }
  CHECK_FALSE(machines_or_gpus("gpus", "1048576x1048576x1048576x1048576xdgx-h100", store, false));
  CHECK(machines_or_gpus("gpu", "2xDGX H100", store, false)->message.find("--gpu 2xDGX H100") != std::string::npos);
  for (const CloudMachine& machine : machines())
    for (const int count : {1, 3}) {
      const std::string typed = fmt::format("{}x{}", count, machine.name);
      CAPTURE(typed);
      CHECK_FALSE(read_pools(typed, store));
    }
}
