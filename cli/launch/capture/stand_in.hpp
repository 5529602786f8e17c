#pragma once

#include <string_view>
#include <vector>

namespace plan {

/// The script that stands in for every program below; `@RECORDED@` is to become the recorded ones as a pattern.
extern const std::string_view kStandIn;

/// Python that lets a recorded program's own parser write down its configuration: the file, then the program's words.
extern const std::string_view kResolve;

/// Programs whose words are written down.
[[nodiscard]] const std::vector<std::string_view>& recorded_programs();
/// Programs that start a script of the user's own, which runs.
[[nodiscard]] const std::vector<std::string_view>& followed_programs();
/// Programs that do nothing while a command is captured.
[[nodiscard]] const std::vector<std::string_view>& inert_programs();

}  // namespace plan
