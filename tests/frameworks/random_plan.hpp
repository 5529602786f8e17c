#pragma once

#include <random>

#include "planner/answer/plan.hpp"

namespace plan::oracle {

/// A plan that a framework's rules allow: a preset's model on nodes of 8 GPUs, everything else drawn by chance. Its
/// estimate holds the layout alone, with the layers of every chunk where it has stages. `release` as in Problem.
[[nodiscard]] Plan random_plan(std::mt19937& random, Framework framework, int release = 0);

}  // namespace plan::oracle
