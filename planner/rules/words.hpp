#pragma once

#include <string_view>

#include "formulas/result.hpp"
#include "planner/problem/problem.hpp"

namespace plan {

/// Words of `--layout` that say nothing beside the others, or nothing for this model: experts of a dense model, a kind
/// of context parallelism at cp 1. One error for each, which names the word, the reason and the smallest change.
/// `problem.fixed` holds all that is fixed, `typed` the part that a person wrote and that must not be dropped.
[[nodiscard]] Errors meaningless_words(const Problem& problem, const Fixed& typed);

/// Words that only what nobody fixed leaves without a meaning, in the layout that complete_layout() makes: a kind of
/// context parallelism where cp is open, which then is 1. None would be in that layout.
[[nodiscard]] Errors dropped_words(const Problem& problem);

/// What was typed laid over what files state. An axis that is typed frees what only followed from the file's: the
/// stages' layers, the schedule, and words of the file that have nothing to act on any more.
[[nodiscard]] Fixed typed_over_files(const Problem& problem, const Fixed& files, const Fixed& typed);

/// Can the GPU's matrix units multiply in this format?
[[nodiscard]] bool multiplies(const Gpu& gpu, Precision precision);

/// Formats that the GPU lacks, a framework that does not run on it, and one that cannot build the model.
[[nodiscard]] Errors unsupported_hardware(const Problem& problem);

}  // namespace plan
