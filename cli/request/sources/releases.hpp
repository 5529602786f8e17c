#pragma once

#include "cli/request/sources/request.hpp"
#include "formulas/result.hpp"
#include "planner/problem/problem.hpp"

namespace plan {

/// The month after --release; one that is no month, or newer than any that is known, is refused.
[[nodiscard]] Result<StackRelease> read_release(std::string_view word);

/// Which releases of the software run a problem: of Megatron core, and of NVIDIA's container (the word, or the image
/// that launch files name). Its stack then does what that release does. Where nobody says, the newest known does, and
/// a note tells what an earlier one would do otherwise for this very model. Returns what is wrong with the request.
[[nodiscard]] Errors take_releases(const Request& request, Problem& problem);

/// The container that a problem's release is of, "nvcr.io/nvidia/nemo:26.04"; empty if no release is stated.
[[nodiscard]] std::string container_of(const Problem& problem);

}  // namespace plan
