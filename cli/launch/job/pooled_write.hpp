#pragma once

#include <string_view>

#include "cli/launch/job/launch_job.hpp"

namespace plan {

/// A plan for several kinds of GPU as one for as many GPUs of one kind, which a format of `framework` can hold; or why
/// it cannot. The ranks must be started in the order of the stages.
[[nodiscard]] Result<Plan> as_one_kind(std::string_view format, Framework framework, const Plan& plan,
                                       const EmitOptions& options);

}  // namespace plan
