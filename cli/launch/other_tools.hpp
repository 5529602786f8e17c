#pragma once

#include <string_view>

#include "cli/launch/job/format.hpp"

namespace plan {

/// A kind of launch file that is recognised by its content and has no reader.
struct OtherTool {
  std::string_view what;  ///< "a torchtune configuration"
  std::string_view help;  ///< what to do with it
  /// All of these must occur in the file ...
  std::string_view all[3];
  /// ... and at least one of these, if there are any.
  std::string_view any[4];
};

/// The tool that the file is for; nullptr if it is none of the table's.
[[nodiscard]] const OtherTool* other_tool(const LaunchSource& source);

}  // namespace plan
