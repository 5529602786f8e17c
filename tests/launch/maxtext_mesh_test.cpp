// MaxText's mesh: random degrees of every axis inside a slice and across slices. The degrees are those of the product,
// and an axis that crosses slices while one further out does not is told.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <array>
#include <random>
#include <string>

#include "small_files.hpp"

namespace plan {

using namespace launching;

namespace {

/// From the neighbours out, as plan places them where pipeline stages are outermost.
constexpr std::array<const char*, 4> kPlaced = {"tensor", "context", "fsdp", "data"};

std::string file_of(const std::array<int, 4>& inside, const std::array<int, 4>& across) {
  std::string out = "base_config: base.yml\nmodel_name: llama3.1-8b\nhardware: gpu\nper_device_batch_size: 1\n";
  for (std::size_t i = 0; i < kPlaced.size(); ++i)
    out += fmt::format("ici_{0}_parallelism: {1}\ndcn_{0}_parallelism: {2}\n", kPlaced[i], inside[i], across[i]);
  return out;
}

}  // namespace

TEST_CASE("axes of a mesh that cross slices against the layout's order are told, and no others") {
  std::mt19937 random(3);
  for (int round = 0; round < 60; ++round) {
    std::array<int, 4> inside{}, across{};
    for (std::size_t i = 0; i < kPlaced.size(); ++i)
      inside[i] = random() % 2 == 0 ? 2 : 1, across[i] = random() % 3 == 0 ? 2 : 1;
    const std::string text = file_of(inside, across);
    CAPTURE(text);
    const LaunchJob job = job_of("job.yml", text);
    CHECK(job.fixed.tp == inside[0] * across[0]);
    CHECK(job.fixed.cp == inside[1] * across[1]);
    CHECK(job.fixed.dp == inside[2] * across[2] * inside[3] * across[3]);
    for (std::size_t i = 0; i < kPlaced.size(); ++i) {
      bool against = false;
      for (std::size_t j = i + 1; j < kPlaced.size(); ++j) against |= across[i] > 1 && inside[j] > 1;
      CHECK(names(job.unused, fmt::format("`dcn_{}_parallelism: 2` crosses", kPlaced[i])) == against);
    }
  }
}

TEST_CASE("slices that are stated fill the axis that takes the rest, and are no others than the axes make") {
  const std::string head =
      "base_config: base.yml\nmodel_name: llama3.1-8b\nhardware: gpu\nper_device_batch_size: 1\n"
      "ici_fsdp_parallelism: 8\n";
  for (const char* key : {"num_slices", "compile_topology_num_slices"}) {
    CAPTURE(std::string(key));
    CHECK(job_of("job.yml", head + fmt::format("{}: 4\n", key)).fixed.dp == 32);
    CHECK(job_of("job.yml", head + fmt::format("dcn_data_parallelism: 4\n{}: 4\n", key)).fixed.dp == 32);
    CHECK(job_of("job.yml", head + fmt::format("dcn_data_parallelism: 4\n{}: -1\n", key)).fixed.dp == 32);
    CHECK(error_of("job.yml", head + fmt::format("dcn_data_parallelism: 2\n{}: 4\n", key)) != "");
  }
}

TEST_CASE("axes of more devices than there are GPUs are a mistake") {
  const std::string head = "base_config: base.yml\nmodel_name: llama3.1-8b\nhardware: gpu\nper_device_batch_size: 1\n";
  CHECK(error_of("job.yml", head + "ici_fsdp_parallelism: 4096\ndcn_data_parallelism: 100000\n") == "wrong_value");
}

}  // namespace plan
