#pragma once

#include "cli/request/args.hpp"
#include "formulas/result.hpp"
#include "planner/problem/problem.hpp"

namespace plan {

struct LaunchJob;

/// Which releases of the software run a problem: of Megatron core (--megatron-version), and of NVIDIA's container
/// (--release, or the image that launch files name; nullptr: no files). Its stack then does what that release does.
/// Where nobody says, the newest known does, and a note tells what an earlier one would do otherwise for this very
/// model. Returns what is wrong with the words.
[[nodiscard]] Errors take_releases(const Args& args, const LaunchJob* job, Problem& problem);

/// The container that a problem's release is of, "nvcr.io/nvidia/nemo:26.04"; empty if no release is stated.
[[nodiscard]] std::string container_of(const Problem& problem);

}  // namespace plan
