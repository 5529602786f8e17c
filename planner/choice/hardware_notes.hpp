#pragma once

#include <vector>

#include "planner/answer/plan.hpp"

namespace plan {

class PoolModels;

/// What the reader must know of the hardware and the software that the numbers rest on.
[[nodiscard]] std::vector<Note> hardware_notes(const Problem& problem, bool at_risk);

/// The same of all pools, each note once; first whether anything runs the layout, and where its ranks must be.
[[nodiscard]] std::vector<Note> pooled_notes(const PoolModels& models, const Estimate& estimate, bool runs);

/// Says whether one kind of GPU alone is as fast as all of them.
void add_alone_notes(Plan& plan);

}  // namespace plan
