#pragma once

#include <doctest/doctest.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "planner/runs/run_problem.hpp"
#include "presets/store.hpp"
#include "presets/yaml.hpp"

namespace plan::acceptance {

/// Presets by name, each GPU in the cluster that it usually comes in.
inline Catalogue presets() {
  return {.model = [](std::string_view name) -> std::optional<Model> {
            Result<Found<Model>> found = load_model(name, {});
            return found ? std::optional(std::move(found->value)) : std::nullopt;
          },
          .cluster = [](std::string_view gpu, int, int) -> std::optional<Cluster> {
            Result<Found<Cluster>> found = load_cluster_of_gpu(gpu, {});
            return found ? std::optional(std::move(found->value)) : std::nullopt;
          }};
}

/// Every run of tests/published/runs.
inline std::vector<Run> published_runs() {
  std::vector<Run> all;
  for (const auto& file : std::filesystem::directory_iterator(PLAN_SOURCE_DIR "/tests/published/runs")) {
    if (file.path().extension() != ".csv") continue;
    const Result<std::string> text = yaml::read_text(file.path().string());
    REQUIRE(text);
    Result<std::vector<Run>> runs = read_runs(*text, file.path().string());
    REQUIRE(runs);
    all.insert(all.end(), runs->begin(), runs->end());
  }
  return all;
}

}  // namespace plan::acceptance
